"""The commands about replays: which recent questions changed their answer, and asking questions of gaps again.

Belongs here: options, what is printed. Does not belong here: what a replay is (stores.replay, docs/replay.md).
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import click

if TYPE_CHECKING:
    from threadhouse.stores.replay import ReplayedQuestion, ReplayRecord


_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)


def add_commands(group: click.Group) -> None:
    """Add the commands to the console script."""
    group.add_command(replay)


@click.group()
def replay() -> None:
    """Look at what asking recent questions again showed, and ask the questions of gaps again."""


@replay.command()
@click.argument("replay_id", type=click.UUID, required=False)
@_as_json
def show(replay_id: UUID | None, *, as_json: bool) -> None:
    """Show the newest replay, or REPLAY_ID: the questions whose answer changed, losses first.

    For operators: questions are shown as they were asked, as long as their events hold them.
    """
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.replay import require_replay
    from threadhouse.stores.settings import Settings

    record = require_replay(open_database(Settings.from_environment()), replay_id)
    if as_json:
        click.echo(json.dumps(record.to_json(), ensure_ascii=False, indent=2))
        return
    click.echo(_headline(record))
    for result in record.results:
        click.echo(_line(result))


@replay.command()
@_as_json
def gaps(*, as_json: bool) -> None:
    """Ask the questions of gaps again that somebody called fixed, or that what is published now may answer.

    Each gap is closed or reopened with the result, as every nightly does. Nothing is counted as a query.
    """
    from threadhouse.serving.replay import replay_gaps
    from threadhouse.stores.embedder_in_force import open_embedder_in_force
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    settings = Settings.from_environment()
    database = open_database(settings)
    announce = partial(click.echo, err=True)
    report = replay_gaps(settings, database, open_embedder_in_force(settings, database, announce))
    if as_json:
        click.echo(json.dumps(report.figures()))
        return
    click.echo(
        f"{report.closed} gaps closed, {report.reopened} reopened, {report.unchanged} as they were, "
        f"{report.without_text} whose question is not kept."
    )


def _headline(record: ReplayRecord) -> str:
    return (
        f"{record.replay_id} {record.replayed_at:%Y-%m-%d %H:%M} UTC, before {record.stage}: {record.verdict}; "
        f"{record.questions} questions asked, {record.changed} changed, {record.lost} of {record.at_risk} lost their answer"
    )


def _line(result: ReplayedQuestion) -> str:
    mark = f"LOST {result.loss}" if result.loss else f"changed {', '.join(result.changes)}"
    asked = result.text or f"(text not kept; query {result.query_id})"
    before = _answer(result.old_path, result.old_thread_id, len(result.old_units))
    after = _answer(result.new_path, result.new_thread_id, len(result.new_units))
    return f"  {mark}: {result.lane} {asked!r}: {before} -> {after}"


def _answer(path: str, thread_id: str | None, units: int) -> str:
    return f"{path} {thread_id} ({units} units)" if thread_id else f"{path} ({units} units)"
