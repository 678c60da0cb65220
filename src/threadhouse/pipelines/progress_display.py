"""How far a long command is, for whoever watches: a bar on a terminal, plain lines in a log.

Belongs here: drawing to stderr, so that stdout holds nothing but the result.
Does not belong here: knowing what a task is; tasks come as (name, done, total).
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Protocol, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# A log that is read afterwards wants few lines; a person who follows it wants to see that it lives.
PLAIN_INTERVAL_S = 10.0


class ProgressDisplay(Protocol):
    """Told about tasks while one command runs; used as a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def announce(self, text: str) -> None:
        """Say one line that stays."""
        ...

    def report(self, task: str, done: int, total: int) -> None:
        """Say how far a task is; ``total`` 0 means that nobody knows."""
        ...


def open_display() -> ProgressDisplay:
    """Bars when stderr is a terminal, lines otherwise."""
    # A descriptor of our own: Dagster sends the process's own stderr into a file while it runs a job, and a bar that appears
    # when the job is over is none.
    stream = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8", errors="replace")
    return _Bars(stream) if stream.isatty() else _Lines(stream)


class _Bars:
    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._stream = stream
        self._tasks: dict[str, TaskID] = {}
        self._progress: Progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(file=stream),
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
        self._stream.close()

    def announce(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)

    def report(self, task: str, done: int, total: int) -> None:
        if task not in self._tasks:
            self._tasks[task] = self._progress.add_task(task, total=None)
        self._progress.update(self._tasks[task], completed=done, total=total or None)


class _Lines:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._said_at: dict[str, float] = {}
        self._finished: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def announce(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def report(self, task: str, done: int, total: int) -> None:
        is_last = total > 0 and done >= total
        now = time.monotonic()
        if task in self._finished and is_last:
            return
        if not is_last and now - self._said_at.get(task, -PLAIN_INTERVAL_S) < PLAIN_INTERVAL_S:
            return
        self._said_at[task] = now
        if is_last:
            self._finished.add(task)
        else:
            self._finished.discard(task)
        share = f" of {total:,} ({done / total:.0%})" if total else ""
        self.announce(f"{task}: {done:,}{share}")
