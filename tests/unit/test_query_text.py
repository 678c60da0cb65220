"""What is recognised about a question."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest

from threadhouse.retrieval.errors import EmptyTextError, QueryTooLongError
from threadhouse.retrieval.models import Vectors
from threadhouse.retrieval.query_text import (
    MAX_QUERY_CHARS,
    PreparedQuery,
    QueryLanguage,
    detect_language,
    name_words,
    prepare_query,
)


def prepare(text: str) -> PreparedQuery:
    vector = Vectors("space", "query", np.ones((1, 1), np.float32), np.zeros(1, np.bool_))
    return prepare_query(text, lambda _: vector)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Người lao động được nghỉ phép năm bao nhiêu ngày?", "vi"),
        ("nguoi lao dong duoc nghi phep nam bao nhieu ngay", "vi-unmarked"),
        ("How many days of annual leave does an employee have?", "en"),
        ("Which team won in São Paulo, and what did Beyoncé sing?", "en"),
        ("Luke Kuechly đã có bao nhiêu cú húc?", "vi"),
        ("cách dùng type hints của Python 3 trong module async", "mixed"),
        ("484", "mixed"),
    ],
)
def test_language_of_a_question_shows_in_the_shape_of_its_words(text: str, language: str) -> None:
    assert detect_language(text) == language


def test_decomposed_and_composed_questions_are_one_question() -> None:
    text = "Điều kiện hưởng trợ cấp thất nghiệp"
    decomposed, composed = (prepare(unicodedata.normalize(form, text)) for form in ("NFD", "NFC"))
    assert (decomposed.text, decomposed.language) == (composed.text, QueryLanguage.VIETNAMESE)
    assert decomposed.bm25_accented == composed.bm25_accented


def test_old_and_new_tone_placement_ask_for_the_same_terms() -> None:
    assert prepare("hòa giải").bm25_accented == prepare("hoà giải").bm25_accented


@pytest.mark.parametrize("text", ["", "  \n", "\u200b", "\x00"])
def test_a_question_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(EmptyTextError, match="at least one word"):
        prepare(text)


def test_a_question_may_have_two_thousand_characters_and_not_one_more() -> None:
    assert len(prepare("a" * MAX_QUERY_CHARS).text) == MAX_QUERY_CHARS
    with pytest.raises(QueryTooLongError, match="2,001"):
        prepare("a" * (MAX_QUERY_CHARS + 1))


def test_names_and_numbers_are_what_survives_translation() -> None:
    asked = "Theo PEP 484 thì Guido nói gì?"
    assert name_words(asked, QueryLanguage.VIETNAMESE) == ["PEP", "484", "Guido"]
    asked = "What did Guido say about PEP 484?"
    assert name_words(asked, QueryLanguage.ENGLISH) == ["Guido", "PEP", "484"]
