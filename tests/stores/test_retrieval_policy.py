"""The numbers of thread resolution as rows: which one is in force, and how a new version comes about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from resolution_house import POLICY
from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.stores.embedders import find_model, space_of
from threadhouse.stores.postgres import Database
from threadhouse.stores.retrieval_policy import read_retrieval_policy, write_retrieval_policy


def test_the_offline_model_has_a_row_of_its_own(database: Database, model_home: Path) -> None:
    _, manifest = find_model(model_home)
    space_id = space_of(manifest).space_id
    with database.connect() as connection:
        assert read_retrieval_policy(connection, space_id).space_id == space_id


def test_a_space_without_a_row_gets_the_one_for_every_space(database: Database) -> None:
    with database.connect() as connection:
        policy = read_retrieval_policy(connection, "unknown-768-abc")
    assert (policy.space_id, policy.scales) == ("", {})


def test_what_was_written_is_in_force(database: Database) -> None:
    with database.connect() as connection:
        version = write_retrieval_policy(connection, replace(POLICY, space_id="s"), {"queries": 7})
        stored = read_retrieval_policy(connection, "s")
    assert stored == replace(POLICY, space_id="s", version=version)


def test_a_new_version_carries_over_the_rows_of_other_spaces(database: Database) -> None:
    with database.connect() as connection:
        before = read_retrieval_policy(connection, "")
        write_retrieval_policy(connection, replace(POLICY, space_id="s"), {})
        version = write_retrieval_policy(connection, replace(POLICY, space_id="t"), {})
        assert read_retrieval_policy(connection, "") == replace(before, version=version)
        assert read_retrieval_policy(connection, "s").version == version


def test_versions_only_grow(database: Database) -> None:
    with database.connect() as connection:
        versions = [write_retrieval_policy(connection, POLICY, {}) for _ in range(3)]
    assert versions == sorted(set(versions))


def test_a_version_that_is_activated_later_is_not_in_force_yet(database: Database) -> None:
    with database.connect() as connection:
        before = read_retrieval_policy(connection, "")
        write_retrieval_policy(connection, POLICY, {})
        connection.execute(
            "update cong.retrieval_policy set activated_at = now() + interval '1 day' where policy_version > %s",
            (before.version,),
        )
        assert read_retrieval_policy(connection, "") == before


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("coefficients", '{"same:magic": 1}'),
        ("coefficients", '{"label": "much"}'),
        ("scales", '{"dense": [0.8, 0]}'),
        ("ranking", '{"recency": 1}'),
    ],
)
def test_a_row_that_cannot_be_read_is_named(database: Database, column: str, value: str) -> None:
    from psycopg import sql

    statement = sql.SQL("update cong.retrieval_policy set {} = %s::jsonb")
    with database.connect() as connection:
        connection.execute(statement.format(sql.Identifier(column)), (value,))
        with pytest.raises(
            ConfigurationError, match=r"cong\.retrieval_policy version 2 .* cannot be read"
        ):
            read_retrieval_policy(connection, "")


def test_a_table_without_rows_says_what_to_do(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("delete from cong.retrieval_policy")
        with pytest.raises(ConfigurationError, match="insert one"):
            read_retrieval_policy(connection, "")
