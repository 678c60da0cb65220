"""A connection is set up the same way everywhere, and a failure never shows a password."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from threadhouse.retrieval.errors import StoreUnreachableError
from threadhouse.stores import postgres, queries
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings


def test_an_unreachable_server_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres, "CONNECT_RETRY_S", 0.0)
    monkeypatch.setenv("DATABASE_URL", "postgresql://someone:hunter2@127.0.0.1:1/hub")
    with pytest.raises(StoreUnreachableError) as caught:
        Database.open(Settings.from_environment())
    message = str(caught.value)
    assert message.startswith("PostgreSQL at someone@127.0.0.1:1/hub cannot be reached: ")
    assert "check DATABASE_URL" in message
    assert "hunter2" not in message
    assert "\n" not in message


def test_a_database_does_not_show_its_password() -> None:
    shown = repr(Database("postgresql://someone:hunter2@host/hub", is_embedded=False))
    assert "hunter2" not in shown


def test_instants_come_back_in_utc_whatever_the_client_is_set_to(
    empty_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGTZ", "Asia/Ho_Chi_Minh")
    statement = "select timestamptz '2026-03-01 07:00+07'"
    with empty_database.connect() as connection:
        assert connection.execute(statement).fetchone() == (datetime(2026, 3, 1, tzinfo=UTC),)
        (instant,) = connection.execute(statement).fetchone() or (None,)
    assert instant is not None
    assert instant.utcoffset().total_seconds() == 0


def test_the_body_is_committed_when_it_ends_and_rolled_back_when_it_raises(
    empty_database: Database,
) -> None:
    with empty_database.connect() as connection:
        connection.execute("create table kept (id int)")
        connection.execute("insert into kept values (1)")
    with pytest.raises(psycopg.errors.DivisionByZero), empty_database.connect() as connection:
        connection.execute("with two as (insert into kept values (2)) select 1 / 0")
    with empty_database.connect() as connection:
        assert connection.execute("select array_agg(id) from kept").fetchone() == ([1],)


def test_a_pool_hands_out_connections_in_utc(empty_database: Database) -> None:
    with empty_database.pool() as pool, pool.connection() as connection:
        assert connection.execute("select current_setting('TimeZone')").fetchone() == ("UTC",)


def test_a_pool_does_not_lend_a_connection_that_the_server_has_hung_up(
    empty_database: Database,
) -> None:
    with empty_database.pool(max_size=1) as pool:
        with pool.connection() as connection:
            lost = connection.info.backend_pid
        with empty_database.connect() as connection:
            connection.execute("select pg_terminate_backend(%s, 5000)", (lost,))
        with pool.connection() as connection:
            assert connection.execute("select pg_backend_pid() <> %s", (lost,)).fetchone() == (
                True,
            )


def test_an_operator_sees_which_program_holds_a_connection(empty_database: Database) -> None:
    with empty_database.connect() as connection:
        row = connection.execute("select current_setting('application_name')").fetchone()
    assert row is not None
    assert row[0].startswith("threadhouse ")


@pytest.mark.parametrize("name", ["../migrations/0001_one", "a.b", "", "Upper", "a b"])
def test_a_query_is_named_by_a_plain_word(name: str) -> None:
    with pytest.raises(ValueError, match="is not the name of a query file"):
        queries.load(name)


def test_every_query_file_holds_one_statement() -> None:
    folder = Path(postgres.__file__).parents[1] / "sql" / "queries"
    for file in folder.glob("*.sql"):
        # What a block does is part of its one statement.
        text = re.sub(r"(?s)\$do\$.*?\$do\$|'[^'\n]*'", "", file.read_text())
        lines = (line.split("--")[0].rstrip() for line in text.splitlines())
        assert ";" not in "\n".join(lines).rstrip(";\n"), file.name
