"""Debian's PostgreSQL, with a login that is no superuser, does what the embedded server does.

The whole of ``tests/stores`` runs on it with ``make test-postgres``; every run of the tests takes the part that is listed here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from fixtures_postgres import OUTSIDE_ADMINISTRATOR, OUTSIDE_SERVER, as_url, new_database
from outside_server import (
    NOT_INSTALLED,
    SUPERUSER,
    OutsideServer,
    make_role,
    outside_server,
    programs,
)
from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.models import Audience
from threadhouse.stores import migrations
from threadhouse.stores.reader_roles import (
    BUILDER_ROLE,
    LANE_ROLES,
    READER_ROLE,
    begin_reading,
    row_security_gaps,
)

pytestmark = pytest.mark.skipif(programs() is None, reason=NOT_INSTALLED)

ROOT = Path(__file__).parents[2]
STORES = "tests/stores"
# Each kind of thing that is done to Postgres: schema, roles, change capture by loading, publishing, packs, events and the lake.
EVERY_TIME = (
    "test_postgres.py",
    "test_migrations.py",
    "test_reader_roles.py::test_a_lane_cannot_become_another_one",
    "test_reader_roles.py::test_the_reader_has_nothing_of_a_lane_before_it_becomes_one",
    "test_reader_roles.py::test_a_role_that_is_no_lane_sees_nothing_through_the_views",
    "test_reader_roles.py::test_a_redefined_source_view_is_kept_and_seen_by_lane",
    "test_reader_roles.py::test_setting_up_again_changes_nothing",
    "test_four_enforcers.py::test_all_enforcers_give_one_answer[12,800 cases]",
    "test_audience_policy.py",
    "test_loading.py::test_loading_again_writes_nothing",
    "test_loading.py::test_a_changed_text_makes_one_version_and_moves_the_pointer",
    "test_loading.py::test_a_row_that_only_the_database_can_refuse_does_not_take_its_batch_along",
    "test_loading.py::test_two_loads_at_once_are_refused",
    "test_night_records.py",
    "test_projection.py::test_a_shorter_version_leaves_exactly_its_own_chunks[memory]",
    "test_projection.py::test_deletes_reach_every_collection[memory]",
    "test_projection.py::test_a_document_changes_sides_in_one_transaction_and_can_come_back",
    "test_pack_store.py",
    "test_lake.py::test_second_extract_writes_nothing",
    "test_lake.py::test_only_days_since_the_last_extract_are_looked_at",
    "test_lake.py::test_an_event_of_a_transaction_that_began_before_the_extract_is_not_missed",
)
# They start servers of their own.
NOT_ABOUT_IT = ("test_outside_postgres.py", "test_embedded_postgres.py")


@pytest.fixture(scope="module")
def server() -> Iterator[OutsideServer]:
    with outside_server() as running:
        yield running


def test_the_login_is_no_superuser_and_owns_what_it_makes(server: OutsideServer) -> None:
    with new_database(server.owner) as database, database.connect() as connection:
        row = connection.execute(
            "select rolsuper, rolcreaterole, pg_get_userbyid(datdba) = current_user"
            " from pg_roles, pg_database where rolname = current_user and datname = current_database()"
        ).fetchone()
    assert row == (False, True, True)


def test_a_login_that_may_not_create_roles_hears_what_is_missing() -> None:
    """Before anybody else made roles: they are the server's, so a server of its own."""
    with outside_server() as bare:
        administrator = bare.as_user(SUPERUSER)
        with administrator.connect(autocommit=True) as connection:
            make_role(connection, "plain_owner", "createdb nocreaterole")
        plain = bare.as_user("plain_owner")
        with new_database(plain) as database:
            assert migrations.migrate(database).applied
            with database.connect() as connection:
                gaps = [gap.gap for gap in row_security_gaps(connection)]
                roles = (*LANE_ROLES.values(), READER_ROLE, BUILDER_ROLE)
                assert gaps[:6] == [f"role {role} does not exist" for role in roles]
                begin_reading(connection, lane_principal(Audience.CUSTOMER))
                connection.execute("select * from visible.information_unit")
                name = connection.info.dbname
            # The administrator of the server makes them once, and says so; the login goes on by itself.
            with bare.as_user(SUPERUSER, name).connect() as connection:
                connection.execute("select cong.set_up_roles()")
                for role in roles:
                    connection.execute(f"grant {role} to plain_owner".encode())
            with database.connect() as connection:
                assert row_security_gaps(connection) == []
                begin_reading(connection, lane_principal(Audience.EMPLOYEE))
                row = connection.execute("select current_user, session_user").fetchone()
                assert row == ("threadhouse_employee", "plain_owner")


def test_what_is_done_to_the_embedded_server_is_done_to_it(
    server: OutsideServer, model_home: Path, tmp_path: Path
) -> None:
    chosen = [f"{STORES}/{name}" for name in EVERY_TIME]
    passed, skipped = run_store_suite(server, model_home, tmp_path, chosen)
    assert passed > len(EVERY_TIME)
    assert skipped == 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_whole_store_suite_passes_on_it(
    server: OutsideServer, model_home: Path, tmp_path: Path
) -> None:
    left_out = [f"--ignore={STORES}/{name}" for name in NOT_ABOUT_IT]
    chosen = [STORES, "-m", "not slow", *left_out]
    passed, _ = run_store_suite(server, model_home, tmp_path, chosen)
    # Fewer would mean that they were not found.
    assert passed > 500


def run_store_suite(
    server: OutsideServer, model_home: Path, tmp_path: Path, chosen: list[str]
) -> tuple[int, int]:
    """How many tests passed and were skipped; fails with what pytest said when one failed."""
    result = tmp_path / "result.xml"
    environment = {
        **os.environ,
        OUTSIDE_SERVER: as_url(server.owner),
        OUTSIDE_ADMINISTRATOR: as_url(server.as_user(SUPERUSER)),
        "THREADHOUSE_TEST_MODELS": str(model_home),
    }
    options = ["-q", "-p", "no:cacheprovider", "--tb=short", f"--junitxml={result}"]
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *chosen],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    suite = Xml.parse(result).getroot().find("testsuite")  # noqa: S314  written by pytest a moment ago
    assert suite is not None
    count = {name: int(suite.get(name, "0")) for name in ("tests", "skipped", "failures", "errors")}
    assert count["failures"] + count["errors"] == 0
    passed = count["tests"] - count["skipped"]
    sys.stderr.write(
        f"PostgreSQL {server.major} of Debian: {passed} passed, {count['skipped']} skipped in"
        f" {time.monotonic() - begun:.0f} s\n"
    )
    return passed, count["skipped"]
