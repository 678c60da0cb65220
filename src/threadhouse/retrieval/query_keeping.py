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
from threadhouse.retrieval.payloads import digest_text
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
class QuestionCause:
    """A question as the cause of a gap; ``former_key`` is what earlier releases wrote for it, None when there is no other."""

    key: str
    former_key: str | None = None


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

    def cause(self, lane: Audience, text: str) -> QuestionCause:
        """What a question is known by as the cause of a gap, whatever is kept of its words."""
        plain = question_key(lane, text)
        return QuestionCause(keyed_cause(self.secret, plain), former_key=plain)


def question_key(lane: Audience, text: str) -> str:
    """Identity of a question in its lane: case, marks, spaces and punctuation at its end do not make it another one.

    A plain hash, for comparing questions in memory. What is written down is `keyed_cause`, else a guess could be confirmed.
    """
    words = " ".join(fold(text).split()).rstrip(" .?!…")
    return f"{lane}/{digest_text(words)[:32]}"


def keyed_cause(secret: bytes, key: str) -> str:
    """What is kept of a `question_key`: the lane, and HMAC-SHA-256 (RFC 2104) over all of it in 64 hexadecimal digits.

    Made of the plain key, so that plain keys of earlier releases can be replaced where their words are gone.
    """
    return f"{key.partition('/')[0]}/{hmac.new(secret, key.encode(), sha256).hexdigest()}"


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
