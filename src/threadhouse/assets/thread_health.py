"""Health of threads by lane (D3).

Belongs here: when threads are checked and what to record about it.
Does not belong here: what makes a thread unhealthy (retrieval.thread_health), reading and keeping checks (stores.thread_health).
"""

from datetime import UTC, datetime
from typing import Any

import dagster as dg

from threadhouse.assets.automation import (
    AFTER_WHAT_IS_READY,
    FRESH_DAILY,
    OWNERS,
    retrying_transient_faults,
)
from threadhouse.assets.source_tables import THREAD_TABLES
from threadhouse.resources.stores import (
    EmbedderResource,
    EnvironmentResource,
    PostgresResource,
    VectorStoreResource,
)
from threadhouse.retrieval.thread_health import HEALTH_VERSION
from threadhouse.stores.thread_health import read_cohesions, refresh_thread_health


@dg.asset(
    group_name="threads",
    kinds={"postgres"},
    owners=OWNERS,
    deps=[dg.AssetKey("retrieval_metrics_daily"), *THREAD_TABLES],
    op_tags=AFTER_WHAT_IS_READY,
    code_version=HEALTH_VERSION,
    freshness_policy=FRESH_DAILY,
)
def thread_health(
    environment: EnvironmentResource,
    postgres: PostgresResource,
    vectors: VectorStoreResource,
    embedder: EmbedderResource,
) -> dg.MaterializeResult[Any]:
    """Whether each thread can be relied on, for each lane that sees it, with the figures and thresholds that led to it.

    Centroids are no dependency: a night that a check of vectors stops still tells health, with the cohesions that readers have.

    Grain: one row a change of a (thread, lane) in ``nao.health_signal``. A check that finds nothing new writes nothing.
    """
    with retrying_transient_faults():
        zone = environment.settings().zone
        database = postgres.open()
        space_id = embedder.open(database).space.space_id
        with vectors.reader() as store:
            cohesions = read_cohesions(store)
        report = refresh_thread_health(database, cohesions, space_id, zone, datetime.now(UTC))
    return dg.MaterializeResult(metadata={"dagster/row_count": report.checked, **report.figures()})
