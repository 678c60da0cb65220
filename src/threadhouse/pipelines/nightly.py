"""The nightly job, run here and now by the console script.

Belongs here: one run of ``nightly_rebuild`` in this process, its log file, its row in ``nao.pipeline_run``, what to tell a
person.
Does not belong here: when it runs by itself (pipelines.schedules), what it does (assets).
"""

import logging
import os
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult
from dagster_shared.error import SerializableErrorInfo

from threadhouse.pipelines.dead_runs import end_dead_runs, process_tags
from threadhouse.pipelines.definitions import build_definitions, build_resources
from threadhouse.pipelines.jobs import NIGHTLY_JOB
from threadhouse.pipelines.schedules import nightly_days, range_tags
from threadhouse.pipelines.ui_processes import prepare_instance, running_ui
from threadhouse.resources.run_listener import listening
from threadhouse.retrieval.errors import ThreadhouseError
from threadhouse.retrieval.models import Json
from threadhouse.stores.advisory_locks import advisory_lock
from threadhouse.stores.lake import EventLake
from threadhouse.stores.migrations import open_database
from threadhouse.stores.model_build import build_model
from threadhouse.stores.pipeline_runs import finish_run, start_run
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings

NIGHTLY_LOCK = "threadhouse nightly"
"""Name of the advisory lock that one nightly of the console script holds."""


class NightlyFailedError(ThreadhouseError):
    """A step failed or a check stopped the run; what was built before it stands."""


@dataclass(frozen=True, slots=True)
class NightlySummary:
    """What one nightly did, asset by asset, as numbers."""

    run_id: str
    seconds: float
    figures: Mapping[str, Mapping[str, int | float | str]]
    warnings: tuple[str, ...]
    report_page: str
    log: Path

    def number(self, asset: str, name: str) -> int:
        """One figure of one asset; 0 when it was not recorded."""
        value = self.figures.get(asset, {}).get(name, 0)
        return int(value) if isinstance(value, int | float) else 0

    @property
    def vector_writes(self) -> int:
        """Points written, rewritten or deleted, in all collections."""
        return self.number("information_unit_vectors", "vector_writes") + self.number(
            "thread_centroids", "vector_writes"
        )

    @property
    def texts_embedded(self) -> int:
        """Texts that the model ran for; texts that were known already do not count."""
        return self.number("information_unit_vectors", "texts_embedded")

    def _owners_and_chunks(self, asset: str) -> str:
        return f"{self.number(asset, 'owners'):,} in {self.number(asset, 'dagster/row_count'):,} chunks"

    def _days_counted(self) -> str:
        listed = str(self.figures.get("retrieval_metrics_daily", {}).get("days_counted", "none"))
        days = [day for day in listed.split(", ") if day != "none"]
        if not days:
            return "no day had new events"
        return f"{len(days)} local days counted, {days[0]} to {days[-1]}"

    def to_json(self) -> dict[str, Json]:
        """Everything, for a program."""
        return {
            "run_id": self.run_id,
            "seconds": round(self.seconds, 3),
            "texts_embedded": self.texts_embedded,
            "vector_writes": self.vector_writes,
            "warnings": list(self.warnings),
            "report_page": self.report_page,
            "log": str(self.log),
            "assets": {key: dict(numbers) for key, numbers in self.figures.items()},
        }

    def render(self) -> str:
        """A few lines for a person."""
        lanes = ", ".join(
            f"{name.removeprefix('lane_')} {count}"
            for name, count in self.figures.get("context_packs", {}).items()
            if name.startswith("lane_")
        )
        cached = self.number("information_unit_vectors", "cache_hits")
        done = (
            f"{self.texts_embedded:,} texts embedded ({cached:,} more came from the cache), {self.vector_writes:,} vector writes"
            if self.vector_writes or self.texts_embedded
            else "0 texts embedded, 0 vector writes: everything was up to date"
        )
        lines = [
            f"Nightly finished in {self.seconds:.1f} s: {done}.",
            f"  units      {self._owners_and_chunks('unit_chunks')}",
            f"  legacy     {self._owners_and_chunks('document_chunks')}",
            f"  centroids  {self.number('thread_centroids', 'dagster/row_count'):,} (thread, lane)",
            f"  packs      {self.number('context_packs', 'dagster/row_count'):,}: {lanes or 'none'}",
            f"  metrics    {self._days_counted()}",
            f"  report     {self.report_page}",
            *(f"  warning    {warning}" for warning in self.warnings),
            "Look: make ui (graph, tables, checks) · threadhouse report · threadhouse doctor",
            f"Log: {self.log}",
        ]
        return "\n".join(lines)


def run_nightly(
    settings: Settings,
    *,
    allow_deletes: bool,
    accept_losses: bool,
    progress: Callable[[str, int, int], None],
    announce: Callable[[str], None],
) -> NightlySummary:
    """Run the whole nightly job in this process.

    Raises:
        NightlyFailedError: A step failed or a blocking check did; the sentence names it and the log.
        StoreLockedError: Another nightly of this hub is at work; the sentence names it.
        ThreadhouseError: A store could not be opened.
    """
    database = open_database(settings)
    # Dagster would wait for the other run's pool inside a busy loop and say nothing.
    with advisory_lock(database, NIGHTLY_LOCK, "The nightly job is being run by"):
        if settings.embedding_model is None and settings.embedding_path is None:
            build_model(settings.home, progress=announce)
        return _run(
            settings,
            database,
            allow_deletes=allow_deletes,
            accept_losses=accept_losses,
            progress=progress,
        )


def _run(
    settings: Settings,
    database: Database,
    *,
    allow_deletes: bool,
    accept_losses: bool,
    progress: Callable[[str, int, int], None],
) -> NightlySummary:
    days = nightly_days(database, EventLake.open(settings), settings.zone, datetime.now(UTC))
    run_id, started = str(uuid.uuid4()), time.monotonic()
    start_run(database, run_id, "nightly")
    counters: dict[str, Json] = {}
    succeeded = False
    try:
        with _instance(settings) as instance, _log_file(settings, run_id) as (log, logger):
            definitions = build_definitions(
                settings,
                resources=build_resources(str(settings.home)),
                loggers={"console": logger},
            )
            deletes, losses = {"allow_deletes": allow_deletes}, {"accept_losses": accept_losses}
            config = {
                "ops": {
                    "content_vectors": {"config": {**deletes, **losses}},
                    "thread_centroids": {"config": deletes},
                    "replay": {"config": losses},
                    "context_packs": {"config": deletes},
                },
                # Named, because a run that names no logger gets Dagster's own, which writes to the terminal.
                "loggers": {"console": {}},
            }
            with listening(progress):
                result = definitions.resolve_job_def(NIGHTLY_JOB).execute_in_process(
                    instance=instance,
                    run_config=config,
                    tags={**range_tags(days), **process_tags()},
                    raise_on_error=False,
                    run_id=run_id,
                )
            _require_success(result, log)
            summary = _summarise(result, run_id, time.monotonic() - started, log)
            counters = {k: v for k, v in summary.to_json().items() if k != "assets"}
            succeeded = True
            return summary
    finally:
        finish_run(database, run_id, succeeded=succeeded, counters=counters)


@contextmanager
def _instance(settings: Settings) -> Generator[dg.DagsterInstance, None, None]:
    folder = prepare_instance(settings.home)
    # Dagster's own libraries look for this variable, also below the instance that is handed over.
    os.environ["DAGSTER_HOME"] = str(folder)
    with dg.DagsterInstance.from_config(str(folder)) as instance:
        end_dead_runs(instance, a_ui_runs=running_ui(settings.home) is not None)
        yield instance


@contextmanager
def _log_file(
    settings: Settings, run_id: str
) -> Generator[tuple[Path, dg.LoggerDefinition], None, None]:
    """Dagster's events go into a file; a terminal gets the progress bar and the summary instead."""
    folder = settings.home / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"nightly-{datetime.now(settings.zone):%Y%m%dT%H%M%S}-{run_id[:8]}.log"
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    python_logger = logging.Logger("nightly", logging.DEBUG)
    python_logger.addHandler(handler)

    log_file = dg.LoggerDefinition(
        lambda _context: python_logger, description="Writes the run's events into its log file."
    )
    try:
        yield path, log_file
    finally:
        handler.close()


def _require_success(result: ExecuteInProcessResult, log: Path) -> None:
    for check in result.get_asset_check_evaluations():
        if not check.passed and check.severity == dg.AssetCheckSeverity.ERROR:
            message = (
                f"The check {check.check_name} of {check.asset_key.to_user_string()} failed and stopped the run; "
                f"{check.description or 'its findings are in the UI'} (log: {log})."
            )
            raise NightlyFailedError(message)
    if result.success:
        return
    for event in result.all_events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            while error is not None and error.cause is not None:
                error = error.cause
            if error is not None and error.cls_name == dg.DagsterExecutionInterruptedError.__name__:
                raise KeyboardInterrupt  # what Ctrl-C was before Dagster made a failed step of it
            reason = "no reason given" if error is None else _plain_reason(error)
            message = f"The step {event.step_key} failed: {reason.rstrip('.')} (log: {log})."
            raise NightlyFailedError(message)
    message = f"The nightly run did not finish; its log says why: {log}."
    raise NightlyFailedError(message)


def _plain_reason(error: SerializableErrorInfo) -> str:
    """What an error says, without the path of its class, which says nothing to the person who reads it."""
    said = error.message.strip()
    origin, separator, rest = said.partition(": ")
    return rest if separator and origin.rpartition(".")[2] == error.cls_name else said


def _summarise(
    result: ExecuteInProcessResult, run_id: str, seconds: float, log: Path
) -> NightlySummary:
    figures: dict[str, dict[str, int | float | str]] = {}
    page = ""
    for event in result.get_asset_materialization_events():
        materialization = event.materialization
        key = materialization.asset_key.to_user_string()
        figures[key] = {
            name: value.value
            for name, value in materialization.metadata.items()
            if isinstance(value.value, int | float | str)
            and not isinstance(value, dg.MarkdownMetadataValue)
        }
        if key == "health_report":
            page = str(figures[key].get("page", ""))
    failed = tuple(
        f"{check.asset_key.to_user_string()}: {check.check_name}"
        for check in result.get_asset_check_evaluations()
        if not check.passed
    )
    return NightlySummary(run_id, seconds, figures, failed, page, log)
