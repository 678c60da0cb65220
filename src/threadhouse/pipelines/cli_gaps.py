"""The commands about gaps: what is missing, weak or noisy, who looks after it, and that it is mended.

Belongs here: options, what is printed.
Does not belong here: what a gap is (retrieval.gap_signals), keeping and routing gaps (stores.gap_signals), security events
(cli_security): those are no gaps and cannot be closed here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

import click

from threadhouse.pipelines.cli_principal import AUDIENCES
from threadhouse.retrieval.text import in_one_line

if TYPE_CHECKING:
    from threadhouse.stores.gap_signals import KnownGap

KINDS = (
    "search_gap",
    "missing_thread",
    "weak_thread",
    "noisy_thread",
    "expected_artifact_missing",
)
"""The words of ``retrieval.gap_signals.GapKind``, which would import numpy to be listed in a help text; a test compares them."""

_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)
_who = click.option("--who", required=True, help="Who says so.")


def add_commands(group: click.Group) -> None:
    """Add the commands to the console script."""
    group.add_command(gaps)


@click.group()
def gaps() -> None:
    """Look into gaps that questions and nightlies showed, take them over and close them.

    A gap is a cause: the same one again is counted. One that is met again after it was fixed is reopened.
    """


@gaps.command("list")
@click.option("--all", "with_fixed", is_flag=True, help="Those that are fixed as well.")
@click.option("--kind", type=click.Choice(KINDS), help="Of one kind.")
@click.option("--lane", type=click.Choice(AUDIENCES), help="Of one lane.")
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=100_000),
    default=50,
    show_default=True,
    help="At most.",
)
@_as_json
def list_(
    *, with_fixed: bool, kind: str | None, lane: str | None, limit: int, as_json: bool
) -> None:
    """List gaps that are not fixed, the gravest first."""
    from threadhouse.retrieval.gap_signals import OPEN_STATUSES, GapKind
    from threadhouse.stores.gap_signals import list_gaps
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    with open_database(Settings.from_environment()).connect() as connection:
        found = list_gaps(
            connection,
            lane=lane,
            statuses=None if with_fixed else OPEN_STATUSES,
            kinds=None if kind is None else [GapKind(kind)],
            limit=limit + 1,
        )
    shown = found[:limit]
    if as_json:
        click.echo(json.dumps([gap.to_json() for gap in shown], ensure_ascii=False, indent=2))
        return
    if not found:
        click.echo("There is no gap." if with_fixed else "No gap is open.")
    for gap in shown:
        click.echo(_line(gap))
    if len(found) > limit:
        click.echo(f"… and more: --limit shows more than {limit:,}.")


@gaps.command()
@click.argument("gap_id", type=click.UUID)
@_as_json
def show(gap_id: UUID, *, as_json: bool) -> None:
    """Show one gap: what it is, what is known of it, every status it was in, with who and why."""
    from threadhouse.stores.gap_signals import read_gap
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    with open_database(Settings.from_environment()).connect() as connection:
        gap, history = read_gap(connection, gap_id)
    if as_json:
        document = {**gap.to_json(), "history": [each.to_json() for each in history]}
        click.echo(json.dumps(document, ensure_ascii=False, indent=2))
        return
    click.echo(_line(gap))
    click.echo(
        f"  first met {gap.first_seen_at:%Y-%m-%d %H:%M} UTC, opened {gap.opening} times"
        if gap.opening > 1
        else f"  first met {gap.first_seen_at:%Y-%m-%d %H:%M} UTC"
    )
    for name, value in sorted(gap.evidence.items()):
        click.echo(f"  {name}: {json.dumps(value, ensure_ascii=False)}")
    for each in history:
        reason = f": {in_one_line(each.reason)}" if each.reason else ""
        click.echo(
            f"  {each.changed_at:%Y-%m-%d %H:%M} UTC {each.status} by {in_one_line(each.changed_by)}{reason}"
        )


@gaps.command()
@click.argument("gap_id", type=click.UUID)
@_who
@click.option("--why", required=True, help="What is going to be done.")
@_as_json
def acknowledge(gap_id: UUID, *, who: str, why: str, as_json: bool) -> None:
    """Take a gap over. Who and why are kept; a gap that is taken over or fixed already is left as it is."""
    from threadhouse.stores.gap_signals import acknowledge_gap

    _change(acknowledge_gap, gap_id, who, why, as_json=as_json)


@gaps.command()
@click.argument("gap_id", type=click.UUID)
@_who
@click.option("--why", required=True, help="What was done.")
@_as_json
def fix(gap_id: UUID, *, who: str, why: str, as_json: bool) -> None:
    """Say that the cause is gone. A gap that is still there is reopened by the next nightly, or by whoever meets it."""
    from threadhouse.stores.gap_signals import fix_gap

    _change(fix_gap, gap_id, who, why, as_json=as_json)


def _change(
    change: Callable[..., bool], gap_id: UUID, who: str, why: str, *, as_json: bool
) -> None:
    from threadhouse.stores.gap_signals import read_gap
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    with open_database(Settings.from_environment()).connect() as connection:
        changed = change(connection, gap_id, who=who, why=why)
        gap, _ = read_gap(connection, gap_id)
    if as_json:
        click.echo(json.dumps({"changed": changed, **gap.to_json()}, ensure_ascii=False))
    elif changed:
        click.echo(f"{gap_id} is {gap.status}.")
    else:
        click.echo(f"{gap_id} is {gap.status} already{_by(gap)}.")


def _line(gap: KnownGap) -> str:
    about = " ".join(
        part
        for part in (
            gap.kind,
            f"of {gap.thread_id}" if gap.thread_id else "",
            f"for {gap.lane}" if gap.lane else "",
        )
        if part
    )
    times = "once" if gap.occurrence_count == 1 else f"{gap.occurrence_count:,} times"
    return (
        f"{gap.signal_id} {gap.severity}: {about}, met {times}, last {gap.last_seen_at:%Y-%m-%d %H:%M} UTC, "
        f"{gap.status}{_by(gap)}"
    )


def _by(gap: KnownGap) -> str:
    from threadhouse.retrieval.gap_signals import GapStatus

    if gap.status == GapStatus.OPEN:
        return ""
    reason = f": {in_one_line(gap.change_reason)}" if gap.change_reason else ""
    return f", by {in_one_line(gap.changed_by)}{reason}"
