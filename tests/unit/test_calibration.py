"""Fitting and judging on hand-made observations: thresholds, figures, withheld threads, and when nothing is refitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolution_house import NOW, POLICY, asked, centroid_hit, facts, unit_hit
from threadhouse.retrieval.calibration import (
    FOLDS,
    Observation,
    auroc,
    calibrate,
    evaluate,
    expected_calibration_error,
    fit_coefficients,
    fold_of,
    withhold,
)
from threadhouse.retrieval.errors import CalibrationError
from threadhouse.retrieval.models import ThreadId, UnitId
from threadhouse.retrieval.resolution import LexicalSignals

THREADS = [ThreadId(f"t{n}") for n in range(20)]


def observe(
    number: int, right: Sequence[ThreadId], best: ThreadId, *, cosine: float = 0.95
) -> Observation:
    """A query whose best unit belongs to ``best``, among fair units of all threads."""
    hits = [
        unit_hit(f"u-{t}", cosine if t == best else 0.80, score=1.0 if t == best else 0.3)
        for t in THREADS
    ]
    return Observation(
        query_id=f"q{number}",
        query=asked(),
        right=frozenset(right),
        lexical=LexicalSignals(),
        centroid_hits=tuple(centroid_hit(t, 0.8) for t in THREADS),
        unit_hits=tuple(hits),
        memberships={UnitId(f"u-{t}"): {t: 1.0} for t in THREADS},
        facts={t: facts() for t in THREADS},
    )


EASY = [observe(n, [THREADS[n % 20]], THREADS[n % 20]) for n in range(40)]


def test_threads_fall_into_every_group() -> None:
    assert {fold_of(t) for t in THREADS} == set(range(FOLDS))


def test_a_withheld_thread_leaves_no_trace() -> None:
    gone = THREADS[3]
    seen = EASY[3]
    left = withhold(replace(seen, lexical=LexicalSignals(explicit={gone: 1.0})), [gone])
    assert (
        left.right,
        left.lexical.thread_ids(),
        gone in left.facts,
        [h.owner_id for h in left.unit_hits if h.owner_id == f"u-{gone}"],
        [h.owner_id for h in left.centroid_hits if h.owner_id.startswith(f"{gone}/")],
    ) == (frozenset(), frozenset(), False, [], [])


def test_a_unit_that_also_counts_for_another_thread_stays() -> None:
    shared = replace(EASY[0], memberships={UnitId("u-t0"): {THREADS[0]: 1.0, THREADS[1]: 1.0}})
    left = withhold(shared, [THREADS[0]])
    assert "u-t0" in {h.owner_id for h in left.unit_hits}


def test_easy_queries_are_all_answered_rightly() -> None:
    report = calibrate(EASY, POLICY, space_id="s", now=NOW).fitted
    assert (report.hit_at_1, report.missing_auroc, report.single_precision) == (1.0, 1.0, 1.0)


def test_few_queries_move_thresholds_and_no_coefficient() -> None:
    found = calibrate(EASY, POLICY, space_id="s", now=NOW)
    assert (found.is_refitted, found.policy.coefficients) == (False, POLICY.coefficients)


def test_the_row_is_for_the_space_that_was_asked_in() -> None:
    assert calibrate(EASY, POLICY, space_id="s", now=NOW).policy.space_id == "s"


def test_many_queries_refit_when_that_is_better() -> None:
    useless = replace(POLICY, coefficients={"same:intercept": -1.0})
    many = [observe(n, [THREADS[n % 20]], THREADS[n % 20]) for n in range(220)]
    found = calibrate(many, useless, space_id="s", now=NOW)
    assert found.is_refitted
    assert found.fitted.log_loss is not None
    assert found.current.log_loss is not None
    assert found.fitted.log_loss < found.current.log_loss


def test_wrong_singles_raise_the_threshold() -> None:
    wrong = [observe(n, [THREADS[0]], THREADS[1], cosine=0.91) for n in range(100, 130)]
    easy = calibrate(EASY, POLICY, space_id="s", now=NOW).policy
    mixed = calibrate(EASY + wrong, POLICY, space_id="s", now=NOW).policy
    assert mixed.single_threshold > easy.single_threshold


def test_queries_without_a_known_thread_cannot_calibrate() -> None:
    with pytest.raises(CalibrationError, match="lane"):
        calibrate([observe(1, [ThreadId("elsewhere")], THREADS[0])], POLICY, space_id="s", now=NOW)


def test_a_query_that_no_thread_answers_counts_as_missing() -> None:
    stray = observe(1, [], THREADS[0], cosine=0.5)
    report = evaluate([*EASY, replace(stray, unit_hits=(), centroid_hits=())], POLICY, now=NOW)
    assert report.missing_recall == 1.0


def test_nothing_judged_gives_no_rate() -> None:
    report = evaluate([], POLICY, now=NOW)
    rates = [value for name, value in report.as_json().items() if name != "queries"]
    assert rates == [None] * len(rates)


@pytest.mark.parametrize(
    ("positives", "negatives", "expected"),
    [
        ([0.9, 0.8], [0.1, 0.2], 1.0),
        ([0.1], [0.9], 0.0),
        ([0.5], [0.5], 0.5),
        ([0.9, 0.4], [0.5, 0.5], 0.5),
        ([], [0.5], None),
        ([0.5], [], None),
    ],
)
def test_auroc_counts_pairs(
    positives: list[float], negatives: list[float], expected: float | None
) -> None:
    assert auroc(positives, negatives) == expected


@pytest.mark.parametrize(
    ("scores", "is_right", "expected"),
    [
        ([1.0, 1.0], [True, True], 0.0),
        ([1.0, 1.0], [False, False], 1.0),
        ([0.75, 0.75, 0.75, 0.75], [True, True, True, False], 0.0),
        ([0.25, 0.85], [False, True], 0.2),
    ],
)
def test_calibration_error_is_the_distance_between_saying_and_being_right(
    scores: list[float], is_right: list[bool], expected: float
) -> None:
    found = expected_calibration_error(scores, is_right, [1.0] * len(scores))
    assert found == pytest.approx(expected)


@given(st.integers(0, 1_000))
def test_a_fitted_coefficient_that_may_not_be_negative_is_not(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    inputs = [numbers.normal(size=(4, 3)) for _ in range(15)]
    right = [np.arange(4) == numbers.integers(0, 5) for _ in range(15)]
    offsets = [np.zeros(4)] * 15
    free = np.array([True, False, False])
    assert (fit_coefficients(inputs, offsets, right, [1.0] * 15, free)[1:] >= 0).all()


def test_fitting_finds_what_made_the_answers() -> None:
    numbers = np.random.default_rng(1)
    true = np.array([-1.0, 2.0])
    inputs, right = [], []
    for _ in range(4_000):
        x = np.column_stack([np.ones(3), numbers.normal(size=3)])
        power = np.exp(x @ true)
        chosen = numbers.choice(4, p=[*(power / (1 + power.sum())), 1 / (1 + power.sum())])
        inputs.append(x)
        right.append(np.arange(3) == chosen)
    found = fit_coefficients(
        inputs, [np.zeros(3)] * 4_000, right, [1.0] * 4_000, np.array([True, False])
    )
    assert found == pytest.approx(true, abs=0.15)
