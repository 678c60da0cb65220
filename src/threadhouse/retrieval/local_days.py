"""Local days as stretches of UTC, right on the days that clocks change.

Belongs here: when a local day starts and ends, which day an instant belongs to.
Does not belong here: what is counted per day, the current time.

One authority decides (zoneinfo); databases and frames get instants, so that no second time zone
table can disagree about a border.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import polars as pl


def day_start(day: date, zone: ZoneInfo) -> datetime:
    """The first instant of a local day, in UTC.

    Where midnight is skipped it is the instant of the change; where it happens twice, the first.
    A day that a zone left out altogether starts when its successor starts: it is empty.

    Example:
        >>> day_start(date(2024, 3, 11), ZoneInfo("America/New_York")).isoformat()
        '2024-03-11T04:00:00+00:00'
    """
    # fold=0 is both rules at once: PEP 495 takes the offset from before the change, in gaps too.
    return datetime.combine(day, time(), tzinfo=zone).astimezone(UTC)


def day_bounds(day: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """First instant of a local day and of the next one, in UTC; mostly 23, 24 or 25 hours apart."""
    return day_start(day, zone), day_start(day + timedelta(days=1), zone)


def local_day(instant: datetime, zone: ZoneInfo) -> date:
    """The local day that an aware instant falls on."""
    return instant.astimezone(zone).date()


def days_between(first: date, last: date) -> list[date]:
    """Every day from ``first`` to ``last``, both included; empty when ``last`` is earlier."""
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def with_local_day(events: pl.DataFrame, days: Sequence[date], zone: ZoneInfo) -> pl.DataFrame:
    """Add ``local_day``, the day of ``attributed_at``; null outside ``days``.

    Args:
        events: Needs ``attributed_at``, UTC.
        days: The days to tell apart, in any order.
        zone: Whose days they are.
    """
    rows = [(day, *day_bounds(day, zone)) for day in sorted(set(days))]
    known = pl.DataFrame(
        [row for row in rows if row[1] < row[2]],
        schema={
            "local_day": pl.Date,
            "_starts_at": pl.Datetime("us", "UTC"),
            "_ends_at": pl.Datetime("us", "UTC"),
        },
        orient="row",
    )
    return (
        events.sort("attributed_at")
        .join_asof(known, left_on="attributed_at", right_on="_starts_at", strategy="backward")
        .with_columns(
            pl.when(pl.col("attributed_at") < pl.col("_ends_at")).then(pl.col("local_day"))
        )
        .drop("_starts_at", "_ends_at")
    )
