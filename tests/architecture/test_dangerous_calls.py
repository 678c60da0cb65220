"""Calls that turn data into code, or text into a statement, are not made anywhere.

Belongs here: what no module of the package may call. Does not belong here: how SQL files are kept (test_sql_files).
"""

from __future__ import annotations

import ast

import pytest

from fixtures_source_tree import source_modules

# Each of them runs what it reads.
CODE_FROM_DATA = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
CODE_FROM_TEXT = {"eval", "exec", "compile"}
STATEMENTS = {"execute", "executemany", "copy", "stream"}


def dangers(tree: ast.Module) -> list[str]:
    """What is wrong in a module, with the line."""
    found: list[str] = []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        found += [f"{node.lineno} {n}" for n in names if n.split(".")[0] in CODE_FROM_DATA]  # pyright: ignore[reportAttributeAccessIssue]
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        words = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        if called in CODE_FROM_TEXT or called in {"yaml.load", "yaml.unsafe_load", "os.system"}:
            found.append(f"{node.lineno} {called}")
        if words.get("allow_pickle") == "True" or words.get("shell") == "True":
            found.append(f"{node.lineno} {called} {words}")
        if (
            called.endswith("Environment")
            and words.get("autoescape") != "True"
            and "jinja" in ast.unparse(tree)
        ):
            found.append(f"{node.lineno} {called} without autoescape")
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if method in STATEMENTS and node.args and _is_built(node.args[0]):
            found.append(f"{node.lineno} a statement that is put together")
    return found


def _without_docstrings(tree: ast.Module) -> ast.Module:
    bare = ast.parse(ast.unparse(tree))
    for node in ast.walk(bare):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value = ast.Constant(None)
    return bare


def _is_built(argument: ast.expr) -> bool:
    """A string that is made at run time. ``queries.load(..).format(..)`` makes a composable, whose identifiers are quoted."""
    if isinstance(argument, ast.JoinedStr | ast.BinOp):
        return True
    if isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute):
        return argument.func.attr == "format" and isinstance(argument.func.value, ast.Constant)
    return False


def test_no_filter_of_a_vector_store_is_a_negation_or_asks_what_is_missing() -> None:
    """``must_not`` admits points without the field, and engines differ in what is empty: allow-lists only."""
    forbidden = ("must_not", "values_count", "ValuesCount", "IsEmpty", "IsNull", "min_should")
    found = {
        module.name: [
            word for word in forbidden if word in ast.unparse(_without_docstrings(module.tree))
        ]
        for module in source_modules()
        if module.path.stem.startswith("vectors") or module.path.stem == "search"
    }
    assert len(found) >= 4
    assert {name: words for name, words in found.items() if words} == {}


def test_no_module_turns_data_into_code_or_text_into_statements() -> None:
    found = {module.name: dangers(module.tree) for module in source_modules()}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "program",
    [
        "import pickle",
        "from joblib import load",
        "eval(text)",
        "yaml.load(text)",
        "numpy.load(path, allow_pickle=True)",
        "subprocess.run(text, shell=True)",
        'connection.execute(f"select {x}")',
        'cursor.execute("select %s" % x)',
        'cursor.copy("copy {} to stdout".format(x))',
        "from jinja2 import Environment\nEnvironment()",
    ],
)
def test_the_search_for_dangers_can_find_them(program: str) -> None:
    assert dangers(ast.parse(program))


@pytest.mark.parametrize(
    "program",
    ["json.loads(text)", "yaml.safe_load(text)", 'connection.execute(queries.load("x"), {"a": 1})'],
)
def test_what_is_harmless_is_left_alone(program: str) -> None:
    assert dangers(ast.parse(program)) == []
