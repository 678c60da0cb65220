"""What is answered when no thread answers (D11 §4.7), and which gaps a query reveals (§4.9).

Belongs here: the three triggers, the ad-hoc pack in the one pack schema, which gaps a query reveals.
Does not belong here: searching (search), reading the found texts (stores), what a gap is (gap_signals), keeping them
(stores.gap_signals).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from uuid import UUID, uuid5

from threadhouse.retrieval.audience import AudiencePolicy, Labels, allowed_values, visible
from threadhouse.retrieval.freshness import PackKey
from threadhouse.retrieval.gap_signals import GapKind, GapSignal
from threadhouse.retrieval.lanes import unit_labels
from threadhouse.retrieval.models import (
    Audience,
    HealthStatus,
    InformationUnit,
    Json,
    MembershipRole,
    Principal,
    ProductionDocument,
    TextSpan,
    ThreadId,
)
from threadhouse.retrieval.packs import (
    PACK_NAMESPACE,
    PACK_VERSION,
    AudienceScope,
    ContextPack,
    FallbackKind,
    FallbackSignal,
    PackUnit,
    UnitFlags,
    in_lifecycle_order,
    level_of,
    pack_digest,
)
from threadhouse.retrieval.payloads import document_version_key
from threadhouse.retrieval.query_keeping import QuestionCause
from threadhouse.retrieval.ranking import ThreadFacts
from threadhouse.retrieval.resolution import Resolution, ResolutionKind, RetrievalPolicy

WEAK_HEALTH_PART = 0.6
"""A thread whose health counts for this or less in the policy is weak. In the shipped policy that is every status of D11 §4.7."""

LEGACY_UNIT_KIND = "legacy_document_part"
"""``unit_kind`` of a part of a document that has no units yet."""


@dataclass(frozen=True, slots=True)
class FoundUnit:
    """A unit that a search found, as it is now."""

    unit: InformationUnit
    score: float

    @property
    def labels(self) -> Labels:
        return unit_labels(self.unit)

    def to_pack_unit(self) -> PackUnit:
        unit = self.unit
        return _pack_unit(
            {
                "logical_unit_id": unit.logical_unit_id,
                "canonical_address": unit.canonical_address,
                "source_revision": unit.revision,
                "unit_version_id": unit.unit_version_id,
                "title": unit.title,
                "body": unit.body,
                "unit_kind": unit.unit_kind,
                "document_title": unit.document_title,
                "document_path": unit.path,
                "language": unit.language,
                "version_created_at": unit.created_at.astimezone(UTC),
            },
            self.labels,
            self.score,
        )


@dataclass(frozen=True, slots=True)
class FoundDocumentPart:
    """A part of a document without units that a search found; cited by the document's path and revision."""

    document: ProductionDocument
    span: TextSpan
    score: float

    @property
    def labels(self) -> Labels:
        document = self.document
        return Labels(document.flags, document.lifecycle_stage, document.data_classification)

    def to_pack_unit(self) -> PackUnit:
        document = self.document
        version = document_version_key(document.document_id, document.revision)
        return _pack_unit(
            {
                "logical_unit_id": document.document_id,
                "canonical_address": document.path,
                "source_revision": document.revision,
                "unit_version_id": uuid5(PACK_NAMESPACE, version),
                "title": document.title,
                "body": self.span.text,
                "unit_kind": LEGACY_UNIT_KIND,
                "document_title": document.title,
                "document_path": document.path,
                "language": document.language,
                "version_created_at": document.updated_at.astimezone(UTC),
            },
            self.labels,
            self.score,
        )


def fallback_of(
    resolution: Resolution, facts: Mapping[ThreadId, ThreadFacts], policy: RetrievalPolicy
) -> FallbackSignal | None:
    """Why no thread answers; None when one does.

    A thread that was asked for by its name answers whatever its health: who names it wants it, and the pack tells its health.
    """
    best = resolution.candidates[0] if resolution.candidates else None
    if resolution.kind is ResolutionKind.MISSING or best is None:
        return FallbackSignal(
            kind=FallbackKind.MISSING_THREAD,
            reason="no thread reached the threshold",
            score=resolution.any_thread,
            threshold=resolution.threshold,
        )
    if best.signal_breakdown.get("explicit", 0.0) >= 1.0:
        return None
    weak = weak_threads(resolution, facts, policy)
    if len(weak) < len(resolution.candidates):
        return None
    first, status = next(iter(weak.items()))
    return FallbackSignal(
        kind=FallbackKind.WEAK_THREAD,
        reason=f"every thread that may be meant is unhealthy; the best, {first}, is {status}",
        score=policy.ranking.health_parts.get(status),
        threshold=WEAK_HEALTH_PART,
    )


def weak_threads(
    resolution: Resolution, facts: Mapping[ThreadId, ThreadFacts], policy: RetrievalPolicy
) -> dict[ThreadId, HealthStatus]:
    """Candidates whose last health check the policy scores too low to rely on, best first."""
    found: dict[ThreadId, HealthStatus] = {}
    for candidate in resolution.candidates:
        known = facts.get(candidate.thread_id)
        health = known.health if known else None
        if health is not None and policy.ranking.health_parts.get(health, 1.0) <= WEAK_HEALTH_PART:
            found[candidate.thread_id] = health
    return found


EXPLICIT_RAW = FallbackSignal(kind=FallbackKind.EXPLICIT_RAW, reason="raw search was asked for")


def ad_hoc_pack(
    found: Sequence[FoundUnit | FoundDocumentPart],
    principal: Principal,
    policy: AudiencePolicy,
    space_id: str,
    signal: FallbackSignal,
) -> ContextPack:
    """Found units as a pack of no thread, annotated with the reason.

    ``recommended_reading_order`` is that of the search; ``supporting_units`` keep the order that the schema promises.

    Args:
        found: Best first. What the principal may not see is dropped here once more.
        space_id: The vector space that was searched.
    """
    seen = [each for each in found if visible(each.labels, principal, policy)]
    by_address = {
        unit.canonical_address: unit for unit in reversed([each.to_pack_unit() for each in seen])
    }
    order = tuple(reversed(by_address))
    units = [by_address[address] for address in order]
    allowed = allowed_values(principal, policy)
    pack = ContextPack(
        pack_id=PACK_NAMESPACE,
        lane=principal.audience,
        built_from=PackKey(
            input_revision=0,
            policy_version=policy.version,
            space_id=space_id,
            code_version=PACK_VERSION,
        ),
        thread_id="",
        thread_title="",
        purpose="",
        canonical_units=(),
        supporting_units=in_lifecycle_order(units),
        latest_reports=(),
        related_design_code_links=(),
        known_gaps=(),
        suspect_links=(),
        last_health_status=None,
        authority_or_risk_level=level_of(units),
        recommended_reading_order=order,
        source_revisions={unit.canonical_address: unit.source_revision for unit in units},
        audience_scope_applied=AudienceScope(
            audience=principal.audience,
            policy_version=policy.version,
            allowed_values={name: tuple(sorted(values)) for name, values in allowed.items()},
        ),
        fallback_signal=signal,
    )
    name = f"ad-hoc\0{principal.audience}\0{pack_digest(pack)}"
    return pack.model_copy(update={"pack_id": uuid5(PACK_NAMESPACE, name)})


def gap_signals(
    cause: QuestionCause,
    lane: Audience,
    pack: ContextPack,
    weak: Mapping[ThreadId, HealthStatus],
    query_id: UUID,
) -> tuple[GapSignal, ...]:
    """The gaps that a fallback reveals.

    Args:
        cause: What the question is known by.
        pack: The ad-hoc pack that was the answer.
        weak: The unhealthy candidates, when they were the reason.
    """
    signal = pack.fallback_signal
    evidence: dict[str, Json] = {"last_query_id": str(query_id)}
    found: list[GapSignal] = []
    if signal is not None and signal.kind is FallbackKind.MISSING_THREAD:
        scores: dict[str, Json] = {"score": signal.score, "threshold": signal.threshold}
        found.append(
            GapSignal(
                GapKind.MISSING_THREAD,
                cause.key,
                lane,
                evidence=evidence | scores,
                former_key=cause.former_key,
            )
        )
    if signal is not None and signal.kind is FallbackKind.WEAK_THREAD:
        found += [
            GapSignal(
                GapKind.WEAK_THREAD,
                f"{lane}/{thread_id}",
                lane,
                thread_id,
                {**evidence, "health": health},
            )
            for thread_id, health in weak.items()
        ]
    if not pack.units():
        found.append(search_gap(cause, lane, query_id))
    return tuple(found)


def search_gap(cause: QuestionCause, lane: Audience, query_id: UUID) -> GapSignal:
    """A question that nothing answered."""
    return GapSignal(
        GapKind.SEARCH_GAP,
        cause.key,
        lane,
        evidence={"last_query_id": str(query_id)},
        former_key=cause.former_key,
    )


def _pack_unit(fields: Mapping[str, object], labels: Labels, score: float) -> PackUnit:
    # model_validate, not the constructor: what is visible has every label, which the types of labels cannot say.
    flags = labels.flags
    shown = UnitFlags.model_validate(
        {name: getattr(flags, name) for name in UnitFlags.model_fields}
    )
    return PackUnit.model_validate(
        {
            **fields,
            "lifecycle_stage": labels.lifecycle_stage,
            "flags": shown,
            "data_classification": labels.data_classification,
            "authority": shown.authority,
            "risk_class": shown.risk_class,
            "role": MembershipRole.SUPPORTING,
            "confidence": min(max(score, 0.0), 1.0),
            "is_suspect": False,
        }
    )
