"""A publish of what changed leaves the stores as a publish of everything would, and touches nothing else.

Method: a hub is built, one thing of it changes, and only what that change names is published, centred and packed. What the stores
then hold is compared with what a clone of the database gives when it is built from nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID

import numpy as np
import psycopg
import pytest
from psycopg.rows import TupleRow

from content_house import CENTROIDS, DOCUMENTS, UNITS, ContentHouse
from counting_embedder import HashEmbedder
from fixtures_postgres import new_database
from hub_rows import Connection, add_document, add_unit, write_version
from threadhouse.retrieval.errors import DeletionBrakeError, EmptySourceError
from threadhouse.retrieval.projection import DEFAULT_DELETION_SHARE, ContentScope
from threadhouse.stores.pack_refresh import refresh_packs
from threadhouse.stores.postgres import Database

PARAGRAPH = "Khách hàng được hoàn tiền trong bảy ngày. " * 30
SPACE = HashEmbedder().space.space_id
DOCUMENT_COUNT, THREAD_COUNT = 6, 4


def add_thread(connection: Connection, thread_id: str, *unit_ids: str) -> None:
    connection.execute(
        """insert into public.semantic_thread
           (thread_id, canonical_address, title, visibility, readiness, publication_state, risk_class, authority)
           values (%s, %s, 'Hoàn tiền', 'public', 'published', 'published', 'low', 'enacted')""",
        (thread_id, f"T/{thread_id}"),
    )
    for unit_id in unit_ids:
        connection.execute(
            "insert into public.thread_membership values (%s, %s, 'canonical', 1, 'confirmed')",
            (thread_id, unit_id),
        )


def build_hub(connection: Connection) -> None:
    """Six documents of three units each, and one of a single unit; four threads across them; six legacy documents."""
    for number in range(DOCUMENT_COUNT):
        add_document(connection, f"document-{number}", body=f"Cũ {number} {PARAGRAPH}")
        for part in range(3):
            body = "\n\n".join([f"{number} {part} {PARAGRAPH}"] * (1 + part))
            add_unit(connection, f"unit-{number}-{part}", f"document-{number}", body)
    add_document(connection, "document-single", body=f"Đơn {PARAGRAPH}")
    add_unit(connection, "unit-single", "document-single", PARAGRAPH)
    add_document(connection, "document-blank", body=f"Trống {PARAGRAPH}")
    add_unit(connection, "unit-blank", "document-blank", " ")
    for number in range(6):
        add_document(connection, f"legacy-{number}", body=f"{number} {PARAGRAPH * 4}")
    for number in range(THREAD_COUNT):
        members = [f"unit-{(number + step) % DOCUMENT_COUNT}-{step}" for step in range(3)]
        add_thread(connection, f"thread-{number}", *members)
    connection.execute(
        "insert into public.thread_membership values ('thread-0', 'unit-single', 'supporting', 1, 'confirmed')"
    )


def threads_of(house: ContentHouse) -> frozenset[str]:
    """Threads whose inputs have moved on since their packs were built, and threads that are gone."""
    return frozenset(
        row[0]
        for row in house.rows(
            """select thread_id from public.semantic_thread t full join nao.thread_pack_state s using (thread_id)
               where s.input_revision is distinct from t.input_revision"""
        )
    )


def sync(
    house: ContentHouse,
    scope: ContentScope,
    allowed_deletion_share: float | None = DEFAULT_DELETION_SHARE,
) -> None:
    """Publish, centre and pack exactly what a change names."""
    house.publish(scope=scope, allowed_deletion_share=allowed_deletion_share)
    threads = threads_of(house)
    house.refresh_centroids(threads)
    refresh_packs(house.database, SPACE, threads=threads)


def sync_everything(house: ContentHouse) -> None:
    house.publish()
    house.refresh_centroids()
    refresh_packs(house.database, SPACE)


State = dict[str, Any]


def state_of(house: ContentHouse) -> State:
    """Everything that the three steps build, without the times at which they did."""
    state: State = {}
    for collection in (UNITS, DOCUMENTS, CENTROIDS):
        with house.reader() as store:
            physical = store.resolve(collection)
            state[collection] = {
                point.point_id: (
                    point.payload,
                    np.round(np.asarray(point.dense), 6).tolist(),
                )
                for point in store.scroll(physical, with_vectors=True)
            }
        state[f"pointers of {collection}"] = house.pointers(collection)
    state["packs"] = house.rows(
        """select thread_id, lane, pack_id, input_revision, policy_version, pack::text
           from nao.thread_context_pack_cache order by thread_id, lane"""
    )
    state["owed"] = house.rows("select document_id from nao.projection_owed_document")
    return state


@contextmanager
def built_from_nothing(
    house: ContentHouse, server: Database, home: Path
) -> Generator[ContentHouse, None, None]:
    """A clone of the hub whose collections and packs are built from nothing."""
    name = house.rows("select current_database()")[0][0]
    with new_database(server, name) as cloned:
        other = ContentHouse(cloned, home)
        other.change("delete from nao.vector_projection")
        other.change("delete from nao.thread_context_pack_cache")
        other.change("delete from nao.thread_pack_state")
        sync_everything(other)
        yield other


@pytest.fixture
def house(database: Database, tmp_path: Path) -> ContentHouse:
    house = ContentHouse(database, tmp_path)
    with house.connect() as connection:
        build_hub(connection)
    sync_everything(house)
    return house


@dataclass(frozen=True)
class Change:
    """One thing that happens to a hub, and the owners that the change log names for it."""

    act: Callable[[Connection], object]
    units: frozenset[str] = field(default_factory=frozenset[str])
    documents: frozenset[str] = field(default_factory=frozenset[str])

    @property
    def scope(self) -> ContentScope:
        return ContentScope(self.units, self.documents)


def sql(statement: LiteralString) -> Callable[[Connection], object]:
    return lambda connection: connection.execute(statement)


def of_units(act: Callable[[Connection], object], *units: str) -> Change:
    return Change(act, units=frozenset(units))


def of_documents(act: Callable[[Connection], object], *documents: str) -> Change:
    return Change(act, documents=frozenset(documents))


CHANGES = {
    "a unit gets a shorter text": of_units(
        lambda c: write_version(c, "unit-2-2", "Ngắn."), "unit-2-2"
    ),
    "a unit gets a longer text and loses readers at once": of_units(
        lambda c: (
            write_version(c, "unit-2-0", f"Mới {PARAGRAPH}\n\n{PARAGRAPH}"),
            c.execute(
                "update public.tac_logical_unit set visibility = 'restricted' where logical_unit_id = 'unit-2-0'"
            ),
        ),
        "unit-2-0",
    ),
    "a unit is revoked": of_units(
        sql(
            "update public.tac_logical_unit set visibility = 'restricted' where logical_unit_id = 'unit-1-1'"
        ),
        "unit-1-1",
    ),
    "a document's flag changes for the units that inherit it": of_documents(
        sql(
            "update public.production_document set visibility = 'employee' where document_id = 'document-3'"
        ),
        "document-3",
    ),
    "a document is renamed": of_documents(
        sql(
            "update public.production_document set title = 'Tên mới', path = 'x.md' where document_id = 'document-3'"
        ),
        "document-3",
    ),
    "a legacy document changes": of_documents(
        sql(
            "update public.production_document set body = 'Mới ' || body where document_id = 'legacy-1'"
        ),
        "legacy-1",
    ),
    "a legacy document goes": of_documents(
        sql("delete from public.production_document where document_id = 'legacy-1'"), "legacy-1"
    ),
    "a legacy document gets its first unit": of_units(
        lambda c: add_unit(c, "unit-first", "legacy-2", PARAGRAPH), "unit-first"
    ),
    "a unit moves to another document": of_units(
        sql(
            "update public.tac_logical_unit set document_id = 'document-5' where logical_unit_id = 'unit-0-1'"
        ),
        "unit-0-1",
    ),
    "the only unit of a document moves away": of_units(
        sql(
            "update public.tac_logical_unit set document_id = 'document-5' where logical_unit_id = 'unit-single'"
        ),
        "unit-single",
    ),
    "the only unit of a document is deleted": of_units(
        sql("delete from public.tac_logical_unit where logical_unit_id = 'unit-single'"),
        "unit-single",
    ),
    "a unit of blank text, which has no point, is deleted": of_units(
        sql("delete from public.tac_logical_unit where logical_unit_id = 'unit-blank'"),
        "unit-blank",
    ),
    "a document goes with its units and the log names only it": of_documents(
        sql("delete from public.production_document where document_id = 'document-4'"),
        "document-4",
    ),
    "a unit gets another key": of_units(
        lambda c: c.execute(
            "update public.tac_logical_unit set logical_unit_id = 'unit-renamed' where logical_unit_id = 'unit-5-0'"
        ),
        "unit-5-0",
        "unit-renamed",
    ),
    "nothing changed": of_units(lambda _: None, "unit-0-0"),
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_publishing_what_changed_gives_what_building_everything_gives(
    house: ContentHouse, postgres_server: Database, tmp_path: Path, name: str
) -> None:
    change = CHANGES[name]
    before = outside(house, change)
    with house.connect() as connection:
        change.act(connection)
    sync(house, change.scope)
    assert outside(house, change) == before
    with built_from_nothing(house, postgres_server, tmp_path / "other") as other:
        assert state_of(house) == state_of(other)
    assert house.publish().vector_writes == 0


def outside(house: ContentHouse, change: Change) -> list[TupleRow]:
    """Pointers, with the time at which they were written, of owners that no change of a table here can reach."""
    prefix = "unit-1-0", "unit-2-1", "legacy-0"
    assert not change.units & set(prefix)
    return house.rows(
        "select owner_id, version_key, published_at from nao.vector_projection where owner_id = any (%s) order by 1",
        list(prefix),
    )


def test_a_revoke_in_a_scope_embeds_nothing_and_holds_before_anything_is_embedded(
    house: ContentHouse,
) -> None:
    with house.connect() as connection:
        write_version(connection, "unit-2-0", f"Mới {PARAGRAPH}")
        connection.execute(
            "update public.production_document set visibility = 'restricted' where document_id = 'document-3'"
        )
    seen: list[set[str | None]] = []

    def look(step: str) -> None:
        if step == "access":
            seen.append(
                {
                    m["visibility"]
                    for part in range(3)
                    for m in house.metadata(UNITS, f"unit-3-{part}")
                }
            )

    scope = ContentScope(frozenset({"unit-2-0"}), frozenset({"document-3"}))
    report = house.publish(look, scope=scope)
    assert seen == [{"restricted"}]
    assert report.texts_embedded == 1


def test_what_a_killed_run_left_of_an_owner_is_cleaned_up_by_the_next_scope_of_it(
    house: ContentHouse,
) -> None:
    def die(step: str) -> None:
        if step == "verified":
            raise KeyboardInterrupt

    with house.connect() as connection:
        write_version(connection, "unit-2-0", f"Mới {PARAGRAPH}")
    scope = ContentScope(frozenset({"unit-2-0"}))
    with pytest.raises(KeyboardInterrupt):
        house.publish(die, scope=scope)
    with house.connect() as connection:
        write_version(connection, "unit-2-0", "Mới hơn nữa.")
    house.publish(scope=scope)
    assert len(house.metadata(UNITS, "unit-2-0")) == 1


@pytest.mark.parametrize("step", ["access", "access_noted", "verified", "copies", "pointers"])
def test_a_document_whose_last_unit_left_is_not_forgotten_when_the_run_is_killed(
    house: ContentHouse, step: str
) -> None:
    def die(name: str) -> None:
        if name == step:
            raise KeyboardInterrupt

    house.change("delete from public.tac_logical_unit where logical_unit_id = 'unit-single'")
    scope = ContentScope(frozenset({"unit-single"}))
    with pytest.raises(KeyboardInterrupt):
        house.publish(die, scope=scope)
    house.publish(scope=scope)
    assert "document-single" in house.pointers(DOCUMENTS)
    assert house.rows("select document_id from nao.projection_owed_document") == []


def test_a_mass_deletion_in_small_portions_is_stopped(house: ContentHouse) -> None:
    house.change(
        "delete from public.tac_logical_unit where document_id in ('document-0', 'document-1')"
    )
    before = state_of(house)
    one = ContentScope(frozenset({"unit-0-0"}))
    with pytest.raises(DeletionBrakeError, match="6 of 20"):
        house.publish(scope=one)
    assert state_of(house) | {"packs": before["packs"], "owed": []} == before
    report = house.publish(scope=one, allowed_deletion_share=None)
    assert report.owners_retired == 1


def test_an_empty_source_is_no_order_to_delete_whatever_the_scope_says(house: ContentHouse) -> None:
    house.change("delete from public.production_document")
    with pytest.raises(EmptySourceError):
        house.publish(scope=ContentScope(frozenset({"unit-0-0"})), allowed_deletion_share=None)
    assert len(house.pointers(UNITS)) == 20


def test_a_scope_closes_only_the_quarantine_of_its_own_owners(house: ContentHouse) -> None:
    house.change(
        """insert into nao.quarantined_item (source, item_key, reason)
           values ('projection:information_units', 'unit-0-0', 'x'), ('projection:information_units', 'unit-5-0', 'x')"""
    )
    house.publish(scope=ContentScope(frozenset({"unit-0-0"})))
    assert house.rows("select item_key from nao.quarantined_item where resolved_at is null") == [
        ("unit-5-0",)
    ]


def test_scopes_of_an_hour_are_one_row_that_is_not_a_night(house: ContentHouse) -> None:
    nights = house.rows("select * from nao.build_step where step = 'content_vectors'")
    for text in ("Một.", "Hai."):
        with house.connect() as connection:
            write_version(connection, "unit-2-0", text)
        house.publish(scope=ContentScope(frozenset({"unit-2-0"})))
    assert house.rows("select * from nao.build_step where step = 'content_vectors'") == nights
    rows = house.rows(
        "select sum(texts_embedded), count(distinct step) from nao.build_step where step = 'changes:content_vectors'"
    )
    assert rows == [(2, 1)]


def test_an_empty_scope_does_nothing(house: ContentHouse) -> None:
    before = state_of(house)
    report = house.publish(scope=ContentScope())
    assert (report.vector_writes, report.owners_unchanged) == (0, 0)
    assert state_of(house) == before


def ids(house: ContentHouse) -> set[UUID]:
    return set(house.points(CENTROIDS))


def test_a_thread_that_is_gone_loses_its_centroids_and_packs_and_no_other_does(
    house: ContentHouse,
) -> None:
    before = ids(house)
    house.change("delete from public.semantic_thread where thread_id in ('thread-1', 'thread-2')")
    report = house.refresh_centroids(frozenset({"thread-1"}))
    assert report.deleted == len(before) // THREAD_COUNT
    assert refresh_packs(house.database, SPACE, threads=frozenset({"thread-1"})).deleted > 0
    left = {
        row[0] for row in house.rows("select distinct thread_id from nao.thread_context_pack_cache")
    }
    assert left == {"thread-0", "thread-2", "thread-3"}


def test_a_scope_without_any_thread_left_needs_the_word_of_a_person(house: ContentHouse) -> None:
    house.change("delete from public.semantic_thread")
    before = ids(house)
    with pytest.raises(DeletionBrakeError):
        house.refresh_centroids(frozenset({"thread-1"}))
    with pytest.raises(DeletionBrakeError):
        refresh_packs(house.database, SPACE, threads=frozenset({"thread-1"}))
    assert ids(house) == before


def test_packs_are_built_again_on_request_and_written_only_when_they_differ(
    house: ContentHouse,
) -> None:
    report = refresh_packs(house.database, SPACE, threads=frozenset({"thread-1"}), rebuild=True)
    assert (report.threads, report.threads_due, report.written) == (1, 1, 0)
    assert report.unchanged > 0


# --- many changes, one after the other ----------------------------------------------------------


def change_something(connection: Connection, draw: random.Random, number: int) -> None:
    """One change of a kind and of rows that are drawn."""
    units = _column(connection, "select logical_unit_id from public.tac_logical_unit order by 1")
    documents = _column(connection, "select document_id from public.production_document order by 1")
    unit, document = draw.choice(units), draw.choice(documents)
    visibility = draw.choice(["public", "partner", "employee", "restricted", None])
    match draw.randrange(9):
        case 0 | 1:
            write_version(connection, unit, f"Lần {number} " + PARAGRAPH * draw.randrange(3))
        case 2:
            connection.execute(
                "update public.tac_logical_unit set visibility = %s where logical_unit_id = %s",
                (visibility, unit),
            )
        case 3:
            connection.execute(
                "update public.production_document set visibility = %s where document_id = %s",
                (visibility, document),
            )
        case 4:
            connection.execute(
                "update public.tac_logical_unit set document_id = %s where logical_unit_id = %s",
                (document, unit),
            )
        case 5:
            connection.execute(
                "delete from public.tac_logical_unit where logical_unit_id = %s", (unit,)
            )
        case 6:
            add_unit(connection, f"unit-new-{number}", document, f"Mới {number} {PARAGRAPH}")
        case 7:
            connection.execute(
                "update public.production_document set body = %s where document_id = %s",
                (f"Lần {number} {PARAGRAPH}", document),
            )
        case _:
            connection.execute(
                """insert into public.thread_membership values ('thread-1', %s, 'supporting', 0.7, 'confirmed')
                   on conflict (thread_id, logical_unit_id) do update set status = 'rejected'""",
                (unit,),
            )


def _column(connection: Connection, statement: LiteralString) -> list[str]:
    return [row[0] for row in connection.execute(statement)]


def logged_since(house: ContentHouse, change_id: int) -> tuple[ContentScope, int]:
    """The owners that the change log names, and how far it goes."""
    rows = house.rows(
        "select change_id, table_name, row_key from nao.change_log where change_id > %s order by 1",
        change_id,
    )
    scope = ContentScope(
        frozenset(key for _, table, key in rows if table == "tac_logical_unit"),
        frozenset(key for _, table, key in rows if table == "production_document"),
    )
    return scope, rows[-1][0] if rows else change_id


@pytest.mark.parametrize("seed", range(4))
def test_following_drawn_changes_gives_what_building_everything_gives(
    house: ContentHouse, postgres_server: Database, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    _, position = logged_since(house, 0)
    for number in range(12):
        with house.connect() as connection:
            change_something(connection, draw, number)
        if draw.random() < 0.6:
            scope, position = logged_since(house, position)
            sync(house, scope, allowed_deletion_share=None)
    scope, position = logged_since(house, position)
    sync(house, scope, allowed_deletion_share=None)
    with built_from_nothing(house, postgres_server, tmp_path / "other") as other:
        assert state_of(house) == state_of(other)
    assert house.publish().vector_writes == 0
    assert house.refresh_centroids().vector_writes == 0


@pytest.mark.parametrize(
    "scope", [None, ContentScope(frozenset({"unit-0-0"}))], ids=["everything", "what changed"]
)
def test_a_source_that_cannot_be_read_is_no_order_to_delete(
    house: ContentHouse, scope: ContentScope | None
) -> None:
    """Units can be read and documents cannot: as with an attached database of which a part is away."""
    before = state_of(house)
    house.change("alter view source.production_document rename to away")
    with pytest.raises(psycopg.Error):
        house.publish(scope=scope, allowed_deletion_share=None)
    house.change("alter view source.away rename to production_document")
    assert state_of(house) == before
