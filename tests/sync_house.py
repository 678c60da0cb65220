"""A hub whose changes are followed: documents, units, threads and packs, and whether all that is derived from them agrees.

Belongs here: making the hub, following it, one look at everything. Does not belong here: which changes, what they cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict, Unpack

from content_house import ContentHouse
from hub_rows import add_document, add_unit
from threadhouse.stores.change_log import (
    WaitingChanges,
    begin_reconcile,
    end_reconcile,
    read_waiting_changes,
)
from threadhouse.stores.change_sync import SyncReport, SyncStores, sync_changes
from threadhouse.stores.pack_checks import count_stale, find_leaks
from threadhouse.stores.pack_refresh import refresh_packs
from threadhouse.stores.postgres import Database


def add_thread(house: ContentHouse, thread_id: str, *unit_ids: str) -> None:
    house.change(
        """insert into public.semantic_thread
           (thread_id, canonical_address, title, visibility, readiness, publication_state, risk_class, authority)
           values (%s, %s, 'Hoàn tiền', 'public', 'published', 'published', 'low', 'enacted')""",
        thread_id,
        f"T/{thread_id}",
    )
    for unit_id in unit_ids:
        join(house, thread_id, unit_id)


def join(house: ContentHouse, thread_id: str, unit_id: str) -> None:
    house.change(
        "insert into public.thread_membership values (%s, %s, 'canonical', 1, 'confirmed')",
        thread_id,
        unit_id,
    )


def fill(house: ContentHouse) -> None:
    """Three documents of four units, a thread on each document, a thread across all, and ten legacy documents."""
    with house.connect() as connection:
        for letter in "abc":
            add_document(connection, letter)
            for number in range(4):
                add_unit(connection, f"{letter}{number}", letter, f"Nội dung {letter}{number}.")
        for number in range(10):
            add_document(connection, f"legacy-{number}", body=f"Văn bản cũ {number}.")
    for letter in "abc":
        add_thread(house, f"t/{letter}", f"{letter}0", f"{letter}1")
    add_thread(house, "across", "a0", "b0", "c0")


def build(house: ContentHouse) -> None:
    """What a night does with it, the position of the log included."""
    begin_reconcile(house.database, "night")
    house.publish(allowed_deletion_share=None)
    house.refresh_centroids()
    refresh_packs(house.database, house.inner.space.space_id)
    end_reconcile(house.database, "night")


def waiting(database: Database) -> WaitingChanges:
    with database.connect() as connection:
        return read_waiting_changes(connection)


def stores(house: ContentHouse) -> SyncStores:
    return SyncStores(house.database, house.writer, house.embedder(), house.home)


class FollowOptions(TypedDict, total=False):
    allowed_deletion_share: float | None
    portion_owners: int
    is_stopping: Callable[[], bool]
    on_step: Callable[[str], None]


def follow(house: ContentHouse, **options: Unpack[FollowOptions]) -> SyncReport:
    return sync_changes(stores(house), followed_by="test", **options)


def assert_agrees(house: ContentHouse, after: str = "") -> None:
    """Nothing is found, and a reconcile of everything has nothing to write."""
    assert_nothing_is_found(house, after)
    report = house.publish(allowed_deletion_share=None)
    assert (report.vector_writes, report.texts_embedded) == (0, 0), after
    assert house.refresh_centroids().vector_writes == 0, after
    assert refresh_packs(house.database, house.inner.space.space_id).written == 0, after


def assert_nothing_is_found(house: ContentHouse, after: str = "") -> None:
    """A clean audit of every collection, no stale pack, none of what is gone, none with what its lane may not see."""
    assert house.findings() == {}, after
    with house.database.connect() as connection:
        assert count_stale(connection) == 0, after
        assert find_leaks(connection) == [], after
    ghosts = "select thread_id from nao.thread_context_pack_cache except select thread_id from source.semantic_thread"
    assert house.rows(ghosts) == [], after
