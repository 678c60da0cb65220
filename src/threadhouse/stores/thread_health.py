"""Health of threads in ``nao.health_signal`` (D3), by lane.

Belongs here: reading what health is judged by, set-wise; keeping a check when its outcome changes; the health in force.
Does not belong here: what makes a thread unhealthy (retrieval.thread_health).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from threadhouse.retrieval.models import Audience, Json
from threadhouse.stores import queries


@dataclass(frozen=True, slots=True)
class KnownHealth:
    """The health of a thread for a lane that sees it; ``observer`` is threadhouse or operator."""

    thread_id: str
    lane: str
    status: str
    observer: str
    observed_at: datetime
    evidence: Mapping[str, Json]


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
