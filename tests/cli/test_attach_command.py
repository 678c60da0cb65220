"""A database of somebody else's, attached and built from on the command line."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from attached_house import SOURCES, make_directus
from cli.conftest import CommandLine
from fixtures_postgres import as_url, new_database
from threadhouse.stores.model_build import models_directory
from threadhouse.stores.postgres import Database


@dataclass(frozen=True)
class Directus:
    """Somebody else's database, which Threadhouse never saw, and the console script that is told of it."""

    database: Database
    threadhouse: CommandLine

    def run(self, *arguments: str | Path, code: int = 0) -> str:
        """What a command prints; it has to end with this code."""
        done = self.threadhouse(*arguments, DATABASE_URL=as_url(self.database))
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr

    def change(self, statement: str) -> None:
        with self.database.connect() as connection:
            connection.execute(statement.encode())


@pytest.fixture
def directus(
    postgres_server: Database, model_home: Path, tmp_path: Path
) -> Generator[Directus, None, None]:
    models_directory(tmp_path).symlink_to(models_directory(model_home))
    with new_database(postgres_server) as database:
        with database.connect() as connection:
            make_directus(connection)
        yield Directus(database, CommandLine(tmp_path))


def test_attaching_following_and_letting_go(directus: Directus) -> None:
    said = directus.run("attach", "--sources", SOURCES)
    assert "is attached: information_unit, production_document, semantic_thread" in said
    assert "semantic_thread <- public.topics: changes are noted by triggers" in said
    directus.change("update public.pages set audience = 'staff' where slug = 'hoan-tien'")
    assert json.loads(directus.run("attach", "--check", "--json"))["touches_waiting"] > 0
    followed = json.loads(directus.run("attach", "--follow", "--json"))
    # The page, and the four sections that take their labels from it.
    assert followed["changes_logged"] == 5
    assert "0 noted keys wait" in directus.run("attach", "--check")
    assert "Detached" in directus.run("attach", "--detach")
    assert directus.run("attach", "--check") == "No database is attached.\n"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_attached_database_is_built_from_whole_and_asked(directus: Directus) -> None:
    """Every step and check of a night, the leak canaries among them, on tables that Threadhouse knows nothing of."""
    directus.run("attach", "--sources", SOURCES)
    night = json.loads(directus.run("nightly", "--json"))
    assert night["warnings"] == []
    assert night["assets"]["unit_chunks"]["owners"] == 12
    assert night["assets"]["context_packs"]["dagster/row_count"] > 0
    directus.run("audit")  # ends with 3 when anything is found
    ask = ("query", "Hoàn tiền", "--audience", "customer", "--as-operator", "--json")
    answer = directus.run(*ask)
    assert "hoan-tien#1" in answer
    assert "so-tay" not in answer
    directus.change("update public.pages set audience = 'staff' where slug = 'hoan-tien'")
    # A right that was taken away holds before anything is followed.
    assert "hoan-tien#1" not in directus.run(*ask)


def test_what_is_wrong_with_a_file_is_printed_line_by_line(
    directus: Directus, tmp_path: Path
) -> None:
    file = tmp_path / "views.sql"
    file.write_text("drop table public.pages;\nselect 1;\n", encoding="utf-8")
    said = directus.run("attach", "--sources", file, code=1)
    assert "cannot be attached, and nothing was changed:" in said
    assert "  line 1: 'drop table public.pages' is not allowed" in said
    assert "  line 2: 'select 1' is not allowed" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("arguments", [(), ("--check", "--follow"), ("--sources", "a", "--detach")])
def test_exactly_one_thing_is_done(untouched: CommandLine, arguments: tuple[str, ...]) -> None:
    done = untouched("attach", *arguments)
    assert done.returncode == 2
    assert "give exactly one of --sources FILE" in done.stderr


def test_a_file_that_is_not_there_is_one_sentence(untouched: CommandLine) -> None:
    done = untouched("attach", "--sources", "nowhere.sql")
    assert (done.returncode, done.stdout) == (1, "")
    assert "nowhere.sql cannot be read: No such file or directory." in done.stderr
