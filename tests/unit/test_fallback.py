"""What is answered when no thread answers, and which gaps that reveals."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from threadhouse.retrieval.audience import AudiencePolicy, LanePolicy, lane_principal
from threadhouse.retrieval.fallback import (
    EXPLICIT_RAW,
    LEGACY_UNIT_KIND,
    WEAK_HEALTH_PART,
    FoundDocumentPart,
    FoundUnit,
    ad_hoc_pack,
    fallback_of,
    gap_signals,
    weak_threads,
)
from threadhouse.retrieval.gap_signals import GapKind
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    DataClassification,
    DocumentId,
    Flags,
    HealthStatus,
    InformationUnit,
    LifecycleStage,
    ProductionDocument,
    PublicationState,
    Readiness,
    RiskClass,
    TextSpan,
    ThreadId,
    UnitId,
    UnitVersionId,
    Visibility,
)
from threadhouse.retrieval.packs import ContextPack, FallbackKind, FallbackSignal
from threadhouse.retrieval.query_keeping import QuestionCause
from threadhouse.retrieval.ranking import RankingWeights, ThreadFacts
from threadhouse.retrieval.resolution import (
    Resolution,
    ResolutionKind,
    RetrievalPolicy,
    ThreadCandidate,
)
from threadhouse.serving.retrieval_service import DEFAULT_TOKEN_BUDGET

NOW = datetime(2026, 5, 15, tzinfo=UTC)
OPEN = Flags(
    Visibility.PUBLIC,
    Readiness.PUBLISHED,
    PublicationState.PUBLISHED,
    RiskClass.LOW,
    Authority.ENACTED,
)
AUDIENCES = AudiencePolicy(
    3,
    {
        Audience.CUSTOMER: LanePolicy(
            visibility=frozenset({"public"}),
            readiness=frozenset({"published"}),
            publication_state=frozenset({"published"}),
            risk_class=frozenset({"low"}),
            authority=frozenset(Authority),
            lifecycle_stage=frozenset({"law", "design"}),
            data_classification=frozenset({"unclassified"}),
        )
    },
)
CUSTOMER = lane_principal(Audience.CUSTOMER)
QUERY = UUID(int=1)
NUMBERS = RetrievalPolicy(
    version=1,
    space_id="",
    coefficients={},
    scales={},
    ranking=RankingWeights(
        recency=0,
        authority=0,
        health=1,
        coverage=0,
        recency_half_life_days=100,
        health_parts={HealthStatus.STALE: 0.5, HealthStatus.TOO_NARROW: 0.9},
    ),
    single_threshold=0.9,
    match_threshold=0.5,
    candidate_floor=0.1,
    candidate_limit=5,
)


def unit(
    name: str, flags: Flags = OPEN, stage: LifecycleStage = LifecycleStage.LAW
) -> InformationUnit:
    return InformationUnit(
        logical_unit_id=UnitId(name),
        document_id=DocumentId("d"),
        canonical_address=f"A/{name}",
        unit_kind="law_unit",
        lifecycle_stage=stage,
        ordinal=0,
        flags=flags,
        data_classification=DataClassification.UNCLASSIFIED,
        unit_version_id=UnitVersionId(UUID(int=2)),
        revision=4,
        title="t",
        body="b",
        content_hash="0" * 64,
        created_at=NOW,
        document_title="Document",
        path="d.md",
        language="vi",
    )


def document_part() -> FoundDocumentPart:
    document = ProductionDocument(
        document_id=DocumentId("old"),
        path="old.md",
        title="Old",
        body="abcdef",
        language="vi",
        revision=7,
        flags=OPEN,
        lifecycle_stage=LifecycleStage.LAW,
        data_classification=DataClassification.UNCLASSIFIED,
        content_hash="0" * 64,
        updated_at=NOW,
        has_units=False,
    )
    return FoundDocumentPart(document, TextSpan("bcd", 1, 4), 0.5)


def facts(health: HealthStatus | None) -> ThreadFacts:
    return ThreadFacts("Title", "T/1", NOW, Authority.ENACTED, health, frozenset())


def resolution(kind: ResolutionKind, *threads: str, explicit: float = 0.0) -> Resolution:
    candidates = tuple(
        ThreadCandidate(ThreadId(thread), 0.6, {"explicit": explicit}) for thread in threads
    )
    return Resolution(kind, candidates, 0.5, 0.3)


def raw_pack(*found: FoundUnit | FoundDocumentPart) -> ContextPack:
    return ad_hoc_pack(found, CUSTOMER, AUDIENCES, "space", EXPLICIT_RAW)


def test_no_match_is_a_missing_thread_with_score_and_threshold() -> None:
    signal = fallback_of(resolution(ResolutionKind.MISSING, "t1"), {}, NUMBERS)
    assert signal is not None
    assert (signal.kind, signal.score, signal.threshold) == (FallbackKind.MISSING_THREAD, 0.3, 0.5)


@pytest.mark.parametrize(
    ("healths", "kind"),
    [
        ([HealthStatus.STALE], FallbackKind.WEAK_THREAD),
        ([HealthStatus.STALE, HealthStatus.STALE], FallbackKind.WEAK_THREAD),
        ([HealthStatus.STALE, HealthStatus.HEALTHY], None),
        ([HealthStatus.STALE, None], None),
        ([HealthStatus.TOO_NARROW], None),
        ([None], None),
    ],
)
def test_a_fallback_is_weak_when_every_candidate_is(
    healths: list[HealthStatus | None], kind: FallbackKind | None
) -> None:
    known = {ThreadId(f"t{n}"): facts(health) for n, health in enumerate(healths)}
    found = fallback_of(resolution(ResolutionKind.CANDIDATES, *known), known, NUMBERS)
    assert (found.kind if found else None) == kind


def test_a_thread_that_was_named_answers_whatever_its_health() -> None:
    known = {ThreadId("t1"): facts(HealthStatus.STALE)}
    named = resolution(ResolutionKind.SINGLE, "t1", explicit=1.0)
    assert fallback_of(named, known, NUMBERS) is None


def test_an_ad_hoc_pack_keeps_both_orders_and_says_why_it_is_one() -> None:
    pack = raw_pack(
        FoundUnit(unit("u1", stage=LifecycleStage.DESIGN), 0.9), FoundUnit(unit("u2"), 0.5)
    )
    assert pack.recommended_reading_order == ("A/u1", "A/u2")
    assert [each.canonical_address for each in pack.supporting_units] == ["A/u2", "A/u1"]
    assert (pack.thread_id, pack.fallback_signal) == ("", EXPLICIT_RAW)
    assert ContextPack.model_validate_json(pack.model_dump_json()) == pack


def test_an_ad_hoc_pack_never_holds_what_its_reader_may_not_see() -> None:
    hidden = unit("u1", replace(OPEN, visibility=Visibility.INTERNAL))
    unlabelled = unit("u2", replace(OPEN, authority=None))
    assert raw_pack(FoundUnit(hidden, 0.9), FoundUnit(unlabelled, 0.9)).units() == ()


def test_a_part_of_a_document_is_cited_by_path_and_revision() -> None:
    (part,) = raw_pack(document_part()).units()
    assert (part.canonical_address, part.source_revision, part.body) == ("old.md", 7, "bcd")
    assert part.unit_kind == LEGACY_UNIT_KIND


def test_the_same_hits_for_the_same_reader_have_the_same_id() -> None:
    first, second = (raw_pack(FoundUnit(unit("u1"), 0.9)) for _ in range(2))
    other = raw_pack(FoundUnit(unit("u2"), 0.9))
    assert first.pack_id == second.pack_id != other.pack_id


def gaps(pack: ContextPack) -> list[tuple[GapKind, str]]:
    weak = {ThreadId("t1"): HealthStatus.STALE}
    found = gap_signals(QuestionCause("the cause"), Audience.CUSTOMER, pack, weak, QUERY)
    return [(signal.kind, signal.cause_key) for signal in found]


def pack_for(kind: FallbackKind, *found: FoundUnit) -> ContextPack:
    signal = FallbackSignal(kind=kind, reason="r")
    return ad_hoc_pack(found, CUSTOMER, AUDIENCES, "space", signal)


def test_a_missing_thread_is_one_gap_of_the_question() -> None:
    found = FoundUnit(unit("u1"), 0.9)
    revealed = gaps(pack_for(FallbackKind.MISSING_THREAD, found))
    assert revealed == [(GapKind.MISSING_THREAD, "the cause")]


def test_nothing_visible_at_all_is_a_search_gap_besides() -> None:
    kinds = [kind for kind, _ in gaps(pack_for(FallbackKind.MISSING_THREAD))]
    assert kinds == [GapKind.MISSING_THREAD, GapKind.SEARCH_GAP]


def test_a_weak_thread_is_a_gap_of_the_thread() -> None:
    found = FoundUnit(unit("u1"), 0.9)
    assert gaps(pack_for(FallbackKind.WEAK_THREAD, found)) == [(GapKind.WEAK_THREAD, "customer/t1")]


def test_a_raw_search_that_finds_something_reveals_no_gap() -> None:
    assert gaps(raw_pack(FoundUnit(unit("u1"), 0.9))) == []


def test_weak_threads_are_those_whose_health_counts_too_little() -> None:
    known = {
        ThreadId("t1"): facts(HealthStatus.STALE),
        ThreadId("t2"): facts(HealthStatus.TOO_NARROW),
    }
    found = weak_threads(resolution(ResolutionKind.CANDIDATES, "t1", "t2"), known, NUMBERS)
    assert found == {"t1": HealthStatus.STALE}


def test_the_page_lists_every_fallback_and_the_numbers_of_the_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "query-path.md").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^\| `([a-z_]+)` \|", page) == [str(kind) for kind in FallbackKind]
    assert f"counts for {WEAK_HEALTH_PART} or less" in page
    assert f"shortened to {DEFAULT_TOKEN_BUDGET:,} tokens" in page
