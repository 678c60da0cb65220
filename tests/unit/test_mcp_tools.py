"""The border between tools and agents: sentences of failures, sessions, messages, what clients are told."""

from __future__ import annotations

import inspect
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadhouse.retrieval import errors
from threadhouse.retrieval.errors import (
    ConfigurationError,
    InvalidTokenError,
    QueryUnknownError,
    ThreadhouseError,
    TokenRefusal,
    WrongAudienceError,
)
from threadhouse.retrieval.models import Audience, Principal
from threadhouse.serving import mcp_server
from threadhouse.serving.mcp_server import RetrievalSessions, describe_tools, listen, read_lines
from threadhouse.serving.mcp_tools import DATA_NOT_INSTRUCTIONS, TOOLS, refusal_of

INTERNAL = "of the folder vault postgresql://anna@db/hub thread-of-somebody-else"
SPOKEN = {
    "PrincipalExpiredError",
    "EmptyTextError",
    "QueryTooLongError",
    "QueryUnknownError",
    "PackUnknownError",
}
ERRORS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, ThreadhouseError) and kind is not InvalidTokenError
]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_only_messages_that_speak_of_the_call_alone_are_passed_on(
    kind: type[ThreadhouseError],
) -> None:
    said = refusal_of(kind(INTERNAL))
    if kind.__name__ in SPOKEN:
        assert said == INTERNAL
    else:
        assert said is None or INTERNAL not in said
        assert said is None or said.endswith(".")


@pytest.mark.parametrize(
    "error", [ValueError(INTERNAL), OSError(INTERNAL), RecursionError(INTERNAL)]
)
def test_of_a_fault_nothing_is_told(error: Exception) -> None:
    assert refusal_of(error) is None


def test_a_stopped_answer_says_that_it_was_stopped_and_nothing_else() -> None:
    said = refusal_of(WrongAudienceError(INTERNAL))
    assert said == "The answer was stopped by the last access check, which has reported it."


def test_a_refused_token_and_an_unknown_query_say_why() -> None:
    assert refusal_of(InvalidTokenError(TokenRefusal.EXPIRED)) is not None
    assert refusal_of(QueryUnknownError("There is no query 1.")) == "There is no query 1."


def principal(subject: str, audience: Audience = Audience.AI_AGENT) -> Principal:
    return Principal(subject, audience)


def test_a_session_lasts_while_it_is_used_and_belongs_to_one_principal_and_protocol_session() -> (
    None
):
    sessions = RetrievalSessions()
    first = sessions.of(principal("a"), "s", now=0)
    assert sessions.of(principal("a"), "s", now=1_700) == first
    assert sessions.of(principal("a"), "s", now=3_400) == first
    others = {
        sessions.of(principal("b"), "s", now=3_400),
        sessions.of(principal("a", Audience.CUSTOMER), "s", now=3_400),
        sessions.of(principal("a"), "t", now=3_400),
        sessions.of(principal("a"), "", now=3_400),
        sessions.of(principal("a"), "s", now=3_400 + 1_801),
    }
    assert len(others - {first}) == 5


def test_sessions_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "MAX_SESSIONS", 3)
    sessions = RetrievalSessions()
    kept = sessions.of(principal("a"), "kept", now=0)
    for number in range(10):
        sessions.of(principal("a"), str(number), now=0)
        assert sessions.of(principal("a"), "kept", now=0) == kept


@given(data=st.binary(max_size=200), size=st.integers(1, 7))
def test_lines_are_those_that_were_sent_however_they_arrive(data: bytes, size: int) -> None:
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    read = chain(chunks, repeat(b""))
    expected = [line.decode("utf-8", "replace") for line in data.split(b"\n")]
    if not expected[-1]:
        expected.pop()
    assert list(read_lines(lambda: next(read))) == expected


def test_a_line_that_is_too_long_is_dropped_and_the_next_one_read() -> None:
    chunk = b"x" * 65_536
    read = chain(repeat(chunk, 40), [b"x\nnext\n"], repeat(b""))
    assert list(read_lines(lambda: next(read))) == ["", "next"]


def test_clients_are_told_what_text_of_units_is_and_what_changes_nothing() -> None:
    told = {tool.name: tool for tool in describe_tools()}
    for name in ("get_context_pack", "search_units"):
        assert DATA_NOT_INSTRUCTIONS in (told[name].description or "")
    for tool in told.values():
        assert tool.annotations is not None
        assert tool.annotations.destructive_hint is False
        assert tool.input_schema["additionalProperties"] is False
        assert all(about["description"] for about in tool.input_schema["properties"].values())
        named = set(tool.input_schema["properties"])
        assert not named & {"audience", "principal", "subject", "token", "role", "session"}
    assert len(told) == len(TOOLS)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "10.0.0.1", "127.0.0.2", "localhost.evil.example", ""],  # noqa: S104
)
def test_only_loopback_is_listened_on_without_being_asked_for(host: str) -> None:
    with pytest.raises(ConfigurationError, match="--allowed-host"):
        listen(host, 0, [])


def test_a_server_answers_to_its_own_names_and_those_that_were_given() -> None:
    listening, names = listen("127.0.0.1", 0, ["hub.example"])
    with listening:
        port = listening.getsockname()[1]
    assert names == [f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", "hub.example"]
