"""Where a long step says how far it is.

Belongs here: the channel between an asset and whoever started its run in this process.
Does not belong here: drawing. A run in another process (the UI, a worker) has no listener; its log and metadata tell the rest.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

ProgressListener: TypeAlias = Callable[[str, int, int], None]
"""Called with (task, done, total)."""

_listener: ContextVar[ProgressListener | None] = ContextVar("progress_listener", default=None)


@contextmanager
def listening(listener: ProgressListener) -> Generator[None, None, None]:
    """Send the reports of every step that runs inside to ``listener``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def reporter(task: str) -> Callable[[int, int], None]:
    """A callback (done, total) for one task; does nothing when nobody listens."""
    listener = _listener.get()

    def report(done: int, total: int) -> None:
        if listener is not None:
            listener(task, done, total)

    return report
