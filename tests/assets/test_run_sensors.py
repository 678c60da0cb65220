"""Runs of the daemon are written down as they ended, and a failure shows where people look."""

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent
from pydantic import SecretStr

from fixtures_postgres import as_url
from threadhouse.pipelines.jobs import NIGHTLY_JOB
from threadhouse.pipelines.run_sensors import build_run_sensors
from threadhouse.resources.stores import EnvironmentResource, PostgresResource
from threadhouse.retrieval.errors import RetentionError
from threadhouse.stores.doctor import State, diagnose
from threadhouse.stores.pipeline_runs import note_run, start_run
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings

SUCCEEDED, FAILED = build_run_sensors()


@pytest.fixture
def postgres(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> PostgresResource:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("DATABASE_URL", as_url(database))
    monkeypatch.setenv("QDRANT_API_KEY", "hunter2")
    return PostgresResource(environment=EnvironmentResource(home=str(tmp_path)))


@dg.op
def step() -> None:
    """Fails the way a step of the nightly does."""
    try:
        message = "Events of 2026-11-16 are not in the lake (hunter2)."
        raise RetentionError(message)
    except RetentionError as error:
        raise dg.Failure(str(error), allow_retries=False) from error


@dg.job(name=NIGHTLY_JOB)
def failing() -> None:
    """One step that fails."""
    step()


@dg.op
def fine() -> None:
    """Does nothing."""


@dg.job(name=NIGHTLY_JOB)
def good() -> None:
    """One step that does not fail."""
    fine()


def tell(
    sensor: dg.SensorDefinition,
    instance: dg.DagsterInstance,
    result: dg.ExecuteInProcessResult,
    postgres: PostgresResource,
) -> None:
    """Call a sensor as the daemon does when it meets the end of a run."""
    last: DagsterEvent = next(e for e in reversed(result.all_events) if e.is_job_event)
    with dg.build_run_status_sensor_context(
        sensor_name=sensor.name,
        dagster_event=last,
        dagster_instance=instance,
        dagster_run=result.dagster_run,
        resources={"postgres": postgres},
    ) as context:
        sensor(context.for_run_failure() if sensor is FAILED else context)


def rows(database: Database) -> list[tuple[object, ...]]:
    with database.connect() as connection:
        return connection.execute(
            "select kind, status, counters ->> 'reason', finished_at >= started_at from nao.pipeline_run"
        ).fetchall()


def test_a_night_of_the_daemon_that_failed_shows_with_its_reason_and_without_secrets(
    database: Database, postgres: PostgresResource, tmp_path: Path
) -> None:
    with dg.instance_for_test() as instance:
        result = failing.execute_in_process(instance=instance, raise_on_error=False)
        tell(FAILED, instance, result, postgres)
    said = "Events of 2026-11-16 are not in the lake (***)."
    [(kind, status, reason, is_in_order)] = rows(database)
    assert (kind, status, is_in_order) == ("nightly", "failed", True)
    assert str(reason).startswith("step: ")
    assert str(reason).endswith(said)
    settings = Settings(threadhouse_home=tmp_path, database_url=SecretStr(database.conninfo))
    finding = next(f for f in diagnose(settings, {}).findings if f.name == "last nightly")
    assert finding.state is State.FAIL
    assert said in finding.detail


def test_a_night_of_the_daemon_that_succeeded_is_written_down_once(
    database: Database, postgres: PostgresResource
) -> None:
    with dg.instance_for_test() as instance:
        result = good.execute_in_process(instance=instance)
        for _ in range(2):
            tell(SUCCEEDED, instance, result, postgres)
    assert rows(database) == [("nightly", "succeeded", None, True)]


def test_a_row_that_a_run_wrote_itself_stays_and_one_of_a_killed_run_is_closed(
    database: Database,
) -> None:
    now = datetime.now(UTC)
    for run_id, is_killed in (("killed", True), ("ended", False)):
        start_run(database, run_id, "nightly")
        if not is_killed:
            with database.connect() as connection:
                connection.execute(
                    "update nao.pipeline_run set status = 'succeeded' where run_id = 'ended'"
                )
        note_run(
            database,
            run_id,
            "nightly",
            started_at=now,
            finished_at=now,
            succeeded=False,
            counters={"reason": "killed"},
        )
    with database.connect() as connection:
        found = connection.execute("select run_id, status from nao.pipeline_run").fetchall()
    assert sorted(found) == [("ended", "succeeded"), ("killed", "failed")]
