"""Which thread answers a query: the signals put together, the candidates in order, and the decision (D11 §4.2, §4.3).

Belongs here: what a candidate and a decision are, what the signals are worth, when one thread is sure enough.
Does not belong here: finding references in a text (references), reading signals (stores), searching (search), fitting (calibration).

Every signal is computed from what the reader may see and from nothing else: a thread that the reader does not see has no facts, and
a thread without facts is no candidate, whatever any signal says of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from threadhouse.retrieval.models import ThreadId, UnitId
from threadhouse.retrieval.ranking import RankingWeights, ThreadFacts

if TYPE_CHECKING:
    from threadhouse.retrieval.audience import AudiencePolicy
    from threadhouse.retrieval.models import Principal
    from threadhouse.retrieval.query_text import PreparedQuery
    from threadhouse.retrieval.search import SearchHit

SIGNALS: tuple[str, ...] = ("explicit", "label", "keyword", "centroid", "authority", "evidence")
"""The six sources of D11 §4.2, each 0 to 1 in a candidate's breakdown; ``rank_*`` entries are the parts of §4.3."""

Memberships: TypeAlias = Mapping[UnitId, Mapping[ThreadId, float]]
"""Threads that a unit counts for, and how much (0 to 1: role times confidence). Rejected memberships are not among them."""


@dataclass(frozen=True, slots=True)
class ThreadCandidate:
    """One thread that may be meant; ``score`` is 0 to 1, the calibrated probability that it is the right one, after ranking."""

    thread_id: ThreadId
    score: float
    signal_breakdown: Mapping[str, float]


class ResolutionKind(StrEnum):
    SINGLE = "single"
    CANDIDATES = "candidates"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Resolution:
    """The decision. ``candidates`` are best first, also when the kind is MISSING (they are then what was too weak).

    ``threshold`` is the score that the best candidate was held against: of a single match, or of being a candidate at all.
    """

    kind: ResolutionKind
    candidates: tuple[ThreadCandidate, ...]
    threshold: float


@dataclass(frozen=True, slots=True)
class LexicalSignals:
    """What the words of a query say, by thread, each 0 to 1; only threads that the reader sees. Absent means 0."""

    explicit: Mapping[ThreadId, float] = field(default_factory=dict[ThreadId, float])
    label: Mapping[ThreadId, float] = field(default_factory=dict[ThreadId, float])
    keyword: Mapping[ThreadId, float] = field(default_factory=dict[ThreadId, float])
    authority: Mapping[ThreadId, float] = field(default_factory=dict[ThreadId, float])

    def thread_ids(self) -> frozenset[ThreadId]:
        """Every thread that any of the signals names."""
        return (
            frozenset(self.explicit)
            | self.label.keys()
            | self.keyword.keys()
            | self.authority.keys()
        )


@dataclass(frozen=True, slots=True)
class ThreadSurroundings:
    """What else resolution needs about candidates, read at one moment: memberships of found units, and facts of seen threads."""

    memberships: Memberships
    facts: Mapping[ThreadId, ThreadFacts]


class ThreadSignalReader(Protocol):
    """What Postgres knows about threads, as far as one reader may know it; one round trip a call, nothing remembered."""

    def lexical(self, text: str, principal: Principal, policy: AudiencePolicy) -> LexicalSignals:
        """Explicit references, labels and aliases, full text, authority hints. ``text`` is a prepared query's."""
        ...

    def surroundings(
        self,
        unit_ids: Sequence[UnitId],
        thread_ids: Sequence[ThreadId],
        principal: Principal,
        policy: AudiencePolicy,
    ) -> ThreadSurroundings:
        """Memberships of these units, and facts of their threads and of ``thread_ids``; invisible ones are left out.

        Called last, so that a right taken away a moment ago already counts: what has no facts here is no candidate.
        """
        ...


@dataclass(frozen=True, slots=True)
class RetrievalPolicy:
    """One row of ``cong.retrieval_policy``: everything about resolution that is a number.

    ``space_id`` is the vector space that the numbers were fitted on; the empty string is the row for a space without its own.
    ``coefficients`` are those of the fitted model by the name of the input, with ``intercept``.
    """

    version: int
    space_id: str
    coefficients: Mapping[str, float]
    scales: Mapping[str, tuple[float, float]]
    ranking: RankingWeights
    single_threshold: float
    single_margin: float
    candidate_threshold: float
    candidate_limit: int


def candidate_thread_ids(
    lexical: LexicalSignals, centroid_hits: Sequence[SearchHit]
) -> list[ThreadId]:
    """Threads to ask `ThreadSignalReader.surroundings` about, besides those of the found units; in order of id."""
    return sorted(lexical.thread_ids() | {centroid_thread(hit) for hit in centroid_hits})


def centroid_thread(hit: SearchHit) -> ThreadId:
    """The thread of a hit in ``thread_centroids``, whose owner id is ``thread_id/lane``."""
    return ThreadId(hit.owner_id.rpartition("/")[0])


def resolve_threads(
    query: PreparedQuery,
    lexical: LexicalSignals,
    centroid_hits: Sequence[SearchHit],
    unit_hits: Sequence[SearchHit],
    memberships: Memberships,
    facts: Mapping[ThreadId, ThreadFacts],
    policy: RetrievalPolicy,
    *,
    now: datetime,
) -> Resolution:
    """The threads that may be meant, best first, and whether one is sure enough."""
    raise NotImplementedError
