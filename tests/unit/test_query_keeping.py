"""What is kept of a question, by mode, and what makes two questions one."""

from __future__ import annotations

import re

import pytest

from threadhouse.retrieval.models import Audience
from threadhouse.retrieval.query_keeping import (
    KeptQuestion,
    QueryTextMode,
    QuestionKeeper,
    keyed_cause,
    query_key,
    question_key,
)

SECRET = b"a secret of thirty-two characters"
TEXT = "Nghỉ phép năm được bao nhiêu ngày?"
KEY = query_key(SECRET, Audience.EMPLOYEE, TEXT)


@pytest.mark.parametrize(
    ("mode", "kept"),
    [
        (QueryTextMode.STORE, KeptQuestion(TEXT, KEY)),
        (QueryTextMode.HASH, KeptQuestion(None, KEY)),
        (QueryTextMode.DROP, KeptQuestion(None, None)),
    ],
)
def test_a_mode_keeps_words_and_key_or_less(mode: QueryTextMode, kept: KeptQuestion) -> None:
    assert QuestionKeeper(mode, SECRET).keep(Audience.EMPLOYEE, TEXT) == kept


def test_case_marks_and_spaces_make_no_other_question() -> None:
    assert query_key(SECRET, Audience.EMPLOYEE, f" {TEXT.upper()} ".replace(" ", "  ")) == KEY


@pytest.mark.parametrize(
    ("secret", "lane", "text"),
    [
        (b"another secret", Audience.EMPLOYEE, TEXT),
        (SECRET, Audience.CUSTOMER, TEXT),
        (SECRET, Audience.EMPLOYEE, "Nghỉ ốm được bao nhiêu ngày?"),
    ],
)
def test_another_secret_lane_or_question_gives_another_key(
    secret: bytes, lane: Audience, text: str
) -> None:
    assert query_key(secret, lane, text) != KEY


@pytest.mark.parametrize("same", ["cau hoi", "CÂU  HỎI", "câu hỏi ?", "Câu hỏi."])
def test_spelling_does_not_make_another_cause(same: str) -> None:
    keeper = QuestionKeeper(QueryTextMode.STORE, SECRET)
    assert keeper.cause(Audience.CUSTOMER, same) == keeper.cause(Audience.CUSTOMER, "Câu hỏi?")


@pytest.mark.parametrize("mode", QueryTextMode)
def test_a_cause_says_its_lane_and_nothing_that_could_be_tried_without_the_secret(
    mode: QueryTextMode,
) -> None:
    cause = QuestionKeeper(mode, SECRET).cause(Audience.CUSTOMER, TEXT)
    assert re.fullmatch(r"customer/[0-9a-f]{64}", cause.key)
    others = [
        QuestionKeeper(mode, b"another secret").cause(Audience.CUSTOMER, TEXT).key,
        QuestionKeeper(mode, SECRET).cause(Audience.PARTNER, TEXT).key,
        query_key(SECRET, Audience.CUSTOMER, TEXT),
    ]
    assert cause.key not in others


def test_a_plain_cause_can_be_keyed_without_the_words() -> None:
    cause = QuestionKeeper(QueryTextMode.DROP, SECRET).cause(Audience.CUSTOMER, TEXT)
    plain = question_key(Audience.CUSTOMER, TEXT)
    assert cause.former_key == plain
    assert keyed_cause(SECRET, plain) == cause.key


def test_the_secret_never_shows() -> None:
    assert SECRET.decode() not in repr(QuestionKeeper(QueryTextMode.HASH, SECRET))
