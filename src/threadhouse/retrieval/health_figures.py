"""What a health report says of a day and of the window that it ends.

Belongs here: the figures, and working them out of stored rates: sums, trends, changes, worst threads.
Does not belong here: collecting them (``stores.health_figures``), how they read (``retrieval.health_report``), the clock.

A lane's figures speak of that lane alone: no thread, no other lane, no incident, nothing about the machinery. ``overall`` is the
operators' report and shows all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, cast

import polars as pl

from threadhouse.retrieval.json_fields import json_fields
from threadhouse.retrieval.metrics import COUNTED, OVERALL, RateDefinition, sum_rates

if TYPE_CHECKING:
    from threadhouse.retrieval.models import Json

DEFAULT_WINDOW_DAYS = 28
"""Four whole weeks: every weekday counts equally often."""

WORST_THREADS = 10
"""How many threads a report names: a screen of a phone."""

LONGEST_EVIDENCE_CHARS = 300
"""Three lines on a screen; all of it stands in nao.health_signal."""

_BY_NAME = {rate.name: rate for rate in COUNTED}


@dataclass(frozen=True, slots=True)
class RateFigure:
    """One rate over some days. ``denominator`` None means that nobody reported what it needs."""

    metric: str
    lane: str
    numerator: int
    denominator: int | None
    rate: float | None
    low: float | None
    high: float | None
    target: float | None
    requires_instrumentation: bool

    @property
    def definition(self) -> RateDefinition:
        """What the rate divides by what."""
        return _BY_NAME[self.metric]

    @property
    def verdict(self) -> str:
        """Whether the target is met: ``met``, ``missed``, ``unsure``, ``no data``, ``no target``.

        ``unsure`` when the interval holds the target: the day may have been luck, good or bad.
        """
        if self.target is None:
            return "no target"
        if self.rate is None or self.low is None or self.high is None:
            return "no data"
        if self.low <= self.target <= self.high:
            return "unsure"
        return "met" if self.rate > self.target else "missed"


@dataclass(frozen=True, slots=True)
class ShareFigure:
    """Part of a whole with its 95 % interval; the whole is 1 or more."""

    numerator: int
    denominator: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class TrendFigure:
    """One rate of one lane day by day; None where there was nothing to divide by."""

    metric: str
    lane: str
    days: tuple[ShareFigure | None, ...]

    @property
    def rates(self) -> tuple[float | None, ...]:
        """The rates alone."""
        return tuple(None if share is None else share.rate for share in self.days)


@dataclass(frozen=True, slots=True)
class ChangeFigure:
    """One rate of one lane over the earlier and over the later half of the days that had cases; None where a half has none."""

    metric: str
    lane: str
    earlier: ShareFigure | None
    later: ShareFigure | None

    @property
    def verdict(self) -> str:
        """``better``, ``worse``, ``unclear`` while the two intervals overlap, ``no data`` when a half has none."""
        if self.earlier is None or self.later is None:
            return "no data"
        if self.earlier.low <= self.later.high and self.later.low <= self.earlier.high:
            return "unclear"
        rose = self.later.rate > self.earlier.rate
        return "better" if rose == _BY_NAME[self.metric].is_higher_better else "worse"


@dataclass(frozen=True, slots=True)
class ThreadFigure:
    """A thread's worst rate over the window."""

    thread_id: str
    title: str
    rate: RateFigure


@dataclass(frozen=True, slots=True)
class ThreadHealthFigure:
    """A thread that is not healthy for a lane; ``evidence`` is a sentence of figures."""

    thread_id: str
    title: str
    lane: str
    status: str
    evidence: str
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class GapFigure:
    """Gaps of one kind: how many are open now, and how many were opened (again) and closed on the day and in the window."""

    kind: str
    open_count: int
    occurrences: int
    opened_day: int
    closed_day: int
    opened: int
    closed: int
    last_seen_at: datetime | None


@dataclass(frozen=True, slots=True)
class GapDayFigure:
    """Gaps of all kinds that were opened (again) and closed on one local day."""

    day: date
    opened: int
    closed: int


@dataclass(frozen=True, slots=True)
class NightFigure:
    """What building cost on one local day, all steps and runs together."""

    day: date
    seconds: float
    texts_embedded: int
    cache_hits: int
    vector_writes: int


@dataclass(frozen=True, slots=True)
class WaitFigure:
    """How long revokes of one local day, or of all days (None), waited for vectors and for stored packs to agree.

    No reader waited for either: rights are read from the source with every answer. ``waiting_packs`` still wait.
    """

    day: date | None
    revokes: int
    vectors_p50_s: float
    vectors_p99_s: float
    packs_p50_s: float | None
    packs_p99_s: float | None
    waiting_packs: int


@dataclass(frozen=True, slots=True)
class LossFigure:
    """A recent question that would lose the answer it had."""

    lane: str
    query_id: str
    loss: str
    old_thread_id: str | None
    new_thread_id: str | None


@dataclass(frozen=True, slots=True)
class ReplayFigure:
    """The newest replay of recent questions, as far as the report's lane asked them. ``verdict`` is for operators."""

    replayed_at: datetime
    questions: int
    changed: int
    at_risk: int
    lost: int
    verdict: str | None = None
    losses: tuple[LossFigure, ...] = ()


@dataclass(frozen=True, slots=True)
class CountFigure:
    """A number of things of one kind (None where one thing is meant); ``last_at`` is the newest."""

    name: str
    count: int | None
    detail: str = ""
    last_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class HealthFigures:
    """Everything one report says. Tuples that a lane may not see are empty in its report."""

    report_day: date
    window_days: int
    lane: str
    time_zone: str
    days: tuple[date, ...]
    of_day: tuple[RateFigure, ...]
    of_window: tuple[RateFigure, ...]
    trends: tuple[TrendFigure, ...]
    changes: tuple[ChangeFigure, ...] = ()
    gaps: tuple[GapFigure, ...] = ()
    gap_days: tuple[GapDayFigure, ...] = ()
    thread_health: tuple[CountFigure, ...] = ()
    packs: tuple[CountFigure, ...] = ()
    replay: ReplayFigure | None = None
    worst_threads: tuple[ThreadFigure, ...] = ()
    unhealthy_threads: tuple[ThreadHealthFigure, ...] = ()
    security_events: tuple[CountFigure, ...] = ()
    freshness: tuple[CountFigure, ...] = ()
    waits: tuple[WaitFigure, ...] = ()
    projections: tuple[CountFigure, ...] = ()
    audits: tuple[CountFigure, ...] = ()
    data_checks: tuple[CountFigure, ...] = ()
    nights: tuple[NightFigure, ...] = ()
    quarantine: tuple[CountFigure, ...] = ()
    last_runs: tuple[CountFigure, ...] = ()

    @property
    def nights_after(self) -> tuple[date, ...]:
        """Local days on which the nights of `days` run: a night builds what its day left, and runs the day after."""
        return tuple(day + timedelta(days=1) for day in self.days)

    @property
    def is_for_operators(self) -> bool:
        """Whether the report may speak of more than one lane."""
        return self.lane == OVERALL

    @property
    def lanes(self) -> tuple[str, ...]:
        """Lanes with rates, ``overall`` first."""
        found = dict.fromkeys(figure.lane for figure in self.of_window)
        return tuple(sorted(found, key=lambda lane: (lane != OVERALL, lane)))

    def to_json(self) -> dict[str, Json]:
        """The figures for nao.health_report; instants and days as ISO 8601."""
        return json_fields(self)


def rate_figures(daily: pl.DataFrame, lane: str) -> tuple[RateFigure, ...]:
    """Rates summed over the days of a frame, all threads: one lane's, or every lane's for `OVERALL`."""
    summed = sum_rates(_of_lane(daily, lane).filter(pl.col("thread_id") == ""))
    rows = {(row["lane"], row["metric"]): row for row in summed.iter_rows(named=True)}
    lanes = sorted({row_lane for row_lane, _ in rows}, key=lambda name: (name != OVERALL, name))
    return tuple(
        _figure(rows[name, rate.name])
        for name in lanes
        for rate in COUNTED
        if (name, rate.name) in rows
    )


def trend_figures(daily: pl.DataFrame, lane: str, days: Sequence[date]) -> tuple[TrendFigure, ...]:
    """Each rate of the days in order; a day that was never counted is a gap like an empty one."""
    rows = {
        (row["lane"], row["metric"], row["local_day"]): _share(row)
        for row in _of_lane(daily, lane).filter(pl.col("thread_id") == "").iter_rows(named=True)
    }
    lanes = sorted({row_lane for row_lane, _, _ in rows})
    return tuple(
        TrendFigure(rate.name, name, tuple(rows.get((name, rate.name, day)) for day in days))
        for name in lanes
        for rate in COUNTED
    )


def change_figures(daily: pl.DataFrame, lane: str) -> tuple[ChangeFigure, ...]:
    """Each rate over the earlier and over the later half of the days on which it had cases; a day in the middle is late."""
    same = ("lane", "metric")
    rates = _of_lane(daily, lane).filter((pl.col("thread_id") == "") & (pl.col("denominator") > 0))
    is_early = pl.col("local_day").rank("ordinal").over(same) <= pl.len().over(same) // 2
    earlier, later = (
        {(row["lane"], row["metric"]): _share(row) for row in sum_rates(half).iter_rows(named=True)}
        for half in (rates.filter(is_early), rates.filter(~is_early))
    )
    return tuple(
        ChangeFigure(rate.name, name, earlier.get((name, rate.name)), later[name, rate.name])
        for name in sorted({name for name, _ in later})
        for rate in COUNTED
        if (name, rate.name) in later
    )


def worst_thread_figures(daily: pl.DataFrame, titles: dict[str, str]) -> tuple[ThreadFigure, ...]:
    """Threads by how bad their worst rate surely is, over all lanes.

    "Surely" is the end of the interval nearer to good: 1 bad answer of 1 ranks below 30 of 60.
    """
    threads = daily.filter((pl.col("thread_id") != "") & (pl.col("lane") == OVERALL))
    worst: dict[str, tuple[float, RateFigure]] = {}
    for row in sum_rates(threads).iter_rows(named=True):
        figure = _figure(row)
        if figure.low is None or figure.high is None:
            continue
        badness = 1 - figure.high if figure.definition.is_higher_better else figure.low
        if badness > worst.get(row["thread_id"], (0.0, None))[0]:
            worst[row["thread_id"]] = (badness, figure)
    ranked = sorted(worst.items(), key=lambda item: (-item[1][0], item[0]))
    return tuple(
        ThreadFigure(thread_id, titles.get(thread_id, thread_id), figure)
        for thread_id, (_, figure) in ranked[:WORST_THREADS]
    )


def evidence_text(evidence: Mapping[str, Json]) -> str:
    """Evidence as one line: names and plain values, those inside of objects as well; lists are counted.

    Example:
        >>> evidence_text({"cohesion": 0.71234, "thresholds": {"enter": 0.8}, "units": ["a", "b"]})
        'cohesion 0.712, thresholds enter 0.8, units 2 entries'
    """
    text = ", ".join(_evidence_parts(evidence))
    return text if len(text) <= LONGEST_EVIDENCE_CHARS else f"{text[:LONGEST_EVIDENCE_CHARS]}…"


def _evidence_parts(evidence: Mapping[str, Json], prefix: str = "") -> Iterator[str]:
    for name, value in evidence.items():
        said = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _evidence_parts(value, f"{said} ")
        elif isinstance(value, list):
            yield f"{said} {len(value)} entries"
        elif isinstance(value, float):
            yield f"{said} {value:.3g}"
        elif value is not None:
            yield f"{said} {value}"


def _of_lane(daily: pl.DataFrame, lane: str) -> pl.DataFrame:
    return daily if lane == OVERALL else daily.filter(pl.col("lane") == lane)


def _share(row: Mapping[str, object]) -> ShareFigure | None:
    if row["rate"] is None:
        return None
    return ShareFigure(
        numerator=cast("int", row["numerator"]),
        denominator=cast("int", row["denominator"]),
        rate=cast("float", row["rate"]),
        low=cast("float", row["wilson_low"]),
        high=cast("float", row["wilson_high"]),
    )


def _figure(row: dict[str, object]) -> RateFigure:
    return RateFigure(
        metric=cast("str", row["metric"]),
        lane=cast("str", row["lane"]),
        numerator=cast("int", row["numerator"]),
        denominator=cast("int | None", row["denominator"]),
        rate=cast("float | None", row["rate"]),
        low=cast("float | None", row["wilson_low"]),
        high=cast("float | None", row["wilson_high"]),
        target=cast("float | None", row["target"]),
        requires_instrumentation=cast("bool", row["requires_instrumentation"]),
    )
