"""Figures of the health report out of Postgres, and the report's file.

Belongs here: what a report of a lane may ask for, the HTML file on disk.
Does not belong here: working figures out (``retrieval.health_figures``), how a report reads (``retrieval.health_report``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import polars as pl
from psycopg.rows import dict_row

from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.health_charts import duration_text
from threadhouse.retrieval.health_figures import (
    DEFAULT_WINDOW_DAYS,
    WORST_THREADS,
    CountFigure,
    GapDayFigure,
    GapFigure,
    HealthFigures,
    LossFigure,
    NightFigure,
    ReplayFigure,
    ThreadHealthFigure,
    WaitFigure,
    change_figures,
    evidence_text,
    rate_figures,
    trend_figures,
    worst_thread_figures,
)
from threadhouse.retrieval.local_days import day_bounds, days_between
from threadhouse.retrieval.metrics import LANES, OVERALL
from threadhouse.retrieval.models import Audience, HealthStatus
from threadhouse.stores import queries
from threadhouse.stores.durable_files import replace_durably
from threadhouse.stores.gap_signals import gaps_by_day
from threadhouse.stores.metrics_store import read_daily_metrics
from threadhouse.stores.replay import require_replay
from threadhouse.stores.thread_health import KnownHealth, latest_thread_health

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

    A lane gets its own rates, gaps, packs and replayed questions, and counts of the health of threads that it sees. Names of
    threads, security events, the projection and what a night did are collected for operators only (`OVERALL`).

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
    wanted = None if lane == OVERALL else Audience(lane)
    daily = read_daily_metrics(database, first, day, wanted)
    with database.connect() as connection:
        gaps, gap_days = _gaps(connection, first, day, zone, wanted)
        health = latest_thread_health(connection, lane=wanted)
        common = HealthFigures(
            report_day=day,
            window_days=window_days,
            lane=lane,
            time_zone=zone.key,
            days=tuple(days),
            of_day=rate_figures(daily.filter(pl.col("local_day") == day), lane),
            of_window=rate_figures(daily, lane),
            trends=trend_figures(daily, lane, days),
            changes=change_figures(daily, lane),
            gaps=gaps,
            gap_days=gap_days,
            thread_health=_health_counts(health),
            packs=_packs(connection, wanted),
            replay=_replay(database, connection, wanted),
        )
        if wanted is not None:
            return common
        return _for_operators(connection, common, daily, zone, health)


def write_report_page(home: Path, figures: HealthFigures, page: str) -> Path:
    """Put the page at ``<home>/reports/<day>/<lane>.html``, replacing an older one at once."""
    target = home / "reports" / figures.report_day.isoformat() / f"{figures.lane}.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.aside")
    aside.write_text(page, encoding="utf-8")
    replace_durably(aside, target)
    return target


def _for_operators(
    connection: Connection[TupleRow],
    common: HealthFigures,
    daily: pl.DataFrame,
    zone: ZoneInfo,
    health: Sequence[KnownHealth],
) -> HealthFigures:
    span = {
        "zone": zone.key,
        "first": day_bounds(common.days[0], zone)[0],
        "last": day_bounds(common.report_day, zone)[1],
    }
    nights = {
        "zone": zone.key,
        "first": day_bounds(common.nights_after[0], zone)[0],
        "last": day_bounds(common.nights_after[-1], zone)[1],
    }
    begins, ends = day_bounds(common.report_day, zone)
    of_the_day = {"first": begins, "last": ends}
    titles: dict[str, str] = dict(
        connection.execute("select thread_id, title from source.semantic_thread").fetchall()
    )

    def rows(name: str, within: Mapping[str, object] = span) -> list[TupleRow]:
        return connection.execute(queries.load(name), within).fetchall()

    return replace(
        common,
        worst_threads=worst_thread_figures(daily, titles),
        unhealthy_threads=_unhealthy(health, titles),
        security_events=tuple(
            CountFigure(kind, count, _waiting(waiting), last)
            for kind, count, waiting, last in rows("metrics_security_events")
        ),
        freshness=(
            *(CountFigure(*row) for row in rows("report_freshness")),
            *(_waited(*row) for row in rows("changes_waits", of_the_day)),
        ),
        waits=tuple(
            WaitFigure(None if is_total else local_day, *numbers)
            for is_total, local_day, *numbers in rows("report_waits", nights)
        ),
        projections=tuple(
            CountFigure(name, int(chunks), f"chunks of {owners:,} owners", published)
            for name, owners, chunks, published in rows("metrics_projection_counts")
        ),
        audits=tuple(
            CountFigure(name, sum(found.values()), _audited(points, owners, found), at)
            for name, points, owners, found, at in rows("report_audits")
        ),
        data_checks=tuple(
            CountFigure(suite, failed, f"broken of {expectations:,} expectations", at)
            for suite, expectations, failed, at in rows("report_data_checks")
        ),
        nights=tuple(NightFigure(*row) for row in rows("report_nights", nights)),
        quarantine=tuple(
            CountFigure(source, count, reason, last)
            for source, reason, count, last in rows("metrics_quarantine_counts")
        ),
        last_runs=tuple(
            CountFigure(kind, None, status, finished or started)
            for kind, status, started, finished in rows("metrics_last_runs")
        ),
    )


def _waiting(events: int) -> str:
    return f"{events:,} open: threadhouse security list --open" if events else ""


_FOLLOWED = {
    "access": "rights changed in vectors",
    "content": "content changed in vectors",
    "thread": "threads changed in centroids",
}
"""What a change of each lane of the log waits for."""


def _waited(lane: str, changes: int, p50_s: float, p99_s: float, last_at: datetime) -> CountFigure:
    waited = f"of the day: half within {duration_text(p50_s)}, 99 % within {duration_text(p99_s)}"
    return CountFigure(_FOLLOWED[lane], changes, waited, last_at)


def _audited(points: int, owners: int, found: Mapping[str, int]) -> str:
    kinds = "".join(f"; {kind} {count:,}" for kind, count in sorted(found.items()))
    return f"findings in {points:,} points of {owners:,} owners{kinds}"


def _gaps(
    connection: Connection[TupleRow], first: date, last: date, zone: ZoneInfo, lane: str | None
) -> tuple[tuple[GapFigure, ...], tuple[GapDayFigure, ...]]:
    """Gaps by kind and by day. A leak is no gap and in neither."""
    by_day = gaps_by_day(connection, first, last, zone, lane=lane)
    open_now = {
        kind: (signals, occurrences, seen)
        for kind, signals, occurrences, seen in connection.execute(
            queries.load("metrics_open_gaps"), {"lane": lane}
        )
    }
    gaps: list[GapFigure] = []
    for kind in sorted(open_now.keys() | {each.kind for each in by_day}):
        signals, occurrences, seen = open_now.get(kind, (0, 0, None))
        changes = [each for each in by_day if each.kind == kind]
        today = [each for each in changes if each.local_day == last]
        gaps.append(
            GapFigure(
                kind=kind,
                open_count=signals,
                occurrences=occurrences,
                opened_day=sum(each.opened for each in today),
                closed_day=sum(each.closed for each in today),
                opened=sum(each.opened for each in changes),
                closed=sum(each.closed for each in changes),
                last_seen_at=seen,
            )
        )
    days = sorted({each.local_day for each in by_day})
    return tuple(gaps), tuple(
        GapDayFigure(
            day,
            sum(each.opened for each in by_day if each.local_day == day),
            sum(each.closed for each in by_day if each.local_day == day),
        )
        for day in days
    )


def _packs(connection: Connection[TupleRow], lane: str | None) -> tuple[CountFigure, ...]:
    rows = connection.execute(queries.load("metrics_pack_freshness"), {"lane": lane}).fetchall()
    return tuple(
        CountFigure(name, packs, f"{stale:,} stale; the oldest is the one dated here", oldest)
        for name, packs, stale, oldest in rows
    )


def _health_counts(health: Sequence[KnownHealth]) -> tuple[CountFigure, ...]:
    """How many checks say what. For operators a thread counts once for each lane that sees it."""
    newest: dict[str, datetime] = {}
    for each in health:
        newest[each.status] = max(each.observed_at, newest.get(each.status, each.observed_at))
    counts = Counter(each.status for each in health)
    return tuple(
        CountFigure(status, count, "", newest[status]) for status, count in counts.most_common()
    )


def _unhealthy(
    health: Sequence[KnownHealth], titles: Mapping[str, str]
) -> tuple[ThreadHealthFigure, ...]:
    """Threads that somebody has to look at, the newest finding first; as many as there are worst threads."""
    found = sorted(
        (each for each in health if each.status != HealthStatus.HEALTHY),
        key=lambda each: (each.observed_at, each.thread_id, each.lane),
        reverse=True,
    )
    return tuple(
        ThreadHealthFigure(
            thread_id=each.thread_id,
            title=titles.get(each.thread_id, each.thread_id),
            lane=each.lane,
            status=each.status,
            evidence=evidence_text(each.evidence),
            observed_at=each.observed_at,
        )
        for each in found[:WORST_THREADS]
    )


def _replay(
    database: Database, connection: Connection[TupleRow], lane: Audience | None
) -> ReplayFigure | None:
    """The newest replay. A lane learns how its own questions fared; threads and the verdict are for operators."""
    with connection.cursor(row_factory=dict_row) as cursor:
        run = cursor.execute(
            queries.load("replay_latest"), {"lane": lane, "replay_id": None}
        ).fetchone()
    if run is None:
        return None
    counts = ("replayed_at", "questions", "changed", "at_risk", "lost")
    figure = ReplayFigure(**{name: run[name] for name in counts})
    if lane is not None:
        return figure
    losses = tuple(
        LossFigure(
            lane=each.lane.value,
            query_id=str(each.query_id),
            loss=each.loss,
            old_thread_id=each.old_thread_id,
            new_thread_id=each.new_thread_id,
        )
        for each in require_replay(database, run["replay_id"]).results
        if each.loss is not None
    )
    return replace(figure, verdict=run["verdict"], losses=losses[:WORST_THREADS])
