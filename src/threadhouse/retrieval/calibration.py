"""Finding the numbers of thread resolution on judged queries, and saying how good they are.

Belongs here: what is observed of a judged query, taking threads away, fitting coefficients and thresholds, the report.
Does not belong here: asking the queries (the caller observes), storing a policy (stores.retrieval_policy), scipy.

Every figure of a report is measured on threads that were not fitted on: threads fall into five groups, each group is judged by
what was fitted on the other four. Every query is judged twice: with all threads there, and with its own group withheld, when
saying that the thread is missing is the right answer. A query of the second kind counts a quarter, so that one answer in five is
"missing", as if a fifth of the threads did not exist.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from threadhouse.retrieval.errors import CalibrationError
from threadhouse.retrieval.models import Json, ThreadId
from threadhouse.retrieval.query_text import PreparedQuery
from threadhouse.retrieval.ranking import ThreadFacts, ranking_handicap, ranking_parts
from threadhouse.retrieval.resolution import (
    LexicalSignals,
    RetrievalPolicy,
    log_sum_exp,
    match_of,
    share_of_strengths,
    strength,
    strongest_of,
)
from threadhouse.retrieval.search_hits import SearchHit
from threadhouse.retrieval.thread_features import (
    INPUTS,
    Features,
    Memberships,
    Scales,
    candidate_features,
    centroid_thread,
    nearest_cosine,
    relation_of,
)

FOLDS = 5
"""A fifth of the threads is withheld at a time."""

MISSING_WEIGHT = 1 / (FOLDS - 1)
"""Weight of a query whose thread is withheld, against 1 of the same query with it."""

EXPLICIT_WORTH = 12.0
"""Log-odds of an explicit reference. Set, not fitted: judged queries seldom name their thread, and whoever names one means it."""

FEWEST_QUERIES_TO_FIT = 200
FEWEST_THREADS_TO_FIT = 15
"""With fewer, only thresholds are fitted: thirty coefficients would learn the queries by heart."""

FEWEST_TO_FIT_A_MATCH = 50
"""Questions with their thread and without it, each, in one relation."""

SINGLE_PRECISION = 0.95
"""Share of single matches that must be right; the lowest threshold that reaches it is taken."""

_RIDGE = 1.0
_COSINE_STEPS = 25.0
"""Cosines differ by hundredths where other inputs differ by halves."""

_MOST_STEPS = 60
_CLOSE_ENOUGH = 1e-6
_RELIABILITY_BINS = 10
_LOWEST_SINGLE = 0.51
_HIGHEST_SINGLE = 0.99


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that was seen when a judged query was asked; ``right`` is empty when no thread answers it.

    ``lexical``, hits, memberships and facts are what `resolve_threads` would have been given.
    """

    query_id: str
    query: PreparedQuery
    right: frozenset[ThreadId]
    lexical: LexicalSignals
    centroid_hits: tuple[SearchHit, ...]
    unit_hits: tuple[SearchHit, ...]
    memberships: Memberships
    facts: Mapping[ThreadId, ThreadFacts]


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """How good a policy is on judged queries; rates are 0 to 1, None without anything to count.

    Attributes:
        queries: Judged queries that have a right thread.
        hit_at_1: Share of them whose first candidate is right; threads all there.
        hit_at_3: Share with a right one among the first three.
        single_precision: Right single matches among all, queries with a withheld thread included.
        single_recall: Right single matches among queries that have their thread.
        missing_precision: Queries rightly told that a thread is missing, among all told so.
        missing_recall: Queries with a withheld thread that were told so.
        missing_auroc: Chance that a query with its thread scores higher than one without.
        calibration_error: Expected calibration error of the first candidate's score, ten bins.
        log_loss: Mean of -log of the probability given to the right answer.
    """

    queries: int
    hit_at_1: float | None
    hit_at_3: float | None
    single_precision: float | None
    single_recall: float | None
    missing_precision: float | None
    missing_recall: float | None
    missing_auroc: float | None
    calibration_error: float | None
    log_loss: float | None

    def as_json(self) -> dict[str, Json]:
        """The figures by name, rounded to what a few thousand queries can tell apart."""
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was fitted. ``current`` and ``fitted`` judge the old and the new policy on the same queries.

    ``is_refitted`` says that coefficients were fitted too, and not thresholds alone.
    """

    policy: RetrievalPolicy
    current: CalibrationReport
    fitted: CalibrationReport
    is_refitted: bool


@dataclass(frozen=True, slots=True)
class _Example:
    """One query with one set of threads. ``is_right`` has one entry a candidate; none is true when the thread is missing."""

    inputs: NDArray[np.float64]
    offset: NDArray[np.float64]
    is_right: NDArray[np.bool_]
    weight: float
    is_answerable: bool


@dataclass(frozen=True, slots=True)
class _Judged:
    """One answer: scores of the candidates, best first, and which are right."""

    scores: tuple[float, ...]
    is_right: tuple[bool, ...]
    weight: float
    is_answerable: bool

    @property
    def top(self) -> float:
        return self.scores[0] if self.scores else 0.0

    @property
    def any_thread(self) -> float:
        return min(1.0, math.fsum(self.scores))


def calibrate(
    observations: Sequence[Observation],
    current: RetrievalPolicy,
    *,
    space_id: str,
    now: datetime,
    single_precision: float = SINGLE_PRECISION,
    withheld: Mapping[str, Observation] | None = None,
) -> Calibration:
    """Fit a policy for one space, and judge it beside the current one on threads that were not fitted on.

    Coefficients are fitted when there are enough queries and threads and the fitted ones give the right answers a higher
    probability than the current ones; else only the thresholds are.

    Args:
        observations: Judged queries, all asked in ``space_id``.
        current: What is in force; weights of ranking, scales, the floor and the limit are kept.
        space_id: The space of the row.
        now: When the observations were made.
        single_precision: Share of single matches that must be right.
        withheld: By id of a query, what was observed when its group of threads really was not there. Without one, that is made
            up by `withhold`, which leaves the scores of search as they are: a real search would raise what is left.

    Raises:
        CalibrationError: No query has a right thread among those that were seen.
    """
    answerable = [o for o in observations if o.right & o.facts.keys()]
    threads = sorted({thread_id for o in answerable for thread_id in o.right & o.facts.keys()})
    if not answerable:
        message = "None of the judged queries has its thread among those that the reader sees; check the lane and the thread ids."
        raise CalibrationError(message)
    judged_now = _judge_all(observations, withheld, lambda _: current, now)
    policy, judged, is_refitted = current, judged_now, False
    if len(answerable) >= FEWEST_QUERIES_TO_FIT and len(threads) >= FEWEST_THREADS_TO_FIT:
        refitted, held_out = _refit(observations, withheld, current, now)
        if _log_loss(held_out) < _log_loss(judged_now):
            policy, judged, is_refitted = refitted, held_out, True
    policy = _with_thresholds(replace(policy, space_id=space_id), judged, single_precision)
    return Calibration(
        policy=policy,
        current=_report(judged_now, current),
        fitted=_report(judged, policy),
        is_refitted=is_refitted,
    )


def evaluate(
    observations: Sequence[Observation],
    policy: RetrievalPolicy,
    *,
    now: datetime,
    withheld: Mapping[str, Observation] | None = None,
) -> CalibrationReport:
    """Judge a policy as it is, with all threads and with a fifth of them withheld at a time."""
    return _report(_judge_all(observations, withheld, lambda _: policy, now), policy)


def withhold(observation: Observation, threads: Collection[ThreadId]) -> Observation:
    """The same query as if some threads did not exist, nor the units that count for nothing else."""
    gone = frozenset(threads)
    memberships = {
        unit_id: {t: weight for t, weight in counted.items() if t not in gone}
        for unit_id, counted in observation.memberships.items()
    }
    emptied = {
        unit_id
        for unit_id, counted in memberships.items()
        if not counted and observation.memberships[unit_id]
    }
    lexical = observation.lexical
    return replace(
        observation,
        right=observation.right - gone,
        lexical=LexicalSignals(
            explicit=_without(lexical.explicit, gone),
            label=_without(lexical.label, gone),
            keyword=_without(lexical.keyword, gone),
            authority=_without(lexical.authority, gone),
        ),
        centroid_hits=tuple(h for h in observation.centroid_hits if centroid_thread(h) not in gone),
        unit_hits=tuple(h for h in observation.unit_hits if h.owner_id not in emptied),
        memberships=memberships,
        facts={t: facts for t, facts in observation.facts.items() if t not in gone},
    )


def fold_of(thread_id: ThreadId) -> int:
    """The group of a thread, 0 to FOLDS - 1: the same in every run and on every machine."""
    return hashlib.sha256(thread_id.encode()).digest()[0] % FOLDS


def expected_calibration_error(
    scores: Sequence[float], is_right: Sequence[bool], weights: Sequence[float]
) -> float:
    """Mean distance between score and share of right answers, over ten equal bins of the score, weighted by what lies in each."""
    edges = np.minimum((np.asarray(scores) * _RELIABILITY_BINS).astype(int), _RELIABILITY_BINS - 1)
    distance = (np.asarray(is_right, dtype=float) - np.asarray(scores)) * np.asarray(weights)
    total = float(np.sum(weights))
    gaps = [abs(float(distance[edges == b].sum())) for b in range(_RELIABILITY_BINS)]
    return math.fsum(gaps) / total


def auroc(positives: Sequence[float], negatives: Sequence[float]) -> float | None:
    """Chance that a positive scores higher than a negative; a tie counts half. None when either side is empty."""
    if not positives or not negatives:
        return None
    ordered = np.sort(np.asarray(negatives, dtype=float))
    ups = np.searchsorted(ordered, positives, side="left")
    ties = np.searchsorted(ordered, positives, side="right") - ups
    return float((ups + ties / 2).sum()) / (len(positives) * len(negatives))


def fit_coefficients(
    inputs: Sequence[NDArray[np.float64]],
    offsets: Sequence[NDArray[np.float64]],
    is_right: Sequence[NDArray[np.bool_]],
    weights: Sequence[float],
    free_sign: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Coefficients of a multinomial logit with a way out, by Newton's method with a ridge.

    A coefficient that may not be negative and would be is set to 0 and the rest is fitted again: more evidence must never make a
    thread less likely.

    Args:
        inputs: One array a query, shape (candidates, inputs).
        offsets: Log-odds that are given, shape (candidates,) each.
        is_right: Right candidates, shape (candidates,) each; none when the way out is right.
        weights: Of the queries.
        free_sign: Shape (inputs,); true where a coefficient may be negative.

    Returns:
        Shape (inputs,).
    """
    kept = np.ones(len(free_sign), dtype=bool)
    while True:
        found = np.zeros(len(free_sign))
        found[kept] = _newton([x[:, kept] for x in inputs], offsets, is_right, weights)
        wrong = (found < 0) & ~free_sign
        if not wrong.any():
            return found
        kept &= ~wrong


def _newton(
    inputs: Sequence[NDArray[np.float64]],
    offsets: Sequence[NDArray[np.float64]],
    is_right: Sequence[NDArray[np.bool_]],
    weights: Sequence[float],
) -> NDArray[np.float64]:
    sizes = np.array([len(x) for x in inputs])
    used = sizes > 0
    x = np.concatenate(list(inputs))
    offset = np.concatenate(list(offsets))
    right = np.concatenate(list(is_right)).astype(float)
    weight = np.asarray(weights, dtype=float)[used]
    sizes = sizes[used]
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    query = np.repeat(np.arange(len(sizes)), sizes)
    # Several right threads share the answer.
    hits = np.add.reduceat(right, starts)
    target = right / np.maximum(hits, 1)[query]
    row_weight = weight[query]

    def shares(w: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        s = x @ w + offset
        top = np.maximum(np.maximum.reduceat(s, starts), 0)
        power = np.exp(s - top[query])
        total = np.add.reduceat(power, starts) + np.exp(-top)
        likelihood = weight * (np.add.reduceat(target * s, starts) - top - np.log(total))
        return power / total[query], float(likelihood.sum() - _RIDGE / 2 * w @ w)

    w = np.zeros(x.shape[1])
    share, value = shares(w)
    for _ in range(_MOST_STEPS):
        gradient = x.T @ (row_weight * (target - share)) - _RIDGE * w
        means = np.add.reduceat(x * share[:, None], starts, axis=0)
        curvature = (x * (row_weight * share)[:, None]).T @ x - (means * weight[:, None]).T @ means
        step = np.linalg.solve(curvature + _RIDGE * np.eye(len(w)), gradient)
        size = 1.0
        while (moved := shares(w + size * step))[1] < value and size > _CLOSE_ENOUGH:
            size /= 2
        w, share, gained, value = w + size * step, moved[0], moved[1] - value, moved[1]
        if gained < _CLOSE_ENOUGH * max(1.0, abs(value)):
            break
    return w


def _refit(
    observations: Sequence[Observation],
    withheld: Mapping[str, Observation] | None,
    start: RetrievalPolicy,
    now: datetime,
) -> tuple[RetrievalPolicy, list[_Judged]]:
    fitted = {fold: _fit(observations, withheld, start, now, without=fold) for fold in range(FOLDS)}
    held_out = _judge_all(observations, withheld, lambda fold: fitted[fold], now)
    return _fit(observations, withheld, start, now, without=None), held_out


def _fit(
    observations: Sequence[Observation],
    withheld: Mapping[str, Observation] | None,
    start: RetrievalPolicy,
    now: datetime,
    without: int | None,
) -> RetrievalPolicy:
    seen = [e for e in with_and_without(observations, withheld) if e[0] != without]
    examples = [
        example
        for _, observation, weight in seen
        if (example := _example(observation, start, now, weight, start.scales)).inputs.size
    ]
    fixed = INPUTS.index("explicit")
    free = np.array([name.endswith(":intercept") for name in INPUTS])
    columns = np.arange(len(INPUTS)) != fixed
    found = fit_coefficients(
        [e.inputs[:, columns] for e in examples],
        [e.offset + EXPLICIT_WORTH * e.inputs[:, fixed] for e in examples],
        [e.is_right for e in examples],
        [e.weight for e in examples],
        free[columns],
    )
    names = [name for name, kept in zip(INPUTS, columns, strict=True) if kept]
    coefficients = {
        name: round(float(value), 4) for name, value in zip(names, found, strict=True) if value
    }
    coefficients["explicit"] = EXPLICIT_WORTH
    matches = _fit_matches(seen, replace(start, coefficients=coefficients), now)
    return replace(start, coefficients=coefficients | matches)


def _fit_matches(
    examples: Sequence[tuple[int, Observation, float]], policy: RetrievalPolicy, now: datetime
) -> dict[str, float]:
    """What the strengths together say of a thread being there at all, for each relation that has examples of both kinds.

    Fitted after the strengths: what tells threads apart is not what tells whether one of them is right, and one slope for both
    was sure of too much across languages.
    """
    by_relation: dict[str, list[tuple[list[float], bool, float]]] = defaultdict(list)
    for _, observation, weight in examples:
        features = _features(observation, policy.scales)
        strengths = {
            t: strength(row, policy.coefficients) + _handicap(observation, t, policy, now)
            for t, row in features.items()
        }
        if strengths:
            strongest = strongest_of(strengths)
            cosine = nearest_cosine(strongest, observation.unit_hits, observation.memberships)
            is_there = bool(observation.right & observation.facts.keys())
            row = [1.0, log_sum_exp(strengths.values()), cosine * _COSINE_STEPS]
            by_relation[relation_of(features[strongest])].append((row, is_there, weight))
    found: dict[str, float] = {}
    for relation, rows in by_relation.items():
        there = sum(is_there for _, is_there, _ in rows)
        if min(there, len(rows) - there) < FEWEST_TO_FIT_A_MATCH:
            continue
        # The ridge pulls towards 0: what it pulls should not hold the place of a scale.
        middle = float(np.mean([row[2] for row, _, _ in rows]))
        intercept, slope, nearness = fit_coefficients(
            [np.array([[row[0], row[1], row[2] - middle]]) for row, _, _ in rows],
            [np.zeros(1)] * len(rows),
            [np.array([is_there]) for _, is_there, _ in rows],
            [weight for _, _, weight in rows],
            np.array([True, False, False]),
        )
        if slope > 0:
            found[f"{relation}:match_intercept"] = round(float(intercept - nearness * middle), 4)
            found[f"{relation}:match_slope"] = round(float(slope), 4)
            found[f"{relation}:match_cosine"] = round(float(nearness * _COSINE_STEPS), 4)
    return found


def with_and_without(
    observations: Sequence[Observation], withheld: Mapping[str, Observation] | None = None
) -> Iterable[tuple[int, Observation, float]]:
    """Every query with its group of threads there and withheld; queries without a right thread once, as they are."""
    seen_without = withheld or {}
    for observation in observations:
        right = sorted(observation.right & observation.facts.keys())
        if not right:
            group = fold_of(ThreadId(observation.query_id))
            yield group, replace(observation, right=frozenset()), 1.0
            continue
        fold = fold_of(right[0])
        yield fold, observation, 1.0
        if (seen := seen_without.get(observation.query_id)) is None:
            gone = {t for t in observation.facts if fold_of(t) == fold} | observation.right
            seen = withhold(observation, gone)
        yield fold, replace(seen, right=frozenset()), MISSING_WEIGHT


def _example(
    observation: Observation,
    policy: RetrievalPolicy,
    now: datetime,
    weight: float,
    scales: Scales,
) -> _Example:
    features = _features(observation, scales)
    inputs = np.zeros((len(features), len(INPUTS)))
    column = {name: number for number, name in enumerate(INPUTS)}
    for row, values in enumerate(features.values()):
        for name, value in values.items():
            inputs[row, column[name]] = value
    return _Example(
        inputs=inputs,
        offset=np.array([_handicap(observation, t, policy, now) for t in features]),
        is_right=np.array([t in observation.right for t in features], dtype=bool),
        weight=weight,
        is_answerable=bool(observation.right & observation.facts.keys()),
    )


def _features(observation: Observation, scales: Scales) -> Mapping[ThreadId, Features]:
    return candidate_features(
        observation.query,
        observation.lexical,
        observation.centroid_hits,
        observation.unit_hits,
        observation.memberships,
        observation.facts.keys(),
        scales,
    )


def _handicap(
    observation: Observation, thread_id: ThreadId, policy: RetrievalPolicy, now: datetime
) -> float:
    parts = ranking_parts(observation.facts[thread_id], policy.ranking, now)
    return ranking_handicap(parts, policy.ranking)


def _judge_all(
    observations: Sequence[Observation],
    withheld: Mapping[str, Observation] | None,
    policy_of: Callable[[int], RetrievalPolicy],
    now: datetime,
) -> list[_Judged]:
    return [
        _judge(observation, policy_of(fold), now, weight)
        for fold, observation, weight in with_and_without(observations, withheld)
    ]


def _judge(
    observation: Observation, policy: RetrievalPolicy, now: datetime, weight: float
) -> _Judged:
    features = _features(observation, policy.scales)
    strengths = {
        t: strength(row, policy.coefficients) + _handicap(observation, t, policy, now)
        for t, row in features.items()
    }
    match = match_of(
        features,
        strengths,
        observation.unit_hits,
        observation.memberships,
        policy.coefficients,
    )
    scores = share_of_strengths(strengths, match)
    ranked = sorted(scores, key=lambda t: (-scores[t], t))
    return _Judged(
        scores=tuple(scores[t] for t in ranked),
        is_right=tuple(t in observation.right for t in ranked),
        weight=weight,
        is_answerable=bool(observation.right),
    )


def _log_loss(judged: Sequence[_Judged]) -> float:
    losses: list[float] = []
    for answer in judged:
        given = math.fsum(
            s for s, right in zip(answer.scores, answer.is_right, strict=True) if right
        )
        if not answer.is_answerable:
            given = 1 - answer.any_thread
        losses.append(-answer.weight * math.log(max(given, 1e-12)))
    return math.fsum(losses) / math.fsum(answer.weight for answer in judged)


def _with_thresholds(
    policy: RetrievalPolicy, judged: Sequence[_Judged], single_precision: float
) -> RetrievalPolicy:
    return replace(
        policy,
        single_threshold=_single_threshold(judged, single_precision),
        match_threshold=_match_threshold(judged),
    )


def _single_threshold(judged: Sequence[_Judged], wanted: float) -> float:
    """The lowest score, in hundredths, from which on the wanted share of first candidates is right."""
    for hundredths in range(round(100 * _LOWEST_SINGLE), round(100 * _HIGHEST_SINGLE)):
        threshold = hundredths / 100
        singles = [a for a in judged if a.top >= threshold]
        total = math.fsum(a.weight for a in singles)
        right = math.fsum(a.weight for a in singles if a.is_right[0])
        if total and right / total >= wanted:
            return threshold
    return _HIGHEST_SINGLE


def _match_threshold(judged: Sequence[_Judged]) -> float:
    """The sum of scores, in hundredths, that tells most queries rightly whether a thread is there, by weight."""

    def right(threshold: float) -> float:
        return math.fsum(a.weight for a in judged if (a.any_thread >= threshold) == a.is_answerable)

    # Of equal ones the lowest: calling a thread missing that is there costs a wrong signal and a worse answer.
    return max((hundredths / 100 for hundredths in range(1, 100)), key=lambda t: (right(t), -t))


def _report(judged: Sequence[_Judged], policy: RetrievalPolicy) -> CalibrationReport:
    there = [a for a in judged if a.is_answerable]
    gone = [a for a in judged if not a.is_answerable]
    told_missing = [a for a in judged if a.any_thread < policy.match_threshold]
    singles = [
        a
        for a in judged
        if a.any_thread >= policy.match_threshold and a.top >= policy.single_threshold
    ]
    right_singles = [a for a in singles if a.is_right[0]]
    first = [a for a in judged if a.scores]
    return CalibrationReport(
        queries=len(there),
        hit_at_1=_share([a for a in there if any(a.is_right[:1])], there),
        hit_at_3=_share([a for a in there if any(a.is_right[:3])], there),
        single_precision=_share(right_singles, singles),
        single_recall=_share(right_singles, there),
        missing_precision=_share([a for a in told_missing if not a.is_answerable], told_missing),
        missing_recall=_share([a for a in told_missing if not a.is_answerable], gone),
        missing_auroc=auroc([a.any_thread for a in there], [a.any_thread for a in gone]),
        calibration_error=expected_calibration_error(
            [a.top for a in first], [a.is_right[0] for a in first], [a.weight for a in first]
        )
        if first
        else None,
        log_loss=_log_loss(judged) if judged else None,
    )


def _share(part: Sequence[_Judged], whole: Sequence[_Judged]) -> float | None:
    total = math.fsum(a.weight for a in whole)
    return math.fsum(a.weight for a in part) / total if total else None


def _without(signal: Mapping[ThreadId, float], gone: Collection[ThreadId]) -> dict[ThreadId, float]:
    return {t: value for t, value in signal.items() if t not in gone}
