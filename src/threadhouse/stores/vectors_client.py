"""The vector store on a Qdrant server, through qdrant-client.

Belongs here: calls of qdrant_client and the translation of its errors.
Does not belong here: anything the embedded engine shares (``vectors``).

A server needs no published copies: it takes writers and readers at once, and a write returns when it is applied
(``wait=True``). qdrant-client's local mode is accepted for tests only; it is slow and not the same engine.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast
from uuid import UUID

import numpy as np

from threadhouse.retrieval.errors import (
    ProjectionError,
    StoreUnreachableError,
)
from threadhouse.retrieval.models import (
    AllOf,
    CollectionInfo,
    Json,
    ScoredPoint,
    SparseVector,
    StoredPoint,
    VectorPoint,
    VectorQuery,
    Vectors,
    VectorSpace,
)
from threadhouse.stores.vectors import (
    BM25_VECTORS,
    KEYWORD_FIELDS,
    SCROLL_PAGE_POINTS,
    CollectionManifest,
    batches_by_bytes,
    check_bm25_query,
    check_payload,
    checked_batches,
    conditions,
    query_row,
    require_space,
    unknown_collection,
)

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

_ID_BATCH = 1_000  # ids per request; 40 kB as JSON
_NOT_FOUND = 404


def open_client_store(
    *, url: str, api_key: str | None = None, request_timeout_s: int = 60
) -> ClientVectorStore:
    """Open the store on a server. Nothing is sent until the first call."""
    from qdrant_client import QdrantClient

    # The version check would send a request here and only warn about its answer.
    client = QdrantClient(
        url=url, api_key=api_key, timeout=request_timeout_s, check_compatibility=False
    )
    return ClientVectorStore(client, address=url)


class ClientVectorStore:
    """Both sides of the store, over a ready-made client, which it closes.

    Args:
        client: Connected to a server; tests pass one in local mode.
        address: How error messages name the server; carries no password.
        has_payload_indexes: False for local mode, which has none and warns when asked for one.
    """

    def __init__(
        self, client: QdrantClient, *, address: str, has_payload_indexes: bool = True
    ) -> None:
        self._client = client
        self._address = address
        self._has_payload_indexes = has_payload_indexes
        self._manifests: dict[str, CollectionManifest] = {}

    def __enter__(self) -> ClientVectorStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    @contextmanager
    def _calling(self, collection: str = "") -> Generator[None, None, None]:
        from qdrant_client.http.exceptions import (
            ResponseHandlingException,
            UnexpectedResponse,
        )

        try:
            yield
        except ResponseHandlingException as error:
            msg = f"Qdrant at {self._address} did not answer ({error}); start it or correct QDRANT_URL."
            raise StoreUnreachableError(msg) from error
        except UnexpectedResponse as error:
            if error.status_code == _NOT_FOUND and collection:
                self._manifests.clear()
                raise unknown_collection(collection) from error
            msg = f"Qdrant at {self._address} refused a request with status {error.status_code}: {error.reason_phrase}."
            raise StoreUnreachableError(msg) from error

    def _aliases(self) -> dict[str, str]:
        with self._calling():
            found = self._client.get_aliases().aliases
        return {entry.alias_name: entry.collection_name for entry in found}

    def aliases(self) -> Mapping[str, str]:
        """Physical names by alias, all of one moment."""
        return self._aliases()

    def _exists(self, physical: str) -> bool:
        with self._calling():
            return physical in {c.name for c in self._client.get_collections().collections}

    def resolve(self, alias: str) -> str:
        """Physical name behind an alias; a physical name is its own.

        Raises:
            CollectionUnknownError: Neither.
        """
        physical = self._aliases().get(alias, alias)
        if not self._exists(physical):
            raise unknown_collection(alias)
        return physical

    def manifest(self, collection: str) -> CollectionManifest:
        """What the collection was made for.

        Raises:
            CollectionUnknownError: It does not exist or was not made by Threadhouse.
        """
        # A physical name says space and generation, so what it was made for never changes; a question names it at once and
        # saves two requests. An alias is resolved each time.
        if collection in self._manifests:
            return self._manifests[collection]
        physical = self.resolve(collection)
        if physical not in self._manifests:
            with self._calling(physical):
                stored = self._client.get_collection(physical).config.metadata
            self._manifests[physical] = CollectionManifest.from_json(stored, physical)
        return self._manifests[physical]

    def collections(self) -> list[CollectionInfo]:
        """Every collection of the server, also those without a manifest (their ``space_id`` is None)."""
        alias_of = {physical: alias for alias, physical in self._aliases().items()}
        with self._calling():
            names = sorted(c.name for c in self._client.get_collections().collections)
        return [
            CollectionInfo(
                physical=name,
                alias=alias_of.get(name),
                space_id=self._space_id(name),
                point_count=self._count(name, None),
            )
            for name in names
        ]

    def _space_id(self, physical: str) -> str | None:
        with self._calling(physical):
            stored = self._client.get_collection(physical).config.metadata
        return CollectionManifest.from_json(stored, physical).space.space_id if stored else None

    def count(self, collection: str, where: AllOf | None = None) -> int:
        """How many points match, exactly."""
        physical = self.resolve(collection)
        pairs = conditions(where)
        return 0 if pairs is None else self._count(physical, _filter(pairs))

    def _count(self, physical: str, allowed: models.Filter | None) -> int:
        with self._calling(physical):
            return self._client.count(physical, count_filter=allowed, exact=True).count

    def scroll(
        self, collection: str, where: AllOf | None = None, *, with_vectors: bool = False
    ) -> Iterator[StoredPoint]:
        """Every matching point once, one page in memory."""
        manifest = self.manifest(collection)
        pairs = conditions(where)
        return iter(()) if pairs is None else self._pages(manifest, _filter(pairs), with_vectors)

    def _pages(
        self, manifest: CollectionManifest, allowed: models.Filter, with_vectors: bool
    ) -> Iterator[StoredPoint]:
        space_id = manifest.space.space_id
        offset = None
        while True:
            with self._calling(manifest.physical):
                records, offset = self._client.scroll(
                    manifest.physical,
                    scroll_filter=allowed,
                    limit=SCROLL_PAGE_POINTS,
                    offset=offset,
                    with_payload=True,
                    with_vectors=[space_id] if with_vectors else False,
                )
            for record in records:
                yield _stored(record, space_id, with_vectors)
            if offset is None:
                return

    def retrieve(
        self, collection: str, point_ids: Sequence[UUID], *, with_vectors: bool = False
    ) -> list[StoredPoint]:
        """The points that exist among the given ids, in no promised order."""
        manifest = self.manifest(collection)
        space_id = manifest.space.space_id
        wanted = [str(point_id) for point_id in dict.fromkeys(point_ids)]
        found: list[StoredPoint] = []
        for start in range(0, len(wanted), _ID_BATCH):
            with self._calling(manifest.physical):
                records = self._client.retrieve(
                    manifest.physical,
                    wanted[start : start + _ID_BATCH],
                    with_payload=True,
                    with_vectors=[space_id] if with_vectors else False,
                )
            found.extend(_stored(record, space_id, with_vectors) for record in records)
        return found

    def search_batch(
        self, collection: str, queries: Sequence[VectorQuery]
    ) -> list[list[ScoredPoint]]:
        """The hits of each query; a payload is fetched once however many lists hold it, in a second request.

        A point that is deleted between the two requests is left out.

        Raises:
            SpaceMismatchError: A vector is of another space or of a passage, or there is no such BM25 vector.
        """
        manifest = self.manifest(collection)
        requests = [_request(manifest, query) for query in queries]
        asked = [request for request in requests if request is not None]
        if not asked:
            return [[] for _ in queries]
        with self._calling(manifest.physical):
            answers = iter(self._client.query_batch_points(manifest.physical, requests=asked))
        found = [[] if request is None else next(answers).points for request in requests]
        ids = {UUID(str(hit.id)) for hits in found for hit in hits}
        payloads = {
            point.point_id: point.payload for point in self.retrieve(manifest.physical, list(ids))
        }
        return [
            [
                ScoredPoint(point_id, hit.score, payloads[point_id])
                for hit in hits
                if (point_id := UUID(str(hit.id))) in payloads
            ]
            for hits in found
        ]

    def create_collection(self, alias: str, space: VectorSpace, generation: int = 1) -> str:
        """Create a physical collection when absent, without pointing the alias at it.

        This is how another space is built beside the one in use: fill it, then ``switch_aliases``.

        Returns:
            The physical name.
        """
        from qdrant_client import models

        manifest = CollectionManifest(alias, generation, space)
        physical = manifest.physical
        if not self._exists(physical):
            self._manifests.pop(physical, None)
            with self._calling():
                self._client.create_collection(
                    physical,
                    vectors_config={
                        space.space_id: models.VectorParams(
                            size=space.dim, distance=models.Distance.COSINE
                        )
                    },
                    sparse_vectors_config={
                        name: models.SparseVectorParams(modifier=models.Modifier.IDF)
                        for name in BM25_VECTORS
                    },
                    metadata=manifest.to_json(),
                )
        if self._has_payload_indexes:
            # Also when it existed: a process killed between the two steps would leave it without indexes for ever.
            self._create_missing_indexes(physical)
        require_space(self.manifest(physical), space.space_id)
        return physical

    def _create_missing_indexes(self, physical: str) -> None:
        from qdrant_client import models

        with self._calling(physical):
            present = self._client.get_collection(physical).payload_schema
            for field in KEYWORD_FIELDS:
                if field not in present:
                    self._client.create_payload_index(
                        physical, field, models.PayloadSchemaType.KEYWORD, wait=True
                    )

    def ensure_collection(
        self, alias: str, space: VectorSpace, generation: int | None = None
    ) -> str:
        """Create the physical collection when absent and point a new alias at it.

        Without ``generation``, the collection that the alias points at is meant, and generation 1 when there is none.

        Returns:
            The physical name.

        Raises:
            SpaceMismatchError: The alias holds another space.
        """
        target = self._aliases().get(alias)
        if target is not None:
            manifest = self.manifest(target)
            require_space(manifest, space.space_id)
            generation = generation or manifest.generation
        physical = self.create_collection(alias, space, generation or 1)
        if target is None:
            self.switch_aliases({alias: physical})
        return physical

    def switch_aliases(self, targets: Mapping[str, str]) -> None:
        """Point aliases at physical collections, all in one request, which the server applies as one.

        Raises:
            CollectionUnknownError: One of the collections does not exist; no alias was moved.
        """
        from qdrant_client import models

        for physical in targets.values():
            if not self._exists(physical):
                raise unknown_collection(physical)
        present = self._aliases()
        changes: list[models.AliasOperations] = []
        for alias, physical in targets.items():
            if alias in present:
                changes.append(
                    models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))
                )
            changes.append(
                models.CreateAliasOperation(
                    create_alias=models.CreateAlias(collection_name=physical, alias_name=alias)
                )
            )
        with self._calling():
            self._client.update_collection_aliases(changes)

    def upsert(self, collection: str, space_id: str, points: Iterable[VectorPoint]) -> int:
        """Write points in batches; every batch is checked to be there before the next begins.

        Returns:
            How many, which is how many were given.

        Raises:
            SpaceMismatchError: The vectors are of another space.
            PayloadContractError: A point cannot be stored faithfully; the batches before it are stored.
            ProjectionError: The server kept fewer points than it took.
        """
        from qdrant_client import models

        manifest = self.manifest(collection)
        require_space(manifest, space_id)
        written = 0
        for batch in checked_batches(manifest, points):
            with self._calling(manifest.physical):
                self._client.upsert(
                    manifest.physical,
                    [
                        models.PointStruct(
                            id=str(point.point_id),
                            vector=_vectors(space_id, point),
                            payload=point.payload,
                        )
                        for point in batch
                    ],
                    wait=True,
                )
            kept = len(self._existing(manifest.physical, [p.point_id for p in batch]))
            if kept != len(batch):
                msg = f"Collection {manifest.physical} kept {kept} of {len(batch)} points; run the audit."
                raise ProjectionError(msg)
            written += kept
        return written

    def _existing(self, physical: str, point_ids: Sequence[UUID]) -> set[UUID]:
        wanted = [str(point_id) for point_id in dict.fromkeys(point_ids)]
        found: set[UUID] = set()
        for start in range(0, len(wanted), _ID_BATCH):
            with self._calling(physical):
                records = self._client.retrieve(
                    physical,
                    wanted[start : start + _ID_BATCH],
                    with_payload=False,
                    with_vectors=False,
                )
            found.update(UUID(str(record.id)) for record in records)
        return found

    def overwrite_payloads(
        self, collection: str, payloads: Iterable[tuple[UUID, dict[str, Json]]]
    ) -> int:
        """Replace whole payloads of the points that exist, without touching vectors.

        Returns:
            How many points existed.
        """
        from qdrant_client import models

        physical = self.resolve(collection)
        written = 0
        for batch in batches_by_bytes(payloads, lambda item: check_payload(*item)):
            existing = self._existing(physical, [point_id for point_id, _ in batch])
            changes: list[models.UpdateOperation] = [
                models.OverwritePayloadOperation(
                    overwrite_payload=models.SetPayload(payload=payload, points=[str(point_id)])
                )
                for point_id, payload in batch
                if point_id in existing
            ]
            if changes:
                with self._calling(physical):
                    self._client.batch_update_points(physical, changes, wait=True)
            written += len(changes)
        return written

    def delete(self, collection: str, point_ids: Sequence[UUID]) -> int:
        """Delete exactly these points.

        Returns:
            How many of them existed.
        """
        from qdrant_client import models

        physical = self.resolve(collection)
        existing = [str(point_id) for point_id in self._existing(physical, point_ids)]
        for start in range(0, len(existing), _ID_BATCH):
            with self._calling(physical):
                self._client.delete(
                    physical,
                    models.PointIdsList(points=list(existing[start : start + _ID_BATCH])),
                    wait=True,
                )
        return len(existing)

    def publish(self, collection: str) -> None:
        """Nothing to do: a server shows every applied write.

        Raises:
            CollectionUnknownError: The collection does not exist.
        """
        self.resolve(collection)

    def drop_collection(self, collection: str) -> None:
        """Remove a collection and its aliases."""
        physical = self.resolve(collection)
        self._manifests.pop(physical, None)
        with self._calling(physical):
            self._client.delete_collection(physical)


def _request(manifest: CollectionManifest, query: VectorQuery) -> models.QueryRequest | None:
    """One query without payloads; None when nothing can match."""
    from qdrant_client import models

    vector = query.vector
    nearest: list[float] | models.SparseVector
    if isinstance(vector, Vectors):
        nearest, using = query_row(manifest, vector), vector.space_id
    else:
        check_bm25_query(vector, query.bm25)
        nearest = models.SparseVector(indices=list(vector.indices), values=list(vector.values))
        using = query.bm25
    pairs = conditions(query.where)
    is_empty = isinstance(vector, SparseVector) and not vector.indices
    if pairs is None or query.limit < 1 or is_empty:
        return None
    allowed = _filter(pairs)
    # Statistics over the whole collection would still count deleted points until the next vacuum, and would
    # let an asker infer from scores how often a word occurs in what is hidden from them.
    params = (
        models.SearchParams(idf=models.IdfCorpusParams(corpus=allowed))
        if isinstance(vector, SparseVector)
        else None
    )
    return models.QueryRequest(
        query=nearest,
        using=using,
        filter=allowed,
        params=params,
        limit=query.limit,
        with_payload=False,
    )


def _filter(pairs: tuple[tuple[str, tuple[str, ...]], ...]) -> models.Filter:
    from qdrant_client import models

    return models.Filter(
        must=[
            models.FieldCondition(key=field, match=models.MatchAny(any=list(allowed)))
            for field, allowed in pairs
        ]
    )


def _vectors(space_id: str, point: VectorPoint) -> dict[str, models.Vector]:
    from qdrant_client import models

    vectors: dict[str, models.Vector] = {
        space_id: cast("list[float]", point.dense.astype(np.float32, copy=False).tolist())
    }
    for name, sparse in zip(BM25_VECTORS, (point.bm25_accented, point.bm25_folded), strict=True):
        # A text without terms gets no sparse vector: it is then no part of the IDF population on either engine.
        if sparse.indices:
            vectors[name] = models.SparseVector(
                indices=list(sparse.indices), values=list(sparse.values)
            )
    return vectors


def _stored(record: models.Record, space_id: str, with_vectors: bool) -> StoredPoint:
    dense = None
    if with_vectors:
        dense = np.asarray(
            cast("dict[str, list[float]]", record.vector)[space_id], dtype=np.float32
        )
    return StoredPoint(UUID(str(record.id)), cast("dict[str, Json]", record.payload or {}), dense)
