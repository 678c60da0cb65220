"""What must not be in any file that git tracks.

Belongs here: rules over the text of the whole checkout. Does not belong here: rules about Python modules.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fixtures_source_tree import ROOT, tracked_files

# Paths of one machine, and hosts of package or model registries. Written in pieces: this file is tracked too.
FORBIDDEN = re.compile(
    "|".join(
        [
            r"(?<![\w.}])/(?:work|home/\w+|root|Users/\w+|tmp)/" + r"\w",
            r"[A-Z]:\\" + r"Users",
            "pythonhosted" + r"\.org",
            "pypi" + r"\.org",
            "hugging" + r"face\.co",
            "--" + r"(?:extra-)?index-url",
            "arti" + "factory",
        ]
    )
)
LARGEST_FILE_BYTES = 1_000_000
WORK_LOG_NAMES = re.compile(r"(?i)^(todo|notes?|status|summary|progress|complete|scratch)\b")
PRIVATE_KEY = "-----BEGIN " + r"(?:\w+ )*PRIVATE KEY"


def texts() -> list[tuple[str, str]]:
    if not tracked_files():
        pytest.skip("not a git checkout, so nothing says which files are the project's")
    found: list[tuple[str, str]] = []
    for path in tracked_files():
        data = path.read_bytes()
        if b"\0" not in data:
            found.append((path.relative_to(ROOT).as_posix(), data.decode("utf-8", "replace")))
    return found


def test_no_file_names_a_path_of_one_machine_or_a_registry_host() -> None:
    hits = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1} {match.group()}"
        for name, text in texts()
        for match in FORBIDDEN.finditer(text)
    ]
    assert hits == []


def test_no_file_holds_a_private_key() -> None:
    assert [name for name, text in texts() if re.search(PRIVATE_KEY, text)] == []


def test_no_file_is_large() -> None:
    """Models and data are built or loaded, never committed."""
    texts()
    large = [path.name for path in tracked_files() if path.stat().st_size > LARGEST_FILE_BYTES]
    assert large == []


def test_no_file_is_a_work_log() -> None:
    texts()
    assert [path.name for path in tracked_files() if WORK_LOG_NAMES.match(path.stem)] == []


@pytest.mark.parametrize("text", ["see /" + "home/anna/x", "'/" + "tmp/x'", "pypi" + ".org/simple"])
def test_the_search_for_forbidden_text_can_find_it(text: str) -> None:
    assert FORBIDDEN.search(text)


def test_every_page_with_a_table_has_a_test_that_reads_it() -> None:
    """A table of facts that no test reads is wrong within a month. A decision's figures are history and may age."""
    tests = "\n".join(
        path.read_text(encoding="utf-8") for path in Path(ROOT, "tests").rglob("*.py")
    )
    unread = [
        page.relative_to(ROOT).as_posix()
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if page.parent.name != "adr"
        and re.search(r"(?m)^\|.*\|\s*$", page.read_text(encoding="utf-8"))
        and f'"{page.name}"' not in tests
    ]
    assert unread == []
