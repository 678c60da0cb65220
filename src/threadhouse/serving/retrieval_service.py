"""The query path: a question and a principal in, a context pack out.

Belongs here: the order of the steps, what is tried when a step has no answer, feedback and citation checks.
Does not belong here: the rules of any step (retrieval), statements (stores), tokens and transports (the callers), Dagster.

Nothing is remembered between queries but what was parsed: packs, which are served only after a lookup that says they are current,
and policies, whose rows are read every time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID, uuid5

from threadhouse.retrieval.audience import AudiencePolicy, allowed_values, lane_principal
from threadhouse.retrieval.calibration import Observation
from threadhouse.retrieval.errors import (
    CitationFormatError,
    CollectionUnknownError,
    ConfigurationError,
    PackUnknownError,
    PrincipalExpiredError,
    ProjectionError,
    QueryUnknownError,
    WrongAudienceError,
)
from threadhouse.retrieval.events import EventType, ResolutionPath, RetrievalEvent
from threadhouse.retrieval.fallback import (
    EXPLICIT_RAW,
    FoundDocumentPart,
    FoundUnit,
    ad_hoc_pack,
    fallback_of,
    gap_signals,
    search_gap,
    weak_threads,
)
from threadhouse.retrieval.models import (
    Audience,
    Collection,
    DocumentId,
    HealthStatus,
    InformationUnit,
    Json,
    Principal,
    ProductionDocument,
    TextSpan,
    ThreadId,
    UnitId,
    Vectors,
    VectorSpace,
)
from threadhouse.retrieval.pack_budget import fit_pack
from threadhouse.retrieval.pack_render import parse_citation
from threadhouse.retrieval.packs import (
    CandidateThread,
    ContextPack,
    FallbackKind,
    FallbackSignal,
)
from threadhouse.retrieval.payloads import document_version_key
from threadhouse.retrieval.ports import CandidateSearcher
from threadhouse.retrieval.query_keeping import (
    KeptQuestion,
    QuestionCause,
    QuestionKeeper,
    question_key,
)
from threadhouse.retrieval.query_text import PreparedQuery, prepare_query
from threadhouse.retrieval.ranking import ThreadFacts
from threadhouse.retrieval.resolution import (
    LexicalSignals,
    Resolution,
    ResolutionKind,
    RetrievalPolicy,
    ThreadSurroundings,
    candidate_thread_ids,
    resolve_threads,
)
from threadhouse.retrieval.search import (
    PendingSearch,
    SearchHit,
    SearchOutcome,
    ask_collections,
)
from threadhouse.serving.query_events import (
    AskedQuery,
    delivery_events,
    event_id,
    new_query_id,
    started_at,
)
from threadhouse.serving.sessions import DeliveredBefore, checked_session_id
from threadhouse.stores.knowledge import KnowledgeReader
from threadhouse.stores.leased_connections import QuestionConnection, QuestionConnections
from threadhouse.stores.live_owners import PostgresLiveOwners
from threadhouse.stores.pack_delivery import Delivery, Leak, PackDelivery
from threadhouse.stores.pack_store import BuiltPack
from threadhouse.stores.query_records import ContractBreach, KnownQuery, QueryRecords
from threadhouse.stores.question_rules import QuestionRules, ask_question_rules
from threadhouse.stores.thread_signals import (
    PostgresThreadSignals,
    QuestionWords,
    words_of_question,
)
from threadhouse.stores.vectors import generation_of
from threadhouse.stores.vectors_of_generation import CandidatesOfGeneration

DEFAULT_TOKEN_BUDGET = 24_000
"""About what a reader takes in besides its other work; a whole big thread is several times that."""

CENTROID_HITS = 20
UNIT_HITS = 30
"""Enough for evidence to come from more than one thread, few enough to read back in one short lookup."""

AD_HOC_UNITS = 10
"""Units of an answer without a thread (D11 §4.7: top-K)."""

REREADS = 3
"""Readings of found texts that a withdrawn right can overtake; what is still hidden then is a leak."""

REBUILDS = 10
"""Builds in a row that a withdrawn right can overtake before the reader is asked to come back."""

CONTENT = (Collection.INFORMATION_UNITS, Collection.PRODUCTION_DOCUMENTS)


class QueryEmbedder(Protocol):
    """As much of an embedder as questions need."""

    @property
    def space(self) -> VectorSpace:
        """The space of every vector this embedder returns."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """Embed one question; shape (1, dim)."""
        ...


class Mode(StrEnum):
    """Thread first, or a raw search (debugging, discovery)."""

    THREAD = "thread"
    RAW = "raw"


class PackSource(StrEnum):
    """Where a pack came from."""

    STORED = "stored"
    BUILT = "built"
    AD_HOC = "ad_hoc"


class Verdict(StrEnum):
    """What a consumer can say of an answer."""

    SUFFICIENT = "sufficient"
    INSUFFICIENT = "insufficient"
    WRONG_THREAD = "wrong_thread"
    NOISY = "noisy"
    MISSING_THREAD = "missing_thread"
    REJECT = "reject"


_VERDICT_EVENTS: Mapping[Verdict, EventType] = {
    Verdict.SUFFICIENT: EventType.SUFFICIENCY_VERDICT,
    Verdict.INSUFFICIENT: EventType.SUFFICIENCY_VERDICT,
    Verdict.WRONG_THREAD: EventType.WRONG_THREAD,
    Verdict.NOISY: EventType.NOISY_CONTEXT,
    Verdict.MISSING_THREAD: EventType.MISSING_THREAD_CONFIRMED,
    Verdict.REJECT: EventType.REJECTION,
}


class CitationStatus(StrEnum):
    """What a citation is, held against the pack it was taken from."""

    OK = "ok"
    OUTSIDE_PACK = "outside_pack"
    OLD_REVISION = "old_revision"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class CheckedCitation:
    """One citation and its status; ``pack_revision`` is None when the pack holds no unit of that address."""

    citation: str
    status: CitationStatus
    pack_revision: int | None = None


@dataclass(slots=True)
class Timings:
    """Milliseconds by step, in the order of the steps."""

    steps: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def of(self, step: str) -> Generator[None, None, None]:
        """Measure a step."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.steps[step] = self.steps.get(step, 0.0) + (time.perf_counter() - started) * 1000

    @property
    def total_ms(self) -> float:
        return sum(self.steps.values())


@dataclass(frozen=True, slots=True)
class Answer:
    """A delivered pack and why it is this one.

    Attributes:
        filtered: Candidates that the read-back took away, as a number only.
        stale: Why a stored pack was not served; empty when it was, or when there was none.
    """

    query_id: UUID
    pack: ContextPack
    source: PackSource
    resolution: Resolution | None
    facts: Mapping[ThreadId, ThreadFacts]
    retrieval_policy: RetrievalPolicy | None
    hits: tuple[SearchHit, ...]
    filtered: int
    stale: tuple[str, ...]
    timings: Timings


@dataclass(frozen=True, slots=True)
class _Pinned:
    """The generation of vectors that one query is asked of from beginning to end, and the embedder of its space.

    The aliases may be switched in between: a question that was embedded by one model is never held against vectors of another.
    """

    searcher: CandidateSearcher
    embedder: QueryEmbedder

    @property
    def space_id(self) -> str:
        return self.embedder.space.space_id


@dataclass(frozen=True, slots=True)
class _Asking:
    """One query before its rules are known."""

    pinned: _Pinned
    asked: AskedQuery
    prepared: PreparedQuery
    principal: Principal
    token_budget: int | None = None
    timings: Timings = field(default_factory=Timings)


@dataclass(frozen=True, slots=True)
class _Question:
    """Everything that the steps of one query share."""

    pinned: _Pinned
    asked: AskedQuery
    prepared: PreparedQuery
    principal: Principal
    rules: QuestionRules
    words: QuestionWords
    token_budget: int | None
    timings: Timings

    @property
    def policy(self) -> AudiencePolicy:
        return self.rules.audience


@dataclass(slots=True)
class _Found:
    """What resolution and search gave; ``resolution`` is None when no thread was asked for."""

    search: SearchOutcome
    resolution: Resolution | None = None
    facts: Mapping[ThreadId, ThreadFacts] = field(default_factory=dict[ThreadId, ThreadFacts])
    filtered: int = 0


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was seen of one question."""

    lexical: LexicalSignals
    centroids: SearchOutcome
    search: SearchOutcome
    unit_hits: tuple[SearchHit, ...]
    around: ThreadSurroundings


class RetrievalService:
    """Answers questions. Threads may share one service."""

    def __init__(
        self,
        *,
        connections: QuestionConnections,
        searcher: CandidateSearcher,
        embedder: QueryEmbedder,
        signals: PostgresThreadSignals,
        retrieval_policy: RetrievalPolicy | None = None,
        rerank_enabled: bool = True,
        delivery: PackDelivery | None = None,
        keeper: QuestionKeeper | None = None,
        other_embedders: Callable[[str], QueryEmbedder] | None = None,
    ) -> None:
        """``other_embedders`` gives the embedder of a space when the collections are of another one than ``embedder``'s.

        ``retrieval_policy`` stands for the one in force, to try numbers out; ``delivery`` for one that delivers.

        ``keeper`` says what is kept of a question; without one events keep its words and no key, and gaps a plain hash.
        """
        self._connections = connections
        self._searcher = searcher
        self._embedder = embedder
        self._signals = signals
        self._retrieval_policy = retrieval_policy
        self._rerank_enabled = rerank_enabled
        self._live = PostgresLiveOwners(connections)
        self._delivery = delivery or PackDelivery(connections)
        self._records = QueryRecords(connections)
        self._keeper = keeper
        self._other_embedders = other_embedders

    @property
    def space_id(self) -> str:
        """The vector space that a question of this moment is embedded in."""
        return self._pin().space_id

    def _pin(self) -> _Pinned:
        """What the aliases mean at this moment, and the embedder of its space.

        Raises:
            ModelUnavailableError: The collections are of a model that this process cannot open.
            SpaceMismatchError: They are of another model than the settings name, and none that was migrated to.
        """
        aliases = self._searcher.aliases()
        names = {str(each): aliases[each] for each in Collection if each in aliases}
        embedder, physical = self._embedder, names.get(Collection.INFORMATION_UNITS)
        if physical is not None and self._other_embedders is not None:
            space_id, _ = generation_of(physical)
            if space_id != embedder.space.space_id:
                embedder = self._other_embedders(space_id)
        return _Pinned(CandidatesOfGeneration(self._searcher, names), embedder)

    def retrieve(
        self,
        query: str,
        principal: Principal,
        mode: Mode = Mode.THREAD,
        *,
        session_id: str | None = None,
        token_budget: int | None = DEFAULT_TOKEN_BUDGET,
        query_id: UUID | None = None,
    ) -> ContextPack:
        """The context pack that answers ``query`` for ``principal``; see `answer`."""
        return self.answer(
            query,
            principal,
            mode,
            session_id=session_id,
            token_budget=token_budget,
            query_id=query_id,
        ).pack

    def answer(
        self,
        query: str,
        principal: Principal,
        mode: Mode = Mode.THREAD,
        *,
        session_id: str | None = None,
        token_budget: int | None = DEFAULT_TOKEN_BUDGET,
        query_id: UUID | None = None,
        thread_id: ThreadId | None = None,
        limit: int = AD_HOC_UNITS,
    ) -> Answer:
        """The context pack that answers ``query`` for ``principal``, and why it is this one.

        Args:
            mode: RAW searches without asking for threads.
            thread_id: The thread whose pack is wanted, whatever the question says; one that the reader does not see is as if it
                had not been named. THREAD only.
            limit: Units at most, 1 to AD_HOC_UNITS. RAW only.
            session_id: Joins the queries of one consumer; a raw search after a pack then counts as an extra search.
            token_budget: Estimated tokens of the pack; None delivers it whole.
            query_id: A UUIDv7 that `new_query_id` gave; trying again under it counts nothing twice.

        Raises:
            EmptyTextError: There is no question.
            QueryTooLongError: It is longer than a question can be.
            PrincipalExpiredError: The principal's time is over.
            WrongAudienceError: The last check stopped something that the principal may not see; it was reported.
            CollectionUnknownError: The nightly job never ran here.
        """
        timings = Timings()
        _require_unexpired(principal)
        session_id = checked_session_id(session_id)
        if token_budget is not None and token_budget < 1:
            message = "A token budget is at least 1; give another, or none for the whole pack."
            raise ConfigurationError(message)
        query_id = query_id or new_query_id()
        started_at(query_id)

        def begin() -> _Asking:
            with timings.of("embed"):
                pinned = self._pin()
                prepared = prepare_query(query, pinned.embedder.embed_query)
            asked = self._asked(query_id, prepared.text, principal, session_id)
            return _Asking(pinned, asked, prepared, principal, token_budget, timings)

        begun = begin()
        try:
            return self._answer_begun(begun, mode, thread_id, limit)
        except CollectionUnknownError:
            if self._searcher.aliases() == begun.pinned.searcher.aliases():
                raise
            # Another generation was switched to and this one dropped in the middle of the question. Nothing has left yet.
            return self._answer_begun(begin(), mode, thread_id, limit)

    def _answer_begun(
        self, begun: _Asking, mode: Mode, thread_id: ThreadId | None, limit: int
    ) -> Answer:
        principal = begun.principal
        try:
            if thread_id is not None and mode is Mode.THREAD:
                named = self._answer_named(begun, thread_id)
                if named is not None:
                    return named
            return self._answer(begun, mode, limit)
        except Leak as leak:
            self._delivery.refuse(leak, principal, begun.asked.query_id)
            message = (
                f"The answer to query {begun.asked.query_id} held something that {principal.audience} may not see; it was "
                "stopped and reported to governance. Ask again; if it is stopped again, tell whoever runs this hub."
            )
            raise WrongAudienceError(message) from None

    def _answer_named(self, begun: _Asking, thread_id: ThreadId) -> Answer | None:
        """The pack of the thread that was asked for; None when the reader does not see it."""
        principal = begun.principal
        with self._connections.question(principal.audience) as connection:
            question = self._begin(connection, begun)
            with begun.timings.of("surroundings"):
                # Before anything is built: else the time would tell a hidden thread from one that is not there.
                around = self._signals.surroundings([], [thread_id], principal, question.policy)
            if thread_id not in around.facts:
                return None
            with begun.timings.of("search"):
                search = self._search(question, CONTENT, UNIT_HITS)
            found = _Found(search, facts=around.facts, filtered=search.filtered)
            answer, stale = self._answer_stored(question, found, thread_id)
            if answer is not None:
                return answer
        return self._answer_from(question, found, thread_id, stale)

    def _answer(self, begun: _Asking, mode: Mode, limit: int) -> Answer:
        # Nothing has left before this transaction is committed.
        with self._connections.question(begun.principal.audience) as connection:
            question = self._begin(connection, begun)
            if mode is Mode.RAW:
                with begun.timings.of("search"):
                    search = self._search(question, CONTENT, limit)
                return self._answer_ad_hoc(
                    question, _Found(search, filtered=search.filtered), EXPLICIT_RAW
                )
            found, resolution = self._resolve(question)
            signal = fallback_of(resolution, found.facts, question.rules.retrieval)
            if signal is not None:
                return self._answer_ad_hoc(question, found, signal)
            # The first candidate's stored pack is what most questions get.
            answer, stale = self._answer_stored(question, found, resolution.candidates[0].thread_id)
            if answer is not None:
                return answer
        return self._answer_built(question, found, resolution, stale)

    def _begin(self, connection: QuestionConnection, begun: _Asking) -> _Question:
        with begun.timings.of("rules"):
            asked = ask_question_rules(connection, begun.pinned.space_id, begun.principal)
            # Postgres reads the policies meanwhile.
            words = words_of_question(begun.prepared.text)
            rules = asked()
            if self._retrieval_policy is not None:
                rules = replace(rules, retrieval=self._retrieval_policy)
        return _Question(
            begun.pinned,
            begun.asked,
            begun.prepared,
            begun.principal,
            rules,
            words,
            begun.token_budget,
            begun.timings,
        )

    def observe(
        self, query_id: str, text: str, right: AbstractSet[ThreadId], principal: Principal
    ) -> Observation:
        """What resolution would decide from, for calibration. Nothing is answered and nothing counted.

        Args:
            query_id: The judgement's own name for the query.
            right: Threads that answer it; empty when none does.
        """
        _require_unexpired(principal)
        pinned = self._pin()
        prepared = prepare_query(text, pinned.embedder.embed_query)
        asked = self._asked(new_query_id(), prepared.text, principal, None)
        with self._connections.question(principal.audience) as connection:
            seen = self._look(self._begin(connection, _Asking(pinned, asked, prepared, principal)))
        return Observation(
            query_id=query_id,
            query=prepared,
            right=frozenset(right),
            lexical=seen.lexical,
            centroid_hits=seen.centroids.hits,
            unit_hits=seen.unit_hits,
            memberships=seen.around.memberships,
            facts=seen.around.facts,
        )

    def feedback(
        self,
        query_id: UUID,
        verdict: Verdict,
        principal: Principal,
        *,
        thread_id: str | None = None,
        unit_address: str | None = None,
        feedback_id: UUID | None = None,
    ) -> UUID:
        """Say what an answer was worth; returns the id of the event.

        Args:
            thread_id: The thread that is meant, one that the answer named; by default the one that answered.
            unit_address: The unit of the pack that was noise; the verdict is then `Verdict.NOISY`.
            feedback_id: A UUIDv7 that `new_query_id` gave; the same one again is the same feedback.

        Raises:
            QueryUnknownError: No query of this audience has the id.
            ConfigurationError: The answer did not name the thread or the unit, a rejection names no thread and none answered, or
                a unit is named for another verdict.
        """
        _require_unexpired(principal)
        known = self._records.query(query_id, principal.audience)
        if known is None:
            message = f"There is no query {query_id} of {principal.audience}; use the query_id that the answer carried."
            raise QueryUnknownError(message)
        if thread_id is not None and thread_id not in known.pointed_to:
            # Of a thread that it was not shown a reader can say nothing, and nothing is said of whether there is one.
            message = f"The answer to query {query_id} named no thread {thread_id}; use an id that it named."
            raise ConfigurationError(message)
        thread_id = thread_id or known.thread_id
        if verdict is Verdict.REJECT and thread_id is None:
            message = (
                f"Query {query_id} was not answered by a thread; name the thread that is rejected."
            )
            raise ConfigurationError(message)
        if unit_address is not None:
            self._require_delivered(known, unit_address, verdict)
        feedback_id = feedback_id or new_query_id()
        kind = EventType.NOISY_UNIT if unit_address is not None else _VERDICT_EVENTS[verdict]
        details: dict[str, Json] = {}
        if kind is EventType.SUFFICIENCY_VERDICT:
            details["sufficient"] = verdict is Verdict.SUFFICIENT
        event = RetrievalEvent(
            event_id=event_id(feedback_id, kind),
            occurred_at=started_at(feedback_id),
            type=kind,
            query_id=query_id,
            session_id=known.session_id,
            lane=known.lane,
            thread_id=thread_id,
            unit_address=unit_address,
            details={**details},
        )
        # Nothing good was found, says the one who had to read it.
        is_gap = verdict is Verdict.INSUFFICIENT and known.resolution_path in {
            ResolutionPath.FALLBACK,
            ResolutionPath.NONE,
        }
        gaps = (
            [search_gap(self._cause(known.lane, known.query_text), known.lane, query_id)]
            if is_gap and known.query_text
            else []
        )
        self._records.write(event, gaps=gaps, principal=principal)
        return event.event_id

    def _require_delivered(self, known: KnownQuery, unit_address: str, verdict: Verdict) -> None:
        """Of a unit that it was not given a reader can say nothing, and nothing is said of whether there is one."""
        if verdict is not Verdict.NOISY:
            message = f"A unit can be noisy and not {verdict}; leave the unit out."
            raise ConfigurationError(message)
        revisions = known.pack_id and self._records.delivered_revisions(known.pack_id, known.lane)
        if not revisions or unit_address not in revisions:
            message = f"The answer to query {known.query_id} held no unit {unit_address}; use an address that its pack named."
            raise ConfigurationError(message)

    def _asked(
        self, query_id: UUID, text: str, principal: Principal, session_id: str | None
    ) -> AskedQuery:
        lane = principal.audience
        kept = self._keeper.keep(lane, text) if self._keeper else KeptQuestion(text, None)
        return AskedQuery(query_id, self._cause(lane, text), lane, session_id, kept)

    def _cause(self, lane: Audience, text: str) -> QuestionCause:
        keeper = self._keeper
        return keeper.cause(lane, text) if keeper else QuestionCause(question_key(lane, text))

    def check_citations(
        self,
        pack_id: UUID,
        citations: Sequence[str],
        principal: Principal,
        *,
        query_id: UUID | None = None,
        session_id: str | None = None,
        check_id: UUID | None = None,
    ) -> tuple[CheckedCitation, ...]:
        """Hold citations against the pack they were taken from; those that break the contract are written down.

        Raises:
            PackUnknownError: No pack with this id was delivered to this audience.
        """
        _require_unexpired(principal)
        session_id = checked_session_id(session_id)
        revisions = self._records.delivered_revisions(pack_id, principal.audience)
        if revisions is None:
            message = f"No pack {pack_id} was delivered to {principal.audience}; use the pack_id of the pack that was read."
            raise PackUnknownError(message)
        checked = tuple(_check_citation(text, revisions) for text in citations)
        check_id = check_id or new_query_id()
        broken = [each for each in checked if each.status is not CitationStatus.OK]
        breaches = [
            ContractBreach(
                uuid5(check_id, str(number)),
                f"citation_{each.status}",
                {"citation": each.citation[:_CITATION_CHARS], "pack_revision": each.pack_revision},
            )
            for number, each in enumerate(broken)
        ]
        event = RetrievalEvent(
            event_id=event_id(check_id, EventType.CITATION_CHECK),
            occurred_at=started_at(check_id),
            type=EventType.CITATION_CHECK,
            query_id=query_id,
            session_id=session_id,
            lane=principal.audience,
            details={
                "pack_id": str(pack_id),
                "citations": len(checked),
                **{
                    str(status): sum(each.status is status for each in checked)
                    for status in CitationStatus
                },
            },
        )
        self._records.write(event, breaches=breaches, principal=principal, pack_id=pack_id)
        return checked

    def _answer_built(
        self,
        question: _Question,
        found: _Found,
        resolution: Resolution,
        stale_first: tuple[str, ...],
    ) -> Answer:
        """The pack of the first candidate that the reader sees something of, built now; transactions of their own."""
        for number, candidate in enumerate(resolution.candidates):
            stale = stale_first
            if number:
                with self._connections.question(question.principal.audience):
                    answer, stale = self._answer_stored(question, found, candidate.thread_id)
                if answer is not None:
                    return answer
            answer = self._answer_from(question, found, candidate.thread_id, stale)
            if answer is not None:
                return answer
            if resolution.kind is ResolutionKind.SINGLE:
                break
        # The reader lost sight of the thread between resolution and delivery.
        gone = FallbackSignal(
            kind=FallbackKind.MISSING_THREAD,
            reason="no thread reached the threshold",
            threshold=resolution.threshold,
        )
        with self._connections.question(question.principal.audience):
            return self._answer_ad_hoc(question, found, gone)

    def _resolve(self, question: _Question) -> tuple[_Found, Resolution]:
        seen = self._look(question)
        with question.timings.of("resolve"):
            resolution = resolve_threads(
                question.prepared,
                seen.lexical,
                seen.centroids.hits,
                seen.unit_hits,
                seen.around.memberships,
                seen.around.facts,
                question.rules.retrieval,
                now=datetime.now(UTC),
            )
        filtered = seen.centroids.filtered + seen.search.filtered
        return _Found(seen.search, resolution, seen.around.facts, filtered), resolution

    def _look(self, question: _Question) -> _Seen:
        """Everything that resolution decides from."""
        principal, policy, timings = question.principal, question.policy, question.timings
        with self._connections() as connection:
            # Postgres looks words, owners and surroundings up while this process searches vectors and ranks what it found.
            with timings.of("words"):
                words = self._signals.ask_lexical(connection, question.words, principal, policy)
            with timings.of("search"):
                # Content first: reading it back takes longest, and goes on during all that follows.
                asked_search = self._ask(question, CONTENT, UNIT_HITS)
                asked_centroids = self._ask(question, (Collection.THREAD_CENTROIDS,), CENTROID_HITS)
                expected, near = asked_search.expected(), asked_centroids.expected()
            with timings.of("words"):
                lexical = words()
            with timings.of("surroundings"):
                about = _asked_about(expected, lexical, near)
                around = self._signals.ask_surroundings(connection, *about, principal, policy)
            with timings.of("search"):
                search, centroids = asked_search(), asked_centroids()
            with timings.of("surroundings"):
                found_about = _asked_about(search.hits, lexical, centroids.hits)
                if found_about != about:
                    # Something was taken away: what was asked about it is not even read.
                    around = self._signals.ask_surroundings(
                        connection, *found_about, principal, policy
                    )
                surroundings = around()
        return _Seen(lexical, centroids, search, _units_of(search.hits), surroundings)

    def _search(
        self, question: _Question, collections: Sequence[Collection], limit: int
    ) -> SearchOutcome:
        return self._ask(question, collections, limit)()

    def _ask(
        self, question: _Question, collections: Sequence[Collection], limit: int
    ) -> PendingSearch:
        return ask_collections(
            question.prepared,
            question.principal,
            collections,
            policy=question.policy,
            searcher=question.pinned.searcher,
            live=self._live,
            limit=limit,
            one_per="owner",
            rerank_enabled=self._rerank_enabled,
        )

    def _answer_stored(
        self, question: _Question, found: _Found, thread_id: ThreadId
    ) -> tuple[Answer | None, tuple[str, ...]]:
        """The lane's stored pack when it is fresh and this reader's too, else why not."""
        principal, policy = question.principal, question.policy
        if not _sees_what_the_lane_sees(principal, policy):
            return None, ()
        events: list[RetrievalEvent] = []

        def shape(pack: ContextPack) -> ContextPack:
            shaped = _shaped(question, found, pack)
            events[:] = _events_of(question, found, shaped, PackSource.STORED)
            return shaped

        with question.timings.of("pack"), self._delivery.begin() as out:
            pack, stale = out.stored_pack(
                thread_id, principal, policy, question.pinned.space_id, shape
            )
            if pack is None:
                return None, stale
            return self._leave(out, question, found, pack, PackSource.STORED, events=events), ()

    def _answer_from(
        self,
        question: _Question,
        found: _Found,
        thread_id: ThreadId,
        stale: tuple[str, ...],
    ) -> Answer | None:
        """The pack of one thread, built now; None when the reader sees nothing of it."""
        principal = question.principal
        for _ in range(REBUILDS):
            with question.timings.of("build"):
                built = self._delivery.build(thread_id, principal, question.pinned.space_id)
            if built.pack is None:
                return None
            with question.timings.of("pack"), self._delivery.begin() as out:
                if not out.confirm(built.pack, principal, built.policy):
                    continue
                shaped = _shaped(question, found, built.pack)
                answer = self._leave(out, question, found, shaped, PackSource.BUILT, stale)
            if _sees_what_the_lane_sees(principal, built.policy):
                self._delivery.keep(BuiltPack(built.pack, built.build_ms))
            return answer
        message = f"Thread {thread_id} changes faster than it can be read; ask again in a moment."
        raise ProjectionError(message)

    def _answer_ad_hoc(self, question: _Question, found: _Found, signal: FallbackSignal) -> Answer:
        principal, policy = question.principal, question.policy
        readings = 0
        with self._delivery.begin() as out, question.timings.of("pack"):
            while True:
                out.read_as(principal)
                parts = _read_found(out.knowledge, found.search.hits[:AD_HOC_UNITS])
                pack = ad_hoc_pack(parts, principal, policy, question.pinned.space_id, signal)
                hidden = out.hidden_in(pack, principal, policy)
                if not hidden:
                    shaped = _shaped(question, found, pack)
                    return self._leave(out, question, found, shaped, PackSource.AD_HOC)
                # Taken away or removed since it was read: another reading does not hold it.
                readings += 1
                if readings == REREADS:
                    raise Leak(pack, hidden)

    def _leave(
        self,
        out: Delivery,
        question: _Question,
        found: _Found,
        pack: ContextPack,
        source: PackSource,
        stale: tuple[str, ...] = (),
        *,
        events: Sequence[RetrievalEvent] = (),
    ) -> Answer:
        """Write down that a shaped pack leaves. It has left when the transaction commits.

        Args:
            events: Of this very delivery, when they were made before.
        """
        asked, resolution = question.asked, found.resolution
        signal = pack.fallback_signal
        if not events:
            before: DeliveredBefore | None = None
            if signal is not None and signal.kind is FallbackKind.EXPLICIT_RAW and asked.session_id:
                last = out.last_delivered(asked.session_id, asked.lane)
                before = None if last is None else DeliveredBefore(*last)
            events = _events_of(question, found, pack, source, stale, before)
        weak: Mapping[ThreadId, HealthStatus] = {}
        if (
            signal is not None
            and signal.kind is FallbackKind.WEAK_THREAD
            and resolution is not None
        ):
            weak = weak_threads(resolution, found.facts, question.rules.retrieval)
        gaps = gap_signals(asked.cause, asked.lane, pack, weak, asked.query_id) if signal else ()
        out.write(events, pack, gaps)
        return Answer(
            query_id=asked.query_id,
            pack=pack,
            source=source,
            resolution=resolution,
            facts=found.facts,
            retrieval_policy=None if resolution is None else question.rules.retrieval,
            hits=found.search.hits,
            filtered=found.filtered,
            stale=stale,
            timings=question.timings,
        )


def _units_of(hits: Sequence[SearchHit]) -> tuple[SearchHit, ...]:
    return tuple(hit for hit in hits if hit.collection is Collection.INFORMATION_UNITS)


def _asked_about(
    hits: Sequence[SearchHit], lexical: LexicalSignals, centroid_hits: Sequence[SearchHit]
) -> tuple[list[UnitId], list[ThreadId]]:
    """Units and threads that the surroundings are asked of, each in order of id."""
    units = sorted({UnitId(hit.owner_id) for hit in _units_of(hits)})
    return units, candidate_thread_ids(lexical, centroid_hits)


def _events_of(
    question: _Question,
    found: _Found,
    pack: ContextPack,
    source: PackSource,
    stale: tuple[str, ...] = (),
    before: DeliveredBefore | None = None,
) -> list[RetrievalEvent]:
    details: dict[str, Json] = {
        "pack_source": source,
        "stale": list(stale),
        "language": question.prepared.language,
        "filtered": found.filtered,
    }
    return delivery_events(question.asked, pack, question.timings.total_ms, details, before)


def _shaped(question: _Question, found: _Found, pack: ContextPack) -> ContextPack:
    """What of a pack answers this question."""
    resolution = found.resolution
    if resolution is not None and resolution.kind is ResolutionKind.CANDIDATES and pack.thread_id:
        pack = pack.model_copy(
            update={"candidate_threads": _candidates(resolution, found.facts, pack)}
        )
    if question.token_budget is not None:
        pack = fit_pack(pack, question.token_budget, [h.owner_id for h in found.search.hits])
    return pack


def _read_found(
    knowledge: KnowledgeReader, hits: Sequence[SearchHit]
) -> list[FoundUnit | FoundDocumentPart]:
    """The texts of hits as they are now, in their order; what is gone or was cut from another revision is left out."""
    unit_ids = [UnitId(h.owner_id) for h in hits if h.collection is Collection.INFORMATION_UNITS]
    document_ids = [
        DocumentId(h.owner_id) for h in hits if h.collection is Collection.PRODUCTION_DOCUMENTS
    ]
    units = {
        unit.logical_unit_id: unit
        for unit in (knowledge.visible_units(unit_ids) if unit_ids else ())
        if isinstance(unit, InformationUnit)
    }
    documents = {
        document.document_id: document
        for document in (knowledge.visible_documents(document_ids) if document_ids else ())
        if isinstance(document, ProductionDocument)
    }
    parts: list[FoundUnit | FoundDocumentPart] = []
    for hit in hits:
        unit = units.get(UnitId(hit.owner_id))
        document = documents.get(hit.document_id)
        if hit.collection is Collection.INFORMATION_UNITS and unit is not None:
            parts.append(FoundUnit(unit, hit.score))
        elif hit.collection is Collection.PRODUCTION_DOCUMENTS and document is not None:
            live = document_version_key(document.document_id, document.revision)
            if hit.version_key == live and not document.has_units:
                text = document.body[hit.char_start : hit.char_end]
                span = TextSpan(text, hit.char_start, hit.char_end)
                parts.append(FoundDocumentPart(document, span, hit.score))
    return parts


_CITATION_CHARS = 500
"""Of a citation that breaks the contract; some are whole paragraphs."""


def _require_unexpired(principal: Principal) -> None:
    if principal.expires_at is not None and principal.expires_at <= datetime.now(UTC):
        message = f"The principal {principal.subject} expired at {principal.expires_at.isoformat()}; get a new token."
        raise PrincipalExpiredError(message)


def _sees_what_the_lane_sees(principal: Principal, policy: AudiencePolicy) -> bool:
    """Whether the lane's stored packs are this principal's too; more permissions mean a pack of its own, never stored."""
    lane = lane_principal(principal.audience)
    return allowed_values(principal, policy) == allowed_values(lane, policy)


def _candidates(
    resolution: Resolution, facts: Mapping[ThreadId, ThreadFacts], pack: ContextPack
) -> tuple[CandidateThread, ...]:
    """Every candidate that the reader sees, the pack's own first."""
    ordered = sorted(resolution.candidates, key=lambda each: each.thread_id != pack.thread_id)
    return tuple(
        CandidateThread(
            thread_id=each.thread_id,
            thread_title=facts[each.thread_id].title,
            canonical_address=facts[each.thread_id].canonical_address,
            score=min(max(each.score, 0.0), 1.0),
        )
        for each in ordered
        if each.thread_id in facts
    )


def _check_citation(text: str, revisions: Mapping[str, int]) -> CheckedCitation:
    try:
        cited = parse_citation(text)
    except CitationFormatError:
        return CheckedCitation(text, CitationStatus.MALFORMED)
    revision = revisions.get(cited.canonical_address)
    if revision == cited.revision:
        return CheckedCitation(text, CitationStatus.OK, revision)
    if revision is not None and cited.revision < revision:
        return CheckedCitation(text, CitationStatus.OLD_REVISION, revision)
    return CheckedCitation(text, CitationStatus.OUTSIDE_PACK, revision)
