"""The page about faults that others had names tests that exist, for each kind of fault."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "field-reports.md").read_text(encoding="utf-8")
KINDS = {
    "Vectors that stay or vanish after a change": {1, 2, 3, 4, 6, 7, 9, 11, 12, 14, 15},
    "Doubles, repetitions, halves": {16, 17, 19, 21, 23},
    "Another model, and what it costs": {34, 35, 38},
    "Payloads that drift": {40, 41},
    "Schedules, engines, limits": {56, 59, 60, 62},
}
ROW = re.compile(r"\| (?:(\d+)|also) .+ \| .+ \| .*`test_\w+`.* \|")


def test_every_test_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    defined = {name for text in sources for name in re.findall(r"def (test_\w+)\(", text)}
    assert len(named) > 50
    assert named - defined == set()


def test_every_kind_of_fault_has_a_row_with_a_test() -> None:
    sections = dict(part.split("\n", 1) for part in PAGE.split("\n## ")[1:])
    assert set(sections) == set(KINDS)
    for title, text in sections.items():
        rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
        matches = [ROW.fullmatch(row) for row in rows]
        assert all(matches), title
        assert {int(m[1]) for m in matches if m and m[1]} >= KINDS[title], title
