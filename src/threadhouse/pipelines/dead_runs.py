"""Runs that ended without saying so: killed, or with the machine.

Belongs here: telling that a run's process is gone, closing the run in Dagster's books, giving back its pool slots.
Does not belong here: the data such a run left (the next nightly finishes it), the processes of the UI (pipelines.ui_processes).

Dagster believes a run to be going on until somebody says otherwise, and keeps its pool slots for it: the next run would wait
for them for ever, and four such runs would fill the queue.
"""

from pathlib import Path

import dagster as dg

from threadhouse.pipelines.ui_processes import prepare_instance, running_ui
from threadhouse.stores.dagster_state import PROCESS_TAG, is_alive, process_mark

_GOING_ON = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def process_tags() -> dict[str, str]:
    """Run tags by which `end_dead_runs` finds out whether this process still lives."""
    return {PROCESS_TAG: process_mark()}


def end_dead_runs(instance: dg.DagsterInstance, *, a_ui_runs: bool) -> list[str]:
    """Close every run whose process is gone, free what ended runs hold, and return the ids of the closed runs.

    Args:
        instance: Whose runs to look at.
        a_ui_runs: Whether a UI of this home is up. Runs without a process tag are the UI's, and end with it.
    """
    closed: list[str] = []
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=_GOING_ON)):
        process = run.tags.get(PROCESS_TAG)
        if a_ui_runs if process is None else is_alive(process):
            continue
        instance.report_run_failed(
            run, "The process of this run is gone; it was killed or crashed."
        )
        closed.append(run.run_id)
    storage = instance.event_log_storage
    for run_id in storage.get_concurrency_run_ids():
        run = instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            storage.free_concurrency_slots_for_run(run_id)
    return closed


def end_dead_runs_of_home(home: Path) -> None:
    """`end_dead_runs` for the instance of a home, which is opened for it."""
    with dg.DagsterInstance.from_config(str(prepare_instance(home))) as instance:
        end_dead_runs(instance, a_ui_runs=running_ui(home) is not None)
