"""How the health report reads: figures in, Markdown and HTML out.

Belongs here: wording, tables, which charts a page has, for whom.
Does not belong here: the figures (``retrieval.health_figures``), drawing (``retrieval.health_charts``), writing files, the clock.

Every text that came from a document or an event is untrusted and escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

from threadhouse.retrieval.health_charts import (
    HEIGHT,
    WIDTH,
    Chart,
    Series,
    bar_chart,
    duration_chart,
    duration_text,
    rate_chart,
    sparkline,
)
from threadhouse.retrieval.health_figures import (
    ChangeFigure,
    CountFigure,
    HealthFigures,
    RateFigure,
    ShareFigure,
    TrendFigure,
)

if TYPE_CHECKING:
    from jinja2 import Template

COLOURS: dict[str, dict[str, str]] = {
    "light": {
        "page": "#fbfbfa", "card": "#ffffff", "ink": "#1d2126", "soft": "#5c6670", "line": "#dfe3e6",
        "mark": "#1f6f8b", "range": "#b9d8e2", "good": "#1a7f4b", "bad": "#b3261e", "warn": "#8a5a00",
    },
    "dark": {
        "page": "#14171a", "card": "#1c2024", "ink": "#e6e9ec", "soft": "#9aa5af", "line": "#333a41",
        "mark": "#6cc0dc", "range": "#2f5563", "good": "#5fd295", "bad": "#ff8a80", "warn": "#f0bf5e",
    },
}  # fmt: skip
"""CSS variables of the page by colour scheme. On page and card, text has a contrast of 4.5 and marks of 3 (WCAG 2.2)."""


@dataclass(frozen=True, slots=True)
class ChartBlock:
    """A chart of the page, its legend as (colour, name), and the numbers that it shows as a table."""

    chart: Chart
    note: str
    legend: tuple[tuple[str, str], ...]
    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure at the top of the page; ``mood`` is good, bad, warn or nothing."""

    name: str
    value: str
    detail: str
    mood: str = ""


def render_markdown(figures: HealthFigures) -> str:
    """The report as Markdown, for the Dagster UI and nao.health_report.

    The UI shows tables and no pictures that are not on a server, so a trend is one character a day.
    """
    parts = [
        f"## Retrieval health, {figures.report_day}, {_md(figures.lane)}",
        f"Local days of {_md(figures.time_zone)}; the window is the {figures.window_days} days that end with this one. "
        "A trend has one character a day; a dot is a day without cases.",
        _table(
            ("at a glance", "", ""),
            [(_md(tile.name), _md(tile.value), _md(tile.detail)) for tile in tiles(figures)],
        ),
    ]
    trends = {(trend.lane, trend.metric): trend.rates for trend in figures.trends}
    changes = {(change.lane, change.metric): change for change in figures.changes}
    for lane in figures.lanes:
        of_day = {f.metric: f for f in figures.of_day if f.lane == lane}
        rows = [
            (
                f"`{figure.metric}`",
                share_text(of_day.get(figure.metric)),
                share_text(figure),
                interval_text(figure),
                target_text(figure),
                change_text(changes.get((lane, figure.metric))),
                f"`{sparkline(trends.get((lane, figure.metric), ()), top=1.0)}`",
            )
            for figure in figures.of_window
            if figure.lane == lane
        ]
        heading = (
            "rate",
            "day",
            f"{figures.window_days} days",
            "95 % interval",
            "target",
            "change",
        )
        parts += [f"### Rates: {_md(lane)}", _table((*heading, "trend"), rows)]
    opened, closed = _gaps_of_days(figures)
    parts += [
        "### Gaps by day",
        _table(
            ("gaps", f"{figures.window_days} days", "trend"),
            [
                ("opened", f"{sum(opened):,.0f}", f"`{sparkline(opened)}`"),
                ("closed", f"{sum(closed):,.0f}", f"`{sparkline(closed)}`"),
            ],
        ),
    ]
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
        colours=COLOURS,
        tiles=tiles(figures),
        sections=sections(figures),
        rate_charts=rate_charts(figures),
        other_charts=other_charts(figures),
        chart_width=WIDTH,
        chart_height=HEIGHT,
        share_text=share_text,
        interval_text=interval_text,
        target_text=target_text,
        change_text=change_text,
        moment_text=moment_text,
        count_text=count_text,
        sparkline=sparkline_points,
        of_day={(figure.lane, figure.metric): figure for figure in figures.of_day},
        trends={(trend.lane, trend.metric): trend.rates for trend in figures.trends},
        changes={(change.lane, change.metric): change for change in figures.changes},
    )


def tiles(figures: HealthFigures) -> list[Tile]:
    """What to look at first."""
    rates = [f for f in figures.of_window if f.lane == figures.lane and f.target is not None]
    moods = {"met": "good", "missed": "bad", "unsure": "warn"}
    found = [
        Tile(
            rate.metric,
            "no cases" if rate.rate is None else f"{rate.rate:.1%}",
            target_text(rate),
            moods.get(rate.verdict, ""),
        )
        for rate in rates
    ]
    open_gaps = sum(gap.open_count for gap in figures.gaps)
    opened, closed = (
        sum(gap.opened for gap in figures.gaps),
        sum(gap.closed for gap in figures.gaps),
    )
    found.append(
        Tile(
            "open gaps",
            count_text(open_gaps),
            f"{opened:,} opened, {closed:,} closed in {figures.window_days} days",
            "warn" if open_gaps else "good",
        )
    )
    if not figures.is_for_operators:
        return found
    events = sum(event.count or 0 for event in figures.security_events)
    findings = sum(audit.count or 0 for audit in figures.audits)
    broken = sum(check.count or 0 for check in figures.data_checks)
    total = next((wait for wait in figures.waits if wait.day is None), None)
    return [
        *found,
        Tile(
            "security events",
            count_text(events),
            f"in {figures.window_days} days",
            "bad" if events else "good",
        ),
        Tile(
            "audit findings",
            count_text(findings) if figures.audits else "never",
            f"in {len(figures.audits)} collections",
            ("bad" if findings else "good") if figures.audits else "",
        ),
        Tile(
            "broken expectations",
            count_text(broken) if figures.data_checks else "never",
            f"of {len(figures.data_checks)} suites",
            ("bad" if broken else "good") if figures.data_checks else "",
        ),
        Tile(
            "revokes reached vectors",
            duration_text(total.vectors_p50_s) if total else "no revokes",
            f"half of {total.revokes:,}; 99 %: {duration_text(total.vectors_p99_s)}"
            if total
            else "",
        ),
    ]


def rate_charts(figures: HealthFigures) -> list[ChartBlock]:
    """The report's own rates by day, with interval and target; a rate without any case has its place in the table alone."""
    targets = {f.metric: f for f in figures.of_window if f.lane == figures.lane}
    return [
        _rate_block(figures, trend, targets[trend.metric])
        for trend in figures.trends
        if trend.lane == figures.lane and trend.metric in targets and any(trend.days)
    ]


def _rate_block(figures: HealthFigures, trend: TrendFigure, of_window: RateFigure) -> ChartBlock:
    shares = [None if s is None else (s.rate, s.low, s.high) for s in trend.days]
    chart = rate_chart(f"{trend.metric} by day", figures.days, shares, of_window.target)
    rows = [
        (day.isoformat(), _share_text(share), f"{share.low:.1%} to {share.high:.1%}")
        for day, share in zip(figures.days, trend.days, strict=True)
        if share is not None
    ]
    return ChartBlock(
        chart, of_window.definition.meaning, (), ("day", "share", "95 % interval"), tuple(rows)
    )


def other_charts(figures: HealthFigures) -> list[ChartBlock]:
    """Gaps by day for everyone; for operators also what building cost and how long revokes waited."""
    blocks: list[ChartBlock] = []
    if any(day.opened or day.closed for day in figures.gap_days):
        opened, closed = _gaps_of_days(figures)
        series = (Series("opened", "warn", opened), Series("closed", "mark", closed))
        blocks.append(
            _block(
                bar_chart("Gaps opened and closed by day", figures.days, series),
                "a cause that came back was opened once more",
                series,
                [
                    (d.day.isoformat(), f"{d.opened:,}", f"{d.closed:,}")
                    for d in figures.gap_days
                    if d.opened or d.closed
                ],
            )
        )
    if figures.nights:
        blocks += _night_blocks(figures)
    of_days = {wait.day: wait for wait in figures.waits if wait.day is not None}
    if of_days:
        known = [of_days.get(day) for day in figures.nights_after]
        series = (
            Series("vectors, half", "mark", tuple(w and w.vectors_p50_s for w in known)),
            Series("vectors, 99 %", "bad", tuple(w and w.vectors_p99_s for w in known)),
            Series("packs, half", "good", tuple(w and w.packs_p50_s for w in known)),
            Series("packs, 99 %", "warn", tuple(w and w.packs_p99_s for w in known)),
        )
        blocks.append(
            _block(
                duration_chart("How long revokes waited, by day", figures.nights_after, series),
                "from the change to the moment at which vectors and stored packs agreed; no reader waited",
                series,
                [
                    (
                        day.isoformat(),
                        duration_text(wait.vectors_p50_s),
                        duration_text(wait.vectors_p99_s),
                        duration_text(wait.packs_p50_s),
                        duration_text(wait.packs_p99_s),
                    )
                    for day, wait in of_days.items()
                ],
            )
        )
    return blocks


def _gaps_of_days(figures: HealthFigures) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Gaps opened and closed on each day of the window."""
    known = {day.day: (day.opened, day.closed) for day in figures.gap_days}
    both = [known.get(day, (0, 0)) for day in figures.days]
    return tuple(float(day[0]) for day in both), tuple(float(day[1]) for day in both)


def _night_blocks(figures: HealthFigures) -> list[ChartBlock]:
    by_day = {night.day: night for night in figures.nights}
    known = [by_day.get(day) for day in figures.nights_after]
    seconds = (Series("seconds", "mark", tuple(n and n.seconds for n in known)),)
    texts = (
        Series("embedded", "mark", tuple(float(n.texts_embedded) if n else None for n in known)),
        Series(
            "vector writes", "warn", tuple(float(n.vector_writes) if n else None for n in known)
        ),
    )
    blocks = [
        _block(
            duration_chart("Time spent building, by day", figures.nights_after, seconds),
            "all steps and runs of the day together",
            seconds,
            [(n.day.isoformat(), duration_text(n.seconds)) for n in figures.nights],
        )
    ]
    if any(night.texts_embedded or night.vector_writes for night in figures.nights):
        blocks.append(
            _block(
                bar_chart(
                    "Texts embedded and vectors written, by day", figures.nights_after, texts
                ),
                "texts that the cache knew are not embedded",
                texts,
                [
                    (n.day.isoformat(), f"{n.texts_embedded:,}", f"{n.vector_writes:,}")
                    for n in figures.nights
                ],
            )
        )
    return blocks


def _block(
    chart: Chart, note: str, series: Sequence[Series], rows: Sequence[tuple[str, ...]]
) -> ChartBlock:
    legend = tuple((one.colour, one.name) for one in series)
    return ChartBlock(chart, note, legend, ("day", *(one.name for one in series)), tuple(rows))


def sections(figures: HealthFigures) -> list[tuple[str, tuple[CountFigure, ...]]]:
    """Lists of counts with their headings: what a lane may know of itself for a lane, all for operators."""
    for_everyone = [
        ("Gaps", _gap_counts(figures)),
        ("Thread health", figures.thread_health),
        ("Context packs", figures.packs),
        ("Recent questions asked again", _replay_counts(figures)),
    ]
    if not figures.is_for_operators:
        return for_everyone
    return [
        ("Worst threads by rate", _worst_counts(figures)),
        ("Unhealthy threads", _unhealthy_counts(figures)),
        *for_everyone,
        ("Security events", figures.security_events),
        ("Freshness", figures.freshness),
        ("How long revokes waited", _wait_counts(figures)),
        ("Vector projections", figures.projections),
        ("Projection audit", figures.audits),
        ("Data checks", figures.data_checks),
        ("Build cost by day", _night_counts(figures)),
        ("Quarantine", figures.quarantine),
        ("Last runs", figures.last_runs),
    ]


def _gap_counts(figures: HealthFigures) -> tuple[CountFigure, ...]:
    return tuple(
        CountFigure(
            gap.kind,
            gap.open_count,
            f"open, seen {gap.occurrences:,} times; {gap.opened_day:,} opened and {gap.closed_day:,} closed this day, "
            f"{gap.opened:,} and {gap.closed:,} in {figures.window_days} days",
            gap.last_seen_at,
        )
        for gap in figures.gaps
    )


def _worst_counts(figures: HealthFigures) -> tuple[CountFigure, ...]:
    return tuple(
        CountFigure(
            worst.title,
            None,
            f"{worst.rate.metric} {share_text(worst.rate)}, interval {interval_text(worst.rate)} ({worst.thread_id})",
        )
        for worst in figures.worst_threads
    )


def _unhealthy_counts(figures: HealthFigures) -> tuple[CountFigure, ...]:
    return tuple(
        CountFigure(
            each.title,
            None,
            f"{each.status} for {each.lane}: {each.evidence} ({each.thread_id})",
            each.observed_at,
        )
        for each in figures.unhealthy_threads
    )


def _replay_counts(figures: HealthFigures) -> tuple[CountFigure, ...]:
    replay = figures.replay
    if replay is None:
        return ()
    verdict = f"; {replay.verdict}" if replay.verdict else ""
    detail = f"{replay.changed:,} answers changed, {replay.lost:,} of {replay.at_risk:,} lost what they had{verdict}"
    return (
        CountFigure("questions", replay.questions, detail, replay.replayed_at),
        *(
            CountFigure(
                loss.loss,
                None,
                f"{loss.lane}, {loss.old_thread_id or 'no thread'} before, "
                f"{loss.new_thread_id or 'no thread'} now (query {loss.query_id})",
            )
            for loss in replay.losses
        ),
    )


def _wait_counts(figures: HealthFigures) -> tuple[CountFigure, ...]:
    return tuple(
        CountFigure(
            f"{figures.window_days} days" if wait.day is None else wait.day.isoformat(),
            wait.revokes,
            f"vectors {duration_text(wait.vectors_p50_s)}, 99 % {duration_text(wait.vectors_p99_s)}; packs "
            + (
                "still wait"
                if wait.packs_p50_s is None
                else f"{duration_text(wait.packs_p50_s)}, 99 % {duration_text(wait.packs_p99_s)}"
            )
            + (f"; {wait.waiting_packs:,} not yet in packs" if wait.waiting_packs else ""),
        )
        for wait in figures.waits
    )


def _night_counts(figures: HealthFigures) -> tuple[CountFigure, ...]:
    return tuple(
        CountFigure(
            night.day.isoformat(),
            night.texts_embedded,
            f"texts embedded, {night.cache_hits:,} more from the cache, {night.vector_writes:,} vector writes, "
            f"{duration_text(night.seconds)}",
        )
        for night in reversed(figures.nights)
    )


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


def change_text(change: ChangeFigure | None) -> str:
    """From the earlier to the later half of the window; empty when a half has no cases."""
    if change is None or change.earlier is None or change.later is None:
        return ""
    return f"{change.earlier.rate:.1%} to {change.later.rate:.1%}: {change.verdict}"


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


def _share_text(share: ShareFigure) -> str:
    return f"{share.rate:.1%} ({share.numerator}/{share.denominator})"


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
