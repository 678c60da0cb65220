"""The lake holds each local day whole, once, and only touches days that changed."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import duckdb
import polars as pl
import pytest
from psycopg import sql

from fixtures_object_store import ObjectServer
from threadhouse.retrieval.errors import ConfigurationError, StoreLockedError
from threadhouse.retrieval.events import EVENT_SCHEMA, MAX_CHARS, RetrievalEvent
from threadhouse.stores.lake import DayDigest, EventLake, compute_daily_metrics
from threadhouse.stores.lake_extract import days_to_look_at, extract_days
from threadhouse.stores.metrics_store import (
    append_events,
    count_days,
    days_due,
    read_daily_metrics,
)
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings
from warehouse_house import FrameStream

SAIGON = ZoneInfo("Asia/Ho_Chi_Minh")
MORNING = datetime(2026, 11, 16, 3, tzinfo=UTC)  # 10:00 in Saigon
MONDAY, TUESDAY, WEDNESDAY = (date(2026, 11, day) for day in (16, 17, 18))
ONE_DAY = timedelta(days=1)
LATENESS = Path(__file__).parents[3] / "shared" / "data" / "event_lateness" / "git_events.jsonl"


ON_BOTH = pytest.mark.parametrize("lake", ["folder", "object store"], indirect=True)
"""What a lake promises wherever its files are. The other tests are about events, and need one kind to show it."""


@pytest.fixture
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> EventLake:
    if getattr(request, "param", "folder") == "folder":
        return EventLake(tmp_path / "lake", lock_timeout_s=0.2)
    server: ObjectServer = request.getfixturevalue("object_server")
    return server.lake(tmp_path, server.new_bucket())


def query(at: datetime, query_id: UUID | None = None, **fields: object) -> RetrievalEvent:
    given: dict[str, object] = {
        "event_id": uuid4(),
        "occurred_at": at,
        "type": "query",
        "query_id": query_id or uuid4(),
        "lane": "employee",
        "resolution_path": "none",
    }
    return RetrievalEvent.model_validate(given | fields)


def verdict(at: datetime, query_id: UUID) -> RetrievalEvent:
    return query(
        at,
        query_id,
        type="sufficiency_verdict",
        resolution_path=None,
        details={"sufficient": True},
    )


def ids_of(lake: EventLake, day: date) -> set[str]:
    return set(lake.read_day(day)["event_id"])


def frame(rows: Sequence[dict[str, Any]]) -> FrameStream:
    return FrameStream(
        pl.DataFrame(
            [{name: row.get(name) for name in EVENT_SCHEMA} for row in rows], schema=EVENT_SCHEMA
        )
    )


def an_event(number: int) -> dict[str, Any]:
    return {
        "event_id": str(UUID(int=number)),
        "event_version": 1,
        "type": "citation_check",
        "occurred_at": MORNING,
        "ingested_at": MORNING,
    }


def test_events_lie_under_the_local_day_and_not_the_utc_day(
    database: Database, lake: EventLake
) -> None:
    late_evening = query(datetime(2026, 11, 16, 17, 30, tzinfo=UTC))  # 00:30 on Tuesday in Saigon
    append_events(database, [late_evening])
    assert extract_days(database, lake, SAIGON).days_written == (TUESDAY,)


@ON_BOTH
def test_second_extract_writes_nothing(database: Database, lake: EventLake) -> None:
    append_events(database, [query(MORNING), query(MORNING + ONE_DAY)])
    extract_days(database, lake, SAIGON)
    again = extract_days(database, lake, SAIGON)
    assert (again.days_written, again.days_unchanged) == ((), 0)


@ON_BOTH
def test_every_day_is_held_against_postgres_when_asked(database: Database, lake: EventLake) -> None:
    append_events(database, [query(MORNING), query(MORNING + ONE_DAY)])
    extract_days(database, lake, SAIGON)
    again = extract_days(database, lake, SAIGON, recheck=True)
    assert (again.days_written, again.days_unchanged) == ((), 2)


def test_event_appended_twice_is_one_event(database: Database, lake: EventLake) -> None:
    event = query(MORNING)
    assert [append_events(database, [event]) for _ in range(2)] == [1, 0]
    assert extract_days(database, lake, SAIGON).rows_written == 1


@ON_BOTH
def test_late_event_reopens_its_day_and_no_other(database: Database, lake: EventLake) -> None:
    append_events(database, [query(MORNING), query(MORNING + ONE_DAY)])
    extract_days(database, lake, SAIGON)
    untouched = lake.file_of(TUESDAY).stat()
    append_events(database, [query(MORNING + timedelta(hours=1))])
    assert extract_days(database, lake, SAIGON).days_written == (MONDAY,)
    assert lake.file_of(TUESDAY).stat() == untouched


def test_verdict_lies_in_the_day_of_its_query(database: Database, lake: EventLake) -> None:
    asked = query(MORNING)
    assert asked.query_id is not None
    append_events(database, [asked, verdict(MORNING + 2 * ONE_DAY, asked.query_id)])
    assert extract_days(database, lake, SAIGON).days_written == (MONDAY,)


@ON_BOTH
def test_verdict_moves_when_its_query_arrives_late(database: Database, lake: EventLake) -> None:
    query_id = uuid4()
    append_events(database, [query(MORNING), verdict(MORNING + ONE_DAY, query_id)])
    extract_days(database, lake, SAIGON)
    append_events(database, [query(MORNING, query_id)])
    moved = extract_days(database, lake, SAIGON)
    assert (moved.days_written, moved.days_removed) == ((MONDAY,), (TUESDAY,))
    assert len(ids_of(lake, MONDAY)) == 3


def test_edited_event_reopens_its_day(database: Database, lake: EventLake) -> None:
    append_events(database, [query(MORNING)])
    extract_days(database, lake, SAIGON)
    with database.connect() as connection:
        connection.execute("update nao.retrieval_metric_event set lane = 'customer'")
    assert days_to_look_at(database, lake, SAIGON) == (MONDAY,)


@ON_BOTH
def test_another_time_zone_makes_every_day_dirty(database: Database, lake: EventLake) -> None:
    append_events(database, [query(MORNING)])
    extract_days(database, lake, SAIGON)
    assert days_to_look_at(database, lake, ZoneInfo("UTC")) == (MONDAY,)


def test_counting_days_of_another_time_zone_is_refused(database: Database, lake: EventLake) -> None:
    append_events(database, [query(MORNING)])
    extract_days(database, lake, SAIGON)
    with pytest.raises(ConfigurationError, match="another time zone"):
        compute_daily_metrics(lake, [MONDAY], ZoneInfo("UTC"))


def test_only_the_days_asked_for_are_extracted(database: Database, lake: EventLake) -> None:
    append_events(database, [query(MORNING), query(MORNING + ONE_DAY)])
    assert extract_days(database, lake, SAIGON, [TUESDAY]).days_written == (TUESDAY,)


@ON_BOTH
def test_events_that_postgres_no_longer_keeps_stay_in_the_lake(
    database: Database, lake: EventLake
) -> None:
    append_events(database, [query(MORNING), query(MORNING + ONE_DAY)])
    extract_days(database, lake, SAIGON)
    with database.connect() as connection:
        connection.execute(
            "delete from nao.retrieval_metric_event where occurred_at < '2026-11-17'"
        )
    assert extract_days(database, lake, SAIGON).days_removed == ()
    assert set(lake.digests()) == {MONDAY, TUESDAY}


def test_emptied_postgres_empties_no_lake(database: Database, lake: EventLake) -> None:
    append_events(database, [query(MORNING)])
    extract_days(database, lake, SAIGON)
    with database.connect() as connection:
        connection.execute("truncate nao.retrieval_metric_event")
    extract_days(database, lake, SAIGON)
    assert set(lake.digests()) == {MONDAY}


@pytest.mark.parametrize(
    ("column", "value", "field"),
    [
        ("type", "telepathy", "type"),
        ("event_version", 9, "event_version"),
        ("resolution_path", None, "resolution_path"),
        ("thread_id", "", "thread_id"),
        *((name, "x" * (limit + 1), name) for name, limit in MAX_CHARS.items()),
        ("thread_id", "t\t1", "thread_id"),
        ("session_id", "\x1b[2J", "session_id"),
        ("session_id", "a\x9bb", "session_id"),
        ("occurred_at", "infinity", "occurred_at"),
        ("occurred_at", "56789-01-01", "occurred_at"),
        ("ingested_at", "infinity", "ingested_at"),
        ("ingested_at", "-infinity", "ingested_at"),
        ("ingested_at", "1970-01-20", "ingested_at"),
        ("latency_ms", "Infinity", "latency_ms"),
        ("latency_ms", "NaN", "latency_ms"),
    ],
)
def test_invalid_event_is_quarantined_by_name_and_not_extracted(
    database: Database, lake: EventLake, column: str, value: object, field: str
) -> None:
    good, bad = query(MORNING), query(MORNING)
    append_events(database, [good, bad])
    with database.connect() as connection:
        connection.execute(
            sql.SQL("update nao.retrieval_metric_event set {} = %s where event_id = %s").format(
                sql.Identifier(column)
            ),
            (value, bad.event_id),
        )
    result = extract_days(database, lake, SAIGON)
    with database.connect() as connection:
        noted = connection.execute("select item_key, field from nao.quarantined_item").fetchall()
    assert (result.rows_written, result.quarantined) == (1, 1)
    assert noted == [(str(bad.event_id), field)]
    assert ids_of(lake, MONDAY) == {str(good.event_id)}


@ON_BOTH
def test_a_day_that_left_an_event_out_has_the_columns_of_every_day(
    database: Database, lake: EventLake
) -> None:
    append_events(database, [query(MORNING), query(MORNING)])
    with database.connect() as connection:
        connection.execute(
            "update nao.retrieval_metric_event set type = 'telepathy' where ingest_seq = 1"
        )
    assert extract_days(database, lake, SAIGON).quarantined == 1
    file = pl.read_parquet(lake.file_of(MONDAY), hive_partitioning=False)
    assert (file.columns, file.height) == (list(EVENT_SCHEMA), 1)


def test_days_of_an_earlier_release_are_written_again(database: Database, lake: EventLake) -> None:
    """Files of days that left an event out had a column ``local_day`` once."""
    append_events(database, [query(MORNING)])
    extract_days(database, lake, SAIGON)
    file, state = lake.file_of(MONDAY), lake.state()
    digest = json.loads(pl.read_parquet_metadata(file)["threadhouse.day_digest"])
    earlier = {"contract": "events-2 Asia/Ho_Chi_Minh"}
    pl.read_parquet(file, hive_partitioning=False).with_columns(
        local_day=pl.lit("2026-11-16")
    ).write_parquet(file, metadata={"threadhouse.day_digest": json.dumps(digest | earlier)})
    assert state is not None
    lake.keep_state(replace(state, **earlier))
    assert extract_days(database, lake, SAIGON).days_written == (MONDAY,)
    assert pl.read_parquet(file, hive_partitioning=False).columns == list(EVENT_SCHEMA)


def test_an_event_that_no_index_can_hold_stops_no_rate(database: Database, lake: EventLake) -> None:
    # Digits at random, because Postgres compresses what repeats itself.
    digits = Random(1)
    longest = "".join(
        chr(digits.randrange(0x10000, 0x1FFFF)) for _ in range(MAX_CHARS["thread_id"])
    )
    append_events(
        database,
        [query(MORNING, resolution_path="thread", thread_id=name) for name in ("t", longest)],
    )
    with database.connect() as connection:
        connection.execute(
            "update nao.retrieval_metric_event set thread_id = %s where thread_id = 't'",
            (digits.randbytes(500_000).hex(),),
        )
    append_events(database, [query(MORNING)])
    assert extract_days(database, lake, SAIGON).quarantined == 1
    count_days(database, lake, SAIGON, [MONDAY])
    rates = read_daily_metrics(database, MONDAY, MONDAY, "overall")
    assert set(rates["thread_id"]) == {"", longest}
    hits = rates.filter((pl.col("metric") == "thread_hit_rate") & (pl.col("thread_id") == ""))
    assert hits.select("numerator", "denominator").rows() == [(1, 2)]


def test_repaired_event_leaves_the_quarantine(database: Database, lake: EventLake) -> None:
    append_events(database, [query(MORNING)])
    with database.connect() as connection:
        connection.execute("update nao.retrieval_metric_event set type = 'telepathy'")
    extract_days(database, lake, SAIGON)
    with database.connect() as connection:
        connection.execute("update nao.retrieval_metric_event set type = 'query'")
    extract_days(database, lake, SAIGON)
    with database.connect() as connection:
        still_open = connection.execute(
            "select 1 from nao.quarantined_item where resolved_at is null"
        ).fetchall()
    assert (still_open, len(ids_of(lake, MONDAY))) == ([], 1)


def test_empty_text_and_missing_text_stay_different(database: Database, lake: EventLake) -> None:
    append_events(
        database,
        [
            query(MORNING, reason=""),
            query(MORNING, reason=None),
            query(MORNING, reason='a "b",\n c'),
        ],
    )
    extract_days(database, lake, SAIGON)
    assert set(lake.read_day(MONDAY)["reason"]) == {"", None, 'a "b",\n c'}


def test_instants_keep_their_microseconds(database: Database, lake: EventLake) -> None:
    instant = MORNING + timedelta(microseconds=123_457)
    append_events(database, [query(instant)])
    extract_days(database, lake, SAIGON)
    assert lake.read_day(MONDAY)["occurred_at"].to_list() == [instant]


def test_no_query_text_reaches_the_lake(database: Database, lake: EventLake) -> None:
    append_events(database, [query(MORNING, query_text="số thẻ của tôi")])
    extract_days(database, lake, SAIGON)
    assert "query_text" not in pl.read_parquet(lake.file_of(MONDAY)).columns


@ON_BOTH
def test_duckdb_reads_the_same_days(database: Database, lake: EventLake) -> None:
    append_events(database, [query(MORNING), query(MORNING), query(MORNING + ONE_DAY)])
    extract_days(database, lake, SAIGON)
    found = duckdb.execute(
        "select local_day, count(*) from read_parquet($glob, hive_partitioning = true) group by 1 order by 1",
        {"glob": lake.glob},
    ).fetchall()
    assert found == [(MONDAY, 2), (TUESDAY, 1)]


def test_leftover_of_a_killed_writer_is_invisible_and_replaced(lake: EventLake) -> None:
    folder = lake.file_of(MONDAY).parent
    folder.mkdir(parents=True)
    (folder / ".events.parquet.aside").write_bytes(b"half a file")
    assert lake.digests() == {}
    with lake.writing(None), lake.working() as working:
        lake.write_day(working, MONDAY, frame([an_event(1)]), DayDigest("c", 1, 1, "0"))
    assert [file.name for file in folder.iterdir()] == ["events.parquet"]


def look(file: Path) -> tuple[int, str]:
    """Events of a file and the state that it says it is, through one descriptor."""
    with file.open("rb") as opened:
        digest = json.loads(pl.read_parquet_metadata(opened)["threadhouse.day_digest"])
        opened.seek(0)
        return pl.read_parquet(opened, columns=["ingest_seq"]).height, digest["content_hash"]


def test_reader_never_sees_half_a_day_while_it_is_replaced(lake: EventLake) -> None:
    small, large = frame([an_event(0)]), frame([an_event(n) for n in range(5_000)])
    with lake.writing(None), lake.working() as working:
        lake.write_day(working, MONDAY, small, DayDigest("c", 1, 1, "small"))
    stop = threading.Event()

    def keep_replacing() -> None:
        with lake.writing(None), lake.working() as working:
            while not stop.is_set():
                lake.write_day(working, MONDAY, large, DayDigest("c", 5_000, 1, "large"))
                lake.write_day(working, MONDAY, small, DayDigest("c", 1, 1, "small"))

    writer = threading.Thread(target=keep_replacing)
    writer.start()
    try:
        seen = {look(lake.file_of(MONDAY)) for _ in range(150)}
    finally:
        stop.set()
        writer.join()
    assert seen <= {(1, "small"), (5_000, "large")}


def test_second_writer_is_told_to_wait(lake: EventLake) -> None:
    other = EventLake(lake.root, lock_timeout_s=0.05)
    with (
        lake.writing(None),
        pytest.raises(StoreLockedError, match="wait for its run to end"),
        other.writing(None),
    ):
        pass


def test_lake_url_may_name_a_folder(tmp_path: Path) -> None:
    for address in (f"file://{tmp_path}/a%20lake", f"{tmp_path}/a lake"):
        assert EventLake.open(Settings(lake_url=address)).root == tmp_path / "a lake"


def test_lake_url_of_an_unknown_kind_is_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigurationError, match="LAKE_URL"):
        EventLake.open(Settings(lake_url="gopher://hole/lake"))


@pytest.mark.parametrize("left", [0, 100])
def test_a_damaged_day_file_is_written_again(
    database: Database, lake: EventLake, left: int
) -> None:
    append_events(database, [query(MORNING)])
    extract_days(database, lake, SAIGON)
    os.truncate(lake.file_of(MONDAY), left)
    assert extract_days(database, lake, SAIGON).days_written == (MONDAY,)
    assert len(ids_of(lake, MONDAY)) == 1


@ON_BOTH
def test_only_days_since_the_last_extract_are_looked_at(
    database: Database, lake: EventLake
) -> None:
    append_events(database, [query(MORNING), query(MORNING + ONE_DAY)])
    extract_days(database, lake, SAIGON)
    assert days_to_look_at(database, lake, SAIGON) == ()
    append_events(database, [query(MORNING)])
    assert days_to_look_at(database, lake, SAIGON) == (MONDAY,)


@ON_BOTH
def test_what_a_run_was_not_asked_for_stays_due(database: Database, lake: EventLake) -> None:
    append_events(database, [query(MORNING), query(MORNING + ONE_DAY)])
    extract_days(database, lake, SAIGON, [TUESDAY])
    assert days_to_look_at(database, lake, SAIGON) == (MONDAY,)


def test_an_event_of_a_transaction_that_began_before_the_extract_is_not_missed(
    database: Database, lake: EventLake
) -> None:
    slow = query(MORNING)
    with database.connect() as writer:
        writer.execute("select pg_current_xact_id()")
        append_events(database, [query(MORNING + ONE_DAY)])
        extract_days(database, lake, SAIGON)
        writer.execute(
            "insert into nao.retrieval_metric_event (event_id, occurred_at, type, query_id, lane, resolution_path) "
            "values (%s, %s, 'query', %s, 'employee', 'none')",
            (slow.event_id, slow.occurred_at, slow.query_id),
        )
    assert extract_days(database, lake, SAIGON).days_written == (MONDAY,)


@ON_BOTH
def test_deleted_event_leaves_the_lake(database: Database, lake: EventLake) -> None:
    kept, gone = query(MORNING), query(MORNING)
    append_events(database, [query(MORNING - ONE_DAY), kept, gone])
    extract_days(database, lake, SAIGON)
    with database.connect() as connection:
        connection.execute(
            "delete from nao.retrieval_metric_event where event_id = %s", (gone.event_id,)
        )
    assert extract_days(database, lake, SAIGON).days_written == (MONDAY,)
    assert ids_of(lake, MONDAY) == {str(kept.event_id)}


@ON_BOTH
def test_an_event_moved_to_another_day_changes_both(database: Database, lake: EventLake) -> None:
    moved = query(MORNING)
    append_events(database, [query(MORNING), moved])
    extract_days(database, lake, SAIGON)
    with database.connect() as connection:
        connection.execute(
            "update nao.retrieval_metric_event set occurred_at = %s where event_id = %s",
            (MORNING + ONE_DAY, moved.event_id),
        )
    assert extract_days(database, lake, SAIGON).days_written == (MONDAY, TUESDAY)


def test_words_of_a_question_reopen_no_day(database: Database, lake: EventLake) -> None:
    append_events(database, [query(MORNING, query_text="mật")])
    extract_days(database, lake, SAIGON)
    with database.connect() as connection:
        connection.execute("update nao.retrieval_metric_event set query_text = null")
    assert days_to_look_at(database, lake, SAIGON) == ()


def test_a_removed_day_file_is_written_again(database: Database, lake: EventLake) -> None:
    append_events(database, [query(MORNING), query(MORNING + ONE_DAY)])
    extract_days(database, lake, SAIGON)
    lake.file_of(MONDAY).unlink()
    assert extract_days(database, lake, SAIGON).days_written == (MONDAY,)


@ON_BOTH
def test_another_database_is_looked_at_whole(
    make_database: Callable[[], Database], lake: EventLake
) -> None:
    for database in (make_database(), make_database()):
        append_events(database, [query(MORNING)])
        assert extract_days(database, lake, SAIGON).days_written == (MONDAY,)


def test_an_unreadable_state_means_a_look_at_every_day(database: Database, lake: EventLake) -> None:
    append_events(database, [query(MORNING)])
    extract_days(database, lake, SAIGON)
    (lake.root / "retrieval_metric_event" / ".extracted.json").write_text("{")
    assert days_to_look_at(database, lake, SAIGON) == (MONDAY,)


def test_a_writer_that_breaks_the_contract_all_day_fills_no_quarantine(
    database: Database, lake: EventLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadhouse.stores.lake.FAULTS_NAMED", 3)
    good = query(MORNING)
    bad = [query(MORNING, event_id=UUID(int=number)) for number in range(8)]
    append_events(database, [good, *bad])
    with database.connect() as connection:
        connection.execute(
            "update nao.retrieval_metric_event set type = 'telepathy' where event_id <> %s",
            (good.event_id,),
        )
    result = extract_days(database, lake, SAIGON)
    with database.connect() as connection:
        noted = connection.execute("select reason from nao.quarantined_item").fetchall()
    assert (result.rows_written, result.quarantined, len(noted)) == (1, 8, 4)
    assert ("5 more events of this day break the contract",) in noted


def test_version_1_is_still_read(database: Database, lake: EventLake) -> None:
    append_events(database, [query(MORNING, event_version=1)])
    assert extract_days(database, lake, SAIGON).rows_written == 1


@pytest.mark.skipif(not LATENESS.exists(), reason="needs ../shared/data/event_lateness")
def test_really_late_events_end_in_the_same_lake_as_punctual_ones(
    make_database: Callable[[], Database], tmp_path: Path
) -> None:
    rows = [json.loads(line) for line in LATENESS.read_text().splitlines()][-500:]
    events = [
        query(
            datetime.fromtimestamp(row["event_time"], UTC),
            UUID(hex=row["event_key"].ljust(32, "1")),
            event_id=UUID(hex=row["event_key"].ljust(32, "0")),
        )
        for row in rows
    ]
    arrived = sorted(
        zip((row["ingest_time"] for row in rows), events, strict=True), key=itemgetter(0)
    )
    by_arrival = [event for _, event in arrived]
    late, punctual = (EventLake(tmp_path / name) for name in ("late", "punctual"))
    piecewise, at_once = make_database(), make_database()
    for start in range(0, len(by_arrival), 125):
        append_events(piecewise, by_arrival[start : start + 125])
        extract_days(piecewise, late, SAIGON)
        count_days(piecewise, late, SAIGON, days_due(piecewise, late))
    append_events(at_once, events)
    extract_days(at_once, punctual, SAIGON)
    count_days(at_once, punctual, SAIGON, days_due(at_once, punctual))
    days = sorted(punctual.digests())
    assert sorted(late.digests()) == days
    assert all(ids_of(late, day) == ids_of(punctual, day) for day in days)
    marts = [read_daily_metrics(database, days[0], days[-1]) for database in (piecewise, at_once)]
    assert marts[0].equals(marts[1])
