"""docs/thread-health.md and docs/gap-signals.md say what the shipped policy and the code have.

Method: a real Postgres with the shipped rows; the pages' tables are read cell by cell.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from delivery_house import rows
from threadhouse.retrieval.gap_signals import Capability, GapKind, Severity
from threadhouse.retrieval.models import HealthStatus
from threadhouse.retrieval.thread_health import PRECEDENCE, HealthFigure
from threadhouse.stores.postgres import Database
from threadhouse.stores.retrieval_policy import read_retrieval_policy
from threadhouse.stores.signal_policy import SignalPolicy, read_signal_policy

DOCS = Path(__file__).parents[2] / "docs"
HEALTH = (DOCS / "thread-health.md").read_text(encoding="utf-8")
GAPS = (DOCS / "gap-signals.md").read_text(encoding="utf-8")
OFFLINE_SPACE = "me5-small-q4-384-3fbd7fa203"


def table(page: str, heading: str) -> list[list[str]]:
    """Rows of the last table below a heading, backticks taken off the cells that are one word."""
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [
        [re.sub(r"^`([^`]+)`$", r"\1", cell.strip()) for cell in line.strip("|").split("|")]
        for line in lines[1:]
    ]


@pytest.fixture
def policy(database: Database) -> SignalPolicy:
    with database.connect() as connection:
        return read_signal_policy(connection, OFFLINE_SPACE)


def test_the_page_has_every_condition_with_its_numbers(policy: SignalPolicy) -> None:
    assert table(HEALTH, "Conditions") == [
        [
            each.name,
            each.status,
            each.figure,
            f"{each.enter:g}",
            f"{each.leave:g}",
            f"{each.min_observations or ''}",
        ]
        for each in policy.health.conditions
    ]


def test_other_spaces_have_the_same_conditions_but_the_cohesion(
    database: Database, policy: SignalPolicy
) -> None:
    with database.connect() as connection:
        elsewhere = read_signal_policy(connection, "another space")
    assert elsewhere.gaps == policy.gaps
    assert elsewhere.health.conditions == tuple(
        each for each in policy.health.conditions if each.figure is not HealthFigure.COHESION
    )


def test_the_page_has_every_figure_and_every_figure_has_a_condition(policy: SignalPolicy) -> None:
    assert [row[0] for row in table(HEALTH, "Figures")] == list(HealthFigure)
    assert {each.figure for each in policy.health.conditions} == set(HealthFigure)


def test_the_page_has_the_window_and_how_long_a_statement_holds(policy: SignalPolicy) -> None:
    text = " ".join(HEALTH.split())
    assert f"summed over {policy.health.window_days} local days" in text
    assert f"holds for {policy.health.statement_days} days whatever is measured" in text


def test_the_order_is_that_of_the_page_and_of_what_ranking_takes(database: Database) -> None:
    assert [row[1] for row in table(HEALTH, "Which status is told")] == list(PRECEDENCE)
    with database.connect() as connection:
        parts = read_retrieval_policy(connection, OFFLINE_SPACE).ranking.health_parts
    counted = [parts[status] for status in PRECEDENCE]
    assert counted == sorted(counted)
    assert parts[HealthStatus.HEALTHY] > counted[-1]


def test_the_page_has_every_kind_that_the_table_takes(database: Database) -> None:
    named = [row[0] for row in table(GAPS, "Kinds")]
    assert named == [*GapKind, "wrong_audience_result"]
    ((definition,),) = rows(
        database,
        """select pg_get_constraintdef(oid) from pg_constraint
           where conname = 'search_gap_signal_kind_check'""",
    )
    assert set(re.findall(r"'(\w+)'", definition)) == set(named)


def test_the_page_has_the_severities_and_their_numbers(policy: SignalPolicy) -> None:
    assert [row[0] for row in table(GAPS, "Severity")] == list(Severity)
    gaps = policy.gaps
    text = " ".join(GAPS.split())
    assert f"less than {gaps.normal_at} times" in text
    assert f"met {gaps.high_at} times or more |" in text
    assert f"{gaps.normal_at}, {gaps.high_at} and the {gaps.capability_at} below" in text
    assert f"met {gaps.capability_at} times or more, in a lane" in text


def test_the_page_has_every_capability_and_place(database: Database) -> None:
    found = table(GAPS, "Where each is routed")
    assert [row[0] for row in found if row[0] in set(Capability)] == list(Capability)
    places = [row[1] for row in found if re.match(r"D\d|Đ\d", row[0])]
    assert [re.findall(r"`(\w+)`", f"`{place}`")[0] for place in places] == [
        "health_signal",
        "decision_backlog_item",
        "governance_queue_item",
        "capability_intake_item",
    ]
    known = {
        name
        for (name,) in rows(database, "select tablename from pg_tables where schemaname = 'nao'")
    }
    assert known >= {"health_signal", "decision_backlog_item", "capability_intake_item"}
