"""One connection for all steps of one question.

Belongs here: lending the same pooled connection again within a thread. Does not belong here: the pool, statements.

A question asks Postgres about ten times. Fetching a connection from the pool, proving that it lives, and a transaction around a
single SELECT would make forty round trips of it.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from psycopg import Connection
from psycopg.rows import TupleRow

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool


class LeasedConnections:
    """Lends connections of a pool. Call it for one; inside `lease` every call of the same thread lends the same one.

    They are in autocommit: a lookup is one round trip, and what must hold together opens ``connection.transaction()``.
    """

    def __init__(self, pool: ConnectionPool[Connection[TupleRow]]) -> None:
        self._pool = pool
        self._leased = threading.local()

    @contextmanager
    def __call__(self) -> Generator[Connection[TupleRow], None, None]:
        """Yield the leased connection, or one for this block alone."""
        held: Connection[TupleRow] | None = getattr(self._leased, "connection", None)
        if held is not None:
            yield held
            return
        with self.lease() as connection:
            yield connection

    @contextmanager
    def lease(self) -> Generator[Connection[TupleRow], None, None]:
        """Hold one connection for everything that this thread does inside."""
        with self._pool.connection() as connection:
            connection.autocommit = True
            self._leased.connection = connection
            try:
                yield connection
            finally:
                self._leased.connection = None
                if not connection.closed:
                    connection.rollback()
                    connection.autocommit = False
