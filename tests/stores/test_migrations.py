"""Migrations run once, in order, whole or not at all, whoever starts them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from threadhouse.retrieval.errors import MigrationDriftError, MigrationError, StoreLockedError
from threadhouse.stores import migrations
from threadhouse.stores.migrations import MigrationSet
from threadhouse.stores.postgres import Database

ONE = "create table public.one (id int primary key);\ninsert into public.one values (1);\n"
TWO = "alter table public.one add column note text;\n"
VIEW = (
    "create schema if not exists source;\n"
    "create or replace view source.one as select id from public.one;\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two migrations and a view."""
    for name, text in (
        ("migrations/0001_one.sql", ONE),
        ("migrations/0002_two.sql", TWO),
        ("views/one.sql", VIEW),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def scalar(database: Database, statement: str) -> object:
    with database.connect() as connection:
        row = connection.execute(sql.SQL(statement)).fetchone()  # pyright: ignore[reportArgumentType]  literals below
    assert row is not None
    return row[0]


def test_the_shipped_schema_migrates_an_empty_database(empty_database: Database) -> None:
    report = migrations.migrate(empty_database)
    shipped = MigrationSet.shipped()
    assert report.applied == tuple(migration.name for migration in shipped.migrations)
    assert report.applied
    with empty_database.connect() as connection:
        assert migrations.pending(connection) == ()
        assert tuple(row.name for row in migrations.applied(connection)) == report.applied


def test_every_shipped_migration_is_frozen() -> None:
    root = Path(migrations.__file__).parents[1] / "sql" / "migrations"
    frozen = {line.split()[1] for line in (root / "frozen.txt").read_text().splitlines()}
    assert frozen == {migration.name for migration in MigrationSet.shipped().migrations}


def test_a_second_run_changes_nothing(empty_database: Database, folder: Path) -> None:
    files = MigrationSet.read(folder)
    assert migrations.migrate(empty_database, files).applied == ("0001_one.sql", "0002_two.sql")
    again = migrations.migrate(empty_database, files)
    assert (again.applied, again.views_were_run) == ((), False)
    assert scalar(empty_database, "select count(*) from public.one") == 1


def test_looking_at_what_is_pending_writes_nothing(empty_database: Database, folder: Path) -> None:
    with empty_database.connect() as connection:
        connection.read_only = True
        assert len(migrations.pending(connection, MigrationSet.read(folder))) == 2
        assert migrations.applied(connection) == ()
    assert scalar(empty_database, "select to_regnamespace('cong') is null") is True


def test_a_failing_migration_leaves_nothing_and_earlier_ones_stay(
    empty_database: Database, folder: Path
) -> None:
    (folder / "migrations/0002_two.sql").write_text("create table public.two ();\nselect 1 / 0;\n")
    with pytest.raises(
        MigrationError, match=r"0002_two\.sql failed and left nothing behind: division by zero\."
    ):
        migrations.migrate(empty_database, MigrationSet.read(folder))
    assert scalar(empty_database, "select to_regclass('public.two') is null") is True
    assert (
        scalar(empty_database, "select string_agg(name, ',') from cong.schema_migration")
        == "0001_one.sql"
    )
    (folder / "migrations/0002_two.sql").write_text(TWO)
    assert migrations.migrate(empty_database, MigrationSet.read(folder)).applied == (
        "0002_two.sql",
    )


def test_text_that_looks_like_a_parameter_is_text(empty_database: Database, folder: Path) -> None:
    (folder / "migrations/0002_two.sql").write_text(
        "insert into public.one select 2 where 'a%s{}' like '%(x)s' or true;\n"
    )
    migrations.migrate(empty_database, MigrationSet.read(folder))
    assert scalar(empty_database, "select count(*) from public.one") == 2


def test_an_applied_migration_with_another_text_is_drift(
    empty_database: Database, folder: Path
) -> None:
    migrations.migrate(empty_database, MigrationSet.read(folder))
    (folder / "migrations/0001_one.sql").write_text(ONE + "-- later thought\n")
    with pytest.raises(
        MigrationDriftError, match=r"0001_one\.sql was applied on .* with another text"
    ):
        migrations.migrate(empty_database, MigrationSet.read(folder))


def test_line_ends_of_the_checkout_are_not_drift(empty_database: Database, folder: Path) -> None:
    migrations.migrate(empty_database, MigrationSet.read(folder))
    (folder / "migrations/0001_one.sql").write_bytes(ONE.replace("\n", "\r\n").encode())
    assert migrations.migrate(empty_database, MigrationSet.read(folder)).applied == ()


@pytest.mark.parametrize(("change", "what"), [("edit", "was edited"), ("remove", "was removed")])
def test_a_frozen_migration_may_not_change(folder: Path, change: str, what: str) -> None:
    assert migrations.freeze(folder) == ("0001_one.sql", "0002_two.sql")
    last = folder / "migrations/0002_two.sql"
    if change == "edit":
        last.write_text(TWO + "-- later thought\n")
    else:
        last.unlink()
    with pytest.raises(MigrationDriftError, match=rf"0002_two\.sql {what} after it was frozen"):
        MigrationSet.read(folder)


def test_freezing_again_adds_only_what_is_new(folder: Path) -> None:
    migrations.freeze(folder)
    (folder / "migrations/0003_three.sql").write_text("select 1;\n")
    assert migrations.freeze(folder) == ("0003_three.sql",)
    assert len((folder / "migrations/frozen.txt").read_text().splitlines()) == 3


def test_a_database_newer_than_the_code_is_refused(empty_database: Database, folder: Path) -> None:
    migrations.migrate(empty_database, MigrationSet.read(folder))
    (folder / "migrations/0002_two.sql").unlink()
    with pytest.raises(
        MigrationError, match=r"0002_two\.sql, which this version of Threadhouse does not know"
    ):
        migrations.migrate(empty_database, MigrationSet.read(folder))


@pytest.mark.parametrize("name", ["0002_twice.sql", "three.sql", "0003-dash.sql"])
def test_a_misnumbered_file_is_refused(folder: Path, name: str) -> None:
    (folder / "migrations" / name).write_text("select 1;\n")
    with pytest.raises(MigrationError, match="should be named 0003_"):
        MigrationSet.read(folder)


def test_numbers_may_have_gaps(folder: Path) -> None:
    (folder / "migrations" / "0004_gap.sql").write_text("select 1;\n")
    assert MigrationSet.read(folder).migrations[-1].name == "0004_gap.sql"


@pytest.mark.parametrize(
    "statement", ["COMMIT;", "  rollback ;", "begin;", "start transaction read write;"]
)
def test_a_file_that_ends_its_transaction_is_refused(folder: Path, statement: str) -> None:
    (folder / "migrations/0002_two.sql").write_text(f"{TWO}{statement}\n")
    with pytest.raises(MigrationError, match="runs inside one transaction"):
        MigrationSet.read(folder)


def test_views_run_again_when_their_text_changed(empty_database: Database, folder: Path) -> None:
    migrations.migrate(empty_database, MigrationSet.read(folder))
    (folder / "views/one.sql").write_text(VIEW.replace("select id", "select id, note"))
    report = migrations.migrate(empty_database, MigrationSet.read(folder))
    assert (report.applied, report.views_were_run) == ((), True)
    assert scalar(empty_database, "select count(note) from source.one") == 0


def test_a_dropped_view_comes_back(empty_database: Database, folder: Path) -> None:
    migrations.migrate(empty_database, MigrationSet.read(folder))
    with empty_database.connect() as connection:
        connection.execute("drop view source.one")
    assert migrations.migrate(empty_database, MigrationSet.read(folder)).views_were_run
    assert scalar(empty_database, "select id from source.one") == 1


@pytest.mark.parametrize("when", ["before the first migration", "later"])
def test_a_view_that_its_owner_redefined_is_kept(
    empty_database: Database, folder: Path, when: str
) -> None:
    redefine = sql.SQL(
        "create or replace view source.one with (security_barrier=true) as select 7 as id"
    )
    if when == "later":
        migrations.migrate(empty_database, MigrationSet.read(folder))
    with empty_database.connect() as connection:
        connection.execute("create schema if not exists source")
        connection.execute(redefine)
    (folder / "views/one.sql").write_text(VIEW + "-- changed\n")
    for _ in range(2):
        report = migrations.migrate(empty_database, MigrationSet.read(folder))
        assert report.kept_views == ("one",)
        assert scalar(empty_database, "select id from source.one") == 7
        assert scalar(
            empty_database, "select reloptions[1] from pg_class where oid = 'source.one'::regclass"
        ) == ("security_barrier=true")
        (folder / "views/one.sql").write_text(VIEW + "-- changed again\n")


def test_a_redefined_view_that_lacks_a_new_column_is_named(
    empty_database: Database, folder: Path
) -> None:
    migrations.migrate(empty_database, MigrationSet.read(folder))
    with empty_database.connect() as connection:
        connection.execute("create or replace view source.one as select 7 as id")
    (folder / "views/one.sql").write_text(VIEW.replace("select id", "select id, note"))
    with pytest.raises(
        MigrationError, match=r"source\.one was redefined in this database and no longer has"
    ):
        migrations.migrate(empty_database, MigrationSet.read(folder))
    assert scalar(empty_database, "select id from source.one") == 7


def test_two_processes_that_migrate_an_empty_database_at_once_both_succeed(
    empty_database: Database,
) -> None:
    program = (
        "import sys\n"
        "from threadhouse.stores import migrations\n"
        "from threadhouse.stores.postgres import Database\n"
        "database = Database(sys.argv[1], is_embedded=True); sys.stdin.readline()\n"
        "print(*migrations.migrate(database).applied)"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, empty_database.conninfo],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    # Both have imported everything once they read; the line lets them go together.
    answers = []
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        answers.append(out.split())
    shipped = [migration.name for migration in MigrationSet.shipped().migrations]
    assert sorted(answers[0] + answers[1]) == shipped
    assert (
        scalar(empty_database, "select array_agg(name order by name) from cong.schema_migration")
        == shipped
    )


def test_a_lock_that_is_held_too_long_names_its_holder(
    empty_database: Database, folder: Path
) -> None:
    impatient = Database(empty_database.conninfo, empty_database.is_embedded, lock_timeout_s=0.2)
    with psycopg.connect(empty_database.conninfo, application_name="another migrator") as holder:
        holder.execute("select pg_advisory_xact_lock(7305808868)")
        with pytest.raises(StoreLockedError, match="by another migrator"):
            migrations.migrate(impatient, MigrationSet.read(folder))


@contextmanager
def another_user(database: Database, role: str) -> Generator[Database, None, None]:
    """The same database through a new role without privileges; it and all it made are dropped."""
    with database.connect() as connection:
        name, password = sql.Identifier(role), connection.info.password
        create = sql.SQL("create role {} login password {}")
        connection.execute(create.format(name, sql.Literal(password or None)))
    try:
        conninfo = make_conninfo(database.conninfo, user=role)
        yield Database(conninfo, database.is_embedded, lock_timeout_s=10.0)
    finally:
        with database.connect() as connection:
            # Who is no superuser drops what belongs to a role as a member of it.
            connection.execute(sql.SQL("grant {} to current_user").format(name))
            connection.execute(sql.SQL("drop owned by {} cascade").format(name))
            connection.execute(sql.SQL("drop role {}").format(name))


def test_a_user_who_may_not_create_is_told_what_to_grant(
    empty_database: Database, folder: Path
) -> None:
    with (
        another_user(empty_database, "threadhouse_test_reader") as reader,
        pytest.raises(MigrationError, match=r"may not change the schema .* grant create on the"),
    ):
        migrations.migrate(reader, MigrationSet.read(folder))


def test_an_owner_who_is_no_superuser_can_migrate(empty_database: Database) -> None:
    with another_user(empty_database, "threadhouse_test_owner") as owner:
        with empty_database.connect() as connection:
            grant = sql.SQL("grant all on database {} to threadhouse_test_owner")
            connection.execute(grant.format(sql.Identifier(connection.info.dbname)))
            connection.execute("grant all on schema public to threadhouse_test_owner")
        assert migrations.migrate(owner).applied
        assert migrations.migrate(owner).applied == ()
