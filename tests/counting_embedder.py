"""A small embedder for tests that are about storing and switching vectors, never about finding anything.

Every text has its own direction, made from its hash, in 8 dimensions. A token is a word. It implements the same
protocol as the real one and counts what it is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from threadhouse.retrieval.models import Vectors, VectorSpace
from threadhouse.retrieval.text import prepare_text
from threadhouse.retrieval.vector_space import identify_space
from threadhouse.stores.embedders import EmbeddedBatch

DIM = 8


class HashEmbedder:
    """Implements ``stores.embedding_cache.StreamingEmbedder``."""

    def __init__(self, name: str = "hash") -> None:
        self._space = identify_space(
            VectorSpace(name, "sha256", "0" * 64, "0" * 64, DIM, 512, "NONE", "", "", "")
        )

    @property
    def space(self) -> VectorSpace:
        return self._space

    def iter_passages(self, texts: Sequence[str]) -> Iterator[EmbeddedBatch]:
        for position, text in enumerate(texts):
            seed = int.from_bytes(hashlib.sha256(prepare_text(text).encode()).digest()[:8])
            row = np.random.default_rng(seed).normal(size=(1, DIM)).astype(np.float32)
            unit = (row / np.linalg.norm(row)).astype(np.float32)
            yield EmbeddedBatch((position,), unit, np.zeros(1, np.bool_))

    iter_long_passages = iter_passages

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        rows = [batch.data for batch in self.iter_passages(texts)]
        data = np.concatenate(rows) if rows else np.zeros((0, DIM), np.float32)
        return Vectors(self.space.space_id, "passage", data, np.zeros(len(data), np.bool_))

    def embed_query(self, text: str) -> Vectors:
        vectors = self.embed_passages([text])
        return Vectors(vectors.space_id, "query", vectors.data, vectors.truncated)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]
