"""No text is embedded twice.

Belongs here: the embedder that asks a cache first, and the ability it needs from one.
Does not belong here: how vectors are kept (the Postgres side), how they are computed (stores.embedders).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from threadhouse.retrieval.models import Vectors, VectorSpace
from threadhouse.retrieval.ports import Embedder
from threadhouse.retrieval.text import hash_text, prepare_text
from threadhouse.stores.embedders import WINDOW_RULE, EmbeddedBatch

SAMPLE_TEXTS = 16
"""Texts that stand for all that are to be embedded: a second or two of a small model, enough to be off by less than a half."""

LOOKUP_TEXTS = 1000
"""Hashes asked for at once: 1,000 vectors of 384 floats are 1.5 MB, a size no driver minds."""


class VectorCache(Protocol):
    """Vectors by space, role and hash of the prepared text."""

    def get_many(
        self, space_id: str, role: str, hashes: Sequence[str]
    ) -> Mapping[str, NDArray[np.float32]]:
        """The known ones among ``hashes``; each value has shape (dim,) and length 1."""
        ...

    def put_many(
        self, space_id: str, role: str, vectors: Mapping[str, NDArray[np.float32]]
    ) -> None:
        """Keep these vectors; on return they survive a kill of this process. A known hash may be kept or overwritten."""
        ...


class StreamingEmbedder(Embedder, Protocol):
    """An embedder that hands out vectors as they are done; `stores.embedders.FastembedEmbedder` is one."""

    def iter_passages(self, texts: Sequence[str]) -> Iterator[EmbeddedBatch]:
        """The vectors of ``embed_passages`` in pieces, every text once, in any order."""
        ...

    def iter_long_passages(self, texts: Sequence[str]) -> Iterator[EmbeddedBatch]:
        """The vectors of ``embed_long_passages`` in pieces, every text once, in any order."""
        ...


@dataclass(slots=True)
class EmbeddingCounts:
    """What one `CachedEmbedder` has done so far. ``texts_embedded + cache_hits`` is the number of distinct texts per call."""

    texts_embedded: int = 0
    cache_hits: int = 0
    seconds_embedding: float = 0.0


@dataclass(slots=True)
class CachedEmbedder:
    """An embedder in front of which a cache stands. Implements `threadhouse.retrieval.ports.Embedder`.

    Every batch goes into the cache as soon as it is computed, so a run that is killed resumes where it was. Questions are not
    cached: they take milliseconds, and what people ask is not kept by accident.
    """

    inner: StreamingEmbedder
    cache: VectorCache
    progress: Callable[[int, int], None] | None = None
    """Called after the lookup and after every batch with the number of distinct texts done and the number in all."""
    counts: EmbeddingCounts = field(default_factory=EmbeddingCounts)

    @property
    def space(self) -> VectorSpace:
        """The space of every vector this embedder returns."""
        return self.inner.space

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """As the inner embedder's; a truncated text is embedded anew each time, because a cached vector carries no flag."""
        return self._embed(texts, self.inner.iter_passages, key_suffix="")

    def embed_long_passages(self, texts: Sequence[str]) -> Vectors:
        """As the inner embedder's. The key names the window rule: another rule gives other vectors."""
        return self._embed(texts, self.inner.iter_long_passages, key_suffix=f"\0{WINDOW_RULE}")

    def embed_query(self, text: str) -> Vectors:
        """The inner embedder's, past the cache."""
        return self.inner.embed_query(text)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The inner embedder's."""
        return self.inner.count_tokens(texts)

    def _embed(
        self,
        texts: Sequence[str],
        embed: Callable[[Sequence[str]], Iterator[EmbeddedBatch]],
        key_suffix: str,
    ) -> Vectors:
        # No prepared text contains a NUL, so a suffixed key is no other text's key.
        keys = [hash_text(prepare_text(text) + key_suffix) for text in texts]
        by_key = dict(zip(keys, texts, strict=True))
        found = self._look_up(list(by_key))
        missing = [key for key in by_key if key not in found]
        self.counts.cache_hits += len(found)
        self._report(len(found), len(by_key))
        truncated: set[str] = set()
        started = time.perf_counter()
        for batch in embed([by_key[key] for key in missing]):
            batch_keys = [missing[position] for position in batch.positions]
            fresh = dict(zip(batch_keys, batch.data, strict=True))
            cut = {key for key, flag in zip(batch_keys, batch.truncated, strict=True) if flag}
            self.counts.seconds_embedding += time.perf_counter() - started
            self.counts.texts_embedded += len(fresh)
            whole = {key: row for key, row in fresh.items() if key not in cut}
            if whole:
                self.cache.put_many(self.space.space_id, "passage", whole)
            found |= fresh
            truncated |= cut
            self._report(len(found), len(by_key))
            started = time.perf_counter()
        data = np.zeros((len(keys), self.space.dim), np.float32)
        for row, key in zip(data, keys, strict=True):
            row[:] = found[key]
        flags = np.array([key in truncated for key in keys], np.bool_)
        return Vectors(self.space.space_id, "passage", data, flags)

    def _look_up(self, keys: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        found: dict[str, NDArray[np.float32]] = {}
        for start in range(0, len(keys), LOOKUP_TEXTS):
            found.update(
                self.cache.get_many(
                    self.space.space_id, "passage", keys[start : start + LOOKUP_TEXTS]
                )
            )
        return found

    def _report(self, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(done, total)


@dataclass(slots=True)
class CacheSurvey(CachedEmbedder):
    """Embeds nothing: notes what it would have to embed, and hands out zeros.

    Attributes:
        missing: Keys of distinct texts that the cache does not hold.
        missing_chars: Their characters.
        sample: Some of them by key, chosen by their hashes and so by chance.
    """

    missing: set[str] = field(default_factory=set[str])
    missing_chars: int = 0
    sample: dict[str, str] = field(default_factory=dict[str, str])

    def _embed(
        self,
        texts: Sequence[str],
        embed: Callable[[Sequence[str]], Iterator[EmbeddedBatch]],
        key_suffix: str,
    ) -> Vectors:
        del embed
        keys = [hash_text(prepare_text(text) + key_suffix) for text in texts]
        by_key = dict(zip(keys, texts, strict=True))
        found = self._look_up(list(by_key))
        self.counts.cache_hits += len(found)
        fresh = {k: text for k, text in by_key.items() if k not in found and k not in self.missing}
        self.missing |= fresh.keys()
        self.missing_chars += sum(map(len, fresh.values()))
        chosen = sorted((self.sample | fresh).items())[:SAMPLE_TEXTS]
        self.sample = dict(chosen)
        zeros = np.zeros((len(keys), self.space.dim), np.float32)
        return Vectors(self.space.space_id, "passage", zeros, np.zeros(len(keys), np.bool_))

    def chars_per_s(self) -> float | None:
        """Characters that the model embeds in a second, measured now with the sample; None when nothing is missing."""
        if not self.sample:
            return None
        started = time.perf_counter()
        for _ in self.inner.iter_long_passages(list(self.sample.values())):
            pass
        return sum(map(len, self.sample.values())) / (time.perf_counter() - started)
