"""Runs whose process is gone are closed, and what they held is given back."""

import os
import subprocess
import sys

import dagster as dg
import psutil
import pytest

from threadhouse.pipelines.dead_runs import PROCESS_TAG, end_dead_runs, process_tags

POOL = "vector_writer"


@dg.op(pool=POOL)
def write() -> None:
    """Stands for a step that one process at a time may run."""


@dg.job
def job() -> None:
    """One step in a pool."""
    write()


def run_that_holds_the_pool(instance: dg.DagsterInstance, tags: dict[str, str]) -> str:
    instance.event_log_storage.set_concurrency_slots(POOL, 1)
    run = instance.create_run_for_job(job, tags=tags, status=dg.DagsterRunStatus.STARTED)
    claim = instance.event_log_storage.claim_concurrency_slot(POOL, run.run_id, "write")
    assert claim.is_claimed
    return run.run_id


def status_of(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRunStatus:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


def tag_of_a_process_that_ended() -> dict[str, str]:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = psutil.Process(child.pid).create_time()
    child.communicate()
    return {PROCESS_TAG: f"{child.pid}@{started:.2f}"}


def test_a_killed_run_is_closed_and_the_next_one_gets_its_pool() -> None:
    with dg.instance_for_test() as instance:
        killed = run_that_holds_the_pool(instance, tag_of_a_process_that_ended())
        assert end_dead_runs(instance, a_ui_runs=True) == [killed]
        assert status_of(instance, killed) == dg.DagsterRunStatus.FAILURE
        assert job.execute_in_process(instance=instance).success


def test_a_run_that_goes_on_keeps_its_pool() -> None:
    with dg.instance_for_test() as instance:
        alive = run_that_holds_the_pool(instance, process_tags())
        assert end_dead_runs(instance, a_ui_runs=False) == []
        assert instance.event_log_storage.get_concurrency_run_ids() == {alive}


def test_a_process_number_that_is_used_again_is_not_the_run() -> None:
    with dg.instance_for_test() as instance:
        killed = run_that_holds_the_pool(instance, {PROCESS_TAG: f"{os.getpid()}@12345.00"})
        assert end_dead_runs(instance, a_ui_runs=True) == [killed]


@pytest.mark.parametrize("a_ui_runs", [True, False])
def test_a_run_of_the_ui_ends_with_the_ui(a_ui_runs: bool) -> None:
    with dg.instance_for_test() as instance:
        run = run_that_holds_the_pool(instance, {})
        assert end_dead_runs(instance, a_ui_runs=a_ui_runs) == ([] if a_ui_runs else [run])


def test_a_pool_that_an_ended_run_kept_is_freed() -> None:
    with dg.instance_for_test() as instance:
        ended = run_that_holds_the_pool(instance, {})
        run = instance.get_run_by_id(ended)
        assert run is not None
        instance.report_run_canceled(run)
        end_dead_runs(instance, a_ui_runs=True)
        assert instance.event_log_storage.get_concurrency_run_ids() == set()
