"""Gaps whose questions are worth asking again, and settling them by what came out.

Belongs here: which gaps are due, where their questions are read from.
Does not belong here: asking (serving.replay), the life of a gap (stores.gap_signals).

A gap is due when somebody called it fixed and nothing was asked since, and when it is open and what answers are made from is not
what it was when its question was last asked: its thread may have appeared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from psycopg import Connection
from psycopg.rows import TupleRow

from threadhouse.retrieval.events import ResolutionPath
from threadhouse.retrieval.gap_signals import OPEN_STATUSES, GapKind, GapStatus, ReplayResult
from threadhouse.retrieval.models import Audience, Json
from threadhouse.stores import queries
from threadhouse.stores.gap_signals import REPLAY, KnownGap, close_after_replay, list_gaps

GAPS_PER_NIGHT = 200
"""A bound for nights after a change that concerns everything. What is left is due the next time."""

REPLAYED_KINDS = (GapKind.MISSING_THREAD, GapKind.SEARCH_GAP, GapKind.WEAK_THREAD)
"""Gaps that a question made. Others are states of the hub, and close when the state has gone."""


@dataclass(frozen=True, slots=True)
class GapQuestion:
    """The newest question that met a gap. ``path`` is how it was answered then."""

    signal_id: UUID
    kind: GapKind
    status: GapStatus
    lane: Audience
    query_id: UUID
    text: str
    path: ResolutionPath


@dataclass(frozen=True, slots=True)
class DueGapQuestions:
    """Questions to ask again; ``without_text`` counts gaps that are due and whose question is not kept."""

    questions: tuple[GapQuestion, ...]
    without_text: int


def due_gap_questions(connection: Connection[TupleRow], digest: str) -> DueGapQuestions:
    """Questions of gaps that are due when answers are made from the state with this digest."""
    due = [gap for gap in list_gaps(connection, kinds=REPLAYED_KINDS) if _is_due(gap, digest)]
    last = {gap.signal_id: _last_query(gap.evidence) for gap in due}
    rows = connection.execute(
        queries.load("gap_questions"), {"query_ids": [each for each in last.values() if each]}
    ).fetchall()
    asked = {query_id: (text, ResolutionPath(path)) for query_id, text, path in rows if text}
    questions: list[GapQuestion] = []
    for gap in due:
        query_id = last[gap.signal_id]
        if query_id is not None and query_id in asked and gap.lane is not None:
            text, path = asked[query_id]
            questions.append(
                GapQuestion(
                    signal_id=gap.signal_id,
                    kind=GapKind(gap.kind),
                    status=GapStatus(gap.status),
                    lane=Audience(gap.lane),
                    query_id=query_id,
                    text=text,
                    path=path,
                )
            )
    # Called fixed first: somebody waits for the result.
    questions.sort(key=lambda each: (each.status is not GapStatus.FIXED, str(each.signal_id)))
    return DueGapQuestions(tuple(questions[:GAPS_PER_NIGHT]), len(due) - len(questions))


def settle_gap(
    connection: Connection[TupleRow], question: GapQuestion, result: ReplayResult
) -> Literal["closed", "reopened", "unchanged"]:
    """Settle one gap by what asking its question again showed, and say what that did to it."""
    status = close_after_replay(connection, question.signal_id, result)
    if status is question.status:
        return "unchanged"
    return "closed" if status is GapStatus.FIXED else "reopened"


def _is_due(gap: KnownGap, digest: str) -> bool:
    replay = gap.evidence.get("replay")
    known = replay if isinstance(replay, dict) else {}
    if gap.status in OPEN_STATUSES:
        return known.get("state_digest") != digest
    if gap.changed_by == REPLAY:
        return False
    replayed_at = known.get("replayed_at")
    return not isinstance(replayed_at, str) or datetime.fromisoformat(replayed_at) < gap.changed_at


def _last_query(evidence: Mapping[str, Json]) -> UUID | None:
    named = evidence.get("last_query_id")
    try:
        return UUID(named) if isinstance(named, str) else None
    except ValueError:
        return None
