"""What must be true of context packs before an agent reads them.

Belongs here: blocking checks on stored packs. Does not belong here: the look-ups themselves (stores.pack_checks).
"""

import dagster as dg

from threadhouse.assets.automation import retrying_transient_faults
from threadhouse.assets.context_packs import context_packs
from threadhouse.resources.stores import PostgresResource
from threadhouse.stores.pack_checks import count_stale, find_leaks


@dg.asset_check(asset=context_packs, blocking=True)
def context_packs_leak_nothing(postgres: PostgresResource) -> dg.AssetCheckResult:
    """No servable pack holds a unit that its lane may not see now, told by SQL and not by the code that built it."""
    with retrying_transient_faults(), postgres.open().connect() as connection:
        leaks = find_leaks(connection)
    return dg.AssetCheckResult(
        passed=not leaks,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={
            "leaks": len(leaks),
            "first": dg.MetadataValue.md(
                "\n".join(
                    f"- {x.lane} / {x.thread_id}: {x.canonical_address}: {x.reason}"
                    for x in leaks[:20]
                )
                or "none"
            ),
        },
    )


@dg.asset_check(asset=context_packs)
def context_packs_are_fresh(postgres: PostgresResource) -> dg.AssetCheckResult:
    """Every stored pack would be served. A stale one harms nobody, it is only built again when it is asked for."""
    with retrying_transient_faults(), postgres.open().connect() as connection:
        stale = count_stale(connection)
    return dg.AssetCheckResult(
        passed=stale == 0, severity=dg.AssetCheckSeverity.WARN, metadata={"stale": stale}
    )
