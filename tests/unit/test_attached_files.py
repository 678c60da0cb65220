"""What a file of views may say is decided by its statements, however they are written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from threadhouse.retrieval.attached_files import read_attached_file

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / "examples" / "attach" / "directus.sql").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "attach.md").read_text(encoding="utf-8")
VIEW = "create view source.semantic_thread as select 1 as a"


@pytest.mark.parametrize(
    "body",
    [
        VIEW,
        f"{VIEW};",
        f"\ufeff-- a comment; with a semicolon\n/* and; another */ {VIEW};\n\n",
        VIEW.replace("select 1", "select 'a;b', E'\\';', \"c;d\", $x$;$x$, $$;$$"),
        'CREATE OR REPLACE  VIEW "source" . production_document AS select 1',
        f"{VIEW}; comment on view source.semantic_thread is 'x'; comment on column source.semantic_thread.a is 'y;z'",
        "create recursive view source.a (n) as select 1",
    ],
)
def test_views_and_comments_on_them_are_allowed(body: str) -> None:
    assert read_attached_file(body).faults == ()


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (f"{VIEW};\ndrop table a", 2),
        (f"{VIEW}; commit", 1),
        ("create view public.a as select 1", 1),
        ("create view a as select 1", 1),
        ("create materialized view source.a as select 1", 1),
        (f"-- x\n/* ; */\n\nselect 1;\n{VIEW}", 4),
        (f"{VIEW}; select '\\'; drop table a; --'", 1),
        ("comment on table public.a is 'x'", 1),
        ("do $$ begin end $$", 1),
    ],
)
def test_anything_else_is_refused_by_its_line(body: str, line: int) -> None:
    faults = read_attached_file(body).faults
    assert faults
    assert faults[0].startswith(f"line {line}: ")


@pytest.mark.parametrize("body", ["", "  \n", "-- nothing", ";;"])
def test_a_file_without_a_view_is_refused(body: str) -> None:
    assert read_attached_file(body).faults == ("it makes no view.",)


def test_lines_about_changes_are_read() -> None:
    (line,) = read_attached_file(
        f"-- changes: public.pages.id -> information_unit.document_id\n{VIEW}"
    ).changes
    assert (line.line, line.table) == (1, "public.pages")
    assert line.arguments == ("id", "information_unit", "document_id")


@pytest.mark.parametrize("said", ["pages.id -> a.b", "public.pages.id => a.b", "", "a.b.c -> d"])
def test_a_line_about_changes_that_says_nothing_is_refused(said: str) -> None:
    file = read_attached_file(f"\n-- changes: {said}\n{VIEW}")
    assert file.faults[0].startswith("line 2: a line about changes reads")


def test_the_example_is_such_a_file() -> None:
    file = read_attached_file(EXAMPLE)
    assert file.faults == ()
    assert len(file.changes) == 5


def test_the_page_has_the_views_of_the_migration() -> None:
    migration = ROOT / "src" / "threadhouse" / "sql" / "migrations" / "0023_attached_sources.sql"
    shapes = re.findall(
        r"\( '(\w+)', '\w+', '\{([\w,]+)\}', '\{([\w,]+)\}'", migration.read_text(encoding="utf-8")
    )
    rows = re.findall(r"(?m)^\| `(\w+)` \| (.+) \| (.+) \|$", PAGE)
    assert len(shapes) == 7
    assert rows == [
        (view, *(", ".join(f"`{c}`" for c in text.split(",")) for text in (keys, ids)))
        for view, keys, ids in shapes
    ]
