"""Figures of the report equal the marts, and a lane's figures hold nothing of another lane."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.events import RetrievalEvent
from threadhouse.retrieval.health_report import render_html, render_markdown
from threadhouse.stores.health_figures import collect_health_figures, write_report_page
from threadhouse.stores.lake import EventLake, compute_daily_metrics
from threadhouse.stores.lake_extract import extract_days
from threadhouse.stores.metrics_store import (
    append_events,
    days_due,
    store_daily_metrics,
    store_health_report,
)
from threadhouse.stores.postgres import Database

DAY = date(2026, 11, 16)
ZONE = ZoneInfo("Asia/Ho_Chi_Minh")


@pytest.fixture
def counted(database: Database, tmp_path: Path) -> Database:
    """One day with two employee queries and one of a customer, gaps, a quarantined item, a run."""
    for number, (lane, path) in enumerate(
        [("employee", "thread"), ("employee", "none"), ("customer", "fallback")], start=1
    ):
        thread = "thread-secret" if path == "thread" else None
        query = {
            "event_id": UUID(int=number),
            "occurred_at": "2026-11-16T03:00:00Z",
            "type": "query",
        }
        query |= {
            "query_id": UUID(int=number),
            "lane": lane,
            "resolution_path": path,
            "thread_id": thread,
        }
        append_events(database, [RetrievalEvent.model_validate(query)])
    lake = EventLake(tmp_path / "lake")
    extract_days(database, lake, ZONE)
    frame = compute_daily_metrics(lake, days_due(database, lake), ZONE)
    store_daily_metrics(database, frame, "first")
    with database.connect() as connection:
        connection.execute(
            "insert into nao.search_gap_signal (signal_id, kind, cause_key, lane, occurrence_count) values"
            " (gen_random_uuid(), 'search_gap', 'a', 'customer', 4)"
            ", (gen_random_uuid(), 'weak_thread', 'b', 'employee', 1)"
            ", (gen_random_uuid(), 'wrong_audience_result', 'c', 'customer', 1)"
        )
        connection.execute(
            "insert into nao.quarantined_item (source, item_key, reason) values ('hub', 'k', 'why')"
        )
        connection.execute("insert into nao.pipeline_run (run_id, kind) values ('r', 'nightly')")
    return database


def test_figures_equal_the_marts(counted: Database) -> None:
    figures = collect_health_figures(counted, DAY, zone=ZONE)
    hits = {
        f.lane: (f.numerator, f.denominator)
        for f in figures.of_window
        if f.metric == "thread_hit_rate"
    }
    assert hits == {
        "overall": (1, 3),
        "employee": (1, 2),
        "customer": (0, 1),
        "partner": (0, 0),
        "ai_agent": (0, 0),
    }


def test_operators_see_gaps_quarantine_and_runs(counted: Database) -> None:
    figures = collect_health_figures(counted, DAY, zone=ZONE)
    assert [(gap.kind, gap.open_count) for gap in figures.gaps] == [
        ("search_gap", 1),
        ("weak_thread", 1),
    ]
    assert [item.detail for item in figures.quarantine] == ["why"]
    assert [run.name for run in figures.last_runs] == ["nightly"]


def test_lane_gets_its_own_gaps_and_no_leak_no_thread_no_other_lane(counted: Database) -> None:
    figures = collect_health_figures(counted, DAY, zone=ZONE, lane="customer")
    everything = repr(figures) + render_html(figures) + render_markdown(figures)
    assert [gap.kind for gap in figures.gaps] == ["search_gap"]
    for foreign in (
        "employee",
        "overall",
        "weak_thread",
        "wrong_audience",
        "thread-secret",
        "nightly",
        "why",
    ):
        assert foreign not in everything


def test_unknown_lane_is_refused(counted: Database) -> None:
    with pytest.raises(ConfigurationError, match="one of the lanes"):
        collect_health_figures(counted, DAY, zone=ZONE, lane="everybody")


def test_page_lies_under_its_day_and_lane_and_is_replaced_whole(
    counted: Database, tmp_path: Path
) -> None:
    figures = collect_health_figures(counted, DAY, zone=ZONE, lane="customer")
    for page in ("old", render_html(figures)):
        file = write_report_page(tmp_path, figures, page)
    assert file == tmp_path / "reports" / "2026-11-16" / "customer.html"
    assert file.read_text("utf-8").endswith("</html>\n")
    assert [found.name for found in file.parent.iterdir()] == ["customer.html"]


def test_report_of_a_day_and_lane_is_one_row(counted: Database) -> None:
    figures = collect_health_figures(counted, DAY, zone=ZONE)
    for markdown in ("first", "second"):
        store_health_report(
            counted,
            report_day=DAY,
            lane="overall",
            window_days=28,
            figures=figures.to_json(),
            markdown=markdown,
            html_path=None,
        )
    with counted.connect() as connection:
        rows = connection.execute("select markdown from nao.health_report").fetchall()
    assert rows == [("second",)]
