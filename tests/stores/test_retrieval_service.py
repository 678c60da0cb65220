"""The query path as a consumer meets it: what is answered, to whom, and what every query leaves behind.

Method: a real Postgres, real vector collections, the real rules; an embedder whose directions say nothing, so that words decide.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from content_house import ContentHouse
from delivery_house import rows
from fixtures_postgres import as_administrator
from hub_rows import add_document, add_unit, write_version
from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.errors import (
    ConfigurationError,
    EmptyTextError,
    PackUnknownError,
    PrincipalExpiredError,
    QueryUnknownError,
    WrongAudienceError,
)
from threadhouse.retrieval.fallback import LEGACY_UNIT_KIND
from threadhouse.retrieval.models import Audience, HealthStatus, ThreadId
from threadhouse.retrieval.packs import ContextPack, FallbackKind
from threadhouse.retrieval.ranking import RankingWeights
from threadhouse.retrieval.resolution import RetrievalPolicy
from threadhouse.serving.opening import OBJECTS_BETWEEN_COLLECTIONS, open_retrieval_service
from threadhouse.serving.query_events import new_query_id
from threadhouse.serving.retrieval_service import (
    CitationStatus,
    Mode,
    PackSource,
    RetrievalService,
    Verdict,
)
from threadhouse.stores.leased_connections import LeasedConnections
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings
from threadhouse.stores.thread_signals import PostgresThreadSignals

CUSTOMER = lane_principal(Audience.CUSTOMER)
AGENT = lane_principal(Audience.AI_AGENT)
READER_OF_DRAFTS = replace(AGENT, tool_permissions=frozenset({"read:drafts"}))

# Only a thread that is named can win; two that are named share the odds.
NUMBERS = RetrievalPolicy(
    version=1,
    space_id="",
    coefficients={
        "same:intercept": -12,
        "cross:intercept": -12,
        "unmarked:intercept": -12,
        "explicit": 24,
    },
    scales={},
    ranking=RankingWeights(0, 0, 0, 0, 365, {HealthStatus.STALE: 0.2}),
    single_threshold=0.6,
    match_threshold=0.5,
    candidate_floor=0.1,
    candidate_limit=5,
)


@pytest.fixture
def house(database: Database, tmp_path: Path) -> ContentHouse:
    """Threads T/1 and T/2 that everybody sees, T/3 of an internal unit and a draft, and a document without units."""
    house = ContentHouse(database, tmp_path)
    with house.connect() as connection:
        add_document(connection, "open")
        add_document(connection, "closed", visibility="internal")
        add_document(connection, "old", body="Quy trình cũ về khiếu nại của khách hàng. " * 20)
        for unit, document in (
            ("u1", "open"),
            ("u2", "open"),
            ("secret", "closed"),
            ("draft", "closed"),
        ):
            add_unit(connection, unit, document, f"Nội dung của {unit}.")
    house.change(
        "update public.tac_logical_unit set readiness = 'draft' where logical_unit_id = 'draft'"
    )
    for thread, title, units in (
        ("t1", "Hoàn tiền", ["u1"]),
        ("t2", "Khiếu nại", ["u2"]),
        ("t3", "Lương", ["secret", "draft"]),
    ):
        house.change(
            "insert into public.semantic_thread (thread_id, canonical_address, title) values (%s, %s, %s)",
            thread,
            f"T/{thread[1]}",
            title,
        )
        for unit in units:
            house.change(
                "insert into public.thread_membership values (%s, %s, 'canonical', 1, 'confirmed')",
                thread,
                unit,
            )
    house.publish()
    house.refresh_centroids()
    return house


@contextmanager
def serving(
    house: ContentHouse, numbers: RetrievalPolicy
) -> Generator[RetrievalService, None, None]:
    with (
        LeasedConnections(house.database, max_size=2) as connections,
        house.reader() as searcher,
    ):
        yield RetrievalService(
            connections=connections,
            searcher=searcher,
            embedder=house.inner,
            signals=PostgresThreadSignals(connections),
            retrieval_policy=numbers,
        )


@pytest.fixture
def service(house: ContentHouse) -> Generator[RetrievalService, None, None]:
    with serving(house, NUMBERS) as service:
        yield service


def events(house: ContentHouse, *columns: str) -> list[Any]:
    found = house.rows("select to_jsonb(e) from nao.retrieval_metric_event e order by ingest_seq")
    return [tuple(row[0][column] for column in columns) for row in found]


def kinds(house: ContentHouse) -> list[str]:
    return [kind for (kind,) in events(house, "type")]


def gaps(house: ContentHouse) -> list[Any]:
    return house.rows("select kind, occurrence_count from nao.search_gap_signal order by kind")


def addresses(pack: ContextPack) -> set[str]:
    return set(pack.source_revisions)


def test_a_question_that_names_a_thread_gets_its_pack(
    house: ContentHouse, service: RetrievalService
) -> None:
    answer = service.answer("Nói về T/1", CUSTOMER, session_id="s")
    assert (answer.pack.thread_id, addresses(answer.pack)) == ("t1", {"u1"})
    assert events(house, "type", "thread_id", "resolution_path", "session_id") == [
        ("query", "t1", "thread", "s"),
        ("pack_delivered", "t1", None, "s"),
        ("suggestion", "t1", None, "s"),
    ]
    assert {query for (query,) in events(house, "query_id")} == {str(answer.query_id)}


def test_a_thread_that_is_asked_for_by_its_id_answers_whatever_the_question_says(
    house: ContentHouse, service: RetrievalService
) -> None:
    asked = [service.answer("Nói về T/1", CUSTOMER, thread_id=ThreadId("t2")) for _ in range(2)]
    assert [answer.pack.thread_id for answer in asked] == ["t2", "t2"]
    assert [answer.source for answer in asked] == [PackSource.BUILT, PackSource.STORED]
    assert kinds(house) == ["query", "pack_delivered", "suggestion"] * 2


def test_a_thread_that_the_reader_does_not_see_is_as_if_it_had_not_been_named(
    service: RetrievalService,
) -> None:
    packs = [
        service.answer("Nói về T/1", CUSTOMER, thread_id=ThreadId(name)).pack
        for name in ("t3", "t9")
    ]
    assert [pack.thread_id for pack in packs] == ["t1", "t1"]


def test_a_raw_search_gives_as_many_as_are_wanted(service: RetrievalService) -> None:
    whole = service.answer("khiếu nại của khách hàng", CUSTOMER, Mode.RAW).pack
    first = service.answer("khiếu nại của khách hàng", CUSTOMER, Mode.RAW, limit=1).pack
    assert len(whole.recommended_reading_order) > 1
    assert first.recommended_reading_order == whole.recommended_reading_order[:1]
    assert first.pack_id != whole.pack_id


def test_the_first_answer_is_built_and_the_second_is_stored(service: RetrievalService) -> None:
    sources = [service.answer("T/1", CUSTOMER).source for _ in range(2)]
    assert sources == [PackSource.BUILT, PackSource.STORED]


def test_two_threads_that_may_be_meant_are_both_named(
    house: ContentHouse, service: RetrievalService
) -> None:
    pack = service.retrieve("T/1 hay T/2", CUSTOMER)
    assert {each.thread_id for each in pack.candidate_threads} == {"t1", "t2"}
    assert pack.candidate_threads[0].thread_id == pack.thread_id
    assert kinds(house).count("suggestion") == 2
    assert events(house, "resolution_path")[0] == ("candidates",)


def test_no_thread_is_answered_by_a_search_that_says_so(
    house: ContentHouse, service: RetrievalService
) -> None:
    pack = service.retrieve("khiếu nại của khách hàng", CUSTOMER)
    assert pack.fallback_signal is not None
    assert pack.fallback_signal.kind is FallbackKind.MISSING_THREAD
    assert pack.thread_id == ""
    assert events(house, "type", "resolution_path", "reason") == [
        ("query", "fallback", "missing_thread"),
        ("pack_delivered", None, None),
    ]
    assert gaps(house) == [("missing_thread", 1)]


def test_a_document_without_units_is_found_and_cited_by_its_path(
    service: RetrievalService,
) -> None:
    pack = service.retrieve("quy trình cũ về khiếu nại", CUSTOMER, Mode.RAW)
    (part,) = [unit for unit in pack.units() if unit.unit_kind == LEGACY_UNIT_KIND]
    assert (part.canonical_address, part.source_revision) == ("old.md", 1)
    assert "Quy trình cũ" in part.body


def test_the_same_question_again_counts_its_gap(
    house: ContentHouse, service: RetrievalService
) -> None:
    for question in ("khiếu nại ở đâu?", "KHIẾU NẠI ở đâu"):
        service.retrieve(question, CUSTOMER)
    assert gaps(house) == [("missing_thread", 2)]


def test_an_unhealthy_thread_is_not_relied_on_unless_it_is_named(house: ContentHouse) -> None:
    house.change(
        "insert into nao.health_signal (signal_id, thread_id, status) values (gen_random_uuid(), 't1', 'stale')"
    )
    by_words = replace(NUMBERS, coefficients={**NUMBERS.coefficients, "keyword": 60})
    with serving(house, by_words) as service:
        weak = service.retrieve("hoàn tiền", CUSTOMER)
        named = service.retrieve("T/1", CUSTOMER)
    assert weak.fallback_signal is not None
    assert weak.fallback_signal.kind is FallbackKind.WEAK_THREAD
    assert (weak.thread_id, named.thread_id) == ("", "t1")
    assert named.last_health_status is not None
    statement = "select kind, thread_id, evidence ->> 'health' from nao.search_gap_signal"
    assert house.rows(statement) == [("weak_thread", "t1", "stale")]


def test_a_raw_search_is_a_fallback_by_wish_and_delivers_no_pack(
    house: ContentHouse, service: RetrievalService
) -> None:
    pack = service.retrieve("T/1", CUSTOMER, Mode.RAW)
    assert pack.fallback_signal is not None
    assert pack.fallback_signal.kind is FallbackKind.EXPLICIT_RAW
    assert events(house, "type", "resolution_path", "reason") == [
        ("query", "fallback", "explicit_raw")
    ]
    assert gaps(house) == []


def test_a_raw_search_after_a_pack_is_an_extra_search_of_its_query(
    house: ContentHouse, service: RetrievalService
) -> None:
    service.retrieve("hoàn tiền", CUSTOMER, Mode.RAW, session_id="s")
    answer = service.answer("T/1", CUSTOMER, session_id="s")
    service.retrieve("hoàn tiền", CUSTOMER, Mode.RAW, session_id="other")
    service.retrieve("hoàn tiền", CUSTOMER, Mode.RAW)
    service.retrieve("hoàn tiền", AGENT, Mode.RAW, session_id="s")
    assert "extra_search" not in kinds(house)
    service.retrieve("hoàn tiền", CUSTOMER, Mode.RAW, session_id="s")
    extra = [e for e in events(house, "type", "query_id", "thread_id") if e[0] == "extra_search"]
    assert extra == [("extra_search", str(answer.query_id), "t1")]


def test_a_query_that_is_tried_again_counts_once(
    house: ContentHouse, service: RetrievalService
) -> None:
    query_id = new_query_id()
    for _ in range(2):
        service.retrieve("khiếu nại", CUSTOMER, query_id=query_id)
    assert kinds(house) == ["query", "pack_delivered"]
    assert gaps(house) == [("missing_thread", 1)]


def test_a_reader_with_permissions_gets_a_pack_of_its_own_that_is_never_stored(
    house: ContentHouse, service: RetrievalService
) -> None:
    assert addresses(service.retrieve("T/3", AGENT)) == {"secret"}
    stored = house.rows("select lane, pack_id from nao.thread_context_pack_cache")
    for _ in range(2):
        answer = service.answer("T/3", READER_OF_DRAFTS)
        assert answer.source is PackSource.BUILT
        assert addresses(answer.pack) == {"secret", "draft"}
    assert house.rows("select lane, pack_id from nao.thread_context_pack_cache") == stored
    assert addresses(service.retrieve("T/3", AGENT)) == {"secret"}


def test_a_thread_that_a_lane_sees_nothing_of_is_missing_for_it(service: RetrievalService) -> None:
    answer = service.answer("T/3", CUSTOMER)
    assert answer.pack.fallback_signal is not None
    assert "t3" not in answer.facts
    assert "Lương" not in answer.pack.model_dump_json()


def test_a_right_that_was_taken_away_is_gone_with_the_next_query(
    house: ContentHouse, service: RetrievalService
) -> None:
    assert "u1" in addresses(service.retrieve("nội dung của u1", CUSTOMER, Mode.RAW))
    house.change(
        "update public.tac_logical_unit set visibility = 'internal' where logical_unit_id = 'u1'"
    )
    answer = service.answer("nội dung của u1", CUSTOMER, Mode.RAW)
    assert "u1" not in addresses(answer.pack)
    assert answer.filtered == 1
    assert service.retrieve("T/1", CUSTOMER).thread_id == ""


def test_a_new_version_is_delivered_before_it_is_published(
    house: ContentHouse, service: RetrievalService
) -> None:
    with house.connect() as connection:
        write_version(connection, "u1", "Nội dung mới của u1.")
    for mode, question in ((Mode.THREAD, "T/1"), (Mode.RAW, "nội dung của u1")):
        (unit,) = [
            unit
            for unit in service.retrieve(question, CUSTOMER, mode).units()
            if unit.logical_unit_id == "u1"
        ]
        assert (unit.source_revision, unit.body) == (2, "Nội dung mới của u1.")


def test_what_must_not_leave_is_stopped_reported_and_no_metric(
    house: ContentHouse, service: RetrievalService
) -> None:
    service.retrieve("T/1", CUSTOMER)
    counted = len(kinds(house))
    with house.connect() as connection:
        add_unit(connection, "u9", "open", "Nội dung khác.")
        connection.execute(
            "insert into public.thread_membership values ('t1', 'u9', 'canonical', 1, 'confirmed')"
        )
    service.retrieve("T/1", CUSTOMER)
    before = len(kinds(house))
    with as_administrator(house.database).connect() as connection:
        # As in an attached database whose changes nobody counts: the pack still passes for fresh.
        connection.execute("set local session_replication_role = replica")
        connection.execute(
            "update public.tac_logical_unit set visibility = 'internal' where logical_unit_id = 'u9'"
        )
    with pytest.raises(WrongAudienceError):
        service.retrieve("T/1", CUSTOMER)
    assert len(kinds(house)) == before > counted
    assert rows(house.database, "select kind from nao.consumer_contract_log") == [
        ("wrong_audience_result",)
    ]
    assert rows(house.database, "select kind from nao.governance_queue_item order by kind") == [
        ("governance",),
        ("risk_review",),
    ]
    assert addresses(service.retrieve("T/1", CUSTOMER)) == {"u1"}


def test_a_budget_shortens_the_pack_and_the_event_knows_what_left(
    house: ContentHouse, service: RetrievalService
) -> None:
    whole = service.retrieve("T/1", CUSTOMER, token_budget=None)
    short = service.retrieve("T/1", CUSTOMER, token_budget=1)
    assert addresses(whole) == {"u1"}
    assert (short.units(), [each.canonical_address for each in short.left_out]) == ((), ["u1"])
    assert [kind for kind in kinds(house) if kind == "pack_delivered"] == ["pack_delivered"]


def test_an_expired_principal_gets_nothing(house: ContentHouse, service: RetrievalService) -> None:
    expired = replace(CUSTOMER, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    calls: list[Callable[[], object]] = [
        lambda: service.retrieve("T/1", expired),
        lambda: service.feedback(uuid4(), Verdict.NOISY, expired),
        lambda: service.check_citations(uuid4(), [], expired),
    ]
    for call in calls:
        with pytest.raises(PrincipalExpiredError):
            call()
    assert kinds(house) == []


@pytest.mark.parametrize("question", ["", " \n\u200b"])
def test_no_question_is_no_query(
    house: ContentHouse, service: RetrievalService, question: str
) -> None:
    with pytest.raises(EmptyTextError):
        service.retrieve(question, CUSTOMER)
    assert kinds(house) == []


@pytest.mark.parametrize("session", ["", " ", "x" * 201])
def test_a_session_needs_a_name(service: RetrievalService, session: str) -> None:
    with pytest.raises(ConfigurationError):
        service.retrieve("T/1", CUSTOMER, session_id=session)


@pytest.mark.parametrize(
    ("verdict", "kind", "details"),
    [
        (Verdict.SUFFICIENT, "sufficiency_verdict", {"sufficient": True}),
        (Verdict.INSUFFICIENT, "sufficiency_verdict", {"sufficient": False}),
        (Verdict.WRONG_THREAD, "wrong_thread", {}),
        (Verdict.NOISY, "noisy_context", {}),
        (Verdict.MISSING_THREAD, "missing_thread_confirmed", {}),
        (Verdict.REJECT, "rejection", {}),
    ],
)
def test_a_verdict_is_an_event_of_its_query(
    house: ContentHouse, service: RetrievalService, verdict: Verdict, kind: str, details: object
) -> None:
    query_id = service.answer("T/1", CUSTOMER, session_id="s").query_id
    feedback_id = new_query_id()
    for _ in range(2):
        service.feedback(query_id, verdict, CUSTOMER, feedback_id=feedback_id)
    found = events(house, "type", "query_id", "session_id", "thread_id", "details")[3:]
    assert found == [(kind, str(query_id), "s", "t1", details)]


def test_feedback_needs_a_query_of_the_same_audience(service: RetrievalService) -> None:
    query_id = service.answer("T/1", CUSTOMER).query_id
    for unknown, principal in ((uuid4(), CUSTOMER), (query_id, AGENT)):
        with pytest.raises(QueryUnknownError):
            service.feedback(unknown, Verdict.NOISY, principal)


def test_a_search_that_was_not_enough_is_a_search_gap(
    house: ContentHouse, service: RetrievalService
) -> None:
    query_id = service.answer("khiếu nại", CUSTOMER).query_id
    service.feedback(query_id, Verdict.INSUFFICIENT, CUSTOMER)
    assert gaps(house) == [("missing_thread", 1), ("search_gap", 1)]


def test_citations_are_held_against_the_pack_that_was_read(
    house: ContentHouse, service: RetrievalService
) -> None:
    old = service.retrieve("T/1", CUSTOMER)
    with house.connect() as connection:
        write_version(connection, "u1", "Nội dung mới.")
    new = service.retrieve("T/1", CUSTOMER)
    cited = ["u1@2", "u1@1", "u2@1", "u1@3", "somewhere"]
    checked = service.check_citations(new.pack_id, cited, CUSTOMER, session_id="s")
    assert [each.status for each in checked] == [
        CitationStatus.OK,
        CitationStatus.OLD_REVISION,
        CitationStatus.OUTSIDE_PACK,
        CitationStatus.OUTSIDE_PACK,
        CitationStatus.MALFORMED,
    ]
    # The pack of before has been replaced, but whoever read it cites it rightly.
    assert service.check_citations(old.pack_id, ["u1@1"], CUSTOMER)[0].status is CitationStatus.OK
    logged = house.rows("select kind, pack_id, lane from nao.consumer_contract_log")
    assert sorted(kind for kind, _, _ in logged) == [
        "citation_malformed",
        "citation_old_revision",
        "citation_outside_pack",
        "citation_outside_pack",
    ]
    assert {(pack_id, lane) for _, pack_id, lane in logged} == {(new.pack_id, "customer")}
    assert kinds(house).count("citation_check") == 2


def test_a_check_that_is_tried_again_is_written_once(
    house: ContentHouse, service: RetrievalService
) -> None:
    pack = service.retrieve("T/1", CUSTOMER)
    check_id = new_query_id()
    for _ in range(2):
        service.check_citations(pack.pack_id, ["x@1"], CUSTOMER, check_id=check_id)
    assert house.rows("select count(*) from nao.consumer_contract_log") == [(1,)]
    assert kinds(house).count("citation_check") == 1


def test_a_pack_of_another_audience_cannot_be_asked_about(service: RetrievalService) -> None:
    pack = service.retrieve("T/1", CUSTOMER)
    for pack_id, principal in ((pack.pack_id, AGENT), (uuid4(), CUSTOMER)):
        with pytest.raises(PackUnknownError):
            service.check_citations(pack_id, [], principal)


def test_opening_loads_no_model_and_no_dagster(house: ContentHouse) -> None:
    program = (
        "import sys\n"
        "from threadhouse.serving.opening import open_retrieval_service\n"
        "from threadhouse.stores.settings import Settings\n"
        "with open_retrieval_service(Settings.from_environment()):\n"
        "    print([n for n in ('dagster', 'fastembed', 'onnxruntime', 'tokenizers') if n in sys.modules])\n"
    )
    environment = {
        **os.environ,
        "DATABASE_URL": house.database.conninfo,
        "THREADHOUSE_HOME": str(house.home),
    }
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.stderr) == ("[]\n", "")


def test_python_looks_for_cycles_as_often_as_before_once_a_service_is_closed(
    house: ContentHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", house.database.conninfo)
    monkeypatch.setenv("THREADHOUSE_HOME", str(house.home))
    before = gc.get_threshold()
    with open_retrieval_service(Settings.from_environment()):
        assert gc.get_threshold()[0] == OBJECTS_BETWEEN_COLLECTIONS
    assert gc.get_threshold() == before
