"""Names in every form that people write them, alone and inside a sentence."""

from __future__ import annotations

import unicodedata
from typing import Literal

import pytest

from threadhouse.retrieval.references import (
    MAX_KEY_CHARS,
    phrase_key,
    possible_phrase_keys,
    possible_reference_keys,
    reference_key,
)

SAME_NAMES: list[tuple[str, list[str]]] = [
    (
        "Điều 20.2.LQ.1",
        [
            "điều 20.2.LQ.1",
            "ĐIỀU 20.2.lq.1",
            "dieu 20.2.lq.1",
            "Đ20.2.LQ.1",
            "đ.20.2.LQ.1",
            "Đ 20.2.LQ.1",
            "Article 20.2.LQ.1",
            "art. 20.2.LQ.1",
            "(Điều 20.2.LQ.1)",
            "Điều 20.2.LQ.1.",
            "Điều\u00a020.2.LQ.1",
        ],
    ),
    ("Đ32", ["Điều 32", "điều 32", "dieu 32", "D32", "đ32", "Đ.32", "Article 32", "Đ32?", "“Đ32”"]),
    (
        "PEP 484",
        ["pep 484", "PEP-484", "pep484", "PEP_484", "PEP 0484", "pep-0484", "PEP\u2011484"],
    ),
    (
        "TH-SOP-01/2",
        [
            "th-sop-01/2",
            "TH SOP 01/2",
            "TH–SOP–01/2",
            "TH-SOP-1/2",
            "TH-SOP-01/2@3",
            "`TH-SOP-01/2`",
        ],
    ),
    ("12/2022/NĐ-CP", ["12/2022/nđ-cp", "12/2022/ND-CP", "12/2022/NĐ–CP", "12/2022/NĐ-CP,"]),
    ("thread-refunds", ["Thread-Refunds", "thread refunds", "thread_refunds", "#thread-refunds"]),
    ("Quy chế hoà giải 1", ["Quy chế hòa giải 1", "quy che hoa giai 1", "QUY CHẾ HOÀ GIẢI 01"]),
]


@pytest.mark.parametrize(
    ("stored", "written"), [(stored, form) for stored, forms in SAME_NAMES for form in forms]
)
def test_a_name_is_the_same_however_it_is_written(stored: str, written: str) -> None:
    assert reference_key(written) == reference_key(stored)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("stored", [stored for stored, _ in SAME_NAMES])
def test_a_name_is_the_same_composed_and_decomposed(
    stored: str, form: Literal["NFC", "NFD"]
) -> None:
    assert reference_key(unicodedata.normalize(form, stored)) == reference_key(stored)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A-1-2", "A-12"),
        ("Điều 20.2.LQ.1", "Điều 20.2.LQ.11"),
        ("Điều 3", "Điều 32"),
        ("TH-SOP-01/2", "TH-SOP-01/21"),
        ("1.10", "1.1"),
        ("PEP 484", "PEP 4840"),
        ("DX32", "Đ32"),
    ],
)
def test_different_names_stay_different(one: str, other: str) -> None:
    assert reference_key(one) != reference_key(other)


@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        ("Theo Điều 20.2.LQ.1 thì ai được nghỉ?", "Điều 20.2.LQ.1"),
        ("theo dieu 20.2.lq.1 thi ai duoc nghi", "Điều 20.2.LQ.1"),
        ("Đ32 nói gì về rủi ro?", "Điều 32"),
        ("what does PEP 484 say about stubs?", "PEP 484"),
        ("see TH-SOP-01/2, please", "TH-SOP-01/2"),
        ("Nghị định 12/2022/NĐ-CP phạt bao nhiêu", "12/2022/NĐ-CP"),
        ("cho tôi xem thread-refunds", "thread-refunds"),
        ("show me thread refunds now", "thread-refunds"),
        ("show me the thread teacher", "teacher"),
        ("chủ đề teacher nói gì", "teacher"),
        ("mạch teacher nói gì", "teacher"),
        ("teacher", "teacher"),
        ("quote PEP 1 § What is a PEP? for me", "PEP 1 § What is a PEP?"),
    ],
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_is_found_inside_a_sentence(
    sentence: str, name: str, form: Literal["NFC", "NFD"]
) -> None:
    assert reference_key(name) in possible_reference_keys(unicodedata.normalize(form, sentence))


@pytest.mark.parametrize("word", ["teacher", "refunds", "luat", "a"])
def test_a_plain_word_in_a_sentence_is_no_reference(word: str) -> None:
    assert reference_key(word) not in possible_reference_keys(f"what does a good {word} do")


def test_a_sentence_without_ids_asks_only_for_itself() -> None:
    assert possible_reference_keys("Khi nào tôi được hoàn tiền?") == ["khinaotoiduochoantien"]


def test_a_text_without_letters_asks_for_nothing() -> None:
    assert possible_reference_keys(" ?! ") == []


def test_keys_are_bounded() -> None:
    assert len(reference_key("a" * 5_000)) == MAX_KEY_CHARS


@pytest.mark.parametrize(
    ("phrase", "written"),
    [
        ("hoàn tiền", "HOÀN  TIỀN"),
        ("hoàn tiền", "hoan tien"),
        ("hoàn tiền", unicodedata.normalize("NFD", "hoàn tiền")),
        ("thỏa thuận", "thoả thuận"),
        ("on-call", "On call"),
        ("post-mortem", "post\u2011mortem"),
    ],
)
def test_a_phrase_is_the_same_however_it_is_written(phrase: str, written: str) -> None:
    assert phrase_key(written) == phrase_key(phrase)


def test_every_run_of_words_can_be_a_phrase() -> None:
    assert possible_phrase_keys("Phép năm, mấy ngày?") == [
        "phep",
        "nam",
        "may",
        "ngay",
        "phep nam",
        "nam may",
        "may ngay",
        "phep nam may",
        "nam may ngay",
        "phep nam may ngay",
    ]
