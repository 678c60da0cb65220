"""A real PostgreSQL for tests, and a clean, migrated database for each of them.

Belongs here: the server of the session and the databases cloned on it.
``THREADHOUSE_TEST_DATABASE_URL`` names an outside server whose user may create databases and roles; then
nothing is started. ``THREADHOUSE_TEST_ADMINISTRATOR_URL`` names it with a superuser, for the few tests that are one.
Does not belong here: rows. A test writes what it needs.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from urllib.parse import quote, urlencode

import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from threadhouse.stores import embedded_postgres, migrations
from threadhouse.stores.postgres import Database

OUTSIDE_SERVER = "THREADHOUSE_TEST_DATABASE_URL"
OUTSIDE_ADMINISTRATOR = "THREADHOUSE_TEST_ADMINISTRATOR_URL"
_numbers = itertools.count(1)


@contextmanager
def new_database(server: Database, template: str = "template0") -> Generator[Database, None, None]:
    """Create a database, yield it, drop it; what still is connected to it is cut off."""
    name = f"threadhouse_test_{os.getpid()}_{next(_numbers)}"
    # Half the time of the other strategy where files are cheap, as they are in memory.
    create = sql.SQL("create database {} template {} encoding 'UTF8' strategy file_copy")
    with server.connect(autocommit=True) as connection:
        connection.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
    try:
        yield server.with_database(name)
    finally:
        with server.connect(autocommit=True) as connection:
            connection.execute(
                sql.SQL("drop database {} with (force)").format(sql.Identifier(name))
            )


def as_url(database: Database) -> str:
    """The address of a database the way DATABASE_URL takes it."""
    known = {key: str(value) for key, value in conninfo_to_dict(database.conninfo).items()}
    name = quote(known.pop("dbname"))
    return f"postgresql:///{name}?{urlencode(known)}"


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Database, None, None]:
    """The server of the session. Without fsync: a test's data need not survive the machine."""
    outside = os.environ.get(OUTSIDE_SERVER)
    if outside:
        database = Database(outside, is_embedded=False, lock_timeout_s=10.0)
        database.require_usable()
        yield database
        return
    home = tmp_path_factory.mktemp("postgres_home")
    running = embedded_postgres.start(home, settings={"fsync": "off", "full_page_writes": "off"})
    try:
        yield Database(running.conninfo(), is_embedded=True, lock_timeout_s=10.0)
    finally:
        embedded_postgres.stop(home)


@pytest.fixture(scope="session")
def template_database(postgres_server: Database) -> Generator[str, None, None]:
    """Name of a database with the whole schema and only the shipped rows; nobody is connected."""
    with new_database(postgres_server) as template:
        migrations.migrate(template)
        with template.connect() as connection:
            name = connection.info.dbname
        yield name


@pytest.fixture
def database(postgres_server: Database, template_database: str) -> Generator[Database, None, None]:
    """A clean database with the whole schema, for this test alone."""
    with new_database(postgres_server, template_database) as cloned:
        yield cloned


def as_administrator(database: Database) -> Database:
    """The same database as a superuser, who the owner of an embedded server is anyway; skips when an outside one has none."""
    if not os.environ.get(OUTSIDE_SERVER):
        return database
    server = os.environ.get(OUTSIDE_ADMINISTRATOR)
    if not server:
        pytest.skip(f"It takes a superuser: set {OUTSIDE_ADMINISTRATOR}.")
    name = str(conninfo_to_dict(database.conninfo)["dbname"])
    return Database(server, is_embedded=False, lock_timeout_s=10.0).with_database(name)


@pytest.fixture
def administrator(database: Database) -> Database:
    """The clean database of this test, as a superuser."""
    return as_administrator(database)


@pytest.fixture
def empty_database(postgres_server: Database) -> Generator[Database, None, None]:
    """A database in which nothing was ever made."""
    with new_database(postgres_server) as empty:
        yield empty


@pytest.fixture
def make_database(
    postgres_server: Database, template_database: str
) -> Generator[Callable[[], Database], None, None]:
    """Clean databases as many as a test wants, such as one for each example of a property."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda: stack.enter_context(new_database(postgres_server, template_database))
