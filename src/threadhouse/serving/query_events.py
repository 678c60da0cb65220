"""The events of one query, with ids that are known before anything happens.

Belongs here: which events a query leaves behind, and their ids. Does not belong here: writing them (stores.pack_delivery).

An event's id is made from its query's id. So the same query, tried again after a crash, writes the same events, and the table
keeps one of each.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.events import (
    EventType,
    ResolutionPath,
    RetrievalEvent,
    event_id_from,
)
from threadhouse.retrieval.models import Audience, Json
from threadhouse.retrieval.packs import ContextPack, FallbackKind
from threadhouse.retrieval.query_keeping import KeptQuestion, QuestionCause
from threadhouse.serving.sessions import DeliveredBefore

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UUID_VERSION = 7


def new_query_id() -> UUID:
    """Id of a query that starts now; a UUIDv7."""
    return event_id_from(datetime.now(UTC), os.urandom(10))


def started_at(query_id: UUID) -> datetime:
    """When a query started, to the millisecond; part of its id.

    Raises:
        ConfigurationError: It is not a UUIDv7.
    """
    if query_id.version != _UUID_VERSION:
        message = f"{query_id} is not a UUIDv7; take the id that a query was given, or none."
        raise ConfigurationError(message)
    return _EPOCH + timedelta(milliseconds=query_id.int >> 80)


def event_id(query_id: UUID, kind: EventType, key: str = "") -> UUID:
    """Id of the one event of a kind (and key) that a query leaves."""
    entropy = hashlib.sha256(f"{query_id}\0{kind}\0{key}".encode()).digest()
    return event_id_from(started_at(query_id), entropy)


@dataclass(frozen=True, slots=True)
class AskedQuery:
    """A query as its events know it; ``kept`` is what they may say of its words, ``cause`` what a gap may."""

    query_id: UUID
    cause: QuestionCause
    lane: Audience
    session_id: str | None
    kept: KeptQuestion


def delivery_events(
    asked: AskedQuery,
    pack: ContextPack,
    latency_ms: float,
    details: Mapping[str, Json],
    before: DeliveredBefore | None = None,
) -> list[RetrievalEvent]:
    """What a query that is answered with ``pack`` leaves behind.

    A raw search is a search and no delivery: after a pack it is an extra search of that pack's query.

    Args:
        before: What the session got last; only asked for when the search is raw.
    """
    path = resolution_path(pack)
    signal = pack.fallback_signal
    is_raw = signal is not None and signal.kind is FallbackKind.EXPLICIT_RAW
    thread_id = pack.thread_id or None
    about_pack: dict[str, Json] = {
        "pack_id": str(pack.pack_id),
        "unit_count": len(pack.source_revisions),
    }

    def event(kind: EventType, **fields: object) -> RetrievalEvent:
        return RetrievalEvent.model_validate(
            {
                "event_id": event_id(asked.query_id, kind, str(fields.pop("key", ""))),
                "occurred_at": started_at(asked.query_id),
                "type": kind,
                "query_id": asked.query_id,
                "session_id": asked.session_id,
                "lane": asked.lane,
                **fields,
            }
        )

    events = [
        event(
            EventType.QUERY,
            thread_id=thread_id,
            resolution_path=path,
            reason=signal.kind if signal else None,
            latency_ms=latency_ms,
            query_text=asked.kept.text,
            query_key=asked.kept.key,
            details={**details, **about_pack},
        )
    ]
    if not is_raw and pack.source_revisions:
        events.append(event(EventType.PACK_DELIVERED, thread_id=thread_id, details=about_pack))
    events += [
        event(EventType.SUGGESTION, key=suggested, thread_id=suggested)
        for suggested in suggested_threads(pack)
    ]
    if is_raw and before is not None:
        events.append(
            event(
                EventType.EXTRA_SEARCH,
                query_id=before.query_id,
                thread_id=before.thread_id,
                details={"search_query_id": str(asked.query_id)},
            )
        )
    return events


def resolution_path(pack: ContextPack) -> ResolutionPath:
    """How a query was answered, as its pack tells it."""
    if pack.fallback_signal is not None:
        return ResolutionPath.FALLBACK if pack.source_revisions else ResolutionPath.NONE
    return ResolutionPath.CANDIDATES if pack.candidate_threads else ResolutionPath.THREAD


def suggested_threads(pack: ContextPack) -> Sequence[str]:
    """Threads that the reader was pointed to."""
    if pack.candidate_threads:
        return [candidate.thread_id for candidate in pack.candidate_threads]
    return [pack.thread_id] if pack.thread_id else []
