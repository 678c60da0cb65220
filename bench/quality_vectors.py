"""Vectors of the quality benchmark, each computed once and kept in the home.

Belongs here: the file they are kept in, the product's embedder in front of it, and questions answered from it.
Does not belong here: what is embedded (quality_tasks), how it is searched.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from threadhouse.retrieval.models import Vectors, VectorSpace
from threadhouse.retrieval.text import hash_text, prepare_text
from threadhouse.stores.embedders import FastembedEmbedder
from threadhouse.stores.embedding_cache import CachedEmbedder


class KeptVectors:
    """Vectors in one file of the home. Implements `threadhouse.stores.embedding_cache.VectorCache`."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = sqlite3.connect(path, timeout=60)
        self._file.execute(
            "create table if not exists vector"
            " (space_id text, role text, text_hash text, data blob, primary key (space_id, role, text_hash))"
        )

    def get_many(
        self, space_id: str, role: str, hashes: Sequence[str]
    ) -> Mapping[str, NDArray[np.float32]]:
        """The known ones among ``hashes``."""
        statement = "select data from vector where space_id = ? and role = ? and text_hash = ?"
        found: dict[str, NDArray[np.float32]] = {}
        for text_hash in hashes:
            row = self._file.execute(statement, (space_id, role, text_hash)).fetchone()
            if row is not None:
                found[text_hash] = np.frombuffer(row[0], np.float32)
        return found

    def put_many(
        self, space_id: str, role: str, vectors: Mapping[str, NDArray[np.float32]]
    ) -> None:
        """Keep these vectors; committed on return."""
        self._file.executemany(
            "insert or ignore into vector values (?, ?, ?, ?)",
            [
                (space_id, role, text_hash, np.asarray(row, np.float32).tobytes())
                for text_hash, row in vectors.items()
            ],
        )
        self._file.commit()

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class BenchEmbedder:
    """The product's embedder before a cache that also keeps questions and texts cut at the limit: they come back every run.

    Implements `threadhouse.serving.retrieval_service.QueryEmbedder`.
    """

    inner: FastembedEmbedder
    kept: KeptVectors

    @property
    def space(self) -> VectorSpace:
        """The space of every vector."""
        return self.inner.space

    @property
    def cached(self) -> CachedEmbedder:
        """What the nightly job embeds with."""
        return CachedEmbedder(self.inner, self.kept)

    def embed_query(self, text: str) -> Vectors:
        """One question; shape (1, dim)."""
        row = self.questions([text])
        return Vectors(self.space.space_id, "query", row, np.zeros(1, np.bool_))

    def questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (n, dim)."""

        def embed(missing: Sequence[str]) -> Iterable[tuple[str, NDArray[np.float32]]]:
            return ((text, self.inner.embed_query(text).data[0]) for text in missing)

        return self._all(texts, "query", embed)

    def whole(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (n, dim); a text beyond the model's limit is cut there."""

        def embed(missing: Sequence[str]) -> Iterable[tuple[str, NDArray[np.float32]]]:
            for batch in self.inner.iter_passages(missing):
                yield from zip((missing[p] for p in batch.positions), batch.data, strict=True)

        return self._all(texts, "passage cut", embed)

    def _all(
        self,
        texts: Sequence[str],
        role: str,
        embed: Callable[[Sequence[str]], Iterable[tuple[str, NDArray[np.float32]]]],
    ) -> NDArray[np.float32]:
        space_id = self.inner.space.space_id
        hashes = [hash_text(prepare_text(text)) for text in texts]
        found = dict(self.kept.get_many(space_id, role, hashes))
        missing = {h: text for h, text in zip(hashes, texts, strict=True) if h not in found}
        for text, row in embed(list(missing.values())):
            fresh = {hash_text(prepare_text(text)): row}
            self.kept.put_many(space_id, role, fresh)
            found |= fresh
        return np.array([found[text_hash] for text_hash in hashes], np.float32)
