"""What ran, when, and what it did: ``nao.pipeline_run``.

Belongs here: the rows of one run. Does not belong here: the run itself (pipelines).
"""

from __future__ import annotations

from collections.abc import Mapping

from psycopg.types.json import Jsonb

from threadhouse.retrieval.models import Json
from threadhouse.stores import queries
from threadhouse.stores.postgres import Database


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
