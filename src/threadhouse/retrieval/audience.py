"""Who may see what: one predicate, and the vector filter generated from the same policy.

Belongs here: the policy as a value, the predicate, what is derived from both. Allow-lists only; missing or unknown hides.
Does not belong here: how a policy is written down (retrieval.policy_documents) or stored, who the principal is (tokens), or how a
store applies a filter.

The database decides the same way in ``cong.allowed_by_policy`` and ``cong.sees``; a property test holds them against this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from threadhouse.retrieval.models import (
    AllOf,
    Audience,
    Authority,
    DataClassification,
    Flags,
    LifecycleStage,
    Principal,
    PublicationState,
    Readiness,
    RiskClass,
    Visibility,
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

VOCABULARY: Mapping[str, frozenset[str]] = {
    "visibility": frozenset(word.value for word in Visibility),
    "readiness": frozenset(word.value for word in Readiness),
    "publication_state": frozenset(word.value for word in PublicationState),
    "risk_class": frozenset(word.value for word in RiskClass),
    "authority": frozenset(word.value for word in Authority),
    "lifecycle_stage": frozenset(word.value for word in LifecycleStage),
    "data_classification": frozenset(word.value for word in DataClassification),
}
"""The words of each field. Any other word in a policy or in a label admits nothing, in whatever case it is written."""

HIGH_RISK_CONSENT = "*"
"""A principal whose ``high_risk_consents`` holds this may see ``risk_class`` high, whatever the audience. No policy opens it."""

NEVER_SHOWN: frozenset[str] = frozenset({DataClassification.SECRET, DataClassification.BLOCKED})
"""Data classifications that no policy and no permission can open."""


@dataclass(frozen=True, slots=True)
class LanePolicy:
    """Allow-lists of one audience, and what its members can hold beyond them.

    Attributes:
        permission_grants: By permission and field, the values that holding it adds.
        role_grants: Permissions that a role holds.
        task_scope_limits: Permissions that count inside a task; a principal with scopes keeps only what one of them names.
    """

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
    role_grants: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    task_scope_limits: Mapping[str, frozenset[str]] = field(
        default_factory=dict[str, frozenset[str]]
    )


_Claims: TypeAlias = tuple[Audience, *tuple[frozenset[str], ...]]
"""Everything of a principal that a policy looks at."""

_REMEMBERED_CLAIMS = 1_000
"""Readers with claims of their own whose allow-lists one policy keeps; more start over."""


@dataclass(frozen=True, slots=True)
class AudiencePolicy:
    """One version of the whole policy. An audience without a lane sees nothing.

    ``worked_out`` is what `allowed_values` found out of it: a question asks a dozen times.
    """

    version: int
    lanes: Mapping[Audience, LanePolicy]
    worked_out: dict[_Claims, Mapping[str, frozenset[str]]] = field(
        default_factory=dict["_Claims", Mapping[str, frozenset[str]]],
        init=False,
        repr=False,
        compare=False,
    )


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


def held_permissions(principal: Principal, lane: LanePolicy) -> frozenset[str]:
    """Permissions that count for ``principal``: its own and those of its roles, as far as its tasks go.

    A task scope only takes away: without one nothing is limited, with an unknown one alone nothing is left.
    """
    held = set(principal.tool_permissions)
    for role in principal.roles:
        held |= lane.role_grants.get(role, frozenset())
    if principal.task_scopes:
        limits = (lane.task_scope_limits.get(scope, frozenset()) for scope in principal.task_scopes)
        held &= frozenset[str]().union(*limits)
    return frozenset(held & lane.permission_grants.keys())


def allowed_values(principal: Principal, policy: AudiencePolicy) -> Mapping[str, frozenset[str]]:
    """What ``principal`` may see, field by field, after permissions, consents and clearances.

    Returns:
        One allow-list for each of FILTERED_FIELDS; all empty when the policy has no lane for the audience.
    """
    claims: _Claims = (
        principal.audience,
        principal.tool_permissions,
        principal.roles,
        principal.task_scopes,
        principal.classifications,
        principal.high_risk_consents,
    )
    allowed = policy.worked_out.get(claims)
    if allowed is None:
        if len(policy.worked_out) >= _REMEMBERED_CLAIMS:
            policy.worked_out.clear()
        allowed = MappingProxyType(_work_out(principal, policy))
        policy.worked_out[claims] = allowed
    return allowed


def _work_out(principal: Principal, policy: AudiencePolicy) -> dict[str, frozenset[str]]:
    lane = policy.lanes.get(principal.audience)
    if lane is None:
        return {name: frozenset() for name in FILTERED_FIELDS}
    allowed: dict[str, set[str]] = {name: set(getattr(lane, name)) for name in FILTERED_FIELDS}
    for permission in held_permissions(principal, lane):
        for name, values in lane.permission_grants[permission].items():
            if name in allowed:
                allowed[name] |= values
    # What a policy cannot open by itself: high risk takes a consent, classified material a clearance, the rest nothing opens.
    allowed["risk_class"].discard(RiskClass.HIGH.value)
    if HIGH_RISK_CONSENT in principal.high_risk_consents:
        allowed["risk_class"].add(RiskClass.HIGH.value)
    allowed["data_classification"] &= {
        DataClassification.UNCLASSIFIED.value,
        *principal.classifications,
    }
    allowed["data_classification"] -= NEVER_SHOWN
    return {name: frozenset(values & VOCABULARY[name]) for name, values in allowed.items()}


def visible(labels: Labels, principal: Principal, policy: AudiencePolicy) -> bool:
    """Whether ``principal`` may see something labelled ``labels``.

    A document's or a thread's labels never widen a unit's: pass the unit's effective ones.
    """
    return admits(allowed_values(principal, policy), labels)


def admits(allowed: Mapping[str, frozenset[str]], labels: Labels) -> bool:
    """Whether allow-lists as `allowed_values` gives them hold every label; `visible` for who asks about many."""
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
