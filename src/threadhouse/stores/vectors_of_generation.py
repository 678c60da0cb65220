"""One generation of the vector collections under their public names, whatever the aliases mean at the moment.

Belongs here: standing in for a searcher or a store so that readers and writers that know public names alone meet this generation.
Does not belong here: which generation that is (stores.generations), filling it (stores.projection).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Generic, Self, TypeVar
from uuid import UUID

from threadhouse.retrieval.errors import SpaceMismatchError
from threadhouse.retrieval.models import (
    AllOf,
    CollectionInfo,
    Json,
    ScoredPoint,
    StoredPoint,
    VectorPoint,
    VectorQuery,
    VectorSpace,
)
from threadhouse.retrieval.ports import CandidateSearcher, VectorSearcher, VectorStore
from threadhouse.stores.vectors import generation_of

AnySearcher = TypeVar("AnySearcher", bound=CandidateSearcher)
Searcher = TypeVar("Searcher", bound=VectorSearcher)


class CandidatesOfGeneration(Generic[AnySearcher]):
    """What a question needs of a searcher, pinned: an alias that is switched meanwhile changes nothing for who holds this.

    Args:
        names: Physical names by public name; public names that are not among them mean what the searcher says.
    """

    def __init__(self, searcher: AnySearcher, names: Mapping[str, str]) -> None:
        self._inner = searcher
        self._names = names

    def resolve(self, alias: str) -> str:
        """Physical name behind a public name. Those of this generation are not looked up; asking one that is gone says so."""
        return self._names.get(alias) or self._inner.resolve(alias)

    def aliases(self) -> Mapping[str, str]:
        """The searcher's, with those of this generation in their place."""
        return {**self._inner.aliases(), **self._names}

    def search_batch(
        self, collection: str, queries: Sequence[VectorQuery]
    ) -> list[list[ScoredPoint]]:
        """As the searcher answers."""
        return self._inner.search_batch(self._name(collection), queries)

    def _name(self, collection: str) -> str:
        return self._names.get(collection, collection)


class SearcherOfGeneration(CandidatesOfGeneration[Searcher]):
    """A whole read side, see `CandidatesOfGeneration`. Closing it closes the searcher."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the searcher."""
        self._inner.close()

    def collections(self) -> list[CollectionInfo]:
        """Those of this generation, under their public names; what those names mean elsewhere is left out."""
        named = {physical: alias for alias, physical in self._names.items()}
        return [
            replace(info, alias=named.get(info.physical, info.alias))
            for info in self._inner.collections()
            if info.physical in named or info.alias not in self._names
        ]

    def count(self, collection: str, where: AllOf | None = None) -> int:
        """How many points match, exactly."""
        return self._inner.count(self._name(collection), where)

    def scroll(
        self, collection: str, where: AllOf | None = None, *, with_vectors: bool = False
    ) -> Iterator[StoredPoint]:
        """Every matching point once."""
        return self._inner.scroll(self._name(collection), where, with_vectors=with_vectors)

    def retrieve(
        self, collection: str, point_ids: Sequence[UUID], *, with_vectors: bool = False
    ) -> list[StoredPoint]:
        """The points that exist among the given ids."""
        return self._inner.retrieve(self._name(collection), point_ids, with_vectors=with_vectors)


class StoreOfGeneration(SearcherOfGeneration[VectorStore]):
    """A write side, see `CandidatesOfGeneration`: a publish into it writes this generation and moves no alias."""

    def ensure_collection(
        self, alias: str, space: VectorSpace, generation: int | None = None
    ) -> str:
        """Create the collection of this generation when it is absent; no alias is touched.

        Raises:
            SpaceMismatchError: The generation is of another space.
        """
        physical = self._names.get(alias)
        if physical is None:
            return self._inner.ensure_collection(alias, space, generation)
        space_id, number = generation_of(physical)
        if space_id != space.space_id:
            msg = f"{physical} holds vectors of space {space_id}, not {space.space_id}; use the model that it is built with."
            raise SpaceMismatchError(msg)
        return self._inner.create_collection(alias, space, number)

    def create_collection(self, alias: str, space: VectorSpace, generation: int = 1) -> str:
        """As the store's."""
        return self._inner.create_collection(alias, space, generation)

    def switch_aliases(self, targets: Mapping[str, str]) -> None:
        """As the store's."""
        self._inner.switch_aliases(targets)

    def upsert(self, collection: str, space_id: str, points: Iterable[VectorPoint]) -> int:
        """As the store's."""
        return self._inner.upsert(self._name(collection), space_id, points)

    def overwrite_payloads(
        self, collection: str, payloads: Iterable[tuple[UUID, dict[str, Json]]]
    ) -> int:
        """As the store's."""
        return self._inner.overwrite_payloads(self._name(collection), payloads)

    def delete(self, collection: str, point_ids: Sequence[UUID]) -> int:
        """As the store's."""
        return self._inner.delete(self._name(collection), point_ids)

    def publish(self, collection: str) -> None:
        """As the store's."""
        self._inner.publish(self._name(collection))

    def drop_collection(self, collection: str) -> None:
        """As the store's."""
        self._inner.drop_collection(self._name(collection))
