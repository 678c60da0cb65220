"""However events arrive, the stored rates are those of an oracle; only what changed is restated."""

from __future__ import annotations

import random
from collections.abc import Generator
from datetime import date
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures_postgres import new_database
from property.test_metrics_properties import DAYS, FIRST, LAST, ZONE, as_cells, events, oracle
from threadhouse.retrieval.events import RetrievalEvent
from threadhouse.retrieval.metrics import COUNTED, LANES
from threadhouse.stores.lake import EventLake, compute_daily_metrics
from threadhouse.stores.lake_extract import extract_days
from threadhouse.stores.metrics_store import (
    StoredMetrics,
    append_events,
    count_days,
    days_due,
    read_daily_metrics,
    restated_because,
    store_daily_metrics,
)
from threadhouse.stores.postgres import Database

EVERY_ROW = len(LANES) * len(COUNTED)


@pytest.fixture(scope="module")
def shared_database(
    postgres_server: Database, template_database: str
) -> Generator[Database, None, None]:
    """One database for all examples of a property, which empties it itself."""
    with new_database(postgres_server, template_database) as shared:
        yield shared


@pytest.fixture
def lake(tmp_path: Path) -> EventLake:
    return EventLake(tmp_path / "lake")


def as_event(row: dict[str, Any]) -> RetrievalEvent:
    """An event of the property tests as a writer would hand it over."""
    own = {name: value for name, value in row.items() if name in RetrievalEvent.model_fields}
    details = {} if row["sufficient"] is None else {"sufficient": row["sufficient"]}
    return RetrievalEvent.model_validate(own | {"details": details})


def run_night(database: Database, lake: EventLake) -> StoredMetrics:
    extract_days(database, lake, ZONE)
    return count_days(database, lake, ZONE, days_due(database, lake))


def a_query(number: int, day: date = FIRST, **fields: object) -> RetrievalEvent:
    given_fields: dict[str, object] = {
        "event_id": UUID(int=number),
        "occurred_at": f"{day}T15:00:00Z",
        "type": "query",
        "query_id": UUID(int=number),
        "lane": "employee",
        "resolution_path": "thread",
        "thread_id": "t1",
    }
    return RetrievalEvent.model_validate(given_fields | fields)


def test_first_count_is_revision_one_without_a_reason(database: Database, lake: EventLake) -> None:
    append_events(database, [a_query(1)])
    run_night(database, lake)
    with database.connect() as connection:
        found = connection.execute(
            "select distinct revision, restated_reason from nao.retrieval_metric_aggregate"
        ).fetchall()
    assert found == [(1, None)]


def test_second_night_touches_nothing(database: Database, lake: EventLake) -> None:
    append_events(database, [a_query(1)])
    run_night(database, lake)
    assert run_night(database, lake) == StoredMetrics()


def test_counting_a_day_again_leaves_equal_rows_alone(database: Database, lake: EventLake) -> None:
    append_events(database, [a_query(1)])
    run_night(database, lake)
    again = store_daily_metrics(database, compute_daily_metrics(lake, [FIRST], ZONE), "again")
    assert (again.inserted, again.restated, again.deleted) == (0, 0, 0)


def test_late_event_restates_only_the_figures_it_changes(
    database: Database, lake: EventLake
) -> None:
    append_events(database, [a_query(1)])
    run_night(database, lake)
    append_events(database, [a_query(2, resolution_path="fallback", thread_id=None)])
    run_night(database, lake)
    with database.connect() as connection:
        restated = connection.execute(
            "select distinct metric, lane, revision, restated_reason from nao.retrieval_metric_aggregate "
            "where revision > 1 order by 1, 2"
        ).fetchall()
    assert restated == [
        (metric, lane, 2, "late events: 1 more")
        for metric in ("fallback_vector_rate", "thread_hit_rate")
        for lane in ("employee", "overall")
    ]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (None, ("e UTC 1 1 9", "r"), "counted for the first time"),
        (("e UTC 1 1 9", "q"), ("e UTC 1 1 9", "r"), "the counting rule q became r"),
        (("", "r"), ("e UTC 1 1 9", "r"), "events of the day arrived"),
        (("e UTC 1 1 9", "r"), ("", "r"), "events of the day were removed or moved"),
        (
            ("e UTC 1 1 9", "r"),
            ("e Asia/Tokyo 1 1 9", "r"),
            "the rules of days e UTC became e Asia/Tokyo",
        ),
        (("e UTC 1 1 9", "r"), ("e UTC 2501 7 8", "r"), "late events: 2,500 more"),
        (
            ("e UTC 3 3 9", "r"),
            ("e UTC 3 3 8", "r"),
            "events of the day were corrected, removed or moved",
        ),
    ],
)
def test_a_restatement_says_what_changed(
    before: tuple[str, str] | None, after: tuple[str, str], reason: str
) -> None:
    assert restated_because(before, after) == reason
    assert restated_because(before, after, "backfill") == f"backfill: {reason}"


def test_thread_that_loses_its_events_loses_its_rows(database: Database, lake: EventLake) -> None:
    append_events(database, [a_query(1)])
    run_night(database, lake)
    with database.connect() as connection:
        connection.execute("update nao.retrieval_metric_event set thread_id = 't2'")
    run_night(database, lake)
    threads = set(read_daily_metrics(database, FIRST, FIRST)["thread_id"])
    assert threads == {"", "t2"}


def test_day_killed_between_extract_and_count_is_still_due(
    database: Database, lake: EventLake
) -> None:
    append_events(database, [a_query(1)])
    extract_days(database, lake, ZONE)
    extract_days(database, lake, ZONE)
    assert days_due(database, lake) == (FIRST,)


def test_day_without_events_is_counted_once(database: Database, lake: EventLake) -> None:
    stored = store_daily_metrics(database, compute_daily_metrics(lake, [FIRST], ZONE), "backfill")
    assert stored.inserted == EVERY_ROW
    assert days_due(database, lake, [FIRST]) == ()


def test_failed_day_leaves_the_old_figures_whole(database: Database, lake: EventLake) -> None:
    append_events(database, [a_query(1)])
    run_night(database, lake)
    before = read_daily_metrics(database, FIRST, FIRST)
    broken = compute_daily_metrics(lake, [FIRST], ZONE).with_columns(numerator=-1)
    with pytest.raises(Exception, match="check constraint"):
        store_daily_metrics(database, broken, "broken")
    assert read_daily_metrics(database, FIRST, FIRST).equals(before)


@settings(max_examples=10)
@given(rows=events(), seed=st.randoms(use_true_random=False))
def test_any_split_and_order_of_arrivals_gives_the_marts_of_the_oracle(
    rows: list[dict[str, Any]],
    seed: random.Random,
    shared_database: Database,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with shared_database.connect() as connection:
        connection.execute(
            "truncate nao.retrieval_metric_event, nao.retrieval_metric_aggregate, nao.retrieval_metric_day"
        )
    lake = EventLake(tmp_path_factory.mktemp("lake"))
    arrivals = [*rows, *seed.sample(rows, len(rows) // 2)]
    seed.shuffle(arrivals)
    cuts = sorted(seed.randint(0, len(arrivals)) for _ in range(2))
    for start, end in zip([0, *cuts], [*cuts, len(arrivals)], strict=True):
        append_events(shared_database, [as_event(row) for row in arrivals[start:end]])
        run_night(shared_database, lake)
    missing = days_due(shared_database, lake, DAYS)
    store_daily_metrics(shared_database, compute_daily_metrics(lake, missing, ZONE), "backfill")
    assert as_cells(read_daily_metrics(shared_database, FIRST, LAST)) == oracle(rows)
