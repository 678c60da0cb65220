"""What an answer and a verdict leave behind: words, key, recurrence, and which unit was noise."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from content_house import ContentHouse
from stores.test_retrieval_service import CUSTOMER, NUMBERS, events
from stores.test_retrieval_service import house as house  # a fixture
from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.models import Audience
from threadhouse.retrieval.query_keeping import QueryTextMode, QuestionKeeper, question_key
from threadhouse.serving.retrieval_service import RetrievalService, Verdict
from threadhouse.stores.leased_connections import LeasedConnections
from threadhouse.stores.loading import load_path
from threadhouse.stores.postgres import Database
from threadhouse.stores.question_causes import key_question_causes
from threadhouse.stores.thread_signals import PostgresThreadSignals

KEPT = QuestionKeeper(QueryTextMode.STORE, b"a secret")
UNANSWERED = "khiếu nại"


@contextmanager
def serving(
    house: ContentHouse, keeper: QuestionKeeper | None
) -> Generator[RetrievalService, None, None]:
    with LeasedConnections(house.database, max_size=2) as connections, house.reader() as searcher:
        yield RetrievalService(
            connections=connections,
            searcher=searcher,
            embedder=house.inner,
            signals=PostgresThreadSignals(connections),
            retrieval_policy=NUMBERS,
            keeper=keeper,
        )


@pytest.mark.parametrize(
    ("mode", "has_text", "has_key", "recurs"),
    [
        (QueryTextMode.STORE, True, True, [False, True]),
        (QueryTextMode.HASH, False, True, [False, True]),
        (QueryTextMode.DROP, False, False, [None, None]),
    ],
)
def test_a_question_leaves_what_its_mode_keeps_and_whether_it_recurs(
    house: ContentHouse,
    mode: QueryTextMode,
    has_text: bool,
    has_key: bool,
    recurs: list[bool | None],
) -> None:
    with serving(house, QuestionKeeper(mode, b"a secret")) as service:
        for text in ("Nói về T/1", "nói VỀ  t/1"):
            service.answer(text, CUSTOMER)
    asked = [
        row[1:]
        for row in events(house, "type", "query_text", "query_key", "is_recurring")
        if row[0] == "query"
    ]
    assert [text is not None for text, _, _ in asked] == [has_text] * 2
    assert len({key for _, key, _ in asked}) == 1
    assert (asked[0][1] is not None) == has_key
    assert [flag for _, _, flag in asked] == recurs


def test_the_unit_that_was_noise_is_named_by_the_address_of_the_pack(house: ContentHouse) -> None:
    with serving(house, KEPT) as service:
        answer = service.answer("Nói về T/1", CUSTOMER)
        service.feedback(answer.query_id, Verdict.NOISY, CUSTOMER, unit_address="u1")
    assert events(house, "type", "unit_address")[-1] == ("noisy_unit", "u1")


@pytest.mark.parametrize(
    ("verdict", "unit"), [("noisy", "u2"), ("noisy", "secret"), ("sufficient", "u1")]
)
def test_nothing_is_said_of_a_unit_that_the_pack_did_not_hold_or_that_is_not_noise(
    house: ContentHouse, verdict: str, unit: str
) -> None:
    with serving(house, KEPT) as service:
        answer = service.answer("Nói về T/1", CUSTOMER)
        with pytest.raises(ConfigurationError, match=r"held no unit|leave the unit out"):
            service.feedback(answer.query_id, Verdict(verdict), CUSTOMER, unit_address=unit)


def gap_rows(house: ContentHouse) -> list[tuple[object, ...]]:
    return house.rows(
        "select cause_key, occurrence_count, signal_id from nao.search_gap_signal order by kind"
    )


@pytest.mark.parametrize("mode", QueryTextMode)
def test_a_gap_is_known_by_a_keyed_cause_whatever_is_kept_of_the_words(
    house: ContentHouse, mode: QueryTextMode
) -> None:
    keeper = QuestionKeeper(mode, b"a secret")
    with serving(house, keeper) as service:
        for text in (UNANSWERED, f" {UNANSWERED.upper()} ?"):
            service.answer(text, CUSTOMER)
    assert [row[:2] for row in gap_rows(house)] == [
        (keeper.cause(Audience.CUSTOMER, UNANSWERED).key, 2)
    ]


def test_a_gap_of_an_earlier_release_is_not_written_a_second_time_and_loses_its_plain_cause(
    house: ContentHouse,
) -> None:
    plain = question_key(Audience.CUSTOMER, UNANSWERED)
    keyed = KEPT.cause(Audience.CUSTOMER, UNANSWERED).key
    with serving(house, None) as service:
        service.answer(UNANSWERED, CUSTOMER)
    ((cause, _, signal_id),) = gap_rows(house)
    assert cause == plain
    with serving(house, KEPT) as service:
        service.answer(UNANSWERED, CUSTOMER)
        assert gap_rows(house) == [(plain, 2, signal_id)]
        for known in (1, 0):
            with house.connect() as connection:
                assert key_question_causes(connection, KEPT) == known
        assert gap_rows(house) == [(keyed, 2, signal_id)]
        service.answer(UNANSWERED, CUSTOMER)
    assert gap_rows(house) == [(keyed, 3, signal_id)]


def test_proposals_and_replays_of_an_earlier_release_lose_their_plain_causes(
    database: Database,
) -> None:
    plain, keyed = (
        [of(Audience.EMPLOYEE, text) for text in ("một", "hai")]
        for of in (question_key, lambda lane, text: KEPT.cause(lane, text).key)
    )
    with database.connect() as connection:
        connection.execute(
            "insert into nao.thread_intake_proposal (proposal_id, lane, cause_key, proposed_title, question_keys)"
            " values (gen_random_uuid(), 'employee', %s, 'Một', %s)",
            (plain[0], [*plain, keyed[1], "employee/other"]),
        )
        connection.execute(
            "with run as (insert into nao.replay_run"
            " (replay_id, stage, state_digest, verdict, questions, changed, at_risk, lost, loss_share_limit, seconds)"
            " values (gen_random_uuid(), 'packs', '', 'passed', 1, 0, 0, 0, 0.1, 0) returning replay_id)"
            " insert into nao.replay_result (replay_id, question_key, lane, query_id, new_path)"
            " select replay_id, %s, 'employee', gen_random_uuid(), 'none' from run",
            (plain[1],),
        )
        assert key_question_causes(connection, KEPT) == len(plain)
        proposal = connection.execute(
            "select cause_key, question_keys from nao.thread_intake_proposal"
        ).fetchone()
        replayed = connection.execute("select question_key from nao.replay_result").fetchone()
    assert proposal == (keyed[0], sorted([*keyed, "employee/other"]))
    assert replayed == (keyed[1],)


def test_loaded_events_keep_no_more_than_asked_ones(database: Database, tmp_path: Path) -> None:
    (tmp_path / "retrieval_metric_event.jsonl").write_text(
        "".join(
            f'{{"occurred_at": "2026-11-1{day}T03:00:00Z", "type": "query", "lane": "employee", "resolution_path": "none", '
            f'"query_id": "019b76da-a800-7000-8000-00000000000{day}", "query_text": "số thẻ của tôi"}}\n'
            for day in (6, 7)
        ),
        encoding="utf-8",
    )
    keeper = QuestionKeeper(QueryTextMode.HASH, b"a secret")
    for _ in range(2):
        load_path(database, tmp_path, keeper=keeper)
    with database.connect() as connection:
        kept = connection.execute(
            "select query_text, query_key is not null, is_recurring from nao.retrieval_metric_event order by occurred_at"
        ).fetchall()
    assert kept == [(None, True, False), (None, True, True)]


def test_what_is_refused_of_events_is_noted_without_the_question(
    database: Database, tmp_path: Path
) -> None:
    rows = [
        '{"occurred_at": "2026-11-16T03:00:00Z", "type": "query", "query_text": "của\\u0000 tôi"}',
        '{"occurred_at": "2026-11-16T03:00:00Z", "type": "query", "query_text": "của tôi",',
        '{"occurred_at": "yesterday", "type": "query", "query_text": "của tôi"}',
    ]
    (tmp_path / "retrieval_metric_event.jsonl").write_text("\n".join(rows), encoding="utf-8")
    report = load_path(database, tmp_path, keeper=KEPT)
    assert len(report.quarantined) == len(rows)
    with database.connect() as connection:
        noted = connection.execute(
            "select field, raw, q::text from nao.quarantined_item q order by field"
        ).fetchall()
    assert [field for field, _, _ in noted] == ["", "occurred_at", "query_text"]
    assert [raw for _, raw, _ in noted] == [None, "yesterday", None]
    assert not any("tôi" in whole for _, _, whole in noted)
