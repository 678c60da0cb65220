"""The vector store: which engine is opened, and what both engines must agree on.

Belongs here: choosing the engine, physical names, the manifest, batches bounded by bytes, the checks a point must
pass before it is written, and the meaning of an allow-list filter.
Does not belong here: calls of an engine (``vectors_edge``, ``vectors_client``), what a payload contains
(the payload contract), or how hits are ranked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from threadhouse.retrieval.errors import (
    CollectionUnknownError,
    ConfigurationError,
    DimensionMismatchError,
    EmbedderError,
    PayloadContractError,
    SpaceMismatchError,
)
from threadhouse.retrieval.models import (
    AllOf,
    Collection,
    Json,
    SparseVector,
    VectorPoint,
    Vectors,
    VectorSpace,
)
from threadhouse.retrieval.payloads import PAYLOAD_SCHEMA

if TYPE_CHECKING:
    from pathlib import Path
    from uuid import UUID

    from threadhouse.retrieval.ports import VectorSearcher, VectorStore

T = TypeVar("T")

BM25_VECTORS = ("bm25_accented", "bm25_folded")

KEYWORD_FIELDS = (
    "document_id",
    "metadata.language",
    "metadata.logical_unit_id",
    "metadata.unit_version_id",
    "metadata.visibility",
    "metadata.readiness",
    "metadata.publication_state",
    "metadata.risk_class",
    "metadata.authority",
    "metadata.data_classification",
    "metadata.lifecycle_stage",
    "metadata.unit_kind",
    "metadata.lane",
    "metadata.thread_id",
)
"""Payload paths that filters may name cheaply: each has a keyword index, so each holds text (or a list of texts)."""

MAX_BATCH_BYTES = 4_000_000
"""Qdrant's documentation recommends at most 5 MB a request; its hard limit of 32 MB shows as a mere timeout."""

SCROLL_PAGE_POINTS = 512
"""Points a scroll holds at once: 512 vectors of 1024 dimensions are 2 MB."""

_NAME = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*")
_PHYSICAL = re.compile(r"(?P<alias>.+?)__(?P<space_id>.+)__g(?P<generation>[1-9][0-9]*)")
_FIELD = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
_FLOAT_BYTES = 22  # one float32 as JSON text at its longest, which is what REST sends
_TERM_BYTES = 34  # an index and a weight as JSON text


@dataclass(frozen=True, slots=True)
class CollectionManifest:
    """What a physical collection was made for; kept beside its data and never changed afterwards."""

    alias: str
    generation: int
    space: VectorSpace
    payload_schema: int = PAYLOAD_SCHEMA
    """The payload contract that a new collection is stamped with."""

    @property
    def physical(self) -> str:
        """Name of the physical collection."""
        return physical_name(self.alias, self.space.space_id, self.generation)

    def to_json(self) -> dict[str, Json]:
        """The manifest as it is stored."""
        return cast("dict[str, Json]", asdict(self))

    @classmethod
    def from_json(cls, stored: object, collection: str) -> CollectionManifest:
        """Read a stored manifest.

        Raises:
            CollectionUnknownError: There is none, or it is not one of ours.
        """
        try:
            fields = cast("dict[str, object]", stored)
            space = VectorSpace(**cast("dict[str, str]", fields["space"]))  # pyright: ignore[reportArgumentType]
            return cls(
                alias=str(fields["alias"]),
                generation=int(str(fields["generation"])),
                space=space,
                payload_schema=int(str(fields["payload_schema"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            msg = f"Collection {collection} carries no readable manifest; it was not made by Threadhouse, so build it again."
            raise CollectionUnknownError(msg) from error


def physical_name(alias: str, space_id: str, generation: int) -> str:
    """``alias__space_id__gN``: the name says which vectors lie inside.

    Raises:
        ConfigurationError: A part is not a plain name (it becomes a directory) or the generation is below 1.
    """
    for part in (alias, space_id):
        # A single underscore is part of the public aliases; two of them separate the parts.
        if not _NAME.fullmatch(part.replace("_", "-")):
            msg = f"{part!r} cannot name a collection: use letters and digits joined by single . _ or - signs."
            raise ConfigurationError(msg)
    if generation < 1:
        msg = f"Generation {generation} of collection {alias} is not possible; generations start at 1."
        raise ConfigurationError(msg)
    return f"{alias}__{space_id}__g{generation}"


def generation_of(physical: str) -> tuple[str, int]:
    """Space and generation that a physical name says.

    Raises:
        CollectionUnknownError: It is not one of ours.

    Example:
        >>> generation_of("information_units__tiny-8-abc123__g2")
        ('tiny-8-abc123', 2)
    """
    named = _PHYSICAL.fullmatch(physical)
    if named is None:
        msg = f"Collection {physical} was not made by Threadhouse; its name says no space and no generation."
        raise CollectionUnknownError(msg)
    return named["space_id"], int(named["generation"])


def is_generation(physical: str) -> bool:
    """Whether a collection is one of a generation of ours, by its name."""
    named = _PHYSICAL.fullmatch(physical)
    return named is not None and named["alias"] in list(Collection)


def unknown_collection(name: str) -> CollectionUnknownError:
    """The error for a name that is neither an alias nor a collection."""
    return CollectionUnknownError(
        f"There is no vector collection {name}; run the nightly job once to build it."
    )


def require_space(manifest: CollectionManifest, space_id: str) -> None:
    """Refuse vectors of another space.

    Raises:
        SpaceMismatchError: ``space_id`` is not the collection's.
    """
    if manifest.space.space_id != space_id:
        msg = (
            f"Collection {manifest.physical} holds vectors of space {manifest.space.space_id}, not {space_id}; "
            "use the embedder it was built with, or build a new generation and switch the alias."
        )
        raise SpaceMismatchError(msg)


def query_row(manifest: CollectionManifest, query: Vectors) -> list[float]:
    """The single query vector as an engine takes it.

    Raises:
        SpaceMismatchError: Another space, or a passage vector (the model embeds questions differently).
        DimensionMismatchError: Not exactly one row of the collection's dimension.
        EmbedderError: The vector is zero (it would match everything alike) or not finite.
    """
    require_space(manifest, query.space_id)
    if query.role != "query":
        msg = f"A {query.role} vector cannot be searched with; embed the question with embed_query."
        raise SpaceMismatchError(msg)
    if query.data.shape != (1, manifest.space.dim):
        msg = f"A query is one vector of {manifest.space.dim} dimensions, not an array of shape {query.data.shape}."
        raise DimensionMismatchError(msg)
    row = query.data[0]
    _require_direction(row, "The query vector")
    return cast("list[float]", row.tolist())


def check_point(manifest: CollectionManifest, point: VectorPoint) -> int:
    """Refuse a point that an engine would store wrongly or not at all, and say how large it is.

    Returns:
        Its size in bytes as JSON, an upper bound for both engines.

    Raises:
        DimensionMismatchError: The dense vector has another dimension.
        EmbedderError: The dense vector is zero or not finite; the engines store it and answer 0.0 for ever.
        PayloadContractError: The payload is not JSON, or a sparse vector is not in canonical form.
    """
    if point.dense.shape != (manifest.space.dim,):
        msg = f"Point {point.point_id} has a vector of shape {point.dense.shape}, not ({manifest.space.dim},)."
        raise DimensionMismatchError(msg)
    _require_direction(point.dense, f"The vector of point {point.point_id}")
    size = check_payload(point.point_id, point.payload) + _FLOAT_BYTES * manifest.space.dim
    for name, sparse in zip(BM25_VECTORS, (point.bm25_accented, point.bm25_folded), strict=True):
        check_sparse(sparse, f"{name} of point {point.point_id}")
        size += _TERM_BYTES * len(sparse.indices)
    return size


def check_payload(point_id: UUID, payload: dict[str, Json]) -> int:
    """Refuse a payload that would not come back as it went in, and say how many bytes it has.

    Raises:
        PayloadContractError: NaN, a lone surrogate, a value that is no JSON, or an indexed field that is no text.
    """
    try:
        size = len(json.dumps(payload, ensure_ascii=False, allow_nan=False).encode())
    except (ValueError, TypeError) as error:
        msg = f"The payload of point {point_id} cannot be stored as JSON: {error}."
        raise PayloadContractError(msg) from error
    for field in KEYWORD_FIELDS:
        value = value_at(payload, field)
        values = value if isinstance(value, list) else [value]
        # MatchValue(True) matches no boolean on edge, so a filtered field is text or it is absent.
        if any(item is not None and not isinstance(item, str) for item in values):
            msg = f"Field {field} of point {point_id} must be text, since filters match text only; it is {value!r}."
            raise PayloadContractError(msg)
    return size


def check_sparse(sparse: SparseVector, what: str) -> None:
    """Refuse a sparse vector an engine would accept and score wrongly.

    Raises:
        PayloadContractError: Indices not unique and ascending in 32 bits, or weights not positive.
    """
    indices, values = sparse.indices, sparse.values
    ordered = all(earlier < later for earlier, later in pairwise(indices))
    in_range = not indices or (indices[0] >= 0 and indices[-1] < 2**32)
    weighted = all(0.0 < value < float("inf") for value in values)
    if len(indices) != len(values) or not (ordered and in_range and weighted):
        msg = f"The sparse vector {what} needs ascending unique 32-bit indices and as many positive weights."
        raise PayloadContractError(msg)


def check_bm25_query(sparse: SparseVector, vector_name: str) -> None:
    """Refuse a BM25 query that no collection can answer.

    Raises:
        SpaceMismatchError: There is no such sparse vector.
        PayloadContractError: As for `check_sparse`.
    """
    if vector_name not in BM25_VECTORS:
        msg = f"There is no sparse vector {vector_name}; search {' or '.join(BM25_VECTORS)}."
        raise SpaceMismatchError(msg)
    check_sparse(sparse, "of the query")


def _require_direction(row: np.ndarray[tuple[int, ...], np.dtype[np.float32]], what: str) -> None:
    norm = float(np.linalg.norm(row))
    if not np.isfinite(norm) or norm == 0.0:
        msg = f"{what} has no direction (length {norm}); embed the text again."
        raise EmbedderError(msg)


def value_at(payload: dict[str, Json], field: str) -> Json:
    """The value at a dotted path, None when any step of it is missing."""
    value: Json = payload
    for step in field.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def conditions(where: AllOf | None) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    """The filter as (field, allowed texts) pairs that must all hold; None when nothing can ever match.

    An empty tuple of allowed values allows nothing, so the engine is not even asked: engines differ in what an
    empty ``any`` means.

    Raises:
        PayloadContractError: A field is not a plain dotted path.
    """
    pairs = () if where is None else where.allowed
    for field, _ in pairs:
        if not _FIELD.fullmatch(field):
            msg = f"{field!r} is not a payload path; name the field like metadata.visibility."
            raise PayloadContractError(msg)
    return None if any(not allowed for _, allowed in pairs) else pairs


def batches_by_bytes(
    items: Iterable[T], size_of: Callable[[T], int], max_bytes: int = MAX_BATCH_BYTES
) -> Iterator[list[T]]:
    """Cut a stream into lists of at most ``max_bytes``, in order.

    Raises:
        PayloadContractError: One item alone is larger than that.
    """
    batch: list[T] = []
    batch_bytes = 0
    for item in items:
        item_bytes = size_of(item)
        if item_bytes > max_bytes:
            msg = f"One point has {item_bytes} bytes, more than the {max_bytes} of a whole batch; shorten its payload."
            raise PayloadContractError(msg)
        if batch and batch_bytes + item_bytes > max_bytes:
            yield batch
            batch, batch_bytes = [], 0
        batch.append(item)
        batch_bytes += item_bytes
    if batch:
        yield batch


def checked_batches(
    manifest: CollectionManifest, points: Iterable[VectorPoint]
) -> Iterator[list[VectorPoint]]:
    """Batches of points that are fit to be written, each id once in the whole stream.

    Raises:
        PayloadContractError: An id comes twice: two chunks share an identity, and one would be lost in silence.
    """
    seen: set[UUID] = set()

    def size_of(point: VectorPoint) -> int:
        if point.point_id in seen:
            msg = f"Point {point.point_id} comes twice in one write; every chunk needs its own id."
            raise PayloadContractError(msg)
        seen.add(point.point_id)
        return check_point(manifest, point)

    return batches_by_bytes(points, size_of)


def open_writer(
    *,
    home: Path,
    lock_timeout_s: float = 60.0,
    url: str | None = None,
    api_key: str | None = None,
    request_timeout_s: int = 60,
) -> VectorStore:
    """Open the store for writing: the server at ``url`` when given, else the embedded engine under ``home``.

    Raises:
        StoreLockedError: Another process writes the embedded store and did not finish within ``lock_timeout_s``.
    """
    if url:
        from threadhouse.stores.vectors_client import open_client_store

        return open_client_store(url=url, api_key=api_key, request_timeout_s=request_timeout_s)
    from threadhouse.stores.vectors_edge import EdgeWriter

    return EdgeWriter(home, lock_timeout_s=lock_timeout_s)


def open_reader(
    *,
    home: Path,
    url: str | None = None,
    api_key: str | None = None,
    request_timeout_s: int = 60,
) -> VectorSearcher:
    """Open the store for reading. Never waits for a writer and never holds one up."""
    if url:
        from threadhouse.stores.vectors_client import open_client_store

        return open_client_store(url=url, api_key=api_key, request_timeout_s=request_timeout_s)
    from threadhouse.stores.vectors_edge import EdgeReader

    return EdgeReader(home)


def open_scratch(
    *, folder: Path, url: str | None = None, api_key: str | None = None
) -> VectorStore:
    """Open a store for collections that are dropped before it is closed: in a folder that goes with them, or on the server."""
    if url:
        return open_writer(home=folder, url=url, api_key=api_key)
    from threadhouse.stores.vectors_edge import EdgeScratch

    return EdgeScratch(folder)
