"""Text rules on the words they were made for."""

from __future__ import annotations

import unicodedata

import pytest

from threadhouse.retrieval.text import (
    fold,
    grapheme_borders,
    has_marks,
    hash_text,
    is_blank,
    last_border_before,
    prepare_text,
    shorten,
    unify_tone_placement,
)


@pytest.mark.parametrize(
    ("raw", "prepared"),
    [
        ("  hai  từ \n", "hai  từ"),
        ("a\x00b\x1fc\x7fd\x85e", "a b c d e"),
        ("dòng\tmột\r\ndòng hai", "dòng\tmột\r\ndòng hai"),
        ("hỏng \ud800 đây", "hỏng \ufffd đây"),
        (unicodedata.normalize("NFD", "Cộng hòa"), "Cộng hòa"),
        ("\x00 \t", ""),
        ("🙂 ﷺ ﬁ", "🙂 ﷺ ﬁ"),
    ],
)
def test_prepared_text_is_composed_and_free_of_control_characters(raw: str, prepared: str) -> None:
    assert prepare_text(raw) == prepared


def test_texts_that_differ_in_composition_only_have_one_hash() -> None:
    forms = {unicodedata.normalize(form, "bệnh nghề nghiệp") for form in ("NFC", "NFD")}
    assert len(forms) == 2
    assert len({hash_text(prepare_text(form)) for form in forms}) == 1


@pytest.mark.parametrize("text", ["", " \n", "\u200b", "\ufeff \u00ad\u200b", "\u3000", "\x00"])
def test_a_text_of_spaces_and_format_characters_is_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["a", ".", "🙂", "\u0301", "\ufffd", " \u200bệ"])
def test_a_text_with_anything_to_see_is_not_blank(text: str) -> None:
    assert not is_blank(text)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Điều Bệnh", "dieu benh"),
        (unicodedata.normalize("NFD", "ĐIỀU BỆNH"), "dieu benh"),
        ("Ôâăêơưđ", "oaaeoud"),
        ("naïve Straße", "naive straße"),
        ("İstanbul", "istanbul"),
        ("คำ हिन्दी が", "คำ हिन्दी が"),
    ],
)
def test_folding_strips_latin_diacritics_and_nothing_else(text: str, folded: str) -> None:
    assert fold(text) == folded


@pytest.mark.parametrize("text", ["điều", "Đ", "má", unicodedata.normalize("NFD", "ma mạ"), "ơ"])
def test_a_text_with_a_diacritic_or_a_stroked_d_has_marks(text: str) -> None:
    assert has_marks(text)


@pytest.mark.parametrize("text", ["", "dieu kien huong", "PEP 484", "123 🙂"])
def test_a_text_typed_without_diacritics_has_no_marks(text: str) -> None:
    assert not has_marks(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("hòa", "hoà"),
        ("khỏe", "khoẻ"),
        ("ủy", "uỷ"),
        ("thụy điển", "thuỵ điển"),
        ("thỏa.", "thoả."),
    ],
)
def test_both_spellings_of_a_final_tone_become_one(old: str, new: str) -> None:
    assert unify_tone_placement(old) == unify_tone_placement(new) == new


@pytest.mark.parametrize("text", ["của", "toàn", "quý", "mùa", "hoa", "thìa", "nguyễn", "loài"])
def test_tone_placement_of_other_syllables_stays(text: str) -> None:
    assert unify_tone_placement(text) == text


def test_a_cut_never_tears_a_family_a_flag_or_a_stacked_accent() -> None:
    family, flag, stacked = "👨‍👩‍👧", "🇻🇳", "e\u0323\u0302"
    assert grapheme_borders(family + flag + stacked) == [0, 5, 7, 10]


@pytest.mark.parametrize(
    ("offset", "border"), [(-1, 0), (0, 0), (1, 0), (5, 5), (6, 5), (7, 7), (99, 7)]
)
def test_the_last_border_before_an_offset_is_never_beyond_it(offset: int, border: int) -> None:
    assert last_border_before([0, 5, 7], offset) == border


def test_shortening_drops_a_whole_character_rather_than_part_of_one() -> None:
    assert shorten("ab🇻🇳c", 3) == "ab"
    assert shorten("ab🇻🇳c", 4) == "ab🇻🇳"
    assert shorten("ab", 4) == "ab"
