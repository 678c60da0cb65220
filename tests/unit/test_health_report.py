"""The health report: right figures, nothing of other lanes, no markup from data."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest

from threadhouse.retrieval.health_report import (
    CountFigure,
    HealthFigures,
    RateFigure,
    rate_figures,
    render_html,
    render_markdown,
    share_text,
    sparkline_points,
    trend_figures,
    worst_thread_figures,
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
    for reference in ("http:", "https:", "src=", "href=", "@import", "url("):
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
