"""What holds for every policy, principal and label: the guardrail of D11 §4.10."""

from __future__ import annotations

from dataclasses import fields, replace

from hypothesis import assume, given
from hypothesis import strategies as st

from threadhouse.retrieval.audience import (
    FILTERED_FIELDS,
    HIGH_RISK_CONSENT,
    NEVER_SHOWN,
    AudiencePolicy,
    Labels,
    LanePolicy,
    allowed_values,
    vector_filter,
    visible,
)
from threadhouse.retrieval.lanes import flags_leave_open, strictest_labels
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
from threadhouse.retrieval.payloads import label_fields

VOCABULARY: dict[str, list[str]] = {
    "visibility": list(Visibility),
    "readiness": list(Readiness),
    "publication_state": list(PublicationState),
    "risk_class": list(RiskClass),
    "authority": list(Authority),
    "lifecycle_stage": list(LifecycleStage),
    "data_classification": list(DataClassification),
}
PERMISSIONS = ["read:drafts", "read:restricted", "read:everything", "read:unknown"]


def some(words: list[str]) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(words))


def mostly(words: list[str]) -> st.SearchStrategy[frozenset[str]]:
    """Often everything, so that the conjunction of seven fields is often true."""
    return st.one_of(st.just(frozenset(words)), some(words))


flags = st.builds(
    Flags,
    visibility=st.none() | st.sampled_from(Visibility),
    readiness=st.none() | st.sampled_from(Readiness),
    publication_state=st.none() | st.sampled_from(PublicationState),
    risk_class=st.none() | st.sampled_from(RiskClass),
    authority=st.none() | st.sampled_from(Authority),
)
labels = st.builds(
    Labels,
    flags=flags,
    lifecycle_stage=st.none() | st.sampled_from(LifecycleStage),
    data_classification=st.none() | st.sampled_from(DataClassification),
)
ROLES = ["author", "reviewer"]
SCOPES = ["authoring", "reviewing"]
permission_sets = st.dictionaries(st.sampled_from(ROLES + SCOPES), some(PERMISSIONS), max_size=3)
grants = st.dictionaries(
    st.sampled_from(PERMISSIONS),
    st.fixed_dictionaries({}, optional={name: some(words) for name, words in VOCABULARY.items()}),
    max_size=2,
)
lanes = st.builds(
    LanePolicy,
    **{name: mostly(words) for name, words in VOCABULARY.items()},
    permission_grants=grants,
    role_grants=permission_sets,
    task_scope_limits=permission_sets,
)
policies = st.builds(
    AudiencePolicy,
    version=st.integers(1, 9),
    lanes=st.dictionaries(st.sampled_from(Audience), lanes),
)
principals = st.builds(
    Principal,
    subject=st.just("somebody"),
    audience=st.sampled_from(Audience),
    tool_permissions=some(PERMISSIONS),
    roles=some(ROLES),
    task_scopes=st.just(frozenset[str]()) | some(SCOPES),
    classifications=some(["unclassified", "confidential", "secret", "unheard of"]),
    high_risk_consents=some(["*", "unit-1"]),
)


@st.composite
def readable(draw: st.DrawFn) -> tuple[Labels, Principal, AudiencePolicy]:
    """Labels, a principal and a policy under which it is visible: the interesting half, by construction."""
    principal = replace(draw(principals), classifications=frozenset({"confidential"}))
    lane = draw(lanes)
    consents = HIGH_RISK_CONSENT in principal.high_risk_consents
    value_of = {
        name: draw(
            st.sampled_from(
                [w for w in words if w not in NEVER_SHOWN and (w != "high" or consents)]
            )
        )
        for name, words in VOCABULARY.items()
    }
    lane = replace(lane, **{n: getattr(lane, n) | {v} for n, v in value_of.items()})
    shown = Labels(
        Flags(
            Visibility(value_of["visibility"]),
            Readiness(value_of["readiness"]),
            PublicationState(value_of["publication_state"]),
            RiskClass(value_of["risk_class"]),
            Authority(value_of["authority"]),
        ),
        LifecycleStage(value_of["lifecycle_stage"]),
        DataClassification(value_of["data_classification"]),
    )
    return shown, principal, AudiencePolicy(1, {principal.audience: lane})


def without(given_labels: Labels, name: str) -> Labels:
    if name in {f.name for f in fields(Flags)}:
        return replace(given_labels, flags=replace(given_labels.flags, **{name: None}))
    return replace(given_labels, **{name: None})


def matches(payload: dict[str, object], where: AllOf) -> bool:
    """What every engine does with an AllOf: each field present and among the given values."""
    return all(
        payload.get(key.removeprefix("metadata.")) in values for key, values in where.allowed
    )


@given(given_labels=labels, principal=principals, policy=policies)
def test_the_vector_filter_admits_exactly_what_the_predicate_admits(
    given_labels: Labels, principal: Principal, policy: AudiencePolicy
) -> None:
    payload = {k: v for k, v in label_fields(given_labels).items() if v is not None}
    expected = visible(given_labels, principal, policy)
    assert matches(dict(payload), vector_filter(principal, policy)) is expected


@given(case=readable())
def test_the_vector_filter_admits_what_the_predicate_admits(
    case: tuple[Labels, Principal, AudiencePolicy],
) -> None:
    given_labels, principal, policy = case
    assert visible(given_labels, principal, policy)
    assert matches(dict(label_fields(given_labels)), vector_filter(principal, policy))


@given(principal=principals, policy=policies)
def test_the_vector_filter_asks_for_every_deciding_field(
    principal: Principal, policy: AudiencePolicy
) -> None:
    asked = {key for key, _ in vector_filter(principal, policy).allowed}
    assert asked == {f"metadata.{name}" for name in FILTERED_FIELDS}


@given(case=readable(), name=st.sampled_from(FILTERED_FIELDS))
def test_a_missing_label_hides(case: tuple[Labels, Principal, AudiencePolicy], name: str) -> None:
    given_labels, principal, policy = case
    assert not visible(without(given_labels, name), principal, policy)


@given(
    given_labels=labels,
    principal=principals,
    policy=policies,
    hidden=st.sampled_from(sorted(NEVER_SHOWN)),
)
def test_secret_and_blocked_are_shown_to_nobody(
    given_labels: Labels, principal: Principal, policy: AudiencePolicy, hidden: str
) -> None:
    secret = replace(given_labels, data_classification=DataClassification(hidden))
    assert not visible(secret, principal, policy)


@given(case=readable(), hidden=st.sampled_from(sorted(NEVER_SHOWN)))
def test_no_policy_opens_secret_and_blocked(
    case: tuple[Labels, Principal, AudiencePolicy], hidden: str
) -> None:
    given_labels, principal, policy = case
    everything = frozenset(DataClassification)
    lane = replace(
        policy.lanes[principal.audience],
        data_classification=everything,
        permission_grants={p: {"data_classification": everything} for p in PERMISSIONS},
    )
    open_policy = AudiencePolicy(1, {principal.audience: lane})
    secret = replace(given_labels, data_classification=DataClassification(hidden))
    assert not visible(secret, principal, open_policy)


@given(given_labels=labels, principal=principals, policy=policies, data=st.data())
def test_taking_a_value_out_of_a_policy_never_shows_more(
    given_labels: Labels, principal: Principal, policy: AudiencePolicy, data: st.DataObject
) -> None:
    assume(principal.audience in policy.lanes)
    lane = policy.lanes[principal.audience]
    name = data.draw(st.sampled_from(FILTERED_FIELDS))
    gone = data.draw(st.sampled_from(VOCABULARY[name]))
    narrower = AudiencePolicy(
        policy.version,
        {**policy.lanes, principal.audience: replace(lane, **{name: getattr(lane, name) - {gone}})},
    )
    assert not visible(given_labels, principal, narrower) or visible(
        given_labels, principal, policy
    )


@given(case=readable(), name=st.sampled_from(FILTERED_FIELDS))
def test_taking_the_needed_value_out_of_a_policy_hides(
    case: tuple[Labels, Principal, AudiencePolicy], name: str
) -> None:
    given_labels, principal, policy = case
    bare = replace(
        principal,
        roles=frozenset(),
        tool_permissions=frozenset(),
        high_risk_consents=frozenset(),
    )
    lane = policy.lanes[principal.audience]
    narrower = replace(lane, **{name: getattr(lane, name) - {given_labels.value(name)}})
    assert not visible(given_labels, bare, AudiencePolicy(1, {bare.audience: narrower}))


@given(given_labels=labels, principal=principals, policy=policies, data=st.data())
def test_taking_a_permission_or_consent_away_never_shows_more(
    given_labels: Labels, principal: Principal, policy: AudiencePolicy, data: st.DataObject
) -> None:
    fewer = replace(
        principal,
        tool_permissions=data.draw(some(PERMISSIONS)) & principal.tool_permissions,
        high_risk_consents=data.draw(some(["*"])) & principal.high_risk_consents,
    )
    assert not visible(given_labels, fewer, policy) or visible(given_labels, principal, policy)


@given(given_labels=labels, principal=principals, policy=policies)
def test_an_audience_without_a_policy_row_sees_nothing(
    given_labels: Labels, principal: Principal, policy: AudiencePolicy
) -> None:
    others = {a: lane for a, lane in policy.lanes.items() if a is not principal.audience}
    assert not visible(given_labels, principal, AudiencePolicy(policy.version, others))


@given(case=readable())
def test_high_risk_takes_a_consent_whatever_the_policy_says(
    case: tuple[Labels, Principal, AudiencePolicy],
) -> None:
    given_labels, principal, policy = case
    everything = frozenset(RiskClass)
    lane = replace(
        policy.lanes[principal.audience],
        risk_class=everything,
        permission_grants={p: {"risk_class": everything} for p in PERMISSIONS},
    )
    risky = replace(given_labels, flags=replace(given_labels.flags, risk_class=RiskClass.HIGH))
    open_policy = AudiencePolicy(1, {principal.audience: lane})
    assert not visible(risky, replace(principal, high_risk_consents=frozenset()), open_policy)
    consenting = replace(principal, high_risk_consents=frozenset({HIGH_RISK_CONSENT}))
    allowed = allowed_values(consenting, open_policy)
    assert "high" in allowed["risk_class"]


@given(case=readable())
def test_classified_material_takes_a_clearance_whatever_the_policy_says(
    case: tuple[Labels, Principal, AudiencePolicy],
) -> None:
    given_labels, principal, policy = case
    lane = replace(
        policy.lanes[principal.audience], data_classification=frozenset(DataClassification)
    )
    classified = replace(given_labels, data_classification=DataClassification.CONFIDENTIAL)
    open_policy = AudiencePolicy(1, {principal.audience: lane})
    uncleared = replace(principal, classifications=frozenset({"unclassified"}))
    assert not visible(classified, uncleared, open_policy)
    assert visible(classified, principal, open_policy) == visible(
        replace(classified, data_classification=DataClassification.UNCLASSIFIED),
        principal,
        open_policy,
    )


@given(principal=principals, policy=policies, role=st.sampled_from(ROLES))
def test_a_role_holds_its_permissions_and_nothing_else(
    principal: Principal, policy: AudiencePolicy, role: str
) -> None:
    assume(principal.audience in policy.lanes)
    lane = policy.lanes[principal.audience]
    by_role = replace(principal, roles=frozenset({role}), tool_permissions=frozenset())
    by_permission = replace(
        principal, roles=frozenset(), tool_permissions=lane.role_grants.get(role, frozenset())
    )
    assert allowed_values(by_role, policy) == allowed_values(by_permission, policy)


@given(principal=principals, policy=policies, scope=st.sampled_from([*SCOPES, "unheard of"]))
def test_a_task_scope_only_takes_away(
    principal: Principal, policy: AudiencePolicy, scope: str
) -> None:
    unlimited = allowed_values(replace(principal, task_scopes=frozenset()), policy)
    limited = allowed_values(replace(principal, task_scopes=frozenset({scope})), policy)
    assert all(limited[name] <= unlimited[name] for name in FILTERED_FIELDS)


@given(principal=principals, policy=policies)
def test_an_unknown_task_scope_leaves_the_lane_as_it_is(
    principal: Principal, policy: AudiencePolicy
) -> None:
    lost = replace(principal, task_scopes=frozenset({"unheard of"}))
    bare = replace(
        principal, task_scopes=frozenset(), roles=frozenset(), tool_permissions=frozenset()
    )
    assert allowed_values(lost, policy) == allowed_values(bare, policy)


@given(principal=principals, policy=policies)
def test_words_outside_the_vocabulary_are_in_no_list(
    principal: Principal, policy: AudiencePolicy
) -> None:
    lanes_with_noise = {
        audience: replace(
            lane, **{n: getattr(lane, n) | {"Public", "", "all"} for n in FILTERED_FIELDS}
        )
        for audience, lane in policy.lanes.items()
    }
    noisy = AudiencePolicy(policy.version, lanes_with_noise)
    assert allowed_values(principal, noisy) == allowed_values(principal, policy)


@given(case=readable(), data=st.data())
def test_the_strictest_labels_of_visible_things_are_visible(
    case: tuple[Labels, Principal, AudiencePolicy], data: st.DataObject
) -> None:
    _, principal, policy = case
    allowed = allowed_values(principal, policy)
    members = [
        Labels(
            Flags(
                Visibility(data.draw(st.sampled_from(sorted(allowed["visibility"])))),
                Readiness(data.draw(st.sampled_from(sorted(allowed["readiness"])))),
                PublicationState(data.draw(st.sampled_from(sorted(allowed["publication_state"])))),
                RiskClass(data.draw(st.sampled_from(sorted(allowed["risk_class"])))),
                Authority(data.draw(st.sampled_from(sorted(allowed["authority"])))),
            ),
            LifecycleStage(data.draw(st.sampled_from(sorted(allowed["lifecycle_stage"])))),
            DataClassification(data.draw(st.sampled_from(sorted(allowed["data_classification"])))),
        )
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    own = replace(members[0].flags, readiness=None)
    assert visible(strictest_labels(members, own), principal, policy)


@given(case=readable())
def test_the_strictest_labels_of_one_visible_thing_are_its_own(
    case: tuple[Labels, Principal, AudiencePolicy],
) -> None:
    given_labels, principal, policy = case
    assert strictest_labels([given_labels], Flags()) == given_labels
    assert flags_leave_open(given_labels.flags, principal, policy)


@given(given_flags=flags, principal=principals, policy=policies)
def test_a_threads_flags_close_exactly_when_one_that_is_set_is_not_allowed(
    given_flags: Flags, principal: Principal, policy: AudiencePolicy
) -> None:
    allowed = allowed_values(principal, policy)
    own = {f.name: getattr(given_flags, f.name) for f in fields(Flags)}
    refused = [
        name for name, value in own.items() if value is not None and value not in allowed[name]
    ]
    assert flags_leave_open(given_flags, principal, policy) is not bool(refused)
