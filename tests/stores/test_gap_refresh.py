"""The nightly look at gaps: states open and close theirs, each gap is routed once, and items follow their gap.

Method: a real Postgres; health and rates are written as the nightly writes them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest

from delivery_house import T1, change, rows, write_hub
from threadhouse.retrieval.gap_signals import GapKind, GapSignal, ReplayResult
from threadhouse.retrieval.models import Audience
from threadhouse.stores.gap_refresh import GapRefreshReport, refresh_gap_signals
from threadhouse.stores.gap_signals import (
    acknowledge_gap,
    close_after_replay,
    fix_gap,
    list_gaps,
    note_gap_signals,
)
from threadhouse.stores.postgres import Database
from threadhouse.stores.security_events import Occurrence, write_security_event

QUESTION = GapSignal(GapKind.MISSING_THREAD, "customer/q", Audience.CUSTOMER)


@pytest.fixture
def hub(database: Database) -> Database:
    write_hub(database, units=4)
    return database


def refresh(database: Database) -> GapRefreshReport:
    return refresh_gap_signals(database, "", ZoneInfo("UTC"), datetime.now(UTC))


def note(database: Database, *signals: GapSignal) -> UUID:
    with database.connect() as connection:
        note_gap_signals(connection, signals)
    return signals[0].signal_id


def fix(database: Database, signal_id: UUID, why: str = "mended") -> None:
    with database.connect() as connection:
        assert fix_gap(connection, signal_id, who="an", why=why)


def health(database: Database, lane: str, status: str) -> None:
    change(
        database,
        """insert into nao.health_signal (signal_id, thread_id, lane, status, observer, observed_at)
           values (gen_random_uuid(), 't1', %s, %s, 'threadhouse', clock_timestamp())""",
        lane,
        status,
    )


def gaps(database: Database) -> list[tuple[str, str, str, str, int]]:
    with database.connect() as connection:
        return sorted(
            (gap.kind, gap.lane or "", gap.status, gap.severity, gap.opening)
            for gap in list_gaps(connection)
        )


def items(database: Database) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"d3": [], "d5": [], "d37": [], "d4": []}
    for name, status in rows(
        database,
        """select 'd3', status from nao.health_signal where kind = 'gap'
           union all select 'd5', status from nao.decision_backlog_item
           union all select 'd37', status from nao.governance_queue_item
           union all select 'd4', status from nao.capability_intake_item
           order by 1, 2""",
    ):
        found[name].append(status)
    return found


def contents(database: Database) -> list[list[tuple[Any, ...]]]:
    return [
        rows(database, statement)
        for statement in (
            "select *, xmin::text from nao.search_gap_signal order by signal_id",
            "select *, xmin::text from nao.health_signal order by signal_id",
            "select *, xmin::text from nao.decision_backlog_item order by item_id",
            "select *, xmin::text from nao.governance_queue_item order by item_id",
            "select *, xmin::text from nao.capability_intake_item order by item_id",
            "select *, xmin::text from nao.gap_signal_change order by change_id",
        )
    ]


def miss(database: Database, description: str = "no test yet") -> None:
    change(
        database,
        "insert into public.expected_artifact_missing (thread_id, lifecycle_stage, description) values ('t1', 'test', %s)",
        description,
    )


def test_a_missing_artifact_is_a_gap_until_it_arrives(hub: Database) -> None:
    miss(hub)
    assert refresh(hub).opened == 1
    assert gaps(hub) == [("expected_artifact_missing", "", "open", "normal", 1)]
    change(hub, "update public.expected_artifact_missing set status = 'resolved'")
    assert refresh(hub).closed == 1
    assert gaps(hub) == [("expected_artifact_missing", "", "fixed", "normal", 1)]
    assert items(hub) == {"d3": ["resolved"], "d5": ["done"], "d37": ["closed"], "d4": []}
    assert rows(hub, "select closed_by, closing_reason from nao.governance_queue_item") == [
        ("threadhouse", "no longer so")
    ]
    change(hub, "update public.expected_artifact_missing set status = 'open'")
    refresh(hub)
    assert gaps(hub) == [("expected_artifact_missing", "", "reopened", "normal", 2)]
    assert items(hub) == {"d3": ["open"], "d5": ["open"], "d37": ["closed", "open"], "d4": []}


def test_what_is_fixed_in_words_only_is_reopened(hub: Database) -> None:
    miss(hub)
    refresh(hub)
    with hub.connect() as connection:
        (gap,) = list_gaps(connection)
    fix(hub, gap.signal_id)
    assert refresh(hub).opened == 1
    assert gaps(hub)[0][2] == "reopened"


def test_a_weak_thread_is_a_gap_of_the_lane_it_is_weak_for(hub: Database) -> None:
    health(hub, "customer", "weak")
    health(hub, "partner", "stale")
    refresh(hub)
    assert gaps(hub) == [("weak_thread", "customer", "open", "normal", 1)]
    health(hub, "customer", "healthy")
    refresh(hub)
    assert gaps(hub) == [("weak_thread", "customer", "fixed", "normal", 1)]


def test_a_thread_without_a_unit_is_a_gap_of_no_lane(hub: Database) -> None:
    change(hub, "update public.thread_membership set status = 'rejected'")
    refresh(hub)
    assert gaps(hub) == [("weak_thread", "", "open", "normal", 1)]
    change(hub, "update public.thread_membership set status = 'confirmed'")
    refresh(hub)
    assert gaps(hub) == [("weak_thread", "", "fixed", "normal", 1)]


def test_a_weak_thread_that_a_question_met_stays_open_until_the_thread_is_healthy(
    hub: Database,
) -> None:
    health(hub, "customer", "stale")
    note(hub, GapSignal(GapKind.WEAK_THREAD, "customer/t1", Audience.CUSTOMER, T1))
    refresh(hub)
    assert gaps(hub)[0][2] == "open"
    health(hub, "customer", "healthy")
    refresh(hub)
    assert gaps(hub)[0][2] == "fixed"


def test_reported_noise_is_a_gap_of_low_severity_until_the_health_says_the_same(
    hub: Database,
) -> None:
    health(hub, "customer", "healthy")
    change(
        hub,
        """insert into nao.retrieval_metric_aggregate (local_day, lane, thread_id, metric, numerator, denominator, rate)
           values ((now() at time zone 'UTC')::date, 'customer', 't1', 'noisy_context_rate', 2, 20, 0.1)""",
    )
    refresh(hub)
    assert gaps(hub) == [("noisy_thread", "customer", "open", "low", 1)]
    health(hub, "customer", "noisy_retrieval")
    refresh(hub)
    assert gaps(hub) == [("noisy_thread", "customer", "open", "normal", 1)]
    health(hub, "customer", "healthy")
    with hub.connect() as connection:
        (gap,) = list_gaps(connection)
    fix(hub, gap.signal_id, "units taken out")
    refresh(hub)
    assert gaps(hub)[0][2] == "fixed"  # what was reported before the fix does not open it again


def test_a_thread_that_is_gone_takes_its_gaps_with_it(hub: Database) -> None:
    health(hub, "customer", "weak")
    miss(hub)
    refresh(hub)
    change(hub, "delete from public.semantic_thread")
    assert refresh(hub).closed == 2
    assert {gap[2] for gap in gaps(hub)} == {"fixed"}


def test_questions_are_graver_the_more_often_they_are_met(hub: Database) -> None:
    for times, severity in ((1, "low"), (2, "normal"), (7, "high")):
        for _ in range(times):
            note(hub, QUESTION)
        refresh(hub)
        assert gaps(hub)[0][3] == severity


def test_every_gap_is_routed_once(hub: Database) -> None:
    note(hub, QUESTION)
    report = refresh(hub)
    assert (report.routed_health, report.routed_backlog, report.routed_governance) == (1, 1, 1)
    assert items(hub) == {"d3": ["open"], "d5": ["open"], "d37": ["open"], "d4": []}
    before = contents(hub)
    for _ in range(2):
        again = refresh(hub)
        assert (again.routed_health, again.routed_backlog, again.routed_governance) == (0, 0, 0)
    note_again = contents(hub)
    assert note_again == before


def test_many_runs_at_once_route_every_gap_once(hub: Database) -> None:
    signals = [
        GapSignal(GapKind.SEARCH_GAP, f"customer/{number}", Audience.CUSTOMER)
        for number in range(30)
    ]
    note(hub, *signals)
    miss(hub)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: refresh(hub), range(12)))
    assert items(hub) == {"d3": ["open"] * 31, "d5": ["open"] * 31, "d37": ["open"] * 31, "d4": []}
    assert rows(hub, "select count(*) from nao.gap_signal_change") == [(31,)]


def test_items_follow_their_gap_at_once(hub: Database) -> None:
    gap_id = note(hub, QUESTION)
    refresh(hub)
    with hub.connect() as connection:
        acknowledge_gap(connection, gap_id, who="binh", why="looking")
    assert items(hub) == {"d3": ["open"], "d5": ["acknowledged"], "d37": ["open"], "d4": []}
    fix(hub, gap_id, "thread made")
    assert items(hub) == {"d3": ["resolved"], "d5": ["done"], "d37": ["closed"], "d4": []}
    assert rows(hub, "select closed_by, closing_reason from nao.governance_queue_item") == [
        ("an", "thread made")
    ]
    with hub.connect() as connection:
        close_after_replay(connection, gap_id, ReplayResult(is_closed=False, summary="still none"))
    assert items(hub) == {"d3": ["open"], "d5": ["open"], "d37": ["closed", "open"], "d4": []}


def test_what_was_rejected_in_the_backlog_stays_rejected(hub: Database) -> None:
    gap_id = note(hub, QUESTION)
    refresh(hub)
    change(hub, "update nao.decision_backlog_item set status = 'rejected'")
    fix(hub, gap_id)
    note(hub, QUESTION)
    refresh(hub)
    assert items(hub)["d5"] == ["rejected"]


def test_a_question_that_recurs_and_finds_nothing_asks_for_a_capability_once(
    hub: Database,
) -> None:
    gap = GapSignal(GapKind.SEARCH_GAP, "customer/q", Audience.CUSTOMER)
    for _ in range(4):
        note(hub, gap)
    assert refresh(hub).routed_capabilities == 0
    note(hub, gap)
    assert refresh(hub).routed_capabilities == 1
    assert refresh(hub).routed_capabilities == 0
    assert rows(hub, "select capability, status from nao.capability_intake_item") == [
        ("find_what_is_there", "open")
    ]
    fix(hub, gap.signal_id)
    note(hub, gap)
    assert refresh(hub).routed_capabilities == 1
    assert items(hub)["d4"] == ["open"]


def test_an_empty_hub_lacks_no_capability(database: Database) -> None:
    gap = GapSignal(GapKind.SEARCH_GAP, "customer/q", Audience.CUSTOMER)
    for _ in range(9):
        note(database, gap)
    assert refresh(database).routed_capabilities == 0


def test_a_question_in_another_script_asks_for_a_capability_and_is_not_quoted(
    hub: Database,
) -> None:
    query_id = uuid4()
    change(
        hub,
        """insert into nao.retrieval_metric_event (event_id, occurred_at, type, query_id, lane, resolution_path, query_text)
           values (%(id)s, now(), 'query', %(id)s, 'customer', 'fallback', 'как вернуть деньги')""".replace(
            "%(id)s", "%s"
        ),
        query_id,
        query_id,
    )
    evidence = {"last_query_id": str(query_id)}
    note(
        hub,
        GapSignal(GapKind.MISSING_THREAD, "customer/q", Audience.CUSTOMER, evidence=evidence),
        GapSignal(
            GapKind.MISSING_THREAD,
            "customer/r",
            Audience.CUSTOMER,
            evidence={"last_query_id": "no"},
        ),
    )
    refresh(hub)
    (item,) = rows(hub, "select capability, title, evidence from nao.capability_intake_item")
    assert item[0] == "read_script"
    assert item[1].endswith("cyrillic")
    assert "деньги" not in str(item)


def test_a_security_event_is_neither_priced_nor_routed(hub: Database) -> None:
    leak = Occurrence("customer/t1", "q", "title", "lane:customer", "customer", "t1", None, {})
    with hub.connect() as connection:
        write_security_event(connection, leak)
    before = contents(hub)
    refresh(hub)
    assert contents(hub) == before


def test_a_gap_that_came_back_before_it_was_routed_has_one_open_item(hub: Database) -> None:
    gap_id = note(hub, QUESTION)
    refresh(hub)
    change(hub, "update nao.search_gap_signal set status = 'fixed'")
    note(hub, QUESTION)
    refresh(hub)
    assert items(hub)["d37"] == ["open"]
    fix(hub, gap_id)
    assert items(hub)["d37"] == ["closed"]


def test_a_state_that_lasts_is_not_counted_every_night(hub: Database) -> None:
    miss(hub)
    for _ in range(3):
        refresh(hub)
    with hub.connect() as connection:
        (gap,) = list_gaps(connection)
    assert (gap.occurrence_count, gap.last_seen_at - gap.first_seen_at) == (1, timedelta())
