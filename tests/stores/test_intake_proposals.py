"""Proposals of threads on a real store, grouped with the real model: made, kept from night to night, accepted, rejected."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from delivery_house import change, rows
from fixtures_source_tree import ROOT
from hub_rows import add_document, add_unit
from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.errors import (
    ConfigurationError,
    ProposalDecidedError,
    ProposalUnknownError,
)
from threadhouse.retrieval.gap_signals import GapKind, GapSignal
from threadhouse.retrieval.models import Audience, Principal, ThreadId, UnitId
from threadhouse.retrieval.query_keeping import QueryTextMode, QuestionKeeper
from threadhouse.retrieval.question_clusters import CandidateUnit, ProposalStatus
from threadhouse.stores.embedders import FastembedEmbedder
from threadhouse.stores.gap_signals import list_gaps, note_gap_signals
from threadhouse.stores.intake_proposals import (
    AcceptedProposal,
    IntakeProposal,
    IntakeReport,
    accept_proposal,
    list_proposals,
    read_decisions,
    read_intake_policy,
    read_proposal,
    refresh_proposals,
    reject_proposal,
)
from threadhouse.stores.knowledge import KnowledgeReader
from threadhouse.stores.postgres import Database
from threadhouse.stores.thread_signals import PostgresThreadSignals

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
KEEPER = QuestionKeeper(QueryTextMode.STORE, b"a secret")
MEMBERSHIP = [
    "Phí thành viên hằng năm là bao nhiêu?",
    "Mỗi năm phải đóng bao nhiêu tiền phí thành viên?",
    "Phí hội viên hàng năm bao nhiêu tiền?",
    "Phí thành viên một năm hết bao nhiêu?",
]
PRINTER = [
    "Máy in bị kẹt giấy thì làm thế nào?",
    "Cách xử lý khi máy in kẹt giấy",
    "Máy in kẹt giấy phải làm gì?",
    "Sửa lỗi kẹt giấy của máy in ra sao?",
]
REFUND = ["How long does a refund take?", "When will I get my money back after a refund request?"]


@pytest.fixture
def hub(database: Database) -> Database:
    """Units that a search would find: two that everybody sees, one that customers do not."""
    with database.connect() as connection:
        add_document(connection, "open")
        add_document(connection, "closed", visibility="internal")
        for unit, document in (("fee", "open"), ("printer", "open"), ("inside", "closed")):
            add_unit(connection, unit, document, f"Nội dung của {unit}.")
    return database


def ask(
    database: Database,
    texts: Sequence[str],
    *,
    lane: Audience = Audience.CUSTOMER,
    sessions: Sequence[str | None] = ("s1", "s2", "s3"),
    at: datetime = NOW - timedelta(days=1),
    reason: str | None = "missing_thread",
) -> None:
    """Every text once, by one session after another, and no thread answers it."""
    for number, text in enumerate(texts):
        change(
            database,
            """insert into nao.retrieval_metric_event
               (event_id, occurred_at, type, query_id, session_id, lane, resolution_path, reason, query_text)
               values (%s, %s, 'query', %s, %s, %s, %s, %s, %s)""",
            uuid4(),
            at + timedelta(minutes=number),
            uuid4(),
            sessions[number % len(sessions)],
            lane,
            "fallback" if reason else "thread",
            reason,
            text,
        )
        if reason:
            with database.connect() as connection:
                signal = GapSignal(GapKind.MISSING_THREAD, KEEPER.cause(lane, text).key, lane)
                note_gap_signals(connection, [signal])


def find_units(lane: Audience, texts: Sequence[str]) -> list[CandidateUnit]:
    """What a search gives; searching for real has its own tests."""
    del lane
    wanted = "fee" if any("phí" in text.lower() for text in texts) else "printer"
    return [
        CandidateUnit(UnitId(unit), "Điều khoản", "vi", 1 / (place + 1), 0)
        for place, unit in enumerate((wanted, "inside"))
    ]


def refresh(database: Database, embedder: FastembedEmbedder, now: datetime = NOW) -> IntakeReport:
    return refresh_proposals(database, embedder, KEEPER, now, find_units)


def proposals(
    database: Database, status: ProposalStatus | None = None, lane: Audience | None = None
) -> list[IntakeProposal]:
    with database.connect() as connection:
        return list_proposals(connection, status=status, lane=lane)


def the_proposal(database: Database) -> IntakeProposal:
    (found,) = proposals(database)
    return found


def accept(
    database: Database, proposal_id: UUID, who: str = "an", title: str | None = None
) -> AcceptedProposal:
    with database.connect() as connection:
        return accept_proposal(connection, proposal_id, who=who, why="hay được hỏi", title=title)


def reject(database: Database, proposal_id: UUID) -> bool:
    with database.connect() as connection:
        return reject_proposal(connection, proposal_id, who="an", why="không cần")


def sees_thread(database: Database, principal: Principal, thread_id: str) -> bool:
    with database.connect() as connection:
        policy = KnowledgeReader(connection).policy()
    signals = PostgresThreadSignals(database.connect)
    return thread_id in signals.surroundings([], [ThreadId(thread_id)], principal, policy).facts


# --- made -------------------------------------------------------------------------------------


def test_recurring_questions_become_a_proposal_a_topic_and_a_lane(
    hub: Database, embedder: FastembedEmbedder
) -> None:
    ask(hub, [*MEMBERSHIP, MEMBERSHIP[0]])
    ask(hub, [*PRINTER, PRINTER[1]])
    ask(hub, [*PRINTER, PRINTER[1]], lane=Audience.EMPLOYEE)
    ask(hub, REFUND)  # asked twice: too few
    ask(hub, ["Địa chỉ công ty ở đâu?"] * 9, sessions=("one",))  # one talkative agent
    assert refresh(hub, embedder).opened == 3
    found = {(each.lane, frozenset(each.queries)) for each in proposals(hub)}
    assert found == {
        (Audience.CUSTOMER, frozenset(MEMBERSHIP)),
        (Audience.CUSTOMER, frozenset(PRINTER)),
        (Audience.EMPLOYEE, frozenset(PRINTER)),
    }
    assert [each.lane for each in proposals(hub, lane=Audience.EMPLOYEE)] == [Audience.EMPLOYEE]
    assert proposals(hub, ProposalStatus.ACCEPTED) == []
    for each in proposals(hub):
        assert (each.question_count, each.session_count, each.language) == (5, 3, "vi")
        assert each.proposed_title.rstrip("?") in {text.rstrip("?") for text in each.queries}
        assert each.cohesion is not None
        assert each.cohesion > 0.8


def test_what_a_thread_answered_and_what_is_old_makes_no_proposal(
    hub: Database, embedder: FastembedEmbedder
) -> None:
    ask(hub, [*MEMBERSHIP, MEMBERSHIP[0]], reason=None)
    ask(hub, [*PRINTER, PRINTER[0]], at=NOW - timedelta(days=40))
    assert "no unanswered question" in refresh(hub, embedder).why_not
    assert proposals(hub) == []


def test_a_reader_who_says_that_a_thread_is_missing_counts(
    hub: Database, embedder: FastembedEmbedder
) -> None:
    ask(hub, [*MEMBERSHIP, MEMBERSHIP[0]], reason=None)
    change(
        hub,
        """insert into nao.retrieval_metric_event (event_id, occurred_at, type, query_id, lane)
           select gen_random_uuid(), occurred_at, 'missing_thread_confirmed', query_id, lane from nao.retrieval_metric_event""",
    )
    assert refresh(hub, embedder).opened == 1


def test_without_words_there_is_nothing_to_group_and_the_run_says_so(
    hub: Database, embedder: FastembedEmbedder
) -> None:
    ask(hub, [*MEMBERSHIP, MEMBERSHIP[0]])
    change(hub, "update nao.retrieval_metric_event set query_text = null")
    figures = refresh(hub, embedder).figures()
    assert "is kept with its words" in str(figures["not_grouped_because"])


def test_the_numbers_are_a_row_for_each_space(
    database: Database, embedder: FastembedEmbedder
) -> None:
    with database.connect() as connection:
        of_model = read_intake_policy(connection, embedder.space.space_id)
        of_others = read_intake_policy(connection, "another-768-abc")
        assert of_model.merge_similarity < of_others.merge_similarity
        connection.execute("delete from cong.intake_policy")
        with pytest.raises(ConfigurationError, match=r"cong\.intake_policy"):
            read_intake_policy(connection, "another-768-abc")


def test_the_page_says_the_numbers_that_are_shipped(
    database: Database, embedder: FastembedEmbedder
) -> None:
    page = (ROOT / "docs" / "intake-proposals.md").read_text(encoding="utf-8")
    page = page.partition("python -m bench.question_clusters")[0]
    told = {
        name: [float(number) for number in re.findall(r"\d+(?:\.\d+)?", shipped)]
        for name, shipped in re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page, re.MULTILINE)
    }
    with database.connect() as connection:
        of_model = read_intake_policy(connection, embedder.space.space_id)
        of_others = read_intake_policy(connection, "another-768-abc")
    assert told == {
        "merge_similarity": [of_model.merge_similarity, of_others.merge_similarity],
        "min_questions": [of_model.min_questions],
        "min_sessions": [of_model.min_sessions],
        "recurrence_factor": [of_model.recurrence_factor],
    }
    assert replace(of_others, merge_similarity=0, space_id="") == replace(
        of_model, merge_similarity=0, space_id=""
    )


# --- from night to night ----------------------------------------------------------------------


def test_a_proposal_keeps_its_id_and_grows(hub: Database, embedder: FastembedEmbedder) -> None:
    ask(hub, [*MEMBERSHIP[:2], *MEMBERSHIP[:2], MEMBERSHIP[0]])
    refresh(hub, embedder)
    before = the_proposal(hub)
    assert refresh(hub, embedder).why_not == "nothing was asked since the last time"
    ask(hub, MEMBERSHIP[2:], at=NOW, sessions=("s4",))
    assert refresh(hub, embedder, NOW + timedelta(days=1)).grown == 1
    after = the_proposal(hub)
    assert (after.proposal_id, after.created_at) == (before.proposal_id, before.created_at)
    assert (before.question_count, after.question_count) == (5, 7)
    assert set(after.queries) == set(MEMBERSHIP)
    # Four weeks later the first questions are out of the window; what was asked was asked all the same.
    ask(hub, MEMBERSHIP[:1], at=NOW + timedelta(days=28))
    refresh(hub, embedder, NOW + timedelta(days=28, hours=1))
    assert the_proposal(hub).question_count == 8


def test_a_rejected_proposal_stays_away_until_it_is_asked_markedly_more(
    hub: Database, embedder: FastembedEmbedder
) -> None:
    ask(hub, [*MEMBERSHIP, MEMBERSHIP[0]])
    refresh(hub, embedder)
    proposal_id = the_proposal(hub).proposal_id
    assert reject(hub, proposal_id)
    assert not reject(hub, proposal_id)
    later = datetime.now(UTC) + timedelta(days=1)
    ask(hub, MEMBERSHIP, at=later)
    assert refresh(hub, embedder, later + timedelta(hours=1)).held_back == 1
    assert the_proposal(hub).status is ProposalStatus.REJECTED
    ask(hub, [*MEMBERSHIP, *MEMBERSHIP[:2]], at=later + timedelta(hours=2))
    assert refresh(hub, embedder, later + timedelta(hours=3)).reopened == 1
    again = the_proposal(hub)
    assert (again.proposal_id, again.status, again.decided_at) == (
        proposal_id,
        ProposalStatus.OPEN,
        None,
    )
    assert again.decision_reason == "không cần"


def test_words_that_the_events_lost_are_lost_here_as_well(
    hub: Database, embedder: FastembedEmbedder
) -> None:
    ask(hub, [*MEMBERSHIP, MEMBERSHIP[0]])
    refresh(hub, embedder)
    reject(hub, the_proposal(hub).proposal_id)
    change(hub, "update nao.retrieval_metric_event set query_text = null")
    refresh(hub, embedder)
    left = the_proposal(hub)
    assert (left.queries, left.proposed_title, left.question_count) == ((), "(words not kept)", 5)


# --- decided ----------------------------------------------------------------------------------


@pytest.fixture
def proposal_id(hub: Database, embedder: FastembedEmbedder) -> UUID:
    ask(hub, [*MEMBERSHIP, MEMBERSHIP[0]])
    refresh(hub, embedder)
    return the_proposal(hub).proposal_id


def test_accepting_makes_a_draft_that_nobody_sees_but_readers_of_drafts(
    hub: Database, proposal_id: UUID
) -> None:
    accepted = accept(hub, proposal_id)
    assert rows(
        hub,
        """select title, owner, visibility, readiness, publication_state, authority from public.semantic_thread
           where thread_id = %s""",
        accepted.thread_id,
    ) == [(the_proposal(hub).proposed_title, "an", "internal", "draft", "unpublished", "draft")]
    # What customers do not see is no member of a thread that customers asked for.
    assert rows(hub, "select logical_unit_id, role, status from public.thread_membership") == [
        ("fee", "supporting", "proposed")
    ]
    for lane in Audience:
        assert not sees_thread(hub, lane_principal(lane), accepted.thread_id)
    agent = lane_principal(Audience.AI_AGENT)
    reader = replace(agent, tool_permissions=frozenset({"read:drafts"}))
    assert sees_thread(hub, reader, accepted.thread_id)


def test_accepting_acknowledges_the_gaps_of_its_questions_and_closes_none(
    hub: Database, proposal_id: UUID
) -> None:
    accepted = accept(hub, proposal_id)
    with hub.connect() as connection:
        gaps = list_gaps(connection)
    assert accepted.signals_acknowledged == len(gaps) == 4
    assert {(gap.status, gap.changed_by) for gap in gaps} == {("acknowledged", "an")}


def test_accepting_twice_makes_one_thread_also_at_the_same_time(
    hub: Database, proposal_id: UUID
) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(
            pool.map(lambda who: accept(hub, proposal_id, who), ("an", "bình", "chi", "dũng"))
        )
    assert sum(each.is_new for each in made) == 1
    assert len({each.thread_id for each in made}) == 1
    assert rows(hub, "select count(*) from public.semantic_thread") == [(1,)]
    assert not accept(hub, proposal_id).is_new


def test_further_questions_go_to_the_accepted_proposal(
    hub: Database, embedder: FastembedEmbedder, proposal_id: UUID
) -> None:
    accept(hub, proposal_id, title="Phí thành viên")
    ask(hub, MEMBERSHIP, at=NOW, sessions=("s7", "s8", "s9"))
    refresh(hub, embedder, NOW + timedelta(days=1))
    after = the_proposal(hub)
    assert (after.status, after.question_count) == (ProposalStatus.ACCEPTED, 9)
    assert rows(hub, "select title from public.semantic_thread") == [("Phí thành viên",)]


def test_nothing_of_an_acceptance_is_left_when_it_does_not_commit(
    hub: Database, proposal_id: UUID
) -> None:
    def die_half_way() -> None:
        with hub.connect() as connection:
            accept_proposal(connection, proposal_id, who="an", why="x")
            message = "killed"
            raise RuntimeError(message)

    with pytest.raises(RuntimeError, match="killed"):
        die_half_way()
    assert rows(hub, "select count(*) from public.semantic_thread") == [(0,)]
    assert the_proposal(hub).status is ProposalStatus.OPEN
    with hub.connect() as connection:
        assert {gap.status for gap in list_gaps(connection)} == {"open"}


def test_an_accepted_proposal_cannot_be_rejected_and_a_rejected_one_can_be_accepted(
    hub: Database, proposal_id: UUID
) -> None:
    reject(hub, proposal_id)
    accepted = accept(hub, proposal_id)
    assert accepted.is_new
    with hub.connect() as connection:
        rejected, last = read_decisions(connection, proposal_id)
    assert accepted.overruled == rejected
    assert (rejected.status, rejected.reason) == (ProposalStatus.REJECTED, "không cần")
    assert (last.status, last.reason) == (ProposalStatus.ACCEPTED, "hay được hỏi")
    assert accept(hub, proposal_id).overruled is None
    with pytest.raises(ProposalDecidedError, match=accepted.thread_id):
        reject(hub, proposal_id)


def test_of_two_who_decide_at_once_neither_decision_is_lost(
    hub: Database, proposal_id: UUID
) -> None:
    def turn_down() -> bool:
        try:
            return reject(hub, proposal_id)
        except ProposalDecidedError:
            return False

    with ThreadPoolExecutor(2) as pool:
        rejecting = pool.submit(turn_down)
        accepted = pool.submit(accept, hub, proposal_id).result()
        was_rejected = rejecting.result()
    with hub.connect() as connection:
        kept = [each.status for each in read_decisions(connection, proposal_id)]
    assert kept == [ProposalStatus.REJECTED] * was_rejected + [ProposalStatus.ACCEPTED]
    assert (accepted.overruled is not None) == was_rejected


def test_decisions_of_an_earlier_release_are_kept(hub: Database, proposal_id: UUID) -> None:
    reject(hub, proposal_id)
    change(hub, "drop table nao.intake_decision")
    migration = ROOT / "src/threadhouse/sql/migrations/0020_intake_decisions.sql"
    with hub.connect() as connection:
        connection.execute(migration.read_bytes())
        (kept,) = read_decisions(connection, proposal_id)
    assert (kept.status, kept.decided_by, kept.reason) == (
        ProposalStatus.REJECTED,
        "an",
        "không cần",
    )
    assert kept.decided_at == the_proposal(hub).decided_at


def test_a_unit_that_the_lane_lost_sight_of_is_neither_shown_nor_a_member(
    hub: Database, proposal_id: UUID
) -> None:
    change(
        hub,
        "update public.tac_logical_unit set visibility = 'internal' where logical_unit_id = 'fee'",
    )
    with hub.connect() as connection:
        assert read_proposal(connection, proposal_id)[1] == []
    assert accept(hub, proposal_id).members == 0


def test_threads_of_an_attached_hub_that_are_a_view_are_not_written_and_it_is_said(
    hub: Database, proposal_id: UUID
) -> None:
    change(hub, "alter table public.semantic_thread rename to their_threads")
    change(hub, "create view public.semantic_thread as select distinct * from public.their_threads")
    with pytest.raises(ConfigurationError, match="make the thread where they are kept"):
        accept(hub, proposal_id)
    assert the_proposal(hub).status is ProposalStatus.OPEN


def test_threads_that_readers_get_from_elsewhere_are_not_written_and_it_is_said(
    hub: Database, proposal_id: UUID
) -> None:
    change(hub, "create table public.their_threads as select * from public.semantic_thread")
    (definition,) = rows(hub, "select pg_get_viewdef('source.semantic_thread'::regclass)")[0]
    with hub.connect() as connection:
        connection.execute(
            "create or replace view source.semantic_thread as "
            + definition.replace("semantic_thread", "their_threads")
        )
    with pytest.raises(ConfigurationError, match="make the thread where they are kept"):
        accept(hub, proposal_id)
    assert rows(hub, "select count(*) from public.semantic_thread") == [(0,)]


def test_bad_input_gets_one_sentence(hub: Database, proposal_id: UUID) -> None:
    with pytest.raises(ProposalUnknownError, match="threadhouse proposals list"):
        accept(hub, uuid4())
    with pytest.raises(ProposalUnknownError):
        reject(hub, uuid4())
    with pytest.raises(ConfigurationError, match="who decides and why"):
        accept(hub, proposal_id, who=" ")
    with pytest.raises(ConfigurationError, match="title of 1 to 300"):
        accept(hub, proposal_id, title=" \n")
    assert rows(hub, "select count(*) from public.semantic_thread") == [(0,)]
