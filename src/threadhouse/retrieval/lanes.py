"""What one reader may see of a thread: the question that centroids and packs both start from.

Belongs here: which memberships count, whether a thread's own flags close it, the strictest labels of a set.
Does not belong here: the predicate itself (retrieval.audience), what is made of the visible units (centroids, packs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias, TypeVar

from threadhouse.retrieval.audience import (
    AudiencePolicy,
    Labels,
    admits,
    allowed_values,
)
from threadhouse.retrieval.models import (
    Authority,
    DataClassification,
    Flags,
    InformationUnit,
    LifecycleStage,
    MembershipStatus,
    Principal,
    PublicationState,
    Readiness,
    RiskClass,
    ThreadMembership,
    UnitId,
    UnitVersionId,
    Visibility,
)

Sight: TypeAlias = Callable[[Labels], bool]
"""Answers for one principal under one policy whether something labelled so is visible."""

_T = TypeVar("_T")

# Open to strict. A set of things is labelled with the strictest label of each kind that occurs in it.
_STRICTNESS: tuple[tuple[object, ...], ...] = (
    tuple(Visibility),
    (
        Readiness.PUBLISHED,
        Readiness.APPROVED,
        Readiness.UNDER_REVIEW,
        Readiness.DRAFT,
        Readiness.SUPERSEDED,
    ),
    (
        PublicationState.PUBLISHED,
        PublicationState.UNPUBLISHED,
        PublicationState.WITHDRAWN,
    ),
    tuple(RiskClass),
    tuple(Authority),
    tuple(LifecycleStage),
    tuple(DataClassification),
)
# By type as well: words are shared between scales (a draft can be a readiness or an authority) and StrEnums compare as words.
_RANK: dict[tuple[type, object], int] = {
    (type(value), value): rank for scale in _STRICTNESS for rank, value in enumerate(scale)
}


@dataclass(frozen=True, slots=True)
class UnitOutline:
    """A unit without its text: enough to decide who sees it, small enough to hold for a whole hub."""

    logical_unit_id: UnitId
    unit_version_id: UnitVersionId
    language: str
    labels: Labels


def unit_labels(unit: InformationUnit) -> Labels:
    """The effective labels of a unit."""
    return Labels(unit.flags, unit.lifecycle_stage, unit.data_classification)


def outline_unit(unit: InformationUnit) -> UnitOutline:
    """A unit without its text."""
    return UnitOutline(unit.logical_unit_id, unit.unit_version_id, unit.language, unit_labels(unit))


def sight_of(principal: Principal, policy: AudiencePolicy) -> Sight:
    """The predicate with its answers remembered: a hub has thousands of units and a few dozen combinations of labels."""
    allowed = allowed_values(principal, policy)

    @cache
    def sees(labels: Labels) -> bool:
        return admits(allowed, labels)

    return sees


def flags_leave_open(flags: Flags, principal: Principal, policy: AudiencePolicy) -> bool:
    """Whether a thread's own flags let ``principal`` see the thread at all.

    A thread's flags can only close: one that is set must be allowed, one that is missing leaves the decision to the units.
    """
    allowed = allowed_values(principal, policy)
    own: dict[str, str | None] = {
        "visibility": flags.visibility,
        "readiness": flags.readiness,
        "publication_state": flags.publication_state,
        "risk_class": flags.risk_class,
        "authority": flags.authority,
    }
    return all(value is None or value in allowed[name] for name, value in own.items())


def visible_memberships(
    memberships: Iterable[ThreadMembership],
    labels: Mapping[UnitId, Labels],
    sight: Sight,
) -> list[ThreadMembership]:
    """Memberships that count for a reader: not rejected, of a unit that is there and visible; in order of unit id."""
    return sorted(
        (
            membership
            for membership in memberships
            if membership.status is not MembershipStatus.REJECTED
            and membership.logical_unit_id in labels
            and sight(labels[membership.logical_unit_id])
        ),
        key=lambda membership: membership.logical_unit_id,
    )


def strictest_labels(members: Sequence[Labels], own: Flags) -> Labels:
    """The strictest label of each kind that occurs among ``members`` or is set in ``own``.

    A lane's filter has one allow-list a field, so when every member passes it, this combination passes it as well.
    """
    members = list(dict.fromkeys(members))  # of hundreds, a handful differ
    return Labels(
        Flags(
            visibility=_strictest([m.flags.visibility for m in members], own.visibility),
            readiness=_strictest([m.flags.readiness for m in members], own.readiness),
            publication_state=_strictest(
                [m.flags.publication_state for m in members], own.publication_state
            ),
            risk_class=_strictest([m.flags.risk_class for m in members], own.risk_class),
            authority=_strictest([m.flags.authority for m in members], own.authority),
        ),
        _strictest([m.lifecycle_stage for m in members], None),
        _strictest([m.data_classification for m in members], None),
    )


def _strictest(values: Iterable[_T | None], own: _T | None) -> _T | None:
    present = [value for value in (*values, own) if value is not None]
    return max(present, key=lambda value: _RANK[type(value), value], default=None)
