"""Gap signals in ``nao.search_gap_signal``: one row a cause, counted, with who put it into its status and why.

Belongs here: writing them, their life (open, acknowledged, fixed, reopened), their items in D3, D5 and before governance,
which follow them, reading them for people and for reports.
Does not belong here: what makes a gap (retrieval.fallback, retrieval.gap_signals), which states of the hub are gaps
(stores.gap_refresh), security events (stores.security_events): nothing here touches one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from psycopg import Connection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import Jsonb

from threadhouse.retrieval.errors import GapUnknownError
from threadhouse.retrieval.gap_signals import (
    OPEN_STATUSES,
    GapKind,
    GapSignal,
    GapStatus,
    ReplayResult,
)
from threadhouse.retrieval.json_fields import json_fields
from threadhouse.retrieval.local_days import day_bounds
from threadhouse.retrieval.models import Json
from threadhouse.retrieval.who_and_why import check_who_and_why
from threadhouse.stores import queries

REPLAY = "replay"
"""Who closes and reopens a signal when its questions were asked again."""

_NEEDS = "Changing a gap needs who changes it and why"

MOST_SIGNALS = 100_000
"""What one reading returns at most; a hub with more open causes than this has one cause."""


@dataclass(frozen=True, slots=True)
class KnownGap:
    """A cause as it is kept. ``lane`` is None when it belongs to no audience, such as an artefact that nobody has."""

    signal_id: UUID
    kind: str
    cause_key: str
    lane: str | None
    thread_id: str | None
    severity: str
    status: str
    occurrence_count: int
    opening: int
    evidence: Mapping[str, Json]
    first_seen_at: datetime
    last_seen_at: datetime
    changed_at: datetime
    changed_by: str
    change_reason: str

    def to_json(self) -> dict[str, Json]:
        """For a program; instants as ISO 8601."""
        return json_fields(self)


@dataclass(frozen=True, slots=True)
class GapChange:
    """A status that a gap was put into."""

    status: str
    changed_at: datetime
    changed_by: str
    reason: str

    def to_json(self) -> dict[str, Json]:
        """For a program; instants as ISO 8601."""
        return json_fields(self)


@dataclass(frozen=True, slots=True)
class GapDay:
    """How many gaps of one kind were opened (again) and closed on one local day."""

    local_day: date
    kind: str
    opened: int
    closed: int


def note_gap_signals(connection: Connection[TupleRow], signals: Sequence[GapSignal]) -> None:
    """Write signals down; a cause that is known is counted and seen again, one that was fixed is reopened."""
    # One statement cannot update a row twice.
    unique = {signal.signal_id: signal for signal in signals}
    if unique:
        connection.execute(
            queries.load("gap_signals_note"),
            {"signals": Jsonb(signal_rows(list(unique.values())))},
        )


def signal_rows(signals: Sequence[GapSignal]) -> list[dict[str, Json]]:
    """Signals as the statements that write them read them."""
    return [
        {
            "signal_id": str(signal.signal_id),
            "kind": signal.kind,
            "cause_key": signal.cause_key,
            "thread_id": signal.thread_id,
            "lane": signal.lane,
            "evidence": dict(signal.evidence),
            "former_key": signal.former_key,
        }
        for signal in signals
    ]


def list_gaps(
    connection: Connection[TupleRow],
    *,
    lane: str | None = None,
    statuses: Sequence[GapStatus] | None = None,
    kinds: Sequence[GapKind] | None = None,
    limit: int = MOST_SIGNALS,
) -> list[KnownGap]:
    """Gaps, those that wait for somebody first and the gravest of them first.

    Args:
        lane: Of this audience alone; None for all, and for those of no audience.
        statuses: None for every status.
        kinds: None for every kind.
        limit: At most so many.
    """
    return _gaps(connection, lane=lane, statuses=statuses, kinds=kinds, limit=limit)


def open_gaps(connection: Connection[TupleRow], *, lane: str | None = None) -> list[KnownGap]:
    """Gaps that are not fixed, the gravest first. A lane gets its own; their evidence is for operators."""
    return _gaps(connection, lane=lane, statuses=OPEN_STATUSES)


def gaps_by_day(
    connection: Connection[TupleRow],
    first: date,
    last: date,
    zone: ZoneInfo,
    *,
    lane: str | None = None,
) -> list[GapDay]:
    """Openings and closings by local day and kind, days without any left out."""
    params = {
        "zone": zone.key,
        "first": day_bounds(first, zone)[0],
        "last": day_bounds(last, zone)[1],
        "lane": lane,
    }
    with connection.cursor(row_factory=class_row(GapDay)) as cursor:
        return cursor.execute(queries.load("gap_signals_by_day"), params).fetchall()


def read_gap(connection: Connection[TupleRow], signal_id: UUID) -> tuple[KnownGap, list[GapChange]]:
    """One gap and every status it was in, oldest first.

    Raises:
        GapUnknownError: There is none with this id; a security event is none.
    """
    found = _gaps(connection, signal_id=signal_id)
    if not found:
        message = f"There is no gap {signal_id}; threadhouse gaps list names them all."
        raise GapUnknownError(message)
    with connection.cursor(row_factory=class_row(GapChange)) as cursor:
        history = cursor.execute(
            queries.load("gap_signal_history"), {"signal_id": signal_id}
        ).fetchall()
    return found[0], history


def acknowledge_gap(
    connection: Connection[TupleRow], signal_id: UUID, *, who: str, why: str
) -> bool:
    """Somebody looks after it. False when it was acknowledged or fixed before; then nothing changes.

    Raises:
        ConfigurationError: Who or why is missing, or the reason is a whole document.
        GapUnknownError: There is none with this id.
    """
    return _change(
        connection,
        signal_id,
        GapStatus.ACKNOWLEDGED,
        (GapStatus.OPEN, GapStatus.REOPENED),
        *check_who_and_why(_NEEDS, who, why),
    )


def fix_gap(connection: Connection[TupleRow], signal_id: UUID, *, who: str, why: str) -> bool:
    """Somebody says that the cause is gone. False when it was fixed before; then nothing changes.

    A gap that is met again, or a state of the hub that is still there at the next nightly, is reopened.

    Raises:
        ConfigurationError: Who or why is missing, or the reason is a whole document.
        GapUnknownError: There is none with this id.
    """
    return _change(
        connection,
        signal_id,
        GapStatus.FIXED,
        OPEN_STATUSES,
        *check_who_and_why(_NEEDS, who, why),
    )


def close_after_replay(
    connection: Connection[TupleRow], signal_id: UUID, result: ReplayResult
) -> GapStatus:
    """Settle a signal by what asking its questions again showed; returns the status that it has then.

    Answered now: it is fixed. Not answered: a fixed one is reopened, an open one stays as it is. Either way the result is kept
    in its evidence under ``replay``. Nothing is counted: a replay is no occurrence.

    Raises:
        GapUnknownError: There is none with this id.
    """
    evidence: dict[str, Json] = {
        "replay": {**result.evidence, "is_closed": result.is_closed, "summary": result.summary}
    }
    wanted, given = (
        (GapStatus.FIXED, OPEN_STATUSES)
        if result.is_closed
        else (GapStatus.REOPENED, (GapStatus.FIXED,))
    )
    if not _change(connection, signal_id, wanted, given, REPLAY, result.summary, evidence):
        connection.execute(
            queries.load("gap_signal_evidence"),
            {"signal_id": signal_id, "evidence": Jsonb(evidence)},
        )
    return GapStatus(read_gap(connection, signal_id)[0].status)


def route_gaps(
    connection: Connection[TupleRow], signal_id: UUID | None = None
) -> tuple[int, int, int]:
    """Make the items that open gaps lack, and let the items of acknowledged and fixed ones follow; of one gap, or of all.

    Returns:
        Lines made or opened again in D3, items in D5, and items made for governance.
    """
    row = connection.execute(queries.load("gap_route_open"), {"signal_id": signal_id}).fetchone()
    connection.execute(queries.load("gap_route_settle"), {"signal_id": signal_id})
    in_health, in_backlog, in_governance = row or (0, 0, 0)
    return in_health, in_backlog, in_governance


def _change(
    connection: Connection[TupleRow],
    signal_id: UUID,
    status: GapStatus,
    given: Sequence[GapStatus],
    who: str,
    why: str,
    evidence: Mapping[str, Json] | None = None,
) -> bool:
    params = {
        "signal_id": signal_id,
        "status": status,
        "from_statuses": list(given),
        "who": who,
        "why": why,
        "evidence": Jsonb(dict(evidence or {})),
    }
    changed = connection.execute(queries.load("gap_signal_change"), params).rowcount == 1
    if changed:
        route_gaps(connection, signal_id)
    else:
        read_gap(connection, signal_id)
    return changed


def _gaps(
    connection: Connection[TupleRow],
    *,
    signal_id: UUID | None = None,
    lane: str | None = None,
    statuses: Sequence[GapStatus] | None = None,
    kinds: Sequence[GapKind] | None = None,
    limit: int = MOST_SIGNALS,
) -> list[KnownGap]:
    params = {
        "signal_id": signal_id,
        "lane": lane,
        "statuses": None if statuses is None else list(statuses),
        "kinds": None if kinds is None else list(kinds),
        "limit": limit,
    }
    with connection.cursor(row_factory=class_row(KnownGap)) as cursor:
        return cursor.execute(queries.load("gap_signals"), params).fetchall()
