"""Thresholds of thread health and of gap signals in ``cong.signal_policy``.

Belongs here: reading the row in force for a vector space.
Does not belong here: what the numbers mean (retrieval.thread_health, retrieval.gap_signals).
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import DictRow, TupleRow, dict_row
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.gap_signals import GapPolicy
from threadhouse.retrieval.models import HealthStatus
from threadhouse.retrieval.thread_health import HealthCondition, HealthFigure, HealthPolicy
from threadhouse.stores import queries


class _Condition(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    status: HealthStatus
    figure: HealthFigure
    enter: float
    leave: float
    min_observations: int = Field(default=0, ge=0)


class _Gaps(BaseModel):
    model_config = ConfigDict(extra="forbid")

    normal_at: int = Field(ge=1)
    high_at: int = Field(ge=1)
    capability_at: int = Field(ge=1)


class _Row(BaseModel):
    policy_version: int
    space_id: str
    window_days: int
    statement_days: int
    conditions: dict[str, _Condition]
    gaps: _Gaps


@dataclass(frozen=True, slots=True)
class SignalPolicy:
    """What is in force."""

    health: HealthPolicy
    gaps: GapPolicy


def read_signal_policy(connection: Connection[TupleRow], space_id: str) -> SignalPolicy:
    """The row in force for a space; the one for every space when it has none of its own.

    Raises:
        ConfigurationError: No version is activated, or the row cannot be read.
    """
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(queries.load("signal_policy_read"), {"space_id": space_id}).fetchone()
    if row is None:
        message = (
            "cong.signal_policy has no activated row for this vector space and none for all; "
            "insert one, the health of threads cannot be judged without it."
        )
        raise ConfigurationError(message)
    try:
        return _policy_of(row)
    except ValueError as error:
        message = (
            f"cong.signal_policy version {row['policy_version']} for space {row['space_id']!r} cannot be read: "
            f"{_first_fault(error)}; insert a corrected version."
        )
        raise ConfigurationError(message) from error


def _policy_of(row: DictRow) -> SignalPolicy:
    read = _Row.model_validate(row)
    for name, condition in read.conditions.items():
        if condition.enter == condition.leave:
            message = (
                f"{name}: enter and leave are the same, so that the status could change every night"
            )
            raise ValueError(message)
        if condition.status is HealthStatus.HEALTHY:
            message = f"{name}: healthy is what a thread is when no condition holds"
            raise ValueError(message)
    return SignalPolicy(
        HealthPolicy(
            version=read.policy_version,
            space_id=read.space_id,
            window_days=read.window_days,
            statement_days=read.statement_days,
            # jsonb keeps no order; by name, a class of evidence is always written the same way.
            conditions=tuple(
                HealthCondition(
                    name, each.status, each.figure, each.enter, each.leave, each.min_observations
                )
                for name, each in sorted(read.conditions.items())
            ),
        ),
        GapPolicy(read.gaps.normal_at, read.gaps.high_at, read.gaps.capability_at),
    )


def _first_fault(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)
