"""Which thread answers: decisions, ranking and what each signal does, on hand-made hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from resolution_house import NOW, POLICY, RANKING, asked, centroid_hit, facts, threads, unit_hit
from threadhouse.retrieval.models import Authority, HealthStatus, LifecycleStage, ThreadId, UnitId
from threadhouse.retrieval.query_text import QueryLanguage
from threadhouse.retrieval.ranking import ThreadFacts, ranking_handicap, ranking_parts
from threadhouse.retrieval.resolution import (
    SIGNALS,
    LexicalSignals,
    Resolution,
    ResolutionKind,
    RetrievalPolicy,
    resolve_threads,
)
from threadhouse.retrieval.search import SearchHit
from threadhouse.retrieval.thread_features import nearest_cosine

A, B, C = threads("a", "b", "c")


def resolve(
    hits: Sequence[SearchHit] = (),
    *,
    lexical: LexicalSignals | None = None,
    centroids: Sequence[SearchHit] = (),
    members: Mapping[str, Mapping[ThreadId, float]] | None = None,
    seen: Mapping[ThreadId, ThreadFacts] | None = None,
    policy: RetrievalPolicy = POLICY,
    language: QueryLanguage = QueryLanguage.VIETNAMESE,
) -> Resolution:
    return resolve_threads(
        asked(language=language),
        lexical or LexicalSignals(),
        centroids,
        hits,
        {
            UnitId(unit): counted
            for unit, counted in (members or {"u1": {A: 1.0}, "u2": {B: 1.0}}).items()
        },
        seen if seen is not None else {A: facts(), B: facts()},
        policy,
        now=NOW,
    )


def order(found: Resolution) -> list[ThreadId]:
    return [candidate.thread_id for candidate in found.candidates]


def test_a_clearly_best_unit_makes_its_thread_the_single_match() -> None:
    found = resolve([unit_hit("u1", 0.95, 5.0, score=1.0), unit_hit("u2", 0.80)])
    assert (found.kind, order(found)[0]) == (ResolutionKind.SINGLE, A)


def test_two_equally_good_threads_are_candidates() -> None:
    found = resolve([unit_hit("u1", 0.95, 5.0, score=1.0), unit_hit("u2", 0.95, 5.0, score=1.0)])
    assert (found.kind, sorted(order(found))) == (ResolutionKind.CANDIDATES, [A, B])


def test_weak_evidence_means_that_the_thread_is_missing() -> None:
    found = resolve([unit_hit("u1", 0.70), unit_hit("u2", 0.69)])
    assert (found.kind, found.threshold) == (ResolutionKind.MISSING, POLICY.match_threshold)


def test_nothing_found_means_that_the_thread_is_missing() -> None:
    assert resolve() == Resolution(ResolutionKind.MISSING, (), POLICY.match_threshold, 0.0)


def test_a_named_thread_beats_everything_that_is_merely_similar() -> None:
    found = resolve(
        [unit_hit("u1", 0.97, 6.0, score=1.0)], lexical=LexicalSignals(explicit={B: 1.0})
    )
    assert (found.kind, order(found)[0]) == (ResolutionKind.SINGLE, B)


def test_two_named_threads_are_candidates() -> None:
    found = resolve(lexical=LexicalSignals(explicit={A: 1.0, B: 1.0}))
    assert (found.kind, sorted(order(found))) == (ResolutionKind.CANDIDATES, [A, B])


@pytest.mark.parametrize("signal", ["label", "keyword", "authority"])
def test_each_lexical_signal_can_decide_between_equals(signal: str) -> None:
    hits = [unit_hit("u1", 0.9), unit_hit("u2", 0.9)]
    assert order(resolve(hits, lexical=LexicalSignals(**{signal: {B: 1.0}})))[0] == B


def test_a_near_centroid_can_decide_between_equals() -> None:
    hits = [unit_hit("u1", 0.9), unit_hit("u2", 0.9)]
    assert order(resolve(hits, centroids=[centroid_hit("a", 0.8), centroid_hit("b", 0.9)]))[0] == B


def test_many_fair_units_do_not_beat_one_good_unit() -> None:
    members = {"best": {A: 1.0}} | {f"f{n}": {B: 1.0} for n in range(25)}
    hits = [unit_hit("best", 0.93)] + [unit_hit(f"f{n}", 0.86) for n in range(25)]
    assert order(resolve(hits, members=members))[0] == A


def test_a_supporting_member_says_less_than_a_canonical_one() -> None:
    found = resolve([unit_hit("u1", 0.95)], members={"u1": {A: 0.5, B: 1.0}})
    assert order(found) == [B, A]


def test_a_thread_without_facts_is_no_candidate() -> None:
    found = resolve(
        [unit_hit("u1", 0.95)],
        lexical=LexicalSignals(explicit={A: 1.0}),
        centroids=[centroid_hit("a", 0.95)],
        seen={B: facts()},
    )
    assert A not in order(found)


def test_a_unit_of_another_language_is_weighed_as_such() -> None:
    hits = [unit_hit("u1", 0.9, language="en")]
    same = resolve(hits, language=QueryLanguage.ENGLISH)
    across = resolve(hits, language=QueryLanguage.VIETNAMESE)
    assert same.candidates[0].score != across.candidates[0].score


def test_no_more_candidates_than_the_limit_are_named() -> None:
    names = threads(*(f"t{n}" for n in range(9)))
    found = resolve(
        lexical=LexicalSignals(explicit=dict.fromkeys(names, 1.0)), seen={n: facts() for n in names}
    )
    assert len(found.candidates) == POLICY.candidate_limit


def test_candidates_below_the_floor_are_not_named() -> None:
    found = resolve(
        [unit_hit("u1", 0.95, 5.0, score=1.0), unit_hit("u2", 0.80)],
        policy=replace(POLICY, candidate_floor=0.2),
    )
    assert order(found) == [A]


def test_every_signal_is_in_the_breakdown() -> None:
    (candidate, *_) = resolve([unit_hit("u1", 0.9)]).candidates
    assert set(SIGNALS) <= candidate.signal_breakdown.keys()


@pytest.mark.parametrize(
    "worse",
    [
        facts(last_activity_at=NOW - timedelta(days=360)),
        facts(authority=Authority.DRAFT),
        facts(authority=Authority.RUNTIME),
        facts(health=HealthStatus.STALE),
        facts(missing=frozenset({LifecycleStage.CODE})),
    ],
)
def test_each_part_of_ranking_decides_between_equals(worse: ThreadFacts) -> None:
    hits = [unit_hit("u1", 0.9), unit_hit("u2", 0.9)]
    assert order(resolve(hits, seen={A: worse, B: facts()}))[0] == B


@pytest.mark.parametrize(("days", "recency"), [(-5, 1.0), (0, 1.0), (180, 0.5), (360, 0.25)])
def test_recency_halves_with_every_half_life(days: int, recency: float) -> None:
    parts = ranking_parts(facts(last_activity_at=NOW - timedelta(days=days)), RANKING, NOW)
    assert parts.recency == pytest.approx(recency)


def test_authority_is_ordered_enacted_draft_runtime() -> None:
    parts = [ranking_parts(facts(authority=each), RANKING, NOW).authority for each in Authority]
    assert parts == sorted(parts, reverse=True)
    assert len(set(parts)) == len(parts)


def test_coverage_is_the_share_of_expected_stages_that_are_there() -> None:
    law, code = LifecycleStage.LAW, LifecycleStage.CODE
    half = facts(covered=frozenset({law}), missing=frozenset({law, code}))
    assert ranking_parts(half, RANKING, NOW).coverage == pytest.approx(0.5)


def test_a_thread_that_could_not_be_better_has_no_handicap() -> None:
    assert ranking_handicap(ranking_parts(facts(), RANKING, NOW), RANKING) == 0


def with_match(**numbers: float) -> RetrievalPolicy:
    """The policy of these tests with a match of its own where question and text are of one language."""
    match = {f"same:match_{name}": value for name, value in numbers.items()}
    return replace(POLICY, coefficients={**POLICY.coefficients, **match})


TWO = (unit_hit("u1", 0.90, 3.0, score=0.9), unit_hit("u2", 0.80, score=0.5))


def test_an_intercept_of_nothing_and_a_slope_of_one_change_nothing() -> None:
    assert resolve(TWO, policy=with_match(intercept=0.0, slope=1.0)) == resolve(TWO)


def test_whether_any_thread_answers_does_not_change_which_one_would() -> None:
    plain, doubting = resolve(TWO), resolve(TWO, policy=with_match(intercept=-2.0, slope=1.0))
    assert order(doubting) == order(plain)
    assert doubting.any_thread < plain.any_thread
    shares = [
        [each.score / found.any_thread for each in found.candidates] for found in (plain, doubting)
    ]
    assert shares[0] == pytest.approx(shares[1])


def test_threads_that_are_all_far_away_are_less_likely_to_answer() -> None:
    policy = with_match(intercept=-45.0, slope=1.0, cosine=50.0)
    near = resolve(TWO, policy=policy)
    far = resolve(
        [unit_hit("u1", 0.80, 3.0, score=0.9), unit_hit("u2", 0.70, score=0.5)], policy=policy
    )
    assert far.any_thread < near.any_thread


def test_the_nearest_unit_of_a_thread_is_its_own() -> None:
    members = {UnitId("u1"): {A: 1.0}, UnitId("u2"): {B: 1.0}}
    assert [nearest_cosine(t, TWO, members) for t in (A, B, C)] == [0.90, 0.80, 0.80]
    assert nearest_cosine(A, (), {}) == 0.0
