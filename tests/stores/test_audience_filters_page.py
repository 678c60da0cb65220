"""The truth table of "audience-filters.md" is what the code decides, value by value."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

from threadhouse.retrieval.audience import (
    FILTERED_FIELDS,
    HIGH_RISK_CONSENT,
    AudiencePolicy,
    lane_principal,
    visible,
)
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    DataClassification,
    LifecycleStage,
    Principal,
    PublicationState,
    Readiness,
    RiskClass,
    Visibility,
)
from threadhouse.retrieval.payloads import labels_from_metadata
from threadhouse.stores.audience_policy import read_audience_policy
from threadhouse.stores.postgres import Database

PAGE = (Path(__file__).parents[2] / "docs" / "audience-filters.md").read_text(encoding="utf-8")

SEEN_BY_ALL = {
    "visibility": "public",
    "readiness": "published",
    "publication_state": "published",
    "risk_class": "standard",
    "authority": "enacted",
    "lifecycle_stage": "law",
    "data_classification": "unclassified",
}
WORDS = {
    "visibility": [*Visibility],
    "readiness": [*Readiness],
    "publication_state": [*PublicationState],
    "risk_class": [*RiskClass],
    "authority": [*Authority],
    "lifecycle_stage": [*LifecycleStage],
    "data_classification": [*DataClassification],
}
MISSING, UNKNOWN = "missing", "any other word"


def answer(field: str, word: str, audience: Audience, policy: AudiencePolicy) -> str:
    """What it takes to see a unit that everybody sees but for one label."""
    labels: dict[str, str | None] = {**SEEN_BY_ALL, field: word}
    if word == MISSING:
        labels[field] = None
    elif word == UNKNOWN:
        labels[field] = SEEN_BY_ALL[field].upper()
    plain = lane_principal(audience)
    permissions = sorted(policy.lanes[audience].permission_grants)
    for permission, is_consenting, is_cleared in product(
        ["", *permissions], [False, True], [False, True]
    ):
        who = Principal(
            subject=plain.subject,
            audience=audience,
            tool_permissions=frozenset({permission} if permission else ()),
            classifications=frozenset(DataClassification if is_cleared else ()),
            high_risk_consents=frozenset({HIGH_RISK_CONSENT} if is_consenting else ()),
        )
        if visible(labels_from_metadata(labels), who, policy):
            needed = [
                f"`{permission}`" if permission else "",
                "a consent" if is_consenting else "",
                "a clearance" if is_cleared else "",
            ]
            return " and ".join(part for part in needed if part) or "yes"
    return "no"


def computed(policy: AudiencePolicy) -> list[list[str]]:
    return [
        [f"`{field}`", word, *(answer(field, word, audience, policy) for audience in Audience)]
        for field in FILTERED_FIELDS
        for word in [*WORDS[field], MISSING, UNKNOWN]
    ]


def test_the_truth_table_of_the_page_is_what_the_code_decides(database: Database) -> None:
    """Reads "audience-filters.md"."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.splitlines()
        if line.startswith("| `")
    ]
    with database.connect() as connection:
        policy = read_audience_policy(connection)
    assert [row for row in rows if len(row) == 2 + len(Audience)] == computed(policy)


def test_the_roles_and_task_scopes_of_the_page_are_those_that_ship(database: Database) -> None:
    """Reads "audience-filters.md"."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.splitlines()
        if line.startswith("| role ") or line.startswith("| task scope ")
    ]
    with database.connect() as connection:
        lane = read_audience_policy(connection).lanes[Audience.AI_AGENT]
    shipped = [
        [f"{kind} `{name}`", ", ".join(f"`{permission}`" for permission in sorted(held))]
        for kind, holders in (("role", lane.role_grants), ("task scope", lane.task_scope_limits))
        for name, held in sorted(holders.items())
    ]
    assert rows == shipped


def test_no_two_fields_make_up_for_each_other(database: Database) -> None:
    """AND between fields: a permission for one label leaves another that hides."""
    with database.connect() as connection:
        policy = read_audience_policy(connection)
    agent = replace(lane_principal(Audience.AI_AGENT), tool_permissions=frozenset({"read:drafts"}))
    draft = labels_from_metadata({**SEEN_BY_ALL, "readiness": "draft"})
    incident = labels_from_metadata(
        {**SEEN_BY_ALL, "readiness": "draft", "lifecycle_stage": "incident"}
    )
    assert visible(draft, agent, policy)
    assert not visible(incident, agent, policy)
