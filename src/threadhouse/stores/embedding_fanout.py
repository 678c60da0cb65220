"""Embed a share of what the next publish will need, into the cache that all machines share.

Belongs here: which owners are due, which of them belong to a bucket, filling the cache with their vectors.
Does not belong here: writing collections (stores.projection).

A bucket writes nothing but the cache. So any number of them may run at once, on any machine that reaches Postgres, in any order,
and again after a kill: what is in the cache is not embedded twice.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow

from threadhouse.retrieval.models import VectorSpace
from threadhouse.stores import queries
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection_sources import ContentSource, DocumentSource, UnitSource

OWNERS_PER_BATCH = 64
"""Owners whose texts are read and embedded together: enough to sort by length, few enough that a kill loses a few seconds."""

SOURCES: tuple[ContentSource, ...] = (UnitSource(), DocumentSource())


@dataclass(frozen=True, slots=True)
class BucketReport:
    """What one bucket did: owners that were due in it, texts that the model ran for, texts that were known, time in the model."""

    bucket: int
    owners: int
    texts_embedded: int
    cache_hits: int
    seconds_embedding: float


def bucket_of(owner_id: str, buckets: int) -> int:
    """The bucket of an owner, from 0: the same on every machine and in every release of Python.

    Example:
        >>> [bucket_of(owner_id, 4) for owner_id in ("LQ.1", "LQ.2", "LQ.3")]
        [0, 2, 0]
    """
    return zlib.crc32(owner_id.encode()) % buckets


def embed_bucket(
    database: Database,
    embedder: CachedEmbedder,
    bucket: int,
    buckets: int,
    progress: Callable[[int, int], None] | None = None,
) -> BucketReport:
    """Embed the chunks of every owner of a bucket that the next publish would embed.

    An owner that changes meanwhile is embedded by the publish itself, which asks the same cache.

    Args:
        bucket: From 0 to ``buckets`` - 1.
        progress: Called with (owners done, owners due in this bucket).
    """
    before = embedder.counts.texts_embedded, embedder.counts.cache_hits
    seconds_before = embedder.counts.seconds_embedding
    with database.connect() as connection:
        due = [
            (source, [owner for owner in owners if bucket_of(owner, buckets) == bucket])
            for source, owners in due_owners(connection, embedder.space)
        ]
    total, done = sum(len(owners) for _, owners in due), 0
    for source, owners in due:
        for start in range(0, len(owners), OWNERS_PER_BATCH):
            batch = owners[start : start + OWNERS_PER_BATCH]
            with database.connect() as connection:
                texts = source.read_texts(connection, batch)
            source.embed(
                [
                    (text.title, span.text)
                    for text in texts.values()
                    for span, _ in source.cut(text, embedder)
                ],
                embedder,
            )
            done += len(batch)
            if progress is not None:
                progress(done, total)
    return BucketReport(
        bucket,
        total,
        embedder.counts.texts_embedded - before[0],
        embedder.counts.cache_hits - before[1],
        embedder.counts.seconds_embedding - seconds_before,
    )


def due_owners(
    connection: Connection[TupleRow], space: VectorSpace
) -> list[tuple[ContentSource, list[str]]]:
    """For each content collection the owners whose vectors in this space are not those of their live version."""
    due: list[tuple[ContentSource, list[str]]] = []
    for source in SOURCES:
        published = {
            row[0]
            for row in connection.execute(
                queries.load("projection_digests"),
                {"collection": source.collection, "space_id": space.space_id},
            )
        }
        wanted = source.read_wanted(connection, space.space_id).owners
        due.append(
            (
                source,
                [
                    owner_id
                    for owner_id, owner in wanted.items()
                    if owner.content_digest not in published
                ],
            )
        )
    return due
