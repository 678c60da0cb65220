"""Gaps that answers show (D11 §4.9): their kinds, their life, and what makes two of them the same.

Belongs here: kinds, statuses, identity of a cause, the result of a replay as it settles one.
Does not belong here: which gaps a query reveals (fallback), keeping and routing them (stores.gap_signals).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID, uuid5

from threadhouse.retrieval.models import Audience, Json, ThreadId

SIGNAL_NAMESPACE = UUID("7a1d2c0e-9a59-5b0e-8a41-6a0f3e6c2d11")
"""Namespace of signal ids. Changing it would write every known gap a second time."""


class GapKind(StrEnum):
    """The kinds of D11 §4.9 that somebody may close; ``wrong_audience_result`` is a security event and no gap."""

    SEARCH_GAP = "search_gap"
    MISSING_THREAD = "missing_thread"
    WEAK_THREAD = "weak_thread"
    NOISY_THREAD = "noisy_thread"
    EXPECTED_ARTIFACT_MISSING = "expected_artifact_missing"


class GapStatus(StrEnum):
    """Where a gap is in its life. ``reopened`` is open again after it was fixed."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    FIXED = "fixed"
    REOPENED = "reopened"


OPEN_STATUSES = (GapStatus.OPEN, GapStatus.ACKNOWLEDGED, GapStatus.REOPENED)


@dataclass(frozen=True, slots=True)
class GapSignal:
    """One cause of bad answers. The same cause again is counted, not written twice.

    ``evidence`` never holds what was asked: that is personal and stays with the query's event.
    """

    kind: GapKind
    cause_key: str
    lane: Audience | None
    thread_id: ThreadId | None = None
    evidence: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @property
    def signal_id(self) -> UUID:
        """Made from the cause, so that two processes that meet it at once write one signal."""
        return uuid5(SIGNAL_NAMESPACE, f"{self.kind}\0{self.cause_key}")


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What asking the questions of a gap again showed.

    Attributes:
        is_closed: They are answered now.
        summary: One sentence with the figures, such as ``3 of 3 questions found thread t1``; names nothing that was asked.
        evidence: What it is said of; goes into the signal's evidence under ``replay``.
    """

    is_closed: bool
    summary: str
    evidence: Mapping[str, Json] = field(default_factory=dict[str, Json])
