"""The one place where Dagster's definitions are put together; production, the console script and tests use the same assembly.

Belongs here: the assembly. Does not belong here: asset implementations, resource classes, jobs, schedules.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import dagster as dg

from threadhouse.assets.change_position import change_position
from threadhouse.assets.checks.data_checks import build_data_checks
from threadhouse.assets.checks.leak_checks import build_leak_checks
from threadhouse.assets.checks.pack_checks import (
    context_packs_are_fresh,
    context_packs_leak_nothing,
)
from threadhouse.assets.checks.projection_checks import (
    content_vectors_are_sound,
    every_collection_is_registered,
    thread_centroids_agree_with_source,
    thread_centroids_are_unit_length,
)
from threadhouse.assets.checks.quarantine_checks import nothing_is_quarantined
from threadhouse.assets.chunks import document_chunks, unit_chunks
from threadhouse.assets.context_packs import context_packs
from threadhouse.assets.embedded_texts import embedded_texts
from threadhouse.assets.gap_signals import gap_signals
from threadhouse.assets.intake_proposals import intake_proposals
from threadhouse.assets.partitions import daily
from threadhouse.assets.record_retention import record_retention
from threadhouse.assets.replay import gap_replay, replay
from threadhouse.assets.retrieval_metrics import build_metric_assets
from threadhouse.assets.source_tables import source_tables
from threadhouse.assets.thread_centroids import thread_centroids
from threadhouse.assets.thread_health import thread_health
from threadhouse.assets.vectors import content_vectors
from threadhouse.assets.warehouse import analytics_database, event_retention
from threadhouse.pipelines.change_sync import change_sync, changes_wait
from threadhouse.pipelines.executors import executor_for
from threadhouse.pipelines.jobs import RECORDED_JOBS
from threadhouse.pipelines.replays import QueryPathReplays
from threadhouse.pipelines.run_sensors import build_run_sensors
from threadhouse.pipelines.schedules import build_nightly_schedule
from threadhouse.resources.stores import (
    EmbedderResource,
    EnvironmentResource,
    LakeResource,
    PostgresResource,
    VectorStoreResource,
)
from threadhouse.retrieval.leak_canaries import ProbeReport
from threadhouse.stores.settings import Settings


def build_resources(home: str | None = None) -> Mapping[str, object]:
    """The resources of one house; ``home`` overrides THREADHOUSE_HOME."""
    environment = EnvironmentResource(home=home)
    return {
        "environment": environment,
        "postgres": PostgresResource(environment=environment),
        "vectors": VectorStoreResource(environment=environment),
        "embedder": EmbedderResource(environment=environment),
        "lake": LakeResource(environment=environment),
        "replays": QueryPathReplays(),
    }


def build_definitions(
    settings: Settings,
    *,
    resources: Mapping[str, object] | None = None,
    loggers: Mapping[str, dg.LoggerDefinition] | None = None,
) -> dg.Definitions:
    """Assets, checks, jobs, schedules and resources of one house.

    Args:
        settings: The time zone cuts the daily partitions and times the schedule; the executor runs the steps.
        resources: In place of those that read the environment.
        loggers: In place of Dagster's console logger.
    """
    return dg.Definitions(
        assets=[
            *source_tables,
            unit_chunks,
            document_chunks,
            embedded_texts,
            content_vectors,
            thread_centroids,
            thread_health,
            gap_signals,
            replay,
            gap_replay,
            intake_proposals,
            context_packs,
            change_position,
            *build_metric_assets(daily(settings.threadhouse_tz)),
            event_retention,
            analytics_database,
            record_retention,
        ],
        asset_checks=[
            nothing_is_quarantined,
            content_vectors_are_sound,
            every_collection_is_registered,
            thread_centroids_agree_with_source,
            thread_centroids_are_unit_length,
            context_packs_leak_nothing,
            context_packs_are_fresh,
            *build_leak_checks(_canaries, _published),
            *build_data_checks(),
        ],
        jobs=[*RECORDED_JOBS, change_sync],
        schedules=[build_nightly_schedule(settings.threadhouse_tz)],
        sensors=[changes_wait, *build_run_sensors()],
        resources=dict(resources or build_resources()),
        executor=executor_for(settings),
        loggers=dict(loggers) if loggers else None,
    )


def _canaries(settings: Settings) -> ProbeReport:
    from threadhouse.serving.leak_probe import probe_canaries

    return probe_canaries(settings)


def _published(settings: Settings) -> ProbeReport:
    from threadhouse.serving.leak_probe import probe_published

    return probe_published(settings, datetime.now(UTC).date())


@dg.definitions
def definitions() -> dg.Definitions:
    """What the Dagster UI and daemon load."""
    return build_definitions(Settings.from_environment())
