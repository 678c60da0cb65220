"""Centroids follow threads, memberships, flags and vectors; what did not change is not touched.

The maths has its own tests (``tests/unit/test_centroids``).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from content_house import CENTROIDS, UNITS, ContentHouse
from counting_embedder import HashEmbedder
from hub_rows import add_document, add_unit, write_version
from threadhouse.retrieval.errors import DeletionBrakeError, SpaceMismatchError
from threadhouse.retrieval.models import Audience
from threadhouse.stores.centroid_projection import farthest_from_unit_length
from threadhouse.stores.postgres import Database

EVERYONE = {str(lane) for lane in Audience}


def add_thread(house: ContentHouse, thread_id: str, *unit_ids: str) -> None:
    house.change(
        """insert into public.semantic_thread
           (thread_id, canonical_address, title, visibility, readiness, publication_state, risk_class, authority)
           values (%s, %s, 'Hoàn tiền', 'public', 'published', 'published', 'low', 'enacted')""",
        thread_id,
        f"T/{thread_id}",
    )
    for unit_id in unit_ids:
        house.change(
            "insert into public.thread_membership values (%s, %s, 'canonical', 1, 'confirmed')",
            thread_id,
            unit_id,
        )


def built_house(house: ContentHouse) -> ContentHouse:
    """Six units; a thread of two, a thread of one."""
    with house.connect() as connection:
        add_document(connection, "document")
        for number in range(6):
            add_unit(connection, f"unit-{number}", "document", f"Nội dung số {number}.")
    add_thread(house, "wide", "unit-0", "unit-1")
    add_thread(house, "narrow", "unit-2")
    house.publish()
    house.refresh_centroids()
    return house


@pytest.fixture
def house(database: Database, tmp_path: Path) -> ContentHouse:
    return built_house(ContentHouse(database, tmp_path))


def lanes(house: ContentHouse, thread_id: str) -> set[str]:
    """Lanes that learn of the thread: by a point and by a pointer alike."""
    points = {key for key in house.owners(CENTROIDS) if key.startswith(f"{thread_id}/")}
    pointers = {key for key in house.pointers(CENTROIDS) if key.startswith(f"{thread_id}/")}
    assert points == pointers
    return {key.partition("/")[2] for key in points}


def revoke(house: ContentHouse, unit_id: str, visibility: str) -> None:
    house.change(
        "update public.tac_logical_unit set visibility = %s where logical_unit_id = %s",
        visibility,
        unit_id,
    )
    house.publish()


def test_every_lane_that_sees_a_unit_has_a_centroid_of_length_one(house: ContentHouse) -> None:
    assert lanes(house, "wide") == lanes(house, "narrow") == EVERYONE
    with house.reader() as store:
        assert farthest_from_unit_length(store) < 1e-6


def test_a_centroid_of_one_unit_is_its_vector(house: ContentHouse) -> None:
    with house.reader() as store:
        ids = house.pointers(UNITS)["unit-2"].point_ids(UNITS)
        (unit,) = store.retrieve(UNITS, ids, with_vectors=True)
        ids = house.pointers(CENTROIDS)["narrow/customer"].point_ids(CENTROIDS)
        (centroid,) = store.retrieve(CENTROIDS, ids, with_vectors=True)
    assert unit.dense is not None
    assert centroid.dense is not None
    np.testing.assert_allclose(unit.dense, centroid.dense, atol=1e-6)


def test_a_run_that_finds_nothing_new_writes_nothing(house: ContentHouse) -> None:
    report = house.refresh_centroids()
    assert (report.vector_writes, report.unchanged) == (0, 8)


def test_only_the_thread_whose_unit_changed_is_computed_again(house: ContentHouse) -> None:
    with house.connect() as connection:
        write_version(connection, "unit-2", "Văn bản mới.")
    house.publish()
    report = house.refresh_centroids()
    assert (report.written, report.unchanged, report.deleted) == (4, 4, 0)
    assert house.findings() == {}


def test_a_unit_that_is_written_but_not_published_does_not_count_yet(house: ContentHouse) -> None:
    """The centroid says what search can return, and search cannot return the new text."""
    with house.connect() as connection:
        write_version(connection, "unit-1", "Văn bản mới.")
    house.refresh_centroids()
    counts = {metadata["unit_count"] for metadata in house.metadata(CENTROIDS, "wide/customer")}
    assert counts == {1}


@pytest.mark.parametrize("engine", ["memory", "edge"])
def test_a_lane_that_loses_its_last_unit_loses_its_centroid(
    database: Database, tmp_path: Path, engine: str
) -> None:
    house = built_house(ContentHouse(database, tmp_path, engine))
    revoke(house, "unit-2", "employee")
    report = house.refresh_centroids()
    assert lanes(house, "narrow") == {"employee", "ai_agent"}
    assert lanes(house, "wide") == EVERYONE
    assert report.deleted == 2
    assert report.without == {"nothing_visible": 2}


def test_a_lane_that_loses_one_of_two_units_keeps_a_centroid_of_the_other(
    house: ContentHouse,
) -> None:
    revoke(house, "unit-1", "employee")
    house.refresh_centroids()
    counts = {lane: house.metadata(CENTROIDS, f"wide/{lane}")[0]["unit_count"] for lane in EVERYONE}
    assert counts == {"customer": 1, "partner": 1, "employee": 2, "ai_agent": 2}


def test_a_deleted_thread_loses_its_centroids(house: ContentHouse) -> None:
    house.change("delete from public.semantic_thread where thread_id = 'narrow'")
    report = house.refresh_centroids()
    assert lanes(house, "narrow") == set()
    assert (report.deleted, report.written) == (4, 0)


def test_a_hidden_thread_loses_its_centroids(house: ContentHouse) -> None:
    house.change(
        "update public.semantic_thread set visibility = 'restricted' where thread_id = 'narrow'"
    )
    house.refresh_centroids()
    assert lanes(house, "narrow") == set()


def test_an_empty_table_of_threads_deletes_no_centroid(house: ContentHouse) -> None:
    before = house.points(CENTROIDS)
    house.change("truncate public.semantic_thread cascade")
    with pytest.raises(DeletionBrakeError):
        house.refresh_centroids()
    assert house.points(CENTROIDS) == before


def test_a_rejected_membership_takes_its_unit_out(house: ContentHouse) -> None:
    house.change(
        "update public.thread_membership set status = 'rejected' where logical_unit_id = 'unit-2'"
    )
    house.refresh_centroids()
    assert lanes(house, "narrow") == set()


def test_a_lost_pointer_is_written_again(house: ContentHouse) -> None:
    house.change("delete from nao.vector_projection where owner_id = 'wide/partner'")
    assert house.refresh_centroids().written == 1
    assert house.findings() == {}


def test_centroids_of_another_space_are_refused(house: ContentHouse) -> None:
    house.inner = HashEmbedder("other")
    with pytest.raises(SpaceMismatchError):
        house.refresh_centroids()
