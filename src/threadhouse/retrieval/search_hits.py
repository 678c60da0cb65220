"""What a search returns, as values.

Belongs here: a hit, the parts its score is made of, what is known of an owner right now, the outcome of one search.
Does not belong here: how candidates are found (search), fused (fusion) or ordered (rerank). Import these from ``search``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from threadhouse.retrieval.audience import Labels
from threadhouse.retrieval.models import Collection, DocumentId, Json


# A question makes hundreds of these, each twice: 0.6 µs for a named tuple of eleven fields, 1.4 for a frozen dataclass, and 0.7
# against 2.3 to change two of them.
class ScoreBreakdown(NamedTuple):
    """Why a hit has its score: ``final == fused + sum(boosts.values())``.

    ``dense`` and the BM25 scores are the engine's own (a cosine, and sums of weights); None when that list of candidates did not
    hold the hit. ``bm25_names`` is asked for only in texts of another language than the question's. ``fused`` is 0 to 1. With
    reranking switched off ``boosts`` is empty.
    """

    dense: float | None
    bm25_accented: float | None
    bm25_folded: float | None
    fused: float
    boosts: Mapping[str, float]
    final: float
    bm25_names: float | None = None


class SearchHit(NamedTuple):
    """One chunk that answers a question. ``score`` is ``breakdown.final``; ``metadata`` is the payload's.

    ``owner_id`` is the logical_unit_id of a unit, the document_id of a legacy document, ``thread_id/lane`` of a centroid;
    ``version_key`` is what ``nao.vector_projection`` calls so.
    """

    collection: Collection
    point_id: UUID
    document_id: DocumentId
    owner_id: str
    version_key: str
    chunk_index: int
    char_start: int
    char_end: int
    metadata: Mapping[str, Json]
    score: float
    breakdown: ScoreBreakdown


@dataclass(frozen=True, slots=True)
class LiveOwner:
    """What the source of truth says of an owner at this moment: the version that counts, the labels that decide."""

    version_key: str
    labels: Labels


class LiveOwners(Protocol):
    """Reads back from the source of truth what a published vector may no longer be right about."""

    def ask_owners(
        self, collection: Collection, physical: str, owner_ids: Sequence[str]
    ) -> Callable[[], Mapping[str, LiveOwner]]:
        """Ask for the owners that exist now and have a projected version; absent ones are left out.

        The question is on its way when this returns; call what it returns for the answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """Hits in order, best first.

    ``filtered`` counts candidates that the read-back took away (no longer visible, or of a version that is no longer live);
    ``searched_again`` says that a version had moved on and the collections were asked a second time.
    """

    hits: tuple[SearchHit, ...]
    filtered: int
    searched_again: bool
