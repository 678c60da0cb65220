"""Leaks: random questions for every reader and path; everything that comes back is held against the pure predicate.

What stands beside what: the units, documents and threads that came out of a path and may not be seen (none may) beside
everything that came out; and answers to readers who may see the unit that the question was taken from, so that a path which
gives nothing to anybody does not pass. A hub whose every label is drawn by rule (`bench.labelled_hub`) is a copy of a stopped
home (``--home``); the home itself is only read. Without one the hub is made up, words and all, which proves the counting and
little else.

Questions are titles, sentences, words in any order, and addresses of units, and names of threads, visible and hidden ones
alike, drawn with ``--seed``. Their vectors are those of the chunks that they were taken from, looked up in the store, so that
ten thousand questions embed nothing; the first ``--embedded`` of them are embedded by the model instead. After publishing,
rights are taken away behind the back of vectors and packs, so that the read-back and the last check have something to do. The
lists (dense, BM25 with marks, BM25 folded) are what the engine gave behind the vector filter alone, before the read-back, and
are held against what was published. Every reader is asked every question by the paths of a search (``--search-readers`` fewer
take turns); packs (thread and raw, with their Markdown) by ``--pack-readers`` readers each, who take turns too; half of them
through the tools of MCP.

Nothing is timed. The benchmark fails when anything leaked, when the last check had to stop an answer, or when a path gave
nothing.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import regex
from numpy.typing import NDArray
from psycopg import Connection
from psycopg.rows import TupleRow

from bench.labelled_hub import (
    LEGACY_DOCUMENT,
    HubSight,
    HubTruth,
    StoredVectors,
    chunk_rows,
    copied_home,
    first_rows,
    is_doubled,
    label_hub,
    publish_hub,
    read_truth,
    revoke_some,
    sight_of_reader,
    space_of_hub,
    texts_with_vectors,
)
from bench.measuring import BenchFailedError, BenchSkippedError, Measure, say
from bench.synthetic_hub import SyntheticEmbedder, fill_database
from bench.temporary_home import temporary_home
from threadhouse.retrieval.audience import (
    HIGH_RISK_CONSENT,
    AudiencePolicy,
    lane_principal,
)
from threadhouse.retrieval.bm25 import TermForm
from threadhouse.retrieval.errors import CollectionUnknownError, WrongAudienceError
from threadhouse.retrieval.models import (
    Audience,
    Collection,
    Json,
    Principal,
    ScoredPoint,
    ThreadId,
    UnitId,
    VectorQuery,
    Vectors,
    VectorSpace,
)
from threadhouse.retrieval.pack_render import render_markdown
from threadhouse.retrieval.packs import ContextPack
from threadhouse.retrieval.ports import VectorSearcher
from threadhouse.retrieval.query_text import PreparedQuery, prepare_query
from threadhouse.retrieval.search import SearchHit, search_collections
from threadhouse.retrieval.text import is_blank, prepare_text
from threadhouse.serving.mcp_tools import Caller, tool_called
from threadhouse.serving.opening import LazyEmbedder, open_retrieval_service
from threadhouse.serving.retrieval_service import Mode, QueryEmbedder, RetrievalService
from threadhouse.stores.knowledge import open_knowledge
from threadhouse.stores.live_owners import PostgresLiveOwners
from threadhouse.stores.migrations import open_database
from threadhouse.stores.postgres import Database
from threadhouse.stores.queries import trusted
from threadhouse.stores.reader_roles import begin_reading
from threadhouse.stores.settings import Settings
from threadhouse.stores.thread_signals import PostgresThreadSignals
from threadhouse.stores.vectors import open_reader

CONTENT = (Collection.INFORMATION_UNITS, Collection.PRODUCTION_DOCUMENTS)
TOOLS_OF_MODES = ((Mode.THREAD, "get_context_pack"), (Mode.RAW, "search_units"))
DENSE = "dense"
LISTS = (DENSE, TermForm.ACCENTED, TermForm.FOLDED)
HITS = 10_000
"""More than the lists of all collections together have: whatever was fused comes out."""
PROCESSES = 2
EXAMPLES = 5
"""Leaks that a failure names; the number of all of them stands with it."""

KINDS = ("sentence", "title", "words", "address", "thread")
_KIND_PARTS = (35, 20, 25, 12, 8)
_SENTENCE_END = regex.compile(r"[.;:!?\n]+")
_CODE = regex.compile(r"`([^`]+)`")
_SENTENCE_CHARS = (20, 150)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the defaults are quick."""
    parser.add_argument("--home", type=Path, help="A stopped home with a published hub; copied.")
    parser.add_argument("--units", type=int, default=400, help="Units of the made-up hub.")
    parser.add_argument("--queries", type=int, default=40, help="Questions in all.")
    parser.add_argument(
        "--search-readers", type=int, help="Readers of a search a question; all by default."
    )
    parser.add_argument("--pack-readers", type=int, default=1, help="Readers of packs a question.")
    parser.add_argument("--embedded", type=int, default=0, help="Questions that are embedded.")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="Asking at once.")
    parser.add_argument("--seed", type=int, default=4, help="Of the questions.")


def run(options: argparse.Namespace) -> list[Measure]:
    """Measure."""
    with _hub(options) as (settings, space):
        database = open_database(settings)
        with database.connect() as connection:
            published = read_truth(connection)
        # From here on vectors and packs say more than is true.
        revoke_some(database)
        tally = _ask_in_processes(settings, space, published, options)
        with database.connect() as connection:
            truth = read_truth(connection)
    return measures_of(tally, truth)


@contextmanager
def _hub(options: argparse.Namespace) -> Generator[tuple[Settings, VectorSpace], None, None]:
    if options.home is None:
        with temporary_home() as home:
            settings, database = home.settings, open_database(home.settings)
            say(f"making {options.units:,} units with labels by rule")
            fill_database(database, options.units)
            label_hub(database)
            embedder = SyntheticEmbedder()
            publish_hub(database, settings, embedder)
            yield settings, embedder.space
        return
    say(f"copying {options.home}")
    with copied_home(options.home) as settings:
        database = open_database(settings)
        with _reader(settings) as searcher:
            try:
                rows = first_rows(searcher)
            except CollectionUnknownError as error:
                raise BenchSkippedError(str(error)) from error
            space = space_of_hub(settings, searcher)
        say("labelling by rule and publishing")
        label_hub(database)
        units = [(s.unit_id, s.title, s.body) for s in _sources(database) if is_doubled(s.unit_id)]
        publish_hub(database, settings, StoredVectors(space, texts_with_vectors(units, rows)))
        yield settings, space


@dataclass(frozen=True, slots=True)
class Source:
    """A unit as questions are taken from it."""

    unit_id: str
    address: str
    title: str
    body: str
    threads: tuple[str, ...]
    """Titles of its threads."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question; ``chunk`` is the number of its source's chunk that lends its vector."""

    number: int
    kind: str
    text: str
    unit_id: str
    chunk: int = 0


def draw_question(
    source: Source, number: int, chunks: int, generator: np.random.Generator
) -> Question:
    """A question that ``source`` answers. A kind that the source has no text for becomes words, and these are never blank."""
    kind = str(generator.choice(KINDS, p=np.array(_KIND_PARTS) / sum(_KIND_PARTS)))
    words = source.body.split()
    few = [words[int(place)] for place in generator.integers(0, len(words), 8)]
    text = ""
    if kind == "sentence":
        shortest, longest = _SENTENCE_CHARS
        sentences = [s.strip() for s in _SENTENCE_END.split(source.body) if len(s) >= shortest]
        text = sentences[int(generator.integers(len(sentences)))][:longest] if sentences else ""
    elif kind == "title":
        text = source.title
    elif kind == "address":
        text = f"{source.address} quy định gì?"
    elif kind == "thread" and source.threads:
        text = source.threads[int(generator.integers(len(source.threads)))]
    if is_blank(prepare_text(text)):
        kind, text = "words", " ".join(few)
    if is_blank(prepare_text(text)):
        kind, text = "address", source.address
    return Question(number, kind, text[:200], source.unit_id, int(generator.integers(chunks)))


def readers_of(policy: AudiencePolicy) -> dict[str, Principal]:
    """Every lane as it is, agents with some permissions and with all, and a customer and an employee with a consent; by name."""
    readers = {str(audience): lane_principal(audience) for audience in Audience}
    lane = policy.lanes.get(Audience.AI_AGENT)
    granted = frozenset(lane.permission_grants if lane else ())
    agent = Audience.AI_AGENT
    readers["agent+drafts"] = Principal("bench", agent, tool_permissions=frozenset({"read:drafts"}))
    readers["agent+incidents+withdrawn"] = Principal(
        "bench", agent, tool_permissions=frozenset({"read:incidents", "read:withdrawn"})
    )
    readers["agent+everything"] = Principal(
        "bench",
        agent,
        tool_permissions=granted,
        classifications=frozenset({"unclassified", "confidential"}),
        high_risk_consents=frozenset({HIGH_RISK_CONSENT}),
    )
    readers["employee+consent"] = Principal(
        "bench", Audience.EMPLOYEE, high_risk_consents=frozenset({HIGH_RISK_CONSENT})
    )
    return readers


@dataclass(slots=True)
class Tally:
    """What came out, by path and reader.

    Attributes:
        shown: Units, documents and threads that came out.
        leaked: Of these, those that the reader may not see.
        asked: Questions whose source the reader may see.
        answered: Of these, those that got anything at all.
        found: Of these, those whose answer held the source.
        missed: Rows that a reader of everything should have got.
        stopped: Answers that the last check stopped.
        examples: Some leaks, in words.
    """

    shown: Counter[str] = field(default_factory=Counter[str])
    leaked: Counter[str] = field(default_factory=Counter[str])
    asked: Counter[str] = field(default_factory=Counter[str])
    answered: Counter[str] = field(default_factory=Counter[str])
    found: Counter[str] = field(default_factory=Counter[str])
    sources: Counter[str] = field(default_factory=Counter[str])
    missed: int = 0
    stopped: int = 0
    examples: list[str] = field(default_factory=list[str])

    def note(
        self,
        path: str,
        reader: str,
        sight: HubSight,
        question: Question,
        came: Iterable[tuple[str, str]],
        *,
        shows_units: bool = True,
    ) -> None:
        """Hold what came out of one path for one reader and question, as (kind, id), against what the reader may see.

        Args:
            shows_units: Whether the source could have come out; a path that only names threads finds none.
        """
        key = f"{path}\t{reader}"
        things = set(came)
        hidden = sorted(thing for thing in things if not sight.sees(*thing))
        self.shown[key] += len(things)
        self.leaked[key] += len(hidden)
        if hidden and len(self.examples) < EXAMPLES:
            self.examples.append(f"{path}, {reader}, question {question.number}: {hidden[0]}")
        if question.unit_id in sight.units:
            self.asked[key] += 1
            self.answered[key] += bool(things)
            doubled = ("document", LEGACY_DOCUMENT + question.unit_id)
            if shows_units:
                self.found[key] += ("unit", question.unit_id) in things or doubled in things

    def add(self, other: Tally) -> None:
        """Count another process's share."""
        for name in ("shown", "leaked", "asked", "answered", "found", "sources"):
            getattr(self, name).update(getattr(other, name))
        self.missed += other.missed
        self.stopped += other.stopped
        self.examples = [*self.examples, *other.examples][:EXAMPLES]


def measures_of(tally: Tally, truth: HubTruth) -> list[Measure]:
    """One line a path, all readers together, and one a reader.

    Raises:
        BenchFailedError: Something leaked, an answer was stopped, or a path showed nothing to anybody.
    """
    leaks = tally.leaked.total()
    if leaks:
        message = f"{leaks} leaked; {'; '.join(tally.examples)}."
        raise BenchFailedError(message)
    if tally.missed:
        message = f"{tally.missed} rows were hidden from readers who may see them; {'; '.join(tally.examples)}."
        raise BenchFailedError(message)
    if tally.stopped:
        message = f"The last check stopped {tally.stopped} answers: an enforcer before it let something through."
        raise BenchFailedError(message)
    by_path, by_reader = _group(tally, 0), _group(tally, 1)
    empty = [path for path, sums in by_path.items() if not sums.shown.total()]
    if empty:
        message = f"Nothing at all came out of {', '.join(empty)}: no leak there means nothing."
        raise BenchFailedError(message)
    lines = [("path " + name, sums, _note(sums)) for name, sums in by_path.items()]
    lines += [("reader " + name, sums, _answered(sums)) for name, sums in by_reader.items()]
    measures = [
        Measure(
            name,
            float(sums.leaked.total()),
            "leaked",
            "came out",
            float(sums.shown.total()),
            note=note,
        )
        for name, sums, note in lines
    ]
    kinds = f"{len(truth.units):,} units, {len(truth.documents):,} documents, {len(truth.threads):,} threads"
    sources = ", ".join(f"{number:,} {name}" for name, number in sorted(tally.sources.items()))
    measures.append(
        Measure(
            "stopped by the last check", float(tally.stopped), "", note=f"{kinds}; packs: {sources}"
        )
    )
    return measures


def _answered(sums: Tally) -> str:
    asked = sums.asked.total()
    if not asked:
        return ""
    return f"{sums.answered.total() / asked:.1%} of {asked:,} who see the source got an answer"


def _note(sums: Tally) -> str:
    found = sums.found.total()
    note = _answered(sums)
    return note + (f", {found / sums.asked.total():.1%} the source itself" if found else "")


def _group(tally: Tally, part: int) -> dict[str, Tally]:
    groups: dict[str, Tally] = {}
    for key in tally.shown:
        group = groups.setdefault(key.split("\t")[part], Tally())
        for name in ("shown", "leaked", "asked", "answered", "found"):
            getattr(group, name)[key] = getattr(tally, name)[key]
    return groups


def named_in(value: Json, names: Mapping[str, tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Everything that a JSON value names in any field but the texts of units, as (kind, id).

    Example:
        >>> names = {"u1": ("unit", "u1"), "u2": ("unit", "u2"), "x": ("unit", "x")}
        >>> sorted(named_in({"body": "u2", "a": [{"u1": "x@3"}]}, names))
        [('unit', 'u1'), ('unit', 'x')]
    """
    if isinstance(value, dict):
        for key, inside in value.items():
            if key not in {"body", "title", "description"}:
                yield from named_in(key, names)
                yield from named_in(inside, names)
    elif isinstance(value, list):
        for inside in value:
            yield from named_in(inside, names)
    elif isinstance(value, str):
        for text in (value, value.rpartition("@")[0]):
            if text in names:
                yield names[text]


def named_in_markdown(text: str, names: Mapping[str, tuple[str, str]]) -> set[tuple[str, str]]:
    r"""Everything that stands in backticks outside of quotations, as (kind, id).

    Example:
        >>> named_in_markdown("### `x@3`\n> `y`\nfrom `d.md`", {"x": ("unit", "x"), "y": ("unit", "y")})
        {('unit', 'x')}
    """
    lines = (line for line in text.splitlines() if not line.startswith(">"))
    return {
        named for line in lines for code in _CODE.findall(line) for named in named_in(code, names)
    }


def hidden_text_in(pack: ContextPack, truth: HubTruth) -> list[tuple[str, str]]:
    """Units of a pack whose text is not (a part of) their own."""
    return [
        ("unit", f"{unit.logical_unit_id} with the text of something else")
        for unit in pack.units()
        if prepare_text(unit.body).strip()
        not in prepare_text(truth.bodies.get(unit.logical_unit_id, ""))
    ]


def _ask_in_processes(
    settings: Settings, space: VectorSpace, published: HubTruth, options: argparse.Namespace
) -> Tally:
    started = time.monotonic()
    total = Tally()
    share = -(-options.queries // options.processes)
    shares = [
        _Share(
            settings.home,
            space,
            published,
            range(start, min(start + share, options.queries)),
            options.search_readers,
            options.pack_readers,
            options.embedded,
            options.seed,
        )
        for start in range(0, options.queries, share)
    ]
    say(f"asking {options.queries:,} questions in {len(shares)} processes")
    # Not forked: the stores hold threads and locks that a fork would tear apart.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(shares), mp_context=context) as pool:
        for tally in pool.map(_ask_share, shares):
            total.add(tally)
    say(f"asked for {time.monotonic() - started:,.0f} s")
    return total


@dataclass(frozen=True, slots=True)
class _Share:
    home: Path
    space: VectorSpace
    published: HubTruth
    numbers: range
    search_readers: int | None
    pack_readers: int
    embedded: int
    seed: int


@dataclass(frozen=True, slots=True)
class _Asker:
    """Everything that one process asks with."""

    service: RetrievalService
    connection: Connection[TupleRow]
    searcher: VectorSearcher
    live: PostgresLiveOwners
    signals: PostgresThreadSignals
    embedder: QueryEmbedder
    policy: AudiencePolicy
    readers: Mapping[str, Principal]
    sights: Mapping[str, HubSight]
    published: Mapping[str, HubSight]
    truth: HubTruth
    tally: Tally = field(default_factory=Tally)

    def ask(
        self, question: Question, search_readers: Sequence[str], pack_readers: Sequence[str]
    ) -> None:
        """Some readers by the paths of a search, and some by those of a pack."""
        prepared = prepare_query(question.text, self.embedder.embed_query)
        for name in search_readers:
            with self.connection.transaction():
                begin_reading(self.connection, self.readers[name])
                self._search(question, prepared, name, self.readers[name])
        for name in pack_readers:
            self._packs(question, name, self.readers[name])

    def read_all(self) -> None:
        """Every reader reads every row there is, by a statement without a condition, as the role of its lane."""
        statement = trusted(
            "select 'unit', logical_unit_id from visible.information_unit"
            " union all select 'document', document_id from visible.production_document"
            " union all select 'thread', thread_id from visible.semantic_thread"
        )
        for name, reader in self.readers.items():
            sight = self.sights[name]
            with self.connection.transaction():
                begin_reading(self.connection, reader)
                came = {(row[0], row[1]) for row in self.connection.execute(statement)}
            may_see = {("unit", key) for key in sight.units}
            may_see |= {("document", key) for key in sight.documents}
            may_see |= {("thread", key) for key in sight.threads}
            key = f"role, no WHERE\t{name}"
            self.tally.shown[key] += len(came)
            self.tally.leaked[key] += len(came - may_see)
            if came != may_see:
                wrong = sorted(came ^ may_see)[0]
                self.tally.examples.append(f"role, no WHERE, {name}: {wrong}")
                self.tally.missed += len(may_see - came)

    def _note(
        self,
        path: str,
        name: str,
        question: Question,
        came: Iterable[tuple[str, str]],
        *,
        shows_units: bool = True,
    ) -> None:
        self.tally.note(path, name, self.sights[name], question, came, shows_units=shows_units)

    def _search(
        self, question: Question, prepared: PreparedQuery, name: str, reader: Principal
    ) -> None:
        overheard = _Overheard(self.searcher)
        fused = search_collections(
            prepared,
            reader,
            (*CONTENT, Collection.THREAD_CENTROIDS),
            policy=self.policy,
            searcher=overheard,
            live=self.live,
            limit=HITS,
            one_per="owner",
        ).hits
        for of_list, things in overheard.lists.items():
            # The filter can only know what was published.
            self.tally.note(
                f"{of_list}, filter alone", name, self.published[name], question, things
            )
        self._note("fused, all collections", name, question, _things_of(fused))
        near = [hit for hit in fused if hit.collection is Collection.THREAD_CENTROIDS]
        self._note("centroid neighbours", name, question, _things_of(near), shows_units=False)
        units = [
            UnitId(hit.owner_id) for hit in fused if hit.collection is Collection.INFORMATION_UNITS
        ][:30]
        lexical = self.signals.lexical(prepared.text, reader, self.policy)
        named = {("thread", str(thread)) for thread in lexical.thread_ids()}
        self._note("thread names and words", name, question, named, shows_units=False)
        around = self.signals.surroundings(
            units, [ThreadId(key) for _, key in sorted(named)], reader, self.policy
        )
        threads = {thread for found in around.memberships.values() for thread in found}
        seen = {("thread", str(thread)) for thread in threads | around.facts.keys()}
        self._note("thread surroundings", name, question, seen, shows_units=False)

    def _packs(self, question: Question, name: str, reader: Principal) -> None:
        """Both modes: of every other question by the service, of the others by the tools, whose results hold a pack as well."""
        # Not the parity of the number: readers take turns as well, and each has to come by both ways.
        by_tools = question.number // len(self.readers) % 2
        for mode, tool in TOOLS_OF_MODES:
            try:
                if by_tools:
                    called = tool_called(tool).run(
                        self.service, {"query": question.text}, Caller(reader, "bench")
                    )
                    path, texts = f"MCP {tool}", called.texts
                    pack = ContextPack.model_validate(called.content["pack"])
                    came = set(named_in(dict(called.content), self.truth.names))
                else:
                    answer = self.service.answer(question.text, reader, mode)
                    self.tally.sources[f"{mode} {answer.source}"] += 1
                    path, pack, came = f"pack, {mode}", answer.pack, set[tuple[str, str]]()
                    texts = (render_markdown(pack),)
            except WrongAudienceError:
                self.tally.stopped += 1
                continue
            self._note_pack(path, name, question, pack, came)
            shown = {named for text in texts for named in named_in_markdown(text, self.truth.names)}
            self._note(f"Markdown of {path}", name, question, shown)

    def _note_pack(
        self,
        path: str,
        name: str,
        question: Question,
        pack: ContextPack,
        came: set[tuple[str, str]],
    ) -> None:
        came |= set(named_in(pack.model_dump(mode="json"), self.truth.names))
        if pack.thread_id:
            came.add(("thread", pack.thread_id))
        came |= {("thread", each.thread_id) for each in pack.candidate_threads}
        # A text under a wrong name, a unit without a place in the thread, a gap of a hidden stage: nobody may see these.
        came |= set(hidden_text_in(pack, self.truth))
        stages = self.sights[name].stages
        if pack.thread_id:
            members = self.truth.members.get(pack.thread_id, frozenset[str]())
            came |= {
                ("unit", f"{unit.logical_unit_id}, which the thread does not have")
                for unit in pack.units()
                if unit.logical_unit_id not in members
            }
        came |= {
            ("thread", f"gap at {gap.lifecycle_stage}")
            for gap in pack.known_gaps
            if gap.lifecycle_stage not in stages
        }
        self._note(path, name, question, came)


class _Overheard:
    """A searcher that keeps what the engine gave before anything was read back, by list; content alone."""

    def __init__(self, searcher: VectorSearcher) -> None:
        self._searcher = searcher
        self.lists: dict[str, set[tuple[str, str]]] = {of_list: set() for of_list in LISTS}

    def resolve(self, alias: str) -> str:
        return self._searcher.resolve(alias)

    def aliases(self) -> Mapping[str, str]:
        return self._searcher.aliases()

    def search_batch(
        self, collection: str, queries: Sequence[VectorQuery]
    ) -> list[list[ScoredPoint]]:
        found = self._searcher.search_batch(collection, queries)
        for alias in CONTENT:
            if collection == self._searcher.resolve(alias):
                for query, points in zip(queries, found, strict=True):
                    things = {_owner_of(alias, point.payload) for point in points}
                    self.lists[query.bm25 or DENSE] |= things
        return found


class _QuestionVectors:
    """Vectors of questions: looked up, and the model's own for some."""

    def __init__(
        self, stored: StoredVectors, model: QueryEmbedder | None, embedded: frozenset[str]
    ) -> None:
        self._stored = stored
        self._model = model
        self._embedded = embedded

    @property
    def space(self) -> VectorSpace:
        return self._stored.space

    def embed_query(self, text: str) -> Vectors:
        if self._model is not None and text in self._embedded:
            return self._model.embed_query(text)
        return self._stored.embed_query(text)


def _ask_share(share: _Share) -> Tally:
    """What one process asks."""
    settings = Settings.from_environment().model_copy(update={"threadhouse_home": share.home})
    database = open_database(settings)
    with ExitStack() as stack:
        searcher = stack.enter_context(_reader(settings))
        rows = chunk_rows(searcher)
        sources = [source for source in _sources(database) if source.unit_id in rows]
        questions = [_question(sources, rows, number, share.seed) for number in share.numbers]
        stored = StoredVectors(
            share.space, {q.text: rows[q.unit_id][q.chunk] for q in reversed(questions)}
        )
        embedded = frozenset(
            prepare_text(question.text)
            for question in questions
            if question.number < share.embedded
        )
        embedder = _QuestionVectors(stored, LazyEmbedder(settings) if embedded else None, embedded)
        service = stack.enter_context(open_retrieval_service(settings, embedder=embedder))
        connection = stack.enter_context(database.connect(autocommit=True))

        @contextmanager
        def lend() -> Iterator[Connection[TupleRow]]:
            yield connection

        with open_knowledge(database) as knowledge:
            policy = knowledge.policy()
        truth = read_truth(connection)
        readers = readers_of(policy)
        asker = _Asker(
            service=service,
            connection=connection,
            searcher=searcher,
            live=PostgresLiveOwners(lend),
            signals=PostgresThreadSignals(lend),
            embedder=embedder,
            policy=policy,
            readers=readers,
            sights={name: sight_of_reader(truth, each, policy) for name, each in readers.items()},
            published={
                name: sight_of_reader(share.published, each, policy)
                for name, each in readers.items()
            },
            truth=truth,
        )
        asker.read_all()
        names = list(readers)
        began = time.monotonic()
        for done, question in enumerate(questions, 1):
            start = question.number % len(names)
            turn = names[start:] + names[:start]
            asker.ask(question, turn[: share.search_readers], turn[: share.pack_readers])
            if done % 100 == 0 or done == len(questions):
                seconds = time.monotonic() - began
                left = seconds / done * (len(questions) - done)
                print(
                    f"  process {os.getpid()}: {done:,} of {len(questions):,}, about {left:,.0f} s left,"
                    f" {asker.tally.leaked.total()} leaked",
                    file=sys.stderr,
                    flush=True,
                )
        return asker.tally


def _question(
    sources: Sequence[Source],
    rows: Mapping[str, Mapping[int, NDArray[np.float32]]],
    number: int,
    seed: int,
) -> Question:
    # A generator a question, so that a question does not depend on how many processes ask.
    generator = np.random.default_rng((seed, number))
    source = sources[int(generator.integers(len(sources)))]
    return draw_question(source, number, len(rows[source.unit_id]), generator)


def _owner_of(collection: Collection, payload: Mapping[str, Json]) -> tuple[str, str]:
    if collection is Collection.PRODUCTION_DOCUMENTS:
        return "document", str(payload["document_id"])
    metadata = payload["metadata"]
    return "unit", str(metadata["logical_unit_id"] if isinstance(metadata, dict) else "")


def _things_of(hits: Iterable[SearchHit]) -> Iterator[tuple[str, str]]:
    kinds = {
        Collection.INFORMATION_UNITS: "unit",
        Collection.PRODUCTION_DOCUMENTS: "document",
        Collection.THREAD_CENTROIDS: "thread",
    }
    for hit in hits:
        kind = kinds[hit.collection]
        yield kind, hit.owner_id.rpartition("/")[0] if kind == "thread" else hit.owner_id


def _sources(database: Database) -> list[Source]:
    with database.connect() as connection:
        rows = connection.execute(
            "select u.logical_unit_id, u.canonical_address, v.title, v.body"
            ", coalesce(array_agg(t.title) filter (where t.title <> ''), '{}')"
            " from public.tac_logical_unit u"
            " join public.tac_unit_version v on v.unit_version_id = u.current_version_id"
            " left join public.thread_membership m on m.logical_unit_id = u.logical_unit_id"
            " left join public.semantic_thread t on t.thread_id = m.thread_id"
            " group by u.logical_unit_id, u.canonical_address, v.title, v.body order by u.logical_unit_id"
        ).fetchall()
    return [Source(r[0], r[1], r[2], r[3], tuple(sorted(r[4]))) for r in rows]


@contextmanager
def _reader(settings: Settings) -> Generator[VectorSearcher, None, None]:
    with closing(open_reader(home=settings.home)) as searcher:
        yield searcher
