"""What the project's pages say is so.

Belongs here: readers of glossary, decisions, changelog and contributor's guide. Does not belong here: readers of pages about one
rule (they live beside that rule's tests).
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import settings

from fixtures_source_tree import PACKAGE, ROOT, source_modules
from threadhouse.stores.settings import Settings

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DECISIONS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))

# Every Vietnamese, law and design term of the two design documents.
TERMS_OF_THE_DESIGN = {
    *("miếng", "Điều", "kho", "Não", "Cổng", "Birth gate"),
    *("Đ0-G", "Đ24", "Đ32", "Đ33", "Đ37", "Đ38", "Đ39", "Đ43", "Đ44", "NS-1", "LSL-01"),
    *("D3", "D4", "D5", "D7", "D9", "D10", "D11", "P10", "P3D", "P38-XC", "rev5d"),
    *("TAC", "IU", "UMC", "KB", "KG", "PG", "SSOT", "DOT", "SOP"),
}


def table_rows(page: str) -> list[list[str]]:
    """Cells of every table row of a page, without headings and rules."""
    rows: list[list[str]] = []
    for line in page.splitlines():
        if re.fullmatch(r"\|[-|]+\|", line):
            rows.pop()
        elif line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_the_glossary_names_every_term_of_the_design_once() -> None:
    """Reads "glossary.md"."""
    terms = [row[0] for row in table_rows(GLOSSARY)]
    assert sorted(terms) == sorted(TERMS_OF_THE_DESIGN)


def test_no_two_terms_of_the_glossary_share_an_english_name() -> None:
    names = [row[1] for row in table_rows(GLOSSARY)]
    assert sorted(names) == sorted(set(names))


def test_every_entry_of_the_glossary_is_one_sentence() -> None:
    sentences = [row[2] for row in table_rows(GLOSSARY)]
    assert [s for s in sentences if not s.endswith(".") or ". " in s] == []


def test_every_place_that_the_glossary_names_exists() -> None:
    schema = "\n".join(
        path.read_text(encoding="utf-8") for path in sorted((PACKAGE / "sql").rglob("*.sql"))
    )
    missing = [
        place
        for row in table_rows(GLOSSARY)
        for place in re.findall(r"`([^`]+)`", row[3])
        if not (PACKAGE / place).is_file() and not re.search(rf"\b{place}\b", schema)
    ]
    assert missing == []


def test_names_in_the_code_are_english() -> None:
    foreign = [
        f"{module.name}:{node.lineno} {name}"
        for module in source_modules()
        for node in ast.walk(module.tree)
        for name in [getattr(node, "id", None) or getattr(node, "name", None) or ""]
        if isinstance(node, ast.Name | ast.FunctionDef | ast.ClassDef) and not name.isascii()
    ]
    assert foreign == []


def test_decisions_are_numbered_once_each() -> None:
    numbers = [path.name[:4] for path in DECISIONS]
    assert sorted(numbers) == sorted(set(numbers))


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_has_the_form_of_a_decision(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    number = int(path.name[:4])
    assert re.match(rf"# {number}\. \S", text), "the title carries the number of the file"
    assert re.search(
        r"(?m)^Status: (accepted\.?|superseded by \[\d+\]\(\d{4}-[\w-]+\.md\))$", text
    ), "the status is one of two"
    headings = re.findall(r"(?m)^## (.+)$", text)
    assert [h for h in headings if h in {"Context", "Decision", "Consequences"}] == [
        "Context",
        "Decision",
        "Consequences",
    ]


def test_the_changelog_has_one_unreleased_section_on_top() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"(?m)^## \[?([^\]\n]+)", text)
    assert versions[0] == "Unreleased"
    assert versions.count("Unreleased") == 1


def test_every_make_target_that_the_guide_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?m)^([a-z-]+):", makefile))
    assert set(re.findall(r"\bmake ([a-z-]+)", CONTRIBUTING)) <= targets


def test_the_guide_names_the_folders_and_profiles_that_exist() -> None:
    rows = [row[0].strip("`") for row in table_rows(CONTRIBUTING)]
    folders = {row for row in rows if row.startswith("tests/")}
    with_tests = {
        f"{path.parent.relative_to(ROOT)}/" for path in (ROOT / "tests").rglob("test_*.py")
    }
    assert sorted(with_tests - folders) == []
    for profile in set(rows) - folders:
        assert settings.get_profile(profile).max_examples in {100, 1000}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples" / "deploy").glob("*.yaml")), ids=lambda path: path.name
)
def test_an_example_of_a_deployment_is_yaml_with_settings_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert isinstance(yaml.safe_load(text), dict)
    own = re.findall(r"^ {4}([A-Z][A-Z_]+):|name: ([A-Z][A-Z_]+),", text, re.MULTILINE)
    known = {name.upper() for name in Settings.model_fields}
    assert own
    assert {name for pair in own for name in pair if name} - known == set()
