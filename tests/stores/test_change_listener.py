"""A listener hears of changes, finds those that nobody told it of, goes on after faults, and ends when it is asked to.

Method: the real loop on real connections, in a thread of this process. It is waited for until something is so, never for a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from content_house import UNITS, ContentHouse
from hub_rows import add_document, write_version
from sync_house import assert_agrees, build, fill, stores, waiting
from threadhouse.retrieval.errors import StoreLockedError, StoreUnreachableError
from threadhouse.stores import embedded_postgres, migrations
from threadhouse.stores.change_listener import ChangeHints, follow_changes
from threadhouse.stores.change_log import move_position, read_backlog
from threadhouse.stores.change_sync import SyncReport, sync_changes
from threadhouse.stores.postgres import Database
from threadhouse.stores.vectors import open_writer

NEVER_S = 3_600.0
"""A poll that no test waits for: what is followed was heard of."""

PATIENCE_S = 60.0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@dataclass
class Listener:
    """The loop in a thread; ``sync`` only takes what waits and moves on, unless a test gives another."""

    database: Database
    poll_s: float = NEVER_S
    debounce_s: float = 0.0
    sync: Callable[[], SyncReport] | None = None
    told: list[SyncReport] = field(default_factory=list[SyncReport])
    said: list[str] = field(default_factory=list[str])
    looks: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Listener:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        until(lambda: self.looks > 0)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        assert self._thread is not None
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        hints = ChangeHints(
            self.database, poll_s=self.poll_s, debounce_s=self.debounce_s, stop=self.stop
        )
        with hints:
            follow_changes(
                self._look, hints, self.stop, tell=self.told.append, say=self.said.append
            )

    def _look(self) -> SyncReport:
        try:
            return self.sync() if self.sync is not None else take(self.database)
        finally:
            self.looks += 1


def take(database: Database) -> SyncReport:
    backlog = read_backlog(database)
    at = backlog.new.at
    move_position(database, backlog, followed_by="test", access_at=at, searchable_at=at)
    return SyncReport(changes=backlog.changes)


def left(database: Database) -> int:
    return waiting(database).changes


def add(database: Database, name: str) -> None:
    with database.connect() as connection:
        add_document(connection, name)


@pytest.fixture
def database(database: Database) -> Database:
    take(database)
    return database


def test_a_commit_is_heard_of_without_a_poll(database: Database) -> None:
    with Listener(database) as listener:
        for number in range(3):
            add(database, f"d{number}")
            until(lambda: left(database) == 0)
    assert sum(report.changes for report in listener.told) == 3


def test_a_lost_notification_is_found_by_the_poll(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("alter table public.production_document disable trigger user")
    with Listener(database, poll_s=0.2):
        with database.connect() as connection:
            connection.execute(
                "insert into nao.change_log (table_name, row_key, op, lane)"
                " values ('production_document', 'd', 'insert', 'content')"
            )
        until(lambda: left(database) == 0)


def test_a_burst_is_followed_as_one(database: Database) -> None:
    with Listener(database, debounce_s=3.0) as listener:
        for number in range(20):
            add(database, f"d{number}")
        until(lambda: sum(report.changes for report in listener.told) == 20)
    assert len(listener.told) <= 2, "one, or two when the burst took longer than its grace"


def test_a_connection_that_is_cut_is_opened_again_and_what_it_missed_is_found(
    database: Database,
) -> None:
    with Listener(database) as listener:
        for number in range(2):
            looks = listener.looks
            with database.connect() as connection:
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = current_database() and query like 'listen %' and pid <> pg_backend_pid()"
                )
                add_document(connection, f"d{number}")
            until(lambda looks=looks: listener.looks > looks and left(database) == 0)
        add(database, "heard")
        until(lambda: left(database) == 0)


def test_a_restarted_server_is_found_again(tmp_path: Path) -> None:
    quick = {"fsync": "off", "full_page_writes": "off"}
    running = embedded_postgres.start(tmp_path, settings=quick)
    database = Database(running.conninfo(), is_embedded=True)
    try:
        migrations.migrate(database)
        take(database)
        with Listener(database) as listener:
            embedded_postgres.stop(tmp_path)
            until(lambda: len(listener.said) > 0)
            embedded_postgres.start(tmp_path, settings=quick)
            add(database, "after")
            until(lambda: left(database) == 0)
            add(database, "heard")
            until(lambda: left(database) == 0)
        assert "cannot be reached" in listener.said[0]
        assert listener.said[1:] == ["That is over; changes are being followed again."]
    finally:
        embedded_postgres.stop(tmp_path)


def test_a_fault_is_said_once_however_often_it_is_met(database: Database) -> None:
    faults: list[Exception] = [StoreUnreachableError("Qdrant is away.")] * 2
    faults.append(StoreLockedError("Somebody writes."))

    def sync() -> SyncReport:
        if faults:
            raise faults.pop(0)
        return take(database)

    add(database, "d")
    with Listener(database, sync=sync) as listener:
        until(lambda: left(database) == 0 and len(listener.said) == 3)
    assert listener.said == [
        "Qdrant is away. Trying again.",
        "Somebody writes. Trying again.",
        "That is over; changes are being followed again.",
    ]


def test_asked_to_end_while_it_tries_again_it_ends(database: Database) -> None:
    def sync() -> SyncReport:
        raise StoreUnreachableError("Qdrant is away.")

    with Listener(database, sync=sync) as listener:
        until(lambda: len(listener.said) == 1)


def test_a_fault_of_our_own_is_not_hidden(database: Database) -> None:
    stop = threading.Event()

    def sync() -> SyncReport:
        raise ZeroDivisionError

    with (
        ChangeHints(database, poll_s=NEVER_S, debounce_s=0, stop=stop) as hints,
        pytest.raises(ZeroDivisionError),
    ):
        follow_changes(sync, hints, stop, tell=_ignore, say=_ignore)


def _ignore(_: object) -> None:
    return None


# --- with vectors -----------------------------------------------------------------------------


@pytest.fixture
def house(database: Database, tmp_path: Path) -> ContentHouse:
    house = ContentHouse(database, tmp_path, engine="edge")
    fill(house)
    build(house)
    return house


def test_the_writer_is_free_while_nothing_changes_and_changes_are_followed_after_others_wrote(
    house: ContentHouse,
) -> None:
    def sync() -> SyncReport:
        return sync_changes(stores(house), followed_by="test")

    with Listener(house.database, sync=sync) as listener:
        for number in range(2):
            with (
                open_writer(home=house.home, lock_timeout_s=PATIENCE_S),
                house.connect() as connection,
            ):
                write_version(connection, "a0", f"Bản {number}.")
            until(lambda: left(house.database) == 0)
    assert sum(report.texts_embedded for report in listener.told) == 2
    assert_agrees(house)


def test_a_night_gets_its_turn_between_two_portions(house: ContentHouse) -> None:
    units = [f"{letter}{number}" for letter in "abc" for number in range(2)]
    with house.connect() as connection:
        for unit in units:
            write_version(connection, unit, f"Mới {unit}.")
    portions: list[str] = []
    may_begin = threading.Event()

    def on_step(step: str) -> None:
        if step.startswith("content ") and step.endswith(": planned"):
            portions.append(step)
            may_begin.set()

    patient = replace(
        stores(house), open_writer=partial(open_writer, home=house.home, lock_timeout_s=PATIENCE_S)
    )
    with ThreadPoolExecutor(1) as elsewhere:
        following = elsewhere.submit(
            sync_changes, patient, followed_by="test", portion_owners=1, on_step=on_step
        )
        assert may_begin.wait(PATIENCE_S)
        with open_writer(home=house.home, lock_timeout_s=PATIENCE_S) as store:
            at = len(portions)
            house.publish_into(store)
        assert following.result().is_finished
    assert at < len(portions), "the night came in between"
    assert_agrees(house)


def test_two_listeners_do_every_change_once(database: Database, tmp_path: Path) -> None:
    house = ContentHouse(database, tmp_path)
    fill(house)
    build(house)

    def sync() -> SyncReport:
        return sync_changes(stores(house), followed_by="test")

    with (
        Listener(house.database, sync=sync) as first,
        Listener(house.database, sync=sync) as second,
    ):
        for number in range(4):
            with house.connect() as connection:
                write_version(connection, f"a{number}", f"Mới {number}.")
        until(lambda: left(house.database) == 0)
    reports = [*first.told, *second.told]
    assert sum(report.texts_embedded for report in reports) == 4
    assert sum(report.changes for report in reports) == 4
    assert house.owners(UNITS) >= {"a0", "a1", "a2", "a3"}
    assert_agrees(house)
