"""The run history that the UI shows, and what of it leaves by age.

Belongs here: removing old runs with their logs. Does not belong here: ticks of schedules and sensors, which Dagster itself
removes (dagster.yaml), closing killed runs (pipelines.dead_runs), records in Postgres (stores.retention).
"""

from datetime import datetime
from pathlib import Path

import dagster as dg
from dagster._core.storage.dagster_run import FINISHED_STATUSES


def prune_runs(instance: dg.DagsterInstance, before: datetime, *, dry_run: bool = False) -> int:
    """Remove runs that ended and were last touched before ``before``, but never the last of a job; returns how many.

    What a run said of assets goes with it: in the UI days that only removed runs had made show as missing. Figures stay.
    """
    old = instance.get_run_records(
        dg.RunsFilter(statuses=list(FINISHED_STATUSES), updated_before=before)
    )
    kept = {
        newest.dagster_run.run_id
        for job in {record.dagster_run.job_name for record in old}
        for newest in instance.get_run_records(dg.RunsFilter(job_name=job), limit=1)
    }
    gone = [r.dagster_run.run_id for r in old if r.dagster_run.run_id not in kept]
    for run_id in () if dry_run else gone:
        instance.compute_log_manager.delete_logs(prefix=[run_id])
        instance.delete_run(run_id)
        # Dagster empties the file of a run and leaves it.
        for file in Path(instance.root_directory, "history", "runs").glob(f"{run_id}.db*"):
            file.unlink()
    return len(gone)
