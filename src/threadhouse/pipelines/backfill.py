"""Doing the past again, run here and now by the console script: a range of days, or what is built of owners and threads.

Belongs here: which ranges there are, one run of a backfill's job, its row in ``nao.pipeline_run``, what to tell a person.
Does not belong here: running a job (pipelines.job_runs), what a selection covers (stores.backfill_selection), building (assets).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from threadhouse.assets.partitions import FIRST_DAY, RECOUNT
from threadhouse.pipelines.job_runs import execute_job, recorded_figures, recorded_run
from threadhouse.pipelines.jobs import (
    CENTROIDS_BACKFILL_JOB,
    METRICS_BACKFILL_JOB,
    PACKS_BACKFILL_JOB,
    REPORTS_BACKFILL_JOB,
    VECTORS_BACKFILL_JOB,
)
from threadhouse.pipelines.schedules import range_tags
from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.local_days import local_day
from threadhouse.retrieval.models import Json
from threadhouse.stores.advisory_locks import advisory_lock
from threadhouse.stores.backfill_selection import (
    BackfillCost,
    BackfillSelection,
    cost_of_threads,
    cost_of_vectors,
    require_known,
    select_content,
    select_threads,
)
from threadhouse.stores.embedder_in_force import open_embedder_in_force
from threadhouse.stores.migrations import open_database
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings

BACKFILL_LOCK = "threadhouse backfill metrics"
"""Name of the advisory lock that one backfill of metrics holds."""


@dataclass(frozen=True, slots=True)
class BackfillSummary:
    """What one backfill did, asset by asset, as the run recorded it."""

    run_id: str
    first: date
    last: date
    seconds: float
    figures: Mapping[str, Mapping[str, Json]]
    log: Path

    def to_json(self) -> dict[str, Json]:
        """Everything, for a program."""
        return {
            "run_id": self.run_id,
            "from": self.first.isoformat(),
            "to": self.last.isoformat(),
            "seconds": round(self.seconds, 3),
            "log": str(self.log),
            "assets": {key: dict(numbers) for key, numbers in self.figures.items()},
        }

    def render(self) -> str:
        """A few lines for a person."""
        events, rates = self.figures["retrieval_events"], self.figures["retrieval_metrics_daily"]
        days = (self.last - self.first).days + 1
        span = "1 local day" if days == 1 else f"{days:,} local days"
        return "\n".join(
            [
                f"Backfilled {self.first} to {self.last} ({span}) in {self.seconds:.1f} s.",
                f"  events  {_days(events['days_written'])} extracted, {_days(events['days_removed'])} emptied, "
                f"{events['quarantined']:,} events in quarantine",
                f"  rates   {_days(rates['days_counted'])} counted, {rates['rows_inserted']:,} rows new, "
                f"{rates['rows_restated']:,} restated, {rates['rows_unchanged']:,} as before",
                f"Log: {self.log}",
            ]
        )


def _days(listed: Json) -> str:
    count = 0 if listed == "none" else str(listed).count(",") + 1
    return "1 day" if count == 1 else f"{count:,} days"


def backfill_metrics(
    settings: Settings,
    first: date,
    last: date,
    progress: Callable[[str, int, int], None],
    *,
    recount: bool = False,
) -> BackfillSummary:
    """Extract and count every local day of a range in one run. Killed, it keeps what is finished; started again, it goes on.

    Args:
        settings: Whose hub it is.
        first: Its first local day.
        last: Its last local day, part of the range.
        progress: Told (step, days done, days to do).
        recount: Count the days that are as they were as well. Started again, it counts those that are finished once more.

    Raises:
        ConfigurationError: The range is empty, begins before metrics do, or ends after today.
        StoreLockedError: Another backfill of this hub is at work.
        JobFailedError: A step failed; the sentence names it and the log.
    """
    _require_range(first, last, local_day(datetime.now(UTC), settings.zone))
    database = open_database(settings)
    with advisory_lock(database, BACKFILL_LOCK, "A backfill of metrics is being run by"):
        started = time.monotonic()
        with recorded_run(database, "backfill") as (run_id, counters):
            result, log = execute_job(
                settings,
                METRICS_BACKFILL_JOB,
                run_id,
                tags=range_tags((first, last)) | (RECOUNT if recount else {}),
                progress=progress,
            )
            seconds = time.monotonic() - started
            summary = BackfillSummary(run_id, first, last, seconds, recorded_figures(result), log)
            counters.update((k, v) for k, v in summary.to_json().items() if k != "assets")
            return summary


def _require_range(first: date, last: date, today: date) -> None:
    if first > last:
        message = f"The range from {first} to {last} holds no day; give the earlier day to --from."
        raise ConfigurationError(message)
    if first < date.fromisoformat(FIRST_DAY):
        message = f"Metrics begin with {FIRST_DAY}, and {first} is before that; start later."
        raise ConfigurationError(message)
    if last > today:
        message = f"The range ends with {last}, which has not begun; today is {today}."
        raise ConfigurationError(message)


@dataclass(frozen=True, slots=True)
class BuildBackfill:
    """A kind of backfill that builds: its job, the step that takes the selection, the assets whose figures are told."""

    job: str
    step: str
    assets: tuple[str, ...]
    told: tuple[str, ...]


BUILDS: Mapping[str, BuildBackfill] = {
    "vectors": BuildBackfill(
        VECTORS_BACKFILL_JOB,
        "content_vectors",
        ("information_unit_vectors",),
        ("owners_published", "chunks_written", "texts_embedded", "cache_hits", "points_deleted"),
    ),
    "centroids": BuildBackfill(
        CENTROIDS_BACKFILL_JOB,
        "thread_centroids",
        ("thread_centroids",),
        ("written", "unchanged", "deleted"),
    ),
    "packs": BuildBackfill(
        PACKS_BACKFILL_JOB,
        "context_packs",
        ("context_packs",),
        ("threads_due", "written", "unchanged", "deleted"),
    ),
}


@dataclass(frozen=True, slots=True)
class BuiltAgain:
    """What one backfill of vectors, centroids, packs or reports did."""

    kind: str
    run_id: str
    seconds: float
    figures: Mapping[str, Json]
    log: Path

    def to_json(self) -> dict[str, Json]:
        """Everything, for a program."""
        return {
            "run_id": self.run_id,
            "seconds": round(self.seconds, 3),
            "log": str(self.log),
            "figures": dict(self.figures),
        }

    def render(self) -> str:
        """A few lines for a person."""
        told = ", ".join(
            f"{name.replace('_', ' ')} {value}" for name, value in self.figures.items()
        )
        return f"Backfilled {self.kind} in {self.seconds:.1f} s: {told}.\nLog: {self.log}"


def cost_of_backfill(settings: Settings, kind: str, selection: BackfillSelection) -> BackfillCost:
    """What `backfill_builds` would do; nothing is written.

    Raises:
        ConfigurationError: A name is unknown.
    """
    database = open_database(settings)
    with database.connect() as connection:
        require_known(connection, selection)
        if kind != "vectors":
            threads = select_threads(connection, selection)
            return cost_of_threads(connection, threads, packs=kind == "packs")
        embedder = open_embedder_in_force(settings, database)
        return cost_of_vectors(connection, select_content(connection, selection), embedder)


def backfill_builds(
    settings: Settings,
    kind: str,
    selection: BackfillSelection,
    progress: Callable[[str, int, int], None],
) -> BuiltAgain:
    """Build vectors, centroids or packs of a selection again, also where nothing changed, in one run of their job.

    A run that is killed leaves readers with what they had; started again it does everything again, with vectors from the cache.

    Args:
        kind: A key of `BUILDS`.

    Raises:
        ConfigurationError: A name is unknown, or the selection is empty.
        StoreLockedError: Another backfill of this kind is at work.
        JobFailedError: A step failed; the sentence names it and the log.
    """
    build = BUILDS[kind]
    database = open_database(settings)
    with database.connect() as connection:
        require_known(connection, selection)
        if kind == "vectors":
            scope = select_content(connection, selection)
            chosen: dict[str, list[str]] = {
                "units": sorted(scope.units),
                "documents": sorted(scope.documents),
            }
        else:
            chosen = {"threads": sorted(select_threads(connection, selection))}
    if not any(chosen.values()):
        message = "Nothing is selected: no owner or thread fulfils all of what was asked for; nothing was done."
        raise ConfigurationError(message)
    is_everything = selection.names_nothing and not selection.lanes and selection.begins is None
    config = {"rebuild": True, **({} if is_everything else chosen)}
    lock = f"threadhouse backfill {kind}"
    with advisory_lock(database, lock, f"A backfill of {kind} is being run by"):
        return _build(settings, database, kind, build, config, progress)


def backfill_reports(
    settings: Settings, first: date, last: date, progress: Callable[[str, int, int], None]
) -> BuiltAgain:
    """Build the health reports of a range of local days that are missing or older than their figures, in one run.

    Raises:
        ConfigurationError: The range is empty, begins before metrics do, or ends after today.
        StoreLockedError: Another backfill of reports is at work.
        JobFailedError: A step failed; the sentence names it and the log.
    """
    _require_range(first, last, local_day(datetime.now(UTC), settings.zone))
    database = open_database(settings)
    build = BuildBackfill(
        REPORTS_BACKFILL_JOB, "", ("health_report",), ("days", "dagster/partition_row_count")
    )
    with advisory_lock(
        database, "threadhouse backfill reports", "A backfill of reports is being run by"
    ):
        return _build(
            settings, database, "reports", build, None, progress, range_tags((first, last))
        )


def _build(
    settings: Settings,
    database: Database,
    kind: str,
    build: BuildBackfill,
    config: Mapping[str, object] | None,
    progress: Callable[[str, int, int], None],
    tags: Mapping[str, str] | None = None,
) -> BuiltAgain:
    started = time.monotonic()
    with recorded_run(database, "backfill") as (run_id, counters):
        result, log = execute_job(
            settings,
            build.job,
            run_id,
            ops=None if config is None else {build.step: {"config": dict(config)}},
            tags=tags or {},
            progress=progress,
        )
        recorded = recorded_figures(result)
        figures = {
            name.rpartition("/")[2]: value
            for asset in build.assets
            for name, value in recorded[asset].items()
            if name in build.told
        }
        done = BuiltAgain(kind, run_id, time.monotonic() - started, figures, log)
        counters.update(done.to_json())
        return done
