"""Jobs: which assets are built together.

Belongs here: selections with a name. Does not belong here: asset implementations, resources, schedules.
"""

from typing import Final

import dagster as dg

NIGHTLY_JOB: Final = "nightly_rebuild"
METRICS_BACKFILL_JOB: Final = "metrics_backfill"
VECTORS_BACKFILL_JOB: Final = "vectors_backfill"
CENTROIDS_BACKFILL_JOB: Final = "centroids_backfill"
PACKS_BACKFILL_JOB: Final = "packs_backfill"
REPORTS_BACKFILL_JOB: Final = "reports_backfill"

nightly_rebuild = dg.define_asset_job(
    NIGHTLY_JOB,
    selection=dg.AssetSelection.all(),
    description=(
        "Everything, in order: chunks, vectors, centroids, context packs, events of the days that changed, rates, health "
        "report, with the checks that stop the run where a reader could be harmed. Only what changed is worked on."
    ),
)

metrics_backfill = dg.define_asset_job(
    METRICS_BACKFILL_JOB,
    selection=dg.AssetSelection.assets("retrieval_events", "retrieval_metrics_daily"),
    description=(
        "Events and rates of a range of days, in one run: each day is held against Postgres, extracted where it differs, and "
        "counted where its rates were counted from something else; with the tag threadhouse/recount=true everywhere."
    ),
)

vectors_backfill = dg.define_asset_job(
    VECTORS_BACKFILL_JOB,
    selection=dg.AssetSelection.assets("information_unit_vectors", "production_document_vectors"),
    description=(
        "Chunks, vectors and payloads of the documents and units that the configuration names, or of everything; with `rebuild` "
        "also what did not change. What is embedded is in the cache, so a run that was killed costs little again."
    ),
)

centroids_backfill = dg.define_asset_job(
    CENTROIDS_BACKFILL_JOB,
    selection=dg.AssetSelection.assets("thread_centroids"),
    description="Centroids of the threads that the configuration names, or of all; with `rebuild` also what did not change.",
)

packs_backfill = dg.define_asset_job(
    PACKS_BACKFILL_JOB,
    selection=dg.AssetSelection.assets("context_packs"),
    description="Context packs of the threads that the configuration names, or of all; with `rebuild` also what did not change.",
)

reports_backfill = dg.define_asset_job(
    REPORTS_BACKFILL_JOB,
    selection=dg.AssetSelection.assets("health_report"),
    description="Health reports of a range of days, in one run: those missing or older than their figures, and the last.",
)

RUN_KINDS: Final = {
    NIGHTLY_JOB: "nightly",
    METRICS_BACKFILL_JOB: "backfill",
    VECTORS_BACKFILL_JOB: "backfill",
    CENTROIDS_BACKFILL_JOB: "backfill",
    PACKS_BACKFILL_JOB: "backfill",
    REPORTS_BACKFILL_JOB: "backfill",
}
"""What a run of a job is called in ``nao.pipeline_run`` and in the name of its log file."""

RECORDED_JOBS: Final = (
    nightly_rebuild,
    metrics_backfill,
    vectors_backfill,
    centroids_backfill,
    packs_backfill,
    reports_backfill,
)
"""The jobs of `RUN_KINDS`."""
