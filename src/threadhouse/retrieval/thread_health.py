"""How healthy a thread is for a lane (D11 §4.3, §4.7, §4.9), and why.

Belongs here: the figures that health is judged by, the conditions of the policy, hysteresis, precedence, what is kept of a check.
Does not belong here: reading facts, keeping checks (stores.thread_health), what health does to a thread's rank (ranking).

Every status rests on conditions, and every condition is one figure with two thresholds: it begins where the figure passes
``enter`` and ends where the figure comes back to ``leave``. Between the two nothing changes, so a figure that wavers there
changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum

from threadhouse.retrieval.metrics import Z_95
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    HealthStatus,
    Json,
    LifecycleStage,
    ThreadId,
)

HEALTH_VERSION = "1"
"""Changes when the same facts under the same policy would be judged otherwise."""

PRECEDENCE = (
    HealthStatus.WEAK,
    HealthStatus.NOISY_RETRIEVAL,
    HealthStatus.OVERBROAD,
    HealthStatus.STALE,
    HealthStatus.TOO_NARROW,
)
"""Of several that hold, the first is the status: least reliable first, which is the order of what ranking takes for each."""

_SECONDS_PER_DAY = 86_400.0


class HealthFigure(StrEnum):
    """What a condition can look at. The ``_low`` ones are lower ends of 95 % Wilson intervals: how bad a rate is at least."""

    UNIT_COUNT = "unit_count"
    MEAN_CONFIDENCE = "mean_confidence"
    COVERAGE = "coverage"
    COHESION = "cohesion"
    IDLE_DAYS = "idle_days"
    NOISY_CONTEXT_RATE_LOW = "noisy_context_rate_low"
    WRONG_THREAD_RATE_LOW = "wrong_thread_rate_low"
    AGENT_EXTRA_SEARCH_RATE_LOW = "agent_extra_search_rate_low"
    INSUFFICIENT_CONTEXT_RATE_LOW = "insufficient_context_rate_low"


@dataclass(frozen=True, slots=True)
class Share:
    """``numerator`` of ``denominator``, both over one window."""

    numerator: int
    denominator: int


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """What is known of a thread within a lane's sight; units, questions and packs of other lanes are not in it.

    Attributes:
        unit_count: Members that the lane sees; at least 1, or the thread does not exist for it.
        mean_confidence: 0 to 1, over these members.
        authorities: Of the canonical ones, or of all where none is canonical.
        covered_stages: Stations of the lifecycle that the members stand at.
        missing_stages: Stations that are known to lack something and that the lane may know of.
        last_change_at: The newest version of a member.
        last_use: The last local day on which a pack of the thread was delivered to the lane.
        cohesion: -1 to 1, of the lane's centroid; None when it has none.
        rates: Of the daily rates by name, summed over the window.
    """

    thread_id: ThreadId
    lane: Audience
    unit_count: int
    mean_confidence: float
    authorities: frozenset[Authority]
    covered_stages: frozenset[LifecycleStage]
    missing_stages: frozenset[LifecycleStage]
    last_change_at: datetime
    last_use: date | None = None
    last_statement_at: datetime | None = None
    cohesion: float | None = None
    rates: Mapping[str, Share] = field(default_factory=dict[str, Share])


@dataclass(frozen=True, slots=True)
class HealthCondition:
    """One reason for a status.

    ``enter`` above ``leave``: large figures are bad, it begins above the one and ends at or below the other. ``enter`` below
    ``leave``: small ones are. It begins only on ``min_observations`` or more, which are questions for a rate and units else.
    """

    name: str
    status: HealthStatus
    figure: HealthFigure
    enter: float
    leave: float
    min_observations: int = 0

    def holds(self, reading: Reading, *, held: bool) -> bool:
        """Whether it holds now, given whether it held at the last check. What cannot be read holds nothing."""
        if reading.value is None:
            return False
        large_is_bad = self.enter > self.leave
        if held:
            return reading.value > self.leave if large_is_bad else reading.value < self.leave
        if reading.observations < self.min_observations:
            return False
        return reading.value > self.enter if large_is_bad else reading.value < self.enter


@dataclass(frozen=True, slots=True)
class Reading:
    """A figure of one thread; None when there is nothing to read it from."""

    value: float | None
    observations: int


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """Thresholds in force for one vector space; cosines of two models do not compare.

    ``window_days`` local days, today included, are what rates are summed over. What an operator states holds for
    ``statement_days``, whatever is measured.
    """

    version: int
    space_id: str
    window_days: int
    statement_days: int
    conditions: tuple[HealthCondition, ...]


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A status with what led to it. ``held`` names the conditions, in the policy's order: the class of the evidence."""

    thread_id: ThreadId
    lane: Audience
    status: HealthStatus
    held: tuple[str, ...]
    evidence: Mapping[str, Json]


def judge_health(
    facts: HealthFacts, policy: HealthPolicy, held_before: Iterable[str], now: datetime, today: date
) -> HealthCheck:
    """Check one thread for one lane.

    Args:
        facts: As of now.
        policy: The thresholds in force.
        held_before: Conditions that held at the last check; names that the policy does not have any more count for nothing.
        now: Aware instant.
        today: The local day that ``now`` falls on.
    """
    before = frozenset(held_before)
    readings = read_figures(facts, now, today)
    holding = [
        condition
        for condition in policy.conditions
        if condition.holds(readings[condition.figure], held=condition.name in before)
    ]
    reasons = {condition.status for condition in holding}
    status = next((each for each in PRECEDENCE if each in reasons), HealthStatus.HEALTHY)
    return HealthCheck(
        facts.thread_id,
        facts.lane,
        status,
        tuple(condition.name for condition in holding),
        _evidence(policy, readings, holding),
    )


def read_figures(facts: HealthFacts, now: datetime, today: date) -> dict[HealthFigure, Reading]:
    """Every figure that a condition can look at, from the facts of one thread."""
    units = facts.unit_count
    expected = facts.covered_stages | facts.missing_stages
    sufficiency = facts.rates.get("context_sufficiency_rate", Share(0, 0))
    insufficient = Share(sufficiency.denominator - sufficiency.numerator, sufficiency.denominator)
    return {
        HealthFigure.UNIT_COUNT: Reading(units, units),
        HealthFigure.MEAN_CONFIDENCE: Reading(facts.mean_confidence, units),
        HealthFigure.COVERAGE: Reading(
            len(facts.covered_stages) / len(expected) if expected else 1.0, units
        ),
        HealthFigure.COHESION: Reading(facts.cohesion, units),
        HealthFigure.IDLE_DAYS: Reading(_idle_days(facts, now, today), units),
        HealthFigure.NOISY_CONTEXT_RATE_LOW: _at_least(facts.rates.get("noisy_context_rate")),
        HealthFigure.WRONG_THREAD_RATE_LOW: _at_least(facts.rates.get("wrong_thread_rate")),
        HealthFigure.AGENT_EXTRA_SEARCH_RATE_LOW: _at_least(
            facts.rates.get("agent_extra_search_rate")
        ),
        HealthFigure.INSUFFICIENT_CONTEXT_RATE_LOW: _at_least(insufficient),
    }


def wilson_low(share: Share) -> float | None:
    """Lower end of the 95 % Wilson interval of a share; None for 0 of 0. `metrics.wilson_interval` has the formula for frames.

    Example:
        >>> round(wilson_low(Share(6, 31)), 3)
        0.092
    """
    n = share.denominator
    if n == 0:
        return None
    if share.numerator == 0:
        return 0.0
    rate = share.numerator / n
    centre = rate + Z_95**2 / (2 * n)
    spread = Z_95 * math.sqrt(rate * (1 - rate) / n + Z_95**2 / (4 * n * n))
    return (centre - spread) / (1 + Z_95**2 / n)


def _at_least(share: Share | None) -> Reading:
    if share is None:
        return Reading(None, 0)
    return Reading(wilson_low(share), share.denominator)


def _idle_days(facts: HealthFacts, now: datetime, today: date) -> float | None:
    """Days since the thread was changed, used or stated to be in some health; None where age says nothing.

    An enacted text does not age: it holds until another one takes its place.
    """
    if Authority.ENACTED in facts.authorities:
        return None
    ages = [(now - facts.last_change_at).total_seconds() / _SECONDS_PER_DAY]
    if facts.last_use is not None:
        ages.append(float((today - facts.last_use).days))
    if facts.last_statement_at is not None:
        ages.append((now - facts.last_statement_at).total_seconds() / _SECONDS_PER_DAY)
    return max(0.0, min(ages))


def _evidence(
    policy: HealthPolicy,
    readings: Mapping[HealthFigure, Reading],
    holding: Iterable[HealthCondition],
) -> dict[str, Json]:
    return {
        "health_version": HEALTH_VERSION,
        "policy_version": policy.version,
        "window_days": policy.window_days,
        "held": [condition.name for condition in holding],
        "conditions": {
            condition.name: {
                "status": condition.status,
                "figure": condition.figure,
                "value": _rounded(readings[condition.figure].value),
                "observations": readings[condition.figure].observations,
                "enter": condition.enter,
                "leave": condition.leave,
            }
            for condition in holding
        },
        "figures": {
            figure.value: {"value": _rounded(reading.value), "observations": reading.observations}
            for figure, reading in readings.items()
        },
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
