"""The metrics warehouse at size: one day of millions of events out of Postgres into rates, and one year of them.

What stands beside what: the extract of a day beside a bare COPY of its rows; counting and storing a day, and a year, beside one
query in DuckDB over the same files, tuned by hand for the same eight rates of exactly these events (the floor), and beside a
plain GROUP BY in Postgres over the same rows. The floor knows the lanes and paths, and that a query has one query event, at most
one verdict and at most one suggestion; and it stores nothing. Besides: what one late event costs, and a night in which nothing
changed.

Each contestant runs in a process of its own, and its seconds are those of the work without the start of Python. Memory is the
peak of that process; what PostgreSQL takes is not in it. Events are made by generate_series inside PostgreSQL and by range inside
DuckDB. Defaults are quick; the sizes of the design are ``--day-events 10000000 --year-events 50000000``, for which PostgreSQL and
the lake need 10 GB of disk between them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from psycopg import sql

from bench.measuring import BenchFailedError, Measure, ProcessRun, run_process, say
from bench.temporary_home import TemporaryHome, temporary_home
from threadhouse.retrieval.local_days import day_bounds
from threadhouse.stores.lake import MEMORY_LIMIT, DayDigest, EventLake, daily_metrics_in_batches
from threadhouse.stores.lake_extract import contract_of, days_to_look_at, extract_days
from threadhouse.stores.metrics_store import (
    count_days,
    days_due,
    read_daily_metrics,
    store_daily_metrics,
)
from threadhouse.stores.migrations import open_database
from threadhouse.stores.postgres import Database
from threadhouse.stores.queries import trusted

ZONE = ZoneInfo("Asia/Ho_Chi_Minh")
BIG_DAY = date(2026, 3, 10)
FIRST_OF_YEAR = date(2025, 1, 1)
SMALL_DAYS = 27
"""Days around the big one, so that it is one day among others; each has a hundredth of its events."""

EVENTS_PER_QUERY = 3.68
"""What ``sql/metrics_make_events.sql`` comes to: a query, mostly a pack and a suggestion, sometimes a word about them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the defaults are quick."""
    parser.add_argument("--day-events", type=int, default=200_000, help="Default 200000.")
    parser.add_argument("--year-events", type=int, default=730_000, help="Default 730000.")
    parser.add_argument("--days", type=int, default=365, help="Days of the year; default 365.")
    parser.add_argument(
        "--threads", type=int, default=200, help="Threads that answer; default 200."
    )


def run(options: argparse.Namespace) -> list[Measure]:
    """Measure."""
    with temporary_home() as home:
        return [*_day(home, options), *_year(home, options)]


@dataclass(frozen=True, slots=True)
class _Told:
    """What a contestant's process said, and its peak."""

    seconds: float
    peak_mb: float
    answer: Mapping[str, Any]


def _day(home: TemporaryHome, options: argparse.Namespace) -> list[Measure]:
    database, lake = open_database(home.settings), EventLake.open(home.settings)
    say(
        f"making {options.day_events:,} events of one day and {SMALL_DAYS} smaller days in PostgreSQL"
    )
    small = [BIG_DAY - timedelta(days=number) for number in range(1, SMALL_DAYS + 1)]
    for day in small:
        _make_events(database, day, options.day_events // 100, options.threads)
    _make_events(database, BIG_DAY, options.day_events, options.threads)
    with database.connect(autocommit=True) as connection:
        connection.execute("vacuum (analyze) nao.retrieval_metric_event")

    say("extracting")
    extract_days(database, lake, ZONE, small)
    copied = _contest(home, "copy_day")
    extracted = _contest(home, "extract_day")
    say("counting the day")
    file = str(lake.file_of(BIG_DAY))
    floor = _contest(home, "floor", file)
    counted = _contest(home, "count_day")
    grouped = _contest(home, "group_by")
    _require_equal(database, floor.answer, BIG_DAY)
    if grouped.answer["hits"] != floor.answer["hits"]:
        message = (
            "PostgreSQL counts other hits than DuckDB; the seconds beside each other mean nothing."
        )
        raise BenchFailedError(message)

    say("a late event, and a night without changes")
    count_days(database, lake, ZONE, days_due(database, lake))
    quiet = _contest(home, "night")
    late_day = small[len(small) // 2]
    _make_events(database, late_day, 4, options.threads, seconds=1)
    late = _contest(home, "night")
    if late.answer["days"] != [late_day.isoformat()]:
        message = f"A late event of {late_day} made the night write {late.answer['days']}."
        raise BenchFailedError(message)
    events = f"{extracted.answer['rows']:,} events"
    # Days that a transaction which was open before could have changed are held against Postgres once more, however large.
    looked_at = f"without changes it looked at {', '.join(quiet.answer['looked_at']) or 'no day'}"
    return [
        Measure("extract a day", extracted.seconds, "s", "bare COPY", copied.seconds, events),
        Measure("memory of it", extracted.peak_mb, "MB"),
        Measure("count and store a day", counted.seconds, "s", "by hand in DuckDB", floor.seconds),
        Measure("memory of it", counted.peak_mb, "MB", "by hand in DuckDB", floor.peak_mb),
        Measure("the same", counted.seconds, "s", "GROUP BY in PostgreSQL", grouped.seconds),
        Measure(
            "a late event", late.seconds, "s", "a night without changes", quiet.seconds, looked_at
        ),
    ]


def _year(home: TemporaryHome, options: argparse.Namespace) -> list[Measure]:
    settings = home.settings.model_copy(update={"lake_url": str(home.path / "year")})
    database, lake = open_database(home.settings), EventLake.open(settings)
    say(f"making {options.year_events:,} events of {options.days} days as files")
    days = [FIRST_OF_YEAR + timedelta(days=number) for number in range(options.days)]
    for day in days:
        _make_file(lake, day, options.year_events // options.days, options.threads)
    say("counting the year")
    floor = _contest(home, "floor", str(lake.root / "retrieval_metric_event" / "*" / "*.parquet"))
    counted = _contest(home, "count_year", str(lake.root))
    whole = read_daily_metrics(database, days[0], days[-1], "overall")
    hits = whole.filter((whole["metric"] == "thread_hit_rate") & (whole["thread_id"] == ""))
    if int(hits["numerator"].sum()) != floor.answer["hits"]:
        message = "The year's hits are not those of the floor; its seconds mean nothing."
        raise BenchFailedError(message)
    events = f"{floor.answer['events']:,} events, {counted.answer['rows']:,} rows stored"
    return [
        Measure(
            "count a year",
            counted.answer["count_s"],
            "s",
            "by hand in DuckDB",
            floor.seconds,
            events,
        ),
        Measure(
            "memory of counting and storing",
            counted.peak_mb,
            "MB",
            "by hand in DuckDB",
            floor.peak_mb,
        ),
        Measure("count and store a year", counted.seconds, "s", note="one transaction a day"),
    ]


def _make_events(
    database: Database, day: date, events: int, threads: int, seconds: float | None = None
) -> None:
    first, last = day_bounds(day, ZONE)
    if seconds is not None:
        first, last = last - timedelta(seconds=seconds), last
    queries = max(1, round(events / EVENTS_PER_QUERY))
    with database.connect() as connection:
        connection.execute(
            trusted(_text("make_events")),
            {"starts_at": first, "ends_at": last, "queries": queries, "threads": threads},
        )


def _make_file(lake: EventLake, day: date, events: int, threads: int) -> None:
    first, last = day_bounds(day, ZONE)
    queries = max(1, round(events / EVENTS_PER_QUERY))
    file = lake.file_of(day)
    file.parent.mkdir(parents=True, exist_ok=True)
    digest = DayDigest(contract_of(ZONE), events, 1, "0")
    with lake.working() as connection:
        connection.execute(
            _text("make_day_file"),
            {
                "starts_at": first.isoformat(),
                "micros": (last - first) / timedelta(microseconds=1),
                "queries": queries,
                "threads": threads,
                "file": str(file),
                "digest": json.dumps(asdict(digest)),
            },
        )


def _require_equal(database: Database, floor: Mapping[str, Any], day: date) -> None:
    stored = read_daily_metrics(database, day, day, "overall")
    hits = stored.filter((stored["metric"] == "thread_hit_rate") & (stored["thread_id"] == ""))
    rejects = stored.filter((stored["metric"] == "user_reject_rate") & (stored["thread_id"] == ""))
    found = (hits["numerator"].sum(), hits["denominator"].sum(), rejects["denominator"].sum())
    if found != (floor["hits"], floor["queries"], floor["suggestions"]):
        message = f"Hits, queries and suggestions are {found} here and {dict(floor)} by hand."
        raise BenchFailedError(message)


# --- Contestants, each in a process of its own ---


def _text(name: str) -> str:
    return (Path(__file__).parent / "sql" / f"metrics_{name}.sql").read_text(encoding="utf-8")


def _contest(home: TemporaryHome, name: str, argument: str = "") -> _Told:
    done: ProcessRun = run_process(
        [sys.executable, "-m", "bench.metrics", name, argument],
        {**_environment(), "THREADHOUSE_HOME": str(home.path), "THREADHOUSE_TZ": ZONE.key},
    )
    answer = json.loads(done.stdout)
    return _Told(answer.pop("seconds"), done.peak_mb, answer)


def _environment() -> dict[str, str]:
    outside = {"DATABASE_URL", "LAKE_URL", "QDRANT_URL", "QDRANT_API_KEY"}
    return {name: value for name, value in os.environ.items() if name not in outside}


def _copy_day(database: Database, _lake: EventLake, _argument: str) -> dict[str, Any]:
    first, last = (sql.Literal(instant) for instant in day_bounds(BIG_DAY, ZONE))
    statement = trusted(_text("copy_day")).format(first=first, last=last)
    taken = 0
    with (
        database.connect() as connection,
        connection.cursor() as cursor,
        cursor.copy(statement) as copy,
    ):
        for block in copy:
            taken += len(block)
    return {"bytes": taken}


def _extract_day(database: Database, lake: EventLake, _argument: str) -> dict[str, Any]:
    return {"rows": extract_days(database, lake, ZONE, [BIG_DAY]).rows_written}


def _count_day(database: Database, lake: EventLake, _argument: str) -> dict[str, Any]:
    return {"rows": count_days(database, lake, ZONE, [BIG_DAY]).rows}


def _count_year(database: Database, _lake: EventLake, root: str) -> dict[str, Any]:
    lake, rows, counting = EventLake(Path(root)), 0, 0.0
    started = time.perf_counter()
    for rates in daily_metrics_in_batches(lake, list(lake.digests()), ZONE):
        counting += time.perf_counter() - started
        rows += store_daily_metrics(database, rates).rows
        started = time.perf_counter()
    return {"rows": rows, "count_s": counting}


def _floor(_database: Database, lake: EventLake, files: str) -> dict[str, Any]:
    with lake.working() as connection:
        found = connection.execute(_text("floor"), {"files": files}).fetchall()
        columns = [column[0] for column in connection.description or ()]
    named = [dict(zip(columns, row, strict=True)) for row in found]
    total = {
        part: [
            row
            for row in named
            if row["part"] == part and row["lane"] is None and row["thread"] is None
        ]
        for part in ("queries", "suggestions")
    }
    return {
        "queries": sum(row["queries"] for row in total["queries"]),
        "hits": sum(row["hits"] for row in total["queries"]),
        "suggestions": sum(row["queries"] for row in total["suggestions"]),
        "memory_limit": MEMORY_LIMIT,
        "events": _events_in(lake, files),
    }


def _events_in(lake: EventLake, files: str) -> int:
    with lake.working() as connection:
        row = connection.execute(
            "select count(*) from read_parquet($files)", {"files": files}
        ).fetchone()
    return int(row[0]) if row else 0


def _group_by(database: Database, _lake: EventLake, _argument: str) -> dict[str, Any]:
    first, last = day_bounds(BIG_DAY, ZONE)
    with database.connect() as connection:
        # As much as the others may hold; the server's own default would let it sort on disk and prove nothing.
        connection.execute("set local work_mem = '400MB'")
        row = connection.execute(
            trusted(_text("group_by")), {"first": first, "last": last + timedelta(minutes=10)}
        ).fetchone()
    return {"hits": row[1] if row else None}


def _night(database: Database, lake: EventLake, _argument: str) -> dict[str, Any]:
    looked_at = days_to_look_at(database, lake, ZONE)
    done = extract_days(database, lake, ZONE)
    count_days(database, lake, ZONE, days_due(database, lake))
    return {
        "looked_at": [day.isoformat() for day in looked_at],
        "days": [day.isoformat() for day in done.days_written],
    }


CONTESTANTS: Mapping[str, Callable[[Database, EventLake, str], dict[str, Any]]] = {
    "copy_day": _copy_day,
    "extract_day": _extract_day,
    "count_day": _count_day,
    "count_year": _count_year,
    "floor": _floor,
    "group_by": _group_by,
    "night": _night,
}


def main(name: str, argument: str) -> None:
    """Run one contestant and tell on stdout what it found, and its seconds."""
    from threadhouse.stores.settings import Settings

    settings = Settings.from_environment()
    database, lake = Database.open(settings), EventLake.open(settings)
    import_module("duckdb")  # what every contestant needs is not what is compared
    started = time.perf_counter()
    answer = CONTESTANTS[name](database, lake, argument)
    print(json.dumps({"seconds": time.perf_counter() - started, **answer}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
