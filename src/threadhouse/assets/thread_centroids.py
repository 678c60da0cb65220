"""Thread centroid embeddings.

Belongs here: when centroids are brought up to date and what to record about it.
Does not belong here: how a centroid is computed (retrieval.centroids) or written (stores.centroid_projection).
"""

from typing import Any

import dagster as dg

from threadhouse.assets.automation import (
    FRESH_DAILY,
    OWNERS,
    VECTOR_WRITER,
    retrying_transient_faults,
)
from threadhouse.assets.source_tables import THREAD_TABLES
from threadhouse.assets.vectors import INFORMATION_UNIT_VECTORS, SelectedConfig
from threadhouse.resources.stores import EmbedderResource, PostgresResource, VectorStoreResource
from threadhouse.retrieval.centroids import CENTROID_VERSION
from threadhouse.retrieval.models import Audience
from threadhouse.stores.backfill_selection import BackfillSelection, select_threads
from threadhouse.stores.centroid_projection import refresh_centroids
from threadhouse.stores.postgres import Database


@dg.asset(
    group_name="threads",
    kinds={"postgres", "qdrant"},
    owners=OWNERS,
    deps=[INFORMATION_UNIT_VECTORS, *THREAD_TABLES],
    code_version=CENTROID_VERSION,
    pool=VECTOR_WRITER,
    freshness_policy=FRESH_DAILY,
)
def thread_centroids(
    config: SelectedConfig,
    postgres: PostgresResource,
    vectors: VectorStoreResource,
    embedder: EmbedderResource,
) -> dg.MaterializeResult[Any]:
    """One unit-length vector for each thread and lane, made of what that lane may see, in collection ``thread_centroids``.

    Grain: one point a (thread, lane). A lane that sees no unit of a thread has no point of it. Only those whose inputs
    changed are computed again.
    """
    with retrying_transient_faults():
        database = postgres.open()
        space = embedder.open(database).space
        with vectors.writer() as store:
            report = refresh_centroids(
                database,
                store,
                space,
                threads=config.chosen_threads,
                rebuild=_rebuilt(database, config),
                allow_deletes=config.allow_deletes,
            )
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": sum(report.by_lane.values()),
            "vector_writes": report.vector_writes,
            "space_id": space.space_id,
            **report.figures(),
        }
    )


def _rebuilt(database: Database, config: SelectedConfig) -> frozenset[str]:
    """Keys of the centroids that are computed again although nothing changed."""
    if not config.rebuild:
        return frozenset()
    with database.connect() as connection:
        threads = select_threads(connection, BackfillSelection(threads=config.threads))
    return frozenset(f"{thread}/{lane}" for thread in threads for lane in Audience)
