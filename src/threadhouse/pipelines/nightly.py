"""The nightly job, run here and now by the console script.

Belongs here: one run of ``nightly_rebuild``, its row in ``nao.pipeline_run``, what to tell a person.
Does not belong here: running a job (pipelines.job_runs), when it runs by itself (pipelines.schedules), what it does (assets).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dagster._core.execution.execution_result import ExecutionResult

from threadhouse.assets.partitions import CHANGED_DAYS_ONLY
from threadhouse.pipelines.job_runs import execute_job, recorded_figures, recorded_run
from threadhouse.pipelines.jobs import NIGHTLY_JOB
from threadhouse.pipelines.schedules import nightly_days, range_tags
from threadhouse.retrieval.models import Json
from threadhouse.stores.advisory_locks import advisory_lock
from threadhouse.stores.lake import EventLake
from threadhouse.stores.migrations import open_database
from threadhouse.stores.model_build import build_model
from threadhouse.stores.pipeline_runs import NIGHTLY_LOCK, close_killed_runs
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings


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
        return self.number("embedded_texts", "texts_embedded") + self.number(
            "information_unit_vectors", "texts_embedded"
        )

    def _owners_and_chunks(self, asset: str) -> str:
        return f"{self.number(asset, 'owners'):,} in {self.number(asset, 'dagster/row_count'):,} chunks"

    def _replayed(self) -> str:
        why_not = self.figures.get("replay", {}).get("not_asked_because")
        if why_not is not None:
            return f"nothing asked: {why_not}"
        return (
            f"{self.number('replay', 'dagster/row_count'):,} recent questions asked again, "
            f"{self.number('replay', 'changed'):,} changed, {self.number('replay', 'lost'):,} lost their answer"
        )

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
            f"  health     {self.number('thread_health', 'dagster/row_count'):,} (thread, lane) checked, "
            f"{self.number('thread_health', 'changed'):,} changed",
            f"  packs      {self.number('context_packs', 'dagster/row_count'):,}: {lanes or 'none'}",
            f"  replay     {self._replayed()}",
            f"  metrics    {self._days_counted()}",
            f"  gaps       {self.number('gap_signals', 'open_now'):,} open, {self.number('gap_signals', 'opened'):,} opened by "
            f"this night, {self.number('gap_signals', 'closed'):,} closed",
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
        JobFailedError: A step failed or a blocking check did; the sentence names it and the log.
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
    started = time.monotonic()
    close_killed_runs(database, "nightly")
    with recorded_run(database, "nightly") as (run_id, counters):
        deletes, losses = {"allow_deletes": allow_deletes}, {"accept_losses": accept_losses}
        result, log = execute_job(
            settings,
            NIGHTLY_JOB,
            run_id,
            ops={
                "content_vectors": {"config": {**deletes, **losses}},
                "thread_centroids": {"config": deletes},
                "replay": {"config": losses},
                "context_packs": {"config": deletes},
            },
            tags=range_tags(days) | CHANGED_DAYS_ONLY,
            progress=progress,
        )
        summary = _summarise(result, run_id, time.monotonic() - started, log)
        counters.update((k, v) for k, v in summary.to_json().items() if k != "assets")
        return summary


def _summarise(result: ExecutionResult, run_id: str, seconds: float, log: Path) -> NightlySummary:
    figures = recorded_figures(result)
    page = str(figures.get("health_report", {}).get("page", ""))
    failed = tuple(
        f"{check.asset_key.to_user_string()}: {check.check_name}"
        for check in result.get_asset_check_evaluations()
        if not check.passed
    )
    return NightlySummary(run_id, seconds, figures, failed, page, log)
