"""What words say about threads, read from a real PostgreSQL under a reader's rights."""

from __future__ import annotations

import unicodedata
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Literal

import psycopg
import pytest
from psycopg.rows import TupleRow

from hub_rows import add_document, add_unit
from threadhouse.retrieval.audience import AudiencePolicy, lane_principal
from threadhouse.retrieval.models import (
    Audience,
    HealthStatus,
    LifecycleStage,
    Principal,
    ThreadId,
    UnitId,
)
from threadhouse.retrieval.resolution import LexicalSignals
from threadhouse.stores.knowledge import open_knowledge
from threadhouse.stores.postgres import Database
from threadhouse.stores.thread_signals import PostgresThreadSignals

Connection = psycopg.Connection[TupleRow]

REFUNDS, LEAVE, SECRET = ThreadId("refunds-1"), ThreadId("leave-1"), ThreadId("secret-1")
CUSTOMER = lane_principal(Audience.CUSTOMER)
AGENT = lane_principal(Audience.AI_AGENT)

_THREAD = """
insert into public.semantic_thread (thread_id, canonical_address, title, aliases, labels, anchors, purpose, description)
values (%(id)s, %(address)s, %(title)s, %(aliases)s, %(labels)s, %(anchors)s, '', %(description)s)
"""
_MEMBER = """
insert into public.thread_membership (thread_id, logical_unit_id, role, confidence, status)
values (%(thread_id)s, %(unit_id)s, %(role)s, %(confidence)s, %(status)s)
"""


def add_thread(
    connection: Connection,
    thread_id: str,
    title: str,
    *,
    address: str = "",
    aliases: tuple[str, ...] = (),
    labels: tuple[str, ...] = (),
    anchors: tuple[str, ...] = (),
    description: str = "",
) -> None:
    connection.execute(
        _THREAD,
        {
            "id": thread_id,
            "address": address or f"T/{thread_id}",
            "title": title,
            "aliases": list(aliases),
            "labels": list(labels),
            "anchors": list(anchors),
            "description": description,
        },
    )


def add_member(
    connection: Connection,
    thread_id: str,
    unit_id: str,
    *,
    role: str = "canonical",
    confidence: float = 1.0,
    status: str = "confirmed",
) -> None:
    connection.execute(
        _MEMBER,
        {
            "thread_id": thread_id,
            "unit_id": unit_id,
            "role": role,
            "confidence": confidence,
            "status": status,
        },
    )


@pytest.fixture
def connection(database: Database) -> Generator[Connection, None, None]:
    """Three threads: two public ones, and one whose only unit customers do not see."""
    with database.connect(autocommit=True) as connection:
        add_document(connection, "45/2019/QH14", title="Bộ luật Hoàn tiền")
        add_unit(connection, "TH-SOP-01/2", "45/2019/QH14", "Hoàn tiền trong bảy ngày.")
        add_unit(connection, "Điều 20.2.LQ.1", "45/2019/QH14", "Phạm vi.", ordinal=1)
        add_document(connection, "d-leave", title="Nghỉ phép năm")
        add_unit(connection, "PEP 484", "d-leave", "Phép năm mười hai ngày.")
        add_document(connection, "d-secret", title="Sự cố nội bộ", visibility="internal")
        add_unit(connection, "SC-09/1", "d-secret", "Bí mật.")
        connection.execute(
            """insert into public.vocabulary_label (label, language, aliases)
               values ('refund', 'vi', '{trả lại tiền}'), ('people', 'en', '{staff}')"""
        )
        add_thread(
            connection,
            REFUNDS,
            "Hoàn tiền cho khách",
            address="TH-TD-01",
            aliases=("chargeback", "thỏa thuận hoàn trả"),
            labels=("refund",),
            anchors=("TH-SOP-01/2",),
            description="Khi nào khách được trả.",
        )
        add_thread(connection, LEAVE, "Nghỉ phép", aliases=("annual leave",), labels=("people",))
        add_thread(
            connection,
            SECRET,
            "Sự cố nội bộ",
            address="TH-TD-09",
            aliases=("chargeback fraud", "bàn tay đen"),
            labels=("refund", "people"),
            anchors=("TH-SOP-01/2",),
            description="Khi nào khách được trả.",
        )
        add_member(connection, REFUNDS, "TH-SOP-01/2")
        add_member(connection, REFUNDS, "Điều 20.2.LQ.1")
        add_member(connection, LEAVE, "PEP 484")
        add_member(connection, SECRET, "SC-09/1")
        yield connection


@pytest.fixture
def policy(database: Database, connection: Connection) -> AudiencePolicy:
    with open_knowledge(database) as knowledge:
        return knowledge.policy()


@pytest.fixture
def signals(connection: Connection) -> PostgresThreadSignals:
    @contextmanager
    def lend() -> Iterator[Connection]:
        yield connection

    return PostgresThreadSignals(lend)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize(
    ("question", "thread_id"),
    [
        ("refunds-1", REFUNDS),
        ("Xem TH-TD-01 giúp tôi", REFUNDS),
        ("th td 01?", REFUNDS),
        ("TH-SOP-01/2 nói gì", REFUNDS),
        ("trích TH–SOP–01/2@1.", REFUNDS),
        ("Theo Điều 20.2.LQ.1 thì sao", REFUNDS),
        ("theo dieu 20.2.lq.1 thi sao", REFUNDS),
        ("Đ20.2.LQ.1", REFUNDS),
        ("what does PEP 484 say", LEAVE),
        ("pep-0484", LEAVE),
    ],
)
def test_a_reference_names_its_thread(
    signals: PostgresThreadSignals,
    policy: AudiencePolicy,
    question: str,
    thread_id: ThreadId,
    form: Literal["NFC", "NFD"],
) -> None:
    found = signals.lexical(unicodedata.normalize(form, question), CUSTOMER, policy)
    assert found.explicit == {thread_id: 1.0}


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize(
    ("question", "worth"),
    [
        ("hoàn tiền cho khách thế nào", 1.0),
        ("hoan tien cho khach the nao", 1.0),
        ("về chargeback", 1.0),
        ("thoả thuận hoàn trả ở đâu", 1.0),
        ("thỏa thuận hoàn trả ở đâu", 1.0),
        ("trả lại tiền cho tôi", 1.0),
        ("trà lại tiền cho tôi", 0.5),
    ],
)
def test_an_alias_or_a_label_names_its_thread(
    signals: PostgresThreadSignals,
    policy: AudiencePolicy,
    question: str,
    worth: float,
    form: Literal["NFC", "NFD"],
) -> None:
    found = signals.lexical(unicodedata.normalize(form, question), CUSTOMER, policy)
    assert found.label == {REFUNDS: worth}


@pytest.mark.parametrize(
    "question",
    ["Bộ luật Hoàn tiền quy định gì", "45/2019/QH14", "theo bo luat hoan tien", "TH-SOP-01"],
)
def test_a_named_law_points_at_the_threads_that_hold_it(
    signals: PostgresThreadSignals, policy: AudiencePolicy, question: str
) -> None:
    assert signals.lexical(question, CUSTOMER, policy).authority == {REFUNDS: 1.0}


def test_an_anchor_points_at_its_threads(
    signals: PostgresThreadSignals, policy: AudiencePolicy
) -> None:
    found = signals.lexical("TH-SOP-01/2", AGENT, policy)
    assert found.authority == {REFUNDS: 1.0, SECRET: 1.0}


@pytest.mark.parametrize("question", ["mấy ngày nghỉ phép", "may ngay nghi phep", "annual leave"])
def test_words_of_a_thread_are_found_with_and_without_marks(
    signals: PostgresThreadSignals, policy: AudiencePolicy, question: str
) -> None:
    assert (
        max(signals.lexical(question, CUSTOMER, policy).keyword.items(), key=lambda x: x[1])[0]
        == LEAVE
    )


@pytest.mark.parametrize(
    "question", ["secret-1", "TH-TD-09", "SC-09/1", "bàn tay đen", "Sự cố nội bộ", "d-secret"]
)
def test_a_reader_learns_nothing_of_a_thread_it_does_not_see(
    signals: PostgresThreadSignals, policy: AudiencePolicy, question: str
) -> None:
    assert signals.lexical(question, CUSTOMER, policy).thread_ids() <= {REFUNDS, LEAVE}


@pytest.mark.parametrize(
    "question", ["chargeback", "trả lại tiền", "Khi nào khách được trả", "staff"]
)
def test_a_hidden_thread_leaves_the_signals_of_the_others_alone(
    connection: Connection, signals: PostgresThreadSignals, policy: AudiencePolicy, question: str
) -> None:
    before = signals.lexical(question, CUSTOMER, policy)
    connection.execute("delete from public.semantic_thread where thread_id = %s", (SECRET,))
    assert signals.lexical(question, CUSTOMER, policy) == before


def test_a_hidden_unit_of_a_visible_thread_names_nothing(
    connection: Connection, signals: PostgresThreadSignals, policy: AudiencePolicy
) -> None:
    add_member(connection, LEAVE, "SC-09/1")
    assert signals.lexical("SC-09/1", CUSTOMER, policy) == LexicalSignals()


def test_a_thread_whose_own_flags_close_it_is_not_found(
    connection: Connection, signals: PostgresThreadSignals, policy: AudiencePolicy
) -> None:
    connection.execute(
        "update public.semantic_thread set visibility = 'internal' where thread_id = %s", (LEAVE,)
    )
    assert LEAVE not in signals.lexical("annual leave PEP 484", CUSTOMER, policy).thread_ids()


def test_a_right_that_is_taken_away_holds_in_the_next_question(
    connection: Connection, signals: PostgresThreadSignals, policy: AudiencePolicy
) -> None:
    before = signals.surroundings([UnitId("PEP 484")], [LEAVE], CUSTOMER, policy)
    connection.execute(
        "update public.production_document set visibility = 'internal' where document_id = 'd-leave'"
    )
    after = signals.surroundings([UnitId("PEP 484")], [LEAVE], CUSTOMER, policy)
    assert (LEAVE in before.facts, after.facts, after.memberships) == (True, {}, {})


def test_a_principal_with_permissions_sees_what_its_lane_does_not(
    connection: Connection, signals: PostgresThreadSignals, policy: AudiencePolicy
) -> None:
    connection.execute(
        "update public.production_document set visibility = 'restricted' where document_id = 'd-secret'"
    )
    permitted = Principal(
        "agent", Audience.AI_AGENT, tool_permissions=frozenset({"read:restricted"})
    )
    assert signals.lexical("TH-TD-09", AGENT, policy).explicit == {}
    assert signals.lexical("TH-TD-09", permitted, policy).explicit == {SECRET: 1.0}


def test_new_words_of_a_thread_are_found_at_once(
    connection: Connection, signals: PostgresThreadSignals, policy: AudiencePolicy
) -> None:
    connection.execute(
        "update public.semantic_thread set aliases = '{sabbatical}' where thread_id = %s", (LEAVE,)
    )
    assert signals.lexical("sabbatical", CUSTOMER, policy).label == {LEAVE: 1.0}
    assert signals.lexical("annual leave", CUSTOMER, policy).label == {}


def test_a_changed_label_is_found_at_once(
    connection: Connection, signals: PostgresThreadSignals, policy: AudiencePolicy
) -> None:
    connection.execute(
        "update public.vocabulary_label set aliases = '{employees}' where label = 'people'"
    )
    assert signals.lexical("employees", CUSTOMER, policy).label == {LEAVE: 1.0}
    assert signals.lexical("staff", CUSTOMER, policy).label == {}


@pytest.mark.parametrize(
    ("role", "confidence", "status", "weight"),
    [
        ("canonical", 1.0, "confirmed", 1.0),
        ("supporting", 1.0, "confirmed", 0.95),
        ("report", 0.8, "proposed", 0.76),
    ],
)
def test_memberships_weigh_by_role_and_confidence(
    connection: Connection,
    signals: PostgresThreadSignals,
    policy: AudiencePolicy,
    role: str,
    confidence: float,
    status: str,
    weight: float,
) -> None:
    add_member(connection, LEAVE, "TH-SOP-01/2", role=role, confidence=confidence, status=status)
    found = signals.surroundings([UnitId("TH-SOP-01/2")], [], CUSTOMER, policy)
    assert found.memberships[UnitId("TH-SOP-01/2")] == pytest.approx({REFUNDS: 1.0, LEAVE: weight})


def test_a_rejected_membership_counts_for_nothing(
    connection: Connection, signals: PostgresThreadSignals, policy: AudiencePolicy
) -> None:
    add_member(connection, LEAVE, "TH-SOP-01/2", status="rejected")
    found = signals.surroundings([UnitId("TH-SOP-01/2")], [], CUSTOMER, policy)
    assert found.memberships == {UnitId("TH-SOP-01/2"): {REFUNDS: 1.0}}


def test_facts_follow_every_change(
    connection: Connection, signals: PostgresThreadSignals, policy: AudiencePolicy
) -> None:
    signals.surroundings([], [LEAVE], CUSTOMER, policy)
    connection.execute(
        """insert into nao.health_signal (signal_id, thread_id, status) values (gen_random_uuid(), %s, 'stale')""",
        (LEAVE,),
    )
    connection.execute(
        """insert into public.expected_artifact_missing (thread_id, lifecycle_stage, description)
           values (%s, 'code', 'no code'), (%s, 'incident', 'hidden')""",
        (LEAVE, LEAVE),
    )
    facts = signals.surroundings([], [LEAVE], CUSTOMER, policy).facts[LEAVE]
    assert (facts.health, facts.covered_stages, facts.missing_stages) == (
        HealthStatus.STALE,
        {LifecycleStage.LAW},
        {LifecycleStage.CODE},
    )


@pytest.mark.parametrize(
    "question",
    [
        "'",
        "a & b | !c",
        "%",
        "\\",
        "x:*",
        "1" * 1_999,
        "đ " * 999,
        "đ" * 1_999,
        "a" + "\u0301" * 1_999,
    ],
)
def test_no_question_breaks_the_statement(
    signals: PostgresThreadSignals, policy: AudiencePolicy, question: str
) -> None:
    assert signals.lexical(question, CUSTOMER, policy).explicit == {}


def test_truncating_threads_empties_the_lexicon(connection: Connection) -> None:
    connection.execute("truncate public.semantic_thread cascade")
    left = connection.execute(
        "select count(*) from nao.thread_lexicon union all select count(*) from nao.lexicon_phrase where kind <> 'label'"
    ).fetchall()
    assert left == [(0,), (0,)]


def test_the_health_that_a_lane_is_told_is_made_of_what_that_lane_sees(
    connection: Connection, signals: PostgresThreadSignals, policy: AudiencePolicy
) -> None:
    connection.execute(
        """insert into nao.health_signal (signal_id, thread_id, lane, status) values
           (gen_random_uuid(), %(leave)s, 'ai_agent', 'weak'), (gen_random_uuid(), %(leave)s, 'customer', 'stale')""",
        {"leave": LEAVE},
    )
    told = {
        lane: signals.surroundings([], [LEAVE], lane_principal(lane), policy).facts[LEAVE].health
        for lane in (Audience.CUSTOMER, Audience.PARTNER, Audience.AI_AGENT)
    }
    assert told == {
        Audience.CUSTOMER: HealthStatus.STALE,
        Audience.PARTNER: None,
        Audience.AI_AGENT: HealthStatus.WEAK,
    }
