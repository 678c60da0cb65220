"""Proposals of threads, made of questions that no thread answered.

Belongs here: when they are made and what to record about it. Does not belong here: how (stores.intake_proposals), the search for
candidate units (handed in).
"""

from datetime import UTC, datetime
from typing import Any

import dagster as dg

from threadhouse.assets.automation import FRESH_DAILY, OWNERS, retrying_transient_faults
from threadhouse.assets.replay import gap_replay
from threadhouse.resources.replays import Replays
from threadhouse.resources.stores import EmbedderResource, EnvironmentResource, PostgresResource
from threadhouse.stores.intake_proposals import refresh_proposals
from threadhouse.stores.query_secret import open_question_keeper


@dg.asset(
    group_name="metrics",
    kinds={"postgres"},
    owners=OWNERS,
    deps=[gap_replay],
    freshness_policy=FRESH_DAILY,
)
def intake_proposals(
    environment: EnvironmentResource,
    postgres: PostgresResource,
    embedder: EmbedderResource,
    replays: dg.ResourceParam[Replays],
) -> dg.MaterializeResult[Any]:
    """Threads that are asked for and missing: recurring unanswered questions of a lane, with a title and candidate units.

    Grain: one row a group of questions of one lane in ``nao.thread_intake_proposal``. People decide: threadhouse proposals.
    """
    with retrying_transient_faults():
        database, settings = postgres.open(), environment.settings()
        opened = embedder.open(database)
        report = refresh_proposals(
            database,
            opened,
            open_question_keeper(settings),
            datetime.now(UTC),
            lambda lane, texts: replays.candidate_units(settings, database, opened, lane, texts),
        )
    return dg.MaterializeResult(metadata={**report.figures()})
