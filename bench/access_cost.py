"""What access control costs a question: the query path as it is beside the same path with every enforcer out of the way.

What stands beside what: the same questions, asked by processes that take turns question by question: one as the product is,
one with all enforcers bypassed, and one for each enforcer with that one alone bypassed, which gives its own share; one more
is as the product is, and shows what noise does. The aim is that all of access control adds at most a quarter to the median.
Only this benchmark can bypass anything, in processes and in copies of the database that live as long as it does:

- vector filter: the search asks without conditions (a centroid's lane stays: it is how centroids are kept)
- read-back: labels and versions are answered from memory; the statement is not sent
- SQL predicates: in a copy of the database, `cong.sees` and its like are constant and the views are no security barriers
- last check: a pack leaves without a look at its units; whether it is fresh is still looked up
- role: the statements that change the database role are left out

What every candidate costs in Python is in all of them. ``--labels rule`` draws every label by rule, so that filters have
something to hide; by default everybody sees everything, and both sides give the same answers. The hub is made up, or a copy
of a stopped home. The embedding of the question is not counted. Load is on every millisecond alike; trust the ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from pydantic import SecretStr

from bench.labelled_hub import (
    StoredVectors,
    copied_home,
    fill_open_hub,
    first_rows,
    label_hub,
    publish_hub,
    space_of_hub,
)
from bench.latency import hub_texts, let_words_decide
from bench.measuring import BenchFailedError, BenchSkippedError, Measure, median, say
from bench.synthetic_hub import SyntheticEmbedder
from bench.temporary_home import temporary_home
from threadhouse.retrieval import search
from threadhouse.retrieval.audience import AudiencePolicy, lane_principal
from threadhouse.retrieval.leak_canaries import OPEN
from threadhouse.retrieval.models import (
    AllOf,
    Audience,
    Collection,
    Principal,
)
from threadhouse.retrieval.ports import VectorSearcher
from threadhouse.retrieval.search import LiveOwner
from threadhouse.serving import retrieval_service
from threadhouse.serving.opening import LazyEmbedder, open_retrieval_service
from threadhouse.stores import pack_delivery, queries
from threadhouse.stores.live_owners import PostgresLiveOwners
from threadhouse.stores.migrations import open_database
from threadhouse.stores.pack_delivery import Delivery
from threadhouse.stores.pack_memory import KnownPack
from threadhouse.stores.postgres import Database
from threadhouse.stores.queries import trusted
from threadhouse.stores.settings import Settings

LANE = Audience.AI_AGENT
AIM = 1.25
WARM_UP = 10
COPY = "threadhouse_bench_{}"

ENFORCERS = ("vector filter", "read-back", "SQL predicates", "last check", "role")
CONTESTANTS: Mapping[str, tuple[str, ...]] = {
    "as it is": (),
    "as it is, again": (),
    "all bypassed": ENFORCERS,
    "all but the read-back": tuple(name for name in ENFORCERS if name != "read-back"),
    **{f"without {name}": (name,) for name in ENFORCERS},
}
"""By name, what each has bypassed. Two are the same: how far their medians are apart is what noise alone does."""

_EVERYTHING = 134217727
"""Every bit that `cong.allowed_labels` can set."""

BYPASS = (
    "create or replace function cong.sees(visibility text, readiness text, publication_state text, risk_class text"
    ", authority text, lifecycle_stage text, data_classification text, allowed integer)"
    " returns boolean language sql immutable parallel safe return true",
    "create or replace function cong.leaves_open(visibility text, readiness text, publication_state text"
    ", risk_class text, authority text, allowed integer)"
    " returns boolean language sql immutable parallel safe return true",
    f"create or replace function cong.allowed_now() returns integer language sql immutable return {_EVERYTHING}",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the defaults are quick."""
    parser.add_argument("--home", type=Path, help="A stopped home with a published hub; copied.")
    parser.add_argument("--units", type=int, default=400, help="Units of the made-up hub.")
    parser.add_argument("--threads", type=int, default=20, help="Threads of the made-up hub.")
    parser.add_argument("--questions", type=int, default=40, help="Questions of each contestant.")
    parser.add_argument("--repeats", type=int, default=2, help="How often each question is asked.")
    parser.add_argument("--labels", choices=("open", "rule"), default="open")


def run(options: argparse.Namespace) -> list[Measure]:
    """Measure."""
    with _hub(options) as hub:
        texts = hub_texts(hub.database, options.questions + WARM_UP)
        say(f"asking {len(texts)} questions of {len(CONTESTANTS)} processes that take turns")
        return measures_of(_ask_in_turns(hub, texts, options.repeats))


@dataclass(frozen=True, slots=True)
class _Hub:
    settings: Settings
    database: Database
    copies: Mapping[str, Database]
    """One for each contestant: whoever asked before has then always asked another database, and warmed nobody's pages."""


@contextmanager
def _hub(options: argparse.Namespace) -> Generator[_Hub, None, None]:
    with ExitStack() as stack:
        if options.home is None:
            say(f"making {options.units:,} units and {options.threads:,} threads")
            settings = stack.enter_context(temporary_home()).settings
            database = open_database(settings)
            embedder = SyntheticEmbedder()
            fill_open_hub(database, options.units, options.threads)
            if options.labels == "rule":
                label_hub(database)
            publish_hub(database, settings, embedder)
            let_words_decide(database, embedder.space.space_id)
        else:
            say(f"copying {options.home}")
            settings = stack.enter_context(copied_home(options.home))
            database = open_database(settings)
            if options.labels == "rule":
                with closing(_open_reader(settings)) as searcher:
                    stored = StoredVectors(space_of_hub(settings, searcher), first_rows(searcher))
                label_hub(database, doubled=False)
                publish_hub(database, settings, stored)
        copies = {
            name: _copy(database, COPY.format(number), "SQL predicates" in bypassed)
            for number, (name, bypassed) in enumerate(CONTESTANTS.items())
        }
        yield _Hub(settings, database, copies)


def _open_reader(settings: Settings) -> VectorSearcher:
    from threadhouse.stores.vectors import open_reader

    return open_reader(home=settings.home)


def _copy(database: Database, name: str, is_open: bool) -> Database:
    """A copy of the database; in an open one every predicate is constant."""
    with database.with_database("postgres").connect(autocommit=True) as connection:
        connection.execute(
            sql.SQL("create database {} template {}").format(
                sql.Identifier(name), sql.Identifier(_name_of(database))
            )
        )
    copied = database.with_database(name)
    with copied.connect() as connection:
        for statement in BYPASS if is_open else ():
            connection.execute(trusted(statement))
        views = connection.execute(
            "select table_name from information_schema.views where table_schema = 'visible'"
        ).fetchall()
        for (view,) in views if is_open else ():
            connection.execute(
                sql.SQL("alter view visible.{} reset (security_barrier)").format(
                    sql.Identifier(view)
                )
            )
    with copied.connect(autocommit=True) as connection:
        connection.execute("vacuum analyze")
    return copied


def _name_of(database: Database) -> str:
    with database.connect() as connection:
        row = connection.execute("select current_database()").fetchone()
    return str(row[0]) if row else ""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question as one contestant answered it."""

    number: int
    ms: float
    source: str


def _ask_in_turns(hub: _Hub, texts: Sequence[str], repeats: int) -> dict[str, list[Asked]]:
    """Every question by every contestant, in an order that is drawn. The first WARM_UP are asked first and not counted."""
    answers: defaultdict[str, list[Asked]] = defaultdict(list)
    with ExitStack() as stack:
        children = {name: stack.enter_context(_contestant(hub, name)) for name in CONTESTANTS}
        for child in children.values():
            _say_and_hear(child, None)
        names = list(children)
        generator = random.Random(7)
        counted = list(enumerate(texts))[WARM_UP:] * repeats
        for number, text in [*enumerate(texts[:WARM_UP]), *counted]:
            # Drawn and not rotated: nobody always follows the same one.
            generator.shuffle(names)
            for name in names:
                heard = _say_and_hear(children[name], text)
                if number >= WARM_UP:
                    answers[name].append(Asked(number, heard["ms"], heard["source"]))
    return dict(answers)


def measures_of(answers: Mapping[str, Sequence[Asked]]) -> list[Measure]:
    """The median of the whole beside that of the bypassed one, and each enforcer's own share."""
    own = [asked.ms for asked in answers["as it is"]]
    bare = [asked.ms for asked in answers["all bypassed"]]
    same = [
        (left.ms, right.ms)
        for left, right in zip(answers["as it is"], answers["all bypassed"], strict=True)
        if left.source == right.source
    ]
    measures = [
        Measure(
            "question p50, access control on",
            median(own),
            "ms",
            "all bypassed",
            median(bare),
            note=f"aim {AIM}x; {_sources(answers['as it is'])}; bypassed {_sources(answers['all bypassed'])}",
            rounds=tuple(own),
        )
    ]
    if same:
        measures.append(
            Measure(
                "  where both answered from the same source",
                median([left for left, _ in same]),
                "ms",
                "all bypassed",
                median([right for _, right in same]),
                note=f"{len(same)} of {len(own)} questions",
            )
        )
    best = {name: best_of_each(asked) for name, asked in answers.items()}
    measures += [
        Measure(
            "  best time of each question p50",
            median(best["as it is"]),
            "ms",
            "all bypassed",
            median(best["all bypassed"]),
            note="what other work on the machine disturbs least",
        ),
        Measure(
            "  beside all but the read-back, best times p50",
            median(best["as it is"]),
            "ms",
            "all but the read-back",
            median(best["all but the read-back"]),
            note="which version of a hit is the live one has to be read back anyway",
        ),
        Measure(
            "  the same twice, best times p50",
            median(best["as it is"]),
            "ms",
            "again",
            median(best["as it is, again"]),
            note="what noise alone does to that ratio",
        ),
    ]
    measures += [
        Measure(
            f"  share of {name}",
            median([a - b for a, b in zip(best["as it is"], best[f"without {name}"], strict=True)]),
            "ms",
            "p50 without it alone",
            median(best[f"without {name}"]),
            note="median of the differences between best times",
        )
        for name in ENFORCERS
        if f"without {name}" in answers
    ]
    return measures


def best_of_each(asked: Iterable[Asked]) -> list[float]:
    """The shortest time of each question, in the order of the questions."""
    best: dict[int, float] = {}
    for each in asked:
        best[each.number] = min(each.ms, best.get(each.number, each.ms))
    return [best[number] for number in sorted(best)]


def _sources(asked: Sequence[Asked]) -> str:
    counts = Counter(each.source for each in asked)
    return ", ".join(f"{number} {source}" for source, number in sorted(counts.items()))


_CHILD = (
    "import sys; from bench.access_cost import answer_until_over; answer_until_over(sys.argv[1])"
)


@contextmanager
def _contestant(hub: _Hub, name: str) -> Generator[subprocess.Popen[str], None, None]:
    given = {
        "home": str(hub.settings.home),
        "conninfo": make_conninfo(hub.copies[name].conninfo),
        "bypassed": list(CONTESTANTS[name]),
    }
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, json.dumps(given)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "EMBEDDING_THREADS": "1"},
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def _say_and_hear(child: subprocess.Popen[str], text: str | None) -> dict[str, Any]:
    """Ask one question, or with None hear whether the child is ready."""
    if child.stdin is None or child.stdout is None:
        raise AssertionError
    if text is not None:
        child.stdin.write(json.dumps(text) + "\n")
        child.stdin.flush()
    line = child.stdout.readline()
    if not line:
        message = "A contestant died; its last words stand above."
        raise BenchFailedError(message)
    return cast("dict[str, Any]", json.loads(line))


def answer_until_over(given: str) -> None:
    """What one contestant does: bypass what it is told, say so, answer one question a line."""
    wanted = json.loads(given)
    settings = Settings.from_environment().model_copy(
        update={
            "threadhouse_home": Path(wanted["home"]),
            "database_url": SecretStr(wanted["conninfo"]),
            "qdrant_url": None,
        }
    )
    database = open_database(settings)
    with closing(_open_reader(settings)) as searcher:
        space = space_of_hub(settings, searcher)
    for name in wanted["bypassed"]:
        _BYPASSES[name](database)
    embedder = SyntheticEmbedder() if space == SyntheticEmbedder().space else LazyEmbedder(settings)
    principal = lane_principal(LANE)
    with open_retrieval_service(settings, embedder=embedder) as service:
        print("{}", flush=True)
        for line in sys.stdin:
            began = time.perf_counter()
            answer = service.answer(json.loads(line), principal)
            ms = (time.perf_counter() - began) * 1000 - answer.timings.steps["embed"]
            print(json.dumps({"ms": ms, "source": str(answer.source)}), flush=True)


def _without_filter(_: Database) -> None:
    def allow_all(principal: Principal, policy: AudiencePolicy) -> AllOf:
        del principal, policy
        return AllOf(())

    _replace(search, "vector_filter", allow_all)


def _without_read_back(database: Database) -> None:
    """Versions from memory, as they were at the start: nothing is published while the benchmark asks."""
    with database.connect() as connection:
        rows = connection.execute(
            "select physical, owner_id, version_key from nao.vector_projection"
        ).fetchall()
    known: defaultdict[str, dict[str, LiveOwner]] = defaultdict(dict)
    for physical, owner_id, version_key in rows:
        known[physical][owner_id] = LiveOwner(version_key, OPEN)

    class OwnersInMemory(PostgresLiveOwners):
        def ask_owners(
            self, collection: Collection, physical: str, owner_ids: Sequence[str]
        ) -> Callable[[], Mapping[str, LiveOwner]]:
            del collection
            there = known[physical]
            return lambda: {
                owner_id: there[owner_id] for owner_id in owner_ids if owner_id in there
            }

    _replace(retrieval_service, "PostgresLiveOwners", OwnersInMemory)


_FRESHNESS = (
    "select t.input_revision as current_input_revision, cong.policy_in_force() as current_policy_version"
    ", c.pack_id, c.input_revision, c.policy_version, c.space_id, c.code_version"
    " from (select) one"
    " left join visible.semantic_thread t on t.thread_id = %(thread_id)s"
    " left join visible.thread_context_pack_key c on c.thread_id = %(thread_id)s and c.lane = %(lane)s"
    " and c.space_id = %(space_id)s"
)
"""What is left of the last check's statement when no unit is looked at; the same with no ids would be planned anew every time."""


def _without_last_check(_: Database) -> None:
    def ask_units(
        self: Delivery,
        known: KnownPack,
        thread_id: str,
        principal: Principal,
        policy: object,
        space_id: str,
    ) -> Callable[[], dict[str, Any]]:
        del policy
        connection = self._connection
        cursor = connection.cursor(row_factory=dict_row)
        with pack_delivery.together(connection):
            pack_delivery.begin_reading(connection, principal)
            given = {"thread_id": thread_id, "lane": principal.audience, "space_id": space_id}
            cursor.execute(trusted(_FRESHNESS), given)
        unseen = {"hidden": [], "hidden_ends": [], "live_count": known.unit_count}
        return lambda: {**(cursor.fetchone() or {}), **unseen}

    _replace(Delivery, "_ask_units", ask_units)
    _replace(Delivery, "hidden_in", lambda *_, **__: [])


def _without_role(_: Database) -> None:
    """Whoever changes the role by a function does nothing; a statement in a pipeline becomes one that says nothing."""
    nothing: dict[str, Callable[..., None]] = {
        name: lambda *_, **__: None for name in ("begin_reading", "continue_as")
    }
    for module in [each for name, each in sys.modules.items() if name.startswith("threadhouse.")]:
        for name, replacement in nothing.items():
            if hasattr(module, name):
                _replace(module, name, replacement)
    load = queries.load

    def load_but_roles(name: str) -> sql.SQL:
        return trusted("select 1") if name in {"reader_begin", "reader_end"} else load(name)

    _replace(queries, "load", load_but_roles)


def _with_nothing(_: Database) -> None:
    """The predicates are bypassed by the database that is asked."""


_BYPASSES: Mapping[str, Callable[[Database], None]] = {
    "vector filter": _without_filter,
    "read-back": _without_read_back,
    "SQL predicates": _with_nothing,
    "last check": _without_last_check,
    "role": _without_role,
}


def _replace(owner: object, name: str, replacement: object) -> None:
    """Put something else in the place of a name, in this process alone.

    Raises:
        BenchSkippedError: The product no longer has that name; this benchmark has to learn the new one.
    """
    if not hasattr(owner, name):
        message = f"{owner} has no {name} any more, so it cannot be bypassed; bring bench/access_cost.py up to date."
        raise BenchSkippedError(message)
    setattr(owner, name, replacement)
