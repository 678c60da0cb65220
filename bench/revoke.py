"""A revoke during heavy reading: from the commit on, no read returns what was taken away.

What stands beside what: reads that began after a revoke was committed and still held the unit (none may) beside all reads
that began after it; and how many of the reads before it held the unit, so that reads which never find anything do not pass.
Several processes read without pause, each as another lane: thread packs, asked for by the thread's name and by words alone,
raw searches, stored packs by their row, the tools of MCP. One process takes a right away, commits, lets every reader read on,
gives it back, and goes on with the next unit: a flag of the unit, its classification, its document's flag that it inherits, a
policy version with less in it, its membership, its thread.

Instants are taken on the one monotonic clock that all processes of a machine share. A read that was under way at the commit
may go either way and counts for neither. Now and then the steps of the nightly run while everybody reads, which gives the lag
until vectors and packs say so themselves.

The hub is made up, or a copy of a stopped home (``--home``). It fails when one read returned what was taken away.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from bench.labelled_hub import (
    StoredVectors,
    copied_home,
    fill_open_hub,
    first_rows,
    publish_hub,
    read_truth,
    sight_of_reader,
    space_of_hub,
)
from bench.latency import let_words_decide
from bench.measuring import BenchFailedError, BenchSkippedError, Measure, median, say
from bench.synthetic_hub import SyntheticEmbedder
from bench.temporary_home import temporary_home
from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.errors import ProjectionError, WrongAudienceError
from threadhouse.retrieval.models import (
    AllOf,
    Audience,
    Collection,
    Principal,
    ThreadId,
    VectorSpace,
)
from threadhouse.retrieval.packs import ContextPack
from threadhouse.serving.mcp_tools import Caller, tool_called
from threadhouse.serving.opening import open_retrieval_service
from threadhouse.serving.retrieval_service import Mode, RetrievalService
from threadhouse.stores.centroid_projection import refresh_centroids
from threadhouse.stores.embedding_cache import CachedEmbedder, StreamingEmbedder
from threadhouse.stores.knowledge import open_knowledge
from threadhouse.stores.migrations import open_database
from threadhouse.stores.pack_checks import find_leaks
from threadhouse.stores.pack_delivery import PackDelivery
from threadhouse.stores.pack_refresh import refresh_packs
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import PublishReport, publish_content
from threadhouse.stores.queries import trusted
from threadhouse.stores.settings import Settings
from threadhouse.stores.vector_cache import PostgresVectorCache
from threadhouse.stores.vectors import open_reader, open_writer

LANES = (Audience.CUSTOMER, Audience.EMPLOYEE, Audience.AI_AGENT)
"""Of the reading processes, in turns."""

PATIENCE_S = 300.0
"""A reader that reads nothing for so long hangs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the defaults are quick."""
    parser.add_argument("--home", type=Path, help="A stopped home with a published hub; copied.")
    parser.add_argument("--units", type=int, default=400, help="Units of the made-up hub.")
    parser.add_argument("--threads", type=int, default=20, help="Threads of the made-up hub.")
    parser.add_argument("--targets", type=int, default=2, help="Units that are revoked, each way.")
    parser.add_argument("--reads", type=int, default=6, help="Reads of each process a phase.")
    parser.add_argument("--readers", type=int, default=len(LANES), help="Reading processes.")
    parser.add_argument("--lags", type=int, default=1, help="Runs of the nightly's steps.")


def run(options: argparse.Namespace) -> list[Measure]:
    """Measure."""
    with _hub(options) as (settings, embedder):
        plan = Plan(
            settings, embedder.space, options.targets, options.reads, options.readers, options.lags
        )
        started = time.monotonic()
        watched = watch_revokes(plan, embedder)
        return measures_of(watched, time.monotonic() - started)


@contextmanager
def _hub(options: argparse.Namespace) -> Generator[tuple[Settings, StreamingEmbedder], None, None]:
    if options.home is None:
        with temporary_home() as home:
            say(f"making {options.units:,} units and {options.threads:,} threads")
            embedder = SyntheticEmbedder()
            database = open_database(home.settings)
            fill_open_hub(database, options.units, options.threads)
            publish_hub(database, home.settings, embedder)
            let_words_decide(database, embedder.space.space_id)
            yield home.settings, embedder
        return
    say(f"copying {options.home}")
    with copied_home(options.home) as settings:
        with closing(open_reader(home=settings.home)) as searcher:
            space = space_of_hub(settings, searcher)
        # Only labels change, and these need no vector.
        yield settings, StoredVectors(space, {})


@dataclass(frozen=True, slots=True)
class Target:
    """A unit that is taken away, the question that finds it, and a thread that holds it."""

    unit_id: str
    address: str
    document_id: str
    thread_id: str
    question: str


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is read and revoked."""

    settings: Settings
    space: VectorSpace
    targets: int
    reads: int
    readers: int
    lags: int


@dataclass(frozen=True, slots=True)
class Way:
    """One way of taking a right away.

    Attributes:
        take: Statements; ``%(was)s`` is what ``read`` gave before.
        hides: What no read may hold afterwards: the unit anywhere, the unit as a member of the thread, the thread.
        prepare: A statement that is committed before, so that there is something to take.
    """

    name: str
    read: str
    take: str
    give: str
    hides: str = "unit"
    prepare: str = ""


def _unit_column(name: str, column: str, word: str) -> Way:
    update = sql.SQL(
        "update public.tac_logical_unit set {column} = {value} where logical_unit_id = %(unit)s"
    )
    read = sql.SQL("select {column} from public.tac_logical_unit where logical_unit_id = %(unit)s")
    named = sql.Identifier(column)
    return Way(
        name,
        read.format(column=named).as_string(),
        update.format(column=named, value=sql.Literal(word)).as_string(),
        update.format(column=named, value=sql.Placeholder("was")).as_string(),
    )


_NEXT_POLICY = (
    "insert into cong.audience_filter_policy"
    " select (jsonb_populate_record(p, jsonb_build_object('policy_version', p.policy_version + 1"
    ", 'authority', to_jsonb({authority}), 'activated_at', now(), 'activated_by', 'bench'))).*"
    " from cong.audience_filter_policy p"
    " where p.policy_version = (select max(policy_version) from cong.audience_filter_policy)"
)

WAYS = (
    _unit_column("visibility", "visibility", "restricted"),
    _unit_column("readiness", "readiness", "draft"),
    _unit_column("publication state", "publication_state", "withdrawn"),
    _unit_column("classification", "data_classification", "secret"),
    Way(
        "document's flag",
        "select visibility from public.production_document where document_id = %(document)s",
        "update public.production_document set visibility = 'restricted' where document_id = %(document)s",
        "update public.production_document set visibility = %(was)s where document_id = %(document)s",
        prepare="update public.tac_logical_unit set visibility = null where logical_unit_id = %(unit)s",
    ),
    Way(
        "policy version",
        "select authority from public.tac_logical_unit where logical_unit_id = %(unit)s",
        _NEXT_POLICY.format(authority="array_remove(p.authority, 'runtime')"),
        _NEXT_POLICY.format(authority="array_append(p.authority, 'runtime')"),
        prepare="update public.tac_logical_unit set authority = 'runtime' where logical_unit_id = %(unit)s",
    ),
    Way(
        "membership",
        "select status from public.thread_membership where thread_id = %(thread)s and logical_unit_id = %(unit)s",
        "update public.thread_membership set status = 'rejected'"
        " where thread_id = %(thread)s and logical_unit_id = %(unit)s",
        "update public.thread_membership set status = %(was)s"
        " where thread_id = %(thread)s and logical_unit_id = %(unit)s",
        hides="member",
    ),
    Way(
        "thread's flag",
        "select visibility from public.semantic_thread where thread_id = %(thread)s",
        "update public.semantic_thread set visibility = 'restricted' where thread_id = %(thread)s",
        "update public.semantic_thread set visibility = %(was)s where thread_id = %(thread)s",
        hides="thread",
    ),
)


@dataclass(frozen=True, slots=True)
class Read:
    """One read: when, about which target, and what of it came back."""

    began: int
    ended: int
    target: int
    path: str
    lane: str
    holds: frozenset[str]
    """Of "unit", "member", "thread"."""
    refused: str = ""
    """The error that stood in the place of an answer: stopped by the last check, or overtaken by changes."""


@dataclass(frozen=True, slots=True)
class Revoke:
    """One right that was away between ``committed`` and ``giving``; ``committing`` and ``given`` are the outer instants."""

    target: int
    way: str
    hides: str
    ready: int
    committing: int
    committed: int
    giving: int
    given: int


@dataclass(frozen=True, slots=True)
class Lag:
    """Seconds from the commit until vectors, and packs, said so themselves; ``reported_s`` is the publish's own figure."""

    vectors_s: float
    packs_s: float
    reported_s: float


@dataclass(slots=True)
class Watched:
    """Everything that was read and revoked."""

    reads: list[Read] = field(default_factory=list[Read])
    revokes: list[Revoke] = field(default_factory=list[Revoke])
    lags: list[Lag] = field(default_factory=list[Lag])


@dataclass(slots=True)
class Judged:
    """Reads of one way: before it, under way at its commit, and after it; of the outer two, those that held what it hides."""

    before: int = 0
    held_before: int = 0
    under_way: int = 0
    after: int = 0
    violations: list[Read] = field(default_factory=list[Read])


def judge_reads(reads: Iterable[Read], revokes: Sequence[Revoke]) -> dict[str, Judged]:
    """Sort reads by the revokes that they met, by way."""
    of_target: dict[int, list[Revoke]] = {}
    for revoke in revokes:
        of_target.setdefault(revoke.target, []).append(revoke)
    judged = {revoke.way: Judged() for revoke in revokes}
    for read in reads:
        for revoke in of_target.get(read.target, []):
            found = judged[revoke.way]
            is_held = revoke.hides in read.holds
            if revoke.ready <= read.began and read.ended <= revoke.committing:
                found.before += 1
                found.held_before += is_held
            elif revoke.committed <= read.began and read.ended <= revoke.giving:
                found.after += 1
                if is_held:
                    found.violations.append(read)
            elif read.began < revoke.committed and read.ended > revoke.committing:
                found.under_way += 1
    return judged


def measures_of(watched: Watched, seconds: float) -> list[Measure]:
    """One line a way, and the lags.

    Raises:
        BenchFailedError: A read returned what was taken away, or no read ever held it.
    """
    judged = judge_reads(watched.reads, watched.revokes)
    wrong = [(way, read) for way, found in judged.items() for read in found.violations]
    if wrong:
        way, read = wrong[0]
        message = (
            f"{len(wrong)} reads returned what had been taken away; the first after a revoke by {way}:"
            f" {read.path}, {read.lane}."
        )
        raise BenchFailedError(message)
    idle = [way for way, found in judged.items() if not found.held_before or not found.after]
    if idle:
        message = f"No read met {', '.join(idle)} before and after the revoke, so nothing was proved; read more."
        raise BenchFailedError(message)
    after = sum(found.after for found in judged.values())
    by_path = Counter(read.path for read in watched.reads)
    refused = Counter(f"{read.refused} in {read.path}" for read in watched.reads if read.refused)
    errors = (
        ", ".join(f"{number} {what}" for what, number in sorted(refused.items())) or "no errors"
    )
    measures = [
        Measure(
            "reads after a revoke that returned it",
            0.0,
            "",
            "reads after a revoke",
            float(after),
            note=f"{len(watched.reads):,} reads, {len(watched.revokes)} revokes in {seconds:,.0f} s; {errors}",
        )
    ]
    measures += [
        Measure(
            f"  by {way}",
            0.0,
            "",
            "reads after",
            float(found.after),
            note=f"{found.held_before / found.before:.0%} of {found.before:,} reads before held it, {found.under_way} under way",
        )
        for way, found in judged.items()
    ]
    measures.append(
        Measure(
            "reads a second",
            len(watched.reads) / seconds,
            "1/s",
            note=", ".join(f"{number:,} {path}" for path, number in sorted(by_path.items())),
        )
    )
    if watched.lags:
        measures += [
            Measure(
                "lag until vectors agree",
                median([lag.vectors_s for lag in watched.lags]),
                "s",
                "revoke_lag of the publish",
                median([lag.reported_s for lag in watched.lags]),
                note="the publish alone, while everybody reads",
                rounds=tuple(lag.vectors_s for lag in watched.lags),
            ),
            Measure(
                "lag until packs agree",
                median([lag.packs_s for lag in watched.lags]),
                "s",
                note="publish, centroids and packs",
                rounds=tuple(lag.packs_s for lag in watched.lags),
            ),
        ]
    return measures


def watch_revokes(plan: Plan, embedder: StreamingEmbedder) -> Watched:
    """Let processes read while rights are taken away and given back.

    Raises:
        BenchSkippedError: The hub has no unit that every lane sees in a thread.
        BenchFailedError: A reader died or hangs.
    """
    database = open_database(plan.settings)
    targets = _choose_targets(database, plan.targets)
    with closing(open_reader(home=plan.settings.home)) as searcher:
        rows = first_rows(searcher)
    vectors = {text: rows[t.unit_id] for t in targets for text in _texts_of(t)}
    # Not forked: the stores hold threads and locks that a fork would tear apart.
    context = multiprocessing.get_context("spawn")
    with _reading(context, plan, targets, vectors) as readers, database.connect() as connection:
        watched = Watched()
        lags_left = plan.lags
        for number, target in enumerate(targets):
            readers.look_at(number)
            for way in WAYS:
                ask_for_lag = lags_left > 0 and way is WAYS[0]
                lags_left -= ask_for_lag
                make_lag = partial(_lag, plan, database, embedder, target) if ask_for_lag else None
                revoke, lag = _revoke(connection, number, target, way, readers, make_lag)
                watched.revokes.append(revoke)
                if lag is not None:
                    watched.lags.append(lag)
                    # What is given back is found again once vectors say so.
                    _run_steps(plan, database, embedder)
            say(f"unit {number + 1} of {len(targets)} was taken away {len(WAYS)} ways")
        watched.reads = readers.finish()
    return watched


def _revoke(
    connection: Connection[TupleRow],
    number: int,
    target: Target,
    way: Way,
    readers: _Readers,
    make_lag: Callable[[int], Lag] | None,
) -> tuple[Revoke, Lag | None]:
    """Prepare, let everybody read, take away, let everybody read, give back."""
    names: dict[str, Any] = {
        "unit": target.unit_id,
        "document": target.document_id,
        "thread": target.thread_id,
    }
    own = trusted(
        "select visibility, authority from public.tac_logical_unit where logical_unit_id = %(unit)s"
    )
    before = connection.execute(own, names).fetchone()
    if way.prepare:
        connection.execute(trusted(way.prepare), names)
    row = connection.execute(trusted(way.read), names).fetchone()
    names["was"] = row[0] if row else None
    connection.commit()
    ready = time.monotonic_ns()
    readers.wait_for_reads()
    connection.execute(trusted(way.take), names)
    committing = time.monotonic_ns()
    connection.commit()
    committed = time.monotonic_ns()
    lag = make_lag(committed) if make_lag else None
    readers.wait_for_reads()
    giving = time.monotonic_ns()
    connection.execute(trusted(way.give), names)
    if way.prepare and before:
        restored = {**names, "visibility": before[0], "authority": before[1]}
        connection.execute(
            "update public.tac_logical_unit set visibility = %(visibility)s, authority = %(authority)s"
            " where logical_unit_id = %(unit)s",
            restored,
        )
    connection.commit()
    given = time.monotonic_ns()
    return Revoke(number, way.name, way.hides, ready, committing, committed, giving, given), lag


def _lag(
    plan: Plan, database: Database, embedder: StreamingEmbedder, target: Target, committed: int
) -> Lag:
    """Run the nightly's steps, and look whether vectors and packs say so."""
    report, published = _run_steps(plan, database, embedder)
    vectors_s, packs_s = (published - committed) / 1e9, (time.monotonic_ns() - committed) / 1e9
    with closing(open_reader(home=plan.settings.home)) as searcher:
        seen = [
            ("metadata.logical_unit_id", (target.unit_id,)),
            ("metadata.visibility", ("restricted",)),
        ]
        physical = searcher.resolve(Collection.INFORMATION_UNITS)
        if searcher.count(physical, AllOf(tuple(seen))) != searcher.count(
            physical, AllOf((seen[0],))
        ):
            message = f"The vectors of {target.unit_id} do not say that it was taken away, although they were published."
            raise BenchFailedError(message)
    with database.connect() as connection:
        leaks = find_leaks(connection)
    if leaks:
        message = f"{len(leaks)} units are in fresh packs of lanes that may not see them."
        raise BenchFailedError(message)
    return Lag(vectors_s, packs_s, report.revoke_lag_s or 0.0)


def _run_steps(
    plan: Plan, database: Database, embedder: StreamingEmbedder
) -> tuple[PublishReport, int]:
    """Publish, centroids, packs; and the instant at which the vectors were published."""
    settings = plan.settings
    cached = CachedEmbedder(embedder, PostgresVectorCache(database))
    with open_writer(home=settings.home, lock_timeout_s=settings.lock_timeout_s) as store:
        report = publish_content(database, store, cached, settings.home)
        published = time.monotonic_ns()
        refresh_centroids(database, store, embedder.space)
    refresh_packs(database, embedder.space.space_id)
    return report, published


def _choose_targets(database: Database, count: int) -> list[Target]:
    """Units that all lanes see, in a thread that all lanes see; spread over the hub."""
    with open_knowledge(database) as knowledge:
        policy = knowledge.policy()
    with database.connect() as connection:
        truth = read_truth(connection)
        found = connection.execute(
            "select u.logical_unit_id, u.canonical_address, u.document_id, v.title, left(v.body, 150)"
            " from public.tac_logical_unit u join public.tac_unit_version v on v.unit_version_id = u.current_version_id"
            " order by md5(u.logical_unit_id)"
        ).fetchall()
    sights = [sight_of_reader(truth, lane_principal(lane), policy) for lane in LANES]
    threads: dict[str, str] = {}
    for thread_id, members in truth.members.items():
        if all(thread_id in sight.threads for sight in sights):
            threads |= dict.fromkeys(members, thread_id)
    targets = [
        Target(unit_id, address, document_id, threads[unit_id], f"{title} {beginning}")
        for unit_id, address, document_id, title, beginning in found
        if unit_id in threads and all(unit_id in sight.units for sight in sights)
    ]
    if not targets:
        message = "The hub has no unit in a thread that every lane sees; load another one."
        raise BenchSkippedError(message)
    return targets[:count]


def _texts_of(target: Target) -> tuple[str, str]:
    return target.question, f"thread {target.thread_id} {target.question}"


@dataclass(frozen=True, slots=True)
class _Shared:
    """What the processes tell each other; multiprocessing gives its shared values no public type.

    Attributes:
        looked_at: Number of the target that is read about.
        counts: Reads of each process so far.
        is_over: Whether to stop.
        results: Takes what each process has read.
    """

    looked_at: Any
    counts: Any
    is_over: Any
    results: Any


@dataclass(slots=True)
class _Readers:
    """The reading processes, as the one that revokes sees them."""

    processes: Sequence[BaseProcess]
    shared: _Shared
    reads: int

    def look_at(self, target: int) -> None:
        """Let everybody read about another unit."""
        self.shared.looked_at.value = target

    def wait_for_reads(self) -> None:
        """Until every reader has begun and ended its reads.

        The first read may have begun before, so that one more is waited for.
        """
        aim = [count + self.reads + 1 for count in self.shared.counts]
        until = time.monotonic() + PATIENCE_S
        while any(count < wanted for count, wanted in zip(self.shared.counts, aim, strict=True)):
            if not all(process.is_alive() for process in self.processes):
                message = "A reading process died; its last words stand above."
                raise BenchFailedError(message)
            if time.monotonic() > until:
                message = f"A reader has not read {self.reads} times in {PATIENCE_S:.0f} s."
                raise BenchFailedError(message)
            time.sleep(0.002)

    def finish(self) -> list[Read]:
        """Stop everybody and collect what was read."""
        self.shared.is_over.set()
        reads: list[Read] = []
        for _ in self.processes:
            try:
                reads += self.shared.results.get(timeout=PATIENCE_S)
            except Empty:
                message = "A reading process gave no account of what it read."
                raise BenchFailedError(message) from None
        return reads


@contextmanager
def _reading(
    context: SpawnContext,
    plan: Plan,
    targets: Sequence[Target],
    vectors: Mapping[str, NDArray[np.float32]],
) -> Generator[_Readers, None, None]:
    shared = _Shared(
        looked_at=context.Value("i", 0),
        counts=context.Array("q", plan.readers, lock=False),
        is_over=context.Event(),
        results=context.Queue(),
    )
    processes = [
        context.Process(
            target=read_until_over,
            args=(plan, targets, vectors, number, shared),
            daemon=True,
        )
        for number in range(plan.readers)
    ]
    say(f"reading from {plan.readers} processes while {len(targets)} units are taken away")
    for process in processes:
        process.start()
    readers = _Readers(processes, shared, plan.reads)
    try:
        yield readers
    finally:
        shared.is_over.set()
        for process in processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
                process.join()


def read_until_over(
    plan: Plan,
    targets: Sequence[Target],
    vectors: Mapping[str, NDArray[np.float32]],
    number: int,
    shared: _Shared,
) -> None:
    """What one reading process does."""
    reader = lane_principal(LANES[number % len(LANES)])
    reads: list[Read] = []
    with ExitStack() as stack:
        embedder = StoredVectors(plan.space, vectors)
        service = stack.enter_context(open_retrieval_service(plan.settings, embedder=embedder))
        pool = stack.enter_context(open_database(plan.settings).pool(max_size=1))
        delivery = PackDelivery(pool.connection)
        while not shared.is_over.is_set():
            place = shared.looked_at.value
            name, path = PATHS[len(reads) % len(PATHS)]
            began = time.monotonic_ns()
            try:
                holds = path(service, delivery, reader, targets[place])
                refused = ""
            except (WrongAudienceError, ProjectionError) as error:
                holds, refused = frozenset[str](), type(error).__name__
            reads.append(
                Read(began, time.monotonic_ns(), place, name, reader.audience, holds, refused)
            )
            shared.counts[number] += 1
    shared.results.put(reads)


ReadingPath = Callable[[RetrievalService, PackDelivery, Principal, Target], frozenset[str]]


def _by_name(
    service: RetrievalService, _: PackDelivery, reader: Principal, target: Target
) -> frozenset[str]:
    return _held(service.answer(_texts_of(target)[1], reader, token_budget=None).pack, target)


def _by_words(
    service: RetrievalService, _: PackDelivery, reader: Principal, target: Target
) -> frozenset[str]:
    return _held(service.answer(target.question, reader, token_budget=None).pack, target)


def _raw(
    service: RetrievalService, _: PackDelivery, reader: Principal, target: Target
) -> frozenset[str]:
    return _held(service.answer(target.question, reader, Mode.RAW, token_budget=None).pack, target)


def _stored_row(
    service: RetrievalService, delivery: PackDelivery, reader: Principal, target: Target
) -> frozenset[str]:
    with delivery.begin() as out:
        policy = out.knowledge.policy()
        pack, _ = out.stored_pack(ThreadId(target.thread_id), reader, policy, service.space_id)
    return frozenset() if pack is None else _held(pack, target)


def _mcp_pack(
    service: RetrievalService, _: PackDelivery, reader: Principal, target: Target
) -> frozenset[str]:
    given = {"query": target.question, "thread": target.thread_id, "token_budget": 100_000}
    return _held_by_tool(service, reader, target, "get_context_pack", given)


def _mcp_units(
    service: RetrievalService, _: PackDelivery, reader: Principal, target: Target
) -> frozenset[str]:
    return _held_by_tool(service, reader, target, "search_units", {"query": target.question})


PATHS: tuple[tuple[str, ReadingPath], ...] = (
    ("thread by name", _by_name),
    ("thread by words", _by_words),
    ("raw search", _raw),
    ("stored pack", _stored_row),
    ("MCP get_context_pack", _mcp_pack),
    ("MCP search_units", _mcp_units),
)


def _held_by_tool(
    service: RetrievalService,
    reader: Principal,
    target: Target,
    tool: str,
    given: Mapping[str, object],
) -> frozenset[str]:
    answer = tool_called(tool).run(service, given, Caller(reader, f"bench-{reader.audience}"))
    held = _held(ContextPack.model_validate(answer.content["pack"]), target)
    if any(f"`{target.address}@" in text for text in answer.texts):
        held |= {"unit"}
    return held


def _held(pack: ContextPack, target: Target) -> frozenset[str]:
    """What of a target a pack holds: the unit anywhere in it, the unit as a member of its thread, the thread."""
    text = pack.model_dump_json()
    held: set[str] = set()
    if f'"{target.unit_id}"' in text or f'"{target.address}"' in text:
        held.add("unit")
    of_thread = pack.thread_id == target.thread_id
    if of_thread and any(unit.logical_unit_id == target.unit_id for unit in pack.units()):
        held.add("member")
    if of_thread or any(each.thread_id == target.thread_id for each in pack.candidate_threads):
        held.add("thread")
    return frozenset(held)
