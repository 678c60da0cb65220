"""The command that moves documents between the legacy collection and units, as operators use it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from hub_rows import add_document
from threadhouse.pipelines.cli_documents import migrate_document
from threadhouse.stores.migrations import open_database
from threadhouse.stores.settings import Settings

if TYPE_CHECKING:
    from cli.conftest import CommandLine

ROOT = Path(__file__).resolve().parents[2]
BODY = "Mở đầu.\n\n## Một\n\nMột là một.\n"


@pytest.fixture
def documents(migrated: CommandLine) -> CommandLine:
    with open_database(Settings(threadhouse_home=migrated.home)).connect() as connection:
        connection.execute("delete from public.production_document where document_id like 'move-%'")
        add_document(connection, "move-1", body=BODY)
        add_document(connection, "move-2")
    return migrated


def test_the_plan_and_the_sides_are_told_and_nothing_is_made(documents: CommandLine) -> None:
    planned = documents("migrate-document", "move-1", "--dry-run", "--address-prefix", "M")
    assert planned.stdout.splitlines() == [
        "move-1: 2 units",
        "  M/0  Quy định  7 characters",
        "  M/1  Một  11 characters",
    ]
    as_json = json.loads(documents("migrate-document", "move-1", "--dry-run", "--json").stdout)
    assert as_json[0]["units"][1] == {"address": "move-1/1", "title": "Một", "chars": 11}
    sides = json.loads(documents("migrate-document", "--status", "--json").stdout)
    told = {
        side["document_id"]: (side["side"], side["wanted"], side["unit_count"]) for side in sides
    }
    assert told["move-1"] == ("none", "legacy", 0)
    assert told["move-2"] == ("none", "none", 0)
    printed = documents("migrate-document", "--status", "move-1").stdout
    assert "move-1: none, 0 units, on its way to legacy\n" in printed


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["move-1", "nobody"], 1, "There is no document nobody; no document was moved."),
        (["move-1", "move-2"], 1, "Document move-2 has no text to make units of"),
        (["move-1", "--back-out"], 1, "is on the legacy side already"),
        ([], 2, "name a document"),
        (["move-1", "--force"], 2, "--force goes with --back-out"),
        (["move-1", "--back-out", "--dry-run"], 2, "exclude each other"),
        (["move-1", "move-2", "--address-prefix", "M"], 2, "--address-prefix is for one document"),
        (["nobody", "--status"], 1, "There is no document nobody"),
    ],
)
def test_bad_input_is_one_sentence_and_an_exit_code(
    documents: CommandLine, arguments: list[str], code: int, sentence: str
) -> None:
    done = documents("migrate-document", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_document_is_moved_and_moved_back(documents: CommandLine, model_home: object) -> None:
    from threadhouse.stores.model_build import models_directory

    here = models_directory(documents.home)
    if not here.exists():
        here.symlink_to(models_directory(model_home))  # pyright: ignore[reportArgumentType]
    moved = documents("migrate-document", "move-1", "--who", "an", "--json")
    assert moved.returncode == 0, moved.stderr
    [side] = json.loads(moved.stdout)
    assert (side["side"], side["unit_count"], side["changed_by"]) == ("units", 2, "an")
    assert [unit["address"] for unit in side["units"]] == ["move-1/0", "move-1/1"]
    back = documents("migrate-document", "move-1", "--back-out", "--who", "binh")
    assert back.returncode == 0, back.stderr
    assert back.stdout.startswith("move-1: legacy, 2 units, by binh at ")


def test_the_page_has_exactly_the_options_of_the_command() -> None:
    page = (ROOT / "docs" / "document-migration.md").read_text(encoding="utf-8")
    options = {
        name
        for option in migrate_document.params
        if isinstance(option, click.Option)
        for name in option.opts
    }
    assert set(re.findall(r"(?m)^\| `(--[a-z-]+)` \|", page)) == options - {"--json"}
