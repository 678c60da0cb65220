"""The event lake: one Parquet file per local day, and the counting that reads it.

Belongs here: where day files lie, how one replaces another, what state of the day each one holds, how far the lake has come.
Does not belong here: getting events out of Postgres (``stores.lake_extract``), what the rates mean (``retrieval.metrics``).

A day is one file, and its digest lies inside it, in the footer: a rename puts both in place or neither, so a reader never meets
half a day and a killed writer leaves nothing to repair. DuckDB writes and reads files in a stream, so that memory is bounded
however many events a day has. Where an object store has the files, a day is put there first, all at once, and the folder is a
copy that is brought up to date before it is read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, BinaryIO, Final
from urllib.parse import unquote, urlsplit
from uuid import UUID
from zoneinfo import ZoneInfo

import polars as pl
import psutil
from filelock import FileLock, Timeout

from threadhouse.retrieval.errors import ConfigurationError, StoreLockedError
from threadhouse.retrieval.events import EVENT_SCHEMA, event_fault
from threadhouse.retrieval.metrics import AGGREGATE_SCHEMA, FACT_SCHEMA, count_rates
from threadhouse.stores import queries
from threadhouse.stores.advisory_locks import GRACE_S, advisory_lock
from threadhouse.stores.durable_files import replace_durably, sync
from threadhouse.stores.lake_objects import CREDENTIALS, ObjectMirror

if TYPE_CHECKING:
    import duckdb

    from threadhouse.stores.arrow_copies import ArrowStream
    from threadhouse.stores.postgres import Database
    from threadhouse.stores.settings import Settings

TABLE: Final = "retrieval_metric_event"
DIGEST_KEY: Final = "threadhouse.day_digest"
DAY_FILE: Final = "events.parquet"
STATE_FILE: Final = ".extracted.json"

CACHE: Final = "lake-cache"
"""Below the home: a folder for each object store that was read."""

_PUBLISHED: Final = re.compile(
    rf"{TABLE}/(local_day=\d{{4}}-\d\d-\d\d/{re.escape(DAY_FILE)}|{re.escape(STATE_FILE)})"
)
"""What of a lake other machines see."""

MEMORY_LIMIT: Final = "900MB"
"""What DuckDB may hold before it goes on in files. With Python and polars beside it a process stays below 1.5 GB."""

BATCH_ROWS: Final = 10_000_000
"""Days are counted together up to this many events. At 3 million a year of 50 took 2.4 times as long as all of it at once, at 10
million it takes 1.3 times as long, with 608 MB."""

FAULTS_NAMED: Final = 1_000
"""Faulty events of a day that are noted one by one. A writer that breaks the contract breaks it all day: the rest is a number."""

_SPILL: Final = ".spill-"

OnFaults = Callable[[Sequence["FaultyEvent"], int], None]

OnStep = Callable[[str], None]
"""Told the name of each step that has just been done."""


def no_step(name: str) -> None:
    """Nobody wants to know."""


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

    @classmethod
    def from_key(cls, key: str) -> DayDigest | None:
        """The digest of a `key`; None for an empty one, which says that there was no file."""
        match key.split(" "):
            case [rules, zone, event_count, max_ingest_seq, content_hash]:
                return cls(f"{rules} {zone}", int(event_count), int(max_ingest_seq), content_hash)
            case _:
                return None


@dataclass(frozen=True, slots=True)
class ExtractState:
    """How far the lake has followed a database.

    ``since`` is the transaction from which on changes may be missing, ``pending`` are days that were found changed and were not
    written yet, ``days`` those that had a file afterwards. ``versions`` are the objects that those were, in the same order: a day
    that is another object by now was put by a run that never came to remember it.
    """

    contract: str
    database: str
    since: str
    seen_at: str
    pending: tuple[str, ...]
    days: tuple[str, ...]
    versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenDay:
    """Events of a day that are in its file, and those that were left out."""

    rows: int
    faulty: int


@dataclass(frozen=True, slots=True)
class FaultyEvent:
    """An event that breaks the contract, and why, as ``field: reason``."""

    event_id: str
    fault: str
    summary: str


@dataclass(frozen=True, slots=True)
class EventLake:
    """Day files below ``root``, in Hive layout: ``retrieval_metric_event/local_day=…/``.

    With ``objects``, ``root`` is the copy of an object store. `writing`, `digests` and `catch_up` bring it up to date; what else
    reads, reads what they left.
    """

    root: Path
    lock_timeout_s: float = 30.0
    objects: ObjectMirror | None = None

    @classmethod
    def open(cls, settings: Settings) -> EventLake:
        """The lake of the home folder, or the folder or object store that ``LAKE_URL`` names. Nothing is asked of a store yet.

        Raises:
            ConfigurationError: The address is of another kind, or no address of its kind.
        """
        if settings.lake_url is None:
            return cls(settings.home / "lake", settings.lock_timeout_s)
        parts = urlsplit(settings.lake_url)
        if parts.scheme in CREDENTIALS:
            objects = ObjectMirror.open(
                parts, settings.aws_endpoint_url, settings.home / CACHE, TABLE, _PUBLISHED
            )
            return cls(objects.root, settings.lock_timeout_s, objects)
        if parts.scheme not in {"", "file"} or parts.netloc not in {"", "localhost"}:
            kinds = ", ".join(f"{kind}://" for kind in CREDENTIALS)
            message = (
                f"LAKE_URL names a store of kind {parts.scheme or parts.netloc!r}, which the lake "
                f"cannot write day by day; give a folder, a file:// address, or one of {kinds}."
            )
            raise ConfigurationError(message)
        folder = unquote(parts.path) if parts.scheme else settings.lake_url
        return cls(Path(folder).expanduser().absolute(), settings.lock_timeout_s)

    @property
    def address(self) -> str:
        """Where the lake is, for people: the folder or the address of the object store."""
        return str(self.root) if self.objects is None else self.objects.address

    @property
    def is_copy(self) -> bool:
        """Whether the files of ``root`` are copies of objects that other machines may replace."""
        return self.objects is not None

    def catch_up(self) -> None:
        """Bring the copy of an object store up to date; a folder is so by itself.

        Raises:
            StoreUnreachableError: The store did not answer.
        """
        if self.objects is not None:
            self.objects.catch_up()

    def file_sizes(self) -> list[int]:
        """Sizes in bytes of all day files, none of which is read or copied."""
        if self.objects is None:
            found = (self.root / TABLE).glob(f"local_day=*/{DAY_FILE}")
            return [path.stat().st_size for path in found]
        return [size for name, size in self.objects.sizes().items() if name.endswith(DAY_FILE)]

    @property
    def glob(self) -> str:
        """Every day file here, for readers such as DuckDB: ``read_parquet(glob, hive_partitioning=true)``."""
        return str(self.root / TABLE / "local_day=*" / DAY_FILE)

    @property
    def published_glob(self) -> str:
        """Every day file for everybody: in a lake that is an object store, the objects."""
        return f"{self.address}/{TABLE}/local_day=*/{DAY_FILE}"

    def file_of(self, day: date) -> Path:
        """Where the file of a day lies, present or not."""
        return self.root / TABLE / f"local_day={day.isoformat()}" / DAY_FILE

    def digests(self) -> dict[date, DayDigest]:
        """Every day that has a file, with the state it holds.

        Raises:
            StoreUnreachableError: The object store of the lake did not answer.
        """
        self.catch_up()
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

    def version_of(self, day: date) -> str:
        """The object that the file of a day is a copy of; empty for one that lies in a folder alone."""
        return "" if self.objects is None else self.objects.version_of(self.file_of(day))

    def state(self) -> ExtractState | None:
        """How far the lake has followed its database; None when it never has, or when nobody can read what it says."""
        try:
            found = json.loads((self.root / TABLE / STATE_FILE).read_text(encoding="utf-8"))
            pending, days = tuple(found.pop("pending")), tuple(found.pop("days"))
            versions = tuple(found.pop("versions", ()))
            return ExtractState(**found, pending=pending, days=days, versions=versions)
        except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def keep_state(self, state: ExtractState) -> None:
        """Remember how far the lake has come. Needs `writing`, and every day file in place."""
        target = self.root / TABLE / STATE_FILE
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f"{STATE_FILE}.aside")
        aside.write_text(json.dumps(asdict(state), indent=1), encoding="utf-8")
        self._put_in_place(aside, target)

    def read_day(self, day: date) -> pl.DataFrame:
        """Events of one day, `EVENT_SCHEMA`, in the order of their arrival. Whole in memory: for tests and single looks."""
        if not self.file_of(day).exists():
            return pl.DataFrame(schema=EVENT_SCHEMA)
        with self.working() as connection:
            found = connection.sql(
                query_text("lake_read_days"), params={"files": [str(self.file_of(day))]}
            )
            return pl.DataFrame(found).select(*EVENT_SCHEMA).cast(EVENT_SCHEMA)

    @contextmanager
    def working(self) -> Generator[duckdb.DuckDBPyConnection, None, None]:
        """Yield a DuckDB of one's own that spills into a folder of the lake, which is removed afterwards."""
        import duckdb

        with (
            spilling(self.root) as spill,
            duckdb.connect(
                config={
                    "memory_limit": MEMORY_LIMIT,
                    "temp_directory": str(spill),
                    # Files are read by their columns and never by the order of their rows; keeping it would keep them in memory.
                    "preserve_insertion_order": False,
                }
            ) as connection,
        ):
            yield connection

    @contextmanager
    def writing(self, database: Database | None) -> Generator[None, None, None]:
        """Be the only writer while the body runs. Readers need no lock.

        Args:
            database: What the events come from. Its lock keeps writers of other machines out of an object store.

        Raises:
            StoreLockedError: Another process writes and did not end in time.
            StoreUnreachableError: The object store of the lake did not answer.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.root / ".writer.lock", timeout=self.lock_timeout_s):
                remove_left_spills(self.root)
                with self._alone_on_all_machines(database):
                    self.catch_up()
                    yield
        except Timeout:
            message = (
                f"Another process has been writing the event lake in {self.root} for "
                f"{self.lock_timeout_s:g} s; wait for its run to end and start again."
            )
            raise StoreLockedError(message) from None

    def write_day(
        self,
        connection: duckdb.DuckDBPyConnection,
        day: date,
        events: ArrowStream,
        digest: DayDigest,
        on_faults: OnFaults | None = None,
        on_step: OnStep = no_step,
    ) -> WrittenDay:
        """Replace the file of a day, all at once and durably, with those of the events that keep the contract.

        The stream is read once and never whole. Needs `writing`.

        Args:
            connection: Of `working`.
            events: Columns of `EVENT_SCHEMA`, unique by ``event_id``: Postgres keeps one row an id.
            on_faults: Told, before the file is in its place, of the first `FAULTS_NAMED` events that are left out and of how many
                there are.
            on_step: Told after each step that a kill could follow.
        """
        target = self.file_of(day)
        target.parent.mkdir(parents=True, exist_ok=True)
        # Those of a killed writer are simply overwritten.
        aside, whole = (target.with_name(f".{DAY_FILE}.{name}") for name in ("aside", "whole"))
        footer = {"file": str(aside), "digest": json.dumps(asdict(digest))}
        connection.register("event_stream", events)
        found = connection.execute(query_text("lake_write_day"), footer).fetchone()
        count = found[0] if found else 0
        connection.unregister("event_stream")
        on_step("written aside")
        faults, faulty = _faults_in(aside)
        if faulty:
            aside.replace(whole)
            connection.execute(
                query_text("lake_leave_out"),
                {**footer, "source": str(whole), "event_ids": _faulty_ids(whole)},
            )
            whole.unlink()
        if on_faults is not None:
            on_faults(faults, faulty)
        on_step("faults noted")
        self._put_in_place(aside, target, on_step)
        on_step("day in place")
        return WrittenDay(count - faulty, faulty)

    def remove_day(self, day: date) -> None:
        """Remove the file of a day whose events all moved away. Needs `writing`."""
        if self.objects is not None:
            self.objects.remove(self.file_of(day))
            return
        self.file_of(day).unlink(missing_ok=True)
        sync(self.file_of(day).parent)

    def adopt_day(self, day: date, file: Path) -> None:
        """Put a copy of a finished file in the place of a day; it stays where it is. For a lake that nobody writes."""
        target = self.file_of(day)
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{DAY_FILE}.aside")
        shutil.copyfile(file, aside)
        self._put_in_place(aside, target)

    def _put_in_place(self, aside: Path, target: Path, on_step: OnStep = no_step) -> None:
        if self.objects is None:
            replace_durably(aside, target)
        else:
            self.objects.publish(aside, target, on_step)

    @contextmanager
    def _alone_on_all_machines(self, database: Database | None) -> Generator[None, None, None]:
        if self.objects is None:
            yield
            return
        if database is None:
            message = "A lake in an object store is written with the lock of its database."
            raise ValueError(message)
        name, doing = f"event lake {self.address}", "The event lake is being written by"
        with advisory_lock(database, name, doing, wait_s=max(self.lock_timeout_s, GRACE_S)):
            yield


def compute_daily_metrics(lake: EventLake, days: Iterable[date], zone: ZoneInfo) -> pl.DataFrame:
    """All rates of some days from their files; see `daily_metrics_in_batches`."""
    schema = pl.Schema({**AGGREGATE_SCHEMA, "source_digest": pl.String})
    return pl.concat([pl.DataFrame(schema=schema), *daily_metrics_in_batches(lake, days, zone)])


def daily_metrics_in_batches(
    lake: EventLake, days: Iterable[date], zone: ZoneInfo
) -> Iterator[pl.DataFrame]:
    """All rates of some days from their files, as many days at a time as `BATCH_ROWS` allows.

    Returns:
        `AGGREGATE_SCHEMA` plus ``source_digest``, the state of the day that was counted (empty for a day without a file), sorted.

    Raises:
        ConfigurationError: A day was written for another time zone.
    """
    batch: list[date] = []
    rows = 0
    for day in sorted(set(days)):
        digest = lake.digest_of(day)
        if digest is not None and zone.key not in digest.contract.split():
            message = (
                f"The events of {day} in the lake are those of another time zone than {zone.key}; "
                "extract events again first (a nightly does)."
            )
            raise ConfigurationError(message)
        count = digest.event_count if digest else 0
        if batch and rows + count > BATCH_ROWS:
            yield _count_batch(lake, batch)
            batch, rows = [], 0
        batch.append(day)
        rows += count
    if batch:
        yield _count_batch(lake, batch)


@contextmanager
def spilling(parent: Path) -> Generator[Path, None, None]:
    """Yield a folder below ``parent`` for what DuckDB does not hold in memory; it is removed afterwards."""
    parent.mkdir(parents=True, exist_ok=True)
    spill = mkdtemp(prefix=f"{_SPILL}{os.getpid()}-", dir=parent)
    try:
        yield Path(spill)
    finally:
        shutil.rmtree(spill, ignore_errors=True)


def remove_left_spills(parent: Path) -> None:
    """Remove what killed processes left. Folders of living ones stay: readers spill as well."""
    for spill in parent.glob(f"{_SPILL}*"):
        pid = spill.name.removeprefix(_SPILL).partition("-")[0]
        if not pid.isdigit() or not psutil.pid_exists(int(pid)):
            shutil.rmtree(spill, ignore_errors=True)


def _count_batch(lake: EventLake, days: Sequence[date]) -> pl.DataFrame:
    while True:
        before = _states(lake, days)
        facts = _facts(lake, [day for day in days if before[day]])
        # A day that was replaced in between would get figures of one state and the digest of another.
        if _states(lake, days) == before:
            break
    digests = pl.DataFrame(
        {"local_day": list(before), "source_digest": list(before.values())},
        schema={"local_day": pl.Date, "source_digest": pl.String},
    )
    return count_rates(facts, days).join(digests, on="local_day", how="left", maintain_order="left")


def _states(lake: EventLake, days: Sequence[date]) -> dict[date, str]:
    found = {day: lake.digest_of(day) for day in days}
    return {day: digest.key if digest else "" for day, digest in found.items()}


def _facts(lake: EventLake, days: Sequence[date]) -> pl.DataFrame:
    if not days:
        return pl.DataFrame(schema=FACT_SCHEMA)
    files = [str(lake.file_of(day)) for day in days]
    with lake.working() as connection:
        found = pl.DataFrame(connection.sql(query_text("lake_facts"), params={"files": files}))
    return found.select(*FACT_SCHEMA).cast(FACT_SCHEMA)


def _faults_in(file: Path) -> tuple[list[FaultyEvent], int]:
    """The first faulty events of a file that was just written, and how many there are."""
    faulty = _faulty(file)
    count = faulty.select(pl.len()).collect(engine="streaming").item()
    if not count:
        return [], 0
    shown = faulty.head(FAULTS_NAMED).select("event_id", "fault", "type", "occurred_at", "details")
    return [
        FaultyEvent(
            str(UUID(bytes=row["event_id"])),
            row["fault"],
            f"{row['type']} {row['occurred_at']} {row['details']}",
        )
        for row in shown.collect().iter_rows(named=True)
    ], count


def _faulty_ids(file: Path) -> list[str]:
    ids = _faulty(file).select("event_id").collect(engine="streaming")["event_id"]
    return [str(UUID(bytes=event_id)) for event_id in ids]


def _faulty(file: Path) -> pl.LazyFrame:
    marked = pl.scan_parquet(file).with_columns(fault=event_fault())
    return marked.filter(pl.col("fault").is_not_null())


def _digest_in(file: BinaryIO) -> DayDigest:
    return DayDigest(**json.loads(pl.read_parquet_metadata(file)[DIGEST_KEY]))


def query_text(name: str) -> str:
    """A statement for DuckDB out of ``sql/queries``."""
    return queries.load(name).as_string()
