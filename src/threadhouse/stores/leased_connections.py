"""One transaction for all steps of one question.

Belongs here: lending the connection of a question to each of its steps, and pools to take them from. Does not belong here:
statements, what a lane may see.

A question asks Postgres about ten times. A transaction and a connection for each would double the round trips. Each statement
still sees what was committed before it, so that a right taken away in the middle of a question is gone for its last check.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol, Self, TypeAlias

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

from threadhouse.retrieval.models import Audience
from threadhouse.stores.postgres import Database

QuestionConnection: TypeAlias = Connection[TupleRow]


class QuestionConnections(Protocol):
    """Lends connections: one for a step of its own, or one transaction for everything that a thread asks inside."""

    def __call__(self) -> AbstractContextManager[QuestionConnection]:
        """The connection of the question that this thread is at, else one that commits when the block ends."""
        ...

    def question(self, lane: Audience) -> AbstractContextManager[QuestionConnection]:
        """A transaction that is committed when the block ends and rolled back when it raises."""
        ...


class LeasedConnections:
    """Implements `QuestionConnections` over pools that are opened when they are first needed, and closed with it.

    Each lane has a pool of its own: Postgres plans a prepared statement anew whenever its connection has changed roles, which
    takes 1.5 to 13 times as long as the statement.

    Args:
        max_size: Connections of each pool; more questions wait.
    """

    def __init__(self, database: Database, *, max_size: int) -> None:
        self._database = database
        self._max_size = max_size
        self._open = ExitStack()
        self._pools: dict[Audience | None, ConnectionPool[QuestionConnection]] = {}
        self._guard = threading.Lock()
        self._leased = threading.local()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @contextmanager
    def __call__(self) -> Generator[QuestionConnection, None, None]:
        held: QuestionConnection | None = getattr(self._leased, "connection", None)
        if held is not None:
            yield held
            return
        with self._pool(None).connection() as connection:
            yield connection

    @contextmanager
    def question(self, lane: Audience) -> Generator[QuestionConnection, None, None]:
        # In a pipeline, so that what needs no answer costs no round trip; the pool rolls back what raises.
        with self._pool(lane).connection() as connection, connection.pipeline():
            self._leased.connection = connection
            try:
                yield connection
            finally:
                self._leased.connection = None
            connection.commit()

    def _pool(self, lane: Audience | None) -> ConnectionPool[QuestionConnection]:
        with self._guard:
            if lane not in self._pools:
                pool = self._database.pool(max_size=self._max_size)
                self._pools[lane] = self._open.enter_context(pool)
            return self._pools[lane]
