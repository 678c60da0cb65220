"""Words, events and files leave by age, whole days at a time; rates stay, and nothing that comes late replaces a day."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import LiteralString
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest

from threadhouse.retrieval.errors import ConfigurationError, RetentionError
from threadhouse.retrieval.events import RetrievalEvent
from threadhouse.retrieval.query_keeping import QueryTextMode
from threadhouse.stores.event_retention import RetentionResult, RetentionRule, apply_retention
from threadhouse.stores.lake import EventLake
from threadhouse.stores.lake_extract import days_to_look_at, extract_days
from threadhouse.stores.metrics_store import (
    append_events,
    count_days,
    days_due,
    read_daily_metrics,
)
from threadhouse.stores.postgres import Database
from threadhouse.stores.query_secret import open_question_keeper
from threadhouse.stores.settings import Settings

SAIGON = ZoneInfo("Asia/Ho_Chi_Minh")
MONDAY, TUESDAY, WEDNESDAY = (date(2026, 11, day) for day in (16, 17, 18))
MORNING = datetime(2026, 11, 16, 3, tzinfo=UTC)
ONE_DAY = timedelta(days=1)
FOREVER = RetentionRule(None, None, None)


@pytest.fixture
def lake(tmp_path: Path) -> EventLake:
    return EventLake(tmp_path / "lake", lock_timeout_s=0.2)


def a_query(at: datetime, **fields: object) -> RetrievalEvent:
    given: dict[str, object] = {
        "event_id": uuid4(),
        "occurred_at": at,
        "type": "query",
        "query_id": uuid4(),
        "lane": "employee",
        "resolution_path": "none",
        "query_text": "số thẻ của tôi",
    }
    return RetrievalEvent.model_validate(given | fields)


@pytest.fixture
def three_days(database: Database, lake: EventLake) -> Database:
    """A query on each of three days, extracted and counted."""
    append_events(database, [a_query(MORNING + n * ONE_DAY) for n in range(3)])
    night(database, lake)
    return database


def night(database: Database, lake: EventLake) -> None:
    extract_days(database, lake, SAIGON)
    count_days(database, lake, SAIGON, days_due(database, lake))


def scalar(database: Database, statement: LiteralString) -> object:
    with database.connect() as connection:
        row = connection.execute(statement).fetchone()
    return row[0] if row else None


def apply(database: Database, lake: EventLake, rule: RetentionRule) -> RetentionResult:
    return apply_retention(database, lake, SAIGON, rule, WEDNESDAY)


def test_nothing_leaves_without_a_rule(three_days: Database, lake: EventLake) -> None:
    assert apply(three_days, lake, FOREVER) == RetentionResult(0, 0, (), ())


def test_words_leave_and_no_day_is_reopened(three_days: Database, lake: EventLake) -> None:
    rule = RetentionRule(2, None, None)
    assert [apply(three_days, lake, rule).words_forgotten for _ in range(2)] == [1, 0]
    kept = scalar(three_days, "select count(query_text) from nao.retrieval_metric_event")
    assert (kept, days_to_look_at(three_days, lake, SAIGON)) == (2, ())


def test_events_leave_postgres_and_stay_in_lake_and_rates(
    three_days: Database, lake: EventLake
) -> None:
    before = read_daily_metrics(three_days, MONDAY, WEDNESDAY)
    done = apply(three_days, lake, RetentionRule(None, 2, None))
    assert (done.events_removed, done.days_closed) == (1, (MONDAY,))
    night(three_days, lake)
    assert set(lake.digests()) == {MONDAY, TUESDAY, WEDNESDAY}
    assert read_daily_metrics(three_days, MONDAY, WEDNESDAY).equals(before)


def test_what_comes_for_a_closed_day_is_quarantined_and_replaces_nothing(
    three_days: Database, lake: EventLake
) -> None:
    apply(three_days, lake, RetentionRule(None, 2, None))
    late = a_query(MORNING)
    append_events(three_days, [late])
    done = extract_days(three_days, lake, SAIGON)
    assert (done.days_written, done.quarantined) == ((), 1)
    assert lake.read_day(MONDAY).height == 1
    assert scalar(three_days, "select item_key from nao.quarantined_item") == str(late.event_id)


def test_what_came_late_for_a_closed_day_leaves_with_the_next_night_and_its_note_stays(
    three_days: Database, lake: EventLake
) -> None:
    rule = RetentionRule(None, 2, None)
    apply(three_days, lake, rule)
    append_events(three_days, [a_query(MORNING)])
    extract_days(three_days, lake, SAIGON)
    assert apply(three_days, lake, rule).events_removed == 1
    noted = scalar(
        three_days, "select count(*) from nao.quarantined_item where resolved_at is null"
    )
    assert (noted, lake.read_day(MONDAY).height) == (1, 1)


def test_events_that_no_night_extracted_reach_the_lake_before_they_leave(
    three_days: Database, lake: EventLake
) -> None:
    append_events(three_days, [a_query(MORNING)])
    assert apply(three_days, lake, RetentionRule(None, 2, None)).events_removed == 2
    assert lake.read_day(MONDAY).height == 2


def test_a_day_that_the_lake_does_not_hold_as_it_is_stays(
    three_days: Database, lake: EventLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_events(three_days, [a_query(MORNING)])
    # As if the event had arrived after the extract.
    monkeypatch.setattr(
        "threadhouse.stores.event_retention.extract_days", lambda *_args, **_kwargs: None
    )
    with pytest.raises(RetentionError, match="so they were kept"):
        apply(three_days, lake, RetentionRule(None, 2, None))
    assert scalar(three_days, "select count(*) from nao.retrieval_metric_event") == 4


def test_files_leave_once_postgres_has_let_go_and_rates_stay(
    three_days: Database, lake: EventLake
) -> None:
    before = read_daily_metrics(three_days, MONDAY, WEDNESDAY)
    done = apply(three_days, lake, RetentionRule(None, 2, 2))
    assert done.files_removed == (MONDAY,)
    night(three_days, lake)
    assert set(lake.digests()) == {TUESDAY, WEDNESDAY}
    assert read_daily_metrics(three_days, MONDAY, WEDNESDAY).equals(before)


def test_a_follow_up_leaves_with_the_day_of_its_query(database: Database, lake: EventLake) -> None:
    asked = a_query(MORNING)
    verdict = a_query(
        MORNING + 2 * ONE_DAY,
        query_id=asked.query_id,
        type="wrong_thread",
        resolution_path=None,
        query_text=None,
    )
    append_events(database, [asked, verdict])
    night(database, lake)
    assert apply(database, lake, RetentionRule(None, 2, None)).events_removed == 2


def test_files_cannot_leave_before_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_DAYS", "30")
    with pytest.raises(ConfigurationError, match="set EVENT_DAYS to as many days or fewer"):
        Settings.from_environment()


def test_the_secret_of_a_home_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    settings = Settings(threadhouse_home=tmp_path, query_text=QueryTextMode.HASH)
    assert open_question_keeper(settings) == open_question_keeper(settings)
    file = tmp_path / "keys" / "query-key.secret"
    assert (file.stat().st_mode & 0o777, len(file.read_text())) == (0o600, 64)
