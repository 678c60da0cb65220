"""docs/data-expectations.md says what the code expects."""

from __future__ import annotations

import re

import pytest

from fixtures_source_tree import ROOT
from threadhouse.retrieval.data_expectations import SUITES, Suite

PAGE = (ROOT / "docs" / "data-expectations.md").read_text("utf-8")


def _rows(suite: Suite) -> list[tuple[str, str, str]]:
    section = PAGE.split(f"\n## {suite.name.value}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+) \| `(expect_\w+)` \| (.+) \|$", section, re.MULTILINE)
    return [(facts.replace("`", ""), kind, meaning) for facts, kind, meaning in rows]


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name.value)
def test_page_lists_the_expectations_of_a_suite(suite: Suite) -> None:
    assert _rows(suite) == [(each.subject, each.kind, each.meaning) for each in suite.expectations]


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name.value)
def test_no_two_expectations_of_a_suite_are_the_same(suite: Suite) -> None:
    known = [(each.kind, repr(sorted(each.parameters.items()))) for each in suite.expectations]
    assert len(known) == len(set(known))


def test_facts_that_the_page_explains_are_judged() -> None:
    judged = {
        fact for suite in SUITES for each in suite.expectations for fact in each.subject.split(", ")
    }
    explained = PAGE.split("## Facts in words")[1]
    named = {
        fact
        for first in re.findall(r"^\| (`.+?`) \|", explained, re.MULTILINE)
        for fact in re.findall(r"`(\w+)`", first)
    }
    assert named - judged == set()
    assert named
