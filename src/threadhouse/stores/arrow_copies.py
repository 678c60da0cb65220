"""Rows out of Postgres as an Arrow stream, batch by batch.

Belongs here: the second connection that the stream needs, and what its failures become.
Does not belong here: what is copied (whoever asks), where it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final, Protocol, cast

from psycopg import sql

from threadhouse.retrieval.errors import StoreUnreachableError
from threadhouse.stores import queries

if TYPE_CHECKING:
    from adbc_driver_manager import AdbcStatement
    from psycopg import Connection
    from psycopg.rows import TupleRow

    from threadhouse.stores.postgres import Database

BATCH_BYTES: Final = 16_000_000
"""What the driver hands over at a time; its default said aloud, because the memory of a copy depends on it."""


class ArrowStream(Protocol):
    """Rows in the Arrow C stream interface, to be read once."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The stream, as a capsule."""
        ...


# What is asked of the driver, whose own signatures are typed in part only.


class _Cursor(Protocol):
    @property
    def adbc_statement(self) -> AdbcStatement: ...

    def execute(self, operation: str) -> object: ...

    def fetch_arrow(self) -> ArrowStream: ...


class _Connection(Protocol):
    def cursor(self) -> AbstractContextManager[_Cursor]: ...


class ArrowCopies:
    """Opens streams on a connection of its own, which sees what another one sees."""

    def __init__(self, connection: Connection[TupleRow], copying: _Connection) -> None:
        self._connection = connection
        self._copying = copying

    @contextmanager
    def stream(
        self, name: str, values: Mapping[str, object] | None = None
    ) -> Generator[ArrowStream, None, None]:
        """Yield what a statement gives; one stream at a time.

        Args:
            name: A statement in ``sql/queries``.
            values: What fills its ``{name}`` as literals: the driver takes no parameters of ours.
        """
        from adbc_driver_postgresql import (  # pyright: ignore[reportMissingTypeStubs]
            StatementOptions,
        )

        batches = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(BATCH_BYTES)}
        with self._copying.cursor() as cursor:
            cursor.adbc_statement.set_options(**batches)
            cursor.execute(self._statement(name, values or {}))
            yield cursor.fetch_arrow()

    def see(self, snapshot: str) -> None:
        """Take over a snapshot, before anything else is asked."""
        with self._copying.cursor() as cursor:
            cursor.execute(self._statement("snapshot_read_only", {}))
            cursor.execute(self._statement("snapshot_import", {"snapshot": snapshot}))
            cursor.execute(self._statement("snapshot_plan", {}))

    def _statement(self, name: str, values: Mapping[str, object]) -> str:
        literals = {key: sql.Literal(value) for key, value in values.items()}
        return queries.load(name).format(**literals).as_string(self._connection)


@contextmanager
def arrow_copies(
    connection: Connection[TupleRow], database: Database
) -> Generator[ArrowCopies, None, None]:
    """Yield copies in the snapshot of ``connection``.

    Args:
        connection: In a transaction that is at least repeatable read.
        database: The same database, for a second connection.

    Raises:
        StoreUnreachableError: The server does not answer, or stops to.
    """
    from adbc_driver_manager import Error
    from adbc_driver_postgresql import dbapi  # pyright: ignore[reportMissingTypeStubs]

    connect = cast("Callable[[str], AbstractContextManager[_Connection]]", dbapi.connect)
    exported = connection.execute(queries.load("snapshot_export")).fetchone()
    try:
        with connect(database.conninfo) as copying:
            copies = ArrowCopies(connection, copying)
            copies.see(str(exported and exported[0]))
            yield copies
    except Error as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        message = f"PostgreSQL at {database.address} ended a copy: {reason}; run it again."
        raise StoreUnreachableError(message) from None
