"""Context packs: what is in them, in which order, and that nothing hidden shows through."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from threadhouse.retrieval.audience import AudiencePolicy, Labels, LanePolicy, lane_principal
from threadhouse.retrieval.freshness import PackKey, is_fresh, stale_because
from threadhouse.retrieval.lanes import unit_labels
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    DataClassification,
    DocumentId,
    Edge,
    ExpectedArtifact,
    Flags,
    HealthStatus,
    InformationUnit,
    LifecycleStage,
    MembershipRole,
    MembershipStatus,
    Principal,
    PublicationState,
    Readiness,
    RiskClass,
    SemanticThread,
    ThreadId,
    ThreadMembership,
    UnitId,
    UnitVersionId,
    Visibility,
)
from threadhouse.retrieval.packs import (
    ContextPack,
    EdgeEnd,
    EndRef,
    LeftOutReason,
    SuspectReason,
    ThreadDossier,
    ThreadHealth,
    build_pack,
    canonical_json,
    pack_digest,
    render_pack_schema,
)

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "context-pack.schema.json"
D11_FIELDS = {
    "thread_id",
    "thread_title",
    "purpose",
    "canonical_units",
    "supporting_units",
    "latest_reports",
    "related_design_code_links",
    "known_gaps",
    "suspect_links",
    "last_health_status",
    "authority_or_risk_level",
    "recommended_reading_order",
    "source_revisions",
    "audience_scope_applied",
    "fallback_signal",
}
DAY = datetime(2026, 5, 15, tzinfo=UTC)
OPEN = Flags(
    Visibility.PUBLIC,
    Readiness.PUBLISHED,
    PublicationState.PUBLISHED,
    RiskClass.LOW,
    Authority.ENACTED,
)
INTERNAL = replace(OPEN, visibility=Visibility.INTERNAL)
THREAD = SemanticThread(
    thread_id=ThreadId("t1"),
    canonical_address="THREAD/leave",
    title="Nghỉ phép",
    purpose="Ai được nghỉ, bao lâu",
    description="",
    flags=Flags(),
    input_revision=7,
)


def lane(visibility: set[str], stages: set[str]) -> LanePolicy:
    return LanePolicy(
        visibility=frozenset(visibility),
        readiness=frozenset({"published"}),
        publication_state=frozenset({"published"}),
        risk_class=frozenset({"low", "standard"}),
        authority=frozenset(Authority),
        lifecycle_stage=frozenset(stages),
        data_classification=frozenset({"unclassified"}),
    )


STAGES = {"law", "design", "code", "test", "report"}
POLICY = AudiencePolicy(
    3,
    {
        Audience.CUSTOMER: lane({"public"}, STAGES),
        Audience.AI_AGENT: lane({"public", "internal"}, STAGES | {"incident"}),
    },
)
CUSTOMER = lane_principal(Audience.CUSTOMER)
AGENT = lane_principal(Audience.AI_AGENT)


def unit(
    name: str,
    flags: Flags = OPEN,
    stage: LifecycleStage = LifecycleStage.LAW,
    created_at: datetime = DAY,
    address: str | None = None,
) -> InformationUnit:
    return InformationUnit(
        logical_unit_id=UnitId(name),
        document_id=DocumentId(f"doc-{name}"),
        canonical_address=address or f"HR/{name}",
        unit_kind="law_unit",
        lifecycle_stage=stage,
        ordinal=0,
        flags=flags,
        data_classification=DataClassification.UNCLASSIFIED,
        unit_version_id=UnitVersionId(uuid5(UUID(int=0), name)),
        revision=4,
        title=f"title of {name}",
        body=f"body of {name}",
        content_hash="0" * 64,
        created_at=created_at,
        document_title=f"document of {name}",
        path=f"hr/{name}.md",
        language="vi",
    )


def member(
    name: str,
    role: MembershipRole = MembershipRole.CANONICAL,
    confidence: float = 1.0,
    status: MembershipStatus = MembershipStatus.CONFIRMED,
) -> ThreadMembership:
    return ThreadMembership(ThreadId("t1"), UnitId(name), role, confidence, status, "because")


def dossier(
    units: list[InformationUnit],
    members: list[ThreadMembership] | None = None,
    **rest: object,
) -> ThreadDossier:
    memberships = [member(u.logical_unit_id) for u in units] if members is None else members
    return ThreadDossier(
        rest.pop("thread", THREAD),  # type: ignore[arg-type]
        memberships,
        {u.logical_unit_id: u for u in units},
        **rest,  # type: ignore[arg-type]
    )


def packed(of: ThreadDossier, principal: Principal = CUSTOMER) -> ContextPack:
    pack = build_pack(of, principal, POLICY, "space")
    assert pack is not None
    return pack


def edge(source: EndRef, target: EndRef, edge_type: str = "implements") -> Edge:
    return Edge(f"{source}-{target}", source.kind, source.id, target.kind, target.id, edge_type)


def end_of(u: InformationUnit) -> EdgeEnd:
    return EdgeEnd(u.title, u.canonical_address, frozenset({unit_labels(u)}), u.lifecycle_stage)


A = EndRef("unit", "a")
B = EndRef("unit", "b")


def test_a_pack_has_every_field_of_the_design_by_its_name() -> None:
    assert set(ContextPack.model_fields) >= D11_FIELDS


def test_a_pack_takes_no_unknown_field() -> None:
    loose = json.loads(canonical_json(packed(dossier([unit("a")])))) | {"extra": 1}
    with pytest.raises(ValidationError):
        ContextPack.model_validate_json(json.dumps(loose))


def test_every_unit_carries_what_a_citation_needs() -> None:
    shown = packed(dossier([unit("a")])).canonical_units[0]
    assert (shown.canonical_address, shown.source_revision) == ("HR/a", 4)
    assert (shown.authority, shown.risk_class) == (Authority.ENACTED, RiskClass.LOW)


def test_lifecycle_stage_comes_before_authority() -> None:
    units = [
        unit("a", stage=LifecycleStage.CODE),
        unit("b", replace(OPEN, authority=Authority.RUNTIME)),
        unit("c", stage=LifecycleStage.DESIGN),
    ]
    assert packed(dossier(units)).recommended_reading_order == ("HR/b", "HR/c", "HR/a")


def test_authority_comes_before_recency() -> None:
    units = [
        unit("a", replace(OPEN, authority=Authority.RUNTIME), created_at=DAY + timedelta(days=2)),
        unit("b", replace(OPEN, authority=Authority.DRAFT), created_at=DAY + timedelta(days=1)),
        unit("c", created_at=DAY),
    ]
    assert packed(dossier(units)).recommended_reading_order == ("HR/c", "HR/b", "HR/a")


def test_the_most_recent_comes_first_within_a_stage() -> None:
    units = [unit("a", created_at=DAY), unit("b", created_at=DAY + timedelta(seconds=1))]
    assert packed(dossier(units)).recommended_reading_order == ("HR/b", "HR/a")


def test_article_ten_comes_after_article_nine() -> None:
    units = [unit("x", address="LAW/10"), unit("y", address="LAW/9"), unit("z", address="LAW/1")]
    assert packed(dossier(units)).recommended_reading_order == ("LAW/1", "LAW/9", "LAW/10")


def test_reading_order_has_every_unit_once_canonical_first() -> None:
    units = [unit("a"), unit("b"), unit("c"), unit("d", stage=LifecycleStage.REPORT)]
    members = [
        member("a", MembershipRole.REPORT),
        member("b", MembershipRole.SUPPORTING),
        member("c"),
        member("d"),
    ]
    pack = packed(dossier(units, members))
    assert pack.recommended_reading_order == ("HR/c", "HR/d", "HR/b", "HR/a")
    assert [u.canonical_address for u in pack.units()] == list(pack.recommended_reading_order)


def test_reports_are_units_of_role_or_stage_report_most_recent_first() -> None:
    units = [
        unit("a", created_at=DAY),
        unit("b", stage=LifecycleStage.REPORT, created_at=DAY + timedelta(days=1)),
        unit("c"),
    ]
    members = [
        member("a", MembershipRole.REPORT),
        member("b", MembershipRole.SUPPORTING),
        member("c"),
    ]
    pack = packed(dossier(units, members))
    assert [u.logical_unit_id for u in pack.latest_reports] == ["b", "a"]
    assert pack.supporting_units == ()


def test_source_revisions_name_every_unit() -> None:
    assert packed(dossier([unit("a"), unit("b")])).source_revisions == {"HR/a": 4, "HR/b": 4}


@pytest.mark.parametrize(
    ("membership", "reasons"),
    [
        (member("a", confidence=0.6), ()),
        (member("a", confidence=0.59), (SuspectReason.LOW_CONFIDENCE,)),
        (member("a", status=MembershipStatus.NEEDS_HUMAN), (SuspectReason.NEEDS_HUMAN,)),
        (member("a", status=MembershipStatus.PROPOSED), (SuspectReason.PROPOSED,)),
        (
            member("a", confidence=0.1, status=MembershipStatus.PROPOSED),
            (SuspectReason.LOW_CONFIDENCE, SuspectReason.PROPOSED),
        ),
    ],
)
def test_a_doubtful_membership_is_in_the_pack_and_marked(
    membership: ThreadMembership, reasons: tuple[SuspectReason, ...]
) -> None:
    pack = packed(dossier([unit("a")], [membership]))
    assert tuple(r for link in pack.suspect_links for r in link.reasons) == reasons
    assert pack.canonical_units[0].is_suspect is bool(reasons)


def test_an_open_wrong_link_signal_makes_a_membership_suspect() -> None:
    pack = packed(dossier([unit("a"), unit("b")], wrong_links=frozenset({UnitId("b")})))
    assert [(s.logical_unit_id, s.reasons) for s in pack.suspect_links] == [
        ("b", (SuspectReason.WRONG_LINK,))
    ]


def test_a_rejected_membership_is_left_out_and_said_so() -> None:
    pack = packed(
        dossier(
            [unit("a"), unit("b")], [member("a"), member("b", status=MembershipStatus.REJECTED)]
        )
    )
    assert pack.recommended_reading_order == ("HR/a",)
    assert [(x.canonical_address, x.reason) for x in pack.left_out] == [
        ("HR/b", LeftOutReason.REJECTED)
    ]


def test_open_gaps_are_known_and_resolved_ones_are_not() -> None:
    gaps = [
        ExpectedArtifact(ThreadId("t1"), LifecycleStage.TEST, "no test yet", "open"),
        ExpectedArtifact(ThreadId("t1"), LifecycleStage.CODE, "no code yet", "resolved"),
    ]
    pack = packed(dossier([unit("a")], expected_artifacts=gaps))
    assert [g.description for g in pack.known_gaps] == ["no test yet"]


def test_a_gap_at_a_stage_that_the_lane_never_sees_is_not_told() -> None:
    gaps = [ExpectedArtifact(ThreadId("t1"), LifecycleStage.INCIDENT, "outage of May", "open")]
    of = dossier([unit("a")], expected_artifacts=gaps)
    assert packed(of).known_gaps == ()
    assert len(packed(of, AGENT).known_gaps) == 1


def test_the_last_health_status_is_in_the_pack() -> None:
    pack = packed(
        dossier([unit("a")], health={Audience.CUSTOMER: ThreadHealth(HealthStatus.STALE, DAY)})
    )
    assert pack.last_health_status is not None
    assert pack.last_health_status.status is HealthStatus.STALE


def test_authority_and_risk_speak_of_the_units_in_the_pack_alone() -> None:
    units = [
        unit("a", replace(OPEN, authority=Authority.DRAFT)),
        unit("b", replace(INTERNAL, risk_class=RiskClass.STANDARD)),
    ]
    level = packed(dossier(units)).authority_or_risk_level
    assert level is not None
    assert (level.strongest_authority, level.highest_risk_class) == (Authority.DRAFT, RiskClass.LOW)


def test_a_lane_that_sees_no_unit_gets_no_pack() -> None:
    of = dossier([unit("a", INTERNAL)])
    assert build_pack(of, CUSTOMER, POLICY, "space") is None


def test_a_lane_whose_only_visible_unit_is_rejected_gets_no_pack() -> None:
    of = dossier([unit("a")], [member("a", status=MembershipStatus.REJECTED)])
    assert build_pack(of, CUSTOMER, POLICY, "space") is None


def test_a_threads_own_flag_closes_it_for_a_lane() -> None:
    closed = replace(THREAD, flags=Flags(visibility=Visibility.INTERNAL))
    of = dossier([unit("a")], thread=closed)
    assert build_pack(of, CUSTOMER, POLICY, "space") is None
    assert build_pack(of, AGENT, POLICY, "space") is not None


def test_an_edge_to_something_visible_shows_its_title() -> None:
    other = unit("b", stage=LifecycleStage.DESIGN)
    pack = packed(dossier([unit("a")], edges=[edge(A, B)], edge_ends={B: end_of(other)}))
    (link,) = pack.related_design_code_links
    assert (link.direction, link.other_end_title, link.is_dangling) == (
        "outgoing",
        "title of b",
        False,
    )


def test_an_edge_from_something_visible_is_incoming() -> None:
    pack = packed(dossier([unit("a")], edges=[edge(B, A)], edge_ends={B: end_of(unit("b"))}))
    (link,) = pack.related_design_code_links
    assert (link.direction, link.pack_end_address, link.other_end_id) == ("incoming", "HR/a", "b")


@pytest.mark.parametrize("principal", [CUSTOMER, AGENT])
def test_an_edge_to_something_hidden_is_not_there(principal: Principal) -> None:
    hidden = unit("b", replace(OPEN, visibility=Visibility.RESTRICTED))
    ends = {B: end_of(hidden)}
    with_edge = packed(dossier([unit("a")], edges=[edge(A, B)], edge_ends=ends), principal)
    assert with_edge == packed(dossier([unit("a")]), principal)


def test_an_end_that_exists_but_cannot_be_read_is_hidden_and_not_dangling() -> None:
    ends = {B: EdgeEnd("title", "HR/b", frozenset())}
    pack = packed(dossier([unit("a")], edges=[edge(A, B)], edge_ends=ends), AGENT)
    assert pack.related_design_code_links == ()


def test_a_dangling_edge_is_shown_as_such_to_those_who_keep_the_hub() -> None:
    (link,) = packed(dossier([unit("a")], edges=[edge(A, B)]), AGENT).related_design_code_links
    assert (link.is_dangling, link.other_end_id, link.other_end_title) == (True, "b", None)


def test_a_dangling_edge_is_not_shown_to_a_customer() -> None:
    assert packed(dossier([unit("a")], edges=[edge(A, B)])).related_design_code_links == ()


def test_an_edge_from_nowhere_is_not_shown() -> None:
    assert packed(dossier([unit("a")], edges=[edge(B, A)]), AGENT).related_design_code_links == ()


def test_an_edge_of_a_hidden_member_is_not_shown() -> None:
    of = dossier(
        [unit("a"), unit("h", INTERNAL)],
        edges=[edge(EndRef("unit", "h"), B)],
        edge_ends={B: end_of(unit("b"))},
    )
    assert packed(of).related_design_code_links == ()
    assert len(packed(of, AGENT).related_design_code_links) == 1


def test_a_linked_thread_is_shown_only_to_those_who_see_a_unit_of_it() -> None:
    other = EndRef("thread", "t2")
    ends = {other: EdgeEnd("Other", "THREAD/other", frozenset({unit_labels(unit("b", INTERNAL))}))}
    of = dossier([unit("a")], edges=[edge(EndRef("thread", "t1"), other)], edge_ends=ends)
    assert packed(of).related_design_code_links == ()
    assert len(packed(of, AGENT).related_design_code_links) == 1


def test_a_linked_thread_that_its_own_flags_close_is_not_shown() -> None:
    other = EndRef("thread", "t2")
    open_unit = frozenset({unit_labels(unit("b"))})
    ends = {
        other: EdgeEnd(
            "Other", "THREAD/other", open_unit, own_flags=Flags(visibility=Visibility.INTERNAL)
        )
    }
    of = dossier([unit("a")], edges=[edge(EndRef("thread", "t1"), other)], edge_ends=ends)
    assert packed(of).related_design_code_links == ()


def test_links_to_design_and_code_come_first() -> None:
    law, code = unit("b"), unit("c", stage=LifecycleStage.CODE)
    refs = {EndRef("unit", u.logical_unit_id): end_of(u) for u in (law, code)}
    pack = packed(dossier([unit("a")], edges=[edge(A, ref) for ref in refs], edge_ends=refs))
    assert [link.other_end_id for link in pack.related_design_code_links] == ["c", "b"]


def test_evidence_of_a_membership_stays_inside() -> None:
    pack = packed(dossier([unit("a")], [member("a", confidence=0.1)]))
    assert "because" not in canonical_json(pack)


def test_a_pack_survives_writing_and_reading() -> None:
    pack = packed(
        dossier([unit("a")], health={Audience.CUSTOMER: ThreadHealth(HealthStatus.WEAK, DAY)})
    )
    assert ContextPack.model_validate_json(canonical_json(pack)) == pack


def test_the_time_zone_of_a_session_does_not_change_a_pack() -> None:
    hanoi = DAY.astimezone(timezone(timedelta(hours=7)))
    of = dossier(
        [unit("a", created_at=hanoi)],
        health={Audience.CUSTOMER: ThreadHealth(HealthStatus.WEAK, hanoi)},
    )
    utc = dossier(
        [unit("a", created_at=DAY)],
        health={Audience.CUSTOMER: ThreadHealth(HealthStatus.WEAK, DAY)},
    )
    assert canonical_json(packed(of)) == canonical_json(packed(utc))


def test_a_pack_with_the_same_content_keeps_its_id_when_the_thread_was_touched() -> None:
    old = packed(dossier([unit("a")]))
    new = packed(dossier([unit("a")], thread=replace(THREAD, input_revision=8)))
    assert (new.pack_id, pack_digest(new)) == (old.pack_id, pack_digest(old))
    assert new.built_from.input_revision == 8


def test_a_pack_with_other_content_has_another_id() -> None:
    old = packed(dossier([unit("a")]))
    changed = replace(unit("a"), revision=5, body="new")
    assert packed(dossier([changed])).pack_id != old.pack_id


def test_the_same_thread_has_another_pack_in_another_lane() -> None:
    of = dossier([unit("a")])
    assert packed(of).pack_id != packed(of, AGENT).pack_id


def test_the_published_schema_is_the_schema_of_the_code() -> None:
    command = "from threadhouse.retrieval.packs import render_pack_schema; print(render_pack_schema(), end='')"
    assert SCHEMA_FILE.read_text(encoding="utf-8") == render_pack_schema(), (
        f'write it again: .venv/bin/python -c "{command}" > docs/context-pack.schema.json'
    )


@pytest.mark.parametrize(
    "change",
    [{"input_revision": 8}, {"policy_version": 4}, {"space_id": "t"}, {"code_version": "2"}],
)
def test_a_pack_built_from_anything_else_is_stale(change: dict[str, object]) -> None:
    stored = PackKey(input_revision=7, policy_version=3, space_id="s", code_version="1")
    current = stored.model_copy(update=change)
    assert not is_fresh(stored, current)
    assert stale_because(stored, current) == tuple(change)


def test_a_pack_built_from_the_same_is_fresh() -> None:
    key = PackKey(input_revision=7, policy_version=3, space_id="s", code_version="1")
    assert is_fresh(key, key.model_copy())


def test_a_pack_newer_than_its_thread_is_stale_too() -> None:
    """A restored database can be older than its packs."""
    stored = PackKey(input_revision=7, policy_version=3, space_id="s", code_version="1")
    assert not is_fresh(stored, stored.model_copy(update={"input_revision": 6}))


NAMES = [f"u{i}" for i in range(6)]
any_flags = st.builds(
    Flags,
    visibility=st.none()
    | st.sampled_from([Visibility.PUBLIC, Visibility.PUBLIC, Visibility.INTERNAL]),
    readiness=st.sampled_from([Readiness.PUBLISHED, Readiness.PUBLISHED, Readiness.DRAFT]),
    publication_state=st.just(PublicationState.PUBLISHED),
    risk_class=st.sampled_from([RiskClass.LOW, RiskClass.STANDARD, RiskClass.HIGH]),
    authority=st.sampled_from(Authority),
)


@st.composite
def dossiers(draw: st.DrawFn) -> ThreadDossier:
    units = [
        unit(
            name,
            draw(any_flags),
            draw(st.sampled_from(LifecycleStage)),
            DAY + timedelta(days=draw(st.integers(0, 2))),
        )
        for name in NAMES
    ]
    members = [
        member(
            name,
            draw(st.sampled_from(MembershipRole)),
            draw(st.sampled_from([0.0, 0.5, 1.0])),
            draw(st.sampled_from(MembershipStatus)),
        )
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True))
    ]
    refs = [EndRef("unit", name) for name in [*NAMES, "gone"]]
    pairs = draw(
        st.lists(st.tuples(st.sampled_from(refs), st.sampled_from(refs)), max_size=6, unique=True)
    )
    return dossier(
        units,
        members,
        edges=[edge(a, b) for a, b in pairs],
        edge_ends={EndRef("unit", u.logical_unit_id): end_of(u) for u in units},
        wrong_links=frozenset(
            draw(st.lists(st.sampled_from([UnitId(n) for n in NAMES]), max_size=2))
        ),
    )


def seen_by(u: InformationUnit, principal: Principal) -> bool:
    from threadhouse.retrieval.audience import visible

    return visible(unit_labels(u), principal, POLICY)


@given(of=dossiers(), principal=st.sampled_from([CUSTOMER, AGENT]))
def test_nothing_hidden_changes_a_pack(of: ThreadDossier, principal: Principal) -> None:
    """Rewriting every hidden unit, and dropping its membership, leaves the reader's pack as it was."""
    hidden = {i for i, u in of.units.items() if not seen_by(u, principal)}
    blank = Labels(Flags(), None, None)
    redacted = replace(
        of,
        units={
            i: replace(u, title="x", body="y", revision=9) if i in hidden else u
            for i, u in of.units.items()
        },
        memberships=[m for m in of.memberships if m.logical_unit_id not in hidden],
        edge_ends={
            ref: EdgeEnd("x", "y", frozenset({blank})) if ref.id in hidden else end
            for ref, end in of.edge_ends.items()
        },
        wrong_links=of.wrong_links - hidden,
    )
    assert build_pack(of, principal, POLICY, "s") == build_pack(redacted, principal, POLICY, "s")


@given(of=dossiers(), principal=st.sampled_from([CUSTOMER, AGENT]))
def test_no_hidden_unit_is_named_anywhere_in_a_pack(
    of: ThreadDossier, principal: Principal
) -> None:
    pack = build_pack(of, principal, POLICY, "s")
    text = canonical_json(pack) if pack else ""
    for u in of.units.values():
        if not seen_by(u, principal):
            assert f'"{u.logical_unit_id}"' not in text
            assert u.canonical_address not in text


@given(of=dossiers(), principal=st.sampled_from([CUSTOMER, AGENT]))
def test_a_pack_holds_every_visible_member_that_was_not_rejected(
    of: ThreadDossier, principal: Principal
) -> None:
    expected = {
        m.logical_unit_id
        for m in of.memberships
        if m.status is not MembershipStatus.REJECTED
        and seen_by(of.units[m.logical_unit_id], principal)
    }
    pack = build_pack(of, principal, POLICY, "s")
    assert ({u.logical_unit_id for u in pack.units()} if pack else set()) == expected


@given(of=dossiers(), seed=st.integers(0, 99))
def test_a_pack_does_not_depend_on_the_order_of_rows(of: ThreadDossier, seed: int) -> None:
    shuffled = random.Random(seed)
    members, edges = list(of.memberships), list(of.edges)
    shuffled.shuffle(members)
    shuffled.shuffle(edges)
    other = replace(
        of, memberships=members, edges=edges, units=dict(reversed(list(of.units.items())))
    )
    assert build_pack(of, AGENT, POLICY, "s") == build_pack(other, AGENT, POLICY, "s")
