"""The command that attaches somebody else's database through views of theirs.

Belongs here: options, what is printed. Does not belong here: attaching (stores.attached_sources, docs/attach.md).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from threadhouse.retrieval.errors import AttachError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from threadhouse.stores.attached_sources import AttachedTable

EXIT_FINDINGS = 3


def add_commands(group: click.Group) -> None:
    """Add the command to the console script."""
    group.add_command(attach)


@click.command()
@click.option(
    "--sources",
    type=click.Path(path_type=Path),
    help="File of `create view source.…` statements; attaches the database.",
)
@click.option(
    "--triggers/--no-triggers",
    default=True,
    show_default=True,
    help="Put triggers that note changed keys on tables that a line `-- changes:` of the file names.",
)
@click.option("--check", is_flag=True, help="Show how things stand; exit code 3 for problems.")
@click.option("--follow", is_flag=True, help="Log what changed since the last time, now.")
@click.option("--detach", is_flag=True, help="Take triggers and views away again.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)
@click.pass_context
def attach(
    context: click.Context,
    *,
    sources: Path | None,
    triggers: bool,
    check: bool,
    follow: bool,
    detach: bool,
    as_json: bool,
) -> None:
    """Read an existing database through your own views; its tables are never altered.

    DATABASE_URL names it. Give exactly one of --sources, --check, --follow and --detach.
    """
    if [sources is not None, check, follow, detach].count(True) != 1:
        message = "Give exactly one of --sources FILE, --check, --follow and --detach."
        raise click.UsageError(message)
    if sources is not None:
        _attach(sources, triggers=triggers, as_json=as_json)
    elif check:
        _check(context, as_json=as_json)
    elif follow:
        _follow(as_json=as_json)
    else:
        _detach(as_json=as_json)


def _attach(sources: Path, *, triggers: bool, as_json: bool) -> None:
    from threadhouse.stores.attached_sources import attach as attach_file
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    try:
        body = sources.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        message = f"{sources} cannot be read: {reason}."
        raise AttachError(message) from None
    database = open_database(Settings.from_environment())
    report = attach_file(database, str(sources), body, triggers=triggers)
    if as_json:
        click.echo(json.dumps(report.to_json(), ensure_ascii=False))
        return
    click.echo(f"{report.file} is attached: {', '.join(report.views)}.")
    if report.own_views:
        click.echo(f"Only Threadhouse's own tables fill {', '.join(report.own_views)}.")
    _print_tables(report.tables)
    click.echo(f"{report.changes_logged:,} changes logged; `threadhouse nightly` builds from them.")


def _check(context: click.Context, *, as_json: bool) -> None:
    from threadhouse.stores.attached_sources import attach_state
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    state = attach_state(open_database(Settings.from_environment()))
    if as_json:
        click.echo(json.dumps(state.to_json() if state else None, ensure_ascii=False))
    elif state is None:
        click.echo("No database is attached.")
    else:
        click.echo(
            f"{state.file}, attached {state.attached_at:%Y-%m-%d %H:%M} UTC by {state.attached_by}: {', '.join(state.views)}."
        )
        _print_tables(state.tables)
        since = (
            f" since {state.oldest_touch_at:%Y-%m-%d %H:%M} UTC" if state.oldest_touch_at else ""
        )
        click.echo(f"{state.touches_waiting:,} noted keys wait to be compared{since}.")
        for problem in state.problems:
            click.echo(f"  PROBLEM {problem}")
    if state and state.problems:
        context.exit(EXIT_FINDINGS)


def _follow(*, as_json: bool) -> None:
    from threadhouse.stores.attached_sources import follow_sources
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    report = follow_sources(open_database(Settings.from_environment()))
    figures = {
        "views_compared": report.views_compared,
        "keys_compared": report.keys_compared,
        "changes_logged": report.changes_logged,
    }
    if as_json:
        click.echo(json.dumps(figures))
        return
    click.echo(
        f"{report.views_compared} views compared whole and {report.keys_compared:,} noted keys: "
        f"{report.changes_logged:,} changes logged."
    )


def _detach(*, as_json: bool) -> None:
    from threadhouse.stores.attached_sources import detach
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    logged = detach(open_database(Settings.from_environment()))
    if as_json:
        click.echo(json.dumps({"changes_logged": logged}))
        return
    click.echo(f"Detached: triggers and views are gone, {logged:,} deletions logged.")


def _print_tables(tables: Sequence[AttachedTable]) -> None:
    for table in tables:
        how = "noted by triggers" if table.is_noted else f"found by comparing ({table.why_not})"
        click.echo(f"  {table.view} <- {table.table}: changes are {how}")
