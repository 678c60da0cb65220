"""What consumers say about queries and packs, in Postgres.

Belongs here: finding the query or the pack that is spoken of, and writing what was said in one transaction.
Does not belong here: what may be said (serving), queries themselves (stores.pack_delivery).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from threadhouse.retrieval.events import RetrievalEvent
from threadhouse.retrieval.gap_signals import GapSignal
from threadhouse.retrieval.models import Audience, Json, Principal
from threadhouse.stores import queries
from threadhouse.stores.gap_signals import signal_rows
from threadhouse.stores.live_owners import Connections
from threadhouse.stores.reader_roles import READER_ROLE, continue_as


@dataclass(frozen=True, slots=True)
class KnownQuery:
    """A query that was answered; ``pointed_to`` are the threads that its answer named."""

    query_id: UUID
    session_id: str | None
    lane: Audience
    thread_id: str | None
    resolution_path: str
    query_text: str | None
    pack_id: UUID | None
    pointed_to: Sequence[str]


@dataclass(frozen=True, slots=True)
class ContractBreach:
    """One broken rule of the consumer contract. ``entry_id`` is known up front, so a second try writes no second entry."""

    entry_id: UUID
    kind: str
    details: Mapping[str, Json]


class QueryRecords:
    """Reads and writes on borrowed connections."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def query(self, query_id: UUID, lane: Audience) -> KnownQuery | None:
        """A query of this lane; None also for one of another lane."""
        with (
            self._connections() as connection,
            connection.transaction(),
            connection.cursor(row_factory=class_row(KnownQuery)) as cursor,
        ):
            continue_as(connection, READER_ROLE)
            return cursor.execute(
                queries.load("query_event"), {"query_id": query_id, "lane": lane}
            ).fetchone()

    def delivered_revisions(self, pack_id: UUID, lane: Audience) -> Mapping[str, int] | None:
        """Revision by canonical address of a pack that was delivered to this lane; None when none was."""
        with (
            self._connections() as connection,
            connection.transaction(),
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            continue_as(connection, READER_ROLE)
            row = cursor.execute(
                queries.load("delivered_pack"), {"pack_id": pack_id, "lane": lane}
            ).fetchone()
        return None if row is None else row["source_revisions"]

    def write(
        self,
        event: RetrievalEvent,
        *,
        gaps: Sequence[GapSignal] = (),
        breaches: Sequence[ContractBreach] = (),
        principal: Principal,
        pack_id: UUID | None = None,
    ) -> None:
        """Write what was said, all or none."""
        with self._connections() as connection, connection.transaction():
            continue_as(connection, READER_ROLE)
            connection.execute(
                queries.load("delivery_write"),
                {
                    "events": Jsonb([event.model_dump(mode="json")]),
                    "signals": Jsonb(signal_rows(gaps)),
                    "pack_id": None,
                    "lane": None,
                    "thread_id": None,
                    "source_revisions": Jsonb({}),
                },
            )
            if breaches:
                entries = [
                    {
                        "entry_id": str(breach.entry_id),
                        "kind": breach.kind,
                        "details": dict(breach.details),
                    }
                    for breach in breaches
                ]
                connection.execute(
                    queries.load("contract_log_append"),
                    {
                        "subject": principal.subject,
                        "lane": principal.audience,
                        "pack_id": pack_id,
                        "entries": Jsonb(entries),
                    },
                )
