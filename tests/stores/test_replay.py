"""Recent questions asked again: of what is about to be switched to, of what is published, and of gaps after a fix.

Method: a real Postgres, the embedded engine and the whole service; an embedder whose directions say nothing, so words decide.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from content_house import ContentHouse
from fixtures_postgres import as_url, new_database
from hub_rows import add_document, add_unit, write_version
from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.errors import ReplayLossError
from threadhouse.retrieval.gap_signals import GapKind
from threadhouse.retrieval.models import Audience, Collection
from threadhouse.retrieval.packs import FallbackKind
from threadhouse.retrieval.query_keeping import QueryTextMode, QuestionKeeper
from threadhouse.retrieval.replay import GapReplayReport, PublishedReplay
from threadhouse.serving.query_events import new_query_id
from threadhouse.serving.replay import (
    find_candidate_units,
    replay_before_switch,
    replay_gaps,
    replay_published,
)
from threadhouse.serving.retrieval_service import RetrievalService, Verdict
from threadhouse.stores.discarded_transaction import discarded_transaction
from threadhouse.stores.gap_signals import acknowledge_gap, fix_gap, list_gaps
from threadhouse.stores.leased_connections import LeasedConnections
from threadhouse.stores.pack_delivery import Leak
from threadhouse.stores.postgres import Database
from threadhouse.stores.rehearsed_delivery import RehearsedDelivery
from threadhouse.stores.replay import (
    ReplayDecision,
    ReplayStage,
    latest_replay,
    recent_questions,
)
from threadhouse.stores.security_events import list_security_events
from threadhouse.stores.settings import Settings
from threadhouse.stores.thread_signals import PostgresThreadSignals

CUSTOMER, AGENT = lane_principal(Audience.CUSTOMER), lane_principal(Audience.AI_AGENT)


@pytest.fixture(scope="module")
def published(
    postgres_server: Database, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[tuple[str, Path], None, None]:
    """Threads T/1 to T/3 of a unit each, published and everybody's; T/4 is internal. A database to clone, and the home."""
    home = tmp_path_factory.mktemp("published")
    with new_database(postgres_server, template_database) as database:
        house = ContentHouse(database, home, engine="edge")
        with house.connect() as connection:
            name = connection.info.dbname
            add_document(connection, "open")
            add_document(connection, "closed", visibility="internal")
            for number in (1, 2, 3):
                add_unit(connection, f"u{number}", "open", f"Nội dung thứ {number}.")
            add_unit(connection, "secret", "closed", "Nội dung nội bộ.")
        for thread, unit in (("t1", "u1"), ("t2", "u2"), ("t3", "u3"), ("t4", "secret")):
            add_thread(house, thread, unit)
        house.publish(allowed_deletion_share=None)
        house.refresh_centroids()
        yield name, home


@pytest.fixture
def house(
    published: tuple[str, Path], postgres_server: Database
) -> Generator[ContentHouse, None, None]:
    """A database of its own over vectors that are shared: nothing may be published."""
    name, home = published
    with new_database(postgres_server, name) as database:
        yield ContentHouse(database, home, engine="edge")


@pytest.fixture
def own_house(house: ContentHouse, tmp_path: Path) -> ContentHouse:
    """The same with vectors of its own."""
    # Files of the engine are mostly holes, which a plain copy would fill.
    subprocess.run(
        ["cp", "-a", "--sparse=always", f"{house.home}/.", str(tmp_path)],
        check=True,
    )
    house.home = tmp_path
    return house


def add_thread(house: ContentHouse, thread: str, *units: str, title: str = "") -> None:
    house.change(
        "insert into public.semantic_thread (thread_id, canonical_address, title) values (%s, %s, %s)",
        thread,
        f"T/{thread[1:]}",
        title or f"Chủ đề {thread}",
    )
    for unit in units:
        house.change(
            "insert into public.thread_membership values (%s, %s, 'canonical', 1, 'confirmed')",
            thread,
            unit,
        )


@pytest.fixture
def settings(house: ContentHouse) -> Settings:
    return Settings.model_validate(
        {"threadhouse_home": house.home, "database_url": as_url(house.database)}
    )


@pytest.fixture
def service(house: ContentHouse) -> Generator[RetrievalService, None, None]:
    with LeasedConnections(house.database, max_size=2) as connections, house.reader() as searcher:
        yield RetrievalService(
            connections=connections,
            searcher=searcher,
            embedder=house.inner,
            signals=PostgresThreadSignals(connections),
        )


def replay(
    house: ContentHouse, settings: Settings, *, accept_losses: bool = False
) -> PublishedReplay:
    return replay_published(settings, house.database, house.inner, accept_losses=accept_losses)


def gate(
    house: ContentHouse, settings: Settings, *, accept_losses: bool = False
) -> Callable[[Callable[[Database], None]], None]:
    def before_switch(move: Callable[[Database], None]) -> None:
        replay_before_switch(
            settings, house.database, house.inner, move, accept_losses=accept_losses
        )

    return before_switch


def forget_members(house: ContentHouse, *threads: str) -> None:
    house.change("delete from public.thread_membership where thread_id = any (%s)", list(threads))


def left_behind(house: ContentHouse) -> list[Any]:
    """Everything that counting, sessions, citations and stored packs go by."""
    return house.rows(
        """select (select count(*) from nao.retrieval_metric_event), (select sum(occurrence_count) from nao.search_gap_signal)
                , (select count(*) from nao.delivered_pack), (select count(*) from nao.thread_context_pack_cache)
                , (select count(*) from nao.consumer_contract_log)"""
    )


def outcome(house: ContentHouse, text: str) -> dict[str, Any]:
    """The newest result of a question."""
    (row,) = house.rows(
        """select to_jsonb(r) from nao.replay_result r
           join nao.replay_run n using (replay_id)
           join nao.retrieval_metric_event e on e.query_id = r.query_id and e.type = 'query'
           where e.query_text = %s order by n.replayed_at desc limit 1""",
        text,
    )
    return row[0]


# --- which questions --------------------------------------------------------------------------


def test_each_question_of_a_lane_is_asked_once_in_its_newest_spelling(
    house: ContentHouse, service: RetrievalService
) -> None:
    for text in ("T/1 là gì?", "t/1 là gì", "T/2"):
        service.answer(text, CUSTOMER)
    service.answer("T/1 là gì?", AGENT)
    with house.connect() as connection:
        asked = recent_questions(connection, KEEPER, datetime.now(UTC), 10)
    assert sorted((each.lane, each.text) for each in asked) == [
        ("ai_agent", "T/1 là gì?"),
        ("customer", "T/2"),
        ("customer", "t/1 là gì"),
    ]


def test_what_was_asked_long_ago_or_without_its_words_is_not_asked_again(
    house: ContentHouse, service: RetrievalService
) -> None:
    for text in ("T/1", "T/2"):
        service.answer(text, CUSTOMER)
    house.change("update nao.retrieval_metric_event set query_text = null where query_text = 'T/1'")
    with house.connect() as connection:
        now = datetime.now(UTC)
        assert [each.text for each in recent_questions(connection, KEEPER, now, 10)] == ["T/2"]
        assert recent_questions(connection, KEEPER, now + timedelta(days=29), 10) == ()


def test_the_last_word_on_an_answer_counts(house: ContentHouse, service: RetrievalService) -> None:
    first = service.answer("T/1", CUSTOMER).query_id
    service.feedback(first, Verdict.SUFFICIENT, CUSTOMER)
    with house.connect() as connection:
        (question,) = recent_questions(connection, KEEPER, datetime.now(UTC), 10)
    assert question.judged_sufficient == "t1"
    service.feedback(first, Verdict.INSUFFICIENT, CUSTOMER)
    with house.connect() as connection:
        (question,) = recent_questions(connection, KEEPER, datetime.now(UTC), 10)
    assert question.judged_sufficient is None


# --- of what is published ---------------------------------------------------------------------


def test_a_replay_leaves_nothing_that_anybody_counts(
    house: ContentHouse, settings: Settings, service: RetrievalService
) -> None:
    for text in ("T/1", "chuyện gì đó chưa ai viết"):
        service.answer(text, CUSTOMER, session_id="s")
    before = left_behind(house)
    verdict = replay(house, settings).verdict
    assert verdict is not None
    assert len(verdict.outcomes) == 2
    assert left_behind(house) == before


def test_a_replay_gets_what_a_reader_gets(
    house: ContentHouse, settings: Settings, service: RetrievalService
) -> None:
    for text in ("T/1", "chuyện gì đó chưa ai viết"):
        pack = service.retrieve(text, CUSTOMER)
        replay(house, settings)
        got = outcome(house, text)
        assert got["new_thread_id"] == (pack.thread_id or None)
        assert set(got["new_units"]) == {f"{a}@{r}" for a, r in pack.source_revisions.items()}
        house.change(
            "update public.semantic_thread set title = title || '.' where thread_id = 't3'"
        )


def test_a_leak_in_a_rehearsal_is_written_down_for_good(
    house: ContentHouse, service: RetrievalService
) -> None:
    pack = service.retrieve("T/1", CUSTOMER)
    with discarded_transaction(house.database) as inside:
        delivery = RehearsedDelivery(inside.connections, house.database.connect)
        delivery.refuse(Leak(pack, ["u1"]), CUSTOMER, new_query_id())
    with house.connect() as connection:
        assert [event.cause_key for event in list_security_events(connection)] == ["customer/t1"]


def test_old_replays_go_and_what_was_published_last_stays(
    house: ContentHouse,
    settings: Settings,
    service: RetrievalService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("threadhouse.stores.replay.KEPT_REPLAYS", 2)
    for text in ("T/1", "T/2"):
        service.answer(text, CUSTOMER)
    replay(house, settings)
    forget_members(house, "t1", "t2")
    for _ in range(4):
        assert replay(house, settings).is_stopped
    verdicts = "select verdict from nao.replay_run order by replayed_at"
    assert house.rows(verdicts) == [("passed",), ("stopped",), ("stopped",)]


def test_nothing_is_asked_while_nothing_changes(
    house: ContentHouse, settings: Settings, service: RetrievalService
) -> None:
    service.answer("T/1", CUSTOMER)
    assert replay(house, settings).verdict is not None
    again = replay(house, settings)
    assert (again.verdict, again.why_not) == (None, "nothing changed since the last replay")
    house.change("update public.semantic_thread set title = 'Tên mới' where thread_id = 't1'")
    assert replay(house, settings).verdict is not None


def test_a_setting_that_ranks_answers_otherwise_is_a_change(
    house: ContentHouse, settings: Settings, service: RetrievalService
) -> None:
    service.answer("T/1", CUSTOMER)
    replay(house, settings)
    assert replay(house, settings).verdict is None
    ranked_otherwise = settings.model_copy(update={"search_rerank_enabled": False})
    assert replay(house, ranked_otherwise).verdict is not None


def test_a_night_without_texts_says_so_and_goes_on(
    house: ContentHouse, settings: Settings, service: RetrievalService
) -> None:
    service.answer("T/1", CUSTOMER)
    house.change("update nao.retrieval_metric_event set query_text = null")
    result = replay(house, settings)
    assert (result.verdict, result.is_stopped) == (None, False)
    assert "kept with its text" in result.why_not


def test_lost_answers_stop_until_they_are_accepted(
    house: ContentHouse, settings: Settings, service: RetrievalService
) -> None:
    for text in ("T/1", "T/2", "T/3"):
        service.answer(text, CUSTOMER)
    assert not replay(house, settings).is_stopped
    forget_members(house, "t1", "t2")
    for _ in range(2):  # It is still broken the next night.
        stopped = replay(house, settings)
        assert stopped.is_stopped
        assert stopped.verdict is not None
        assert (stopped.verdict.lost, stopped.verdict.at_risk) == (2, 3)
    assert outcome(house, "T/1")["loss"] in {"thread_gone", "thread_lost"}
    accepted = replay(house, settings, accept_losses=True)
    assert (accepted.is_stopped, accepted.verdict and accepted.verdict.lost) == (False, 2)
    # From here on this is what there was.
    house.change("update public.semantic_thread set title = 'Tên mới' where thread_id = 't3'")
    later = replay(house, settings)
    assert later.verdict is not None
    assert later.verdict.lost == 0


def test_a_mended_hub_goes_on_without_anybody_accepting(
    house: ContentHouse, settings: Settings, service: RetrievalService
) -> None:
    for text in ("T/1", "T/2"):
        service.answer(text, CUSTOMER)
    replay(house, settings)
    forget_members(house, "t1", "t2")
    assert replay(house, settings).is_stopped
    for number in (1, 2):
        house.change(
            "insert into public.thread_membership values (%s, %s, 'canonical', 1, 'confirmed')",
            f"t{number}",
            f"u{number}",
        )
    mended = replay(house, settings)
    assert mended.verdict is not None
    assert (mended.is_stopped, mended.verdict.changed) == (False, 0)


# --- before the switch ------------------------------------------------------------------------


@pytest.mark.usefixtures("own_house")
def test_what_is_about_to_be_published_is_asked_while_readers_have_the_old(
    house: ContentHouse, settings: Settings, service: RetrievalService
) -> None:
    question = "kỳ nhông ăn gì"
    service.answer(question, CUSTOMER)
    with house.connect() as connection:
        write_version(connection, "u2", "Kỳ nhông ăn gì: kỳ nhông ăn lá.")
    seen: list[tuple[str | None, list[Any]]] = []

    def before_switch(move: Callable[[Database], None]) -> None:
        gate(house, settings)(move)
        # A reader at this moment: the new vectors are there and nobody gets them.
        hits = service.answer(question, CUSTOMER).hits
        pointers = house.rows(
            """select count(*) from nao.vector_projection p
               join source.information_unit i on i.logical_unit_id = p.owner_id
               where p.version_key = i.unit_version_id::text and p.owner_id = 'u2'"""
        )
        seen.append((hits[0].owner_id if hits else None, pointers))

    house.publish(before_switch=before_switch)
    ((top_of_reader, pointers),) = seen
    assert top_of_reader != "u2"
    assert pointers == [(0,)]
    assert outcome(house, question)["new_top_unit"] == "u2"
    assert outcome(house, question)["old_top_unit"] == top_of_reader
    assert service.answer(question, CUSTOMER).hits[0].owner_id == "u2"


@pytest.mark.usefixtures("own_house")
def test_too_many_losses_leave_readers_on_the_old_vectors(
    house: ContentHouse, settings: Settings, service: RetrievalService
) -> None:
    for text in ("T/1", "T/2"):
        service.answer(text, CUSTOMER)
    replay(house, settings)
    before = house.pointers(Collection.INFORMATION_UNITS)
    forget_members(house, "t1", "t2")
    with house.connect() as connection:
        write_version(connection, "u3", "Nội dung mới.")
    with pytest.raises(ReplayLossError, match="2 of 2 recent questions"):
        house.publish(before_switch=gate(house, settings))
    assert house.pointers(Collection.INFORMATION_UNITS) == before
    record = latest_replay(house.database)
    assert record is not None
    assert (record.stage, record.verdict, record.lost) == (
        ReplayStage.SWITCH,
        ReplayDecision.STOPPED,
        2,
    )
    report = house.publish(before_switch=gate(house, settings, accept_losses=True))
    assert report.owners_published == 1


@pytest.mark.usefixtures("own_house")
def test_nothing_to_switch_to_asks_nothing(house: ContentHouse) -> None:
    def before_switch(move: Callable[[Database], None]) -> None:
        del move
        pytest.fail("nothing was staged")

    house.publish(before_switch=before_switch)


@pytest.mark.usefixtures("own_house")
def test_no_question_is_asked_where_the_settings_want_none(
    house: ContentHouse, settings: Settings, service: RetrievalService
) -> None:
    service.answer("T/1", CUSTOMER)
    asking_none = settings.model_copy(update={"replay_questions": 0})
    gate(house, asking_none)(lambda _: pytest.fail("pointers were moved for nobody"))
    assert replay(house, asking_none).why_not == "REPLAY_QUESTIONS is 0"
    assert house.rows("select count(*) from nao.replay_run")[0][0] == 0


def test_what_was_asked_before_the_switch_is_not_asked_again_after_it(
    house: ContentHouse, settings: Settings, service: RetrievalService
) -> None:
    service.answer("T/1", CUSTOMER)
    # A unit of no thread, so that no centroid moves with it.
    with house.connect() as connection:
        add_unit(connection, "loose", "open", "Một mình.")
    house.publish(before_switch=gate(house, settings))
    house.refresh_centroids()
    assert replay(house, settings).why_not == "this state was replayed before the switch to it"
    record = latest_replay(house.database)
    assert record is not None
    assert (record.stage, record.is_baseline) == (ReplayStage.SWITCH, True)


# --- what a lane's report may say -------------------------------------------------------------


def test_a_lanes_report_counts_its_own_questions_and_names_no_thread_that_it_does_not_see(
    house: ContentHouse, settings: Settings, service: RetrievalService
) -> None:
    for text in ("T/1", "T/2"):
        service.answer(text, CUSTOMER)
    for text in ("T/1", "T/4"):
        service.answer(text, AGENT)
    replay(house, settings)
    # t1 becomes internal: customers lose it, agents do not.
    house.change(
        "update public.tac_logical_unit set visibility = 'internal' where logical_unit_id = 'u1'"
    )
    replay(house, settings)
    record = latest_replay(house.database, Audience.CUSTOMER)
    assert record is not None
    assert (record.questions, record.at_risk, record.lost) == (2, 2, 1)
    (lost,) = [each for each in record.results if each.loss]
    assert (lost.text, lost.old_thread_id, lost.old_units, lost.old_top_unit) == (
        None,
        None,
        (),
        None,
    )
    everything = latest_replay(house.database)
    assert everything is not None
    assert everything.questions == 4
    assert {each.old_thread_id for each in everything.results if each.loss} == {"t1"}
    assert "T/1" in {each.text for each in everything.results}
    assert everything.to_json()["lost"] == 1


# --- gaps after a fix -------------------------------------------------------------------------

MISSING = "phí thành viên hằng năm"
KEEPER = QuestionKeeper(QueryTextMode.STORE, b"a secret")


@pytest.fixture
def gap(house: ContentHouse, service: RetrievalService) -> UUID:
    """A question that no thread answers, as a gap of its lane."""
    pack = service.retrieve(MISSING, CUSTOMER)
    assert pack.fallback_signal is not None
    assert pack.fallback_signal.kind is FallbackKind.MISSING_THREAD
    with house.connect() as connection:
        (found,) = list_gaps(connection, kinds=[GapKind.MISSING_THREAD])
    return found.signal_id


def ask_gaps(house: ContentHouse, settings: Settings) -> GapReplayReport:
    return replay_gaps(settings, house.database, house.inner)


def state_of(house: ContentHouse, gap: UUID) -> tuple[str, str, int, dict[str, Any]]:
    (row,) = house.rows(
        "select status, changed_by, occurrence_count, evidence from nao.search_gap_signal where signal_id = %s",
        gap,
    )
    return row[0], row[1], row[2], row[3]


@pytest.mark.usefixtures("own_house")
def test_a_gap_closes_when_its_thread_appears(
    house: ContentHouse, settings: Settings, gap: UUID
) -> None:
    assert ask_gaps(house, settings) == GapReplayReport(unchanged=1)
    # Nothing changed: not asked again.
    assert ask_gaps(house, settings) == GapReplayReport()
    with house.connect() as connection:
        acknowledge_gap(connection, gap, who="an", why="sẽ viết")
    with house.connect() as connection:
        add_unit(connection, "fee", "open", "Phí thành viên hằng năm là 100.")
    add_thread(house, "t9", "fee", title="Phí thành viên hằng năm")
    house.publish()
    house.refresh_centroids()
    assert ask_gaps(house, settings) == GapReplayReport(closed=1)
    status, who, count, evidence = state_of(house, gap)
    assert (status, who, count) == ("fixed", "replay", 1)
    assert evidence["replay"]["thread_id"] == "t9"
    assert ask_gaps(house, settings) == GapReplayReport()


def test_a_gap_that_was_called_fixed_and_is_not_is_reopened(
    house: ContentHouse, settings: Settings, gap: UUID
) -> None:
    ask_gaps(house, settings)
    with house.connect() as connection:
        fix_gap(connection, gap, who="an", why="đã sửa")
    # It is asked although nothing changed: somebody says that it did.
    assert ask_gaps(house, settings) == GapReplayReport(reopened=1)
    status, who, count, _ = state_of(house, gap)
    assert (status, who, count) == ("reopened", "replay", 1)


def test_a_gap_whose_question_is_not_kept_stays_as_it_is(
    house: ContentHouse, settings: Settings, gap: UUID
) -> None:
    house.change("update nao.retrieval_metric_event set query_text = null")
    with house.connect() as connection:
        fix_gap(connection, gap, who="an", why="đã sửa")
    assert ask_gaps(house, settings) == GapReplayReport(without_text=1)
    assert state_of(house, gap)[:2] == ("fixed", "an")


def test_asking_gaps_again_counts_nothing(
    house: ContentHouse, settings: Settings, gap: UUID
) -> None:
    before = left_behind(house)
    ask_gaps(house, settings)
    assert left_behind(house) == before
    assert state_of(house, gap)[2] == 1


def test_candidate_units_are_those_that_the_lane_sees(
    house: ContentHouse, settings: Settings
) -> None:
    texts = ["Nội dung nội bộ", "Nội dung thứ 2"]

    def found(lane: Audience) -> set[str]:
        units = find_candidate_units(settings, house.database, house.inner, lane, texts)
        return {each.unit_id for each in units}

    assert found(Audience.AI_AGENT) == {"u1", "u2", "u3", "secret"}
    assert found(Audience.CUSTOMER) == {"u1", "u2", "u3"}
