"""The source of truth comes back as values, and what cannot be read is named instead of raised."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar
from uuid import UUID, uuid4

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from threadhouse.retrieval.audience import FILTERED_FIELDS, lane_principal
from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.lanes import outline_unit
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    Flags,
    HealthStatus,
    InformationUnit,
    LifecycleStage,
    PublicationState,
    Readiness,
    RiskClass,
    ThreadId,
    UnitId,
    Visibility,
)
from threadhouse.retrieval.packs import EndRef, ThreadDossier, build_pack
from threadhouse.stores.knowledge import UnreadableRow, open_knowledge
from threadhouse.stores.postgres import Database

DOCS = Path(__file__).parents[2] / "docs"
OPEN = Flags(
    Visibility.PUBLIC,
    Readiness.PUBLISHED,
    PublicationState.PUBLISHED,
    RiskClass.LOW,
    Authority.ENACTED,
)

T = TypeVar("T")


def write_hub(connection: Connection[TupleRow]) -> None:
    """Two threads that share a document; u1 public, u2 internal by a flag of its own, u3 in the other thread."""
    connection.execute(
        """insert into public.production_document
           (document_id, path, title, tags, body, language, visibility, readiness, publication_state, risk_class, authority)
           values ('d1', 'hr/leave.md', 'Nghỉ phép', '{hr,leave}', 'whole', 'vi'
                , 'public', 'published', 'published', 'low', 'enacted')"""
    )
    for name, visibility in (("u1", None), ("u2", "internal"), ("u3", None)):
        connection.execute(
            """insert into public.tac_logical_unit
               (logical_unit_id, document_id, canonical_address, unit_kind, lifecycle_stage, visibility)
               values (%s, 'd1', %s, 'law_unit', 'law', %s)""",
            (name, f"HR/{name}", visibility),
        )
        version = uuid4()
        connection.execute(
            """insert into public.tac_unit_version (unit_version_id, logical_unit_id, revision, title, body)
               values (%s, %s, 1, %s, %s)""",
            (version, name, f"Tiêu đề {name}", f"Nội dung {name}"),
        )
        connection.execute(
            "update public.tac_logical_unit set current_version_id = %s where logical_unit_id = %s",
            (version, name),
        )
    connection.execute(
        """insert into public.semantic_thread (thread_id, canonical_address, title, purpose, aliases, labels)
           values ('t1', 'T/1', 'Nghỉ phép', 'why', '{leave}', '{hr}'), ('t2', 'T/2', 'Other', '', '{}', '{}')"""
    )
    connection.execute(
        """insert into public.thread_membership (thread_id, logical_unit_id, role, confidence, status)
           values ('t1', 'u1', 'canonical', 1, 'confirmed'), ('t1', 'u2', 'supporting', 0.5, 'proposed')
                , ('t2', 'u3', 'canonical', 1, 'confirmed')"""
    )


def add_edge(connection: Connection[TupleRow], source: EndRef, target: EndRef) -> None:
    connection.execute(
        "insert into public.universal_edge values (%s, %s, %s, %s, %s, 'relates_to')",
        (uuid4(), source.kind, source.id, target.kind, target.id),
    )


def values(rows: Iterable[T | UnreadableRow]) -> list[T]:
    found = list(rows)
    assert [row for row in found if isinstance(row, UnreadableRow)] == []
    return [row for row in found if not isinstance(row, UnreadableRow)]


def faults(rows: Iterable[object]) -> list[tuple[str, str, str]]:
    return [
        (row.source, row.item.item_key, row.item.field)
        for row in rows
        if isinstance(row, UnreadableRow)
    ]


@pytest.fixture
def hub(database: Database) -> Database:
    with database.connect() as connection:
        write_hub(connection)
    return database


def test_units_come_with_effective_flags_in_order(hub: Database) -> None:
    with open_knowledge(hub) as knowledge:
        units = values(knowledge.units())
    assert [u.logical_unit_id for u in units] == ["u1", "u2", "u3"]
    assert units[0].flags == OPEN
    assert units[1].flags.visibility is Visibility.INTERNAL


def test_a_unit_comes_back_whole(hub: Database) -> None:
    with open_knowledge(hub) as knowledge:
        (unit,) = values(knowledge.units([UnitId("u1")]))
    assert (unit.title, unit.body, unit.revision) == ("Tiêu đề u1", "Nội dung u1", 1)
    assert (unit.path, unit.tags, unit.document_title) == (
        "hr/leave.md",
        ("hr", "leave"),
        "Nghỉ phép",
    )
    assert isinstance(unit.unit_version_id, UUID)
    assert unit.created_at.tzinfo is not None


def test_outlines_say_the_same_as_units(hub: Database) -> None:
    with open_knowledge(hub) as knowledge:
        assert values(knowledge.unit_outlines()) == [
            outline_unit(u) for u in values(knowledge.units())
        ]


def test_documents_threads_and_memberships_come_back(hub: Database) -> None:
    with open_knowledge(hub) as knowledge:
        (document,) = values(knowledge.documents())
        threads = values(knowledge.threads())
        memberships = values(knowledge.memberships([ThreadId("t1")]))
    assert (document.flags, document.has_units) == (OPEN, True)
    assert [(t.thread_id, t.aliases) for t in threads] == [("t1", ("leave",)), ("t2", ())]
    assert [(m.logical_unit_id, m.confidence) for m in memberships] == [("u1", 1.0), ("u2", 0.5)]


def test_two_streams_can_be_read_side_by_side(hub: Database) -> None:
    with open_knowledge(hub) as knowledge:
        pairs = list(zip(knowledge.units(), knowledge.units(), strict=True))
    assert all(a == b for a, b in pairs)
    assert len(pairs) == 3


def test_a_snapshot_does_not_see_what_is_written_after_it_began(hub: Database) -> None:
    with open_knowledge(hub) as knowledge:
        before = values(knowledge.threads())
        with hub.connect() as other:
            other.execute("update public.semantic_thread set title = 'new'")
        assert values(knowledge.threads()) == before


def test_a_foreign_word_is_named_and_the_rest_goes_on(hub: Database) -> None:
    with hub.connect() as connection:
        connection.execute(
            "alter table public.tac_logical_unit drop constraint tac_logical_unit_visibility_check"
        )
        connection.execute(
            "update public.tac_logical_unit set visibility = 'everyone' where logical_unit_id = 'u2'"
        )
    with open_knowledge(hub) as knowledge:
        units = list(knowledge.units())
        outlines = list(knowledge.unit_outlines())
        dossiers = list(knowledge.dossiers())
    fault = ("source.information_unit", "u2", "visibility")
    assert faults(units) == faults(outlines) == faults(dossiers) == [fault]
    assert [u.logical_unit_id for u in units if isinstance(u, InformationUnit)] == ["u1", "u3"]


def test_a_foreign_word_is_quoted(hub: Database) -> None:
    with hub.connect() as connection:
        connection.execute(
            "alter table public.thread_membership drop constraint thread_membership_role_check"
        )
        connection.execute(
            "update public.thread_membership set role = 'boss' where thread_id = 't2'"
        )
    with open_knowledge(hub) as knowledge:
        (row,) = [m for m in knowledge.memberships() if isinstance(m, UnreadableRow)]
    assert (row.item.item_key, row.item.field, row.item.raw) == ("t2/u3", "role", "boss")


@pytest.mark.parametrize("confidence", ["NaN", "1.5", "-0.1"])
def test_a_confidence_out_of_range_is_named(hub: Database, confidence: str) -> None:
    with hub.connect() as connection:
        connection.execute(
            "alter table public.thread_membership drop constraint thread_membership_confidence_check"
        )
        connection.execute(
            "update public.thread_membership set confidence = %s::float8 where thread_id = 't2'",
            (confidence,),
        )
    with open_knowledge(hub) as knowledge:
        assert faults(knowledge.memberships()) == [
            ("source.thread_membership", "t2/u3", "confidence")
        ]


def test_a_missing_flag_is_no_fault(hub: Database) -> None:
    with hub.connect() as connection:
        connection.execute("update public.production_document set readiness = null")
    with open_knowledge(hub) as knowledge:
        assert {u.flags.readiness for u in values(knowledge.units())} == {None}


def test_the_policy_in_force_is_the_highest_activated_version(hub: Database) -> None:
    with hub.connect() as connection:
        for version, when in ((2, "now()"), (3, "now() + interval '1 day'")):
            connection.execute(
                """insert into cong.audience_filter_policy
                   select %s, audience, visibility, readiness, publication_state, risk_class, authority, lifecycle_stage
                        , data_classification, permission_grants, now() + %s::interval
                   from cong.audience_filter_policy where policy_version = 1 and audience = 'customer'""",
                (version, "0" if when == "now()" else "1 day"),
            )
    with open_knowledge(hub) as knowledge:
        policy = knowledge.policy()
    assert (policy.version, set(policy.lanes)) == (2, {Audience.CUSTOMER})


def test_without_a_policy_nothing_can_be_read(hub: Database) -> None:
    with hub.connect() as connection:
        connection.execute("delete from cong.audience_filter_policy")
    with open_knowledge(hub) as knowledge, pytest.raises(ConfigurationError, match="no activated"):
        knowledge.policy()


def test_malformed_grants_are_said_in_one_sentence(hub: Database) -> None:
    with hub.connect() as connection:
        connection.execute("update cong.audience_filter_policy set permission_grants = '[1]'")
    with (
        open_knowledge(hub) as knowledge,
        pytest.raises(ConfigurationError, match="cannot be read"),
    ):
        knowledge.policy()


def test_the_documented_defaults_are_the_shipped_rows(database: Database) -> None:
    """docs/audience-filters.md is what an auditor reads; it must not differ from what runs."""
    with open_knowledge(database) as knowledge:
        policy = knowledge.policy()
    text = (DOCS / "audience-filters.md").read_text(encoding="utf-8")
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| `")
    ]
    defaults = {cells[0].strip("`"): cells[1:] for cells in lines if len(cells) == 5}
    grants = {cells[0].strip("`"): cells[1:] for cells in lines if len(cells) == 3}
    shipped = {
        name: [", ".join(sorted(getattr(policy.lanes[a], name))) for a in Audience]
        for name in FILTERED_FIELDS
    }
    documented = {
        name: [", ".join(sorted(cell.split(", "))) for cell in cells]
        for name, cells in defaults.items()
    }
    assert documented == shipped
    assert {
        name: {field: sorted(added.split(", "))} for name, (field, added) in grants.items()
    } == {
        name: {field: sorted(added) for field, added in fields.items()}
        for name, fields in policy.lanes[Audience.AI_AGENT].permission_grants.items()
    }


def test_only_the_ai_agent_has_permission_grants(database: Database) -> None:
    with open_knowledge(database) as knowledge:
        lanes = knowledge.policy().lanes
    assert [a for a, lane in lanes.items() if lane.permission_grants] == [Audience.AI_AGENT]


def dossier_of(hub: Database, thread_id: str = "t1") -> ThreadDossier:
    with open_knowledge(hub) as knowledge:
        dossier = knowledge.dossier(ThreadId(thread_id))
    assert dossier is not None
    return dossier


def test_a_dossier_has_everything_of_its_thread_and_nothing_of_another(hub: Database) -> None:
    with hub.connect() as connection:
        connection.execute(
            """insert into public.expected_artifact_missing (thread_id, lifecycle_stage, description)
               values ('t1', 'test', 'no test')"""
        )
    dossier = dossier_of(hub)
    assert set(dossier.units) == {"u1", "u2"}
    assert [gap.lifecycle_stage for gap in dossier.expected_artifacts] == [LifecycleStage.TEST]


def test_an_unknown_thread_has_no_dossier(hub: Database) -> None:
    with open_knowledge(hub) as knowledge:
        assert knowledge.dossier(ThreadId("nope")) is None


def test_dossiers_of_many_threads_come_in_batches(
    hub: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadhouse.stores.knowledge.THREADS_PER_BATCH", 1)
    with open_knowledge(hub) as knowledge:
        assert [d.thread.thread_id for d in values(knowledge.dossiers())] == ["t1", "t2"]


def test_the_latest_health_check_counts(hub: Database) -> None:
    with hub.connect() as connection:
        for status, day in (("stale", 1), ("healthy", 2)):
            connection.execute(
                """insert into nao.health_signal (signal_id, thread_id, status, observed_at)
                   values (%s, 't1', %s, make_timestamptz(2026, 5, %s, 0, 0, 0))""",
                (uuid4(), status, day),
            )
    health = dossier_of(hub).health
    assert {each.status for each in health.values()} == {HealthStatus.HEALTHY}
    assert set(health) == set(Audience)


def test_a_check_of_one_lane_is_the_latest_of_that_lane_alone(hub: Database) -> None:
    def state(lane: str | None, status: str, day: int) -> dict[Audience, HealthStatus]:
        with hub.connect() as connection:
            connection.execute(
                """insert into nao.health_signal (signal_id, thread_id, lane, status, observed_at)
                   values (%s, 't1', %s, %s, make_timestamptz(2026, 5, %s, 0, 0, 0))""",
                (uuid4(), lane, status, day),
            )
        return {of: health.status for of, health in dossier_of(hub).health.items()}

    everywhere = dict.fromkeys(Audience, HealthStatus.STALE)
    assert state(None, "stale", 1) == everywhere
    assert state("partner", "weak", 2) == everywhere | {Audience.PARTNER: HealthStatus.WEAK}
    assert state(None, "healthy", 3) == dict.fromkeys(Audience, HealthStatus.HEALTHY)


@pytest.mark.parametrize(("latest", "expected"), [("open", {"u1"}), ("resolved", set())])
def test_a_wrong_link_counts_until_it_is_resolved(
    hub: Database, latest: str, expected: set[str]
) -> None:
    with hub.connect() as connection:
        for status, day in (("open", 1), (latest, 2)):
            connection.execute(
                """insert into nao.health_signal (signal_id, thread_id, kind, status, logical_unit_id, observed_at)
                   values (%s, 't1', 'wrong_link', %s, 'u1', make_timestamptz(2026, 5, %s, 0, 0, 0))""",
                (uuid4(), status, day),
            )
    assert dossier_of(hub).wrong_links == expected


def test_edges_of_the_thread_its_units_and_their_documents_are_in_its_dossier(
    hub: Database,
) -> None:
    pairs = [
        (EndRef("unit", "u1"), EndRef("unit", "u3")),
        (EndRef("thread", "t2"), EndRef("thread", "t1")),
        (EndRef("document", "d1"), EndRef("document", "gone")),
    ]
    with hub.connect() as connection:
        for source, target in pairs:
            add_edge(connection, source, target)
        add_edge(connection, EndRef("unit", "u3"), EndRef("unit", "gone"))
    found = {(e.source_id, e.target_id) for e in dossier_of(hub).edges}
    assert found == {(source.id, target.id) for source, target in pairs}


def test_an_end_that_resolves_to_nothing_is_not_among_the_ends(hub: Database) -> None:
    refs = [EndRef("unit", "u1"), EndRef("unit", "gone"), EndRef("thread", "u1")]
    with open_knowledge(hub) as knowledge:
        assert set(knowledge.edge_ends(refs)) == {EndRef("unit", "u1")}


def test_a_document_and_a_thread_are_witnessed_by_their_units(hub: Database) -> None:
    document, thread = EndRef("document", "d1"), EndRef("thread", "t1")
    with open_knowledge(hub) as knowledge:
        ends = knowledge.edge_ends([document, thread])
    seen = {Visibility.PUBLIC, Visibility.INTERNAL}
    assert {labels.flags.visibility for labels in ends[document].witnesses} == seen
    assert {labels.flags.visibility for labels in ends[thread].witnesses} == seen


def test_a_document_without_units_is_witnessed_by_its_own_labels(hub: Database) -> None:
    with hub.connect() as connection:
        connection.execute(
            """insert into public.production_document (document_id, path, title, body, language, lifecycle_stage, visibility)
               values ('d2', 'x.md', 'x', 'x', 'en', 'code', 'employee')"""
        )
    with open_knowledge(hub) as knowledge:
        (end,) = knowledge.edge_ends([EndRef("document", "d2")]).values()
    assert [(w.lifecycle_stage, w.flags.visibility) for w in end.witnesses] == [
        (LifecycleStage.CODE, Visibility.EMPLOYEE)
    ]


def test_a_thread_whose_members_are_all_rejected_has_no_witness(hub: Database) -> None:
    with hub.connect() as connection:
        connection.execute("update public.thread_membership set status = 'rejected'")
    with open_knowledge(hub) as knowledge:
        (end,) = knowledge.edge_ends([EndRef("thread", "t1")]).values()
    assert end.witnesses == frozenset()


def test_a_foreign_word_takes_the_witness_away_but_not_the_end(hub: Database) -> None:
    with hub.connect() as connection:
        connection.execute(
            "alter table public.tac_logical_unit drop constraint tac_logical_unit_visibility_check"
        )
        connection.execute("update public.tac_logical_unit set visibility = 'everyone'")
    with open_knowledge(hub) as knowledge:
        (end,) = knowledge.edge_ends([EndRef("unit", "u1")]).values()
    assert end.witnesses == frozenset()


def test_a_customer_gets_a_pack_of_the_public_unit_alone(hub: Database) -> None:
    with open_knowledge(hub) as knowledge:
        policy = knowledge.policy()
    pack = build_pack(dossier_of(hub), lane_principal(Audience.CUSTOMER), policy, "space")
    assert pack is not None
    assert pack.source_revisions == {"HR/u1": 1}
