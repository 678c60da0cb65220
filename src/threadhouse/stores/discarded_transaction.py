"""One transaction that is never committed, in which everything that opens connections and transactions of its own still works.

Belongs here: lending the one connection for what would otherwise be many, and throwing everything away at the end.
Does not belong here: what is tried out inside.

Nobody else ever sees what happens inside, and nothing of it is left: no row, no event, no notification. Only sequences move on.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import IsolationLevel
from psycopg.abc import Params, QueryNoTemplate
from psycopg.rows import TupleRow
from psycopg.transaction import Transaction

from threadhouse.retrieval.models import Audience
from threadhouse.stores import queries
from threadhouse.stores.leased_connections import QuestionConnections
from threadhouse.stores.postgres import Database


class DiscardedConnection(psycopg.Connection[TupleRow]):
    """A connection inside one open transaction. What would begin a transaction on it sets a savepoint."""

    is_open: bool = False
    keeps_login: bool = False
    """Take on no lane's role, so that a statement is seen to decide by itself."""

    def execute(  # pyright: ignore[reportIncompatibleMethodOverride]  # no template strings here
        self,
        query: QueryNoTemplate,
        params: Params | None = None,
        *,
        prepare: bool | None = None,
        binary: bool = False,
    ) -> psycopg.Cursor[TupleRow]:
        """Execute a statement; see `keeps_login`."""
        if self.keeps_login and query is queries.load("reader_begin"):
            return super().execute(queries.load("role_reset"))
        return super().execute(query, params, prepare=prepare, binary=binary)

    def set_isolation_level(self, value: IsolationLevel | None) -> None:
        """Does nothing inside: one transaction has one level."""
        if not self.is_open:
            super().set_isolation_level(value)

    def set_read_only(self, value: bool | None) -> None:
        """Does nothing inside: the canaries have to be written."""
        if not self.is_open:
            super().set_read_only(value)

    def set_autocommit(self, value: bool) -> None:
        """Does nothing inside."""
        if not self.is_open:
            super().set_autocommit(value)

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Generator[Transaction, None, None]:
        """A savepoint. A role that was taken on for it is given back, as it would be at the end of a transaction."""
        with super().transaction(savepoint_name, force_rollback) as transaction:
            yield transaction
        if self.is_open:
            self.execute(queries.load("role_reset"))


@dataclass(frozen=True, slots=True)
class DiscardedDatabase(Database):
    """A database whose every connection is the one of the discarded transaction."""

    connection: DiscardedConnection | None = None

    @contextmanager
    def connect(
        self, *, autocommit: bool = False
    ) -> Generator[psycopg.Connection[TupleRow], None, None]:
        """Yield the one connection; what the body did is undone when it raises."""
        del autocommit
        if self.connection is None:
            message = "A DiscardedDatabase is made by discarded_transaction."
            raise LookupError(message)
        with self.connection.transaction():
            yield self.connection

    @contextmanager
    def lend(self) -> Generator[psycopg.Connection[TupleRow], None, None]:
        """Yield the one connection as a pool would: without a transaction of its own."""
        if self.connection is None:
            message = "A DiscardedDatabase is made by discarded_transaction."
            raise LookupError(message)
        yield self.connection

    @contextmanager
    def without_roles(self) -> Generator[None, None, None]:
        """Inside, every question is asked with the rights of the login: what a lane's role would keep back is not kept back."""
        if self.connection is None:
            message = "A DiscardedDatabase is made by discarded_transaction."
            raise LookupError(message)
        self.connection.keeps_login = True
        try:
            yield
        finally:
            self.connection.keeps_login = False

    @property
    def connections(self) -> QuestionConnections:
        """The one connection for a service that would take many."""
        return _OneConnection(self)


class _OneConnection:
    """Implements `QuestionConnections`, for one thread."""

    def __init__(self, database: DiscardedDatabase) -> None:
        self._database = database
        self._is_question = False

    def __call__(self) -> AbstractContextManager[psycopg.Connection[TupleRow]]:
        return self._database.lend() if self._is_question else self._database.connect()

    @contextmanager
    def question(self, lane: Audience) -> Generator[psycopg.Connection[TupleRow], None, None]:
        del lane
        self._is_question = True
        try:
            with self._database.connect() as connection:
                yield connection
        finally:
            self._is_question = False


@contextmanager
def discarded_transaction(database: Database) -> Generator[DiscardedDatabase, None, None]:
    """Yield the database as it looks from inside one transaction, which is rolled back whatever happens.

    Raises:
        StoreUnreachableError: The server does not answer.
    """
    connection = database.new_connection(DiscardedConnection)
    # One moment for everything: a policy that changes meanwhile would look like a leak.
    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    try:
        with connection.transaction(force_rollback=True):
            connection.is_open = True
            try:
                yield DiscardedDatabase(
                    database.conninfo,
                    is_embedded=database.is_embedded,
                    lock_timeout_s=database.lock_timeout_s,
                    connection=connection,
                )
            finally:
                connection.is_open = False
    finally:
        connection.close()
