"""Schedules: a job and its cadence.

Belongs here: when jobs start by themselves and for which days. Does not belong here: what a job does.
"""

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import dagster as dg
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
)

from threadhouse.assets.partitions import CHANGED_DAYS_ONLY, FIRST_DAY
from threadhouse.pipelines.dead_runs import end_dead_runs
from threadhouse.pipelines.jobs import nightly_rebuild
from threadhouse.resources.stores import EnvironmentResource, LakeResource, PostgresResource
from threadhouse.retrieval.local_days import local_day
from threadhouse.stores.lake import EventLake
from threadhouse.stores.lake_extract import days_to_look_at
from threadhouse.stores.metrics_store import days_due
from threadhouse.stores.postgres import Database

NIGHTLY_AT = "0 2 * * *"
"""02:00 local: after midnight's stragglers of the day before, well before the first reader."""


def nightly_days(
    database: Database, lake: EventLake, zone: ZoneInfo, now: datetime
) -> tuple[date, date]:
    """First and last local day of a nightly run: every day whose events or rates are behind, and yesterday in any case.

    Days before ``assets.partitions.FIRST_DAY`` have no partition and are left out.
    """
    yesterday = local_day(now, zone) - timedelta(days=1)
    behind = {*days_to_look_at(database, lake, zone), *days_due(database, lake), yesterday}
    first, today = date.fromisoformat(FIRST_DAY), local_day(now, zone)
    kept = [day for day in behind if first <= day <= today]
    return min(kept), max(kept)


def range_tags(days: tuple[date, date]) -> dict[str, str]:
    """Run tags that make one run cover a range of daily partitions."""
    return {
        ASSET_PARTITION_RANGE_START_TAG: days[0].isoformat(),
        ASSET_PARTITION_RANGE_END_TAG: days[1].isoformat(),
    }


def build_nightly_schedule(time_zone: str) -> dg.ScheduleDefinition:
    """The nightly schedule in ``time_zone``; it runs as soon as a daemon does."""

    @dg.schedule(
        job=nightly_rebuild,
        name="nightly_rebuild_nightly",
        cron_schedule=NIGHTLY_AT,
        execution_timezone=time_zone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Runs nightly_rebuild at 02:00 local time for every day that is behind.",
    )
    def nightly_rebuild_nightly(
        context: dg.ScheduleEvaluationContext,
        environment: EnvironmentResource,
        postgres: PostgresResource,
        lake: LakeResource,
    ) -> dg.RunRequest:
        # A night that was killed would hold its pool, and this one would wait for it for ever.
        end_dead_runs(context.instance, a_ui_runs=True)
        days = nightly_days(
            postgres.open(),
            lake.open(),
            environment.settings().zone,
            context.scheduled_execution_time,
        )
        return dg.RunRequest(run_key=None, tags=range_tags(days) | CHANGED_DAYS_ONLY)

    return nightly_rebuild_nightly
