"""The analysts' file answers from the lake and the stored rates, and can do nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest

from threadhouse.retrieval.errors import AnalyticsError
from threadhouse.retrieval.events import RetrievalEvent
from threadhouse.stores.analytics import Cut, analytics_file, asking, refresh_analytics
from threadhouse.stores.lake import EventLake
from threadhouse.stores.lake_extract import extract_days
from threadhouse.stores.metrics_store import append_events, count_days, days_due
from threadhouse.stores.postgres import Database

SAIGON = ZoneInfo("Asia/Ho_Chi_Minh")
MONDAY = date(2026, 11, 16)
WORDS = "số thẻ của tôi"


@pytest.fixture
def lake(tmp_path: Path) -> EventLake:
    return EventLake(tmp_path / "a lake's folder")


@pytest.fixture
def warehouse(database: Database, lake: EventLake) -> Database:
    """Two queries of one day, one of them answered by a thread, counted and built."""
    append_events(database, [a_query("thread", "t1"), a_query("none", None)])
    night(database, lake)
    return database


def a_query(path: str, thread_id: str | None) -> RetrievalEvent:
    return RetrievalEvent.model_validate(
        {
            "event_id": uuid4(),
            "occurred_at": datetime(2026, 11, 16, 3, tzinfo=UTC),
            "type": "query",
            "query_id": uuid4(),
            "lane": "employee",
            "resolution_path": path,
            "thread_id": thread_id,
            "query_text": WORDS,
        }
    )


def night(database: Database, lake: EventLake) -> bool:
    extract_days(database, lake, SAIGON)
    count_days(database, lake, SAIGON, days_due(database, lake))
    return refresh_analytics(database, lake)


def ask(lake: EventLake, statement: str, cut: Cut | None = None) -> list[tuple[Any, ...]]:
    with asking(lake, statement, lake.root.parent, cut) as answer:
        return list(answer.rows)


def test_rates_are_those_of_postgres(warehouse: Database, lake: EventLake) -> None:
    columns = "select local_day, lane, thread_id, metric, numerator, denominator, rate, wilson_low, target, revision "
    with warehouse.connect() as connection:
        stored = connection.execute(
            columns + "from nao.retrieval_metric_aggregate order by 1, 2, 3, 4"
        ).fetchall()
    assert ask(lake, columns + "from daily_rates order by 1, 2, 3, 4") == stored


def test_queries_add_up_to_the_rates(warehouse: Database, lake: EventLake) -> None:
    assert warehouse
    counted = "select count(*) filter (where resolution_path = 'thread'), count(*) from queries"
    rate = (
        "select numerator, denominator from daily_rates "
        "where metric = 'thread_hit_rate' and lane = 'overall' and thread_id = ''"
    )
    assert ask(lake, counted) == ask(lake, rate) == [(1, 2)]


def test_events_know_their_local_day(warehouse: Database, lake: EventLake) -> None:
    assert warehouse
    assert ask(lake, "select distinct local_day from events") == [(MONDAY,)]


def test_it_is_built_again_only_when_rates_changed(warehouse: Database, lake: EventLake) -> None:
    assert not refresh_analytics(warehouse, lake)
    append_events(warehouse, [a_query("none", None)])
    assert night(warehouse, lake)
    assert ask(lake, "select count(*) from queries") == [(3,)]


def test_a_damaged_file_is_built_again(warehouse: Database, lake: EventLake) -> None:
    analytics_file(lake).write_bytes(b"half a file")
    assert refresh_analytics(warehouse, lake)


def test_a_reader_keeps_what_it_opened_while_the_file_is_replaced(
    warehouse: Database, lake: EventLake
) -> None:
    with asking(lake, "select count(*) from counted_days", lake.root.parent) as answer:
        append_events(warehouse, [a_query("none", None)])
        assert night(warehouse, lake)
        assert list(answer.rows) == [(1,)]


def test_no_words_of_a_question_are_in_it(warehouse: Database, lake: EventLake) -> None:
    assert warehouse
    columns = {row[0] for row in ask(lake, "describe events")}
    assert "query_text" not in columns
    assert WORDS.encode() not in analytics_file(lake).read_bytes()


@pytest.mark.parametrize(
    "statement",
    [
        "copy (select 1) to '{lake}/retrieval_metric_event/x.csv'",
        "explain analyze copy (select 1) to '{lake}/retrieval_metric_event/x.csv'",
        "copy (select 1) to '{outside}/x.csv'",
        "create table mine as select 1",
        "delete from daily_rates",
        "attach '{outside}/other.duckdb'",
        "set enable_external_access = true",
        "install httpfs",
        "load json",
        "pragma database_list",
        "call pragma_version()",
        "select 1; select 2",
        "",
    ],
)
def test_what_is_no_select_is_refused_in_one_sentence_and_leaves_no_file(
    warehouse: Database, lake: EventLake, tmp_path: Path, statement: str
) -> None:
    assert warehouse
    before = sorted(tmp_path.rglob("*"))
    text = statement.format(lake=str(lake.root).replace("'", "''"), outside=tmp_path)
    with pytest.raises(AnalyticsError, match=r"^Only one select can be asked here"):
        ask(lake, text)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "statement",
    [
        "from read_text('{outside}/secret.txt')",
        "from read_csv('{outside}/secret.txt')",
        "from '{outside}/secret.txt'",
        "from read_text('{lake}/retrieval_metric_event/../../secret.txt')",
        "from glob('{outside}/*')",
        "from read_blob('/etc/hostname')",
        "from read_csv('https://example.org/x.csv')",
    ],
)
def test_nothing_outside_the_lake_can_be_read(
    warehouse: Database, lake: EventLake, tmp_path: Path, statement: str
) -> None:
    assert warehouse
    (tmp_path / "secret.txt").write_text("secret")
    text = statement.format(lake=str(lake.root).replace("'", "''"), outside=tmp_path)
    assert seen(lake, text) == []


def seen(lake: EventLake, statement: str) -> list[tuple[Any, ...]]:
    """What a question gets to see; a list of files may also be empty instead of refused."""
    try:
        return ask(lake, statement)
    except AnalyticsError:
        return []


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("selec 1", "syntax error"),
        ("select nothing from events", "nothing"),
        ("select * from nowhere", "nowhere"),
        ("select 'x'::int", "x"),
    ],
)
def test_a_wrong_statement_gets_one_sentence(
    warehouse: Database, lake: EventLake, statement: str, reason: str
) -> None:
    assert warehouse
    with pytest.raises(AnalyticsError, match=reason) as caught:
        ask(lake, statement)
    assert "\n" not in str(caught.value)


def test_a_cut_answer_is_its_beginning_however_long_and_wide_it_is(
    warehouse: Database, lake: EventLake
) -> None:
    assert warehouse
    endless = "select range, repeat('ộ', 1000), null from range(100000000000)"
    found = ask(lake, endless, Cut(rows=2, chars=3))
    assert found == [("0", "ộộộ", None), ("1", "ộộộ", None)]
    newest_first = "select range from range(100000) order by range desc"
    assert ask(lake, newest_first, Cut(rows=2, chars=9)) == [("99999",), ("99998",)]
    assert [row[0] for row in ask(lake, newest_first)] == list(range(99_999, -1, -1))


def test_columns_with_one_name_get_different_ones(warehouse: Database, lake: EventLake) -> None:
    assert warehouse
    with asking(lake, "select 1 as a, 2 as a, 3 as a_1", lake.root.parent) as answer:
        assert len(set(answer.columns)) == 3
        assert list(answer.rows) == [(1, 2, 3)]


def test_a_question_spills_below_its_folder_so_much_and_no_more(
    warehouse: Database, lake: EventLake
) -> None:
    assert warehouse
    setting = "select current_setting('temp_directory'), current_setting('max_temp_directory_size')"
    ((folder, limit),) = ask(lake, setting)
    assert Path(folder).parent == lake.root.parent
    assert limit == "9.3 GiB"  # 10 GB


def test_a_question_removes_what_killed_ones_left_and_nothing_of_living_ones(
    warehouse: Database, lake: EventLake
) -> None:
    assert warehouse
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left, used = (lake.root.parent / f".spill-{pid}-x" for pid in (ended.pid, os.getppid()))
    for folder in (left, used):
        folder.mkdir()
        (folder / "block").write_bytes(b"x")
    ask(lake, "select 1")
    assert [left.exists(), used.exists()] == [False, True]


def test_without_a_counted_day_there_is_nothing_to_ask(database: Database, lake: EventLake) -> None:
    assert not refresh_analytics(database, lake)
    with pytest.raises(AnalyticsError, match="run threadhouse nightly"):
        ask(lake, "select 1")
