"""Build the health reports that are due, for every lane and for operators.

Belongs here: which reports are due, and putting one where it is read: a row in Postgres and an HTML file.
Does not belong here: figures (stores.health_figures), how a report reads (retrieval.health_report).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

from threadhouse.retrieval.health_figures import DEFAULT_WINDOW_DAYS
from threadhouse.retrieval.health_report import render_html, render_markdown
from threadhouse.retrieval.metrics import OVERALL
from threadhouse.retrieval.models import Audience
from threadhouse.stores import queries
from threadhouse.stores.health_figures import collect_health_figures, write_report_page
from threadhouse.stores.metrics_store import store_health_report
from threadhouse.stores.postgres import Database

REPORT_LANES: tuple[str, ...] = (OVERALL, *Audience)
"""The operators' report first, then one for each lane that says nothing of the others."""


@dataclass(frozen=True, slots=True)
class ReportRefresh:
    """What was built; ``newest`` is the operators' report of the last day, as Markdown, and its page."""

    days: tuple[date, ...]
    reports: int
    newest: str
    newest_page: Path


def refresh_reports(
    database: Database,
    home: Path,
    zone: ZoneInfo,
    days: Sequence[date],
    progress: Callable[[int, int], None] | None = None,
) -> ReportRefresh:
    """Build what is due among ``days``; the last day always, because it also shows the state of things now.

    Args:
        days: At least one, in any order.
        progress: Called with (days done, days due).
    """
    last = max(days)
    with database.connect() as connection:
        rows = connection.execute(
            queries.load("health_report_days_due"),
            {"days": sorted(set(days)), "lane": OVERALL, "window_days": DEFAULT_WINDOW_DAYS},
        )
        due = sorted({row[0] for row in rows} | {last})
    newest, page = "", Path()
    for done, day in enumerate(due, start=1):
        # The operators' report goes last: it is the mark that all of a day's reports are there.
        for lane in reversed(REPORT_LANES):
            newest, page = _build(database, home, zone, day, lane)
        if progress is not None:
            progress(done, len(due))
    return ReportRefresh(tuple(due), len(due) * len(REPORT_LANES), newest, page)


def _build(
    database: Database, home: Path, zone: ZoneInfo, day: date, lane: str
) -> tuple[str, Path]:
    figures = collect_health_figures(database, day, zone=zone, lane=lane)
    markdown = render_markdown(figures)
    page = write_report_page(home, figures, render_html(figures))
    store_health_report(
        database,
        report_day=day,
        lane=lane,
        window_days=figures.window_days,
        figures=figures.to_json(),
        markdown=markdown,
        html_path=str(page),
    )
    return markdown, page
