"""Every kind of finding is planted alone and found alone; what can be mended is mended, what cannot fails and stays.

Method: a real Postgres and a real store, published by the real steps, then changed behind their back.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from content_house import CENTROIDS, DOCUMENTS, UNITS, ContentHouse, with_other_model
from hub_rows import add_document, add_unit, write_version
from threadhouse.retrieval.audit import REBUILDS, REWRITES, FindingKind
from threadhouse.retrieval.errors import SpaceMismatchError
from threadhouse.retrieval.models import Collection, Json
from threadhouse.stores.postgres import Database
from threadhouse.stores.repair import NOT_MENDED, plan_repair

PARAGRAPH = "Khách hàng được hoàn tiền trong bảy ngày. " * 40
STRANGER = "somebody_elses"

Payload = dict[str, Json]


@pytest.fixture
def house(database: Database, tmp_path: Path) -> ContentHouse:
    return built_house(ContentHouse(database, tmp_path))


def built_house(house: ContentHouse) -> ContentHouse:
    """Six units of up to three chunks, five legacy documents, one thread; published and clean."""
    with house.connect() as connection:
        add_document(connection, "document")
        for number in range(6):
            add_unit(
                connection,
                f"unit-{number}",
                "document",
                "\n\n".join([PARAGRAPH] * (1 + number % 3)),
            )
        for number in range(5):
            add_document(connection, f"legacy-{number}", body=f"{number} {PARAGRAPH * 6}")
    house.change(
        """insert into public.semantic_thread
           (thread_id, canonical_address, title, visibility, readiness, publication_state, risk_class, authority)
           values ('thread', 'T/1', 'Hoàn tiền', 'public', 'published', 'published', 'low', 'enacted')"""
    )
    house.change(
        "insert into public.thread_membership values ('thread', 'unit-0', 'canonical', 1, 'confirmed')"
    )
    house.publish()
    house.refresh_centroids()
    assert house.findings() == {}
    return house


def lose_a_chunk(house: ContentHouse) -> None:
    with house.writer() as store:
        pointer = house.pointers(UNITS)["unit-2"]
        assert pointer.chunk_count == 3
        store.delete(UNITS, [pointer.point_ids(UNITS)[1]])
        store.publish(UNITS)


def keep_an_old_version(house: ContentHouse) -> None:
    def forge(_: Payload, metadata: Payload) -> None:
        metadata["unit_version_id"] = str(uuid4())

    house.tamper(UNITS, "unit-0", forge, beside=True)


def keep_an_old_revision_of_a_document(house: ContentHouse) -> None:
    def forge(_: Payload, metadata: Payload) -> None:
        metadata["source_revision"] = 7

    house.tamper(DOCUMENTS, "legacy-0", forge, beside=True)


def keep_a_point_of_nobody(house: ContentHouse) -> None:
    def forge(_: Payload, metadata: Payload) -> None:
        metadata["logical_unit_id"] = "gone"
        metadata["unit_version_id"] = str(uuid4())

    house.tamper(UNITS, "unit-0", forge, beside=True)


def keep_an_old_title(house: ContentHouse) -> None:
    def forge(_: Payload, metadata: Payload) -> None:
        metadata["title"] = "Tên cũ"

    house.tamper(UNITS, "unit-3", forge)


def keep_an_old_title_of_a_thread(house: ContentHouse) -> None:
    def forge(_: Payload, metadata: Payload) -> None:
        metadata["title"] = "Tên cũ"

    house.tamper(CENTROIDS, "thread/customer", forge)


def widen_a_document(house: ContentHouse) -> None:
    house.change(
        "update public.production_document set visibility = 'employee' where document_id = 'legacy-1'"
    )
    house.publish()

    def forge(_: Payload, metadata: Payload) -> None:
        metadata["visibility"] = "public"

    house.tamper(DOCUMENTS, "legacy-1", forge)


def drop_a_flag(house: ContentHouse) -> None:
    def forge(_: Payload, metadata: Payload) -> None:
        metadata["readiness"] = None

    house.tamper(UNITS, "unit-4", forge)


def move_an_offset(house: ContentHouse) -> None:
    def forge(_: Payload, metadata: Payload) -> None:
        metadata["char_end"] = 12

    house.tamper(UNITS, "unit-5", forge)


def forge_a_hash(house: ContentHouse) -> None:
    def forge(_: Payload, metadata: Payload) -> None:
        metadata["content_hash"] = "0" * 64

    house.tamper(DOCUMENTS, "legacy-2", forge)


def point_at_too_many_chunks(house: ContentHouse) -> None:
    house.change(
        "update nao.vector_projection set chunk_count = chunk_count + 1 where owner_id = 'unit-1'"
    )


def point_at_other_content(house: ContentHouse) -> None:
    house.change(
        "update nao.vector_projection set content_digest = 'other' where owner_id = 'legacy-3'"
    )


PLANTED: list[tuple[Callable[[ContentHouse], None], Collection, FindingKind]] = [
    (lose_a_chunk, UNITS, FindingKind.MISSING),
    (keep_an_old_version, UNITS, FindingKind.STALE_VERSION),
    (keep_an_old_revision_of_a_document, DOCUMENTS, FindingKind.STALE_VERSION),
    (keep_a_point_of_nobody, UNITS, FindingKind.ORPHAN),
    (keep_an_old_title, UNITS, FindingKind.PAYLOAD_DRIFT),
    (keep_an_old_title_of_a_thread, CENTROIDS, FindingKind.PAYLOAD_DRIFT),
    (widen_a_document, DOCUMENTS, FindingKind.ACCESS_DRIFT),
    (drop_a_flag, UNITS, FindingKind.ACCESS_DRIFT),
    (move_an_offset, UNITS, FindingKind.BOUNDARY_VIOLATION),
    (forge_a_hash, DOCUMENTS, FindingKind.BOUNDARY_VIOLATION),
    (point_at_too_many_chunks, UNITS, FindingKind.POINTER_DRIFT),
    (point_at_other_content, DOCUMENTS, FindingKind.POINTER_DRIFT),
]


@pytest.mark.parametrize(
    ("plant", "collection", "kind"), PLANTED, ids=[case[0].__name__ for case in PLANTED]
)
def test_a_planted_fault_is_found_alone_and_mended(
    house: ContentHouse,
    plant: Callable[[ContentHouse], None],
    collection: Collection,
    kind: FindingKind,
) -> None:
    plant(house)
    assert house.findings() == {collection: {kind}}
    done = house.repair()
    assert house.findings() == {}
    assert done["texts_embedded"] == 0, "the cache knows every text"


def test_every_kind_is_planted_or_decided_about_by_a_person() -> None:
    planted = {kind for _, _, kind in PLANTED}
    assert planted | NOT_MENDED == set(FindingKind)
    assert planted >= REBUILDS | REWRITES


def test_a_repair_writes_no_more_than_what_is_wrong(house: ContentHouse) -> None:
    keep_an_old_title(house)
    done = house.repair()
    assert (done["points_written"], done["payloads_rewritten"], done["points_deleted"]) == (0, 1, 0)


def test_an_empty_payload_is_found_and_the_next_publish_mends_it(house: ContentHouse) -> None:
    """A point that lost its payload tells nobody who it belongs to: it is nobody's, and its owner lacks a chunk."""
    with house.writer() as store:
        store.overwrite_payloads(UNITS, [(house.pointers(UNITS)["unit-0"].point_ids(UNITS)[0], {})])
        store.publish(UNITS)
    assert house.findings() == {UNITS: {FindingKind.ORPHAN, FindingKind.MISSING}}
    house.publish()
    assert house.findings() == {}


@pytest.mark.parametrize("engine", ["memory", "edge"])
def test_many_faults_at_once_are_mended_together(
    database: Database, tmp_path: Path, engine: str
) -> None:
    house = built_house(ContentHouse(database, tmp_path, engine))
    # The first publishes, which would mend what was planted before.
    for plant in sorted((case[0] for case in PLANTED), key=lambda p: p is not widen_a_document):
        plant(house)
    found = house.findings()
    assert {kind for kinds in found.values() for kind in kinds} == {case[2] for case in PLANTED}
    house.repair()
    assert house.findings() == {}


def test_a_change_that_was_not_published_yet_is_found(house: ContentHouse) -> None:
    with house.connect() as connection:
        write_version(connection, "unit-0", "Mới.")
    found = house.findings()
    assert found[UNITS] == {FindingKind.STALE_VERSION, FindingKind.MISSING}
    assert CENTROIDS in found, "the centroid is of the old text"


def test_a_unit_that_was_never_published_is_missing(house: ContentHouse) -> None:
    with house.connect() as connection:
        add_unit(connection, "unit-new", "document", "Mới.")
    assert house.findings() == {UNITS: {FindingKind.MISSING}}


def test_another_model_is_one_finding_a_collection_and_nothing_else(house: ContentHouse) -> None:
    report = with_other_model(house).audit()
    assert {audit.collection: audit.counts for audit in report.collections} == {
        collection: {FindingKind.MODEL_MISMATCH: 1} for collection in Collection
    }


def test_another_model_is_never_mended_by_writing_over_it(house: ContentHouse) -> None:
    before = house.points(UNITS)
    with pytest.raises(SpaceMismatchError):
        with_other_model(house).repair()
    assert house.points(UNITS) == before


def test_an_unregistered_collection_fails_the_audit_and_is_never_dropped(
    house: ContentHouse,
) -> None:
    with house.writer() as store:
        physical = store.create_collection(STRANGER, house.inner.space)
        store.publish(physical)
    report = house.audit()
    assert not report.is_clean
    assert house.findings() == {physical: {FindingKind.UNREGISTERED_COLLECTION}}
    house.repair()
    assert house.findings() == {physical: {FindingKind.UNREGISTERED_COLLECTION}}
    assert [plan.left_to_people for plan in plan_repair(report)] == [1]


def test_a_collection_that_has_a_strange_alias_is_named_by_it(house: ContentHouse) -> None:
    with house.writer() as store:
        store.publish(store.ensure_collection(STRANGER, house.inner.space))
    assert house.findings() == {STRANGER: {FindingKind.UNREGISTERED_COLLECTION}}


def test_a_plan_says_what_a_repair_will_do_before_it_does_it(house: ContentHouse) -> None:
    lose_a_chunk(house)
    keep_an_old_title(house)
    keep_a_point_of_nobody(house)
    (plan,) = plan_repair(house.audit())
    assert (plan.rebuild, plan.rewrite, plan.strays, plan.left_to_people) == (1, 1, 1, 0)
    assert plan.render() == (
        "information_units: 1 owners to write again, 1 owners whose payloads are written again, "
        "1 orphaned or stale findings to clear"
    )


def test_an_audit_before_anything_was_built_finds_everything_missing(
    database: Database, tmp_path: Path
) -> None:
    house = ContentHouse(database, tmp_path)
    with house.connect() as connection:
        add_document(connection, "document")
        add_unit(connection, "unit", "document", "Nội dung.")
    assert house.findings() == {UNITS: {FindingKind.MISSING}}
