"""The health report: right figures, nothing of other lanes, no markup from data."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest

from threadhouse.retrieval.health_figures import (
    CountFigure,
    GapDayFigure,
    HealthFigures,
    NightFigure,
    RateFigure,
    WaitFigure,
    change_figures,
    rate_figures,
    trend_figures,
    worst_thread_figures,
)
from threadhouse.retrieval.health_report import (
    COLOURS,
    other_charts,
    rate_charts,
    render_html,
    render_markdown,
    share_text,
    sparkline_points,
)
from threadhouse.retrieval.metrics import AGGREGATE_SCHEMA

DAY = date(2026, 11, 22)
HOSTILE = "<script>alert('x')</script> | [click](http://evil.example) `tick` **bold**"


def _row(
    metric: str,
    numerator: int,
    denominator: int | None,
    *,
    lane: str = "overall",
    thread: str = "",
    day: date = DAY,
    target: float | None = None,
) -> dict[str, object]:
    return {
        "local_day": day,
        "lane": lane,
        "thread_id": thread,
        "metric": metric,
        "numerator": numerator,
        "denominator": denominator,
        "rate": numerator / denominator if denominator else None,
        "wilson_low": 0.0 if denominator else None,
        "wilson_high": 1.0 if denominator else None,
        "requires_instrumentation": denominator is None,
        "target": target,
    }


def _daily(*rows: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=AGGREGATE_SCHEMA)


def _figures(daily: pl.DataFrame, lane: str = "overall", **more: object) -> HealthFigures:
    days = (DAY - timedelta(days=1), DAY)
    return HealthFigures(
        report_day=DAY,
        window_days=2,
        lane=lane,
        time_zone="Asia/Ho_Chi_Minh",
        days=days,
        of_day=rate_figures(daily.filter(pl.col("local_day") == DAY), lane),
        of_window=rate_figures(daily, lane),
        trends=trend_figures(daily, lane, days),
        **more,  # pyright: ignore[reportArgumentType]
    )


TWO_LANES = _daily(
    _row("thread_hit_rate", 17, 20, target=0.8),
    _row("thread_hit_rate", 11, 13, lane="employee", target=0.8),
    _row("thread_hit_rate", 6, 7, lane="customer", target=0.8),
)


@pytest.mark.parametrize("render", [render_markdown, render_html])
def test_report_states_numerator_and_denominator(render: Callable[[HealthFigures], str]) -> None:
    assert "85.0% (17/20)" in render(_figures(TWO_LANES))


@pytest.mark.parametrize("render", [render_markdown, render_html])
def test_report_of_a_lane_says_nothing_of_another(render: Callable[[HealthFigures], str]) -> None:
    page = render(
        _figures(
            TWO_LANES,
            "customer",
            security_events=(CountFigure("wrong_audience_result", 1),),
            quarantine=(CountFigure("documents", 3, "a reason"),),
        )
    )
    assert "6/7" in page
    for foreign in ("11/13", "17/20", "employee", "overall", "wrong_audience_result", "a reason"):
        assert foreign not in page


def test_html_shows_hostile_text_and_never_as_markup() -> None:
    page = render_html(_figures(TWO_LANES, quarantine=(CountFigure(HOSTILE, 1, HOSTILE),)))
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_html_asks_for_nothing_from_anywhere() -> None:
    page = render_html(_figures(TWO_LANES))
    for reference in ("http:", "https:", "src=", "href=", "@import", "url(", "<script", "xmlns"):
        assert reference not in page
    assert "prefers-color-scheme: dark" in page


def test_markdown_shows_hostile_text_inside_its_cell() -> None:
    text = render_markdown(_figures(TWO_LANES, quarantine=(CountFigure(HOSTILE, 1),)))
    (line,) = [line for line in text.splitlines() if "alert" in line]
    assert "<" not in line
    assert "](" not in line
    assert line.replace("\\|", "").count("|") == 5


def test_markdown_renders_as_one_table_a_section_with_nothing_active() -> None:
    from markdown_it import MarkdownIt

    text = render_markdown(_figures(TWO_LANES, quarantine=(CountFigure(HOSTILE, 1),)))
    html = MarkdownIt("commonmark").enable("table").render(text)
    assert "<a " not in html
    assert "<script" not in html
    assert "<strong>" not in html


@pytest.mark.parametrize(
    ("rate", "low", "high", "verdict"),
    [
        (0.95, 0.9, 0.99, "met"),
        (0.5, 0.4, 0.6, "missed"),
        (0.9, 0.7, 0.97, "unsure"),
        (None, None, None, "no data"),
    ],
)
def test_verdict_weighs_the_interval_against_the_target(
    rate: float | None, low: float | None, high: float | None, verdict: str
) -> None:
    figure = RateFigure("thread_hit_rate", "overall", 1, 2, rate, low, high, 0.8, False)
    assert figure.verdict == verdict


def test_unknown_and_empty_rates_read_differently() -> None:
    figures = {
        figure.metric: share_text(figure)
        for figure in rate_figures(
            _daily(_row("wrong_thread_rate", 0, None), _row("user_reject_rate", 0, 0)), "overall"
        )
    }
    assert figures == {"wrong_thread_rate": "nobody reports", "user_reject_rate": "no cases"}


def test_window_adds_its_days() -> None:
    daily = _daily(
        _row("thread_hit_rate", 1, 2, day=DAY - timedelta(days=1)), _row("thread_hit_rate", 8, 8)
    )
    (figure,) = rate_figures(daily, "overall")
    assert (figure.numerator, figure.denominator) == (9, 10)


def test_trend_is_broken_where_a_day_has_no_rate() -> None:
    assert sparkline_points([0.0, None, 1.0, 0.5], 3.0, 10.0) == [
        [(0.0, 10.0)],
        [(2.0, 0.0), (3.0, 5.0)],
    ]


def test_worst_thread_is_the_surely_bad_one_and_not_the_unlucky_one() -> None:
    daily = _daily(
        _row("wrong_thread_rate", 1, 1, thread="unlucky"),
        _row("wrong_thread_rate", 30, 60, thread="bad"),
        _row("wrong_thread_rate", 0, 60, thread="good"),
    )
    ranked = [thread.thread_id for thread in worst_thread_figures(daily, {})]
    assert ranked == ["bad", "unlucky"]


def test_figures_are_json_without_nan() -> None:
    figures = _figures(
        TWO_LANES, packs=(CountFigure("customer", 3, "", datetime(2026, 11, 22, tzinfo=UTC)),)
    )
    text = json.dumps(figures.to_json(), allow_nan=False)
    assert '"last_at": "2026-11-22T00:00:00+00:00"' in text


def test_report_of_a_window_nobody_counted_says_so() -> None:
    assert "No day of this window has been counted yet" in render_html(_figures(_daily()))


def _over_two_days() -> HealthFigures:
    """Rates on two days, gaps, a night and revokes."""
    daily = _daily(
        _row("thread_hit_rate", 1, 2, day=DAY - timedelta(days=1), target=0.8),
        _row("thread_hit_rate", 8, 8, target=0.8),
        _row("wrong_thread_rate", 0, 0),
    )
    return _figures(
        daily,
        gap_days=(GapDayFigure(DAY, 4, 1),),
        nights=(NightFigure(DAY, 12.5, 108, 7, 138),),
        waits=(
            WaitFigure(DAY, 3, 60.0, 3600.0, 90.0, None, 1),
            WaitFigure(None, 3, 60.0, 3600.0, 90.0, None, 1),
        ),
    )


def test_a_chart_shows_its_numbers_as_a_table_as_well() -> None:
    (chart,) = rate_charts(_over_two_days())
    assert chart.rows == (
        ("2026-11-21", "50.0% (1/2)", "0.0% to 100.0%"),
        ("2026-11-22", "100.0% (8/8)", "0.0% to 100.0%"),
    )


def test_a_drawing_says_what_it_shows_to_those_who_do_not_see_it() -> None:
    page = render_html(_over_two_days())
    assert '<title id="r1t">thread_hit_rate by day</title>' in page
    assert "2 of 2 days have figures, from 50.0% to 100.0%; the last is 100.0%." in page
    assert page.count('role="img" aria-labelledby') == page.count('<svg class="chart"') == 5


def test_operators_get_gaps_costs_and_waits_by_day() -> None:
    rows = {block.chart.title: block.rows for block in other_charts(_over_two_days())}
    assert rows == {
        "Gaps opened and closed by day": (("2026-11-22", "4", "1"),),
        "Time spent building, by day": (("2026-11-22", "12.5 s"),),
        "Texts embedded and vectors written, by day": (("2026-11-22", "108", "138"),),
        "How long revokes waited, by day": (("2026-11-22", "1 min", "1 h", "1.5 min", ""),),
    }


def test_markdown_has_a_trend_of_a_character_a_day() -> None:
    text = render_markdown(_over_two_days())
    assert "| `▅█` |" in text
    assert "| opened | 4 | `▁█` |" in text


@pytest.mark.parametrize(
    ("early", "late", "metric", "verdict"),
    [
        ((10, 100), (90, 100), "thread_hit_rate", "better"),
        ((10, 100), (90, 100), "wrong_thread_rate", "worse"),
        ((90, 100), (10, 100), "wrong_thread_rate", "better"),
        ((1, 2), (2, 2), "thread_hit_rate", "unclear"),
    ],
)
def test_a_change_is_called_one_when_the_intervals_part(
    early: tuple[int, int], late: tuple[int, int], metric: str, verdict: str
) -> None:
    days = (DAY - timedelta(days=9), DAY - timedelta(days=4), DAY)
    empty = _row(metric, 0, 0, day=days[1])
    frame = _daily(_row(metric, *early, day=days[0]), empty, _row(metric, *late, day=days[2]))
    (change,) = change_figures(frame, "overall")
    assert change.verdict == verdict


def test_one_day_alone_is_no_change() -> None:
    (change,) = change_figures(_daily(_row("thread_hit_rate", 1, 2)), "overall")
    assert (change.earlier, change.verdict) == (None, "no data")


def _luminance(colour: str) -> float:
    """Relative luminance of #rrggbb, WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", COLOURS)
def test_colours_can_be_told_from_the_page_in_light_and_in_dark(scheme: str) -> None:
    colours = COLOURS[scheme]
    needed = dict.fromkeys(("ink", "soft", "good", "bad", "warn"), 4.5) | {"mark": 3.0}
    faint: list[str] = []
    for ground in ("page", "card"):
        for name, least in needed.items():
            light, dark = sorted(
                (_luminance(colours[name]), _luminance(colours[ground])), reverse=True
            )
            if (light + 0.05) / (dark + 0.05) < least:
                faint.append(f"{name} on {ground}")
    assert faint == []


def test_a_night_is_shown_on_the_day_on_which_it_ran() -> None:
    """The night that built the last day of a window runs on the day after, and is in the chart."""
    figures = _over_two_days()
    assert figures.nights_after == (DAY, DAY + timedelta(days=1))
    titles = {block.chart.title: block.chart.description for block in other_charts(figures)}
    assert "last 12.5 s" in titles["Time spent building, by day"]
