"""One transaction for all steps of one question.

Belongs here: lending the connection of a question to each of its steps. Does not belong here: the pool, statements.

A question asks Postgres about ten times. A transaction and a connection for each would double the round trips. Each statement
still sees what was committed before it, so that a right taken away in the middle of a question is gone for its last check.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from psycopg import Connection
from psycopg.rows import TupleRow

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool


class QuestionConnections(Protocol):
    """Lends connections: one for a step of its own, or one transaction for everything that a thread asks inside."""

    def __call__(self) -> AbstractContextManager[Connection[TupleRow]]:
        """The connection of the question that this thread is at, else one that commits when the block ends."""
        ...

    def question(self) -> AbstractContextManager[Connection[TupleRow]]:
        """A transaction that is committed when the block ends and rolled back when it raises."""
        ...


class LeasedConnections:
    """Implements `QuestionConnections` over a pool."""

    def __init__(self, pool: ConnectionPool[Connection[TupleRow]]) -> None:
        self._pool = pool
        self._leased = threading.local()

    @contextmanager
    def __call__(self) -> Generator[Connection[TupleRow], None, None]:
        held: Connection[TupleRow] | None = getattr(self._leased, "connection", None)
        if held is not None:
            yield held
            return
        with self._pool.connection() as connection:
            yield connection

    @contextmanager
    def question(self) -> Generator[Connection[TupleRow], None, None]:
        # The pool commits or rolls back.
        with self._pool.connection() as connection:
            self._leased.connection = connection
            try:
                yield connection
            finally:
                self._leased.connection = None
