"""Precomputed context packs.

Belongs here: when packs are brought up to date and what to record about it.
Does not belong here: what a pack holds (retrieval.packs), which are due (stores.pack_refresh).
"""

from typing import Any

import dagster as dg

from threadhouse.assets.automation import FRESH_DAILY, OWNERS, retrying_transient_faults
from threadhouse.assets.replay import replay
from threadhouse.assets.source_tables import THREAD_TABLES
from threadhouse.assets.thread_centroids import thread_centroids
from threadhouse.assets.thread_health import thread_health
from threadhouse.assets.vectors import SelectedConfig
from threadhouse.resources.run_listener import reporter
from threadhouse.resources.stores import EmbedderResource, PostgresResource
from threadhouse.retrieval.packs import PACK_VERSION
from threadhouse.stores.pack_refresh import refresh_packs


@dg.asset(
    group_name="packs",
    kinds={"postgres"},
    owners=OWNERS,
    deps=[thread_centroids, replay, thread_health, *THREAD_TABLES],
    code_version=PACK_VERSION,
    freshness_policy=FRESH_DAILY,
)
def context_packs(
    config: SelectedConfig, postgres: PostgresResource, embedder: EmbedderResource
) -> dg.MaterializeResult[Any]:
    """What an AI agent reads of a thread: ordered units, gaps, suspect links, health, for each lane that sees any of it.

    Grain: one row a (thread, lane) in ``nao.thread_context_pack_cache``. Only threads whose inputs changed are read.
    """
    with retrying_transient_faults():
        database = postgres.open()
        report = refresh_packs(
            database,
            embedder.open(database).space.space_id,
            reporter("Building packs"),
            threads=config.chosen_threads,
            rebuild=config.rebuild,
            allow_deletes=config.allow_deletes,
        )
    return dg.MaterializeResult(
        metadata={"dagster/row_count": sum(report.by_lane.values()), **report.figures()}
    )
