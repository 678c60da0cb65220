"""What must hold of thread resolution for any hits, any words and any policy."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from resolution_house import NOW, POLICY, asked, centroid_hit, facts, unit_hit
from threadhouse.retrieval.models import ThreadId, UnitId
from threadhouse.retrieval.query_text import QueryLanguage
from threadhouse.retrieval.ranking import ThreadFacts
from threadhouse.retrieval.resolution import (
    LexicalSignals,
    Resolution,
    RetrievalPolicy,
    resolve_threads,
)
from threadhouse.retrieval.search import SearchHit
from threadhouse.retrieval.thread_features import INPUTS, Memberships

THREADS = [ThreadId(f"t{n}") for n in range(6)]
UNITS = [UnitId(f"u{n}") for n in range(10)]
HIDDEN = ThreadId("hidden")

cosines = st.floats(-1, 1)
shares = st.floats(0, 1)
signals = st.dictionaries(st.sampled_from(THREADS), shares)
lexicals = st.builds(LexicalSignals, signals, signals, signals, signals)
unit_hits = st.lists(
    st.builds(
        unit_hit,
        st.sampled_from(UNITS),
        st.none() | cosines,
        st.none() | st.floats(0, 40),
        st.sampled_from(["vi", "en", ""]),
        st.floats(0, 2),
    ),
    max_size=15,
)
centroid_hits = st.lists(st.builds(centroid_hit, st.sampled_from(THREADS), cosines), max_size=6)
memberships = st.dictionaries(
    st.sampled_from(UNITS), st.dictionaries(st.sampled_from(THREADS), shares, max_size=3)
)
seen_threads = st.lists(st.sampled_from(THREADS), unique=True).map(
    lambda names: {name: facts() for name in names}
)
policies = st.builds(
    lambda coefficients, scaled: replace(
        POLICY, coefficients=coefficients, scales=POLICY.scales if scaled else {}
    ),
    st.dictionaries(st.sampled_from(INPUTS), st.floats(-30, 30)),
    st.booleans(),
)
languages = st.sampled_from(QueryLanguage)


def resolve(
    lexical: LexicalSignals,
    centroids: list[SearchHit],
    units: list[SearchHit],
    counted: Memberships,
    seen: dict[ThreadId, ThreadFacts],
    policy: RetrievalPolicy = POLICY,
    language: QueryLanguage = QueryLanguage.VIETNAMESE,
) -> Resolution:
    return resolve_threads(
        asked(language=language), lexical, centroids, units, counted, seen, policy, now=NOW
    )


@given(lexicals, centroid_hits, unit_hits, memberships, seen_threads, policies, languages)
def test_scores_and_signals_lie_between_0_and_1_and_scores_add_up_to_at_most_1(
    lexical: LexicalSignals,
    centroids: list[SearchHit],
    units: list[SearchHit],
    counted: Memberships,
    seen: dict[ThreadId, ThreadFacts],
    policy: RetrievalPolicy,
    language: QueryLanguage,
) -> None:
    found = resolve(lexical, centroids, units, counted, seen, policy, language)
    numbers = [c.score for c in found.candidates] + [
        value for c in found.candidates for value in c.signal_breakdown.values()
    ]
    assert all(0 <= number <= 1 for number in numbers)
    assert math.fsum(c.score for c in found.candidates) <= 1 + 1e-9
    assert 0 <= found.any_thread <= 1


@given(lexicals, centroid_hits, unit_hits, memberships, seen_threads, policies, languages)
def test_the_order_of_everything_does_not_matter(
    lexical: LexicalSignals,
    centroids: list[SearchHit],
    units: list[SearchHit],
    counted: Memberships,
    seen: dict[ThreadId, ThreadFacts],
    policy: RetrievalPolicy,
    language: QueryLanguage,
) -> None:
    assert resolve(
        lexical,
        centroids[::-1],
        units[::-1],
        dict(reversed(list(counted.items()))),
        dict(reversed(list(seen.items()))),
        policy,
        language,
    ) == resolve(lexical, centroids, units, counted, seen, policy, language)


@given(
    lexicals,
    centroid_hits,
    unit_hits,
    memberships,
    seen_threads,
    policies,
    languages,
    shares,
    cosines,
)
def test_whatever_is_said_of_a_thread_that_the_reader_does_not_see_changes_nothing(
    lexical: LexicalSignals,
    centroids: list[SearchHit],
    units: list[SearchHit],
    counted: Memberships,
    seen: dict[ThreadId, ThreadFacts],
    policy: RetrievalPolicy,
    language: QueryLanguage,
    share: float,
    cosine: float,
) -> None:
    more_words = LexicalSignals(
        {**lexical.explicit, HIDDEN: share},
        {**lexical.label, HIDDEN: share},
        {**lexical.keyword, HIDDEN: share},
        {**lexical.authority, HIDDEN: share},
    )
    more_members = {unit: {**threads, HIDDEN: share} for unit, threads in counted.items()}
    assert resolve(
        more_words,
        [centroid_hit(HIDDEN, cosine), *centroids],
        units,
        more_members,
        seen,
        policy,
        language,
    ) == resolve(lexical, centroids, units, counted, seen, policy, language)


@given(lexicals, centroid_hits, unit_hits, memberships, seen_threads)
def test_naming_a_thread_never_lowers_it(
    lexical: LexicalSignals,
    centroids: list[SearchHit],
    units: list[SearchHit],
    counted: Memberships,
    seen: dict[ThreadId, ThreadFacts],
) -> None:
    named = THREADS[0]
    seen = {**seen, named: facts()}
    policy = replace(POLICY, candidate_limit=10, candidate_floor=0)

    def score(words: LexicalSignals) -> float:
        found = resolve(words, centroids, units, counted, seen, policy)
        return next((c.score for c in found.candidates if c.thread_id == named), 0.0)

    louder = replace(lexical, explicit={**lexical.explicit, named: 1.0})
    assert score(louder) >= score(lexical) - 1e-12
