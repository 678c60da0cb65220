"""The leak probe of the query path: the real service asked about what it must not show.

Belongs here: canaries through the service and its tools, bait from the published hub, and reporting what came out.
Does not belong here: planting and the enforcers below the service (stores.leak_probe), what is a leak (retrieval.leak_canaries).

Nothing that is asked here is counted: every question is answered inside a transaction that is thrown away. What a probe finds is
written afterwards, for good, as security events.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date
from typing import TypeVar
from uuid import UUID, uuid4

import numpy as np
from numpy.typing import NDArray

from threadhouse.retrieval.audience import AudiencePolicy, lane_principal
from threadhouse.retrieval.errors import CollectionUnknownError, WrongAudienceError
from threadhouse.retrieval.lanes import sight_of, unit_labels
from threadhouse.retrieval.leak_canaries import (
    RACING,
    STALE,
    Flock,
    PathOutcome,
    ProbeReport,
    judge,
    marks_in,
    question_for,
)
from threadhouse.retrieval.models import (
    Audience,
    Collection,
    InformationUnit,
    Principal,
    ThreadId,
    UnitId,
    Vectors,
    VectorSpace,
)
from threadhouse.retrieval.packs import ContextPack, canonical_json
from threadhouse.retrieval.payloads import point_id
from threadhouse.retrieval.ports import VectorSearcher
from threadhouse.retrieval.query_text import MAX_QUERY_CHARS
from threadhouse.serving.mcp_tools import Caller, tool_called
from threadhouse.serving.retrieval_service import Answer, Mode, RetrievalService
from threadhouse.stores import queries
from threadhouse.stores.discarded_transaction import Change, discarded_transaction
from threadhouse.stores.knowledge import KnowledgeReader
from threadhouse.stores.leak_probe import (
    SPACE,
    CanaryGround,
    planted_canaries,
    probe_stores,
    tampered_pack,
)
from threadhouse.stores.leased_connections import QuestionConnection
from threadhouse.stores.migrations import open_database
from threadhouse.stores.pack_store import BuiltPack, keep_pack
from threadhouse.stores.postgres import Database
from threadhouse.stores.reader_roles import row_security_gaps
from threadhouse.stores.security_events import Occurrence, write_security_event
from threadhouse.stores.settings import Settings
from threadhouse.stores.thread_signals import PostgresThreadSignals
from threadhouse.stores.vectors import open_reader
from threadhouse.stores.vectors_of_generation import SearcherOfGeneration

_T = TypeVar("_T")

BAIT_PER_LANE = 10
"""Hidden units of the hub that are asked for in each lane, others every day."""

BAIT_FOR_THREADS = 3
"""Of them, those that are asked for thread first as well; a raw search shows every unit that it finds."""

FOUND = "found"
ANYTHING = "anything at all"
STOPPED = "only the last check stopped it"
OVERTAKEN = "not overtaken while"
"""Before the names of statements that an answer was to send, or else nothing is known of what follows them."""


def probe_canaries(settings: Settings) -> ProbeReport:
    """Plant canaries, ask every enforcer and the service for them, report what came out; nothing of it is left.

    A probe in which nothing leaked and something was missed is made once more with other canaries, and says so: what hides too
    much does so again, and a night need not stop for what does not. A leak is never asked about twice.

    Raises:
        StoreLockedError: Another probe of this hub is at work.
        StoreUnreachableError: A store does not answer.
    """
    database = open_database(settings)
    report = _probe_once(database, settings)
    if report.only_missed:
        first = "; ".join(each.in_words() for each in report.faults)
        report = _probe_once(database, settings)
        report = replace(report, remarks=(*report.remarks, f"asked twice, at first: {first}"))
    report_faults(database, report)
    return report


def _probe_once(database: Database, settings: Settings) -> ProbeReport:
    started = time.monotonic()
    with planted_canaries(database, settings) as ground:
        outcomes = [*probe_stores(ground), *probe_service(ground)]
        with ground.database.lend() as connection:
            remarks = tuple(
                f"row-level security: {each.gap}" for each in row_security_gaps(connection)
            )
    return ProbeReport(tuple(outcomes), time.monotonic() - started, remarks)


def probe_published(
    settings: Settings,
    day: date,
    per_lane: int = BAIT_PER_LANE,
    names: Mapping[str, str] | None = None,
) -> ProbeReport:
    """Ask for real hidden units of the published hub by their own titles and vectors.

    Args:
        day: Chooses the units; another day chooses others.
        per_lane: How many of each lane.
        names: Physical by public names of a generation that is asked instead of the one in force.

    Raises:
        StoreUnreachableError: A store does not answer.
    """
    started = time.monotonic()
    database = open_database(settings)
    key = settings.qdrant_api_key
    with closing(
        open_reader(
            home=settings.home,
            url=settings.qdrant_url,
            api_key=key.get_secret_value() if key else None,
        )
    ) as opened:
        searcher = SearcherOfGeneration(opened, names or {})
        try:
            physical = searcher.resolve(Collection.INFORMATION_UNITS)
        except CollectionUnknownError:
            return ProbeReport((), time.monotonic() - started, ("nothing is published yet",))
        outcomes = list(
            _probe_bait(database, searcher, physical, _space_of(searcher, physical), day, per_lane)
        )
    report = ProbeReport(tuple(outcomes), time.monotonic() - started)
    report_faults(database, report)
    return report


def report_faults(database: Database, report: ProbeReport) -> None:
    """Write a security event for every path and reader that is not sound; all or none."""
    if not report.faults:
        return
    run = uuid4()
    with database.connect() as connection:
        for each in report.faults:
            lane = each.reader.rstrip("+")
            what = "let out what is hidden" if each.leaked else "did not show what it has to show"
            write_security_event(
                connection,
                Occurrence(
                    cause=f"leak-probe/{each.path}/{each.reader}",
                    occasion=f"{run}/{each.path}/{each.reader}",
                    title=f"The leak probe found that {each.path} {what}, asked as {each.reader}",
                    subject="leak-probe",
                    lane=lane,
                    thread_id=None,
                    pack_id=None,
                    evidence={
                        "path": each.path,
                        "reader": each.reader,
                        "leaked_count": len(each.leaked),
                        "missed_count": len(each.missed),
                        "leaked": list(each.leaked[:50]),
                        "missed": list(each.missed[:50]),
                    },
                ),
            )


def probe_service(ground: CanaryGround) -> Iterator[PathOutcome]:
    """The whole service over the canaries, as every reader."""
    service = RetrievalService(
        connections=ground.database.connections,
        searcher=ground.searcher,
        embedder=ground.embedder,
        signals=PostgresThreadSignals(ground.database.connections),
    )
    for name in ground.readers:
        yield from _probe_answers(ground, service, name)
    race = ground.house.race
    racing = [name for name in ground.readers if race.thread in ground.sight(name).threads]
    # What follows takes canaries away, so nothing else is asked afterwards. No stored pack of the thread is fresh from now on.
    with ground.database.lend() as connection:
        connection.execute(queries.load("canaries_hide"), {"marks": [race.hidden]})
    gone = frozenset[str]()
    for name, built in zip(racing, race.built, strict=False):
        gone |= {built}
        yield _race_with_build(ground, service, name, built, gone)
    lost = zip(racing, RACING, race.found, race.documents, strict=False)
    for name, flock, found, document in lost:
        gone |= {found, document}
        yield _race_with_search(ground, service, name, flock, (found, document), gone)
    for name in racing:
        yield _tampered_pack_of(ground, service, name, gone)


def _probe_answers(
    ground: CanaryGround, service: RetrievalService, name: str
) -> Iterator[PathOutcome]:
    """Threads by name, also through the tool that agents call, and raw search; others each night, and always the hub."""
    house, sight, reader = ground.house, ground.sight(name), ground.readers[name]
    seen = [mark for mark in house.threads if mark in sight.threads]
    hidden = [mark for mark in house.threads if mark not in sight.threads]
    for mark in (house.hub, *_one_of(seen, ground.turn)):
        yield judge(
            name,
            "tools, thread",
            len(house.threads),
            _asked_by_tool(service, reader, mark),
            allowed=sight.allowed,
            must_see=sight.packs.get(mark, frozenset()),
        )
    for mark in _one_of(hidden, ground.turn):
        yield judge(
            name,
            "service, hidden thread",
            len(house.threads),
            _asked(service, reader, f"thread {mark}"),
            allowed=sight.allowed,
            must_see=frozenset(),
        )
    for flock in (*_one_of(ground.fresh_flocks(name), ground.turn), *_one_of(STALE, ground.turn)):
        found = _asked(service, reader, question_for(house, flock), Mode.RAW)
        yield judge(
            name,
            "service, raw search",
            ground.planted,
            found,
            allowed=sight.allowed,
            must_see=frozenset() if found else frozenset({ANYTHING}),
        )


def _race_with_build(
    ground: CanaryGround, service: RetrievalService, name: str, built: str, gone: frozenset[str]
) -> PathOutcome:
    """A unit is taken away after a pack that holds it was read and before it leaves."""
    race = ground.house.race
    with ground.database.overtaken({"knowledge_units": _hiding(built)}) as waiting:
        shown = _asked_for_thread(service, ground.readers[name], race.thread)
        shown |= {f"{OVERTAKEN} {query}" for query in waiting}
    left = ground.sight(name).packs[race.thread] - gone
    members = len(ground.house.members[race.thread])
    return judge(name, "service, race with a build", members, shown, allowed=left, must_see=left)


def _race_with_search(
    ground: CanaryGround,
    service: RetrievalService,
    name: str,
    flock: Flock,
    lost: tuple[str, str],
    gone: frozenset[str],
) -> PathOutcome:
    """A unit and a document are taken away after a search found and read them, and before the answer leaves."""
    question = question_for(ground.house, flock)
    changes = {"found_units": _hiding(lost[0]), "found_documents": _hiding(lost[1])}
    with ground.database.overtaken(changes) as waiting:
        answer = _answer_or_none(service, ground.readers[name], question, Mode.RAW)
        shown = {f"{OVERTAKEN} {query}" for query in waiting}
    if answer is None:
        shown.add(STOPPED)
    else:
        # What was found is named by the hits; else it would prove nothing that the pack does not hold it.
        shown |= {f"{FOUND} {hit.owner_id}" for hit in answer.hits}
        shown |= marks_in(canonical_json(answer.pack))
    found = frozenset(f"{FOUND} {mark}" for mark in lost)
    sight = ground.sight(name)
    return judge(
        name,
        "service, race with a search",
        len(lost),
        shown,
        allowed=(sight.allowed - gone) | {f"{FOUND} {mark}" for mark in sight.allowed},
        must_see=found,
    )


def _tampered_pack_of(
    ground: CanaryGround, service: RetrievalService, name: str, gone: frozenset[str]
) -> PathOutcome:
    """A pack that was stored behind the policy's back: as fresh as it says, and with a unit in it that nobody may see.

    Only the last check stands between it and its lane, and has to stop it. Who gets no stored packs gets a sound one.
    """
    thread, reader = ground.house.race.thread, ground.readers[name]
    with ground.database.lend() as connection:
        keep_pack(connection, BuiltPack(tampered_pack(ground, reader.audience), 0.0))
    left = ground.sight(name).packs[thread] - gone
    expected = left if reader.tool_permissions else frozenset({STOPPED})
    return judge(
        name,
        "service, tampered pack",
        len(ground.house.members[thread]),
        _asked_for_thread(service, reader, thread),
        allowed=left | expected,
        must_see=expected,
    )


def _hiding(mark: str) -> Change:
    return Change("canaries_hide", {"marks": [mark]})


def _one_of(known: Sequence[_T], turn: int) -> Sequence[_T]:
    """Another one each night; none of none."""
    return [known[turn % len(known)]] if known else []


def _answer_or_none(
    service: RetrievalService,
    reader: Principal,
    question: str,
    mode: Mode = Mode.THREAD,
    thread: str | None = None,
) -> Answer | None:
    """None when the last check stopped it."""
    try:
        return service.answer(
            question,
            reader,
            mode,
            token_budget=None,
            thread_id=None if thread is None else ThreadId(thread),
        )
    except WrongAudienceError:
        return None


def _asked_for_thread(service: RetrievalService, reader: Principal, thread: str) -> frozenset[str]:
    """Marks in the pack of a thread."""
    answer = _answer_or_none(service, reader, "canary", thread=thread)
    return frozenset({STOPPED}) if answer is None else marks_in(canonical_json(answer.pack))


def _asked(
    service: RetrievalService, reader: Principal, question: str, mode: Mode = Mode.THREAD
) -> frozenset[str]:
    """Marks in everything that an answer carries: the pack, and what explains it."""
    answer = _answer_or_none(service, reader, question, mode)
    if answer is None:
        return frozenset({STOPPED})
    return marks_in(canonical_json(answer.pack) + _explained(answer))


def _asked_by_tool(service: RetrievalService, reader: Principal, thread: str) -> frozenset[str]:
    """Marks in what the tool gives an agent: the rendered text and the structured result."""
    try:
        found = tool_called("get_context_pack").run(
            service,
            {"query": "canary", "thread": thread, "token_budget": 100_000},
            Caller(reader, "leak-probe"),
        )
    except WrongAudienceError:
        return frozenset({STOPPED})
    return marks_in("\n".join(found.texts) + repr(found.content))


def _explained(answer: Answer) -> str:
    return repr((answer.resolution, answer.facts, answer.hits))


@dataclass(frozen=True, slots=True)
class _Bait:
    """A real unit that a lane does not see, and the vector of its first chunk."""

    unit_id: str
    question: str
    vector: NDArray[np.float32]


class _VectorsByText:
    """An embedder that answers a question with a stored vector: nothing can be nearer to a unit than its own."""

    def __init__(self, space: VectorSpace, bait: Mapping[str, NDArray[np.float32]]) -> None:
        self._space = space
        self._bait = bait

    @property
    def space(self) -> VectorSpace:
        return self._space

    def embed_query(self, text: str) -> Vectors:
        row = self._bait[text]
        return Vectors(self._space.space_id, "query", row[np.newaxis], np.zeros(1, np.bool_))


def _probe_bait(
    database: Database,
    searcher: VectorSearcher,
    physical: str,
    space: VectorSpace,
    day: date,
    per_lane: int,
) -> Iterator[PathOutcome]:
    with discarded_transaction(database) as inside:
        with inside.lend() as connection:
            policy = KnowledgeReader(connection).policy()
        for lane in Audience:
            with inside.lend() as connection:
                bait = _hidden_units(connection, searcher, physical, lane, day, per_lane)
            service = RetrievalService(
                connections=inside.connections,
                searcher=searcher,
                embedder=_VectorsByText(space, {each.question: each.vector for each in bait}),
                signals=PostgresThreadSignals(inside.connections),
            )
            reader = lane_principal(lane)
            for mode in Mode:
                hidden = {each.unit_id for each in bait}
                shown: set[str] = set()
                for each in bait[: BAIT_FOR_THREADS if mode is Mode.THREAD else None]:
                    answer = _answer_or_none(service, reader, each.question, mode)
                    shown |= {STOPPED} if answer is None else _units_of(answer)
                with inside.lend() as connection:
                    allowed = _visible_units(connection, shown, reader, policy)
                yield judge(
                    lane,
                    f"published hub, {mode}",
                    len(hidden),
                    shown,
                    allowed=allowed - hidden,
                    must_see=frozenset(),
                )


def _space_of(searcher: VectorSearcher, physical: str) -> VectorSpace:
    """The space of a collection, as far as questions need it; no model is looked for."""
    found = {info.physical: info.space_id for info in searcher.collections()}
    return replace(SPACE, space_id=found.get(physical) or "")


def _hidden_units(
    connection: QuestionConnection,
    searcher: VectorSearcher,
    physical: str,
    lane: Audience,
    day: date,
    limit: int,
) -> list[_Bait]:
    rows = connection.execute(
        queries.load("bait_hidden"),
        {"physical": physical, "lane": lane, "day": day, "limit": limit},
    ).fetchall()
    ids = {
        point_id(Collection.INFORMATION_UNITS, version, 0): (unit, title)
        for unit, version, title in rows
    }
    found: list[_Bait] = []
    for point in searcher.retrieve(physical, list[UUID](ids), with_vectors=True):
        unit, title = ids[point.point_id]
        if point.dense is not None:
            question = " ".join(title.split())[: MAX_QUERY_CHARS // 2] or unit
            found.append(_Bait(unit, question, point.dense))
    return found


def _units_of(answer: Answer) -> set[str]:
    """Every unit that an answer names in any place; those of documents without units are judged by the canaries."""
    return _named_units(answer.pack) | {
        hit.owner_id for hit in answer.hits if hit.collection is Collection.INFORMATION_UNITS
    }


def _named_units(pack: ContextPack) -> set[str]:
    named = {
        unit.logical_unit_id for unit in pack.units() if unit.unit_kind != "legacy_document_part"
    }
    named |= {each.logical_unit_id for each in (*pack.suspect_links, *pack.left_out)}
    return named | {
        link.other_end_id
        for link in pack.related_design_code_links
        if link.other_end_kind == "unit" and not link.is_dangling
    }


def _visible_units(
    connection: QuestionConnection, unit_ids: set[str], reader: Principal, policy: AudiencePolicy
) -> frozenset[str]:
    """Those that the pure predicate lets the reader see, by their labels now."""
    sees = sight_of(reader, policy)
    units = KnowledgeReader(connection).units([UnitId(each) for each in sorted(unit_ids)])
    return frozenset(
        unit.logical_unit_id
        for unit in units
        if isinstance(unit, InformationUnit) and sees(unit_labels(unit))
    )
