"""What makes one relevant thread the better answer: recency, authority, health, coverage of the lifecycle (D11 §4.3).

Belongs here: the facts that ranking looks at, its four parts, and how much they may move a thread.
Does not belong here: relevance and the decision (resolution), reading facts (stores), the clock: ``now`` is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from threadhouse.retrieval.models import Authority, HealthStatus, LifecycleStage

_SECONDS_PER_DAY = 86_400.0

AUTHORITY_PARTS: Mapping[Authority, float] = {
    Authority.ENACTED: 1.0,
    Authority.DRAFT: 0.5,
    Authority.RUNTIME: 0.0,
}
"""The order of D11 §4.3, evenly spaced; how much it counts is the policy's weight."""


@dataclass(frozen=True, slots=True)
class ThreadFacts:
    """What one reader may know of a thread, read now. A thread without facts is one that the reader does not see.

    Everything is taken from the units that the reader sees: ``last_activity_at`` is the newest of their versions, ``authority``
    the highest of theirs, ``covered_stages`` their stations, ``missing_stages`` the stations with an open gap that the reader
    is told of.
    """

    title: str
    canonical_address: str
    last_activity_at: datetime
    authority: Authority
    health: HealthStatus | None
    covered_stages: frozenset[LifecycleStage]
    missing_stages: frozenset[LifecycleStage] = frozenset()


@dataclass(frozen=True, slots=True)
class RankingWeights:
    """What each part can take from a thread, in log-odds: a part of 0 divides the odds by ``e ** weight``, one of 1 by nothing.

    A thread that was last touched ``recency_half_life_days`` ago has a recency of one half. ``health_parts`` has a number from
    0 to 1 for every health status; one that is absent, and a thread that was never checked, counts as 1.
    """

    recency: float
    authority: float
    health: float
    coverage: float
    recency_half_life_days: float
    health_parts: Mapping[HealthStatus, float]


@dataclass(frozen=True, slots=True)
class RankingParts:
    """The four parts of one thread, each 0 to 1, larger is better."""

    recency: float
    authority: float
    health: float
    coverage: float


def ranking_parts(facts: ThreadFacts, weights: RankingWeights, now: datetime) -> RankingParts:
    """The parts of one thread at one moment. Activity in the future counts as of now."""
    age_days = max(0.0, (now - facts.last_activity_at).total_seconds() / _SECONDS_PER_DAY)
    expected = facts.covered_stages | facts.missing_stages
    return RankingParts(
        recency=0.5 ** (age_days / weights.recency_half_life_days),
        authority=AUTHORITY_PARTS[facts.authority],
        health=1.0 if facts.health is None else weights.health_parts.get(facts.health, 1.0),
        # Without a known gap the chain is as complete as anybody expects it to be.
        coverage=len(facts.covered_stages) / len(expected) if expected else 1.0,
    )


def ranking_handicap(parts: RankingParts, weights: RankingWeights) -> float:
    """What ranking takes from a thread's log-odds; 0 for a thread that could not be better, never positive."""
    return -(
        weights.recency * (1 - parts.recency)
        + weights.authority * (1 - parts.authority)
        + weights.health * (1 - parts.health)
        + weights.coverage * (1 - parts.coverage)
    )
