"""What makes one relevant thread the better answer: recency, authority, health, coverage of the lifecycle (D11 §4.3).

Belongs here: the facts that ranking looks at, the four parts of it, how they lower a relevance.
Does not belong here: relevance itself and the decision (retrieval.resolution), reading facts (stores), the clock: ``now`` is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from threadhouse.retrieval.models import Authority, HealthStatus, LifecycleStage


@dataclass(frozen=True, slots=True)
class ThreadFacts:
    """What one reader may know of a thread, read now. A thread without facts is one that the reader does not see.

    Everything is taken from the units that the reader sees: ``last_activity_at`` is the newest of their versions, ``authority`` the
    highest of theirs, ``covered_stages`` their stations, ``missing_stages`` the stations with an open gap that the reader is told of.
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
    """How much of the relevance each part can take away, 0 to 1; their sum is at most 1.

    A half-life of ``recency_half_life_days`` makes a thread that was last touched that long ago half as recent as one of today.
    """

    recency: float
    authority: float
    health: float
    coverage: float
    recency_half_life_days: float
    health_scores: Mapping[HealthStatus, float]
