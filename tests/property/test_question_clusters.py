"""Groups of questions and what becomes of them, whatever is asked: no order matters, no lane meets another, nothing is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID, uuid5

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from threadhouse.retrieval.models import Audience, UnitId
from threadhouse.retrieval.question_clusters import (
    LONGEST_TITLE_CHARS,
    Asking,
    CandidateUnit,
    IntakePolicy,
    KnownProposal,
    ProposalStatus,
    QuestionCluster,
    UnansweredQuestion,
    cluster_questions,
    is_open_again,
    match_proposals,
    most_asked,
    propose_title,
)

NOW = datetime(2026, 11, 30, tzinfo=UTC)
NAMES = UUID("6f1c1a0e-8a51-4f0e-9b2c-0b8d7d5a3a12")
POLICY = IntakePolicy(1, "", 0.8, min_questions=3, min_sessions=2, recurrence_factor=2)


def question(
    key: str,
    lane: Audience = Audience.CUSTOMER,
    sessions: tuple[str | None, ...] = ("s",),
    *,
    text: str = "Phí thành viên?",
    first: datetime = NOW,
) -> UnansweredQuestion:
    askings = tuple(
        Asking(uuid5(NAMES, f"{lane}/{key}/{first}/{n}"), session, first + timedelta(minutes=n))
        for n, session in enumerate(sessions)
    )
    return UnansweredQuestion(f"{lane}/{key}", lane, text, "vi", askings)


def cluster(*questions: UnansweredQuestion) -> QuestionCluster:
    return QuestionCluster(questions[0].lane, questions, questions[0], 1.0)


def proposal(
    *keys: str,
    name: str = "p",
    status: ProposalStatus = ProposalStatus.OPEN,
    lane: Audience = Audience.CUSTOMER,
    decided_at: datetime | None = None,
    questions: int | None = None,
) -> KnownProposal:
    named = frozenset(f"{lane}/{key}" for key in keys)
    return KnownProposal(uuid5(NAMES, name), lane, min(named), status, named, decided_at, questions)


@st.composite
def asked(draw: st.DrawFn) -> tuple[list[UnansweredQuestion], NDArray[np.float32]]:
    """Up to 14 questions of up to three lanes around a few directions, some of them exactly alike."""
    count = draw(st.integers(1, 14))
    lanes = draw(st.lists(st.sampled_from([*Audience][:3]), min_size=count, max_size=count))
    directions = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    noise = np.random.default_rng(draw(st.integers(0, 2**31))).normal(size=(count, 8)) * 0.15
    if draw(st.booleans()):
        noise[:] = 0.0
    vectors = np.eye(8)[directions] + noise
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    questions = [question(f"{n:02}", lane) for n, lane in enumerate(lanes)]
    return questions, vectors.astype(np.float32)


@given(asked(), st.randoms(use_true_random=False), st.floats(0.0, 0.99))
def test_the_order_of_the_questions_makes_no_difference(
    given: tuple[list[UnansweredQuestion], NDArray[np.float32]],
    shuffler: Random,
    threshold: float,
) -> None:
    questions, vectors = given
    order = list(range(len(questions)))
    shuffler.shuffle(order)
    policy = IntakePolicy(1, "", threshold, 3, 2, 2)
    shuffled = cluster_questions([questions[n] for n in order], vectors[order], policy)
    assert shuffled == cluster_questions(questions, vectors, policy)


@given(asked())
def test_every_question_is_in_one_group_and_no_group_has_two_lanes(
    given: tuple[list[UnansweredQuestion], NDArray[np.float32]],
) -> None:
    questions, vectors = given
    clusters = cluster_questions(questions, vectors, POLICY)
    grouped = sorted(each.question_key for found in clusters for each in found.questions)
    assert grouped == sorted(each.question_key for each in questions)
    for found in clusters:
        assert {each.lane for each in found.questions} == {found.lane}
        assert found.medoid in found.questions


@given(asked())
def test_what_another_lane_asks_changes_no_group(
    given: tuple[list[UnansweredQuestion], NDArray[np.float32]],
) -> None:
    questions, vectors = given
    rows = [n for n, each in enumerate(questions) if each.lane is questions[0].lane]
    alone = cluster_questions([questions[n] for n in rows], vectors[rows], POLICY)
    together = cluster_questions(questions, vectors, POLICY)
    assert alone == tuple(each for each in together if each.lane is questions[0].lane)


@given(asked())
def test_within_a_group_the_mean_similarity_reaches_the_threshold(
    given: tuple[list[UnansweredQuestion], NDArray[np.float32]],
) -> None:
    """The last two groups that were joined were near enough; so the middle is near to its group as well."""
    questions, vectors = given
    row_of = {each.question_key: n for n, each in enumerate(questions)}
    for found in cluster_questions(questions, vectors, POLICY):
        rows = vectors[[row_of[each.question_key] for each in found.questions]].astype(np.float64)
        count = len(rows)
        if count > 1:
            similarity = rows @ rows.T
            mean = (similarity.sum() - np.trace(similarity)) / (count * (count - 1))
            assert mean >= POLICY.merge_similarity - 1e-6
            assert found.cohesion >= POLICY.merge_similarity - 1e-6


def test_one_talkative_agent_makes_no_proposal() -> None:
    alone = cluster(question("1", sessions=("s",) * 50), question("2", sessions=("s",) * 50))
    assert not alone.is_recurring(POLICY)
    nobody_said = cluster(question("1", sessions=(None,) * 50))
    assert not nobody_said.is_recurring(POLICY)
    several = cluster(question("1", sessions=("s", "s")), question("2", sessions=("t",)))
    assert several.is_recurring(POLICY)
    too_few = cluster(question("1", sessions=("s", "t")))
    assert not too_few.is_recurring(POLICY)


@pytest.mark.parametrize(
    ("keys", "known", "belongs"),
    [
        (("1", "2"), proposal("1", "2"), True),
        (("1", "2", "3", "4", "5", "6"), proposal("1", "2"), True),  # grown
        (("1",), proposal("1", "2", "3", "4"), True),  # shrunk, or a part of it
        (("1", "5", "6"), proposal("1", "2", "3", "4"), True),  # the same question in the middle
        (("4", "5", "6"), proposal("1", "2", "3", "4"), False),
        (("5", "6"), proposal("1", "2"), False),
        (("1", "2"), proposal("1", "2", lane=Audience.PARTNER), False),
    ],
)
def test_a_group_is_the_proposal_that_it_shares_its_questions_with(
    keys: tuple[str, ...], known: KnownProposal, *, belongs: bool
) -> None:
    ((_, match),) = match_proposals([cluster(*(question(key) for key in keys))], [known])
    assert (match is known) is belongs


def test_parts_of_one_proposal_are_put_together_again() -> None:
    known = proposal("1", "2", "3")
    parts = [cluster(question("1")), cluster(question("2"), question("3"))]
    ((whole, match),) = match_proposals(parts, [known])
    assert match is known
    assert whole.question_keys == known.question_keys
    assert whole.medoid.question_key == "customer/2"


def test_a_part_of_a_rejected_proposal_is_no_new_one() -> None:
    rejected = proposal("1", "2", name="r", status=ProposalStatus.REJECTED)
    still_open = proposal("1", "2", "3", "4", name="o")
    ((_, match),) = match_proposals([cluster(question("1"))], [still_open, rejected])
    assert match is rejected


@given(
    st.lists(
        st.frozensets(st.sampled_from("abcdefgh"), min_size=1, max_size=4), min_size=1, max_size=4
    ),
    st.lists(
        st.frozensets(st.sampled_from("abcdefgh"), min_size=1, max_size=4), min_size=0, max_size=4
    ),
)
def test_matching_loses_no_question_and_uses_a_proposal_once(
    groups: list[frozenset[str]], earlier: list[frozenset[str]]
) -> None:
    clusters = [cluster(*(question(key) for key in keys)) for keys in _disjoint(groups)]
    known = [proposal(*keys, name=str(n)) for n, keys in enumerate(earlier)]
    matched = match_proposals(clusters, known)
    keys_before = sorted(key for each in clusters for key in each.question_keys)
    assert sorted(key for each, _ in matched for key in each.question_keys) == keys_before
    used = [match.proposal_id for _, match in matched if match]
    assert len(used) == len(set(used))
    assert match_proposals(clusters[::-1], known[::-1]) == matched


def _disjoint(groups: list[frozenset[str]]) -> list[list[str]]:
    seen: set[str] = set()
    found: list[list[str]] = []
    for keys in groups:
        fresh = sorted(keys - seen)
        seen |= keys
        if fresh:
            found.append(fresh)
    return found


@pytest.mark.parametrize(
    ("since", "sessions", "is_again"),
    [(0, 0, False), (19, 3, False), (20, 1, False), (20, 2, True), (50, 3, True)],
)
def test_what_was_rejected_is_open_again_when_it_is_asked_markedly_more(
    since: int, sessions: int, *, is_again: bool
) -> None:
    rejected = proposal(
        "1", status=ProposalStatus.REJECTED, decided_at=NOW + timedelta(days=1), questions=10
    )
    before = question("1", sessions=("a", "b", "c") * 4)
    later = question(
        "2",
        sessions=tuple(f"s{n % max(sessions, 1)}" for n in range(since)) or ("a",),
        first=NOW + timedelta(days=2) if since else NOW,
    )
    assert is_open_again(cluster(before, later), rejected, POLICY) is is_again
    for status in (ProposalStatus.OPEN, ProposalStatus.ACCEPTED):
        undecided = proposal("1", status=status, decided_at=NOW, questions=1)
        assert not is_open_again(cluster(before, later), undecided, POLICY)


def unit(title: str, first_for: int, language: str = "vi", score: float = 1.0) -> CandidateUnit:
    return CandidateUnit(UnitId(title), title, language, score, first_for)


@pytest.mark.parametrize(
    ("units", "title"),
    [
        ([], "Phí thành viên"),
        ([unit("Phi thanh vien: biểu phí", 1)], "Phi thanh vien: biểu phí"),
        ([unit("Biểu phí thành viên", 0)], "Phí thành viên"),
        ([unit("Phí thành viên, in full", 1, "en")], "Phí thành viên"),
        ([unit("Phí A", 1, score=1), unit("Phí B", 1, score=2)], "Phí B"),
        # Nearest to whatever is asked, because nothing was written about it.
        ([unit("Quy trình xét từng loại yêu cầu", 1)], "Phí thành viên"),
        ([unit(" ?! ", 1)], "Phí thành viên"),
    ],
)
def test_a_title_is_a_heading_that_most_found_first_or_the_question_in_the_middle(
    units: list[CandidateUnit], title: str
) -> None:
    asked_once = question("1", text="  phí   thành viên ??\n")
    assert propose_title(cluster(asked_once), units) == title


@given(st.text(min_size=1, max_size=400))
def test_a_title_is_one_short_line(text: str) -> None:
    title = propose_title(cluster(question("1", text=text)), [])
    assert len(title) <= LONGEST_TITLE_CHARS + 1  # a capital may be two letters: ß
    assert "\n" not in title


def test_the_most_asked_questions_of_each_lane_are_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadhouse.retrieval.question_clusters.MOST_QUESTIONS", 2)
    busy = [question(f"{n}", Audience.AI_AGENT, ("s",) * n) for n in range(1, 6)]
    quiet = question("9")
    kept = most_asked([*busy, quiet])
    assert [each.question_key for each in kept] == ["ai_agent/5", "ai_agent/4", "customer/9"]
