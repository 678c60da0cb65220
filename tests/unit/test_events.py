"""The event contract: what is refused, and docs/events.md against the code."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from pydantic import ValidationError

from threadhouse.retrieval.events import (
    EVENT_VERSION,
    MAX_CHARS,
    READABLE_VERSIONS,
    REQUIRED_FIELDS,
    TYPES_SINCE,
    EventType,
    RetrievalEvent,
    event_id_from,
)

DOCS = Path(__file__).parents[2] / "docs" / "events.md"
QUERY: dict[str, object] = {
    "event_id": UUID(int=1),
    "occurred_at": "2026-11-16T03:00:00Z",
    "type": "query",
    "query_id": UUID(int=2),
    "lane": "employee",
    "resolution_path": "none",
}


@pytest.mark.parametrize(
    "change",
    [
        {"type": "telepathy"},
        {"event_version": 3},
        {"type": "noisy_unit"},
        {"type": "noisy_unit", "unit_address": "Law/1", "event_version": 1},
        {"query_key": "what is a leave"},
        {"lane": None},
        {"lane": "everybody"},
        {"resolution_path": "thread"},
        {"occurred_at": "2026-11-16T03:00:00"},
        {"occurred_at": "1970-01-20T00:00:00Z"},
        {"latency_ms": -1},
        {"latency_ms": float("nan")},
        {"thread_id": ""},
        *({name: "x" * (limit + 1)} for name, limit in MAX_CHARS.items()),
        {"thread_id": "t\n1"},
        {"session_id": "\x1b[2J"},
        {"session_id": "a\x9bb"},
        {"query_text": "a\0b"},
        {"details": {"deep": ["a\0b"]}},
        {"latency": 3},
    ],
)
def test_event_that_breaks_the_contract_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RetrievalEvent.model_validate(QUERY | change)


def test_event_that_keeps_the_contract_is_accepted() -> None:
    assert RetrievalEvent.model_validate(QUERY).type is EventType.QUERY


@pytest.mark.parametrize("name", MAX_CHARS)
def test_text_as_long_as_it_may_be_is_accepted(name: str) -> None:
    RetrievalEvent.model_validate(QUERY | {name: "Đ" * MAX_CHARS[name]})


def test_event_id_is_a_version_7_uuid_that_sorts_by_time() -> None:
    early, late = (
        event_id_from(datetime(2026, 11, day, tzinfo=UTC), bytes([entropy] * 10))
        for day, entropy in ((16, 255), (17, 0))
    )
    assert (early.version, late.version) == (7, 7)
    assert early.variant == UUID(int=0x8000 << 48).variant
    assert early < late


def test_event_id_refuses_too_little_randomness() -> None:
    with pytest.raises(ValueError, match="10 random bytes"):
        event_id_from(datetime(2026, 11, 16, tzinfo=UTC), b"")


def test_documentation_lists_every_field() -> None:
    section = DOCS.read_text("utf-8").partition("## Types")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == list(RetrievalEvent.model_fields)


def test_documentation_says_how_long_texts_may_be() -> None:
    section = DOCS.read_text("utf-8").partition("## Types")[0]
    rows = re.findall(r"^\| `(\w+)` \| \w+ \| \d \| ([\d,]+) \|", section, re.M)
    assert {name: int(limit.replace(",", "")) for name, limit in rows} == MAX_CHARS


def test_documentation_names_the_versions() -> None:
    text = DOCS.read_text("utf-8")
    assert text.startswith(f"# Retrieval events, version {EVENT_VERSION}\n")
    assert f"Readers understand {' and '.join(map(str, sorted(READABLE_VERSIONS)))}" in text


def test_documentation_lists_every_type_with_what_it_needs() -> None:
    section = DOCS.read_text("utf-8").partition("## Types")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\d) \| .+? \| (.*?) ?\|$", section, re.M)
    documented = {
        kind: (int(since), tuple(re.findall(r"`([\w.]+)`", needs.partition(";")[0])))
        for kind, since, needs in rows
    }
    assert documented == {
        kind.value: (TYPES_SINCE.get(kind, 1), needs) for kind, needs in REQUIRED_FIELDS.items()
    }
