"""What ran, when, and what it did: ``nao.pipeline_run``.

Belongs here: the rows of one run. Does not belong here: the run itself (pipelines).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from psycopg.types.json import Jsonb

from threadhouse.retrieval.models import Json
from threadhouse.stores import queries
from threadhouse.stores.postgres import Database

NIGHTLY_LOCK: Final = "threadhouse nightly"
"""Name of the advisory lock that one nightly of the console script holds."""


def start_run(database: Database, run_id: str, kind: str) -> None:
    """Write down that a run has begun; one that stays so was killed."""
    with database.connect() as connection:
        connection.execute(queries.load("pipeline_run_start"), {"run_id": run_id, "kind": kind})


def finish_run(
    database: Database, run_id: str, *, succeeded: bool, counters: Mapping[str, Json]
) -> None:
    """Write down how a run ended and what it did."""
    with database.connect() as connection:
        connection.execute(
            queries.load("pipeline_run_finish"),
            {
                "run_id": run_id,
                "status": "succeeded" if succeeded else "failed",
                "counters": Jsonb(dict(counters)),
            },
        )


def note_run(
    database: Database,
    run_id: str,
    kind: str,
    *,
    started_at: datetime,
    finished_at: datetime,
    succeeded: bool,
    counters: Mapping[str, Json],
) -> None:
    """Write down how a run ended that wrote no row of its own. One that did is left as it is."""
    with database.connect() as connection:
        connection.execute(
            queries.load("pipeline_run_note"),
            {
                "run_id": run_id,
                "kind": kind,
                "started_at": started_at,
                "finished_at": finished_at,
                "status": "succeeded" if succeeded else "failed",
                "counters": Jsonb(dict(counters)),
            },
        )


def close_killed_runs(database: Database, kind: str) -> int:
    """Write down of runs that never said how they ended that they failed; returns how many.

    Only for whoever holds the lock of this kind of run: then none of them is alive.
    """
    with database.connect() as connection:
        return connection.execute(
            queries.load("pipeline_run_close_killed"), {"kind": kind}
        ).rowcount
