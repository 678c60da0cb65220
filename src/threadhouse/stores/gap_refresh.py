"""The nightly look at gaps: which states of the hub are gaps, how grave each is, and whether somebody was told.

Belongs here: holding gap signals against the state of the hub, their severity, asking for capabilities (D4).
Does not belong here: what is a gap and how grave it is (retrieval.gap_signals), changes of one gap and its items
(stores.gap_signals).

Everything can be run again, and by two runs at once: ids of items follow from the gap, and what is there already is not written.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from psycopg import Connection
from psycopg.rows import DictRow, TupleRow, dict_row
from psycopg.types.json import Jsonb

from threadhouse.retrieval.gap_signals import (
    QUESTION_KINDS,
    STATE_KINDS,
    Capability,
    GapKind,
    GapPolicy,
    GapState,
    artifact_gap,
    capability_asked_for,
    empty_thread_gap,
    health_gaps,
    severity_of,
)
from threadhouse.retrieval.local_days import local_day
from threadhouse.retrieval.models import Audience, HealthStatus, Json, ThreadId
from threadhouse.stores import queries
from threadhouse.stores.gap_signals import open_gaps, route_gaps, signal_rows
from threadhouse.stores.postgres import Database
from threadhouse.stores.signal_policy import read_signal_policy

CAPABILITY_TITLES: Mapping[Capability, str] = {
    Capability.READ_SCRIPT: "Questions are asked in a script that words are not cut in: {0}",
    Capability.FIND_WHAT_IS_THERE: "A question recurs and finds nothing although its lane sees units",
}
"""What stands over an item of D4. It never quotes the question: that is personal."""


@dataclass(slots=True)
class GapRefreshReport:
    """What one refresh did, in signals and items."""

    opened: int = 0
    closed: int = 0
    repriced: int = 0
    routed_health: int = 0
    routed_backlog: int = 0
    routed_governance: int = 0
    routed_capabilities: int = 0
    open_now: int = 0
    seconds: float = 0.0

    def figures(self) -> dict[str, int | float]:
        """Every number by its name, for a person to look at."""
        return {**asdict(self), "seconds": round(self.seconds, 3)}


def refresh_gap_signals(
    database: Database, space_id: str, zone: ZoneInfo, now: datetime
) -> GapRefreshReport:
    """Open and close the gaps that are states of the hub, say how grave each gap is, and route what is not routed yet.

    Args:
        space_id: The vector space in force; it selects the policy's row.
        zone: Whose days reports of noise are counted by.
        now: Aware instant.

    Raises:
        ConfigurationError: The policy cannot be read.
    """
    started = time.monotonic()
    report = GapRefreshReport()
    with database.connect() as connection:
        policy = read_signal_policy(connection, space_id)
        today = local_day(now, zone)
        span = {
            "zone": zone.key,
            "first": today - timedelta(days=policy.health.window_days - 1),
            "last": today,
        }
        _settle_states(connection, _states(connection, span), report)
        report.repriced = _reprice(connection, policy.gaps)
        report.routed_capabilities = _route_capabilities(connection, policy.gaps)
        routed = route_gaps(connection)
        report.routed_health, report.routed_backlog, report.routed_governance = routed
        report.open_now = len(open_gaps(connection))
    report.seconds = time.monotonic() - started
    return report


def _states(connection: Connection[TupleRow], span: Mapping[str, Any]) -> list[GapState]:
    lanes = {"lanes": list(Audience)}
    found = [
        artifact_gap(ThreadId(row["thread_id"]), row["lifecycle_stage"], row["description"])
        for row in _all(connection, "gap_missing_artifacts", {})
    ]
    found += [
        empty_thread_gap(ThreadId(row["thread_id"]))
        for row in _all(connection, "gap_empty_threads", {})
    ]
    for row in _all(connection, "gap_health_states", {**span, **lanes}):
        found += health_gaps(
            ThreadId(row["thread_id"]),
            Audience(row["lane"]),
            HealthStatus(row["status"]),
            row["noisy_reports"],
        )
    # In one order, so that two runs at once wait for each other and do not block each other.
    return sorted(found, key=lambda state: (state.gap.kind, state.gap.cause_key))


def _settle_states(
    connection: Connection[TupleRow], states: Sequence[GapState], report: GapRefreshReport
) -> None:
    given = Jsonb(
        [
            {**row, "opens": state.opens}
            for row, state in zip(signal_rows([s.gap for s in states]), states, strict=True)
        ]
    )
    report.closed = connection.execute(
        queries.load("gap_states_close"), {"states": given, "kinds": list(STATE_KINDS)}
    ).rowcount
    report.opened = connection.execute(queries.load("gap_states_open"), {"states": given}).rowcount
    connection.execute(queries.load("gap_states_update"), {"states": given})


def _reprice(connection: Connection[TupleRow], policy: GapPolicy) -> int:
    severities = [
        {
            "signal_id": str(gap.signal_id),
            "severity": severity_of(GapKind(gap.kind), gap.occurrence_count, policy, gap.evidence),
        }
        for gap in open_gaps(connection)
    ]
    return connection.execute(
        queries.load("gap_severities"), {"severities": Jsonb(severities)}
    ).rowcount


def _route_capabilities(connection: Connection[TupleRow], policy: GapPolicy) -> int:
    asked: list[dict[str, Json]] = []
    params = {"kinds": list(QUESTION_KINDS), "lanes": list(Audience)}
    for row in _all(connection, "gap_open_questions", params):
        wanted = capability_asked_for(
            GapKind(row["kind"]),
            row["occurrence_count"],
            row["query_text"],
            policy,
            sees_units=row["sees_units"],
        )
        if wanted is not None:
            capability, respect = wanted
            asked.append(
                {
                    "signal_id": str(row["signal_id"]),
                    "capability": capability,
                    "title": CAPABILITY_TITLES[capability].format(respect),
                    "evidence": {
                        "kind": row["kind"],
                        "occurrences": row["occurrence_count"],
                        "respect": respect,
                    },
                }
            )
    return connection.execute(
        queries.load("gap_route_capabilities"), {"asked": Jsonb(asked)}
    ).rowcount


def _all(connection: Connection[TupleRow], name: str, params: Mapping[str, Any]) -> list[DictRow]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(queries.load(name), params).fetchall()
