"""Reading the health reports that the nightly run keeps.

Belongs here: finding one report.
Does not belong here: making or storing it (stores.metrics_store, assets).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from threadhouse.stores import queries


@dataclass(frozen=True, slots=True)
class HealthReport:
    """One stored report; ``html_path`` is None when no file was written."""

    report_day: date
    lane: str
    window_days: int
    markdown: str
    html_path: str | None
    built_at: datetime


def read_health_report(
    connection: Connection[TupleRow], lane: str, day: date | None
) -> HealthReport | None:
    """The newest report of a lane, of ``day`` when that is given; None when there is none."""
    with connection.cursor(row_factory=class_row(HealthReport)) as cursor:
        parameters = {"lane": lane, "day": day}
        return cursor.execute(queries.load("health_report_read"), parameters).fetchone()


def lanes_with_reports(connection: Connection[TupleRow], day: date | None) -> tuple[str, ...]:
    """Lanes that have a report, of ``day`` when that is given."""
    rows = connection.execute(queries.load("health_report_lanes"), {"day": day})
    return tuple(row[0] for row in rows)
