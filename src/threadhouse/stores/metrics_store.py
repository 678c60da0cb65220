"""Events in, rates and reports kept: the metrics side of Postgres.

Belongs here: appending events, storing the rates of a day in one transaction, which days are due,
rows of health reports.
Does not belong here: the lake (``stores.lake``), counting (``retrieval.metrics``), figures of a
report (``stores.health_figures``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import polars as pl
from psycopg.types.json import Jsonb

from threadhouse.retrieval.events import RetrievalEvent
from threadhouse.retrieval.metrics import AGGREGATE_SCHEMA, METRICS_VERSION
from threadhouse.retrieval.models import Json
from threadhouse.stores import queries
from threadhouse.stores.lake import (
    DayDigest,
    EventLake,
    OnStep,
    daily_metrics_in_batches,
    no_step,
)

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from threadhouse.stores.postgres import Database


@dataclass(frozen=True, slots=True)
class StoredMetrics:
    """What one store did to nao.retrieval_metric_aggregate, in rows."""

    days: int = 0
    inserted: int = 0
    restated: int = 0
    deleted: int = 0
    unchanged: int = 0

    @property
    def rows(self) -> int:
        """Rows that the days have now."""
        return self.inserted + self.restated + self.unchanged

    def __add__(self, other: StoredMetrics) -> StoredMetrics:
        return StoredMetrics(
            days=self.days + other.days,
            inserted=self.inserted + other.inserted,
            restated=self.restated + other.restated,
            deleted=self.deleted + other.deleted,
            unchanged=self.unchanged + other.unchanged,
        )


def append_events(database: Database, events: Iterable[RetrievalEvent]) -> int:
    """Write events down; returns how many were new."""
    rows = [event.model_dump(mode="json") for event in events]
    if not rows:
        return 0
    with database.connect() as connection:
        return connection.execute(
            queries.load("metrics_append_events"), {"events": Jsonb(rows)}
        ).rowcount


def days_due(
    database: Database,
    lake: EventLake,
    days: Collection[date] | None = None,
    *,
    recount: bool = False,
) -> tuple[date, ...]:
    """Days whose stored rates were counted from other events, or by another rule, than now.

    A day that retention has taken out of the lake keeps the rates that it had.

    Args:
        database: Where the rates are.
        lake: Where the events are.
        days: Answer for these (a day without events is due once); None means every day in the lake.
        recount: Call every day due that can be counted: rates that somebody damaged leave digest and rule as they were.
    """
    with database.connect() as connection:
        counted = {
            day: (digest, version)
            for day, digest, version in connection.execute(queries.load("metrics_counted_days"))
        }
        horizon = connection.execute(queries.load("event_horizon")).fetchone()
    closed = max((day for day in horizon or () if day is not None), default=date.min)
    present = {day: digest.key for day, digest in lake.digests().items()}
    # A counted day that has left the lake is due as well: its rates must return to nothing.
    asked = set(present) | set(counted) if days is None else set(days)
    return tuple(
        day
        for day in sorted(asked)
        if (recount or counted.get(day) != (present.get(day, ""), METRICS_VERSION))
        and (day in present or day >= closed)
    )


def store_daily_metrics(
    database: Database, frame: pl.DataFrame, occasion: str = "", on_step: OnStep = no_step
) -> StoredMetrics:
    """Store the rates of whole days, one transaction each.

    Unchanged rows are not touched; changed ones get the next revision and the reason: what changed about the day's events, or the
    counting rule.

    Args:
        database: Where the rates are kept.
        frame: What ``compute_daily_metrics`` returned.
        occasion: What made somebody count again, such as "backfill"; goes before the reason.
        on_step: Told after each step that a kill could follow.
    """
    total = StoredMetrics()
    for (day,), rows in frame.sort("local_day").group_by("local_day", maintain_order=True):
        total += _store_day(database, date.fromisoformat(str(day)), rows, occasion, on_step)
    return total


def count_days(
    database: Database,
    lake: EventLake,
    zone: ZoneInfo,
    days: Collection[date],
    occasion: str = "",
    *,
    progress: Callable[[int, int], None] | None = None,
    on_step: OnStep = no_step,
) -> StoredMetrics:
    """Count days from the lake and store their rates, a batch after the other: what is stored stays when the rest is killed.

    Args:
        progress: Told (days done, days to do) after each batch.
    """
    total = StoredMetrics()
    for rates in daily_metrics_in_batches(lake, days, zone):
        on_step("batch counted")
        total += store_daily_metrics(database, rates, occasion, on_step)
        if progress is not None:
            progress(total.days, len(days))
    return total


def restated_because(
    before: tuple[str, str] | None, after: tuple[str, str], occasion: str = ""
) -> str:
    """Why figures of a day may differ from those stored before, in a few words.

    Args:
        before: Digest of the events that were counted and the counting rule; None when the day never was.
        after: The same of now.
    """
    # Nobody counts the same events by the same rule twice unless a person asks for it.
    reason = "recounted by hand" if before == after else _difference(before, after)
    return f"{occasion}: {reason}" if occasion else reason


def _difference(before: tuple[str, str] | None, after: tuple[str, str]) -> str:
    if before is None:
        return "counted for the first time"
    if before[1] != after[1]:
        return f"the counting rule {before[1]} became {after[1]}"
    was, now = DayDigest.from_key(before[0]), DayDigest.from_key(after[0])
    if was is None or now is None:
        return "events of the day arrived" if now else "events of the day were removed or moved"
    if was.contract != now.contract:
        return f"the rules of days {was.contract} became {now.contract}"
    more = now.event_count - was.event_count
    if now.max_ingest_seq > was.max_ingest_seq and more > 0:
        return f"late events: {more:,} more"
    return "events of the day were corrected, removed or moved"


def read_daily_metrics(
    database: Database, first: date, last: date, lane: str | None = None
) -> pl.DataFrame:
    """Stored rates of a range of days, `AGGREGATE_SCHEMA`; of one lane, or of all."""
    with database.connect() as connection:
        rows = connection.execute(
            queries.load("metrics_aggregates_of_days"), {"first": first, "last": last, "lane": lane}
        ).fetchall()
    return pl.DataFrame(rows, schema=AGGREGATE_SCHEMA, orient="row")


def store_health_report(  # the columns of one row
    database: Database,
    *,
    report_day: date,
    lane: str,
    window_days: int,
    figures: Mapping[str, Json],
    markdown: str,
    html_path: str | None,
) -> None:
    """Keep one report; the same day, lane and window again replaces it."""
    with database.connect() as connection:
        connection.execute(
            queries.load("metrics_store_report"),
            {
                "report_day": report_day,
                "lane": lane,
                "window_days": window_days,
                "figures": Jsonb(dict(figures)),
                "markdown": markdown,
                "html_path": html_path,
            },
        )


def _store_day(
    database: Database, day: date, rows: pl.DataFrame, occasion: str, on_step: OnStep
) -> StoredMetrics:
    columns = {name: rows[name].to_list() for name in AGGREGATE_SCHEMA if name != "local_day"}
    with database.connect() as connection:
        connection.execute(queries.load("metrics_lock_day"), {"day": day})
        before = connection.execute(queries.load("metrics_counted_day"), {"day": day}).fetchone()
        after = (str(rows["source_digest"][0]), METRICS_VERSION)
        reason = restated_because(before and (before[0], before[1]), after, occasion)
        touched = connection.execute(
            queries.load("metrics_upsert_aggregates"), {"day": day, "reason": reason, **columns}
        ).fetchall()
        on_step("rates upserted")
        deleted = connection.execute(
            queries.load("metrics_delete_absent_aggregates"),
            {"day": day, **{name: columns[name] for name in ("lane", "thread_id", "metric")}},
        ).rowcount
        connection.execute(
            queries.load("metrics_mark_day"),
            {
                "day": day,
                "source_digest": after[0],
                "metrics_version": METRICS_VERSION,
            },
        )
        on_step("day marked")
    on_step("day published")
    inserted = sum(bool(is_new) for (is_new,) in touched)
    return StoredMetrics(
        days=1,
        inserted=inserted,
        restated=len(touched) - inserted,
        deleted=deleted,
        unchanged=rows.height - len(touched),
    )
