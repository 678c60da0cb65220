"""Events from Postgres into the lake: which local days changed, and only those.

Belongs here: which days may have changed, their digests in Postgres, the copy of those that did, the quarantine of events that
break the contract.
Does not belong here: files (``stores.lake``), rates (``retrieval.metrics``), what leaves by age (``stores.event_retention``).

The lake remembers the oldest transaction that was under way when it last looked. Whatever was written, edited or deleted since
carries that one's number or a higher one, so a night looks at those rows and never at the whole table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from psycopg import Connection, IsolationLevel

from threadhouse.retrieval.events import (
    EARLIEST_EVENT_AT,
    EVENT_VERSION,
    LATEST_EVENT_AT,
    RULES_OF_EVENTS,
)
from threadhouse.retrieval.local_days import day_bounds, day_start, days_between, local_day
from threadhouse.stores import queries
from threadhouse.stores.arrow_copies import arrow_copies
from threadhouse.stores.lake import (
    FAULTS_NAMED,
    DayDigest,
    EventLake,
    ExtractState,
    FaultyEvent,
    OnStep,
    no_step,
)
from threadhouse.stores.quarantine import QuarantinedItem, note_quarantined, resolve_absent

if TYPE_CHECKING:
    from psycopg.rows import TupleRow

    from threadhouse.stores.postgres import Database

QUARANTINE_SOURCE: Final = "retrieval_metric_event"
"""Followed by ``/<local day>``: a day is read whole, so what it no longer holds is resolved."""

EDITS_KEPT: Final = timedelta(days=30)
"""As long as ``nao.retrieval_event_edit`` is kept. A lake that did not look for longer looks at every day."""

_RANGE: Final = {"earliest": EARLIEST_EVENT_AT, "latest": LATEST_EVENT_AT}


@dataclass(frozen=True, slots=True)
class LakeExtractResult:
    """What one extract did. ``rows_written`` counts events, ``quarantined`` those left out."""

    days_written: tuple[date, ...]
    days_removed: tuple[date, ...]
    days_unchanged: int
    rows_written: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class _Now:
    """What a database says of itself in one snapshot."""

    database: str
    since: str
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class EventHorizon:
    """The oldest day that Postgres keeps, by rule and by what is there; None where nothing is."""

    kept_from: date | None
    oldest: date | None

    def is_closed(self, day: date) -> bool:
        """Whether retention has taken the day's events out of Postgres."""
        return self.kept_from is not None and day < self.kept_from

    def is_history(self, day: date) -> bool:
        """Whether only the lake still has the day."""
        return self.is_closed(day) or self.oldest is None or day < self.oldest


def days_to_look_at(database: Database, lake: EventLake, zone: ZoneInfo) -> tuple[date, ...]:
    """Days whose file may not be what Postgres holds now: more than have changed, never fewer."""
    with _snapshot(database) as connection:
        return _candidates(connection, lake, zone)


def extract_days(
    database: Database,
    lake: EventLake,
    zone: ZoneInfo,
    days: Collection[date] | None = None,
    *,
    recheck: bool = False,
    progress: Callable[[int, int], None] | None = None,
    on_step: OnStep = no_step,
) -> LakeExtractResult:
    """Bring the files of changed days up to date; the others are not touched.

    A late event changes one day: that of its query. Days older than the oldest event in Postgres are history that only the lake
    still has, and stay.

    Args:
        database: Where events arrive.
        lake: Where their days lie.
        zone: Whose days they are.
        days: Write these only; None means all. What is due besides stays due.
        recheck: Hold every day against Postgres, whether or not a change of it is known.
        progress: Told (days done, days to look at) before each day.
        on_step: Told after each step that a kill could follow.

    Raises:
        StoreLockedError: Another process writes the lake.
    """
    written: list[date] = []
    removed: list[date] = []
    rows = quarantined = unchanged = 0
    # One snapshot for everything: what arrives meanwhile is the next run's.
    with ExitStack() as stack:
        stack.enter_context(lake.writing(database))
        connection = stack.enter_context(_snapshot(database))
        due = _candidates(connection, lake, zone, recheck=recheck)
        now, horizon = _now(connection), event_horizon(connection, zone)
        quarantined += _quarantine_timeless(connection, database)
        wanted = [day for day in due if days is None or day in days]
        there = lake.digests()
        working = stack.enter_context(lake.working())
        copies = stack.enter_context(arrow_copies(connection, database))
        for number, day in enumerate(wanted):
            if progress is not None:
                progress(number, len(wanted))
            if horizon.is_closed(day):
                quarantined += _quarantine_late(connection, database, day, zone)
                continue
            digest = day_digest(connection, day, zone)
            if digest is None:
                if day in there and not horizon.is_history(day):
                    lake.remove_day(day)
                    removed.append(day)
            elif there.get(day) == digest:
                unchanged += 1
            else:
                with copies.stream("lake_day_events", day_span(day, zone)) as events:
                    # Noted before the file is in place: once it is, the day is not looked at again.
                    done = lake.write_day(
                        working,
                        day,
                        events,
                        digest,
                        on_faults=partial(_quarantine, database, day),
                        on_step=on_step,
                    )
                rows += done.rows
                quarantined += done.faulty
                written.append(day)
        held = tuple(lake.digests())
        lake.keep_state(
            ExtractState(
                contract_of(zone),
                now.database,
                now.since,
                now.seen_at.isoformat(),
                tuple(day.isoformat() for day in due if day not in wanted),
                tuple(day.isoformat() for day in held),
                tuple(lake.version_of(day) for day in held),
            )
        )
        on_step("state kept")
    return LakeExtractResult(tuple(written), tuple(removed), unchanged, rows, quarantined)


def contract_of(zone: ZoneInfo) -> str:
    """What decides, besides the events, what a day file holds."""
    return f"events-{EVENT_VERSION}.{RULES_OF_EVENTS} {zone.key}"


def days_of_postgres(connection: Connection[TupleRow], zone: ZoneInfo) -> tuple[date, ...]:
    """Days that hold an event by its own time, and so all days that hold any."""
    first, last = _span(connection)
    if first is None or last is None:
        return ()
    return _days_with_events(
        connection, days_between(local_day(first, zone), local_day(last, zone)), zone
    )


def event_horizon(connection: Connection[TupleRow], zone: ZoneInfo) -> EventHorizon:
    """How far back Postgres goes now."""
    row = connection.execute(queries.load("event_horizon")).fetchone()
    first = _span(connection)[0]
    return EventHorizon(row[0] if row else None, local_day(first, zone) if first else None)


def day_span(day: date, zone: ZoneInfo) -> dict[str, datetime]:
    """A local day as ``nao.events_of_day`` takes it: its first instant, that of the next day, and the limits of all instants."""
    first, following = day_bounds(day, zone)
    return {**_RANGE, "first": first, "next": following}


def day_digest(connection: Connection[TupleRow], day: date, zone: ZoneInfo) -> DayDigest | None:
    """What a day holds in Postgres; None when it holds nothing."""
    row = connection.execute(queries.load("lake_day_digest"), day_span(day, zone)).fetchone()
    return None if row is None or not row[0] else DayDigest(contract_of(zone), *row)


@contextmanager
def _snapshot(database: Database) -> Generator[Connection[TupleRow], None, None]:
    with database.connect() as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.execute(queries.load("snapshot_plan"))
        yield connection


def _now(connection: Connection[TupleRow]) -> _Now:
    row = connection.execute(queries.load("lake_database")).fetchone()
    if row is None:
        message = "lake_database gave no row although it asks for none."
        raise LookupError(message)
    return _Now(*row)


def _span(connection: Connection[TupleRow]) -> tuple[datetime | None, datetime | None]:
    row = connection.execute(queries.load("metrics_event_span"), _RANGE).fetchone()
    return (row[0], row[1]) if row else (None, None)


def _candidates(
    connection: Connection[TupleRow], lake: EventLake, zone: ZoneInfo, *, recheck: bool = False
) -> tuple[date, ...]:
    present = set(lake.digests())
    first, last = _span(connection)
    ends = [local_day(instant, zone) for instant in (first, last) if instant] + [*present]
    if not ends:
        return ()
    calendar = days_between(min(ends), max(ends))
    state, now = lake.state(), _now(connection)
    if recheck or state is None or not _can_follow(state, now, zone):
        return tuple(sorted({*_days_with_events(connection, calendar, zone), *present}))
    rows = connection.execute(
        queries.load("lake_days_touched"),
        {**_RANGE, "since": state.since, "starts": _starts(calendar, zone)},
    )
    touched: set[date] = {calendar[n - 1] for (n,) in rows if 1 <= n <= len(calendar)}
    days = [date.fromisoformat(day) for day in state.days]
    # A lake in a folder has no versions, and one that an earlier release kept has none written down.
    known = dict(zip(days, [*state.versions, *repeat("", len(days))], strict=False))
    pending = {date.fromisoformat(day) for day in state.pending}
    put_since = {day for day in present if lake.version_of(day) != known.get(day, "")}
    return tuple(sorted(touched | pending | put_since | (known.keys() ^ present)))


def _days_with_events(
    connection: Connection[TupleRow], calendar: Sequence[date], zone: ZoneInfo
) -> tuple[date, ...]:
    rows = connection.execute(
        queries.load("lake_days_with_events"), {"starts": _starts(calendar, zone)}
    ).fetchall()
    numbers: list[int] = [row[0] for row in rows]
    return tuple(calendar[number - 1] for number in numbers)


def _starts(calendar: Sequence[date], zone: ZoneInfo) -> list[datetime]:
    """The first instants of the days and of the one after them."""
    return [day_start(day, zone) for day in [*calendar, calendar[-1] + timedelta(days=1)]]


def _can_follow(state: ExtractState, now: _Now, zone: ZoneInfo) -> bool:
    """Whether transaction numbers tell what changed since ``state``: the same database, not turned back, not too long ago."""
    return (
        state.contract == contract_of(zone)
        and state.database == now.database
        and int(state.since) <= int(now.since)
        and now.seen_at - datetime.fromisoformat(state.seen_at) < EDITS_KEPT
    )


def _quarantine(database: Database, day: date, faults: Sequence[FaultyEvent], faulty: int) -> None:
    source = f"{QUARANTINE_SOURCE}/{day.isoformat()}"
    items: list[QuarantinedItem] = []
    for event in faults:
        field, _, reason = event.fault.partition(": ")
        items.append(QuarantinedItem(event.event_id, field, reason, raw=event.summary))
    if faulty > len(faults):
        rest = f"{faulty - len(faults):,} more events of this day break the contract"
        items.append(QuarantinedItem("more", "", rest))
    with database.connect() as connection:
        note_quarantined(connection, source, items)
        resolve_absent(connection, source, [item.item_key for item in items])


def _quarantine_late(
    connection: Connection[TupleRow], database: Database, day: date, zone: ZoneInfo
) -> int:
    rows = connection.execute(
        queries.load("lake_late_events"),
        {**day_span(day, zone), "limit": FAULTS_NAMED},
    ).fetchall()
    reason = "its day is closed, because retention has removed the events it would stand beside"
    found = [
        FaultyEvent(event_id, f"occurred_at: {reason}", f"{kind} {instant}")
        for event_id, kind, instant, _ in rows
    ]
    count = rows[0][3] if rows else 0
    _quarantine(database, day, found, count)
    return count


def _quarantine_timeless(connection: Connection[TupleRow], database: Database) -> int:
    found = connection.execute(queries.load("metrics_events_without_day"), _RANGE).fetchall()
    reason = "not an instant between 2000 and 2200"
    items = [
        QuarantinedItem(event_id, "occurred_at", reason, raw=instant) for event_id, instant in found
    ]
    source = f"{QUARANTINE_SOURCE}/no day"
    with database.connect() as writer:
        note_quarantined(writer, source, items)
        resolve_absent(writer, source, [item.item_key for item in items])
    return len(items)
