"""Recent questions asked again: what changed about their answers, and which of them lost what they had.

Belongs here: what an answer is reduced to, what counts as a change and as a loss, when losses are too many, what is reported.
Does not belong here: asking (serving.replay), which questions and where answers are kept (stores.replay).

docs/replay.md has the table of changes and losses, for those who have to decide.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from uuid import UUID

from threadhouse.retrieval.events import ResolutionPath
from threadhouse.retrieval.models import Audience, ThreadId

MIN_LOSSES = 2
"""Below it nothing is stopped, whatever the share: in a hub with five questions a week one is a fifth of them."""

KEPT_SHARE = 0.5
"""A pack in which fewer of the units are left than this is another answer: half of what a reader relied on is gone."""

BY_THREAD = frozenset({ResolutionPath.THREAD, ResolutionPath.CANDIDATES})


@dataclass(frozen=True, slots=True)
class ReplayQuestion:
    """A question that somebody asked not long ago.

    Attributes:
        question_key: Identity of the question in its lane, see `threadhouse.retrieval.query_keeping.keyed_cause`.
        query_id: The newest query that asked it.
        judged_sufficient: The thread whose answer a reader called sufficient, the last time that any reader said anything of it.
    """

    question_key: str
    lane: Audience
    query_id: UUID
    text: str
    judged_sufficient: ThreadId | None = None


@dataclass(frozen=True, slots=True)
class ReplayAnswer:
    """What is kept of an answer.

    Attributes:
        units: ``address@revision``, in the order of the pack.
        top_unit: Owner of the best hit of the search, a unit or a document, whichever thread answers; None when it found nothing.
    """

    path: ResolutionPath
    thread_id: ThreadId | None
    units: tuple[str, ...]
    top_unit: str | None

    @property
    def addresses(self) -> frozenset[str]:
        """Addresses of the units, of whatever revision."""
        return frozenset(unit.rpartition("@")[0] for unit in self.units)


class Change(StrEnum):
    """What is not as it was. Most changes are what the night was for."""

    THREAD = "thread"
    UNITS = "units"
    TOP_UNIT = "top_unit"


class Loss(StrEnum):
    """What a reader had and has no more; the first that applies."""

    NOTHING_FOUND = "nothing_found"
    THREAD_LOST = "thread_lost"
    PACK_SHRUNK = "pack_shrunk"
    THREAD_GONE = "thread_gone"
    SUFFICIENT_ANSWER_REPLACED = "sufficient_answer_replaced"


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """One question, before and after. ``old`` is None when it was never asked in a replay before."""

    question: ReplayQuestion
    old: ReplayAnswer | None
    new: ReplayAnswer
    changes: tuple[Change, ...]
    loss: Loss | None

    @property
    def is_at_risk(self) -> bool:
        """Whether there was something to lose."""
        return self.old is not None and bool(self.old.units)


def compare_answers(
    question: ReplayQuestion,
    old: ReplayAnswer | None,
    new: ReplayAnswer,
    *,
    is_old_thread_gone: bool = False,
) -> ReplayOutcome:
    """Hold an answer against the one before.

    Args:
        is_old_thread_gone: The lane does not see the thread any more that answered before.
    """
    if old is None:
        return ReplayOutcome(question, None, new, (), None)
    changed = {
        Change.THREAD: old.thread_id != new.thread_id,
        Change.UNITS: frozenset(old.units) != frozenset(new.units),
        Change.TOP_UNIT: old.top_unit != new.top_unit,
    }
    changes = tuple(change for change, is_so in changed.items() if is_so)
    loss = _loss(question, old, new, is_old_thread_gone=is_old_thread_gone)
    return ReplayOutcome(question, old, new, changes, loss)


def _loss(
    question: ReplayQuestion, old: ReplayAnswer, new: ReplayAnswer, *, is_old_thread_gone: bool
) -> Loss | None:
    if not old.units:
        return None
    if not new.units:
        return Loss.NOTHING_FOUND
    if old.path not in BY_THREAD:
        return None
    # A thread that was merged into another or renamed still gives its readers what they had.
    is_another = len(old.addresses & new.addresses) < KEPT_SHARE * len(old.addresses)
    was_called_good = question.judged_sufficient is not None and (
        question.judged_sufficient == old.thread_id
    )
    reasons = (
        (Loss.THREAD_LOST, new.path not in BY_THREAD),
        (Loss.PACK_SHRUNK, is_another and old.thread_id == new.thread_id),
        (Loss.THREAD_GONE, is_another and is_old_thread_gone),
        (Loss.SUFFICIENT_ANSWER_REPLACED, is_another and was_called_good),
    )
    return next((loss for loss, applies in reasons if applies), None)


@dataclass(frozen=True, slots=True)
class ReplayVerdict:
    """What a replay says of the state that is about to be published."""

    outcomes: tuple[ReplayOutcome, ...]
    loss_share_limit: float

    @property
    def changed(self) -> int:
        return sum(bool(outcome.changes) for outcome in self.outcomes)

    @property
    def at_risk(self) -> int:
        return sum(outcome.is_at_risk for outcome in self.outcomes)

    @property
    def lost(self) -> int:
        return sum(outcome.loss is not None for outcome in self.outcomes)

    @property
    def loss_share(self) -> float | None:
        """Lost among those that had something to lose; None when none had."""
        return self.lost / self.at_risk if self.at_risk else None

    @property
    def is_too_much(self) -> bool:
        """Whether somebody has to be asked before this goes on."""
        share = self.loss_share
        return share is not None and share > self.loss_share_limit and self.lost >= MIN_LOSSES

    def sentence(self) -> str:
        """What was found, for whoever has to decide; names no question, because those are personal."""
        reasons = ", ".join(
            f"{loss} {count}"
            for loss in Loss
            if (count := sum(outcome.loss is loss for outcome in self.outcomes))
        )
        return (
            f"{self.lost} of {self.at_risk} recent questions would lose the answer they have ({reasons}); "
            f"more than {self.loss_share_limit:.0%} stops the run. Look at them with threadhouse replay show, mend the hub and "
            "run again, or run threadhouse nightly --accept-losses (in the UI: accept_losses) if this is what was meant."
        )


@dataclass(frozen=True, slots=True)
class PublishedReplay:
    """What came of replaying the published state.

    ``verdict`` is None when nothing was asked; ``why_not`` then says why. ``is_stopped`` is only ever true with a verdict.
    """

    verdict: ReplayVerdict | None
    is_stopped: bool = False
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class GapReplayReport:
    """Gaps whose questions were asked again: how many were closed, reopened, left as they were, and could not be asked."""

    closed: int = 0
    reopened: int = 0
    unchanged: int = 0
    without_text: int = 0

    def figures(self) -> dict[str, int]:
        """Every number by its name."""
        return asdict(self)


def judge_replay(
    questions: Sequence[ReplayQuestion],
    old: Mapping[str, ReplayAnswer],
    new: Mapping[str, ReplayAnswer],
    loss_share_limit: float,
    gone: Collection[tuple[Audience, ThreadId]] = frozenset(),
) -> ReplayVerdict:
    """Compare every question that was asked.

    Args:
        old: By question key; those that were never asked before are missing.
        new: By question key; every one of ``questions``.
        loss_share_limit: 0 to 1.
        gone: Threads that answered before and that the lane does not see any more.
    """
    outcomes = tuple(
        compare_answers(
            question,
            before := old.get(question.question_key),
            new[question.question_key],
            is_old_thread_gone=before is not None and (question.lane, before.thread_id) in gone,
        )
        for question in questions
    )
    return ReplayVerdict(outcomes, loss_share_limit)


def spread_over_lanes(
    questions: Collection[ReplayQuestion], limit: int
) -> tuple[ReplayQuestion, ...]:
    """A deterministic sample: in turn one question of each lane, in the order of their keys, which are hashes.

    The same questions come first every night, whatever else is asked, so that answers can be held against earlier ones; and no
    lane, however busy, leaves another one out.

    Args:
        limit: Questions at most.
    """
    in_lane: dict[Audience, int] = {}
    placed: list[tuple[int, str, ReplayQuestion]] = []
    for question in sorted(questions, key=lambda each: each.question_key):
        place = in_lane.get(question.lane, 0)
        in_lane[question.lane] = place + 1
        placed.append((place, question.lane, question))
    placed.sort(key=lambda each: each[:2])
    return tuple(question for _, _, question in placed[: max(limit, 0)])
