"""The verdict of the soak: what a read may hold, judged by what was committed before it began."""

from __future__ import annotations

import pytest

from bench.soak import Seen, Written, judge


def written(at: int, revision: int = 1, *, is_open: bool = True, is_member: bool = True) -> Written:
    """A change that was committed in the ten instants after ``at``."""
    return Written("soak-0.a", "version", at, at + 10, revision, is_open, is_member)


def seen(at: int, revision: int | None, thread: str | None = "soak-0") -> Seen:
    """A read of ten instants."""
    revisions = {} if revision is None else {"soak-0.a": revision}
    return Seen(at, at + 10, "customer", None, thread, revisions)


@pytest.mark.parametrize(
    ("changes", "read", "verdict"),
    [
        ([written(0)], seen(20, 1), (1, 0, 0, 0)),
        ([written(0), written(30, 2)], seen(50, 1), (1, 0, 0, 1)),
        ([written(0), written(30, 2)], seen(50, 2), (1, 0, 0, 0)),
        ([written(0), written(30, is_open=False)], seen(50, 1), (1, 0, 1, 0)),
        ([written(0), written(30, is_open=False)], seen(50, None), (0, 1, 0, 0)),
        ([written(0), written(30, 0)], seen(50, 1), (1, 0, 1, 0)),
        ([written(0), written(30, is_member=False)], seen(50, 1), (1, 0, 1, 0)),
        ([written(0), written(30, is_member=False)], seen(50, 1, thread=None), (1, 0, 0, 0)),
        # Committed while the read was under way, before anything was known, or after it: not judged against that.
        ([written(0), written(45, 2)], seen(50, 1), (0, 0, 0, 0)),
        ([written(45)], seen(20, 1), (0, 0, 0, 0)),
        ([written(0), written(70, is_open=False)], seen(50, 1), (1, 0, 0, 0)),
    ],
)
def test_a_read_is_judged_by_what_was_committed_before_it_began(
    changes: list[Written], read: Seen, verdict: tuple[int, int, int, int]
) -> None:
    found = judge([read], changes)
    counts = (found.checked, found.hidden, len(found.leaked), len(found.stale))
    assert counts == verdict
