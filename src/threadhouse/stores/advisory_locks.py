"""Locks that hold on every machine that works on one hub: advisory locks in Postgres.

Belongs here: taking one, naming who has it, giving it back.
Does not belong here: what is done while it is held.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from threadhouse.retrieval.errors import StoreLockedError
from threadhouse.stores import queries
from threadhouse.stores.postgres import Database

GRACE_S = 1.0
"""How long the server may take to notice that the last holder was killed; whoever is at work holds it longer."""

POLL_S = 0.05

_HELD: ContextVar[frozenset[tuple[str, str]]] = ContextVar("_HELD", default=frozenset())
"""Database and name of every lock that the call chain holds."""


@contextmanager
def advisory_lock(
    database: Database,
    name: str,
    doing: str,
    *,
    wait_s: float = GRACE_S,
    is_reentrant: bool = False,
) -> Generator[None, None, None]:
    """Hold the lock called ``name`` while the body runs.

    Args:
        database: Where the lock is; everybody who shares it shares the lock.
        name: Any text, the same for all who must not meet.
        doing: Beginning of the sentence that goes on with the holder, such as "The nightly job is being run by".
        wait_s: How long the holder may take to end; seldom less than the grace that a killed one needs.
        is_reentrant: Let who holds it already go on: a step may be part of a larger one.

    Raises:
        StoreLockedError: Somebody else holds it; the message names the connection.
    """
    held = _HELD.get()
    if is_reentrant and (database.conninfo, name) in held:
        yield
        return
    key = {"name": name}
    with database.connect(autocommit=True) as connection:
        deadline = time.monotonic() + wait_s
        while True:
            row = connection.execute(queries.load("advisory_lock"), key).fetchone()
            if row is not None and row[0]:
                break
            if time.monotonic() > deadline:
                holder = connection.execute(queries.load("advisory_lock_holder"), key).fetchone()
                who = holder[0] if holder else "another process"
                message = f"{doing} {who}; wait for it to end or stop it, then run again."
                raise StoreLockedError(message)
            time.sleep(POLL_S)
        _HELD.set(held | {(database.conninfo, name)})
        try:
            yield
        finally:
            _HELD.set(held)
            # The server notices a closed connection only after a while. When this process is killed, that has to do.
            connection.execute(queries.load("advisory_unlock"), key)
