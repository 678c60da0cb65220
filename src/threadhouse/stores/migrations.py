"""Bringing the schema up to date: once, in order, by whoever comes first.

Belongs here: reading ``sql/migrations`` and ``sql/views``, their order and hashes, and running
them.
Does not belong here: any table of a product; those are in the files.

Every migration runs in one transaction together with the row that records it. The transaction takes
one advisory lock first, then reads what is applied: of two processes that start together, the
second finds nothing left to do.

``python -m threadhouse.stores.migrations freeze`` adds new files to ``frozen.txt``; from then on
their text may not change.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from threadhouse.retrieval.errors import (
    MigrationDriftError,
    MigrationError,
    StoreLockedError,
)
from threadhouse.stores import queries
from threadhouse.stores.postgres import Database

if TYPE_CHECKING:
    from psycopg.rows import TupleRow

    from threadhouse.stores.settings import Settings

_FILE_NAME = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
# These would end the transaction that a migration shares with its record. A bare "begin" or "end;"
# also opens and closes the body of a PL/pgSQL function, so "begin;" is caught and "end;" cannot be.
_ENDS_TRANSACTION = re.compile(
    r"^\s*(commit|rollback|begin|start\s+transaction)\b[^;\n]*;",
    re.IGNORECASE | re.MULTILINE,
)
_SCHEMA_OF_VIEWS = "source"
_CREATED_WHEN_ABSENT = re.compile(r"^create table if not exists public\.(\w+)", re.MULTILINE)
_TRIAL_SCHEMA = "threadhouse_trial"


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of ``sql/migrations``."""

    name: str
    body: str

    @property
    def sha256(self) -> str:
        """Hash of the text; line ends do not count, because a checkout may change them."""
        return hashlib.sha256(self.body.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class AppliedMigration:
    """One row of ``cong.schema_migration``."""

    name: str
    sha256: str
    applied_at: datetime


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What one call did; both empty and False when the schema was up to date."""

    applied: tuple[str, ...]
    views_were_run: bool
    kept_views: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MigrationSet:
    """The SQL files of one version of the code, checked against what was frozen."""

    migrations: tuple[Migration, ...]
    views: tuple[Migration, ...]

    @classmethod
    def shipped(cls) -> MigrationSet:
        """The files of this package."""
        return cls.read(queries.sql_root())

    @classmethod
    def read(cls, folder: Traversable) -> MigrationSet:
        """Read ``migrations/``, ``migrations/frozen.txt`` and ``views/`` below a folder.

        Raises:
            MigrationError: A file is misnamed, a number is used twice, or a file ends its transaction.
            MigrationDriftError: A frozen file was edited or removed.
        """
        migrations = _read_files(folder.joinpath("migrations"))
        last = 0
        for migration in migrations:
            match = _FILE_NAME.fullmatch(migration.name)
            # Numbers may have gaps, because branches take theirs before they meet; frozen.txt notices a file that went missing.
            if match is None or int(match.group(1)) <= last:
                message = (
                    f"Migration {migration.name} should be named {last + 1:04d}_<what it does>.sql"
                    ", or have a higher number; rename it."
                )
                raise MigrationError(message)
            last = int(match.group(1))
        views = _read_files(folder.joinpath("views"))
        for file in (*migrations, *views):
            if found := _ENDS_TRANSACTION.search(file.body):
                message = (
                    f"{file.name} contains {found.group(1)!r}; it runs inside one transaction, so "
                    "remove that."
                )
                raise MigrationError(message)
        loaded = cls(migrations, views)
        loaded.check_frozen(_read_frozen(folder))
        return loaded

    @property
    def views_sha256(self) -> str:
        """One hash over all view files, names included."""
        return hashlib.sha256(
            "".join(f"{view.sha256}  {view.name}\n" for view in self.views).encode()
        ).hexdigest()

    def check_frozen(self, frozen: dict[str, str]) -> None:
        """Raise MigrationDriftError when a frozen file was edited or removed."""
        texts = {migration.name: migration.sha256 for migration in self.migrations}
        for name, sha256 in frozen.items():
            if texts.get(name) != sha256:
                what = "was edited" if name in texts else "was removed"
                message = (
                    f"Migration {name} {what} after it was frozen; restore it and put the change "
                    "into a new one."
                )
                raise MigrationDriftError(message)


def open_database(settings: Settings) -> Database:
    """Open the database of these settings with its schema up to date.

    Raises:
        StoreUnreachableError: PostgreSQL does not answer.
        MigrationError: The schema cannot be brought up to date.
    """
    database = Database.open(settings)
    migrate(database)
    return database


def applied(connection: psycopg.Connection[TupleRow]) -> tuple[AppliedMigration, ...]:
    """What the database says was applied, in order. Read-only; empty for a foreign database."""
    if not _state(connection).has_migrations:
        return ()
    with connection.cursor(row_factory=class_row(AppliedMigration)) as cursor:
        return tuple(cursor.execute(queries.load("migration_list")).fetchall())


def pending(
    connection: psycopg.Connection[TupleRow], files: MigrationSet | None = None
) -> tuple[Migration, ...]:
    """What is still to be applied, in order. Read-only.

    Raises:
        MigrationDriftError: An applied migration had another text.
        MigrationError: The database was migrated by a newer version of the code.
    """
    return _pending(files or MigrationSet.shipped(), applied(connection))


def migrate(database: Database, files: MigrationSet | None = None) -> MigrationReport:
    """Apply what is pending and refresh the views; nothing, and no lock, when up to date.

    A view of schema ``source`` that its owner redefined (to attach an existing database) is kept as
    it is.

    Raises:
        MigrationDriftError: An applied or frozen migration has another text than it had.
        MigrationError: A statement failed; its migration left nothing behind, earlier ones stay.
        StoreLockedError: Another process holds the lock, or a table that a migration has to change.
    """
    files = files or MigrationSet.shipped()
    done: list[str] = []
    with database.connect() as connection:
        with connection.transaction():
            if not pending(connection, files) and _views_are_current(connection, files):
                return MigrationReport((), views_were_run=False, kept_views=())
        while True:
            with _locked_transaction(connection, database):
                _create_bookkeeping(connection)
                todo = pending(connection, files)
                if not todo:
                    break
                if todo[0] == files.migrations[0]:
                    _refuse_tables_of_others(connection, todo[0])
                _run(connection, todo[0])
                connection.execute(
                    queries.load("migration_record"),
                    {
                        "name": todo[0].name,
                        "sha256": todo[0].sha256,
                        "body": todo[0].body,
                    },
                )
                done.append(todo[0].name)
        with _locked_transaction(connection, database):
            kept = _run_views(connection, files, must_run=bool(done))
    return MigrationReport(tuple(done), views_were_run=kept is not None, kept_views=kept or ())


def freeze(folder: Path) -> tuple[str, ...]:
    """Append the hashes of migrations that are not frozen yet; returns their names.

    Raises:
        MigrationDriftError: A frozen migration was edited or removed.
    """
    frozen = _read_frozen(folder)
    new = [
        migration
        for migration in MigrationSet.read(folder).migrations
        if migration.name not in frozen
    ]
    with (folder / "migrations" / "frozen.txt").open("a", encoding="utf-8", newline="\n") as out:
        out.writelines(f"{migration.sha256}  {migration.name}\n" for migration in new)
    return tuple(migration.name for migration in new)


@dataclass(frozen=True, slots=True)
class _State:
    has_schema: bool
    has_migrations: bool
    has_view_sets: bool


@dataclass(frozen=True, slots=True)
class _View:
    name: str
    definition: str
    options: list[str]


@dataclass(frozen=True, slots=True)
class _ViewSet:
    sha256: str
    definitions: dict[str, str]
    server_major: int


def _state(connection: psycopg.Connection[TupleRow]) -> _State:
    with connection.cursor(row_factory=class_row(_State)) as cursor:
        state = cursor.execute(queries.load("migration_state")).fetchone()
    if state is None:
        message = "PostgreSQL returned no row for a statement that always has one."
        raise MigrationError(message)
    return state


def _pending(files: MigrationSet, done: Sequence[AppliedMigration]) -> tuple[Migration, ...]:
    known = {migration.name: migration for migration in files.migrations}
    for row in done:
        if row.name not in known:
            message = (
                f"The database holds migration {row.name}, which this version of Threadhouse does "
                "not know; "
                "install the version that applied it, or a newer one."
            )
            raise MigrationError(message)
        if known[row.name].sha256 != row.sha256:
            message = (
                f"Migration {row.name} was applied on {row.applied_at:%Y-%m-%d} with another text "
                "than it has now; "
                "restore that text (cong.schema_migration keeps it) and put the change into a new "
                "migration."
            )
            raise MigrationDriftError(message)
    names = {row.name for row in done}
    todo = tuple(migration for migration in files.migrations if migration.name not in names)
    if done and todo and todo[0].name < done[-1].name:
        message = (
            f"Migration {todo[0].name} was never applied although {done[-1].name} was; give it the "
            "next free number."
        )
        raise MigrationError(message)
    return todo


@contextmanager
def _locked_transaction(
    connection: psycopg.Connection[TupleRow], database: Database
) -> Generator[None, None, None]:
    try:
        with connection.transaction():
            connection.execute(
                queries.load("migration_session"),
                {"lock_timeout": f"{round(database.lock_timeout_s * 1000)}ms"},
            )
            connection.execute(queries.load("migration_lock"))
            yield
    except psycopg.errors.LockNotAvailable:
        message = (
            f"The schema of {database.address} is being changed or used by "
            f"{_lock_holder(connection)} for more than "
            f"{database.lock_timeout_s:.0f} s; wait for it or end it, then try again."
        )
        raise StoreLockedError(message) from None
    except psycopg.errors.InsufficientPrivilege as error:
        message = (
            f"The database user of {database.address} may not change the schema "
            f"({_first_line(error)}); "
            "grant create on the database and ownership of the schemas nao, cong and source, or "
            "migrate as their owner."
        )
        raise MigrationError(message) from None


def _lock_holder(connection: psycopg.Connection[TupleRow]) -> str:
    row = connection.execute(queries.load("migration_lock_holder")).fetchone()
    return f"{row[0]} (backend {row[1]})" if row else "another session"


def _create_bookkeeping(connection: psycopg.Connection[TupleRow]) -> None:
    state = _state(connection)
    if not state.has_schema:
        connection.execute(queries.load("migration_create_schema"))
    if not state.has_migrations:
        connection.execute(queries.load("migration_create_table"))
    if not state.has_view_sets:
        connection.execute(queries.load("migration_create_view_set_table"))


def _refuse_tables_of_others(connection: psycopg.Connection[TupleRow], first: Migration) -> None:
    """Tables that only share a name with ours are not ours to alter; those that are like ours are taken over.

    Raises:
        MigrationError: Some lack columns of ours, or have them with another type.
    """
    names = {"names": _CREATED_WHEN_ABSENT.findall(first.body)}
    present = connection.execute(queries.load("migration_tables_present"), names).fetchall()
    if not present:
        return
    # What the file makes where nothing is in its way says what it needs; none of this stays.
    trial = Migration(first.name, first.body.replace("public.", f"{_TRIAL_SCHEMA}."))
    with connection.transaction(force_rollback=True):
        connection.execute(queries.load("migration_trial_schema"))
        _run(connection, trial)
        others = connection.execute(queries.load("migration_other_tables")).fetchall()
    if others:
        listed = "; ".join(f"public.{table} has no {columns}" for table, columns in others)
        message = (
            f"This database has tables of its own with names of ours ({listed}), and nothing of them is altered; give "
            "Threadhouse another database, bring these tables there with postgres_fdw, and read them with threadhouse attach."
        )
        raise MigrationError(message)


def _run(connection: psycopg.Connection[TupleRow], file: Migration) -> None:
    try:
        # Without parameters psycopg sends the whole file at once, so "%" and several statements
        # need no care.
        connection.execute(queries.trusted(file.body), prepare=False)
    except (psycopg.errors.LockNotAvailable, psycopg.errors.InsufficientPrivilege):
        raise
    except psycopg.Error as error:
        message = f"{file.name} failed and left nothing behind: {_first_line(error)}."
        raise MigrationError(message) from error


def _first_line(error: psycopg.Error) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _views_are_current(connection: psycopg.Connection[TupleRow], files: MigrationSet) -> bool:
    if not _state(connection).has_view_sets:
        return False
    latest = _latest_view_set(connection)
    if latest is None or latest.sha256 != files.views_sha256:
        return False
    return set(latest.definitions) <= set(_live_views(connection))


def _live_views(connection: psycopg.Connection[TupleRow]) -> dict[str, _View]:
    with connection.cursor(row_factory=class_row(_View)) as cursor:
        return {view.name: view for view in cursor.execute(queries.load("migration_list_views"))}


def _run_views(
    connection: psycopg.Connection[TupleRow], files: MigrationSet, *, must_run: bool
) -> tuple[str, ...] | None:
    """Run the view files; the redefined views that were kept, or None if nothing had to run."""
    if not must_run and _views_are_current(connection, files):
        return None
    kept = _redefined_views(connection)
    for view in files.views:
        _run(connection, view)
    ours = {name: view.definition for name, view in _live_views(connection).items()}
    for view in kept:
        options = sql.SQL("")
        if view.options:
            options = sql.SQL(" with ({})").format(
                sql.SQL(", ").join(map(queries.trusted, view.options))
            )
        statement = sql.SQL("create or replace view {}{} as {}").format(
            sql.Identifier(_SCHEMA_OF_VIEWS, view.name),
            options,
            queries.trusted(view.definition),
        )
        try:
            connection.execute(statement)
        except psycopg.errors.InvalidTableDefinition as error:
            message = (
                f"View source.{view.name} was redefined in this database and no longer has the "
                "columns that this version "
                f"reads ({_first_line(error)}); redefine it with them, or drop it to get the "
                "built-in one."
            )
            raise MigrationError(message) from error
    connection.execute(
        queries.load("migration_record_view_set"),
        {
            "sha256": files.views_sha256,
            "definitions": Jsonb(ours),
            "server_major": connection.info.server_version // 10000,
        },
    )
    return tuple(view.name for view in kept)


def _redefined_views(connection: psycopg.Connection[TupleRow]) -> list[_View]:
    """Views that differ from what the last run of the view files made of them."""
    latest = _latest_view_set(connection)
    live = _live_views(connection)
    if latest is None:
        return list(
            live.values()
        )  # made before we ever came: the way to attach an existing database
    if latest.server_major != connection.info.server_version // 10000:
        return []
    return [view for name, view in live.items() if latest.definitions.get(name) != view.definition]


def _latest_view_set(connection: psycopg.Connection[TupleRow]) -> _ViewSet | None:
    with connection.cursor(row_factory=class_row(_ViewSet)) as cursor:
        return cursor.execute(queries.load("migration_latest_view_set")).fetchone()


def _read_files(folder: Traversable) -> tuple[Migration, ...]:
    found = (
        (entry for entry in folder.iterdir() if entry.name.endswith(".sql"))
        if folder.is_dir()
        else iter(())
    )
    texts = (
        Migration(entry.name, entry.read_text(encoding="utf-8").replace("\r\n", "\n"))
        for entry in found
    )
    return tuple(sorted(texts, key=lambda migration: migration.name))


def _read_frozen(folder: Traversable) -> dict[str, str]:
    file = folder.joinpath("migrations").joinpath("frozen.txt")
    if not file.is_file():
        return {}
    lines = (line.split() for line in file.read_text(encoding="utf-8").splitlines() if line.strip())
    return {name: sha256 for sha256, name in lines}


def _main(arguments: Sequence[str]) -> int:
    if list(arguments) != ["freeze"]:
        sys.stderr.write("usage: python -m threadhouse.stores.migrations freeze\n")
        return 2
    try:
        new = freeze(Path(__file__).resolve().parents[1] / "sql")
    except MigrationError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("".join(f"frozen: {name}\n" for name in new) or "nothing new to freeze\n")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
