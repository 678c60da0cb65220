"""Security events: something that a reader may not see was about to leave, or was seen to leave by the leak probe.

Belongs here: writing one down (contract log, governance and risk review, one statement), listing, closing with who and why.
Does not belong here: finding out (stores.pack_delivery, serving.leak_probe), quality metrics: no event is ever counted by one.

An event is a cause: the same one again is another occurrence of it. Closing closes what waits for somebody; when the cause comes
back, new items are queued and the event is open again. Closed items and log entries can be neither changed nor removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid5

from psycopg import Connection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import Jsonb

from threadhouse.retrieval.errors import SecurityEventUnknownError
from threadhouse.retrieval.json_fields import json_fields
from threadhouse.retrieval.models import Json
from threadhouse.retrieval.who_and_why import check_who_and_why
from threadhouse.stores import queries

EVENT_NAMESPACE = UUID("c0f2a9d4-3f0e-5d5e-9d0b-7d6f1f6f5a21")
"""Namespace of the ids that one occurrence writes, so that trying again writes nothing twice."""

SHOWN_ENTRIES = 50
"""Occurrences that are shown of one event, newest first."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One time that it happened.

    Attributes:
        cause: What makes two occurrences the same event.
        occasion: What makes two reports the same occurrence: the query's id, or the run's.
        title: One sentence for whoever has to look into it; names no text that was hidden.
        thread_id: The pack of this thread and lane is dropped, so that the next reader gets one that is built anew.
    """

    cause: str
    occasion: str
    title: str
    subject: str
    lane: str | None
    thread_id: str | None
    pack_id: UUID | None
    evidence: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class SecurityEvent:
    """A cause and how often it was met. The closing fields are those of the last time it was closed."""

    signal_id: UUID
    cause_key: str
    lane: str | None
    thread_id: str | None
    occurrence_count: int
    first_seen_at: datetime
    last_seen_at: datetime
    evidence: Mapping[str, Json]
    is_open: bool
    closed_at: datetime | None
    closed_by: str | None
    closing_reason: str | None

    def to_json(self) -> dict[str, Json]:
        """For a program; instants as ISO 8601."""
        return json_fields(self)


@dataclass(frozen=True, slots=True)
class QueueItem:
    """Something that somebody has, or had, to decide: kind is governance or risk_review."""

    item_id: UUID
    kind: str
    title: str
    status: str
    created_at: datetime
    closed_at: datetime | None
    closed_by: str | None
    closing_reason: str | None


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One occurrence as the contract log keeps it."""

    entry_id: UUID
    occurred_at: datetime
    subject: str
    lane: str | None
    pack_id: UUID | None
    details: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event with everything that was queued and logged about it."""

    event: SecurityEvent
    items: Sequence[QueueItem]
    entries: Sequence[LogEntry]

    def to_json(self) -> dict[str, Json]:
        """For a program; instants as ISO 8601."""
        return {
            **self.event.to_json(),
            "items": [json_fields(item) for item in self.items],
            "entries": [json_fields(entry) for entry in self.entries],
        }


def write_security_event(connection: Connection[TupleRow], occurrence: Occurrence) -> UUID:
    """Write one occurrence down; returns the event's id. The same one again is counted, and queues and logs nothing twice."""
    signal_id = uuid5(EVENT_NAMESPACE, occurrence.cause)
    connection.execute(
        queries.load("security_event_write"),
        {
            "signal_id": signal_id,
            "cause_key": occurrence.cause,
            "thread_id": occurrence.thread_id,
            "lane": occurrence.lane,
            "evidence": Jsonb(dict(occurrence.evidence)),
            "entry_id": uuid5(EVENT_NAMESPACE, f"log\0{occurrence.occasion}"),
            "subject": occurrence.subject,
            "pack_id": occurrence.pack_id,
            "title": occurrence.title,
            "governance_id": uuid5(EVENT_NAMESPACE, f"governance\0{occurrence.occasion}"),
            "risk_review_id": uuid5(EVENT_NAMESPACE, f"risk_review\0{occurrence.occasion}"),
        },
    )
    return signal_id


def list_security_events(
    connection: Connection[TupleRow], *, open_only: bool = False
) -> list[SecurityEvent]:
    """Every event, open ones first."""
    return [event for event in _events(connection, None) if event.is_open or not open_only]


def read_security_event(connection: Connection[TupleRow], signal_id: UUID) -> EventRecord:
    """One event and its history.

    Raises:
        SecurityEventUnknownError: There is none with this id.
    """
    found = _events(connection, signal_id)
    if not found:
        message = (
            f"There is no security event {signal_id}; threadhouse security list names them all."
        )
        raise SecurityEventUnknownError(message)
    with connection.cursor(row_factory=class_row(QueueItem)) as cursor:
        items = cursor.execute(
            queries.load("security_event_items"), {"signal_id": signal_id}
        ).fetchall()
    with connection.cursor(row_factory=class_row(LogEntry)) as cursor:
        entries = cursor.execute(
            queries.load("security_event_entries"),
            {"signal_id": signal_id, "limit": SHOWN_ENTRIES},
        ).fetchall()
    return EventRecord(found[0], items, entries)


def close_security_event(
    connection: Connection[TupleRow], signal_id: UUID, *, who: str, why: str
) -> int:
    """Close what is open of an event; returns how many items that were. Closed once more, nothing changes and it is 0.

    Raises:
        ConfigurationError: Who or why is missing, or the reason is a whole document.
        SecurityEventUnknownError: There is none with this id.
    """
    who, why = check_who_and_why("Closing a security event needs who closes it and why", who, why)
    read_security_event(connection, signal_id)
    row = connection.execute(
        queries.load("security_event_close"), {"signal_id": signal_id, "who": who, "why": why}
    ).fetchone()
    return int(row[0]) if row else 0


def _events(connection: Connection[TupleRow], signal_id: UUID | None) -> list[SecurityEvent]:
    with connection.cursor(row_factory=class_row(SecurityEvent)) as cursor:
        return cursor.execute(queries.load("security_events"), {"signal_id": signal_id}).fetchall()
