"""Latency of the query path: a pack read beside a bare SELECT of the same row, and whole questions step by step.

What stands beside what: the pack read of the service (freshness, last check of every unit, in one transaction) beside a SELECT of
the same row by its primary key on a connection of the same pool, taking turns; whole thread-first questions in one warm process,
the embedding of the question apart from everything else; and questions per second from several client processes beside one.

Without ``--home`` the hub is made up, its vectors too, so that words decide which thread answers; ``--units 100000 --threads
2000`` is a big one, and ``--keep FOLDER`` leaves it there to be asked again. With ``--home``, questions are asked of a published
hub and, like all questions, leave events behind. Every other question is the title of a thread, the rest are titles of units:
questions about something that is there. Load is on every millisecond alike; trust the ratio.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from psycopg.rows import TupleRow

from bench.labelled_hub import fill_open_hub, publish_hub, space_of_hub
from bench.measuring import BenchFailedError, BenchSkippedError, Measure, median, say
from bench.synthetic_hub import SyntheticEmbedder
from bench.temporary_home import OUTSIDE, temporary_home
from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.errors import CollectionUnknownError, ConfigurationError
from threadhouse.retrieval.models import Audience, ThreadId
from threadhouse.serving.opening import LazyEmbedder, open_retrieval_service
from threadhouse.serving.retrieval_service import QueryEmbedder, RetrievalService
from threadhouse.stores import embedded_postgres
from threadhouse.stores.knowledge import open_knowledge
from threadhouse.stores.migrations import open_database
from threadhouse.stores.pack_delivery import PackDelivery
from threadhouse.stores.postgres import Database
from threadhouse.stores.retrieval_policy import read_retrieval_policy, write_retrieval_policy
from threadhouse.stores.settings import Settings
from threadhouse.stores.vectors import open_reader

LANE = Audience.AI_AGENT
CLIENTS = 4
"""Client processes of the issue's question; on two cores they share."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the defaults are quick."""
    parser.add_argument("--home", type=Path, help="A home with a published hub; events are added.")
    parser.add_argument(
        "--keep", type=Path, help="Make the hub up in this new folder and leave it for --home."
    )
    parser.add_argument("--units", type=int, default=2_000, help="Units of the made-up hub.")
    parser.add_argument("--threads", type=int, default=100, help="Threads of the made-up hub.")
    parser.add_argument("--questions", type=int, default=100, help="Questions in one process.")
    parser.add_argument("--reads", type=int, default=200, help="Pack reads, and SELECTs beside.")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="Client processes.")


def run(options: argparse.Namespace) -> list[Measure]:
    """Measure."""
    with _hub(options) as hub:
        say("reading packs")
        measures = _pack_reads(hub, options.reads)
        say("asking in one process")
        measures += _questions(hub, options.questions)
        if options.clients:
            say(f"asking from {options.clients} processes")
            measures.append(_clients(hub, options.clients, options.questions))
        return measures


@dataclass(frozen=True, slots=True)
class _Hub:
    settings: Settings
    database: Database
    embedder: QueryEmbedder | None
    """None: the model of the settings."""


@contextmanager
def _hub(options: argparse.Namespace) -> Generator[_Hub, None, None]:
    if options.home is not None:
        settings = _settings_at(options.home)
        with closing(open_reader(home=settings.home)) as searcher:
            is_made_up = space_of_hub(settings, searcher) == SyntheticEmbedder().space
        embedder = SyntheticEmbedder() if is_made_up else None
        yield _Hub(settings, open_database(settings), embedder)
        return
    with ExitStack() as stack:
        if options.keep is None:
            settings = stack.enter_context(temporary_home()).settings
        elif options.keep.exists():
            message = f"{options.keep} is there already; ask it with --home, or remove it."
            raise BenchSkippedError(message)
        else:
            settings = _settings_at(options.keep)
            stack.callback(embedded_postgres.stop, settings.home)
        database = open_database(settings)
        embedder = SyntheticEmbedder()
        say(f"making {options.units:,} units and {options.threads:,} threads")
        fill_open_hub(database, options.units, options.threads)
        publish_hub(database, settings, embedder)
        let_words_decide(database, embedder.space.space_id)
        yield _Hub(settings, database, embedder)


def _settings_at(home: Path) -> Settings:
    """A home with its embedded stores, whatever servers the environment names."""
    return Settings.from_environment().model_copy(
        update={"threadhouse_home": home.absolute(), **dict.fromkeys(OUTSIDE)}
    )


def let_words_decide(database: Database, space_id: str) -> None:
    """Numbers for a space without meaning, so that questions find the thread that they name or whose unit they name."""
    with database.connect() as connection:
        shipped = read_retrieval_policy(connection, space_id)
        evidence = {"intercept": -4.0, "score": 8.0, "lead": 6.0}
        numbers = replace(
            shipped,
            space_id=space_id,
            coefficients={f"same:{name}": value for name, value in evidence.items()}
            | {"label": 8.0, "explicit": 8.0},
            scales={},
            single_threshold=0.55,
            match_threshold=0.3,
            candidate_floor=0.1,
        )
        write_retrieval_policy(connection, numbers, {"made_up": True})


def _pack_reads(hub: _Hub, reads: int) -> list[Measure]:
    """The same rows in turns; the first read of each is not timed."""
    principal = lane_principal(LANE)
    embedder = hub.embedder or LazyEmbedder(hub.settings)
    space_id = embedder.space.space_id
    rows = _rows(
        hub.database,
        "select thread_id from nao.thread_context_pack_cache where lane = 'ai_agent' order by thread_id limit 200",
    )
    if not rows:
        message = "No context packs are stored; run threadhouse nightly first."
        raise BenchSkippedError(message)
    threads = [ThreadId(row[0]) for row in rows]
    with open_knowledge(hub.database) as knowledge:
        policy = knowledge.policy()
    taken: defaultdict[str, list[float]] = defaultdict(list)
    with hub.database.pool(max_size=2) as pool:
        remembering = PackDelivery(pool.connection)

        def read(delivery: PackDelivery, thread_id: ThreadId) -> None:
            with delivery.begin() as out:
                pack, stale = out.stored_pack(thread_id, principal, policy, space_id)
            if pack is None:
                message = (
                    f"The pack of {thread_id} is not fresh {stale}; run threadhouse nightly first."
                )
                raise BenchFailedError(message)

        def select(thread_id: ThreadId) -> None:
            with pool.connection() as connection:
                connection.execute(
                    "select pack::text from nao.thread_context_pack_cache where thread_id = %s and lane = %s",
                    (thread_id, LANE),
                ).fetchone()

        contestants: dict[str, Callable[[ThreadId], None]] = {
            "select": select,
            "read": lambda thread_id: read(remembering, thread_id),
            # What the first reader of a process pays: the text is fetched and parsed.
            "first": lambda thread_id: read(PackDelivery(pool.connection), thread_id),
        }
        for thread_id in threads:
            remembered = contestants["read"]
            remembered(thread_id)
        names = list(contestants)
        for number in range(reads):
            thread_id = threads[number % len(threads)]
            start = number % len(names)
            for name in names[start:] + names[:start]:
                started = time.perf_counter()
                contestants[name](thread_id)
                taken[name].append((time.perf_counter() - started) * 1000)
    bare = median(taken["select"])
    chars = _rows(
        hub.database,
        "select avg(length(pack::text)) from nao.thread_context_pack_cache where lane = 'ai_agent'",
    )[0][0]
    return [
        Measure(
            "pack read p50",
            median(taken["read"]),
            "ms",
            "SELECT of the row",
            bare,
            note=f"{len(threads)} packs of {int(chars):,} characters on average",
            rounds=tuple(taken["read"]),
        ),
        Measure(
            "pack read p99",
            percentile(taken["read"], 99),
            "ms",
            "SELECT p99",
            percentile(taken["select"], 99),
        ),
        Measure(
            "first pack read of a process p50",
            median(taken["first"]),
            "ms",
            "SELECT of the row",
            bare,
            note="fetched and parsed",
        ),
    ]


def _questions(hub: _Hub, count: int) -> list[Measure]:
    questions = hub_texts(hub.database, count)
    principal = lane_principal(LANE)
    steps: defaultdict[str, list[float]] = defaultdict(list)
    rest: list[float] = []
    sources: defaultdict[str, int] = defaultdict(int)
    started = time.perf_counter()
    with _open(hub) as service:
        opened_ms = (time.perf_counter() - started) * 1000
        for warm in questions[:10]:
            _ask(service, warm)
        for question in questions:
            asked = time.perf_counter()
            answer = service.answer(question, principal)
            # Until the transaction is committed: nothing has left before.
            whole = (time.perf_counter() - asked) * 1000
            sources[answer.source] += 1
            for step, ms in answer.timings.steps.items():
                steps[step].append(ms)
            rest.append(whole - answer.timings.steps["embed"])
    how = ", ".join(f"{number} {source}" for source, number in sorted(sources.items()))
    measures = [
        Measure("opening the service, no model", opened_ms, "ms"),
        Measure(
            "question without embedding p50",
            median(rest),
            "ms",
            "aim",
            10,
            note=how,
            rounds=tuple(rest),
        ),
        Measure("question without embedding p99", percentile(rest, 99), "ms", "aim", 40),
        Measure("embedding of a question p50", median(steps["embed"]), "ms"),
        Measure("embedding of a question p99", percentile(steps["embed"], 99), "ms"),
    ]
    measures += [
        Measure(f"  step {step} p50", median(taken), "ms", "its p99", percentile(taken, 99))
        for step, taken in steps.items()
        if step != "embed"
    ]
    return measures


_CLIENT = """
import sys, time
from pathlib import Path
from bench.latency import client
client(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "synthetic")
"""


def client(home: Path, number: int, count: int, is_synthetic: bool) -> None:
    """One client process: warm up, say so, wait for the start, ask, say how long it took."""
    settings = _settings_at(home)
    hub = _Hub(settings, open_database(settings), SyntheticEmbedder() if is_synthetic else None)
    questions = hub_texts(hub.database, count)
    # Another order in each client, so that they do not walk in step.
    questions = questions[number * 7 % len(questions) :] + questions[: number * 7 % len(questions)]
    with _open(hub) as service:
        for warm in questions[:5]:
            _ask(service, warm)
        print("ready", flush=True)
        sys.stdin.readline()
        started = time.perf_counter()
        for question in questions:
            _ask(service, question)
        print(time.perf_counter() - started, flush=True)


def _clients(hub: _Hub, clients: int, count: int) -> Measure:
    one = _rate(hub, 1, count)
    many = _rate(hub, clients, count)
    return Measure(
        f"questions a second, {clients} processes",
        many,
        "1/s",
        "one process",
        one,
        note="embedding included",
    )


def _rate(hub: _Hub, clients: int, count: int) -> float:
    kind = "synthetic" if hub.embedder is not None else "model"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _CLIENT, str(hub.settings.home), str(number), str(count), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "EMBEDDING_THREADS": "1"},
        )
        for number in range(clients)
    ]
    try:
        for child in children:
            if _line(child) != "ready":
                message = "A client process did not come up."
                raise BenchFailedError(message)
        for child in children:
            if child.stdin is not None:
                child.stdin.write("go\n")
                child.stdin.flush()
        return clients * count / max(float(_line(child)) for child in children)
    finally:
        for child in children:
            child.kill()
            child.communicate()


def _line(child: subprocess.Popen[str]) -> str:
    return "" if child.stdout is None else child.stdout.readline().strip()


@contextmanager
def _open(hub: _Hub) -> Generator[RetrievalService, None, None]:
    with open_retrieval_service(hub.settings, embedder=hub.embedder) as service:
        yield service


def _ask(service: RetrievalService, question: str) -> None:
    try:
        service.answer(question, lane_principal(LANE))
    except (ConfigurationError, CollectionUnknownError) as error:
        raise BenchSkippedError(str(error)) from error


def hub_texts(database: Database, count: int) -> list[str]:
    """Titles of threads and of units in turns, spread over the hub; the beginning of a text where its title says too little."""
    rows = _rows(
        database,
        "select text from ("
        " select title as text, row_number() over (order by md5(thread_id)) as place from source.semantic_thread"
        " union all"
        " select case when length(title) >= 15 then title else left(body, 80) end"
        ", row_number() over (order by md5(logical_unit_id)) from source.information_unit ) q"
        " order by place, text limit %s",
        count,
    )
    if not rows:
        message = "The hub holds no units; run threadhouse nightly first."
        raise BenchSkippedError(message)
    return [str(row[0])[:300] for row in rows]


def _rows(database: Database, statement: str, *parameters: object) -> list[TupleRow]:
    from threadhouse.stores.queries import trusted

    with database.connect() as connection:
        return connection.execute(trusted(statement), parameters or None).fetchall()


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that ``percent`` of all are not above, interpolated; the only one is every percentile."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
