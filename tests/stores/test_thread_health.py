"""Health of threads in Postgres: judged for each lane by what it sees, kept when it changes, silent when it does not.

Method: a real Postgres; daily rates are written as the warehouse writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from delivery_house import change, rows, write_hub
from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.gap_signals import GapKind, GapSignal
from threadhouse.retrieval.models import Audience, ThreadId
from threadhouse.stores.gap_signals import fix_gap, note_gap_signals
from threadhouse.stores.knowledge import open_knowledge
from threadhouse.stores.pack_refresh import refresh_packs
from threadhouse.stores.postgres import Database
from threadhouse.stores.signal_policy import read_signal_policy
from threadhouse.stores.thread_health import (
    HealthRefreshReport,
    latest_thread_health,
    refresh_thread_health,
)

ZONE = ZoneInfo("Asia/Ho_Chi_Minh")
OFFLINE_SPACE = "me5-small-q4-384-3fbd7fa203"
T1 = ThreadId("t1")


@pytest.fixture
def hub(database: Database) -> Database:
    """Thread t1 with four public units that are no enacted law and one more that only agents see."""
    write_hub(database, units=5)
    change(database, "update public.production_document set authority = 'runtime'")
    change(
        database,
        "update public.tac_logical_unit set visibility = 'internal' where logical_unit_id = 'u5'",
    )
    return database


def refresh(
    database: Database,
    now: datetime | None = None,
    cohesions: Mapping[tuple[ThreadId, Audience], float] | None = None,
    space: str = "",
) -> HealthRefreshReport:
    return refresh_thread_health(database, cohesions or {}, space, ZONE, now or datetime.now(UTC))


def told(database: Database) -> dict[str, str]:
    with database.connect() as connection:
        return {each.lane: each.status for each in latest_thread_health(connection)}


def noise(database: Database, lane: str, noisy: int, judged: int, days_ago: int = 0) -> None:
    change(
        database,
        """insert into nao.retrieval_metric_aggregate (local_day, lane, thread_id, metric, numerator, denominator, rate)
           values ((now() at time zone 'Asia/Ho_Chi_Minh')::date - %s::int, %s, 't1', 'noisy_context_rate', %s, %s, %s)
           on conflict (local_day, lane, thread_id, metric) do update set
             numerator = excluded.numerator, denominator = excluded.denominator, rate = excluded.rate""",
        days_ago,
        lane,
        noisy,
        judged,
        noisy / judged,
    )


def state(database: Database, status: str, days_ago: float) -> None:
    change(
        database,
        """insert into nao.health_signal (signal_id, thread_id, status, observed_at)
           values (gen_random_uuid(), 't1', %s, now() - %s * interval '1 day')""",
        status,
        days_ago,
    )


def history(database: Database) -> list[tuple[Any, ...]]:
    return rows(
        database, "select lane, status, observer from nao.health_signal order by observed_at, lane"
    )


def test_every_lane_that_sees_a_thread_is_told_its_health(hub: Database) -> None:
    report = refresh(hub)
    assert (report.checked, report.changed, report.by_status["healthy"]) == (4, 4, 4)
    assert told(hub) == dict.fromkeys(Audience, "healthy")


def test_a_second_night_writes_nothing_and_builds_no_pack_again(hub: Database) -> None:
    refresh(hub)
    refresh_packs(hub, "space")
    before = rows(hub, "select input_revision from public.semantic_thread")
    report = refresh(hub, datetime.now(UTC) + timedelta(days=1))
    assert (report.checked, report.changed) == (4, 0)
    assert rows(hub, "select input_revision from public.semantic_thread") == before
    assert refresh_packs(hub, "space").threads_due == 0


def test_a_change_reaches_the_pack_of_its_lane_and_no_other(hub: Database) -> None:
    refresh(hub)
    refresh_packs(hub, "space")
    noise(hub, "partner", 15, 20)
    assert refresh(hub).changed == 1
    assert refresh_packs(hub, "space").threads_due == 1
    packs = rows(
        hub,
        "select lane, pack -> 'last_health_status' ->> 'status' from nao.thread_context_pack_cache order by lane",
    )
    assert packs == [
        ("ai_agent", "healthy"),
        ("customer", "healthy"),
        ("employee", "healthy"),
        ("partner", "noisy_retrieval"),
    ]


def test_what_a_lane_does_not_see_makes_no_difference_to_it(hub: Database) -> None:
    """Agents see a fifth unit, which is old and doubtful: their health changes, that of the others does not."""
    refresh(hub)
    change(
        hub,
        "update public.tac_logical_unit set visibility = 'internal' where logical_unit_id in ('u2', 'u3', 'u4')",
    )
    change(
        hub, "update public.thread_membership set confidence = 0.3 where logical_unit_id <> 'u1'"
    )
    refresh(hub)
    assert told(hub) == {
        "ai_agent": "weak",
        "customer": "weak",
        "employee": "weak",
        "partner": "weak",
    }
    held = rows(
        hub,
        "select lane, evidence -> 'held' from nao.health_signal where status = 'weak' order by lane",
    )
    assert held == [
        ("ai_agent", ["low_confidence"]),
        ("customer", ["few_units"]),
        ("employee", ["few_units"]),
        ("partner", ["few_units"]),
    ]


def test_a_lanes_check_is_the_same_whatever_is_hidden_from_it(hub: Database) -> None:
    """Hidden units, their doubts and news, what is missing at hidden stations, questions of others: not one figure moves."""

    def evidence() -> list[tuple[Any, ...]]:
        change(hub, "delete from nao.health_signal")
        refresh(hub, now)
        return rows(
            hub,
            "select lane, status, evidence from nao.health_signal where lane <> 'ai_agent' order by lane",
        )

    now = datetime.now(UTC) + timedelta(days=400)
    change(hub, "update public.thread_membership set confidence = 0.9 where logical_unit_id = 'u5'")
    before = evidence()
    assert [row[1] for row in before] == ["stale"] * 3
    change(
        hub,
        "update public.thread_membership set confidence = 0.01, role = 'supporting' where logical_unit_id = 'u5'",
    )
    change(
        hub,
        "update public.tac_logical_unit set lifecycle_stage = 'code' where logical_unit_id = 'u5'",
    )
    change(
        hub,
        "insert into public.expected_artifact_missing (thread_id, lifecycle_stage, description) values ('t1', 'incident', 'x')",
    )
    noise(hub, "ai_agent", 30, 30, days_ago=-400)
    assert evidence() == before


def test_a_lane_without_a_unit_of_a_thread_is_told_nothing_of_it(hub: Database) -> None:
    change(hub, "update public.tac_logical_unit set visibility = 'internal'")
    state(hub, "stale", 1)
    refresh(hub)
    assert set(told(hub)) == {"ai_agent"}
    with hub.connect() as connection:
        assert latest_thread_health(connection, lane=Audience.CUSTOMER) == []


def test_a_status_does_not_flap_while_its_rate_wavers_in_the_band(hub: Database) -> None:
    refresh(hub)
    noise(hub, "customer", 12, 20)
    assert refresh(hub).changed == 1
    for noisy in (5, 9, 6, 10, 5):  # lower ends .11 to .30, between leave .1 and beyond enter .25
        noise(hub, "customer", noisy, 20)
        assert refresh(hub).changed == 0
    noise(hub, "customer", 1, 20)
    assert refresh(hub).changed == 1
    assert told(hub)["customer"] == "healthy"


def test_reports_end_with_their_window(hub: Database) -> None:
    refresh(hub)
    noise(hub, "customer", 15, 20, days_ago=27)
    refresh(hub)
    assert told(hub)["customer"] == "noisy_retrieval"
    refresh(hub, datetime.now(UTC) + timedelta(days=1))
    assert told(hub)["customer"] == "healthy"


def test_a_fix_begins_the_window_anew(hub: Database) -> None:
    noise(hub, "customer", 15, 20)
    refresh(hub)
    gap = GapSignal(GapKind.NOISY_THREAD, "customer/t1", Audience.CUSTOMER, T1)
    with hub.connect() as connection:
        note_gap_signals(connection, [gap])
        assert fix_gap(connection, gap.signal_id, who="an", why="units taken out")
    refresh(hub)
    assert told(hub)["customer"] == "healthy"


def test_an_operators_statement_holds_until_its_days_are_over(hub: Database) -> None:
    refresh(hub)
    noise(hub, "customer", 15, 20)
    state(hub, "healthy", 0)
    report = refresh(hub)
    assert (report.changed, report.stated, told(hub)["customer"]) == (0, 4, "healthy")
    noise(hub, "customer", 15, 20, days_ago=-28)
    late = refresh(hub, datetime.now(UTC) + timedelta(days=28, minutes=1))
    assert late.stated == 0
    assert told(hub)["customer"] == "noisy_retrieval"


def test_a_statement_older_than_the_last_check_changes_nothing(hub: Database) -> None:
    refresh(hub)
    state(hub, "weak", 3)
    assert refresh(hub).changed == 0
    assert told(hub)["customer"] == "healthy"


def test_a_statement_that_somebody_loads_is_in_force_at_once(hub: Database) -> None:
    refresh(hub)
    state(hub, "stale", 0)
    assert told(hub) == dict.fromkeys(Audience, "stale")
    with open_knowledge(hub) as knowledge:
        dossier = knowledge.dossier(T1)
    assert dossier is not None
    assert {each.status.value for each in dossier.health.values()} == {"stale"}


def test_an_unused_thread_goes_stale_and_use_brings_it_back(hub: Database) -> None:
    future = datetime.now(UTC) + timedelta(days=366)
    refresh(hub, future)
    assert told(hub)["customer"] == "stale"
    noise(hub, "customer", 0, 1, days_ago=-366)
    refresh(hub, future)
    assert (told(hub)["customer"], told(hub)["partner"]) == ("healthy", "stale")


@pytest.mark.parametrize("role", ["canonical", "supporting"])
def test_a_thread_of_enacted_texts_is_never_stale(hub: Database, role: str) -> None:
    change(hub, "update public.production_document set authority = 'enacted'")
    change(hub, "update public.thread_membership set role = %s", role)
    refresh(hub, datetime.now(UTC) + timedelta(days=4_000))
    assert told(hub) == dict.fromkeys(Audience, "healthy")


def test_an_enacted_text_beside_canonical_drafts_does_not_keep_them_fresh(hub: Database) -> None:
    change(
        hub, "update public.tac_logical_unit set authority = 'enacted' where logical_unit_id = 'u1'"
    )
    change(
        hub, "update public.thread_membership set role = 'supporting' where logical_unit_id = 'u1'"
    )
    refresh(hub, datetime.now(UTC) + timedelta(days=4_000))
    assert told(hub) == dict.fromkeys(Audience, "stale")


def test_cohesion_is_judged_only_in_the_space_it_was_measured_in(hub: Database) -> None:
    cohesions = {(T1, Audience.AI_AGENT): 0.1}
    refresh(hub, cohesions=cohesions)
    assert told(hub)["ai_agent"] == "healthy"
    refresh(hub, cohesions=cohesions, space=OFFLINE_SPACE)
    assert (told(hub)["ai_agent"], told(hub)["customer"]) == ("overbroad", "healthy")


def test_missing_stages_count_as_far_as_a_lane_may_know_of_them(hub: Database) -> None:
    for stage in ("design", "test", "report", "incident"):
        change(
            hub,
            "insert into public.expected_artifact_missing (thread_id, lifecycle_stage, description) values ('t1', %s, 'x')",
            stage,
        )
    refresh(hub)
    coverage = dict(
        rows(
            hub,
            "select lane, (evidence #>> '{figures,coverage,value}')::float from nao.health_signal where lane is not null",
        )
    )
    # Incidents are for agents with a permission of their own, so that no lane by itself knows of the fourth.
    assert coverage["ai_agent"] == 0.25
    assert told(hub)["customer"] == "too_narrow"


def test_two_runs_at_once_write_one_check(
    hub: Database, make_database: Callable[[], Database]
) -> None:
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: refresh(hub), range(4)))
    assert sum(report.changed for report in reports) == 4
    assert len(history(hub)) == 4


def test_history_is_kept(hub: Database) -> None:
    refresh(hub)
    noise(hub, "customer", 15, 20)
    refresh(hub)
    noise(hub, "customer", 0, 20)
    refresh(hub)
    assert [each[1] for each in history(hub) if each[0] == "customer"] == [
        "healthy",
        "noisy_retrieval",
        "healthy",
    ]


@pytest.mark.parametrize(
    ("conditions", "sentence"),
    [
        (
            '{"x": {"status": "weak", "figure": "unit_count", "enter": 2, "leave": 2}}',
            "every night",
        ),
        (
            '{"x": {"status": "healthy", "figure": "unit_count", "enter": 2, "leave": 3}}',
            "healthy is",
        ),
        ('{"x": {"status": "weak", "figure": "luck", "enter": 2, "leave": 3}}', "x.figure"),
    ],
)
def test_a_policy_that_makes_no_sense_is_one_sentence(
    database: Database, conditions: str, sentence: str
) -> None:
    change(
        database,
        """insert into cong.signal_policy (policy_version, space_id, window_days, statement_days, conditions, gaps)
           select 9, '', 28, 28, %s::jsonb, gaps from cong.signal_policy where space_id = '' and policy_version = 1""",
        conditions,
    )
    with (
        database.connect() as connection,
        pytest.raises(ConfigurationError, match=r"version 9.*corrected version") as error,
    ):
        read_signal_policy(connection, "")
    assert sentence in str(error.value)
    change(database, "delete from cong.signal_policy")
    with (
        database.connect() as connection,
        pytest.raises(ConfigurationError, match="no activated row"),
    ):
        read_signal_policy(connection, "")
