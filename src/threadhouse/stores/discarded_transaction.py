"""One transaction that is never committed, in which everything that opens connections and transactions of its own still works.

Belongs here: lending the one connection for what would otherwise be many, and throwing everything away at the end.
Does not belong here: what is tried out inside.

Nobody else ever sees what happens inside, and nothing of it is left: no row, no event, no notification. Only sequences move on.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Self

import psycopg
from psycopg import IsolationLevel
from psycopg.abc import Params, QueryNoTemplate
from psycopg.pq.abc import PGconn
from psycopg.rows import Row, RowFactory, TupleRow, tuple_row
from psycopg.transaction import Transaction

from threadhouse.retrieval.models import Audience
from threadhouse.stores import queries
from threadhouse.stores.leased_connections import QuestionConnections
from threadhouse.stores.postgres import Database


@dataclass(frozen=True, slots=True)
class Change:
    """A statement, by its name, that somebody else might send at any moment."""

    query: str
    params: Mapping[str, Any]


class DiscardedCursor(psycopg.Cursor[Row]):
    """A cursor after whose statements others may follow; see `DiscardedDatabase.overtaken`."""

    def execute(  # pyright: ignore[reportIncompatibleMethodOverride]  # no template strings here
        self,
        query: QueryNoTemplate,
        params: Params | None = None,
        *,
        prepare: bool | None = None,
        binary: bool | None = None,
    ) -> Self:
        """Execute a statement, then what was to follow it."""
        super().execute(query, params, prepare=prepare, binary=binary)
        if isinstance(self.connection, DiscardedConnection):
            self.connection.follow(query)
        return self


class DiscardedConnection(psycopg.Connection[TupleRow]):
    """A connection inside one open transaction. What would begin a transaction on it sets a savepoint."""

    is_open: bool = False
    keeps_login: bool = False
    """Take on no lane's role, so that a statement is seen to decide by itself."""

    def __init__(self, pgconn: PGconn, row_factory: RowFactory[TupleRow] = tuple_row) -> None:
        super().__init__(pgconn, row_factory)
        self.cursor_factory = DiscardedCursor
        self.following: dict[str, Change] = {}

    def follow(self, query: QueryNoTemplate) -> None:
        """Run what was to follow a statement, once, with the rights of the login, and go on under the role that was in force."""
        name = next((name for name in self.following if queries.load(name) is query), None)
        if name is None:
            return
        change = self.following.pop(name)
        role = self.execute(queries.load("role_current")).fetchone()
        self.execute(queries.load("role_reset"))
        self.execute(queries.load(change.query), change.params)
        self.execute(queries.load("role_set"), {"role": role[0] if role else "none"})

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
        with self._one.transaction():
            yield self._one

    @contextmanager
    def lend(self) -> Generator[psycopg.Connection[TupleRow], None, None]:
        """Yield the one connection as a pool would: without a transaction of its own."""
        yield self._one

    @contextmanager
    def without_roles(self) -> Generator[None, None, None]:
        """Inside, every question is asked with the rights of the login: what a lane's role would keep back is not kept back."""
        self._one.keeps_login = True
        try:
            yield
        finally:
            self._one.keeps_login = False

    @contextmanager
    def overtaken(
        self, changes: Mapping[str, Change]
    ) -> Generator[Mapping[str, Change], None, None]:
        """Inside, each named statement is followed at once by a change, as if somebody else had made it just then.

        Yields what has not happened yet.
        """
        self._one.following = dict(changes)
        try:
            yield self._one.following
        finally:
            self._one.following = {}

    @property
    def connections(self) -> QuestionConnections:
        """The one connection for a service that would take many."""
        return _OneConnection(self)

    @property
    def _one(self) -> DiscardedConnection:
        if self.connection is None:
            message = "A DiscardedDatabase is made by discarded_transaction."
            raise LookupError(message)
        return self.connection


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
