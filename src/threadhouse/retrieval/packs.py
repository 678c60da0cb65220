"""The thread context pack: what a reader gets instead of the raw thread, ordered, scoped and annotated.

Belongs here: the pack's fields, what goes into it for one reader, its order, what makes a membership suspect, its canonical form.
Does not belong here: which thread answers a query (resolution, ranking), reading and storing (stores), rendering as text.

A pack is a function of what its reader may see and of nothing else: changing or removing something hidden never changes it,
except for the thread's ``input_revision``, which counts every change and is compared by readers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias
from uuid import UUID, uuid5

import regex
from pydantic import BaseModel, ConfigDict, Field

from threadhouse.retrieval.audience import AudiencePolicy, Labels, allowed_values
from threadhouse.retrieval.freshness import PackKey
from threadhouse.retrieval.lanes import (
    Sight,
    flags_leave_open,
    sight_of,
    unit_labels,
    visible_memberships,
)
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    DataClassification,
    Edge,
    ExpectedArtifact,
    Flags,
    HealthStatus,
    InformationUnit,
    Json,
    LifecycleStage,
    MembershipRole,
    MembershipStatus,
    Principal,
    PublicationState,
    Readiness,
    RiskClass,
    SemanticThread,
    ThreadMembership,
    UnitId,
    Visibility,
)
from threadhouse.retrieval.payloads import digest

PACK_SCHEMA_VERSION = 1
"""Version of the pack's shape; `docs/context-pack.schema.json` describes it."""

PACK_VERSION = "1"
"""Version of the rules below. A stored pack of another version is stale."""

PACK_NAMESPACE = UUID("3b0c6a5e-6f0b-5b7a-8d0e-52c0a3f1d9c4")
"""Namespace of pack ids. Changing it would give every unchanged pack a new id."""

SUSPECT_CONFIDENCE = 0.6
"""A membership less sure than this is flagged. The spec leaves the number open; 0.6 catches what is hardly more than a guess."""

DANGLING_LINK_LANES: frozenset[Audience] = frozenset({Audience.EMPLOYEE, Audience.AI_AGENT})
"""Lanes that are shown links to nothing.

An id without a row has no labels, and what has no labels is hidden. It is a broken reference for those who maintain the hub,
and for everybody else possibly the name of something that was hidden until it was deleted.
"""

NO_FLAGS = Flags()
"""Flags of something that has none of its own and closes nothing."""

_STAGE_RANK = {stage: rank for rank, stage in enumerate(LifecycleStage)}
_AUTHORITY_RANK = {authority: rank for rank, authority in enumerate(Authority)}
_RISK_RANK = {risk: rank for rank, risk in enumerate(RiskClass)}
_DIGITS = regex.compile(r"([0-9]+)")

EndKind: TypeAlias = Literal["unit", "document", "thread"]


class SuspectReason(StrEnum):
    """Why a membership must be shown to a human before anything is built on it."""

    LOW_CONFIDENCE = "low_confidence"
    NEEDS_HUMAN = "needs_human"
    PROPOSED = "proposed"
    WRONG_LINK = "wrong_link"


class LeftOutReason(StrEnum):
    """Why something that the reader may see is not in the pack."""

    REJECTED = "rejected"
    LENGTH = "length"


class FallbackKind(StrEnum):
    """Why an answer did not come from one thread."""

    MISSING_THREAD = "missing_thread"
    WEAK_THREAD = "weak_thread"
    EXPLICIT_RAW = "explicit_raw"


class EndRef(NamedTuple):
    """One end of an edge, as the edge names it."""

    kind: str
    id: str


@dataclass(frozen=True, slots=True)
class EdgeEnd:
    """Something that an edge points at and that exists.

    It is visible to whoever may see any of ``witnesses`` (a unit's own labels; those of a document's or a thread's units) and
    is not shut out by ``own_flags`` (a thread's). Without witnesses it exists but nobody sees it, which is not dangling.
    """

    title: str
    canonical_address: str
    witnesses: frozenset[Labels]
    lifecycle_stage: LifecycleStage | None = None
    own_flags: Flags = NO_FLAGS


@dataclass(frozen=True, slots=True)
class ThreadHealth:
    """The latest health check of a thread for one lane: made of what that lane sees, or stated for every lane."""

    status: HealthStatus
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class ThreadDossier:
    """Everything known about one thread at one moment, whoever may see it. Read in one snapshot of the database.

    ``edges`` may hold edges of other threads; those that touch nothing here are ignored. ``wrong_links`` are units with an
    open wrong_link signal.
    """

    thread: SemanticThread
    memberships: Sequence[ThreadMembership]
    units: Mapping[UnitId, InformationUnit]
    expected_artifacts: Sequence[ExpectedArtifact] = ()
    edges: Sequence[Edge] = ()
    edge_ends: Mapping[EndRef, EdgeEnd] = field(default_factory=dict[EndRef, EdgeEnd])
    health: Mapping[Audience, ThreadHealth] = field(default_factory=dict[Audience, ThreadHealth])
    wrong_links: frozenset[UnitId] = frozenset()


class _PackPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class UnitFlags(_PackPart):
    """The five flags of D11 §4.11; a unit that lacks one is visible to nobody, so none is null here."""

    visibility: Visibility
    readiness: Readiness
    publication_state: PublicationState
    risk_class: RiskClass
    authority: Authority


class PackUnit(_PackPart):
    """One unit with everything that a citation and a last access check need."""

    logical_unit_id: str
    canonical_address: str
    source_revision: int = Field(
        ge=1, description="Cite the unit by canonical_address and this number."
    )
    unit_version_id: UUID
    title: str
    body: str
    unit_kind: str
    lifecycle_stage: LifecycleStage
    flags: UnitFlags
    data_classification: DataClassification
    authority: Authority
    risk_class: RiskClass
    role: MembershipRole
    confidence: float = Field(ge=0, le=1, description="How sure it is that the unit belongs here.")
    is_suspect: bool = Field(description="True when suspect_links names this unit.")
    document_title: str
    document_path: str
    language: str
    version_created_at: datetime = Field(
        description="UTC; recency within a lifecycle stage is judged by it."
    )


class SuspectLink(_PackPart):
    """A membership that the reader must name as doubtful when answering from it."""

    logical_unit_id: str
    canonical_address: str
    confidence: float = Field(ge=0, le=1)
    status: MembershipStatus
    reasons: tuple[SuspectReason, ...] = Field(min_length=1)


class KnownGap(_PackPart):
    """A station of the lifecycle chain that is expected and has nothing yet."""

    lifecycle_stage: LifecycleStage
    description: str


class RelatedLink(_PackPart):
    """An edge from or to something in the pack."""

    edge_type: str
    direction: Literal["outgoing", "incoming"] = Field(
        description="Outgoing: from the pack to the other end."
    )
    pack_end_kind: EndKind
    pack_end_address: str = Field(
        description="Canonical address of the unit or thread, or path of the document."
    )
    other_end_kind: EndKind
    other_end_id: str
    other_end_title: str | None = Field(description="Null when dangling.")
    other_end_address: str | None = Field(description="Null when dangling.")
    other_end_lifecycle_stage: LifecycleStage | None
    is_dangling: bool = Field(
        description="The other end resolves to nothing: a broken reference, without content."
    )


class LastHealthStatus(_PackPart):
    """Result of the thread's latest health check."""

    status: HealthStatus
    observed_at: datetime


class AuthorityOrRiskLevel(_PackPart):
    """The thread's standing, from the units in this pack alone."""

    strongest_authority: Authority
    highest_risk_class: RiskClass


class AudienceScope(_PackPart):
    """Which filters ran. A unit is in the pack only if every field's value was in its list."""

    audience: Audience
    policy_version: int = Field(ge=0)
    allowed_values: dict[str, tuple[str, ...]]


class FallbackSignal(_PackPart):
    """Which threshold was missed; null in a pack that one thread answered."""

    kind: FallbackKind
    reason: str
    score: float | None = None
    threshold: float | None = None


class CandidateThread(_PackPart):
    """One of several threads that may be meant. All of them are threads that the reader sees."""

    thread_id: str
    thread_title: str
    canonical_address: str
    score: float = Field(ge=0, le=1)


class TokenBudget(_PackPart):
    """How much of the pack was delivered; the tokens are estimates (see docs/query-path.md)."""

    limit_tokens: int = Field(ge=1)
    used_tokens: int = Field(ge=0)
    left_out_count: int = Field(
        ge=0, description="Units that are in left_out because of the budget."
    )


class LeftOut(_PackPart):
    """A visible unit that is deliberately not in the pack. Hidden ones are never listed or counted."""

    logical_unit_id: str
    canonical_address: str
    reason: LeftOutReason


class ContextPack(_PackPart):
    """A thread context pack (D11 §4.4)."""

    schema_version: Literal[1] = PACK_SCHEMA_VERSION
    pack_id: UUID = Field(
        description="Same content for the same thread and lane, same id. Events and citations refer to it."
    )
    lane: Audience
    built_from: PackKey
    thread_id: str = Field(
        description="Empty in an ad-hoc pack, which no thread answered (see fallback_signal)."
    )
    thread_title: str
    purpose: str
    canonical_units: tuple[PackUnit, ...] = Field(
        description="Lifecycle stage, then authority, then recency, then canonical address."
    )
    supporting_units: tuple[PackUnit, ...] = Field(
        description="In the same order. Reports among them are in latest_reports."
    )
    latest_reports: tuple[PackUnit, ...] = Field(
        description="Units of role or stage report, most recent first. A canonical one is in both lists."
    )
    related_design_code_links: tuple[RelatedLink, ...] = Field(
        description="Edges to design and code first, then all others."
    )
    known_gaps: tuple[KnownGap, ...] = Field(description="Must be surfaced when answering.")
    suspect_links: tuple[SuspectLink, ...] = Field(
        description="Must be surfaced when answering; the units are in the pack, marked."
    )
    last_health_status: LastHealthStatus | None
    authority_or_risk_level: AuthorityOrRiskLevel | None = Field(
        description="Null only when there is no unit at all: an ad-hoc pack of a search that found nothing."
    )
    recommended_reading_order: tuple[str, ...] = Field(
        description="Canonical addresses of all units in the pack, each once: canonical, supporting, reports."
    )
    source_revisions: dict[str, int] = Field(
        description="Revision by canonical address, of every unit in the pack."
    )
    audience_scope_applied: AudienceScope
    fallback_signal: FallbackSignal | None = None
    left_out: tuple[LeftOut, ...] = ()
    candidate_threads: tuple[CandidateThread, ...] = Field(
        default=(),
        description="More than one thread may be meant: all of them, best first. The pack is that of the first.",
    )
    token_budget: TokenBudget | None = Field(
        default=None, description="Null when the pack was asked for whole."
    )

    def units(self) -> tuple[PackUnit, ...]:
        """Every unit in the pack once, in reading order."""
        by_id = {
            unit.logical_unit_id: unit
            for unit in (*self.canonical_units, *self.supporting_units, *self.latest_reports)
        }
        return tuple(by_id.values())


def build_pack(
    dossier: ThreadDossier, principal: Principal, policy: AudiencePolicy, space_id: str
) -> ContextPack | None:
    """The pack of one thread for one reader; None when the reader sees no unit of it and so must not learn of it.

    Args:
        dossier: Everything known about the thread, hidden units included.
        principal: `lane_principal` for the packs that are stored; a reader with permissions gets a pack of its own.
        policy: The version in force.
        space_id: The vector space in force; only recorded.
    """
    thread = dossier.thread
    if not flags_leave_open(thread.flags, principal, policy):
        return None
    sight = sight_of(principal, policy)
    labels = {unit_id: unit_labels(unit) for unit_id, unit in dossier.units.items()}
    shown = visible_memberships(dossier.memberships, labels, sight)
    if not shown:
        return None
    suspects = _suspect_links(shown, dossier)
    doubtful = {link.logical_unit_id for link in suspects}
    units = [
        _pack_unit(dossier.units[m.logical_unit_id], m, m.logical_unit_id in doubtful)
        for m in shown
    ]
    allowed = allowed_values(principal, policy)
    reports = _latest_first(u for u in units if _is_report(u))
    canonical = _in_order(u for u in units if u.role is MembershipRole.CANONICAL)
    supporting = _in_order(
        u for u in units if u.role is MembershipRole.SUPPORTING and not _is_report(u)
    )
    reading_order = tuple(
        dict.fromkeys(u.canonical_address for u in (*canonical, *supporting, *reports))
    )
    content = ContextPack(
        pack_id=PACK_NAMESPACE,
        lane=principal.audience,
        built_from=PackKey(
            input_revision=thread.input_revision,
            policy_version=policy.version,
            space_id=space_id,
            code_version=PACK_VERSION,
        ),
        thread_id=thread.thread_id,
        thread_title=thread.title,
        purpose=thread.purpose,
        canonical_units=canonical,
        supporting_units=supporting,
        latest_reports=reports,
        related_design_code_links=_related_links(dossier, shown, principal, policy, sight),
        known_gaps=_known_gaps(dossier.expected_artifacts, allowed["lifecycle_stage"]),
        suspect_links=suspects,
        last_health_status=_last_health(dossier.health.get(principal.audience)),
        authority_or_risk_level=level_of(units),
        recommended_reading_order=reading_order,
        source_revisions={u.canonical_address: u.source_revision for u in units},
        audience_scope_applied=AudienceScope(
            audience=principal.audience,
            policy_version=policy.version,
            allowed_values={name: tuple(sorted(values)) for name, values in allowed.items()},
        ),
        left_out=_left_out(dossier, labels, sight),
    )
    return content.model_copy(update={"pack_id": thread_pack_id(content)})


def thread_pack_id(pack: ContextPack) -> UUID:
    """The id that a thread's pack has by its content; any other one was not given to this content, thread and lane."""
    return uuid5(PACK_NAMESPACE, f"{pack.thread_id}\0{pack.lane}\0{pack_digest(pack)}")


def level_of(units: Sequence[PackUnit]) -> AuthorityOrRiskLevel | None:
    """Strongest authority and highest risk among ``units``; None without any."""
    if not units:
        return None
    return AuthorityOrRiskLevel(
        strongest_authority=min((u.authority for u in units), key=_AUTHORITY_RANK.__getitem__),
        highest_risk_class=max((u.risk_class for u in units), key=_RISK_RANK.__getitem__),
    )


def in_lifecycle_order(units: Iterable[PackUnit]) -> tuple[PackUnit, ...]:
    """Units in the order of D11 §4.5: lifecycle stage, authority, recency, canonical address."""
    return _in_order(units)


def canonical_json(pack: ContextPack) -> str:
    """One text for one pack: keys sorted, no spaces, UTC instants, Unicode as it is."""
    return json.dumps(
        pack.model_dump(mode="json"), ensure_ascii=False, sort_keys=True, separators=(",", ":")
    )


def pack_digest(pack: ContextPack) -> str:
    """sha256 over everything in a pack that its reader works with.

    Left out are the id, which is made from it, ``built_from``, which also changes when nothing for this reader did, and what
    belongs to one delivery instead of the thread.
    """
    content: Json = pack.model_dump(
        mode="json", exclude={"pack_id", "built_from", "candidate_threads", "token_budget"}
    )
    return digest(content)


def render_pack_schema() -> str:
    """The JSON Schema of a pack as published in ``docs/context-pack.schema.json``."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **ContextPack.model_json_schema(mode="serialization"),
    }
    return json.dumps(schema, ensure_ascii=False, indent=2) + "\n"


def _pack_unit(unit: InformationUnit, membership: ThreadMembership, is_suspect: bool) -> PackUnit:
    # model_validate, not the constructor: a visible unit has every flag, which the type of Flags cannot say.
    flags = UnitFlags.model_validate(
        {
            "visibility": unit.flags.visibility,
            "readiness": unit.flags.readiness,
            "publication_state": unit.flags.publication_state,
            "risk_class": unit.flags.risk_class,
            "authority": unit.flags.authority,
        }
    )
    return PackUnit(
        logical_unit_id=unit.logical_unit_id,
        canonical_address=unit.canonical_address,
        source_revision=unit.revision,
        unit_version_id=unit.unit_version_id,
        title=unit.title,
        body=unit.body,
        unit_kind=unit.unit_kind,
        lifecycle_stage=unit.lifecycle_stage,
        flags=flags,
        data_classification=unit.data_classification,
        authority=flags.authority,
        risk_class=flags.risk_class,
        role=membership.role,
        confidence=membership.confidence,
        is_suspect=is_suspect,
        document_title=unit.document_title,
        document_path=unit.path,
        language=unit.language,
        # A session's time zone must not decide how an instant is written, or equal packs would differ.
        version_created_at=unit.created_at.astimezone(UTC),
    )


def _is_report(unit: PackUnit) -> bool:
    return unit.role is MembershipRole.REPORT or unit.lifecycle_stage is LifecycleStage.REPORT


def _address_key(address: str) -> tuple[str | int, ...]:
    """Numbers compare as numbers, so that article 10 follows article 9."""
    return tuple(
        int(part) if index % 2 else part for index, part in enumerate(_DIGITS.split(address))
    )


def _in_order(units: Iterable[PackUnit]) -> tuple[PackUnit, ...]:
    return tuple(
        sorted(
            units,
            key=lambda u: (
                _STAGE_RANK[u.lifecycle_stage],
                _AUTHORITY_RANK[u.authority],
                -u.version_created_at.timestamp(),
                _address_key(u.canonical_address),
                u.canonical_address,
            ),
        )
    )


def _latest_first(units: Iterable[PackUnit]) -> tuple[PackUnit, ...]:
    return tuple(
        sorted(
            units,
            key=lambda u: (
                -u.version_created_at.timestamp(),
                _address_key(u.canonical_address),
                u.canonical_address,
            ),
        )
    )


def _suspect_links(
    shown: Iterable[ThreadMembership], dossier: ThreadDossier
) -> tuple[SuspectLink, ...]:
    links: list[SuspectLink] = []
    for membership in shown:
        found = {
            SuspectReason.LOW_CONFIDENCE: membership.confidence < SUSPECT_CONFIDENCE,
            SuspectReason.NEEDS_HUMAN: membership.status is MembershipStatus.NEEDS_HUMAN,
            SuspectReason.PROPOSED: membership.status is MembershipStatus.PROPOSED,
            SuspectReason.WRONG_LINK: membership.logical_unit_id in dossier.wrong_links,
        }
        reasons = tuple(reason for reason, holds in found.items() if holds)
        if reasons:
            unit = dossier.units[membership.logical_unit_id]
            links.append(
                SuspectLink(
                    logical_unit_id=unit.logical_unit_id,
                    canonical_address=unit.canonical_address,
                    confidence=membership.confidence,
                    status=membership.status,
                    reasons=reasons,
                )
            )
    return tuple(
        sorted(
            links, key=lambda link: (_address_key(link.canonical_address), link.canonical_address)
        )
    )


def _known_gaps(
    expected: Iterable[ExpectedArtifact], shown_stages: frozenset[str]
) -> tuple[KnownGap, ...]:
    # A stage that the reader never sees is left out: "no incident report yet" speaks of incidents.
    gaps = {
        (artifact.lifecycle_stage, artifact.description)
        for artifact in expected
        if artifact.status == "open" and artifact.lifecycle_stage in shown_stages
    }
    return tuple(
        KnownGap(lifecycle_stage=stage, description=description)
        for stage, description in sorted(gaps, key=lambda gap: (_STAGE_RANK[gap[0]], gap[1]))
    )


def _last_health(health: ThreadHealth | None) -> LastHealthStatus | None:
    if health is None:
        return None
    return LastHealthStatus(status=health.status, observed_at=health.observed_at.astimezone(UTC))


def _left_out(
    dossier: ThreadDossier, labels: Mapping[UnitId, Labels], sight: Sight
) -> tuple[LeftOut, ...]:
    rejected = (
        dossier.units[m.logical_unit_id]
        for m in dossier.memberships
        if m.status is MembershipStatus.REJECTED
        and m.logical_unit_id in labels
        and sight(labels[m.logical_unit_id])
    )
    return tuple(
        LeftOut(
            logical_unit_id=unit.logical_unit_id,
            canonical_address=unit.canonical_address,
            reason=LeftOutReason.REJECTED,
        )
        for unit in sorted(
            rejected, key=lambda u: (_address_key(u.canonical_address), u.canonical_address)
        )
    )


def _related_links(
    dossier: ThreadDossier,
    shown: Iterable[ThreadMembership],
    principal: Principal,
    policy: AudiencePolicy,
    sight: Sight,
) -> tuple[RelatedLink, ...]:
    """Edges between the pack and what the reader may see. One to something hidden is not there, not even as dangling."""
    own: dict[EndRef, str] = {
        EndRef("thread", dossier.thread.thread_id): dossier.thread.canonical_address
    }
    for membership in shown:
        unit = dossier.units[membership.logical_unit_id]
        own[EndRef("unit", unit.logical_unit_id)] = unit.canonical_address
        own[EndRef("document", unit.document_id)] = unit.path
    links: list[RelatedLink] = []
    for edge in dossier.edges:
        source = EndRef(edge.source_kind, edge.source_id)
        target = EndRef(edge.target_kind, edge.target_id)
        if source in own:
            near, far, is_outgoing = source, target, True
        elif target in own:
            near, far, is_outgoing = target, source, False
        else:
            continue
        end = dossier.edge_ends.get(far)
        if end is None:
            # Only a reference that something visible makes; what points here from nowhere says nothing about the pack.
            is_shown = is_outgoing and principal.audience in DANGLING_LINK_LANES
        else:
            is_shown = any(map(sight, end.witnesses)) and flags_leave_open(
                end.own_flags, principal, policy
            )
        if is_shown:
            links.append(_related_link(edge, near, own[near], far, end, is_outgoing))
    return tuple(sorted(links, key=_link_key))


def _related_link(
    edge: Edge, near: EndRef, near_address: str, far: EndRef, end: EdgeEnd | None, is_outgoing: bool
) -> RelatedLink:
    return RelatedLink.model_validate(
        {
            "edge_type": edge.edge_type,
            "direction": "outgoing" if is_outgoing else "incoming",
            "pack_end_kind": near.kind,
            "pack_end_address": near_address,
            "other_end_kind": far.kind,
            "other_end_id": far.id,
            "other_end_title": end.title if end else None,
            "other_end_address": end.canonical_address if end else None,
            "other_end_lifecycle_stage": end.lifecycle_stage if end else None,
            "is_dangling": end is None,
        }
    )


def _link_key(link: RelatedLink) -> tuple[bool, bool, str, tuple[str | int, ...], str, str, str]:
    is_design_or_code = link.other_end_lifecycle_stage in (
        LifecycleStage.DESIGN,
        LifecycleStage.CODE,
    )
    return (
        link.is_dangling,
        not is_design_or_code,
        link.edge_type,
        _address_key(link.pack_end_address),
        link.direction,
        link.other_end_kind,
        link.other_end_id,
    )
