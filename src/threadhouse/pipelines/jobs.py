"""Jobs: which assets are built together.

Belongs here: selections with a name. Does not belong here: asset implementations, resources, schedules.
"""

import dagster as dg

nightly_rebuild = dg.define_asset_job(
    "nightly_rebuild",
    selection=dg.AssetSelection.all(),
    description=(
        "Everything, in order: chunks, vectors, centroids, context packs, events of the days that changed, rates, health "
        "report, with the checks that stop the run where a reader could be harmed. Only what changed is worked on."
    ),
)

NIGHTLY_JOB = "nightly_rebuild"
