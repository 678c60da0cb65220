"""House rules about modules that no linter knows.

Belongs here: what the syntax tree of the package can show. Does not belong here: import direction (import-linter judges it).
"""

from __future__ import annotations

import ast
import subprocess
import sys

from fixtures_source_tree import PACKAGE, source_modules

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "shared", "base"}
QDRANT = {"qdrant_client", "qdrant_edge"}
# Methods by which hits can be had: of our port, and of the clients below it.
QUERY_METHODS = {
    "search_batch", "search_dense", "search_bm25", "query_batch", "query_points", "query_batch_points", "query_points_groups",
    "search_matrix_pairs", "search_matrix_offsets",
}  # fmt: skip
SLOW_TO_IMPORT = (
    "dagster",
    "fastembed",
    "great_expectations",
    "onnx",
    "onnxruntime",
    "qdrant_client",
)
LONGEST_ASSET_BODY_LINES = 25


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [module.name for module in source_modules() if module.path.stem in VAGUE_NAMES] == []


def test_every_module_says_what_belongs_in_it_and_what_does_not() -> None:
    silent = [
        module.name
        for module in source_modules()
        if module.path.name != "__init__.py"
        and not {"Belongs here", "Does not belong here"}
        <= {
            phrase
            for phrase in ("Belongs here", "Does not belong here")
            if phrase in (ast.get_docstring(module.tree) or "")
        }
    ]
    assert silent == []


def test_only_the_vector_stores_touch_qdrant() -> None:
    callers = {
        module.name
        for module in source_modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [a.name for a in node.names]
        )
        if name.split(".")[0] in QDRANT
    }
    assert [name for name in sorted(callers) if not name.startswith("stores/vectors")] == []


def test_there_is_one_way_to_search() -> None:
    """Only `retrieval.search` asks a `VectorSearcher`, and it always reranks."""
    callers = {
        module.name
        for module in source_modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr in QUERY_METHODS
    }
    allowed = {"retrieval/search.py"}
    assert [n for n in sorted(callers - allowed) if not n.startswith("stores/vectors")] == []


def test_modules_that_define_dagster_objects_do_not_postpone_annotations() -> None:
    """Dagster reads annotations when it decorates, and cannot read strings."""
    postponing = [
        module.name
        for module in source_modules()
        if "dagster" in module.imports_at_module_level()
        and any(
            isinstance(node, ast.ImportFrom) and node.module == "__future__"
            for node in module.tree.body
        )
    ]
    assert postponing == []


def _is_built_by_dagster(function: ast.FunctionDef) -> bool:
    names = {ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in function.decorator_list}
    return bool(
        {name.removeprefix("dg.") for name in names} & {"asset", "multi_asset", "asset_check"}
    )


def test_asset_bodies_are_read_call_write_result() -> None:
    too_long: list[str] = []
    for module in source_modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef) and _is_built_by_dagster(node):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = (body[-1].end_lineno or 0) - body[0].lineno + 1
                if lines > LONGEST_ASSET_BODY_LINES:
                    too_long.append(f"{module.name}: {node.name} has {lines} lines")
    assert too_long == []


def test_the_rules_never_ask_what_time_it_is() -> None:
    """`retrieval/` takes time, seeds and settings as arguments."""
    impure = {
        "now",
        "utcnow",
        "today",
        "time",
        "monotonic",
        "perf_counter",
        "getenv",
        "environ",
        "uuid4",
    }
    found = [
        f"{module.name}:{node.lineno} {ast.unparse(node)}"
        for module in source_modules()
        if module.name.startswith("retrieval/")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute)
        and node.attr in impure
        and isinstance(node.value, ast.Name)
        and node.value.id in {"datetime", "date", "time", "os", "uuid", "dt"}
    ]
    assert found == []


def test_no_module_below_the_dagster_line_nor_the_command_line_imports_what_is_slow() -> None:
    names = [
        "threadhouse." + module.name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for module in source_modules()
        if module.name.startswith(("retrieval/", "stores/", "serving/"))
        or module.name == "pipelines/cli.py"
    ]
    program = (
        "import importlib, sys\n"
        f"for name in {names!r}:\n"
        "    importlib.import_module(name)\n"
        f"    loaded = [slow for slow in {SLOW_TO_IMPORT!r} if slow in sys.modules]\n"
        "    if loaded: sys.exit(f'{name} loads {loaded}')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.stderr == ""


def test_the_package_was_found() -> None:
    """Without modules every rule above would hold."""
    assert len(source_modules()) > 20
    assert (PACKAGE / "retrieval").is_dir()
