"""The retrieval health report: figures in, Markdown and HTML out.

Belongs here: what a report says, for whom, and how it reads.
Does not belong here: collecting figures (``stores.health_figures``), writing files, the clock.

A lane's report speaks of that lane alone: no thread, no other lane, no incident, nothing about the
machinery. ``overall`` is the operators' report and shows all. Every text that came from a document
or an event is untrusted and escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from functools import cache
from typing import TYPE_CHECKING, cast

import polars as pl

from threadhouse.retrieval.metrics import OVERALL, RATES, RateDefinition, sum_rates

if TYPE_CHECKING:
    from jinja2 import Template

    from threadhouse.retrieval.models import Json

DEFAULT_WINDOW_DAYS = 28
"""Four whole weeks: every weekday counts equally often."""

WORST_THREADS = 10
"""How many threads a report names: a screen of a phone."""

_BY_NAME = {rate.name: rate for rate in RATES}


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
class TrendFigure:
    """One rate of one lane day by day; None where there was nothing to divide by."""

    metric: str
    lane: str
    rates: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class ThreadFigure:
    """A thread's worst rate over the window."""

    thread_id: str
    title: str
    rate: RateFigure


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
    worst_threads: tuple[ThreadFigure, ...] = ()
    open_gaps: tuple[CountFigure, ...] = ()
    packs: tuple[CountFigure, ...] = ()
    security_events: tuple[CountFigure, ...] = ()
    projections: tuple[CountFigure, ...] = ()
    quarantine: tuple[CountFigure, ...] = ()
    last_runs: tuple[CountFigure, ...] = ()

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
        return cast("dict[str, Json]", _plain(asdict(self)))


def rate_figures(daily: pl.DataFrame, lane: str) -> tuple[RateFigure, ...]:
    """Rates summed over the days of a frame, all threads: one lane's, or every lane's for `OVERALL`."""
    summed = sum_rates(_of_lane(daily, lane).filter(pl.col("thread_id") == ""))
    rows = {(row["lane"], row["metric"]): row for row in summed.iter_rows(named=True)}
    lanes = sorted({row_lane for row_lane, _ in rows}, key=lambda name: (name != OVERALL, name))
    return tuple(
        _figure(rows[name, rate.name])
        for name in lanes
        for rate in RATES
        if (name, rate.name) in rows
    )


def trend_figures(daily: pl.DataFrame, lane: str, days: Sequence[date]) -> tuple[TrendFigure, ...]:
    """Each rate of the days in order; a day that was never counted is a gap like an empty one."""
    rows = {
        (row["lane"], row["metric"], row["local_day"]): row["rate"]
        for row in _of_lane(daily, lane).filter(pl.col("thread_id") == "").iter_rows(named=True)
    }
    lanes = sorted({row_lane for row_lane, _, _ in rows})
    return tuple(
        TrendFigure(rate.name, name, tuple(rows.get((name, rate.name, day)) for day in days))
        for name in lanes
        for rate in RATES
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


def render_markdown(figures: HealthFigures) -> str:
    """The report as Markdown, for the Dagster UI and nao.health_report."""
    parts = [
        f"## Retrieval health, {figures.report_day}, {_md(figures.lane)}",
        f"Local days of {_md(figures.time_zone)}; the window is the {figures.window_days} days "
        f"that end with this one.",
    ]
    for lane in figures.lanes:
        of_day = {f.metric: f for f in figures.of_day if f.lane == lane}
        rows = [
            (
                f"`{figure.metric}`",
                share_text(of_day.get(figure.metric)),
                share_text(figure),
                interval_text(figure),
                target_text(figure),
            )
            for figure in figures.of_window
            if figure.lane == lane
        ]
        heading = ("rate", "day", f"{figures.window_days} days", "95 % interval", "target")
        parts += [f"### Rates: {_md(lane)}", _table(heading, rows)]
    if figures.worst_threads:
        rows = [
            (_md(t.title), f"`{t.rate.metric}`", share_text(t.rate), interval_text(t.rate))
            for t in figures.worst_threads
        ]
        parts += ["### Worst threads", _table(("thread", "rate", "share", "95 % interval"), rows)]
    for title, counts in sections(figures):
        rows = [
            (_md(c.name), count_text(c.count), _md(c.detail), moment_text(c.last_at))
            for c in counts
        ]
        empty = "None." if not rows else _table(("what", "count", "detail", "last"), rows)
        parts += [f"### {title}", empty]
    return "\n\n".join(parts) + "\n"


def render_html(figures: HealthFigures) -> str:
    """The report as one HTML page that needs nothing else: no network, no script."""
    return _template().render(
        figures=figures,
        sections=sections(figures),
        share_text=share_text,
        interval_text=interval_text,
        target_text=target_text,
        moment_text=moment_text,
        count_text=count_text,
        sparkline=sparkline_points,
        of_day={(figure.lane, figure.metric): figure for figure in figures.of_day},
        trends={(trend.lane, trend.metric): trend.rates for trend in figures.trends},
    )


def sections(figures: HealthFigures) -> list[tuple[str, tuple[CountFigure, ...]]]:
    """Lists of counts with their headings: two for a lane, all for operators."""
    for_everyone = [("Open gaps", figures.open_gaps), ("Context packs", figures.packs)]
    if not figures.is_for_operators:
        return for_everyone
    return [
        *for_everyone,
        ("Security events", figures.security_events),
        ("Vector projections", figures.projections),
        ("Quarantine", figures.quarantine),
        ("Last runs", figures.last_runs),
    ]


def share_text(figure: RateFigure | None) -> str:
    """A rate with its counts, or why there is none.

    Example:
        >>> share_text(None)
        'not counted'
    """
    if figure is None:
        return "not counted"
    if figure.requires_instrumentation:
        return "nobody reports"
    if figure.rate is None:
        return "no cases"
    return f"{figure.rate:.1%} ({figure.numerator}/{figure.denominator})"


def interval_text(figure: RateFigure) -> str:
    """The ends of the interval, empty without one."""
    if figure.low is None or figure.high is None:
        return ""
    return f"{figure.low:.1%} to {figure.high:.1%}"


def target_text(figure: RateFigure) -> str:
    """The target and whether it is met, empty without one."""
    return "" if figure.target is None else f"above {figure.target:.0%}: {figure.verdict}"


def count_text(count: int | None) -> str:
    """A count with separators."""
    return "" if count is None else f"{count:,}"


def moment_text(moment: datetime | None) -> str:
    """An instant to the minute."""
    return "" if moment is None else moment.strftime("%Y-%m-%d %H:%M UTC")


def sparkline_points(
    rates: Sequence[float | None], width: float = 120.0, height: float = 28.0
) -> list[list[tuple[float, float]]]:
    """Runs of points for an SVG polyline, y from 0 % at the bottom to 100 % at the top.

    A day without a rate ends a run: a line drawn across it would invent a figure.
    """
    step = width / max(len(rates) - 1, 1)
    runs: list[list[tuple[float, float]]] = [[]]
    for index, rate in enumerate(rates):
        if rate is None:
            runs.append([])
        else:
            runs[-1].append((round(index * step, 1), round(height * (1 - rate), 1)))
    return [run for run in runs if run]


def _of_lane(daily: pl.DataFrame, lane: str) -> pl.DataFrame:
    return daily if lane == OVERALL else daily.filter(pl.col("lane") == lane)


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


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


_MARKDOWN_ESCAPES = str.maketrans(
    {character: f"\\{character}" for character in "\\`*_{}[]()#+!|~$"}
    | {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " ", "\r": " "}
)


def _md(text: str) -> str:
    """Untrusted text as literal text of a Markdown table cell; a bare address becomes no link."""
    return text.translate(_MARKDOWN_ESCAPES).replace("://", ":&#47;&#47;").replace("@", "&#64;")


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in cast("dict[str, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in cast("Sequence[object]", value)]
    return value.isoformat() if isinstance(value, date) else value


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    from threadhouse.retrieval.health_report_page import PAGE

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(PAGE)
