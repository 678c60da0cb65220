"""A range of days in one run gives the figures of day by day, wherever the days begin, and goes on after a kill."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from fixtures_postgres import as_administrator, new_database
from threadhouse.retrieval.events import RetrievalEvent
from threadhouse.retrieval.local_days import days_between, local_day
from threadhouse.stores.lake import EventLake
from threadhouse.stores.lake_extract import extract_days
from threadhouse.stores.metrics_store import (
    append_events,
    count_days,
    days_due,
    read_daily_metrics,
)
from threadhouse.stores.postgres import Database

ZONES_AND_DAYS = [
    ("Pacific/Kiritimati", date(2026, 1, 1)),  # UTC+14
    ("Pacific/Marquesas", date(2026, 1, 1)),  # UTC-9:30
    ("America/New_York", date(2024, 11, 3)),  # 25 hours
    ("America/New_York", date(2024, 3, 10)),  # 23 hours
    ("Asia/Kathmandu", date(2026, 1, 1)),  # UTC+5:45
]


class Stop(Exception):  # noqa: N818  # no error: it stands for a kill
    """The run ends here."""


def an_hourly_stream(middle: date) -> list[RetrievalEvent]:
    """A query every 50 minutes over four days in UTC, so that every border of every zone lies between two of them.

    Each second one gets a verdict two days later. The day after the middle has no events in any zone but its edges.
    """
    start = datetime.combine(middle - timedelta(days=2), datetime.min.time(), UTC)
    events: list[RetrievalEvent] = []
    for number in range(115):
        at = start + timedelta(minutes=50 * number)
        asked = {
            "event_id": UUID(int=2 * number + 1),
            "occurred_at": at,
            "type": "query",
            "query_id": UUID(int=number + 1),
            "lane": "employee",
            "resolution_path": "thread" if number % 3 else "fallback",
            "thread_id": "t1" if number % 3 else None,
        }
        events.append(RetrievalEvent.model_validate(asked))
        if number % 2:
            said = {
                "event_id": UUID(int=2 * number + 2),
                "occurred_at": at + timedelta(days=2),
                "type": "wrong_thread",
                "query_id": UUID(int=number + 1),
            }
            events.append(RetrievalEvent.model_validate(said))
    return events


def figures(database: Database, days: list[date]) -> pl.DataFrame:
    return read_daily_metrics(database, days[0], days[-1])


def backfill(database: Database, lake: EventLake, zone: ZoneInfo, days: list[date]) -> None:
    extract_days(database, lake, zone, days, recheck=True)
    count_days(database, lake, zone, days_due(database, lake, days), "backfill")


@pytest.mark.parametrize(("zone_name", "middle"), ZONES_AND_DAYS)
def test_a_range_in_one_run_equals_day_by_day(
    database: Database,
    postgres_server: Database,
    template_database: str,
    tmp_path: Path,
    zone_name: str,
    middle: date,
) -> None:
    zone = ZoneInfo(zone_name)
    events = an_hourly_stream(middle)
    days = days_between(middle - timedelta(days=4), middle + timedelta(days=4))
    append_events(database, events)
    backfill(database, EventLake(tmp_path / "at once"), zone, days)
    with new_database(postgres_server, template_database) as other:
        append_events(other, events)
        for day in days:
            backfill(other, EventLake(tmp_path / "day by day"), zone, [day])
        assert figures(database, days).equals(figures(other, days))
    by_hand: dict[date, int] = {}
    for event in events:
        if event.type == "query":
            day = local_day(event.occurred_at, zone)
            by_hand[day] = by_hand.get(day, 0) + 1
    all_queries = figures(database, days).filter(
        (pl.col("metric") == "thread_hit_rate")
        & (pl.col("lane") == "overall")
        & (pl.col("thread_id") == "")
    )
    counted = dict(all_queries.select("local_day", "denominator").iter_rows())
    assert counted == {day: by_hand.get(day, 0) for day in days}


def test_days_without_events_have_rows_that_say_so(database: Database, tmp_path: Path) -> None:
    days = days_between(date(2026, 1, 1), date(2026, 1, 3))
    backfill(database, EventLake(tmp_path), ZoneInfo("UTC"), days)
    rows = figures(database, days)
    assert set(rows["local_day"]) == set(days)
    assert rows["rate"].null_count() == rows.height


def test_a_killed_backfill_goes_on_where_it_was(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone, lake = ZoneInfo("UTC"), EventLake(tmp_path)
    days = days_between(date(2026, 1, 1), date(2026, 1, 5))
    append_events(database, an_hourly_stream(date(2026, 1, 3)))
    extract_days(database, lake, zone, days)
    # A day a batch, as a large day is.
    monkeypatch.setattr("threadhouse.stores.lake.BATCH_ROWS", 1)
    published: list[str] = []

    def stop_after_two(step: str) -> None:
        published.extend([step] if step == "day published" else [])
        if len(published) == 2:
            raise Stop

    with pytest.raises(Stop):
        count_days(database, lake, zone, days_due(database, lake, days), on_step=stop_after_two)
    assert days_due(database, lake, days) == tuple(days[2:])


def test_a_backfill_finds_what_no_trigger_saw(database: Database, tmp_path: Path) -> None:
    """Somebody who restores or repairs with triggers switched off leaves no trace; a look at every day does not need one.

    A night may find it or not: it looks again at what other transactions that were open then could have changed.
    """
    zone, lake, days = ZoneInfo("UTC"), EventLake(tmp_path), [date(2026, 1, 1)]
    asked = RetrievalEvent.model_validate(
        {
            "event_id": uuid4(),
            "occurred_at": "2026-01-01T12:00:00Z",
            "type": "query",
            "query_id": uuid4(),
            "lane": "employee",
            "resolution_path": "none",
        }
    )
    append_events(database, [asked])
    backfill(database, lake, zone, days)
    with as_administrator(database).connect() as connection:
        connection.execute("set local session_replication_role = 'replica'")
        connection.execute("update nao.retrieval_metric_event set lane = 'customer'")
    backfill(database, lake, zone, days)
    restated = figures(database, days).filter(
        (pl.col("metric") == "thread_hit_rate") & (pl.col("lane") == "customer")
    )
    assert restated["denominator"].to_list() == [1]
    with database.connect() as connection:
        reasons = connection.execute(
            "select distinct restated_reason from nao.retrieval_metric_aggregate where revision > 1"
        ).fetchall()
    assert reasons == [("backfill: events of the day were corrected, removed or moved",)]


@pytest.mark.parametrize(
    ("damage", "revision", "reason"),
    [
        (
            "update nao.retrieval_metric_aggregate set numerator = 0, rate = 0, wilson_low = 0 where numerator > 0",
            2,
            "recounted by hand",
        ),
        ("delete from nao.retrieval_metric_aggregate where numerator > 0", 1, None),
        (
            "insert into nao.retrieval_metric_aggregate (local_day, lane, thread_id, metric, numerator) "
            "values ('2026-01-03', 'customer', 'nobody', 'wrong_thread_rate', 0)",
            1,
            None,
        ),
    ],
)
def test_damaged_rates_are_mended_by_a_recount_alone(
    database: Database, tmp_path: Path, damage: str, revision: int, reason: str | None
) -> None:
    zone, lake = ZoneInfo("UTC"), EventLake(tmp_path)
    days = days_between(date(2026, 1, 2), date(2026, 1, 4))
    append_events(database, an_hourly_stream(date(2026, 1, 3)))
    backfill(database, lake, zone, days)
    before = figures(database, days)
    with database.connect() as connection:
        assert connection.execute(damage.encode()).rowcount
    backfill(database, lake, zone, days)
    assert not figures(database, days).equals(before)
    due = days_due(database, lake, days, recount=True)
    count_days(database, lake, zone, due)
    assert (due, figures(database, days).equals(before)) == (tuple(days), True)
    with database.connect() as connection:
        told = connection.execute(
            "select max(revision), max(restated_reason) from nao.retrieval_metric_aggregate"
        ).fetchone()
    assert told == (revision, reason)
    assert count_days(database, lake, zone, due).unchanged == before.height
