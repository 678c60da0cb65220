"""How runs that the daemon starts get into ``nao.pipeline_run``, where doctor and the health report look.

Belongs here: the two sensors, and what is written down of a run.
Does not belong here: runs of the console script, which write their own rows (pipelines.job_runs), closing killed runs
(pipelines.dead_runs).
"""

from datetime import UTC, datetime
from typing import Final

import dagster as dg

from threadhouse.pipelines.jobs import RECORDED_JOBS, RUN_KINDS
from threadhouse.pipelines.secret_masking import mask
from threadhouse.resources.stores import PostgresResource
from threadhouse.retrieval.models import Json
from threadhouse.stores.pipeline_runs import note_run

REASON_CHARS: Final = 500
"""Enough for the sentence of an error; the whole story is in the UI."""


def build_run_sensors() -> list[dg.SensorDefinition]:
    """The sensors; they run as soon as a daemon does."""

    @dg.run_status_sensor(
        run_status=dg.DagsterRunStatus.SUCCESS,
        name="note_runs_that_succeeded",
        monitored_jobs=list(RECORDED_JOBS),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Writes down in nao.pipeline_run that a run of the daemon succeeded.",
    )
    def note_runs_that_succeeded(
        context: dg.RunStatusSensorContext, postgres: PostgresResource
    ) -> None:
        _note(context, postgres, succeeded=True, counters={})

    @dg.run_failure_sensor(
        name="note_runs_that_failed",
        monitored_jobs=list(RECORDED_JOBS),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Writes down in nao.pipeline_run that a run failed, and why; doctor and the health report show it.",
    )
    def note_runs_that_failed(
        context: dg.RunFailureSensorContext, postgres: PostgresResource
    ) -> None:
        _note(context, postgres, succeeded=False, counters={"reason": _reason(context)})

    return [note_runs_that_succeeded, note_runs_that_failed]


def _note(
    context: dg.RunStatusSensorContext,
    postgres: PostgresResource,
    *,
    succeeded: bool,
    counters: dict[str, Json],
) -> None:
    run = context.dagster_run
    record = context.instance.get_run_record_by_id(run.run_id)
    now = datetime.now(UTC)
    started = record and (record.start_time or record.create_timestamp.timestamp())
    ended = record and record.end_time
    note_run(
        postgres.open(),
        run.run_id,
        RUN_KINDS[run.job_name],
        started_at=datetime.fromtimestamp(started, UTC) if started else now,
        finished_at=datetime.fromtimestamp(ended, UTC) if ended else now,
        succeeded=succeeded,
        counters=counters,
    )


def _reason(context: dg.RunFailureSensorContext) -> str:
    """The step that failed and its own words, or what Dagster says when no step did."""
    for event in context.get_step_failure_events():
        error = event.step_failure_data.error
        while error is not None and error.cause is not None:
            error = error.cause
        if error is not None:
            said = error.message.strip().rpartition("\n")[2]
            return mask(f"{event.step_key}: {said}")[:REASON_CHARS]
    return mask(context.failure_event.message or "no reason given")[:REASON_CHARS]
