"""The common part of questions: taken where it is known, in a form that every vector has."""

from __future__ import annotations

import numpy as np
import pytest

from threadhouse.retrieval.models import Vectors
from threadhouse.retrieval.query_centres import TAKEN, take_common_part
from threadhouse.retrieval.query_text import QueryLanguage

OFFLINE = "me5-small-q4-384-3fbd7fa203"


def question(space_id: str, row: np.ndarray) -> Vectors:
    return Vectors(
        space_id,
        "query",
        (row / np.linalg.norm(row))[None, :].astype(np.float32),
        np.zeros(1, bool),
    )


@pytest.mark.parametrize("language", TAKEN)
def test_every_language_has_its_part_and_the_result_has_length_one(language: str) -> None:
    before = question(OFFLINE, np.random.default_rng(1).normal(size=384))
    after = take_common_part(before, language)
    assert not np.allclose(after.data, before.data)
    assert np.allclose(np.linalg.norm(after.data, axis=1), 1.0, atol=1e-6)
    assert (after.space_id, after.role, after.data.dtype) == (OFFLINE, "query", np.float32)


def test_every_name_of_a_language_is_one_that_questions_have() -> None:
    assert TAKEN.keys() <= {str(language) for language in QueryLanguage}


@pytest.mark.parametrize(
    ("space_id", "language"), [("another-space", "vi"), (OFFLINE, QueryLanguage.MIXED)]
)
def test_a_question_stays_as_it_is_where_no_common_part_is_known(
    space_id: str, language: str
) -> None:
    before = question(space_id, np.arange(1.0, 385.0))
    assert take_common_part(before, language) is before
