"""Local days as stretches of UTC, right on the days that clocks change.

Belongs here: when a local day starts and ends, which day an instant belongs to.
Does not belong here: what is counted per day, the current time.

One authority decides (zoneinfo); databases and frames get instants, so that no second time zone
table can disagree about a border.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo


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
