"""A soak: writers, readers in every lane, a listener, a nightly and faults at the same time, and what was true all along.

What stands beside what: reads that returned what a lane could not see any more, or an older version than was committed before
they began (none may), beside all reads that could have; answers beside the events that they left; and the state that following
changes led to beside the one that a comparison of everything wants.

The hub is the sample hub, built by a nightly of its own with the real model, and documents, units and threads of the soak beside
it. The writer gives units new versions, takes and gives rights, rejects and confirms memberships, adds units and deletes them.
Readers ask for threads by id and for units by words, each as one lane, with the real model. `threadhouse listen` follows; it is
killed and started again, PostgreSQL is restarted, and a nightly runs in the middle. Instants are on the one monotonic clock of
the machine; what was under way at a commit counts for neither side.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID, uuid4

import psycopg

from bench.measuring import BenchFailedError, Measure, say
from bench.temporary_home import OUTSIDE, TemporaryHome, temporary_home
from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.errors import ProjectionError, StoreUnreachableError, WrongAudienceError
from threadhouse.retrieval.models import Audience, ThreadId
from threadhouse.serving.opening import open_retrieval_service
from threadhouse.serving.retrieval_service import Mode
from threadhouse.stores import embedded_postgres
from threadhouse.stores.migrations import open_database
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings

HUB = Path(__file__).resolve().parents[1] / "examples" / "hub"

THREADS = 4
UNITS_A_THREAD = 10
RAW_ONE_IN = 5
"""Reads by words, which embed a question; the others name a thread."""

ENDED_S = 120.0
"""After which a process that was asked to end is killed."""

_CUT_OFF = (psycopg.OperationalError, psycopg.InterfaceError, StoreUnreachableError)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the defaults are quick."""
    parser.add_argument("--seconds", type=float, default=60.0, help="How long writers write.")
    parser.add_argument(
        "--rate", type=float, default=3.0, help="Changes a second that are aimed at."
    )
    parser.add_argument("--seed", type=int, default=1, help="Of what the writer draws.")


def run(options: argparse.Namespace) -> list[Measure]:
    """Measure."""
    with temporary_home() as home:
        _prepare(home)
        soaked = _soak(home, options.seconds, options.rate, options.seed)
        return _measures(home, soaked)


@dataclass(frozen=True, slots=True)
class Written:
    """One committed change of a unit, between two instants in ns.

    ``revision`` is the live one from then on and 0 when the unit is gone; ``is_open`` whether every lane sees it;
    ``is_member`` whether its thread shows it.
    """

    unit_id: str
    kind: str
    committing: int
    committed: int
    revision: int
    is_open: bool
    is_member: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """One answer: when, by whom, and the revision of every soaked unit in it. ``thread`` when one was asked for."""

    began: int
    ended: int
    lane: str
    query_id: UUID | None
    thread: str | None
    revisions: Mapping[str, int]
    refused: str = ""


@dataclass(slots=True)
class Soaked:
    """Everything that happened."""

    written: list[Written] = field(default_factory=list[Written])
    seen: list[Seen] = field(default_factory=list[Seen])
    faults: list[str] = field(default_factory=list[str])
    seconds: float = 0.0


@dataclass(slots=True)
class Verdict:
    """Reads of units against what was committed before they began."""

    checked: int = 0
    hidden: int = 0
    leaked: list[str] = field(default_factory=list[str])
    stale: list[str] = field(default_factory=list[str])


def judge(seen: Iterable[Seen], written: Sequence[Written]) -> Verdict:
    """Hold every unit in every answer against the last change that was committed before the read began.

    Only reads during which nothing of the unit was being committed can be judged.
    """
    of_unit: dict[str, list[Written]] = {}
    for change in written:
        of_unit.setdefault(change.unit_id, []).append(change)
    verdict = Verdict()
    for read in seen:
        for unit_id, changes in of_unit.items():
            before = [change for change in changes if change.committed <= read.began]
            if not before or any(
                change.committing <= read.ended and change.committed > read.began
                for change in changes
            ):
                continue
            last, revision = before[-1], read.revisions.get(unit_id)
            if revision is None:
                verdict.hidden += not last.is_open or not last.revision
                continue
            verdict.checked += 1
            what = f"{unit_id}@{revision} for {read.lane}, after {last.kind} to {last.revision}"
            if not last.revision or not last.is_open or (read.thread and not last.is_member):
                verdict.leaked.append(what)
            elif revision != last.revision:
                verdict.stale.append(what)
    return verdict


def _prepare(home: TemporaryHome) -> None:
    say("building the sample hub")
    database = open_database(home.settings)
    for arguments in (("load", HUB), ("nightly",)):
        home.threadhouse(*arguments)
    with database.connect() as connection:
        for thread in range(THREADS):
            document = f"soak-{thread}"
            connection.execute(
                "insert into public.production_document (document_id, path, title, body, language, visibility, readiness"
                ", publication_state, risk_class, authority, lifecycle_stage, data_classification) values"
                " (%(id)s, %(id)s || '.md', 'Quy trình ngâm ' || %(id)s, '', 'vi', 'public', 'published', 'published', 'low'"
                ", 'enacted', 'law', 'unclassified')",
                {"id": document},
            )
            connection.execute(
                "insert into public.semantic_thread (thread_id, canonical_address, title, visibility, readiness"
                ", publication_state, risk_class, authority)"
                " values (%(id)s, %(id)s, 'Luồng ' || %(id)s, 'public', 'published', 'published', 'low', 'enacted')",
                {"id": document},
            )


@dataclass(slots=True)
class _Unit:
    thread: str
    revision: int = 0
    is_open: bool = True
    is_member: bool = True


class _Writer:
    """Changes units one transaction at a time and keeps account of it."""

    def __init__(self, database: Database, seed: int) -> None:
        self._database = database
        self._draw = random.Random(seed)
        self._units: dict[str, _Unit] = {}
        self._connection: psycopg.Connection[Any] | None = None
        self.written: list[Written] = []

    def begin(self) -> None:
        """The first units of every thread."""
        for thread in range(THREADS):
            for _ in range(UNITS_A_THREAD):
                self._change(self._new_unit(f"soak-{thread}"), "insert")

    def step(self) -> bool:
        """One drawn change; False when PostgreSQL was away and nothing was committed."""
        unit_id = self._draw.choice(list(self._units))
        unit = self._units[unit_id]
        kinds = ["version"] * 4 + ["flag"] * 3 + ["membership"] * 2 + ["insert", "delete"]
        kind = self._draw.choice(kinds)
        if kind == "insert" or (
            kind == "delete" and len(self._units) <= THREADS * UNITS_A_THREAD // 2
        ):
            unit_id, kind = self._new_unit(unit.thread), "insert"
        return self._change(unit_id, kind)

    def close(self) -> None:
        """Give the connection back."""
        if self._connection is not None:
            self._connection.close()

    def _new_unit(self, thread: str) -> str:
        unit_id = f"{thread}.{uuid4().hex[:8]}"
        self._units[unit_id] = _Unit(thread)
        return unit_id

    def _change(self, unit_id: str, kind: str) -> bool:
        unit = self._units[unit_id]
        after = _Unit(unit.thread, unit.revision, unit.is_open, unit.is_member)
        try:
            connection = self._open()
            with connection.cursor() as cursor:
                self._send(cursor, unit_id, kind, after)
            committing = time.monotonic_ns()
            connection.commit()
        except _CUT_OFF:
            self._connection = None
            # Whether a commit that was cut off came through is known only to the server.
            self._look_up(unit_id, kind)
            return False
        self._keep(unit_id, kind, committing, time.monotonic_ns(), after)
        return True

    def _send(self, cursor: psycopg.Cursor[Any], unit_id: str, kind: str, after: _Unit) -> None:
        names = {"unit": unit_id, "thread": after.thread, "version": uuid4()}
        if kind == "insert":
            cursor.execute(
                "insert into public.tac_logical_unit (logical_unit_id, document_id, canonical_address, unit_kind"
                ", lifecycle_stage, data_classification, visibility)"
                " values (%(unit)s, %(thread)s, %(unit)s, 'clause', 'law', 'unclassified', 'public')",
                names,
            )
            cursor.execute(
                "insert into public.thread_membership (thread_id, logical_unit_id, role, confidence, status)"
                " values (%(thread)s, %(unit)s, 'canonical', 1, 'confirmed')",
                names,
            )
        if kind in ("insert", "version"):
            after.revision += 1
            body = f"Bước ngâm {unit_id} bản {after.revision}: {' '.join(self._draw.choices(_WORDS, k=30))}."
            cursor.execute(
                "insert into public.tac_unit_version (unit_version_id, logical_unit_id, revision, title, body)"
                " values (%(version)s, %(unit)s, %(revision)s, %(title)s, %(body)s)",
                {**names, "revision": after.revision, "title": f"Bước {unit_id}", "body": body},
            )
            cursor.execute(
                "update public.tac_logical_unit set current_version_id = %(version)s where logical_unit_id = %(unit)s",
                names,
            )
        elif kind == "flag":
            after.is_open = not after.is_open
            word = "public" if after.is_open else "restricted"
            cursor.execute(
                "update public.tac_logical_unit set visibility = %(word)s where logical_unit_id = %(unit)s",
                {**names, "word": word},
            )
        elif kind == "membership":
            after.is_member = not after.is_member
            status = "confirmed" if after.is_member else "rejected"
            cursor.execute(
                "update public.thread_membership set status = %(status)s"
                " where thread_id = %(thread)s and logical_unit_id = %(unit)s",
                {**names, "status": status},
            )
        elif kind == "delete":
            after.revision = 0
            cursor.execute(
                "delete from public.thread_membership where logical_unit_id = %(unit)s", names
            )
            cursor.execute(
                "update public.tac_logical_unit set current_version_id = null where logical_unit_id = %(unit)s",
                names,
            )
            cursor.execute(
                "delete from public.tac_unit_version where logical_unit_id = %(unit)s", names
            )
            cursor.execute(
                "delete from public.tac_logical_unit where logical_unit_id = %(unit)s", names
            )

    def _open(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = self._database.new_connection(psycopg.Connection)
        return self._connection

    def _look_up(self, unit_id: str, kind: str) -> None:
        """Read what a unit is after a cut connection; until then nothing is known of it, and so it counts as under way."""
        committing = time.monotonic_ns()
        while True:
            try:
                row = (
                    self._open()
                    .execute(
                        "select v.revision, u.visibility, m.status from public.tac_logical_unit u"
                        " join public.tac_unit_version v on v.unit_version_id = u.current_version_id"
                        " left join public.thread_membership m on m.logical_unit_id = u.logical_unit_id"
                        " where u.logical_unit_id = %s",
                        [unit_id],
                    )
                    .fetchone()
                )
                self._open().commit()
            except _CUT_OFF:
                self._connection = None
                time.sleep(0.2)
                continue
            after = _Unit(self._units[unit_id].thread, 0)
            if row is not None:
                after.revision, after.is_open = row[0], row[1] == "public"
                after.is_member = row[2] == "confirmed"
            began = self.written[-1].committed if self.written else committing
            self._keep(unit_id, f"cut {kind}", began, time.monotonic_ns(), after)
            return

    def _keep(self, unit_id: str, kind: str, committing: int, committed: int, after: _Unit) -> None:
        self.written.append(
            Written(
                unit_id, kind, committing, committed, after.revision, after.is_open, after.is_member
            )
        )
        if after.revision:
            self._units[unit_id] = after
        else:
            del self._units[unit_id]


_WORDS = (
    "hoàn tiền",
    "khách hàng",
    "thời hạn",
    "hợp đồng",
    "nhân viên",
    "báo cáo",
    "sự cố",
    "thanh toán",
    "đối soát",
    "hạn mức",
)


class _Over(Protocol):
    """An event that processes share; multiprocessing gives it no public type."""

    def is_set(self) -> bool: ...


class _Results(Protocol):
    """A queue that processes share."""

    def put(self, obj: list[Seen]) -> None: ...


def _read_until_over(settings: Settings, lane: Audience, is_over: _Over, results: _Results) -> None:
    """What one reading process does. The embedder is loaded by its first question by words."""
    draw, reader, seen = random.Random(lane), lane_principal(lane), list[Seen]()
    with ExitStack() as stack:
        service = stack.enter_context(open_retrieval_service(settings))
        while not is_over.is_set():
            thread = f"soak-{draw.randrange(THREADS)}"
            by_words = draw.randrange(RAW_ONE_IN) == 0
            began = time.monotonic_ns()
            try:
                answer = service.answer(
                    f"bước ngâm {thread}",
                    reader,
                    Mode.RAW if by_words else Mode.THREAD,
                    token_budget=None,
                    thread_id=None if by_words else ThreadId(thread),
                )
            except (WrongAudienceError, ProjectionError, *_CUT_OFF) as error:
                seen.append(
                    Seen(began, time.monotonic_ns(), lane, None, None, {}, type(error).__name__)
                )
                time.sleep(0.1)
                continue
            revisions = {
                unit.logical_unit_id: unit.source_revision
                for unit in answer.pack.units()
                if unit.logical_unit_id.startswith("soak-")
            }
            of_thread = thread if answer.pack.thread_id == thread else None
            seen.append(
                Seen(began, time.monotonic_ns(), lane, answer.query_id, of_thread, revisions)
            )
    results.put(seen)


@contextmanager
def _reading(settings: Settings) -> Generator[Callable[[], list[Seen]], None, None]:
    context = multiprocessing.get_context("spawn")
    is_over, results = context.Event(), context.Queue()
    processes: list[BaseProcess] = [
        context.Process(
            target=_read_until_over, args=(settings, lane, is_over, results), daemon=True
        )
        for lane in Audience
    ]
    for process in processes:
        process.start()

    def finish() -> list[Seen]:
        is_over.set()
        return [read for _ in processes for read in results.get(timeout=ENDED_S)]

    try:
        yield finish
    finally:
        is_over.set()
        for process in processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
                process.join()


def _environment(home: TemporaryHome) -> dict[str, str]:
    outside = {name.upper() for name in OUTSIDE}
    kept = {name: value for name, value in os.environ.items() if name.upper() not in outside}
    return {**kept, "THREADHOUSE_HOME": str(home.path)}


def _start(home: TemporaryHome, *arguments: str) -> subprocess.Popen[bytes]:
    program = "from threadhouse.pipelines.cli import main; main()"
    log = (home.path / f"soak-{arguments[0]}.log").open("ab")
    with log:
        return subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            env=_environment(home),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _end(process: subprocess.Popen[bytes], number: int) -> int:
    process.send_signal(number)
    try:
        return process.wait(ENDED_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _soak(home: TemporaryHome, seconds: float, rate: float, seed: int) -> Soaked:
    soaked, writer = Soaked(), _Writer(open_database(home.settings), seed)
    listener = _start(home, "listen", "--json")
    nightly: subprocess.Popen[bytes] | None = None
    writer.begin()
    started = time.monotonic()
    faults = [(0.25, "kill"), (0.5, "nightly"), (0.75, "restart")]
    try:
        with _reading(home.settings) as finish:
            while (now := time.monotonic() - started) < seconds:
                if faults and now >= faults[0][0] * seconds:
                    _, fault = faults.pop(0)
                    say(f"{now:,.0f} s, {len(writer.written):,} changes: {fault}")
                    if fault == "kill":
                        _end(listener, signal.SIGKILL)
                        soaked.faults.append("listener killed and started again")
                        listener = _start(home, "listen", "--json")
                    elif fault == "nightly":
                        nightly = _start(home, "nightly")
                    else:
                        embedded_postgres.stop(home.path)
                        embedded_postgres.start(home.path)
                        soaked.faults.append("PostgreSQL restarted")
                writer.step()
                due = started + len(writer.written) / rate
                time.sleep(max(0.0, due - time.monotonic()))
            soaked.seen = finish()
        soaked.seconds = time.monotonic() - started
    finally:
        writer.close()
        code = _end(listener, signal.SIGTERM)
        if nightly is not None:
            soaked.faults.append(f"nightly ended with {nightly.wait()}")
    soaked.faults.append(f"listener ended with {code}")
    soaked.written = writer.written
    return soaked


def _measures(home: TemporaryHome, soaked: Soaked) -> list[Measure]:
    verdict = judge(soaked.seen, soaked.written)
    answers = [read for read in soaked.seen if read.query_id is not None]
    refused = Counter(read.refused for read in soaked.seen if read.refused)
    home.threadhouse("listen", "--once")
    left = json.loads(home.threadhouse("nightly", "--json").stdout)
    audit = json.loads(home.threadhouse("audit", "--json").stdout)["audit"]
    with open_database(home.settings).connect() as connection:
        kept = connection.execute(
            "select count(*), count(distinct query_id) from nao.retrieval_metric_event where type = 'query'"
            " and query_id = any (%s)",
            [[read.query_id for read in answers]],
        ).fetchone()
        waits = connection.execute(
            "select lane, percentile_cont(0.5) within group (order by s), percentile_cont(0.99) within group (order by s)"
            " from (select w.lane, extract(epoch from (case w.lane when 'access' then b.access_at else b.searchable_at end)"
            " - w.changed_at)::float as s from nao.change_wait w join nao.change_batch b using (batch_id)) x"
            " where s is not null group by lane order by lane"
        ).fetchall()
    events = kept or (0, 0)
    wrong = {
        "leaks": verdict.leaked[:3],
        "stale reads": verdict.stale[:3],
        "writes that a nightly still had to make": left["vector_writes"] or [],
        "audit": [] if audit["is_clean"] else audit,
        "events lost or doubled": [] if events == (len(answers), len(answers)) else [events],
        "refused by the last check": refused.get("WrongAudienceError") or [],
    }
    found = {name: what for name, what in wrong.items() if what}
    if found:
        message = f"After {soaked.seconds:,.0f} s, {len(soaked.written):,} changes and {len(soaked.seen):,} reads: {found}"
        raise BenchFailedError(message)
    kinds = Counter(change.kind for change in soaked.written)
    lanes = Counter(read.lane for read in answers)
    measures = [
        Measure(
            "reads of hidden or outdated units",
            0.0,
            "",
            "units read and judged",
            float(verdict.checked),
            note=f"{verdict.hidden:,} times a hidden or deleted unit was not there; audit clean, a nightly found nothing to do",
        ),
        Measure(
            "changes a second",
            len(soaked.written) / soaked.seconds,
            "1/s",
            note=", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common()),
        ),
        Measure(
            "answers a second",
            len(answers) / soaked.seconds,
            "1/s",
            "events of them",
            float(events[0]),
            note=", ".join(f"{number:,} {lane}" for lane, number in lanes.items())
            + f"; {dict(refused) or 'none refused'}; {'; '.join(soaked.faults)}",
        ),
    ]
    measures += [
        Measure(f"wait of {lane} changes, p50", p50, "s", "p99", p99) for lane, p50, p99 in waits
    ]
    return measures
