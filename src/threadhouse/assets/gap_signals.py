"""Gap signals: states of the hub as gaps, their severity, and that somebody was told.

Belongs here: when gaps are looked at and what to record about it.
Does not belong here: what is a gap (retrieval.gap_signals), keeping and routing them (stores.gap_refresh, stores.gap_signals).
"""

from datetime import UTC, datetime
from typing import Any

import dagster as dg

from threadhouse.assets.automation import FRESH_DAILY, OWNERS, retrying_transient_faults
from threadhouse.assets.source_tables import source_key
from threadhouse.assets.thread_health import thread_health
from threadhouse.resources.stores import EmbedderResource, EnvironmentResource, PostgresResource
from threadhouse.stores.gap_refresh import refresh_gap_signals


@dg.asset(
    group_name="metrics",
    kinds={"postgres"},
    owners=OWNERS,
    deps=[thread_health, source_key("expected_artifact_missing")],
    freshness_policy=FRESH_DAILY,
)
def gap_signals(
    environment: EnvironmentResource, postgres: PostgresResource, embedder: EmbedderResource
) -> dg.MaterializeResult[Any]:
    """Causes of bad answers, one row each, counted, with severity and status; routed once to D3, D5, Đ37 and, where due, D4.

    Grain: one row a cause in ``nao.search_gap_signal``. A state that is no more closes its gap.
    """
    with retrying_transient_faults():
        database = postgres.open()
        report = refresh_gap_signals(
            database,
            embedder.open(database).space.space_id,
            environment.settings().zone,
            datetime.now(UTC),
        )
    return dg.MaterializeResult(metadata={"dagster/row_count": report.open_now, **report.figures()})
