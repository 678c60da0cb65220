"""A position in the log of changes passes over nothing, and sees nothing twice, in whatever order transactions end.

Method: real transactions on several connections, opened and ended in orders in which numbers lie.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg.rows import TupleRow

from hub_rows import add_document, add_unit, write_version
from sync_house import waiting
from threadhouse.stores.change_log import (
    CONSUMER,
    Backlog,
    begin_reconcile,
    end_reconcile,
    move_position,
    read_backlog,
    read_late_revokes,
)
from threadhouse.stores.postgres import Database

Connection = psycopg.Connection[TupleRow]


@pytest.fixture
def database(database: Database) -> Database:
    """A database whose log has been followed to the end."""
    follow(database)
    return database


def follow(database: Database) -> Backlog:
    """Take what waits and move on, as a sync does that has nothing else to do."""
    backlog = read_backlog(database)
    at = backlog.new.at
    move_position(database, backlog, followed_by="test", access_at=at, searchable_at=at)
    return backlog


def keys(backlog: Backlog) -> list[str]:
    return [row.row_key for row in backlog.rows]


def test_a_change_that_commits_after_a_later_one_was_followed_is_not_passed_over(
    database: Database,
) -> None:
    with database.connect() as early:
        add_document(early, "early")  # the lower number, of a transaction that is still open
        with database.connect() as late:
            add_document(late, "late")
        assert keys(follow(database)) == ["late"], "an open transaction holds nobody up"
    assert keys(follow(database)) == ["early"]
    assert keys(follow(database)) == []


def test_what_is_rolled_back_is_not_followed_and_a_savepoint_is_part_of_its_transaction(
    database: Database,
) -> None:
    with database.connect() as connection:
        add_document(connection, "outer")
        with connection.transaction():
            add_document(connection, "inner")
        with connection.transaction():
            add_document(connection, "undone")
            raise psycopg.Rollback
        assert keys(follow(database)) == []
    assert keys(follow(database)) == ["outer", "inner"]


@pytest.mark.parametrize("seed", range(6))
def test_any_interleaving_is_followed_whole_and_once(database: Database, seed: int) -> None:
    """Eight writers begin, write, commit and roll back at random while a consumer looks at random moments."""
    order = random.Random(seed)
    committed: list[str] = []
    followed: list[str] = []
    with ExitStack() as stack:
        idle = [stack.enter_context(_open(database)) for _ in range(8)]
        busy: list[tuple[Connection, list[str]]] = []
        for number in range(150):
            choice = order.random()
            if choice < 0.35 and idle:
                busy.append((idle.pop(), []))
            elif choice < 0.6 and busy:
                connection, written = order.choice(busy)
                add_document(connection, f"d{number}")
                written.append(f"d{number}")
            elif choice < 0.8 and busy:
                connection, written = busy.pop(order.randrange(len(busy)))
                if order.random() < 0.8:
                    connection.commit()
                    committed += written
                else:
                    connection.rollback()
                idle.append(connection)
            elif choice > 0.8:
                followed += keys(follow(database))
        for connection, written in busy:
            connection.commit()
            committed += written
    followed += keys(follow(database))
    assert sorted(followed) == sorted(committed)


def _open(database: Database) -> Connection:
    return database.new_connection(psycopg.Connection[TupleRow])


def test_changes_of_one_row_are_one_row_and_say_whether_a_right_went(database: Database) -> None:
    with database.connect() as connection:
        add_document(connection, "d")
        for title in ("eins", "zwei"):
            connection.execute("update public.production_document set title = %s", (title,))
    (row,) = follow(database).rows
    assert (row.table_name, row.row_key, row.takes_away, row.changes) == (
        *("production_document", "d"),
        *(False, 3),
    )
    with database.connect() as connection:
        connection.execute("update public.production_document set visibility = 'restricted'")
    assert [row.takes_away for row in follow(database).rows] == [True]
    with database.connect() as connection:
        connection.execute("delete from public.production_document")
    assert [row.takes_away for row in follow(database).rows] == [True]


def test_a_late_look_finds_what_takes_away_and_nothing_else(database: Database) -> None:
    with database.connect() as connection:
        add_document(connection, "kept")
        add_document(connection, "hidden")
    backlog = read_backlog(database)
    with database.connect() as connection:
        connection.execute("update public.production_document set title = 'Mới'")
        connection.execute(
            "update public.production_document set visibility = 'restricted' where document_id = 'hidden'"
        )
    looked, rows = read_late_revokes(database, backlog.new.snapshot)
    assert [row.row_key for row in rows] == ["hidden"]
    assert read_late_revokes(database, looked.snapshot)[1] == ()


# --- paths to a new live version --------------------------------------------------------------


def _new_version(connection: Connection) -> None:
    write_version(connection, "u", "Mới.")


def _back_to_an_old_version(connection: Connection) -> None:
    connection.execute(
        "update public.tac_logical_unit set current_version_id ="
        " (select unit_version_id from public.tac_unit_version where logical_unit_id = 'u' and revision = 1)"
    )


def _live_version_deleted(connection: Connection) -> None:
    connection.execute(
        "delete from public.tac_unit_version v using public.tac_logical_unit u where v.unit_version_id = u.current_version_id"
    )


def _live_version_renamed(connection: Connection) -> None:
    connection.execute(
        "update public.tac_unit_version v set unit_version_id = gen_random_uuid()"
        " from public.tac_logical_unit u where v.unit_version_id = u.current_version_id"
    )


def _unit_moved(connection: Connection) -> None:
    connection.execute("update public.tac_logical_unit set document_id = 'other'")


def _document_renamed(connection: Connection) -> None:
    connection.execute(
        "update public.production_document set document_id = 'renamed' where document_id = 'd'"
    )


def _document_deleted(connection: Connection) -> None:
    connection.execute("delete from public.production_document where document_id = 'd'")


@pytest.mark.parametrize(
    "change",
    [
        _new_version,
        _back_to_an_old_version,
        _live_version_deleted,
        _live_version_renamed,
        _unit_moved,
        _document_renamed,
        _document_deleted,
    ],
)
def test_every_path_to_another_live_version_or_place_is_logged_for_the_unit(
    database: Database, change: Callable[[Connection], None]
) -> None:
    """tac_unit_version has no trigger of its own: what is live is a column of the unit."""
    with database.connect() as connection:
        add_document(connection, "d")
        add_document(connection, "other")
        add_unit(connection, "u", "d", "Một.")
        write_version(connection, "u", "Hai.")
    follow(database)
    with database.connect() as connection:
        change(connection)
    assert ("tac_logical_unit", "u") in {
        (row.table_name, row.row_key) for row in follow(database).rows
    }


def test_a_renamed_unit_is_gone_under_the_old_key_and_new_under_the_other(
    database: Database,
) -> None:
    with database.connect() as connection:
        add_document(connection, "d")
        add_unit(connection, "u", "d", "Một.")
    follow(database)
    with database.connect() as connection:
        connection.execute("update public.tac_logical_unit set logical_unit_id = 'v'")
    rows = {row.row_key: row.takes_away for row in follow(database).rows}
    assert rows == {"u": True, "v": False}


def test_emptied_versions_empty_the_units_and_say_so(database: Database) -> None:
    with database.connect() as connection:
        add_document(connection, "d")
        add_unit(connection, "u", "d", "Một.")
    follow(database)
    with database.connect() as connection:
        connection.execute("truncate public.tac_unit_version cascade")
    assert ("tac_logical_unit", "*") in {
        (row.table_name, row.row_key) for row in follow(database).rows
    }


# --- positions --------------------------------------------------------------------------------


def test_a_position_that_another_server_counted_is_none(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("update nao.change_consumer set cluster = 'another'")
    assert read_backlog(database).old is None
    assert waiting(database).position is None
    follow(database)
    assert read_backlog(database).old is not None


def test_a_reconcile_covers_what_was_committed_before_it_began(database: Database) -> None:
    with database.connect() as connection:
        add_document(connection, "before")
    begin_reconcile(database, "night")
    with database.connect() as connection:
        add_document(connection, "during")
    assert end_reconcile(database, "night")
    assert keys(read_backlog(database)) == ["during"]
    assert not end_reconcile(database, "night"), "a run moves the position once"


def test_a_reconcile_does_not_take_a_position_back(database: Database) -> None:
    begin_reconcile(database, "night")
    with database.connect() as connection:
        add_document(connection, "d")
    follow(database)
    assert end_reconcile(database, "night")
    assert keys(read_backlog(database)) == []


def test_a_run_that_did_not_begin_a_reconcile_moves_nothing(database: Database) -> None:
    with database.connect() as connection:
        add_document(connection, "d")
    assert not end_reconcile(database, "another run")
    assert keys(read_backlog(database)) == ["d"]


def test_nights_that_never_ended_are_forgotten_by_the_next_that_does(database: Database) -> None:
    begin_reconcile(database, "killed")
    begin_reconcile(database, "night")
    assert end_reconcile(database, "night")
    with database.connect() as connection:
        assert connection.execute("select run_id from nao.change_reconcile").fetchall() == []


# --- waits ------------------------------------------------------------------------------------


def test_each_change_waited_from_its_statement_to_the_moment_that_counts_for_its_lane(
    database: Database,
) -> None:
    with database.connect() as connection:
        add_document(connection, "d")
        connection.execute("update public.production_document set visibility = 'restricted'")
    backlog = read_backlog(database)
    move_position(
        database,
        backlog,
        followed_by="test",
        access_at=backlog.new.at + timedelta(seconds=1),
        searchable_at=backlog.new.at + timedelta(seconds=5),
    )
    with database.connect() as connection:
        waits = dict(
            connection.execute(
                "select lane, extract(epoch from case lane when 'access' then access_at else searchable_at end - changed_at)"
                "::float from nao.change_wait join nao.change_batch using (batch_id)"
            ).fetchall()
        )
    assert waits.keys() == {"access", "content"}
    assert 1 <= waits["access"] < 4
    assert 5 <= waits["content"] < 8


def test_a_look_that_finds_nothing_leaves_no_batch(database: Database) -> None:
    follow(database)
    with database.connect() as connection:
        assert connection.execute("select count(*) from nao.change_batch").fetchone() == (0,)


def test_what_waits_is_counted_with_its_age(database: Database) -> None:
    before = datetime.now(UTC)
    with database.connect() as connection:
        add_document(connection, "d")
    found = waiting(database)
    assert (found.changes, found.position is not None) == (1, True)
    assert found.oldest_at is not None
    assert found.oldest_at >= before - timedelta(seconds=1)
    assert timedelta() <= found.age < timedelta(minutes=10)
    with database.connect() as connection:
        connection.execute("delete from nao.change_consumer where consumer = %s", (CONSUMER,))
    assert waiting(database).position is None
