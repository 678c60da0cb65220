"""What a session id may be."""

from __future__ import annotations

import pytest

from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.events import MAX_CHARS
from threadhouse.serving.sessions import checked_session_id, new_session_id


@pytest.mark.parametrize("session_id", ["", " \u200b", "a\tb", "a\nb", "x" * 201])
def test_a_session_that_no_event_could_name_is_refused_in_one_sentence(session_id: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^A session id has 1 to 200 visible characters"):
        checked_session_id(session_id)


@pytest.mark.parametrize("session_id", ["phiên 1", "x" * MAX_CHARS["session_id"]])
def test_a_session_that_can_be_named_stays_as_it_is(session_id: str) -> None:
    assert checked_session_id(session_id) == session_id


def test_a_session_of_our_own_can_be_named() -> None:
    session_id = new_session_id()
    assert checked_session_id(session_id) == session_id
