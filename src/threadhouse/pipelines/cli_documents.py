"""The command that moves documents from the legacy collection to units, and back.

Belongs here: options, what is printed.
Does not belong here: which documents may move and how (stores.document_migration), the switch (stores.projection).
"""

from __future__ import annotations

import getpass
import json
import socket
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import click

from threadhouse.retrieval.text import in_one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from threadhouse.stores.document_migration import DocumentSide, PlannedMove
    from threadhouse.stores.settings import Settings

STAGES = ("law", "design", "code", "test", "report", "incident")
"""The words of ``retrieval.models.LifecycleStage``, which would import more than a help text needs; a test compares them."""


def add_commands(group: click.Group) -> None:
    """Add the command to the console script."""
    group.add_command(migrate_document)


@click.command("migrate-document")
@click.argument("document_ids", metavar="ID...", nargs=-1)
@click.option("--back-out", is_flag=True, help="Back to the legacy side; the units are put away.")
@click.option(
    "--force", is_flag=True, help="Back out although somebody has changed the units since."
)
@click.option("--status", is_flag=True, help="Say where these documents are, or all documents.")
@click.option("--dry-run", is_flag=True, help="Print the units that would be made, and make none.")
@click.option("--address-prefix", help="What addresses begin with; else the document's ID.")
@click.option("--unit-kind", help="Kind of the units; else section.")
@click.option(
    "--lifecycle-stage", type=click.Choice(STAGES), help="Where the document has none of its own."
)
@click.option("--who", help="Who does it; else the user of this machine.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)
def migrate_document(  # noqa: PLR0913  each is an option of the command
    document_ids: tuple[str, ...],
    *,
    back_out: bool,
    force: bool,
    status: bool,
    dry_run: bool,
    address_prefix: str | None,
    unit_kind: str | None,
    lifecycle_stage: str | None,
    who: str | None,
    as_json: bool,
) -> None:
    """Replace the legacy chunks of documents by units, cut at the headings of their text.

    Both happen in one step: a reader finds a document on exactly one side. Either all documents are taken or none. What is
    interrupted is finished by the same command again, or by the next nightly.
    """
    from threadhouse.retrieval.models import LifecycleStage
    from threadhouse.stores.document_migration import (
        UnitRules,
        ask_for_legacy,
        ask_for_units,
        document_sides,
        plan_units,
    )
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    ids = tuple(dict.fromkeys(document_ids))
    _check_usage(
        ids, back_out=back_out, force=force, status=status, dry_run=dry_run, prefix=address_prefix
    )
    settings = Settings.from_environment()
    database = open_database(settings)
    if status:
        _print_sides(document_sides(database, ids or None), as_json=as_json)
        return
    stage = LifecycleStage(lifecycle_stage) if lifecycle_stage else None
    rules = UnitRules(address_prefix, unit_kind, stage)
    if dry_run:
        _print_plan(plan_units(database, ids, rules), as_json=as_json)
        return
    by = in_one_line(who or "") or _user()
    moves = (
        ask_for_legacy(database, ids, by, force=force)
        if back_out
        else ask_for_units(database, ids, rules, by)
    )
    _publish(settings, ids)
    sides = document_sides(database, ids)
    if as_json:
        units = {move.document_id: move.to_json()["units"] for move in moves}
        shown = [{**side.to_json(), "units": units[side.document_id]} for side in sides]
        click.echo(json.dumps(shown, ensure_ascii=False, indent=2))
    else:
        for side in sides:
            click.echo(_line(side))
    left = [side.document_id for side in sides if side.side != side.wanted]
    if left:
        message = (
            f"{', '.join(left)}: not moved, because a text changed meanwhile or a payload was refused (threadhouse doctor "
            "names it); the next publish tries again."
        )
        raise click.ClickException(message)


def _check_usage(
    ids: Sequence[str],
    *,
    back_out: bool,
    force: bool,
    status: bool,
    dry_run: bool,
    prefix: str | None,
) -> None:
    if not ids and not status:
        raise click.UsageError("Name a document, or ask with --status where all of them are.")
    if back_out + status + dry_run > 1:
        raise click.UsageError("--back-out, --status and --dry-run exclude each other.")
    if force and not back_out:
        raise click.UsageError("--force goes with --back-out.")
    if prefix is not None and len(ids) > 1:
        raise click.UsageError("--address-prefix is for one document: two cannot share addresses.")


def _publish(settings: Settings, ids: Sequence[str]) -> None:
    from threadhouse.pipelines.progress_display import open_display
    from threadhouse.stores.document_migration import publish_documents
    from threadhouse.stores.embedder_in_force import open_embedder_in_force
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.vectors import open_writer

    database = open_database(settings)
    key = settings.qdrant_api_key
    with open_display() as display:
        display.announce(
            "Readers stay where they are until the vectors of the other side are there."
        )
        # Of the model that the collections are in: after a switch the settings may still name the one before.
        embedder = open_embedder_in_force(settings, database, display.announce)
        vectors = open_writer(
            home=settings.home,
            lock_timeout_s=settings.lock_timeout_s,
            url=settings.qdrant_url,
            api_key=key.get_secret_value() if key else None,
        )
        with closing(vectors):
            publish_documents(database, vectors, embedder, settings.home, ids)


def _user() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "an OS user without a name"
    return f"{user}@{socket.gethostname()}"


def _print_plan(moves: Sequence[PlannedMove], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([move.to_json() for move in moves], ensure_ascii=False, indent=2))
        return
    for move in moves:
        click.echo(f"{move.document_id}: {len(move.units) or 'its former'} units")
        for unit in move.units:
            click.echo(f"  {unit.address}  {in_one_line(unit.title)}  {unit.chars:,} characters")


def _print_sides(sides: Sequence[DocumentSide], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([side.to_json() for side in sides], ensure_ascii=False, indent=2))
        return
    for side in sides:
        click.echo(_line(side))
    counts = Counter(side.side for side in sides)
    click.echo(
        f"{counts['units']:,} documents on the side of units, {counts['legacy']:,} on the legacy side, "
        f"{counts['none']:,} on none (without text, or not published yet)"
    )


def _line(side: DocumentSide) -> str:
    waits = f", on its way to {side.wanted}" if side.side != side.wanted else ""
    by = (
        f", by {in_one_line(side.changed_by)} at {side.changed_at:%Y-%m-%d %H:%M} UTC"
        if side.changed_by and side.changed_at
        else ""
    )
    return f"{side.document_id}: {side.side}, {side.unit_count:,} units{waits}{by}"
