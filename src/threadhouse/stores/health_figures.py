"""Figures of the health report out of Postgres, and the report's file.

Belongs here: what a report of a lane may ask for, the HTML file on disk.
Does not belong here: how a report reads (``retrieval.health_report``).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import polars as pl

from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.health_report import (
    DEFAULT_WINDOW_DAYS,
    CountFigure,
    HealthFigures,
    rate_figures,
    trend_figures,
    worst_thread_figures,
)
from threadhouse.retrieval.local_days import day_bounds, days_between
from threadhouse.retrieval.metrics import LANES, OVERALL
from threadhouse.stores import queries
from threadhouse.stores.lake import replace_durably
from threadhouse.stores.metrics_store import read_daily_metrics

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow

    from threadhouse.stores.postgres import Database


def collect_health_figures(
    database: Database,
    day: date,
    *,
    zone: ZoneInfo,
    window_days: int = DEFAULT_WINDOW_DAYS,
    lane: str = OVERALL,
) -> HealthFigures:
    """Everything that a report for one lane may say about a day and the window that it ends.

    A lane gets its own rates, gaps and packs. Threads, security events, projections, quarantine and
    runs are collected for operators only (`OVERALL`).

    Raises:
        ConfigurationError: There is no such lane, or the window is empty.
    """
    if lane not in LANES or window_days < 1:
        message = (
            f"A report needs one of the lanes {', '.join(LANES)} and a window of 1 day or more."
        )
        raise ConfigurationError(message)
    first = day - timedelta(days=window_days - 1)
    days = days_between(first, day)
    wanted = None if lane == OVERALL else lane
    daily = read_daily_metrics(database, first, day, wanted)
    with database.connect() as connection:
        gaps = _open_gaps(connection, wanted)
        packs = _packs(connection, wanted)
        common = HealthFigures(
            report_day=day,
            window_days=window_days,
            lane=lane,
            time_zone=zone.key,
            days=tuple(days),
            of_day=rate_figures(daily.filter(pl.col("local_day") == day), lane),
            of_window=rate_figures(daily, lane),
            trends=trend_figures(daily, lane, days),
            open_gaps=gaps,
            packs=packs,
        )
        if wanted is not None:
            return common
        return _for_operators(connection, common, daily, zone)


def write_report_page(home: Path, figures: HealthFigures, page: str) -> Path:
    """Put the page at ``<home>/reports/<day>/<lane>.html``, replacing an older one at once."""
    target = home / "reports" / figures.report_day.isoformat() / f"{figures.lane}.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.aside")
    aside.write_text(page, encoding="utf-8")
    replace_durably(aside, target)
    return target


def _for_operators(
    connection: Connection[TupleRow], common: HealthFigures, daily: pl.DataFrame, zone: ZoneInfo
) -> HealthFigures:
    span = {
        "first": day_bounds(common.days[0], zone)[0],
        "last": day_bounds(common.report_day, zone)[1],
    }
    titles: dict[str, str] = dict(
        connection.execute("select thread_id, title from source.semantic_thread").fetchall()
    )
    security = connection.execute(queries.load("metrics_security_events"), span).fetchall()
    projections = connection.execute(queries.load("metrics_projection_counts")).fetchall()
    quarantine = connection.execute(queries.load("metrics_quarantine_counts")).fetchall()
    runs = connection.execute(queries.load("metrics_last_runs")).fetchall()
    return replace(
        common,
        worst_threads=worst_thread_figures(daily, titles),
        security_events=tuple(
            CountFigure(kind, count, _waiting(waiting), last)
            for kind, count, waiting, last in security
        ),
        projections=tuple(
            CountFigure(name, int(chunks), f"chunks of {owners:,} owners", published)
            for name, owners, chunks, published in projections
        ),
        quarantine=tuple(
            CountFigure(source, count, reason, last) for source, reason, count, last in quarantine
        ),
        last_runs=tuple(
            CountFigure(kind, None, status, finished or started)
            for kind, status, started, finished in runs
        ),
    )


def _waiting(events: int) -> str:
    return f"{events:,} open: threadhouse security list --open" if events else ""


def _open_gaps(connection: Connection[TupleRow], lane: str | None) -> tuple[CountFigure, ...]:
    rows = connection.execute(queries.load("metrics_open_gaps"), {"lane": lane}).fetchall()
    return tuple(
        CountFigure(kind, signals, f"seen {occurrences:,} times", last)
        for kind, signals, occurrences, last in rows
    )


def _packs(connection: Connection[TupleRow], lane: str | None) -> tuple[CountFigure, ...]:
    rows = connection.execute(queries.load("metrics_pack_freshness"), {"lane": lane}).fetchall()
    return tuple(
        CountFigure(name, packs, f"{stale:,} stale; the oldest is the one dated here", oldest)
        for name, packs, stale, oldest in rows
    )
