"""A backup holds everything of one moment, and a restore brings exactly that back or nothing."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import SecretStr

from backup_house import BackupHouse, settings_of
from fixtures_object_store import ObjectServer
from fixtures_postgres import as_url, new_database
from hub_rows import write_version
from threadhouse.retrieval.errors import (
    BackupError,
    ConfigurationError,
    StoreLockedError,
    StoreUnreachableError,
)
from threadhouse.stores import embedded_postgres, migrations
from threadhouse.stores.backup import (
    BackupManifest,
    BackupStep,
    check_files,
    create_backup,
    read_manifest,
)
from threadhouse.stores.embedders import FastembedEmbedder
from threadhouse.stores.lake import EventLake
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import projection_lock
from threadhouse.stores.restore import RestoreReport, RestoreStep, restore_backup
from threadhouse.stores.settings import Settings
from threadhouse.stores.token_keys import read_token_keys
from threadhouse.stores.vectors import open_writer


def no_progress(_task: str, _done: int, _total: int) -> None:
    """Nobody watches."""


def back_up(house: BackupHouse, target: Path, **changes: object) -> BackupManifest:
    settings = house.settings.model_copy(update=changes)
    return create_backup(settings, house.database, target, progress=no_progress)


def restore(settings: Settings, source: Path, *, replace: bool = False) -> RestoreReport:
    return restore_backup(
        settings, source, replace=replace, progress=no_progress, announce=lambda _text: None
    )


def embedded_house(settings: Settings, model: FastembedEmbedder) -> BackupHouse:
    return BackupHouse(settings, Database.open(settings), model)


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
    back_up(house, target)
    return target


@pytest.fixture
def copy(taken: Path, tmp_path: Path) -> Path:
    """A backup to spoil."""
    return shutil.copytree(taken, tmp_path / "copy")


@pytest.fixture
def outside(tmp_path: Path, model_home: Path, empty_database: Database) -> Settings:
    """A home with nothing but the model, whose database is elsewhere and empty."""
    return settings_of(tmp_path / "outside", model_home, empty_database)


@pytest.fixture
def new_home(tmp_path: Path, model_home: Path) -> Generator[Settings, None, None]:
    """A home with nothing but the model; its server is stopped afterwards."""
    settings = settings_of(tmp_path / "new", model_home)
    try:
        yield settings
    finally:
        embedded_postgres.stop(settings.home / ".restoring")
        embedded_postgres.stop(settings.home)


def test_a_restored_hub_is_the_hub_that_was_backed_up(
    house: BackupHouse, tmp_path: Path, new_home: Settings
) -> None:
    said: list[str] = []
    taken = tmp_path / "b"
    create_backup(house.settings, house.database, taken, progress=no_progress, step=said.append)
    assert said == list(BackupStep)
    said.clear()
    done = restore_backup(
        new_home,
        taken,
        replace=False,
        progress=no_progress,
        announce=lambda _text: None,
        step=said.append,
    )
    assert said == list(RestoreStep)
    assert (done.mended, done.migrated, done.replaced) == (0, (), None)
    back = embedded_house(new_home, house.model)
    assert back.table_sizes() == house.table_sizes()
    assert back.answers() == house.answers()
    assert back.audit().is_clean
    assert EventLake.open(new_home).digests() == EventLake.open(house.settings).digests()
    assert read_token_keys(new_home).keys == read_token_keys(house.settings).keys
    secret = Path("keys") / "query-key.secret"
    assert (new_home.home / secret).read_bytes() == (house.home / secret).read_bytes()
    assert (new_home.home / "lake" / "analytics.duckdb").exists()
    assert back.night() == (0, 0), "the first night after a restore finds nothing to do"


def test_only_the_owner_may_read_a_backup(taken: Path) -> None:
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (taken, *taken.rglob("*"))}
    assert modes == {0o700, 0o600}


def test_the_manifest_says_what_is_in_the_backup(house: BackupHouse, taken: Path) -> None:
    manifest = read_manifest(taken)
    found = {
        path.relative_to(taken).as_posix(): path.stat().st_size
        for path in taken.rglob("*")
        if path.is_file() and path != taken / "manifest.json"
    }
    assert {file.path: file.size_bytes for file in manifest.files} == found
    assert (manifest.documents, manifest.units, manifest.threads) == (2, 2, 1)
    assert set(manifest.spaces.values()) == {house.model.space.space_id}
    assert len(manifest.spaces) == 3
    assert manifest.migration == migrations.MigrationSet.shipped().migrations[-1].name
    check_files(taken, manifest, no_progress)


def test_changes_since_the_last_night_are_published_by_the_restore(
    make_house: BackupHouse, tmp_path: Path, outside: Settings
) -> None:
    with make_house.database.connect() as connection:
        write_version(connection, "L.1", "Nhân viên được nghỉ phép mười lăm ngày mỗi năm.")
        # As from a server that has seen far more transactions than the one that they are restored into.
        connection.execute("select set_config('threadhouse.retention', 'on', true)")
        connection.execute("update nao.change_log set transaction_id = '1000000000'")
        connection.execute("update nao.retrieval_metric_event set ingest_xid = '1000000000'")
    back_up(make_house, tmp_path / "b")
    done = restore(outside, tmp_path / "b")
    assert done.mended > 0
    assert done.repair["texts_embedded"] == 1
    back = embedded_house(outside, make_house.model)
    assert back.audit().is_clean
    assert "mười lăm" in json.dumps(back.answers(), ensure_ascii=False)
    in_the_past = """select (select bool_and(transaction_id < pg_current_xact_id()) from nao.change_log)
                          , (select bool_and(ingest_xid < pg_current_xact_id()) from nao.retrieval_metric_event)"""
    assert back.rows(in_the_past) == [(True, True)]


def test_vectors_of_a_server_are_left_out_and_built_again_without_embedding(
    house: BackupHouse, tmp_path: Path, outside: Settings
) -> None:
    manifest = back_up(house, tmp_path / "b", qdrant_url="http://127.0.0.1:1")
    assert (manifest.has_vectors, (tmp_path / "b" / "vectors").exists()) == (False, False)
    done = restore(outside, tmp_path / "b")
    assert done.repair["texts_embedded"] == 0
    assert done.points > 0
    assert embedded_house(outside, house.model).answers() == house.answers()


def test_an_older_backup_is_migrated_forward(
    postgres_server: Database,
    embedder: FastembedEmbedder,
    model_home: Path,
    tmp_path: Path,
    outside: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shipped = migrations.MigrationSet.shipped()
    with new_database(postgres_server) as database:
        migrations.migrate(database)
        settings = settings_of(tmp_path / "old", model_home, database)
        back_up(BackupHouse(settings, database, embedder), tmp_path / "b")
    # A release later: today's views may need today's last migration, so that the one to come is made up.
    later = migrations.Migration("9999_later.sql", "create table nao.later (number int)")
    newer = dataclasses.replace(shipped, migrations=(*shipped.migrations, later))
    monkeypatch.setattr(migrations.MigrationSet, "shipped", lambda: newer)
    done = restore(outside, tmp_path / "b")
    assert done.migrated == (later.name,)


def test_a_database_that_holds_something_is_never_replaced(
    house: BackupHouse, taken: Path, tmp_path: Path, model_home: Path
) -> None:
    settings = settings_of(tmp_path / "other", model_home, house.database)
    with pytest.raises(BackupError, match="is not empty; restore into one that was just created"):
        restore(settings, taken, replace=True)
    assert [path.name for path in settings.home.iterdir()] == ["models"]


def test_a_home_that_holds_something_is_refused_and_kept_aside_when_asked(
    house: BackupHouse, taken: Path, new_home: Settings
) -> None:
    (new_home.home / "qdrant").mkdir()
    (new_home.home / "qdrant" / "aliases.json").write_text("{}")
    with pytest.raises(BackupError, match=r"is not empty \(qdrant\)"):
        restore(new_home, taken)
    done = restore(new_home, taken, replace=True)
    assert done.replaced is not None
    assert [path.name for path in done.replaced.iterdir()] == ["qdrant"]
    assert (done.replaced / "qdrant" / "aliases.json").read_text() == "{}"
    assert embedded_house(new_home, house.model).audit().is_clean


@pytest.mark.slow
def test_a_lake_in_an_object_store_is_put_back_and_taken_again(
    taken: Path,
    tmp_path: Path,
    outside: Settings,
    empty_database: Database,
    object_server: ObjectServer,
    bucket: str,
) -> None:
    lake = {"lake_url": f"s3://{bucket}/hub", "aws_endpoint_url": object_server.endpoint}
    settings = outside.model_copy(update=lake)
    dead = outside.model_copy(update=lake | {"aws_endpoint_url": "http://127.0.0.1:1"})
    with pytest.raises(StoreUnreachableError, match="does not answer"):
        restore(dead, taken)
    restore(settings, taken)

    # Another machine, which has no copy yet.
    again = settings.model_copy(update={"threadhouse_home": tmp_path / "third"})
    create_backup(again, empty_database, tmp_path / "b", progress=no_progress)
    days = sorted(path.relative_to(taken) for path in taken.glob("lake/*/*"))
    assert days
    assert all((tmp_path / "b" / day).read_bytes() == (taken / day).read_bytes() for day in days)
    assert len(list((tmp_path / "b").glob("lake/*/*"))) == len(days)

    with (
        new_database(empty_database) as other,
        pytest.raises(BackupError, match="There are events in s3:"),
    ):
        restore(
            settings.model_copy(
                update={
                    "threadhouse_home": tmp_path / "fourth",
                    "database_url": SecretStr(as_url(other)),
                }
            ),
            taken,
        )


def _flip_a_byte(copy: Path) -> None:
    dump = bytearray((copy / "database.dump").read_bytes())
    dump[len(dump) // 2] ^= 1
    (copy / "database.dump").write_bytes(dump)


def _lose_a_file(copy: Path) -> None:
    next(copy.glob("lake/*/events.parquet")).unlink()


def _change_the_manifest(copy: Path, **changes: object) -> None:
    path = copy / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))


SPOILED = {
    "is not what was written": _flip_a_byte,
    "is missing": _lose_a_file,
    "is no backup": lambda copy: (copy / "manifest.json").unlink(),
    "cannot be read": lambda copy: (copy / "manifest.json").write_text("{"),
    "is not one that Threadhouse wrote": lambda copy: _change_the_manifest(copy, files=None),
    "of format 2": lambda copy: _change_the_manifest(copy, format=2),
    "holds migration 9999": lambda copy: _change_the_manifest(
        copy, migrations=["9999_from_the_future.sql"]
    ),
    "outside of it": lambda copy: _change_the_manifest(
        copy, files=[{"path": "../secret", "size_bytes": 1, "sha256": "x"}]
    ),
    "set EMBEDDING_MODEL": lambda copy: _change_the_manifest(copy, spaces={"a": "other-space"}),
}


@pytest.mark.parametrize("said", SPOILED)
def test_a_backup_that_is_not_right_changes_nothing(
    copy: Path, new_home: Settings, said: str
) -> None:
    SPOILED[said](copy)
    with pytest.raises(BackupError, match=said):
        restore(new_home, copy)
    assert {path.name for path in new_home.home.iterdir()} <= {"models", ".restore.lock"}


def test_a_dump_that_cannot_be_read_leaves_nothing_and_no_server(
    copy: Path, new_home: Settings
) -> None:
    (copy / "database.dump").write_bytes(b"PGDMP and no more")
    manifest = json.loads((copy / "manifest.json").read_bytes())
    for file in manifest["files"]:
        if file["path"] == "database.dump":
            content = (copy / "database.dump").read_bytes()
            file |= {
                "size_bytes": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
            }
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BackupError, match="pg_restore"):
        restore(new_home, copy)
    assert not (new_home.home / ".restoring").exists()
    assert not embedded_postgres.status(new_home.home / ".restoring").is_running


@pytest.mark.parametrize("where", ["there", "inside"])
def test_a_place_that_is_taken_or_would_be_lost_is_refused(
    house: BackupHouse, tmp_path: Path, where: str
) -> None:
    target = tmp_path / "there" if where == "there" else house.home / "backups" / "today"
    if where == "there":
        target.mkdir()
    with pytest.raises(BackupError, match=r"is there already|lies inside the home"):
        back_up(house, target)
    assert not (house.home / "backups").exists()


def test_a_backup_waits_for_a_publish_and_names_it(house: BackupHouse, tmp_path: Path) -> None:
    # In a thread of its own: whoever holds the lock may take it again.
    with (
        projection_lock(house.database),
        ThreadPoolExecutor(1) as elsewhere,
        pytest.raises(StoreLockedError, match="The projection is being written by"),
    ):
        elsewhere.submit(back_up, house, tmp_path / "b").result()
    with (
        open_writer(home=house.home, lock_timeout_s=5),
        pytest.raises(StoreLockedError, match=f"process {os.getpid()}"),
    ):
        back_up(house, tmp_path / "b", lock_timeout_s=0.1)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_sentence_and_leaves_nothing(house: BackupHouse, tmp_path: Path) -> None:
    def fill(step: BackupStep) -> None:
        if step is BackupStep.DATABASE:
            raise OSError(28, "No space left on device")

    with pytest.raises(BackupError, match="No space left on device; nothing of it is left"):
        create_backup(
            house.settings, house.database, tmp_path / "b", progress=no_progress, step=fill
        )
    assert list(tmp_path.iterdir()) == []


def test_the_oldest_program_that_fits_the_server_is_used() -> None:
    folders = [
        embedded_postgres.client_program("pg_dump", major).parent.parent.name
        for major in (14, 16, 17, 18)
    ]
    assert folders == ["pginstall", "pginstall", "pginstall18", "pginstall18"]
    with pytest.raises(ConfigurationError, match="is PostgreSQL 99 and the newest pg_dump here"):
        embedded_postgres.client_program("pg_dump", 99)


@pytest.fixture
def make_house(
    database: Database, tmp_path: Path, model_home: Path, embedder: FastembedEmbedder
) -> BackupHouse:
    """A hub after its night, to change."""
    house = BackupHouse(settings_of(tmp_path / "hub", model_home, database), database, embedder)
    house.write()
    return house
