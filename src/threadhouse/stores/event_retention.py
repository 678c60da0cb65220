"""What leaves by age: words of questions, events in Postgres, day files.

Belongs here: taking out what is older than it may be, in whole local days, and remembering which days are closed.
Does not belong here: how long things may be kept (``stores.settings``), rates, which stay for good.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from psycopg import IsolationLevel

from threadhouse.retrieval.errors import RetentionError
from threadhouse.retrieval.local_days import day_start
from threadhouse.stores import queries
from threadhouse.stores.lake_extract import (
    EDITS_KEPT,
    QUARANTINE_SOURCE,
    day_digest,
    day_span,
    days_of_postgres,
    event_horizon,
    extract_days,
)
from threadhouse.stores.quarantine import resolve_absent

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from threadhouse.stores.lake import EventLake
    from threadhouse.stores.postgres import Database
    from threadhouse.stores.settings import Settings


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """For how many local days, today included, things are kept; None is for good."""

    query_text_days: int | None
    event_days: int | None
    lake_days: int | None

    @classmethod
    def of(cls, settings: Settings) -> RetentionRule:
        """The rule of these settings."""
        return cls(settings.query_text_days, settings.event_days, settings.lake_days)


@dataclass(frozen=True, slots=True)
class RetentionResult:
    """What one application of a rule removed."""

    words_forgotten: int
    events_removed: int
    days_closed: tuple[date, ...]
    files_removed: tuple[date, ...]


def apply_retention(
    database: Database, lake: EventLake, zone: ZoneInfo, rule: RetentionRule, today: date
) -> RetentionResult:
    """Remove what is older than ``rule`` allows. Applied again, it finds nothing.

    Each day leaves Postgres in a transaction of its own, together with the note that it is closed, and only when its file in the
    lake holds what Postgres holds at that moment.

    Args:
        today: The local day that is under way.

    Raises:
        StoreLockedError: Another process writes the lake.
        RetentionError: The lake could not be brought up to a day that should leave.
    """
    words = _forget_words(database, zone, _first_kept(today, rule.query_text_days))
    events, closed = _close_days(database, lake, zone, _first_kept(today, rule.event_days))
    files = _drop_files(database, lake, zone, _first_kept(today, rule.lake_days))
    return RetentionResult(words, events, closed, files)


def _first_kept(today: date, days: int | None) -> date | None:
    return None if days is None else today - timedelta(days=days - 1)


def _forget_words(database: Database, zone: ZoneInfo, first_kept: date | None) -> int:
    if first_kept is None:
        return 0
    with database.connect() as connection:
        connection.execute(queries.load("retention_begin"))
        forgotten = connection.execute(
            queries.load("retention_forget_words"), {"before": day_start(first_kept, zone)}
        ).rowcount
        # Proposals quote them; without this they would do so until the night after.
        connection.execute(queries.load("intake_proposals_keep_texts"))
        return forgotten


def _close_days(
    database: Database, lake: EventLake, zone: ZoneInfo, first_kept: date | None
) -> tuple[int, tuple[date, ...]]:
    with database.connect() as connection:
        connection.execute(queries.load("retention_forget_edits"), {"kept": EDITS_KEPT})
    if first_kept is None:
        return 0, ()
    with database.connect() as connection:
        old = [day for day in days_of_postgres(connection, zone) if day < first_kept]
    # Late events among them, and days from before the first partition, which no night extracts.
    extract_days(database, lake, zone, old)
    events, closed = 0, list[date]()
    for day in old:
        removed = _close_day(database, lake, zone, day)
        events += removed
        if removed:
            closed.append(day)
    # Days without events are closed too: what arrives for them is as old.
    _move_horizon(database, zone, kept_from=first_kept)
    return events, tuple(closed)


def _close_day(database: Database, lake: EventLake, zone: ZoneInfo, day: date) -> int:
    with lake.writing(database), database.connect() as connection:
        # What arrives after this snapshot stays, and is found to be late by the next extract.
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.execute(queries.load("retention_begin"))
        was_closed = event_horizon(connection, zone).is_closed(day)
        digest = day_digest(connection, day, zone)
        if digest is not None and not was_closed and lake.digest_of(day) != digest:
            message = f"Events of {day} are not in the lake as PostgreSQL has them, so they were kept; run the nightly again."
            raise RetentionError(message)
        removed = connection.execute(
            queries.load("retention_delete_day"), day_span(day, zone)
        ).rowcount
        if not was_closed:
            resolve_absent(connection, f"{QUARANTINE_SOURCE}/{day.isoformat()}", [])
        connection.execute(
            queries.load("retention_move_horizon"),
            {
                "kept_from": day + timedelta(days=1),
                "lake_kept_from": None,
                "time_zone": zone.key,
            },
        )
    return removed


def _drop_files(
    database: Database, lake: EventLake, zone: ZoneInfo, first_kept: date | None
) -> tuple[date, ...]:
    if first_kept is None:
        return ()
    with database.connect() as connection:
        closed_to = event_horizon(connection, zone).kept_from
        if closed_to is None:
            return ()
        # A day that Postgres still has would be extracted again.
        first_kept = min(first_kept, closed_to)
        gone = tuple(day for day in lake.digests() if day < first_kept)
        # Before the files: a day without a file whose rates nobody closed would be counted as empty.
        _move_horizon(database, zone, lake_kept_from=first_kept)
    with lake.writing(database):
        for day in gone:
            lake.remove_day(day)
    return gone


def _move_horizon(
    database: Database,
    zone: ZoneInfo,
    *,
    kept_from: date | None = None,
    lake_kept_from: date | None = None,
) -> None:
    with database.connect() as connection:
        connection.execute(
            queries.load("retention_move_horizon"),
            {
                "kept_from": kept_from,
                "lake_kept_from": lake_kept_from,
                "time_zone": zone.key,
            },
        )
