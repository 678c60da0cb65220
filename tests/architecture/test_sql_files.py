"""House rules about SQL: in files, one statement each, never put together from strings.

Belongs here: how SQL is kept. Does not belong here: what it does (tests/stores run it).
"""

from __future__ import annotations

import ast
import re

import pytest

from fixtures_source_tree import PACKAGE, source_modules

SQL_TEXT = re.compile(
    r"\bselect\b.+\bfrom\b|\binsert\s+into\b|\bupdate\s+\S+\s+set\b|\bdelete\s+from\b|\btruncate\s+table\b"
    r"|\b(create|drop|alter)\s+(or\s+replace\s+)?(table|view|index|schema|function|trigger|role|policy)\b"
    r"|\bcopy\s.+\b(from|to)\s",
    re.IGNORECASE | re.DOTALL,
)
QUOTED_OR_COMMENT = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|(\$\w*\$).*?\1", re.DOTALL
)
QUERIES = sorted((PACKAGE / "sql" / "queries").glob("*.sql"))


def count_statements(text: str) -> int:
    bare = QUOTED_OR_COMMENT.sub(" ", text)
    return sum(bool(part.strip()) for part in bare.split(";"))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("select 1", 1),
        ("select ';' -- ;\n;", 1),
        ("do $x$ begin; end; $x$;", 1),
        ("select 1; select 2", 2),
        ("-- nothing", 0),
    ],
)
def test_statements_are_counted(text: str, count: int) -> None:
    assert count_statements(text.replace("do $x$", "do 'x' $x$")) == count


def test_every_query_file_holds_one_statement() -> None:
    counts = {path.name: count_statements(path.read_text(encoding="utf-8")) for path in QUERIES}
    assert {name: count for name, count in counts.items() if count != 1} == {}


def _patterns_of_strings(tree: ast.Module) -> set[str]:
    """Every string of a module as a pattern; what an f-string fills in may be any word."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(re.escape(node.value))
        elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            parts = (
                re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"[a-z_]+"
                for part in node.values
            )
            found.add("".join(parts))
    return {pattern for pattern in found if re.match(r"[a-z_]+(\[|$)", pattern)}


def test_every_query_file_is_used() -> None:
    patterns = {p for module in source_modules() for p in _patterns_of_strings(module.tree)}
    used = re.compile("|".join(sorted(patterns)))
    assert [path.name for path in QUERIES if not used.fullmatch(path.stem)] == []


def _built_strings(tree: ast.Module) -> list[tuple[int, str]]:
    """Line and constant text of every string that is put together at run time."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.JoinedStr):
            parts = (
                node.values if any(isinstance(v, ast.FormattedValue) for v in node.values) else []
            )
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.Add):
            parts = [node.left, node.right]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "format"
        ):
            parts = [node.func.value]
        text = " ".join(
            part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "x"
            for part in parts
        )
        if parts:
            found.append((getattr(node, "lineno", 0), text))
    return found


def test_no_sql_is_put_together_from_strings() -> None:
    built = [
        f"{module.name}:{line} {text[:60]}"
        for module in source_modules()
        for line, text in _built_strings(module.tree)
        if SQL_TEXT.search(text)
    ]
    assert built == []


@pytest.mark.parametrize(
    "program",
    [
        'f"select a from {table}"',
        '"delete from t where a = %s" % a',
        '"insert into " + table',
        '"update {} set a = 1".format(table)',
    ],
)
def test_the_search_for_built_sql_can_find_it(program: str) -> None:
    assert [text for _, text in _built_strings(ast.parse(program)) if SQL_TEXT.search(text)]
