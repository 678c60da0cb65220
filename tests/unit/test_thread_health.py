"""Health of a thread: which figures make which status, where a status begins and ends, and which of several is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest

from threadhouse.retrieval.metrics import wilson_interval
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    HealthStatus,
    LifecycleStage,
    ThreadId,
)
from threadhouse.retrieval.thread_health import (
    PRECEDENCE,
    HealthCondition,
    HealthFacts,
    HealthFigure,
    HealthPolicy,
    Share,
    judge_health,
    read_figures,
    wilson_low,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
TODAY = date(2026, 11, 30)
POLICY = HealthPolicy(
    version=3,
    space_id="",
    window_days=28,
    statement_days=28,
    conditions=(
        HealthCondition("few_units", HealthStatus.WEAK, HealthFigure.UNIT_COUNT, 2, 3),
        HealthCondition(
            "noisy_packs",
            HealthStatus.NOISY_RETRIEVAL,
            HealthFigure.NOISY_CONTEXT_RATE_LOW,
            0.25,
            0.1,
            10,
        ),
        HealthCondition("scattered", HealthStatus.OVERBROAD, HealthFigure.COHESION, 0.8, 0.82, 5),
        HealthCondition("inactive", HealthStatus.STALE, HealthFigure.IDLE_DAYS, 365, 300),
        HealthCondition("incomplete", HealthStatus.TOO_NARROW, HealthFigure.COVERAGE, 0.3, 0.5),
    ),
)
SOUND = HealthFacts(
    thread_id=ThreadId("t"),
    lane=Audience.CUSTOMER,
    unit_count=8,
    mean_confidence=0.9,
    authorities=frozenset({Authority.RUNTIME}),
    covered_stages=frozenset({LifecycleStage.LAW, LifecycleStage.CODE}),
    missing_stages=frozenset(),
    last_change_at=NOW - timedelta(days=20),
    cohesion=0.9,
)
MISSING = frozenset(
    {LifecycleStage.DESIGN, LifecycleStage.TEST, LifecycleStage.REPORT, LifecycleStage.INCIDENT}
)


def judge(facts: HealthFacts, held: tuple[str, ...] = ()) -> tuple[HealthStatus, tuple[str, ...]]:
    check = judge_health(facts, POLICY, held, NOW, TODAY)
    return check.status, check.held


@pytest.mark.parametrize(
    ("facts", "status", "held"),
    [
        (SOUND, "healthy", ()),
        (replace(SOUND, unit_count=1), "weak", ("few_units",)),
        (
            replace(SOUND, rates={"noisy_context_rate": Share(10, 20)}),
            "noisy_retrieval",
            ("noisy_packs",),
        ),
        (replace(SOUND, cohesion=0.7), "overbroad", ("scattered",)),
        (replace(SOUND, last_change_at=NOW - timedelta(days=400)), "stale", ("inactive",)),
        (
            replace(SOUND, covered_stages=frozenset({LifecycleStage.LAW}), missing_stages=MISSING),
            "too_narrow",
            ("incomplete",),
        ),
    ],
)
def test_each_status_has_its_reason(facts: HealthFacts, status: str, held: tuple[str, ...]) -> None:
    assert judge(facts) == (HealthStatus(status), held)


def test_of_several_reasons_the_least_reliable_is_told_and_all_are_evidence() -> None:
    facts = replace(SOUND, unit_count=1, last_change_at=NOW - timedelta(days=400))
    check = judge_health(facts, POLICY, (), NOW, TODAY)
    assert (check.status, check.held) == (HealthStatus.WEAK, ("few_units", "inactive"))
    assert check.evidence["conditions"] == {
        "few_units": {
            "status": "weak",
            "figure": "unit_count",
            "value": 1,
            "observations": 1,
            "enter": 2,
            "leave": 3,
        },
        "inactive": {
            "status": "stale",
            "figure": "idle_days",
            "value": 400.0,
            "observations": 1,
            "enter": 365,
            "leave": 300,
        },
    }
    assert (check.evidence["policy_version"], check.evidence["window_days"]) == (3, 28)


@pytest.mark.parametrize(
    ("units", "held", "still"),
    [(1, False, True), (2, False, False), (2, True, True), (3, True, False)],
)
def test_a_status_begins_at_one_threshold_and_ends_at_the_other(
    units: int, held: bool, still: bool
) -> None:
    status, _ = judge(replace(SOUND, unit_count=units), ("few_units",) if held else ())
    assert (status is HealthStatus.WEAK) is still


def test_few_questions_begin_nothing_however_bad_they_are() -> None:
    bad = {"noisy_context_rate": Share(9, 9)}
    assert judge(replace(SOUND, rates=bad)) == (HealthStatus.HEALTHY, ())
    assert (
        judge(replace(SOUND, rates={"noisy_context_rate": Share(10, 10)}))[0] == "noisy_retrieval"
    )


def test_a_rate_holds_while_its_lower_end_says_so_and_no_longer_than_its_window() -> None:
    held = ("noisy_packs",)
    assert judge(replace(SOUND, rates={"noisy_context_rate": Share(3, 9)}), held)[1] == held
    assert judge(replace(SOUND, rates={"noisy_context_rate": Share(1, 9)}), held)[1] == ()
    assert judge(SOUND, held)[1] == ()


def test_a_cohesion_of_few_units_or_of_none_says_nothing() -> None:
    assert judge(replace(SOUND, cohesion=0.7, unit_count=4))[0] == "healthy"
    assert judge(replace(SOUND, cohesion=None), ("scattered",))[0] == "healthy"


def test_enacted_texts_do_not_age() -> None:
    old = replace(SOUND, last_change_at=NOW - timedelta(days=4_000))
    assert judge(old)[0] == "stale"
    assert judge(replace(old, authorities=frozenset({Authority.ENACTED, Authority.DRAFT})))[0] == (
        "healthy"
    )


def test_use_and_a_statement_are_activity() -> None:
    old = replace(SOUND, last_change_at=NOW - timedelta(days=4_000))
    assert judge(replace(old, last_use=TODAY - timedelta(days=3)))[0] == "healthy"
    assert judge(replace(old, last_statement_at=NOW - timedelta(days=30)))[0] == "healthy"
    ahead = replace(SOUND, last_change_at=NOW + timedelta(days=2))
    assert read_figures(ahead, NOW, TODAY)[HealthFigure.IDLE_DAYS].value == 0.0


def test_insufficient_is_what_sufficient_leaves() -> None:
    facts = replace(SOUND, rates={"context_sufficiency_rate": Share(2, 20)})
    reading = read_figures(facts, NOW, TODAY)[HealthFigure.INSUFFICIENT_CONTEXT_RATE_LOW]
    assert (reading.value, reading.observations) == (wilson_low(Share(18, 20)), 20)


def test_a_name_that_the_policy_has_no_more_counts_for_nothing() -> None:
    assert judge(SOUND, ("long gone",)) == (HealthStatus.HEALTHY, ())


@pytest.mark.parametrize(("n", "k"), [(0, 0), (1, 0), (1, 1), (31, 6), (1000, 999)])
def test_the_interval_is_that_of_the_rates(n: int, k: int) -> None:
    low, _ = wilson_interval(pl.lit(k), pl.lit(n))
    expected = pl.select(low).item()
    assert wilson_low(Share(k, n)) == (None if expected is None else pytest.approx(expected))


def test_every_unhealthy_status_has_a_place_in_the_order() -> None:
    assert sorted(PRECEDENCE) == sorted(set(HealthStatus) - {HealthStatus.HEALTHY})
