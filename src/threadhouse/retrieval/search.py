"""The one way to search.

Belongs here: asking every collection, reading back what is live and visible, fusing, ordering, one result a document.
Does not belong here: how scores are fused (fusion), what raises a score (rerank), what a question is (query_text).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from threadhouse.retrieval.audience import AudiencePolicy
from threadhouse.retrieval.models import Collection, Principal
from threadhouse.retrieval.ports import VectorSearcher
from threadhouse.retrieval.query_text import PreparedQuery
from threadhouse.retrieval.search_hits import (
    LiveOwner,
    LiveOwners,
    ScoreBreakdown,
    SearchHit,
    SearchOutcome,
)

__all__ = [
    "LiveOwner",
    "LiveOwners",
    "ScoreBreakdown",
    "SearchHit",
    "SearchOutcome",
    "search_collections",
]


def search_collections(
    query: PreparedQuery,
    principal: Principal,
    collections: Sequence[Collection],
    *,
    policy: AudiencePolicy,
    searcher: VectorSearcher,
    live: LiveOwners,
    limit: int,
    one_per: Literal["document", "owner"] = "document",
    rerank_enabled: bool = True,
) -> SearchOutcome:
    """The best visible hits of all ``collections`` together, each with its score breakdown.

    Args:
        limit: At most so many hits.
        one_per: Keep the best hit of a document, or of an owner (a unit, a document, a thread in a lane).
        rerank_enabled: The setting SEARCH_RERANK_ENABLED; False leaves the fused score as it is, in every collection.
    """
    raise NotImplementedError
