"""A big segment of the embedded store is scanned by bytes and scored by its vectors: the answer is that of a scan of the vectors.

Belongs here: what is found above the size from which bytes are read. Does not belong here: what any store answers
(``test_vector_store_contract``), how fast (bench).
"""

from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np
import pytest

from threadhouse.retrieval.models import (
    AllOf,
    SparseVector,
    VectorPoint,
    VectorQuery,
    Vectors,
    VectorSpace,
)
from threadhouse.stores import vectors_edge
from threadhouse.stores.vectors_edge import EdgeReader, EdgeWriter

DIM, POINTS, WANTED, QUESTIONS = 96, 3_000, 60, 20
SMALL_KB = 100
"""A tenth of what these points take."""
COLLECTION = "information_units"
SPACE = VectorSpace("bytes", "test/bytes", "0", "1", DIM, 16, "mean", "", "", "bytes-96-abc")


def directions(count: int, seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    rows = np.random.default_rng(seed).standard_normal((count, DIM), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def point(number: int, dense: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> VectorPoint:
    payload = {
        "document_id": f"d{number}",
        "metadata": {"visibility": ("public", "internal")[number % 2]},
    }
    return VectorPoint(uuid.UUID(int=number), dense, SparseVector(), SparseVector(), dict(payload))


def test_the_nearest_of_a_big_segment_are_the_nearest_by_their_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors_edge, "WHOLE_VECTORS_BELOW_KB", SMALL_KB)
    rows = directions(POINTS, 1)
    with EdgeWriter(tmp_path) as writer:
        writer.ensure_collection(COLLECTION, SPACE)
        writer.upsert(COLLECTION, SPACE.space_id, [point(n, row) for n, row in enumerate(rows)])
        writer.publish(COLLECTION)
    assert list(tmp_path.glob("qdrant/published/**/quantized.*")), "nothing was written as bytes"
    seen = AllOf((("metadata.visibility", ("public",)),))
    with EdgeReader(tmp_path) as reader:
        for asked in directions(QUESTIONS, 2):
            question = Vectors(SPACE.space_id, "query", asked[None, :], np.zeros(1, np.bool_))
            for where, among in ((AllOf(()), range(POINTS)), (seen, range(0, POINTS, 2))):
                (hits,) = reader.search_batch(COLLECTION, [VectorQuery(question, where, WANTED)])
                cosines = {uuid.UUID(int=n): float(rows[n] @ asked) for n in among}
                best = sorted(cosines, key=lambda each: -cosines[each])[:WANTED]
                assert [hit.point_id for hit in hits] == best
                assert np.allclose(
                    [hit.score for hit in hits], [cosines[b] for b in best], atol=1e-5
                )
