"""What a row of the change log touches, and how content is cut into portions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadhouse.retrieval.change_scope import (
    ChangedRow,
    content_portions,
    scope_of_changes,
)
from threadhouse.retrieval.projection import ContentScope

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def row(table_name: str, row_key: str) -> ChangedRow:
    return ChangedRow(table_name, row_key, takes_away=False, changes=1, first_at=NOON)


@pytest.mark.parametrize(
    ("table_name", "row_key", "units", "documents", "threads"),
    [
        ("tac_logical_unit", "law/1", {"law/1"}, set(), set()),
        ("production_document", "d", set(), {"d"}, set()),
        ("semantic_thread", "t/1", set(), set(), {"t/1"}),
        ("thread_membership", "t/1/u/2", set(), set(), {"t", "t/1", "t/1/u"}),
        ("expected_artifact_missing", "t/test/x", set(), set(), set()),
        ("universal_edge", "0b", set(), set(), set()),
        ("vocabulary_label", "x/vi", set(), set(), set()),
        ("health_signal", "0c", set(), set(), set()),
        ("a table of tomorrow", "x", set(), set(), set()),
    ],
)
def test_a_row_names_what_is_made_from_it(
    table_name: str, row_key: str, units: set[str], documents: set[str], threads: set[str]
) -> None:
    scope = scope_of_changes([row(table_name, row_key)])
    assert (scope.content.units, scope.content.documents, scope.threads) == (
        units,
        documents,
        threads,
    )
    assert not scope.is_all_content
    assert not scope.are_all_threads


@pytest.mark.parametrize(
    ("table_name", "content", "threads"),
    [
        ("tac_logical_unit", True, True),
        ("production_document", True, True),
        ("semantic_thread", False, True),
        ("thread_membership", False, True),
        ("universal_edge", False, False),
        ("vocabulary_label", False, False),
    ],
)
def test_an_emptied_table_is_all_that_is_made_from_it(
    table_name: str, content: bool, threads: bool
) -> None:
    scope = scope_of_changes([row("production_document", "d"), row(table_name, "*")])
    assert (scope.is_all_content, scope.are_all_threads) == (content, threads)


NAMES = st.sampled_from([f"n{number}" for number in range(12)])


@given(
    units=st.frozensets(NAMES),
    documents=st.frozensets(NAMES),
    document_of=st.dictionaries(NAMES, NAMES),
    owners=st.integers(min_value=1, max_value=8),
)
def test_portions_hold_everything_once_and_do_not_part_a_document(
    units: frozenset[str], documents: frozenset[str], document_of: dict[str, str], owners: int
) -> None:
    portions = list(content_portions(ContentScope(units, documents), document_of, owners))
    assert sorted(u for portion in portions for u in portion.units) == sorted(units)
    assert sorted(d for portion in portions for d in portion.documents) == sorted(documents)
    for document in {*documents, *document_of.values()}:
        homes = [
            number
            for number, portion in enumerate(portions)
            if document in portion.documents
            or any(document_of.get(unit) == document for unit in portion.units)
        ]
        assert len(homes) <= 1
    for portion in portions:
        places = {document_of.get(unit, f"alone {unit}") for unit in portion.units}
        places |= portion.documents
        assert len(places) == 1 or len(portion.units) + len(portion.documents) <= owners
