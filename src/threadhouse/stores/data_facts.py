"""Facts about events, rates, packs and projections: what suites of expectations judge.

Belongs here: reducing a product to counts, flags and ids where it lies (Postgres, Parquet), and naming its state.
Does not belong here: what must be true (``retrieval.data_expectations``), judging (``stores.data_validation``).

Ten million events of a day become ten rows. No text leaves its store, and memory does not grow with the product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl
from psycopg.rows import dict_row

from threadhouse.retrieval.data_expectations import SuiteName
from threadhouse.retrieval.events import EVENT_SCHEMA, EventType, event_fault
from threadhouse.retrieval.models import Collection
from threadhouse.retrieval.packs import ContextPack
from threadhouse.stores import queries
from threadhouse.stores.lake import EventLake
from threadhouse.stores.postgres import Database

Fact = str | int | float | bool | None

UNKNOWN_TYPE: Final = "another type"
"""Stands for every type that the contract does not know: what such a type is called was written by nobody we know."""


@dataclass(frozen=True, slots=True)
class ProductStores:
    """Where the products lie."""

    database: Database
    lake: EventLake
    zone: ZoneInfo


def read_states(stores: ProductStores, suite: SuiteName) -> dict[str, str]:
    """A key for each part of a product (a local day, or all of it): another key, another state. Empty without a product."""
    if suite is SuiteName.EVENTS:
        return {
            day.isoformat(): f"{digest.key} {_file_state(stores.lake, day)}"
            for day, digest in stores.lake.digests().items()
        }
    with stores.database.connect() as connection:
        rows = connection.execute(queries.load(f"facts_state_{suite.value}"), {}).fetchall()
    return {part: str(key) for part, key in sorted(rows)}


def read_facts(
    stores: ProductStores, suite: SuiteName, parts: Sequence[str]
) -> list[Mapping[str, Fact]]:
    """Facts about the parts of a product, one row for each of its grain."""
    if suite is SuiteName.EVENTS:
        return [
            row
            for part in parts
            for row in _facts_of_day(stores.lake, date.fromisoformat(part), stores.zone)
        ]
    parameters = {
        "parts": list(parts),
        "fields": [name for name, f in ContextPack.model_fields.items() if f.is_required()],
        "collections": list(Collection),
    }
    with (
        stores.database.connect() as connection,
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        return [*cursor.execute(queries.load(f"facts_{suite.value}"), parameters)]


def _file_state(lake: EventLake, day: date) -> str:
    """Size and time of the file: bytes that somebody else wrote leave the digest in its footer as it was.

    For the copy of an object its ETag, which is the same on every machine.
    """
    if version := lake.version_of(day):
        return version
    found = lake.file_of(day).stat()
    return f"{found.st_size} {found.st_mtime_ns}"


def _facts_of_day(lake: EventLake, day: date, zone: ZoneInfo) -> list[Mapping[str, Fact]]:
    """Events of a day by type; a file that cannot be read is a day without an event."""
    key: dict[str, Fact] = {"local_day": day.isoformat()}
    try:
        events = pl.scan_parquet(lake.file_of(day), hive_partitioning=False)
        present = events.collect_schema()
        unknown = len(set(present) - set(EVENT_SCHEMA))
        found = (
            events.with_columns(
                pl.lit(None, kind).alias(name)
                for name, kind in EVENT_SCHEMA.items()
                if name not in present
            )
            .group_by(_known_type())
            .agg(
                events=pl.len(),
                # Of the hash, which is a quarter of an id's size: among 10 million ids two meet once in 400,000 days.
                repeated_events=pl.len() - pl.col("event_id").hash().n_unique(),
                misplaced_events=_misplaced(day, zone).sum(),
                faulty_events=event_fault().is_not_null().sum(),
                unplaced_events=_unplaced().sum(),
                first_attributed_us=pl.col("attributed_at").min().dt.epoch("us"),
                last_attributed_us=pl.col("attributed_at").max().dt.epoch("us"),
            )
            .sort("type")
            .collect(engine="streaming")
        )
    except (OSError, pl.exceptions.PolarsError):
        return [{**key, "type": UNKNOWN_TYPE, "events": 0, **dict.fromkeys(_COUNTS), **_NO_SPAN}]
    return [{**key, **row, "unknown_columns": unknown} for row in found.iter_rows(named=True)]


_COUNTS: Final = (
    "repeated_events",
    "misplaced_events",
    "faulty_events",
    "unplaced_events",
    "unknown_columns",
)
_NO_SPAN: Final[Mapping[str, Fact]] = {"first_attributed_us": None, "last_attributed_us": None}


def _known_type() -> pl.Expr:
    is_known = pl.col("type").is_in([kind.value for kind in EventType])
    return pl.when(is_known).then(pl.col("type")).otherwise(pl.lit(UNKNOWN_TYPE)).alias("type")


def _misplaced(day: date, zone: ZoneInfo) -> pl.Expr:
    return pl.col("attributed_at").dt.convert_time_zone(zone.key).dt.date() != day


def _unplaced() -> pl.Expr:
    return pl.any_horizontal(
        pl.col(name).is_null()
        for name in ("event_id", "event_version", "occurred_at", "ingested_at", "attributed_at")
    )
