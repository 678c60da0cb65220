"""A hub whose only interest is its labels, for tests of who sees what.

Belongs here: random labels (missing, unknown and badly cased ones too), policies and principals, and writing them to Postgres.
Does not belong here: expectations.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from threadhouse.retrieval.audience import (
    FILTERED_FIELDS,
    VOCABULARY,
    AudiencePolicy,
    Labels,
    LanePolicy,
)
from threadhouse.retrieval.models import Audience, Principal
from threadhouse.retrieval.payloads import labels_from_metadata

FLAGS = FILTERED_FIELDS[:5]
PERMISSIONS = ("read:drafts", "read:restricted", "read:confidential", "read:everything")
ROLES = ("author", "reviewer")
SCOPES = ("authoring", "reviewing")
WORDS = {name: sorted(words) for name, words in VOCABULARY.items()}
WRONG = ("Public", "PUBLISHED", " law", "unheard of", "")

RawLabels = Mapping[str, str | None]


@dataclass(frozen=True)
class LabelledUnit:
    """A unit with its own labels and those of its document, as they stand in the tables."""

    unit_id: str
    document_id: str
    own: RawLabels
    of_document: RawLabels

    @property
    def effective(self) -> RawLabels:
        """A missing flag is the document's; stage and classification are the unit's alone."""
        inherited = {n: self.of_document[n] if self.own[n] is None else self.own[n] for n in FLAGS}
        return {**self.own, **inherited}

    @property
    def labels(self) -> Labels:
        return labels_from_metadata(self.effective)


def random_word(rng: random.Random, name: str, missing: float) -> str | None:
    """Mostly a word that somebody may see, else any, a missing, a wrong or a badly cased one."""
    roll = rng.random()
    if roll < missing:
        return None
    if roll < missing + 0.02:
        return rng.choice(WRONG)
    if roll < missing + 0.04:
        return rng.choice(WORDS[name]).upper()
    return rng.choice(WORDS[name])


def random_labels(rng: random.Random, missing: float) -> dict[str, str | None]:
    return {name: random_word(rng, name, missing) for name in FILTERED_FIELDS}


def random_units(rng: random.Random, count: int) -> list[LabelledUnit]:
    documents = [random_labels(rng, 0.03) for _ in range(count // 4)]
    units: list[LabelledUnit] = []
    for number in range(count):
        document = rng.randrange(len(documents))
        # Half of the units have no flags of their own, as most units of a real hub.
        own = random_labels(rng, 1.0 if rng.random() < 0.5 else 0.03)
        for name in FILTERED_FIELDS[5:]:
            own[name] = random_word(rng, name, 0.03)
        units.append(LabelledUnit(f"u{number}", f"d{document}", own, documents[document]))
    return units


def random_list(rng: random.Random, name: str, share: float) -> frozenset[str]:
    words = {word for word in WORDS[name] if rng.random() < share}
    if rng.random() < 0.1:
        words |= {rng.choice(WRONG), rng.choice(WORDS[name]).upper()}
    return frozenset(words)


def random_lane(rng: random.Random) -> LanePolicy:
    share = rng.choice([0.5, 0.8, 0.95, 1.0])
    lists = {name: random_list(rng, name, share) for name in FILTERED_FIELDS}
    some = lambda of: frozenset(word for word in of if rng.random() < 0.5)  # noqa: E731
    return LanePolicy(
        **lists,
        permission_grants={
            permission: {
                name: random_list(rng, name, 0.4) for name in FILTERED_FIELDS if rng.random() < 0.3
            }
            for permission in some(PERMISSIONS)
        },
        role_grants={role: some((*PERMISSIONS, "read:unheard")) for role in some(ROLES)},
        task_scope_limits={scope: some(PERMISSIONS) for scope in some(SCOPES)},
    )


def random_policy(rng: random.Random, version: int) -> AudiencePolicy:
    lanes = {audience: random_lane(rng) for audience in Audience if rng.random() < 0.9}
    return AudiencePolicy(version, lanes)


def random_principal(rng: random.Random, audience: Audience) -> Principal:
    some = lambda of: frozenset(word for word in of if rng.random() < 0.4)  # noqa: E731
    return Principal(
        subject="somebody",
        audience=audience,
        roles=some((*ROLES, "unheard of")),
        task_scopes=some((*SCOPES, "unheard of")) if rng.random() < 0.4 else frozenset(),
        tool_permissions=some((*PERMISSIONS, "read:unheard", "Read:Drafts")),
        classifications=some(("unclassified", "confidential", "secret", "CONFIDENTIAL")),
        high_risk_consents=some(("*", "unit-1")),
    )


def drop_label_checks(connection: Connection[TupleRow]) -> None:
    """Let the tables hold any word, as those of an attached database may."""
    checks = connection.execute(
        """select format('alter table %s drop constraint %I', conrelid::regclass, conname)
           from pg_constraint
           where contype = 'c' and connamespace = 'public'::regnamespace
             and pg_get_constraintdef(oid)
               ~ 'visibility|readiness|publication_state|risk_class|authority|lifecycle_stage|data_classification|status'"""
    ).fetchall()
    for (statement,) in checks:
        connection.execute(statement.encode())
    for table in ("production_document", "tac_logical_unit"):
        connection.execute(
            f"alter table public.{table} alter data_classification drop not null".encode()
        )
    connection.execute("alter table public.tac_logical_unit alter lifecycle_stage drop not null")


def write_units(connection: Connection[TupleRow], units: Sequence[LabelledUnit]) -> None:
    documents = {unit.document_id: unit.of_document for unit in units}
    rows = [
        {
            "id": unit.unit_id,
            "document_id": unit.document_id,
            "version": str(uuid.uuid4()),
            **unit.own,
        }
        for unit in units
    ]
    connection.execute(
        """insert into public.production_document
           (document_id, path, title, body, language, visibility, readiness, publication_state, risk_class, authority
           , lifecycle_stage, data_classification)
           select r.id, r.id || '.md', 'Văn bản', 'x', 'vi', r.visibility, r.readiness, r.publication_state, r.risk_class
                , r.authority, r.lifecycle_stage, r.data_classification
           from jsonb_to_recordset(%s) as r (id text, visibility text, readiness text, publication_state text, risk_class text
           , authority text, lifecycle_stage text, data_classification text)""",
        (Jsonb([{"id": name, **labels} for name, labels in documents.items()]),),
    )
    connection.execute(
        """with r as materialized
           ( select * from jsonb_to_recordset(%s) as r (id text, document_id text, version uuid, visibility text, readiness text
             , publication_state text, risk_class text, authority text, lifecycle_stage text, data_classification text) )
           , u as
           ( insert into public.tac_logical_unit
             (logical_unit_id, document_id, canonical_address, unit_kind, current_version_id, visibility, readiness
             , publication_state, risk_class, authority, lifecycle_stage, data_classification)
             select id, document_id, id, 'law_unit', version, visibility, readiness, publication_state, risk_class, authority
                  , lifecycle_stage, data_classification from r )
           insert into public.tac_unit_version (unit_version_id, logical_unit_id, revision, title, body)
           select version, id, 1, 'Điều', 'Nội dung ' || id from r""",
        (Jsonb(rows),),
    )


def write_policy(connection: Connection[TupleRow], policy: AudiencePolicy) -> None:
    for audience, lane in policy.lanes.items():
        connection.execute(
            """insert into cong.audience_filter_policy
               (policy_version, audience, visibility, readiness, publication_state, risk_class, authority, lifecycle_stage
               , data_classification, permission_grants, role_grants, task_scope_limits)
               values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)""",
            (
                policy.version,
                audience,
                *(sorted(getattr(lane, name)) for name in FILTERED_FIELDS),
                Jsonb(
                    {
                        permission: {name: sorted(words) for name, words in grants.items()}
                        for permission, grants in lane.permission_grants.items()
                    }
                ),
                Jsonb({name: sorted(held) for name, held in lane.role_grants.items()}),
                Jsonb({name: sorted(held) for name, held in lane.task_scope_limits.items()}),
            ),
        )
