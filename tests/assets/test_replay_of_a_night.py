"""Recent questions asked again in the nightly job: a hub that breaks stops it, and whoever meant it goes on.

Method: an ephemeral instance, the real stores and the real embedder. The house of the module is published without Dagster, which
takes a fraction of the time of a run with all checks; the runs are those of which something is said.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult

from delivery_house import change, rows
from night_house import NightHouse, metadata, open_night_house
from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.models import Audience
from threadhouse.serving.opening import open_retrieval_service
from threadhouse.serving.replay import replay_published
from threadhouse.stores.centroid_projection import refresh_centroids
from threadhouse.stores.embedders import FastembedEmbedder
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.intake_proposals import list_proposals
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import publish_content
from threadhouse.stores.vector_cache import PostgresVectorCache
from threadhouse.stores.vectors import open_writer

CONTENT = (
    *("unit_chunks", "document_chunks", "information_unit_vectors", "production_document_vectors"),
    "thread_centroids",
)
LAST = ("replay", "gap_replay", "intake_proposals", "context_packs")


@pytest.fixture(scope="module")
def house(
    model_home: Path,
    postgres_server: Database,
    template_database: str,
    tmp_path_factory: pytest.TempPathFactory,
    embedder: FastembedEmbedder,
) -> Generator[NightHouse, None, None]:
    """The sample hub after a night, and the titles of its threads asked by two lanes."""
    home = tmp_path_factory.mktemp("replay_of_a_night")
    with open_night_house(home, model_home, postgres_server, template_database) as built:
        # The sample's week of events is not what this is about.
        change(built.database, "truncate nao.retrieval_metric_event")
        publish(built, CachedEmbedder(embedder, PostgresVectorCache(built.database)))
        ask_titles(built, embedder)
        report = replay_published(built.settings, built.database, embedder, accept_losses=False)
        assert report.verdict is not None
        assert report.verdict.lost == 0
        assert len(report.verdict.outcomes) > 10
        yield built


def run(
    house: NightHouse, assets: Sequence[str], *, accept_losses: bool = False
) -> ExecuteInProcessResult:
    config = {"config": {"accept_losses": accept_losses}}
    steps = {
        step: config
        for step, asset in (
            ("content_vectors", "information_unit_vectors"),
            ("replay", "replay"),
        )
        if asset in assets
    }
    return house.run(
        run_config={"ops": steps}, asset_selection=[dg.AssetKey(name) for name in assets]
    )


def publish(house: NightHouse, embedder: CachedEmbedder) -> None:
    with open_writer(home=house.settings.home) as store:
        publish_content(house.database, store, embedder, house.settings.home)
        refresh_centroids(house.database, store, embedder.space)


def ask_titles(house: NightHouse, embedder: FastembedEmbedder) -> None:
    titles = [
        title for (title,) in rows(house.database, "select title from public.semantic_thread")
    ]
    with open_retrieval_service(house.settings, embedder=embedder) as service:
        for title in titles:
            for lane in (Audience.AI_AGENT, Audience.EMPLOYEE):
                service.answer(title, lane_principal(lane))


def failed_checks(result: ExecuteInProcessResult) -> dict[str, str | None]:
    return {
        check.check_name: check.description
        for check in result.get_asset_check_evaluations()
        if not check.passed
    }


def counted(house: NightHouse) -> int:
    return rows(house.database, "select count(*) from nao.retrieval_metric_event")[0][0]


def test_a_broken_hub_stops_the_packs_and_asks_until_it_is_accepted(house: NightHouse) -> None:
    before = counted(house)
    change(
        house.database,
        """delete from public.thread_membership
           where thread_id in (select thread_id from public.semantic_thread order by thread_id limit 6)""",
    )
    stopped = run(house, LAST)
    assert not stopped.success
    sentence = failed_checks(stopped)["no_question_lost_its_answer"]
    assert sentence is not None
    assert "--accept-losses" in sentence
    assert "context_packs" not in metadata(stopped)
    # What has nothing to do with it goes on.
    assert "intake_proposals" in metadata(stopped)

    accepted = run(house, LAST, accept_losses=True)
    assert accepted.success
    assert metadata(accepted)["replay"]["lost"] >= 2
    assert "context_packs" in metadata(accepted)

    assert counted(house) == before


def test_a_publish_that_would_lose_answers_is_stopped_before_readers_are_switched_over(
    house: NightHouse,
) -> None:
    pointers = "select owner_id, version_key from nao.vector_projection where collection = 'information_units' order by 1"
    before = rows(house.database, pointers)
    change(house.database, "delete from public.thread_membership")
    with house.database.connect() as connection:
        connection.execute(
            """with fresh as
               ( insert into public.tac_unit_version (unit_version_id, logical_unit_id, revision, title, body)
                 select gen_random_uuid(), logical_unit_id, revision + 1, title, body || ' Bổ sung.'
                 from source.information_unit order by logical_unit_id limit 2
                 returning unit_version_id, logical_unit_id )
               update public.tac_logical_unit u set current_version_id = fresh.unit_version_id
               from fresh where fresh.logical_unit_id = u.logical_unit_id"""
        )
    stopped = run(house, (*CONTENT, *LAST))
    assert not stopped.success
    (failure,) = [event for event in stopped.all_events if event.is_step_failure]
    assert failure.step_key == "content_vectors"
    assert "would lose the answer they have" in str(failure.step_failure_data.error)
    assert rows(house.database, pointers) == before
    # What tells about the night is there in spite of it.
    assert {"gap_replay", "intake_proposals"} <= set(metadata(stopped))


def test_questions_that_no_thread_answers_become_a_proposal_with_units_that_search_finds(
    house: NightHouse, embedder: FastembedEmbedder
) -> None:
    asked = [
        "Cách nướng bánh mì sầu riêng tại nhà?",
        "Nướng bánh mì sầu riêng ở nhà thế nào?",
        "Công thức bánh mì sầu riêng nướng tại nhà",
    ]
    with open_retrieval_service(house.settings, embedder=embedder) as service:
        for number, text in enumerate((*asked, *asked)):
            service.answer(
                text, lane_principal(Audience.EMPLOYEE), session_id=f"session-{number % 3}"
            )
    report = metadata(run(house, ("intake_proposals",)))["intake_proposals"]
    assert report["opened"] >= 1
    with house.database.connect() as connection:
        made = [each for each in list_proposals(connection) if set(each.queries) == set(asked)]
    assert len(made) == 1
    assert made[0].lane is Audience.EMPLOYEE
    assert made[0].candidate_units
