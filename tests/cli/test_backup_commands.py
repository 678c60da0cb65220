"""Backing up and restoring from the command line: what is said, what a program reads, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backup_house import BackupHouse, settings_of
from fixtures_postgres import as_url
from threadhouse.pipelines import cli
from threadhouse.stores.embedders import FastembedEmbedder
from threadhouse.stores.postgres import Database


@pytest.fixture
def house(
    database: Database,
    tmp_path: Path,
    model_home: Path,
    embedder: FastembedEmbedder,
    monkeypatch: pytest.MonkeyPatch,
) -> BackupHouse:
    house = BackupHouse(settings_of(tmp_path / "hub", model_home, database), database, embedder)
    house.write()
    use(monkeypatch, house.home, database)
    return house


def use(monkeypatch: pytest.MonkeyPatch, home: Path, database: Database) -> None:
    monkeypatch.setenv("THREADHOUSE_HOME", str(home))
    monkeypatch.setenv("DATABASE_URL", as_url(database))


def test_a_backup_is_taken_checked_and_put_back(
    house: BackupHouse,
    empty_database: Database,
    tmp_path: Path,
    model_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    target = str(tmp_path / "b")
    assert cli.run(["backup", target, "--json"]) == 0
    made = json.loads(capfd.readouterr().out)
    assert (made["path"], made["documents"], made["has_vectors"]) == (target, 2, True)

    assert cli.run(["backup", target]) == 1
    assert "is there already" in capfd.readouterr().err
    assert cli.run(["restore", target]) == 1
    assert "is not empty; restore into one that was just created" in capfd.readouterr().err

    assert cli.run(["restore", target, "--check"]) == 0
    assert f"All {made['file_count']} files of the backup" in capfd.readouterr().out

    settings = settings_of(tmp_path / "new", model_home, empty_database)
    use(monkeypatch, settings.home, empty_database)
    code = cli.run(["restore", target, "--json"])
    said = capfd.readouterr()
    assert code == 0, said.err
    done = json.loads(said.out)
    assert done["audit"] == {"is_clean": True, "points": 7, "mended": 0}
    assert BackupHouse(settings, empty_database, house.model).answers() == house.answers()


def test_a_damaged_backup_ends_with_one_sentence_and_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("THREADHOUSE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    (tmp_path / "b").mkdir()
    for options in ([], ["--check"]):
        assert cli.run(["restore", str(tmp_path / "b"), *options]) == 1
        said = capfd.readouterr().err.splitlines()
        assert len(said) == 1
        assert "is no backup: it has no manifest.json" in said[0]
    assert not (tmp_path / "home").exists()
