"""What found points belong to now: the version that counts and the labels of this moment, from Postgres.

Belongs here: one lookup for all hits of a collection.
Does not belong here: what a search does with the answer (retrieval.search).

Vector payloads carry labels too, but a right that is taken away reaches them only with the next publish. This makes it hold
from the next query on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

from psycopg import Connection
from psycopg.rows import TupleRow

from threadhouse.retrieval.models import Collection
from threadhouse.retrieval.payloads import labels_from_words
from threadhouse.retrieval.search_hits import LiveOwner
from threadhouse.stores import queries

Connections: TypeAlias = Callable[[], AbstractContextManager[Connection[TupleRow]]]
"""Lends a connection and commits when it comes back: ``database.connect``, or ``connection`` of a pool."""

_QUERIES = {
    Collection.INFORMATION_UNITS: "live_units",
    Collection.PRODUCTION_DOCUMENTS: "live_documents",
    Collection.THREAD_CENTROIDS: "live_centroids",
}


class PostgresLiveOwners:
    """Implements `threadhouse.retrieval.search_hits.LiveOwners`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def ask_owners(
        self, collection: Collection, physical: str, owner_ids: Sequence[str]
    ) -> Callable[[], Mapping[str, LiveOwner]]:
        """The version that ``physical`` is meant to hold of each owner, and its labels now; what is gone is not in the answer.

        In a pipeline Postgres answers while this process goes on; call what this returns for the answer.
        """
        if not owner_ids:
            return dict[str, LiveOwner]
        statement = queries.load(_QUERIES[collection])
        params = {"physical": physical, "owner_ids": sorted(set(owner_ids))}
        with self._connections() as connection:
            cursor = connection.execute(statement, params)

        def answer() -> Mapping[str, LiveOwner]:
            with cursor:
                return {
                    owner_id: LiveOwner(version_key, labels_from_words(*labels))
                    for owner_id, version_key, *labels in cursor.fetchall()
                }

        return answer
