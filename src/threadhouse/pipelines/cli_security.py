"""The commands about security: events to look into and to close, and the leak probe by hand.

Belongs here: options, what is printed.
Does not belong here: what an event is (stores.security_events), the probe (serving.leak_probe).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import UUID

import click

from threadhouse.retrieval.text import in_one_line

if TYPE_CHECKING:
    from threadhouse.retrieval.leak_canaries import ProbeReport
    from threadhouse.stores.security_events import QueueItem, SecurityEvent

EXIT_FINDINGS = 3

_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)


def add_commands(group: click.Group) -> None:
    """Add the commands to the console script."""
    group.add_command(security)


@click.group()
def security() -> None:
    """Look into security events and close them; probe for leaks.

    An event is something that a reader may not see and that was about to leave, or that the leak probe got to see.
    """


@security.command("list")
@click.option("--open", "open_only", is_flag=True, help="Only those that wait for somebody.")
@_as_json
def list_events(*, open_only: bool, as_json: bool) -> None:
    """List security events, open ones first."""
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.security_events import list_security_events
    from threadhouse.stores.settings import Settings

    with open_database(Settings.from_environment()).connect() as connection:
        events = list_security_events(connection, open_only=open_only)
    if as_json:
        click.echo(json.dumps([event.to_json() for event in events], ensure_ascii=False, indent=2))
        return
    if not events:
        click.echo("No security event is open." if open_only else "There is no security event.")
    for event in events:
        click.echo(_line(event))


@security.command()
@click.argument("event_id", type=click.UUID)
@_as_json
def show(event_id: UUID, *, as_json: bool) -> None:
    """Show one event: what was met when, what was queued about it, who closed it and why."""
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.security_events import read_security_event
    from threadhouse.stores.settings import Settings

    with open_database(Settings.from_environment()).connect() as connection:
        record = read_security_event(connection, event_id)
    if as_json:
        click.echo(json.dumps(record.to_json(), ensure_ascii=False, indent=2))
        return
    click.echo(_line(record.event))
    for item in record.items:
        closed = (
            f"closed {item.closed_at:%Y-%m-%d %H:%M} UTC by {_closing(item)}"
            if item.closed_at
            else "open"
        )
        click.echo(f"  {item.kind}: {item.title}; {closed}")
    for entry in record.entries:
        click.echo(
            f"  {entry.occurred_at:%Y-%m-%d %H:%M:%S} UTC {entry.subject}: {json.dumps(entry.details, ensure_ascii=False)}"
        )


@security.command()
@click.argument("event_id", type=click.UUID)
@click.option("--who", required=True, help="Who closes it.")
@click.option("--why", required=True, help="Why: what was found, what was done.")
@_as_json
def close(event_id: UUID, *, who: str, why: str, as_json: bool) -> None:
    """Close what waits for somebody of one event. Who and why are kept; closing again changes nothing."""
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.security_events import close_security_event, read_security_event
    from threadhouse.stores.settings import Settings

    with open_database(Settings.from_environment()).connect() as connection:
        closed = close_security_event(connection, event_id, who=who, why=why)
        event = read_security_event(connection, event_id).event
    if as_json:
        click.echo(json.dumps({"closed_items": closed, **event.to_json()}, ensure_ascii=False))
    elif closed:
        click.echo(f"Closed {event_id}: {closed} items.")
    else:
        click.echo(f"{event_id} was closed before, by {_closing(event)}")


@security.command()
@click.option(
    "--bait",
    type=click.IntRange(min=0, max=1000),
    help="Real hidden units asked for in each lane.  [default: 10]",
)
@_as_json
@click.pass_context
def probe(context: click.Context, *, bait: int | None, as_json: bool) -> None:
    """Plant leak canaries, ask every path for them as every lane, then ask the published hub for real hidden units.

    Nothing that is planted or asked is left or counted. What is found becomes a security event, and the exit code is 3.
    """
    from datetime import UTC, datetime

    from threadhouse.serving.leak_probe import BAIT_PER_LANE, probe_canaries, probe_published
    from threadhouse.stores.settings import Settings

    settings = Settings.from_environment()
    reports = {
        "canaries": probe_canaries(settings),
        "published": probe_published(
            settings, datetime.now(UTC).date(), BAIT_PER_LANE if bait is None else bait
        ),
    }
    if as_json:
        click.echo(json.dumps({name: _document(each) for name, each in reports.items()}, indent=2))
    else:
        for report in reports.values():
            click.echo(f"{report.table()}\n\n{report.seconds:.1f} s\n")
    if any(report.faults for report in reports.values()):
        click.echo("The probe found something: threadhouse security list --open", err=True)
        context.exit(EXIT_FINDINGS)


def _closing(closed: SecurityEvent | QueueItem) -> str:
    return f"{in_one_line(closed.closed_by or '')}: {in_one_line(closed.closing_reason or '')}"


def _line(event: SecurityEvent) -> str:
    state = "open" if event.is_open else f"closed by {_closing(event)}"
    times = "once" if event.occurrence_count == 1 else f"{event.occurrence_count:,} times"
    return f"{event.signal_id} {event.cause_key}: {times}, last {event.last_seen_at:%Y-%m-%d %H:%M} UTC, {state}"


def _document(report: ProbeReport) -> dict[str, object]:
    return {
        "is_sound": not report.faults,
        "seconds": round(report.seconds, 3),
        "remarks": list(report.remarks),
        "paths": [
            {
                "path": each.path,
                "reader": each.reader,
                "planted": each.planted,
                "must_see": each.must_see,
                "seen": each.seen,
                "leaked": list(each.leaked),
                "missed": list(each.missed),
            }
            for each in report.outcomes
        ],
    }
