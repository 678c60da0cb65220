"""The database roles that questions are asked under, and what the database is told about who asks.

Belongs here: names of roles, claims as ``cong.allowed_by_policy`` reads them, what of row-level security is not in force.
Does not belong here: what a role may see (sql/views/visible.sql), when a question changes its role (callers).

A transaction begins with `begin_reading`, reads, and goes on with `continue_as` before it writes or builds; each is one statement
and fits into a pipeline. Both hold until the transaction ends. A role that does not exist, or that the login may not become,
leaves the login's own rights: the statements still keep hidden rows back, and `row_security_gaps` says what is missing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from threadhouse.retrieval.audience import HIGH_RISK_CONSENT
from threadhouse.retrieval.models import Audience, Json, Principal
from threadhouse.stores import queries

LANE_ROLES = {audience: f"threadhouse_{audience.value}" for audience in Audience}
"""One role for each audience. They may read the views of schema ``visible`` and nothing else."""

READER_ROLE = "threadhouse_reader"
"""May become every lane, and write down what left: events, deliveries, gaps, refusals, packs. Reads no knowledge by itself."""

BUILDER_ROLE = "threadhouse_builder"
"""Reads all knowledge and writes nothing: whoever builds a pack has to know which ends of edges are hidden."""


@dataclass(frozen=True, slots=True)
class RowSecurityGap:
    """Something of roles and row-level security that is not in force, and what that means."""

    gap: str
    meaning: str


def begin_reading(connection: Connection[TupleRow], principal: Principal) -> None:
    """See what the principal's lane sees, for the rest of the transaction."""
    connection.execute(queries.load("reader_begin"), reader_parameters(principal))


def continue_as(connection: Connection[TupleRow], role: str) -> None:
    """Go on as `READER_ROLE` or `BUILDER_ROLE`, for the rest of the transaction."""
    connection.execute(queries.load("reader_end"), {"role": role})


def reader_parameters(principal: Principal) -> dict[str, str]:
    """Parameters of ``reader_begin``: the role of the principal's lane, and its claims.

    Claims are not trusted: the database holds them against the policy in force for that lane, which is all that they can use.
    """
    return {"role": LANE_ROLES[principal.audience], "claims": claims_of(principal)}


def claims_of(principal: Principal) -> str:
    """What a principal may hold beyond its lane, as JSON; ``{}`` when it holds nothing."""
    named: dict[str, Json] = {
        "tool_permissions": [*sorted(principal.tool_permissions)],
        "roles": [*sorted(principal.roles)],
        "task_scopes": [*sorted(principal.task_scopes)],
        "classifications": [*sorted(principal.classifications)],
        "high_risk_consent": HIGH_RISK_CONSENT in principal.high_risk_consents,
    }
    return json.dumps({name: value for name, value in named.items() if value})


def row_security_gaps(connection: Connection[TupleRow]) -> list[RowSecurityGap]:
    """What is not in force for this login; empty when everything is."""
    with connection.cursor(row_factory=class_row(RowSecurityGap)) as cursor:
        return cursor.execute(queries.load("role_gaps")).fetchall()
