"""What is derived follows each kind of change, alone and in any number, and nothing else is touched.

The order of the log has its own tests (test_change_log), a publish of a scope as well (test_projection).
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

import pytest

from content_house import CENTROIDS, DOCUMENTS, UNITS, ContentHouse
from hub_rows import add_document, add_unit, write_version
from sync_house import (
    add_thread,
    assert_agrees,
    build,
    fill,
    follow,
    join,
    stores,
    waiting,
)
from threadhouse.retrieval.errors import (
    DeletionBrakeError,
    EmptySourceError,
    StoreLockedError,
)
from threadhouse.stores.advisory_locks import advisory_lock
from threadhouse.stores.change_log import read_backlog
from threadhouse.stores.change_sync import SYNC_LOCK, SyncReport, sync_changes
from threadhouse.stores.postgres import Database


@pytest.fixture
def house(database: Database, tmp_path: Path) -> ContentHouse:
    """A hub after its first night."""
    house = ContentHouse(database, tmp_path)
    fill(house)
    build(house)
    return house


def left(house: ContentHouse) -> int:
    return waiting(house.database).changes


# --- kinds of change --------------------------------------------------------------------------


def new_text(house: ContentHouse) -> None:
    with house.connect() as connection:
        write_version(connection, "a0", "Nội dung mới.")


def old_text_again(house: ContentHouse) -> None:
    house.change(
        "update public.tac_logical_unit set current_version_id = (select unit_version_id from public.tac_unit_version"
        " where logical_unit_id = 'a0' and revision = 1) where logical_unit_id = 'a0'"
    )


def new_unit(house: ContentHouse) -> None:
    with house.connect() as connection:
        add_unit(connection, "a9", "a", "Điều khoản bổ sung.")


def unit_without_text(house: ContentHouse) -> None:
    with house.connect() as connection:
        write_version(connection, "a9", "   ")


def unit_deleted(house: ContentHouse) -> None:
    house.change("delete from public.tac_logical_unit where logical_unit_id = 'a9'")


def new_document(house: ContentHouse) -> None:
    with house.connect() as connection:
        add_document(connection, "new", body="Văn bản mới tinh.")


def units_take_a_document_over(house: ContentHouse) -> None:
    with house.connect() as connection:
        add_unit(connection, "n0", "new", "Điều một.")


def last_unit_leaves_a_document(house: ContentHouse) -> None:
    house.change(
        "update public.tac_logical_unit set document_id = 'b' where logical_unit_id = 'n0'"
    )


def unit_moves_with_its_rights(house: ContentHouse) -> None:
    house.change(
        "update public.production_document set visibility = 'employee' where document_id = 'b'"
    )
    house.change(
        "update public.tac_logical_unit set document_id = 'a' where logical_unit_id = 'b3'"
    )


def unit_renamed(house: ContentHouse) -> None:
    house.change(
        "update public.tac_logical_unit set logical_unit_id = 'a0-renamed' where logical_unit_id = 'a0'"
    )


def document_renamed(house: ContentHouse) -> None:
    house.change(
        "update public.production_document set document_id = 'c-renamed' where document_id = 'c'"
    )


def document_deleted(house: ContentHouse) -> None:
    house.change("delete from public.production_document where document_id = 'new'")


def title_of_a_document(house: ContentHouse) -> None:
    house.change("update public.production_document set title = 'Tên mới' where document_id = 'a'")


def revoke_of_a_unit(house: ContentHouse) -> None:
    house.change(
        "update public.tac_logical_unit set visibility = 'restricted' where logical_unit_id = 'a1'"
    )


def revoke_of_a_document(house: ContentHouse) -> None:
    house.change(
        "update public.production_document set publication_state = 'withdrawn' where document_id = 'a'"
    )


def grant_of_a_document(house: ContentHouse) -> None:
    house.change(
        "update public.production_document set publication_state = 'published' where document_id = 'a'"
    )


def new_member(house: ContentHouse) -> None:
    join(house, "across", "a2")


def member_changes_threads(house: ContentHouse) -> None:
    house.change(
        "update public.thread_membership set thread_id = 't/b' where thread_id = 'across' and logical_unit_id = 'a2'"
    )


def member_rejected(house: ContentHouse) -> None:
    house.change(
        "update public.thread_membership set status = 'rejected' where thread_id = 't/b' and logical_unit_id = 'b1'"
    )


def new_thread(house: ContentHouse) -> None:
    add_thread(house, "t/new", "a2", "b2")


def thread_renamed(house: ContentHouse) -> None:
    house.change(
        "update public.semantic_thread set thread_id = 't/renamed' where thread_id = 't/new'"
    )


def thread_retitled(house: ContentHouse) -> None:
    house.change(
        "update public.semantic_thread set title = 'Đổi tên' where thread_id = 't/renamed'"
    )


def thread_hidden(house: ContentHouse) -> None:
    house.change(
        "update public.semantic_thread set visibility = 'restricted' where thread_id = 't/renamed'"
    )


def thread_deleted(house: ContentHouse) -> None:
    house.change("delete from public.semantic_thread where thread_id = 't/renamed'")


def new_edge(house: ContentHouse) -> None:
    house.change(
        "insert into public.universal_edge values (%s, 'unit', 'a2', 'unit', 'b2', 'depends_on')",
        uuid4(),
    )


def new_label(house: ContentHouse) -> None:
    house.change("insert into public.vocabulary_label (label, language) values ('hoàn tiền', 'vi')")


def new_expectation(house: ContentHouse) -> None:
    house.change(
        "insert into public.expected_artifact_missing values ('across', 'test', 'Chưa có')"
    )


def new_health(house: ContentHouse) -> None:
    house.change(
        "insert into nao.health_signal (signal_id, thread_id, status) values (%s, 'across', 'stale')",
        uuid4(),
    )


LIFE = [
    (new_text, 1),
    (old_text_again, 0),
    (new_unit, 1),
    (unit_without_text, 0),
    (unit_deleted, 0),
    (new_document, 1),
    (units_take_a_document_over, 1),
    (last_unit_leaves_a_document, 0),
    (unit_moves_with_its_rights, 0),
    (unit_renamed, 0),
    (document_renamed, 0),
    (document_deleted, 0),
    (title_of_a_document, 0),
    (revoke_of_a_unit, 0),
    (revoke_of_a_document, 0),
    (grant_of_a_document, 0),
    (new_member, 0),
    (member_changes_threads, 0),
    (member_rejected, 0),
    (new_thread, 0),
    (thread_renamed, 0),
    (thread_retitled, 0),
    (thread_hidden, 0),
    (thread_deleted, 0),
    (new_edge, 0),
    (new_label, 0),
    (new_expectation, 0),
    (new_health, 0),
]


def test_each_kind_of_change_is_followed_and_only_new_texts_are_embedded(
    house: ContentHouse,
) -> None:
    """One hub lives through all of them, so that each meets what the earlier ones left."""
    for change, texts in LIFE:
        change(house)
        assert left(house) > 0, change.__name__
        report = follow(house)
        assert report.texts_embedded == texts, change.__name__
        assert left(house) == 0, change.__name__
        assert_agrees(house, change.__name__)
        again = follow(house)
        assert (again.changes, again.vector_writes, again.packs_written) == (0, 0, 0)


@pytest.mark.parametrize("portion_owners", [1, 3, 128])
def test_all_changes_at_once_come_out_the_same_in_portions_of_any_size(
    house: ContentHouse, portion_owners: int
) -> None:
    for change, _ in LIFE:
        change(house)
    follow(house, portion_owners=portion_owners)
    assert left(house) == 0
    assert_agrees(house)


# --- only what a change touches ---------------------------------------------------------------


def test_a_new_text_rewrites_its_unit_and_the_centroids_and_packs_of_its_threads(
    house: ContentHouse,
) -> None:
    packs = dict(
        house.rows("select thread_id || '/' || lane, built_at from nao.thread_context_pack_cache")
    )
    new_text(house)
    report = follow(house)
    assert (report.owners_published, report.centroids_written) == (1, 8), "two threads, four lanes"
    after = dict(
        house.rows("select thread_id || '/' || lane, built_at from nao.thread_context_pack_cache")
    )
    built = {key.rpartition("/")[0] for key in after if after[key] != packs.get(key)}
    assert built == {"t/a", "across"}


def test_many_changes_of_one_unit_are_one(house: ContentHouse) -> None:
    with house.connect() as connection:
        for number in range(20):
            write_version(connection, "a0", f"Bản nháp {number}.")
    report = follow(house)
    assert (report.changes, report.owners, report.texts_embedded) == (20, 1, 1)


def test_the_writer_is_not_opened_for_what_no_vector_is_made_from(house: ContentHouse) -> None:
    new_edge(house)
    new_health(house)

    def open_writer() -> NoReturn:
        pytest.fail("the writer was opened")

    report = sync_changes(replace(stores(house), open_writer=open_writer), followed_by="test")
    assert report.changes == 2
    assert_agrees(house)


# --- order ------------------------------------------------------------------------------------


def public_units(house: ContentHouse) -> set[str]:
    return {
        owner
        for owner in house.owners(UNITS)
        if all(found["visibility"] == "public" for found in house.metadata(UNITS, owner))
    }


def test_every_revoke_that_waits_holds_before_anything_is_embedded(house: ContentHouse) -> None:
    for letter in "abc":
        with house.connect() as connection:
            for number in range(3):
                write_version(connection, f"{letter}{number}", f"Mới {letter}{number}.")
    house.change(
        "update public.tac_logical_unit set visibility = 'restricted' where logical_unit_id = 'c3'"
    )
    house.change("delete from public.tac_logical_unit where logical_unit_id = 'c2'")
    embedded_when_revoked: list[int] = []

    def look(step: str) -> None:
        if step == "access: access":
            assert "c3" not in public_units(house)
            assert "c2" not in house.owners(UNITS)
            embedded_when_revoked.append(cached(house))

    before = cached(house)
    follow(house, portion_owners=2, on_step=look)
    assert embedded_when_revoked == [before]


def cached(house: ContentHouse) -> int:
    ((count,),) = house.rows("select count(*) from nao.embedding_cache")
    return count


def test_a_revoke_that_comes_during_a_long_backlog_holds_before_the_next_portion(
    house: ContentHouse,
) -> None:
    with house.connect() as connection:
        for letter in "abc":
            write_version(connection, f"{letter}0", f"Mới {letter}.")
    seen: dict[str, set[str]] = {}

    def interrupt(step: str) -> None:
        if step == "content 0: pointers":
            house.change(
                "update public.tac_logical_unit set visibility = 'restricted' where logical_unit_id = 'c3'"
            )
            house.change("delete from public.semantic_thread where thread_id = 't/b'")
        if step == "content 1: planned":
            seen["units"] = public_units(house)
            seen["threads"] = {key.rpartition("/")[0] for key in house.owners(CENTROIDS)}

    follow(house, portion_owners=1, on_step=interrupt)
    assert "c3" not in seen["units"]
    assert seen["threads"] == {"t/a", "t/c", "across"}
    assert left(house) == 4, "they stay in the log: a unit, a thread and its two members"
    follow(house)
    assert_agrees(house)


def test_asked_to_stop_it_ends_after_a_portion_and_the_position_stays(house: ContentHouse) -> None:
    with house.connect() as connection:
        for letter in "abc":
            write_version(connection, f"{letter}0", f"Mới {letter}.")
    before = read_backlog(house.database)
    report = follow(house, portion_owners=1, is_stopping=lambda: True)
    assert (report.is_finished, report.owners_published) == (False, 1)
    assert read_backlog(house.database).rows == before.rows
    assert follow(house).texts_embedded == 2, "what was done is not done again"
    assert_agrees(house)


# --- brakes and faults ------------------------------------------------------------------------


def test_a_mass_deletion_stops_with_a_sentence_and_leaves_the_position(house: ContentHouse) -> None:
    house.change("delete from public.tac_logical_unit where logical_unit_id like 'a_'")
    with pytest.raises(DeletionBrakeError, match="would delete 4 of 12"):
        follow(house)
    assert left(house) > 0
    assert {"a0", "a1", "a2", "a3"} <= house.owners(UNITS)
    report = follow(house, allowed_deletion_share=None)
    assert report.owners_retired == 4
    assert_agrees(house)


def test_a_mass_deletion_cut_into_portions_stops_as_well(house: ContentHouse) -> None:
    house.change("update public.tac_logical_unit set current_version_id = null")
    with pytest.raises(DeletionBrakeError):
        follow(house, portion_owners=1)
    assert len(house.owners(UNITS)) == 12


def test_emptied_tables_are_never_an_order_to_delete(house: ContentHouse) -> None:
    house.change("truncate public.production_document cascade")
    with pytest.raises((EmptySourceError, DeletionBrakeError)):
        follow(house)
    assert left(house) > 0
    assert len(house.owners(UNITS)) == 12
    assert len(house.owners(DOCUMENTS)) == 10


def test_an_emptied_table_of_members_is_a_reconcile_of_all_threads(house: ContentHouse) -> None:
    house.change("truncate public.thread_membership")
    report = follow(house)
    assert report.texts_embedded == 0
    assert house.owners(CENTROIDS) == set()
    assert_agrees(house)


def test_a_refused_unit_does_not_hold_the_others_up(house: ContentHouse) -> None:
    """A source view of somebody else's tables may hold any word."""
    house.change(
        "alter table public.tac_logical_unit drop constraint tac_logical_unit_risk_class_check"
    )
    house.change(
        "update public.tac_logical_unit set risk_class = 'unheard-of' where logical_unit_id = 'b3'"
    )
    new_text(house)
    report = follow(house)
    assert (report.quarantined, report.owners_published) == (1, 1)
    assert left(house) == 0
    house.change(
        "update public.tac_logical_unit set risk_class = 'low' where logical_unit_id = 'b3'"
    )
    assert follow(house).quarantined == 0
    assert_agrees(house)


def test_a_fault_leaves_the_position_and_the_next_run_does_only_the_rest(
    house: ContentHouse,
) -> None:
    with house.connect() as connection:
        for letter in "abc":
            write_version(connection, f"{letter}0", f"Mới {letter}.")

    def fail(step: str) -> None:
        if step == "content 1: verified":
            raise ConnectionError(step)

    with pytest.raises(ConnectionError):
        follow(house, portion_owners=1, on_step=fail)
    assert left(house) == 3
    assert follow(house).texts_embedded == 1
    assert_agrees(house)


def test_two_at_once_do_not_do_the_work_twice(house: ContentHouse) -> None:
    new_text(house)
    impatient = replace(house, database=replace(house.database, lock_timeout_s=0.2))
    with advisory_lock(house.database, SYNC_LOCK, "test"), ThreadPoolExecutor(1) as elsewhere:
        error = elsewhere.submit(follow, impatient).exception()
    assert isinstance(error, StoreLockedError)
    assert re.search(r"being followed by .*server process \d+", str(error))
    reports: list[SyncReport] = [follow(house), follow(house)]
    assert [report.texts_embedded for report in reports] == [1, 0]


# --- beginnings -------------------------------------------------------------------------------


def test_without_a_position_everything_is_compared_with_the_source_once(
    database: Database, tmp_path: Path
) -> None:
    house = ContentHouse(database, tmp_path)
    fill(house)
    first = follow(house)
    assert (first.was_everything, first.texts_embedded) == (True, 22)
    assert_agrees(house)
    second = follow(house)
    assert (second.was_everything, second.changes) == (False, 0)


def test_the_record_of_a_batch_says_who_when_and_how_much(house: ContentHouse) -> None:
    new_text(house)
    revoke_of_a_unit(house)
    report = follow(house)
    ((by, changes, in_order),) = house.rows(
        "select followed_by, changes, read_at <= access_at and access_at <= searchable_at from nao.change_batch"
        " where followed_by <> 'nightly'"
    )
    assert (by, changes, in_order) == ("test", report.changes, True)
    assert 0 < report.access_s <= report.searchable_s <= report.seconds
    assert report.oldest_wait_s >= report.searchable_s
    assert re.fullmatch(r"\d+\.\d{1,3}", str(report.to_json()["seconds"]))
