"""Who may see what: one predicate, and the vector filter generated from the same policy.

Belongs here: the policy as a value, the predicate, what is derived from both. Allow-lists only; missing or unknown hides.
Does not belong here: where a policy is stored, who the principal is (tokens), or how a store applies a filter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from threadhouse.retrieval.models import (
    AllOf,
    Audience,
    DataClassification,
    Flags,
    LifecycleStage,
    Principal,
)

FILTERED_FIELDS: tuple[str, ...] = (
    "visibility",
    "readiness",
    "publication_state",
    "risk_class",
    "authority",
    "lifecycle_stage",
    "data_classification",
)
"""Fields that decide visibility; AND between fields, OR within one field's allow-list."""

HIGH_RISK_CONSENT = "*"
"""A principal whose ``high_risk_consents`` holds this may see ``risk_class`` high, whatever the audience."""

NEVER_SHOWN: frozenset[str] = frozenset({DataClassification.SECRET, DataClassification.BLOCKED})
"""Data classifications that no policy and no permission can open."""


@dataclass(frozen=True, slots=True)
class LanePolicy:
    """Allow-lists of one audience, and what each permission adds to them."""

    visibility: frozenset[str]
    readiness: frozenset[str]
    publication_state: frozenset[str]
    risk_class: frozenset[str]
    authority: frozenset[str]
    lifecycle_stage: frozenset[str]
    data_classification: frozenset[str]
    permission_grants: Mapping[str, Mapping[str, frozenset[str]]] = field(
        default_factory=dict[str, Mapping[str, frozenset[str]]]
    )


@dataclass(frozen=True, slots=True)
class AudiencePolicy:
    """One version of the whole policy. An audience without a lane sees nothing."""

    version: int
    lanes: Mapping[Audience, LanePolicy]


@dataclass(frozen=True, slots=True)
class Labels:
    """Everything about a unit or a document that decides who sees it."""

    flags: Flags
    lifecycle_stage: LifecycleStage | None
    data_classification: DataClassification | None

    def value(self, name: str) -> str | None:
        """The label called ``name``; None when missing."""
        if name == "lifecycle_stage":
            return self.lifecycle_stage
        if name == "data_classification":
            return self.data_classification
        value: str | None = getattr(self.flags, name)
        return value


def allowed_values(principal: Principal, policy: AudiencePolicy) -> dict[str, frozenset[str]]:
    """What ``principal`` may see, field by field, after permissions and consents.

    Returns:
        One allow-list for each of FILTERED_FIELDS; all empty when the policy has no lane for the audience.
    """
    lane = policy.lanes.get(principal.audience)
    if lane is None:
        return {name: frozenset() for name in FILTERED_FIELDS}
    allowed = {
        f.name: set(getattr(lane, f.name)) for f in fields(lane) if f.name in FILTERED_FIELDS
    }
    for permission in principal.tool_permissions:
        for name, values in lane.permission_grants.get(permission, {}).items():
            if name in allowed:
                allowed[name] |= values
    if HIGH_RISK_CONSENT in principal.high_risk_consents:
        allowed["risk_class"].add("high")
    allowed["data_classification"] -= NEVER_SHOWN
    return {name: frozenset(values) for name, values in allowed.items()}


def visible(labels: Labels, principal: Principal, policy: AudiencePolicy) -> bool:
    """Whether ``principal`` may see something labelled ``labels``.

    A document's or a thread's labels never widen a unit's: pass the unit's effective ones.
    """
    allowed = allowed_values(principal, policy)
    return all(labels.value(name) in values for name, values in allowed.items())


def vector_filter(principal: Principal, policy: AudiencePolicy) -> AllOf:
    """The same predicate as a payload filter; a point without a label never matches."""
    allowed = allowed_values(principal, policy)
    return AllOf(
        tuple((f"metadata.{name}", tuple(sorted(allowed[name]))) for name in FILTERED_FIELDS)
    )


def lane_principal(audience: Audience) -> Principal:
    """The principal that derived artefacts of a lane are built for: the audience with no permission beyond its default."""
    return Principal(subject=f"lane:{audience}", audience=audience)
