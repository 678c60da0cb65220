"""Packs are written when they differ, deleted when nobody may see them, and never served stale."""

from __future__ import annotations

from typing import LiteralString
from uuid import uuid4

import pytest

from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.errors import DeletionBrakeError
from threadhouse.retrieval.models import Audience, ThreadId
from threadhouse.retrieval.packs import ContextPack, ThreadDossier, build_pack
from threadhouse.stores.knowledge import open_knowledge
from threadhouse.stores.pack_store import BuiltPack, PackStore, PackWriteReport
from threadhouse.stores.postgres import Database

T1 = ThreadId("t1")
SPACE = "space"


@pytest.fixture
def hub(database: Database) -> Database:
    """One thread, one public unit: every lane sees it."""
    version = uuid4()
    with database.connect() as connection:
        connection.execute(
            """insert into public.production_document
               (document_id, path, title, body, language, visibility, readiness, publication_state, risk_class, authority)
               values ('d1', 'p', 'document', 'x', 'vi', 'public', 'published', 'published', 'low', 'enacted')"""
        )
        connection.execute(
            """insert into public.tac_logical_unit (logical_unit_id, document_id, canonical_address, unit_kind, lifecycle_stage)
               values ('u1', 'd1', 'A/1', 'law_unit', 'law')"""
        )
        connection.execute(
            """insert into public.tac_unit_version (unit_version_id, logical_unit_id, revision, title, body)
               values (%s, 'u1', 1, 'Điều 1', 'Nội dung')""",
            (version,),
        )
        connection.execute("update public.tac_logical_unit set current_version_id = %s", (version,))
        connection.execute(
            "insert into public.semantic_thread (thread_id, canonical_address, title) values ('t1', 'T/1', 'Thread')"
        )
        connection.execute(
            """insert into public.thread_membership (thread_id, logical_unit_id, role, confidence, status)
               values ('t1', 'u1', 'canonical', 1, 'confirmed')"""
        )
    return database


def change(database: Database, statement: LiteralString) -> None:
    with database.connect() as connection:
        connection.execute(statement)


def built_packs(database: Database) -> list[BuiltPack]:
    packs: list[BuiltPack] = []
    with open_knowledge(database) as knowledge:
        policy = knowledge.policy()
        for dossier in knowledge.dossiers():
            assert isinstance(dossier, ThreadDossier)
            for lane in Audience:
                pack = build_pack(dossier, lane_principal(lane), policy, SPACE)
                if pack is not None:
                    packs.append(BuiltPack(pack, 1.0))
    return packs


def rebuild(database: Database) -> PackWriteReport:
    return PackStore(database).replace_packs([T1], built_packs(database))


def read(database: Database, lane: Audience = Audience.CUSTOMER) -> ContextPack | None:
    return PackStore(database).read_pack(T1, lane, SPACE).pack


def test_a_pack_comes_back_as_it_was_written(hub: Database) -> None:
    (expected,) = [b.pack for b in built_packs(hub) if b.pack.lane is Audience.CUSTOMER]
    assert rebuild(hub) == PackWriteReport(written=4)
    assert read(hub) == expected


def test_a_second_build_writes_nothing(hub: Database) -> None:
    rebuild(hub)
    assert rebuild(hub) == PackWriteReport(unchanged=4)


def test_a_pack_whose_thread_was_only_touched_keeps_its_id_and_becomes_fresh_again(
    hub: Database,
) -> None:
    rebuild(hub)
    before = read(hub)
    change(hub, "update public.semantic_thread set input_revision = input_revision + 1")
    assert read(hub) is None
    assert rebuild(hub).written == 4
    after = read(hub)
    assert before is not None
    assert after is not None
    assert after.pack_id == before.pack_id


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("update public.tac_logical_unit set risk_class = 'standard'", "input_revision"),
        (
            """insert into cong.audience_filter_policy
               select 2, audience, visibility, readiness, publication_state, risk_class, authority, lifecycle_stage
                    , data_classification, permission_grants from cong.audience_filter_policy""",
            "policy_version",
        ),
        (
            "update nao.thread_context_pack_cache set code_version = '0', pack = '{}'",
            "code_version",
        ),
    ],
)
def test_a_stale_pack_is_not_served_and_says_why(
    hub: Database, statement: LiteralString, reason: str
) -> None:
    rebuild(hub)
    change(hub, statement)
    lookup = PackStore(hub).read_pack(T1, Audience.CUSTOMER, SPACE)
    assert (lookup.pack, lookup.stale) == (None, (reason,))


@pytest.mark.parametrize(
    "statement",
    [
        """update nao.thread_context_pack_cache set pack = jsonb_set(pack, '{purpose}', '"other words"')""",
        """update nao.thread_context_pack_cache c set pack = e.pack from nao.thread_context_pack_cache e
           where c.lane = 'customer' and e.lane = 'employee'""",
    ],
)
def test_a_row_that_does_not_hold_what_its_id_says_is_not_served(
    hub: Database, statement: LiteralString
) -> None:
    rebuild(hub)
    change(hub, statement)
    lookup = PackStore(hub).read_pack(T1, Audience.CUSTOMER, SPACE)
    assert (lookup.pack, lookup.stale) == (None, ("content",))


def test_a_pack_of_another_vector_space_is_not_served(hub: Database) -> None:
    rebuild(hub)
    lookup = PackStore(hub).read_pack(T1, Audience.CUSTOMER, "other")
    assert (lookup.pack, lookup.stale) == (None, ())


def test_an_absent_pack_says_what_it_would_be_built_from(hub: Database) -> None:
    lookup = PackStore(hub).read_pack(T1, Audience.CUSTOMER, SPACE)
    assert lookup.pack is None
    assert lookup.current is not None
    assert lookup.stale == ()


def test_an_unknown_thread_has_nothing(hub: Database) -> None:
    assert PackStore(hub).read_pack(ThreadId("nope"), Audience.CUSTOMER, SPACE).current is None


def test_a_lane_that_no_longer_sees_the_thread_loses_its_pack(hub: Database) -> None:
    rebuild(hub)
    change(hub, "update public.tac_logical_unit set visibility = 'internal'")
    report = rebuild(hub)
    assert (report.deleted, report.written) == (3, 1)
    assert list(PackStore(hub).keys(SPACE)) == [(T1, Audience.AI_AGENT)]


def test_a_pack_is_not_kept_when_its_thread_changed_while_it_was_built(hub: Database) -> None:
    slow = built_packs(hub)
    change(hub, "update public.tac_logical_unit set risk_class = 'standard'")
    newer = rebuild(hub)
    assert newer.written == 4
    assert PackStore(hub).replace_packs([T1], slow).outrun == 4
    assert read(hub) is not None


def test_a_pack_is_not_kept_when_its_thread_is_gone(hub: Database) -> None:
    slow = built_packs(hub)
    change(hub, "delete from public.semantic_thread")
    assert PackStore(hub).replace_packs([T1], slow) == PackWriteReport(outrun=4)


def test_packs_of_a_thread_that_is_gone_are_deleted(hub: Database) -> None:
    rebuild(hub)
    change(
        hub,
        "insert into public.semantic_thread (thread_id, canonical_address, title) values ('t2', 'T/2', 'Other')",
    )
    change(hub, "delete from public.semantic_thread where thread_id = 't1'")
    assert PackStore(hub).delete_packs_without_thread() == 4
    assert PackStore(hub).keys(SPACE) == {}


def test_an_empty_source_deletes_no_pack(hub: Database) -> None:
    rebuild(hub)
    change(hub, "delete from public.semantic_thread")
    with pytest.raises(DeletionBrakeError):
        PackStore(hub).delete_packs_without_thread()
    assert len(PackStore(hub).keys(SPACE)) == 4
    assert PackStore(hub).delete_packs_without_thread(allow_deletes=True) == 4


def test_a_batch_is_written_whole_or_not_at_all(hub: Database) -> None:
    change(
        hub,
        "alter table nao.thread_context_pack_cache add constraint no_agents check (lane <> 'ai_agent')",
    )
    from psycopg.errors import CheckViolation

    with pytest.raises(CheckViolation):
        rebuild(hub)
    assert PackStore(hub).keys(SPACE) == {}
