"""Sessions of consumers: what a search means that follows a pack.

Belongs here: what a session id may be, and when a search counts as one outside the delivered pack.
Does not belong here: looking up what a session got before (stores.pack_delivery), writing events.

A session lives in the events alone, so it survives the process: the next call of a command line tool still belongs to it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.events import MAX_CHARS, event_id_from, holds_control_character
from threadhouse.retrieval.models import ThreadId
from threadhouse.retrieval.text import is_blank, prepare_text


@dataclass(frozen=True, slots=True)
class DeliveredBefore:
    """The pack that a session got last."""

    query_id: UUID
    thread_id: ThreadId | None


def new_session_id() -> str:
    """A session that nobody else has."""
    return str(event_id_from(datetime.now(UTC), os.urandom(10)))


def checked_session_id(session_id: str | None) -> str | None:
    """A session id as it is stored; None stays None.

    Raises:
        ConfigurationError: It is blank or too long, or holds a tab or a line break.
    """
    if session_id is None:
        return None
    prepared = prepare_text(session_id)
    limit = MAX_CHARS["session_id"]
    if is_blank(prepared) or len(prepared) > limit or holds_control_character(prepared):
        message = f"A session id has 1 to {limit} visible characters; choose another."
        raise ConfigurationError(message)
    return prepared
