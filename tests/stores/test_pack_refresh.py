"""Packs follow what they were built from: what did not change is not even read, what may no longer be seen goes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from content_house import ContentHouse
from hub_rows import add_document, add_unit, write_version
from threadhouse.retrieval.errors import DeletionBrakeError
from threadhouse.retrieval.models import Audience, ThreadId
from threadhouse.stores.pack_checks import PackViolation, count_stale, find_leaks
from threadhouse.stores.pack_refresh import PackRefreshReport, refresh_packs
from threadhouse.stores.pack_store import PackStore
from threadhouse.stores.postgres import Database

SPACE = "space"
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


@pytest.fixture
def house(database: Database, tmp_path: Path) -> ContentHouse:
    """Two documents of two units, a thread on each; a unit of the first links to one of the second."""
    house = ContentHouse(database, tmp_path)
    with house.connect() as connection:
        for letter in "ab":
            add_document(connection, letter)
            for number in range(2):
                add_unit(
                    connection, f"unit-{letter}{number}", letter, f"Nội dung {letter}{number}."
                )
    add_thread(house, "ta", "unit-a0", "unit-a1")
    add_thread(house, "tb", "unit-b0")
    house.change(
        "insert into public.universal_edge values (%s, 'unit', 'unit-a0', 'unit', 'unit-b0', 'depends_on')",
        uuid4(),
    )
    refresh(house)
    return house


def refresh(house: ContentHouse) -> PackRefreshReport:
    return refresh_packs(house.database, SPACE)


def revoke(house: ContentHouse, unit_id: str, visibility: str = "employee") -> None:
    house.change(
        "update public.tac_logical_unit set visibility = %s where logical_unit_id = %s",
        visibility,
        unit_id,
    )


def lanes(house: ContentHouse, thread_id: str) -> set[str]:
    return {
        str(lane)
        for owner, lane in list(PackStore(house.database).keys(SPACE))
        if owner == thread_id
    }


def text_of(house: ContentHouse, thread_id: str, lane: Audience) -> str:
    """The whole stored pack as text, served or not."""
    rows = house.rows(
        "select pack::text from nao.thread_context_pack_cache where thread_id = %s and lane = %s",
        thread_id,
        lane,
    )
    return "".join(row[0] for row in rows)


def is_served(house: ContentHouse, thread_id: str, lane: Audience) -> bool:
    return PackStore(house.database).read_pack(ThreadId(thread_id), lane, SPACE).pack is not None


def leaks(house: ContentHouse) -> list[PackViolation]:
    with house.connect() as connection:
        return find_leaks(connection)


def test_every_thread_has_a_pack_for_every_lane_that_sees_it(house: ContentHouse) -> None:
    assert lanes(house, "ta") == lanes(house, "tb") == EVERYONE
    assert leaks(house) == []


def test_when_nothing_changed_no_thread_is_read(house: ContentHouse) -> None:
    report = refresh(house)
    assert (report.threads, report.threads_due, report.written, report.unchanged) == (2, 0, 0, 0)


def test_only_the_thread_that_changed_is_built_again(house: ContentHouse) -> None:
    with house.connect() as connection:
        write_version(connection, "unit-a1", "Văn bản mới.")
    report = refresh(house)
    assert (report.threads_due, report.written) == (1, 4)
    assert "Văn bản mới." in text_of(house, "ta", Audience.CUSTOMER)


def test_a_lane_that_loses_its_last_unit_loses_its_pack(house: ContentHouse) -> None:
    revoke(house, "unit-b0")
    refresh(house)
    assert lanes(house, "tb") == {"employee", "ai_agent"}
    assert leaks(house) == []


def test_a_thread_that_no_lane_sees_is_not_due_every_night(house: ContentHouse) -> None:
    revoke(house, "unit-b0", "restricted")
    refresh(house)
    assert lanes(house, "tb") == set()
    assert refresh(house).threads_due == 0


def test_a_revoke_in_another_thread_reaches_the_pack_that_shows_a_link_to_it(
    house: ContentHouse,
) -> None:
    assert "unit-b0" in text_of(house, "ta", Audience.CUSTOMER)
    revoke(house, "unit-b0")
    assert not is_served(house, "ta", Audience.CUSTOMER), "stale from the moment of the revoke"
    refresh(house)
    assert is_served(house, "ta", Audience.CUSTOMER)
    assert "unit-b0" not in text_of(house, "ta", Audience.CUSTOMER)
    assert "unit-b0" in text_of(house, "ta", Audience.EMPLOYEE)


def _set_visibility(house: ContentHouse, visibility: str) -> None:
    revoke(house, "unit-b0", visibility)


def _set_status(house: ContentHouse, status: str) -> None:
    house.change("update public.thread_membership set status = %s where thread_id = 'tb'", status)


@pytest.mark.parametrize("source", [("thread", "ta"), ("unit", "unit-a1"), ("document", "a")])
@pytest.mark.parametrize(
    ("change", "closed", "opened"),
    [(_set_visibility, "employee", "public"), (_set_status, "rejected", "confirmed")],
)
def test_what_happens_behind_a_linked_thread_reaches_the_pack_that_shows_the_link(
    house: ContentHouse,
    source: tuple[str, str],
    change: Callable[[ContentHouse, str], None],
    closed: str,
    opened: str,
) -> None:
    """Both ways: a pack that says too little for ever would be as stale as one that says too much."""
    house.change("delete from public.universal_edge")
    house.change(
        "insert into public.universal_edge values (%s, %s, %s, 'thread', 'tb', 'relates_to')",
        uuid4(),
        *source,
    )
    refresh(house)
    assert '"tb"' in text_of(house, "ta", Audience.CUSTOMER)
    for word, is_linked in ((closed, False), (opened, True)):
        change(house, word)
        assert not is_served(house, "ta", Audience.CUSTOMER), word
        refresh(house)
        assert is_served(house, "ta", Audience.CUSTOMER)
        assert ('"tb"' in text_of(house, "ta", Audience.CUSTOMER)) is is_linked


def test_a_change_reaches_no_thread_that_is_two_links_away(house: ContentHouse) -> None:
    house.change("delete from public.universal_edge")
    add_thread(house, "tc", "unit-b1")
    for source, target in (("ta", "tb"), ("tb", "tc")):
        house.change(
            "insert into public.universal_edge values (%s, 'thread', %s, 'thread', %s, 'relates_to')",
            uuid4(),
            source,
            target,
        )
    refresh(house)
    revoke(house, "unit-b1")
    assert is_served(house, "ta", Audience.CUSTOMER)
    assert not is_served(house, "tb", Audience.CUSTOMER)


def test_a_new_policy_version_builds_every_pack_again(house: ContentHouse) -> None:
    house.change(
        """insert into cong.audience_filter_policy
           select (jsonb_populate_record(p, '{"policy_version": 2}')).* from cong.audience_filter_policy p"""
    )
    assert not is_served(house, "ta", Audience.CUSTOMER)
    report = refresh(house)
    assert (report.threads_due, report.written) == (2, 8)
    assert is_served(house, "ta", Audience.CUSTOMER)


def test_another_vector_space_builds_every_pack_again(house: ContentHouse) -> None:
    assert refresh_packs(house.database, "other").threads_due == 2


def test_a_deleted_thread_loses_its_packs(house: ContentHouse) -> None:
    house.change("delete from public.semantic_thread where thread_id = 'tb'")
    assert refresh(house).deleted == 4
    assert lanes(house, "tb") == set()


def revision(house: ContentHouse, thread_id: str) -> int:
    return house.rows(
        "select input_revision from public.semantic_thread where thread_id = %s", thread_id
    )[0][0]


def come_back(house: ContentHouse, thread_id: str, unit_id: str, revision: int) -> None:
    """A thread of the same id with as many changes behind it as its namesake had."""
    add_thread(house, thread_id, unit_id)
    house.change(
        "update public.semantic_thread set input_revision = %s where thread_id = %s",
        revision,
        thread_id,
    )


def test_a_thread_that_comes_back_under_its_old_id_is_built_anew(house: ContentHouse) -> None:
    reached = revision(house, "tb")
    house.change("delete from public.semantic_thread where thread_id = 'tb'")
    refresh(house)
    come_back(house, "tb", "unit-b1", reached)
    refresh(house)
    assert lanes(house, "tb") == EVERYONE


def test_a_pack_of_a_namesake_is_never_served(house: ContentHouse) -> None:
    reached = revision(house, "tb")
    house.change("delete from public.semantic_thread where thread_id = 'tb'")
    come_back(house, "tb", "unit-b1", reached)
    assert not is_served(house, "tb", Audience.CUSTOMER)
    refresh(house)
    assert "Nội dung b1." in text_of(house, "tb", Audience.CUSTOMER)
    assert "Nội dung b0." not in text_of(house, "tb", Audience.CUSTOMER)


def test_an_empty_table_of_threads_deletes_no_pack(house: ContentHouse) -> None:
    house.change("truncate public.semantic_thread cascade")
    with pytest.raises(DeletionBrakeError):
        refresh(house)
    assert lanes(house, "ta") == EVERYONE


def forge_pack(house: ContentHouse, lane: Audience, **fields: str) -> None:
    """Change the first canonical unit of a stored pack behind everybody's back."""
    pack = json.loads(text_of(house, "tb", lane))
    pack["canonical_units"][0].update(fields)
    house.change(
        "update nao.thread_context_pack_cache set pack = %s where thread_id = 'tb' and lane = %s",
        Jsonb(pack),
        lane,
    )


def test_a_planted_unit_that_the_lane_may_not_see_is_a_leak(house: ContentHouse) -> None:
    revoke(house, "unit-a1", "employee")
    refresh(house)
    version = house.rows(
        "select unit_version_id::text from source.information_unit where logical_unit_id = 'unit-a1'"
    )[0][0]
    for lane in (Audience.CUSTOMER, Audience.EMPLOYEE):
        forge_pack(
            house,
            lane,
            logical_unit_id="unit-a1",
            canonical_address="unit-a1",
            unit_version_id=version,
        )
    assert leaks(house) == [PackViolation("tb", "customer", "unit-a1", "the lane may not see it")]


def test_a_planted_old_version_is_a_leak(house: ContentHouse) -> None:
    forge_pack(house, Audience.PARTNER, unit_version_id=str(uuid4()))
    assert leaks(house) == [
        PackViolation("tb", "partner", "unit-b0", "the version is not the live one")
    ]


def test_a_planted_unit_that_is_gone_is_a_leak(house: ContentHouse) -> None:
    forge_pack(house, Audience.PARTNER, logical_unit_id="gone")
    assert leaks(house) == [PackViolation("tb", "partner", "unit-b0", "the unit is gone")]


def test_a_stale_pack_is_no_leak_but_it_is_counted(house: ContentHouse) -> None:
    revoke(house, "unit-b0")
    assert leaks(house) == []
    with house.connect() as connection:
        assert count_stale(connection) == 8
