"""What holds for every centroid, whatever the vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from threadhouse.retrieval.centroids import compute_centroid, compute_cohesion
from threadhouse.retrieval.errors import DegenerateCentroidError

DIM = 8
Thread = tuple[NDArray[np.float32], NDArray[np.float32]]


@st.composite
def weighted_vectors(draw: st.DrawFn, max_rows: int = 12) -> Thread:
    """Rows of length 1 with weights of which at least one is positive."""
    n = draw(st.integers(1, max_rows))
    raw = draw(
        arrays(np.float32, (n, DIM), elements=st.floats(-1, 1, width=32, allow_subnormal=False))
    )
    lengths = np.linalg.norm(raw, axis=1, keepdims=True)
    assume(bool((lengths > 1e-3).all()))
    weights = draw(arrays(np.float32, n, elements=st.floats(0, 1, width=32, allow_subnormal=False)))
    assume(float(weights.sum()) > 1e-3)
    return (raw / lengths).astype(np.float32), weights


def centroid_or_reject(thread: Thread) -> NDArray[np.float32]:
    try:
        return compute_centroid(*thread)
    except DegenerateCentroidError:
        assume(False)
        raise


@given(thread=weighted_vectors())
def test_a_centroid_has_length_one(thread: Thread) -> None:
    assert float(np.linalg.norm(centroid_or_reject(thread))) == pytest.approx(1, abs=1e-5)


@given(thread=weighted_vectors(), seed=st.randoms(use_true_random=False))
def test_a_centroid_does_not_depend_on_the_order_of_chunks(thread: Thread, seed: object) -> None:
    vectors, weights = thread
    order = list(range(len(weights)))
    seed.shuffle(order)  # type: ignore[attr-defined]
    centroid = centroid_or_reject(thread)
    # A mean that nearly cancels out magnifies rounding; its direction is not in question here.
    assume(np.linalg.norm(weights @ vectors) > 1e-2 * weights.sum())
    assert compute_centroid(vectors[order], weights[order]) == pytest.approx(centroid, abs=1e-4)


@given(thread=weighted_vectors(), factor=st.floats(0.125, 8))
def test_a_centroid_does_not_depend_on_the_scale_of_weights(thread: Thread, factor: float) -> None:
    vectors, weights = thread
    centroid = centroid_or_reject(thread)
    assume(np.linalg.norm(weights @ vectors) > 1e-2 * weights.sum())
    scaled = (weights * np.float32(factor)).astype(np.float32)
    assert compute_centroid(vectors, scaled) == pytest.approx(centroid, abs=1e-4)


@given(thread=weighted_vectors(max_rows=5), copies=st.integers(2, 6))
def test_cutting_a_unit_into_more_chunks_moves_nothing(thread: Thread, copies: int) -> None:
    vectors, weights = thread
    centroid = centroid_or_reject(thread)
    assume(np.linalg.norm(weights @ vectors) > 1e-2 * weights.sum())
    more = np.concatenate([np.repeat(vectors[:1], copies, axis=0), vectors[1:]])
    shared = np.concatenate([np.repeat(weights[:1] / copies, copies), weights[1:]])
    assert compute_centroid(more, shared.astype(np.float32)) == pytest.approx(centroid, abs=1e-4)


@given(thread=weighted_vectors())
def test_cohesion_is_a_cosine(thread: Thread) -> None:
    vectors, _ = thread
    centroid = centroid_or_reject(thread)
    cohesion = compute_cohesion(vectors, np.ones(len(vectors), dtype=np.float32), centroid)
    assert -1 <= cohesion <= 1


@given(thread=weighted_vectors(), copies=st.integers(1, 5))
def test_a_thread_that_says_one_thing_is_wholly_cohesive(thread: Thread, copies: int) -> None:
    vectors = np.repeat(thread[0][:1], copies, axis=0)
    ones = np.ones(copies, dtype=np.float32)
    assert compute_cohesion(vectors, ones, compute_centroid(vectors, ones)) == pytest.approx(
        1, abs=1e-5
    )


@given(thread=weighted_vectors())
def test_vectors_and_their_opposites_have_no_direction(thread: Thread) -> None:
    vectors, weights = thread
    with pytest.raises(DegenerateCentroidError):
        compute_centroid(np.concatenate([vectors, -vectors]), np.concatenate([weights, weights]))
