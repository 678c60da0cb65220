"""Hits, facts and a policy for tests of thread resolution, without any store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID, uuid5

import numpy as np

from threadhouse.retrieval.models import (
    Authority,
    Collection,
    DocumentId,
    HealthStatus,
    LifecycleStage,
    SparseVector,
    ThreadId,
    Vectors,
)
from threadhouse.retrieval.query_text import PreparedQuery, QueryLanguage
from threadhouse.retrieval.ranking import RankingWeights, ThreadFacts
from threadhouse.retrieval.resolution import RetrievalPolicy
from threadhouse.retrieval.search import ScoreBreakdown, SearchHit

NOW = datetime(2026, 11, 30, tzinfo=UTC)
NAMES = UUID("6f1c1a0e-8a51-4f0e-9b2c-0b8d7d5a3a11")

RANKING = RankingWeights(
    recency=0.2,
    authority=0.2,
    health=0.2,
    coverage=0.1,
    recency_half_life_days=180.0,
    health_parts={HealthStatus.STALE: 0.5, HealthStatus.WEAK: 0.0},
)
POLICY = RetrievalPolicy(
    version=1,
    space_id="",
    coefficients={
        "same:intercept": -6.0,
        "same:dense": 1.0,
        "same:dense_mass": 0.5,
        "same:bm25_accented": 2.0,
        "same:centroid": 0.5,
        "same:score": 3.0,
        "cross:intercept": -6.0,
        "cross:dense": 1.5,
        "explicit": 12.0,
        "label": 3.0,
        "keyword": 2.0,
        "authority": 2.0,
    },
    scales={"dense": (0.8, 0.03), "centroid": (0.8, 0.03)},
    ranking=RANKING,
    single_threshold=0.7,
    match_threshold=0.3,
    candidate_floor=0.02,
    candidate_limit=5,
)


def asked(
    text: str = "hoàn tiền", language: QueryLanguage = QueryLanguage.VIETNAMESE
) -> PreparedQuery:
    """A prepared question; its dense vector says nothing."""
    terms = SparseVector((1, 2), (1.0, 1.0))
    vector = Vectors("space", "query", np.zeros((1, 2), np.float32), np.zeros(1, np.bool_))
    return PreparedQuery(text, language, vector, terms, terms)


def facts(
    *,
    last_activity_at: datetime = NOW,
    authority: Authority = Authority.ENACTED,
    health: HealthStatus | None = None,
    covered: frozenset[LifecycleStage] = frozenset({LifecycleStage.LAW}),
    missing: frozenset[LifecycleStage] = frozenset(),
) -> ThreadFacts:
    """Facts of a thread that could not be better, except for what is given."""
    return ThreadFacts("Thread", "T", last_activity_at, authority, health, covered, missing)


def unit_hit(
    unit_id: str,
    dense: float | None,
    bm25: float | None = None,
    language: str = "vi",
    score: float = 0.5,
) -> SearchHit:
    """A hit of a unit."""
    return _hit(Collection.INFORMATION_UNITS, unit_id, dense, bm25, score, {"language": language})


def centroid_hit(thread_id: str, dense: float) -> SearchHit:
    """A hit of a thread's centroid in some lane."""
    return _hit(Collection.THREAD_CENTROIDS, f"{thread_id}/ai_agent", dense, None, dense, {})


def threads(*names: str) -> list[ThreadId]:
    """Ids."""
    return [ThreadId(name) for name in names]


def _hit(
    collection: Collection,
    owner_id: str,
    dense: float | None,
    bm25: float | None,
    score: float,
    metadata: Mapping[str, str],
) -> SearchHit:
    return SearchHit(
        collection=collection,
        point_id=uuid5(NAMES, owner_id),
        document_id=DocumentId("d"),
        owner_id=owner_id,
        version_key="v",
        chunk_index=0,
        char_start=0,
        char_end=1,
        metadata=dict(metadata),
        score=score,
        breakdown=ScoreBreakdown(
            dense=dense, bm25_accented=bm25, bm25_folded=bm25, fused=score, boosts={}, final=score
        ),
    )
