"""Records that leave by age, at the end of each night.

Belongs here: when it is done and what to record about it.
Does not belong here: what leaves (stores.retention, resources.run_history), events (assets.warehouse).
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from threadhouse.assets.automation import (
    AFTER_WHAT_IS_READY,
    FRESH_DAILY,
    OWNERS,
    retrying_transient_faults,
)
from threadhouse.resources.run_history import prune_runs
from threadhouse.resources.stores import EnvironmentResource, PostgresResource
from threadhouse.stores.retention import retain_records


@dg.asset(
    group_name="operations",
    kinds={"postgres"},
    owners=OWNERS,
    deps=["health_report", "context_packs", "analytics_database"],
    op_tags=AFTER_WHAT_IS_READY,
    freshness_policy=FRESH_DAILY,
)
def record_retention(
    context: dg.AssetExecutionContext,
    environment: EnvironmentResource,
    postgres: PostgresResource,
) -> dg.MaterializeResult[Any]:
    """Records, logs and runs that are older than CHANGE_LOG_DAYS, RECORD_DAYS and LOG_DAYS have left, unless somebody needs them.

    Grain: none; done again it finds nothing.
    """
    settings, now = environment.settings(), datetime.now(UTC)
    with retrying_transient_faults():
        removed = retain_records(postgres.open(), settings, now)
    runs = prune_runs(context.instance, now - timedelta(days=settings.log_days))
    return dg.MaterializeResult(
        metadata={**{rule.name.replace(" ", "_"): rule.count for rule in removed}, "ui_runs": runs}
    )
