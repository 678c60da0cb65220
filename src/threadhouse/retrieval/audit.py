"""What can be wrong with a projection, point by point, against what the source of truth wants.

Belongs here: the kinds of findings and the rules that find them. Every collection goes through the same rules.
Does not belong here: reading (stores.audit), mending (stores.projection).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from threadhouse.retrieval.errors import PayloadContractError
from threadhouse.retrieval.models import Collection, Json
from threadhouse.retrieval.payloads import (
    label_fields,
    labels_from_metadata,
    owner_part,
    point_id,
    validate_payload,
)
from threadhouse.retrieval.projection import (
    ProjectionOwner,
    ProjectionPointer,
    RepairOrder,
)

COMPUTED_FIELDS: frozenset[str] = frozenset({"unit_count", "cohesion"})
"""Payload fields that come from the vectors themselves; their inputs are compared by digest instead."""

SAMPLE_SIZE = 20
"""Findings of a kind that are kept word for word; the rest is only counted. A broken store has as many as points."""


class FindingKind(StrEnum):
    """Everything that can be wrong with a collection, a point or an owner's points together."""

    MISSING = "missing"
    STALE_VERSION = "stale_version"
    ORPHAN = "orphan"
    PAYLOAD_DRIFT = "payload_drift"
    ACCESS_DRIFT = "access_drift"
    BOUNDARY_VIOLATION = "boundary_violation"
    MODEL_MISMATCH = "model_mismatch"
    POINTER_DRIFT = "pointer_drift"
    UNREGISTERED_COLLECTION = "unregistered_collection"


REBUILDS: frozenset[FindingKind] = frozenset(
    {FindingKind.MISSING, FindingKind.BOUNDARY_VIOLATION, FindingKind.POINTER_DRIFT}
)
"""Kinds that are mended by writing an owner's points again."""

REWRITES: frozenset[FindingKind] = frozenset({FindingKind.PAYLOAD_DRIFT, FindingKind.ACCESS_DRIFT})
"""Kinds that are mended by writing an owner's payloads again. Strays and stale versions go in the clean-up."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. ``owner_id`` is a unit, document or ``thread/lane``; ``detail`` a clause."""

    collection: str
    kind: FindingKind
    owner_id: str
    detail: str


@dataclass(slots=True)
class CollectionAudit:
    """Findings of one physical collection."""

    collection: str
    physical: str
    points: int = 0
    owners: int = 0
    counts: dict[FindingKind, int] = field(default_factory=dict[FindingKind, int])
    samples: list[Finding] = field(default_factory=list[Finding])
    rewrite: set[str] = field(default_factory=set[str])
    rebuild: set[str] = field(default_factory=set[str])

    @property
    def is_clean(self) -> bool:
        return not self.counts

    def note(self, kind: FindingKind, owner_id: str, detail: str) -> None:
        """Count a finding, keep the first ones word for word, and remember what would mend it."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= SAMPLE_SIZE:
            self.samples.append(Finding(self.collection, kind, owner_id, detail))
        if kind in REBUILDS:
            self.rebuild.add(owner_id)
        elif kind in REWRITES:
            self.rewrite.add(owner_id)

    @property
    def repair_order(self) -> RepairOrder:
        return RepairOrder(frozenset(self.rewrite - self.rebuild), frozenset(self.rebuild))


@dataclass(frozen=True, slots=True)
class ReadPoint:
    """What an audit keeps of a point after looking at it: where its chunk lies."""

    chunk_index: int
    total_chunks: int
    char_start: int
    char_end: int
    content_hash: str


def owner_key(collection: Collection, payload: Mapping[str, Json]) -> tuple[str, str]:
    """(owner id, version key) that a payload claims; empty strings where it claims nothing."""
    metadata = payload.get("metadata")
    meta = metadata if isinstance(metadata, dict) else {}
    document_id = str(payload.get("document_id") or "")
    match collection:
        case Collection.INFORMATION_UNITS:
            return str(meta.get("logical_unit_id") or ""), str(meta.get("unit_version_id") or "")
        case Collection.PRODUCTION_DOCUMENTS:
            return document_id, f"{document_id}@{meta.get('source_revision')}"
        case Collection.THREAD_CENTROIDS:
            key = f"{meta.get('thread_id')}/{meta.get('lane')}"
            return key, key


def inspect_point(
    audit: CollectionAudit,
    collection: Collection,
    stored_id: UUID,
    payload: Mapping[str, Json],
    wanted: Mapping[str, ProjectionOwner],
) -> tuple[str, ReadPoint] | None:
    """Judge one stored point; returns its owner and place when it belongs to a wanted version."""
    owner_id, version_key = owner_key(collection, payload)
    owner = wanted.get(owner_id)
    if owner is None:
        audit.note(
            FindingKind.ORPHAN,
            owner_id,
            f"point {stored_id} belongs to nothing in the source",
        )
        return None
    if version_key != owner.version_key:
        audit.note(
            FindingKind.STALE_VERSION,
            owner_id,
            f"point {stored_id} is of version {version_key}, the live one is {owner.version_key}",
        )
        return None
    try:
        validated = validate_payload(collection, payload)
    except PayloadContractError as error:
        audit.note(FindingKind.PAYLOAD_DRIFT, owner_id, f"point {stored_id}: {error}")
        return None
    metadata = validated.metadata
    if stored_id != point_id(collection, version_key, metadata.chunk_index):
        audit.note(FindingKind.ORPHAN, owner_id, f"point {stored_id} does not carry its own id")
        return None
    _compare_payload(audit, owner, payload, stored_id)
    return owner_id, ReadPoint(
        metadata.chunk_index,
        metadata.total_chunks,
        metadata.char_start,
        metadata.char_end,
        metadata.content_hash,
    )


def _comparable(payload: Mapping[str, Json]) -> dict[str, Json]:
    part = owner_part(payload)
    metadata = part["metadata"]
    kept = metadata if isinstance(metadata, dict) else {}
    return {
        **part,
        "metadata": {name: value for name, value in kept.items() if name not in COMPUTED_FIELDS},
    }


def _compare_payload(
    audit: CollectionAudit,
    owner: ProjectionOwner,
    payload: Mapping[str, Json],
    stored_id: UUID,
) -> None:
    stored, expected = _comparable(payload), _comparable(owner.payload)
    if stored == expected:
        return
    metadata = payload["metadata"]
    stored_labels = labels_from_metadata(metadata if isinstance(metadata, dict) else {})
    if stored_labels != owner.labels:
        old, new = label_fields(stored_labels), label_fields(owner.labels)
        names = sorted(name for name in new if old[name] != new[name])
        audit.note(
            FindingKind.ACCESS_DRIFT,
            owner.owner_id,
            f"point {stored_id} differs in {', '.join(names)}",
        )
    else:
        audit.note(
            FindingKind.PAYLOAD_DRIFT,
            owner.owner_id,
            f"point {stored_id} has old metadata",
        )


def inspect_owner(
    audit: CollectionAudit,
    owner: ProjectionOwner,
    pointer: ProjectionPointer | None,
    found: Mapping[int, ReadPoint],
) -> bool:
    """Judge the points of one wanted owner together; returns whether they are complete.

    Args:
        pointer: What Postgres says is published.
        found: By chunk index.
    """
    totals = {point.total_chunks for point in found.values()}
    complete = len(totals) == 1 and set(found) == set(range(next(iter(totals)))) if found else False
    if pointer is None:
        audit.note(FindingKind.MISSING, owner.owner_id, "the live version was never published")
        return False
    if not found and pointer.chunk_count == 0 and pointer.content_digest == owner.content_digest:
        return True
    if not complete:
        expected = pointer.chunk_count or "some"
        audit.note(
            FindingKind.MISSING,
            owner.owner_id,
            f"{len(found)} of {expected} chunks are stored",
        )
        return False
    if (
        pointer.version_key != owner.version_key
        or pointer.chunk_count != len(found)
        or pointer.content_digest != owner.content_digest
    ):
        audit.note(
            FindingKind.POINTER_DRIFT,
            owner.owner_id,
            "the published pointer names something else",
        )
    return True
