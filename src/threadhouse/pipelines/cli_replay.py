"""The command about replays: which recent questions changed their answer.

Belongs here: options, what is printed. Does not belong here: what a replay is (stores.replay, docs/replay.md).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import UUID

import click

if TYPE_CHECKING:
    from threadhouse.stores.replay import ReplayedQuestion, ReplayRecord


def add_commands(group: click.Group) -> None:
    """Add the commands to the console script."""
    group.add_command(replay)


@click.group()
def replay() -> None:
    """Look at what asking recent questions again showed."""


@replay.command()
@click.argument("replay_id", type=click.UUID, required=False)
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)
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
