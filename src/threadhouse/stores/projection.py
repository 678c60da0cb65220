"""Bring the content collections in step with Postgres, without a gap and without a leak.

Belongs here: carrying out a ``retrieval.projection.ProjectionPlan`` step by step, so that a kill at any point leaves readers with
all-old or all-new and the next run finishes the work.
Does not belong here: what differs (retrieval.projection), where texts come from (stores.projection_sources).

The order, and why:

1. access: pointers of what is gone, labels that somebody loses, then labels that somebody gains. Nobody waits for an embedding
   before a revoke holds.
2. content: embed and write the new points beside the old ones; they have no pointer, so readers drop them.
3. verify: every planned point can be read back.
4. publish copies: readers can now reach old and new points.
5. pointers: one Postgres transaction moves all of them; this is the moment of the switch.
6. clean-up: delete exactly what no pointer names; publish copies.

A publish of a scope takes the same steps and looks at nothing outside it: its cost depends on what changed, not on what there is.
The brakes still count everything (`_count_deletions`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeAlias, TypeVar
from uuid import UUID

from psycopg import Connection, Rollback
from psycopg.rows import TupleRow, class_row

from threadhouse.retrieval.audience import AudiencePolicy, Labels
from threadhouse.retrieval.bm25 import TermForm, document_vector
from threadhouse.retrieval.errors import ProjectionError
from threadhouse.retrieval.models import AllOf, Collection, Json, TextSpan, VectorPoint
from threadhouse.retrieval.payloads import (
    CHUNK_FIELDS,
    chunk_payload,
    label_fields,
    labels_from_metadata,
    point_id,
    validate_payload,
)
from threadhouse.retrieval.ports import VectorStore
from threadhouse.retrieval.projection import (
    DEFAULT_DELETION_SHARE,
    ContentScope,
    ProjectionOwner,
    ProjectionPlan,
    ProjectionPointer,
    RepairOrder,
    check_deletion_brake,
    check_source_is_not_empty,
    interim_labels,
    plan_projection,
    probe_principals,
)
from threadhouse.stores import queries
from threadhouse.stores.advisory_locks import advisory_lock
from threadhouse.stores.chunk_table import (
    chunk_table_path,
    cut_owner,
    read_chunk_table,
    spans_by_digest,
)
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.knowledge import open_knowledge
from threadhouse.stores.night_records import (
    WaitingRevocation,
    note_step,
    note_vectors_agree,
    read_waiting_revocations,
)
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection_sources import (
    ContentSource,
    DocumentSource,
    OwnerText,
    UnitSource,
)
from threadhouse.stores.quarantine import note_quarantined, resolve_absent

EMBED_BATCH_CHUNKS = 256
"""Chunks embedded and written together: enough to sort by length, few enough that a kill loses about a minute."""

PAYLOAD_BATCH = 1_000
"""Points whose payloads are read and written together; a payload is about 1 kB."""

SCOPE_BATCH = 500
"""Owner ids that one filter of the vector store names."""

SWITCH_GRACE_S = 1.0
"""How long the points of the old side stay after a document changed sides.

A search asks one collection after the other. One that asked the first before the switch and the second after it finds the old
points there, sees that they moved, and looks again. A search takes milliseconds."""

PROJECTION_LOCK = "threadhouse projection"
"""Name of the advisory lock; ``doctor`` shows who holds it."""

BeforeSwitch: TypeAlias = Callable[[Callable[[Database], None]], None]
"""Looks at what is about to be switched to; see `publish_content`."""

T = TypeVar("T")


@dataclass(slots=True)
class PublishReport:
    """What one publish did, in numbers; all zero for a run that found nothing to do.

    ``revoke_lag_s`` is from the start of the run to the moment the narrowed labels were readable.
    """

    owners_unchanged: int = 0
    owners_published: int = 0
    owners_retired: int = 0
    owners_replaced: int = 0
    owners_left_for_next_run: int = 0
    chunks_written: int = 0
    payloads_rewritten: int = 0
    points_deleted: int = 0
    quarantined: int = 0
    texts_embedded: int = 0
    cache_hits: int = 0
    seconds_embedding: float = 0.0
    seconds: float = 0.0
    revoke_lag_s: float | None = None
    points: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def vector_writes(self) -> int:
        """Points written, rewritten or deleted."""
        return self.chunks_written + self.payloads_rewritten + self.points_deleted

    def figures(self) -> dict[str, int | float]:
        """Every number by its name, for a person to look at."""
        figures: dict[str, int | float] = {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in asdict(self).items()
            if isinstance(value, int | float)
        }
        return {"vector_writes": self.vector_writes, **figures}


@dataclass(slots=True)
class _Work:
    """One collection in the middle of a publish."""

    source: ContentSource
    physical: str
    owners: Mapping[str, ProjectionOwner]
    pointers: Mapping[str, ProjectionPointer]
    stored: dict[UUID, Labels]
    plan: ProjectionPlan
    owner_ids: Sequence[str] | None = None
    """The owners of a scope; None for all there are."""
    moves: Mapping[str, str] = field(default_factory=dict[str, str])
    """Documents that change sides, with the side where they are wanted."""
    staged: dict[str, list[UUID]] = field(default_factory=dict[str, list[UUID]])
    waiting: tuple[WaitingRevocation, ...] = ()
    touched: bool = False


@dataclass(frozen=True, slots=True)
class _Order:
    """What a publish was asked for."""

    scope: ContentScope | None
    allowed_deletion_share: float | None
    repair: Mapping[Collection, RepairOrder]


@dataclass(frozen=True, slots=True)
class _Watch:
    """Who is told about steps and progress, if anybody."""

    on_step: Callable[[str], None] | None
    on_progress: Callable[[int, int], None] | None

    def step(self, name: str) -> None:
        if self.on_step is not None:
            self.on_step(name)

    def progress(self, done: int, total: int) -> None:
        if self.on_progress is not None:
            self.on_progress(done, total)


def projection_lock(database: Database) -> AbstractContextManager[None]:
    """Hold the right to change the projection; one publish at a time, whatever machine it runs on.

    Raises:
        StoreLockedError: Somebody else held it for ``LOCK_TIMEOUT_S``; the message names the connection.
    """
    return advisory_lock(
        database,
        PROJECTION_LOCK,
        "The projection is being written by",
        # Whoever follows changes holds it for seconds at a time; a night must not fail for that.
        wait_s=database.lock_timeout_s,
        is_reentrant=True,
    )


def publish_content(  # noqa: PLR0913  what a publish needs, what limits it, who watches it: none goes with another
    database: Database,
    vectors: VectorStore,
    embedder: CachedEmbedder,
    home: Path,
    *,
    scope: ContentScope | None = None,
    access_only: bool = False,
    allowed_deletion_share: float | None = DEFAULT_DELETION_SHARE,
    repair: Mapping[Collection, RepairOrder] | None = None,
    before_switch: BeforeSwitch | None = None,
    beside: bool = False,
    on_step: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PublishReport:
    """Make ``information_units`` and ``production_documents`` hold exactly what the source says.

    Args:
        home: Where the chunk tables are; an owner they do not know is cut on the spot, and so is every owner of a scope.
        scope: Look only at these owners, the units of these documents, and the documents that these units are in or were in; what
            lies outside stays as it is. None means everything.
        access_only: End after step 1: what is gone and what labels say is applied, and content is left to a later publish.
        allowed_deletion_share: See ``retrieval.projection.check_deletion_brake``; None lifts the brake.
        repair: Owners to write again although the pointers say they are right, by collection.
        before_switch: Called between steps 4 and 5 when there is something to switch to, with a function that moves the pointers
            in the database that it is given. What it raises leaves readers where they are.
        beside: It is a generation that no reader has, so no revoke waits for it and it is no publish that others go by.
        on_step: Called with the name of each step after it is durable. The crash tests kill the process in it.
        progress: Called with (chunks written so far, chunks to write).

    Raises:
        StoreLockedError: Another publish is under way.
        ConfigurationError: No audience policy is in force; nothing was written.
        DeletionBrakeError: Too much would be deleted; nothing was written.
        EmptySourceError: The source is empty; nothing was written.
        ProjectionError: What was written is not what was planned; nothing was switched over.
    """
    watch = _Watch(on_step, progress)
    report = PublishReport()
    started = time.monotonic()
    with projection_lock(database):
        with open_knowledge(database) as knowledge:
            policy = knowledge.policy()
        works = _plan(
            database,
            vectors,
            embedder,
            policy,
            _Order(scope, allowed_deletion_share, repair or {}),
            report,
        )
        watch.step("planned")
        for work in works:
            _take_access(database, vectors, policy, work, report, beside=beside)
        for work in works:
            _rewrite(vectors, work, work.plan.relabel, _new_payload(work), report)
        if _publish_copies(vectors, works):
            report.revoke_lag_s = time.monotonic() - started
        watch.step("access")
        _note_relabelled(database, works)
        watch.step("access_noted")
        if not access_only:
            _stage_content(database, vectors, embedder, works, home, report, watch)
            for work in works:
                _verify_staged(vectors, work)
            watch.step("verified")
            _publish_copies(vectors, works)
            watch.step("copies")
            has_switched = _switch(database, embedder, works, before_switch, report)
            watch.step("pointers")
            if has_switched:
                time.sleep(SWITCH_GRACE_S)
            for work in works:
                _clean_up(database, vectors, work, report)
            _publish_copies(vectors, works)
            if not beside:
                _settle_documents(database, works)
            watch.step("cleaned")
        for work in works:
            report.points[work.source.collection] = vectors.count(work.physical)
    report.seconds = time.monotonic() - started
    note_step(
        database,
        "content_vectors_beside" if beside else "content_vectors",
        seconds=report.seconds,
        texts_embedded=report.texts_embedded,
        cache_hits=report.cache_hits,
        vector_writes=report.vector_writes,
        is_scoped=scope is not None or access_only,
    )
    return report


def _plan(
    database: Database,
    vectors: VectorStore,
    embedder: CachedEmbedder,
    policy: AudiencePolicy,
    order: _Order,
    report: PublishReport,
) -> list[_Work]:
    sources: tuple[ContentSource, ...] = (UnitSource(), DocumentSource())
    physicals = [vectors.ensure_collection(source.collection, embedder.space) for source in sources]
    works: list[_Work] = []
    counts: list[_Deletions] = []
    with database.connect() as connection:
        # One snapshot for both collections: a document whose units appear in between is in exactly one of them.
        connection.execute("set transaction isolation level repeatable read")
        connection.execute(queries.load("projection_as_wanted"), {"physical": physicals[0]})
        closed = (
            None
            if order.scope is None
            else _close_scope(connection, vectors, physicals, order.scope)
        )
        for source, physical in zip(sources, physicals, strict=True):
            owner_ids = None if closed is None else sorted(source.owners_in(closed))
            wanted = source.read_wanted(connection, embedder.space.space_id, owner_ids)
            name = f"projection:{source.collection}"
            note_quarantined(connection, name, wanted.refused)
            resolve_absent(connection, name, [item.item_key for item in wanted.refused], owner_ids)
            pointers = read_pointers(connection, physical, owner_ids)
            stored, damaged = _read_labels(vectors, physical, source, owner_ids)
            plan = plan_projection(
                source.collection,
                wanted.owners,
                pointers,
                # A point that lost its chunk's fields cannot be mended in place: it counts as missing and is written again.
                {point: labels for point, labels in stored.items() if point not in damaged},
                policy,
                wanted.taken_over,
                order.repair.get(source.collection),
            )
            report.owners_unchanged += plan.unchanged
            report.quarantined += len(wanted.refused)
            counted = _Deletions(
                published=len(pointers),
                named=len(wanted.owners) + len(wanted.taken_over) + len(wanted.refused),
            )
            if closed is not None and plan.retire:
                counted = _count_deletions(connection, source, physical)
            counts.append(counted)
            work = _Work(source, physical, wanted.owners, pointers, stored, plan, owner_ids)
            if source.collection is Collection.PRODUCTION_DOCUMENTS:
                work.moves = _read_moves(connection, owner_ids)
            works.append(work)
    if closed is None or any(work.plan.retire for work in works):
        check_source_is_not_empty(
            sum(each.published for each in counts), sum(each.named for each in counts)
        )
    for work, counted in zip(works, counts, strict=True):
        check_deletion_brake(
            work.plan, counted.published, order.allowed_deletion_share, counted.gone
        )
    return works


def _read_moves(
    connection: Connection[TupleRow], document_ids: Sequence[str] | None
) -> dict[str, str]:
    """Documents that are not where they are wanted (`threadhouse.stores.document_migration`), with where that is."""
    rows = connection.execute(
        queries.load("projection_side_moves"),
        {"document_ids": None if document_ids is None else list(document_ids)},
    )
    return {document_id: wanted for document_id, wanted in rows}


@dataclass(frozen=True, slots=True)
class _Deletions:
    """What the brakes weigh: published owners, owners that the source names, published ones that it names no longer."""

    published: int
    named: int
    gone: int = 0


def _count_deletions(
    connection: Connection[TupleRow], source: ContentSource, physical: str
) -> _Deletions:
    """Count the whole collection; asked when a scope would delete, because the scope alone cannot tell much from little."""
    query = queries.load(source.deletions_query)
    with connection.cursor(row_factory=class_row(_Deletions)) as cursor:
        counted = cursor.execute(query, {"physical": physical}).fetchone()
    return counted or _Deletions(0, 0)


def _close_scope(
    connection: Connection[TupleRow],
    vectors: VectorStore,
    physicals: Sequence[str],
    scope: ContentScope,
) -> ContentScope:
    """Everything whose place depends on the owners of a scope.

    That is the units of its documents and the documents of its units: as the source has them, and as the stored points still say.
    A document that only the points name may get its legacy chunks back. It is noted down first, because a run that is killed
    after it took the points away would leave nobody to name it.
    """
    units_physical, documents_physical = physicals
    units, documents = set(scope.units), set(scope.documents)
    rows = connection.execute(
        queries.load("projection_close_scope"),
        {"units": list(scope.units), "documents": list(scope.documents)},
    ).fetchall()
    units.update(row[1] for row in rows if row[0] == "unit")
    documents.update(row[1] for row in rows if row[0] == "document")
    for _, unit_id in _places(vectors, units_physical, "document_id", scope.documents):
        units.add(unit_id)
    left = {
        document_id
        for document_id, _ in _places(vectors, units_physical, UnitSource.owner_field, scope.units)
    }
    pointers = read_pointers(connection, units_physical, sorted(scope.units))
    if any(pointer.chunk_count == 0 for pointer in pointers.values()):
        # No point says where a unit of blank text was. There are few of them, so all documents may be asked.
        unpublished = connection.execute(
            queries.load("projection_unpublished_documents"), {"physical": documents_physical}
        )
        left.update(row[0] for row in unpublished)
    owed = sorted(left - documents)
    if owed:
        connection.execute(queries.load("projection_owe_documents"), {"document_ids": owed})
    return ContentScope(frozenset(units), frozenset(documents | left))


def _settle_documents(database: Database, works: Sequence[_Work]) -> None:
    """Forget the documents that were owed: this run has looked at them."""
    _, documents = works
    with database.connect() as connection:
        connection.execute(
            queries.load("projection_settle_documents"),
            {"document_ids": None if documents.owner_ids is None else list(documents.owner_ids)},
        )


def _places(
    vectors: VectorStore, physical: str, path: str, ids: AbstractSet[str]
) -> Iterator[tuple[str, str]]:
    """Document and unit of the stored points whose ``path`` is one of ``ids``."""
    for where in _filters(path, ids):
        for point in vectors.scroll(physical, where):
            metadata = point.payload.get("metadata")
            unit_id = metadata.get("logical_unit_id") if isinstance(metadata, dict) else None
            document_id = point.payload.get("document_id")
            if isinstance(document_id, str) and isinstance(unit_id, str):
                yield document_id, unit_id


def _filters(path: str, ids: Sequence[str] | AbstractSet[str] | None) -> Iterator[AllOf | None]:
    """Filters that together let through the points whose ``path`` is one of ``ids``; a single None for all points."""
    if ids is None:
        yield None
        return
    for batch in _batches(sorted(ids), SCOPE_BATCH):
        yield AllOf(((path, tuple(batch)),))


def read_pointers(
    connection: Connection[TupleRow], physical: str, owner_ids: Sequence[str] | None = None
) -> dict[str, ProjectionPointer]:
    """What Postgres says a physical collection holds of all owners, or of those among ``owner_ids``, by owner id."""
    parameters = {
        "physical": physical,
        "owner_ids": None if owner_ids is None else list(owner_ids),
    }
    with connection.cursor(row_factory=class_row(ProjectionPointer)) as cursor:
        cursor.execute(queries.load("projection_pointers"), parameters)
        return {pointer.owner_id: pointer for pointer in cursor}


def _read_labels(
    vectors: VectorStore,
    physical: str,
    source: ContentSource,
    owner_ids: Sequence[str] | None,
) -> tuple[dict[UUID, Labels], frozenset[UUID]]:
    """Labels of the stored points of some owners or of all, and the points that do not say which chunk they are.

    Equal labels are one object: a corpus has a few dozen combinations.
    """
    interned: dict[Labels, Labels] = {}
    stored: dict[UUID, Labels] = {}
    damaged: set[UUID] = set()
    for where in _filters(source.owner_field, owner_ids):
        for point in vectors.scroll(physical, where):
            metadata = point.payload.get("metadata")
            known = metadata if isinstance(metadata, dict) else {}
            labels = labels_from_metadata(known)
            stored[point.point_id] = interned.setdefault(labels, labels)
            if not known.keys() >= CHUNK_FIELDS:
                damaged.add(point.point_id)
    return stored, frozenset(damaged)


def _take_access(
    database: Database,
    vectors: VectorStore,
    policy: AudiencePolicy,
    work: _Work,
    report: PublishReport,
    *,
    beside: bool,
) -> None:
    """Take away what is gone and what somebody may no longer see."""
    plan = work.plan
    if not beside:
        with database.connect() as connection:
            work.waiting = read_waiting_revocations(
                connection, work.physical, [*plan.retire, *plan.revoke, *plan.hide_old]
            )
    if plan.retire:
        with database.connect() as connection:
            _remove_pointers(connection, work.physical, plan.retire)
        report.owners_retired += len(plan.retire)
        _delete(vectors, work, _ids_of(work, plan.retire), report)
    _rewrite(vectors, work, plan.revoke, _new_payload(work), report)
    _rewrite(vectors, work, plan.hide_old, _interim_payload(work, policy), report)


_Rewriter = Callable[[str, Mapping[str, Json]], dict[str, Json] | None]


def _new_payload(work: _Work) -> _Rewriter:
    """The owner's payload of today around the chunk's own fields."""

    def rewrite(owner_id: str, old: Mapping[str, Json]) -> dict[str, Json] | None:
        owner = work.owners[owner_id]
        old_metadata, new_metadata = old.get("metadata"), owner.payload["metadata"]
        if not isinstance(old_metadata, dict) or not isinstance(new_metadata, dict):
            return None
        chunk = {name: old_metadata[name] for name in CHUNK_FIELDS}
        payload: dict[str, Json] = {
            **owner.payload,
            "metadata": {**new_metadata, **chunk},
        }
        validate_payload(work.source.collection, payload)
        return payload

    return rewrite


def _interim_payload(work: _Work, policy: AudiencePolicy) -> _Rewriter:
    """The old payload with narrowed labels, for text that is about to be replaced."""
    probes = probe_principals(policy)

    def rewrite(owner_id: str, old: Mapping[str, Json]) -> dict[str, Json] | None:
        metadata = old.get("metadata")
        if not isinstance(metadata, dict):
            return None
        labels = interim_labels(
            labels_from_metadata(metadata), work.owners[owner_id].labels, probes, policy
        )
        if labels is None:
            return None
        return {**old, "metadata": {**metadata, **label_fields(labels)}}

    return rewrite


def _rewrite(
    vectors: VectorStore,
    work: _Work,
    owner_ids: Sequence[str],
    rewrite: _Rewriter,
    report: PublishReport,
) -> None:
    """Replace payloads of published points of ``owner_ids``, in the order given; no vector is touched."""
    owner_of = {
        point: owner_id
        for owner_id in owner_ids
        for point in work.pointers[owner_id].point_ids(work.source.collection)
        if point in work.stored
    }
    for ids in _batches(list(owner_of), PAYLOAD_BATCH):
        changed = [
            (point.point_id, payload)
            for point in vectors.retrieve(work.physical, ids)
            if (payload := rewrite(owner_of[point.point_id], point.payload)) is not None
        ]
        report.payloads_rewritten += vectors.overwrite_payloads(work.physical, changed)
        work.touched = True


def _note_relabelled(database: Database, works: Sequence[_Work]) -> None:
    """Record payload digests after the copies are published: killed before, the next run does it again."""
    with database.connect() as connection:
        for work in works:
            note_vectors_agree(connection, work.source.collection, work.waiting)
            owner_ids = [*work.plan.revoke, *work.plan.relabel]
            if owner_ids:
                connection.execute(
                    queries.load("projection_note_payloads"),
                    {
                        "physical": work.physical,
                        "owner_ids": owner_ids,
                        "payload_digests": [work.owners[o].payload_digest for o in owner_ids],
                    },
                )


@dataclass(frozen=True, slots=True)
class _PlannedChunk:
    owner: ProjectionOwner
    title: str
    span: TextSpan
    index: int
    total: int


def _stage_content(
    database: Database,
    vectors: VectorStore,
    embedder: CachedEmbedder,
    works: Sequence[_Work],
    home: Path,
    report: PublishReport,
    watch: _Watch,
) -> None:
    """Embed and write the new points. They have no pointer yet, so no reader sees them."""
    before = replace(embedder.counts)
    for work in works:
        if not work.plan.publish:
            continue
        spans: Mapping[str, list[tuple[int, int, int]]] = {}
        if work.owner_ids is None:
            # For a scope the table of everything is not read: cutting a few owners again costs less.
            spans = spans_by_digest(read_chunk_table(chunk_table_path(home, work.source)))
        expected = sum(len(spans.get(work.owners[o].content_digest, ())) for o in work.plan.publish)
        written = 0
        for chunks in _planned_chunks(database, embedder, work, spans, report):
            _write_chunks(vectors, embedder, work, chunks)
            written += len(chunks)
            report.chunks_written += len(chunks)
            work.touched = True
            watch.step(f"staged:{work.source.collection}:{written}")
            watch.progress(written, max(expected, written))
    report.texts_embedded += embedder.counts.texts_embedded - before.texts_embedded
    report.cache_hits += embedder.counts.cache_hits - before.cache_hits
    report.seconds_embedding += embedder.counts.seconds_embedding - before.seconds_embedding


def _planned_chunks(
    database: Database,
    embedder: CachedEmbedder,
    work: _Work,
    spans: Mapping[str, list[tuple[int, int, int]]],
    report: PublishReport,
) -> Iterator[list[_PlannedChunk]]:
    """Chunks of the owners to publish, about ``EMBED_BATCH_CHUNKS`` at a time; an owner is never torn apart."""
    pending: list[_PlannedChunk] = []
    for owner_ids in _batches(work.plan.publish, EMBED_BATCH_CHUNKS):
        with database.connect() as connection:
            connection.execute(queries.load("projection_as_wanted"), {"physical": work.physical})
            texts = work.source.read_texts(connection, owner_ids)
        for owner_id in owner_ids:
            owner, text = work.owners[owner_id], texts.get(owner_id)
            if text is None or text.version_key != owner.version_key:
                report.owners_left_for_next_run += 1
                continue
            cut = _spans_of(work, owner, text, spans, embedder)
            work.staged[owner_id] = [
                point_id(work.source.collection, owner.version_key, index)
                for index in range(len(cut))
            ]
            pending.extend(
                _PlannedChunk(owner, text.title, span, index, len(cut))
                for index, span in enumerate(cut)
            )
            if len(pending) >= EMBED_BATCH_CHUNKS:
                yield pending
                pending = []
    if pending:
        yield pending


def _spans_of(
    work: _Work,
    owner: ProjectionOwner,
    text: OwnerText,
    spans: Mapping[str, list[tuple[int, int, int]]],
    embedder: CachedEmbedder,
) -> list[TextSpan]:
    known = spans.get(owner.content_digest)
    if known is None:
        return [span for span, _ in cut_owner(work.source, text, embedder)]
    return [TextSpan(text.body[start:end], start, end) for start, end, _ in known]


def _write_chunks(
    vectors: VectorStore,
    embedder: CachedEmbedder,
    work: _Work,
    chunks: Sequence[_PlannedChunk],
) -> None:
    embedded = work.source.embed([(chunk.title, chunk.span.text) for chunk in chunks], embedder)
    points: list[VectorPoint] = []
    for chunk, dense in zip(chunks, embedded.data, strict=True):
        payload = chunk_payload(chunk.owner.payload, chunk.span, chunk.index, chunk.total)
        validate_payload(work.source.collection, payload)
        searchable = f"{chunk.title}\n{chunk.span.text}"
        points.append(
            VectorPoint(
                point_id=point_id(work.source.collection, chunk.owner.version_key, chunk.index),
                dense=dense,
                bm25_accented=document_vector(searchable, TermForm.ACCENTED),
                bm25_folded=document_vector(searchable, TermForm.FOLDED),
                payload=payload,
            )
        )
    vectors.upsert(work.physical, embedded.space_id, points)


def _verify_staged(vectors: VectorStore, work: _Work) -> None:
    """Read every staged point back; a write that was acknowledged and is not there must not be switched to."""
    wanted = [point for ids in work.staged.values() for point in ids]
    found = 0
    for ids in _batches(wanted, PAYLOAD_BATCH):
        found += len({point.point_id for point in vectors.retrieve(work.physical, ids)})
    if found != len(wanted):
        message = (
            f"{work.source.collection}: {len(wanted)} points were written and {found} can be read back; "
            "readers stay on the old version. Check the disk, then run again."
        )
        raise ProjectionError(message)


def _switch(
    database: Database,
    embedder: CachedEmbedder,
    works: Sequence[_Work],
    before_switch: BeforeSwitch | None,
    report: PublishReport,
) -> bool:
    """Have it looked at what readers would be switched to, if somebody wants to, then switch them; see `_move_pointers`."""

    def rehearse(inside: Database) -> None:
        _move_pointers(inside, embedder, works, PublishReport())

    if before_switch is not None and any(work.staged or work.plan.replace for work in works):
        before_switch(rehearse)
    return _move_pointers(database, embedder, works, report)


def _move_pointers(
    database: Database,
    embedder: CachedEmbedder,
    works: Sequence[_Work],
    report: PublishReport,
) -> bool:
    """Switch readers over, all collections in one transaction; whether documents changed sides."""
    _, documents = works
    moves = dict(documents.moves)
    with database.connect() as connection:
        while True:
            with connection.transaction() as attempt:
                switch = _try_switch(connection, embedder, works, moves)
                if switch.torn:
                    # A text changed while it was being embedded, or the payload contract refuses one: such a document stays
                    # whole on the side where it is, and all others move.
                    raise Rollback(attempt)
            if not switch.torn:
                break
            moves = {each: side for each, side in moves.items() if each not in switch.torn}
    report.owners_published += switch.moved
    report.owners_left_for_next_run += switch.left
    report.owners_replaced += switch.replaced
    return switch.has_switched


@dataclass(slots=True)
class _Switch:
    """What one attempt did: owners published, left out, replaced; documents that their new side does not hold whole."""

    moved: int = 0
    left: int = 0
    replaced: int = 0
    has_switched: bool = False
    torn: frozenset[str] = frozenset()


def _try_switch(
    connection: Connection[TupleRow],
    embedder: CachedEmbedder,
    works: Sequence[_Work],
    moves: Mapping[str, str],
) -> _Switch:
    units, documents = works
    switch = _Switch()
    physicals = {"unit_physical": units.physical, "legacy_physical": documents.physical}
    switched: list[str] = []
    if moves:
        # First, because what is shown of a document decides whose pointers may be moved.
        parameters = {"document_ids": list(moves), "wanted": list(moves.values())}
        rows = connection.execute(queries.load("projection_switch_sides"), parameters)
        switched = [row[0] for row in rows]
    for work, query in (
        (units, "projection_move_unit_pointers"),
        (documents, "projection_move_document_pointers"),
    ):
        if not work.staged:
            continue
        owners = [work.owners[owner_id] for owner_id in work.staged]
        moved = connection.execute(
            queries.load(query),
            {
                "physical": work.physical,
                "collection": work.source.collection,
                "space_id": embedder.space.space_id,
                "chunker_version": work.source.chunker_version,
                "owner_ids": [owner.owner_id for owner in owners],
                "version_keys": [owner.version_key for owner in owners],
                "chunk_counts": [len(work.staged[owner.owner_id]) for owner in owners],
                "content_digests": [owner.content_digest for owner in owners],
                "payload_digests": [owner.payload_digest for owner in owners],
            },
        ).rowcount
        switch.moved += moved
        switch.left += len(owners) - moved
    for work, query in (
        (documents, "projection_hand_over_documents"),
        (units, "projection_hand_back_units"),
    ):
        if work.plan.replace:
            parameters = {**physicals, "owner_ids": list(work.plan.replace)}
            switch.replaced += connection.execute(queries.load(query), parameters).rowcount
    if switched:
        switch.has_switched = True
        parameters = {**physicals, "document_ids": switched}
        rows = connection.execute(queries.load("projection_torn_sides"), parameters)
        switch.torn = frozenset(row[0] for row in rows)
        connection.execute(queries.load("projection_note_switched"), {"document_ids": switched})
    return switch


def _clean_up(database: Database, vectors: VectorStore, work: _Work, report: PublishReport) -> None:
    """Delete exactly the points that no pointer names."""
    if not (work.plan.stray or work.staged or work.plan.replace):
        return  # nothing was written and nothing was astray; naming every point again would double the time of a quiet night
    with database.connect() as connection:
        pointers = read_pointers(connection, work.physical, work.owner_ids)
    live = {i for pointer in pointers.values() for i in pointer.point_ids(work.source.collection)}
    present = set(work.stored) | {point for ids in work.staged.values() for point in ids}
    _delete(vectors, work, sorted(present - live, key=str), report)


def _delete(vectors: VectorStore, work: _Work, ids: Sequence[UUID], report: PublishReport) -> None:
    if not ids:
        return
    for batch in _batches(ids, PAYLOAD_BATCH):
        report.points_deleted += vectors.delete(work.physical, batch)
    for point in ids:
        work.stored.pop(point, None)
    work.touched = True


def _ids_of(work: _Work, owner_ids: Sequence[str]) -> list[UUID]:
    return [
        point
        for owner_id in owner_ids
        for point in work.pointers[owner_id].point_ids(work.source.collection)
        if point in work.stored
    ]


def _remove_pointers(
    connection: Connection[TupleRow], physical: str, owner_ids: Sequence[str]
) -> None:
    connection.execute(
        queries.load("projection_remove_pointers"),
        {"physical": physical, "owner_ids": list(owner_ids)},
    )


def _publish_copies(vectors: VectorStore, works: Sequence[_Work]) -> bool:
    """Let readers see what was written; returns whether this run had written anything.

    Asked for every collection each time: the store knows what an earlier run left unpublished when it was killed.
    """
    written = False
    for work in works:
        vectors.publish(work.physical)
        written |= work.touched
        work.touched = False
    return written


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
