"""Extract, count and publish, each killed with SIGKILL at every step, then run again.

Method: a real child process works on a real Postgres and a real lake, and kills itself inside the step's callback. What readers
see after the kill is all of a day or none of it; after the next run every figure is that of a run that nobody disturbed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from threadhouse.retrieval.events import RetrievalEvent
from threadhouse.stores.lake import EventLake
from threadhouse.stores.lake_extract import extract_days
from threadhouse.stores.metrics_store import (
    append_events,
    count_days,
    days_due,
    read_daily_metrics,
)
from threadhouse.stores.postgres import Database

ZONE = ZoneInfo("Asia/Ho_Chi_Minh")
FIRST = date(2026, 11, 16)
LAST = date(2026, 11, 18)
MORNING = datetime(2026, 11, 16, 3, tzinfo=UTC)

STEPS = (
    "written aside",
    "faults noted",
    "day in place",
    "state kept",
    "batch counted",
    "rates upserted",
    "day marked",
    "day published",
)
"""In the order in which a run comes to them; those of a day come once a day."""

KEPT = {".extracted.json", ".writer.lock"}
ONCE_A_RUN = {"state kept", "batch counted"}
KILLS = [(step, number) for step in STEPS for number in ((1,) if step in ONCE_A_RUN else (1, 2))]


def stream(first_number: int) -> list[RetrievalEvent]:
    """Queries with follow-ups on three days; the same number is the same event in every database."""
    rows: list[dict[str, object]] = []
    for number in range(first_number, first_number + 30):
        at = MORNING + timedelta(days=number % 3, minutes=number)
        about: dict[str, object] = {"query_id": UUID(int=number + 1), "lane": "employee"}
        hit = number % 4 != 0
        asked: dict[str, object] = {"resolution_path": "thread" if hit else "fallback"}
        rows.append({"type": "query", "thread_id": f"t{number % 2}" if hit else None} | asked)
        rows.append({"type": "pack_delivered"})
        rows.append({"type": "sufficiency_verdict", "details": {"sufficient": number % 5 > 0}})
        for kind, row in enumerate(rows[-3:]):
            row |= about | {"occurred_at": at, "event_id": UUID(int=number * 3 + kind + 1)}
    return [RetrievalEvent.model_validate(row) for row in rows]


def break_one(database: Database) -> None:
    """A verdict that nobody understands: its day goes through the way of those that leave events out."""
    with database.connect() as connection:
        connection.execute(
            "update nao.retrieval_metric_event set type = 'telepathy' where event_id = %s",
            (UUID(int=3),),
        )


def run(database: Database, lake: EventLake, on_step: Callable[[str], None]) -> None:
    extract_days(database, lake, ZONE, on_step=on_step)
    count_days(database, lake, ZONE, days_due(database, lake), on_step=on_step)


def run_in_child(database: Database, lake: EventLake, kill_at: str, occurrence: int) -> None:
    child = subprocess.run(
        [sys.executable, __file__, database.conninfo, str(lake.root), kill_at, str(occurrence)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert child.returncode == -signal.SIGKILL, child.stderr


def nobody(_: str) -> None:
    """No one watches."""


@dataclass(frozen=True)
class State:
    """What readers see: rates in Postgres, and events by day in the lake."""

    rates: pl.DataFrame
    files: dict[date, list[str]]

    @classmethod
    def of(cls, database: Database, lake: EventLake) -> State:
        files = {day: sorted(lake.read_day(day)["event_id"]) for day in lake.digests()}
        return cls(read_daily_metrics(database, FIRST, LAST), files)

    def of_day(self, day: date) -> pl.DataFrame:
        return self.rates.filter(pl.col("local_day") == day)


@pytest.fixture(scope="module")
def undisturbed(
    postgres_server: Database, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[State, State]:
    """What stands after the first and after the second arrival."""
    from fixtures_postgres import new_database

    lake = EventLake(tmp_path_factory.mktemp("lake"))
    with new_database(postgres_server, template_database) as database:
        append_events(database, stream(0))
        break_one(database)
        run(database, lake, nobody)
        before = State.of(database, lake)
        append_events(database, stream(30))
        run(database, lake, nobody)
        return before, State.of(database, lake)


@pytest.mark.parametrize(("step", "occurrence"), KILLS)
def test_a_killed_run_shows_whole_days_and_the_next_one_gives_the_undisturbed_figures(
    database: Database,
    tmp_path: Path,
    undisturbed: tuple[State, State],
    step: str,
    occurrence: int,
) -> None:
    before, after = undisturbed
    lake = EventLake(tmp_path / "lake")
    append_events(database, stream(0))
    break_one(database)
    run(database, lake, nobody)
    append_events(database, stream(30))

    run_in_child(database, lake, step, occurrence)
    seen = State.of(database, lake)
    for day in before.files:
        rates = seen.of_day(day)
        assert any(rates.equals(known.of_day(day)) for known in (before, after)), f"{day} is torn"
        assert seen.files[day] in (before.files[day], after.files[day]), f"{day} is torn"

    run(database, lake, nobody)
    end = State.of(database, lake)
    assert end.rates.equals(after.rates)
    assert end.files == after.files
    left = [file.name for file in lake.root.rglob(".*") if file.name not in KEPT]
    assert (left, days_due(database, lake)) == ([], ())


if __name__ == "__main__":
    conninfo, root, kill_step, kill_occurrence = sys.argv[1:]
    met = 0

    def die(name: str) -> None:
        global met
        met += name == kill_step
        if met == int(kill_occurrence):
            os.kill(os.getpid(), signal.SIGKILL)

    run(Database(conninfo, is_embedded=True), EventLake(Path(root)), die)
