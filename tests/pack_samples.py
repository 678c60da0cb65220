"""Packs made by hand, for tests of what is done with packs.

Belongs here: small values with defaults. Does not belong here: how packs are built from threads (tests of packs do that).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID, uuid5

from threadhouse.retrieval.freshness import PackKey
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    DataClassification,
    LifecycleStage,
    MembershipRole,
    MembershipStatus,
    PublicationState,
    Readiness,
    RiskClass,
    Visibility,
)
from threadhouse.retrieval.packs import (
    AudienceScope,
    CandidateThread,
    ContextPack,
    FallbackSignal,
    KnownGap,
    PackUnit,
    SuspectLink,
    SuspectReason,
    UnitFlags,
    level_of,
    thread_pack_id,
)


def make_unit(
    name: str,
    body: str = "Nội dung",
    title: str = "Điều",
    role: MembershipRole = MembershipRole.CANONICAL,
    is_suspect: bool = False,
) -> PackUnit:
    return PackUnit(
        logical_unit_id=name,
        canonical_address=f"A/{name}",
        source_revision=3,
        unit_version_id=uuid5(UUID(int=0), name),
        title=title,
        body=body,
        unit_kind="law_unit",
        lifecycle_stage=LifecycleStage.LAW,
        flags=UnitFlags(
            visibility=Visibility.PUBLIC,
            readiness=Readiness.PUBLISHED,
            publication_state=PublicationState.PUBLISHED,
            risk_class=RiskClass.LOW,
            authority=Authority.ENACTED,
        ),
        data_classification=DataClassification.UNCLASSIFIED,
        authority=Authority.ENACTED,
        risk_class=RiskClass.LOW,
        role=role,
        confidence=1.0,
        is_suspect=is_suspect,
        document_title="Document",
        document_path="d.md",
        language="vi",
        version_created_at=datetime(2026, 5, 15, tzinfo=UTC),
    )


def gap(description: str) -> KnownGap:
    return KnownGap(lifecycle_stage=LifecycleStage.TEST, description=description)


def suspect(name: str) -> SuspectLink:
    return SuspectLink(
        logical_unit_id=name,
        canonical_address=f"A/{name}",
        confidence=0.4,
        status=MembershipStatus.PROPOSED,
        reasons=(SuspectReason.LOW_CONFIDENCE, SuspectReason.PROPOSED),
    )


def candidate(thread_id: str, score: float) -> CandidateThread:
    return CandidateThread(
        thread_id=thread_id,
        thread_title=f"Thread {thread_id}",
        canonical_address=f"T/{thread_id}",
        score=score,
    )


def make_pack(
    units: Sequence[PackUnit],
    *,
    order: tuple[str, ...] | None = None,
    gaps: Sequence[KnownGap] = (),
    suspects: Sequence[SuspectLink] = (),
    thread_id: str = "t1",
    signal: FallbackSignal | None = None,
) -> ContextPack:
    pack = ContextPack(
        pack_id=UUID(int=7),
        lane=Audience.CUSTOMER,
        built_from=PackKey(input_revision=1, policy_version=1, space_id="s", code_version="1"),
        thread_id=thread_id,
        thread_title="Nghỉ phép",
        purpose="Ai được nghỉ",
        canonical_units=tuple(u for u in units if u.role is MembershipRole.CANONICAL),
        supporting_units=tuple(u for u in units if u.role is MembershipRole.SUPPORTING),
        latest_reports=tuple(u for u in units if u.role is MembershipRole.REPORT),
        related_design_code_links=(),
        known_gaps=tuple(gaps),
        suspect_links=tuple(suspects),
        last_health_status=None,
        authority_or_risk_level=level_of(units),
        recommended_reading_order=order or tuple(unit.canonical_address for unit in units),
        source_revisions={unit.canonical_address: unit.source_revision for unit in units},
        audience_scope_applied=AudienceScope(
            audience=Audience.CUSTOMER, policy_version=1, allowed_values={}
        ),
        fallback_signal=signal,
    )
    return pack.model_copy(update={"pack_id": thread_pack_id(pack)})
