"""The commands that do the past again.

Belongs here: options, what is printed.
Does not belong here: doing it (pipelines.backfill). Dagster is imported by the command that needs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, Unpack

import click

from threadhouse.pipelines.cli_principal import AUDIENCES

if TYPE_CHECKING:
    from threadhouse.pipelines.backfill import BuiltAgain
    from threadhouse.stores.backfill_selection import BackfillCost

_Command = Callable[..., Any]


class _Options(TypedDict):
    documents: tuple[str, ...]
    units: tuple[str, ...]
    threads: tuple[str, ...]
    lanes: NotRequired[tuple[str, ...]]
    first: datetime | None
    last: datetime | None
    everything: bool
    dry_run: bool
    as_json: bool


_DAY = click.DateTime(["%Y-%m-%d"])

_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)


def add_commands(group: click.Group) -> None:
    """Add the group to the console script."""
    group.add_command(backfill)


@click.group()
def backfill() -> None:
    """Do what past nights did again: for a range of days, or for what is built of owners and threads."""


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


def _selecting(command: _Command) -> _Command:
    """The options that say what a backfill of vectors, centroids or packs is about."""
    for option in reversed(
        (
            click.option(
                "--document", "documents", multiple=True, help="A document id; may be given again."
            ),
            click.option(
                "--unit", "units", multiple=True, help="A logical unit id; may be given again."
            ),
            click.option(
                "--thread", "threads", multiple=True, help="A thread id; may be given again."
            ),
            click.option("--from", "first", type=_DAY, help="First local day, YYYY-MM-DD."),
            click.option(
                "--to",
                "last",
                type=_DAY,
                help="Last local day, YYYY-MM-DD; it is part of the range.",
            ),
            click.option(
                "--everything", is_flag=True, help="All of it, with the embedder that is in force."
            ),
            click.option(
                "--dry-run",
                is_flag=True,
                help="Say what would be done and how long it may take; write nothing.",
            ),
            _as_json,
        )
    ):
        command = option(command)
    return command


_lanes = click.option(
    "--lane",
    "lanes",
    multiple=True,
    type=click.Choice(AUDIENCES),
    help="Threads that this lane has a pack of; may be given again.",
)


@backfill.command()
@_selecting
def vectors(**options: Unpack[_Options]) -> None:
    """Cut and write the vectors of documents and units again, also where nothing changed.

    Days are those on which a version was written. Vectors come from the cache where it knows a text.
    """
    _backfill("vectors", **options)


@backfill.command()
@_lanes
@_selecting
def centroids(**options: Unpack[_Options]) -> None:
    """Compute the centroids of threads again, also where nothing changed. Days are those on which a thread's packs were built."""
    _backfill("centroids", **options)


@backfill.command()
@_lanes
@_selecting
def packs(**options: Unpack[_Options]) -> None:
    """Build the context packs of threads again, also where nothing changed. Days are those on which they were built last."""
    _backfill("packs", **options)


@backfill.command()
@click.option("--from", "first", type=_DAY, required=True, help="First local day, YYYY-MM-DD.")
@click.option(
    "--to",
    "last",
    type=_DAY,
    required=True,
    help="Last local day, YYYY-MM-DD; it is part of the range.",
)
@_as_json
def reports(first: datetime, last: datetime, *, as_json: bool) -> None:
    """Build the health reports of a range of days that are missing or older than their figures, and that of the last day."""
    from threadhouse.pipelines.backfill import backfill_reports
    from threadhouse.pipelines.progress_display import open_display
    from threadhouse.stores.settings import Settings

    with open_display() as display:
        done = backfill_reports(
            Settings.from_environment(), first.date(), last.date(), display.report
        )
    _print(done, as_json=as_json)


def _backfill(kind: str, **options: Unpack[_Options]) -> None:
    from threadhouse.pipelines.backfill import backfill_builds, cost_of_backfill
    from threadhouse.pipelines.progress_display import open_display
    from threadhouse.retrieval.models import Audience
    from threadhouse.stores.backfill_selection import BackfillSelection
    from threadhouse.stores.settings import Settings

    settings = Settings.from_environment()
    first, last = options["first"], options["last"]
    if (first is None) != (last is None) or (first and last and first > last):
        message = "Give --from and --to together, the earlier day to --from."
        raise click.UsageError(message)
    selection = BackfillSelection(
        documents=options["documents"],
        units=options["units"],
        threads=options["threads"],
        lanes=tuple(map(Audience, options.get("lanes", ()))),
        begins=first.replace(tzinfo=settings.zone) if first else None,
        ends=(last + timedelta(days=1)).replace(tzinfo=settings.zone) if last else None,
    )
    if options["everything"] is not (selection == BackfillSelection()):
        message = (
            "--everything takes nothing else beside it."
            if options["everything"]
            else "Say what to build again: names, a lane, days, or --everything."
        )
        raise click.UsageError(message)
    if options["dry_run"]:
        cost = cost_of_backfill(settings, kind, selection)
        _print_cost(kind, cost, as_json=options["as_json"])
        return
    with open_display() as display:
        done = backfill_builds(settings, kind, selection, display.report)
    _print(done, as_json=options["as_json"])


def _print(done: BuiltAgain, *, as_json: bool) -> None:
    said = json.dumps(done.to_json(), ensure_ascii=False, indent=2) if as_json else done.render()
    click.echo(said)


def _print_cost(kind: str, cost: BackfillCost, *, as_json: bool) -> None:
    if as_json:
        click.echo(
            json.dumps(
                {
                    **cost.counts,
                    "texts_to_embed": cost.texts_to_embed,
                    "is_estimate": cost.is_estimate,
                    "estimated_seconds": None if cost.seconds is None else round(cost.seconds, 1),
                },
                indent=2,
            )
        )
        return
    counts = ", ".join(f"{count:,} {name}" for name, count in cost.counts.items())
    about = "about " if cost.is_estimate else ""
    speed = (
        "how long is not known, since nothing was measured lately"
        if cost.seconds is None
        else f"about {cost.seconds:,.0f} s"
    )
    click.echo(
        f"A backfill of these {kind} would build {counts}; {about}{cost.texts_to_embed:,} texts to embed; {speed}."
    )
