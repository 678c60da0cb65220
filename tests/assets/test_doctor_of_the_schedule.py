"""What the doctor says of schedules and killed runs, each state made with Dagster's own calls in a home's own instance."""

import time
from collections.abc import Generator
from datetime import datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    ScheduleInstigatorData,
)
from dagster._daemon.types import DaemonHeartbeat
from psycopg import Connection
from psycopg.rows import TupleRow
from pydantic import SecretStr

from threadhouse.pipelines.dead_runs import PROCESS_TAG, end_dead_runs
from threadhouse.pipelines.ui_processes import prepare_instance
from threadhouse.stores.doctor import Finding, State, diagnose
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings


@dg.op
def step() -> None:
    """Does nothing."""


@dg.job
def job() -> None:
    """One step."""
    step()


@pytest.fixture
def settings(tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    return Settings(threadhouse_home=tmp_path, database_url=SecretStr(database.conninfo))


@pytest.fixture
def instance(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Generator[dg.DagsterInstance, None, None]:
    folder = str(prepare_instance(settings.home))
    monkeypatch.setenv("DAGSTER_HOME", folder)
    with dg.DagsterInstance.from_config(folder) as instance:
        yield instance


def schedule_finding(settings: Settings) -> Finding:
    return next(f for f in diagnose(settings, {}).findings if f.name == "schedule")


def heartbeat(instance: dg.DagsterInstance, age: timedelta) -> None:
    at = (datetime.now().astimezone() - age).timestamp()
    instance.add_daemon_heartbeat(DaemonHeartbeat(at, "SCHEDULER", "daemon"))


def switch(instance: dg.DagsterInstance, status: InstigatorStatus) -> None:
    repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("here"), "all")
    origin = RemoteInstigatorOrigin(repository, "nightly_rebuild_nightly")
    state = InstigatorState(
        origin, InstigatorType.SCHEDULE, status, ScheduleInstigatorData("0 2 * * *")
    )
    instance.add_instigator_state(state)


def note_success(connection: Connection[TupleRow], hours_ago: int) -> None:
    connection.execute(
        "insert into nao.pipeline_run (run_id, kind, status, started_at, finished_at)"
        " values ('r', 'nightly', 'succeeded', now() - %(age)s::interval, now() - %(age)s::interval)",
        {"age": f"{hours_ago} hours"},
    )


def test_a_daemon_that_lives_is_fine_until_its_schedule_is_switched_off(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    heartbeat(instance, timedelta(seconds=20))
    assert schedule_finding(settings).state is State.OK
    switch(instance, InstigatorStatus.STOPPED)
    finding = schedule_finding(settings)
    assert (finding.state, finding.remedy) == (
        State.WARN,
        "switch it on in the UI, under Automation",
    )


def test_a_daemon_that_fell_silent_is_named_with_when_it_was_last_seen(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    heartbeat(instance, timedelta(hours=3))
    finding = schedule_finding(settings)
    assert finding.state is State.WARN
    assert "no daemon runs; the daemon was last alive" in finding.detail


def test_a_nightly_that_something_else_starts_needs_no_daemon(
    settings: Settings, database: Database
) -> None:
    assert schedule_finding(settings).state is State.WARN
    with database.connect() as connection:
        note_success(connection, hours_ago=5)
    assert schedule_finding(settings).state is State.OK
    with database.connect() as connection:
        connection.execute("delete from nao.pipeline_run")
        note_success(connection, hours_ago=30)
    assert schedule_finding(settings).state is State.WARN


def test_a_run_whose_process_is_gone_is_counted_until_it_is_closed(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    def findings() -> list[str]:
        return [f.detail for f in diagnose(settings, {}).findings if "killed runs" in f.name]

    instance.create_run_for_job(
        job, tags={PROCESS_TAG: f"1@{time.time():.2f}"}, status=dg.DagsterRunStatus.STARTED
    )
    assert findings() == ["1 runs count as going on in the UI although their process is gone"]
    end_dead_runs(instance, a_ui_runs=False)
    assert findings() == []
