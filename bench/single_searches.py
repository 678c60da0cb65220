"""One list of hits at a time, which the product never asks for.

Belongs here: what benchmarks and the store tests compare engines by. Does not belong here: searching (retrieval.search).
"""

from __future__ import annotations

from threadhouse.retrieval.models import AllOf, ScoredPoint, SparseVector, VectorQuery, Vectors
from threadhouse.retrieval.ports import VectorSearcher


def search_dense(
    searcher: VectorSearcher, collection: str, query: Vectors, where: AllOf, limit: int
) -> list[ScoredPoint]:
    """Nearest points by cosine."""
    return searcher.search_batch(collection, [VectorQuery(query, where, limit)])[0]


def search_bm25(
    searcher: VectorSearcher,
    collection: str,
    vector_name: str,
    query: SparseVector,
    where: AllOf,
    limit: int,
) -> list[ScoredPoint]:
    """Best points by BM25."""
    return searcher.search_batch(collection, [VectorQuery(query, where, limit, vector_name)])[0]
