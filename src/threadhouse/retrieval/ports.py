"""What the rules need from the world, as protocols named by ability.

Belongs here: the narrow interfaces that ``stores/`` implements and tests exercise on every backend.
Does not belong here: implementations, driver types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, Self
from uuid import UUID

from threadhouse.retrieval.models import (
    AllOf,
    CollectionInfo,
    Json,
    ScoredPoint,
    StoredPoint,
    VectorPoint,
    VectorQuery,
    Vectors,
    VectorSpace,
)


class Embedder(Protocol):
    """Text to vectors of one space."""

    @property
    def space(self) -> VectorSpace:
        """The space of every vector this embedder returns."""
        ...

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embed texts to be found. Raises EmptyTextError for a text that is empty after preparation."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """Embed one question; shape (1, dim)."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text as a passage, prefix and special tokens included, never capped."""
        ...


class CandidateSearcher(Protocol):
    """All that a search needs of the read side. Only ``retrieval.search`` calls ``search_batch``."""

    def resolve(self, alias: str) -> str:
        """Physical name behind an alias. Raises CollectionUnknownError."""
        ...

    def aliases(self) -> Mapping[str, str]:
        """Physical names by alias, all of one moment."""
        ...

    def search_batch(
        self, collection: str, queries: Sequence[VectorQuery]
    ) -> list[list[ScoredPoint]]:
        """The hits of each query, all of one state of the collection; a payload is fetched once however many lists hold it.

        Raises SpaceMismatchError for another space, a passage vector, or a BM25 vector that there is not.
        """
        ...


class VectorSearcher(CandidateSearcher, Protocol):
    """Read side of a collection."""

    def collections(self) -> list[CollectionInfo]: ...

    def count(self, collection: str, where: AllOf | None = None) -> int: ...

    def scroll(
        self, collection: str, where: AllOf | None = None, *, with_vectors: bool = False
    ) -> Iterator[StoredPoint]:
        """Every matching point once, in no promised order."""
        ...

    def retrieve(
        self, collection: str, point_ids: Sequence[UUID], *, with_vectors: bool = False
    ) -> list[StoredPoint]: ...

    def close(self) -> None:
        """Give back what is held open; harmless when called twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None:
        """Closes."""
        ...


class VectorStore(VectorSearcher, Protocol):
    """Write side of a collection. Every write has returned only when it is durable."""

    def ensure_collection(
        self, alias: str, space: VectorSpace, generation: int | None = None
    ) -> str:
        """Create the physical collection when absent, stamp it with the space, point a new alias at it.

        Without ``generation``, the one that the alias points at is meant, and 1 when there is none.
        Returns the physical name. Raises SpaceMismatchError when the alias holds another space.
        """
        ...

    def create_collection(self, alias: str, space: VectorSpace, generation: int = 1) -> str:
        """Create a physical collection beside the one in use; fill it, publish it, then ``switch_aliases``.

        Returns the physical name.
        """
        ...

    def switch_aliases(self, targets: Mapping[str, str]) -> None:
        """Point aliases at collections, all in one step for readers; other aliases stay. Raises CollectionUnknownError."""
        ...

    def upsert(self, collection: str, space_id: str, points: Iterable[VectorPoint]) -> int:
        """Write points in batches bounded by bytes; returns how many. Raises SpaceMismatchError."""
        ...

    def overwrite_payloads(
        self, collection: str, payloads: Iterable[tuple[UUID, dict[str, Json]]]
    ) -> int:
        """Replace whole payloads of existing points without touching vectors; returns how many."""
        ...

    def delete(self, collection: str, point_ids: Sequence[UUID]) -> int:
        """Delete exactly these points; absent ones are ignored."""
        ...

    def publish(self, collection: str) -> None:
        """Make everything written so far visible to readers, all at once. No-op on a server."""
        ...

    def drop_collection(self, collection: str) -> None: ...
