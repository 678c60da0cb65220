"""The metrics warehouse: events by local day, the eight rates, the health report.

Belongs here: when days are extracted, counted and reported, and what to record about it.
Does not belong here: the event contract, rates and reports themselves (retrieval), files and rows (stores).
"""

import warnings
from datetime import date
from typing import Any

import dagster as dg
import polars as pl
from dagster._utils.warnings import BetaWarning

from threadhouse.assets.automation import FRESH_DAILY, OWNERS, retrying_transient_faults
from threadhouse.assets.partitions import CHANGED_DAYS_ONLY, RECOUNT
from threadhouse.assets.source_tables import EVENT_TABLES
from threadhouse.resources.run_listener import reporter
from threadhouse.resources.stores import EnvironmentResource, LakeResource, PostgresResource
from threadhouse.retrieval.events import EVENT_VERSION
from threadhouse.retrieval.metrics import METRICS_VERSION, OVERALL
from threadhouse.stores.lake_extract import extract_days
from threadhouse.stores.metrics_store import count_days, days_due, read_daily_metrics
from threadhouse.stores.report_refresh import refresh_reports


def partition_days(context: dg.AssetExecutionContext) -> list[date]:
    """The local days of a run: one partition, or a range that is backfilled in one go."""
    return [date.fromisoformat(key) for key in context.partition_keys]


def _rates_table(rates: pl.DataFrame) -> dg.MetadataValue:
    shown = rates.filter((pl.col("lane") == OVERALL) & (pl.col("thread_id") == "")).select(
        "local_day", "metric", "numerator", "denominator", "rate"
    )
    return dg.MetadataValue.table(
        [
            dg.TableRecord({name: str(value) for name, value in row.items()})
            for row in shown.to_dicts()
        ],
        schema=dg.TableSchema([dg.TableColumn(name) for name in shown.columns]),
    )


def build_metric_assets(daily: dg.DailyPartitionsDefinition) -> list[dg.AssetsDefinition]:
    """The three daily assets, cut by the local days of ``daily``.

    ``backfill_policy`` is in beta in Dagster 1.13. It stays, because without it a year of days is a year of runs; its
    warning is silenced here and nowhere else.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BetaWarning)
        return _build_metric_assets(daily)


def _build_metric_assets(daily: dg.DailyPartitionsDefinition) -> list[dg.AssetsDefinition]:
    @dg.asset(
        group_name="metrics",
        kinds={"postgres", "parquet"},
        owners=OWNERS,
        deps=EVENT_TABLES,
        code_version=str(EVENT_VERSION),
        partitions_def=daily,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def retrieval_events(
        context: dg.AssetExecutionContext,
        environment: EnvironmentResource,
        postgres: PostgresResource,
        lake: LakeResource,
    ) -> dg.MaterializeResult[Any]:
        """Retrieval events by local day, as Parquet: each event once, whichever day it arrived.

        Grain: one row an event. A day is written again, in one step, only when Postgres holds something else for it.
        """
        with retrying_transient_faults():
            done = extract_days(
                postgres.open(),
                lake.open(),
                environment.settings().zone,
                partition_days(context),
                recheck=not CHANGED_DAYS_ONLY.items() <= context.run.tags.items(),
                progress=reporter("Extracting days"),
            )
        return dg.MaterializeResult(
            metadata={
                "dagster/partition_row_count": done.rows_written,
                "days_written": ", ".join(map(str, done.days_written)) or "none",
                "days_removed": ", ".join(map(str, done.days_removed)) or "none",
                "days_unchanged": done.days_unchanged,
                "quarantined": done.quarantined,
                "files": dg.MetadataValue.path(lake.open().published_glob),
            }
        )

    @dg.asset(
        group_name="metrics",
        kinds={"polars", "postgres"},
        owners=OWNERS,
        deps=[retrieval_events],
        code_version=METRICS_VERSION,
        partitions_def=daily,
        backfill_policy=dg.BackfillPolicy.single_run(),
        freshness_policy=FRESH_DAILY,
    )
    def retrieval_metrics_daily(
        context: dg.AssetExecutionContext,
        environment: EnvironmentResource,
        postgres: PostgresResource,
        lake: LakeResource,
    ) -> dg.MaterializeResult[Any]:
        """The eight retrieval rates of D11 4.8 by day, lane and thread, with numerator, denominator and Wilson interval.

        Grain: (local day, lane, thread, metric) in ``nao.retrieval_metric_aggregate``. Changed figures get a new revision.
        """
        days = partition_days(context)
        with retrying_transient_faults():
            database, events = postgres.open(), lake.open()
            recount = RECOUNT.items() <= context.run.tags.items()
            due = days_due(database, events, days, recount=recount)
            report = reporter("Counting days")
            stored = count_days(database, events, environment.settings().zone, due, progress=report)
            shown = read_daily_metrics(database, min(days), max(days), OVERALL)
        return dg.MaterializeResult(
            metadata={
                "dagster/partition_row_count": stored.rows,
                "days_counted": ", ".join(map(str, due)) or "none",
                "rows_inserted": stored.inserted,
                "rows_restated": stored.restated,
                "rows_deleted": stored.deleted,
                "rows_unchanged": stored.unchanged,
                "rates": _rates_table(shown),
            }
        )

    @dg.asset(
        group_name="metrics",
        kinds={"postgres", "html"},
        owners=OWNERS,
        deps=[retrieval_metrics_daily, dg.AssetKey("gap_signals"), dg.AssetKey("gap_replay")],
        # After everything that can run, what stands on vectors and packs too: the report tells how it went, also when it stopped.
        op_tags={"dagster/priority": "-2"},
        partitions_def=daily,
        backfill_policy=dg.BackfillPolicy.single_run(),
        freshness_policy=FRESH_DAILY,
    )
    def health_report(
        context: dg.AssetExecutionContext,
        environment: EnvironmentResource,
        postgres: PostgresResource,
    ) -> dg.MaterializeResult[Any]:
        """Rates against targets with trend, open gaps, security events, projections, freshness; for operators and per lane.

        Grain: (local day, lane) in ``nao.health_report``, and one self-contained HTML file each.
        """
        settings = environment.settings()
        with retrying_transient_faults():
            done = refresh_reports(
                postgres.open(),
                settings.home,
                settings.zone,
                partition_days(context),
                reporter("Reporting"),
            )
        return dg.MaterializeResult(
            metadata={
                "dagster/partition_row_count": done.reports,
                "report": dg.MetadataValue.md(done.newest),
                "page": dg.MetadataValue.path(str(done.newest_page)),
                "days": ", ".join(map(str, done.days)),
            }
        )

    return [retrieval_events, retrieval_metrics_daily, health_report]
