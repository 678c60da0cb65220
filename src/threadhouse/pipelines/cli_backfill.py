"""The commands that do the past again.

Belongs here: options, what is printed.
Does not belong here: doing it (pipelines.backfill). Dagster is imported by the command that needs it.
"""

from __future__ import annotations

import json
from datetime import datetime

import click

_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)


def add_commands(group: click.Group) -> None:
    """Add the group to the console script."""
    group.add_command(backfill)


@click.group()
def backfill() -> None:
    """Do what past nights did again, for a range of days."""


@backfill.command()
@click.option(
    "--from",
    "first",
    type=click.DateTime(["%Y-%m-%d"]),
    required=True,
    help="First local day, YYYY-MM-DD.",
)
@click.option(
    "--to",
    "last",
    type=click.DateTime(["%Y-%m-%d"]),
    required=True,
    help="Last local day, YYYY-MM-DD; it is part of the range.",
)
@click.option(
    "--recount",
    is_flag=True,
    help="Count every day of the range, also where nothing changed: this mends rates that were damaged or deleted.",
)
@_as_json
def metrics(first: datetime, last: datetime, *, recount: bool, as_json: bool) -> None:
    """Hold each day's events against Postgres and count its rates again, all in one run.

    Days that are as they were cost a look. What is finished stays when the run is killed; the same command goes on. Figures are
    those that the nights would have counted.
    """
    from threadhouse.pipelines.backfill import backfill_metrics
    from threadhouse.pipelines.progress_display import open_display
    from threadhouse.stores.settings import Settings

    settings = Settings.from_environment()
    with open_display() as display:
        summary = backfill_metrics(
            settings, first.date(), last.date(), display.report, recount=recount
        )
    if as_json:
        click.echo(json.dumps(summary.to_json(), ensure_ascii=False, indent=2))
    else:
        click.echo(summary.render())
