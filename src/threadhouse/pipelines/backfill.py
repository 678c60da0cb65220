"""Counting a range of days again, run here and now by the console script.

Belongs here: which ranges there are, one run of ``metrics_backfill``, its row in ``nao.pipeline_run``, what to tell a person.
Does not belong here: running a job (pipelines.job_runs), extracting and counting (assets, stores).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from threadhouse.assets.partitions import FIRST_DAY, RECOUNT
from threadhouse.pipelines.job_runs import execute_job, recorded_figures, recorded_run
from threadhouse.pipelines.jobs import METRICS_BACKFILL_JOB
from threadhouse.pipelines.schedules import range_tags
from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.local_days import local_day
from threadhouse.retrieval.models import Json
from threadhouse.stores.advisory_locks import advisory_lock
from threadhouse.stores.migrations import open_database
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
