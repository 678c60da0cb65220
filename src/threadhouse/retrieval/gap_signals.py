"""Gaps that answers show (D11 §4.9): their kinds, their life, and what makes two of them the same.

Belongs here: kinds, statuses, identity of a cause, severity, which capability a gap asks for, which states of the hub are gaps,
the result of a replay as it settles one.
Does not belong here: which gaps a query reveals (fallback), keeping and routing them (stores.gap_signals, stores.gap_refresh).
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID, uuid5

from threadhouse.retrieval.models import Audience, HealthStatus, Json, ThreadId
from threadhouse.retrieval.payloads import digest_text

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


class Severity(StrEnum):
    """How soon somebody should look. ``security`` is no gap's: it marks security events in the same table."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class Capability(StrEnum):
    """What retrieval would need before a gap can be closed: no unit and no thread that anybody adds closes it (D4)."""

    READ_SCRIPT = "read_script"
    FIND_WHAT_IS_THERE = "find_what_is_there"


QUESTION_KINDS = (GapKind.SEARCH_GAP, GapKind.MISSING_THREAD)
"""Gaps that a question opens, once a question."""

STATE_KINDS = (GapKind.WEAK_THREAD, GapKind.NOISY_THREAD, GapKind.EXPECTED_ARTIFACT_MISSING)
"""Gaps that are a state of the hub: they are there as long as the state is, and close with it."""

SUPPORTED_SCRIPTS = frozenset({"LATIN"})
"""Scripts that words are cut, folded and weighed in. The names are those of the Unicode character database."""


@dataclass(frozen=True, slots=True)
class GapPolicy:
    """Occurrences from which a gap counts as normal and as high, and from which nothing found is a lack of retrieval itself."""

    normal_at: int
    high_at: int
    capability_at: int


@dataclass(frozen=True, slots=True)
class GapSignal:
    """One cause of bad answers. The same cause again is counted, not written twice.

    ``evidence`` never holds what was asked: that is personal and stays with the query's event. A gap that is kept under
    ``former_key`` is this one; it keeps its id.
    """

    kind: GapKind
    cause_key: str
    lane: Audience | None
    thread_id: ThreadId | None = None
    evidence: Mapping[str, Json] = field(default_factory=dict[str, Json])
    former_key: str | None = None

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


@dataclass(frozen=True, slots=True)
class GapState:
    """A state of the hub as a gap. ``opens`` it when it is not there; one that does not only keeps an open gap open."""

    gap: GapSignal
    opens: bool = True


def severity_of(
    kind: GapKind, occurrence_count: int, policy: GapPolicy, evidence: Mapping[str, Json]
) -> Severity:
    """How soon somebody should look at a gap.

    What readers report of a thread counts as low until its health says the same; a question as low until it recurs.
    """
    if occurrence_count >= policy.high_at:
        return Severity.HIGH
    if kind in QUESTION_KINDS and occurrence_count < policy.normal_at:
        return Severity.LOW
    if kind is GapKind.NOISY_THREAD and evidence.get("health") != HealthStatus.NOISY_RETRIEVAL:
        return Severity.LOW
    return Severity.NORMAL


def capability_asked_for(
    kind: GapKind, occurrence_count: int, text: str | None, policy: GapPolicy, *, sees_units: bool
) -> tuple[Capability, str] | None:
    """What retrieval lacks, if that is why a question found nothing, and in which respect; None when units or threads may help.

    Args:
        text: The question, when it is kept.
        sees_units: The lane has something that could have been found.

    Example:
        >>> policy = GapPolicy(3, 10, 5)
        >>> capability_asked_for(GapKind.MISSING_THREAD, 1, "คืนเงินอย่างไร", policy, sees_units=True)
        (<Capability.READ_SCRIPT: 'read_script'>, 'thai')
        >>> capability_asked_for(GapKind.SEARCH_GAP, 1, "hoàn tiền", policy, sees_units=True)
    """
    if kind not in QUESTION_KINDS:
        return None
    script = main_script(text or "")
    if script is not None and script not in SUPPORTED_SCRIPTS:
        return Capability.READ_SCRIPT, script.lower()
    if kind is GapKind.SEARCH_GAP and sees_units and occurrence_count >= policy.capability_at:
        return Capability.FIND_WHAT_IS_THERE, "recurring question"
    return None


def main_script(text: str) -> str | None:
    """The script that most letters of a text are written in, by its Unicode name; None without letters.

    Example:
        >>> main_script("Điều 5 là gì?")
        'LATIN'
    """
    scripts = Counter(
        unicodedata.name(letter, "UNKNOWN").partition(" ")[0] for letter in text if letter.isalpha()
    )
    return max(sorted(scripts), key=scripts.__getitem__, default=None)


def health_gaps(
    thread_id: ThreadId, lane: Audience, status: HealthStatus, noisy_reports: int
) -> list[GapState]:
    """The gaps that a thread's health in force for a lane, and what its readers reported since the last fix, come to.

    A query opens weak_thread for any status that it could not rely on; it stays open until the thread is healthy.
    """
    key = f"{lane}/{thread_id}"
    found: list[GapState] = []
    if status is not HealthStatus.HEALTHY:
        weak = GapSignal(GapKind.WEAK_THREAD, key, lane, thread_id, {"health": status})
        found.append(GapState(weak, opens=status is HealthStatus.WEAK))
    if status is HealthStatus.NOISY_RETRIEVAL or noisy_reports:
        evidence: dict[str, Json] = {"health": status, "noisy_reports": noisy_reports}
        found.append(GapState(GapSignal(GapKind.NOISY_THREAD, key, lane, thread_id, evidence)))
    return found


def empty_thread_gap(thread_id: ThreadId) -> GapState:
    """A thread without a single unit. No lane learns that it exists, so that the gap belongs to none."""
    evidence: dict[str, Json] = {"unit_count": 0}
    return GapState(GapSignal(GapKind.WEAK_THREAD, f"/{thread_id}", None, thread_id, evidence))


def artifact_gap(thread_id: ThreadId, lifecycle_stage: str, description: str) -> GapState:
    """An expected artefact that nobody has. It belongs to no lane: packs tell each lane what it may know of it."""
    key = f"{thread_id}/{lifecycle_stage}/{digest_text(description)[:32]}"
    evidence: dict[str, Json] = {
        "lifecycle_stage": lifecycle_stage,
        "description": description,
    }
    return GapState(GapSignal(GapKind.EXPECTED_ARTIFACT_MISSING, key, None, thread_id, evidence))
