"""The sensor starts one run for what waits, and none when none is needed; and the page on changes says what the code does.

Method: real ticks on an ephemeral instance and a real database. Following changes itself has its own tests (test_change_sync).
"""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from fixtures_postgres import as_url
from fixtures_source_tree import ROOT
from hub_rows import add_document
from sync_house import waiting
from threadhouse.pipelines.change_sync import (
    CHANGE_SYNC_JOB,
    LOOK_EVERY_S,
    POSITION_TAG,
    TRY_AGAIN_S,
    changes_wait,
)
from threadhouse.pipelines.definitions import build_resources
from threadhouse.stores.change_log import move_position, read_backlog
from threadhouse.stores.change_sync import PORTION_OWNERS
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings


@pytest.fixture
def instance() -> dg.DagsterInstance:
    return dg.DagsterInstance.ephemeral()


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database: Database) -> Database:
    """The database that a tick of this environment opens."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("THREADHOUSE_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", as_url(database))
    return database


def tick(instance: dg.DagsterInstance) -> dg.RunRequest | dg.SkipReason:
    resources = {name: build_resources()[name] for name in ("environment", "postgres")}
    with dg.build_sensor_context(instance=instance, resources=resources) as context:
        answer = changes_wait(context)
    assert isinstance(answer, dg.RunRequest | dg.SkipReason)
    return answer


def follow(database: Database) -> None:
    backlog = read_backlog(database)
    at = backlog.new.at
    move_position(database, backlog, followed_by="test", access_at=at, searchable_at=at)


def change(database: Database, name: str) -> None:
    with database.connect() as connection:
        add_document(connection, name)


def run(instance: dg.DagsterInstance, request: dg.RunRequest, status: dg.DagsterRunStatus) -> None:
    created = create_run_for_test(
        instance, job_name=CHANGE_SYNC_JOB, tags=dict(request.tags), status=status
    )
    if status == dg.DagsterRunStatus.FAILURE:
        instance.report_run_failed(created)


def why(answer: dg.RunRequest | dg.SkipReason) -> str:
    assert isinstance(answer, dg.SkipReason)
    return answer.skip_message or ""


def test_before_the_first_night_nothing_is_started(
    database: Database, instance: dg.DagsterInstance
) -> None:
    change(database, "d")
    assert "first nightly" in why(tick(instance))


def test_nothing_is_started_for_nothing(database: Database, instance: dg.DagsterInstance) -> None:
    follow(database)
    assert why(tick(instance)) == "No change waits."


def test_what_waits_is_one_run_however_often_it_is_looked_at(
    database: Database, instance: dg.DagsterInstance
) -> None:
    follow(database)
    change(database, "d")
    first, again = tick(instance), tick(instance)
    assert isinstance(first, dg.RunRequest)
    assert isinstance(again, dg.RunRequest)
    assert first.run_key == again.run_key, "Dagster starts one run for a key"
    assert first.tags[POSITION_TAG] == waiting(database).position
    run(instance, first, dg.DagsterRunStatus.STARTED)
    change(database, "another")
    assert "a run is at it" in why(tick(instance))


def test_a_run_that_left_the_position_is_followed_by_another(
    database: Database, instance: dg.DagsterInstance
) -> None:
    """It ended well because somebody else held the writer; or it failed, and what it met may take longer to mend."""
    follow(database)
    change(database, "d")
    first = tick(instance)
    assert isinstance(first, dg.RunRequest)
    run(instance, first, dg.DagsterRunStatus.SUCCESS)
    second = tick(instance)
    assert isinstance(second, dg.RunRequest)
    assert second.run_key != first.run_key
    run(instance, second, dg.DagsterRunStatus.FAILURE)
    assert "tried again" in why(tick(instance))


def test_a_database_that_is_away_is_a_reason_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, database: Database, instance: dg.DagsterInstance
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    assert "cannot be reached" in why(tick(instance))


def test_the_page_says_how_often_how_much_and_by_default() -> None:
    """Reads "sync.md"."""
    page = " ".join((ROOT / "docs" / "sync.md").read_text(encoding="utf-8").split())
    defaults = {name: field.default for name, field in Settings.model_fields.items()}
    assert f"`SYNC_POLL_S` ({defaults['sync_poll_s']:g})" in page
    assert f"`SYNC_DEBOUNCE_MS` ({defaults['sync_debounce_ms']})" in page
    assert f"portions of {PORTION_OWNERS} units and documents" in page
    assert f"looks every {LOOK_EVERY_S} seconds" in page
    assert (TRY_AGAIN_S, "tried again after five minutes" in page) == (300, True)
    assert changes_wait.default_status == dg.DefaultSensorStatus.RUNNING
    assert f"the sensor `{changes_wait.name}`" in page
