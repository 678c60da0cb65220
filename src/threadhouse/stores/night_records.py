"""What a night did, kept for the health report: the cost of its steps, the findings of its audits, how long revokes waited.

Belongs here: writing these records. Does not belong here: reading them into a report (stores.health_figures), the steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import Jsonb

from threadhouse.retrieval.audit import CollectionAudit
from threadhouse.retrieval.models import Collection
from threadhouse.stores import queries
from threadhouse.stores.postgres import Database


@dataclass(frozen=True, slots=True)
class WaitingRevocation:
    """An owner that is about to lose readers, and when that was decided."""

    owner_id: str
    changed_at: datetime


def note_step(
    database: Database,
    step: str,
    *,
    seconds: float,
    texts_embedded: int = 0,
    cache_hits: int = 0,
    vector_writes: int = 0,
    is_scoped: bool = False,
) -> None:
    """Write down what a step that builds cost.

    Args:
        is_scoped: The step followed some changes and says nothing of the rest; such steps of an hour are added up.
    """
    with database.connect() as connection:
        connection.execute(
            queries.load("night_note_changes" if is_scoped else "night_note_step"),
            {
                "step": step,
                "seconds": seconds,
                "texts_embedded": texts_embedded,
                "cache_hits": cache_hits,
                "vector_writes": vector_writes,
            },
        )


def note_audits(database: Database, audits: Iterable[CollectionAudit]) -> None:
    """Write down how many findings of which kind an audit had; whose they are stays with the check that shows them."""
    rows = [
        {
            "collection": audit.collection,
            "points": audit.points,
            "owners": audit.owners,
            "findings": Jsonb({kind.value: count for kind, count in sorted(audit.counts.items())}),
        }
        for audit in audits
    ]
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.executemany(queries.load("night_note_audit"), rows)


def read_waiting_revocations(
    connection: Connection[TupleRow], physical: str, owner_ids: Sequence[str]
) -> tuple[WaitingRevocation, ...]:
    """Since when owners of a collection have waited for somebody to lose sight of them; asked before their pointers move."""
    if not owner_ids:
        return ()
    with connection.cursor(row_factory=class_row(WaitingRevocation)) as cursor:
        parameters = {"physical": physical, "owner_ids": list(owner_ids)}
        return tuple(cursor.execute(queries.load("night_revocations_waiting"), parameters))


def note_vectors_agree(
    connection: Connection[TupleRow], collection: Collection, waited: Sequence[WaitingRevocation]
) -> None:
    """Write down that the vectors agree with these revokes from now on."""
    if waited:
        connection.execute(
            queries.load("night_note_vectors_agree"),
            {
                "collection": collection,
                "owner_ids": [each.owner_id for each in waited],
                "changed_at": [each.changed_at for each in waited],
            },
        )


def note_packs_agree(
    connection: Connection[TupleRow], seconds: float, *, is_scoped: bool = False
) -> None:
    """Write down that the stored packs agree with every revoke that the vectors agreed with.

    Args:
        seconds: How long the refresh of the packs took; it may not have seen what came after it began.
        is_scoped: Only some threads were refreshed; a revoke whose threads are not all up to date goes on waiting.
    """
    connection.execute(
        queries.load("night_note_packs_agree"), {"seconds": seconds, "is_scoped": is_scoped}
    )
