"""The audit of every collection against Postgres, and its repair.

Belongs here: streaming stored points past the rules of ``retrieval.audit``, proving chunk borders on the texts themselves.
Does not belong here: what counts as wrong (retrieval.audit), how it is mended (stores.projection).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass

from psycopg import Connection, IsolationLevel
from psycopg.rows import TupleRow

from threadhouse.retrieval.audit import (
    CollectionAudit,
    FindingKind,
    ReadPoint,
    inspect_owner,
    inspect_point,
)
from threadhouse.retrieval.centroids import CentroidPlan
from threadhouse.retrieval.errors import ChunkBoundaryError
from threadhouse.retrieval.models import Collection, CollectionInfo, Json, TextSpan, VectorSpace
from threadhouse.retrieval.payloads import digest_text
from threadhouse.retrieval.ports import VectorSearcher
from threadhouse.retrieval.projection import ProjectionOwner, ProjectionPointer, RepairOrder
from threadhouse.stores.centroid_projection import read_centroid_plans, wanted_centroid
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.generations import beside_names, read_generations
from threadhouse.stores.knowledge import open_knowledge
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import read_pointers
from threadhouse.stores.projection_sources import (
    ContentSource,
    DocumentSource,
    UnitSource,
)

TEXT_BATCH = 500
"""Owners whose texts are in memory at once while borders are proven."""

PROGRESS_POINTS = 1_000
"""Points between two progress reports."""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit found, collection by collection."""

    collections: tuple[CollectionAudit, ...]
    seconds: float

    @property
    def is_clean(self) -> bool:
        return all(audit.is_clean for audit in self.collections)

    @property
    def points(self) -> int:
        return sum(audit.points for audit in self.collections)

    @property
    def findings(self) -> int:
        return sum(sum(audit.counts.values()) for audit in self.collections)

    @property
    def repair_orders(self) -> dict[Collection, RepairOrder]:
        """What a publish has to write again although the pointers say it is right."""
        return {
            Collection(audit.collection): audit.repair_order
            for audit in self.collections
            if audit.collection in list(Collection)
        }

    def to_json(self) -> dict[str, Json]:
        return {
            "is_clean": self.is_clean,
            "seconds": round(self.seconds, 3),
            "points": self.points,
            "findings": self.findings,
            "collections": [
                {
                    "collection": audit.collection,
                    "physical": audit.physical,
                    "points": audit.points,
                    "owners": audit.owners,
                    "counts": {kind.value: count for kind, count in sorted(audit.counts.items())},
                    "samples": [
                        {name: str(value) for name, value in asdict(sample).items()}
                        for sample in audit.samples
                    ],
                }
                for audit in self.collections
            ],
        }


def audit_projection(
    database: Database,
    vectors: VectorSearcher,
    embedder: CachedEmbedder,
    progress: Callable[[str, int], None] | None = None,
    only: Container[str] = frozenset(Collection),
) -> AuditReport:
    """Hold every stored point of every collection against Postgres.

    Args:
        vectors: A writer sees the live state, a reader what readers see.
        embedder: Its space is the one that every collection should be of; it counts tokens and embeds nothing.
        progress: Called with (collection, points read so far).
        only: Collections to look at; a check of one product leaves the others to theirs.
    """
    started = time.monotonic()
    with database.connect() as connection:
        beside = beside_names(read_generations(connection))
    audits, infos = _register(vectors, beside)
    sources: dict[Collection, ContentSource] = {
        source.collection: source for source in (UnitSource(), DocumentSource())
    }
    space_id = embedder.space.space_id
    with database.connect() as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        for collection in (each for each in Collection if each in only):
            info = infos.get(collection)
            audit = CollectionAudit(collection, info.physical if info else "")
            audits.append(audit)
            source = sources.get(collection)
            # A collection of another model is one finding, not one for each of its owners.
            stamped = (info.space_id if info else None) or space_id
            wanted = (
                source.read_wanted(connection, stamped).owners
                if source
                else _wanted_centroids(
                    database, infos.get(Collection.INFORMATION_UNITS), embedder.space, stamped
                )
            )
            places: dict[str, dict[int, ReadPoint]] = {}
            pointers: dict[str, ProjectionPointer] = {}
            if info is not None:
                if info.space_id != space_id:
                    detail = f"holds vectors of {info.space_id}, the configured model is {space_id}"
                    audit.note(FindingKind.MODEL_MISMATCH, info.physical, detail)
                places = _read_points(audit, collection, vectors, info, wanted, progress)
                pointers = read_pointers(connection, info.physical)
            complete = _judge_owners(audit, pointers, wanted, places)
            if source is not None:
                _prove_borders(connection, audit, source, embedder, wanted, complete)
    return AuditReport(tuple(audits), time.monotonic() - started)


def _register(
    vectors: VectorSearcher, beside: Container[str]
) -> tuple[list[CollectionAudit], dict[str, CollectionInfo]]:
    """Known collections by public name, and a finding for every other one: nothing may be invisible to the audit.

    A generation that is built or kept beside the one in force is held against the source before it is switched to.
    """
    strangers: list[CollectionAudit] = []
    known: dict[str, CollectionInfo] = {}
    for info in vectors.collections():
        if info.alias in list(Collection):
            known[str(info.alias)] = info
            continue
        if info.physical in beside:
            continue
        audit = CollectionAudit(info.alias or info.physical, info.physical, info.point_count)
        detail = "is not registered; nothing keeps it in step with Postgres. Register it or drop it"
        audit.note(FindingKind.UNREGISTERED_COLLECTION, info.physical, detail)
        strangers.append(audit)
    return strangers, known


def _wanted_centroids(
    database: Database, units: CollectionInfo | None, space: VectorSpace, stamped: str
) -> dict[str, ProjectionOwner]:
    """What ``thread_centroids`` should hold: recomputed from the source, not taken from what was written."""
    with database.connect() as connection:
        pointers = read_pointers(connection, units.physical) if units else {}
    with open_knowledge(database) as knowledge:
        answers = read_centroid_plans(knowledge, pointers, stamped)
    return {
        answer.version_key: wanted_centroid(answer, space)
        for answer in answers
        if isinstance(answer, CentroidPlan)
    }


def _read_points(
    audit: CollectionAudit,
    collection: Collection,
    vectors: VectorSearcher,
    info: CollectionInfo | None,
    wanted: Mapping[str, ProjectionOwner],
    progress: Callable[[str, int], None] | None,
) -> dict[str, dict[int, ReadPoint]]:
    """Every stored point past the rules; what belongs somewhere comes back by owner and chunk index."""
    places: dict[str, dict[int, ReadPoint]] = {}
    if info is None:
        return places
    for point in vectors.scroll(info.physical):
        audit.points += 1
        judged = inspect_point(audit, collection, point.point_id, point.payload, wanted)
        if judged is not None:
            owner_id, place = judged
            places.setdefault(owner_id, {})[place.chunk_index] = place
        if progress is not None and audit.points % PROGRESS_POINTS == 0:
            progress(collection, audit.points)
    return places


def _judge_owners(
    audit: CollectionAudit,
    pointers: Mapping[str, ProjectionPointer],
    wanted: Mapping[str, ProjectionOwner],
    places: Mapping[str, Mapping[int, ReadPoint]],
) -> dict[str, Mapping[int, ReadPoint]]:
    """Every wanted owner past the rules; returns the complete ones that have chunks."""
    audit.owners = len(wanted)
    complete: dict[str, Mapping[int, ReadPoint]] = {}
    for owner_id, owner in wanted.items():
        found = places.get(owner_id, {})
        if inspect_owner(audit, owner, pointers.get(owner_id), found) and found:
            complete[owner_id] = found
    for owner_id in pointers.keys() - wanted.keys():
        audit.note(FindingKind.ORPHAN, owner_id, "a pointer names an owner that is gone")
    return complete


def _prove_borders(
    connection: Connection[TupleRow],
    audit: CollectionAudit,
    source: ContentSource,
    embedder: CachedEmbedder,
    wanted: Mapping[str, ProjectionOwner],
    complete: Mapping[str, Mapping[int, ReadPoint]],
) -> None:
    """Prove on the text itself that the stored chunks are a sound cut of exactly one version of exactly one owner."""
    owner_ids = list(complete)
    for start in range(0, len(owner_ids), TEXT_BATCH):
        batch = owner_ids[start : start + TEXT_BATCH]
        texts = source.read_texts(connection, batch)
        cuts = {owner_id: _slices(texts[owner_id].body, complete[owner_id]) for owner_id in batch}
        # Counted together: one call for 500 owners costs a third of one call for each chunk.
        sizes = source.sizes([span.text for cut in cuts.values() for span in cut], embedder)
        for owner_id, spans in cuts.items():
            for index, span in enumerate(spans):
                if digest_text(span.text) != complete[owner_id][index].content_hash:
                    version = wanted[owner_id].version_key
                    detail = f"chunk {index} is not the text of version {version}"
                    audit.note(FindingKind.BOUNDARY_VIOLATION, owner_id, detail)
            try:
                source.verify(texts[owner_id].body, spans, embedder, sizes)
            except ChunkBoundaryError as error:
                audit.note(FindingKind.BOUNDARY_VIOLATION, owner_id, str(error))


def _slices(body: str, found: Mapping[int, ReadPoint]) -> list[TextSpan]:
    """What the stored offsets cut out of a text, in order of chunk index."""
    places = [found[index] for index in range(len(found))]
    return [TextSpan(body[p.char_start : p.char_end], p.char_start, p.char_end) for p in places]
