"""What a publish does to the stores, change by change: nothing stale, nothing twice, nothing lost, nothing early.

Killing it is tested in ``test_publish_survives_kill``, what is compared in ``tests/property/test_projection_plan``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from content_house import DOCUMENTS, UNITS, ContentHouse, with_other_model
from counting_embedder import HashEmbedder
from hub_rows import add_document, add_unit, write_version
from threadhouse.retrieval.audit import owner_key
from threadhouse.retrieval.errors import (
    DeletionBrakeError,
    EmptySourceError,
    ProjectionError,
    SpaceMismatchError,
    StoreLockedError,
)
from threadhouse.retrieval.models import Json, StoredPoint, VectorPoint
from threadhouse.stores.postgres import Database
from threadhouse.stores.vectors_client import ClientVectorStore

PARAGRAPH = "Khách hàng được hoàn tiền trong bảy ngày. " * 40
UNIT_COUNT = 10


@pytest.fixture
def house(database: Database, tmp_path: Path) -> ContentHouse:
    return built_house(ContentHouse(database, tmp_path))


def built_house(house: ContentHouse) -> ContentHouse:
    """Ten units of up to three chunks, six legacy documents; published."""
    with house.connect() as connection:
        add_document(connection, "document")
        for number in range(UNIT_COUNT):
            body = "\n\n".join([f"{number} {PARAGRAPH}"] * (1 + number % 3))
            add_unit(connection, f"unit-{number}", "document", body)
        for number in range(6):
            add_document(connection, f"legacy-{number}", body=f"{number} {PARAGRAPH * 6}")
    house.publish()
    return house


def rewrite(house: ContentHouse, unit_id: str, body: str) -> UUID:
    with house.connect() as connection:
        return write_version(connection, unit_id, body)


def revoke(house: ContentHouse, unit_id: str, visibility: str = "restricted") -> None:
    house.change(
        "update public.tac_logical_unit set visibility = %s where logical_unit_id = %s",
        visibility,
        unit_id,
    )


def visibilities(house: ContentHouse, unit_id: str) -> set[str | None]:
    return {metadata["visibility"] for metadata in house.metadata(UNITS, unit_id)}


def when_staged(act: Callable[[], object]) -> Callable[[str], None]:
    """Act once, between the embedding of the first batch and the switch."""
    done: list[str] = []

    def on_step(name: str) -> None:
        if name.startswith("staged:") and not done:
            done.append(name)
            act()

    return on_step


# --- versions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["memory", "edge"])
def test_a_shorter_version_leaves_exactly_its_own_chunks(
    database: Database, tmp_path: Path, engine: str
) -> None:
    house = built_house(ContentHouse(database, tmp_path, engine))
    assert len(house.metadata(UNITS, "unit-2")) == 3
    version = rewrite(house, "unit-2", "Ngắn.")
    report = house.publish()
    (only,) = house.metadata(UNITS, "unit-2")
    assert (only["unit_version_id"], only["chunk_index"], only["total_chunks"]) == (
        str(version),
        0,
        1,
    )
    assert (report.chunks_written, report.points_deleted) == (1, 3)


def test_as_many_points_are_stored_as_there_are_chunks(house: ContentHouse) -> None:
    expected = sum(pointer.chunk_count for pointer in house.pointers(UNITS).values())
    assert expected == sum(1 + number % 3 for number in range(UNIT_COUNT))
    assert len(house.points(UNITS)) == expected


def test_equal_texts_in_two_units_stay_two_points(house: ContentHouse) -> None:
    rewrite(house, "unit-0", "Giống hệt nhau.")
    rewrite(house, "unit-1", "Giống hệt nhau.")
    report = house.publish()
    assert len(house.metadata(UNITS, "unit-0")) == len(house.metadata(UNITS, "unit-1")) == 1
    assert (report.chunks_written, report.texts_embedded) == (2, 1)


def test_a_text_that_returns_in_a_new_version_is_a_new_point_and_no_new_embedding(
    house: ContentHouse,
) -> None:
    before = set(house.points(UNITS))
    body = house.rows("select body from source.information_unit where logical_unit_id = 'unit-0'")[
        0
    ][0]
    rewrite(house, "unit-0", body)
    report = house.publish()
    assert report.texts_embedded == 0
    assert len(set(house.points(UNITS)) - before) == 1


# --- runs -------------------------------------------------------------------------------------


def test_an_identical_run_writes_and_embeds_nothing(house: ContentHouse) -> None:
    report = house.publish()
    assert (report.vector_writes, report.texts_embedded, report.owners_unchanged) == (0, 0, 16)


def test_a_publish_that_waited_for_another_in_vain_names_the_holder(
    house: ContentHouse,
) -> None:
    refused: list[str] = []

    def again(name: str) -> None:
        if name == "planned":
            impatient = replace(house, database=replace(house.database, lock_timeout_s=0.2))
            # On a thread of its own, because who holds the lock may take a step that asks for it.
            with ThreadPoolExecutor(1) as elsewhere:
                error = elsewhere.submit(impatient.publish).exception()
            assert isinstance(error, StoreLockedError)
            refused.append(str(error))

    house.publish(again)
    (message,) = refused
    assert "threadhouse" in message
    assert "server process" in message
    assert house.publish().vector_writes == 0, "the lock is given back"


def test_another_embedding_space_is_refused_and_nothing_changes(house: ContentHouse) -> None:
    before = house.points(UNITS)
    rewrite(house, "unit-0", "Mới.")
    with pytest.raises(SpaceMismatchError):
        with_other_model(house).publish()
    assert house.points(UNITS) == before


def test_points_that_cannot_be_read_back_are_not_switched_to(house: ContentHouse) -> None:
    before = house.pointers(UNITS)
    version = rewrite(house, "unit-0", "Mới.")

    def lose_them() -> None:
        with house.writer() as store:
            written = [
                point.point_id
                for point in store.scroll(UNITS)
                if owner_key(UNITS, point.payload)[1] == str(version)
            ]
            assert store.delete(UNITS, written) == 1

    with pytest.raises(ProjectionError, match="readers stay on the old version"):
        house.publish(when_staged(lose_them))
    assert house.pointers(UNITS) == before
    house.publish()
    assert len(house.metadata(UNITS, "unit-0")) == 1


# --- deletions --------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["memory", "edge"])
def test_deletes_reach_every_collection(database: Database, tmp_path: Path, engine: str) -> None:
    house = built_house(ContentHouse(database, tmp_path, engine))
    house.change("delete from public.tac_logical_unit where logical_unit_id = 'unit-2'")
    house.change("delete from public.production_document where document_id = 'legacy-0'")
    report = house.publish()
    assert "unit-2" not in house.owners(UNITS) | set(house.pointers(UNITS))
    assert "legacy-0" not in house.owners(DOCUMENTS) | set(house.pointers(DOCUMENTS))
    assert (report.owners_retired, report.chunks_written) == (2, 0)


def test_a_truncated_table_stops_at_the_brake_and_nothing_is_deleted(house: ContentHouse) -> None:
    before = house.points(UNITS)
    house.change("truncate public.tac_logical_unit cascade")
    with pytest.raises(DeletionBrakeError, match="--allow-deletes"):
        house.publish()
    assert house.points(UNITS) == before


def test_a_truncated_table_is_followed_when_that_is_asked_for(house: ContentHouse) -> None:
    house.change("truncate public.tac_logical_unit cascade")
    house.publish(allowed_deletion_share=None)
    assert house.owners(UNITS) == set()
    assert len(house.owners(DOCUMENTS)) == 6


@pytest.mark.parametrize("allowed", [0.2, None])
def test_an_empty_source_deletes_nothing_whatever_is_allowed(
    house: ContentHouse, allowed: float | None
) -> None:
    before = house.points(UNITS), house.points(DOCUMENTS)
    house.change("truncate public.production_document cascade")
    with pytest.raises(EmptySourceError):
        house.publish(allowed_deletion_share=allowed)
    assert (house.points(UNITS), house.points(DOCUMENTS)) == before


# --- changes while a publish is under way -----------------------------------------------------


def test_a_unit_that_is_deleted_while_it_is_embedded_is_not_published(house: ContentHouse) -> None:
    with house.connect() as connection:
        add_unit(connection, "unit-new", "document", "Mới.")

    def delete() -> None:
        house.change("delete from public.tac_logical_unit where logical_unit_id = 'unit-new'")

    report = house.publish(when_staged(delete))
    assert "unit-new" not in house.owners(UNITS) | set(house.pointers(UNITS))
    assert report.owners_left_for_next_run == 1
    assert house.findings() == {}


def test_a_unit_that_changes_while_it_is_embedded_waits_for_the_next_run(
    house: ContentHouse,
) -> None:
    before = house.metadata(UNITS, "unit-0")
    rewrite(house, "unit-0", "Thứ hai.")
    report = house.publish(when_staged(lambda: rewrite(house, "unit-0", "Thứ ba.")))
    assert house.metadata(UNITS, "unit-0") == before, "old chunks stay, staged ones are swept"
    assert report.owners_left_for_next_run == 1
    house.publish()
    assert house.findings() == {}


def test_a_document_that_changes_while_it_is_embedded_waits_for_the_next_run(
    house: ContentHouse,
) -> None:
    edit = "update public.production_document set body = body || %s where document_id = 'legacy-0'"
    before = house.metadata(DOCUMENTS, "legacy-0")
    house.change(edit, " hai")
    house.publish(when_staged(lambda: house.change(edit, " ba")))
    assert house.metadata(DOCUMENTS, "legacy-0") == before
    house.publish()
    assert house.findings() == {}


def test_a_revoke_while_the_text_is_embedded_holds_from_the_next_run_on(
    house: ContentHouse,
) -> None:
    rewrite(house, "unit-0", "Mới.")
    house.publish(when_staged(lambda: revoke(house, "unit-0")))
    report = house.publish()
    assert visibilities(house, "unit-0") == {"restricted"}
    assert (report.texts_embedded, report.payloads_rewritten) == (0, 1)


# --- labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["memory", "edge"])
def test_a_flag_change_rewrites_payloads_and_embeds_nothing(
    database: Database, tmp_path: Path, engine: str
) -> None:
    house = built_house(ContentHouse(database, tmp_path, engine))
    ids = set(house.points(UNITS))
    revoke(house, "unit-2")
    report = house.publish()
    assert (report.texts_embedded, report.chunks_written, report.payloads_rewritten) == (0, 0, 3)
    assert visibilities(house, "unit-2") == {"restricted"}
    assert set(house.points(UNITS)) == ids, "labels are not identity"
    assert house.publish().vector_writes == 0


def test_a_flag_of_a_document_reaches_the_units_that_inherit_it(house: ContentHouse) -> None:
    revoke(house, "unit-3", "partner")
    house.change(
        "update public.production_document set visibility = 'employee' where document_id = 'document'"
    )
    house.publish()
    seen = {unit_id: visibilities(house, unit_id) for unit_id in house.owners(UNITS)}
    assert seen.pop("unit-3") == {"partner"}
    assert set(map(frozenset, seen.values())) == {frozenset({"employee"})}


def test_metadata_that_nobody_is_judged_by_is_rewritten_too(house: ContentHouse) -> None:
    house.change(
        "update public.production_document set tags = '{mới}' where document_id = 'document'"
    )
    report = house.publish()
    assert house.metadata(UNITS, "unit-0")[0]["tags"] == ["mới"]
    assert (report.texts_embedded, report.payloads_rewritten) == (0, len(house.points(UNITS)))


def test_a_revoke_is_readable_before_anything_is_embedded(house: ContentHouse) -> None:
    rewrite(house, "unit-0", "Mới.")
    revoke(house, "unit-2")
    seen: dict[str, set[str | None]] = {}

    def look(name: str) -> None:
        seen.setdefault(name.partition(":")[0], visibilities(house, "unit-2"))

    report = house.publish(look)
    assert seen["planned"] == {"public"}
    assert seen["access"] == seen["staged"] == {"restricted"}
    assert report.revoke_lag_s is not None


def test_old_text_is_never_shown_under_labels_that_were_given_to_new_text(
    house: ContentHouse,
) -> None:
    revoke(house, "unit-0", "partner")
    house.publish()
    rewrite(house, "unit-0", "Dành cho mọi người.")
    revoke(house, "unit-0", "public")
    old = {metadata["unit_version_id"] for metadata in house.metadata(UNITS, "unit-0")}
    seen: list[set[str | None]] = []

    def look(name: str) -> None:
        seen.append(
            {
                metadata["visibility"]
                for metadata in house.metadata(UNITS, "unit-0")
                if metadata["unit_version_id"] in old
            }
        )

    house.publish(look)
    assert {"public"} not in seen
    assert visibilities(house, "unit-0") == {"public"}


class WatchedStore(ClientVectorStore):
    """The client's local mode, writing down which owners are written in which order."""

    written: list[tuple[str, str]]

    def overwrite_payloads(
        self, collection: str, payloads: Iterable[tuple[UUID, dict[str, Json]]]
    ) -> int:
        listed = list(payloads)
        self.written += [("payload", _owner(collection, payload)) for _, payload in listed]
        return super().overwrite_payloads(collection, listed)

    def upsert(self, collection: str, space_id: str, points: Iterable[VectorPoint]) -> int:
        listed = list(points)
        self.written += [("point", _owner(collection, point.payload)) for point in listed]
        return super().upsert(collection, space_id, listed)

    def delete(self, collection: str, point_ids: Sequence[UUID]) -> int:
        found: list[StoredPoint] = self.retrieve(collection, point_ids)
        self.written += [("delete", _owner(collection, point.payload)) for point in found]
        return super().delete(collection, point_ids)


def _owner(collection: str, payload: dict[str, Json]) -> str:
    return owner_key(UNITS if collection.startswith(UNITS) else DOCUMENTS, payload)[0]


def test_deletions_come_before_revokes_before_grants_before_content(
    database: Database, tmp_path: Path
) -> None:
    from qdrant_client import QdrantClient

    store = WatchedStore(QdrantClient(":memory:"), address="memory", has_payload_indexes=False)
    store.written = []
    house = built_house(ContentHouse(database, tmp_path, _memory=store))
    revoke(house, "unit-0", "partner")
    house.publish()
    store.written.clear()

    house.change("delete from public.tac_logical_unit where logical_unit_id = 'unit-1'")
    revoke(house, "unit-0", "public")
    revoke(house, "unit-3", "employee")
    house.change(
        "update public.production_document set visibility = 'partner' where document_id = 'legacy-0'"
    )
    rewrite(house, "unit-6", "Mới.")
    house.publish()
    assert store.written == [
        *[("delete", "unit-1")] * 2,
        ("payload", "unit-3"),
        *[("payload", "legacy-0")] * len(house.metadata(DOCUMENTS, "legacy-0")),
        ("payload", "unit-0"),
        ("point", "unit-6"),
        ("delete", "unit-6"),
    ]


# --- what cannot be published -----------------------------------------------------------------


def redefine_flag(house: ContentHouse, unit_id: str) -> None:
    """Attach a database whose words are not ours: the view shows a visibility that nobody knows."""
    definition = house.rows("select pg_get_viewdef('source.information_unit'::regclass)")[0][0]
    assert isinstance(definition, str)
    known = "COALESCE(u.visibility, d.visibility)"
    assert known in definition
    foreign = f"CASE WHEN u.logical_unit_id = '{unit_id}' THEN 'everybody' ELSE {known} END"
    with house.connect() as connection:
        connection.execute(
            b"create or replace view source.information_unit as "
            + definition.replace(known, foreign, 1).encode()
        )


def quarantined(house: ContentHouse) -> list[tuple[str, str]]:
    return [
        (source, item)
        for source, item in house.rows(
            "select source, item_key from nao.quarantined_item where resolved_at is null"
        )
    ]


def test_a_unit_with_a_foreign_flag_is_quarantined_hidden_and_the_rest_is_published(
    house: ContentHouse,
) -> None:
    rewrite(house, "unit-1", "Mới.")
    redefine_flag(house, "unit-0")
    report = house.publish()
    assert quarantined(house) == [("projection:information_units", "unit-0")]
    assert "unit-0" not in house.owners(UNITS), "what nobody can judge, nobody sees"
    assert house.metadata(UNITS, "unit-1")[0]["char_end"] == len("Mới.")
    assert report.quarantined == 1
    assert house.publish().vector_writes == 0


def test_a_unit_of_blanks_has_no_points_and_the_rest_is_published(house: ContentHouse) -> None:
    rewrite(house, "unit-0", " \u00a0\u200b \n")
    rewrite(house, "unit-1", "Mới.")
    house.publish()
    assert house.metadata(UNITS, "unit-0") == []
    assert len(house.metadata(UNITS, "unit-1")) == 1
    assert house.publish().vector_writes == 0
    assert house.findings() == {}


# --- documents whose units take over ----------------------------------------------------------


def test_a_document_changes_sides_in_one_transaction_and_can_come_back(
    house: ContentHouse,
) -> None:
    with house.connect() as connection:
        add_unit(connection, "unit-migrated", "legacy-0", "Điều một.")
    sides: dict[str, tuple[bool, bool]] = {}

    def look(name: str) -> None:
        sides[name.partition(":")[0]] = (
            "legacy-0" in house.pointers(DOCUMENTS),
            "unit-migrated" in house.pointers(UNITS),
        )

    report = house.publish(look)
    assert set(sides.values()) == {(True, False), (False, True)}
    assert (sides["copies"], sides["pointers"]) == ((True, False), (False, True))
    assert report.owners_replaced == 1
    assert "legacy-0" not in house.owners(DOCUMENTS)

    house.change("delete from public.tac_logical_unit where logical_unit_id = 'unit-migrated'")
    back = house.publish()
    assert "legacy-0" in house.owners(DOCUMENTS)
    assert back.texts_embedded == 0
    assert house.findings() == {}


def test_a_document_stays_where_it_is_while_none_of_its_units_can_be_published(
    house: ContentHouse,
) -> None:
    with house.connect() as connection:
        add_unit(connection, "unit-migrated", "legacy-0", "Điều một.")
    redefine_flag(house, "unit-migrated")
    house.publish()
    assert "legacy-0" in house.pointers(DOCUMENTS)
    assert "legacy-0" in house.owners(DOCUMENTS)


def test_the_small_embedder_is_one_space_a_name() -> None:
    """What the tests of spaces stand on."""
    assert HashEmbedder("other").space.space_id != HashEmbedder().space.space_id
    assert HashEmbedder().space.space_id == HashEmbedder().space.space_id
