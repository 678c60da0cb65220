"""The eight rates on hand-made days, their intervals, and docs/metrics.md against the code."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from scipy.stats import binomtest

from threadhouse.retrieval.events import EVENT_SCHEMA
from threadhouse.retrieval.local_days import day_bounds, local_day
from threadhouse.retrieval.metrics import (
    AGGREGATE_SCHEMA,
    COUNTED,
    LANES,
    sum_rates,
    wilson_interval,
)
from warehouse_house import count_events, uuid_of, with_local_day

DAY = date(2026, 11, 16)
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"

Row = dict[str, object]


def _event(kind: str, query: str | None, **fields: object) -> Row:
    return {
        "type": kind,
        "query_id": query and uuid_of(query),
        "lane": "employee",
        "occurred_at": NOON,
        # The day of its query, which these tests ask at noon.
        "attributed_at": NOON,
        "ingested_at": NOON,
        "event_version": 2,
        **fields,
    }


def _frame(*rows: Row, day: date = DAY) -> pl.DataFrame:
    complete = [
        {"event_id": uuid_of(f"e{n:03}"), "local_day": day, **row} for n, row in enumerate(rows)
    ]
    schema = {**EVENT_SCHEMA, "local_day": pl.Date}
    return pl.DataFrame(
        [{name: row.get(name) for name in schema} for row in complete], schema=schema
    )


def _cell(frame: pl.DataFrame, metric: str, lane: str = "overall", thread: str = "") -> Row:
    return frame.row(
        by_predicate=(pl.col("metric") == metric)
        & (pl.col("lane") == lane)
        & (pl.col("thread_id") == thread),
        named=True,
    )


def _counts(frame: pl.DataFrame, metric: str, lane: str = "overall", thread: str = "") -> object:
    cell = _cell(frame, metric, lane, thread)
    return cell["numerator"], cell["denominator"]


TWO_QUERIES = (
    _event("query", "q1", resolution_path="thread", thread_id="t1"),
    _event("query", "q2", resolution_path="fallback"),
)


@pytest.mark.parametrize(
    ("metric", "follow_ups", "expected"),
    [
        ("thread_hit_rate", (), (1, 2)),
        ("fallback_vector_rate", (), (1, 2)),
        (
            "context_sufficiency_rate",
            (
                _event("sufficiency_verdict", "q1", sufficient=True),
                _event("sufficiency_verdict", "q2", sufficient=False),
            ),
            (1, 2),
        ),
        ("wrong_thread_rate", (_event("wrong_thread", "q1"), _event("wrong_thread", "q2")), (1, 1)),
        (
            "missing_thread_rate",
            (
                _event("missing_thread_confirmed", "q2"),
                _event("sufficiency_verdict", "q1", sufficient=True),
            ),
            (1, 2),
        ),
        (
            "noisy_context_rate",
            (
                _event("pack_delivered", "q1"),
                _event("noisy_context", "q1"),
                _event("noisy_context", "q2"),
            ),
            (1, 1),
        ),
        (
            "noisy_context_rate",
            (
                _event("pack_delivered", "q1"),
                _event("noisy_unit", "q1", unit_address="Law/1"),
                _event("noisy_unit", "q1", unit_address="Law/2"),
            ),
            (1, 1),
        ),
        (
            "agent_extra_search_rate",
            (
                _event("pack_delivered", "q1"),
                _event("pack_delivered", "q2"),
                _event("extra_search", "q2"),
            ),
            (1, 2),
        ),
        (
            "user_reject_rate",
            (
                _event("suggestion", "q2", thread_id="t1"),
                _event("suggestion", "q2", thread_id="t2"),
                _event("rejection", "q2", thread_id="t2"),
                _event("rejection", "q2", thread_id="t9"),
            ),
            (1, 2),
        ),
    ],
)
def test_rate_divides_exactly_what_the_docs_say(
    metric: str, follow_ups: tuple[Row, ...], expected: tuple[int, int]
) -> None:
    rates = count_events(_frame(*TWO_QUERIES, *follow_ups), [DAY])
    assert _counts(rates, metric) == expected


def test_day_without_events_has_every_lane_and_rate_with_null_and_not_zero() -> None:
    rates = count_events(_frame(), [DAY])
    assert rates.height == len(LANES) * len(COUNTED)
    assert rates["rate"].null_count() == rates.height
    assert set(rates["denominator"]) == {0}
    assert not rates["requires_instrumentation"].any()


def test_unreported_denominator_is_unknown_and_asks_for_instrumentation() -> None:
    cell = _cell(count_events(_frame(*TWO_QUERIES), [DAY]), "wrong_thread_rate")
    assert (cell["denominator"], cell["rate"], cell["requires_instrumentation"]) == (
        None,
        None,
        True,
    )


def test_last_verdict_wins_whatever_the_order_of_arrival() -> None:
    earlier = _event("sufficiency_verdict", "q1", sufficient=True, event_id=uuid_of("v1"))
    later = _event(
        "sufficiency_verdict",
        "q1",
        sufficient=False,
        event_id=uuid_of("v2"),
        occurred_at=NOON + timedelta(hours=1),
    )
    rates = count_events(_frame(later, earlier, *TWO_QUERIES), [DAY])
    assert _counts(rates, "context_sufficiency_rate") == (0, 1)


def test_smaller_id_wins_of_two_query_events_of_one_instant_whatever_their_order() -> None:
    smaller, larger = sorted([uuid_of("a"), uuid_of("b")])
    by_thread = _event("query", "q1", event_id=smaller, resolution_path="thread", thread_id="t1")
    by_search = _event("query", "q1", event_id=larger, resolution_path="fallback")
    for events in ((by_thread, by_search), (by_search, by_thread)):
        rates = count_events(_frame(*events), [DAY])
        assert _counts(rates, "thread_hit_rate") == (1, 1)
        assert _counts(rates, "fallback_vector_rate") == (0, 1)


def test_follow_up_takes_lane_and_thread_from_its_query() -> None:
    stray = _event("wrong_thread", "q1", lane="customer", thread_id="t9")
    rates = count_events(_frame(*TWO_QUERIES, stray), [DAY])
    assert _counts(rates, "wrong_thread_rate", "employee", "t1") == (1, 1)
    assert _counts(rates, "wrong_thread_rate", "customer") == (0, 0)


def test_event_of_an_unknown_query_counts_nowhere() -> None:
    rates = count_events(
        _frame(_event("wrong_thread", "q7"), _event("pack_delivered", "q7")), [DAY]
    )
    assert rates["numerator"].sum() == 0
    assert set(rates["denominator"]) == {0}


def test_no_rate_is_ever_nan_or_infinite() -> None:
    rates = count_events(_frame(*TWO_QUERIES), [DAY, DAY + timedelta(days=1)])
    shares = rates.select("rate", "wilson_low", "wilson_high").unpivot()["value"].drop_nulls()
    assert shares.is_between(0, 1).all()


def test_result_has_the_declared_schema() -> None:
    assert dict(count_events(_frame(*TWO_QUERIES), [DAY]).schema) == dict(AGGREGATE_SCHEMA)


def test_range_adds_counts_and_never_averages_rates() -> None:
    second = DAY + timedelta(days=1)
    hits = [_event("query", f"h{n}", resolution_path="thread", thread_id="t1") for n in range(9)]
    daily = pl.concat(
        [
            count_events(_frame(*TWO_QUERIES), [DAY]),
            count_events(_frame(*hits, day=second), [second]),
        ]
    )
    cell = _cell(sum_rates(daily), "thread_hit_rate")
    assert (cell["numerator"], cell["denominator"], cell["rate"]) == (10, 11, 10 / 11)


def test_range_without_any_report_still_asks_for_instrumentation() -> None:
    cell = _cell(sum_rates(count_events(_frame(*TWO_QUERIES), [DAY])), "wrong_thread_rate")
    assert (cell["denominator"], cell["requires_instrumentation"]) == (None, True)


@pytest.mark.parametrize(
    ("hits", "n"), [(0, 1), (1, 1), (0, 7), (7, 7), (1, 2), (3, 10), (80, 100), (5, 100_000)]
)
def test_wilson_interval_equals_scipy(hits: int, n: int) -> None:
    low, high = wilson_interval(pl.col("k"), pl.col("n"))
    row = pl.DataFrame({"k": [hits], "n": [n]}).select(low.alias("low"), high.alias("high")).row(0)
    expected = binomtest(hits, n).proportion_ci(confidence_level=0.95, method="wilson")
    assert row == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_interval_of_nothing_is_null() -> None:
    low, high = wilson_interval(pl.col("k"), pl.col("n"))
    row = pl.DataFrame({"k": [0], "n": [0]}).select(low.alias("low"), high.alias("high")).row(0)
    assert row == (None, None)


@pytest.mark.parametrize(
    ("day", "hours"), [("2024-03-10", 23), ("2024-11-03", 25), ("2024-06-01", 24)]
)
def test_new_york_day_has_the_hours_its_clocks_have(day: str, hours: int) -> None:
    start, end = day_bounds(date.fromisoformat(day), ZoneInfo("America/New_York"))
    assert end - start == timedelta(hours=hours)


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("America/Sao_Paulo", "2018-11-04", 23),  # midnight is skipped
        ("America/Havana", "2024-11-03", 25),  # midnight happens twice
        ("Pacific/Apia", "2011-12-30", 0),  # the day never was
        ("Pacific/Kiritimati", "2026-01-01", 24),  # UTC+14
    ],
)
def test_odd_days_start_at_their_first_instant(zone: str, day: str, hours: int) -> None:
    start, end = day_bounds(date.fromisoformat(day), ZoneInfo(zone))
    assert end - start == timedelta(hours=hours)
    if hours:
        assert local_day(start, ZoneInfo(zone)) == date.fromisoformat(day)
        assert local_day(start - timedelta(microseconds=1), ZoneInfo(zone)) < date.fromisoformat(
            day
        )


def test_both_half_past_ones_of_an_autumn_night_are_on_one_day() -> None:
    zone = ZoneInfo("America/New_York")
    day = date(2024, 11, 3)
    instants = [datetime(2024, 11, 3, hour, 30, tzinfo=UTC) for hour in (3, 4, 5, 6)]
    placed = with_local_day(
        pl.DataFrame({"attributed_at": instants}).cast(pl.Datetime("us", "UTC")), [day], zone
    )
    assert placed["local_day"].to_list() == [None, day, day, day]


def test_documentation_names_each_rate_with_its_numerator_and_denominator() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \|$", DOCS.read_text("utf-8"), re.M)
    assert rows == [
        (rate.name, rate.meaning, rate.numerator_text, rate.denominator_text) for rate in COUNTED
    ]


def test_documentation_names_each_target() -> None:
    text = DOCS.read_text("utf-8")
    found = re.findall(r"^\| `(\w+)` \| (.+?) \| above (\d+) % \|$", text, re.M)
    documented = {
        (metric, lane): float(percent) / 100
        for metric, lanes, percent in found
        for lane in (["ai_agent"] if lanes == "`ai_agent`" else LANES)
    }
    assert documented == {
        (rate.name, lane): rate.target_for(lane)
        for rate in COUNTED
        for lane in LANES
        if rate.target_for(lane) is not None
    }
