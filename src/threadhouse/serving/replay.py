"""The query path asked by the pipeline itself: recent questions before something is published, questions of gaps after a fix.

Belongs here: which state a replay sees, asking it as each lane, what is done with what came out.
Does not belong here: what is a loss (retrieval.replay), the sample and the tables (stores.replay), when it runs (assets).

Every question is a rehearsal, see `threadhouse.stores.rehearsed_delivery`: nothing is delivered and nothing counted.

New vectors can be asked before any reader gets them, because they already lie beside the old ones in the published copies, and
only a pointer in Postgres says which of them count. So the pointers are moved in a transaction that is thrown away, and the whole
service runs inside it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.errors import (
    CollectionUnknownError,
    ReplayLossError,
    WrongAudienceError,
)
from threadhouse.retrieval.events import ResolutionPath
from threadhouse.retrieval.fallback import LEGACY_UNIT_KIND
from threadhouse.retrieval.gap_signals import GapKind, ReplayResult
from threadhouse.retrieval.models import Audience, Collection, Json, ThreadId, UnitId
from threadhouse.retrieval.ports import VectorSearcher
from threadhouse.retrieval.question_clusters import CandidateUnit
from threadhouse.retrieval.replay import (
    BY_THREAD,
    MIN_LOSSES,
    GapReplayReport,
    PublishedReplay,
    ReplayAnswer,
    ReplayQuestion,
    ReplayVerdict,
    judge_replay,
)
from threadhouse.serving.query_events import resolution_path
from threadhouse.serving.retrieval_service import Answer, Mode, QueryEmbedder, RetrievalService
from threadhouse.stores.discarded_transaction import discarded_transaction
from threadhouse.stores.gap_replays import GapQuestion, due_gap_questions, settle_gap
from threadhouse.stores.judged_queries import JudgedQuery
from threadhouse.stores.leased_connections import LeasedConnections, QuestionConnections
from threadhouse.stores.live_owners import Connections
from threadhouse.stores.postgres import Database
from threadhouse.stores.query_secret import open_question_keeper
from threadhouse.stores.rehearsed_delivery import RehearsedDelivery
from threadhouse.stores.replay import (
    ReplayDecision,
    ReplayStage,
    baseline_answers,
    baseline_digest,
    promote_replay,
    recent_questions,
    state_digest,
    threads_in_sight,
    write_replay,
)
from threadhouse.stores.settings import Settings
from threadhouse.stores.thread_signals import PostgresThreadSignals
from threadhouse.stores.vectors import open_reader
from threadhouse.stores.vectors_of_generation import SearcherOfGeneration

REPLAY_CONNECTIONS = 2
"""Questions are asked one after the other; a build takes a second connection."""

UNITS_PER_QUESTION = 10
"""Units that a search names for one question of a proposal: what a reader got instead of a thread."""


def replay_before_switch(
    settings: Settings,
    database: Database,
    embedder: QueryEmbedder,
    move_pointers: Callable[[Database], None],
    *,
    accept_losses: bool,
) -> None:
    """Ask recent questions of what is about to be switched to; none when REPLAY_QUESTIONS is 0.

    Args:
        move_pointers: Does to the database that it is given what the switch will do.
        accept_losses: Go on whatever is lost.

    Raises:
        ReplayLossError: Too many would lose their answer; nothing was switched.
    """
    if settings.replay_questions == 0:
        return
    started, keeper = time.monotonic(), open_question_keeper(settings)
    with _open_searcher(settings) as searcher, discarded_transaction(database) as inside:
        with inside.connect() as connection:
            questions = recent_questions(
                connection, keeper, datetime.now(UTC), settings.replay_questions
            )
            old = baseline_answers(connection, [each.question_key for each in questions])
        if not questions or not _is_published(searcher):
            return
        service = _service(settings, embedder, searcher, inside.connections, database)
        # What was never replayed has no answer on record, but still has one.
        old |= _ask_all(service, (each for each in questions if each.question_key not in old))
        move_pointers(inside)
        new = _ask_all(service, questions)
        gone = _gone(inside.connections, questions, old)
        with inside.connect() as connection:
            digest = state_digest(connection, settings, embedder.space.space_id)
    verdict = judge_replay(questions, old, new, settings.replay_loss_share, gone)
    decision = _decide(verdict, accept_losses=accept_losses)
    with database.connect() as connection:
        write_replay(
            connection,
            verdict,
            stage=ReplayStage.SWITCH,
            decision=decision,
            is_baseline=False,
            digest=digest,
            seconds=time.monotonic() - started,
        )
    if decision is ReplayDecision.STOPPED:
        raise ReplayLossError(verdict.sentence())


def replay_published(
    settings: Settings, database: Database, embedder: QueryEmbedder, *, accept_losses: bool
) -> PublishedReplay:
    """Ask recent questions of what readers have now, unless that is what was asked the last time.

    What is not stopped is what later replays are held against.
    """
    started = time.monotonic()
    if settings.replay_questions == 0:
        return PublishedReplay(None, why_not="REPLAY_QUESTIONS is 0")
    keeper = open_question_keeper(settings)
    with database.connect() as connection:
        digest = state_digest(connection, settings, embedder.space.space_id)
        if digest == baseline_digest(connection):
            return PublishedReplay(None, why_not="nothing changed since the last replay")
        if promote_replay(connection, digest):
            return PublishedReplay(None, why_not="this state was replayed before the switch to it")
        questions = recent_questions(
            connection, keeper, datetime.now(UTC), settings.replay_questions
        )
        old = baseline_answers(connection, [each.question_key for each in questions])
    if not questions:
        return PublishedReplay(
            None, why_not="no question of the last four weeks is kept with its text"
        )
    with _rehearsing(settings, database, embedder) as service:
        if service is None:
            return PublishedReplay(None, why_not="nothing is published yet")
        new = _ask_all(service, questions)
    gone = _gone(database.connect, questions, old)
    verdict = judge_replay(questions, old, new, settings.replay_loss_share, gone)
    decision = _decide(verdict, accept_losses=accept_losses)
    is_stopped = decision is ReplayDecision.STOPPED
    with database.connect() as connection:
        write_replay(
            connection,
            verdict,
            stage=ReplayStage.PACKS,
            decision=decision,
            is_baseline=not is_stopped,
            digest=digest,
            seconds=time.monotonic() - started,
        )
    return PublishedReplay(verdict, is_stopped)


@dataclass(frozen=True, slots=True)
class GenerationReplay:
    """What questions say of a generation before it is switched to.

    ``judged_at_risk`` are judged queries that the generation in force answers by a right thread; ``judged_lost`` those of them
    that the new one does not.
    """

    verdict: ReplayVerdict
    judged: int = 0
    judged_right: int = 0
    judged_at_risk: int = 0
    judged_lost: int = 0

    @property
    def is_too_much(self) -> bool:
        """Whether somebody has to be asked before this goes on."""
        limit = self.verdict.loss_share_limit
        loses_judged = (
            self.judged_lost >= MIN_LOSSES and self.judged_lost > limit * self.judged_at_risk
        )
        return self.verdict.is_too_much or loses_judged

    def sentence(self) -> str:
        """What was lost, without naming a question."""
        return (
            f"{self.verdict.lost} of {self.verdict.at_risk} recent questions and {self.judged_lost} of {self.judged_at_risk} "
            f"judged ones would lose the answer they have; more than {self.verdict.loss_share_limit:.0%} stops the switch. "
            "Look at them with threadhouse replay show; threadhouse migrate-model switch --accept-losses switches all the same."
        )

    def to_json(self) -> dict[str, Json]:
        """For a program."""
        return {
            "questions": len(self.verdict.outcomes),
            "changed": self.verdict.changed,
            "at_risk": self.verdict.at_risk,
            "lost": self.verdict.lost,
            "judged": self.judged,
            "judged_right": self.judged_right,
            "judged_at_risk": self.judged_at_risk,
            "judged_lost": self.judged_lost,
            "loss_share_limit": self.verdict.loss_share_limit,
        }


def replay_generation(
    settings: Settings,
    database: Database,
    in_force: QueryEmbedder | None,
    new: QueryEmbedder,
    names: Mapping[str, str],
    judged: Sequence[JudgedQuery] = (),
    *,
    accept_losses: bool,
) -> GenerationReplay:
    """Ask recent and judged questions of the generation in force and of the one that is about to be switched to.

    Args:
        in_force: Of the space in force; without it, because its model is gone, only answers on record are held against.
        new: Of the space of the generation.
        names: Its physical by public names.
        judged: Asked as an AI agent without permissions of its own.
        accept_losses: Only noted with the result; who calls decides.
    """
    started, keeper = time.monotonic(), open_question_keeper(settings)
    with database.connect() as connection:
        questions = recent_questions(
            connection, keeper, datetime.now(UTC), settings.replay_questions
        )
        old = baseline_answers(connection, [each.question_key for each in questions])
        digest = state_digest(connection, settings, new.space.space_id)
    with (
        _open_searcher(settings) as searcher,
        LeasedConnections(database, max_size=REPLAY_CONNECTIONS) as connections,
    ):
        right_before: set[str] | None = None
        if in_force is not None:
            service = _service(settings, in_force, searcher, connections, database)
            # Asked now and not taken from the record, so that nothing but the generation differs.
            old = _ask_all(service, questions)
            right_before = _rightly_answered(service, judged)
        generation = SearcherOfGeneration(searcher, names)
        service = _service(settings, new, generation, connections, database)
        answers = _ask_all(service, questions)
        right_now = _rightly_answered(service, judged)
    gone = _gone(database.connect, questions, old)
    verdict = judge_replay(questions, old, answers, settings.replay_loss_share, gone)
    lost = right_before - right_now if right_before is not None else set[str]()
    found = GenerationReplay(
        verdict, len(judged), len(right_now), len(right_before or ()), len(lost)
    )
    if questions:
        stopped = ReplayDecision.ACCEPTED if accept_losses else ReplayDecision.STOPPED
        with database.connect() as connection:
            write_replay(
                connection,
                verdict,
                stage=ReplayStage.SWITCH,
                decision=stopped if found.is_too_much else ReplayDecision.PASSED,
                is_baseline=False,
                digest=digest,
                seconds=time.monotonic() - started,
            )
    return found


def _rightly_answered(service: RetrievalService, judged: Sequence[JudgedQuery]) -> set[str]:
    """Judged queries that were answered by a thread that is right."""
    return {
        each.query_id
        for each in judged
        if _ask(service, each.text, Audience.AI_AGENT).thread_id in each.right
    }


def replay_gaps(settings: Settings, database: Database, embedder: QueryEmbedder) -> GapReplayReport:
    """Ask the questions of gaps again that somebody called fixed, or that what is published now may answer."""
    with database.connect() as connection:
        digest = state_digest(connection, settings, embedder.space.space_id)
        due = due_gap_questions(connection, digest)
    if not due.questions:
        return GapReplayReport(without_text=due.without_text)
    counts = {"closed": 0, "reopened": 0, "unchanged": 0}
    with _rehearsing(settings, database, embedder) as service:
        if service is None:
            return GapReplayReport(without_text=due.without_text)
        for question in due.questions:
            answer = _ask(service, question.text, question.lane)
            with database.connect() as connection:
                counts[settle_gap(connection, question, _result_of(question, answer, digest))] += 1
    return GapReplayReport(**counts, without_text=due.without_text)


def find_candidate_units(
    settings: Settings,
    database: Database,
    embedder: QueryEmbedder,
    lane: Audience,
    texts: Sequence[str],
) -> list[CandidateUnit]:
    """Units that a search finds for the questions as their lane, those first that more of them found and found earlier."""
    found: dict[UnitId, CandidateUnit] = {}
    with _rehearsing(settings, database, embedder) as service:
        if service is None:
            return []
        for text in texts:
            try:
                pack = service.answer(
                    text,
                    lane_principal(lane),
                    Mode.RAW,
                    token_budget=None,
                    limit=UNITS_PER_QUESTION,
                ).pack
            except WrongAudienceError:
                continue  # It was reported; a proposal can do without.
            by_address = {unit.canonical_address: unit for unit in pack.units()}
            for place, address in enumerate(pack.recommended_reading_order):
                unit = by_address[address]
                if unit.unit_kind == LEGACY_UNIT_KIND:
                    continue
                known = found.get(UnitId(unit.logical_unit_id))
                found[UnitId(unit.logical_unit_id)] = CandidateUnit(
                    unit_id=UnitId(unit.logical_unit_id),
                    title=unit.title,
                    language=unit.language,
                    # Reciprocal ranks: to be first for one question is worth more than to be tenth for three.
                    score=(known.score if known else 0.0) + 1 / (place + 1),
                    first_for=(known.first_for if known else 0) + (place == 0),
                )
    return sorted(found.values(), key=lambda each: (-each.score, each.unit_id))


def _decide(verdict: ReplayVerdict, *, accept_losses: bool) -> ReplayDecision:
    if not verdict.is_too_much:
        return ReplayDecision.PASSED
    return ReplayDecision.ACCEPTED if accept_losses else ReplayDecision.STOPPED


def _result_of(question: GapQuestion, answer: ReplayAnswer, digest: str) -> ReplayResult:
    by_thread = answer.path in BY_THREAD
    # Nothing was found then: whatever is found now closes that. Else the search was not enough then and is not now.
    nothing_was_found = question.kind is GapKind.SEARCH_GAP and question.path is ResolutionPath.NONE
    is_closed = by_thread or (nothing_was_found and bool(answer.units))
    found = (
        f"thread {answer.thread_id}"
        if by_thread
        else f"{len(answer.units)} units by search"
        if answer.units
        else "nothing"
    )
    return ReplayResult(
        is_closed,
        f"The question was asked again and found {found}.",
        {
            "state_digest": digest,
            "replayed_at": datetime.now(UTC).isoformat(),
            "query_id": str(question.query_id),
            "path": answer.path,
            "thread_id": answer.thread_id,
            "units": len(answer.units),
        },
    )


def _gone(
    connections: Connections, questions: Sequence[ReplayQuestion], old: Mapping[str, ReplayAnswer]
) -> frozenset[tuple[Audience, ThreadId]]:
    """Threads that answered before and that the lane does not see any more."""
    answered: defaultdict[Audience, set[ThreadId]] = defaultdict(set)
    for question in questions:
        before = old.get(question.question_key)
        if before is not None and before.thread_id is not None:
            answered[question.lane].add(before.thread_id)
    return frozenset(
        (lane, thread)
        for lane, threads in answered.items()
        for thread in threads - threads_in_sight(connections, lane, threads)
    )


def _ask_all(
    service: RetrievalService, questions: Iterable[ReplayQuestion]
) -> dict[str, ReplayAnswer]:
    return {each.question_key: _ask(service, each.text, each.lane) for each in questions}


def _ask(service: RetrievalService, text: str, lane: Audience) -> ReplayAnswer:
    try:
        answer = service.answer(text, lane_principal(lane), token_budget=None)
    except WrongAudienceError:
        # Reported as a security event; to a reader it would have been no answer.
        return ReplayAnswer(ResolutionPath.NONE, None, (), None)
    return _reduced(answer)


def _reduced(answer: Answer) -> ReplayAnswer:
    pack = answer.pack
    hits = [hit for hit in answer.hits if hit.collection is not Collection.THREAD_CENTROIDS]
    return ReplayAnswer(
        path=resolution_path(pack),
        thread_id=ThreadId(pack.thread_id) if pack.thread_id else None,
        units=tuple(f"{address}@{revision}" for address, revision in pack.source_revisions.items()),
        top_unit=hits[0].owner_id if hits else None,
    )


@contextmanager
def _open_searcher(settings: Settings) -> Generator[VectorSearcher, None, None]:
    key = settings.qdrant_api_key
    with closing(
        open_reader(
            home=settings.home,
            url=settings.qdrant_url,
            api_key=key.get_secret_value() if key else None,
        )
    ) as searcher:
        yield searcher


@contextmanager
def _rehearsing(
    settings: Settings, database: Database, embedder: QueryEmbedder
) -> Generator[RetrievalService | None, None, None]:
    """Yield a service over what readers have now; None when that is nothing."""
    with (
        _open_searcher(settings) as searcher,
        LeasedConnections(database, max_size=REPLAY_CONNECTIONS) as connections,
    ):
        yield (
            _service(settings, embedder, searcher, connections, database)
            if _is_published(searcher)
            else None
        )


def _service(
    settings: Settings,
    embedder: QueryEmbedder,
    searcher: VectorSearcher,
    connections: QuestionConnections,
    for_good: Database,
) -> RetrievalService:
    return RetrievalService(
        connections=connections,
        searcher=searcher,
        embedder=embedder,
        signals=PostgresThreadSignals(connections),
        rerank_enabled=settings.search_rerank_enabled,
        delivery=RehearsedDelivery(connections, for_good.connect),
    )


def _is_published(searcher: VectorSearcher) -> bool:
    try:
        for collection in Collection:
            searcher.resolve(collection)
    except CollectionUnknownError:
        return False
    return True
