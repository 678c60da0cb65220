"""Proposals of threads in ``nao.thread_intake_proposal``: made of unanswered questions, decided by people.

Belongs here: reading the questions, keeping proposals from night to night, accepting (a draft thread, at once), rejecting.
Does not belong here: which questions belong together (retrieval.question_clusters), searching for candidate units (handed in).

What was asked is personal. A proposal holds the words of a question only as long as the question's own event does.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid5

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import Connection
from psycopg.rows import TupleRow, dict_row

from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.errors import (
    ConfigurationError,
    ProposalDecidedError,
    ProposalUnknownError,
    QueryTooLongError,
)
from threadhouse.retrieval.lanes import sight_of, unit_labels
from threadhouse.retrieval.models import Audience, InformationUnit, Json, UnitId
from threadhouse.retrieval.ports import Embedder
from threadhouse.retrieval.query_keeping import QuestionKeeper
from threadhouse.retrieval.query_text import QueryLanguage, prepare_query
from threadhouse.retrieval.question_clusters import (
    CANDIDATE_UNITS,
    Asking,
    CandidateUnit,
    IntakePolicy,
    KnownProposal,
    ProposalStatus,
    QuestionCluster,
    UnansweredQuestion,
    cluster_questions,
    is_open_again,
    match_proposals,
    most_asked,
    propose_title,
)
from threadhouse.retrieval.text import is_blank, prepare_text
from threadhouse.retrieval.who_and_why import LONGEST_REASON_CHARS, check_who_and_why
from threadhouse.stores import queries
from threadhouse.stores.gap_signals import acknowledge_gap
from threadhouse.stores.knowledge import KnowledgeReader
from threadhouse.stores.postgres import Database
from threadhouse.stores.question_causes import key_question_causes

RECENT = timedelta(days=28)
"""A question that nobody asked for four weeks does not recur."""

RECENT_QUERIES = 20_000
"""Newest unanswered queries that are looked at; more of them are grouped no better."""

PROPOSAL_NAMESPACE = UUID("4f0c9f58-5d0c-5a43-9f0e-2a6f7b1f9d33")
"""Namespace of proposal ids, so that the same cause is the same proposal on every machine."""

LONGEST_TITLE_CHARS = 300

_NEEDS = "Deciding a proposal needs who decides and why"

_NOT_OURS_TO_WRITE = (
    psycopg.errors.ObjectNotInPrerequisiteState,
    psycopg.errors.WrongObjectType,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.NotNullViolation,
)
"""What Postgres says to an insert into a view, a foreign table, or a table of another make."""

FindUnits = Callable[[Audience, Sequence[str]], list[CandidateUnit]]
"""Units that a search finds for questions, as their lane sees them."""


@dataclass(frozen=True, slots=True)
class IntakeProposal:
    """A proposal as operators see it. ``candidate_units`` are ids, the likeliest first; ``queries`` words that are still kept."""

    proposal_id: UUID
    lane: Audience
    cause_key: str
    proposed_title: str
    language: str
    status: ProposalStatus
    question_count: int
    session_count: int
    cohesion: float | None
    candidate_units: tuple[str, ...]
    queries: tuple[str, ...]
    question_keys: tuple[str, ...]
    query_ids: tuple[UUID, ...]
    questions_at_decision: int | None
    first_seen_at: datetime | None
    last_seen_at: datetime | None
    created_at: datetime
    decided_at: datetime | None
    decided_by: str | None
    decision_reason: str | None
    thread_id: str | None

    def to_json(self) -> dict[str, Json]:
        """For a program; instants as ISO 8601. Ids of queries are left out: there may be thousands."""
        return {
            name: value.isoformat()
            if isinstance(value, datetime)
            else str(value)
            if isinstance(value, UUID)
            else cast("Json", value)
            for name, value in asdict(self).items()
            if name != "query_ids"
        }


@dataclass(frozen=True, slots=True)
class IntakeDecision:
    """What somebody decided about a proposal."""

    status: ProposalStatus
    decided_at: datetime
    decided_by: str
    reason: str

    def to_json(self) -> dict[str, Json]:
        """For a program; instants as ISO 8601."""
        return {
            "status": str(self.status),
            "decided_at": self.decided_at.isoformat(),
            "decided_by": self.decided_by,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class IntakeReport:
    """What one refresh did. ``why_not`` says why nothing was grouped; empty when something was."""

    questions: int = 0
    clusters: int = 0
    opened: int = 0
    grown: int = 0
    reopened: int = 0
    held_back: int = 0
    too_few: int = 0
    why_not: str = ""

    def figures(self) -> dict[str, int | str]:
        """Every number by its name, and the reason when there is one."""
        figures: dict[str, int | str] = {k: v for k, v in asdict(self).items() if k != "why_not"}
        return figures | ({"not_grouped_because": self.why_not} if self.why_not else {})


@dataclass(frozen=True, slots=True)
class AcceptedProposal:
    """What accepting made: a draft thread, or the one that accepting made before. ``overruled``: the rejection until then."""

    thread_id: str
    members: int
    signals_acknowledged: int
    is_new: bool
    overruled: IntakeDecision | None = None


def refresh_proposals(
    database: Database,
    embedder: Embedder,
    keeper: QuestionKeeper,
    now: datetime,
    find_units: FindUnits,
) -> IntakeReport:
    """Group what was not answered lately, and bring proposals in step with it.

    Proposals keep their id from night to night and grow. What was rejected stays so until it is asked markedly more; what was
    accepted takes further questions to itself.

    Raises:
        ConfigurationError: No intake policy is in force.
    """
    with database.connect() as connection:
        policy = read_intake_policy(connection, embedder.space.space_id)
        key_question_causes(connection, keeper)
        connection.execute(queries.load("intake_proposals_keep_texts"))
        questions = _unanswered(connection, keeper, now)
        digest = _digest(questions, policy)
        known = connection.execute(queries.load("intake_refresh_digest")).fetchone()
    if not questions:
        return IntakeReport(
            why_not="no unanswered question of the last four weeks is kept with its words"
        )
    if known is not None and known[0] == digest:
        return IntakeReport(
            questions=len(questions), why_not="nothing was asked since the last time"
        )
    embedded, vectors = _embed(most_asked(questions), embedder)
    clusters = cluster_questions(embedded, vectors, policy)
    with database.connect() as connection:
        matched = match_proposals(clusters, _known(connection))
    counts: Counter[str] = Counter()
    for cluster, proposal in matched:
        outcome = _outcome(cluster, proposal, policy)
        counts[outcome] += 1
        if outcome in {"opened", "grown", "reopened"}:
            _put(database, cluster, proposal, find_units, is_open_again=outcome == "reopened")
    with database.connect() as connection:
        connection.execute(queries.load("intake_proposals_keep_texts"))
        # Last: killed before, the next run does all of it again and finds it done.
        connection.execute(queries.load("intake_refresh_note"), {"questions_digest": digest})
    return IntakeReport(
        questions=len(embedded),
        clusters=len(clusters),
        opened=counts["opened"],
        grown=counts["grown"],
        reopened=counts["reopened"],
        held_back=counts["held_back"],
        too_few=counts["too_few"],
    )


def read_intake_policy(connection: Connection[TupleRow], space_id: str) -> IntakePolicy:
    """The row in force for a space; the one for every space when it has none of its own.

    Raises:
        ConfigurationError: No version is activated.
    """
    row = connection.execute(queries.load("intake_policy_read"), {"space_id": space_id}).fetchone()
    if row is None:
        message = "cong.intake_policy has no activated row; insert one, proposals cannot be made without it."
        raise ConfigurationError(message)
    return IntakePolicy(*row)


def list_proposals(
    connection: Connection[TupleRow],
    *,
    status: ProposalStatus | None = None,
    lane: Audience | None = None,
) -> list[IntakeProposal]:
    """Proposals, open ones first and the most asked of them first."""
    return _proposals(connection, status=status, lane=lane)


def read_proposal(
    connection: Connection[TupleRow], proposal_id: UUID
) -> tuple[IntakeProposal, list[InformationUnit]]:
    """One proposal, and its candidate units as far as its lane sees them at this moment, in their order.

    Raises:
        ProposalUnknownError: There is none with this id.
    """
    found = _proposals(connection, proposal_id=proposal_id)
    if not found:
        message = f"There is no proposal {proposal_id}; threadhouse proposals list names them all."
        raise ProposalUnknownError(message)
    return found[0], _candidates_now(connection, found[0])


def read_decisions(connection: Connection[TupleRow], proposal_id: UUID) -> list[IntakeDecision]:
    """Every decision about a proposal, oldest first; none of one that is unknown."""
    rows = connection.execute(queries.load("intake_decisions"), {"proposal_id": proposal_id})
    return [IntakeDecision(ProposalStatus(status), *rest) for status, *rest in rows]


def accept_proposal(
    connection: Connection[TupleRow],
    proposal_id: UUID,
    *,
    who: str,
    why: str,
    title: str | None = None,
) -> AcceptedProposal:
    """Make a draft thread of a proposal. Nothing holds before the caller's transaction commits; accepting again changes nothing.

    One that was rejected can be accepted: the result says what that overruled, and both decisions are kept.

    The thread is internal, a draft and unpublished: only the pipeline and agents who may read drafts see it until somebody
    publishes it. Its units are proposed members. Gaps that the questions made are acknowledged, not closed: a replay closes each
    when the thread answers its question.

    Raises:
        ProposalUnknownError: There is none with this id.
        ConfigurationError: Who or why is missing, the title cannot be one, or threads cannot be written here.
    """
    who, why = check_who_and_why(_NEEDS, who, why)
    status = _lock(connection, proposal_id)
    proposal, units = read_proposal(connection, proposal_id)
    if status is ProposalStatus.ACCEPTED and proposal.thread_id is not None:
        return AcceptedProposal(proposal.thread_id, 0, 0, is_new=False)
    overruled = (
        read_decisions(connection, proposal_id)[-1] if status is ProposalStatus.REJECTED else None
    )
    thread_id = f"intake-{proposal_id.hex[:12]}"
    members = _write_draft(
        connection,
        {
            "thread_id": thread_id,
            "title": _title(title if title is not None else proposal.proposed_title),
            "purpose": (
                f"Answers what {proposal.session_count} sessions of {proposal.lane} asked "
                f"{proposal.question_count} times and no thread answered."
            ),
            "owner": who,
            "evidence": f"found by a search for the questions of proposal {proposal_id}",
            "unit_ids": [unit.logical_unit_id for unit in units],
        },
    )
    _decide(connection, proposal_id, ProposalStatus.ACCEPTED, who, why, thread_id)
    signals = connection.execute(
        queries.load("intake_open_signals"), {"question_keys": list(proposal.question_keys)}
    ).fetchall()
    for (signal_id,) in signals:
        acknowledge_gap(
            connection,
            signal_id,
            who=who,
            why=f"thread {thread_id} is being written: {why}"[:LONGEST_REASON_CHARS],
        )
    return AcceptedProposal(thread_id, members, len(signals), is_new=True, overruled=overruled)


def reject_proposal(
    connection: Connection[TupleRow], proposal_id: UUID, *, who: str, why: str
) -> bool:
    """Say that no thread is wanted. False when it was rejected before; then nothing changes.

    Raises:
        ProposalUnknownError: There is none with this id.
        ProposalDecidedError: It was accepted; its thread is there.
        ConfigurationError: Who or why is missing.
    """
    who, why = check_who_and_why(_NEEDS, who, why)
    status = _lock(connection, proposal_id)
    if status is ProposalStatus.REJECTED:
        return False
    if status is ProposalStatus.ACCEPTED:
        proposal, _ = read_proposal(connection, proposal_id)
        message = (
            f"Proposal {proposal_id} was accepted by {proposal.decided_by} and is thread {proposal.thread_id}; "
            "withdraw the thread instead."
        )
        raise ProposalDecidedError(message)
    _decide(connection, proposal_id, ProposalStatus.REJECTED, who, why, None)
    return True


def _unanswered(
    connection: Connection[TupleRow], keeper: QuestionKeeper, now: datetime
) -> list[UnansweredQuestion]:
    """Unanswered questions, each once in a lane and in its newest spelling; the language comes with the vector."""
    rows = connection.execute(
        queries.load("intake_unanswered_queries"),
        {"since": now - RECENT, "limit": RECENT_QUERIES},
    ).fetchall()
    newest: dict[str, tuple[Audience, str]] = {}
    askings: defaultdict[str, list[Asking]] = defaultdict(list)
    for query_id, named_lane, text, session_id, asked_at in rows:
        lane = Audience(named_lane)
        key = keeper.cause(lane, text).key
        newest.setdefault(key, (lane, text))
        askings[key].append(Asking(query_id, session_id, asked_at))
    return [
        UnansweredQuestion(key, lane, text, "", tuple(askings[key]))
        for key, (lane, text) in sorted(newest.items())
        if not is_blank(prepare_text(text))
    ]


def _digest(questions: Sequence[UnansweredQuestion], policy: IntakePolicy) -> str:
    asked = sorted(str(asking.query_id) for each in questions for asking in each.askings)
    named = "\0".join([str(policy.version), policy.space_id, str(policy.merge_similarity), *asked])
    return hashlib.sha256(named.encode()).hexdigest()


def _embed(
    questions: Sequence[UnansweredQuestion], embedder: Embedder
) -> tuple[list[UnansweredQuestion], NDArray[np.float32]]:
    """Questions with their languages, and a row of length 1 for each. What is too long for a question is left out."""
    kept: list[UnansweredQuestion] = []
    rows: list[NDArray[np.float32]] = []
    for question in questions:
        try:
            prepared = prepare_query(question.text, embedder.embed_query)
        except QueryTooLongError:
            continue
        language = str(prepared.language)
        if prepared.language is QueryLanguage.VIETNAMESE_UNMARKED:
            language = str(QueryLanguage.VIETNAMESE)
        kept.append(replace(question, language=language))
        rows.append(prepared.vector.data)
    return kept, np.concatenate([np.zeros((0, embedder.space.dim), np.float32), *rows])


def _outcome(cluster: QuestionCluster, proposal: KnownProposal | None, policy: IntakePolicy) -> str:
    if proposal is None:
        return "opened" if cluster.is_recurring(policy) else "too_few"
    if proposal.status is not ProposalStatus.REJECTED:
        return "grown"
    return "reopened" if is_open_again(cluster, proposal, policy) else "held_back"


def _put(
    database: Database,
    cluster: QuestionCluster,
    proposal: KnownProposal | None,
    find_units: FindUnits,
    *,
    is_open_again: bool,
) -> None:
    units: list[CandidateUnit] = []
    if proposal is None or proposal.status is not ProposalStatus.ACCEPTED:
        units = find_units(cluster.lane, [each.text for each in cluster.questions_to_search()])
    askings = cluster.askings
    cause = proposal.cause_key if proposal else cluster.medoid.question_key
    with database.connect() as connection:
        connection.execute(
            queries.load("intake_proposal_put"),
            {
                "proposal_id": proposal.proposal_id
                if proposal
                else uuid5(PROPOSAL_NAMESPACE, cause),
                "lane": cluster.lane,
                "cause_key": cause,
                "proposed_title": propose_title(cluster, units),
                "language": cluster.language,
                "candidate_units": [unit.unit_id for unit in units[:CANDIDATE_UNITS]],
                "question_keys": sorted(cluster.question_keys),
                "query_ids": [asking.query_id for asking in askings],
                "session_count": cluster.session_count,
                "cohesion": cluster.cohesion,
                "first_seen_at": askings[0].asked_at,
                "last_seen_at": askings[-1].asked_at,
                "is_open_again": is_open_again,
            },
        )


def _known(connection: Connection[TupleRow]) -> list[KnownProposal]:
    return [
        KnownProposal(
            proposal_id=each.proposal_id,
            lane=each.lane,
            cause_key=each.cause_key,
            status=each.status,
            question_keys=frozenset(each.question_keys),
            decided_at=each.decided_at,
            questions_at_decision=each.questions_at_decision,
        )
        for each in _proposals(connection)
    ]


def _proposals(
    connection: Connection[TupleRow],
    *,
    proposal_id: UUID | None = None,
    status: ProposalStatus | None = None,
    lane: Audience | None = None,
) -> list[IntakeProposal]:
    params = {"proposal_id": proposal_id, "status": status, "lane": lane}
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(queries.load("intake_proposals"), params).fetchall()
    found: list[IntakeProposal] = []
    for row in rows:
        lists = ("candidate_units", "queries", "question_keys", "query_ids")
        fields: dict[str, Any] = {
            **row,
            **{name: tuple(row[name]) for name in lists},
            "lane": Audience(row["lane"]),
            "status": ProposalStatus(row["status"]),
        }
        found.append(IntakeProposal(**fields))
    return found


def _candidates_now(
    connection: Connection[TupleRow], proposal: IntakeProposal
) -> list[InformationUnit]:
    knowledge = KnowledgeReader(connection)
    sees = sight_of(lane_principal(proposal.lane), knowledge.policy())
    units = {
        unit.logical_unit_id: unit
        for unit in knowledge.units([UnitId(each) for each in proposal.candidate_units])
        if isinstance(unit, InformationUnit) and sees(unit_labels(unit))
    }
    return [units[UnitId(each)] for each in proposal.candidate_units if UnitId(each) in units]


def _lock(connection: Connection[TupleRow], proposal_id: UUID) -> ProposalStatus:
    """Hold the proposal until the transaction ends, so that of two who decide the second sees what the first did."""
    row = connection.execute(
        queries.load("intake_proposal_lock"), {"proposal_id": proposal_id}
    ).fetchone()
    if row is None:
        message = f"There is no proposal {proposal_id}; threadhouse proposals list names them all."
        raise ProposalUnknownError(message)
    return ProposalStatus(row[0])


def _write_draft(connection: Connection[TupleRow], fields: dict[str, object]) -> int:
    refusal = (
        "The threads of this hub are not kept in tables that Threadhouse may write (public.semantic_thread, "
        "public.thread_membership); make the thread where they are kept, then reject the proposal and name it as the reason."
    )
    try:
        with connection.transaction():
            row = connection.execute(queries.load("intake_draft_thread"), fields).fetchone()
            is_read = connection.execute(
                queries.load("intake_thread_is_read"), {"thread_id": fields["thread_id"]}
            ).fetchone()
    except _NOT_OURS_TO_WRITE as error:
        raise ConfigurationError(refusal) from error
    if row is None or is_read is None or not is_read[0]:
        # The caller's transaction takes the row back.
        raise ConfigurationError(refusal)
    return int(row[1])


def _decide(
    connection: Connection[TupleRow],
    proposal_id: UUID,
    status: ProposalStatus,
    who: str,
    why: str,
    thread_id: str | None,
) -> None:
    connection.execute(
        queries.load("intake_proposal_decide"),
        {
            "proposal_id": proposal_id,
            "status": status,
            "who": who,
            "why": why,
            "thread_id": thread_id,
        },
    )


def _title(text: str) -> str:
    title = " ".join(prepare_text(text).split())
    if is_blank(title) or len(title) > LONGEST_TITLE_CHARS:
        message = f"A thread needs a title of 1 to {LONGEST_TITLE_CHARS} characters; give one with --title."
        raise ConfigurationError(message)
    return title
