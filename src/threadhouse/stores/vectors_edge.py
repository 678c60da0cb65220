"""The embedded vector engine: one process writes the live shards, any number read published copies of them.

Belongs here: calls of qdrant_edge, the directory layout under ``$THREADHOUSE_HOME/qdrant``, the writer's lock, publishing,
and leases.
Does not belong here: anything the client-server engine shares (``vectors``).

Layout::

    qdrant/
      writer.lock, writer.json      who writes (the lock is the kernel's; the JSON names the holder)
      aliases.json                  public name -> physical name, replaced atomically
      live/<physical>/              manifest.json, shard/ (WAL on), unpublished (present when readers lag behind)
      published/<physical>/current  the sequence number that readers open, replaced atomically
      published/<physical>/<seq>/   manifest.json, shard/ (WAL off, never written to), lease (shared lock of its readers)
      twins/<physical>/<n>/         open copies of the writer, whose files published copies may show; gone with the writer

Why copies, what was tried and what the engine does: docs/adr/0002-edge-writer-and-readers.md.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import sys
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast
from uuid import UUID

import numpy as np
import qdrant_edge as edge
from filelock import FileLock, Timeout

from threadhouse.retrieval.errors import (
    ProjectionError,
    StoreLockedError,
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
from threadhouse.stores.durable_files import sync, sync_together, sync_tree
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
from threadhouse.stores.vectors_twins import (
    FEW_POINTS,
    MOST_BEHIND,
    MOST_TWINS,
    PUBLISHES_BEFORE_TWINS,
    Twin,
    can_link,
    open_twin,
    shard_folder_of,
)

Self = TypeVar("Self", bound="EdgeWriter | EdgeReader")

WHOLE_VECTORS_BELOW_KB = 60_000
"""Below this size of a segment's vectors in KB (40,000 of 384 dimensions) a scan reads them whole; above it, a byte a dimension.

A scan takes 0.1 ms of processor time for 1,000 vectors, and a quarter of that when it reads bytes. No HNSW graph is built at any
size: for 20,000 it takes 10 s of every publish and makes answers approximate.
"""

_TAKEN_AGAIN = 2.0
"""How many times as many of the nearest by bytes are scored by their vectors as are asked for. With 1.5 the 60 nearest of 60,000
random vectors were the true ones in every question, with 1 it was 95 %; random directions lie closer together than texts do."""

_UNUSED = 10_000
"""Numbers of a graph that is not built, since its nodes have no neighbours (m = 0)."""

_ID_BATCH = 5_000  # ids an existence check or a delete sends at once; 80 kB
_COPY_BLOCK = 4 * 2**20  # bytes read at once while copying
_OPEN_ATTEMPTS = 20
"""A reader loses the race only against a publish that ends between two of its system calls."""
_MANIFEST = "manifest.json"
_ALIASES = "aliases.json"
_SHARD = "shard"
_CURRENT = "current"
_LEASE = "lease"
_UNPUBLISHED = "unpublished"
_PART = ".part-"  # a directory that is being written or removed; nobody reads it, the next writer sweeps it away


_Conditions: TypeAlias = "tuple[tuple[str, tuple[str, ...]], ...]"
"""Fields and their allowed values, all of which must hold (``vectors.conditions``)."""

_REMEMBERED_FILTERS = 256
"""Lanes times languages times sets of permissions that are asked with; more start over."""

_REMEMBERED_TERMS = 500_000
"""172 bytes each as measured, 86 MB; more start over."""

_REMEMBERED_PAYLOADS = 20_000
"""3.7 to 3.9 kB each as measured, 77 MB for each collection; more start over."""

_Seen: TypeAlias = tuple[int, int, int]
"""Inode, time of change in ns and size of a file that is only ever replaced: the same three, the same content."""


@dataclass(frozen=True)
class _Layout:
    root: Path
    _remembered: dict[Path, tuple[_Seen, str]] = field(
        default_factory=dict[Path, tuple[_Seen, str]], compare=False
    )
    # A question looks more than a dozen times, and putting a path together takes longer than the look.
    _pointers: dict[str, Path] = field(default_factory=dict[str, Path], compare=False)

    @cached_property
    def aliases(self) -> Path:
        return self.root / _ALIASES

    def live(self, physical: str) -> Path:
        return self.root / "live" / physical

    def published(self, physical: str) -> Path:
        return self.root / "published" / physical

    def twins(self, physical: str) -> Path:
        return self.root / "twins" / physical

    def read_aliases(self) -> dict[str, str]:
        try:
            return cast("dict[str, str]", json.loads(self._read(self.aliases)))
        except FileNotFoundError:
            return {}

    def _read(self, path: Path) -> str:
        """A small file that `_replace_atomically` writes. Readers look at it for every question; most find it unchanged."""
        now = path.stat()
        seen = (now.st_ino, now.st_mtime_ns, now.st_size)
        remembered = self._remembered.get(path)
        if remembered is None or remembered[0] != seen:
            # Replaced after the look: it is then read again next time, since the older look is remembered with it.
            remembered = self._remembered[path] = (seen, path.read_text("utf-8"))
        return remembered[1]

    def current_seq(self, physical: str) -> int | None:
        """The copy that readers open; None when there is none yet."""
        path = self._pointers.get(physical)
        if path is None:
            path = self._pointers[physical] = self.published(physical) / _CURRENT
        try:
            pointer = self._read(path)
        except FileNotFoundError:
            return None
        # A damaged pointer counts as none, so that the next publish writes it again.
        return int(pointer) if pointer.strip().isdecimal() else None

    def has_current_copy(self, physical: str) -> bool:
        """Whether the pointer names a copy that is there. Only the writer may ask: for a reader it may change meanwhile."""
        seq = self.current_seq(physical)
        return seq is not None and (self.published(physical) / str(seq) / _LEASE).is_file()


def _write_durably(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _replace_atomically(path: Path, text: str) -> None:
    aside = path.with_name(f"{_PART}{path.name}")
    _write_durably(aside, text)
    aside.replace(path)
    sync(path.parent)


def _remove_tree(path: Path) -> None:
    """Remove a directory so that no half of it is ever found under its name."""
    aside = path.with_name(f"{_PART}removed-{path.name}")
    if aside.exists():
        shutil.rmtree(aside)
    path.rename(aside)
    shutil.rmtree(aside)


def _sweep(folder: Path) -> None:
    for left in folder.glob(f"{_PART}*"):
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()


def _copy_sparse(source: Path, target: Path) -> None:
    """Copy one file without its holes: the engine reserves 32 MB pages and fills a fraction of them."""
    with source.open("rb") as reading, target.open("wb") as writing:
        size = os.fstat(reading.fileno()).st_size
        position = 0
        while position < size:
            try:
                position = os.lseek(reading.fileno(), position, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                    break
                raise
            end = os.lseek(reading.fileno(), position, os.SEEK_HOLE)
            while position < end:
                block = os.pread(reading.fileno(), min(_COPY_BLOCK, end - position), position)
                position += os.pwrite(writing.fileno(), block, position)
        writing.truncate(size)


def _copy_shard(source: Path, target: Path) -> None:
    """Copy a closed shard so that many processes can open the copy: without its WAL, and saying so in its config."""
    for folder, folders, files in os.walk(source):
        if Path(folder) == source:
            # The WAL holds nothing that a flushed segment lacks, and its lock is what keeps a second process out.
            folders[:] = [name for name in folders if name not in {"wal", "temp_segments"}]
        into = target / Path(folder).relative_to(source)
        into.mkdir()
        for name in files:
            _copy_sparse(Path(folder) / name, into / name)
    config = target / "edge_config.json"
    settings = cast("dict[str, Json]", json.loads(config.read_text("utf-8")))
    _write_durably(config, json.dumps(settings | {"wal_enabled": False}))


@dataclass(slots=True)
class _Remembered:
    """What questions found out of one published copy; true of it for ever.

    ``idf_ratios``: see `_idf_ratios`; by filter, BM25 vector and term. ``payloads`` are shared, so nobody may change one.
    """

    narrowed: dict[_Conditions, _Conditions | None] = field(
        default_factory=dict["_Conditions", "_Conditions | None"]
    )
    idf_ratios: _Ratios = field(default_factory=dict["tuple[_Conditions, str, int]", float])
    payloads: dict[UUID, dict[str, Json]] = field(default_factory=dict["UUID", "dict[str, Json]"])

    def forget(self) -> None:
        """Start over, because what it was found out of has changed."""
        self.narrowed, self.idf_ratios, self.payloads = {}, {}, {}


@dataclass(frozen=True, slots=True)
class _Open:
    """An open shard and what it was made for. ``remembered`` is what was found out of a copy that never changes; else None."""

    shard: edge.EdgeShard
    manifest: CollectionManifest
    remembered: _Remembered | None = None

    def narrow(self, pairs: _Conditions) -> _Conditions | None:
        """The conditions that make a difference here; None when nothing fulfils one of them.

        In a published copy a condition that every point fulfils need not be asked again: seven conditions cost a question as much
        as the search itself, and in most hubs all but one or two are fulfilled by everything.
        """
        if self.remembered is None or not pairs:
            return pairs
        remembered = self.remembered
        narrowed = remembered.narrowed
        if pairs in narrowed:
            return narrowed[pairs]
        telling = self._narrowed(pairs)
        if len(remembered.narrowed) >= _REMEMBERED_FILTERS:
            # A new one, because other threads may be at the old one.
            remembered.narrowed = {}
        remembered.narrowed[pairs] = telling
        return telling

    def _narrowed(self, pairs: _Conditions) -> _Conditions | None:
        points = self.shard.count(edge.CountRequest(exact=True))
        counts = [
            self.shard.count(edge.CountRequest(exact=True, filter=_filter((pair,))))
            for pair in pairs
        ]
        if 0 in counts:
            return None
        return tuple(pair for pair, count in zip(pairs, counts, strict=True) if count < points)


def _read_manifest(folder: Path, physical: str) -> CollectionManifest:
    try:
        stored: object = json.loads((folder / _MANIFEST).read_text("utf-8"))
    except FileNotFoundError as error:
        raise unknown_collection(physical) from error
    return CollectionManifest.from_json(stored, physical)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A query that can match something: its vector as the engine takes it, and the conditions that make a difference."""

    limit: int
    telling: _Conditions
    using: str
    vector: list[float] | SparseVector


def _prepare(opened: _Open, query: VectorQuery) -> _Prepared | None:
    """None when nothing can match.

    Raises:
        SpaceMismatchError: The vector is of another space or of a passage, or there is no such BM25 vector.
    """
    vector = query.vector
    if isinstance(vector, Vectors):
        using, ready = vector.space_id, query_row(opened.manifest, vector)
    else:
        check_bm25_query(vector, query.bm25)
        using, ready = query.bm25, vector
    pairs = conditions(query.where)
    if pairs is None or query.limit < 1 or ready == SparseVector():
        return None
    telling = opened.narrow(pairs)
    return None if telling is None else _Prepared(query.limit, telling, using, ready)


_Ratios: TypeAlias = "dict[tuple[_Conditions, str, int], float]"


def _request(prepared: _Prepared, ratios: _Ratios | None) -> edge.QueryRequest:
    """One query without payloads.

    The IDF is that of the points that fulfil the filter: statistics over the whole collection would let an asker infer from
    scores how often a word occurs in what is hidden from them. Who sees every point of a copy gets those statistics, which also
    count points that were deleted since the last vacuum, at most a fifth.
    """
    vector, using = prepared.vector, prepared.using
    allowed = _filter(prepared.telling) if prepared.telling else None
    idf: edge.IdfParams | None = None
    scored: edge.QuantizationSearchParams | None = None
    if isinstance(vector, SparseVector):
        weights = list(vector.values)
        if ratios is None:
            idf = edge.IdfParams(corpus=_filter(prepared.telling))
        elif allowed is not None:
            # The engine multiplies each weight by the IDF in the whole collection, which cancels out.
            weights = [
                weight * ratios[prepared.telling, using, term]
                for term, weight in zip(vector.indices, weights, strict=True)
            ]
        nearest = edge.Query.Nearest(edge.SparseVector(list(vector.indices), weights), using=using)
    else:
        nearest = edge.Query.Nearest(vector, using=using)
        scored = edge.QuantizationSearchParams(rescore=True, oversampling=_TAKEN_AGAIN)
    return edge.QueryRequest(
        limit=prepared.limit,
        query=nearest,
        filter=allowed,
        with_payload=False,
        params=edge.SearchParams(idf=idf, quantization=scored),
    )


def _idf_ratios(opened: _Open, asked: Iterable[_Prepared]) -> _Ratios | None:
    """For each term of these queries, its IDF among the points that fulfil the filter over its IDF in the whole collection.

    Counting in how many visible points each term of a question occurs took ten times as long as the search itself among 125,000
    points, most of it for the few words that every question has. The best point for a single term is the same one whatever the
    IDF, so the ratio of its two scores is the ratio of the two IDFs; and a published copy never changes. None for one that does.
    """
    if opened.remembered is None:
        return None
    remembered = opened.remembered.idf_ratios
    if len(remembered) >= _REMEMBERED_TERMS:
        remembered = opened.remembered.idf_ratios = {}
    keys = dict.fromkeys(
        (prepared.telling, prepared.using, term)
        for prepared in asked
        if isinstance(prepared.vector, SparseVector) and prepared.telling
        for term in prepared.vector.indices
    )
    ratios = {key: remembered[key] for key in keys if key in remembered}
    unknown = [key for key in keys if key not in ratios]
    requests = [
        _single_term(term, using, _filter(telling), idf)
        for telling, using, term in unknown
        for idf in (edge.IdfParams(corpus=_filter(telling)), None)
    ]
    answers = iter(opened.shard.query_batch(edge.QueryBatchRequest(requests)) if requests else [])
    for key in unknown:
        visible, everywhere = next(answers), next(answers)
        # A term without a visible point matches nothing, whatever it weighs.
        ratio = visible[0].score / everywhere[0].score if visible else 1.0
        ratios[key] = remembered[key] = ratio
    return ratios


def _payloads(opened: _Open, point_ids: Iterable[UUID]) -> dict[UUID, dict[str, Json]]:
    """Payloads by id. Reading and converting those of one question takes longer than finding them, so a copy's are kept."""
    kept = {} if opened.remembered is None else opened.remembered.payloads
    known = {point_id: kept[point_id] for point_id in point_ids if point_id in kept}
    absent = cast("list[edge.PointId]", [each for each in point_ids if each not in known])
    if not absent:
        return known
    read = {
        cast("UUID", record.id): cast("dict[str, Json]", record.payload or {})
        for record in opened.shard.retrieve(absent, True, False)
    }
    if opened.remembered is not None:
        if len(kept) >= _REMEMBERED_PAYLOADS:
            opened.remembered.payloads = {}
        opened.remembered.payloads |= read
    return known | read


def _single_term(
    term: int, bm25: str, allowed: edge.Filter, idf: edge.IdfParams | None
) -> edge.QueryRequest:
    return edge.QueryRequest(
        limit=1,
        query=edge.Query.Nearest(edge.SparseVector([term], [1.0]), using=bm25),
        filter=allowed,
        with_payload=False,
        params=edge.SearchParams(idf=idf),
    )


# A reader asks with the same few filters again and again, and hundreds of values take a while to convert.
@lru_cache(maxsize=_REMEMBERED_FILTERS)
def _filter(pairs: _Conditions) -> edge.Filter:
    return edge.Filter(
        must=[
            edge.FieldCondition(field, match=edge.MatchAny(list(allowed)))
            for field, allowed in pairs
        ]
    )


def _dense_of(
    record: edge.Record, space_id: str
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    vectors = cast("dict[str, list[float]]", record.vector)
    return np.asarray(vectors[space_id], dtype=np.float32)


def _stored(record: edge.Record, space_id: str, with_vectors: bool) -> StoredPoint:
    known = record.id  # every look makes a new object of it
    return StoredPoint(
        point_id=known if isinstance(known, UUID) else UUID(str(known)),
        payload=cast("dict[str, Json]", record.payload or {}),
        dense=_dense_of(record, space_id) if with_vectors else None,
    )


@dataclass(frozen=True, slots=True)
class _Scroll:
    """What a scroll wants, page after page."""

    allowed: edge.Filter
    with_vectors: bool


class _EdgeSearcher(ABC):
    """The read side over whichever shard ``_opened`` provides: the live one, or a published copy."""

    def __init__(self, home: Path) -> None:
        self._layout = _Layout(home / "qdrant")

    @abstractmethod
    def _opened(self, physical: str) -> AbstractContextManager[_Open]:
        """Hold the shard of a collection open and unchanged under us while the block runs."""

    @abstractmethod
    def _physical_names(self) -> list[str]: ...

    def resolve(self, alias: str) -> str:
        """Physical name behind an alias; a physical name is its own.

        Raises:
            CollectionUnknownError: Neither.
        """
        physical = self._layout.read_aliases().get(alias, alias)
        if physical not in self._physical_names():
            raise unknown_collection(alias)
        return physical

    def aliases(self) -> Mapping[str, str]:
        """Physical names by alias, all of one moment."""
        return self._layout.read_aliases()

    def collections(self) -> list[CollectionInfo]:
        """Every physical collection, whether an alias points at it or not."""
        alias_of = {physical: alias for alias, physical in self._layout.read_aliases().items()}
        found: list[CollectionInfo] = []
        for physical in self._physical_names():
            with self._opened(physical) as opened:
                found.append(
                    CollectionInfo(
                        physical=physical,
                        alias=alias_of.get(physical),
                        space_id=opened.manifest.space.space_id,
                        point_count=opened.shard.count(edge.CountRequest(exact=True)),
                    )
                )
        return found

    def manifest(self, collection: str) -> CollectionManifest:
        """What the collection was made for."""
        with self._opened(self.resolve(collection)) as opened:
            return opened.manifest

    def count(self, collection: str, where: AllOf | None = None) -> int:
        """How many points match, exactly."""
        with self._opened(self.resolve(collection)) as opened:
            pairs = conditions(where)
            if pairs is None:
                return 0
            return opened.shard.count(edge.CountRequest(exact=True, filter=_filter(pairs)))

    @abstractmethod
    def _scroll(self, physical: str, request: _Scroll) -> Iterator[StoredPoint]: ...

    def scroll(
        self, collection: str, where: AllOf | None = None, *, with_vectors: bool = False
    ) -> Iterator[StoredPoint]:
        """Every matching point once, one page in memory; a reader sees one published state throughout."""
        physical = self.resolve(collection)
        pairs = conditions(where)
        if pairs is None:
            return iter(())
        return self._scroll(physical, _Scroll(_filter(pairs), with_vectors))

    def retrieve(
        self, collection: str, point_ids: Sequence[UUID], *, with_vectors: bool = False
    ) -> list[StoredPoint]:
        """The points that exist among the given ids, in no promised order."""
        with self._opened(self.resolve(collection)) as opened:
            space_id = opened.manifest.space.space_id
            records = opened.shard.retrieve(
                cast("list[edge.PointId]", list(dict.fromkeys(point_ids))),
                True,
                [space_id] if with_vectors else False,
            )
            return [_stored(record, space_id, with_vectors) for record in records]

    def search_batch(
        self, collection: str, queries: Sequence[VectorQuery]
    ) -> list[list[ScoredPoint]]:
        """The hits of each query, all of one state of the collection; a payload is fetched once however many lists hold it.

        Raises:
            SpaceMismatchError: A vector is of another space or of a passage, or there is no such BM25 vector.
        """
        with self._opened(self.resolve(collection)) as opened:
            prepared = [_prepare(opened, query) for query in queries]
            asked = [each for each in prepared if each is not None]
            ratios = _idf_ratios(opened, asked)
            requests = [_request(each, ratios) for each in asked]
            answers = opened.shard.query_batch(edge.QueryBatchRequest(requests)) if asked else []
            # Every look at a hit's id makes a new object of it, so there is one.
            scored = iter([[(cast("UUID", hit.id), hit.score) for hit in hits] for hits in answers])
            found = [[] if each is None else next(scored) for each in prepared]
            distinct = dict.fromkeys(point_id for hits in found for point_id, _ in hits)
            payloads = _payloads(opened, distinct)
        return [
            [ScoredPoint(point_id, score, payloads[point_id]) for point_id, score in hits]
            for hits in found
        ]


@dataclass(slots=True)
class _Copy:
    """One published copy that this process has open."""

    seq: int
    opened: _Open
    lease: int
    users: int = 0
    retired: bool = False

    def close(self) -> None:
        self.opened.shard.close()
        os.close(self.lease)


class EdgeReader(_EdgeSearcher):
    """Reads published copies; takes no lock a writer needs, so it may stay open for days.

    Every call looks at the pointer (one small file) and moves to the newest copy. Threads may share one reader.
    A process started with ``fork`` must open its own.
    """

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._copies: dict[str, _Copy] = {}
        self._guard = threading.Lock()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back every copy that is not in use at this moment, and the others when their call ends."""
        with self._guard:
            for physical in list(self._copies):
                self._retire(physical)

    def _physical_names(self) -> list[str]:
        pointers = self._layout.root.glob(f"published/*/{_CURRENT}")
        names = (pointer.parent.name for pointer in pointers)
        return sorted(name for name in names if not name.startswith(_PART))

    def resolve(self, alias: str) -> str:
        """Physical name behind an alias, from the files as they are now."""
        physical = self._layout.read_aliases().get(alias, alias)
        if self._layout.current_seq(physical) is None:
            raise unknown_collection(alias)
        return physical

    @contextmanager
    def _opened(self, physical: str) -> Generator[_Open, None, None]:
        with self._guard:
            copy = self._newest(physical)
            copy.users += 1
        try:
            yield copy.opened
        finally:
            with self._guard:
                copy.users -= 1
                if copy.retired and copy.users == 0:
                    copy.close()

    def _scroll(self, physical: str, request: _Scroll) -> Iterator[StoredPoint]:
        # The copy is held from the first page to the last, so a publish in between cannot mix two states.
        with self._opened(physical) as opened:
            offset: edge.PointId | None = None
            while True:
                points, offset = _page(opened, request, offset)
                yield from points
                if offset is None:
                    return

    def _retire(self, physical: str) -> None:
        copy = self._copies.pop(physical, None)
        if copy is not None:
            copy.retired = True
            if copy.users == 0:
                copy.close()

    def _newest(self, physical: str) -> _Copy:
        for _ in range(_OPEN_ATTEMPTS):
            seq = self._layout.current_seq(physical)
            if seq is None:
                self._retire(physical)
                raise unknown_collection(physical)
            held = self._copies.get(physical)
            if held is not None and held.seq == seq:
                return held
            opened = self._open_copy(physical, seq)
            if opened is not None:
                self._retire(physical)
                self._copies[physical] = opened
                return opened
        msg = (
            f"Collection {physical} was published anew at every attempt to open it, or its published copy is gone; "
            "ask again, and run threadhouse nightly if that does not help."
        )
        raise StoreUnreachableError(msg)

    def _open_copy(self, physical: str, seq: int) -> _Copy | None:
        folder = self._layout.published(physical) / str(seq)
        try:
            lease = os.open(folder / _LEASE, os.O_RDONLY)
        except FileNotFoundError:
            return None  # removed between the look at the pointer and now: a newer one is there
        kept = False
        try:
            fcntl.flock(lease, fcntl.LOCK_SH)
            # The writer moves the pointer first and looks for leases afterwards. If the pointer still names this
            # copy now that the lease is held, the writer will see the lease; else the copy may be going away.
            if self._layout.current_seq(physical) != seq:
                return None
            manifest = _read_manifest(folder, physical)
            shard = edge.EdgeShard.load(str(folder / _SHARD))
            kept = True
            return _Copy(seq, _Open(shard, manifest, _Remembered()), lease)
        finally:
            if not kept:
                os.close(lease)


class EdgeWriter(_EdgeSearcher):
    """Owns the live shards. There is one writer at a time over all processes; opening a second one waits.

    What a write method returned from survives ``kill -9`` of this process (the engine's write-ahead log). Readers see
    it only after ``publish``.

    Args:
        home: ``$THREADHOUSE_HOME``.
        lock_timeout_s: How long to wait for another writer to finish.

    Raises:
        StoreLockedError: Another writer is still at work; the message names it.
    """

    def __init__(self, home: Path, *, lock_timeout_s: float = 60.0) -> None:
        super().__init__(home)
        root = self._layout.root
        for folder in (root / "live", root / "published"):
            folder.mkdir(parents=True, exist_ok=True)
        self._shards: dict[str, _Open] = {}
        self._marked: set[str] = set()
        self._proven: set[str] = set()
        """Collections of which a copy was opened since their segments last changed places."""
        self._twins: dict[str, list[Twin]] = {}
        self._publishes: Counter[str] = Counter()
        self._guard = threading.RLock()
        # Not thread-local: Dagster may close a resource on another thread than the one that opened it.
        self._lock = FileLock(root / "writer.lock", thread_local=False)
        holder = root / "writer.json"
        try:
            self._lock.acquire(timeout=lock_timeout_s)
        except Timeout as error:
            raise StoreLockedError(_describe_holder(holder, lock_timeout_s)) from error
        _replace_atomically(
            holder,
            json.dumps({"pid": os.getpid(), "command": " ".join(sys.orig_argv)[:300]}),
        )
        for folder in (root, root / "live", root / "published"):
            _sweep(folder)
        shutil.rmtree(root / "twins", ignore_errors=True)
        (root / "twins").mkdir()
        self._has_links = can_link(root / "twins")

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Flush and close the shards and let the next writer in. What was not published stays stored."""
        with self._guard:
            try:
                for physical in list(self._twins):
                    self._drop_twins(physical)
                for physical in list(self._shards):
                    self._close_shard(physical)
            finally:
                self._lock.release()

    def _close_shard(self, physical: str) -> None:
        opened = self._shards.pop(physical, None)
        if opened is not None:
            opened.shard.flush()
            opened.shard.close()

    def _physical_names(self) -> list[str]:
        manifests = self._layout.root.glob(f"live/*/{_MANIFEST}")
        return sorted(m.parent.name for m in manifests if not m.parent.name.startswith(_PART))

    def _live(self, physical: str) -> _Open:
        if not self._lock.is_locked:
            msg = "This writer is closed; open a new one."
            raise StoreLockedError(msg)
        opened = self._shards.get(physical)
        if opened is None:
            folder = self._layout.live(physical)
            manifest = _read_manifest(folder, physical)
            opened = _Open(edge.EdgeShard.load(str(folder / _SHARD)), manifest)
            self._shards[physical] = opened
        return opened

    @contextmanager
    def _opened(self, physical: str) -> Generator[_Open, None, None]:
        with self._guard:
            yield self._live(physical)

    def _scroll(self, physical: str, request: _Scroll) -> Iterator[StoredPoint]:
        # Held for a page only: whoever scrolls may write or publish between two points.
        offset: edge.PointId | None = None
        while True:
            with self._opened(physical) as opened:
                points, offset = _page(opened, request, offset)
            yield from points
            if offset is None:
                return

    def _update(
        self, opened: _Open, operation: edge.UpdateOperation, point_ids: Iterable[UUID]
    ) -> None:
        """Change these points of the live shard, having noted durably that readers now lag behind."""
        physical = opened.manifest.physical
        if physical not in self._marked:
            mark = self._layout.live(physical) / _UNPUBLISHED
            _write_durably(mark, "")
            sync(mark.parent)
            self._marked.add(physical)
        changed = set(point_ids)
        for twin in self._twins.get(physical, ()):
            twin.behind |= changed
        opened.shard.update(operation)

    def create_collection(self, alias: str, space: VectorSpace, generation: int = 1) -> str:
        """Create a physical collection when absent, without pointing the alias at it.

        This is how another space is built beside the one in use: fill it, ``publish`` it, then ``switch_aliases``.

        Returns:
            The physical name.
        """
        manifest = CollectionManifest(alias, generation, space)
        physical = manifest.physical
        with self._guard:
            folder = self._layout.live(physical)
            if not folder.exists():
                self._create(folder, manifest)
            require_space(self._live(physical).manifest, space.space_id)
            if not self._layout.has_current_copy(physical):
                # Readers of a collection that exists must find it, be it empty.
                self._publish(physical)
        return physical

    def _create(self, folder: Path, manifest: CollectionManifest) -> None:
        aside = folder.with_name(f"{_PART}{folder.name}")
        (aside / _SHARD).mkdir(parents=True)
        shard = edge.EdgeShard.create(
            str(aside / _SHARD),
            edge.EdgeConfig(
                vectors={
                    manifest.space.space_id: edge.EdgeVectorParams(
                        size=manifest.space.dim,
                        distance=edge.Distance.Cosine,
                        quantization_config=edge.ScalarQuantizationConfig(edge.ScalarType.Int8),
                        hnsw_config=edge.HnswIndexConfig(
                            m=0, ef_construct=_UNUSED, full_scan_threshold=_UNUSED
                        ),
                    )
                },
                sparse_vectors={
                    name: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)
                    for name in BM25_VECTORS
                },
                optimizers=edge.EdgeOptimizersConfig(indexing_threshold=WHOLE_VECTORS_BELOW_KB),
                wal_enabled=True,
            ),
        )
        for name in KEYWORD_FIELDS:
            shard.update(
                edge.UpdateOperation.create_field_index(name, edge.PayloadSchemaType.Keyword)
            )
        shard.flush()
        shard.close()
        _write_durably(aside / _MANIFEST, json.dumps(manifest.to_json(), ensure_ascii=False))
        sync(aside)
        aside.rename(folder)
        sync(folder.parent)

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
        with self._guard:
            target = self._layout.read_aliases().get(alias)
            if target is not None:
                manifest = self._live(target).manifest
                require_space(manifest, space.space_id)
                generation = generation or manifest.generation
            physical = self.create_collection(alias, space, generation or 1)
            if target is None:
                self.switch_aliases({alias: physical})
            return physical

    def switch_aliases(self, targets: Mapping[str, str]) -> None:
        """Point aliases at physical collections, all by one replaced file; readers follow at their next call.

        Raises:
            CollectionUnknownError: One of the collections does not exist; no alias was moved.
        """
        with self._guard:
            present = self._physical_names()
            for physical in targets.values():
                if physical not in present:
                    raise unknown_collection(physical)
            aliases = self._layout.read_aliases() | dict(targets)
            _replace_atomically(self._layout.aliases, json.dumps(aliases, sort_keys=True))

    def upsert(self, collection: str, space_id: str, points: Iterable[VectorPoint]) -> int:
        """Write points in batches; every batch is checked to be there before the next begins.

        Returns:
            How many, which is how many were given.

        Raises:
            SpaceMismatchError: The vectors are of another space.
            PayloadContractError: A point cannot be stored faithfully; the batches before it are stored.
            ProjectionError: The engine kept fewer points than it took.
        """
        written = 0
        with self._opened(self.resolve(collection)) as opened:
            require_space(opened.manifest, space_id)
            for batch in checked_batches(opened.manifest, points):
                ids = [point.point_id for point in batch]
                self._update(
                    opened,
                    edge.UpdateOperation.upsert_points([_point(space_id, p) for p in batch]),
                    ids,
                )
                kept = len(_existing(opened.shard, ids))
                if kept != len(batch):
                    msg = f"Collection {opened.manifest.physical} kept {kept} of {len(batch)} points; run the audit."
                    raise ProjectionError(msg)
                written += kept
        return written

    def overwrite_payloads(
        self, collection: str, payloads: Iterable[tuple[UUID, dict[str, Json]]]
    ) -> int:
        """Replace whole payloads of the points that exist, without touching vectors.

        Returns:
            How many points existed.
        """
        written = 0
        with self._opened(self.resolve(collection)) as opened:
            for batch in batches_by_bytes(payloads, lambda item: check_payload(*item)):
                existing = _existing(opened.shard, [point_id for point_id, _ in batch])
                for point_id, payload in batch:
                    if point_id in existing:
                        self._update(
                            opened,
                            edge.UpdateOperation.overwrite_payload([point_id], payload),
                            [point_id],
                        )
                        written += 1
        return written

    def delete(self, collection: str, point_ids: Sequence[UUID]) -> int:
        """Delete exactly these points.

        Returns:
            How many of them existed.
        """
        deleted = 0
        with self._opened(self.resolve(collection)) as opened:
            for start in range(0, len(point_ids), _ID_BATCH):
                existing = _existing(opened.shard, point_ids[start : start + _ID_BATCH])
                if existing:
                    ids = cast("list[edge.PointId]", sorted(existing))
                    self._update(opened, edge.UpdateOperation.delete_points(ids), existing)
                deleted += len(existing)
        return deleted

    def publish(self, collection: str) -> None:
        """Let readers see everything written so far, all at once. Does nothing when nothing was written since.

        Killed at any point, it leaves readers with the whole old or the whole new state, and the next call finishes.

        Raises:
            ProjectionError: The copy does not hold what the live collection holds; readers keep the old one.
        """
        with self._guard:
            physical = self.resolve(collection)
            is_behind = (self._layout.live(physical) / _UNPUBLISHED).exists()
            if is_behind or not self._layout.has_current_copy(physical):
                self._publish(physical)
            self._remove_unread_copies(physical)

    def _publish(self, physical: str) -> None:
        opened = self._live(physical)
        if opened.shard.optimize():
            self._proven.discard(physical)
            # They would keep the deleted points that the live shard is rid of.
            self._drop_twins(physical)
        points = opened.shard.count(edge.CountRequest(exact=True))

        folder = self._layout.published(physical)
        folder.mkdir(exist_ok=True)
        # Before the names are read as numbers, and so that what readers have left since the last publish can take its turn.
        self._remove_unread_copies(physical)
        present = {int(copy.name) for copy in folder.iterdir() if copy.is_dir()}
        for twin in self._twins.get(physical, ()):
            if twin.seq not in present:
                twin.seq = None  # the publish that was to show it failed
        seq = 1 + max(present, default=0)
        aside = folder / f"{_PART}{seq}"
        live = self._layout.live(physical)
        twin = self._caught_up(physical, points) or self._new_twin(physical, points)
        if twin is not None and twin.last_shown.exists():
            twin.last_shown.rename(aside)
            # Another lease: whoever opened the old one and has not locked it yet locks what is gone.
            (aside / _LEASE).unlink()
        else:
            aside.mkdir()
            _copy_sparse(live / _MANIFEST, aside / _MANIFEST)
        if twin is None:
            self._copy_whole(physical, aside / _SHARD)
            # Opened once before any reader does: an open shard leaves journals that the first one to open it applies and removes,
            # and readers, of whom several may open a copy at once, must find nothing to change in it.
            _require_points(aside / _SHARD, points)
            _write_durably(aside / _LEASE, "")
            sync_tree(aside)
        else:
            twin.seq = seq
            _write_durably(aside / _LEASE, "")
            sync_together([str(aside), str(aside / _MANIFEST), *sorted(twin.show(aside / _SHARD))])
        aside.rename(folder / str(seq))
        sync(folder)
        _replace_atomically(folder / _CURRENT, str(seq))
        # After the pointer: killed in between, the next publish copies once too often, never once too few.
        self._marked.discard(physical)
        (live / _UNPUBLISHED).unlink(missing_ok=True)
        self._proven.add(physical)
        self._publishes[physical] += 1

    def _copy_whole(self, physical: str, target: Path) -> None:
        """Copy everything that the live shard holds."""
        live = self._layout.live(physical) / _SHARD
        if physical in self._proven:
            # Flushed, the files hold everything, and nothing is written to them under this guard. Opening 125,000 points anew
            # takes 2.3 s of processor time; copying takes half a second.
            self._live(physical).shard.flush()
        else:
            # Closed, not only flushed: the segments that optimize() replaced leave the directory on their own time.
            self._close_shard(physical)
        _copy_shard(live, target)
        if physical in self._proven:
            _require_same_sizes(live, target)

    def _caught_up(self, physical: str, points: int) -> Twin | None:
        """A twin that no reader has, brought up to date; None when there is none that is worth it."""
        idle = [twin for twin in self._twins.get(physical, ()) if twin.seq is None]
        if not idle:
            return None
        twin = min(idle, key=lambda each: len(each.behind))
        is_equal = False
        try:
            if len(twin.behind) <= max(FEW_POINTS, points * MOST_BEHIND):
                live = self._live(physical).shard
                live.flush()  # it keeps its log until then
                is_equal = twin.catch_up(live)
        finally:
            if not is_equal:
                self._drop_twin(physical, twin)
        return twin if is_equal else None

    def _new_twin(self, physical: str, points: int) -> Twin | None:
        """A whole copy that stays open for the next publishes; None when there may not be many more."""
        twins = self._twins.setdefault(physical, [])
        comes_again = self._publishes[physical] >= PUBLISHES_BEFORE_TWINS
        if not (comes_again and self._has_links and len(twins) < MOST_TWINS):
            return None
        taken = {twin.folder.name for twin in twins}
        folder = next(
            each
            for number in range(MOST_TWINS)
            if (each := self._layout.twins(physical) / str(number)).name not in taken
        )
        shutil.rmtree(folder, ignore_errors=True)  # one that could not be finished
        folder.mkdir(parents=True)
        self._copy_whole(physical, shard_folder_of(folder))
        twin = open_twin(folder)
        copied = twin.shard.count(edge.CountRequest(exact=True))
        if copied != points:
            twin.close()
            raise _incomplete(folder, copied, points)
        twins.append(twin)
        return twin

    def _drop_twin(self, physical: str, twin: Twin) -> None:
        self._twins[physical].remove(twin)
        twin.close()

    def _drop_twins(self, physical: str) -> None:
        for twin in self._twins.pop(physical, ()):
            twin.close()

    def _remove_unread_copies(self, physical: str) -> None:
        folder = self._layout.published(physical)
        _sweep(folder)  # also what a writer that was killed while removing left behind
        current = str(self._layout.current_seq(physical))
        shown = {str(twin.seq): twin for twin in self._twins.get(physical, ())}
        for copy in folder.iterdir():
            if copy.is_dir() and copy.name.isdigit() and copy.name != current:
                _put_away_unless_leased(copy, shown.get(copy.name))

    def write_copy(self, folder: Path) -> int:
        """Create the collection that a copied shard and its manifest are of, write its points and publish them.

        Returns:
            How many points.

        Raises:
            ProjectionError: The engine kept fewer points than the copy holds.
        """
        manifest = _read_manifest(folder, folder.name)
        physical = manifest.physical
        self._create(self._layout.live(physical), manifest)
        # Loaded from a place of our own: the engine may write beside what it reads, and a backup stays as it is.
        aside = self._layout.root / f"{_PART}{physical}"
        _copy_shard(folder / _SHARD, aside)
        copy = edge.EdgeShard.load(str(aside))
        try:
            with self._opened(physical) as opened:
                for records in _raw_pages(copy):
                    points = [edge.Point(r.id, r.vector or {}, r.payload) for r in records]
                    ids = [UUID(str(record.id)) for record in records]
                    self._update(opened, edge.UpdateOperation.upsert_points(points), ids)
                copied = copy.count(edge.CountRequest(exact=True))
                kept = opened.shard.count(edge.CountRequest(exact=True))
        finally:
            copy.close()
        shutil.rmtree(aside)
        if kept != copied:
            msg = f"Collection {physical} kept {kept} of {copied} points of a copy; try again."
            raise ProjectionError(msg)
        self.publish(physical)
        return kept

    def drop_collection(self, collection: str) -> None:
        """Remove a collection, its published copies and its alias; readers then find it unknown."""
        with self._guard:
            physical = self.resolve(collection)
            aliases = self._layout.read_aliases()
            kept = {alias: target for alias, target in aliases.items() if target != physical}
            if kept != aliases:
                _replace_atomically(self._layout.aliases, json.dumps(kept, sort_keys=True))
            self._drop_twins(physical)
            self._close_shard(physical)
            self._marked.discard(physical)
            self._proven.discard(physical)
            if self._layout.published(physical).exists():
                _remove_tree(self._layout.published(physical))
            _remove_tree(self._layout.live(physical))


class EdgeScratch(EdgeWriter):
    """Collections that only this process ever sees and that go with their folder, asked as a published copy is asked.

    Nothing is published and nothing survives a kill: no log, no copies. Creating the keyword indexes of a collection costs more
    than all else, so that of the first one is copied for every other one of its space.
    """

    def _live(self, physical: str) -> _Open:
        known = self._shards.get(physical)
        if known is None:
            known = replace(super()._live(physical), remembered=_Remembered())
            self._shards[physical] = known
        return known

    def _update(
        self, opened: _Open, operation: edge.UpdateOperation, point_ids: Iterable[UUID]
    ) -> None:
        del point_ids
        opened.shard.update(operation)
        if opened.remembered is not None:
            opened.remembered.forget()

    def _create(self, folder: Path, manifest: CollectionManifest) -> None:
        first = self._layout.root / "empty" / manifest.space.space_id
        if not first.exists():
            first.parent.mkdir(exist_ok=True)
            super()._create(first, manifest)
        folder.mkdir()
        _copy_shard(first / _SHARD, folder / _SHARD)
        (folder / _MANIFEST).write_text(json.dumps(manifest.to_json(), ensure_ascii=False), "utf-8")

    def delete(self, collection: str, point_ids: Sequence[UUID]) -> int:
        """Delete exactly these points. From then on the collection is asked as a live shard is, which counts no deleted point.

        Returns:
            How many of them existed.
        """
        deleted = super().delete(collection, point_ids)
        physical = self.resolve(collection)
        self._shards[physical] = replace(self._live(physical), remembered=None)
        return deleted

    def publish(self, collection: str) -> None:
        """Does nothing, since nobody else reads.

        Raises:
            CollectionUnknownError: There is no such collection.
        """
        self.resolve(collection)

    def _publish(self, physical: str) -> None:
        pass


def _describe_holder(holder: Path, waited_s: float) -> str:
    try:
        who = cast("dict[str, Any]", json.loads(holder.read_text("utf-8")))
        name = f"process {who['pid']} ({who['command']})"
    except (FileNotFoundError, KeyError, json.JSONDecodeError):
        name = "another process"
    return f"The vector store is being written by {name}; waited {waited_s:g} s, so let it finish or stop it."


def _point(space_id: str, point: VectorPoint) -> edge.Point:
    vectors: dict[str, edge.NamedVector] = {
        space_id: cast("list[float]", point.dense.astype(np.float32, copy=False).tolist())
    }
    for name, sparse in zip(BM25_VECTORS, (point.bm25_accented, point.bm25_folded), strict=True):
        # A text without terms gets no sparse vector: it is then no part of the IDF population on either engine.
        if sparse.indices:
            vectors[name] = edge.SparseVector(list(sparse.indices), list(sparse.values))
    return edge.Point(point.point_id, vectors, point.payload)


def _page(
    opened: _Open, request: _Scroll, offset: edge.PointId | None
) -> tuple[list[StoredPoint], edge.PointId | None]:
    space_id = opened.manifest.space.space_id
    records, following = opened.shard.scroll(
        edge.ScrollRequest(
            offset=offset,
            limit=SCROLL_PAGE_POINTS,
            filter=request.allowed,
            with_payload=True,
            with_vector=[space_id] if request.with_vectors else False,
        )
    )
    return [_stored(record, space_id, request.with_vectors) for record in records], following


def _raw_pages(shard: edge.EdgeShard) -> Iterator[list[edge.Record]]:
    """Every point of a shard with all its vectors, page by page."""
    offset: edge.PointId | None = None
    while True:
        request = edge.ScrollRequest(
            offset=offset, limit=SCROLL_PAGE_POINTS, with_payload=True, with_vector=True
        )
        records, offset = shard.scroll(request)
        if records:
            yield records
        if offset is None:
            return


def _existing(shard: edge.EdgeShard, point_ids: Sequence[UUID]) -> set[UUID]:
    wanted = cast("list[edge.PointId]", list(dict.fromkeys(point_ids)))
    return {UUID(str(record.id)) for record in shard.retrieve(wanted, False, False)}


def _require_points(shard_folder: Path, points: int) -> None:
    copy = edge.EdgeShard.load(str(shard_folder))
    copied = copy.count(edge.CountRequest(exact=True))
    copy.close()
    if copied != points:
        raise _incomplete(shard_folder, copied, points)


def _incomplete(folder: Path, copied: int, points: int) -> ProjectionError:
    return ProjectionError(
        f"The copy in {folder} holds {copied} points, the live collection {points}; readers keep the old copy."
    )


def _require_same_sizes(live: Path, copied: Path) -> None:
    """Prove that a copy has every file of segments that stayed where they were when the last copy was opened.

    Raises:
        ProjectionError: A file is missing or shorter; readers keep the old copy.
    """
    for file in (live / "segments").rglob("*"):
        twin = copied / file.relative_to(live)
        if file.is_file() and not (twin.is_file() and twin.stat().st_size == file.stat().st_size):
            msg = f"The copy in {copied} lacks {file.relative_to(live)}; readers keep the old copy."
            raise ProjectionError(msg)


def _put_away_unless_leased(copy: Path, twin: Twin | None) -> None:
    """Remove an old published copy, or give it back to the twin that it shows, which may be written from then on."""
    lease = os.open(copy / _LEASE, os.O_RDONLY)
    try:
        fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # a reader is in the middle of it; the kernel frees the lease when that process ends, however it ends
    else:
        if twin is None:
            _remove_tree(copy)
        else:
            copy.rename(twin.last_shown)
            twin.seq = None
    finally:
        os.close(lease)


@dataclass(frozen=True, slots=True)
class HeldCopies:
    """Published copies that nobody removes while they are held, and the names that point at them, all of one moment."""

    folders: Mapping[str, Path]
    aliases: Mapping[str, str]

    def spaces(self) -> dict[str, str]:
        """The ``space_id`` of each copy, by physical name."""
        return {
            physical: _read_manifest(folder, physical).space.space_id
            for physical, folder in self.folders.items()
        }

    def write_to(self, target: Path) -> None:
        """Copy them into a folder that is not there yet, as `restore_collections` reads it."""
        target.mkdir()
        for physical, folder in self.folders.items():
            (target / physical).mkdir()
            _copy_shard(folder / _SHARD, target / physical / _SHARD)
            _copy_sparse(folder / _MANIFEST, target / physical / _MANIFEST)
        _write_durably(target / _ALIASES, json.dumps(dict(self.aliases), sort_keys=True))


@contextmanager
def keep_writers_out(home: Path, lock_timeout_s: float) -> Generator[None, None, None]:
    """Hold the writer's lock without opening anything; there is nobody to keep out of a home without collections.

    Raises:
        StoreLockedError: A writer is at work; the message names it.
    """
    root = home / "qdrant"
    if not root.is_dir():
        yield
        return
    try:
        with FileLock(root / "writer.lock", timeout=lock_timeout_s):
            yield
    except Timeout as error:
        raise StoreLockedError(_describe_holder(root / "writer.json", lock_timeout_s)) from error


@contextmanager
def hold_published_copies(home: Path) -> Generator[HeldCopies, None, None]:
    """Hold the current published copy of every collection, as a reader does: no writer waits for it.

    A publish that switches in between would give one collection of before and one of after: whoever needs them to agree with
    each other, or with Postgres, keeps publishers out while this begins.
    """
    layout = _Layout(home / "qdrant")
    leases: list[int] = []
    try:
        folders: dict[str, Path] = {}
        for pointer in sorted(layout.root.glob(f"published/*/{_CURRENT}")):
            physical = pointer.parent.name
            if not physical.startswith(_PART):
                folders[physical] = _hold_current(layout, physical, leases)
        aliases = {a: p for a, p in layout.read_aliases().items() if p in folders}
        yield HeldCopies(folders, aliases)
    finally:
        for lease in leases:
            os.close(lease)


def _hold_current(layout: _Layout, physical: str, leases: list[int]) -> Path:
    for _ in range(_OPEN_ATTEMPTS):
        seq = layout.current_seq(physical)
        folder = layout.published(physical) / str(seq)
        try:
            lease = os.open(folder / _LEASE, os.O_RDONLY)
        except FileNotFoundError:
            continue
        fcntl.flock(lease, fcntl.LOCK_SH)
        # As in `EdgeReader`: still named by the pointer now, it is not going away any more.
        if layout.current_seq(physical) == seq:
            leases.append(lease)
            return folder
        os.close(lease)
    msg = f"The published copy of collection {physical} is gone; run threadhouse nightly, which writes it again."
    raise StoreUnreachableError(msg)


def restore_collections(source: Path, home: Path) -> int:
    """Make what `HeldCopies.write_to` wrote the collections of a home that has none, live and published.

    Every point is written anew. A copied shard could not go on living: its points carry the numbers of operations of a log that
    the copy does not have, and the engine takes an operation of a new log, a deletion or a revoke, for one that it has had.

    Returns:
        How many points.

    Raises:
        ProjectionError: The engine kept fewer points than the copy holds.
    """
    found = sorted(manifest.parent for manifest in source.glob(f"*/{_MANIFEST}"))
    if not found:
        return 0
    aliases = cast("dict[str, str]", json.loads((source / _ALIASES).read_text("utf-8")))
    with EdgeWriter(home) as writer:
        points = sum(writer.write_copy(folder) for folder in found)
        writer.switch_aliases(aliases)
    return points
