"""Text rules on any text at all, lone surrogates included."""

from __future__ import annotations

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from threadhouse.retrieval.text import (
    fold,
    grapheme_borders,
    has_marks,
    prepare_text,
    shorten,
    unify_tone_placement,
)

ANY_TEXT = st.text(st.characters())


@given(ANY_TEXT)
@example("\ud800")
@example(" \x1c\u0301 ")
@example("\u2000")
def test_preparing_twice_is_preparing_once(text: str) -> None:
    assert prepare_text(prepare_text(text)) == prepare_text(text)


@given(ANY_TEXT)
def test_a_prepared_text_can_be_stored_and_sent(text: str) -> None:
    prepared = prepare_text(text)
    assert prepared.encode().decode() == prepared
    assert not any(unicodedata.category(char) == "Cc" for char in prepared if char not in "\t\r\n")


@given(ANY_TEXT)
def test_composed_and_decomposed_text_prepare_to_the_same(text: str) -> None:
    assert prepare_text(unicodedata.normalize("NFD", text)) == prepare_text(text)


@given(ANY_TEXT)
def test_a_folded_text_is_lower_case_without_marks(text: str) -> None:
    folded = fold(text)
    assert not has_marks(folded)
    assert fold(folded) == folded


@given(st.text(st.sampled_from("aeouyhòàóèéùúủũụỏõọn .q")))
def test_tone_placement_changes_neither_length_nor_folded_form(text: str) -> None:
    unified = unify_tone_placement(text)
    assert len(unified) == len(text)
    assert fold(unified) == fold(text)
    assert unify_tone_placement(unified) == unified


@given(ANY_TEXT)
def test_the_pieces_between_grapheme_borders_are_the_text(text: str) -> None:
    borders = grapheme_borders(text)
    assert borders == sorted(set(borders))
    assert (borders[0], borders[-1]) == (0, len(text))


@given(ANY_TEXT, st.integers(0, 50))
def test_a_shortened_text_is_a_beginning_within_the_limit(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert text.startswith(short)
    assert len(short) <= limit
    assert len(short) in grapheme_borders(text)
