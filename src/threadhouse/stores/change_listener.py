"""Follow changes as they are committed, for as long as a process lives.

Belongs here: waiting for PostgreSQL's notifications, looking at the log without one, going on after a store was away.
Does not belong here: following a backlog (stores.change_sync), signals and what is printed (pipelines.cli_listen).

A notification is only a hint: it is lost when nobody is connected, and it does not say what changed. So the log is looked at when
one comes, after every reconnection, and every ``poll_s`` seconds in any case.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self, TypeAlias

import psycopg
from psycopg.rows import TupleRow
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_when_event_set,
    wait_exponential_jitter,
)

from threadhouse.retrieval.errors import ThreadhouseError
from threadhouse.stores import queries
from threadhouse.stores.change_sync import SyncReport
from threadhouse.stores.postgres import TRANSIENT_FAULTS, Database

STOP_CHECK_S = 0.25
"""How often a listener that waits looks whether it was asked to end."""

RETRY_FIRST_S, RETRY_MOST_S = 1.0, 60.0
"""A restart takes seconds. What takes longer is asked for once a minute: soon enough for whoever mends it."""

RECOVERABLE: tuple[type[Exception], ...] = (*TRANSIENT_FAULTS, ThreadhouseError)
"""What may be over the next time: a store that is away or locked, and whatever a person can mend meanwhile, such as a brake."""

Say: TypeAlias = Callable[[str], None]


class ChangeHints:
    """Notifications of changes. Close it, or use it as a context manager.

    Args:
        poll_s: Longest time between two looks at the log, in seconds.
        debounce_s: How long a first hint waits for others, in seconds: a burst is followed as one.
        stop: Ends every wait when it is set.
    """

    def __init__(
        self, database: Database, *, poll_s: float, debounce_s: float, stop: threading.Event
    ) -> None:
        self._database = database
        self._poll_s = poll_s
        self._debounce_s = debounce_s
        self._stop = stop
        self._connection: psycopg.Connection[TupleRow] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hear nothing any more."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def listen(self) -> None:
        """Hear every change from now on. To be called before the log is looked at, or one in between would wait for the poll.

        Raises:
            StoreUnreachableError: The server does not answer.
        """
        if self._connection is None:
            connection = self._database.new_connection(psycopg.Connection[TupleRow])
            try:
                connection.autocommit = True
                connection.execute(queries.load("changes_listen"))
            except BaseException:
                connection.close()
                raise
            self._connection = connection

    def wait(self) -> None:
        """Return when the log is worth a look: something changed, the poll is due, the connection broke, or it is over."""
        until = time.monotonic() + self._poll_s
        was_heard = False
        while self._connection is not None and not self._stop.is_set():
            left = until - time.monotonic()
            if left <= 0:
                return
            try:
                for _ in self._connection.notifies(timeout=min(left, STOP_CHECK_S)):
                    if not was_heard:
                        was_heard, until = True, time.monotonic() + self._debounce_s
            except psycopg.OperationalError:
                self.close()


def follow_changes(
    sync: Callable[[], SyncReport],
    hints: ChangeHints,
    stop: threading.Event,
    *,
    tell: Callable[[SyncReport], None],
    say: Say,
) -> None:
    """Follow the log until ``stop`` is set; the step at hand is finished then.

    A fault is said once; the same work is tried again, later and later, until it is done.

    Args:
        sync: Follows what waits now.
        tell: Told of every backlog that held something.
        say: Told of faults in one sentence, and that they are over.
    """
    faults = _Faults(say)
    attempts = Retrying(
        retry=retry_if_exception_type(RECOVERABLE),
        wait=wait_exponential_jitter(initial=RETRY_FIRST_S, max=RETRY_MOST_S, jitter=1.0),
        sleep=sleep_using_event(stop),
        stop=stop_when_event_set(stop),
        before_sleep=faults.note,
        reraise=True,
    )

    def attempt() -> SyncReport:
        hints.listen()
        return sync()

    while not stop.is_set():
        try:
            report = attempts(attempt)
        except RECOVERABLE:
            return  # it was asked to end in the middle of its attempts, and has said what is wrong
        faults.are_over()
        if report.changes or report.was_everything:
            tell(report)
        if report.is_finished:
            hints.wait()


class _Faults:
    """Says a fault once, however often it is met again, and when it is over."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._last: type[BaseException] | None = None

    def note(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        if error is not None and type(error) is not self._last:
            self._last = type(error)
            lines = str(error).strip().splitlines() or [type(error).__name__]
            self._say(f"{lines[0]} Trying again.")

    def are_over(self) -> None:
        if self._last is not None:
            self._last = None
            self._say("That is over; changes are being followed again.")
