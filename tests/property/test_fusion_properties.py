"""Fusing scores: bounds, order, growth, and languages on one scale."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadhouse.retrieval.fusion import (
    BACKGROUND_RANK,
    FusionWeights,
    RawScores,
    fuse_scores,
    weights_for,
)
from threadhouse.retrieval.query_text import QueryLanguage

COSINES = st.none() | st.floats(-1, 1, width=32)
SUMS = st.none() | st.floats(0, 50, width=32)
CANDIDATES = st.builds(
    RawScores, st.sampled_from(["vi", "en", "fr", ""]), COSINES, SUMS, SUMS, SUMS
)
POOLS = st.lists(CANDIDATES, min_size=1, max_size=40)
LANGUAGES = st.sampled_from(QueryLanguage)
PARTS = [part.name for part in fields(FusionWeights)]


@given(LANGUAGES, st.sampled_from(["vi", "en", "fr", "", "vi-VN"]))
def test_weights_are_shares(language: QueryLanguage, document: str) -> None:
    weights = weights_for(language, document)
    shares = [getattr(weights, part) for part in PARTS]
    assert all(share >= 0 for share in shares)
    assert 0 < sum(shares) <= 1 + 1e-9


@given(POOLS, LANGUAGES)
def test_fused_scores_lie_between_zero_and_one(
    pool: list[RawScores], language: QueryLanguage
) -> None:
    assert all(-1e-9 <= score <= 1 + 1e-6 for score in fuse_scores(pool, language))


@given(POOLS, LANGUAGES, st.randoms(use_true_random=False))
def test_the_order_of_candidates_changes_no_score(
    pool: list[RawScores], language: QueryLanguage, dice: object
) -> None:
    order = list(range(len(pool)))
    dice.shuffle(order)  # pyright: ignore[reportAttributeAccessIssue]
    shuffled = fuse_scores([pool[place] for place in order], language)
    straight = fuse_scores(pool, language)
    assert shuffled == [straight[place] for place in order]


@given(POOLS, LANGUAGES, st.data())
def test_of_two_candidates_the_one_with_more_of_a_score_is_never_behind(
    pool: list[RawScores], language: QueryLanguage, data: st.DataObject
) -> None:
    """Monotone in each component: two candidates that differ in one score alone, in one pool."""
    lower = data.draw(st.sampled_from(pool))
    part = data.draw(st.sampled_from(PARTS))
    own = getattr(lower, part)
    ceiling = 1.0 if part == "dense" else 50.0
    value = data.draw(
        st.floats(-1 if own is None and part == "dense" else own or 0, ceiling, width=32)
    )
    higher = lower._replace(**{part: value})
    *_, low, high = fuse_scores([*pool, lower, higher], language)
    assert high >= low - 1e-9


def test_a_text_that_matches_with_its_accents_ranks_before_one_that_matches_folded() -> None:
    accented = RawScores("vi", 0.8, bm25_accented=5.0, bm25_folded=5.0)
    folded = RawScores("vi", 0.8, bm25_folded=5.0)
    first, second = fuse_scores([accented, folded], QueryLanguage.VIETNAMESE)
    assert first > second > 0


def test_words_of_a_question_do_not_count_in_a_text_of_another_language() -> None:
    with_words = RawScores("en", 0.8, bm25_accented=9.0, bm25_folded=9.0)
    nearer = RawScores("en", 0.81)
    words, near = fuse_scores([with_words, nearer], QueryLanguage.VIETNAMESE)
    assert near > words


def test_the_best_text_of_another_language_is_seen_beside_many_of_the_own() -> None:
    """Gold across languages has .80 where mediocre texts of the question's own language have .82."""
    own = [RawScores("vi", 0.82 - place / 1_000) for place in range(BACKGROUND_RANK + 20)]
    other = [RawScores("en", 0.75 - place / 1_000) for place in range(BACKGROUND_RANK + 20)]
    gold = RawScores("en", 0.80)
    *others, best = fuse_scores([*own, *other, gold], QueryLanguage.VIETNAMESE)
    assert best > max(others)


def test_a_language_that_lies_lower_as_a_whole_is_lifted_to_the_same_shares() -> None:
    own = [RawScores("vi", 0.85 - place / 1_000) for place in range(BACKGROUND_RANK + 20)]
    other = [RawScores("en", 0.77 - place / 1_000) for place in range(BACKGROUND_RANK + 20)]
    scores = fuse_scores([*own, *other], QueryLanguage.VIETNAMESE)
    mine, foreign = (weights_for(QueryLanguage.VIETNAMESE, name).dense for name in ("vi", "en"))
    shares = [score / mine for score in scores[: len(own)]]
    assert [score / foreign for score in scores[len(own) :]] == pytest.approx(shares, abs=1e-6)


def test_a_lone_text_of_another_language_is_not_lifted_to_the_top() -> None:
    own = [RawScores("vi", 0.85 - place / 1_000) for place in range(BACKGROUND_RANK + 20)]
    lone = RawScores("en", 0.72)
    *mine, foreign = fuse_scores([*own, lone], QueryLanguage.VIETNAMESE)
    assert foreign < max(mine)


@pytest.mark.parametrize("language", QueryLanguage)
def test_no_candidates_have_no_scores(language: QueryLanguage) -> None:
    assert fuse_scores([], language) == []
