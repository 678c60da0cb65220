"""Jobs: which assets are built together.

Avoid placing asset implementations, resources or schedules here.
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
