"""Leak canaries in Postgres and in vector collections of their own, and every enforcer of this layer asked for them on its own.

Belongs here: planting (one transaction that is thrown away, scratch collections that are dropped), and one probe for each way in
which a store can give something out: vector filter, read-back, names and words of threads, packs, last check, report.
Does not belong here: which canaries there are and what is a leak (retrieval.leak_canaries), the query path (serving.leak_probe).

Each enforcer is asked with the others out of the way, because behind another one a broken one would go unnoticed:
the filter by what the engine gives out before anything else has looked, the read-back over stale vectors, which say that
everybody may see them.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import cast
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray
from psycopg.types.json import Jsonb

from threadhouse.retrieval.audience import AudiencePolicy, allowed_values, lane_principal
from threadhouse.retrieval.bm25 import TermForm, document_vector
from threadhouse.retrieval.centroids import (
    CentroidPlan,
    NoCentroid,
    ThreadCentroid,
    WeightedUnit,
    build_centroid,
    plan_centroids,
)
from threadhouse.retrieval.fallback import EXPLICIT_RAW, LEGACY_UNIT_KIND, FoundUnit, ad_hoc_pack
from threadhouse.retrieval.health_report import render_html, render_markdown
from threadhouse.retrieval.lanes import outline_unit, sight_of
from threadhouse.retrieval.leak_canaries import (
    FRESH,
    OPEN,
    RACING,
    STALE,
    CanaryDocument,
    CanaryHouse,
    CanarySight,
    CanaryUnit,
    Flock,
    PathOutcome,
    canary_body,
    canary_title,
    failed_probe,
    fresh_flocks,
    judge,
    marks_in,
    plan_canaries,
    probed_readers,
    question_for,
    sight_of_canaries,
)
from threadhouse.retrieval.models import (
    Audience,
    Collection,
    Flags,
    InformationUnit,
    Json,
    LifecycleStage,
    MembershipStatus,
    Principal,
    ScoredPoint,
    SemanticThread,
    TextSpan,
    ThreadId,
    ThreadMembership,
    UnitId,
    VectorPoint,
    Vectors,
    VectorSpace,
)
from threadhouse.retrieval.packs import (
    ContextPack,
    PackUnit,
    ThreadDossier,
    build_pack,
    canonical_json,
    thread_pack_id,
)
from threadhouse.retrieval.payloads import chunk_payload, label_fields, point_id
from threadhouse.retrieval.ports import VectorStore
from threadhouse.retrieval.projection import ProjectionOwner
from threadhouse.retrieval.query_text import prepare_query
from threadhouse.retrieval.search import LiveOwner, LiveOwners, SearchHit, search_collections
from threadhouse.stores import queries
from threadhouse.stores.advisory_locks import advisory_lock
from threadhouse.stores.centroid_projection import write_centroids
from threadhouse.stores.discarded_transaction import DiscardedDatabase, discarded_transaction
from threadhouse.stores.health_figures import collect_health_figures
from threadhouse.stores.knowledge import KnowledgeReader
from threadhouse.stores.live_owners import PostgresLiveOwners
from threadhouse.stores.pack_delivery import Leak, PackDelivery
from threadhouse.stores.pack_store import BuiltPack, keep_pack
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection_sources import DocumentSource, UnitSource
from threadhouse.stores.reader_roles import begin_reading, row_security_gaps
from threadhouse.stores.settings import Settings
from threadhouse.stores.thread_signals import PostgresThreadSignals
from threadhouse.stores.vectors import BM25_VECTORS, open_scratch
from threadhouse.stores.vectors_observed import DENSE, ObservedSearcher

PROBE_LOCK = "threadhouse leak probe"
"""Name of the advisory lock that one probe of a hub holds: the next one clears away what a killed one left."""

CONTENT = (Collection.INFORMATION_UNITS, Collection.PRODUCTION_DOCUMENTS)
EVERYTHING = 100_000
"""More hits than there are canaries."""

REPORT_DAY = date(2000, 1, 1)
"""A day before any hub had events of its own, on which something happened to every thread of canaries."""

_ALIAS = "leak-canary-"
_HOME = "leak-probe-"
_DIRECTIONS: Mapping[Flock, int] = {
    flock: 2 + at for at, flock in enumerate((*STALE, *FRESH, *RACING))
}
_DIMENSIONS = 2 + len(_DIRECTIONS)
SPACE = VectorSpace(
    name="leak-canary",
    model="none",
    weights_sha256="",
    tokenizer_sha256="",
    dim=_DIMENSIONS,
    max_tokens=512,
    pooling="none",
    query_prefix="",
    passage_prefix="",
    space_id=f"leak-canary-{_DIMENSIONS}",
)
"""A space of its own: what decides who sees a point does not depend on its vector, and no model has to be loaded."""


class CanaryEmbedder:
    """A direction for each flock, and one that all share."""

    def __init__(self, house: CanaryHouse) -> None:
        self._flock_of = {question_for(house, flock): flock for flock in _DIRECTIONS}

    @property
    def space(self) -> VectorSpace:
        """The canaries' own space."""
        return SPACE

    def embed_query(self, text: str) -> Vectors:
        """The direction of the flock that is asked for; of all fresh canaries when it is none of the known questions."""
        flock = self._flock_of.get(text)
        row = flock_vector(() if flock is None else (flock,))
        return Vectors(SPACE.space_id, "query", row[np.newaxis], np.zeros(1, np.bool_))


@cache
def flock_vector(flocks: tuple[Flock, ...]) -> NDArray[np.float32]:
    """Shape (dim,), length 1: the flocks' own directions, and one that all fresh or all stale ones share."""
    row = np.zeros(_DIMENSIONS, np.float32)
    row[int(any(flock.is_stale for flock in flocks))] = 1.0
    row[[_DIRECTIONS[flock] for flock in flocks]] = 1.0
    row = (row / np.linalg.norm(row)).astype(np.float32)
    row.flags.writeable = False  # remembered: thousands of canaries share a few dozen
    return row


@dataclass(frozen=True, slots=True)
class CanaryGround:
    """A planted house: what every probe works on.

    Attributes:
        database: The hub with the canaries in it, as only this transaction sees it.
        searcher: Asks the scratch collections, and is watched.
        dossiers: Everything known about each thread of canaries.
        turn: Another number each night: chooses what is asked for a part at a time.
    """

    house: CanaryHouse
    database: DiscardedDatabase
    policy: AudiencePolicy
    readers: Mapping[str, Principal]
    sights: Mapping[str, CanarySight]
    searcher: ObservedSearcher
    embedder: CanaryEmbedder
    dossiers: Mapping[ThreadId, ThreadDossier] = field(repr=False)
    turn: int = 0

    def fresh_flocks(self, reader: str) -> tuple[Flock, ...]:
        """What it takes to ask for everything fresh as a reader."""
        return fresh_flocks(self.house, self.sight(reader).published)

    def sight(self, reader: str) -> CanarySight:
        """What a reader sees."""
        return self.sights[reader]

    @property
    def planted(self) -> int:
        """Units and documents."""
        return len(self.house.units) + len(self.house.documents)


@contextmanager
def planted_canaries(database: Database, settings: Settings) -> Generator[CanaryGround, None, None]:
    """Plant a house of canaries, yield it, and leave nothing of it.

    Raises:
        StoreLockedError: Another probe of this hub is at work.
        StoreUnreachableError: A store does not answer.
    """
    with ExitStack() as stack:
        stack.enter_context(advisory_lock(database, PROBE_LOCK, "The leak probe is being run by"))
        writer = stack.enter_context(_scratch_writer(settings))
        inside = stack.enter_context(discarded_transaction(database))
        with inside.lend() as connection:
            policy = KnowledgeReader(connection).policy()
        readers = probed_readers(policy)
        turn = datetime.now(UTC).toordinal()
        house = plan_canaries(secrets.token_hex(4), turn)
        _plant_rows(inside, house)
        with inside.lend() as connection:
            connection.execute(
                queries.load("canaries_plant_figures"),
                {"day": REPORT_DAY, "lanes": list(Audience), "threads": list(house.threads)},
            )
            connection.execute(queries.load("canaries_analyze"))
            knowledge = KnowledgeReader(connection)
            dossiers = {
                dossier.thread.thread_id: dossier
                for dossier in knowledge.dossiers([ThreadId(mark) for mark in house.threads])
                if isinstance(dossier, ThreadDossier)
            }
        searcher = _plant_vectors(inside, writer, house, policy, dossiers)
        yield CanaryGround(
            house=house,
            database=inside,
            policy=policy,
            readers=readers,
            sights={
                name: sight_of_canaries(house, reader, policy) for name, reader in readers.items()
            },
            searcher=searcher,
            embedder=CanaryEmbedder(house),
            dossiers=dossiers,
            turn=turn,
        )


def probe_stores(ground: CanaryGround) -> Iterator[PathOutcome]:
    """Ask every enforcer of this layer, for every reader. A probe that fails is a path of which nothing is known: a fault."""
    for probe in STORE_PROBES:
        try:
            yield from probe(ground)
        except (Leak, ValueError, LookupError) as error:
            # A pack that cannot be built, or that the last check stops, where a sound one was planted.
            yield failed_probe(probe.__name__, ground.planted, type(error).__name__)


def probe_read_back(ground: CanaryGround) -> Iterator[PathOutcome]:
    """The read-back alone: the labels that it answers with for every canary, as search uses them."""
    live = PostgresLiveOwners(ground.database.lend)
    answered: dict[str, LiveOwner] = {}
    for collection, marks in (
        (Collection.INFORMATION_UNITS, ground.house.units),
        (Collection.PRODUCTION_DOCUMENTS, ground.house.documents),
    ):
        answered |= live.ask_owners(collection, ground.searcher.resolve(collection), list(marks))()
    for name, reader in ground.readers.items():
        sight = ground.sight(name)
        sees = sight_of(reader, ground.policy)
        yield judge(
            name,
            "read-back",
            ground.planted,
            (mark for mark, owner in answered.items() if sees(owner.labels)),
            allowed=sight.content,
            must_see=sight.content,
        )


def probe_search(ground: CanaryGround) -> Iterator[PathOutcome]:
    """The vector filter by what the engine gives out list by list, and search as it is: lists fused, filtered and read back.

    The filter is judged before anything else has looked. Of stale canaries only the read-back keeps the hidden ones away.
    """
    live = PostgresLiveOwners(ground.database.lend)
    for name, reader in ground.readers.items():
        sight = ground.sight(name)
        ground.searcher.take_notes()
        seen: set[str] = set()
        for flock in (*ground.fresh_flocks(name), *STALE):
            for hit in _search(ground, reader, flock, live):
                seen |= {hit.owner_id} | marks_in(str(hit.metadata))
        listed = ground.searcher.take_notes()
        for of_list in (DENSE, *BM25_VECTORS):
            yield judge(
                name,
                f"vector filter, {of_list}",
                len(ground.house.searched),
                {_owner_of(point) for point in listed.get(of_list, ())},
                allowed=sight.published,
                must_see=sight.published & ground.house.searched,
            )
        yield judge(
            name,
            "search, fused",
            len(ground.house.searched),
            seen - sight.holders,
            allowed=sight.content,
            must_see=sight.content & ground.house.searched,
        )


def _owner_of(point: ScoredPoint) -> str:
    """The unit or, of a part of a document, the document."""
    metadata = point.payload.get("metadata")
    unit = metadata.get("logical_unit_id") if isinstance(metadata, dict) else None
    return str(unit or point.payload.get("document_id"))


def probe_centroids(ground: CanaryGround) -> Iterator[PathOutcome]:
    """Threads by their centres. Where a lane may not have one, there is a stale one that everybody might see."""
    live = PostgresLiveOwners(ground.database.lend)
    for name, reader in ground.readers.items():
        # A lane's centroids are made of what the lane sees without any permission. Permissions can open a thread that is
        # closed to the lane, and so the lane's centre of it, never more.
        lane = ground.sight(reader.audience)
        hits = _search(ground, reader, STALE[0], live, (Collection.THREAD_CENTROIDS,))
        seen = {hit.owner_id.rpartition("/")[0] for hit in hits}
        yield judge(
            name,
            "centroids",
            len(ground.house.threads),
            seen | marks_in(" ".join(str(hit.metadata) for hit in hits)),
            allowed=lane.threads | ground.sight(name).threads,
            must_see=lane.threads,
        )


def probe_thread_signals(ground: CanaryGround) -> Iterator[PathOutcome]:
    """Names, words and surroundings of threads, when every thread is asked for by its name and address."""
    house = ground.house
    signals = PostgresThreadSignals(ground.database.lend)
    titles = "\n".join(f"{canary_title(mark)}\n{mark}" for mark in house.threads)
    units = [UnitId(mark) for mark in house.units]
    for name, reader in ground.readers.items():
        sight = ground.sight(name)
        lexical = signals.lexical(titles, reader, ground.policy)
        around = signals.surroundings(
            [unit for unit in units if unit in sight.units],
            [ThreadId(mark) for mark in house.threads],
            reader,
            ground.policy,
        )
        threads = {thread for found in around.memberships.values() for thread in found}
        for path, seen in (
            ("thread names and words", lexical.thread_ids() | marks_in(repr(lexical))),
            (
                "thread surroundings",
                frozenset(around.facts) | threads | marks_in(repr(around.facts)),
            ),
        ):
            shown = frozenset(mark for mark in seen if mark in house.threads)
            yield judge(
                name, path, len(house.threads), shown, allowed=sight.threads, must_see=sight.threads
            )
        yield _stages_of_facts(
            ground, name, sight, {t: f.covered_stages for t, f in around.facts.items()}
        )


def probe_packs(ground: CanaryGround) -> Iterator[PathOutcome]:
    """Packs as they are built and as stored ones are read: with titles, gaps, links, suspects and what was left out."""
    delivery = PackDelivery(ground.database.connections)
    for name, reader in ground.readers.items():
        built = {
            thread: build_pack(dossier, reader, ground.policy, SPACE.space_id)
            for thread, dossier in ground.dossiers.items()
        }
        for thread, pack in built.items():
            yield _judge_pack(ground, name, "pack, built", thread, pack)
        if reader.tool_permissions:
            continue  # a reader with permissions of its own never gets a stored pack
        with ground.database.lend() as connection:
            for pack in built.values():
                if pack is not None:
                    keep_pack(connection, BuiltPack(pack, 0.0))
        # One transaction for all: every change of roles makes the database plan the last check anew.
        with delivery.begin() as out:
            for thread in built:
                stored, _ = out.stored_pack(thread, reader, ground.policy, SPACE.space_id)
                yield _judge_pack(ground, name, "pack, stored", thread, stored)


def probe_last_check(ground: CanaryGround) -> Iterator[PathOutcome]:
    """The statement of the last check alone, without a role: a pack of everything. What it does not name would have left."""
    house = ground.house
    everything = pack_of_everything(ground)
    planted = frozenset(house.units) | frozenset(house.documents)
    for name, reader in ground.readers.items():
        pack = everything.model_copy(update={"lane": reader.audience})
        with (
            ground.database.without_roles(),
            PackDelivery(ground.database.connections).begin() as out,
        ):
            hidden = out.hidden_in(pack, reader, ground.policy)
        sight = ground.sight(name)
        passed = planted - frozenset(hidden)
        yield judge(
            name,
            "last check",
            ground.planted,
            passed,
            allowed=sight.content,
            must_see=sight.content,
        )


def probe_reports(ground: CanaryGround) -> Iterator[PathOutcome]:
    """Reports of every lane, about a day on which something happened to every thread. A lane's report names no thread at all."""
    for lane in Audience:
        figures = collect_health_figures(
            ground.database, REPORT_DAY, zone=ZoneInfo("UTC"), lane=lane
        )
        text = render_markdown(figures) + render_html(figures) + str(figures.to_json())
        yield judge(
            lane,
            "health report",
            len(ground.house.threads),
            marks_in(text),
            allowed=frozenset(),
            must_see=frozenset(),
        )


def probe_row_security(ground: CanaryGround) -> Iterator[PathOutcome]:
    """The database alone: a lane's role asks its views without any condition. Left out where the roles are not in force."""
    house = ground.house
    marks = {
        "units": list(house.units),
        "documents": list(house.documents),
        "threads": list(house.threads),
        "open_unit": house.open_unit,
    }
    with ground.database.lend() as connection:
        if row_security_gaps(connection):
            return
    for name, reader in ground.readers.items():
        with ground.database.connect() as connection:
            begin_reading(connection, reader)
            rows = connection.execute(queries.load("canaries_visible"), marks).fetchall()
        sight = ground.sight(name)
        stages = allowed_values(reader, ground.policy)["lifecycle_stage"]
        expected = frozenset(
            [f"unit {mark}" for mark in sight.units]
            + [f"document {mark}" for mark in sight.documents]
            + [f"thread {mark}" for mark in sight.threads]
            + [f"member {mark}" for mark in _members_seen(house, sight)]
            + [
                f"gap {gap.thread} {gap.stage}"
                for gap in house.gaps
                if gap.thread in sight.threads and gap.stage in stages
            ]
            + [f"link {mark}" for mark in sight.links]
        )
        seen = {f"{kind} {mark}" for kind, mark in rows}
        yield judge(
            name,
            "row-level security",
            ground.planted + len(house.threads) + len(house.gaps) + len(house.links),
            seen,
            allowed=expected,
            must_see=expected,
        )


STORE_PROBES: tuple[Callable[[CanaryGround], Iterator[PathOutcome]], ...] = (
    probe_row_security,
    probe_read_back,
    probe_search,
    probe_centroids,
    probe_thread_signals,
    probe_packs,
    probe_last_check,
    probe_reports,
)


@contextmanager
def _scratch_writer(settings: Settings) -> Generator[VectorStore, None, None]:
    """A writer whose collections are dropped afterwards: a folder of its own, or names of their own on a server."""
    settings.home.mkdir(parents=True, exist_ok=True)
    for left in settings.home.glob(f"{_HOME}*"):
        shutil.rmtree(left)
    key = settings.qdrant_api_key
    with (
        tempfile.TemporaryDirectory(prefix=_HOME, dir=settings.home) as folder,
        open_scratch(
            folder=Path(folder),
            url=settings.qdrant_url,
            api_key=key.get_secret_value() if key else None,
        ) as writer,
    ):
        _drop_scratch(writer)
        try:
            yield writer
        finally:
            if settings.qdrant_url:
                _drop_scratch(writer)


def _drop_scratch(writer: VectorStore) -> None:
    for info in writer.collections():
        if info.physical.startswith(_ALIAS):
            writer.drop_collection(info.physical)


def _plant_rows(database: DiscardedDatabase, house: CanaryHouse) -> None:
    def flags_of(flags: Flags) -> dict[str, Json]:
        return {name: getattr(flags, name) for name in Flags.__dataclass_fields__}

    documents: list[Json] = [
        {
            "document_id": holder.mark,
            "path": f"{holder.mark}.md",
            "title": canary_title(holder.mark),
            "body": "",
            "language": "vi",
            "data_classification": "unclassified",
            **flags_of(holder.flags),
        }
        for holder in house.holders
    ]
    documents += [
        {
            "document_id": mark,
            "path": f"{mark}.md",
            "title": canary_title(mark),
            "body": canary_body(house, document),
            "language": _language(mark),
            **label_fields(document.labels),
        }
        for mark, document in house.documents.items()
    ]
    units: list[Json] = [
        {
            "logical_unit_id": mark,
            "document_id": unit.holder.mark,
            "canonical_address": f"CANARY/{mark}",
            "unit_version_id": str(unit.version_id),
            "title": canary_title(mark),
            "body": canary_body(house, unit),
            **label_fields(unit.labels),
            **flags_of(unit.own),
        }
        for mark, unit in house.units.items()
    ]
    threads: list[Json] = [
        {
            "thread_id": mark,
            "canonical_address": f"CANARY/{mark}",
            "title": canary_title(mark),
            "alias": f"Canary thread {mark}",
            "purpose": f"Purpose of {mark}",
            **flags_of(thread.flags),
        }
        for mark, thread in house.threads.items()
    ]
    memberships: list[Json] = [
        {
            "thread_id": thread,
            "logical_unit_id": mark,
            "role": house.units[mark].role,
            "confidence": 1.0,
            "status": house.units[mark].status,
        }
        for thread, marks in house.members.items()
        for mark in marks
    ]
    with database.lend() as connection:
        connection.execute(
            queries.load("canaries_plant"),
            {
                "documents": Jsonb(documents),
                "units": Jsonb(units),
                "threads": Jsonb(threads),
                "memberships": Jsonb(memberships),
                "gaps": Jsonb(
                    [
                        {
                            "thread_id": gap.thread,
                            "lifecycle_stage": gap.stage,
                            "description": f"Missing: {gap.mark}",
                        }
                        for gap in house.gaps
                    ]
                ),
                "links": Jsonb(
                    [
                        {
                            "source_id": house.open_unit,
                            "target_kind": link.kind,
                            "target_id": link.target,
                        }
                        for link in house.links
                    ]
                ),
            },
        )


def _language(mark: str) -> str:
    """Both languages that a search treats apart."""
    return "vi" if mark[-1] in "02468" else "en"


def _plant_vectors(
    database: DiscardedDatabase,
    writer: VectorStore,
    house: CanaryHouse,
    policy: AudiencePolicy,
    dossiers: Mapping[ThreadId, ThreadDossier],
) -> ObservedSearcher:
    """Write the points as the nightly does; those of stale canaries with the labels that they used to have."""
    names: dict[str, str] = {}
    for source, marks in ((UnitSource(), house.units), (DocumentSource(), house.documents)):
        with database.lend() as connection:
            owners = source.read_wanted(connection, SPACE.space_id, list(marks)).owners
        physical = writer.create_collection(f"{_ALIAS}{source.collection}", SPACE)
        points = (
            _point(house, source.collection, owner, marks[owner.owner_id])
            for owner in owners.values()
            if owner.owner_id in house.searched
        )
        writer.upsert(physical, SPACE.space_id, points)
        _put_pointers(database, physical, source.collection, owners.values())
        names[source.collection] = physical
    collection = Collection.THREAD_CENTROIDS
    names[collection] = writer.create_collection(f"{_ALIAS}{collection}", SPACE)
    centroids = _centroids(house, policy, dossiers)
    write_centroids(database, writer, names[collection], SPACE, centroids)
    return ObservedSearcher(writer, names)


def _point(
    house: CanaryHouse,
    collection: Collection,
    owner: ProjectionOwner,
    canary: CanaryUnit | CanaryDocument,
) -> VectorPoint:
    text = canary_body(house, canary)
    payload = chunk_payload(owner.payload, TextSpan(text, 0, len(text)), 0, 1)
    if canary.published != canary.labels:
        metadata = cast("dict[str, Json]", payload["metadata"])
        payload["metadata"] = {**metadata, **label_fields(canary.published)}
    return VectorPoint(
        point_id=point_id(collection, owner.version_key, 0),
        dense=flock_vector(house.flocks_of(canary)),
        bm25_accented=document_vector(text, TermForm.ACCENTED),
        bm25_folded=document_vector(text, TermForm.FOLDED),
        payload=payload,
    )


def _put_pointers(
    database: DiscardedDatabase,
    physical: str,
    collection: Collection,
    owners: Iterable[ProjectionOwner],
) -> None:
    known = list(owners)
    with database.lend() as connection:
        connection.execute(
            queries.load("projection_put_pointers"),
            {
                "physical": physical,
                "collection": collection,
                "space_id": SPACE.space_id,
                "chunker_version": "leak-canary",
                "owner_ids": [owner.owner_id for owner in known],
                "version_keys": [owner.version_key for owner in known],
                "chunk_counts": [1] * len(known),
                "content_digests": [owner.content_digest for owner in known],
                "payload_digests": [owner.payload_digest for owner in known],
            },
        )


def _centroids(
    house: CanaryHouse, policy: AudiencePolicy, dossiers: Mapping[ThreadId, ThreadDossier]
) -> list[ThreadCentroid]:
    """Those that the rules give; for every other thread and lane a stale one, labelled as if everybody might see it."""
    threads: list[SemanticThread] = [dossier.thread for dossier in dossiers.values()]
    memberships: dict[ThreadId, Sequence[ThreadMembership]] = {
        thread_id: dossier.memberships for thread_id, dossier in dossiers.items()
    }
    units: dict[UnitId, InformationUnit] = {
        unit_id: unit for dossier in dossiers.values() for unit_id, unit in dossier.units.items()
    }
    vectors = {
        unit_id: flock_vector(house.flocks_of(house.units[unit_id]))[np.newaxis]
        for unit_id in units
    }
    answers = plan_centroids(
        threads,
        memberships,
        {unit_id: outline_unit(unit) for unit_id, unit in units.items()},
        policy,
        vector_digests=dict.fromkeys(units, "leak-canary"),
        space_id=SPACE.space_id,
    )
    thread_of = {thread.thread_id: thread for thread in threads}
    one_unit = (WeightedUnit(UnitId(house.open_unit), 1.0),)
    centroids: list[ThreadCentroid] = []
    for answer in answers:
        built = build_centroid(answer, vectors) if isinstance(answer, CentroidPlan) else answer
        if isinstance(built, NoCentroid):
            plan = CentroidPlan(
                thread_of[built.thread_id], built.lane, one_unit, "vi", OPEN, "leak-canary"
            )
            built = ThreadCentroid(plan, flock_vector(()), 1.0)
        centroids.append(built)
    return centroids


def _search(
    ground: CanaryGround,
    reader: Principal,
    flock: Flock,
    live: LiveOwners,
    collections: Sequence[Collection] = CONTENT,
) -> tuple[SearchHit, ...]:
    return search_collections(
        prepare_query(question_for(ground.house, flock), ground.embedder.embed_query),
        reader,
        collections,
        policy=ground.policy,
        searcher=ground.searcher,
        live=live,
        limit=EVERYTHING,
        one_per="owner",
    ).hits


def _members_seen(house: CanaryHouse, sight: CanarySight) -> list[str]:
    """Units that count in a thread that the reader sees."""
    return [
        mark
        for thread in sight.threads
        for mark in house.members[thread]
        if mark in sight.units and house.units[mark].status is not MembershipStatus.REJECTED
    ]


def _stages_of_facts(
    ground: CanaryGround,
    name: str,
    sight: CanarySight,
    covered: Mapping[ThreadId, frozenset[LifecycleStage]],
) -> PathOutcome:
    """Facts for ranking are counted over the units that the reader sees: a stage more is a unit more."""

    def stages(thread: str) -> frozenset[LifecycleStage]:
        shown = [
            unit
            for mark in ground.house.members[thread]
            if mark in sight.units and (unit := ground.house.units[mark]).status != "rejected"
        ]
        return frozenset(
            unit.labels.lifecycle_stage for unit in shown if unit.labels.lifecycle_stage
        )

    told = {f"{thread} {stage}" for thread, found in covered.items() for stage in found}
    expected = frozenset(
        f"{thread} {stage}" for thread in sight.threads for stage in stages(thread)
    )
    return judge(
        name, "thread facts", len(ground.house.gaps), told, allowed=expected, must_see=expected
    )


def _judge_pack(
    ground: CanaryGround,
    name: str,
    path: str,
    thread: ThreadId,
    pack: ContextPack | None,
) -> PathOutcome:
    expected = ground.sight(name).packs.get(thread, frozenset())
    return judge(
        name,
        path,
        len(ground.house.members[thread]),
        frozenset() if pack is None else marks_in(canonical_json(pack)),
        allowed=expected,
        must_see=expected,
    )


def pack_of_everything(ground: CanaryGround) -> ContextPack:
    """A pack that nobody should ever have put together: every unit and every document, labelled as if all might see them."""
    house = ground.house
    dossier = ground.dossiers[ThreadId(house.hub)]
    found = FoundUnit(dossier.units[UnitId(house.open_unit)], 1.0)
    pack = ad_hoc_pack(
        [found], lane_principal(Audience.AI_AGENT), ground.policy, SPACE.space_id, EXPLICIT_RAW
    )
    sample = found.to_pack_unit()
    units: list[PackUnit] = [
        sample.model_copy(update={"logical_unit_id": mark, "unit_version_id": unit.version_id})
        for mark, unit in house.units.items()
    ]
    units += [
        sample.model_copy(update={"logical_unit_id": mark, "unit_kind": LEGACY_UNIT_KIND})
        for mark in house.documents
    ]
    return pack.model_copy(update={"supporting_units": tuple(units)})


def tampered_pack(ground: CanaryGround, lane: Audience) -> ContextPack:
    """The lane's pack of the race's thread as it is now, with a unit in it that nobody may see, labelled as if all might.

    Raises:
        LookupError: The lane does not see the thread.
    """
    race = ground.house.race
    with ground.database.lend() as connection:
        dossier = KnowledgeReader(connection).dossier(ThreadId(race.thread))
    pack = dossier and build_pack(dossier, lane_principal(lane), ground.policy, SPACE.space_id)
    if dossier is None or pack is None:
        message = f"{lane} sees nothing of thread {race.thread}."
        raise LookupError(message)
    hidden = dossier.units[UnitId(race.hidden)]
    kept = next(unit for unit in pack.units() if unit.logical_unit_id == race.kept)
    smuggled = kept.model_copy(
        update={
            "logical_unit_id": hidden.logical_unit_id,
            "unit_version_id": hidden.unit_version_id,
            "canonical_address": hidden.canonical_address,
            "body": hidden.body,
        }
    )
    tampered = pack.model_copy(update={"supporting_units": (*pack.supporting_units, smuggled)})
    return tampered.model_copy(update={"pack_id": thread_pack_id(tampered)})
