"""Carrying out a plan on a model of the store always ends where the source wants it, whatever was there before."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadhouse.retrieval.audience import (
    AudiencePolicy,
    Labels,
    LanePolicy,
    lane_principal,
    visible,
)
from threadhouse.retrieval.errors import DeletionBrakeError, EmptySourceError
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    Collection,
    DataClassification,
    Flags,
    LifecycleStage,
    PublicationState,
    Readiness,
    RiskClass,
    Visibility,
)
from threadhouse.retrieval.payloads import label_fields, point_id
from threadhouse.retrieval.projection import (
    HIDDEN,
    ProjectionOwner,
    ProjectionPlan,
    ProjectionPointer,
    RepairOrder,
    check_deletion_brake,
    check_source_is_not_empty,
    interim_labels,
    plan_projection,
    probe_principals,
)

UNITS = Collection.INFORMATION_UNITS


def lane(*visibility: str) -> LanePolicy:
    return LanePolicy(
        frozenset(visibility),
        frozenset({"published"}),
        frozenset({"published"}),
        frozenset({"low", "standard"}),
        frozenset(Authority),
        frozenset(LifecycleStage),
        frozenset({"unclassified", "confidential"}),
        {"read:restricted": {"visibility": frozenset({"restricted"})}},
    )


POLICY = AudiencePolicy(
    1,
    {
        Audience.CUSTOMER: lane("public"),
        Audience.PARTNER: lane("public", "partner"),
        Audience.EMPLOYEE: lane("public", "employee"),
        Audience.AI_AGENT: lane("public", "partner", "employee", "internal"),
    },
)


def labels(visibility: Visibility | None) -> Labels:
    return Labels(
        Flags(
            visibility,
            Readiness.PUBLISHED,
            PublicationState.PUBLISHED,
            RiskClass.LOW,
            Authority.ENACTED,
        ),
        LifecycleStage.LAW,
        DataClassification.UNCLASSIFIED,
    )


def owner(
    owner_id: str, version: int, chunks: int, visibility: Visibility | None
) -> ProjectionOwner:
    shown = labels(visibility)
    return ProjectionOwner(
        owner_id=owner_id,
        version_key=f"{owner_id}:{version}",
        content_digest=f"{version}:{chunks}",
        labels=shown,
        payload={"document_id": "d", "metadata": label_fields(shown)},
    )


owners = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.tuples(st.integers(1, 3), st.integers(0, 3), st.sampled_from([*Visibility, None])),
    max_size=8,
)


def carry_out(
    plan: ProjectionPlan,
    wanted: dict[str, ProjectionOwner],
    chunks: dict[str, int],
    pointers: dict[str, ProjectionPointer],
    stored: dict[UUID, Labels],
) -> None:
    """A model of what stores.projection does, with dicts for the two stores."""
    for owner_id in plan.retire:
        for point in pointers.pop(owner_id).point_ids(UNITS):
            stored.pop(point, None)
    for owner_id in (*plan.revoke, *plan.relabel):
        for point in pointers[owner_id].point_ids(UNITS):
            stored[point] = wanted[owner_id].labels
        pointers[owner_id] = pointer_of(wanted[owner_id], chunks[owner_id])
    for owner_id in plan.publish:
        for index in range(chunks[owner_id]):
            stored[point_id(UNITS, wanted[owner_id].version_key, index)] = wanted[owner_id].labels
        pointers[owner_id] = pointer_of(wanted[owner_id], chunks[owner_id])
    live = {i for pointer in pointers.values() for i in pointer.point_ids(UNITS)}
    for point in stored.keys() - live:
        del stored[point]


def pointer_of(item: ProjectionOwner, chunks: int) -> ProjectionPointer:
    return ProjectionPointer(
        item.owner_id, item.version_key, chunks, item.content_digest, item.payload_digest
    )


@given(before=owners, after=owners, lost=st.sets(st.integers(0, 30)), strays=st.integers(0, 3))
def test_a_plan_carried_out_leaves_exactly_what_is_wanted(
    before: dict[str, tuple[int, int, Visibility | None]],
    after: dict[str, tuple[int, int, Visibility | None]],
    lost: set[int],
    strays: int,
) -> None:
    pointers: dict[str, ProjectionPointer] = {}
    stored: dict[UUID, Labels] = {}
    for key, (version, chunks, visibility) in before.items():
        item = owner(key, version, chunks, visibility)
        pointers[key] = pointer_of(item, chunks)
        stored.update({i: item.labels for i in pointers[key].point_ids(UNITS)})
    for number, point in enumerate(list(stored)):
        if number in lost:
            del stored[point]
    stored.update({uuid4(): labels(Visibility.PUBLIC) for _ in range(strays)})
    wanted = {key: owner(key, *value) for key, value in after.items()}
    chunks = {key: value[1] for key, value in after.items()}
    carry_out(
        plan_projection(UNITS, wanted, pointers, stored, POLICY), wanted, chunks, pointers, stored
    )
    assert pointers == {key: pointer_of(item, chunks[key]) for key, item in wanted.items()}
    assert stored == {
        point_id(UNITS, item.version_key, index): item.labels
        for key, item in wanted.items()
        for index in range(chunks[key])
    }
    again = plan_projection(UNITS, wanted, pointers, stored, POLICY)
    assert again.is_empty
    assert again.unchanged == len(wanted)


any_labels = st.builds(
    Labels,
    st.builds(
        Flags,
        st.sampled_from([*Visibility, None]),
        st.sampled_from([*Readiness, None]),
        st.sampled_from([*PublicationState, None]),
        st.sampled_from([*RiskClass, None]),
        st.sampled_from([*Authority, None]),
    ),
    st.sampled_from([*LifecycleStage, None]),
    st.sampled_from([*DataClassification, None]),
)


@given(old=any_labels, new=any_labels)
def test_old_text_is_never_shown_to_a_reader_through_labels_of_new_text(
    old: Labels, new: Labels
) -> None:
    probes = probe_principals(POLICY)
    interim = interim_labels(old, new, probes, POLICY)
    shown = old if interim is None else interim
    for probe in probes:
        if visible(shown, probe, POLICY):
            assert visible(old, probe, POLICY)
            assert visible(new, probe, POLICY)


def test_a_change_that_takes_from_one_lane_and_gives_to_another_hides_the_old_text() -> None:
    interim = interim_labels(
        labels(Visibility.PARTNER), labels(Visibility.EMPLOYEE), probe_principals(POLICY), POLICY
    )
    assert interim == HIDDEN


def test_a_grant_leaves_the_old_text_as_it_is() -> None:
    probes = probe_principals(POLICY)
    assert (
        interim_labels(labels(Visibility.INTERNAL), labels(Visibility.PUBLIC), probes, POLICY)
        is None
    )


def test_a_revoke_that_only_a_permitted_agent_notices_is_still_a_revoke() -> None:
    item = owner("a", 1, 1, None)
    pointer = pointer_of(item, 1)
    stored = {pointer.point_ids(UNITS)[0]: labels(Visibility.RESTRICTED)}
    assert not visible(labels(Visibility.RESTRICTED), lane_principal(Audience.AI_AGENT), POLICY)
    assert plan_projection(UNITS, {"a": item}, {"a": pointer}, stored, POLICY).revoke == ("a",)


def test_revoked_owners_are_named_apart_from_granted_ones() -> None:
    wanted = {
        k: owner(k, 1, 1, v) for k, v in {"a": Visibility.INTERNAL, "b": Visibility.PUBLIC}.items()
    }
    pointers = {k: pointer_of(item, 1) for k, item in wanted.items()}
    stored = {
        pointers["a"].point_ids(UNITS)[0]: labels(Visibility.PUBLIC),
        pointers["b"].point_ids(UNITS)[0]: labels(Visibility.INTERNAL),
    }
    plan = plan_projection(UNITS, wanted, pointers, stored, POLICY)
    assert (plan.revoke, plan.relabel, plan.publish) == (("a",), ("b",), ())


def test_a_repair_order_writes_again_what_the_pointers_call_right() -> None:
    wanted = {k: owner(k, 1, 1, Visibility.PUBLIC) for k in "ab"}
    pointers = {k: pointer_of(item, 1) for k, item in wanted.items()}
    stored = {pointers[k].point_ids(UNITS)[0]: wanted[k].labels for k in "ab"}
    order = RepairOrder(rewrite=frozenset("a"), rebuild=frozenset("b"))
    plan = plan_projection(UNITS, wanted, pointers, stored, POLICY, repair=order)
    assert (plan.relabel, plan.publish) == (("a",), ("b",))


def test_an_owner_another_collection_takes_over_is_replaced_not_retired() -> None:
    pointers = {k: pointer_of(owner(k, 1, 1, Visibility.PUBLIC), 1) for k in "ab"}
    stored = {p.point_ids(UNITS)[0]: labels(Visibility.PUBLIC) for p in pointers.values()}
    plan = plan_projection(UNITS, {}, pointers, stored, POLICY, taken_over=frozenset("a"))
    assert (plan.replace, plan.retire) == (("a",), ("b",))


@pytest.mark.parametrize(
    ("retired", "published", "share", "stops"),
    [
        (2, 10, 0.2, False),
        (3, 10, 0.2, True),
        (10, 10, None, False),
        (0, 0, 0.2, False),
        (1, 1, 1.0, False),
    ],
)
def test_the_brake_stops_a_run_that_would_delete_more_than_its_share(
    retired: int, published: int, share: float | None, stops: bool
) -> None:
    plan = ProjectionPlan(UNITS, retire=tuple(str(i) for i in range(retired)))
    if stops:
        with pytest.raises(DeletionBrakeError, match="--allow-deletes"):
            check_deletion_brake(plan, published, share)
    else:
        check_deletion_brake(plan, published, share)


def test_an_empty_source_is_never_an_order_to_delete() -> None:
    check_source_is_not_empty(published=0, wanted=0)
    with pytest.raises(EmptySourceError):
        check_source_is_not_empty(published=1, wanted=0)
