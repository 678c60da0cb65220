"""The event lake: one Parquet file per local day, and the counting that reads it.

Belongs here: where day files lie, how one replaces another, what state of the day each one holds.
Does not belong here: getting events out of Postgres (``stores.lake_extract``), what the rates mean
(``retrieval.metrics``).

A day is one file, and its digest lies inside it, in the footer: a rename puts both in place or
neither, so a reader never meets half a day and a killed writer leaves nothing to repair.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo

import polars as pl
from filelock import FileLock, Timeout

from threadhouse.retrieval.errors import ConfigurationError, StoreLockedError
from threadhouse.retrieval.events import EVENT_SCHEMA
from threadhouse.retrieval.metrics import AGGREGATE_SCHEMA, EVENT_COLUMNS, count_rates

if TYPE_CHECKING:
    from threadhouse.stores.settings import Settings

TABLE: Final = "retrieval_metric_event"
DIGEST_KEY: Final = "threadhouse.day_digest"
DAY_FILE: Final = "events.parquet"

BATCH_ROWS: Final = 500_000
"""Days are counted together up to this many events: about 100 MB, and a call costs more than a row."""


@dataclass(frozen=True, slots=True)
class DayDigest:
    """What a day held when its file was written. Two equal digests mean the same events.

    ``contract`` names the event contract and the zone: other rules put other events into a day.
    """

    contract: str
    event_count: int
    max_ingest_seq: int
    content_hash: str

    @property
    def key(self) -> str:
        """All of it as one line, to be kept beside what was derived from the day."""
        return f"{self.contract} {self.event_count} {self.max_ingest_seq} {self.content_hash}"


@dataclass(frozen=True, slots=True)
class EventLake:
    """Day files below ``root``, in Hive layout: ``retrieval_metric_event/local_day=…/``."""

    root: Path
    lock_timeout_s: float = 30.0

    @classmethod
    def open(cls, settings: Settings) -> EventLake:
        """The lake of the home folder, or the folder that ``LAKE_URL`` names.

        Raises:
            ConfigurationError: The address is not one of a folder.
        """
        if settings.lake_url is None:
            return cls(settings.home / "lake", settings.lock_timeout_s)
        parts = urlsplit(settings.lake_url)
        if parts.scheme not in {"", "file"} or parts.netloc not in {"", "localhost"}:
            message = (
                f"LAKE_URL names a store of kind {parts.scheme or parts.netloc!r}, which the lake "
                "cannot write day by day; give a folder or a file:// address."
            )
            raise ConfigurationError(message)
        folder = unquote(parts.path) if parts.scheme else settings.lake_url
        return cls(Path(folder).expanduser().absolute(), settings.lock_timeout_s)

    @property
    def glob(self) -> str:
        """Every day file, for readers such as DuckDB: ``read_parquet(glob, hive_partitioning=true)``."""
        return str(self.root / TABLE / "local_day=*" / DAY_FILE)

    def file_of(self, day: date) -> Path:
        """Where the file of a day lies, present or not."""
        return self.root / TABLE / f"local_day={day.isoformat()}" / DAY_FILE

    def digests(self) -> dict[date, DayDigest]:
        """Every day that has a file, with the state it holds."""
        found: dict[date, DayDigest] = {}
        for file in sorted((self.root / TABLE).glob(f"local_day=*/{DAY_FILE}")):
            day = date.fromisoformat(file.parent.name.removeprefix("local_day="))
            digest = self.digest_of(day)
            if digest is not None:
                found[day] = digest
        return found

    def digest_of(self, day: date) -> DayDigest | None:
        """The state that the file of a day holds; None without a file, and for a file that is damaged: it is due again."""
        try:
            with self.file_of(day).open("rb") as file:
                return _digest_in(file)
        except (FileNotFoundError, pl.exceptions.ComputeError, KeyError):
            return None

    def read_day(
        self, day: date, columns: Sequence[str] = tuple(EVENT_SCHEMA)
    ) -> tuple[pl.DataFrame, DayDigest | None]:
        """Events of one day with the state they are, both of one version of the file."""
        schema = pl.Schema({name: EVENT_SCHEMA[name] for name in columns})
        try:
            # One descriptor for both reads: a rename in between leaves it on the old version.
            with self.file_of(day).open("rb") as file:
                digest = _digest_in(file)
                file.seek(0)
                events = pl.read_parquet(file, columns=list(columns))
        except FileNotFoundError:
            return pl.DataFrame(schema=schema), None
        return events.cast(schema), digest

    @contextmanager
    def writing(self) -> Generator[None, None, None]:
        """Be the only writer while the body runs. Readers need no lock.

        Raises:
            StoreLockedError: Another process writes and did not end in time.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.root / ".writer.lock", timeout=self.lock_timeout_s):
                yield
        except Timeout:
            message = (
                f"Another process has been writing the event lake in {self.root} for "
                f"{self.lock_timeout_s:g} s; wait for its run to end and start again."
            )
            raise StoreLockedError(message) from None

    def write_day(self, day: date, events: pl.DataFrame, digest: DayDigest) -> int:
        """Replace the file of a day, all at once and durably; returns its rows.

        Events are kept once per ``event_id`` (the first that arrived), in order of time, so that
        equal days are equal files. Needs `writing`.
        """
        kept = (
            events.select(*EVENT_SCHEMA)
            .sort("ingest_seq")
            .unique("event_id", keep="first", maintain_order=True)
            .sort("occurred_at", "event_id")
        )
        target = self.file_of(day)
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{DAY_FILE}.aside")  # of a killed writer: simply overwritten
        kept.write_parquet(
            aside, compression="zstd", metadata={DIGEST_KEY: json.dumps(asdict(digest))}
        )
        replace_durably(aside, target)
        return kept.height

    def remove_day(self, day: date) -> None:
        """Remove the file of a day whose events all moved away. Needs `writing`."""
        self.file_of(day).unlink(missing_ok=True)
        _sync_folder(self.file_of(day).parent)


def compute_daily_metrics(lake: EventLake, days: Iterable[date], zone: ZoneInfo) -> pl.DataFrame:
    """All rates of some days from their files, a few days at a time.

    Returns:
        `AGGREGATE_SCHEMA` plus ``source_digest``, the state of the day that was counted (empty for
        a day without a file), sorted.

    Raises:
        ConfigurationError: A day was written for another time zone.
    """
    schema = {**AGGREGATE_SCHEMA, "source_digest": pl.String}
    results = [pl.DataFrame(schema=schema)]
    batch: list[pl.DataFrame] = []
    states: dict[date, str] = {}
    for day in sorted(set(days)):
        events, digest = lake.read_day(day, EVENT_COLUMNS)
        if digest is not None and zone.key not in digest.contract.split():
            message = (
                f"The events of {day} in the lake are those of another time zone than {zone.key}; "
                "extract events again first (a nightly does)."
            )
            raise ConfigurationError(message)
        states[day] = digest.key if digest else ""
        batch.append(events.with_columns(local_day=pl.lit(day)))
        if sum(frame.height for frame in batch) >= BATCH_ROWS:
            results.append(_count_batch(batch, states))
            batch, states = [], {}
    if states:
        results.append(_count_batch(batch, states))
    return pl.concat(results)


def replace_durably(aside: Path, target: Path) -> None:
    """Put a finished file in the place of another: old or new after a crash, never a mixture."""
    with aside.open("rb") as written:
        os.fsync(written.fileno())
    aside.replace(target)
    _sync_folder(target.parent)


def _count_batch(batch: list[pl.DataFrame], states: dict[date, str]) -> pl.DataFrame:
    counted = count_rates(pl.concat(batch), sorted(states))
    digests = pl.DataFrame(
        {"local_day": list(states), "source_digest": list(states.values())},
        schema={"local_day": pl.Date, "source_digest": pl.String},
    )
    return counted.join(digests, on="local_day", how="left", maintain_order="left")


def _digest_in(file: BinaryIO) -> DayDigest:
    return DayDigest(**json.loads(pl.read_parquet_metadata(file)[DIGEST_KEY]))


def _sync_folder(folder: Path) -> None:
    # A rename is durable only when the folder that records it is.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
