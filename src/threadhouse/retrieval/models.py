"""The values that cross module borders.

Belongs here: frozen dataclasses, enums with the exact words of the design, id types.
Does not belong here: behaviour that needs a store, or anything about how a value is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NewType, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

DocumentId = NewType("DocumentId", str)
UnitId = NewType("UnitId", str)
UnitVersionId = NewType("UnitVersionId", UUID)
ThreadId = NewType("ThreadId", str)


class Visibility(StrEnum):
    """Who a text is meant for, from everybody to a few."""

    PUBLIC = "public"
    PARTNER = "partner"
    EMPLOYEE = "employee"
    INTERNAL = "internal"
    RESTRICTED = "restricted"


class Readiness(StrEnum):
    """How far a text has come."""

    DRAFT = "draft"
    UNDER_REVIEW = "under_review"
    APPROVED = "approved"
    PUBLISHED = "published"
    SUPERSEDED = "superseded"


class PublicationState(StrEnum):
    """Whether a text is out."""

    UNPUBLISHED = "unpublished"
    PUBLISHED = "published"
    WITHDRAWN = "withdrawn"


class RiskClass(StrEnum):
    """Harm that a wrong answer from a text can do."""

    LOW = "low"
    STANDARD = "standard"
    HIGH = "high"


class Authority(StrEnum):
    """What a text is worth: law in force, a draft, or what the running system says."""

    ENACTED = "enacted"
    DRAFT = "draft"
    RUNTIME = "runtime"


class LifecycleStage(StrEnum):
    """Stations of the lifecycle chain, in its order."""

    LAW = "law"
    DESIGN = "design"
    CODE = "code"
    TEST = "test"
    REPORT = "report"
    INCIDENT = "incident"


class DataClassification(StrEnum):
    """How sensitive the content is; ``secret`` and ``blocked`` are shown to nobody."""

    UNCLASSIFIED = "unclassified"
    CONFIDENTIAL = "confidential"
    SECRET = "secret"  # noqa: S105  the word of the vocabulary, not a password
    BLOCKED = "blocked"


class Audience(StrEnum):
    """Who asks. Its values are also the names of the lanes that derived artefacts are built for."""

    CUSTOMER = "customer"
    PARTNER = "partner"
    EMPLOYEE = "employee"
    AI_AGENT = "ai_agent"


class MembershipRole(StrEnum):
    """What a unit is to a thread."""

    CANONICAL = "canonical"
    SUPPORTING = "supporting"
    REPORT = "report"


class MembershipStatus(StrEnum):
    """Who stands behind a membership; ``rejected`` ones count for nothing."""

    CONFIRMED = "confirmed"
    PROPOSED = "proposed"
    NEEDS_HUMAN = "needs_human"
    REJECTED = "rejected"


class HealthStatus(StrEnum):
    """What is wrong with a thread, if anything."""

    HEALTHY = "healthy"
    STALE = "stale"
    OVERBROAD = "overbroad"
    TOO_NARROW = "too_narrow"
    NOISY_RETRIEVAL = "noisy_retrieval"
    WEAK = "weak"


class Collection(StrEnum):
    """Public names (aliases) of the vector collections. Every one is audited; an unregistered one fails the audit."""

    PRODUCTION_DOCUMENTS = "production_documents"
    INFORMATION_UNITS = "information_units"
    THREAD_CENTROIDS = "thread_centroids"


@dataclass(frozen=True, slots=True)
class Flags:
    """The five flags of D11 §4.11, effective (a unit's own, else its document's). None means missing: invisible."""

    visibility: Visibility | None = None
    readiness: Readiness | None = None
    publication_state: PublicationState | None = None
    risk_class: RiskClass | None = None
    authority: Authority | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """Who reads, and what they may. There is no default principal."""

    subject: str
    audience: Audience
    roles: frozenset[str] = frozenset()
    task_scopes: frozenset[str] = frozenset()
    tool_permissions: frozenset[str] = frozenset()
    classifications: frozenset[str] = frozenset()
    high_risk_consents: frozenset[str] = frozenset()
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class InformationUnit:
    """One unit with its live version and its effective flags. ``body`` is NFC; offsets count its code points."""

    logical_unit_id: UnitId
    document_id: DocumentId
    canonical_address: str
    unit_kind: str
    lifecycle_stage: LifecycleStage
    ordinal: int
    flags: Flags
    data_classification: DataClassification
    unit_version_id: UnitVersionId
    revision: int
    title: str
    body: str
    content_hash: str
    created_at: datetime
    document_title: str
    path: str
    language: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProductionDocument:
    """One document as the legacy collection sees it. ``body`` is NFC; ``has_units`` means its units replace it there."""

    document_id: DocumentId
    path: str
    title: str
    body: str
    language: str
    revision: int
    flags: Flags
    lifecycle_stage: LifecycleStage | None
    data_classification: DataClassification
    content_hash: str
    updated_at: datetime
    has_units: bool
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A slice of a text: ``text == whole[char_start:char_end]``, offsets in code points, end exclusive."""

    text: str
    char_start: int
    char_end: int


@dataclass(frozen=True, slots=True)
class UnitChunk:
    """A slice of exactly one version of exactly one unit."""

    logical_unit_id: UnitId
    unit_version_id: UnitVersionId
    span: TextSpan
    chunk_index: int
    total_chunks: int
    token_count: int


@dataclass(frozen=True, slots=True)
class DocumentChunk:
    """A slice of one revision of a legacy document; it may cut across units."""

    document_id: DocumentId
    revision: int
    span: TextSpan
    chunk_index: int
    total_chunks: int


@dataclass(frozen=True, slots=True)
class SemanticThread:
    """One topic across the lifecycle chain. ``input_revision`` counts every change that can alter its packs."""

    thread_id: ThreadId
    canonical_address: str
    title: str
    purpose: str
    description: str
    flags: Flags
    input_revision: int
    owner: str | None = None
    aliases: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadMembership:
    """``confidence`` is 0 to 1."""

    thread_id: ThreadId
    logical_unit_id: UnitId
    role: MembershipRole
    confidence: float
    status: MembershipStatus
    evidence: str | None = None


@dataclass(frozen=True, slots=True)
class ExpectedArtifact:
    """An entry of ``expected_artifact_missing`` (D9 §4.9): a station of the chain that has nothing yet."""

    thread_id: ThreadId
    lifecycle_stage: LifecycleStage
    description: str
    status: str


@dataclass(frozen=True, slots=True)
class Edge:
    """A row of ``universal_edge``; an end that resolves to nothing is dangling and shown as such."""

    edge_id: str
    source_kind: str
    source_id: str
    target_kind: str
    target_id: str
    edge_type: str


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """Everything that decides whether two vectors may be compared."""

    name: str
    model: str
    weights_sha256: str
    tokenizer_sha256: str
    dim: int
    max_tokens: int
    pooling: str
    query_prefix: str
    passage_prefix: str
    space_id: str
    """``name-dim-hash`` over all other fields and the text-preparation version; the Qdrant vector name."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """Embeddings that know their space and role; a bare array never reaches a store.

    ``data`` has shape (n, dim), float32, rows of length 1, in input order; ``truncated`` has shape (n,).
    """

    space_id: str
    role: str
    data: NDArray[np.float32]
    truncated: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Term weights by hashed term; ``indices`` are unique and ascending, ``values`` positive."""

    indices: tuple[int, ...] = ()
    values: tuple[float, ...] = ()


Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A JSON value. (``type`` statements need Python 3.12; 3.11 is supported.)"""


@dataclass(frozen=True, slots=True)
class VectorPoint:
    """One point on its way to a collection: a dense vector of one space, two BM25 vectors, a payload."""

    point_id: UUID
    dense: NDArray[np.float32]
    bm25_accented: SparseVector
    bm25_folded: SparseVector
    payload: dict[str, Json]


@dataclass(frozen=True, slots=True)
class StoredPoint:
    """One point as a collection holds it; ``dense`` only when asked for."""

    point_id: UUID
    payload: dict[str, Json]
    dense: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class ScoredPoint:
    """A hit; ``score`` is the engine's own (cosine, or BM25 sum), larger is better."""

    point_id: UUID
    score: float
    payload: dict[str, Json]


@dataclass(frozen=True, slots=True)
class AllOf:
    """An allow-list filter: every field's value must be among the given ones. A missing field never matches.

    Keys are payload paths such as ``metadata.visibility``. There is no negation: `must_not` admits points without the field.
    """

    allowed: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """One list of hits that a collection is asked for, best first, at most ``limit``.

    ``vector`` of a question searches by cosine; a `SparseVector` by BM25 in the vector called ``bm25``, with the IDF of what
    ``where`` lets the asker see.
    """

    vector: Vectors | SparseVector
    where: AllOf
    limit: int
    bm25: str = ""


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """``physical`` is the stamped name ``alias__space_id__gN``; ``alias`` the public one, None when nothing points at it."""

    physical: str
    alias: str | None
    space_id: str | None
    point_count: int
