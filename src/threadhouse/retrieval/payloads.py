"""The payload contract: what every point carries, in every collection.

Belongs here: the schema (validated on write and again by the audit), how a payload is put together, point ids, digests.
Does not belong here: how a store keeps it. `docs/payload-contract.md` shows the same table; a test compares the two.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, TypeVar
from uuid import UUID, uuid5

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from threadhouse.retrieval.audience import Labels
from threadhouse.retrieval.errors import PayloadContractError
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    Collection,
    DataClassification,
    Flags,
    Json,
    LifecycleStage,
    PublicationState,
    Readiness,
    RiskClass,
    TextSpan,
    Visibility,
)

PAYLOAD_SCHEMA = 1
"""Version of this contract; a point with another one is drift and is written again."""

POINT_NAMESPACE = UUID("6d3f0a52-2a3b-5f0e-9a43-7a3f2f4be2b1")
"""Namespace of all point ids. Changing it would orphan every stored point."""

Word = TypeVar("Word", bound=StrEnum)
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Contract(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CommonMetadata(_Contract):
    """What every point has. A flag may be null: then nobody sees the point."""

    title: str
    tags: list[str]
    path: str
    language: str
    chunk_index: int = Field(ge=0)
    total_chunks: int = Field(ge=1)
    char_start: int = Field(ge=0)
    char_end: int = Field(ge=0)
    content_hash: Sha256
    visibility: Visibility | None
    readiness: Readiness | None
    publication_state: PublicationState | None
    risk_class: RiskClass | None
    authority: Authority | None
    lifecycle_stage: LifecycleStage | None
    data_classification: DataClassification | None
    payload_schema: int = Field(ge=1)


class DocumentMetadata(CommonMetadata):
    """A legacy chunk."""

    source_revision: int = Field(ge=1)


class UnitMetadata(CommonMetadata):
    """A chunk of exactly one version of exactly one unit."""

    logical_unit_id: str = Field(min_length=1)
    unit_version_id: UUID
    unit_kind: str = Field(min_length=1)
    canonical_address: str = Field(min_length=1)
    source_revision: int = Field(ge=1)


class CentroidMetadata(CommonMetadata):
    """The centre of what one lane sees of one thread."""

    thread_id: str = Field(min_length=1)
    lane: Audience
    unit_count: int = Field(ge=1)
    cohesion: float = Field(ge=-1, le=1)


class Payload(_Contract):
    """What the payloads of all collections share."""

    document_id: str = Field(min_length=1)


class DocumentPayload(Payload):
    """A point of ``production_documents``."""

    metadata: DocumentMetadata


class UnitPayload(Payload):
    """A point of ``information_units``."""

    metadata: UnitMetadata


class CentroidPayload(Payload):
    """A point of ``thread_centroids``."""

    metadata: CentroidMetadata


PAYLOAD_MODELS: Mapping[Collection, type[DocumentPayload | UnitPayload | CentroidPayload]] = {
    Collection.PRODUCTION_DOCUMENTS: DocumentPayload,
    Collection.INFORMATION_UNITS: UnitPayload,
    Collection.THREAD_CENTROIDS: CentroidPayload,
}

CHUNK_FIELDS: frozenset[str] = frozenset(
    {"chunk_index", "total_chunks", "char_start", "char_end", "content_hash"}
)
"""Metadata that belongs to the chunk; the rest is the same for every chunk of an owner."""


def validate_payload(
    collection: Collection, payload: Mapping[str, Json]
) -> DocumentPayload | UnitPayload | CentroidPayload:
    """Check one payload against the contract of its collection.

    Raises:
        PayloadContractError: A field is missing, unknown or wrong; the message names the first one.
    """
    try:
        # JSON mode semantics: stores give back strings, never UUID or enum objects.
        return PAYLOAD_MODELS[collection].model_validate(payload)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        message = f"payload in {collection}: {where or 'payload'}: {first['msg']}"
        raise PayloadContractError(message) from error


def point_id(collection: Collection, version_key: str, chunk_index: int) -> UUID:
    """Identity of a chunk: collection, version and position. Text and labels are not identity.

    Args:
        version_key: ``unit_version_id``, or ``document_id@revision``, or ``thread_id/lane``.
    """
    # A NUL cannot occur in any of the parts, so two different triples never join to one name.
    return uuid5(POINT_NAMESPACE, f"{collection}\0{version_key}\0{chunk_index}")


def document_version_key(document_id: str, revision: int) -> str:
    """The version key of one revision of a document."""
    return f"{document_id}@{revision}"


def digest(value: Json) -> str:
    """sha256 of the canonical JSON of ``value``; equal values have equal digests whatever their key order."""
    return hashlib.sha256(_encode(value).encode("utf-8", "surrogatepass")).hexdigest()


# Made once: json.dumps makes an encoder for every call, which takes as long as encoding.
_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


def digest_text(text: str) -> str:
    """sha256 of a text; the ``content_hash`` of a chunk."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def chunk_payload(
    owner_payload: Mapping[str, Json],
    span: TextSpan,
    chunk_index: int,
    total_chunks: int,
) -> dict[str, Json]:
    """The payload of one chunk: its owner's, plus where the chunk lies."""
    metadata = owner_payload.get("metadata")
    if not isinstance(metadata, dict):
        message = "owner payload has no metadata object"
        raise PayloadContractError(message)
    return {
        **owner_payload,
        "metadata": {
            **metadata,
            "chunk_index": chunk_index,
            "total_chunks": total_chunks,
            "char_start": span.char_start,
            "char_end": span.char_end,
            "content_hash": digest_text(span.text),
        },
    }


def owner_part(payload: Mapping[str, Json]) -> dict[str, Json]:
    """The inverse of :func:`chunk_payload`: what all chunks of an owner share."""
    metadata = payload.get("metadata")
    kept = metadata if isinstance(metadata, dict) else {}
    return {
        **payload,
        "metadata": {name: value for name, value in kept.items() if name not in CHUNK_FIELDS},
    }


def label_fields(labels: Labels) -> dict[str, Json]:
    """The payload fields that decide visibility."""
    flags = labels.flags
    return {
        "visibility": flags.visibility,
        "readiness": flags.readiness,
        "publication_state": flags.publication_state,
        "risk_class": flags.risk_class,
        "authority": flags.authority,
        "lifecycle_stage": labels.lifecycle_stage,
        "data_classification": labels.data_classification,
    }


def labels_from_metadata(metadata: Mapping[str, Any]) -> Labels:
    """Labels of a stored point; a value outside the vocabulary reads as missing, so it hides."""
    return labels_from_words(
        *[value if isinstance(value := metadata.get(name), str) else None for name in _LABEL_NAMES]
    )


_LABEL_NAMES = (
    "visibility",
    "readiness",
    "publication_state",
    "risk_class",
    "authority",
    "lifecycle_stage",
    "data_classification",
)


# A hub has a few dozen combinations of labels, and a question reads hundreds of rows.
@lru_cache(maxsize=4096)
def labels_from_words(
    visibility: str | None,
    readiness: str | None,
    publication_state: str | None,
    risk_class: str | None,
    authority: str | None,
    lifecycle_stage: str | None,
    data_classification: str | None,
) -> Labels:
    """Labels as they are written; a word outside the vocabulary reads as missing, so it hides."""
    return Labels(
        flags=Flags(
            visibility=_known(Visibility, visibility),
            readiness=_known(Readiness, readiness),
            publication_state=_known(PublicationState, publication_state),
            risk_class=_known(RiskClass, risk_class),
            authority=_known(Authority, authority),
        ),
        lifecycle_stage=_known(LifecycleStage, lifecycle_stage),
        data_classification=_known(DataClassification, data_classification),
    )


def _known(vocabulary: type[Word], value: str | None) -> Word | None:
    return vocabulary(value) if value is not None and value in set(vocabulary) else None
