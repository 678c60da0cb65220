"""`threadhouse migrate-model` as an operator uses it, from the dry run to the drop, with the real model in two variants."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fixtures_postgres import as_url
from fixtures_source_tree import ROOT
from hub_rows import add_document, add_unit
from threadhouse.pipelines import cli, cli_migrate_model
from threadhouse.stores.centroid_projection import refresh_centroids
from threadhouse.stores.embedder_in_force import EmbedderInForce
from threadhouse.stores.embedders import FastembedEmbedder
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.migrations import open_database
from threadhouse.stores.model_build import MANIFEST, models_directory, read_manifest
from threadhouse.stores.pack_refresh import refresh_packs
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import publish_content
from threadhouse.stores.settings import Settings
from threadhouse.stores.vector_cache import PostgresVectorCache
from threadhouse.stores.vectors import open_writer


@dataclass(frozen=True)
class Result:
    """What a command printed and how it ended."""

    exit_code: int
    stdout: str
    stderr: str


Run = Callable[..., Result]


@pytest.fixture
def run(
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model_home: Path,
    embedder: FastembedEmbedder,
    capfd: pytest.CaptureFixture[str],
) -> Run:
    """The script in this process, over a hub of two units that was published with the offline model."""
    home = tmp_path / "home"
    home.mkdir()
    models_directory(home).symlink_to(models_directory(model_home))
    monkeypatch.setenv("THREADHOUSE_HOME", str(home))
    monkeypatch.setenv("DATABASE_URL", as_url(database))
    monkeypatch.setenv("EMBEDDING_THREADS", "2")
    with database.connect() as connection:
        add_document(connection, "law")
        add_document(connection, "old", body="Quy trình cũ về khiếu nại của khách hàng. " * 5)
        add_unit(connection, "u1", "law", "Khách hàng được hoàn tiền trong ba ngày.")
        add_unit(connection, "u2", "law", "Khiếu nại được gửi bằng văn bản.")
        connection.execute(
            "insert into public.semantic_thread (thread_id, canonical_address, title) values ('t1', 'T/1', 'Hoàn tiền')"
        )
        connection.execute(
            "insert into public.thread_membership select 't1', logical_unit_id, 'canonical', 1, 'confirmed' "
            "from public.tac_logical_unit"
        )
    cached = CachedEmbedder(embedder, PostgresVectorCache(database))
    with open_writer(home=home, lock_timeout_s=10) as store:
        publish_content(database, store, cached, home)
        refresh_centroids(database, store, embedder.space)
    refresh_packs(database, embedder.space.space_id)

    def invoke(*arguments: str | Path) -> Result:
        capfd.readouterr()
        exit_code = cli.run([*map(str, arguments)])
        out, err = capfd.readouterr()
        return Result(exit_code, out, err)

    return invoke


@pytest.fixture
def other_model(tmp_path: Path, embedder: FastembedEmbedder) -> Path:
    """The offline model with another prefix: other vectors of the same dimension, which must never meet."""
    folder = tmp_path / "other-model"
    folder.mkdir()
    for file in embedder.directory.iterdir():
        if file.name != MANIFEST:
            (folder / file.name).symlink_to(file)
    manifest = replace(read_manifest(embedder.directory), passage_prefix="văn bản: ")
    (folder / MANIFEST).write_text(json.dumps(asdict(manifest)), encoding="utf-8")
    return folder


def as_document(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def states(run: Run) -> list[str]:
    return [
        each["state"]
        for each in as_document(run("migrate-model", "status", "--json"))["generations"]
    ]


def asked(run: Run) -> str:
    document = as_document(run("query", "T/1", "--audience", "customer", "--as-operator", "--json"))
    return json.dumps(document)


@pytest.mark.timeout(900)
def test_a_model_is_brought_in_and_taken_back_by_command(
    run: Run, other_model: Path, embedder: FastembedEmbedder
) -> None:
    old = embedder.space.space_id
    settings = Settings.from_environment()
    following = EmbedderInForce(settings, open_database(settings))
    assert following.now().space.space_id == old
    estimate = as_document(
        run("migrate-model", "build", "--path", other_model, "--dry-run", "--json")
    )
    assert (estimate["texts_to_embed"], estimate["texts_cached"]) == (3, 0)
    assert estimate["estimated_seconds"] >= 0
    assert states(run) == ["in_force"]

    built = as_document(run("migrate-model", "build", "--path", other_model, "--json"))
    new = built["name"].partition("__")[0]
    assert new != old
    assert states(run) == ["in_force", "built"]
    verified = as_document(run("migrate-model", "verify", "--json"))
    assert (verified["refusal"], verified["leaks"]) == (None, [])
    assert verified["probed"] > 0
    assert old in asked(run)

    switched = as_document(run("migrate-model", "switch", "--json"))
    assert switched["in_force"]["space_id"] == new
    # The settings still name the old model, and the question is embedded with the new one.
    assert new in asked(run)
    assert following.now().space.space_id == new, "what writes for days did not follow"
    assert as_document(run("audit", "--json"))["audit"]["is_clean"]

    back = as_document(run("migrate-model", "rollback", "--json"))
    assert back["in_force"]["space_id"] == old
    assert following.now().space.space_id == old
    assert old in asked(run)
    assert states(run) == ["in_force", "built"]
    assert as_document(run("migrate-model", "drop", "--json")) == {"dropped": [built["name"]]}
    assert states(run) == ["in_force", "dropped"]


def test_what_cannot_be_done_is_one_sentence(
    run: Run, other_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step, sentence in (
        ("switch", "No generation is built"),
        ("rollback", "no generation to go back to"),
        ("drop", "nothing to drop"),
        ("build", "nothing to migrate"),
    ):
        refused = run("migrate-model", step)
        assert (refused.exit_code, sentence in refused.stderr) == (1, True), refused.stderr
    monkeypatch.setenv("EMBEDDING_PATH", str(other_model))
    refused = run("audit", "--json")
    assert (refused.exit_code, "migrate-model build" in refused.stderr) == (1, True), refused.stderr


def test_the_page_quotes_refusals_and_commands_as_they_are() -> None:
    page = (ROOT / "docs" / "model-migration.md").read_text(encoding="utf-8")
    table = page.partition("## When the switch is refused")[2].partition("##")[0]
    quoted = [
        phrase
        for line in table.splitlines()
        if line.startswith("| `")
        for phrase in re.findall("`([^`]+)`", line.split("|")[1])
    ]
    code = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    assert len(quoted) > 5
    assert [phrase for phrase in quoted if phrase not in code] == []
    named = set(re.findall(r"migrate-model ([a-z]+)", page))
    assert named == set(cli_migrate_model.migrate_model.commands)
