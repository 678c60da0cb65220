"""Hysteresis of thread health: what wavers changes nothing, and a status changes only where a figure crosses the whole band."""

from __future__ import annotations

from datetime import UTC, date, datetime
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from threadhouse.retrieval.models import Audience, Authority, HealthStatus, LifecycleStage, ThreadId
from threadhouse.retrieval.thread_health import (
    HealthCondition,
    HealthFacts,
    HealthFigure,
    HealthPolicy,
    Share,
    judge_health,
)

NOW = datetime(2026, 11, 30, tzinfo=UTC)
TODAY = date(2026, 11, 30)


@st.composite
def bands(draw: st.DrawFn) -> tuple[float, float]:
    low = draw(st.floats(-0.9, 0.8))
    high = draw(st.floats(low + 0.01, 0.95))
    return draw(st.sampled_from([(low, high), (high, low)]))


def check(
    cohesion: float | None, band: tuple[float, float], held: tuple[str, ...]
) -> tuple[str, ...]:
    policy = HealthPolicy(
        1,
        "",
        28,
        28,
        (HealthCondition("c", HealthStatus.OVERBROAD, HealthFigure.COHESION, *band),),
    )
    return judge_health(facts(cohesion), policy, held, NOW, TODAY).held


def facts(cohesion: float | None, rates: dict[str, Share] | None = None) -> HealthFacts:
    return HealthFacts(
        thread_id=ThreadId("t"),
        lane=Audience.CUSTOMER,
        unit_count=9,
        mean_confidence=1.0,
        authorities=frozenset({Authority.RUNTIME}),
        covered_stages=frozenset({LifecycleStage.LAW}),
        missing_stages=frozenset(),
        last_change_at=NOW,
        cohesion=cohesion,
        rates=rates or {},
    )


@given(band=bands(), places=st.lists(st.floats(0, 1), max_size=30), starts_held=st.booleans())
def test_a_figure_that_wavers_within_the_band_changes_nothing(
    band: tuple[float, float], places: list[float], starts_held: bool
) -> None:
    low, high = min(band), max(band)
    held = ("c",) if starts_held else ()
    for place in places:
        # Open at both ends: on a threshold itself a status may end.
        value = low + (high - low) * (0.001 + 0.998 * place)
        assert check(value, band, held) == held


@given(band=bands(), values=st.lists(st.floats(-1, 1), max_size=60))
def test_a_status_changes_back_only_after_the_figure_crossed_the_whole_band(
    band: tuple[float, float], values: list[float]
) -> None:
    enter, leave = band
    held: tuple[str, ...] = ()
    turns: list[float] = []
    for value in values:
        now = check(value, band, held)
        if now != held:
            turns.append(value)
        held = now
    for begun, ended in pairwise(turns):
        assert abs(begun - ended) >= abs(enter - leave) - 1e-9


@given(band=bands(), values=st.lists(st.floats(-1, 1), min_size=1, max_size=30))
def test_the_same_figure_again_changes_nothing(
    band: tuple[float, float], values: list[float]
) -> None:
    held: tuple[str, ...] = ()
    for value in values:
        held = check(value, band, held)
        assert check(value, band, held) == held


@given(
    nights=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40),
    held=st.booleans(),
)
def test_too_few_questions_never_begin_a_status(nights: list[tuple[int, int]], held: bool) -> None:
    policy = HealthPolicy(
        1,
        "",
        28,
        28,
        (
            HealthCondition(
                "n",
                HealthStatus.NOISY_RETRIEVAL,
                HealthFigure.NOISY_CONTEXT_RATE_LOW,
                0.25,
                0.1,
                10,
            ),
        ),
    )
    state = ("n",) if held else ()
    ended = not held
    for a, b in nights:
        share = Share(min(a, b), max(a, b))
        state = judge_health(
            facts(None, {"noisy_context_rate": share}), policy, state, NOW, TODAY
        ).held
        assert not (ended and state)
        ended = ended or not state
