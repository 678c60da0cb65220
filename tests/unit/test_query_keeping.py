"""What is kept of a question, by mode, and what makes two questions one."""

from __future__ import annotations

import pytest

from threadhouse.retrieval.models import Audience
from threadhouse.retrieval.query_keeping import (
    KeptQuestion,
    QueryTextMode,
    QuestionKeeper,
    query_key,
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


def test_the_secret_never_shows() -> None:
    assert SECRET.decode() not in repr(QuestionKeeper(QueryTextMode.HASH, SECRET))
