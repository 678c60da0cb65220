"""One run of a job in this process: its row, its instance, its log file, its figures, and the sentence that a failure becomes.

Belongs here: what every command that runs a job needs.
Does not belong here: which days and options a run takes, what to tell a person (the module of the command).
"""

import os
import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.execution.api import execute_run
from dagster._core.execution.execution_result import ExecutionResult
from dagster_shared.error import SerializableErrorInfo

from threadhouse.pipelines.dead_runs import end_dead_runs, process_tags
from threadhouse.pipelines.definitions import build_definitions, build_resources
from threadhouse.pipelines.executors import file_logger, rebuildable_job
from threadhouse.pipelines.jobs import RUN_KINDS
from threadhouse.pipelines.secret_masking import mask
from threadhouse.pipelines.ui_processes import prepare_instance, running_ui
from threadhouse.resources.run_listener import listening
from threadhouse.retrieval.errors import ThreadhouseError
from threadhouse.retrieval.models import Json
from threadhouse.stores.pipeline_runs import finish_run, start_run
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Executor, Settings


class JobFailedError(ThreadhouseError):
    """A step failed or a check stopped the run; what was built before it stands."""


@contextmanager
def recorded_run(
    database: Database, kind: str
) -> Generator[tuple[str, dict[str, Json]], None, None]:
    """Yield the id of a new run with a row in ``nao.pipeline_run``, and what that row will say besides how the run ended."""
    run_id, counters, succeeded = str(uuid.uuid4()), dict[str, Json](), False
    start_run(database, run_id, kind)
    try:
        yield run_id, counters
        succeeded = True
    except ThreadhouseError as error:
        counters["reason"] = mask(str(error))
        raise
    finally:
        finish_run(database, run_id, succeeded=succeeded, counters=counters)


def execute_job(
    settings: Settings,
    job_name: str,
    run_id: str,
    *,
    tags: Mapping[str, str],
    progress: Callable[[str, int, int], None],
    ops: Mapping[str, Any] | None = None,
) -> tuple[ExecutionResult, Path]:
    """Run a job to its end; returns what it did and its log file.

    Args:
        ops: Configuration of its steps, by name.
        tags: Of the run, besides those of this process.
        progress: Told (task, done, total) by steps that take long.

    Raises:
        JobFailedError: A step failed or a blocking check did; the sentence names it and the log.
    """
    log = _log_file(settings, job_name, run_id)
    # The logger is named, because a run that names none gets Dagster's own, which writes to the terminal.
    config = {"ops": dict(ops or {}), "loggers": {"console": {}}}
    all_tags = {**tags, **process_tags()}
    with open_instance(settings) as instance:
        if settings.executor is Executor.IN_PROCESS:
            with file_logger(job_name, log) as logger, listening(progress):
                definitions = build_definitions(
                    settings,
                    resources=build_resources(str(settings.home)),
                    loggers={"console": logger},
                )
                result = definitions.resolve_job_def(job_name).execute_in_process(
                    instance=instance,
                    run_config=config,
                    tags=all_tags,
                    raise_on_error=False,
                    run_id=run_id,
                )
        else:
            job = rebuildable_job(settings, job_name, log)
            run = instance.create_run_for_job(
                job.get_definition(),
                run_id=run_id,
                run_config=config,
                tags=all_tags,
                job_code_origin=job.get_python_origin(),
            )
            result = execute_run(job, run, instance)
        _require_success(result, log)
        return result, log


def recorded_figures(result: ExecutionResult) -> dict[str, dict[str, int | float | str]]:
    """What each asset of a run recorded as a number or a plain text."""
    return {
        event.materialization.asset_key.to_user_string(): {
            name: value.value
            for name, value in event.materialization.metadata.items()
            if isinstance(value.value, int | float | str)
            and not isinstance(value, dg.MarkdownMetadataValue)
        }
        for event in result.get_asset_materialization_events()
    }


@contextmanager
def open_instance(settings: Settings) -> Generator[dg.DagsterInstance, None, None]:
    """Yield the Dagster instance of a home; what was killed is closed first."""
    folder = prepare_instance(settings.home)
    # Dagster's own libraries look for this variable, also below the instance that is handed over.
    os.environ["DAGSTER_HOME"] = str(folder)
    with dg.DagsterInstance.from_config(str(folder)) as instance:
        end_dead_runs(instance, a_ui_runs=running_ui(settings.home) is not None)
        yield instance


def _log_file(settings: Settings, job_name: str, run_id: str) -> Path:
    folder = settings.home / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return (
        folder
        / f"{RUN_KINDS[job_name]}-{datetime.now(settings.zone):%Y%m%dT%H%M%S}-{run_id[:8]}.log"
    )


def _require_success(result: ExecutionResult, log: Path) -> None:
    for check in result.get_asset_check_evaluations():
        if not check.passed and check.severity == dg.AssetCheckSeverity.ERROR:
            message = (
                f"The check {check.check_name} of {check.asset_key.to_user_string()} failed and stopped the run; "
                f"{check.description or 'its findings are in the UI'} (log: {log})."
            )
            raise JobFailedError(message)
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
            raise JobFailedError(message)
    message = f"The run did not finish; its log says why: {log}."
    raise JobFailedError(message)


def _plain_reason(error: SerializableErrorInfo) -> str:
    """What an error says, without the path of its class, which says nothing to the person who reads it."""
    said = error.message.strip()
    origin, separator, rest = said.partition(": ")
    return rest if separator and origin.rpartition(".")[2] == error.cls_name else said
