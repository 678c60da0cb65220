"""The command that asks the analysts' file.

Belongs here: options, how an answer is printed. Does not belong here: what may be asked (stores.analytics).
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import click

from threadhouse.retrieval.text import show_unseen

if TYPE_CHECKING:
    from threadhouse.stores.analytics import Answer

TABLE_ROWS = 1_000
"""A table is aligned, so all of it is held; nobody reads more than this."""

CELL_CHARS = 200
"""What is printed of a value in a table: a sentence, or two digests. The other forms print all of it."""

TABLE_CHARS = 4_000_000
"""A table of many columns ends before `TABLE_ROWS`, so that it stays within a few dozen megabytes."""


def add_commands(group: click.Group) -> None:
    """Add the command to the console script."""
    group.add_command(sql)


@click.command()
@click.argument("statement")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="How the answer is printed.",
)
def sql(statement: str, *, form: str) -> None:
    """Ask the warehouse: one SELECT in DuckDB's SQL over events, queries, daily_rates and counted_days.

    It reads what the last nightly left, and nothing else of this machine; it cannot write. Questions' words are not there.
    """
    from threadhouse.stores.analytics import Cut, asking, refresh_analytics
    from threadhouse.stores.lake import EventLake
    from threadhouse.stores.postgres import Database
    from threadhouse.stores.settings import Settings

    settings = Settings.from_environment()
    # One more of each, to know whether there is more.
    cut = Cut(TABLE_ROWS + 1, CELL_CHARS + 1) if form == "table" else None
    lake = EventLake.open(settings)
    if lake.is_copy:
        # The last night may have been run by another machine.
        refresh_analytics(Database.open(settings), lake)
    with asking(lake, statement, settings.home, cut) as answer:
        {"table": _print_table, "csv": _print_csv, "json": _print_json}[form](answer)


def _print_table(answer: Answer) -> None:
    names = [_cell(name) for name in answer.columns]
    rows: list[list[str]] = []
    chars = 0
    has_more = False
    for row in answer.rows:
        if len(rows) == TABLE_ROWS or chars > TABLE_CHARS:
            has_more = True
            break
        rows.append([_cell(value) for value in row])
        chars += sum(map(len, rows[-1]))
    widths = [
        max(map(len, (name, *(row[number] for row in rows)))) for number, name in enumerate(names)
    ]
    for line in (names, ["-" * width for width in widths], *rows):
        click.echo("  ".join(map(str.ljust, line, widths)).rstrip())
    said = f"{len(rows):,} rows" if len(rows) != 1 else "1 row"
    click.echo(
        f"({said})" if not has_more else f"({said}, and there are more: --format csv prints all)"
    )


def _print_csv(answer: Answer) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows(["" if value is None else value for value in row] for row in answer.rows)


def _print_json(answer: Answer) -> None:
    """An array, a row a line, as the rows come."""
    click.echo("[", nl=False)
    for number, row in enumerate(answer.rows):
        known = {name: _plain(value) for name, value in zip(answer.columns, row, strict=True)}
        text = json.dumps(known, ensure_ascii=False, allow_nan=False)
        click.echo(f"{',' if number else ''}\n {text}", nl=False)
    click.echo("\n]")


def _plain(value: object) -> object:
    """A value of DuckDB as JSON knows it; what JSON has no form for is its text, nested or not."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in cast("dict[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast("Sequence[object]", value)]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _cell(value: str | None) -> str:
    if value is None:
        return "NULL"
    text = value if len(value) <= CELL_CHARS else f"{value[:CELL_CHARS]}…"
    return show_unseen(text.replace("\n", "\\n").replace("\t", "\\t"))
