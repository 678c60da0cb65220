"""What a night leaves behind for the report: costs, findings, and how long each revoke waited."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from content_house import ContentHouse
from hub_rows import add_document, add_unit
from threadhouse.stores.night_records import note_audits, note_packs_agree
from threadhouse.stores.postgres import Database

Wait = tuple[str, str, bool, bool]


@pytest.fixture
def house(database: Database, tmp_path: Path) -> ContentHouse:
    """Two documents with a unit each and a legacy document, published."""
    house = ContentHouse(database, tmp_path)
    with house.connect() as connection:
        for name in ("one", "two"):
            add_document(connection, f"doc-{name}")
            add_unit(connection, f"unit-{name}", f"doc-{name}", f"Text of {name}.")
        for number in range(5):
            add_document(connection, f"legacy-{number}", body=f"Body {number}.")
    house.publish()
    return house


def waits(house: ContentHouse) -> list[Wait]:
    """Collection, owner, whether the wait lies between the change and now, whether packs agreed."""
    return [
        tuple(row)
        for row in house.rows(
            "select collection, owner_id, vectors_agreed_at between changed_at and clock_timestamp()"
            ", packs_agreed_at is not null from nao.revocation_wait order by 1, 2"
        )
    ]


def changed_at(house: ContentHouse, table: str, key: str) -> datetime:
    """When the last access change of a row was made."""
    (row,) = house.rows(
        "select max(changed_at) from nao.change_log where table_name = %s and row_key = %s and lane = 'access'",
        table,
        key,
    )
    return row[0]


def hide_unit(house: ContentHouse, unit_id: str) -> None:
    house.change(
        "update public.tac_logical_unit set visibility = 'restricted' where logical_unit_id = %s",
        unit_id,
    )


def test_a_first_publish_takes_nothing_away(house: ContentHouse) -> None:
    assert waits(house) == []


def test_a_revoke_of_a_unit_waits_from_its_change_to_its_publish(house: ContentHouse) -> None:
    hide_unit(house, "unit-one")
    house.publish()
    assert waits(house) == [("information_units", "unit-one", True, False)]
    (stored,) = house.rows("select changed_at from nao.revocation_wait")
    assert stored[0] == changed_at(house, "tac_logical_unit", "unit-one")


def test_the_first_of_two_changes_starts_the_wait(house: ContentHouse) -> None:
    hide_unit(house, "unit-one")
    first = changed_at(house, "tac_logical_unit", "unit-one")
    house.change("update public.tac_logical_unit set risk_class = 'high'")
    house.publish()
    stored = house.rows("select changed_at from nao.revocation_wait where owner_id = 'unit-one'")
    assert stored == [(first,)]


def test_a_revoke_of_a_document_reaches_the_units_that_inherit_from_it(house: ContentHouse) -> None:
    house.change(
        "update public.tac_logical_unit set visibility = null where logical_unit_id = 'unit-one'"
    )
    house.publish()
    before = set(waits(house))
    house.change(
        "update public.production_document set visibility = 'restricted' where document_id in ('doc-one', 'legacy-1')"
    )
    house.publish()
    assert {owner for _, owner, *_ in set(waits(house)) - before} == {"legacy-1", "unit-one"}


def test_a_deleted_unit_waited_as_well(house: ContentHouse) -> None:
    house.change("delete from public.tac_logical_unit where logical_unit_id = 'unit-two'")
    house.publish(allowed_deletion_share=None)
    assert ("information_units", "unit-two", True, False) in waits(house)


def test_a_grant_is_no_revoke(house: ContentHouse) -> None:
    hide_unit(house, "unit-one")
    house.publish()
    house.change("delete from nao.revocation_wait")
    house.change("update public.tac_logical_unit set visibility = 'public'")
    house.publish()
    assert waits(house) == []


def test_packs_agree_only_with_what_vectors_knew_when_their_refresh_began(
    house: ContentHouse,
) -> None:
    hide_unit(house, "unit-one")
    house.publish()
    with house.connect() as connection:
        note_packs_agree(connection, seconds=3600)
    assert waits(house)[0][3] is False
    with house.connect() as connection:
        note_packs_agree(connection, seconds=0)
    assert waits(house)[0][3] is True


def test_every_step_says_what_it_cost(house: ContentHouse) -> None:
    (first, *rest) = house.rows(
        "select step, texts_embedded, vector_writes, seconds > 0 from nao.build_step"
    )
    assert rest == []
    assert first[0] == "content_vectors"
    assert first[1] > 0
    assert first[2] > 0
    assert first[3]


def test_an_audit_leaves_counts_and_no_names(house: ContentHouse) -> None:
    house.change("delete from nao.vector_projection where owner_id = 'unit-one'")
    audit = house.audit()
    note_audits(house.database, audit.collections)
    stored = {row[0]: row[1:] for row in house.rows("select * from nao.projection_audit")}
    assert set(stored) == {"information_units", "production_documents", "thread_centroids"}
    assert "unit-one" not in repr(stored)
    assert sum(stored["information_units"][-1].values()) > 0


def test_waits_of_more_than_a_year_ago_leave(house: ContentHouse) -> None:
    house.change(
        "insert into nao.revocation_wait values"
        " ('information_units', 'old', now() - interval '402 days', now() - interval '401 days', null)"
        ", ('information_units', 'kept', now() - interval '400 days', now() - interval '399 days', null)"
    )
    hide_unit(house, "unit-one")
    house.publish()
    assert [owner for _, owner, *_ in waits(house)] == ["kept", "unit-one"]
