"""The page about security names tests that exist, and the limits and paths of the code."""

from __future__ import annotations

import re
from pathlib import Path

from threadhouse.retrieval.query_text import MAX_QUERY_CHARS
from threadhouse.serving import mcp_tools
from threadhouse.stores import leak_probe

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_every_test_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    defined = {name for text in sources for name in re.findall(r"def (test_\w+)\(", text)}
    assert named
    assert named - defined == set()


def test_every_kind_of_report_has_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| \d+ ", line)]
    assert [int(line.split()[1]) for line in rows] == [24, 25, 27, 28, 29, 30, 31, 32]
    assert all("`test_" in line for line in rows)


def test_the_page_has_the_limits_of_the_code() -> None:
    assert f"at most {MAX_QUERY_CHARS:,} characters" in PAGE
    assert f"{mcp_tools.MAX_TOKEN_BUDGET:,} tokens" in PAGE
    assert f"at most {mcp_tools.MAX_CITATIONS} citations" in PAGE


def test_the_page_names_every_probe() -> None:
    table = PAGE.partition("| path | what is asked")[2].partition("\n\n")[0]
    words = {"probe_thread_signals": "thread names", "probe_reports": "health report"}
    for probe in leak_probe.STORE_PROBES:
        word = words.get(probe.__name__, probe.__name__.removeprefix("probe_").split("_")[0])
        assert word.rstrip("s") in table, probe.__name__
