"""A hub in Postgres beside its vector collections, for tests of what keeps the two in step.

Two engines: ``edge``, the embedded one, and ``memory``, the client's local mode, which the contract suite holds to the same
behaviour and which costs a hundredth. A test of a rule runs on memory; each file has tests that run on edge as well.
Belongs here: running the real steps with the small embedder, and looking at their stores. Does not belong here: expectations.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, LiteralString, TypedDict, Unpack
from uuid import UUID

from psycopg import Connection
from psycopg.rows import TupleRow

from counting_embedder import HashEmbedder
from threadhouse.retrieval.audit import FindingKind, owner_key
from threadhouse.retrieval.models import Collection, Json, SparseVector, StoredPoint, VectorPoint
from threadhouse.retrieval.payloads import point_id
from threadhouse.retrieval.ports import VectorSearcher, VectorStore
from threadhouse.retrieval.projection import ContentScope, ProjectionPointer
from threadhouse.stores.audit import AuditReport, audit_projection
from threadhouse.stores.centroid_projection import CentroidReport, refresh_centroids
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import (
    BeforeSwitch,
    PublishReport,
    publish_content,
    read_pointers,
)
from threadhouse.stores.repair import repair_projection
from threadhouse.stores.vector_cache import PostgresVectorCache
from threadhouse.stores.vectors import open_reader, open_writer
from threadhouse.stores.vectors_client import ClientVectorStore

UNITS, DOCUMENTS, CENTROIDS = (
    Collection.INFORMATION_UNITS,
    Collection.PRODUCTION_DOCUMENTS,
    Collection.THREAD_CENTROIDS,
)


class PublishOptions(TypedDict, total=False):
    allowed_deletion_share: float | None
    before_switch: BeforeSwitch
    scope: ContentScope | None


@dataclass
class ContentHouse:
    """One database, one home, one embedder."""

    database: Database
    home: Path
    engine: str = "memory"
    inner: HashEmbedder = field(default_factory=HashEmbedder)
    _memory: ClientVectorStore | None = None

    def embedder(self) -> CachedEmbedder:
        return CachedEmbedder(self.inner, PostgresVectorCache(self.database))

    @contextmanager
    def connect(self) -> Generator[Connection[TupleRow], None, None]:
        with self.database.connect() as connection:
            yield connection

    def change(self, statement: LiteralString, *parameters: object) -> None:
        with self.database.connect() as connection:
            connection.execute(statement, parameters)

    def rows(self, statement: LiteralString, *parameters: object) -> list[TupleRow]:
        with self.database.connect() as connection:
            return connection.execute(statement, parameters).fetchall()

    @contextmanager
    def writer(self) -> Generator[VectorStore, None, None]:
        if self.engine == "memory":
            yield self._in_memory()
        else:
            with open_writer(home=self.home, lock_timeout_s=10) as store:
                yield store

    @contextmanager
    def reader(self) -> Generator[VectorSearcher, None, None]:
        if self.engine == "memory":
            yield self._in_memory()
        else:
            with open_reader(home=self.home) as store:
                yield store

    def _in_memory(self) -> ClientVectorStore:
        if self._memory is None:
            from qdrant_client import QdrantClient

            self._memory = ClientVectorStore(
                QdrantClient(":memory:"), address="memory", has_payload_indexes=False
            )
        return self._memory

    def publish(
        self, on_step: Callable[[str], None] | None = None, **options: Unpack[PublishOptions]
    ) -> PublishReport:
        with self.writer() as store:
            return self.publish_into(store, on_step, **options)

    def publish_into(
        self,
        store: VectorStore,
        on_step: Callable[[str], None] | None = None,
        **options: Unpack[PublishOptions],
    ) -> PublishReport:
        return publish_content(
            self.database, store, self.embedder(), self.home, on_step=on_step, **options
        )

    def refresh_centroids(self, threads: frozenset[str] | None = None) -> CentroidReport:
        with self.writer() as store:
            return refresh_centroids(self.database, store, self.inner.space, threads=threads)

    def audit(self) -> AuditReport:
        """What an audit finds in what readers see."""
        with self.reader() as store:
            return audit_projection(self.database, store, self.embedder())

    def findings(self) -> dict[str, set[FindingKind]]:
        """Kinds found, by collection; collections without findings are left out."""
        found = {audit.collection: set(audit.counts) for audit in self.audit().collections}
        return {collection: kinds for collection, kinds in found.items() if kinds}

    def repair(self) -> Mapping[str, Json]:
        report = self.audit()
        with self.writer() as store:
            return repair_projection(self.database, store, self.embedder(), self.home, report)

    def points(self, collection: Collection) -> dict[UUID, dict[str, Json]]:
        """Payloads that readers of a collection can reach, by point id."""
        with self.reader() as store:
            return {point.point_id: point.payload for point in store.scroll(collection)}

    def owners(self, collection: Collection) -> set[str]:
        """Owners with at least one point that readers can reach."""
        return {owner_key(collection, payload)[0] for payload in self.points(collection).values()}

    def metadata(self, collection: Collection, owner_id: str) -> list[dict[str, Any]]:
        """Metadata of an owner's points, by chunk index."""
        found: list[dict[str, Any]] = [
            metadata
            for payload in self.points(collection).values()
            if owner_key(collection, payload)[0] == owner_id
            and isinstance(metadata := payload["metadata"], dict)
        ]
        return sorted(found, key=lambda metadata: metadata["chunk_index"])

    def pointers(self, collection: Collection) -> dict[str, ProjectionPointer]:
        with self.reader() as store:
            physical = store.resolve(collection)
        with self.database.connect() as connection:
            return read_pointers(connection, physical)

    def tamper(
        self,
        collection: Collection,
        owner_id: str,
        forge: Callable[[dict[str, Json], dict[str, Json]], None],
        *,
        beside: bool = False,
    ) -> None:
        """Let ``forge`` change payload and metadata of an owner's first point, behind everybody's back.

        Args:
            beside: Write the forgery as a new point, under the id that its payload claims, and leave the original.
        """
        with self.writer() as store:
            physical = store.resolve(collection)
            original = next(
                point
                for point in store.scroll(physical, with_vectors=True)
                if owner_key(collection, point.payload)[0] == owner_id
            )
            payload = dict(original.payload)
            metadata = payload["metadata"]
            assert isinstance(metadata, dict)
            payload["metadata"] = forged = dict(metadata)
            forge(payload, forged)
            if beside:
                store.upsert(
                    physical,
                    self.inner.space.space_id,
                    [_as_new_point(collection, original, payload)],
                )
            else:
                store.overwrite_payloads(physical, [(original.point_id, payload)])
            store.publish(physical)


def _as_new_point(
    collection: Collection, original: StoredPoint, payload: dict[str, Json]
) -> VectorPoint:
    assert original.dense is not None
    return VectorPoint(
        point_id=point_id(collection, owner_key(collection, payload)[1], 0),
        dense=original.dense,
        bm25_accented=SparseVector(),
        bm25_folded=SparseVector(),
        payload=payload,
    )


def with_other_model(house: ContentHouse) -> ContentHouse:
    """The same house and stores, asked with an embedder of another space."""
    return replace(house, inner=HashEmbedder("other"))
