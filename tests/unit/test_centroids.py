"""Centroids by small examples whose answers can be worked out on paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from threadhouse.retrieval.audience import (
    AudiencePolicy,
    Labels,
    LanePolicy,
    lane_principal,
    visible,
)
from threadhouse.retrieval.centroids import (
    CentroidPlan,
    NoCentroid,
    NoCentroidReason,
    ThreadCentroid,
    build_centroid,
    centroid_payload,
    compute_centroid,
    compute_cohesion,
    plan_centroids,
)
from threadhouse.retrieval.errors import (
    DegenerateCentroidError,
    DimensionMismatchError,
    ProjectionError,
)
from threadhouse.retrieval.lanes import UnitOutline
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    Collection,
    DataClassification,
    Flags,
    LifecycleStage,
    MembershipRole,
    MembershipStatus,
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
from threadhouse.retrieval.payloads import validate_payload

THREAD = SemanticThread(
    thread_id=ThreadId("t1"),
    canonical_address="THREAD/leave",
    title="Nghỉ phép",
    purpose="Ai được nghỉ, bao lâu",
    description="",
    flags=Flags(),
    input_revision=1,
    aliases=("leave",),
    labels=("hr",),
)
OPEN = Flags(
    Visibility.PUBLIC,
    Readiness.PUBLISHED,
    PublicationState.PUBLISHED,
    RiskClass.LOW,
    Authority.ENACTED,
)
INTERNAL = replace(OPEN, visibility=Visibility.INTERNAL)


def lane(*visibility: str) -> LanePolicy:
    return LanePolicy(
        visibility=frozenset(visibility),
        readiness=frozenset({"published", "approved"}),
        publication_state=frozenset({"published"}),
        risk_class=frozenset({"low", "standard"}),
        authority=frozenset({"enacted", "draft"}),
        lifecycle_stage=frozenset({"law", "design"}),
        data_classification=frozenset({"unclassified"}),
    )


POLICY = AudiencePolicy(
    1,
    {
        Audience.CUSTOMER: lane("public"),
        Audience.AI_AGENT: lane("public", "internal"),
    },
)


def outline(
    name: str,
    flags: Flags = OPEN,
    language: str = "vi",
    stage: LifecycleStage = LifecycleStage.LAW,
) -> UnitOutline:
    return UnitOutline(
        UnitId(name),
        UnitVersionId(UUID(int=len(name))),
        language,
        Labels(flags, stage, DataClassification.UNCLASSIFIED),
    )


def member(
    name: str,
    role: MembershipRole = MembershipRole.CANONICAL,
    confidence: float = 1.0,
    status: MembershipStatus = MembershipStatus.CONFIRMED,
) -> ThreadMembership:
    return ThreadMembership(ThreadId("t1"), UnitId(name), role, confidence, status)


def plan(
    members: list[ThreadMembership],
    outlines: list[UnitOutline],
    thread: SemanticThread = THREAD,
    digests: dict[UnitId, str] | None = None,
    audience: Audience = Audience.CUSTOMER,
) -> CentroidPlan | NoCentroid:
    answers = plan_centroids(
        [thread],
        {thread.thread_id: members},
        {o.logical_unit_id: o for o in outlines},
        POLICY,
        vector_digests={o.logical_unit_id: "v1" for o in outlines} if digests is None else digests,
        space_id="space",
    )
    by_lane = {a.lane: a for a in answers}
    assert set(by_lane) == set(Audience)
    return by_lane[audience]


def planned(*args: object, **kwargs: object) -> CentroidPlan:
    answer = plan(*args, **kwargs)  # type: ignore[arg-type]
    assert isinstance(answer, CentroidPlan)
    return answer


def reason(*args: object, **kwargs: object) -> NoCentroidReason:
    answer = plan(*args, **kwargs)  # type: ignore[arg-type]
    assert isinstance(answer, NoCentroid)
    return answer.reason


def rows(*values: Sequence[float]) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


def test_a_centroid_points_halfway_between_two_equal_units() -> None:
    centroid = compute_centroid(rows([1, 0], [0, 1]), np.ones(2, dtype=np.float32))
    assert centroid == pytest.approx([0.5**0.5, 0.5**0.5])


def test_a_canonical_unit_pulls_twice_as_hard_as_a_supporting_one() -> None:
    answer = planned(
        [member("a"), member("b", MembershipRole.SUPPORTING)], [outline("a"), outline("b")]
    )
    built = build_centroid(answer, {UnitId("a"): rows([1, 0]), UnitId("b"): rows([0, 1])})
    assert isinstance(built, ThreadCentroid)
    assert built.vector[0] / built.vector[1] == pytest.approx(2)


def test_confidence_scales_what_a_unit_counts() -> None:
    answer = planned([member("a"), member("b", confidence=0.25)], [outline("a"), outline("b")])
    assert [unit.weight for unit in answer.units] == [1.0, 0.25]


def test_a_unit_counts_once_however_many_chunks_it_has() -> None:
    answer = planned([member("a"), member("b")], [outline("a"), outline("b")])
    built = build_centroid(answer, {UnitId("a"): rows(*[[1, 0]] * 7), UnitId("b"): rows([0, 1])})
    assert isinstance(built, ThreadCentroid)
    assert built.vector == pytest.approx([0.5**0.5, 0.5**0.5])


def test_the_cohesion_of_a_thread_counts_a_unit_of_many_chunks_once() -> None:
    answer = planned(
        [member("a"), member("b", MembershipRole.SUPPORTING)], [outline("a"), outline("b")]
    )
    built = build_centroid(answer, {UnitId("a"): rows(*[[1, 0]] * 3), UnitId("b"): rows([0, 1])})
    assert isinstance(built, ThreadCentroid)
    assert built.cohesion == pytest.approx((2 + 1) / 5**0.5 / 2)


def test_cohesion_counts_every_unit_once_whatever_its_role() -> None:
    centroid = rows([1, 0])[0]
    cohesion = compute_cohesion(
        rows([1, 0], [1, 0], [0, 1]), np.array([0.5, 0.5, 1.0], dtype=np.float32), centroid
    )
    assert cohesion == pytest.approx(0.5)


def test_vectors_that_cancel_out_have_no_direction() -> None:
    with pytest.raises(DegenerateCentroidError):
        compute_centroid(rows([1, 0], [-1, 0]), np.ones(2, dtype=np.float32))


def test_a_thread_whose_units_cancel_out_has_no_centroid_and_says_why() -> None:
    answer = planned([member("a"), member("b")], [outline("a"), outline("b")])
    built = build_centroid(answer, {UnitId("a"): rows([1, 0]), UnitId("b"): rows([-1, 0])})
    assert built == NoCentroid(ThreadId("t1"), Audience.CUSTOMER, NoCentroidReason.CANCELS_OUT)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_vectors_that_are_no_numbers_are_refused(bad: float) -> None:
    with pytest.raises(DegenerateCentroidError):
        compute_centroid(rows([1, bad]), np.ones(1, dtype=np.float32))


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, -1.0], [np.nan, 1.0]])
def test_weights_that_weigh_nothing_are_refused(weights: list[float]) -> None:
    with pytest.raises(DegenerateCentroidError):
        compute_centroid(rows([1, 0], [0, 1]), np.array(weights, dtype=np.float32))


def test_one_weight_too_few_is_refused() -> None:
    with pytest.raises(DimensionMismatchError):
        compute_centroid(rows([1, 0], [0, 1]), np.ones(1, dtype=np.float32))


def test_vectors_of_two_dimensions_in_one_thread_are_refused() -> None:
    answer = planned([member("a"), member("b")], [outline("a"), outline("b")])
    with pytest.raises(DimensionMismatchError, match="Unit b"):
        build_centroid(answer, {UnitId("a"): rows([1, 0]), UnitId("b"): rows([1, 0, 0])})


def test_a_published_unit_without_vectors_is_an_error_that_names_it() -> None:
    answer = planned([member("a")], [outline("a")])
    with pytest.raises(ProjectionError, match="Unit a"):
        build_centroid(answer, {})


def test_a_lane_that_sees_no_unit_gets_no_point() -> None:
    assert reason([member("a")], [outline("a", INTERNAL)]) is NoCentroidReason.NOTHING_VISIBLE


def test_a_hidden_unit_does_not_move_the_centroid_of_the_lane() -> None:
    with_hidden = planned([member("a"), member("b")], [outline("a"), outline("b", INTERNAL)])
    without = planned([member("a")], [outline("a")])
    assert with_hidden == without


def test_the_lane_that_sees_more_has_a_centroid_of_its_own() -> None:
    outlines = [outline("a"), outline("b", INTERNAL)]
    answer = planned([member("a"), member("b")], outlines, audience=Audience.AI_AGENT)
    assert len(answer.units) == 2


def test_a_rejected_membership_does_not_count() -> None:
    members = [member("a", status=MembershipStatus.REJECTED)]
    assert reason(members, [outline("a")]) is NoCentroidReason.NOTHING_VISIBLE


def test_a_membership_of_a_unit_without_live_version_does_not_count() -> None:
    assert reason([member("gone")], [outline("a")]) is NoCentroidReason.NOTHING_VISIBLE


def test_units_without_vectors_leave_the_thread_without_centroid() -> None:
    assert reason([member("a")], [outline("a")], digests={}) is NoCentroidReason.NO_VECTORS


def test_memberships_without_confidence_leave_the_thread_without_centroid() -> None:
    assert reason([member("a", confidence=0.0)], [outline("a")]) is NoCentroidReason.NO_WEIGHT


def test_a_threads_own_flag_closes_it_for_a_lane() -> None:
    closed = replace(THREAD, flags=Flags(visibility=Visibility.INTERNAL))
    assert reason([member("a")], [outline("a")], closed) is NoCentroidReason.NOTHING_VISIBLE


def test_the_labels_of_a_point_are_the_strictest_and_pass_the_lanes_filter() -> None:
    outlines = [
        outline("a", replace(OPEN, readiness=Readiness.APPROVED)),
        outline("b", replace(OPEN, authority=Authority.DRAFT), stage=LifecycleStage.DESIGN),
    ]
    answer = planned([member("a"), member("b")], outlines)
    expected = Labels(
        replace(OPEN, readiness=Readiness.APPROVED, authority=Authority.DRAFT),
        LifecycleStage.DESIGN,
        DataClassification.UNCLASSIFIED,
    )
    assert answer.labels == expected
    assert visible(answer.labels, lane_principal(Audience.CUSTOMER), POLICY)


def test_the_language_is_the_one_that_most_weight_is_in() -> None:
    members = [
        member("a", MembershipRole.SUPPORTING),
        member("b", MembershipRole.SUPPORTING),
        member("c"),
    ]
    outlines = [outline("a", language="en"), outline("b", language="en"), outline("c")]
    members[2] = member("c", confidence=0.9)
    assert planned(members, outlines).language == "en"


@pytest.mark.parametrize(
    "change",
    [
        {"members": [member("a"), member("b", confidence=0.5)]},
        {"members": [member("a"), member("b", MembershipRole.SUPPORTING)]},
        {"members": [member("a")]},
        {"thread": replace(THREAD, title="other")},
        {"thread": replace(THREAD, aliases=())},
        {"digests": {UnitId("a"): "v1", UnitId("b"): "v2"}},
        {"outlines": [outline("a"), outline("b", replace(OPEN, readiness=Readiness.APPROVED))]},
    ],
)
def test_the_input_digest_changes_with_everything_that_changes_the_point(
    change: dict[str, object],
) -> None:
    same: dict[str, object] = {
        "members": [member("a"), member("b")],
        "outlines": [outline("a"), outline("b")],
    }
    assert planned(**(same | change)).input_digest != planned(**same).input_digest


def test_the_input_digest_does_not_depend_on_the_order_of_rows() -> None:
    members, outlines = [member("a"), member("b")], [outline("a"), outline("b")]
    assert planned(members, outlines) == planned(members[::-1], outlines[::-1])


def test_the_payload_of_a_centroid_keeps_the_contract() -> None:
    answer = planned([member("a")], [outline("a")])
    built = build_centroid(answer, {UnitId("a"): rows([1, 0])})
    assert isinstance(built, ThreadCentroid)
    payload = centroid_payload(built)
    validate_payload(Collection.THREAD_CENTROIDS, payload)
    assert payload["document_id"] == "t1"


def test_two_lanes_of_a_thread_have_two_points() -> None:
    customer = planned([member("a")], [outline("a")])
    agent = planned([member("a")], [outline("a")], audience=Audience.AI_AGENT)
    assert customer.point_id != agent.point_id
