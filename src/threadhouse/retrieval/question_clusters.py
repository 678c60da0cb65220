"""Questions that no thread answered, grouped by what they ask, and the proposal of a thread that a group makes.

Belongs here: which questions belong together, which group is worth a proposal, which earlier proposal a group is, its title.
Does not belong here: reading questions and keeping proposals (stores.intake_proposals), searching (serving).

Groups are made by average linkage over cosines, within a lane: two groups are one while the mean similarity between their
questions reaches the policy's. Single linkage chains unlike questions together, complete linkage tears a topic apart at its rim.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from threadhouse.retrieval.bm25 import TermForm, split_terms
from threadhouse.retrieval.models import Audience, UnitId

MOST_QUESTIONS = 2_000
"""Different questions of one lane that are grouped; linkage keeps a distance for every pair, 16 MB for these."""

BELONGS_SHARE = 0.5
"""A group is an earlier proposal when this share of the smaller one's questions are in both."""

CANDIDATE_UNITS = 12
"""Units that a proposal names: more than one answer has, few enough to read before deciding."""

SEARCHED_QUESTIONS = 5
"""Questions of a group that are searched for candidate units: the one in the middle and those that were asked most."""

HEADING_SHARE = 0.5
"""A heading that is the best hit of this share of the searched questions says better what they are about than any of them."""

HEADING_WORDS_SHARE = 0.5
"""Share of a heading's words that somebody used. Where units are missing too, the same unit is nearest to whatever is asked."""

LONGEST_TITLE_CHARS = 120

_EDGES = " \t\n.,;:!?…\"'“”‘’«»()[]-–—"
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class IntakePolicy:
    """When unanswered questions become a proposal; a row of ``cong.intake_policy``.

    Attributes:
        merge_similarity: Mean cosine from which two groups are one, in the space ``space_id``.
        min_questions: Times that a group was asked.
        min_sessions: Sessions that asked it; all queries without a session count as one.
        recurrence_factor: What was rejected is open again when it was asked so many times as often since then.
    """

    version: int
    space_id: str
    merge_similarity: float
    min_questions: int
    min_sessions: int
    recurrence_factor: float


@dataclass(frozen=True, slots=True)
class Asking:
    """One time that a question was asked; ``session_id`` is None when nobody said which session it was."""

    query_id: UUID
    session_id: str | None
    asked_at: datetime


@dataclass(frozen=True, slots=True)
class UnansweredQuestion:
    """A question of one lane that no thread answered, in its newest spelling."""

    question_key: str
    lane: Audience
    text: str
    language: str
    askings: tuple[Asking, ...]


@dataclass(frozen=True, slots=True)
class QuestionCluster:
    """Questions of one lane that ask about one thing.

    Attributes:
        questions: In the order of their keys.
        medoid: The question that is nearest to all others.
        cohesion: Mean cosine of the medoid to the questions, -1 to 1; 1 when there is only one.
    """

    lane: Audience
    questions: tuple[UnansweredQuestion, ...]
    medoid: UnansweredQuestion
    cohesion: float

    @property
    def question_keys(self) -> frozenset[str]:
        return frozenset(question.question_key for question in self.questions)

    @property
    def askings(self) -> tuple[Asking, ...]:
        """Every asking of every question, oldest first."""
        found = [asking for question in self.questions for asking in question.askings]
        return tuple(sorted(found, key=lambda each: (each.asked_at, each.query_id)))

    @property
    def session_count(self) -> int:
        return len({asking.session_id for asking in self.askings})

    @property
    def language(self) -> str:
        """Language of most of the questions; of two that are equal the first by name."""
        counts = Counter(question.language for question in self.questions)
        return min(counts, key=lambda language: (-counts[language], language))

    def questions_to_search(self) -> tuple[UnansweredQuestion, ...]:
        """The question in the middle, then those that were asked most, `SEARCHED_QUESTIONS` at most."""
        others = sorted(
            (each for each in self.questions if each is not self.medoid),
            key=lambda each: (-len(each.askings), each.question_key),
        )
        return (self.medoid, *others[: SEARCHED_QUESTIONS - 1])

    def is_recurring(self, policy: IntakePolicy, since: datetime | None = None) -> bool:
        """Whether it was asked often enough and by enough sessions, in all or since an instant."""
        counted = [each for each in self.askings if since is None or each.asked_at > since]
        sessions = {each.session_id for each in counted}
        return len(counted) >= policy.min_questions and len(sessions) >= policy.min_sessions


@dataclass(frozen=True, slots=True)
class CandidateUnit:
    """A unit that a search found for questions of a group, as the lane sees it.

    Attributes:
        score: Sum of reciprocal ranks over the questions.
        first_for: For how many of them it was the best.
    """

    unit_id: UnitId
    title: str
    language: str
    score: float
    first_for: int


class ProposalStatus(StrEnum):
    """What was decided of a proposal."""

    OPEN = "open"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class KnownProposal:
    """A proposal of an earlier night, as far as groups are compared with it.

    Attributes:
        cause_key: The question that was in the middle when it was first made.
        questions_at_decision: How often it had been asked when it was decided.
    """

    proposal_id: UUID
    lane: Audience
    cause_key: str
    status: ProposalStatus
    question_keys: frozenset[str]
    decided_at: datetime | None = None
    questions_at_decision: int | None = None


def cluster_questions(
    questions: Sequence[UnansweredQuestion],
    vectors: NDArray[np.float32],
    policy: IntakePolicy,
) -> tuple[QuestionCluster, ...]:
    """Group questions; every question is in exactly one group, and no group has two lanes.

    The result does not depend on the order of the questions.

    Args:
        vectors: Shape (n, dim), a row of length 1 for each question, in the space of the policy.
    """
    by_lane: defaultdict[Audience, list[int]] = defaultdict(list)
    for row, question in enumerate(questions):
        by_lane[question.lane].append(row)
    clusters: list[QuestionCluster] = []
    for lane in sorted(by_lane):
        rows = sorted(by_lane[lane], key=lambda row: questions[row].question_key)
        clusters += _cluster_lane(
            lane,
            [questions[row] for row in rows],
            vectors[rows].astype(np.float64),
            policy.merge_similarity,
        )
    return tuple(clusters)


def most_asked(questions: Collection[UnansweredQuestion]) -> list[UnansweredQuestion]:
    """Of each lane the `MOST_QUESTIONS` that were asked most often, the newest first among equals."""
    ordered = sorted(
        questions,
        key=lambda each: (
            -len(each.askings),
            -max(asking.asked_at.timestamp() for asking in each.askings),
            each.question_key,
        ),
    )
    kept: list[UnansweredQuestion] = []
    counts: Counter[Audience] = Counter()
    for question in ordered:
        counts[question.lane] += 1
        if counts[question.lane] <= MOST_QUESTIONS:
            kept.append(question)
    return kept


def match_proposals(
    clusters: Sequence[QuestionCluster], known: Sequence[KnownProposal]
) -> list[tuple[QuestionCluster, KnownProposal | None]]:
    """Which earlier proposal each group is; None for a group that is new.

    A group that grew, shrank or lost a part is still the same proposal. Groups that share one are put together. What was decided
    comes before what is open: a part of a rejected proposal is not a new one.
    """
    joined: dict[UUID, list[QuestionCluster]] = {}
    found: list[tuple[QuestionCluster, KnownProposal | None]] = []
    by_id = {proposal.proposal_id: proposal for proposal in known}
    for cluster in clusters:
        match = _best_match(cluster, known)
        if match is None:
            found.append((cluster, None))
        else:
            joined.setdefault(match.proposal_id, []).append(cluster)
    found += [(_joined(parts), by_id[proposal_id]) for proposal_id, parts in joined.items()]
    return sorted(found, key=lambda pair: (pair[0].lane, pair[0].medoid.question_key))


def is_open_again(cluster: QuestionCluster, proposal: KnownProposal, policy: IntakePolicy) -> bool:
    """Whether what was rejected recurs markedly more: enough sessions since then, and the factor times as many questions."""
    if proposal.status is not ProposalStatus.REJECTED or proposal.decided_at is None:
        return False
    since = sum(asking.asked_at > proposal.decided_at for asking in cluster.askings)
    before = proposal.questions_at_decision or 0
    return since >= policy.recurrence_factor * before and cluster.is_recurring(
        policy, proposal.decided_at
    )


def propose_title(cluster: QuestionCluster, candidates: Sequence[CandidateUnit]) -> str:
    """A title in their language: a heading in the questions' words that most found first, else the question in the middle."""
    language = cluster.language
    used = {word for question in cluster.questions for word in _words(question.text)}
    headings = [
        unit
        for unit in candidates
        if unit.language.split("-")[0] == language.split("-")[0]
        and unit.first_for >= HEADING_SHARE * min(len(cluster.questions), SEARCHED_QUESTIONS)
        and _words(unit.title)
        and len(_words(unit.title) & used) >= HEADING_WORDS_SHARE * len(_words(unit.title))
    ]
    if headings:
        best = min(headings, key=lambda each: (-each.first_for, -each.score, each.unit_id))
        return _clean(best.title)
    return _clean(cluster.medoid.text) or cluster.medoid.text.strip()[:LONGEST_TITLE_CHARS]


def _words(text: str) -> frozenset[str]:
    return frozenset(split_terms(text, TermForm.FOLDED))


def _clean(text: str) -> str:
    """One line without punctuation at its ends, cut between words, beginning with a capital."""
    line = _SPACES.sub(" ", text).strip(_EDGES)
    if len(line) > LONGEST_TITLE_CHARS:
        line = line[: LONGEST_TITLE_CHARS + 1].rpartition(" ")[0] or line[:LONGEST_TITLE_CHARS]
        line = line.rstrip(_EDGES)
    return line[:1].upper() + line[1:]


def _cluster_lane(
    lane: Audience,
    questions: Sequence[UnansweredQuestion],
    vectors: NDArray[np.float64],
    merge_similarity: float,
) -> list[QuestionCluster]:
    if len(questions) == 1:
        return [QuestionCluster(lane, tuple(questions), questions[0], 1.0)]
    labels = _average_linkage(vectors, 1.0 - merge_similarity)
    members: Mapping[int, list[int]] = defaultdict(list)
    for row, label in enumerate(labels):
        members[label].append(row)
    return [
        _cluster(lane, [questions[row] for row in rows], vectors[rows])
        for rows in sorted(members.values())
    ]


def _average_linkage(vectors: NDArray[np.float64], most_distance: float) -> list[int]:
    """A label for each row; rows with the same label are one group."""
    # Slow to import, and most nights of a small hub need it not at all.
    from scipy.cluster import hierarchy  # pyright: ignore[reportMissingTypeStubs]  # it has none

    tree = np.asarray(hierarchy.linkage(vectors, method="average", metric="cosine"), np.float64)  # pyright: ignore[reportUnknownMemberType]
    labels: NDArray[np.int32] = hierarchy.fcluster(tree, t=most_distance, criterion="distance")  # pyright: ignore[reportUnknownMemberType]
    return [int(label) for label in labels]


def _cluster(
    lane: Audience, questions: Sequence[UnansweredQuestion], vectors: NDArray[np.float64]
) -> QuestionCluster:
    similarity = vectors @ vectors.T
    # Rounded: two that are equally near must not change places with the order of a sum.
    nearness = [round(float(row.mean()), 9) for row in similarity]
    medoid = nearness.index(max(nearness))
    cohesion = min(max(nearness[medoid], -1.0), 1.0)
    return QuestionCluster(lane, tuple(questions), questions[medoid], cohesion)


def _best_match(cluster: QuestionCluster, known: Sequence[KnownProposal]) -> KnownProposal | None:
    keys = cluster.question_keys
    matches: list[tuple[bool, int, str, KnownProposal]] = []
    for proposal in known:
        if proposal.lane is not cluster.lane:
            continue
        common = len(keys & proposal.question_keys)
        smaller = min(len(keys), len(proposal.question_keys))
        is_same_middle = proposal.cause_key == cluster.medoid.question_key
        if is_same_middle or (common and common >= BELONGS_SHARE * smaller):
            is_open = proposal.status is ProposalStatus.OPEN
            matches.append((is_open, -common, str(proposal.proposal_id), proposal))
    return min(matches, key=lambda match: match[:3])[3] if matches else None


def _joined(parts: Sequence[QuestionCluster]) -> QuestionCluster:
    """One group of several; the biggest one's middle is the middle."""
    if len(parts) == 1:
        return parts[0]
    biggest = min(parts, key=lambda each: (-len(each.askings), each.medoid.question_key))
    questions = sorted(
        (question for part in parts for question in part.questions),
        key=lambda each: each.question_key,
    )
    return replace(biggest, questions=tuple(questions))
