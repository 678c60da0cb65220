"""BM25 vectors against the formula, computed here the slow way."""

from __future__ import annotations

from collections import Counter

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadhouse.retrieval.bm25 import (
    PAIR_WEIGHT,
    TermForm,
    document_vector,
    query_vector,
    split_terms,
    word_pairs,
)
from threadhouse.retrieval.models import SparseVector

WORDS = st.sampled_from(
    [
        "điều",
        "Điều",
        "dieu",
        "hòa",
        "hoà",
        "má",
        "mà",
        "ma",
        "2019",
        "QH14",
        "-",
        "/",
        "…",
        "PEP_484",
        "中文",
    ]
)
TEXTS = st.lists(WORDS, max_size=40).map(" ".join)
FORMS = st.sampled_from(TermForm)


def score(query: SparseVector, document: SparseVector) -> float:
    weights = dict(zip(document.indices, document.values, strict=True))
    return sum(
        value * weights.get(index, 0.0)
        for index, value in zip(query.indices, query.values, strict=True)
    )


@given(st.text(st.characters()) | TEXTS, FORMS)
def test_indices_are_unique_ascending_unsigned_and_weights_positive(
    text: str, form: TermForm
) -> None:
    for vector in (document_vector(text, form), query_vector(text, form)):
        assert list(vector.indices) == sorted(set(vector.indices))
        assert all(0 <= index < 2**32 for index in vector.indices)
        assert all(value > 0 for value in vector.values)
        assert len(vector.indices) == len(vector.values)


@given(TEXTS, FORMS)
def test_document_weights_follow_the_formula(text: str, form: TermForm) -> None:
    words = split_terms(text, form)
    expected = {
        mmh3.hash(term, signed=False): tf * 1.9 / (tf + 0.9 * (0.4 + 0.6 * len(words) / 100))
        for term, tf in Counter(words + word_pairs(words)).items()
    }
    vector = document_vector(text, form, average_terms=100)
    assert dict(zip(vector.indices, vector.values, strict=True)) == pytest.approx(expected)


@given(TEXTS, FORMS)
def test_every_distinct_word_of_a_question_weighs_one_and_every_pair_less(
    text: str, form: TermForm
) -> None:
    words = split_terms(text, form)
    expected = dict.fromkeys(words, 1.0) | dict.fromkeys(word_pairs(words), PAIR_WEIGHT)
    vector = query_vector(text, form)
    by_index = {mmh3.hash(term, signed=False): weight for term, weight in expected.items()}
    assert dict(zip(vector.indices, vector.values, strict=True)) == by_index


@given(TEXTS, FORMS)
def test_a_question_without_pairs_has_its_words_alone(text: str, form: TermForm) -> None:
    vector = query_vector(text, form, pair_weight=0)
    assert set(vector.indices) == {mmh3.hash(w, signed=False) for w in split_terms(text, form)}


def test_neighbours_in_the_same_order_score_more_than_the_same_words_apart() -> None:
    question = query_vector("hop dong", TermForm.FOLDED)
    together, apart = (
        score(question, document_vector(text, TermForm.FOLDED))
        for text in ("hop dong lao dong", "dong hop lao dong")
    )
    assert together > apart > 0


@given(TEXTS, TEXTS, FORMS)
def test_a_text_scores_exactly_when_it_shares_a_term_with_the_question(
    question: str, text: str, form: TermForm
) -> None:
    shared = set(split_terms(question, form)) & set(split_terms(text, form))
    assert (score(query_vector(question, form), document_vector(text, form)) > 0) == bool(shared)


def test_accented_terms_keep_ma_and_má_apart_and_folded_ones_do_not() -> None:
    text = document_vector("má", TermForm.ACCENTED), document_vector("má", TermForm.FOLDED)
    assert score(query_vector("ma", TermForm.ACCENTED), text[0]) == 0
    assert score(query_vector("ma", TermForm.FOLDED), text[1]) > 0


def test_both_spellings_of_a_tone_are_one_accented_term() -> None:
    assert split_terms("thỏa THOẢ", TermForm.ACCENTED) == ["thoả", "thoả"]


def test_two_terms_with_the_same_number_add_up() -> None:
    first, second = "từ91956", "từ94482"
    assert mmh3.hash(first) == mmh3.hash(second)
    both = query_vector(f"{first} {second}", TermForm.ACCENTED, pair_weight=0)
    assert (len(both.indices), both.values) == (1, (2.0,))


@pytest.mark.parametrize("text", ["", " \x00 ", "… — 🙂"])
def test_a_text_without_words_has_no_entries(text: str) -> None:
    assert document_vector(text, TermForm.FOLDED) == SparseVector()


def test_a_repeated_term_gains_less_each_time() -> None:
    weights = [document_vector("từ " * n + "x " * (10 - n), TermForm.FOLDED) for n in (1, 2, 3)]
    one, two, three = (score(query_vector("tu", TermForm.FOLDED), vector) for vector in weights)
    assert 0 < three - two < two - one
