"""Where a consumer of the change log stands, what waits for it, and how long changes have waited.

Belongs here: reading ``nao.change_log`` behind a position, moving the position, the record of waits.
Does not belong here: what is done about a change (stores.change_sync), what a row means (retrieval.change_scope).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from threadhouse.retrieval.change_scope import ChangedRow
from threadhouse.stores import queries
from threadhouse.stores.postgres import Database

CONSUMER = "projection"
"""Who follows the log: vectors, centroids and packs together, whichever process is at it."""


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A moment in the order of commits on one server: which transactions were committed by then. ``at`` is its time."""

    snapshot: str
    cluster: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a consumer has to follow.

    Attributes:
        old: Its position; None when it never began, or when the server is another one, so that anything may have changed.
        new: Where it will stand afterwards.
        rows: Changed rows in order of their first change; empty without an old position.
    """

    old: str | None
    new: LogPosition
    rows: tuple[ChangedRow, ...]

    @property
    def changes(self) -> int:
        """Rows of the log."""
        return sum(row.changes for row in self.rows)


@dataclass(frozen=True, slots=True)
class WaitingChanges:
    """How far a consumer is behind; ``position`` is None when it never began, and then nothing is counted."""

    position: str | None
    changes: int
    oldest_at: datetime | None
    newest_id: int | None
    asked_at: datetime

    @property
    def age(self) -> timedelta:
        """How long the oldest has waited; nothing when none waits."""
        return timedelta() if self.oldest_at is None else self.asked_at - self.oldest_at


def read_backlog(database: Database) -> Backlog:
    """Everything that was committed and not followed yet, all seen at one moment."""
    with database.connect() as connection:
        connection.execute("set transaction isolation level repeatable read read only")
        new = _now(connection)
        row = connection.execute(
            queries.load("changes_position"), {"consumer": CONSUMER}
        ).fetchone()
        old = None if row is None else str(row[0])
        return Backlog(old, new, () if old is None else _rows(connection, old))


def read_late_revokes(
    database: Database, position: str
) -> tuple[LogPosition, tuple[ChangedRow, ...]]:
    """What was committed after a position and can take a right away, and the moment of this look."""
    with database.connect() as connection:
        connection.execute("set transaction isolation level repeatable read read only")
        return _now(connection), _rows(connection, position, only_taking_away=True)


def read_waiting_changes(connection: Connection[TupleRow]) -> WaitingChanges:
    """How much waits since when."""
    with connection.cursor(row_factory=class_row(WaitingChanges)) as cursor:
        found = cursor.execute(queries.load("changes_waiting"), {"consumer": CONSUMER}).fetchone()
    if found is None:
        message = "changes_waiting gave no row although it joins outwards."
        raise LookupError(message)
    return found


def move_position(
    database: Database,
    backlog: Backlog,
    *,
    followed_by: str,
    access_at: datetime,
    searchable_at: datetime,
) -> None:
    """Say that a backlog was followed, in one transaction with the record of its waits.

    Args:
        followed_by: Who did it, in a word.
        access_at: When readers of the vectors could no longer reach what was taken away.
        searchable_at: When they could reach all that is new.
    """
    with database.connect() as connection:
        _note_and_move(
            connection,
            backlog.old,
            backlog.new.snapshot,
            backlog.new.cluster,
            followed_by=followed_by,
            read_at=backlog.new.at,
            access_at=access_at,
            searchable_at=searchable_at,
        )


def begin_reconcile(database: Database, run_id: str) -> None:
    """Remember what is committed now: a full reconcile that begins after this will have seen it."""
    with database.connect() as connection:
        connection.execute(queries.load("changes_begin_reconcile"), {"run_id": run_id})


def end_reconcile(database: Database, run_id: str) -> bool:
    """Move the position to where a reconcile began, now that vectors, centroids and packs agree with it.

    Returns:
        Whether the reconcile was known; one that was begun under another id moves nothing.
    """
    with database.connect() as connection:
        begun = connection.execute(
            queries.load("changes_end_reconcile"), {"run_id": run_id}
        ).fetchone()
        if begun is None:
            return False
        new, cluster, began_at = begun
        _, _, now = _read_now(connection)
        row = connection.execute(
            queries.load("changes_position"), {"consumer": CONSUMER}
        ).fetchone()
        _note_and_move(
            connection,
            None if row is None else row[0],
            new,
            cluster,
            followed_by="nightly",
            read_at=began_at,
            access_at=now,
            searchable_at=now,
        )
    return True


def _note_and_move(
    connection: Connection[TupleRow],
    old: str | None,
    new: str,
    cluster: str,
    *,
    followed_by: str,
    read_at: datetime,
    access_at: datetime,
    searchable_at: datetime,
) -> None:
    parameters = {
        "consumer": CONSUMER,
        "followed_by": followed_by,
        "old": old,
        "new": new,
        "read_at": read_at,
        "access_at": access_at,
        "searchable_at": searchable_at,
    }
    if old is not None:
        connection.execute(queries.load("changes_note"), parameters)
    connection.execute(
        queries.load("changes_move"),
        {"consumer": CONSUMER, "position": new, "cluster": cluster},
    )


def _rows(
    connection: Connection[TupleRow], position: str, *, only_taking_away: bool = False
) -> tuple[ChangedRow, ...]:
    parameters = {"position": position, "only_taking_away": only_taking_away}
    with connection.cursor(row_factory=class_row(ChangedRow)) as cursor:
        return tuple(cursor.execute(queries.load("changes_read"), parameters))


def _now(connection: Connection[TupleRow]) -> LogPosition:
    return LogPosition(*_read_now(connection))


def _read_now(connection: Connection[TupleRow]) -> tuple[str, str, datetime]:
    row = connection.execute(queries.load("changes_now")).fetchone()
    if row is None:
        message = "changes_now gave no row although it reads a function."
        raise LookupError(message)
    return row[0], row[1], row[2]
