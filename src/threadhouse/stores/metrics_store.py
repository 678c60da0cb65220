"""Events in, rates and reports kept: the metrics side of Postgres.

Belongs here: appending events, storing the rates of a day in one transaction, which days are due,
rows of health reports.
Does not belong here: the lake (``stores.lake``), counting (``retrieval.metrics``), figures of a
report (``stores.health_figures``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import polars as pl
from psycopg.types.json import Jsonb

from threadhouse.retrieval.events import RetrievalEvent
from threadhouse.retrieval.metrics import AGGREGATE_SCHEMA, METRICS_VERSION
from threadhouse.retrieval.models import Json
from threadhouse.stores import queries

if TYPE_CHECKING:
    from threadhouse.stores.lake import EventLake
    from threadhouse.stores.postgres import Database


@dataclass(frozen=True, slots=True)
class StoredMetrics:
    """What one store did to nao.retrieval_metric_aggregate, in rows."""

    days: int = 0
    inserted: int = 0
    restated: int = 0
    deleted: int = 0
    unchanged: int = 0


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
    database: Database, lake: EventLake, days: Collection[date] | None = None
) -> tuple[date, ...]:
    """Days whose stored rates were counted from other events, or by another rule, than now.

    Args:
        database: Where the rates are.
        lake: Where the events are.
        days: Answer for these (a day without events is due once); None means every day in the lake.
    """
    with database.connect() as connection:
        counted = {
            day: (digest, version)
            for day, digest, version in connection.execute(queries.load("metrics_counted_days"))
        }
    present = {day: digest.key for day, digest in lake.digests().items()}
    # A counted day that has left the lake is due as well: its rates must return to nothing.
    asked = set(present) | set(counted) if days is None else set(days)
    return tuple(
        day for day in sorted(asked) if counted.get(day) != (present.get(day, ""), METRICS_VERSION)
    )


def store_daily_metrics(database: Database, frame: pl.DataFrame, reason: str) -> StoredMetrics:
    """Store the rates of whole days, one transaction each.

    Unchanged rows are not touched; changed ones get the next revision and the reason.

    Args:
        database: Where the rates are kept.
        frame: What ``compute_daily_metrics`` returned.
        reason: Why figures may differ from those stored before, such as "late events".
    """
    total = StoredMetrics()
    for (day,), rows in frame.sort("local_day").group_by("local_day", maintain_order=True):
        total = _sum(total, _store_day(database, date.fromisoformat(str(day)), rows, reason))
    return total


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


def _store_day(database: Database, day: date, rows: pl.DataFrame, reason: str) -> StoredMetrics:
    columns = {name: rows[name].to_list() for name in AGGREGATE_SCHEMA if name != "local_day"}
    with database.connect() as connection:
        connection.execute(queries.load("metrics_lock_day"), {"day": day})
        touched = connection.execute(
            queries.load("metrics_upsert_aggregates"), {"day": day, "reason": reason, **columns}
        ).fetchall()
        deleted = connection.execute(
            queries.load("metrics_delete_absent_aggregates"),
            {"day": day, **{name: columns[name] for name in ("lane", "thread_id", "metric")}},
        ).rowcount
        connection.execute(
            queries.load("metrics_mark_day"),
            {
                "day": day,
                "source_digest": rows["source_digest"][0],
                "metrics_version": METRICS_VERSION,
            },
        )
    inserted = sum(bool(is_new) for (is_new,) in touched)
    return StoredMetrics(
        days=1,
        inserted=inserted,
        restated=len(touched) - inserted,
        deleted=deleted,
        unchanged=rows.height - len(touched),
    )


def _sum(one: StoredMetrics, other: StoredMetrics) -> StoredMetrics:
    return StoredMetrics(
        days=one.days + other.days,
        inserted=one.inserted + other.inserted,
        restated=one.restated + other.restated,
        deleted=one.deleted + other.deleted,
        unchanged=one.unchanged + other.unchanged,
    )
