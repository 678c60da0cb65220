"""Bring ``thread_centroids`` in step with threads, memberships, flags and unit vectors.

Belongs here: reading what centroids are made of, writing those that changed, deleting those no lane may have any more.
Does not belong here: the maths and the choice of inputs (retrieval.centroids), content vectors (stores.projection).
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from threadhouse.retrieval.audience import Labels
from threadhouse.retrieval.bm25 import TermForm, document_vector
from threadhouse.retrieval.centroids import (
    CENTROID_VERSION,
    CentroidPlan,
    NoCentroid,
    ThreadCentroid,
    build_centroid,
    centroid_payload,
    centroid_text,
    plan_centroids,
)
from threadhouse.retrieval.lanes import UnitOutline
from threadhouse.retrieval.models import (
    AllOf,
    Audience,
    Collection,
    Json,
    SemanticThread,
    ThreadId,
    ThreadMembership,
    UnitId,
    VectorPoint,
    VectorSpace,
)
from threadhouse.retrieval.payloads import labels_from_metadata, point_id, validate_payload
from threadhouse.retrieval.ports import VectorSearcher, VectorStore
from threadhouse.retrieval.projection import (
    ProjectionOwner,
    ProjectionPointer,
    check_threads_remain,
)
from threadhouse.stores import queries
from threadhouse.stores.knowledge import KnowledgeReader, UnreadableRow, open_knowledge
from threadhouse.stores.night_records import note_step
from threadhouse.stores.pack_store import count_threads
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import projection_lock, read_pointers

CENTROID_BATCH = 64
"""Centroids computed together; their threads' chunk vectors are in memory at once (1.5 kB a chunk)."""


POINT_BATCH = 1_000
"""Points whose vectors are fetched together."""


@dataclass(slots=True)
class CentroidReport:
    """What one refresh did with the threads that it looked at.

    ``by_lane`` counts the centroids that each lane has of them now; ``without`` why others have none.
    """

    written: int = 0
    unchanged: int = 0
    deleted: int = 0
    seconds: float = 0.0
    by_lane: dict[str, int] = field(default_factory=dict[str, int])
    without: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def vector_writes(self) -> int:
        """Points written or deleted."""
        return self.written + self.deleted

    def figures(self) -> dict[str, int | float]:
        """Every number by its name, for a person to look at."""
        numbers = {k: v for k, v in asdict(self).items() if isinstance(v, int | float)}
        return {
            **numbers,
            "seconds": round(self.seconds, 3),
            **{f"lane_{lane}": count for lane, count in self.by_lane.items()},
            **{f"without_{reason}": count for reason, count in self.without.items()},
        }


def read_centroid_plans(
    knowledge: KnowledgeReader,
    unit_pointers: Mapping[str, ProjectionPointer],
    space_id: str,
    thread_ids: Sequence[ThreadId] | None = None,
) -> list[CentroidPlan | NoCentroid]:
    """What every (thread, lane) should have, without reading a vector.

    Only units whose *published* version is their live one count: a centroid is made of what search can return.

    Args:
        unit_pointers: By unit id; those of other units than the threads' are not looked at.
        thread_ids: Plan only these threads; None means every thread.
    """
    memberships: defaultdict[ThreadId, list[ThreadMembership]] = defaultdict(list)
    for membership in knowledge.memberships(thread_ids):
        if not isinstance(membership, UnreadableRow):
            memberships[membership.thread_id].append(membership)
    members = {each.logical_unit_id for own in memberships.values() for each in own}
    units: dict[UnitId, UnitOutline] = {
        unit.logical_unit_id: unit
        for unit in knowledge.unit_outlines(None if thread_ids is None else sorted(members))
        if not isinstance(unit, UnreadableRow)
    }
    threads: list[SemanticThread] = [
        thread for thread in knowledge.threads(thread_ids) if not isinstance(thread, UnreadableRow)
    ]
    vector_digests = {
        UnitId(owner_id): pointer.content_digest
        for owner_id, pointer in unit_pointers.items()
        if pointer.chunk_count
        and owner_id in units
        and pointer.version_key == str(units[UnitId(owner_id)].unit_version_id)
    }
    return list(
        plan_centroids(
            threads,
            memberships,
            units,
            knowledge.policy(),
            vector_digests=vector_digests,
            space_id=space_id,
        )
    )


def wanted_centroid(plan: CentroidPlan, space: VectorSpace) -> ProjectionOwner:
    """A plan as an owner, for the comparison with pointers and for the audit.

    Its payload has no real cohesion: that is known only from the vectors, and the digest stands for them.
    """
    placeholder = ThreadCentroid(plan, np.zeros(space.dim, np.float32), 0.0)
    return ProjectionOwner(
        owner_id=plan.version_key,
        version_key=plan.version_key,
        content_digest=plan.input_digest,
        labels=plan.labels,
        payload=centroid_payload(placeholder),
    )


def refresh_centroids(
    database: Database,
    vectors: VectorStore,
    space: VectorSpace,
    *,
    threads: frozenset[str] | None = None,
    rebuild: frozenset[str] = frozenset(),
    allow_deletes: bool = False,
) -> CentroidReport:
    """Compute the centroids whose inputs changed, delete those that nobody may have any more.

    Deletions come first and are published before anything is computed: a lane that lost its last unit of a thread
    stops learning of the thread as soon as possible.

    Args:
        threads: Look only at these threads; one that is gone loses its centroids. None means every thread.
        rebuild: ``thread_id/lane`` keys to compute again although their inputs did not change (audit --repair).
        allow_deletes: Go on when no thread is left.

    Raises:
        StoreLockedError: Another process changes the projection.
        DeletionBrakeError: There is no thread although centroids are published; nothing was deleted.
        ProjectionError: A published unit has no vectors; run the audit.
    """
    started = time.monotonic()
    report = CentroidReport()
    asked = None if threads is None else [ThreadId(thread_id) for thread_id in sorted(threads)]
    with projection_lock(database):
        physical = vectors.ensure_collection(Collection.THREAD_CENTROIDS, space)
        unit_physical = vectors.resolve(Collection.INFORMATION_UNITS)
        with database.connect() as connection:
            unit_pointers = _read_unit_pointers(connection, unit_physical, asked)
            pointers = read_pointers(connection, physical, _keys_of(asked))
        with open_knowledge(database) as knowledge:
            answers = read_centroid_plans(knowledge, unit_pointers, space.space_id, asked)
        if pointers and not answers:
            with database.connect() as connection:
                remaining = count_threads(connection)
            check_threads_remain(len(pointers), remaining, allow_deletes=allow_deletes)
        plans = {a.version_key: a for a in answers if isinstance(a, CentroidPlan)}
        reasons = Counter(a.reason for a in answers if isinstance(a, NoCentroid))
        stored = {
            point.point_id: _labels(point.payload)
            for point in vectors.scroll(physical, _where(asked))
        }
        _delete(database, vectors, physical, stored, set(plans), pointers, report)
        vectors.publish(physical)
        changed = [
            plan
            for key, plan in plans.items()
            if key in rebuild
            or stored.get(plan.point_id) != plan.labels
            or key not in pointers
            or pointers[key].content_digest != plan.input_digest
        ]
        planned = len(plans)
        for start in range(0, len(changed), CENTROID_BATCH):
            batch = changed[start : start + CENTROID_BATCH]
            chunk_vectors = _read_chunk_vectors(vectors, unit_physical, unit_pointers, batch)
            built = [build_centroid(plan, chunk_vectors) for plan in batch]
            centroids = [each for each in built if isinstance(each, ThreadCentroid)]
            write_centroids(database, vectors, physical, space, centroids)
            report.written += len(centroids)
            for each in built:
                if isinstance(each, NoCentroid):
                    reasons[each.reason] += 1
                    del plans[f"{each.thread_id}/{each.lane}"]
        report.unchanged = len(plans) - report.written
        if planned > len(plans):
            # A thread whose vectors have come to cancel out loses the centroid it had.
            _delete(database, vectors, physical, stored, set(plans), pointers, report)
        vectors.publish(physical)
        report.by_lane = {
            lane: sum(plan.lane == lane for plan in plans.values()) for lane in Audience
        }
        report.without = {reason.value: count for reason, count in sorted(reasons.items())}
    report.seconds = time.monotonic() - started
    note_step(
        database,
        "thread_centroids",
        seconds=report.seconds,
        vector_writes=report.vector_writes,
        is_scoped=threads is not None,
    )
    return report


def _read_unit_pointers(
    connection: Connection[TupleRow], unit_physical: str, thread_ids: Sequence[ThreadId] | None
) -> dict[str, ProjectionPointer]:
    if thread_ids is None:
        return read_pointers(connection, unit_physical)
    parameters = {"physical": unit_physical, "thread_ids": thread_ids}
    with connection.cursor(row_factory=class_row(ProjectionPointer)) as cursor:
        cursor.execute(queries.load("projection_member_pointers"), parameters)
        return {pointer.owner_id: pointer for pointer in cursor}


def _keys_of(thread_ids: Sequence[ThreadId] | None) -> list[str] | None:
    """Every key that centroids of these threads can have; None for those of every thread."""
    if thread_ids is None:
        return None
    return [f"{thread_id}/{lane}" for thread_id in thread_ids for lane in Audience]


def _where(thread_ids: Sequence[ThreadId] | None) -> AllOf | None:
    return None if thread_ids is None else AllOf((("metadata.thread_id", tuple(thread_ids)),))


def _labels(payload: Mapping[str, Json]) -> Labels:
    metadata = payload.get("metadata")
    return labels_from_metadata(metadata if isinstance(metadata, dict) else {})


def _delete(
    database: Database,
    vectors: VectorStore,
    physical: str,
    stored: dict[UUID, Labels],
    wanted: set[str],
    pointers: Mapping[str, ProjectionPointer],
    report: CentroidReport,
) -> None:
    """Delete every point and pointer of a (thread, lane) that is not wanted; pointers first, so that readers drop the hit."""
    gone = [key for key in pointers if key not in wanted]
    if gone:
        with database.connect() as connection:
            connection.execute(
                queries.load("projection_remove_pointers"),
                {"physical": physical, "owner_ids": gone},
            )
    ids = {point_id(Collection.THREAD_CENTROIDS, key, 0) for key in wanted}
    surplus = [point for point in stored if point not in ids]
    if surplus:
        report.deleted += vectors.delete(physical, surplus)
        for point in surplus:
            del stored[point]


def _read_chunk_vectors(
    vectors: VectorStore,
    unit_physical: str,
    unit_pointers: Mapping[str, ProjectionPointer],
    plans: Sequence[CentroidPlan],
) -> dict[UnitId, NDArray[np.float32]]:
    """Vectors of the published chunks of every unit that the plans name."""
    wanted = {unit.logical_unit_id for plan in plans for unit in plan.units}
    owner_of = {
        point: unit_id
        for unit_id in wanted
        for point in unit_pointers[unit_id].point_ids(Collection.INFORMATION_UNITS)
    }
    rows: defaultdict[UnitId, list[NDArray[np.float32]]] = defaultdict(list)
    ids = sorted(owner_of, key=str)
    for start in range(0, len(ids), POINT_BATCH):
        found = vectors.retrieve(unit_physical, ids[start : start + POINT_BATCH], with_vectors=True)
        for point in found:
            if point.dense is not None:
                rows[owner_of[point.point_id]].append(point.dense)
    # A unit that lost some of its chunks would give a slightly wrong centre; build_centroid refuses a unit without any.
    return {
        unit_id: np.stack(found)
        for unit_id, found in rows.items()
        if len(found) == unit_pointers[unit_id].chunk_count
    }


def write_centroids(
    database: Database,
    vectors: VectorStore,
    physical: str,
    space: VectorSpace,
    centroids: Sequence[ThreadCentroid],
) -> None:
    """Write points, then their pointers: killed in between, the next run computes them again."""
    if not centroids:
        return
    points: list[VectorPoint] = []
    owners: list[ProjectionOwner] = []
    for centroid in centroids:
        payload = centroid_payload(centroid)
        validate_payload(Collection.THREAD_CENTROIDS, payload)
        text = centroid_text(centroid.plan.thread)
        points.append(
            VectorPoint(
                point_id=centroid.plan.point_id,
                dense=centroid.vector,
                bm25_accented=document_vector(text, TermForm.ACCENTED),
                bm25_folded=document_vector(text, TermForm.FOLDED),
                payload=payload,
            )
        )
        owners.append(wanted_centroid(centroid.plan, space))
    vectors.upsert(physical, space.space_id, points)
    with database.connect() as connection:
        connection.execute(
            queries.load("projection_put_pointers"),
            {
                "physical": physical,
                "collection": Collection.THREAD_CENTROIDS,
                "space_id": space.space_id,
                "chunker_version": f"centroid-{CENTROID_VERSION}",
                "owner_ids": [owner.owner_id for owner in owners],
                "version_keys": [owner.version_key for owner in owners],
                "chunk_counts": [1] * len(owners),
                "content_digests": [owner.content_digest for owner in owners],
                "payload_digests": [owner.payload_digest for owner in owners],
            },
        )


def farthest_from_unit_length(vectors: VectorSearcher) -> float:
    """The largest distance of a stored centroid's length from 1; 0 when there is none."""
    physical = vectors.resolve(Collection.THREAD_CENTROIDS)
    lengths = [
        float(np.linalg.norm(point.dense))
        for point in vectors.scroll(physical, with_vectors=True)
        if point.dense is not None
    ]
    return max((abs(length - 1) for length in lengths), default=0.0)
