"""How much the source of truth holds.

Belongs here: counting what the ``source`` views show.
Does not belong here: reading rows (stores.knowledge, stores.projection_sources).
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from threadhouse.stores import queries


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """Rows of the source of truth; ``units`` are live ones."""

    documents: int
    units: int
    threads: int

    @property
    def has_content(self) -> bool:
        """Whether there is anything that a nightly run could work on."""
        return bool(self.documents or self.units)


def count_source(connection: Connection[TupleRow]) -> SourceCounts:
    """Count documents, units and threads."""
    with connection.cursor(row_factory=class_row(SourceCounts)) as cursor:
        counts = cursor.execute(queries.load("source_counts")).fetchone()
    return counts or SourceCounts(0, 0, 0)
