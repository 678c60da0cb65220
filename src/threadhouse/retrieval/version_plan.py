"""Which incoming text becomes a version of a unit.

Belongs here: the decision, as a function of the stored revisions. Does not belong here: reading or writing them (stores.loading).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from threadhouse.retrieval.sources import stable_id


class Decision(StrEnum):
    """What becomes of an incoming text."""

    NEW = "new"
    UNCHANGED = "unchanged"
    CONFLICT = "conflict"
    TOO_OLD = "too_old"


@dataclass(frozen=True, slots=True)
class IncomingText:
    """A text on its way in. ``revision`` as the source states it; ``is_history`` marks all but the newest of a series."""

    content_hash: str
    revision: int | None = None
    is_history: bool = False


@dataclass(frozen=True, slots=True)
class VersionDecision:
    """A decision and, for all but a text that is too old, the revision it is about."""

    decision: Decision
    revision: int | None = None


def plan_versions(
    stored: Mapping[int, str], incoming: Sequence[IncomingText]
) -> list[VersionDecision]:
    """Decide for the texts of one unit, oldest first, given its stored revisions and their hashes.

    A stated revision is honoured: it is stored under its number, whether older or newer than what is there, and met again it
    changes nothing. Without one, the newest text is a new version when it differs from the latest stored one; an
    older text of the series is stored only before anything else of the unit is, because versions are never renumbered.
    """
    known = dict(stored)
    was_empty = not stored
    decisions: list[VersionDecision] = []
    for text in incoming:
        decision = _decide(known, text, was_empty=was_empty)
        if decision.decision is Decision.NEW and decision.revision is not None:
            known[decision.revision] = text.content_hash
        decisions.append(decision)
    return decisions


def _decide(known: Mapping[int, str], text: IncomingText, *, was_empty: bool) -> VersionDecision:
    latest = max(known, default=0)
    if text.revision is not None:
        if text.revision not in known:
            return VersionDecision(Decision.NEW, text.revision)
        same = known[text.revision] == text.content_hash
        return VersionDecision(Decision.UNCHANGED if same else Decision.CONFLICT, text.revision)
    if known.get(latest) == text.content_hash:
        return VersionDecision(Decision.UNCHANGED, latest)
    if text.is_history and not was_empty:
        is_known = text.content_hash in known.values()
        return VersionDecision(Decision.UNCHANGED if is_known else Decision.TOO_OLD)
    return VersionDecision(Decision.NEW, latest + 1)


def version_id(logical_unit_id: str, revision: int, content_hash: str) -> UUID:
    """The id of a version: the same text under the same number has it everywhere."""
    return stable_id("version", logical_unit_id, revision, content_hash)
