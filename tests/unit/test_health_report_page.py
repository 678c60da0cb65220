"""docs/health-report.md says what the report holds, and for whom."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

from fixtures_source_tree import ROOT
from threadhouse.retrieval.health_figures import HealthFigures
from threadhouse.retrieval.health_report import sections

PAGE = (ROOT / "docs" / "health-report.md").read_text("utf-8")
TABLE = PAGE.split("## What it says, and to whom")[1].split("\n## ")[0]
OPERATORS = HealthFigures(
    report_day=date(2026, 11, 30),
    window_days=28,
    lane="overall",
    time_zone="UTC",
    days=(date(2026, 11, 30),),
    of_day=(),
    of_window=(),
    trends=(),
)


def _listed(column: int) -> list[str]:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in re.findall(r"^\|.*\|$", TABLE, re.MULTILINE)[2:]
    ]
    return [row[0] for row in rows if row[column]]


def test_page_lists_the_sections_of_operators_in_order() -> None:
    assert _listed(1) == [title for title, _ in sections(OPERATORS)]


def test_page_lists_the_sections_of_a_lane() -> None:
    lane = replace(OPERATORS, lane="customer")
    assert _listed(2) == [title for title, _ in sections(lane)]
