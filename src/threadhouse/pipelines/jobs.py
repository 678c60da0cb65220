"""Jobs: which assets are built together.

Belongs here: selections with a name. Does not belong here: asset implementations, resources, schedules.
"""

from typing import Final

import dagster as dg

NIGHTLY_JOB: Final = "nightly_rebuild"
METRICS_BACKFILL_JOB: Final = "metrics_backfill"

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
