"""A lake that a test fills with events of its own, without Postgres.

Belongs here: events by their day, day files out of frames. Does not belong here: expectations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import NAMESPACE_OID, uuid5
from zoneinfo import ZoneInfo

import duckdb
import polars as pl

from threadhouse.retrieval.events import EVENT_SCHEMA
from threadhouse.retrieval.local_days import day_bounds
from threadhouse.retrieval.metrics import AGGREGATE_SCHEMA, FACT_SCHEMA, count_rates
from threadhouse.stores.lake import DayDigest, EventLake, compute_daily_metrics, query_text

ANY_ZONE = ZoneInfo("UTC")
FILES = re.compile(r"read_parquet\(\$files[^)]*\)")


@dataclass(frozen=True)
class FrameStream:
    """A frame as nothing but an Arrow stream: DuckDB would want another library for a frame that it knows as one."""

    frame: pl.DataFrame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.frame.__arrow_c_stream__(requested_schema)


def with_local_day(events: pl.DataFrame, days: Sequence[date], zone: ZoneInfo) -> pl.DataFrame:
    """Add ``local_day``, the day of ``attributed_at``; null outside ``days``.

    Args:
        events: Needs ``attributed_at``, UTC.
        days: The days to tell apart, in any order.
        zone: Whose days they are.
    """
    rows = [(day, *day_bounds(day, zone)) for day in sorted(set(days))]
    known = pl.DataFrame(
        [row for row in rows if row[1] < row[2]],
        schema={
            "local_day": pl.Date,
            "_starts_at": pl.Datetime("us", "UTC"),
            "_ends_at": pl.Datetime("us", "UTC"),
        },
        orient="row",
    )
    return (
        events.sort("attributed_at")
        .join_asof(known, left_on="attributed_at", right_on="_starts_at", strategy="backward")
        .with_columns(
            pl.when(pl.col("attributed_at") < pl.col("_ends_at")).then(pl.col("local_day"))
        )
        .drop("_starts_at", "_ends_at")
    )


def write_days(lake: EventLake, events: pl.DataFrame, days: Sequence[date]) -> None:
    """Put events with ``local_day`` into the files of their days; days without events get none."""
    with lake.writing(None), lake.working() as working:
        for day in days:
            of_day = events.filter(pl.col("local_day") == day).select(*EVENT_SCHEMA)
            if of_day.height:
                lake.write_day(
                    working,
                    day,
                    FrameStream(of_day),
                    DayDigest("events UTC", of_day.height, 1, "0"),
                )


def count_events(events: pl.DataFrame, days: Sequence[date]) -> pl.DataFrame:
    """The rates of events that lie in a lake: `AGGREGATE_SCHEMA`.

    Args:
        events: `EVENT_SCHEMA` and ``local_day``.
    """
    with TemporaryDirectory() as folder:
        lake = EventLake(Path(folder))
        write_days(lake, events, days)
        return compute_daily_metrics(lake, days, ANY_ZONE).select(*AGGREGATE_SCHEMA)


@cache
def shared_duckdb() -> duckdb.DuckDBPyConnection:
    """One for all examples of a property: opening it takes longer than counting."""
    return duckdb.connect(config={"threads": 1})


def count_frame(events: pl.DataFrame, days: Sequence[date]) -> pl.DataFrame:
    """The same by the same statement without files, for properties that count hundreds of streams."""
    statement = query_text("lake_facts")
    source = FILES.search(statement)
    assert source is not None
    known = events.filter(pl.col("local_day").is_in(list(days)))
    connection = shared_duckdb()
    connection.register("event_stream", FrameStream(known))
    found = pl.DataFrame(connection.sql(statement.replace(source[0], "event_stream")))
    return count_rates(found.select(*FACT_SCHEMA).cast(FACT_SCHEMA), days)


def uuid_of(name: str) -> str:
    """An id that is a UUID, for tests that call things e1 and q1."""
    return str(uuid5(NAMESPACE_OID, name))
