"""What Postgres knows about threads, as far as one reader may know it.

Belongs here: looking up names and words, memberships of found units, facts for ranking; all of it under the reader's rights.
Does not belong here: what a found name is worth (retrieval.lexical_signals), which thread answers (retrieval.resolution).

Rights are decided in SQL, in the statement that reads, by the allow-lists of the policy in force: what was taken away a moment
ago is not found. Facts are remembered under a thread's input revision, which counts every change that they can show, and are only
ever given out for a thread that the same call has just found visible.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeAlias

from psycopg import Connection
from psycopg.rows import DictRow, TupleRow, dict_row

from threadhouse.retrieval.audience import AudiencePolicy, allowed_values
from threadhouse.retrieval.bm25 import TermForm, split_terms
from threadhouse.retrieval.lexical_signals import FoundBy, FoundThread, lexical_signals
from threadhouse.retrieval.models import (
    Authority,
    HealthStatus,
    LifecycleStage,
    Principal,
    ThreadId,
    UnitId,
)
from threadhouse.retrieval.ranking import ThreadFacts
from threadhouse.retrieval.references import possible_phrase_keys, possible_reference_keys
from threadhouse.retrieval.resolution import LexicalSignals, ThreadSurroundings
from threadhouse.retrieval.text import fold
from threadhouse.stores import queries
from threadhouse.stores.array_literals import allow_list_parameters, array_literal

Connections: TypeAlias = Callable[[], AbstractContextManager[Connection[TupleRow]]]
"""Lends a connection and commits when it comes back: ``database.connect``, or ``connection`` of a pool."""

THREADS_BY_WORDS = 50
"""How many threads full text may name; a thread that is not among the best fifty by its words alone is not found by words."""

REMEMBERED_FACTS = 20_000
"""Threads times sets of rights whose facts are kept: 2.1 kB each as measured, so 42 MB."""

LONGEST_WORD_BYTES = 2_046
"""What a tsquery takes; the text of a whole question can be one word."""

FUNCTION_WORDS = frozenset(
    (
        *(
            "la",
            "cua",
            "va",
            "co",
            "gi",
            "nao",
            "the",
            "bao",
            "nhieu",
            "duoc",
            "toi",
            "khi",
            "cac",
            "nhung",
            "mot",
        ),
        *(
            "voi",
            "theo",
            "de",
            "o",
            "ve",
            "trong",
            "thi",
            "nhu",
            "neu",
            "hay",
            "hoac",
            "tai",
            "sao",
        ),
        *(
            "a",
            "an",
            "of",
            "to",
            "in",
            "is",
            "are",
            "was",
            "be",
            "what",
            "how",
            "who",
            "when",
            "where",
            "which",
        ),
        *(
            "do",
            "does",
            "did",
            "for",
            "and",
            "or",
            "on",
            "by",
            "with",
            "from",
            "at",
            "as",
            "it",
            "that",
            "this",
        ),
        *("i", "my", "me", "we", "our", "you", "your", "can", "must"),
    )
)
"""Folded words that say nothing about a thread: each would make full text rank every thread there is.

They are only left out of the lookup, and not when a question has no other words; what a match is worth is counted elsewhere."""

_AUTHORITY_RANK = {authority: rank for rank, authority in enumerate(Authority)}

_Rights: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class _RememberedFacts:
    input_revision: int
    facts: ThreadFacts


@dataclass(frozen=True, slots=True)
class QuestionWords:
    """The words of a question as they are looked up: array literals of keys, and tsqueries."""

    text: str
    references: str
    phrases: str
    marked_terms: str
    folded_terms: str


def words_of_question(text: str) -> QuestionWords:
    """Everything about a question that can be prepared before it is known who may see what."""
    return QuestionWords(
        text=text,
        references=array_literal(possible_reference_keys(text)),
        phrases=array_literal(possible_phrase_keys(text)),
        marked_terms=_any_of(text, TermForm.ACCENTED),
        folded_terms=_any_of(text, TermForm.FOLDED),
    )


class PostgresThreadSignals:
    """What Postgres knows about threads, as far as one reader may know it; may be shared by threads of a process.

    Rights are read anew in every call.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._facts: OrderedDict[tuple[ThreadId, _Rights], _RememberedFacts] = OrderedDict()
        self._lock = Lock()

    def lexical(self, text: str, principal: Principal, policy: AudiencePolicy) -> LexicalSignals:
        """Explicit references, labels and aliases, full text, authority hints, of threads that ``principal`` sees."""
        with self._connections() as connection:
            return self.ask_lexical(connection, words_of_question(text), principal, policy)()

    def ask_lexical(
        self,
        connection: Connection[TupleRow],
        words: QuestionWords,
        principal: Principal,
        policy: AudiencePolicy,
    ) -> Callable[[], LexicalSignals]:
        """The question is on its way when this returns; call what it returns for the answer.

        In a pipeline Postgres looks the words up while this process searches vectors.
        """
        params = _rights_params(principal, policy) | {
            "references": words.references,
            "phrases": words.phrases,
            "marked_terms": words.marked_terms,
            "folded_terms": words.folded_terms,
            "word_limit": THREADS_BY_WORDS,
        }
        cursor = connection.cursor(row_factory=dict_row)
        cursor.execute(queries.load("signals_lexical"), params)

        def answer() -> LexicalSignals:
            with cursor:
                found = [_found_thread(row) for row in cursor.fetchall()]
            return lexical_signals(words.text, found)

        return answer

    def surroundings(
        self,
        unit_ids: Sequence[UnitId],
        thread_ids: Sequence[ThreadId],
        principal: Principal,
        policy: AudiencePolicy,
    ) -> ThreadSurroundings:
        """Memberships of these units, and facts of their threads and of ``thread_ids``; invisible threads are left out.

        Asked last, so that a right taken away a moment ago already counts: what has no facts here is no candidate.
        One round trip, and a second one when a thread has changed since its facts were last read.
        """
        with self._connections() as connection:
            return self.ask_surroundings(connection, unit_ids, thread_ids, principal, policy)()

    def ask_surroundings(
        self,
        connection: Connection[TupleRow],
        unit_ids: Sequence[UnitId],
        thread_ids: Sequence[ThreadId],
        principal: Principal,
        policy: AudiencePolicy,
    ) -> Callable[[], ThreadSurroundings]:
        """`surroundings` in two halves: the question is on its way when this returns; call what it returns for the answer."""
        rights = _rights(principal, policy)
        params = _rights_params(principal, policy)
        cursor = connection.cursor(row_factory=dict_row)
        cursor.execute(
            queries.load("signals_surroundings"),
            params
            | {
                "unit_ids": array_literal(sorted(set(unit_ids))),
                "thread_ids": array_literal(sorted(set(thread_ids))),
            },
        )

        def answer() -> ThreadSurroundings:
            with cursor:
                seen = cursor.fetchall()
            revisions = {ThreadId(row["thread_id"]): int(row["input_revision"]) for row in seen}
            facts = self._remembered(revisions, rights)
            absent = sorted(revisions.keys() - facts.keys())
            if absent:
                rows = _all(connection, "signals_facts", params | {"thread_ids": absent})
                facts |= self._remember(rows, rights)
            return ThreadSurroundings(_memberships(seen, facts.keys()), facts)

        return answer

    def _remembered(
        self, revisions: Mapping[ThreadId, int], rights: _Rights
    ) -> dict[ThreadId, ThreadFacts]:
        found: dict[ThreadId, ThreadFacts] = {}
        with self._lock:
            for thread_id, revision in revisions.items():
                kept = self._facts.get((thread_id, rights))
                if kept is not None and kept.input_revision == revision:
                    self._facts.move_to_end((thread_id, rights))
                    found[thread_id] = kept.facts
        return found

    def _remember(self, rows: Sequence[DictRow], rights: _Rights) -> dict[ThreadId, ThreadFacts]:
        read = {
            ThreadId(row["thread_id"]): (int(row["input_revision"]), _facts(row)) for row in rows
        }
        with self._lock:
            for thread_id, (revision, facts) in read.items():
                self._facts[thread_id, rights] = _RememberedFacts(revision, facts)
                self._facts.move_to_end((thread_id, rights))
            while len(self._facts) > REMEMBERED_FACTS:
                self._facts.popitem(last=False)
        return {thread_id: facts for thread_id, (_, facts) in read.items()}


def _memberships(
    rows: Sequence[DictRow], known: AbstractSet[ThreadId]
) -> dict[UnitId, dict[ThreadId, float]]:
    memberships: dict[UnitId, dict[ThreadId, float]] = {}
    for row in rows:
        thread_id = ThreadId(row["thread_id"])
        if thread_id in known:
            for unit_id, weight in zip(row["unit_ids"], row["weights"], strict=True):
                memberships.setdefault(UnitId(unit_id), {})[thread_id] = float(weight)
    return memberships


def _all(connection: Connection[TupleRow], name: str, params: Mapping[str, Any]) -> list[DictRow]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(queries.load(name), params).fetchall()


def _rights(principal: Principal, policy: AudiencePolicy) -> _Rights:
    allowed = allowed_values(principal, policy)
    # The audience as well: two of them may see the same units, and still each has its own health of a thread.
    return (
        ("lane", (principal.audience,)),
        *((name, tuple(sorted(values))) for name, values in sorted(allowed.items())),
    )


def _rights_params(principal: Principal, policy: AudiencePolicy) -> dict[str, Any]:
    lane = {"lane": array_literal((principal.audience,))}
    return lane | allow_list_parameters(allowed_values(principal, policy))


def _any_of(text: str, form: TermForm) -> str:
    """A tsquery that any telling word fulfils. Words are letters, digits and underscores, so none of them can be an operator."""
    words = dict.fromkeys(split_terms(text, form))
    # Postgres indexes no longer ones, and refuses to look for one.
    terms = [word for word in words if len(word.encode()) <= LONGEST_WORD_BYTES]
    telling = [term for term in terms if fold(term) not in FUNCTION_WORDS]
    return " | ".join(telling or terms)


def _found_thread(row: DictRow) -> FoundThread:
    return FoundThread(
        found_by=FoundBy(row["signal"]),
        thread_id=ThreadId(row["thread_id"]),
        value=float(row["value"]),
        wording=row["wording"],
        label=row["label"],
        title=row["title"] or "",
        aliases=tuple(row["aliases"] or ()),
        description=row["description"] or "",
    )


def _facts(row: DictRow) -> ThreadFacts:
    # Every value passed an allow-list, and allow-lists hold known words only where the policy does; an unknown one counts least.
    authorities = [Authority(word) for word in row["authorities"] if word in set(Authority)]
    health = row["health"]
    return ThreadFacts(
        title=row["title"],
        canonical_address=row["canonical_address"],
        last_activity_at=row["last_activity_at"],
        authority=min(authorities, key=_AUTHORITY_RANK.__getitem__, default=Authority.RUNTIME),
        health=HealthStatus(health) if health in set(HealthStatus) else None,
        covered_stages=_stages(row["covered_stages"]),
        missing_stages=_stages(row["missing_stages"]),
    )


def _stages(words: Sequence[str]) -> frozenset[LifecycleStage]:
    known = set(LifecycleStage)
    return frozenset(LifecycleStage(word) for word in words if word in known)
