"""Threads that resolution names, packs that hold the answer, and whether a missing thread is noticed.

Belongs here: asking a hub's service, hit rates, packs, withheld threads.
Does not belong here: building hubs (quality_hubs), the rules of resolution and of withholding (retrieval).

Packs are taken as the service delivers them, with its default token budget; without the budget, a pack holds the answer whenever
its thread is right. A pack of a question that no thread answers holds what search found.

Missing threads: a fifth of the threads is really left out (the hub is loaded and published again without them and without the
units that belong to nothing else), and the questions of that fifth are asked again. A *false alarm* is a question told that its
thread is missing although it is there; *missed* is one not told so although it is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import fmean

from bench.measuring import Measure, say
from bench.quality_hubs import Hub
from bench.quality_tasks import Question
from threadhouse.retrieval.calibration import (
    Observation,
    auroc,
    expected_calibration_error,
    fold_of,
)
from threadhouse.retrieval.models import ThreadId, UnitId
from threadhouse.retrieval.resolution import (
    Resolution,
    ResolutionKind,
    RetrievalPolicy,
    resolve_threads,
)

MISSING_AIM = 0.90


@dataclass(frozen=True, slots=True)
class ThreadTask:
    """Questions for one hub. ``without_own``: the unit that a question was made from is taken out of what was found."""

    name: str
    questions: Sequence[Question]
    aim: float | None = None
    without_own: bool = False


@dataclass(frozen=True, slots=True)
class ThreadScore:
    """Shares, 0 to 1, of the questions whose thread is in the hub."""

    questions: int
    hit_at_1: float
    hit_at_3: float
    best_unit_at_1: float
    single_share: float
    single_precision: float
    calibration_error: float


@dataclass(frozen=True, slots=True)
class MissingScore:
    """How well it is noticed that a thread is not there."""

    there: int
    gone: int
    auroc: float
    false_alarms: float
    missed: float


def observe(hub: Hub, task: ThreadTask) -> list[Observation]:
    """What resolution is given for the questions that the hub is for.

    In a whole hub those are the questions that have a thread in it; in one with a fifth left out, those whose threads are all in
    that fifth.
    """
    fold = hub.source.fold
    asked = [
        question
        for question in task.questions
        if question.threads
        and (fold is None or all(fold_of(ThreadId(t)) == fold for t in question.threads))
    ]
    say(f"{task.name}: asking {len(asked):,} questions for their threads")
    seen: list[Observation] = []
    for question in asked:
        right = frozenset(map(ThreadId, question.threads))
        # Questions come back in several tasks, so the id names the task too.
        observation = hub.service.observe(
            f"{task.name}:{question.question_id}", question.text, right, hub.source.principal
        )
        if task.without_own and question.excluded is not None:
            observation = without_unit(observation, question.excluded)
        if fold is not None or right & observation.facts.keys():
            seen.append(observation)
    return seen


def measure_threads(
    task: ThreadTask,
    seen: Sequence[Observation],
    gone: Sequence[Observation],
    policy: RetrievalPolicy,
) -> list[Measure]:
    """Hit rates with all threads there, and what happens to the questions whose thread is ``gone``."""
    score = score_threads(seen, policy)
    measures = [
        Measure(
            f"{task.name}, thread",
            score.hit_at_1,
            "hit@1",
            "thread of the best unit",
            score.best_unit_at_1,
            f"@3 {score.hit_at_3:.3f}, single match {score.single_share:.3f} of which right"
            f" {score.single_precision:.3f}, calibration error {score.calibration_error:.3f}"
            f"{_against(score.hit_at_1, task.aim)}, {score.questions} questions",
        )
    ]
    if gone:
        missing = score_missing(seen, gone, policy)
        measures.append(
            Measure(
                f"{task.name}, missing thread",
                missing.auroc,
                "AUROC",
                note=f"at the threshold: false alarms {missing.false_alarms:.3f}, missed {missing.missed:.3f}"
                f"{_against(missing.auroc, MISSING_AIM)}, {missing.there} questions there, {missing.gone} gone",
            )
        )
    return measures


def score_threads(seen: Sequence[Observation], policy: RetrievalPolicy) -> ThreadScore:
    """Hit rates of a policy on observed questions."""
    now = datetime.now(UTC)
    answers = [(each, decide(each, policy, now)) for each in seen]
    first = [_is_right(each, answer, 1) for each, answer in answers]
    singles = [
        right
        for right, (_, answer) in zip(first, answers, strict=True)
        if answer.kind is ResolutionKind.SINGLE
    ]
    tops = [answer.candidates[0].score if answer.candidates else 0.0 for _, answer in answers]
    return ThreadScore(
        questions=len(seen),
        hit_at_1=_mean(first),
        hit_at_3=_mean([_is_right(each, answer, 3) for each, answer in answers]),
        best_unit_at_1=_mean([_best_unit_is_right(each) for each in seen]),
        single_share=len(singles) / max(len(seen), 1),
        single_precision=_mean(singles),
        calibration_error=expected_calibration_error(tops, first, [1.0] * len(seen)),
    )


def score_missing(
    seen: Sequence[Observation], gone: Sequence[Observation], policy: RetrievalPolicy
) -> MissingScore:
    """How well a policy tells threads that are there from threads that are gone."""
    now = datetime.now(UTC)
    there = [decide(each, policy, now) for each in seen]
    without = [decide(each, policy, now) for each in gone]
    return MissingScore(
        there=len(there),
        gone=len(without),
        auroc=auroc([a.any_thread for a in there], [a.any_thread for a in without]) or 0.0,
        false_alarms=_mean([a.kind is ResolutionKind.MISSING for a in there]),
        missed=_mean([a.kind is not ResolutionKind.MISSING for a in without]),
    )


def measure_packs(hub: Hub, task: ThreadTask, every: int) -> Measure:
    """Share of the delivered packs that hold a unit that answers, of every so many questions."""
    asked = task.questions[::every]
    say(f"{task.name}: taking {len(asked):,} packs")
    held: list[bool] = []
    shortened: list[bool] = []
    ad_hoc: list[bool] = []
    for question in asked:
        pack = hub.service.answer(question.text, hub.source.principal).pack
        held.append(any(unit.logical_unit_id in question.relevant for unit in pack.units()))
        budget = pack.token_budget
        shortened.append(budget is not None and budget.left_out_count > 0)
        ad_hoc.append(not pack.thread_id)
    return Measure(
        f"{task.name}, pack holds the answer",
        _mean(held),
        "share",
        note=f"shortened to the token budget {_mean(shortened):.3f}, without a thread {_mean(ad_hoc):.3f},"
        f" {len(held)} questions",
    )


def decide(observation: Observation, policy: RetrievalPolicy, now: datetime) -> Resolution:
    """What the service would have decided from this observation."""
    return resolve_threads(
        observation.query,
        observation.lexical,
        observation.centroid_hits,
        observation.unit_hits,
        observation.memberships,
        observation.facts,
        policy,
        now=now,
    )


def without_unit(observation: Observation, unit_id: str) -> Observation:
    """The same question as if search had not found one unit."""
    return replace(
        observation,
        unit_hits=tuple(hit for hit in observation.unit_hits if hit.owner_id != unit_id),
    )


def _is_right(observation: Observation, answer: Resolution, places: int) -> bool:
    return any(each.thread_id in observation.right for each in answer.candidates[:places])


def _best_unit_is_right(observation: Observation) -> bool:
    if not observation.unit_hits:
        return False
    best = max(observation.unit_hits, key=lambda hit: hit.score)
    threads = observation.memberships.get(UnitId(best.owner_id), {})
    return bool(observation.right & threads.keys())


def _mean(values: Sequence[bool]) -> float:
    return fmean(values) if values else 0.0


def _against(value: float, aim: float | None) -> str:
    if aim is None:
        return ""
    return f", aim {aim:.2f} {'reached' if value >= aim else 'MISSED'}"
