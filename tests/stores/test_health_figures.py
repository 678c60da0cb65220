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
from threadhouse.stores.report_refresh import refresh_reports

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


def test_page_markdown_and_stored_figures_say_what_the_aggregate_holds(
    counted: Database, tmp_path: Path
) -> None:
    """Read from the table by a statement of its own, summed by hand, and looked for where people read."""
    done = refresh_reports(counted, tmp_path, ZONE, [DAY])
    assert done.days == (DAY,)
    with counted.connect() as connection:
        sums = connection.execute(
            "select lane, metric, sum(numerator)::int, sum(denominator)::int from nao.retrieval_metric_aggregate"
            " where thread_id = '' and local_day between '2026-10-20' and '2026-11-16' group by lane, metric"
        ).fetchall()
        stored = {
            lane: (figures, markdown, Path(page).read_text("utf-8"))
            for lane, figures, markdown, page in connection.execute(
                "select lane, figures, markdown, html_path from nao.health_report where report_day = '2026-11-16'"
            )
        }
    assert set(stored) == {"overall", "customer", "partner", "employee", "ai_agent"}
    assert any(denominator for *_, denominator in sums)
    for lane, metric, numerator, denominator in sums:
        figures, markdown, page = stored[lane]
        (kept,) = [f for f in figures["of_window"] if (f["lane"], f["metric"]) == (lane, metric)]
        assert (kept["numerator"], kept["denominator"]) == (numerator, denominator)
        if denominator:
            said = f"{numerator / denominator:.1%} ({numerator}/{denominator})"
            (line,) = [
                line
                for line in markdown.split(f"### Rates: {lane.replace('_', chr(92) + '_')}")[
                    1
                ].splitlines()
                if line.startswith(f"| `{metric}` |")
            ][:1]
            assert said in line
            assert said in page


def test_a_report_tells_of_the_night_that_built_it(counted: Database) -> None:
    """Which runs on the day after the one that it reports: costs, waits, audits and data checks of that night are in it."""
    with counted.connect() as connection:
        connection.execute(
            "insert into nao.build_step (step, finished_at, seconds, texts_embedded) values"
            " ('content_vectors', '2026-11-16T19:00:00Z', 2.5, 7), ('content_vectors', '2026-11-18T19:00:00Z', 9, 9)"
        )
        connection.execute(
            "insert into nao.revocation_wait values"
            " ('information_units', 'u', '2026-11-16T18:00:00Z', '2026-11-16T19:00:00Z', '2026-11-16T20:00:00Z')"
            ", ('information_units', 'v', '2026-11-16T16:00:00Z', '2026-11-16T19:00:00Z', null)"
        )
        connection.execute(
            "insert into nao.projection_audit (collection, points, owners, findings)"
            " values ('information_units', 9, 3, '{\"stale\": 2, \"orphan\": 1}')"
        )
        connection.execute(
            "insert into nao.data_validation (suite, suite_version, input_key, expectations, failed, seconds, results)"
            " values ('packs', 'v', 'k', 13, 1, 1, '{}')"
        )
    figures = collect_health_figures(counted, DAY, zone=ZONE)
    assert [(n.day, n.seconds, n.texts_embedded) for n in figures.nights] == [
        (date(2026, 11, 17), 2.5, 7)
    ]
    assert [
        (w.day, w.revokes, w.vectors_p50_s, w.packs_p50_s, w.waiting_packs) for w in figures.waits
    ] == [
        (date(2026, 11, 17), 2, 7200.0, 7200.0, 1),
        (None, 2, 7200.0, 7200.0, 1),
    ]
    assert [(a.name, a.count) for a in figures.audits] == [("information_units", 3)]
    assert [(c.name, c.count) for c in figures.data_checks] == [("packs", 1)]


def test_gaps_are_counted_by_the_day_on_which_they_were_opened_and_closed(
    counted: Database,
) -> None:
    with counted.connect() as connection:
        connection.execute(
            "update nao.search_gap_signal set status = 'fixed' where kind = 'weak_thread'"
        )
        connection.execute(
            "update nao.gap_signal_change set changed_at = case status when 'open' then"
            " timestamptz '2026-11-15T03:00:00Z' else timestamptz '2026-11-16T03:00:00Z' end"
        )
    figures = collect_health_figures(counted, DAY, zone=ZONE)
    assert [
        (g.kind, g.open_count, g.opened_day, g.closed_day, g.opened, g.closed) for g in figures.gaps
    ] == [
        ("search_gap", 1, 0, 0, 1, 0),
        ("weak_thread", 0, 0, 1, 1, 1),
    ]
    assert [(d.day.day, d.opened, d.closed) for d in figures.gap_days] == [(15, 2, 0), (16, 0, 1)]


def test_operators_see_what_a_replay_lost_and_a_lane_how_many_of_its_own(counted: Database) -> None:
    with counted.connect() as connection:
        connection.execute(
            "insert into nao.replay_run (replay_id, stage, state_digest, verdict, questions, changed, at_risk, lost"
            ", loss_share_limit, seconds) values (%(run)s, 'packs', '', 'stopped', 3, 2, 3, 1, 0.1, 1)",
            {"run": UUID(int=9)},
        )
        connection.execute(
            "insert into nao.replay_result (replay_id, question_key, lane, query_id, old_path, old_thread_id, old_units"
            ", new_path, changes, loss) values"
            " (%(run)s, 'a', 'employee', %(lost)s, 'thread', 't', '{u@1}', 'none', '{thread}', 'nothing_found')"
            ", (%(run)s, 'b', 'employee', %(kept)s, 'thread', 't', '{u@1}', 'thread', '{units}', null)"
            ", (%(run)s, 'c', 'customer', %(kept)s, 'thread', 't', '{u@1}', 'thread', '{}', null)",
            {"run": UUID(int=9), "lost": UUID(int=1), "kept": UUID(int=2)},
        )
    seen = {
        lane: collect_health_figures(counted, DAY, zone=ZONE, lane=lane).replay
        for lane in ("overall", "employee", "customer")
    }
    assert {
        lane: each and (each.questions, each.changed, each.at_risk, each.lost, each.verdict)
        for lane, each in seen.items()
    } == {
        "overall": (3, 2, 3, 1, "stopped"),
        "employee": (2, 2, 2, 1, None),
        "customer": (1, 0, 1, 0, None),
    }
    assert {lane: each and [x.query_id for x in each.losses] for lane, each in seen.items()} == {
        "overall": [str(UUID(int=1))],
        "employee": [],
        "customer": [],
    }
