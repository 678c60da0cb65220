"""The graph as the UI and the daemon load it: what is in it, when it runs by itself, and that loading it does nothing.

``graph.json`` is a picture of the graph, so that it does not change unnoticed. After a wanted change, run this file with
``THREADHOUSE_UPDATE_GRAPH=1`` and read the difference.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
import psycopg
import pytest

from fixtures_postgres import as_url
from threadhouse.assets.automation import TRANSIENT_RETRIES, retrying_transient_faults
from threadhouse.pipelines.definitions import build_definitions, build_resources
from threadhouse.pipelines.schedules import build_nightly_schedule, nightly_days, range_tags
from threadhouse.retrieval.errors import (
    PayloadContractError,
    StoreLockedError,
    StoreUnreachableError,
    ThreadhouseError,
)
from threadhouse.stores.lake import EventLake, compute_daily_metrics
from threadhouse.stores.lake_extract import extract_days
from threadhouse.stores.metrics_store import days_due, store_daily_metrics
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings

GRAPH = Path(__file__).with_name("graph.json")
NOW = datetime(2026, 3, 10, 19, 0, tzinfo=UTC)  # 02:00 of the eleventh in Ho Chi Minh City
YESTERDAY = date(2026, 3, 10)


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database: Database) -> Settings:
    """The settings of a home of its own; nothing of the environment that the tests run in."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("THREADHOUSE_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", as_url(database))
    return Settings.from_environment()


# --- the graph --------------------------------------------------------------------------------


def picture(definitions: dg.Definitions) -> dict[str, Any]:
    graph = definitions.resolve_asset_graph()
    assets = {
        key.to_user_string(): {
            "group": graph.get(key).group_name,
            "after": sorted(parent.to_user_string() for parent in graph.get(key).parent_keys),
            "pools": sorted(graph.get(key).pools or ()),
            "is_daily": graph.get(key).partitions_def is not None,
            "checks": {
                check.name: "blocking" if graph.get_check_spec(check).blocking else "warning"
                for check in sorted(graph.asset_check_keys, key=lambda check: check.name)
                if check.asset_key == key
            },
        }
        for key in sorted(graph.get_all_asset_keys(), key=lambda key: key.to_user_string())
    }
    repository = definitions.get_repository_def()
    return {
        "assets": assets,
        "jobs": sorted(
            job.name for job in repository.get_all_jobs() if not job.name.startswith("__")
        ),
        "schedules": {
            schedule.name: f"{schedule.cron_schedule} {schedule.execution_timezone} {schedule.job_name}"
            for schedule in repository.schedule_defs
        },
        "sensors": sorted(
            sensor.name
            for sensor in repository.sensor_defs
            if sensor.name != "default_automation_condition_sensor"
        ),
    }


def test_the_graph_is_the_one_in_the_picture() -> None:
    seen = picture(build_definitions(Settings()))
    if os.environ.get("THREADHOUSE_UPDATE_GRAPH"):
        GRAPH.write_text(json.dumps(seen, indent=2) + "\n", encoding="utf-8")
    assert seen == json.loads(GRAPH.read_text(encoding="utf-8"))


def test_every_asset_that_is_built_says_what_it_is_and_whose() -> None:
    graph = build_definitions(Settings()).resolve_asset_graph()
    silent = [
        key.to_user_string()
        for key in graph.get_all_asset_keys()
        if not (graph.get(key).description and graph.get(key).owners and graph.get(key).kinds)
    ]
    assert silent == []


def test_what_readers_use_counts_as_stale_after_a_missed_night() -> None:
    definitions = build_definitions(Settings())
    built = definitions.resolve_asset_graph().materializable_asset_keys
    without = {
        spec.key.to_user_string()
        for spec in definitions.resolve_all_asset_specs()
        if spec.key in built and spec.freshness_policy is None
    }
    # Steps that nobody reads: what is made of them is judged instead.
    assert without == {"change_position", "embedded_texts", "retrieval_events"}


def test_the_nightly_job_takes_everything_that_is_built() -> None:
    definitions = build_definitions(Settings())
    job = definitions.resolve_job_def("nightly_rebuild")
    taken = {key.to_user_string() for key in job.asset_layer.executable_asset_keys}
    built = {
        key.to_user_string() for key in definitions.resolve_asset_graph().materializable_asset_keys
    }
    assert taken == built


# --- loading ----------------------------------------------------------------------------------

LOAD = """
import sys
import dagster as dg
from threadhouse.pipelines import definitions
from threadhouse.stores.settings import Settings
slow = {"fastembed", "onnx", "onnxruntime", "qdrant_client", "qdrant_edge", "tokenizers"} & set(sys.modules)
assert not slow, slow
dg.Definitions.validate_loadable(definitions.build_definitions(Settings.from_environment()))
"""


def test_loading_the_graph_warns_of_nothing_and_touches_nothing(tmp_path: Path) -> None:
    """A code server loads it every time; the named beta feature is the only warning that is silenced, where it is used."""
    home = tmp_path / "home"
    kept = {name.upper() for name in Settings.model_fields}
    environment = {name: value for name, value in os.environ.items() if name not in kept}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOAD],
        env={
            **environment,
            "THREADHOUSE_HOME": str(home),
            "DATABASE_URL": "postgresql://nowhere:1/x",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


# --- faults -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        StoreUnreachableError("down"),
        StoreLockedError("held by process 1"),
        psycopg.OperationalError("server closed the connection"),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_a_fault_that_may_pass_is_tried_again(fault: Exception) -> None:
    with pytest.raises(dg.RetryRequested) as raised, retrying_transient_faults():
        raise fault
    assert raised.value.max_retries == TRANSIENT_RETRIES
    assert raised.value.__cause__ is fault


@pytest.mark.parametrize("fault", [PayloadContractError("a.b: no"), ThreadhouseError("no")])
def test_a_fault_that_stays_fails_at_once_with_its_own_sentence(fault: Exception) -> None:
    with pytest.raises(dg.Failure) as raised, retrying_transient_faults():
        raise fault
    assert (raised.value.description, raised.value.allow_retries) == (str(fault), False)


def test_a_mistake_in_the_code_is_not_dressed_up() -> None:
    with pytest.raises(ZeroDivisionError), retrying_transient_faults():
        raise ZeroDivisionError


# --- when it runs by itself -------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["Asia/Ho_Chi_Minh", "Europe/Berlin"])
def test_the_nightly_runs_at_two_in_the_zone_of_the_house(zone: str) -> None:
    schedule = build_nightly_schedule(zone)
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 2 * * *", zone)


def add_query(database: Database, occurred_at: str) -> None:
    with database.connect() as connection:
        connection.execute(
            "insert into nao.retrieval_metric_event (event_id, occurred_at, type, query_id, session_id, lane, resolution_path)"
            " values (%s, %s, 'query', %s, 's', 'customer', 'none')",
            (uuid4(), occurred_at, uuid4()),
        )


def count_everything(database: Database, lake: EventLake, settings: Settings) -> None:
    extract_days(database, lake, settings.zone)
    rates = compute_daily_metrics(lake, days_due(database, lake), settings.zone)
    store_daily_metrics(database, rates, "test")


def test_a_night_without_events_takes_yesterday(settings: Settings, database: Database) -> None:
    days = nightly_days(database, EventLake.open(settings), settings.zone, NOW)
    assert days == (YESTERDAY, YESTERDAY)


def test_a_night_reaches_back_to_the_day_of_a_late_event_once(
    settings: Settings, database: Database
) -> None:
    lake = EventLake.open(settings)
    add_query(database, "2026-03-09T10:00:00Z")
    count_everything(database, lake, settings)
    assert nightly_days(database, lake, settings.zone, NOW) == (YESTERDAY, YESTERDAY)
    add_query(database, "2026-03-01T18:30:00Z")  # already the second in Ho Chi Minh City
    assert nightly_days(database, lake, settings.zone, NOW) == (date(2026, 3, 2), YESTERDAY)
    count_everything(database, lake, settings)
    assert nightly_days(database, lake, settings.zone, NOW) == (YESTERDAY, YESTERDAY)


def test_a_night_takes_no_day_without_a_partition(settings: Settings, database: Database) -> None:
    add_query(database, "2019-01-01T10:00:00Z")
    add_query(database, "2031-01-01T10:00:00Z")
    days = nightly_days(database, EventLake.open(settings), settings.zone, NOW)
    assert days == (YESTERDAY, YESTERDAY)


def test_the_schedule_asks_for_the_days_that_are_behind(
    settings: Settings, database: Database
) -> None:
    add_query(database, "2026-03-05T10:00:00Z")
    everything = build_resources(str(settings.home))
    resources = {name: everything[name] for name in ("environment", "postgres", "lake")}
    with (
        # One with a reference: a tick opens its instance by that, as the daemon does.
        dg.DagsterInstance.local_temp(str(settings.home)) as instance,
        dg.build_schedule_context(
            instance=instance, scheduled_execution_time=NOW, resources=resources
        ) as context,
    ):
        tick = build_nightly_schedule(settings.threadhouse_tz).evaluate_tick(context)
    (request,) = tick.run_requests or []
    assert request.tags.items() >= range_tags((date(2026, 3, 5), YESTERDAY)).items()
