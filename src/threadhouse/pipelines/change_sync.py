"""The job that follows changes, and the sensor that starts it when some wait.

Belongs here: one run for what waits, and when none is needed.
Does not belong here: following changes (stores.change_sync), the console script's listener (pipelines.cli_listen).
"""

from datetime import UTC, datetime
from typing import Any, Final

import dagster as dg

from threadhouse.assets.automation import retrying_transient_faults
from threadhouse.pipelines.dead_runs import end_dead_runs
from threadhouse.resources.stores import (
    EmbedderResource,
    EnvironmentResource,
    PostgresResource,
    VectorStoreResource,
)
from threadhouse.retrieval.errors import StoreLockedError, ThreadhouseError
from threadhouse.stores.attached_sources import follow_sources
from threadhouse.stores.change_log import read_waiting_changes
from threadhouse.stores.change_sync import SyncStores, sync_changes
from threadhouse.stores.postgres import TRANSIENT_FAULTS

CHANGE_SYNC_JOB: Final = "change_sync"

POSITION_TAG: Final = "threadhouse/position"
"""On runs of the job: how far the log had been followed when it was started."""

LOOK_EVERY_S: Final = 30
"""As often as a listener looks that hears nothing; a tick that finds nothing costs one statement."""

TRY_AGAIN_S: Final = 300
"""A run that failed met what a person has to mend, after three retries; the log does not get lost in the meantime."""

_ENDED: Final = (
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
)


# In no pool: a run of it may not wait for a night, nor a night for it. They take turns between portions, by the writer's lock.
@dg.op(
    out=dg.Out(dg.Nothing),
    description="Vectors, centroids and packs of what changed since the last time, revokes first.",
)
def follow_waiting_changes(
    context: dg.OpExecutionContext,
    environment: EnvironmentResource,
    postgres: PostgresResource,
    vectors: VectorStoreResource,
    embedder: EmbedderResource,
) -> None:
    """Follow everything that was committed before this began. Who finds the writer or the log taken leaves it to the next run."""
    with retrying_transient_faults():
        database = postgres.open()
        stores = SyncStores(
            database, vectors.writer, embedder.open(database), environment.settings().home
        )
        try:
            report = sync_changes(stores, followed_by="sensor")
        except StoreLockedError as error:
            context.log.warning(f"{error} The next run follows what waits.")
            return
    context.add_output_metadata(dict[str, Any](report.to_json()))


@dg.job(
    name=CHANGE_SYNC_JOB,
    # A single step, which a process or a worker of its own would only make later.
    executor_def=dg.in_process_executor,
    description="Follows what was committed since the last time, as threadhouse listen does, once.",
)
def change_sync() -> None:
    """One step; see `follow_waiting_changes`."""
    follow_waiting_changes()


@dg.sensor(
    # By name: Dagster copies a sensor that holds its job, and warns of its own copy.
    job_name=CHANGE_SYNC_JOB,
    name="changes_wait",
    minimum_interval_seconds=LOOK_EVERY_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts change_sync when changes wait that nobody follows; threadhouse listen is faster.",
)
def changes_wait(
    context: dg.SensorEvaluationContext, postgres: PostgresResource
) -> dg.RunRequest | dg.SkipReason:
    """At most one run at a time; a position that a run could not leave is tried again, under a key of its own."""
    try:
        database = postgres.open()
        follow_sources(database)
        with database.connect() as connection:
            waiting = read_waiting_changes(connection)
    except (*TRANSIENT_FAULTS, ThreadhouseError) as error:
        return dg.SkipReason(str(error))
    if waiting.position is None:
        return dg.SkipReason("Nothing was built yet; the first nightly says from where to follow.")
    if not waiting.changes:
        return dg.SkipReason("No change waits.")
    end_dead_runs(context.instance, a_ui_runs=True)
    going_on = [status for status in dg.DagsterRunStatus if status not in _ENDED]
    if context.instance.get_runs_count(dg.RunsFilter(job_name=CHANGE_SYNC_JOB, statuses=going_on)):
        return dg.SkipReason(f"{waiting.changes:,} changes wait; a run is at it.")
    tags = {POSITION_TAG: waiting.position}
    from_here = context.instance.get_run_records(dg.RunsFilter(job_name=CHANGE_SYNC_JOB, tags=tags))
    failed_at = [
        record.end_time or 0.0
        for record in from_here
        if record.dagster_run.status == dg.DagsterRunStatus.FAILURE
    ]
    if failed_at and datetime.now(UTC).timestamp() - max(failed_at) < TRY_AGAIN_S:
        return dg.SkipReason(
            f"{waiting.changes:,} changes wait; the last run failed and is tried again after {TRY_AGAIN_S} s."
        )
    return dg.RunRequest(run_key=f"{waiting.position}#{len(from_here)}", tags=tags)
