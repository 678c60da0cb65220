"""Security events: written whole, counted by no metric, closed with who and why, and kept.

Method: a real Postgres; events are written as the last check and the leak probe write them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import psycopg
import pytest

from delivery_house import change, rows
from threadhouse.retrieval.errors import ConfigurationError, SecurityEventUnknownError
from threadhouse.retrieval.health_report import render_html, render_markdown
from threadhouse.retrieval.leak_canaries import PathOutcome, ProbeReport
from threadhouse.retrieval.models import Audience
from threadhouse.serving.leak_probe import report_faults
from threadhouse.stores.health_figures import collect_health_figures
from threadhouse.stores.postgres import Database
from threadhouse.stores.security_events import (
    Occurrence,
    SecurityEvent,
    close_security_event,
    list_security_events,
    read_security_event,
    write_security_event,
)


def happen(database: Database, cause: str = "customer/t1", occasion: str | None = None) -> UUID:
    occurrence = Occurrence(
        cause=cause,
        occasion=occasion or str(uuid4()),
        title="A pack held what customer may not see",
        subject="lane:customer",
        lane="customer",
        thread_id="t1",
        pack_id=uuid4(),
        evidence={"unit_ids": ["u1"], "query_id": "q"},
    )
    with database.connect() as connection:
        return write_security_event(connection, occurrence)


def close(database: Database, event: UUID, who: str = "an", why: str = "label mended") -> int:
    with database.connect() as connection:
        return close_security_event(connection, event, who=who, why=why)


def events(database: Database, *, open_only: bool = False) -> list[SecurityEvent]:
    with database.connect() as connection:
        return list_security_events(connection, open_only=open_only)


def test_one_occurrence_writes_log_governance_and_risk_review(database: Database) -> None:
    event = happen(database)
    with database.connect() as connection:
        record = read_security_event(connection, event)
    assert [(i.kind, i.status) for i in record.items] == [
        ("governance", "open"),
        ("risk_review", "open"),
    ]
    assert [(e.subject, e.lane) for e in record.entries] == [("lane:customer", "customer")]
    assert record.event.is_open
    assert record.event.evidence["unit_ids"] == ["u1"]


def test_the_same_cause_again_is_another_occurrence_and_queues_nothing_twice(
    database: Database,
) -> None:
    event = happen(database)
    assert happen(database) == event
    with database.connect() as connection:
        record = read_security_event(connection, event)
    assert (record.event.occurrence_count, len(record.items), len(record.entries)) == (2, 2, 2)


def test_closing_keeps_who_and_why_and_closing_again_changes_nothing(database: Database) -> None:
    event = happen(database)
    assert close(database, event) == 2
    closed = events(database)
    assert close(database, event, who="binh", why="another reason") == 0
    assert events(database) == closed
    assert (closed[0].closed_by, closed[0].closing_reason, closed[0].is_open) == (
        "an",
        "label mended",
        False,
    )
    assert events(database, open_only=True) == []


@pytest.mark.parametrize(
    ("who", "why"), [("", "why"), ("who", " \n"), ("​", "why"), ("a", "x" * 2001)]
)
def test_closing_needs_who_and_why(database: Database, who: str, why: str) -> None:
    event = happen(database)
    with pytest.raises(ConfigurationError, match="who closes it and why"):
        close(database, event, who, why)
    assert events(database)[0].is_open


def test_closing_what_is_not_there_says_so(database: Database) -> None:
    with pytest.raises(SecurityEventUnknownError, match="threadhouse security list"):
        close(database, uuid4())


def test_a_cause_that_comes_back_opens_the_event_again_and_keeps_its_history(
    database: Database,
) -> None:
    event = happen(database)
    close(database, event)
    happen(database)
    with database.connect() as connection:
        record = read_security_event(connection, event)
    assert record.event.is_open
    assert [(i.status, i.closed_by) for i in record.items] == [
        ("closed", "an"),
        ("closed", "an"),
        ("open", None),
        ("open", None),
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "update nao.governance_queue_item set closing_reason = 'nothing happened'",
        "update nao.governance_queue_item set status = 'open', closed_at = null, closed_by = null, closing_reason = null",
        "delete from nao.governance_queue_item",
        "truncate nao.governance_queue_item",
        "update nao.consumer_contract_log set subject = 'somebody else'",
        "delete from nao.consumer_contract_log",
        "truncate nao.consumer_contract_log",
    ],
)
def test_the_record_can_be_neither_changed_nor_removed(database: Database, statement: str) -> None:
    close(database, happen(database))
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="audit trail"):
        change(database, statement)  # pyright: ignore[reportArgumentType]


def test_an_item_cannot_be_closed_without_who_and_why(database: Database) -> None:
    happen(database)
    with pytest.raises(psycopg.errors.CheckViolation):
        change(
            database, "update nao.governance_queue_item set status = 'closed', closed_at = now()"
        )


def test_an_event_is_in_no_figure_but_the_operators_list_of_security_events(
    database: Database,
) -> None:
    event = happen(database)
    day = datetime.now(UTC).date()
    for _ in ("open", "closed"):
        figures = collect_health_figures(database, day, zone=ZoneInfo("UTC"))
        assert figures.gaps == ()
        assert [f.name for f in figures.security_events] == ["wrong_audience_result"]
        assert all(rate.numerator == 0 for rate in figures.of_window)
        assert rows(database, "select count(*) from nao.retrieval_metric_event") == [(0,)]
        assert rows(database, "select count(*) from nao.retrieval_metric_aggregate") == [(0,)]
        close(database, event)


def test_an_open_event_stays_on_the_operators_report_whenever_it_was(database: Database) -> None:
    happen(database)
    change(database, "alter table nao.consumer_contract_log disable trigger user")
    change(database, "update nao.consumer_contract_log set occurred_at = '2001-01-01'")
    figures = collect_health_figures(database, datetime.now(UTC).date(), zone=ZoneInfo("UTC"))
    (figure,) = figures.security_events
    assert (figure.count, figure.detail) == (0, "1 open: threadhouse security list --open")


@pytest.mark.parametrize("lane", list(Audience))
def test_a_lanes_report_says_nothing_of_security_events(database: Database, lane: Audience) -> None:
    happen(database)
    figures = collect_health_figures(
        database, datetime.now(UTC).date(), zone=ZoneInfo("UTC"), lane=lane
    )
    text = render_markdown(figures) + render_html(figures) + str(figures.to_json())
    assert "wrong_audience" not in text
    assert "ecurity events" not in render_markdown(figures)
    assert figures.security_events == ()


def test_what_the_leak_probe_finds_becomes_security_events(database: Database) -> None:
    leaked = PathOutcome("ai_agent+", "search, fused", 9, 2, 3, leaked=("cnry0123abcdu0001",))
    blind = PathOutcome("customer", "last check", 9, 2, 0, missed=("cnry0123abcdu0002",))
    sound = PathOutcome("partner", "last check", 9, 2, 2)
    report_faults(database, ProbeReport((leaked, blind, sound), 1.0))
    found = {event.cause_key: event for event in events(database)}
    assert set(found) == {
        "leak-probe/search, fused/ai_agent+",
        "leak-probe/last check/customer",
    }
    assert found["leak-probe/search, fused/ai_agent+"].lane == "ai_agent"
    assert found["leak-probe/last check/customer"].evidence["missed_count"] == 1


def test_a_sound_probe_writes_nothing(database: Database) -> None:
    report_faults(database, ProbeReport((PathOutcome("partner", "last check", 9, 2, 2),), 1.0))
    assert events(database) == []
