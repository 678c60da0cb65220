"""A policy as a file: what is read, what is refused and with which sentence, what a change is said to open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from threadhouse.retrieval.audience import FILTERED_FIELDS, AudiencePolicy, LanePolicy
from threadhouse.retrieval.errors import PolicyDocumentError
from threadhouse.retrieval.models import Audience
from threadhouse.retrieval.policy_documents import (
    MAX_CHARS,
    compare_policies,
    parse_policy,
    policy_to_json,
    render_policy,
)

LANE = LanePolicy(
    visibility=frozenset({"public"}),
    readiness=frozenset({"published"}),
    publication_state=frozenset({"published"}),
    risk_class=frozenset({"low", "standard"}),
    authority=frozenset({"enacted"}),
    lifecycle_stage=frozenset({"law"}),
    data_classification=frozenset({"unclassified"}),
)
AGENT = replace(
    LANE,
    permission_grants={
        "read:drafts": {"readiness": frozenset({"draft"})},
        "read:restricted": {"visibility": frozenset({"restricted"})},
    },
    role_grants={"author": frozenset({"read:drafts"})},
    task_scope_limits={"authoring": frozenset({"read:drafts"})},
)
POLICY = AudiencePolicy(3, {**dict.fromkeys(Audience, LANE), Audience.AI_AGENT: AGENT})
TEXT = render_policy(POLICY)


def changed(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new, 1)


def with_agent(lane: LanePolicy) -> AudiencePolicy:
    return AudiencePolicy(4, {**POLICY.lanes, Audience.AI_AGENT: lane})


def test_what_is_shown_can_be_applied() -> None:
    document = parse_policy(TEXT)
    assert document.made_from == POLICY.version
    assert document.as_version(POLICY.version) == POLICY


def test_json_is_read_as_well() -> None:
    import json

    assert parse_policy(json.dumps(policy_to_json(POLICY))).lanes == POLICY.lanes


def test_a_policy_need_not_say_what_it_was_made_from() -> None:
    assert parse_policy(changed("policy_version: 3\n", "")).made_from is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(
            changed("visibility: [public]", "visibility: [Public]"),
            "customer, visibility: 'Public' is no word of it; use 'public', 'partner', 'employee', 'internal' or 'restricted'.",
            id="another case",
        ),
        pytest.param(
            changed("visibility: [public]", "visibility: public"),
            "customer, visibility: Input should be a valid tuple; compare its form with threadhouse policy show.",
            id="no list",
        ),
        pytest.param(
            changed("authority: [enacted]", "colour: [enacted]"),
            "customer: authority is missing; give the list of its words, an empty one when nothing is allowed.",
            id="missing field",
        ),
        pytest.param(
            changed("    authority: [enacted]", "    colour: [red]\n    authority: [enacted]"),
            "customer, colour is nothing that a policy has; take it out, or compare its spelling with threadhouse policy show.",
            id="unknown field",
        ),
        pytest.param(
            changed("  customer:", "  clients:"),
            "'clients' is no audience; the audiences are 'customer', 'partner', 'employee' or 'ai_agent'.",
            id="unknown audience",
        ),
        pytest.param(
            TEXT[: TEXT.index("  partner:")],
            "The policy says nothing about partner; name every audience, with empty lists if need be.",
            id="missing audience",
        ),
        pytest.param(
            changed(
                "data_classification: [unclassified]", "data_classification: [unclassified, secret]"
            ),
            "customer: data classification secret is shown to nobody, so no policy can open it; take it out.",
            id="secret",
        ),
        pytest.param(
            changed("readiness: [draft]", "data_classification: [blocked]"),
            "ai_agent, read:drafts: data classification blocked is shown to nobody, so no policy can open it; take it out.",
            id="blocked by a permission",
        ),
        pytest.param(
            changed("risk_class: [low, standard]", "risk_class: [low, standard, high]"),
            "customer: risk class high takes a consent, so no policy can open it; take it out.",
            id="high risk",
        ),
        pytest.param(
            changed("author: ['read:drafts']", "author: ['read:all']"),
            "ai_agent: role author names read:all, which is no permission of ai_agent; define it under permissions, or "
            "take it out.",
            id="a role with an unknown permission",
        ),
        pytest.param(
            changed("author: [", "'': ["),
            "ai_agent: '' cannot be the name of a role; use up to 200 visible characters.",
            id="a role without a name",
        ),
        pytest.param(
            changed("  partner:", "  customer:"),
            "The policy cannot be read (line 14): customer stands twice; correct it, or start from threadhouse policy show.",
            id="a name twice",
        ),
        pytest.param(
            changed("visibility: [public]", "visibility: &a [public]").replace(
                "visibility: [public]", "visibility: *a"
            ),
            "The policy cannot be read (line 15): a policy has no references; correct it, or start from threadhouse policy show.",
            id="references",
        ),
        pytest.param(
            "audiences: [",
            "The policy cannot be read (line 1): expected the node content, but found '<stream end>'; correct it, or start from "
            "threadhouse policy show.",
            id="no YAML",
        ),
        pytest.param(
            "",
            "A policy begins with audiences:, and names each of them; start from threadhouse policy show.",
            id="nothing",
        ),
        pytest.param(
            "policy_version: 1",
            "A policy begins with audiences:, and names each of them; start from threadhouse policy show.",
            id="no audiences",
        ),
        pytest.param(
            "#" * (MAX_CHARS + 1),
            "A policy has at most 200,000 characters; this is another file.",
            id="another file",
        ),
        pytest.param(
            "a: \x00",
            "The policy cannot be read: it is no YAML; correct it, or start from threadhouse policy show.",
            id="a NUL byte",
        ),
        pytest.param(
            "[" * 50_000,
            "The policy cannot be read (line 1): it is nested too deeply; correct it, or start from threadhouse policy show.",
            id="nested too deep",
        ),
    ],
)
def test_what_is_no_policy_is_refused_with_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(PolicyDocumentError) as refusal:
        parse_policy(text)
    assert str(refusal.value) == sentence


def test_nothing_is_said_of_a_policy_that_changes_nothing() -> None:
    diff = compare_policies(POLICY, AudiencePolicy(4, POLICY.lanes))
    assert diff.is_empty
    assert diff.render() == "Nothing changes for anybody."


def test_a_change_says_who_sees_more_and_who_sees_less() -> None:
    customer = replace(LANE, visibility=frozenset({"public", "internal"}), readiness=frozenset())
    new = AudiencePolicy(4, {**POLICY.lanes, Audience.CUSTOMER: customer})
    assert compare_policies(POLICY, new).render().splitlines() == [
        "customer",
        "  + visibility: internal",
        "  - readiness: published",
        "This widens what customer may see.",
    ]


@pytest.mark.parametrize(
    ("lane", "widens", "narrows"),
    [
        pytest.param(
            replace(AGENT, role_grants={"author": frozenset({"read:drafts", "read:restricted"})}),
            ["permission read:restricted, with role author"],
            [],
            id="a role gains a permission",
        ),
        pytest.param(
            replace(AGENT, role_grants={}),
            [],
            ["permission read:drafts, with role author"],
            id="a role goes",
        ),
        pytest.param(
            replace(AGENT, task_scope_limits={"authoring": frozenset({"read:restricted"})}),
            ["permission read:restricted, with task scope authoring"],
            ["permission read:drafts, with task scope authoring"],
            id="a task scope names another permission",
        ),
        pytest.param(
            replace(AGENT, readiness=frozenset({"published", "draft"})),
            ["readiness: draft"],
            [],
            id="everybody gets what a permission gave",
        ),
        pytest.param(
            replace(
                AGENT,
                permission_grants={
                    **AGENT.permission_grants,
                    "read:code": {"lifecycle_stage": frozenset({"code"})},
                },
            ),
            ["lifecycle stage: code, with permission read:code"],
            [],
            id="a new permission",
        ),
        pytest.param(
            replace(
                AGENT,
                permission_grants={
                    **AGENT.permission_grants,
                    "read:laws": {"lifecycle_stage": frozenset({"law"})},
                },
            ),
            [],
            [],
            id="a new permission for what everybody sees",
        ),
        pytest.param(
            replace(
                AGENT,
                **{
                    name: getattr(AGENT, name) | {"Everything", "secret", "high"}
                    for name in FILTERED_FIELDS
                },
            ),
            [],
            [],
            id="words that open nothing",
        ),
    ],
)
def test_a_change_is_told_for_each_way_to_hold_it(
    lane: LanePolicy, widens: list[str], narrows: list[str]
) -> None:
    diff = compare_policies(POLICY, with_agent(lane))
    assert ([str(c) for c in diff.widens], [str(c) for c in diff.narrows]) == (widens, narrows)


def test_an_audience_that_had_no_row_gains_everything_it_gets() -> None:
    old = AudiencePolicy(
        3, {a: lane for a, lane in POLICY.lanes.items() if a is not Audience.PARTNER}
    )
    diff = compare_policies(old, POLICY)
    assert {change.audience for change in diff.widens} == {Audience.PARTNER}
    assert not diff.narrows
