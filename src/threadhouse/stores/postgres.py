"""Connections to PostgreSQL, the same for the embedded server and an outside one.

Belongs here: where the database is, how a connection is set up, and what a failure to connect is
called.
Does not belong here: statements of any product, schema changes (``stores.migrations``), the
server's life (``stores.embedded_postgres``).
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from tenacity import (
    Retrying,
    retry_if_exception,
    stop_after_delay,
    wait_exponential_jitter,
)

from threadhouse.retrieval.errors import ConfigurationError, StoreUnreachableError
from threadhouse.stores import embedded_postgres

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

    from threadhouse.stores.settings import Settings

ConnectionKind = TypeVar("ConnectionKind", bound="psycopg.Connection[TupleRow]")

OLDEST_SERVER = 140000
# A server that is starting or failing over is back within seconds; after that a person should hear
# about it.
CONNECT_RETRY_S = 5.0
CONNECT_TIMEOUT_S = 10
# What asking again cannot change. libpq gives no code for a refused log-in, only these words.
_FINAL_REFUSALS = (
    "authentication failed",
    "does not exist",
    "no pg_hba.conf entry",
    "no password supplied",
    "permission denied",
)


TRANSIENT_FAULTS: tuple[type[Exception], ...] = (psycopg.OperationalError, StoreUnreachableError)
"""What a later attempt may not meet again: the server went away, restarts or is full. Wrong statements are not among them."""


@dataclass(frozen=True, slots=True)
class Database:
    """One PostgreSQL database; holds no connection.

    ``conninfo`` is never shown, because it may hold a password; ``address`` is for messages.
    """

    conninfo: str = field(repr=False)
    is_embedded: bool
    lock_timeout_s: float = 30.0

    @classmethod
    def open(cls, settings: Settings) -> Database:
        """Start the embedded server, or look at ``DATABASE_URL``, and make sure it can be used.

        Raises:
            ConfigurationError: The server is older than 14 or does not store UTF-8.
            StoreUnreachableError: It does not answer.
        """
        if settings.database_url is None:
            running = embedded_postgres.start(settings.home)
            return cls(
                running.conninfo(),
                is_embedded=True,
                lock_timeout_s=settings.lock_timeout_s,
            )
        database = cls(
            settings.database_url.get_secret_value(),
            is_embedded=False,
            lock_timeout_s=settings.lock_timeout_s,
        )
        database.require_usable()
        return database

    @property
    def address(self) -> str:
        """User, host, port and database, without the password: fit for a message."""
        known = conninfo_to_dict(self.conninfo)
        host, port = known.get("host") or "localhost", known.get("port") or 5432
        user = f"{known['user']}@" if known.get("user") else ""
        return f"{user}{host}:{port}/{known.get('dbname') or ''}"

    def with_database(self, name: str) -> Database:
        """The same server and user, another database."""
        return Database(
            make_conninfo(self.conninfo, dbname=name),
            self.is_embedded,
            self.lock_timeout_s,
        )

    def require_usable(self) -> None:
        """Check what the rest of the code takes for granted.

        Raises:
            ConfigurationError: The server is older than 14 or the database does not store UTF-8.
        """
        with self.connect() as connection:
            encoding = connection.info.parameter_status("server_encoding")
            version = connection.info.server_version
        if version < OLDEST_SERVER:
            message = (
                f"PostgreSQL at {self.address} is version {version // 10000}; Threadhouse needs 14 "
                "or newer."
            )
            raise ConfigurationError(message)
        if encoding != "UTF8":
            message = (
                f"The database at {self.address} stores {encoding}; Vietnamese needs one created "
                "with encoding UTF8."
            )
            raise ConfigurationError(message)

    @contextmanager
    def connect(
        self, *, autocommit: bool = False
    ) -> Generator[psycopg.Connection[TupleRow], None, None]:
        """Yield a connection: committed when the body ends, rolled back when it raises; closed.

        Ask for other rows per cursor: ``connection.cursor(row_factory=class_row(Unit))``.

        Raises:
            StoreUnreachableError: The server does not answer or does not let us in.
        """
        connection = self.new_connection(psycopg.Connection[TupleRow])
        connection.autocommit = autocommit
        with connection:
            yield connection

    @contextmanager
    def pool(
        self, *, max_size: int = 4
    ) -> Generator[ConnectionPool[psycopg.Connection[TupleRow]], None, None]:
        """Yield a pool of connections set up like those of ``connect``, for readers that stay open.

        Raises:
            StoreUnreachableError: The server does not answer or does not let us in.
        """
        from psycopg_pool import ConnectionPool

        def check(connection: psycopg.Connection[TupleRow]) -> None:
            # Asking every time would be one more round trip for every question.
            if _has_spoken(connection):
                ConnectionPool.check_connection(connection)

        with self.connect():
            pass  # a pool retries in the background for ever; a wrong address must be told at once
        with ConnectionPool[psycopg.Connection[TupleRow]](
            self._full_conninfo(),
            min_size=1,
            max_size=max_size,
            configure=_set_up,
            check=check,
            open=True,
            timeout=self.lock_timeout_s,
        ) as pool:
            yield pool

    def _full_conninfo(self) -> str:
        given = conninfo_to_dict(self.conninfo)
        program = Path(sys.argv[0]).name or "python"
        defaults = {
            "application_name": f"threadhouse {program} {os.getpid()}"[:63],
            "connect_timeout": CONNECT_TIMEOUT_S,
        }
        return make_conninfo(
            self.conninfo,
            **{key: value for key, value in defaults.items() if key not in given},
        )

    def new_connection(self, kind: type[ConnectionKind]) -> ConnectionKind:
        """A connection that the caller closes, of a class of its own if need be.

        Raises:
            StoreUnreachableError: The server does not answer or does not let us in.
        """
        attempts = Retrying(
            retry=retry_if_exception(_may_pass),
            stop=stop_after_delay(CONNECT_RETRY_S),
            wait=wait_exponential_jitter(multiplier=0.1, max=1.0, jitter=0.1),
            reraise=True,
        )
        try:
            connection = attempts(kind.connect, self._full_conninfo())
        except psycopg.OperationalError as error:
            raise self._unreachable(error) from None
        _set_up(connection)
        return connection

    def _unreachable(self, error: psycopg.OperationalError) -> StoreUnreachableError:
        # libpq indents its advice below the reason.
        lines = [line for line in str(error).splitlines() if line and not line.startswith("\t")]
        reason = lines[-1].rstrip(".") if lines else "no reason given"
        password = conninfo_to_dict(self.conninfo).get("password")
        if password:
            reason = reason.replace(str(password), "***")
        remedy = (
            "run threadhouse doctor"
            if self.is_embedded
            else "check DATABASE_URL and that the server runs"
        )
        return StoreUnreachableError(
            f"PostgreSQL at {self.address} cannot be reached: {reason}; {remedy}."
        )


def _has_spoken(connection: psycopg.Connection[TupleRow]) -> bool:
    """Whether the server has said something that nobody asked for: when it hangs up it does."""
    watching = select.poll()
    watching.register(connection.fileno(), select.POLLIN)
    return bool(watching.poll(0))


@contextmanager
def together(connection: psycopg.Connection[TupleRow]) -> Generator[None, None, None]:
    """Send statements without waiting for each; inside a pipeline they already are."""
    # A pipeline inside another one waits for everything before it.
    if connection.info.pipeline_status is not psycopg.pq.PipelineStatus.OFF:
        yield
        return
    with connection.pipeline():
        yield


def _set_up(connection: psycopg.Connection[TupleRow]) -> None:
    """Make instants come back in UTC; by SET, because poolers refuse start-up options."""
    was = connection.autocommit
    connection.autocommit = True
    connection.execute("set time zone 'UTC'")
    connection.autocommit = was


def _may_pass(error: BaseException) -> bool:
    """Whether asking again can help: a server that starts, is full or is not there yet."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    text = str(error)
    return not any(refusal in text for refusal in _FINAL_REFUSALS)
