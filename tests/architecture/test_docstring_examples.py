"""Examples in docstrings of the rules are run.

Belongs here: doctests of `retrieval/`, which need no store. Does not belong here: other tests.
"""

from __future__ import annotations

import doctest
import importlib

import pytest

from fixtures_source_tree import source_modules

RULES = [
    module.path.stem
    for module in source_modules()
    if module.name.startswith("retrieval/") and module.path.stem != "__init__"
]


@pytest.mark.parametrize("name", RULES)
def test_examples_in_docstrings_are_true(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"threadhouse.retrieval.{name}"))
    assert result.failed == 0
