"""What must be true of stored packs, looked up in the store itself.

Belongs here: statements that count violations. Does not belong here: building packs, visibility rules (the policy's rows are
compared as they are, by a second way than the one that built the pack).
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow

from threadhouse.stores import queries


@dataclass(frozen=True, slots=True)
class PackViolation:
    """One unit in one pack that its lane may not see now."""

    thread_id: str
    lane: str
    canonical_address: str
    reason: str


def find_leaks(connection: Connection[TupleRow]) -> list[PackViolation]:
    """Units in *fresh* packs whose current labels their lane may not see. A stale pack is never served."""
    rows = connection.execute(queries.load("packs_find_leaks"))
    return [PackViolation(*row) for row in rows]


def count_stale(connection: Connection[TupleRow]) -> int:
    """Stored packs that a reader would not be served."""
    row = connection.execute(queries.load("packs_count_stale")).fetchone()
    return 0 if row is None else int(row[0])
