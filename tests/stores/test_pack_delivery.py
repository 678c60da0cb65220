"""What leaves is fresh, may be seen at that moment, and is counted exactly once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import LiteralString
from uuid import uuid4

import pytest

from delivery_house import (
    CUSTOMER,
    SPACE,
    T1,
    change,
    policy_of,
    query_event,
    read,
    rows,
    write_hub,
)
from fixtures_postgres import as_administrator
from threadhouse.retrieval.audience import FILTERED_FIELDS, VOCABULARY, AudiencePolicy
from threadhouse.retrieval.fallback import LEGACY_UNIT_KIND
from threadhouse.retrieval.gap_signals import GapKind, GapSignal
from threadhouse.retrieval.models import Audience, LifecycleStage
from threadhouse.retrieval.packs import KnownGap
from threadhouse.stores import pack_delivery, pack_store
from threadhouse.stores.pack_delivery import Leak, PackDelivery
from threadhouse.stores.pack_memory import KnownPack, PackMemory
from threadhouse.stores.postgres import Database


@pytest.fixture
def hub(database: Database) -> Database:
    write_hub(database, units=2)
    return database


@pytest.fixture
def delivery(hub: Database) -> PackDelivery:
    return PackDelivery(hub.connect)


def test_the_first_read_builds_and_the_second_is_stored(
    hub: Database, delivery: PackDelivery
) -> None:
    first, was_stored, _ = read(delivery)
    second, is_stored, _ = read(delivery)
    assert (was_stored, is_stored) == (False, True)
    assert first == second


def test_another_process_gets_the_pack_that_was_written_back(
    hub: Database, delivery: PackDelivery
) -> None:
    first, _, _ = read(delivery)
    second, is_stored, _ = read(PackDelivery(hub.connect))
    assert is_stored
    assert first == second


NEW_VERSION: LiteralString = """
with v as (insert into public.tac_unit_version (unit_version_id, logical_unit_id, revision, title, body)
           values (gen_random_uuid(), 'u1', 2, 'Điều 1', 'Nội dung mới') returning unit_version_id)
update public.tac_logical_unit set current_version_id = (select unit_version_id from v) where logical_unit_id = 'u1'
"""
NEW_POLICY: LiteralString = """
insert into cong.audience_filter_policy
select 2, audience, array_remove(visibility, 'public'), readiness, publication_state, risk_class, authority, lifecycle_stage
     , data_classification, permission_grants from cong.audience_filter_policy
"""


@pytest.mark.parametrize(
    ("statement", "shows"),
    [
        pytest.param(NEW_VERSION, lambda p: p.source_revisions["A/u1"] == 2, id="version"),
        pytest.param(
            "update public.tac_logical_unit set visibility = 'internal' where logical_unit_id = 'u1'",
            lambda p: "A/u1" not in p.source_revisions,
            id="flag",
        ),
        pytest.param(
            "update public.production_document set risk_class = 'standard' where document_id = 'd1'",
            lambda p: {u.risk_class for u in p.units()} == {"standard"},
            id="flag of a document",
        ),
        pytest.param(
            "insert into public.thread_membership values ('t1', 'x', 'supporting', 0.5, 'proposed')",
            lambda p: [u.canonical_address for u in p.supporting_units] == ["A/x"],
            id="membership",
        ),
        pytest.param(
            """insert into public.universal_edge (edge_id, source_kind, source_id, target_kind, target_id, edge_type)
               values (gen_random_uuid(), 'unit', 'u1', 'unit', 'x', 'implements')""",
            lambda p: len(p.related_design_code_links) == 1,
            id="edge",
        ),
        pytest.param(
            """insert into public.expected_artifact_missing (thread_id, lifecycle_stage, description)
               values ('t1', 'test', 'no test yet')""",
            lambda p: [gap.description for gap in p.known_gaps] == ["no test yet"],
            id="gap",
        ),
        pytest.param(
            "insert into nao.health_signal (signal_id, thread_id, status) values (gen_random_uuid(), 't1', 'stale')",
            lambda p: p.last_health_status.status == "stale",
            id="health",
        ),
        pytest.param(NEW_POLICY, lambda p: p is None, id="policy"),
        pytest.param(
            "update public.semantic_thread set title = 'Other' where thread_id = 't1'",
            lambda p: p.thread_title == "Other",
            id="thread",
        ),
    ],
)
def test_the_next_read_shows_a_change_of(
    hub: Database, delivery: PackDelivery, statement: LiteralString, shows: object
) -> None:
    read(delivery)
    assert read(delivery)[1], "the pack was not stored, so nothing is shown about staleness"
    change(hub, statement)
    pack, is_stored, _ = read(delivery)
    assert callable(shows)
    assert shows(pack)
    assert not is_stored


def test_the_next_read_shows_a_change_of_model(hub: Database, delivery: PackDelivery) -> None:
    read(delivery)
    pack, is_stored, stale = read(delivery, space_id="other")
    assert (is_stored, stale) == (False, ())
    assert pack is not None
    assert pack.built_from.space_id == "other"


def test_the_next_read_shows_a_change_of_code(
    hub: Database, delivery: PackDelivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(delivery)
    for module in (pack_delivery, pack_store):
        monkeypatch.setattr(module, "PACK_VERSION", "next")
    with delivery.begin() as out:
        assert out.stored_pack(T1, CUSTOMER, policy_of(hub), SPACE) == (None, ("code_version",))


READS = 2_000


def test_concurrent_readers_never_get_a_stale_pack(hub: Database) -> None:
    """A counter in a unit's text is committed by writers; a read that starts after a commit shows at least that number."""
    committed = 0
    done = threading.Event()
    failures: list[str] = []
    reads = 0
    lock = threading.Lock()

    def write() -> None:
        nonlocal committed
        for number in range(1, 151):
            with hub.connect() as connection:
                version = uuid4()
                connection.execute(
                    """insert into public.tac_unit_version (unit_version_id, logical_unit_id, revision, title, body)
                       values (%s, 'u1', %s, 'Điều 1', %s)""",
                    (version, number + 1, str(number)),
                )
                connection.execute(
                    "update public.tac_logical_unit set current_version_id = %s where logical_unit_id = 'u1'",
                    (version,),
                )
            committed = number
            time.sleep(random.random() * 0.04)
        done.set()

    def look(delivery: PackDelivery) -> None:
        nonlocal reads
        while not done.is_set() or reads < READS:
            least = committed
            pack, _, _ = read(delivery)
            assert pack is not None
            shown = pack.source_revisions["A/u1"] - 1
            with lock:
                reads += 1
                if shown < least:
                    failures.append(f"read {shown} after {least} was committed")

    with hub.pool(max_size=8) as pool:
        shared = PackDelivery(pool.connection)
        # Two readers share a memory, as threads of one service do; the third is another process's.
        readers = [
            threading.Thread(target=look, args=(each,))
            for each in (shared, shared, PackDelivery(pool.connection))
        ]
        writer = threading.Thread(target=write)
        for thread in (*readers, writer):
            thread.start()
        for thread in (*readers, writer):
            thread.join()
    assert failures == []
    assert reads >= READS


BEHIND_THE_TRIGGERS: LiteralString = "set local session_replication_role = replica"


def hide_behind_the_triggers(hub: Database) -> None:
    """A flag changes and nothing notices, as in an attached database without our triggers."""
    with as_administrator(hub).connect() as connection:
        connection.execute(BEHIND_THE_TRIGGERS)
        connection.execute(
            "update public.tac_logical_unit set visibility = 'internal' where logical_unit_id = 'u1'"
        )


@pytest.mark.parametrize("is_in_memory", [True, False])
def test_a_stored_pack_that_would_leak_is_stopped(
    hub: Database, delivery: PackDelivery, is_in_memory: bool
) -> None:
    read(delivery)
    hide_behind_the_triggers(hub)
    reader = delivery if is_in_memory else PackDelivery(hub.connect)
    with pytest.raises(Leak) as stopped:
        read(reader)
    assert stopped.value.unit_ids == ("u1",)


def test_a_stored_pack_is_stopped_by_the_database_alone(
    hub: Database, delivery: PackDelivery
) -> None:
    """A program that believes everything open is still asked by the database as the lane that it serves."""
    read(delivery)
    hide_behind_the_triggers(hub)
    everything = replace(
        policy_of(hub).lanes[Audience.CUSTOMER],
        **{name: VOCABULARY[name] for name in FILTERED_FIELDS},
    )
    believed = AudiencePolicy(1, {Audience.CUSTOMER: everything})
    with delivery.begin() as out, pytest.raises(Leak) as stopped:
        out.stored_pack(T1, CUSTOMER, believed, SPACE)
    assert stopped.value.unit_ids == ("u1",)


def test_a_unit_that_is_gone_behind_the_triggers_is_no_leak(
    hub: Database, delivery: PackDelivery
) -> None:
    read(delivery)
    with as_administrator(hub).connect() as connection:
        connection.execute(BEHIND_THE_TRIGGERS)
        connection.execute("delete from public.tac_logical_unit where logical_unit_id = 'u1'")
    pack, is_stored, stale = read(delivery)
    assert pack is not None
    assert "A/u1" not in pack.source_revisions
    assert (is_stored, stale) == (False, ("unit_version",))


def test_a_stopped_leak_is_reported_once_and_the_next_reader_is_served(
    hub: Database, delivery: PackDelivery
) -> None:
    read(delivery)
    hide_behind_the_triggers(hub)
    with pytest.raises(Leak) as stopped:
        read(delivery)
    query_id = uuid4()
    delivery.refuse(stopped.value, CUSTOMER, query_id)
    delivery.refuse(stopped.value, CUSTOMER, query_id)
    assert rows(hub, "select kind, subject, lane from nao.consumer_contract_log") == [
        ("wrong_audience_result", CUSTOMER.subject, "customer")
    ]
    assert rows(hub, "select kind, status from nao.governance_queue_item order by kind") == [
        ("governance", "open"),
        ("risk_review", "open"),
    ]
    assert rows(hub, "select kind, severity from nao.search_gap_signal") == [
        ("wrong_audience_result", "security")
    ]
    assert rows(hub, "select count(*) from nao.retrieval_metric_event") == [(0,)]
    pack, _, _ = read(delivery)
    assert pack is not None
    assert "A/u1" not in pack.source_revisions


def test_a_version_that_changed_behind_the_triggers_is_built_anew(
    hub: Database, delivery: PackDelivery
) -> None:
    read(delivery)
    with as_administrator(hub).connect() as connection:
        connection.execute(BEHIND_THE_TRIGGERS)
        connection.execute(NEW_VERSION)
    pack, is_stored, stale = read(delivery)
    assert (is_stored, stale) == (False, ("unit_version",))
    assert pack is not None
    assert pack.source_revisions["A/u1"] == 2


@pytest.mark.parametrize(
    "statement",
    [
        "update public.tac_logical_unit set visibility = 'internal' where logical_unit_id = 'u1'",
        "update public.semantic_thread set visibility = 'internal'",
        "update public.thread_membership set status = 'rejected' where logical_unit_id = 'u1'",
    ],
)
def test_a_built_pack_is_not_confirmed_after_a_right_was_taken_away(
    hub: Database, delivery: PackDelivery, statement: LiteralString
) -> None:
    built = delivery.build(T1, CUSTOMER, SPACE)
    assert built.pack is not None
    change(hub, statement)
    with delivery.begin() as out:
        assert not out.confirm(built.pack, CUSTOMER, built.policy)


@pytest.fixture
def linked_hub(hub: Database) -> Database:
    """Thread t1 points at thread t2, of which x is the only unit."""
    change(
        hub,
        """with t as (insert into public.semantic_thread (thread_id, canonical_address, title) values ('t2', 'T/2', 'Other'))
           insert into public.universal_edge (edge_id, source_kind, source_id, target_kind, target_id, edge_type)
           values (gen_random_uuid(), 'thread', 't1', 'thread', 't2', 'relates_to')""",
    )
    change(
        hub,
        """insert into public.thread_membership (thread_id, logical_unit_id, role, confidence, status)
           values ('t2', 'x', 'canonical', 1, 'confirmed')""",
    )
    return hub


WITHOUT_THE_OTHER_THREAD: tuple[LiteralString, ...] = (
    "update public.tac_logical_unit set visibility = 'internal' where logical_unit_id = 'x'",
    "update public.thread_membership set status = 'rejected' where thread_id = 't2'",
    "delete from public.thread_membership where thread_id = 't2'",
)


@pytest.mark.parametrize("statement", WITHOUT_THE_OTHER_THREAD)
def test_a_link_to_a_thread_that_is_no_longer_seen_is_gone_from_the_next_read(
    linked_hub: Database, delivery: PackDelivery, statement: LiteralString
) -> None:
    before, _, _ = read(delivery)
    assert before is not None
    assert [link.other_end_id for link in before.related_design_code_links] == ["t2"]
    change(linked_hub, statement)
    after, is_stored, stale = read(delivery)
    assert (is_stored, stale) == (False, ("input_revision",))
    assert after is not None
    assert after.related_design_code_links == ()
    assert read(delivery)[1]


@pytest.mark.parametrize("is_in_memory", [True, False])
def test_a_link_to_a_thread_that_was_closed_behind_the_triggers_is_gone_from_the_next_read(
    linked_hub: Database, delivery: PackDelivery, is_in_memory: bool
) -> None:
    """The last check finds it by itself, though the pack passes for fresh."""
    read(delivery)
    with as_administrator(linked_hub).connect() as connection:
        connection.execute(BEHIND_THE_TRIGGERS)
        connection.execute(WITHOUT_THE_OTHER_THREAD[0])
    after, is_stored, stale = read(delivery if is_in_memory else PackDelivery(linked_hub.connect))
    assert (is_stored, stale) == (False, ("links",))
    assert after is not None
    assert after.related_design_code_links == ()


def test_a_built_pack_with_a_link_that_may_not_be_seen_is_stopped(
    linked_hub: Database, delivery: PackDelivery
) -> None:
    built = delivery.build(T1, CUSTOMER, SPACE)
    assert built.pack is not None
    with as_administrator(linked_hub).connect() as connection:
        connection.execute(BEHIND_THE_TRIGGERS)
        connection.execute(WITHOUT_THE_OTHER_THREAD[0])
    with delivery.begin() as out, pytest.raises(Leak) as stopped:
        out.confirm(built.pack, CUSTOMER, built.policy)
    assert stopped.value.unit_ids == ("t2",)


def test_a_built_pack_with_a_gap_at_a_stage_that_may_not_be_seen_is_stopped(
    delivery: PackDelivery,
) -> None:
    built = delivery.build(T1, CUSTOMER, SPACE)
    assert built.pack is not None
    gap = KnownGap(lifecycle_stage=LifecycleStage.INCIDENT, description="No incident report yet")
    pack = built.pack.model_copy(update={"known_gaps": (gap,)})
    with delivery.begin() as out, pytest.raises(Leak) as stopped:
        out.confirm(pack, CUSTOMER, built.policy)
    assert stopped.value.unit_ids == ("incident",)


def test_no_unit_of_a_thread_passes_for_a_part_of_a_document(
    hub: Database, delivery: PackDelivery
) -> None:
    built = delivery.build(T1, CUSTOMER, SPACE)
    assert built.pack is not None
    change(
        hub,
        "update public.tac_logical_unit set visibility = 'internal' where logical_unit_id = 'x'",
    )
    stray = built.pack.canonical_units[0].model_copy(
        update={"logical_unit_id": "x", "unit_kind": LEGACY_UNIT_KIND}
    )
    pack = built.pack.model_copy(update={"supporting_units": (stray,)})
    with delivery.begin() as out, pytest.raises(Leak) as stopped:
        out.confirm(pack, CUSTOMER, built.policy)
    assert stopped.value.unit_ids == ("x",)


def test_an_event_is_written_once_however_often_its_query_is_tried(
    hub: Database, delivery: PackDelivery
) -> None:
    event = query_event()
    gap = GapSignal(GapKind.SEARCH_GAP, "customer/x", Audience.CUSTOMER)
    for expected in (1, 0):
        with delivery.begin() as out:
            assert out.write([event], gaps=[gap])() == expected
    assert rows(hub, "select count(*) from nao.retrieval_metric_event") == [(1,)]
    assert rows(hub, "select occurrence_count from nao.search_gap_signal") == [(1,)]


def test_a_cause_is_one_signal_that_counts_and_is_reopened(
    hub: Database, delivery: PackDelivery
) -> None:
    gap = GapSignal(GapKind.MISSING_THREAD, "customer/x", Audience.CUSTOMER)
    for _ in range(2):
        with delivery.begin() as out:
            out.write([query_event()], gaps=[gap])
    change(hub, "update nao.search_gap_signal set status = 'fixed'")
    with delivery.begin() as out:
        out.write([query_event()], gaps=[gap])
    statement = (
        "select occurrence_count, status, first_seen_at < last_seen_at from nao.search_gap_signal"
    )
    assert rows(hub, statement) == [(3, "reopened", True)]


_DELIVER_AND_DIE = """
import os, signal, sys
sys.path.insert(0, sys.argv[3])
from uuid import UUID
from delivery_house import CUSTOMER, SPACE, T1, policy_of, query_event
from threadhouse.stores.pack_delivery import PackDelivery
from threadhouse.stores.postgres import Database
database = Database(sys.argv[1], is_embedded=True)
delivery = PackDelivery(database.connect)
with delivery.begin() as out:
    built = delivery.build(T1, CUSTOMER, SPACE)
    out.write([query_event(UUID(sys.argv[2]))], built.pack)
    if sys.argv[4] == "before":
        os.kill(os.getpid(), signal.SIGKILL)
print(built.pack.pack_id)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("when", "count"), [("before", 0), ("after", 1)])
def test_a_process_that_dies_leaves_an_event_exactly_when_the_pack_left(
    hub: Database, delivery: PackDelivery, when: str, count: int
) -> None:
    event = query_event()
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            _DELIVER_AND_DIE,
            hub.conninfo,
            str(event.query_id),
            str(Path(__file__).parents[1]),
            when,
        ],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert run.returncode == -signal.SIGKILL, run.stderr.decode()
    assert rows(hub, "select count(*) from nao.retrieval_metric_event") == [(count,)]
    assert bool(run.stdout) == bool(count)
    # The consumer tries again under the same id: one event, whatever happened before.
    with delivery.begin() as out:
        out.write([event])
    assert rows(hub, "select count(*) from nao.retrieval_metric_event") == [(1,)]


def test_the_memory_forgets_the_packs_used_longest_ago(
    hub: Database, delivery: PackDelivery
) -> None:
    pack, _, _ = read(delivery)
    assert pack is not None
    memory = PackMemory(limit_chars=KnownPack.of(pack).text_chars)
    memory.put(KnownPack.of(pack))
    other = pack.model_copy(update={"thread_id": "t2"})
    memory.put(KnownPack.of(other))
    assert memory.get(T1, Audience.CUSTOMER) is None
    assert memory.get("t2", Audience.CUSTOMER) is not None  # pyright: ignore[reportArgumentType]
