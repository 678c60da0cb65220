"""What the metrics warehouse needs besides events and rates: what leaves by age, and the analysts' file.

Belongs here: when it is done and what to record about it.
Does not belong here: how long things are kept (stores.settings), what leaves (stores.event_retention), the file
(stores.analytics).
"""

from datetime import UTC, datetime
from typing import Any

import dagster as dg

from threadhouse.assets.automation import FRESH_DAILY, OWNERS, retrying_transient_faults
from threadhouse.resources.stores import EnvironmentResource, LakeResource, PostgresResource
from threadhouse.retrieval.local_days import local_day
from threadhouse.stores.analytics import analytics_file, refresh_analytics
from threadhouse.stores.event_retention import RetentionRule, apply_retention


@dg.asset(
    group_name="metrics",
    kinds={"postgres", "parquet"},
    owners=OWNERS,
    deps=["retrieval_metrics_daily"],
    freshness_policy=FRESH_DAILY,
)
def event_retention(
    environment: EnvironmentResource, postgres: PostgresResource, lake: LakeResource
) -> dg.MaterializeResult[Any]:
    """What is older than QUERY_TEXT_DAYS, EVENT_DAYS and LAKE_DAYS allow has left, in whole local days. Rates stay for good.

    Grain: none; done again it finds nothing.
    """
    settings = environment.settings()
    with retrying_transient_faults():
        today = local_day(datetime.now(UTC), settings.zone)
        rule = RetentionRule.of(settings)
        done = apply_retention(postgres.open(), lake.open(), settings.zone, rule, today)
    return dg.MaterializeResult(
        metadata={
            "words_forgotten": done.words_forgotten,
            "events_removed": done.events_removed,
            "days_closed": ", ".join(map(str, done.days_closed)) or "none",
            "files_removed": ", ".join(map(str, done.files_removed)) or "none",
        }
    )


@dg.asset(
    group_name="metrics",
    kinds={"duckdb"},
    owners=OWNERS,
    deps=["retrieval_metrics_daily", event_retention],
    freshness_policy=FRESH_DAILY,
)
def analytics_database(postgres: PostgresResource, lake: LakeResource) -> dg.MaterializeResult[Any]:
    """One DuckDB file for analysts: views of the lake and every stored rate; `threadhouse sql` asks it.

    Grain: none; it is put in its place in one step, and only when stored rates changed.
    """
    with retrying_transient_faults():
        was_built = refresh_analytics(postgres.open(), lake.open())
    return dg.MaterializeResult(
        metadata={
            "was_built": was_built,
            "file": dg.MetadataValue.path(str(analytics_file(lake.open()))),
        }
    )
