"""The eight rates against a plain-Python oracle, on random events in any order.

The oracle shares no code with the product: it walks over dictionaries the way a person would count.
What arrivals in any split do to the marts in Postgres is in tests/stores/test_metrics_store.py.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import binomtest

from threadhouse.retrieval.events import EVENT_SCHEMA, EventType, RetrievalEvent, event_fault
from threadhouse.retrieval.local_days import day_bounds, days_between, local_day
from threadhouse.retrieval.metrics import COUNTED, LANES, sum_rates
from warehouse_house import count_events, count_frame, with_local_day

ZONE = ZoneInfo("America/New_York")
# Four days around the autumn change: 24, 24, 25 and 24 hours.
FIRST, LAST = date(2024, 11, 1), date(2024, 11, 4)
DAYS = days_between(FIRST, LAST)
START = day_bounds(FIRST, ZONE)[0]
SPAN_S = int((day_bounds(LAST, ZONE)[1] - START).total_seconds())
PER_THREAD = {
    "context_sufficiency_rate",
    "wrong_thread_rate",
    "noisy_context_rate",
    "agent_extra_search_rate",
    "user_reject_rate",
}
JUDGEMENTS = {
    "sufficiency_verdict",
    "wrong_thread",
    "noisy_context",
    "noisy_unit",
    "missing_thread_confirmed",
}

Event = dict[str, Any]


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    """Valid events of few queries, so that they collide: duplicates, repeats, orphans, late ones."""
    rows: list[Event] = []
    for number in range(draw(st.integers(0, 40))):
        kind = draw(st.sampled_from([kind.value for kind in EventType] + ["query"] * 6))
        path = draw(st.sampled_from(["thread", "candidates", "fallback", "none"]))
        thread = draw(st.sampled_from(["t1", "t2"]))
        if kind not in {"query", "suggestion", "rejection"} or path != "thread":
            thread = draw(st.sampled_from([thread, None])) if kind == "query" else thread
        recurring = draw(st.sampled_from([None, True, False])) if kind == "query" else None
        occurred = START + timedelta(seconds=draw(st.integers(0, SPAN_S - 1)))
        rows.append(
            {
                # Random order, yet unique: one id is one event, whatever it says.
                "event_id": str(UUID(int=draw(st.integers(0, 2**20)) * 64 + number)),
                "ingest_seq": number,
                "event_version": draw(st.sampled_from([1, 2])) if kind != "noisy_unit" else 2,
                "occurred_at": occurred,
                "ingested_at": occurred + timedelta(days=draw(st.integers(0, 900))),
                "type": kind,
                "query_id": str(UUID(int=draw(st.integers(0, 7)))),
                "lane": draw(st.sampled_from(["customer", "partner", "employee", "ai_agent"])),
                "thread_id": thread,
                "resolution_path": path,
                "unit_address": "Law/1" if kind == "noisy_unit" else None,
                "is_recurring": recurring,
                "sufficient": draw(st.booleans()) if kind == "sufficiency_verdict" else None,
                "details": "{}",
            }
        )
    return rows


def what_became_of(
    query: Event, known: list[Event]
) -> list[tuple[str, str | None, bool, bool, bool]]:
    """Rate, thread, and whether the query is in its numerator, in its denominator, or could be."""
    kinds = {row["type"] for row in known}
    path, thread = query["resolution_path"], query["thread_id"]
    judged, packed = bool(kinds & JUDGEMENTS), "pack_delivered" in kinds
    matched = path in {"thread", "candidates"}
    verdicts = [row["sufficient"] for row in known if row["type"] == "sufficiency_verdict"]
    suggested = {row["thread_id"] for row in known if row["type"] == "suggestion"}
    rejected = {row["thread_id"] for row in known if row["type"] == "rejection"}
    ruled = bool(verdicts)
    wrong, noisy = "wrong_thread" in kinds, bool(kinds & {"noisy_context", "noisy_unit"})
    recurs = query["is_recurring"]
    searched, missing = "extra_search" in kinds, "missing_thread_confirmed" in kinds
    return [
        ("thread_hit_rate", thread, path == "thread", True, True),
        (
            "thread_hit_rate_recurring",
            thread,
            recurs is True and path == "thread",
            recurs is True,
            recurs is None,
        ),
        ("fallback_vector_rate", thread, path == "fallback", True, True),
        ("context_sufficiency_rate", thread, ruled and verdicts[-1], ruled, packed or ruled),
        ("wrong_thread_rate", thread, matched and wrong, matched and judged, matched),
        ("missing_thread_rate", thread, missing, judged, True),
        ("noisy_context_rate", thread, packed and noisy, packed and judged, packed),
        ("agent_extra_search_rate", thread, packed and searched, packed, path != "none"),
        *(("user_reject_rate", other, other in rejected, True, True) for other in suggested),
        ("user_reject_rate", None, False, False, path == "candidates" and not suggested),
    ]


def by_query(rows: list[Event]) -> tuple[dict[str, Event], dict[str, list[Event]]]:
    """The first query event of each query, and all its events in order of time."""
    queries: dict[str, Event] = {}
    follow_ups: dict[str, list[Event]] = defaultdict(list)
    unique = {row["event_id"]: row for row in rows}.values()
    for row in sorted(unique, key=lambda row: (row["occurred_at"], row["event_id"])):
        follow_ups[row["query_id"]].append(row)
        if row["type"] == "query":
            queries.setdefault(row["query_id"], row)
    return queries, follow_ups


def oracle(rows: list[Event]) -> dict[tuple[date, str, str, str], tuple[int, int, bool]]:
    """Numerator, denominator and "unknown" of every cell, counted by hand."""
    queries, follow_ups = by_query(rows)
    tally: dict[tuple[date, str, str, str], list[int]] = defaultdict(lambda: [0, 0, 0])

    def add(query: Event, thread: str | None, metric: str, *parts: bool) -> None:
        day = local_day(query["occurred_at"], ZONE)
        for lane in (query["lane"], "overall"):
            for cell in {"", thread if metric in PER_THREAD and thread else ""}:
                for index, part in enumerate(parts):
                    tally[day, lane, cell, metric][index] += part

    for query_id, query in queries.items():
        for metric, thread, *parts in what_became_of(query, follow_ups[query_id]):
            add(query, thread, metric, *parts)

    for day in DAYS:
        for lane in LANES:
            for rate in COUNTED:
                tally[day, lane, "", rate.name]  # a defaultdict: the look-up adds it
    return {
        cell: (numerator, denominator, denominator == 0 and eligible > 0)
        for cell, (numerator, denominator, eligible) in tally.items()
        if cell[2] == "" or denominator or eligible
    }


def as_frame(rows: list[Event]) -> pl.DataFrame:
    """Rows as the lake holds them: unique, and with the day of their query."""
    unique = {row["event_id"]: row for row in rows}.values()
    asked_at: dict[str, datetime] = {}
    for row in unique:
        if row["type"] == "query":
            seen = asked_at.get(row["query_id"], row["occurred_at"])
            asked_at[row["query_id"]] = min(seen, row["occurred_at"])
    complete = [
        {name: row.get(name) for name in EVENT_SCHEMA}
        | {"attributed_at": asked_at.get(row["query_id"], row["occurred_at"])}
        for row in unique
    ]
    return with_local_day(pl.DataFrame(complete, schema=EVENT_SCHEMA), DAYS, ZONE)


def as_cells(frame: pl.DataFrame) -> dict[tuple[date, str, str, str], tuple[int, int, bool]]:
    return {
        (row["local_day"], row["lane"], row["thread_id"], row["metric"]): (
            row["numerator"],
            row["denominator"] or 0,
            row["requires_instrumentation"],
        )
        for row in frame.iter_rows(named=True)
    }


@given(rows=events())
def test_every_count_equals_the_oracle(rows: list[Event]) -> None:
    assert as_cells(count_frame(as_frame(rows), DAYS)) == oracle(rows)


@settings(max_examples=5)
@given(rows=events())
def test_files_of_days_give_the_counts_of_the_oracle(rows: list[Event]) -> None:
    assert as_cells(count_events(as_frame(rows), DAYS)) == oracle(rows)


@given(rows=events(), seed=st.randoms(use_true_random=False))
def test_order_and_duplicates_of_events_change_nothing(
    rows: list[Event], seed: random.Random
) -> None:
    again = rows + seed.sample(rows, len(rows) // 2)
    seed.shuffle(again)
    assert count_frame(as_frame(again), DAYS).equals(count_frame(as_frame(rows), DAYS))


@given(rows=events())
def test_days_add_up_to_their_range(rows: list[Event]) -> None:
    frame = as_frame(rows)
    one_by_one = pl.concat([count_frame(frame, [day]) for day in DAYS])
    whole: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for (_, lane, thread, metric), (numerator, denominator, _) in oracle(rows).items():
        whole[lane, thread, metric][0] += numerator
        whole[lane, thread, metric][1] += denominator
    summed = {
        (row["lane"], row["thread_id"], row["metric"]): [row["numerator"], row["denominator"] or 0]
        for row in sum_rates(one_by_one).iter_rows(named=True)
    }
    assert summed == whole


@given(rows=events())
def test_lanes_add_up_to_overall(rows: list[Event]) -> None:
    by_lane: dict[tuple[date, str, str], list[int]] = defaultdict(lambda: [0, 0])
    overall: dict[tuple[date, str, str], list[int]] = {}
    for (day, lane, thread, metric), cell in as_cells(count_frame(as_frame(rows), DAYS)).items():
        if lane == "overall":
            overall[day, thread, metric] = list(cell[:2])
        else:
            by_lane[day, thread, metric][0] += cell[0]
            by_lane[day, thread, metric][1] += cell[1]
    assert overall == by_lane


@given(rows=events())
def test_rates_and_intervals_follow_from_the_counts(rows: list[Event]) -> None:
    for row in count_frame(as_frame(rows), DAYS).iter_rows(named=True):
        if not row["denominator"]:
            assert (row["rate"], row["wilson_low"], row["wilson_high"]) == (None, None, None)
            continue
        interval = binomtest(row["numerator"], row["denominator"]).proportion_ci(method="wilson")
        assert row["rate"] == row["numerator"] / row["denominator"]
        assert math.isclose(row["wilson_low"], interval.low, abs_tol=1e-12)
        assert math.isclose(row["wilson_high"], interval.high, abs_tol=1e-12)


@given(
    kind=st.sampled_from([*EventType, "surprise"]),
    version=st.integers(0, 3),
    occurred_at=st.datetimes(
        min_value=datetime(1995, 1, 1),  # noqa: DTZ001  # hypothesis wants naive borders
        max_value=datetime(2205, 1, 1),  # noqa: DTZ001
        timezones=st.just(UTC),
    ),
    query_id=st.none() | st.uuids(),
    lane=st.sampled_from([None, "employee", "nobody"]),
    thread_id=st.sampled_from([None, "", "t1", "t\n", "\x85", "Đ" * 600, "Đ" * 601]),
    path=st.sampled_from([None, "thread", "none", "elsewhere"]),
    latency_ms=st.sampled_from([None, 0.0, 12.5, -1.0, math.nan, math.inf]),
    sufficient=st.sampled_from([None, True, False, "yes", 1]),
    unit_address=st.sampled_from([None, "", "Law/1", "x" * 3_001]),
    query_key=st.sampled_from([None, "", "what is a leave", "a" * 64, "A" * 64, "a" * 64 + "\n"]),
)
def test_writers_and_readers_refuse_the_same_events(
    kind: str,
    version: int,
    occurred_at: datetime,
    query_id: UUID | None,
    lane: str | None,
    thread_id: str | None,
    path: str | None,
    latency_ms: float | None,
    sufficient: object,
    unit_address: str | None,
    query_key: str | None,
) -> None:
    given_fields = {
        "event_id": str(UUID(int=1)),
        "event_version": version,
        "occurred_at": occurred_at,
        "type": str(kind),
        "query_id": str(query_id) if query_id else None,
        "lane": lane,
        "thread_id": thread_id,
        "resolution_path": path,
        "latency_ms": latency_ms,
        "unit_address": unit_address,
        "query_key": query_key,
    }
    try:
        RetrievalEvent.model_validate(given_fields | {"details": {"sufficient": sufficient}})
        is_accepted = True
    except ValidationError:
        is_accepted = False
    row = {name: given_fields.get(name) for name in EVENT_SCHEMA} | {
        "ingested_at": occurred_at,
        "sufficient": sufficient if isinstance(sufficient, bool) else None,
    }
    fault = pl.DataFrame([row], schema=EVENT_SCHEMA).select(event_fault()).item()
    assert (fault is None) == is_accepted
