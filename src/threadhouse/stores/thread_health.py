"""Health of threads in ``nao.health_signal`` (D3), by lane.

Belongs here: reading what health is judged by, set-wise; keeping a check when its outcome changes; the health in force.
Does not belong here: what makes a thread unhealthy (retrieval.thread_health).

The table is a history: a row is added when the status of a thread for a lane changes, or the conditions that led to it, and no
row is ever rewritten. A check that finds what the last one found writes nothing, so that no pack is built again because of it.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

from psycopg import Connection
from psycopg.rows import DictRow, TupleRow, class_row, dict_row
from psycopg.types.json import Jsonb

from threadhouse.retrieval.errors import CollectionUnknownError
from threadhouse.retrieval.local_days import local_day
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    Collection,
    HealthStatus,
    Json,
    LifecycleStage,
    ThreadId,
)
from threadhouse.retrieval.ports import VectorSearcher
from threadhouse.retrieval.thread_health import (
    HealthCheck,
    HealthFacts,
    HealthPolicy,
    Share,
    judge_health,
)
from threadhouse.stores import queries
from threadhouse.stores.postgres import Database
from threadhouse.stores.signal_policy import read_signal_policy

Word = TypeVar("Word", bound=StrEnum)

CHECK_NAMESPACE = UUID("5d1c7b0a-63c5-5b8f-9a0e-2f7f1f0c9b44")
"""Namespace of the ids of checks: one follows from the check before it, so that two runs at once write one."""

THREAD_RATES = (
    "noisy_context_rate",
    "wrong_thread_rate",
    "agent_extra_search_rate",
    "context_sufficiency_rate",
)
"""The daily rates that are kept by thread and that health is judged by."""


@dataclass(frozen=True, slots=True)
class KnownHealth:
    """The health of a thread for a lane that sees it; ``observer`` is threadhouse or operator."""

    thread_id: str
    lane: str
    status: str
    observer: str
    observed_at: datetime
    evidence: Mapping[str, Json]


@dataclass(slots=True)
class HealthRefreshReport:
    """What one refresh did, in (thread, lane). ``by_status`` counts what is in force afterwards, statements included."""

    checked: int = 0
    changed: int = 0
    stated: int = 0
    seconds: float = 0.0
    by_status: dict[str, int] = field(default_factory=dict[str, int])

    def figures(self) -> dict[str, int | float]:
        """Every number by its name, for a person to look at."""
        return {
            "checked": self.checked,
            "changed": self.changed,
            "held_by_statement": self.stated,
            "seconds": round(self.seconds, 3),
            **{f"status_{status}": count for status, count in self.by_status.items()},
        }


@dataclass(frozen=True, slots=True)
class _LastCheck:
    signal_id: UUID
    status: str
    observer: str
    observed_at: datetime
    held: tuple[str, ...]
    last_statement_at: datetime | None


def latest_thread_health(
    connection: Connection[TupleRow], *, lane: Audience | None = None
) -> list[KnownHealth]:
    """The health in force by thread and lane, in that order; threads without a check are left out.

    Args:
        lane: Only of threads that this lane sees now, and only its own checks. None: of every lane.
    """
    lanes = list(Audience) if lane is None else [lane]
    with connection.cursor(row_factory=class_row(KnownHealth)) as cursor:
        return cursor.execute(queries.load("thread_health_latest"), {"lanes": lanes}).fetchall()


def read_cohesions(vectors: VectorSearcher) -> dict[tuple[ThreadId, Audience], float]:
    """Cohesion of every published centroid by thread and lane; nothing before the first publish."""
    try:
        physical = vectors.resolve(Collection.THREAD_CENTROIDS)
    except CollectionUnknownError:
        return {}
    found: dict[tuple[ThreadId, Audience], float] = {}
    for point in vectors.scroll(physical):
        metadata = point.payload["metadata"]
        if isinstance(metadata, dict):
            key = ThreadId(str(metadata["thread_id"])), Audience(str(metadata["lane"]))
            found[key] = float(str(metadata["cohesion"]))
    return found


def refresh_thread_health(
    database: Database,
    cohesions: Mapping[tuple[ThreadId, Audience], float],
    space_id: str,
    zone: ZoneInfo,
    now: datetime,
) -> HealthRefreshReport:
    """Check every thread for every lane that sees it, and keep the checks whose outcome changed.

    Args:
        cohesions: From `read_cohesions`.
        space_id: The vector space that they were measured in.
        zone: Whose days the daily rates are.
        now: Aware instant of the check; rates are summed over the window that ends on its day.

    Raises:
        ConfigurationError: The policy cannot be read.
    """
    started = time.monotonic()
    today = local_day(now, zone)
    report = HealthRefreshReport()
    statuses: Counter[str] = Counter()
    with database.connect() as connection:
        policy = read_signal_policy(connection, space_id).health
        last = _last_checks(connection)
        changed: list[dict[str, Json]] = []
        for facts in _facts(connection, policy, cohesions, last, zone, today):
            report.checked += 1
            before = last.get((facts.thread_id, facts.lane))
            if before is not None and _is_stated(before, policy, now):
                report.stated += 1
                statuses[before.status] += 1
                continue
            check = judge_health(facts, policy, before.held if before else (), now, today)
            statuses[check.status] += 1
            if before is None or _is_news(check, before):
                changed.append(_row(check, before))
        if changed:
            report.changed = connection.execute(
                queries.load("thread_health_keep"), {"checks": Jsonb(changed)}
            ).rowcount
    report.by_status = {status.value: statuses[status] for status in HealthStatus}
    report.seconds = time.monotonic() - started
    return report


def _is_stated(check: _LastCheck, policy: HealthPolicy, now: datetime) -> bool:
    """Whether somebody's own words are in force. A statement of the future counts from when it says."""
    return check.observer == "operator" and now < check.observed_at + timedelta(
        days=policy.statement_days
    )


def _is_news(check: HealthCheck, before: _LastCheck) -> bool:
    return (check.status, check.held, "threadhouse") != (
        before.status,
        before.held,
        before.observer,
    )


def _row(check: HealthCheck, before: _LastCheck | None) -> dict[str, Json]:
    cause = (
        f"{check.thread_id}\0{check.lane}\0{check.status}\0{','.join(check.held)}"
        f"\0{before.signal_id if before else ''}"
    )
    return {
        "signal_id": str(uuid5(CHECK_NAMESPACE, cause)),
        "thread_id": check.thread_id,
        "lane": check.lane,
        "status": check.status,
        "evidence": dict(check.evidence),
    }


def _last_checks(connection: Connection[TupleRow]) -> dict[tuple[ThreadId, Audience], _LastCheck]:
    return {
        (ThreadId(row["thread_id"]), Audience(row["lane"])): _LastCheck(
            row["signal_id"],
            row["status"],
            row["observer"],
            row["observed_at"],
            tuple(row["held"]),
            row["last_statement_at"],
        )
        for row in _all(connection, "thread_health_checks", {"lanes": list(Audience)})
    }


def _facts(
    connection: Connection[TupleRow],
    policy: HealthPolicy,
    cohesions: Mapping[tuple[ThreadId, Audience], float],
    last: Mapping[tuple[ThreadId, Audience], _LastCheck],
    zone: ZoneInfo,
    today: date,
) -> list[HealthFacts]:
    lanes = {"lanes": list(Audience)}
    window = {
        "zone": zone.key,
        "metrics": list(THREAD_RATES),
        "first": today - timedelta(days=policy.window_days - 1),
        "last": today,
    }
    rates: defaultdict[tuple[str, str], dict[str, Share]] = defaultdict(dict)
    for row in _all(connection, "thread_health_rates", window):
        rates[row["thread_id"], row["lane"]][row["metric"]] = Share(
            row["numerator"], row["denominator"]
        )
    used = {
        (row["thread_id"], row["lane"]): row["last_use"]
        for row in _all(connection, "thread_health_last_use", {})
    }
    missing = {
        (row["thread_id"], row["lane"]): row["missing_stages"]
        for row in _all(connection, "thread_health_missing_stages", lanes)
    }
    found: list[HealthFacts] = []
    for row in _all(connection, "thread_health_members", lanes):
        thread_id, lane = ThreadId(row["thread_id"]), Audience(row["lane"])
        key = (thread_id, lane)
        before = last.get(key)
        found.append(
            HealthFacts(
                thread_id=thread_id,
                lane=lane,
                unit_count=row["unit_count"],
                mean_confidence=row["mean_confidence"],
                authorities=_known(Authority, row["authorities"]),
                covered_stages=_known(LifecycleStage, row["covered_stages"]),
                missing_stages=_known(LifecycleStage, missing.get(key, ())),
                last_change_at=row["last_change_at"],
                last_use=used.get(key),
                last_statement_at=before.last_statement_at if before else None,
                cohesion=cohesions.get(key),
                rates=rates.get(key, {}),
            )
        )
    return found


def _known(kind: type[Word], words: Container[str]) -> frozenset[Word]:
    """Words that we have a name for; a hub may write others."""
    return frozenset(each for each in kind if each in words)


def _all(connection: Connection[TupleRow], name: str, params: Mapping[str, Any]) -> list[DictRow]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(queries.load(name), params).fetchall()
