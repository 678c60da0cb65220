"""What is made of units tells a reader nothing about those that it may not see: errors, feedback, citations, reasons.

Method: a real hub with a thread that only agents see; the same call is made about what is hidden and about what never was, and
the two answers have to be the same words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path
from uuid import uuid4

import pytest

from content_house import ContentHouse
from hub_rows import add_document, add_unit
from threadhouse.pipelines.cli_query import explanation
from threadhouse.retrieval import search
from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.errors import ConfigurationError, PackUnknownError, QueryUnknownError
from threadhouse.retrieval.leak_canaries import OPEN
from threadhouse.retrieval.models import AllOf, Audience
from threadhouse.retrieval.packs import ContextPack, canonical_json
from threadhouse.serving.explained_hits import hits_in_sight
from threadhouse.serving.query_events import new_query_id
from threadhouse.serving.retrieval_service import Mode, RetrievalService, Verdict
from threadhouse.stores import live_owners
from threadhouse.stores.leased_connections import LeasedConnections
from threadhouse.stores.postgres import Database
from threadhouse.stores.thread_signals import PostgresThreadSignals

CUSTOMER = lane_principal(Audience.CUSTOMER)
AGENT = lane_principal(Audience.AI_AGENT)


@pytest.fixture
def house(database: Database, tmp_path: Path) -> ContentHouse:
    """Thread t1 of public units, thread t2 of an internal one."""
    house = ContentHouse(database, tmp_path, engine="edge")
    with house.connect() as connection:
        add_document(connection, "open")
        add_document(connection, "closed", visibility="internal")
        add_unit(connection, "u1", "open", "Nội dung về hoàn tiền.")
        add_unit(connection, "u2", "closed", "Nội dung về lương thưởng.")
    for thread, title, unit in (("t1", "Hoàn tiền", "u1"), ("t2", "Lương thưởng", "u2")):
        house.change(
            "insert into public.semantic_thread (thread_id, canonical_address, title) values (%s, %s, %s)",
            thread,
            f"T/{thread}",
            title,
        )
        house.change(
            "insert into public.thread_membership (thread_id, logical_unit_id, role, confidence, status)"
            " values (%s, %s, 'canonical', 1, 'confirmed')",
            thread,
            unit,
        )
    house.publish()
    house.refresh_centroids()
    return house


@pytest.fixture
def service(house: ContentHouse) -> Generator[RetrievalService, None, None]:
    with (
        LeasedConnections(house.database, max_size=2) as connections,
        house.reader() as searcher,
    ):
        yield RetrievalService(
            connections=connections,
            searcher=searcher,
            embedder=house.inner,
            signals=PostgresThreadSignals(connections),
        )


def refusal(call: Callable[[], object], *about: object) -> str:
    """What a refused call says, with the names that the caller gave taken out."""
    with pytest.raises((ConfigurationError, QueryUnknownError, PackUnknownError)) as refused:
        call()
    said = str(refused.value)
    for name in about:
        said = said.replace(str(name), "X")
    return said


def test_a_query_of_another_lane_looks_like_one_that_never_was(service: RetrievalService) -> None:
    foreign, never = service.answer("T/t2", AGENT).query_id, new_query_id()
    said = [
        refusal(lambda q=q: service.feedback(q, Verdict.SUFFICIENT, CUSTOMER), q)
        for q in (foreign, never)
    ]
    assert said[0] == said[1]


def test_a_pack_of_another_lane_looks_like_one_that_never_was(service: RetrievalService) -> None:
    foreign, never = service.answer("T/t2", AGENT).pack.pack_id, uuid4()
    said = [
        refusal(lambda p=p: service.check_citations(p, ["u2@1"], CUSTOMER), p)
        for p in (foreign, never)
    ]
    assert said[0] == said[1]


def test_a_citation_of_what_is_hidden_looks_like_one_of_nothing(service: RetrievalService) -> None:
    pack = service.answer("T/t1", CUSTOMER).pack
    hidden, never = service.check_citations(pack.pack_id, ["u2@1", "u9@1"], CUSTOMER)
    assert (hidden.status, hidden.pack_revision) == (never.status, never.pack_revision)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_feedback_about_a_thread_that_was_not_shown_is_refused_whether_there_is_one_or_not(
    house: ContentHouse, service: RetrievalService, verdict: Verdict
) -> None:
    """Else a reader could give a thread that it does not see a bad name, and with it another health."""
    query_id = service.answer("T/t1", CUSTOMER).query_id
    before = house.rows("select count(*) from nao.retrieval_metric_event")
    said = [
        refusal(lambda t=t: service.feedback(query_id, verdict, CUSTOMER, thread_id=t), t, query_id)
        for t in ("t2", "never")
    ]
    assert said[0] == said[1]
    assert house.rows("select count(*) from nao.retrieval_metric_event") == before


def test_feedback_about_the_thread_that_answered_is_taken(service: RetrievalService) -> None:
    query_id = service.answer("T/t1", CUSTOMER).query_id
    assert service.feedback(query_id, Verdict.REJECT, CUSTOMER, thread_id="t1")


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("question", ["T/t2", "Lương thưởng", "nội dung về lương thưởng"])
def test_the_reasons_for_an_answer_name_nothing_that_is_hidden(
    house: ContentHouse, service: RetrievalService, question: str, mode: Mode
) -> None:
    answer = service.answer(question, CUSTOMER, mode)
    hits = hits_in_sight(house.database, answer.hits, CUSTOMER)
    assert len(hits) == len(answer.hits)
    text = json.dumps(explanation(answer, hits), default=str) + canonical_json(answer.pack)
    for hidden in ("t2", "u2", "closed", "thưởng"):
        assert hidden not in text


def test_the_reasons_for_an_answer_name_nothing_that_the_read_back_let_pass(
    house: ContentHouse, service: RetrievalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With both enforcers of the search off, its hits hold what is hidden; an explanation counts it and says no more."""
    monkeypatch.setattr(search, "vector_filter", lambda *_: AllOf())
    monkeypatch.setattr(search, "sight_of", lambda *_: lambda _: True)
    monkeypatch.setattr(live_owners, "labels_from_words", lambda *_: OPEN)
    house.change(
        "create or replace function cong.allowed_now() returns integer language sql stable as 'select 134217727'"
    )
    answer = service.answer("nội dung về lương thưởng", CUSTOMER, Mode.RAW)
    assert "u2" in {hit.owner_id for hit in answer.hits}
    hits = hits_in_sight(house.database, answer.hits, CUSTOMER)
    told = explanation(answer, hits)
    assert "u2" not in json.dumps(told, default=str)
    assert told["filtered_count"] == answer.filtered + len(answer.hits) - len(hits)


def told(pack: ContextPack) -> tuple[ContextPack, float | None]:
    """A pack and the score that decided, to four digits: recency counts to the second, and is part of what the id is made of."""
    signal = pack.fallback_signal
    bare = pack.model_copy(update={"pack_id": None, "fallback_signal": None})
    return bare, None if signal is None or signal.score is None else round(signal.score, 4)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("question", ["T/t2", "Lương thưởng", "hoàn tiền và lương thưởng"])
def test_a_question_is_answered_as_if_what_is_hidden_were_not_there(
    house: ContentHouse, service: RetrievalService, question: str, mode: Mode
) -> None:
    """Down to the scores: how rare a word is must not be counted over texts that the reader does not see."""
    with_it = service.answer(question, CUSTOMER, mode)
    house.change("delete from public.semantic_thread where thread_id = 't2'")
    house.change("delete from public.production_document where document_id = 'closed'")
    house.publish(allowed_deletion_share=None)
    house.refresh_centroids()
    without = service.answer(question, CUSTOMER, mode)
    assert told(with_it.pack) == told(without.pack)
    assert [hit.breakdown for hit in with_it.hits] == [hit.breakdown for hit in without.hits]


def test_changing_what_is_hidden_changes_no_word_of_a_pack(
    house: ContentHouse, service: RetrievalService
) -> None:
    """But ``built_from.input_revision``, which counts every change of the thread (docs/security.md)."""
    house.change(
        "insert into public.thread_membership (thread_id, logical_unit_id, role, confidence, status)"
        " values ('t1', 'u2', 'canonical', 1, 'confirmed')"
    )
    before = service.answer("T/t1", CUSTOMER).pack
    house.change(
        "update public.tac_logical_unit set readiness = 'draft' where logical_unit_id = 'u2'"
    )
    after = service.answer("T/t1", CUSTOMER).pack
    assert after.pack_id == before.pack_id
    assert after.model_copy(update={"built_from": before.built_from}) == before
