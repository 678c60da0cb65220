"""The whole nightly job on the sample hub, three times: from nothing, with nothing to do, and with something badly wrong.

Method: an ephemeral Dagster instance, the real stores and the real embedder; the runs stand on each other, so they happen once
for the module. What a single step does is tested beside the steps.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult

from hub_rows import write_version
from night_house import NightHouse, metadata, open_night_house
from threadhouse.pipelines.change_sync import CHANGE_SYNC_JOB
from threadhouse.pipelines.definitions import build_definitions, build_resources
from threadhouse.pipelines.schedules import nightly_days, range_tags
from threadhouse.retrieval.models import Collection, Json
from threadhouse.stores.audit import audit_projection
from threadhouse.stores.change_log import read_backlog
from threadhouse.stores.embedders import FastembedEmbedder
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.lake import EventLake
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import read_pointers
from threadhouse.stores.repair import repair_projection
from threadhouse.stores.vector_cache import PostgresVectorCache
from threadhouse.stores.vectors import open_reader, open_writer

BUILT = {
    *("unit_chunks", "document_chunks", "information_unit_vectors", "production_document_vectors"),
    *("thread_centroids", "thread_health", "replay", "gap_replay", "context_packs", "gap_signals"),
    *("retrieval_events", "retrieval_metrics_daily", "health_report", "intake_proposals"),
    *("event_retention", "analytics_database", "change_position", "embedded_texts"),
    "record_retention",
}


@pytest.fixture(scope="module")
def house(
    model_home: Path,
    postgres_server: Database,
    template_database: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[NightHouse, None, None]:
    home = tmp_path_factory.mktemp("nightly_rebuild")
    with open_night_house(home, model_home, postgres_server, template_database) as opened:
        yield opened


def run(house: NightHouse) -> ExecuteInProcessResult:
    lake = EventLake.open(house.settings)
    days = nightly_days(house.database, lake, house.settings.zone, datetime.now(UTC))
    return house.run(tags=dict(range_tags(days)))


def failed_checks(result: ExecuteInProcessResult) -> set[str]:
    return {
        f"{check.asset_key.to_user_string()}: {check.check_name}"
        for check in result.get_asset_check_evaluations()
        if not check.passed
    }


@pytest.fixture(scope="module")
def first(house: NightHouse) -> ExecuteInProcessResult:
    return run(house)


@pytest.fixture(scope="module")
def second(house: NightHouse, first: ExecuteInProcessResult) -> ExecuteInProcessResult:
    assert first.success
    return run(house)


@pytest.fixture(scope="module")
def stopped(house: NightHouse, second: ExecuteInProcessResult) -> ExecuteInProcessResult:
    """A run after a stored chunk was moved behind everybody's back, which no publish looks at."""
    assert second.success
    with open_writer(home=house.settings.home) as store:
        point = next(iter(store.scroll(Collection.INFORMATION_UNITS)))
        forged: dict[str, Json] = {**point.payload}
        chunk = forged["metadata"]
        assert isinstance(chunk, dict)
        forged["metadata"] = {**chunk, "char_end": 1}
        store.overwrite_payloads(Collection.INFORMATION_UNITS, [(point.point_id, forged)])
        store.publish(Collection.INFORMATION_UNITS)
    return run(house)


def test_the_first_night_builds_everything_and_no_check_fails(
    first: ExecuteInProcessResult,
) -> None:
    assert first.success
    assert set(metadata(first)) == BUILT
    assert failed_checks(first) == set()


def test_threads_are_checked_with_the_centroids_of_the_night_and_before_packs(
    first: ExecuteInProcessResult,
) -> None:
    """Centroids are no dependency of health, so that a stopped night still tells it; their order is a matter of priority."""
    order = [
        event.asset_key.to_user_string()
        for event in first.all_events
        if event.is_step_materialization and event.asset_key is not None
    ]
    wanted = ["thread_centroids", "thread_health", "context_packs"]
    assert sorted(wanted, key=order.index) == wanted
    assert order.index("gap_signals") < order.index("health_report")


@pytest.mark.parametrize(
    ("asset", "names"),
    [
        ("unit_chunks", {"dagster/row_count", "owners", "owners_cut", "quarantined", "seconds", "sample"}),
        ("document_chunks", {"dagster/row_count", "owners", "owners_cut", "seconds", "sample"}),
        (
            "information_unit_vectors",
            {"dagster/row_count", "model", "space_id", "texts_embedded", "vector_writes", "seconds"},
        ),
        ("production_document_vectors", {"dagster/row_count", "model", "space_id", "points_deleted"}),
        ("thread_centroids", {"dagster/row_count", "written", "lane_customer", "lane_ai_agent", "seconds"}),
        ("thread_health", {"dagster/row_count", "checked", "changed", "held_by_statement", "status_weak"}),
        ("gap_signals", {"dagster/row_count", "opened", "closed", "routed_governance", "open_now"}),
        ("context_packs", {"dagster/row_count", "threads", "threads_due", "lane_customer", "seconds"}),
        ("retrieval_events", {"dagster/partition_row_count", "days_written", "quarantined"}),
        ("retrieval_metrics_daily", {"dagster/partition_row_count", "days_counted", "rates"}),
        ("health_report", {"dagster/partition_row_count", "report", "page"}),
    ],
)  # fmt: skip
def test_every_asset_shows_the_figures_a_person_looks_for(
    first: ExecuteInProcessResult, asset: str, names: set[str]
) -> None:
    assert names - set(metadata(first)[asset]) == set()


def test_the_figures_of_the_first_night_agree_with_the_stores(
    house: NightHouse, first: ExecuteInProcessResult
) -> None:
    figures = metadata(first)
    with open_reader(home=house.settings.home) as store:
        counts = {collection: store.count(collection) for collection in Collection}
    assert counts == {
        Collection.INFORMATION_UNITS: figures["unit_chunks"]["dagster/row_count"],
        Collection.PRODUCTION_DOCUMENTS: figures["document_chunks"]["dagster/row_count"],
        Collection.THREAD_CENTROIDS: figures["thread_centroids"]["dagster/row_count"],
    }
    assert Path(figures["health_report"]["page"]).is_file()


def test_after_a_night_what_was_committed_before_it_counts_as_followed(
    house: NightHouse, first: ExecuteInProcessResult
) -> None:
    assert metadata(first)["change_position"]["was_moved"]
    backlog = read_backlog(house.database)
    assert backlog.old is not None
    # What a night finds out about threads it writes down itself, while it runs.
    assert {row.table_name for row in backlog.rows} <= {"health_signal"}


def test_the_second_night_embeds_nothing_and_writes_nothing(
    second: ExecuteInProcessResult,
) -> None:
    assert second.success
    figures = metadata(second)
    done = {
        "embedded": figures["information_unit_vectors"]["texts_embedded"],
        "vectors": figures["information_unit_vectors"]["vector_writes"],
        "centroids": figures["thread_centroids"]["vector_writes"],
        "owners cut": figures["unit_chunks"]["owners_cut"] + figures["document_chunks"]["owners_cut"],
        "checks changed": figures["thread_health"]["changed"],
        "gaps opened": figures["gap_signals"]["opened"] + figures["gap_signals"]["closed"],
        "items made": sum(figures["gap_signals"][f"routed_{place}"] for place in ("health", "backlog", "governance")),
        "threads read": figures["context_packs"]["threads_due"],
        "packs": figures["context_packs"]["written"],
        "days written": figures["retrieval_events"]["days_written"],
        "days counted": figures["retrieval_metrics_daily"]["days_counted"],
    }  # fmt: skip
    nothing = dict.fromkeys(done, 0) | {"days written": "none", "days counted": "none"}
    assert done == nothing


def test_a_failing_check_stops_what_would_be_built_on_it(stopped: ExecuteInProcessResult) -> None:
    assert not stopped.success
    assert failed_checks(stopped) == {"information_unit_vectors: chunks_are_sound_cuts_of_one_text"}
    assert BUILT - set(metadata(stopped)) == {
        *("thread_centroids", "replay", "context_packs", "change_position", "record_retention")
    }


def test_a_failing_check_says_which_unit_is_wrong_and_what_to_do(
    stopped: ExecuteInProcessResult,
) -> None:
    (check,) = (each for each in stopped.get_asset_check_evaluations() if not each.passed)
    assert check.description == "threadhouse audit --repair mends this."
    assert "boundary_violation" in str(check.metadata["findings"].value)


def test_after_a_repair_the_night_succeeds_again(
    house: NightHouse, embedder: FastembedEmbedder, stopped: ExecuteInProcessResult
) -> None:
    assert not stopped.success
    cached = CachedEmbedder(embedder, PostgresVectorCache(house.database))
    with open_writer(home=house.settings.home) as store:
        found = audit_projection(house.database, store, cached)
        done = repair_projection(house.database, store, cached, house.settings.home, found)
    assert done["texts_embedded"] == 0
    again = run(house)
    assert again.success
    assert failed_checks(again) == set()


def test_a_run_of_the_other_job_follows_what_came_since(
    house: NightHouse, first: ExecuteInProcessResult
) -> None:
    """It needs a position only, whatever became of later nights."""
    assert first.success
    with house.database.connect() as connection:
        (unit_id,) = connection.execute(
            "select min(logical_unit_id) from public.tac_logical_unit where current_version_id is not null"
        ).fetchone() or (None,)
        write_version(connection, str(unit_id), "A text that no night has seen.")
    definitions = build_definitions(
        house.settings, resources=build_resources(str(house.settings.home))
    )
    done = definitions.resolve_job_def(CHANGE_SYNC_JOB).execute_in_process(instance=house.instance)
    assert done.success
    assert read_backlog(house.database).rows == ()
    with open_reader(home=house.settings.home) as store, house.database.connect() as connection:
        physical = store.resolve(Collection.INFORMATION_UNITS)
        pointer = read_pointers(connection, physical, [str(unit_id)])[str(unit_id)]
        assert len(store.retrieve(physical, pointer.point_ids(Collection.INFORMATION_UNITS))) == 1
