"""The centre of what one lane sees of one thread.

Belongs here: unit weights, the mean direction, cohesion, which (thread, lane) gets a point and from which inputs, its payload.
Does not belong here: reading vectors or writing points (stores), matching a query against centroids (retrieval.search).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from threadhouse.retrieval.audience import AudiencePolicy, Labels, lane_principal
from threadhouse.retrieval.bm25 import TERMS_VERSION
from threadhouse.retrieval.errors import (
    DegenerateCentroidError,
    DimensionMismatchError,
    ProjectionError,
)
from threadhouse.retrieval.lanes import (
    UnitOutline,
    flags_leave_open,
    sight_of,
    strictest_labels,
    visible_memberships,
)
from threadhouse.retrieval.models import (
    Audience,
    Collection,
    Flags,
    Json,
    MembershipRole,
    SemanticThread,
    ThreadId,
    ThreadMembership,
    UnitId,
)
from threadhouse.retrieval.payloads import (
    PAYLOAD_SCHEMA,
    digest,
    label_fields,
    point_id,
)

CENTROID_VERSION = "1"
"""Version of the maths and of the choice of inputs; another one means that every centroid is computed again."""

ROLE_WEIGHTS: Mapping[MembershipRole, float] = {
    MembershipRole.CANONICAL: 1.0,
    # Half: a supporting unit says something about the thread's subject, but the canonical ones define it.
    MembershipRole.SUPPORTING: 0.5,
    MembershipRole.REPORT: 0.5,
}
"""What a unit counts in its thread's centroid, before its confidence."""

MIN_RESULTANT = 1e-6
"""Shortest weighted mean that still has a direction: float32 components are good to about 1e-7, so below this it is noise."""


_MATRIX = 2


class NoCentroidReason(StrEnum):
    """Why a (thread, lane) has no centroid."""

    NOTHING_VISIBLE = "nothing_visible"
    NO_WEIGHT = "no_weight"
    NO_VECTORS = "no_vectors"
    CANCELS_OUT = "cancels_out"


@dataclass(frozen=True, slots=True)
class NoCentroid:
    """A (thread, lane) without a point. For operators only: a reader of the lane must not learn of it."""

    thread_id: ThreadId
    lane: Audience
    reason: NoCentroidReason


@dataclass(frozen=True, slots=True)
class WeightedUnit:
    """A visible unit and what it counts; ``weight`` is in (0, 1]."""

    logical_unit_id: UnitId
    weight: float


@dataclass(frozen=True, slots=True)
class CentroidPlan:
    """What a centroid is to be computed from. ``input_digest`` is known without reading a single vector.

    ``units`` are in order of id; ``labels`` pass the lane's filter; ``language`` is the one that most weight is in.
    """

    thread: SemanticThread
    lane: Audience
    units: tuple[WeightedUnit, ...]
    language: str
    labels: Labels
    input_digest: str

    @property
    def version_key(self) -> str:
        """One point for each (thread, lane): a new centroid overwrites the old one in one write."""
        return f"{self.thread.thread_id}/{self.lane}"

    @property
    def point_id(self) -> UUID:
        """Identity of the point; the same before and after every change of the thread."""
        return point_id(Collection.THREAD_CENTROIDS, self.version_key, 0)


@dataclass(frozen=True, slots=True)
class ThreadCentroid:
    """``vector`` has shape (dim,) and length 1; ``cohesion`` is -1 to 1."""

    plan: CentroidPlan
    vector: NDArray[np.float32]
    cohesion: float

    @property
    def unit_count(self) -> int:
        """Units that the vector is made of; a lane learns nothing about the others."""
        return len(self.plan.units)


def membership_weight(membership: ThreadMembership) -> float:
    """What a unit counts: its role's weight times its confidence.

    Example:
        >>> from threadhouse.retrieval.models import MembershipStatus
        >>> membership_weight(
        ...     ThreadMembership(
        ...         ThreadId("t"), UnitId("u"), MembershipRole.REPORT, 0.5, MembershipStatus.CONFIRMED
        ...     )
        ... )
        0.25
    """
    return ROLE_WEIGHTS[membership.role] * membership.confidence


def compute_centroid(
    vectors: NDArray[np.float32], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Weighted mean direction of a thread's chunk vectors.

    Every unit counts once, however many chunks it was cut into: a chunk's weight is its unit's divided by the unit's chunks.

    Args:
        vectors: Chunk embeddings, shape (n_chunks, dim), each row of length 1.
        weights: Non-negative, shape (n_chunks,); at least one is positive.

    Returns:
        Shape (dim,), length 1.

    Raises:
        DimensionMismatchError: The two first axes differ, or one is not of that shape.
        DegenerateCentroidError: The weighted vectors cancel out or are no numbers, so there is no direction.

    Example:
        >>> rows = np.array([[1, 0], [0, 1]], dtype=np.float32)
        >>> compute_centroid(rows, np.ones(2, dtype=np.float32)).round(4)
        array([0.7071, 0.7071], dtype=float32)
    """
    _check_shapes(vectors, weights)
    # float64: sums of thousands of float32 rows would lose the digits that decide whether they cancel out.
    exact_weights = weights.astype(np.float64)
    total = float(exact_weights.sum())
    if not np.isfinite(total) or total <= 0 or bool((exact_weights < 0).any()):
        message = "The weights of a centroid must be non-negative numbers and not all zero."
        raise DegenerateCentroidError(message)
    if not np.isfinite(vectors).all():
        message = "A vector holds something that is no number, so there is no direction."
        raise DegenerateCentroidError(message)
    mean = exact_weights @ vectors.astype(np.float64) / total
    length = float(np.linalg.norm(mean))
    if length < MIN_RESULTANT:
        message = "The weighted vectors cancel out, so there is no direction."
        raise DegenerateCentroidError(message)
    return (mean / length).astype(np.float32)


def compute_cohesion(
    vectors: NDArray[np.float32],
    shares: NDArray[np.float32],
    centroid: NDArray[np.float32],
) -> float:
    """Mean cosine of a thread's units to its centroid: 1 when all say the same, near 0 when they have nothing in common.

    Roles and confidence do not count here, so that a thread held together by one canonical unit is not called cohesive.

    Args:
        vectors: Shape (n_chunks, dim), each row of length 1.
        shares: Shape (n_chunks,); 1 divided by the chunks of the row's unit.
        centroid: Shape (dim,), length 1.

    Returns:
        -1 to 1.

    Raises:
        DimensionMismatchError: The shapes do not fit.
    """
    _check_shapes(vectors, shares)
    if centroid.shape != vectors.shape[1:]:
        message = f"A centroid of shape {centroid.shape} cannot be compared with vectors of {vectors.shape}."
        raise DimensionMismatchError(message)
    cosines = vectors.astype(np.float64) @ centroid.astype(np.float64)
    mean = float(np.average(cosines, weights=shares.astype(np.float64)))
    return min(1.0, max(-1.0, mean))


def plan_centroids(
    threads: Iterable[SemanticThread],
    memberships: Mapping[ThreadId, Sequence[ThreadMembership]],
    units: Mapping[UnitId, UnitOutline],
    policy: AudiencePolicy,
    *,
    vector_digests: Mapping[UnitId, str],
    space_id: str,
) -> Iterator[CentroidPlan | NoCentroid]:
    """Decide for every thread and lane whether it has a centroid, and from what.

    Nothing here needs a vector, so an unchanged hub is recognised by digests alone.

    Args:
        threads: In any order.
        memberships: By thread; rejected ones may be among them.
        units: Every unit that has a live version.
        policy: The version in force.
        vector_digests: Of units whose live version has vectors in ``space_id``: a digest that changes with the vectors.
        space_id: The vector space of all these vectors.

    Yields:
        One answer for each (thread, lane), threads in the given order, lanes in the order of `Audience`.
    """
    sights = {lane: sight_of(lane_principal(lane), policy) for lane in Audience}

    @cache
    def leaves_open(flags: Flags, lane: Audience) -> bool:
        return flags_leave_open(flags, lane_principal(lane), policy)

    for thread in threads:
        own = memberships.get(thread.thread_id, ())
        labels = {
            m.logical_unit_id: units[m.logical_unit_id].labels
            for m in own
            if m.logical_unit_id in units
        }
        # Most lanes see the same units of most threads.
        counted: dict[tuple[UnitId, ...], _Counted | NoCentroidReason] = {}
        for lane, sight in sights.items():
            shown = (
                visible_memberships(own, labels, sight) if leaves_open(thread.flags, lane) else []
            )
            key = tuple(membership.logical_unit_id for membership in shown)
            if key not in counted:
                counted[key] = _count(thread, shown, units, vector_digests)
            yield _plan_lane(thread, lane, counted[key], space_id)


def build_centroid(
    plan: CentroidPlan, chunk_vectors: Mapping[UnitId, NDArray[np.float32]]
) -> ThreadCentroid | NoCentroid:
    """Compute a planned centroid.

    Args:
        plan: From `plan_centroids`.
        chunk_vectors: By unit, the vectors of its live version, shape (n_chunks, dim).

    Raises:
        ProjectionError: A unit that was published with vectors has none.
        DimensionMismatchError: Vectors of two units have different dimensions.
    """
    rows: list[NDArray[np.float32]] = []
    weights: list[float] = []
    shares: list[float] = []
    for unit in plan.units:
        vectors = chunk_vectors.get(unit.logical_unit_id)
        if vectors is None or len(vectors) == 0:
            message = (
                f"Unit {unit.logical_unit_id} is published but has no vectors; "
                "run `threadhouse audit --repair`, then build the centroids again."
            )
            raise ProjectionError(message)
        if rows and vectors.shape[1:] != rows[0].shape[1:]:
            message = f"Unit {unit.logical_unit_id} has vectors of another dimension than its thread's other units."
            raise DimensionMismatchError(message)
        rows.append(vectors)
        weights.extend([unit.weight / len(vectors)] * len(vectors))
        shares.extend([1 / len(vectors)] * len(vectors))
    stacked = np.concatenate(rows)
    try:
        vector = compute_centroid(stacked, np.asarray(weights, dtype=np.float32))
    except DegenerateCentroidError:
        return NoCentroid(plan.thread.thread_id, plan.lane, NoCentroidReason.CANCELS_OUT)
    cohesion = compute_cohesion(stacked, np.asarray(shares, dtype=np.float32), vector)
    return ThreadCentroid(plan, vector, cohesion)


def centroid_text(thread: SemanticThread) -> str:
    """What the BM25 vectors of a centroid are made of: how the thread calls itself, never the text of its units.

    A lane that sees one unit of the thread sees all of this as well.
    """
    return "\n".join(
        part
        for part in (
            thread.title,
            *thread.aliases,
            *thread.labels,
            thread.purpose,
            thread.description,
        )
        if part
    )


def centroid_payload(centroid: ThreadCentroid) -> dict[str, Json]:
    """The payload of a centroid's point, after the payload contract; ``char_start`` and ``char_end`` are 0: it is no slice."""
    plan = centroid.plan
    thread = plan.thread
    return {
        "document_id": thread.thread_id,
        "metadata": {
            "title": thread.title,
            "tags": list(thread.labels),
            "path": thread.canonical_address,
            "language": plan.language,
            "chunk_index": 0,
            "total_chunks": 1,
            "char_start": 0,
            "char_end": 0,
            "content_hash": hashlib.sha256(centroid_text(thread).encode()).hexdigest(),
            **label_fields(plan.labels),
            "thread_id": thread.thread_id,
            "lane": plan.lane,
            "unit_count": centroid.unit_count,
            # Rounded so that a store which keeps doubles and one which keeps floats give back the same number.
            "cohesion": round(centroid.cohesion, 6),
            "payload_schema": PAYLOAD_SCHEMA,
        },
    }


@dataclass(frozen=True, slots=True)
class _Counted:
    """What a centroid is made of, whichever lanes see just that; ``digests`` are those of the units' vectors."""

    units: tuple[WeightedUnit, ...]
    digests: tuple[str, ...]
    language: str
    labels: Labels


def _count(
    thread: SemanticThread,
    shown: Sequence[ThreadMembership],
    units: Mapping[UnitId, UnitOutline],
    vector_digests: Mapping[UnitId, str],
) -> _Counted | NoCentroidReason:
    if not shown:
        return NoCentroidReason.NOTHING_VISIBLE
    weighted = [
        WeightedUnit(m.logical_unit_id, weight)
        for m in shown
        if (weight := membership_weight(m)) > 0
    ]
    if not weighted:
        return NoCentroidReason.NO_WEIGHT
    counted = [unit for unit in weighted if unit.logical_unit_id in vector_digests]
    if not counted:
        return NoCentroidReason.NO_VECTORS
    return _Counted(
        units=tuple(counted),
        digests=tuple(vector_digests[unit.logical_unit_id] for unit in counted),
        language=_main_language(counted, units),
        labels=strictest_labels(
            [units[unit.logical_unit_id].labels for unit in counted], thread.flags
        ),
    )


def _plan_lane(
    thread: SemanticThread, lane: Audience, counted: _Counted | NoCentroidReason, space_id: str
) -> CentroidPlan | NoCentroid:
    if isinstance(counted, NoCentroidReason):
        return NoCentroid(thread.thread_id, lane, counted)
    input_digest = digest(
        {
            "version": CENTROID_VERSION,
            "terms": TERMS_VERSION,
            "payload_schema": PAYLOAD_SCHEMA,
            "space": space_id,
            "thread": [
                thread.thread_id,
                thread.canonical_address,
                thread.title,
                list(thread.labels),
                centroid_text(thread),
            ],
            "lane": lane,
            "language": counted.language,
            "labels": label_fields(counted.labels),
            "units": [
                [unit.logical_unit_id, unit.weight, vectors]
                for unit, vectors in zip(counted.units, counted.digests, strict=True)
            ],
        }
    )
    return CentroidPlan(
        thread=thread,
        lane=lane,
        units=counted.units,
        language=counted.language,
        labels=counted.labels,
        input_digest=input_digest,
    )


def _main_language(counted: Sequence[WeightedUnit], units: Mapping[UnitId, UnitOutline]) -> str:
    weight_of: Counter[str] = Counter()
    for unit in counted:
        # Thousandths: whole numbers, so that a tie is a tie whatever the order of adding.
        weight_of[units[unit.logical_unit_id].language] += round(1000 * unit.weight)
    return min(weight_of, key=lambda language: (-weight_of[language], language))


def _check_shapes(vectors: NDArray[np.float32], per_row: NDArray[np.float32]) -> None:
    if vectors.ndim != _MATRIX or per_row.shape != vectors.shape[:1] or len(vectors) == 0:
        message = f"Vectors of shape {vectors.shape} and one number a row of shape {per_row.shape} do not fit."
        raise DimensionMismatchError(message)
