"""How far the change log has been followed, after a night.

Belongs here: when the position moves and what to record about it.
Does not belong here: what a position is (stores.change_log), following changes between two nights (stores.change_sync).
"""

from typing import Any

import dagster as dg

from threadhouse.assets.automation import OWNERS, retrying_transient_faults
from threadhouse.assets.context_packs import context_packs
from threadhouse.assets.thread_centroids import thread_centroids
from threadhouse.assets.vectors import INFORMATION_UNIT_VECTORS, PRODUCTION_DOCUMENT_VECTORS
from threadhouse.resources.stores import PostgresResource
from threadhouse.stores.change_log import end_reconcile


@dg.asset(
    group_name="units",
    kinds={"postgres"},
    owners=OWNERS,
    deps=[
        INFORMATION_UNIT_VECTORS,
        PRODUCTION_DOCUMENT_VECTORS,
        thread_centroids,
        context_packs,
    ],
)
def change_position(
    context: dg.AssetExecutionContext, postgres: PostgresResource
) -> dg.MaterializeResult[Any]:
    """What was committed before this run looked at the source is followed: vectors, centroids and packs agree with it.

    Grain: one row in ``nao.change_consumer``. A run that did not build the vectors itself moves nothing.
    """
    with retrying_transient_faults():
        was_moved = end_reconcile(postgres.open(), context.run.run_id)
    return dg.MaterializeResult(metadata={"was_moved": was_moved})
