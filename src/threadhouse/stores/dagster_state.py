"""What the books of the Dagster instance of a home say, read without Dagster.

Belongs here: schedules that were stopped by hand, when the daemon was last alive, runs whose process is gone.
Does not belong here: judging it (``stores.doctor``), closing such runs (``pipelines.dead_runs``).

The files are opened for reading only, so that looking makes nothing. Dagster itself would take seconds to import and would create
what is not there. A test makes each state with Dagster's own calls, so that another layout of its tables would be noticed.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import psutil

PROCESS_TAG: Final = "threadhouse/process"
"""On runs of the console script: process number and start time, because numbers are used again."""

SAME_PROCESS_S: Final = 2.0
"""The clock that start times are counted from is read anew each time, so two readings may differ a little."""

_GOING_ON: Final = ("NOT_STARTED", "STARTING", "STARTED", "CANCELING")
_STOPPED_SCHEDULES: Final = (
    "select count(*) from instigators where instigator_type = 'SCHEDULE' and status = 'STOPPED'"
)
_LAST_HEARTBEAT: Final = (
    "select max(timestamp) from daemon_heartbeats where daemon_type = 'SCHEDULER'"
)
_PROCESSES: Final = (
    "select t.value from runs r join run_tags t on t.run_id = r.run_id and t.key = ?"
    " where r.status in (?, ?, ?, ?)"
)


@dataclass(frozen=True, slots=True)
class DagsterState:
    """What was found.

    Attributes:
        stopped_schedules: How many schedules somebody switched off.
        daemon_seen_at: When the daemon that starts schedules last said that it lives; None when it never has.
        dead_runs: Runs that count as going on although their process is gone.
    """

    stopped_schedules: int
    daemon_seen_at: datetime | None
    dead_runs: int


def read_dagster_state(home: Path) -> DagsterState | None:
    """The state of a home's instance; None when there is none, or when nobody can read it."""
    folder = home / "dagster"
    runs, schedules = folder / "history" / "runs.db", folder / "schedules" / "schedules.db"
    try:
        stopped = _rows(schedules, _STOPPED_SCHEDULES) if schedules.exists() else [(0,)]
        beat = _rows(runs, _LAST_HEARTBEAT)[0][0]
        processes = _rows(runs, _PROCESSES, (PROCESS_TAG, *_GOING_ON))
    except (sqlite3.Error, IndexError):
        return None
    seen_at = None if beat is None else datetime.fromisoformat(str(beat)).replace(tzinfo=UTC)
    dead = sum(not is_alive(str(process)) for (process,) in processes)
    return DagsterState(int(str(stopped[0][0])), seen_at, dead)


def process_mark() -> str:
    """What `is_alive` recognises this process by."""
    return f"{os.getpid()}@{psutil.Process().create_time():.2f}"


def is_alive(process: str) -> bool:
    """Whether the process of a `process_mark` still runs."""
    number, _, started = process.partition("@")
    try:
        found = psutil.Process(int(number))
        is_zombie = found.status() == psutil.STATUS_ZOMBIE
        return not is_zombie and abs(found.create_time() - float(started)) < SAME_PROCESS_S
    except (psutil.Error, ValueError):
        return False


def _rows(file: Path, statement: str, parameters: tuple[str, ...] = ()) -> list[tuple[object, ...]]:
    with closing(
        sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=5)
    ) as books:
        return books.execute(statement, parameters).fetchall()
