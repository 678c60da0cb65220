"""What counts as a change and as a loss, and when losses are too many; docs/replay.md has the same table."""

from __future__ import annotations

import re
from uuid import UUID

import pytest

from fixtures_source_tree import ROOT
from threadhouse.retrieval.events import ResolutionPath
from threadhouse.retrieval.models import Audience, ThreadId
from threadhouse.retrieval.replay import (
    Change,
    Loss,
    ReplayAnswer,
    ReplayQuestion,
    compare_answers,
    judge_replay,
    spread_over_lanes,
)

T1, T2 = ThreadId("t1"), ThreadId("t2")
THREAD, CANDIDATES, FALLBACK, NONE = (
    ResolutionPath.THREAD,
    ResolutionPath.CANDIDATES,
    ResolutionPath.FALLBACK,
    ResolutionPath.NONE,
)


def question(
    key: str = "customer/1", judged: ThreadId | None = None, lane: Audience = Audience.CUSTOMER
) -> ReplayQuestion:
    return ReplayQuestion(key, lane, UUID(int=1), "Hoàn tiền thế nào?", judged)


def answer(
    path: ResolutionPath, thread: ThreadId | None, *units: str, top: str | None = "u1"
) -> ReplayAnswer:
    return ReplayAnswer(path, thread, units, top)


GOOD = answer(THREAD, T1, "A/1@1", "A/2@1", "A/3@1", "A/4@1")


@pytest.mark.parametrize(
    ("old", "new", "judged", "loss"),
    [
        (GOOD, GOOD, T1, None),
        (GOOD, answer(NONE, None), None, Loss.NOTHING_FOUND),
        (answer(FALLBACK, None, "A/1@1"), answer(NONE, None), None, Loss.NOTHING_FOUND),
        (GOOD, answer(FALLBACK, None, "A/1@1"), None, Loss.THREAD_LOST),
        (answer(CANDIDATES, T1, "A/1@1"), answer(FALLBACK, None, "A/1@1"), T1, Loss.THREAD_LOST),
        (GOOD, answer(THREAD, T2, "B/1@1"), T1, Loss.SUFFICIENT_ANSWER_REPLACED),
        (GOOD, answer(THREAD, T2, "B/1@1"), None, None),
        # It was another thread's answer that was called sufficient.
        (GOOD, answer(THREAD, T2, "B/1@1"), T2, None),
        # Merged into another thread: all that was good is still there.
        (GOOD, answer(THREAD, T2, *GOOD.units, "B/1@1"), T1, None),
        (GOOD, answer(THREAD, T1, "A/1@1"), None, Loss.PACK_SHRUNK),
        (GOOD, answer(THREAD, T1, "A/1@1", "A/2@1"), None, None),
        # A new revision of every unit is what a night is for.
        (GOOD, answer(THREAD, T1, "A/1@2", "A/2@2", "A/3@2", "A/4@2"), T1, None),
        # One thread or several that may be meant: its pack came either way.
        (GOOD, answer(CANDIDATES, T1, *GOOD.units), T1, None),
        (answer(FALLBACK, None, "A/1@1"), answer(FALLBACK, None, "B/1@1"), None, None),
        (answer(FALLBACK, None, "A/1@1"), GOOD, None, None),
        (answer(NONE, None), answer(NONE, None), None, None),
        (None, answer(NONE, None), None, None),
    ],
)
def test_a_loss_is_something_that_a_reader_had(
    old: ReplayAnswer | None, new: ReplayAnswer, judged: ThreadId | None, loss: Loss | None
) -> None:
    assert compare_answers(question(judged=judged), old, new).loss is loss


@pytest.mark.parametrize(
    ("new", "loss"),
    [
        (answer(THREAD, T2, "B/1@1"), Loss.THREAD_GONE),
        (answer(CANDIDATES, T2, "A/1@1", "B/1@1"), Loss.THREAD_GONE),
        (answer(THREAD, T2, *GOOD.units), None),
        (answer(FALLBACK, None, *GOOD.units), Loss.THREAD_LOST),
    ],
)
def test_a_thread_that_is_gone_is_lost_unless_another_one_took_over_its_units(
    new: ReplayAnswer, loss: Loss | None
) -> None:
    assert compare_answers(question(), GOOD, new, is_old_thread_gone=True).loss is loss


@pytest.mark.parametrize(
    ("new", "changes"),
    [
        (GOOD, ()),
        (answer(THREAD, T1, *reversed(GOOD.units)), ()),
        (answer(THREAD, T1, *GOOD.units, top="u2"), (Change.TOP_UNIT,)),
        (answer(THREAD, T1, "A/1@2", *GOOD.units[1:]), (Change.UNITS,)),
        (answer(THREAD, T2, *GOOD.units), (Change.THREAD,)),
        (answer(NONE, None, top=None), (Change.THREAD, Change.UNITS, Change.TOP_UNIT)),
    ],
)
def test_what_changed_is_named(new: ReplayAnswer, changes: tuple[Change, ...]) -> None:
    assert compare_answers(question(), GOOD, new).changes == changes


@pytest.mark.parametrize(
    ("asked", "lost", "new_ones", "is_too_much"),
    [
        (10, 0, 0, False),
        (10, 1, 0, False),  # a tenth, and alone
        (10, 2, 0, True),
        (20, 2, 0, False),  # exactly the share is not above it
        (20, 3, 0, True),
        (2, 1, 0, False),  # half, and alone
        (2, 2, 0, True),
        # Questions that are asked for the first time do not dilute what is lost.
        (10, 2, 90, True),
        (0, 0, 10, False),
    ],
)
def test_too_many_losses_are_a_share_and_more_than_one(
    asked: int, lost: int, new_ones: int, is_too_much: bool
) -> None:
    keys = [f"customer/{n}" for n in range(asked + new_ones)]
    old = dict.fromkeys(keys[:asked], GOOD)
    new = {key: answer(NONE, None) if n < lost else GOOD for n, key in enumerate(keys)}
    verdict = judge_replay([question(key) for key in keys], old, new, 0.1)
    assert (verdict.lost, verdict.at_risk, verdict.is_too_much) == (lost, asked, is_too_much)


def test_the_sentence_names_the_way_on_and_no_question() -> None:
    keys = ["customer/1", "customer/2"]
    lost = {"customer/1": answer(NONE, None), "customer/2": answer(FALLBACK, None, "A/1@1")}
    sentence = judge_replay(
        [question(key) for key in keys], dict.fromkeys(keys, GOOD), lost, 0.1
    ).sentence()
    assert "2 of 2 recent questions" in sentence
    assert "nothing_found 1, thread_lost 1" in sentence
    assert "--accept-losses" in sentence
    assert "Hoàn tiền" not in sentence


def test_a_busy_lane_leaves_no_other_lane_out() -> None:
    busy = [question(f"ai_agent/{n:03}", lane=Audience.AI_AGENT) for n in range(100)]
    sample = spread_over_lanes([*busy, question("customer/5"), question("customer/2")], 5)
    assert [each.question_key for each in sample] == [
        "ai_agent/000",
        "customer/2",
        "ai_agent/001",
        "customer/5",
        "ai_agent/002",
    ]


def test_the_sample_does_not_depend_on_the_order_of_the_questions() -> None:
    questions = [question(f"customer/{n}") for n in range(20)]
    assert spread_over_lanes(questions[::-1], 7) == spread_over_lanes(questions, 7)


def test_the_page_explains_every_change_and_loss() -> None:
    page = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert named == {*Change, *Loss}
