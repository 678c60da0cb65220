"""Events from Postgres into the lake: which local days changed, and only those.

Belongs here: digests of days in Postgres, the copy of changed days, the quarantine of events that
break the contract.
Does not belong here: files (``stores.lake``), rates (``retrieval.metrics``).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import polars as pl
from psycopg import Connection, IsolationLevel

from threadhouse.retrieval.events import (
    EARLIEST_EVENT_AT,
    EVENT_SCHEMA,
    LATEST_EVENT_AT,
    READABLE_VERSIONS,
    event_fault,
)
from threadhouse.retrieval.local_days import day_bounds, days_between, local_day, with_local_day
from threadhouse.stores import queries
from threadhouse.stores.lake import DayDigest, EventLake
from threadhouse.stores.quarantine import QuarantinedItem, note_quarantined, resolve_absent

if TYPE_CHECKING:
    from psycopg.rows import TupleRow

    from threadhouse.stores.postgres import Database

QUARANTINE_SOURCE: Final = "retrieval_metric_event"
"""Followed by ``/<local day>``: a day is read whole, so what it no longer holds is resolved."""

COPY_ROWS: Final = 1_000_000
"""Neighbouring days are copied together up to this many events: about 300 MB in memory."""

_RANGE: Final = {"earliest": EARLIEST_EVENT_AT, "latest": LATEST_EVENT_AT}
_INSTANTS: Final = ("occurred_at", "ingested_at", "attributed_at")


@dataclass(frozen=True, slots=True)
class LakeExtractResult:
    """What one extract did. ``rows_written`` counts events, ``quarantined`` those left out."""

    days_written: tuple[date, ...]
    days_removed: tuple[date, ...]
    days_unchanged: int
    rows_written: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class DirtyDays:
    """Days whose file is not what Postgres holds now."""

    to_write: dict[date, DayDigest]
    to_remove: tuple[date, ...]
    unchanged: int


def dirty_days(
    database: Database, lake: EventLake, zone: ZoneInfo, days: Collection[date] | None = None
) -> DirtyDays:
    """Compare each day's digest in Postgres with the one in its file; ``days`` narrows the answer."""
    with _snapshot(database) as connection:
        return _compare(connection, lake, zone, days)


def extract_days(
    database: Database, lake: EventLake, zone: ZoneInfo, days: Collection[date] | None = None
) -> LakeExtractResult:
    """Bring the files of changed days up to date; the others are not touched.

    A late event changes one day: that of its query. Days older than the oldest event in Postgres
    are history that only the lake still has, and stay.

    Args:
        database: Where events arrive.
        lake: Where their days lie.
        zone: Whose days they are.
        days: Look at these only; None means all.

    Raises:
        StoreLockedError: Another process writes the lake.
    """
    written: list[date] = []
    rows = quarantined = 0
    # One snapshot for digests and rows: what arrives meanwhile is the next run's.
    with lake.writing(), _snapshot(database) as connection:
        dirty = _compare(connection, lake, zone, days)
        quarantined += _quarantine_timeless(connection, database)
        for run in _runs(dirty.to_write):
            events = _copy_events(connection, run, zone)
            for day in run:
                of_day = events.filter(pl.col("local_day") == day)
                faults = of_day.filter(pl.col("fault").is_not_null())
                # Before the file: once it is in place, the day is not looked at again.
                _quarantine(database, day, faults)
                good = of_day.filter(pl.col("fault").is_null())
                rows += lake.write_day(day, good, dirty.to_write[day])
                quarantined += faults.height
                written.append(day)
        for day in dirty.to_remove:
            lake.remove_day(day)
    return LakeExtractResult(tuple(written), dirty.to_remove, dirty.unchanged, rows, quarantined)


@contextmanager
def _snapshot(database: Database) -> Generator[Connection[TupleRow], None, None]:
    with database.connect() as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        yield connection


def _compare(
    connection: Connection[TupleRow],
    lake: EventLake,
    zone: ZoneInfo,
    days: Collection[date] | None,
) -> DirtyDays:
    here = _digests(connection, zone)
    there = lake.digests()
    wanted = None if days is None else set(days)
    to_write = {
        day: digest
        for day, digest in here.items()
        if there.get(day) != digest and (wanted is None or day in wanted)
    }
    oldest = min(here, default=date.max)
    to_remove = tuple(
        day
        for day in there
        if day not in here and day >= oldest and (wanted is None or day in wanted)
    )
    return DirtyDays(to_write, to_remove, len(here) - len(to_write))


def _digests(connection: Connection[TupleRow], zone: ZoneInfo) -> dict[date, DayDigest]:
    span = connection.execute(queries.load("metrics_event_span"), _RANGE).fetchone()
    if span is None or span[0] is None:
        return {}
    calendar = days_between(local_day(span[0], zone), local_day(span[1], zone))
    starts = [day_bounds(day, zone)[0] for day in calendar]
    contract = f"events-{max(READABLE_VERSIONS)} {zone.key}"
    found = connection.execute(
        queries.load("metrics_day_digests"), {**_RANGE, "starts": starts}
    ).fetchall()
    return {
        calendar[number - 1]: DayDigest(contract, event_count, max_ingest_seq, content_hash)
        for number, event_count, max_ingest_seq, content_hash in found
    }


def _runs(days: dict[date, DayDigest]) -> Iterator[list[date]]:
    """Neighbouring days together, as far as their events fit `COPY_ROWS`."""
    ordered = sorted(days)
    if not ordered:
        return
    run, size = [ordered[0]], days[ordered[0]].event_count
    for before, day in pairwise(ordered):
        size += days[day].event_count
        if day - before > timedelta(days=1) or size > COPY_ROWS:
            yield run
            run, size = [], days[day].event_count
        run.append(day)
    yield run


def _copy_events(
    connection: Connection[TupleRow], run: Sequence[date], zone: ZoneInfo
) -> pl.DataFrame:
    """Events of neighbouring days, with ``local_day`` and ``fault``."""
    first: datetime = day_bounds(run[0], zone)[0]
    last: datetime = day_bounds(run[-1], zone)[1]
    received = BytesIO()
    with connection.cursor().copy(
        queries.load("metrics_events_of_days"), {**_RANGE, "first": first, "last": last}
    ) as copy:
        for block in copy:
            received.write(block)
    raw = {
        name: pl.Int64 if name in _INSTANTS else pl.String if name == "sufficient" else kind
        for name, kind in EVENT_SCHEMA.items()
    }
    if not received.tell():
        events = pl.DataFrame(schema=raw)
    else:
        received.seek(0)
        events = pl.read_csv(received, has_header=False, schema=raw)
    typed = events.with_columns(
        pl.col(*_INSTANTS).cast(pl.Datetime("us", "UTC")),
        sufficient=pl.col("sufficient") == "t",
    )
    return with_local_day(typed.with_columns(fault=event_fault()), run, zone)


def _quarantine(database: Database, day: date, faults: pl.DataFrame) -> None:
    source = f"{QUARANTINE_SOURCE}/{day.isoformat()}"
    items: list[QuarantinedItem] = []
    for row in faults.iter_rows(named=True):
        field, _, reason = str(row["fault"]).partition(": ")
        raw = f"{row['type']} {row['occurred_at']} {row['details']}"
        items.append(QuarantinedItem(str(row["event_id"]), field, reason, raw=raw))
    with database.connect() as connection:
        note_quarantined(connection, source, items)
        resolve_absent(connection, source, [item.item_key for item in items])


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
