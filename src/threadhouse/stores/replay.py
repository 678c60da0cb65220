"""Replays in Postgres: which questions are asked again, what they were answered before, what came out.

Belongs here: the sample, the state that answers are made from as one value, results as they are kept and as they are shown.
Does not belong here: asking (serving.replay), what counts as a loss (retrieval.replay).

The text of a question is personal: it stays with its event and is read from there for operators, never kept with a result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid4

from psycopg import Connection
from psycopg.rows import TupleRow, dict_row
from psycopg.types.json import Jsonb

from threadhouse import __version__
from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.events import ResolutionPath
from threadhouse.retrieval.models import Audience, Json, ThreadId
from threadhouse.retrieval.packs import PACK_VERSION
from threadhouse.retrieval.query_keeping import QuestionKeeper
from threadhouse.retrieval.replay import (
    ReplayAnswer,
    ReplayOutcome,
    ReplayQuestion,
    ReplayVerdict,
    spread_over_lanes,
)
from threadhouse.stores import queries
from threadhouse.stores.knowledge import KnowledgeReader
from threadhouse.stores.live_owners import Connections
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings
from threadhouse.stores.thread_signals import PostgresThreadSignals

RECENT = timedelta(days=28)
"""As long as the window of the health report: what was not asked for four weeks is not missed on the first morning."""

RECENT_QUERIES = 5_000
"""Newest queries that the sample is taken from; each is a row with its text, which has 2,000 characters at most."""

KEPT_REPLAYS = 60
"""Two months of nights on which something changed."""


class ReplayStage(StrEnum):
    """When a replay was made; see ``nao.replay_run``."""

    SWITCH = "switch"
    PACKS = "packs"


class ReplayDecision(StrEnum):
    """What a replay decided; accepted: somebody had said beforehand that losses are meant."""

    PASSED = "passed"
    STOPPED = "stopped"
    ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True)
class ReplayedQuestion:
    """A question whose answer changed. ``text`` is None when its event does not hold it any more.

    A lane's report has no text and no units, and a thread only when the lane sees it at this moment.
    """

    question_key: str
    lane: Audience
    query_id: UUID
    text: str | None
    old_path: ResolutionPath
    old_thread_id: ThreadId | None
    old_units: tuple[str, ...]
    old_top_unit: str | None
    new_path: ResolutionPath
    new_thread_id: ThreadId | None
    new_units: tuple[str, ...]
    new_top_unit: str | None
    changes: tuple[str, ...]
    loss: str | None


@dataclass(frozen=True, slots=True)
class ReplayRecord:
    """One replay, in the figures of one lane or of all. ``results`` are the changed ones, losses first."""

    replay_id: UUID
    stage: ReplayStage
    verdict: ReplayDecision
    is_baseline: bool
    loss_share_limit: float
    replayed_at: datetime
    seconds: float
    state_digest: str
    questions: int
    changed: int
    at_risk: int
    lost: int
    results: tuple[ReplayedQuestion, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """For a program; instants as ISO 8601."""
        plain = asdict(self)
        plain["results"] = [
            {**each, "query_id": str(each["query_id"])} for each in plain["results"]
        ]
        return {
            **plain,
            "replay_id": str(self.replay_id),
            "replayed_at": self.replayed_at.isoformat(),
        }


def recent_questions(
    connection: Connection[TupleRow], keeper: QuestionKeeper, now: datetime, limit: int
) -> tuple[ReplayQuestion, ...]:
    """At most ``limit`` questions of the last four weeks, spread over the lanes; empty when no text of a question is kept."""
    found: dict[str, ReplayQuestion] = {}
    judged_at: dict[str, datetime] = {}
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(
            queries.load("replay_recent_queries"),
            {"since": now - RECENT, "limit": RECENT_QUERIES},
        )
        # Oldest first, so that the newest spelling and the newest query stay.
        for row in rows:
            lane = Audience(row["lane"])
            key = keeper.cause(lane, row["query_text"]).key
            known = found.get(key)
            question = ReplayQuestion(key, lane, row["query_id"], row["query_text"])
            good = known.judged_sufficient if known else None
            if row["judged_at"] is not None and row["judged_at"] >= judged_at.get(
                key, row["judged_at"]
            ):
                judged_at[key] = row["judged_at"]
                good = row["judged_thread"] if row["is_sufficient"] else None
            found[key] = replace(question, judged_sufficient=good)
    return spread_over_lanes(found.values(), limit)


def state_digest(connection: Connection[TupleRow], settings: Settings, space_id: str) -> str:
    """One value for what answers are made from and by, as this transaction sees it; equal means the same answers."""
    code = f"{space_id}/{PACK_VERSION}/{__version__}/{settings.search_rerank_enabled}"
    row = connection.execute(queries.load("replay_state_digest"), {"code": code}).fetchone()
    if row is None:
        message = "replay_state_digest gave no row although it aggregates."
        raise LookupError(message)
    return str(row[0])


def baseline_digest(connection: Connection[TupleRow]) -> str | None:
    """The state of the newest replay that later ones are held against; None when there is none."""
    row = connection.execute(queries.load("replay_baseline_digest")).fetchone()
    return None if row is None else str(row[0])


def promote_replay(connection: Connection[TupleRow], digest: str) -> bool:
    """Let the newest replay of exactly this state, asked before the switch to it, be what later ones are held against.

    False when there is none, or when it stopped the run.
    """
    return (
        connection.execute(queries.load("replay_promote"), {"state_digest": digest}).rowcount == 1
    )


def baseline_answers(
    connection: Connection[TupleRow], question_keys: Sequence[str]
) -> dict[str, ReplayAnswer]:
    """The answer that each question had when it was last asked of a published state, by question key."""
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(
            queries.load("replay_baseline"), {"question_keys": list(question_keys)}
        ).fetchall()
    return {
        row["question_key"]: ReplayAnswer(
            path=ResolutionPath(row["new_path"]),
            thread_id=row["new_thread_id"],
            units=tuple(row["new_units"]),
            top_unit=row["new_top_unit"],
        )
        for row in rows
    }


def write_replay(
    connection: Connection[TupleRow],
    verdict: ReplayVerdict,
    *,
    stage: ReplayStage,
    decision: ReplayDecision,
    is_baseline: bool,
    digest: str,
    seconds: float,
) -> UUID:
    """Keep a replay with all of its answers; returns its id. Those beyond ``KEPT_REPLAYS`` go."""
    replay_id = uuid4()
    connection.execute(
        queries.load("replay_write"),
        {
            "replay_id": replay_id,
            "stage": stage,
            "state_digest": digest,
            "verdict": decision,
            "is_baseline": is_baseline,
            "questions": len(verdict.outcomes),
            "changed": verdict.changed,
            "at_risk": verdict.at_risk,
            "lost": verdict.lost,
            "loss_share_limit": verdict.loss_share_limit,
            "seconds": seconds,
            "results": Jsonb([_row(outcome) for outcome in verdict.outcomes]),
        },
    )
    connection.execute(queries.load("replay_prune"), {"keep": KEPT_REPLAYS})
    return replay_id


def latest_replay(
    database: Database, lane: Audience | None = None, replay_id: UUID | None = None
) -> ReplayRecord | None:
    """The newest replay, or the one with this id; None when there is none.

    Args:
        lane: For that lane's report: only its questions are counted, no text is given, and nothing is named that the lane does
            not see at this moment. None is for operators, who see everything.
    """
    with database.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
        run = cursor.execute(
            queries.load("replay_latest"), {"lane": lane, "replay_id": replay_id}
        ).fetchone()
        if run is None:
            return None
        rows = cursor.execute(
            queries.load("replay_changed_results"), {"lane": lane, "replay_id": run["replay_id"]}
        ).fetchall()
    results = tuple(_result(row) for row in rows)
    if lane is not None:
        results = _as_seen_by(database, lane, results)
    fields: dict[str, Any] = {
        **run,
        "stage": ReplayStage(run["stage"]),
        "verdict": ReplayDecision(run["verdict"]),
        "results": results,
    }
    return ReplayRecord(**fields)


def require_replay(database: Database, replay_id: UUID | None) -> ReplayRecord:
    """As `latest_replay`, for operators.

    Raises:
        ConfigurationError: There is no replay yet, or none with this id.
    """
    record = latest_replay(database, replay_id=replay_id)
    if record is None:
        message = (
            f"There is no replay {replay_id}; threadhouse replay show without an id shows the newest one."
            if replay_id
            else "Nothing was replayed yet; a nightly run does it once questions have been asked."
        )
        raise ConfigurationError(message)
    return record


def threads_in_sight(
    connections: Connections, lane: Audience, thread_ids: Collection[ThreadId]
) -> AbstractSet[ThreadId]:
    """Those of some threads that the lane sees at this moment."""
    with connections() as connection:
        policy = KnowledgeReader(connection).policy()
    signals = PostgresThreadSignals(connections)
    around = signals.surroundings([], sorted(thread_ids), lane_principal(lane), policy)
    return around.facts.keys()


def _row(outcome: ReplayOutcome) -> dict[str, Json]:
    question, old, new = outcome.question, outcome.old, outcome.new
    return {
        "question_key": question.question_key,
        "lane": question.lane,
        "query_id": str(question.query_id),
        "old_path": old.path if old else None,
        "old_thread_id": old.thread_id if old else None,
        "old_units": list(old.units) if old else [],
        "old_top_unit": old.top_unit if old else None,
        "new_path": new.path,
        "new_thread_id": new.thread_id,
        "new_units": list(new.units),
        "new_top_unit": new.top_unit,
        "changes": [*outcome.changes],
        "loss": outcome.loss,
    }


def _result(row: Mapping[str, Any]) -> ReplayedQuestion:
    fields: dict[str, Any] = {
        **row,
        "lane": Audience(row["lane"]),
        "old_path": ResolutionPath(row["old_path"]),
        "new_path": ResolutionPath(row["new_path"]),
        **{name: tuple(row[name]) for name in ("old_units", "new_units", "changes")},
    }
    return ReplayedQuestion(**fields)


def _as_seen_by(
    database: Database, lane: Audience, results: Sequence[ReplayedQuestion]
) -> tuple[ReplayedQuestion, ...]:
    """Without texts and units, and with threads only as far as the lane sees them at this moment."""
    named = {t for r in results for t in (r.old_thread_id, r.new_thread_id) if t is not None}
    seen = threads_in_sight(database.connect, lane, named)
    return tuple(
        replace(
            r,
            text=None,
            old_thread_id=r.old_thread_id if r.old_thread_id in seen else None,
            new_thread_id=r.new_thread_id if r.new_thread_id in seen else None,
            old_top_unit=None,
            new_top_unit=None,
            old_units=(),
            new_units=(),
        )
        for r in results
    )
