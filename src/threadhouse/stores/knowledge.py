"""The source of truth as values: units, documents, threads, memberships, gaps, edges, health, policy.

Belongs here: reading the ``source`` views (and the policy and health tables) in one snapshot, and saying which rows cannot be
read.
Does not belong here: any rule about what is visible or how things are ordered (retrieval), writing.

An attached database may hold anything: a row outside the vocabulary is yielded as an `UnreadableRow`, the rest goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import count
from operator import itemgetter
from typing import Any, TypeVar

from psycopg import Connection, IsolationLevel
from psycopg.rows import DictRow, TupleRow, dict_row
from pydantic import TypeAdapter, ValidationError

from threadhouse.retrieval.audience import FILTERED_FIELDS, AudiencePolicy, Labels, LanePolicy
from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.lanes import UnitOutline
from threadhouse.retrieval.models import (
    Audience,
    DocumentId,
    Edge,
    ExpectedArtifact,
    Flags,
    InformationUnit,
    LifecycleStage,
    ProductionDocument,
    SemanticThread,
    ThreadId,
    ThreadMembership,
    UnitId,
)
from threadhouse.retrieval.packs import EdgeEnd, EndRef, ThreadDossier, ThreadHealth
from threadhouse.stores import queries
from threadhouse.stores.postgres import Database
from threadhouse.stores.quarantine import QuarantinedItem

ROWS_PER_FETCH = 500
"""Rows that a big table is fetched by: enough to hide the round trip, few enough that long bodies fit in memory."""

THREADS_PER_BATCH = 20
"""Threads whose dossiers are read together. A big thread has a thousand units of a few kilobytes each."""

_FLAG_FIELDS = ("visibility", "readiness", "publication_state", "risk_class", "authority")
_LABEL_FIELDS = (*_FLAG_FIELDS, "lifecycle_stage", "data_classification")
_label_words = itemgetter(*_LABEL_FIELDS)
_END_KINDS = frozenset({"unit", "document", "thread"})

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """A row of ``source`` that is not a value of ours; hand both fields to `note_quarantined`."""

    source: str
    item: QuarantinedItem


class KnowledgeReader:
    """Reads on one connection, whose transaction is the snapshot; see `open_knowledge`."""

    def __init__(self, connection: Connection[TupleRow]) -> None:
        self._connection = connection
        self._cursor_numbers = count(1)

    def policy(self) -> AudiencePolicy:
        """The policy version in force.

        Raises:
            ConfigurationError: No version is activated, or its permission grants are malformed.
        """
        return audience_policy_of(self._all("knowledge_policy", {}))

    def units(
        self, unit_ids: Sequence[UnitId] | None = None
    ) -> Iterator[InformationUnit | UnreadableRow]:
        """Live units with their texts, in order of id; streamed."""
        params = {"unit_ids": None if unit_ids is None else list(unit_ids)}
        for row in self._rows_of("knowledge_units", params, unit_ids):
            yield _read(
                InformationUnit, "source.information_unit", row, "logical_unit_id", _unit_fault
            )

    def visible_units(
        self, unit_ids: Sequence[UnitId]
    ) -> Iterator[InformationUnit | UnreadableRow]:
        """Of some units those that the current database role may see, with their texts, in order of id."""
        for row in self._all("found_units", {"unit_ids": list(unit_ids)}):
            yield _read(
                InformationUnit, "source.information_unit", row, "logical_unit_id", _unit_fault
            )

    def visible_documents(
        self, document_ids: Sequence[DocumentId]
    ) -> Iterator[ProductionDocument | UnreadableRow]:
        """Of some documents those that the current database role may see and that no units replace, in order of id."""
        for row in self._all("found_documents", {"document_ids": list(document_ids)}):
            yield _read(ProductionDocument, "source.production_document", row, "document_id")

    def unit_outlines(
        self, unit_ids: Sequence[UnitId] | None = None
    ) -> Iterator[UnitOutline | UnreadableRow]:
        """Live units without their texts, in order of id; streamed."""
        params = {"unit_ids": None if unit_ids is None else list(unit_ids)}
        for row in self._rows_of("knowledge_unit_outlines", params, unit_ids):
            row["labels"] = _labels_or_words(*_label_words(row))
            yield _read(UnitOutline, "source.information_unit", row, "logical_unit_id")

    def documents(
        self, document_ids: Sequence[DocumentId] | None = None
    ) -> Iterator[ProductionDocument | UnreadableRow]:
        """Documents with their texts, in order of id; streamed."""
        params = {"document_ids": None if document_ids is None else list(document_ids)}
        for row in self._rows_of("knowledge_documents", params, document_ids):
            yield _read(ProductionDocument, "source.production_document", row, "document_id")

    def threads(
        self, thread_ids: Sequence[ThreadId] | None = None
    ) -> Iterator[SemanticThread | UnreadableRow]:
        """Threads in order of id."""
        for row in self._stream("knowledge_threads", _of_threads(thread_ids)):
            yield _read(SemanticThread, "source.semantic_thread", row, "thread_id")

    def memberships(
        self, thread_ids: Sequence[ThreadId] | None = None
    ) -> Iterator[ThreadMembership | UnreadableRow]:
        """Memberships of every status, in order of thread and unit; streamed."""
        for row in self._stream("knowledge_memberships", _of_threads(thread_ids)):
            row["key"] = f"{row['thread_id']}/{row['logical_unit_id']}"
            yield _read(ThreadMembership, "source.thread_membership", row, "key", _membership_fault)

    def expected_artifacts(
        self, thread_ids: Sequence[ThreadId] | None = None
    ) -> Iterator[ExpectedArtifact | UnreadableRow]:
        """Expected artefacts, open and resolved."""
        for row in self._stream("knowledge_expected_artifacts", _of_threads(thread_ids)):
            row["key"] = f"{row['thread_id']}/{row['lifecycle_stage']}/{row['description']}"
            yield _read(ExpectedArtifact, "source.expected_artifact_missing", row, "key")

    def edges(self, touching: Iterable[EndRef] | None = None) -> Iterator[Edge | UnreadableRow]:
        """Every edge, or those that have an end among ``touching``, in order of id; streamed."""
        if touching is None:
            rows = self._stream("knowledge_edges", {})
        else:
            rows = self._stream("knowledge_edges_touching", _of_ends(touching))
        for row in rows:
            yield _read(Edge, "source.universal_edge", row, "edge_id", _edge_fault)

    def edge_ends(self, refs: Iterable[EndRef]) -> dict[EndRef, EdgeEnd]:
        """What the given ends resolve to; one that is not in the answer is dangling.

        An end with labels outside the vocabulary is there but has no witness: it exists, and nobody sees it.
        """
        found: dict[EndRef, EdgeEnd] = {}
        for row in self._stream("knowledge_edge_ends", _of_ends(refs)):
            ref = EndRef(row["kind"], row["id"])
            known = found.get(ref)
            witnesses = _witness(row) | (known.witnesses if known else frozenset[Labels]())
            own_flags = _parse_or_none(Flags, {name: row[f"own_{name}"] for name in _FLAG_FIELDS})
            found[ref] = EdgeEnd(
                title=row["title"],
                canonical_address=row["canonical_address"],
                witnesses=frozenset() if own_flags is None else witnesses,
                lifecycle_stage=_parse_or_none(LifecycleStage, row["own_stage"]),
                own_flags=own_flags or Flags(),
            )
        return found

    def thread_health(
        self, thread_ids: Sequence[ThreadId] | None = None
    ) -> dict[ThreadId, dict[Audience, ThreadHealth]]:
        """The latest health check of each thread for each lane; of threads that had one."""
        found: defaultdict[ThreadId, dict[Audience, ThreadHealth]] = defaultdict(dict)
        params = _of_threads(thread_ids) | {"lanes": list(Audience)}
        for row in self._all("knowledge_thread_health", params):
            health = _parse_or_none(ThreadHealth, row)
            if health is not None:
                found[ThreadId(row["thread_id"])][Audience(row["lane"])] = health
        return dict(found)

    def wrong_links(
        self, thread_ids: Sequence[ThreadId] | None = None
    ) -> dict[ThreadId, frozenset[UnitId]]:
        """By thread, the units whose membership has an open wrong_link signal."""
        found: defaultdict[ThreadId, set[UnitId]] = defaultdict(set)
        for row in self._all("knowledge_wrong_links", _of_threads(thread_ids)):
            found[ThreadId(row["thread_id"])].add(UnitId(row["logical_unit_id"]))
        return {thread_id: frozenset(units) for thread_id, units in found.items()}

    def dossiers(
        self, thread_ids: Sequence[ThreadId] | None = None
    ) -> Iterator[ThreadDossier | UnreadableRow]:
        """Everything about each thread, in order of id, a batch of threads at a time.

        What cannot be read is yielded before the dossiers of its batch; a thread goes on without its unreadable members.
        """
        threads: list[SemanticThread] = []
        for thread in self.threads(thread_ids):
            if isinstance(thread, UnreadableRow):
                yield thread
            else:
                threads.append(thread)
        for start in range(0, len(threads), THREADS_PER_BATCH):
            yield from self._dossiers_of(threads[start : start + THREADS_PER_BATCH])

    def dossier(self, thread_id: ThreadId) -> ThreadDossier | None:
        """Everything about one thread; None when it is not there or cannot be read."""
        found = [d for d in self.dossiers([thread_id]) if isinstance(d, ThreadDossier)]
        return found[0] if found else None

    def _dossiers_of(
        self, threads: Sequence[SemanticThread]
    ) -> Iterator[ThreadDossier | UnreadableRow]:
        thread_ids = [thread.thread_id for thread in threads]
        faults: list[UnreadableRow] = []
        memberships = _by_thread(_readable(self.memberships(thread_ids), faults))
        wanted = {m.logical_unit_id for own in memberships.values() for m in own}
        units = {
            unit.logical_unit_id: unit for unit in _readable(self.units(sorted(wanted)), faults)
        }
        gaps = _by_thread(_readable(self.expected_artifacts(thread_ids), faults))
        own_refs = {
            thread_id: _own_refs(thread_id, memberships.get(thread_id, []), units)
            for thread_id in thread_ids
        }
        edges_at: defaultdict[EndRef, list[Edge]] = defaultdict(list)
        far: set[EndRef] = set()
        for edge in _readable(self.edges(set[EndRef]().union(*own_refs.values())), faults):
            for ref in {
                EndRef(edge.source_kind, edge.source_id),
                EndRef(edge.target_kind, edge.target_id),
            }:
                edges_at[ref].append(edge)
                far.add(ref)
        ends = self.edge_ends(far)
        health = self.thread_health(thread_ids)
        wrong_links = self.wrong_links(thread_ids)
        yield from faults
        for thread in threads:
            own = memberships.get(thread.thread_id, [])
            edges = {
                edge.edge_id: edge
                for ref in own_refs[thread.thread_id]
                for edge in edges_at.get(ref, [])
            }
            yield ThreadDossier(
                thread=thread,
                memberships=own,
                units={
                    m.logical_unit_id: units[m.logical_unit_id]
                    for m in own
                    if m.logical_unit_id in units
                },
                expected_artifacts=gaps.get(thread.thread_id, []),
                edges=[edges[edge_id] for edge_id in sorted(edges)],
                edge_ends=ends,
                health=health.get(thread.thread_id, {}),
                wrong_links=wrong_links.get(thread.thread_id, frozenset()),
            )

    def _all(self, query: str, params: Mapping[str, Any]) -> list[DictRow]:
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(queries.load(query), params).fetchall()

    def _rows_of(
        self, query: str, params: Mapping[str, Any], ids: Sequence[str] | None
    ) -> Iterable[DictRow]:
        """The rows of a few ids in one round trip, of many or all in pages."""
        is_few = ids is not None and len(ids) <= ROWS_PER_FETCH
        return self._all(query, params) if is_few else self._stream(query, params)

    def _stream(self, query: str, params: Mapping[str, Any]) -> Generator[DictRow, None, None]:
        # A named cursor stays on the server; the number keeps two readings of one table apart.
        name = f"{query}_{next(self._cursor_numbers)}"
        with self._connection.cursor(name=name, row_factory=dict_row) as cursor:
            cursor.itersize = ROWS_PER_FETCH
            cursor.execute(queries.load(query), params)
            yield from cursor


@contextmanager
def open_knowledge(database: Database) -> Generator[KnowledgeReader, None, None]:
    """Yield a reader whose answers all belong to one moment.

    Without one snapshot a pack could carry a thread's new revision and its old units, and pass for fresh ever after.
    """
    with database.connect() as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        yield KnowledgeReader(connection)


def _of_threads(thread_ids: Sequence[ThreadId] | None) -> dict[str, Any]:
    return {"thread_ids": None if thread_ids is None else list(thread_ids)}


def _of_ends(refs: Iterable[EndRef]) -> dict[str, Any]:
    pairs = sorted(set(refs))
    return {"kinds": [ref.kind for ref in pairs], "ids": [ref.id for ref in pairs]}


def _own_refs(
    thread_id: ThreadId,
    memberships: Iterable[ThreadMembership],
    units: Mapping[UnitId, InformationUnit],
) -> set[EndRef]:
    """What an edge can touch so that it belongs to a thread: the thread, its units, the documents of its units."""
    refs = {EndRef("thread", thread_id)}
    for membership in memberships:
        unit = units.get(membership.logical_unit_id)
        if unit is not None:
            refs |= {EndRef("unit", unit.logical_unit_id), EndRef("document", unit.document_id)}
    return refs


_Owned = TypeVar("_Owned", ThreadMembership, ExpectedArtifact)


def _by_thread(rows: Iterable[_Owned]) -> dict[ThreadId, list[_Owned]]:
    found: defaultdict[ThreadId, list[_Owned]] = defaultdict(list)
    for row in rows:
        found[row.thread_id].append(row)
    return dict(found)


def _readable(rows: Iterable[_T | UnreadableRow], faults: list[UnreadableRow]) -> Iterator[_T]:
    for row in rows:
        if isinstance(row, UnreadableRow):
            faults.append(row)
        else:
            yield row


def audience_policy_of(rows: Sequence[DictRow]) -> AudiencePolicy:
    """The policy that the rows of one version say.

    Raises:
        ConfigurationError: There are none, or one is malformed.
    """
    if not rows:
        message = "cong.audience_filter_policy has no activated version; insert one, nothing is visible without it."
        raise ConfigurationError(message)
    try:
        lanes = {Audience(row["audience"]): _lane_policy(row) for row in rows}
    except ValueError as error:
        # pydantic's ValidationError is a ValueError as well.
        message = f"cong.audience_filter_policy version {rows[0]['policy_version']} cannot be read: {_first_line(error)}"
        raise ConfigurationError(message) from error
    return AudiencePolicy(int(rows[0]["policy_version"]), lanes)


def _lane_policy(row: DictRow) -> LanePolicy:
    # Words outside the vocabulary stay: an allow-list entry that nothing carries admits nothing.
    grants = ("permission_grants", "role_grants", "task_scope_limits")
    fields = {name: row[name] for name in (*FILTERED_FIELDS, *grants)}
    return _adapter(LanePolicy).validate_python(fields)


@cache
def _cached_adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _adapter(kind: type[_T]) -> TypeAdapter[_T]:
    return _cached_adapter(kind)


def _read(
    kind: type[_T],
    source: str,
    row: DictRow,
    key: str,
    fault_of: Callable[[_T], tuple[str, str] | None] = lambda _: None,
) -> _T | UnreadableRow:
    """One row as a value, or what is wrong with it.

    ``fault_of`` says which field of a well-typed value is out of range, and why.
    """
    item_key = str(row[key])
    fields = {**row, "flags": {name: row.get(name) for name in _FLAG_FIELDS}}
    try:
        value = _adapter(kind).validate_python(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = next((part for part in reversed(first["loc"]) if isinstance(part, str)), "")
        item = QuarantinedItem(item_key, name, first["msg"], raw=str(first["input"]))
        return UnreadableRow(source, item)
    fault = fault_of(value)
    if fault is None:
        return value
    return UnreadableRow(source, QuarantinedItem(item_key, *fault))


def _unit_fault(unit: InformationUnit) -> tuple[str, str] | None:
    if unit.revision < 1:
        return "revision", "A revision is at least 1."
    if not unit.body.strip():
        return "body", "The body is empty."
    return None


def _membership_fault(membership: ThreadMembership) -> tuple[str, str] | None:
    # NaN compares false with everything, so it is refused as well.
    if not 0 <= membership.confidence <= 1:
        return "confidence", "A confidence is 0 to 1."
    return None


def _edge_fault(edge: Edge) -> tuple[str, str] | None:
    for name, kind in (("source_kind", edge.source_kind), ("target_kind", edge.target_kind)):
        if kind not in _END_KINDS:
            return name, f"An edge joins units, documents and threads, not {kind!r}."
    return None


def _witness(row: DictRow) -> frozenset[Labels]:
    """The labels in a row of edge ends; empty when there are none or when they are outside the vocabulary."""
    if row["lifecycle_stage"] is None and row["data_classification"] is None:
        return frozenset()
    labels = _parse_or_none(
        Labels,
        {
            "flags": {name: row[name] for name in _FLAG_FIELDS},
            "lifecycle_stage": row["lifecycle_stage"],
            "data_classification": row["data_classification"],
        },
    )
    return frozenset() if labels is None else frozenset({labels})


@lru_cache(maxsize=4096)
def _labels_or_words(*words: str | None) -> Labels | dict[str, Any]:
    """Labels, one object for all units that have the same; the words when they cannot be read, so that it is said why."""
    fields: dict[str, Any] = dict(zip(_LABEL_FIELDS, words, strict=True))
    flags = {name: fields.pop(name) for name in _FLAG_FIELDS}
    labels = {"flags": flags, **fields}
    return _parse_or_none(Labels, labels) or labels


def _parse_or_none(kind: type[_T], value: object) -> _T | None:
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError:
        return None


def _first_line(error: ValueError) -> str:
    return str(error).splitlines()[0]
