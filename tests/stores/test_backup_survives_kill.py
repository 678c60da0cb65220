"""A backup and a restore that are killed with SIGKILL at any of their steps, then run again.

Method: a real child process works and kills itself when a step is said to be done. The steps are those of the code, so that a new
one is covered by itself.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from backup_house import BackupHouse, settings_of
from fixtures_postgres import new_database
from threadhouse.retrieval.errors import ConfigurationError, ThreadhouseError
from threadhouse.stores import embedded_postgres
from threadhouse.stores.backup import (
    BackupStep,
    check_files,
    create_backup,
    read_manifest,
)
from threadhouse.stores.embedders import FastembedEmbedder
from threadhouse.stores.postgres import Database
from threadhouse.stores.restore import RestoreReport, RestoreStep, restore_backup
from threadhouse.stores.settings import Settings

OLD = "old.txt"
"""A file of the home that a restore replaces."""


def no_progress(_task: str, _done: int, _total: int) -> None:
    """Nobody watches."""


def kill_at(wanted: str) -> None:
    """Does not come back when it is the wanted step; called in the child alone."""
    if wanted == sys.argv[-1]:
        os.kill(os.getpid(), signal.SIGKILL)


def in_child(what: str, settings: Settings, place: Path, step: str) -> int:
    address = settings.database_url
    child = subprocess.run(
        [
            *(sys.executable, __file__, what, str(settings.home)),
            *(address.get_secret_value() if address else "", str(place), step),
        ],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if child.returncode not in (0, -signal.SIGKILL):
        pytest.fail(child.stderr)
    return child.returncode


def restore(settings: Settings, source: Path) -> RestoreReport:
    return restore_backup(
        settings, source, replace=True, progress=no_progress, announce=lambda _text: None
    )


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: Database,
    template_database: str,
    model_home: Path,
    embedder: FastembedEmbedder,
) -> Generator[BackupHouse, None, None]:
    """A hub after its night; nobody changes it."""
    with new_database(postgres_server, template_database) as database:
        settings = settings_of(tmp_path_factory.mktemp("hub") / "home", model_home, database)
        house = BackupHouse(settings, database, embedder)
        house.write()
        yield house


@pytest.fixture(scope="module")
def taken(house: BackupHouse, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of it; nobody changes it either."""
    target = tmp_path_factory.mktemp("backups") / "taken"
    create_backup(house.settings, house.database, target, progress=no_progress)
    return target


@pytest.mark.parametrize("step", BackupStep)
def test_a_killed_backup_leaves_none_that_passes_for_whole_and_the_next_one_leaves_nothing_else(
    house: BackupHouse, tmp_path: Path, step: BackupStep
) -> None:
    target = tmp_path / "b"
    assert in_child("backup", house.settings, target, step) == -signal.SIGKILL
    assert target.exists() == (step is BackupStep.PLACED)
    if target.exists():
        check_files(target, read_manifest(target), no_progress)
        shutil.rmtree(target)
    create_backup(house.settings, house.database, target, progress=no_progress)
    check_files(target, read_manifest(target), no_progress)
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


_PROVEN = list(RestoreStep).index(RestoreStep.READY)
BEFORE, AFTER = list(RestoreStep)[:_PROVEN], list(RestoreStep)[_PROVEN:]
"""Steps up to the note that the new home is proven, and from there on."""


@pytest.fixture
def used_home(tmp_path: Path, model_home: Path) -> Generator[Settings, None, None]:
    """A home with something in it, whose servers are stopped afterwards."""
    settings = settings_of(tmp_path / "home", model_home)
    home = settings.home
    (home / "postgres").mkdir()
    (home / "postgres" / OLD).write_text("old")
    (home / "lake").mkdir()
    try:
        yield settings
    finally:
        embedded_postgres.stop(home / ".restoring")
        embedded_postgres.stop(home)


def require_restored(house: BackupHouse, settings: Settings) -> None:
    """The new hub is in place, the old one aside, and nothing else is left."""
    back = BackupHouse(settings, Database.open(settings), house.model)
    assert back.table_sizes() == house.table_sizes()
    assert back.audit().is_clean
    replaced = list(settings.home.glob("replaced-*"))
    assert [(folder / "postgres" / OLD).read_text() for folder in replaced] == ["old"]
    assert not (settings.home / ".restoring").exists()


@pytest.mark.parametrize("step", BEFORE)
def test_a_restore_that_is_killed_before_its_proof_leaves_the_old_home_and_starts_over(
    house: BackupHouse, taken: Path, used_home: Settings, step: RestoreStep
) -> None:
    assert in_child("restore", used_home, taken, step) == -signal.SIGKILL
    assert (used_home.home / "postgres" / OLD).read_text() == "old"
    assert not list(used_home.home.glob("replaced-*"))
    assert not restore(used_home, taken).finished_earlier
    require_restored(house, used_home)


@pytest.mark.parametrize("step", AFTER)
def test_a_restore_that_is_killed_after_its_proof_is_finished_by_the_next_one(
    house: BackupHouse, taken: Path, used_home: Settings, step: RestoreStep
) -> None:
    assert in_child("restore", used_home, taken, step) == -signal.SIGKILL
    if (used_home.home / ".restoring").exists():
        if not (used_home.home / "postgres").exists():
            with pytest.raises(ConfigurationError, match="was cut off"):
                embedded_postgres.start(used_home.home)
        assert restore(used_home, taken).finished_earlier
    require_restored(house, used_home)


def _main(what: str, home: str, address: str, place: str) -> None:
    settings = Settings.model_validate(
        {"threadhouse_home": home, "database_url": address or None, "embedding_threads": 2}
    )
    if what == "backup":
        database = Database.open(settings)
        create_backup(settings, database, Path(place), progress=no_progress, step=kill_at)
    else:
        restore_backup(
            settings,
            Path(place),
            replace=True,
            progress=no_progress,
            announce=lambda _text: None,
            step=kill_at,
        )


if __name__ == "__main__":
    try:
        _main(*sys.argv[1:5])
    except ThreadhouseError as error:
        sys.exit(str(error))
