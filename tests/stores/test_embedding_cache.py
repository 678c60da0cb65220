"""The caching embedder over a cache in memory; the Postgres cache has its own tests."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from threadhouse.retrieval.errors import EmptyTextError
from threadhouse.retrieval.ports import Embedder
from threadhouse.stores.embedders import FastembedEmbedder
from threadhouse.stores.embedding_cache import CachedEmbedder

SHORT = [f"văn bản số {number}" for number in range(40)]
LONG = "Hợp đồng lao động phải được giao kết bằng văn bản. " * 60


class MemoryCache:
    """A dictionary with the ability of a vector cache."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str, str], NDArray[np.float32]] = {}

    def get_many(
        self, space_id: str, role: str, hashes: Sequence[str]
    ) -> Mapping[str, NDArray[np.float32]]:
        wanted = {key: self.kept.get((space_id, role, key)) for key in hashes}
        return {key: vector for key, vector in wanted.items() if vector is not None}

    def put_many(
        self, space_id: str, role: str, vectors: Mapping[str, NDArray[np.float32]]
    ) -> None:
        self.kept |= {(space_id, role, key): vector for key, vector in vectors.items()}


class PowerCut(BaseException):
    """What ends a run in the middle."""


class CacheInAPowerCut(MemoryCache):
    """Keeps one batch; the second never arrives."""

    def put_many(
        self, space_id: str, role: str, vectors: Mapping[str, NDArray[np.float32]]
    ) -> None:
        if self.kept:
            raise PowerCut
        super().put_many(space_id, role, vectors)


def test_a_cached_embedder_is_an_embedder(embedder: FastembedEmbedder) -> None:
    port: Embedder = CachedEmbedder(embedder, MemoryCache())
    assert port.space == embedder.space


def test_the_second_run_embeds_nothing_and_returns_the_same(embedder: FastembedEmbedder) -> None:
    cache = MemoryCache()
    first, second = CachedEmbedder(embedder, cache), CachedEmbedder(embedder, cache)
    fresh, cached = first.embed_passages(SHORT), second.embed_passages(SHORT)
    assert (first.counts.texts_embedded, first.counts.cache_hits) == (40, 0)
    assert (second.counts.texts_embedded, second.counts.cache_hits) == (0, 40)
    assert np.array_equal(fresh.data, cached.data)
    assert np.array_equal(fresh.data, embedder.embed_passages(SHORT).data)


def test_equal_texts_of_one_call_are_embedded_once(embedder: FastembedEmbedder) -> None:
    cached = CachedEmbedder(embedder, MemoryCache())
    forms = [unicodedata.normalize(form, " bệnh ") for form in ("NFC", "NFD")]
    vectors = cached.embed_passages([*forms, "khác", "bệnh"])
    assert cached.counts.texts_embedded == 2
    assert np.array_equal(vectors.data[0], vectors.data[3])
    assert not np.array_equal(vectors.data[0], vectors.data[2])


def test_a_killed_run_resumes_after_its_last_batch(embedder: FastembedEmbedder) -> None:
    cut_off, cache = CacheInAPowerCut(), MemoryCache()
    with pytest.raises(PowerCut):
        CachedEmbedder(embedder, cut_off).embed_passages(SHORT)
    cache.kept = cut_off.kept
    resumed = CachedEmbedder(embedder, cache)
    resumed.embed_passages(SHORT)
    assert (resumed.counts.cache_hits, resumed.counts.texts_embedded) == (32, 8)


def test_progress_counts_up_to_all_texts(embedder: FastembedEmbedder) -> None:
    seen: list[tuple[int, int]] = []
    cached = CachedEmbedder(
        embedder, MemoryCache(), progress=lambda done, total: seen.append((done, total))
    )
    cached.embed_passages(SHORT)
    assert seen == [(0, 40), (32, 40), (40, 40)]


def test_a_truncated_vector_keeps_its_flag_because_it_is_not_cached(
    embedder: FastembedEmbedder,
) -> None:
    cached = CachedEmbedder(embedder, MemoryCache())
    flags = [cached.embed_passages([LONG, "ngắn"]).truncated.tolist() for _ in range(2)]
    assert flags == [[True, False], [True, False]]


def test_a_long_text_is_cached_apart_from_its_truncated_self(embedder: FastembedEmbedder) -> None:
    cached = CachedEmbedder(embedder, MemoryCache())
    long = [cached.embed_long_passages([LONG]) for _ in range(2)]
    assert cached.counts.texts_embedded == 1
    assert np.array_equal(long[0].data, long[1].data)
    assert not np.array_equal(long[0].data, cached.embed_passages([LONG]).data)


def test_questions_are_not_kept(embedder: FastembedEmbedder) -> None:
    cache = MemoryCache()
    query = CachedEmbedder(embedder, cache).embed_query("ai hỏi gì?")
    assert (query.role, cache.kept) == ("query", {})


def test_an_empty_text_is_refused_through_the_cache_too(embedder: FastembedEmbedder) -> None:
    with pytest.raises(EmptyTextError):
        CachedEmbedder(embedder, MemoryCache()).embed_passages(["có chữ", " "])


def test_no_texts_give_no_vectors(embedder: FastembedEmbedder) -> None:
    assert CachedEmbedder(embedder, MemoryCache()).embed_passages([]).data.shape == (0, 384)
