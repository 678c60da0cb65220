"""The predicate, the vector filter, the SQL condition and the database roles give one answer.

Each case is a unit with its labels, a principal and a policy. Cases are asked for in bulk: thousands of labelled units for each
principal under each policy, so that a hundred thousand take seconds.
"""

from __future__ import annotations

import random
import uuid
from pathlib import Path

import numpy as np
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from label_house import (
    LabelledUnit,
    drop_label_checks,
    random_policy,
    random_principal,
    random_units,
    write_policy,
    write_units,
)
from threadhouse.retrieval.audience import (
    AudiencePolicy,
    allowed_values,
    vector_filter,
    visible,
)
from threadhouse.retrieval.models import (
    Audience,
    Principal,
    SparseVector,
    VectorPoint,
    VectorSpace,
)
from threadhouse.retrieval.ports import VectorSearcher
from threadhouse.stores.knowledge import KnowledgeReader
from threadhouse.stores.postgres import Database
from threadhouse.stores.reader_roles import begin_reading
from threadhouse.stores.vectors import open_reader, open_writer

SPACE = VectorSpace(
    name="labels",
    model="test/labels",
    weights_sha256="0" * 64,
    tokenizer_sha256="1" * 64,
    dim=4,
    max_tokens=16,
    pooling="mean",
    query_prefix="",
    passage_prefix="",
    space_id="labels-4-abc123",
)
COLLECTION = "information_units"

SQL_CONDITION = """
select logical_unit_id from source.information_unit
where cong.sees(visibility, readiness, publication_state, risk_class, authority, lifecycle_stage, data_classification
  , cong.allowed_labels(%(visibility)s, %(readiness)s, %(publication_state)s, %(risk_class)s, %(authority)s, %(lifecycle_stage)s
    , %(data_classification)s))
"""


def publish(home: Path, units: list[LabelledUnit]) -> None:
    """Points that carry the words as they are, a missing one not at all."""
    with open_writer(home=home, lock_timeout_s=10) as store:
        physical = store.ensure_collection(COLLECTION, SPACE)
        store.upsert(
            physical,
            SPACE.space_id,
            [
                VectorPoint(
                    point_id=uuid.uuid4(),
                    dense=np.array([1, 0, 0, 0], np.float32),
                    bm25_accented=SparseVector(),
                    bm25_folded=SparseVector(),
                    payload={
                        "unit_id": unit.unit_id,
                        "metadata": {n: w for n, w in unit.effective.items() if w is not None},
                    },
                )
                for unit in units
            ],
        )
        store.publish(physical)


def by_predicate(units: list[LabelledUnit], who: Principal, policy: AudiencePolicy) -> set[str]:
    return {unit.unit_id for unit in units if visible(unit.labels, who, policy)}


def by_vector_filter(store: VectorSearcher, who: Principal, policy: AudiencePolicy) -> set[str]:
    return {
        str(point.payload["unit_id"])
        for point in store.scroll(COLLECTION, vector_filter(who, policy))
    }


def by_sql_condition(
    connection: Connection[TupleRow], who: Principal, policy: AudiencePolicy
) -> set[str]:
    lists = {name: sorted(values) for name, values in allowed_values(who, policy).items()}
    return {row[0] for row in connection.execute(SQL_CONDITION, lists)}


def by_database_role(connection: Connection[TupleRow], who: Principal) -> set[str]:
    with connection.transaction(force_rollback=True):
        begin_reading(connection, who)
        return {
            row[0]
            for row in connection.execute("select logical_unit_id from visible.information_unit")
        }


def by_row_level_security(connection: Connection[TupleRow], who: Principal) -> set[str]:
    with connection.transaction(force_rollback=True):
        begin_reading(connection, who)
        return {
            row[0]
            for row in connection.execute("select logical_unit_id from public.tac_logical_unit")
        }


@pytest.mark.parametrize(
    ("unit_count", "policy_count", "principals_of_each"),
    [
        pytest.param(400, 4, 2, id="12,800 cases"),
        pytest.param(1600, 8, 3, id="153,600 cases", marks=pytest.mark.slow),
    ],
)
def test_all_enforcers_give_one_answer(
    database: Database, tmp_path: Path, unit_count: int, policy_count: int, principals_of_each: int
) -> None:
    rng = random.Random(20261130 + unit_count)
    units = random_units(rng, unit_count)
    publish(tmp_path, units)
    cases = seen = 0
    with database.connect() as connection:
        drop_label_checks(connection)
        write_units(connection, units)
        # The tables are fenced as well; a lane has no rights on them unless somebody gives it some.
        connection.execute(
            "grant select on public.tac_logical_unit to threadhouse_customer, threadhouse_ai_agent"
        )
        connection.commit()
        with open_reader(home=tmp_path) as store:
            for version in range(2, 2 + policy_count):
                policy = random_policy(rng, version)
                write_policy(connection, policy)
                connection.commit()
                if policy.lanes:
                    assert KnowledgeReader(connection).policy() == policy
                for audience in Audience:
                    for number in range(principals_of_each):
                        who = random_principal(rng, audience)
                        expected = by_predicate(units, who, policy)
                        case = (version, who)
                        assert by_vector_filter(store, who, policy) == expected, case
                        assert by_sql_condition(connection, who, policy) == expected, case
                        assert by_database_role(connection, who) == expected, case
                        if number == 0 and audience in {Audience.CUSTOMER, Audience.AI_AGENT}:
                            assert by_row_level_security(connection, who) == expected, case
                        cases += len(units)
                        seen += len(expected)
    assert cases == unit_count * policy_count * principals_of_each * len(Audience)
    # Neither everything nor nothing: else agreement would say little.
    assert 0.02 < seen / cases < 0.6
