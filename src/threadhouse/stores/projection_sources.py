"""What the two content collections should hold, read from the source of truth.

Belongs here: reading owners and texts, cutting and embedding them the way their collection wants it.
Does not belong here: comparing, writing (stores.projection), rules (retrieval).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from operator import itemgetter
from typing import Any, Protocol
from uuid import UUID

from psycopg import Connection
from psycopg.rows import TupleRow, dict_row

from threadhouse.retrieval.audience import Labels
from threadhouse.retrieval.bm25 import TERMS_VERSION
from threadhouse.retrieval.chunking import (
    DOCUMENT_CHUNK_CHARS,
    DOCUMENT_CHUNKER_VERSION,
    DOCUMENT_OVERLAP_CHARS,
    UNIT_CHUNKER_VERSION,
    budgets_for,
    chunk_document,
    chunk_unit,
    embedding_text,
    verify_chunks,
)
from threadhouse.retrieval.errors import PayloadContractError
from threadhouse.retrieval.models import (
    Authority,
    Collection,
    DataClassification,
    DocumentId,
    Json,
    LifecycleStage,
    PublicationState,
    Readiness,
    RiskClass,
    TextSpan,
    UnitId,
    UnitVersionId,
    Vectors,
    Visibility,
)
from threadhouse.retrieval.payloads import (
    PAYLOAD_SCHEMA,
    chunk_payload,
    digest,
    label_fields,
    labels_from_words,
    validate_payload,
)
from threadhouse.retrieval.projection import ContentScope, ProjectionOwner
from threadhouse.stores import queries
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.quarantine import QuarantinedItem


@dataclass(frozen=True, slots=True)
class OwnerText:
    """The text that an owner's chunks are slices of."""

    owner_id: str
    version_key: str
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class WantedOwners:
    """Owners by id, those refused, and those that the other collection holds instead."""

    owners: Mapping[str, ProjectionOwner]
    refused: tuple[QuarantinedItem, ...]
    taken_over: frozenset[str] = frozenset()


class ContentSource(Protocol):
    """One content collection: where its owners come from and how they become chunks and vectors."""

    collection: Collection
    chunker_version: str
    owner_field: str
    """Payload path that names the owner of a point."""
    deletions_query: str
    """SQL file that counts what the source no longer names."""

    def owners_in(self, scope: ContentScope) -> frozenset[str]:
        """The ids of this collection that a scope names."""
        ...

    def read_wanted(
        self,
        connection: Connection[TupleRow],
        space_id: str,
        owner_ids: Sequence[str] | None = None,
    ) -> WantedOwners:
        """The owners that should be there: all, or those among ``owner_ids``."""
        ...

    def read_texts(
        self, connection: Connection[TupleRow], owner_ids: Sequence[str]
    ) -> dict[str, OwnerText]: ...

    def cut(self, text: OwnerText, embedder: CachedEmbedder) -> list[tuple[TextSpan, int]]:
        """Spans with their token counts, in order."""
        ...

    def sizes(self, texts: Sequence[str], embedder: CachedEmbedder) -> dict[str, int]:
        """What the budget of this collection counts, of many texts at once: tokens or characters."""
        ...

    def verify(
        self,
        body: str,
        spans: Sequence[TextSpan],
        embedder: CachedEmbedder,
        sizes: Mapping[str, int],
    ) -> None:
        """Prove that ``spans`` are a sound cut of ``body``; a size not in ``sizes`` is counted. Raises ChunkBoundaryError."""
        ...

    def embed(self, texts: Sequence[tuple[str, str]], embedder: CachedEmbedder) -> Vectors:
        """Vectors of (title, chunk text) pairs, in order."""
        ...


class UnitSource:
    """Information units: a chunk never leaves one version of one unit."""

    collection = Collection.INFORMATION_UNITS
    chunker_version = UNIT_CHUNKER_VERSION
    owner_field = "metadata.logical_unit_id"
    deletions_query = "projection_unit_deletions"

    def owners_in(self, scope: ContentScope) -> frozenset[str]:
        return scope.units

    def read_wanted(
        self,
        connection: Connection[TupleRow],
        space_id: str,
        owner_ids: Sequence[str] | None = None,
    ) -> WantedOwners:
        owners: dict[str, ProjectionOwner] = {}
        refused: list[QuarantinedItem] = []
        with connection.cursor(row_factory=dict_row) as cursor:
            for row in cursor.execute(queries.load("projection_units"), _only(owner_ids)):
                extra: dict[str, Json] = {
                    "logical_unit_id": row["owner_id"],
                    "unit_version_id": row["version_key"],
                    "unit_kind": row["unit_kind"],
                    "canonical_address": row["canonical_address"],
                    "source_revision": row["source_revision"],
                }
                _sort_in(self, row, extra, space_id, owners, refused)
        held = connection.execute(queries.load("projection_held_units"), _only(owner_ids))
        return WantedOwners(owners, tuple(refused), frozenset(row[0] for row in held))

    def read_texts(
        self, connection: Connection[TupleRow], owner_ids: Sequence[str]
    ) -> dict[str, OwnerText]:
        return _read_texts(connection, "projection_unit_texts", owner_ids)

    def cut(self, text: OwnerText, embedder: CachedEmbedder) -> list[tuple[TextSpan, int]]:
        _, budget_tokens = budgets_for(embedder.space.max_tokens)
        chunks = chunk_unit(
            UnitVersionId(UUID(text.version_key)),
            UnitId(text.owner_id),
            text.body,
            budget_tokens,
            lambda part: embedder.count_tokens([part])[0],
        )
        return [(chunk.span, chunk.token_count) for chunk in chunks]

    def sizes(self, texts: Sequence[str], embedder: CachedEmbedder) -> dict[str, int]:
        return dict(zip(texts, embedder.count_tokens(texts), strict=True))

    def verify(
        self,
        body: str,
        spans: Sequence[TextSpan],
        embedder: CachedEmbedder,
        sizes: Mapping[str, int],
    ) -> None:
        def measure(part: str) -> int:
            known = sizes.get(part)
            return embedder.count_tokens([part])[0] if known is None else known

        _, budget_tokens = budgets_for(embedder.space.max_tokens)
        verify_chunks(body, spans, budget_tokens, measure)

    def embed(self, texts: Sequence[tuple[str, str]], embedder: CachedEmbedder) -> Vectors:
        return embedder.embed_passages(
            [
                embedding_text(
                    title,
                    chunk,
                    lambda part: embedder.count_tokens([part])[0],
                    embedder.space.max_tokens,
                )
                for title, chunk in texts
            ]
        )


class DocumentSource:
    """Legacy documents whose units have not been migrated: about 4,000 characters a chunk, 400 shared."""

    collection = Collection.PRODUCTION_DOCUMENTS
    chunker_version = DOCUMENT_CHUNKER_VERSION
    owner_field = "document_id"
    deletions_query = "projection_document_deletions"

    def owners_in(self, scope: ContentScope) -> frozenset[str]:
        return scope.documents

    def read_wanted(
        self,
        connection: Connection[TupleRow],
        space_id: str,
        owner_ids: Sequence[str] | None = None,
    ) -> WantedOwners:
        owners: dict[str, ProjectionOwner] = {}
        refused: list[QuarantinedItem] = []
        taken_over: set[str] = set()
        with connection.cursor(row_factory=dict_row) as cursor:
            for row in cursor.execute(queries.load("projection_documents"), _only(owner_ids)):
                if row["has_units"]:
                    taken_over.add(row["owner_id"])
                elif row["has_text"]:
                    extra: dict[str, Json] = {"source_revision": row["source_revision"]}
                    _sort_in(self, row, extra, space_id, owners, refused)
        return WantedOwners(owners, tuple(refused), frozenset(taken_over))

    def read_texts(
        self, connection: Connection[TupleRow], owner_ids: Sequence[str]
    ) -> dict[str, OwnerText]:
        return _read_texts(connection, "projection_document_texts", owner_ids)

    def cut(self, text: OwnerText, embedder: CachedEmbedder) -> list[tuple[TextSpan, int]]:
        revision = int(text.version_key.rpartition("@")[2])
        spans = [
            chunk.span for chunk in chunk_document(DocumentId(text.owner_id), revision, text.body)
        ]
        return list(zip(spans, embedder.count_tokens([span.text for span in spans]), strict=True))

    def sizes(self, texts: Sequence[str], embedder: CachedEmbedder) -> dict[str, int]:
        del embedder  # legacy chunks are measured in characters
        return {text: len(text) for text in texts}

    def verify(
        self,
        body: str,
        spans: Sequence[TextSpan],
        embedder: CachedEmbedder,
        sizes: Mapping[str, int],
    ) -> None:
        del embedder, sizes
        verify_chunks(body, spans, DOCUMENT_CHUNK_CHARS, len, DOCUMENT_OVERLAP_CHARS)

    def embed(self, texts: Sequence[tuple[str, str]], embedder: CachedEmbedder) -> Vectors:
        # A legacy chunk is longer than the model reads; it is embedded in windows so that nothing is cut in silence.
        return embedder.embed_long_passages(
            [f"{title}\n{chunk}" if title else chunk for title, chunk in texts]
        )


def _only(owner_ids: Sequence[str] | None) -> dict[str, Any]:
    return {"owner_ids": None if owner_ids is None else list(owner_ids)}


def _read_texts(
    connection: Connection[TupleRow], query: str, owner_ids: Sequence[str]
) -> dict[str, OwnerText]:
    rows = connection.execute(queries.load(query), {"owner_ids": list(owner_ids)})
    return {row[0]: OwnerText(*row) for row in rows}


def _sort_in(
    source: ContentSource,
    row: Mapping[str, Any],
    extra: Mapping[str, Json],
    space_id: str,
    owners: dict[str, ProjectionOwner],
    refused: list[QuarantinedItem],
) -> None:
    """Put a row among the owners, or among the refused when it does not keep the payload contract."""
    try:
        owner = _build_owner(source, row, extra, space_id)
    except (ValueError, PayloadContractError) as error:
        refused.append(QuarantinedItem(item_key=str(row["owner_id"]), field="", reason=str(error)))
    else:
        owners[owner.owner_id] = owner


def _build_owner(
    source: ContentSource,
    row: Mapping[str, Any],
    extra: Mapping[str, Json],
    space_id: str,
) -> ProjectionOwner:
    labels = parse_labels(row)
    payload: dict[str, Json] = {
        "document_id": row["document_id"],
        "metadata": {
            "title": row["title"],
            "tags": list(row["tags"]),
            "path": row["path"],
            "language": row["language"],
            **label_fields(labels),
            "payload_schema": PAYLOAD_SCHEMA,
            **extra,
        },
    }
    # An owner is refused now rather than in the middle of a batch: any chunk of it would fail alike.
    validate_payload(source.collection, chunk_payload(payload, TextSpan("", 0, 0), 0, 1))
    return ProjectionOwner(
        owner_id=row["owner_id"],
        version_key=row["version_key"],
        content_digest=digest(
            [
                row["version_key"],
                row["content_hash"],
                source.chunker_version,
                space_id,
                TERMS_VERSION,
            ]
        ),
        labels=labels,
        payload=payload,
    )


def parse_labels(row: Mapping[str, Any]) -> Labels:
    """Labels of a source row. A missing one stays missing.

    Raises:
        ValueError: A value is outside its vocabulary (an attached database may hold anything).
    """
    words = _words_of(row)
    _check_words(*words)
    # The same object as for a stored point with these labels, so that comparing the two is one look.
    return labels_from_words(*words)


_VOCABULARIES: Mapping[str, type[StrEnum]] = {
    "visibility": Visibility,
    "readiness": Readiness,
    "publication_state": PublicationState,
    "risk_class": RiskClass,
    "authority": Authority,
    "lifecycle_stage": LifecycleStage,
    "data_classification": DataClassification,
}
"""In the order in which `labels_from_words` takes them."""

_words_of = itemgetter(*_VOCABULARIES)


# A hub has a few dozen combinations of labels, and a hundred thousand rows.
@lru_cache(maxsize=4096)
def _check_words(*words: str | None) -> None:
    for word, vocabulary in zip(words, _VOCABULARIES.values(), strict=True):
        if word is not None:
            vocabulary(word)
