"""Which thread answers a query: the signals put together, the candidates in order, and the decision (D11 §4.2, §4.3).

Belongs here: what a candidate and a decision are, how signals become a probability, when one thread is sure enough.
Does not belong here: finding names in a text (references), reading signals (stores), searching (search), fitting (calibration).

Every signal is computed from what the reader may see and from nothing else: a thread that the reader does not see has no facts,
and a thread without facts is no candidate, whatever any signal says of it.

The model is a nested logit. Every candidate has a strength; among the threads, a candidate has its share of ``exp(strength)``.
That any thread answers at all is a logistic function of the log of the sum and of how near the nearest unit is, fitted for each
relation of question and texts; without such numbers, "none of them" is one more candidate of strength 0. So scores add up to at
most 1, two threads that are equally good get half each and become candidates, and what is missing from 1 is the probability that
no thread answers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from threadhouse.retrieval.models import ThreadId
from threadhouse.retrieval.ranking import (
    RankingWeights,
    ThreadFacts,
    ranking_handicap,
    ranking_parts,
)
from threadhouse.retrieval.thread_features import (
    CENTROID_INPUT,
    EVIDENCE_INPUTS,
    LEXICAL_INPUTS,
    Features,
    Memberships,
    Scales,
    candidate_features,
    centroid_thread,
    nearest_cosine,
    relation_of,
)

if TYPE_CHECKING:
    from threadhouse.retrieval.query_text import PreparedQuery
    from threadhouse.retrieval.search import SearchHit

__all__ = [
    "SIGNALS",
    "LexicalSignals",
    "Memberships",
    "Resolution",
    "ResolutionKind",
    "RetrievalPolicy",
    "ThreadCandidate",
    "ThreadFacts",
    "ThreadSurroundings",
    "candidate_thread_ids",
    "centroid_thread",
    "resolve_threads",
]

SIGNALS: tuple[str, ...] = ("explicit", "label", "keyword", "centroid", "authority", "evidence")
"""The six sources of D11 §4.2, each 0 to 1 in a candidate's breakdown; ``rank_*`` entries are the parts of §4.3."""

_LARGEST_EXPONENT = 60.0


@dataclass(frozen=True, slots=True)
class ThreadCandidate:
    """One thread that may be meant; ``score`` is 0 to 1, the calibrated probability that it is the right one, after ranking."""

    thread_id: ThreadId
    score: float
    signal_breakdown: Mapping[str, float]


class ResolutionKind(StrEnum):
    """What to do with the candidates."""

    SINGLE = "single"
    CANDIDATES = "candidates"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Resolution:
    """The decision. ``candidates`` are best first, also when the kind is MISSING (they are then what was too weak).

    ``threshold`` is what was needed for the kind that was just missed or reached: for SINGLE and CANDIDATES, the best score that
    makes a single match; for MISSING, the ``any_thread`` below which nothing is a match.
    ``any_thread`` is the probability that any thread is right: the sum of all scores.
    """

    kind: ResolutionKind
    candidates: tuple[ThreadCandidate, ...]
    threshold: float
    any_thread: float = 0.0


@dataclass(frozen=True, slots=True)
class LexicalSignals:
    """What the words of a query say, by thread, each 0 to 1; only threads that the reader sees. Absent means 0."""

    explicit: Mapping[ThreadId, float] = field(default_factory=dict[ThreadId, float])
    label: Mapping[ThreadId, float] = field(default_factory=dict[ThreadId, float])
    keyword: Mapping[ThreadId, float] = field(default_factory=dict[ThreadId, float])
    authority: Mapping[ThreadId, float] = field(default_factory=dict[ThreadId, float])

    def thread_ids(self) -> frozenset[ThreadId]:
        """Every thread that any of the signals names."""
        return frozenset((*self.explicit, *self.label, *self.keyword, *self.authority))


@dataclass(frozen=True, slots=True)
class ThreadSurroundings:
    """What else resolution needs about candidates, read at one moment: memberships of found units, and facts of seen threads."""

    memberships: Memberships
    facts: Mapping[ThreadId, ThreadFacts]


@dataclass(frozen=True, slots=True)
class RetrievalPolicy:
    """One row of ``cong.retrieval_policy``: everything about resolution that is a number.

    Attributes:
        version: The version in force; part of what `--explain` shows.
        space_id: The vector space that the numbers were fitted on; empty in the row for a space without its own.
        coefficients: Worth of each input of the model in log-odds, by its name in ``thread_features.INPUTS``; absent means 0.
        scales: Centre and width of the space's cosines; absent ones are taken from the hits.
        ranking: How much recency, authority, health and coverage may move a thread.
        single_threshold: Score from which the best candidate stands alone.
        match_threshold: Sum of scores below which no thread is a match.
        candidate_floor: Candidates with a lower score are not named, except for the best one.
        candidate_limit: How many are named at most.
    """

    version: int
    space_id: str
    coefficients: Mapping[str, float]
    scales: Scales
    ranking: RankingWeights
    single_threshold: float
    match_threshold: float
    candidate_floor: float
    candidate_limit: int


def candidate_thread_ids(
    lexical: LexicalSignals, centroid_hits: Sequence[SearchHit]
) -> list[ThreadId]:
    """Threads to ask the surroundings of, besides those of the found units; in order of id."""
    return sorted(lexical.thread_ids() | {centroid_thread(hit) for hit in centroid_hits})


def resolve_threads(
    query: PreparedQuery,
    lexical: LexicalSignals,
    centroid_hits: Sequence[SearchHit],
    unit_hits: Sequence[SearchHit],
    memberships: Memberships,
    facts: Mapping[ThreadId, ThreadFacts],
    policy: RetrievalPolicy,
    *,
    now: datetime,
) -> Resolution:
    """The threads that may be meant, best first, and whether one is sure enough.

    The order of hits, memberships and facts does not matter, and neither does anything that is said of a thread without facts.

    Args:
        lexical: What the words say.
        centroid_hits: Hits of ``thread_centroids`` in the reader's lane.
        unit_hits: Hits of ``information_units``; more than one of a unit is fine, the best counts.
        memberships: Of the units found; what is absent counts for no thread.
        facts: Of the threads that the reader sees at this moment.
        now: What recency is measured against.
    """
    features = candidate_features(
        query, lexical, centroid_hits, unit_hits, memberships, facts.keys(), policy.scales
    )
    parts = {
        thread_id: ranking_parts(facts[thread_id], policy.ranking, now) for thread_id in features
    }
    strengths = {
        thread_id: strength(row, policy.coefficients)
        + ranking_handicap(parts[thread_id], policy.ranking)
        for thread_id, row in features.items()
    }
    match = match_of(features, strengths, unit_hits, memberships, policy.coefficients)
    scores = share_of_strengths(strengths, match)
    ranked = sorted(scores, key=lambda thread_id: (-scores[thread_id], thread_id))
    named = tuple(
        ThreadCandidate(
            thread_id,
            scores[thread_id],
            _breakdown(features[thread_id], policy.coefficients)
            | {
                "rank_recency": parts[thread_id].recency,
                "rank_authority": parts[thread_id].authority,
                "rank_health": parts[thread_id].health,
                "rank_coverage": parts[thread_id].coverage,
            },
        )
        for rank, thread_id in enumerate(ranked[: policy.candidate_limit])
        if rank == 0 or scores[thread_id] >= policy.candidate_floor
    )
    return _decide(named, min(1.0, math.fsum(scores.values())), policy)


def strength(row: Features, coefficients: Mapping[str, float]) -> float:
    """What the inputs of one candidate add up to, in log-odds against "none of them"."""
    return math.fsum(coefficients.get(name, 0.0) * value for name, value in row.items())


@dataclass(frozen=True, slots=True)
class Match:
    """How strengths say that any thread is right: log-odds ``intercept + slope * log(sum(exp(strength)))``."""

    intercept: float = 0.0
    slope: float = 1.0


def match_of(
    rows: Mapping[ThreadId, Features],
    strengths: Mapping[ThreadId, float],
    unit_hits: Sequence[SearchHit],
    memberships: Memberships,
    coefficients: Mapping[str, float],
) -> Match:
    """The one for the relation of the strongest candidate; without coefficients for it, "none" is a candidate of strength 0.

    How near its nearest unit is counts here and not among the strengths: between threads of one question only differences matter,
    but whether any of them answers shows in how near they come at all.
    """
    if not strengths:
        return Match()
    strongest = strongest_of(strengths)
    relation = relation_of(rows[strongest])
    nearness = coefficients.get(f"{relation}:match_cosine", 0.0)
    intercept = coefficients.get(f"{relation}:match_intercept", 0.0)
    if nearness:
        intercept += nearness * nearest_cosine(strongest, unit_hits, memberships)
    return Match(intercept, coefficients.get(f"{relation}:match_slope", 1.0))


def strongest_of(strengths: Mapping[ThreadId, float]) -> ThreadId:
    """The first of the candidates with the greatest strength."""
    return min(strengths, key=lambda thread_id: (-strengths[thread_id], thread_id))


def share_of_strengths(
    strengths: Mapping[ThreadId, float], match: Match | None = None
) -> dict[ThreadId, float]:
    """Probabilities of the candidates; what is missing from 1 is that of "none of them"."""
    if not strengths:
        return {}
    match = match or Match()
    together = log_sum_exp(strengths.values())
    any_thread = _logistic(match.intercept + match.slope * together)
    return {
        thread_id: any_thread * math.exp(max(value - together, -_LARGEST_EXPONENT))
        for thread_id, value in strengths.items()
    }


def log_sum_exp(values: Collection[float]) -> float:
    """``log(sum(exp(value)))`` of at least one value, the same whatever their order."""
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values))


def _decide(
    named: tuple[ThreadCandidate, ...], any_thread: float, policy: RetrievalPolicy
) -> Resolution:
    if not named or any_thread < policy.match_threshold:
        return Resolution(ResolutionKind.MISSING, named, policy.match_threshold, any_thread)
    is_single = named[0].score >= policy.single_threshold
    kind = ResolutionKind.SINGLE if is_single else ResolutionKind.CANDIDATES
    return Resolution(kind, named, policy.single_threshold, any_thread)


def _breakdown(row: Features, coefficients: Mapping[str, float]) -> dict[str, float]:
    """The six signals of one candidate, 0 to 1. Hits and centroids are told as what the model makes of them alone."""
    by_name = {name.rpartition(":")[2]: (name, value) for name, value in row.items()}

    def worth(*names: str) -> float:
        return math.fsum(
            coefficients.get(by_name[name][0], 0.0) * by_name[name][1]
            for name in names
            if name in by_name
        )

    return {
        **{name: min(1.0, max(0.0, row.get(name, 0.0))) for name in LEXICAL_INPUTS},
        "centroid": _logistic(worth(CENTROID_INPUT)) if CENTROID_INPUT in by_name else 0.0,
        "evidence": _logistic(worth("intercept", *EVIDENCE_INPUTS)),
    }


def _logistic(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-_LARGEST_EXPONENT, min(_LARGEST_EXPONENT, value))))
