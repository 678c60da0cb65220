"""What was refused on the way in, shown where an analyst looks.

Belongs here: warnings about quarantined rows. Does not belong here: refusing them.
"""

import dagster as dg

from threadhouse.assets.automation import retrying_transient_faults
from threadhouse.assets.chunks import unit_chunks
from threadhouse.resources.stores import PostgresResource
from threadhouse.stores.quarantine import count_open


@dg.asset_check(asset=unit_chunks)
def nothing_is_quarantined(postgres: PostgresResource) -> dg.AssetCheckResult:
    """Rows that were refused are missing from answers until somebody mends them; the rest went on without them."""
    with retrying_transient_faults(), postgres.open().connect() as connection:
        counts = count_open(connection)
    return dg.AssetCheckResult(
        passed=not counts,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"open": sum(counts.values()), **counts},
    )
