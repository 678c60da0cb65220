"""What is kept of a question's words: all of them, a key that equal questions share, or nothing.

Belongs here: the three ways and the key.
Does not belong here: where the secret of the key comes from (stores.query_secret), how long words are kept
(stores.event_retention).
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

from threadhouse.retrieval.models import Audience
from threadhouse.retrieval.text import fold


class QueryTextMode(StrEnum):
    """What ``QUERY_TEXT`` may say."""

    STORE = "store"
    HASH = "hash"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class KeptQuestion:
    """What an event may carry of a question; both are None when nothing is kept."""

    text: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class QuestionKeeper:
    """Decides what events say of a question. ``secret`` is never shown."""

    mode: QueryTextMode
    secret: bytes = field(repr=False)

    def keep(self, lane: Audience, text: str | None) -> KeptQuestion:
        """What to write down of a question that a lane asked."""
        if not text or self.mode is QueryTextMode.DROP:
            return KeptQuestion(None, None)
        key = query_key(self.secret, lane, text)
        return KeptQuestion(text if self.mode is QueryTextMode.STORE else None, key)


def query_key(secret: bytes, lane: Audience, text: str) -> str:
    """HMAC-SHA-256 (RFC 2104) over lane and folded question, in 64 hexadecimal digits.

    Case, marks and spaces do not make it another question; another lane does, so that no lane's questions show in the keys of
    another. A plain hash would be no protection: questions are short, and whoever has a list of likely ones could try them all.

    Example:
        >>> query_key(b"secret", Audience.EMPLOYEE, "Nghỉ  phép") == query_key(b"secret", Audience.EMPLOYEE, "nghi phep")
        True
    """
    words = " ".join(fold(text).split())
    return hmac.new(secret, f"{lane}\0{words}".encode(), sha256).hexdigest()
