"""How assets are cut by time.

Belongs here: partition definitions. Does not belong here: which partitions a run takes (pipelines).
"""

from typing import Final

import dagster as dg

FIRST_DAY = "2024-01-01"
"""First local day that metrics are kept for. Earlier events stay in Postgres and in no figure."""


CHANGED_DAYS_ONLY: Final = {"threadhouse/changed_days_only": "true"}
"""Run tag of a night, which knows what changed. A run without it was asked for its days, and looks at each of them."""

RECOUNT: Final = {"threadhouse/recount": "true"}
"""Run tag of a backfill that counts each of its days, also those whose rates were counted from the same events."""


def daily(time_zone: str) -> dg.DailyPartitionsDefinition:
    """Local days of ``time_zone``, the day in progress included: its figures are useful before it ends."""
    return dg.DailyPartitionsDefinition(start_date=FIRST_DAY, timezone=time_zone, end_offset=1)
