"""Putting a backup back: built beside what is there, proven, and only then put in its place.

Belongs here: what stands in the way of a restore, the steps and their order, finishing one that was cut off.
Does not belong here: what a backup holds (``stores.backup``), the audit (``stores.audit``).

The new home grows in ``.restoring/`` below the home, on the same file system whatever is mounted there, with a server of its own.
Nothing of the old home is touched before the audit of the new one is clean. Then a note says so (``ready.json``), what was there
is moved to ``replaced-<when>/``, and the new parts are moved in, the database last: a home without it is refused until the same
command has finished its work.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import psycopg
from filelock import FileLock, Timeout
from psycopg import sql

from threadhouse.retrieval.errors import BackupError, StoreLockedError
from threadhouse.retrieval.models import Json
from threadhouse.stores import embedded_postgres, migrations, queries
from threadhouse.stores.analytics import refresh_analytics
from threadhouse.stores.audit import AuditReport, audit_projection
from threadhouse.stores.backup import (
    DUMP,
    KEYS,
    LAKE,
    VECTORS,
    BackupManifest,
    Progress,
    check_files,
    read_manifest,
)
from threadhouse.stores.durable_files import sync, sync_tree
from threadhouse.stores.embedded_postgres import READY_FILE, RESTORING, make_passable
from threadhouse.stores.embedders import FastembedEmbedder, open_embedder
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.lake import CACHE, DAY_FILE, TABLE, EventLake
from threadhouse.stores.postgres import Database
from threadhouse.stores.postgres_programs import restore_database
from threadhouse.stores.repair import repair_projection
from threadhouse.stores.token_keys import write_private_file
from threadhouse.stores.vector_cache import PostgresVectorCache
from threadhouse.stores.vectors import open_reader, open_writer
from threadhouse.stores.vectors_edge import restore_collections

if TYPE_CHECKING:
    from threadhouse.stores.settings import Settings

REPLACED: Final = "replaced-"
_LOCK: Final = ".restore.lock"
_POSTGRES: Final = "postgres"
_QDRANT: Final = "qdrant"
_STAYS: Final = frozenset({"models", "logs", "postgres.lock", CACHE, _LOCK, RESTORING})
"""Entries of a home that a backup has no say in. A home that holds nothing else is empty."""


_UNHURRIED: Final = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
"""Settings of the server in the staging folder: what it has not written by a crash is started over anyway."""


class RestoreStep(StrEnum):
    """What a restore does, in this order. Each is said when it is done; after a kill the same command finishes or starts over."""

    CHECKED = "checked"
    BEGUN = "begun"
    DATABASE = "database"
    MIGRATED = "migrated"
    FILES = "files"
    AUDITED = "audited"
    READY = "ready"
    MOVED_OUT = "moved out"
    MOVED_IN = "moved in"
    CLEANED = "cleaned"
    ANALYSTS = "analysts"


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What a restore did.

    Attributes:
        migrated: Migrations that the backup did not have yet.
        mended: Findings of the first audit that a repair took away: what had changed since the last night before the backup, and
            all vectors where the backup held none. Figures of the repair are in ``repair``.
        replaced: Where the old home is, if there was one.
        finished_earlier: Whether this call only finished what another had proven.
    """

    backup: BackupManifest
    migrated: tuple[str, ...]
    points: int
    mended: int
    repair: dict[str, Json]
    replaced: Path | None
    seconds: float
    finished_earlier: bool = False

    def to_json(self) -> dict[str, Json]:
        """For programs."""
        return {
            "backup": self.backup.summary(),
            "migrated": list(self.migrated),
            "audit": {"is_clean": True, "points": self.points, "mended": self.mended},
            "repair": self.repair,
            "replaced": None if self.replaced is None else str(self.replaced),
            "finished_earlier": self.finished_earlier,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class _Ready:
    """A new home that was proven and is being put in place. ``phase`` is ``out`` until nothing of the old one is left there."""

    backup: str
    replaced: str
    phase: str
    points: int
    mended: int


@dataclass(frozen=True, slots=True)
class _Proof:
    points: int
    mended: int
    repair: dict[str, Json]


def _nobody_is_told(_step: RestoreStep) -> None:
    """Nobody wants to know."""


def restore_backup(
    settings: Settings,
    source: Path,
    *,
    replace: bool,
    progress: Progress,
    announce: Callable[[str], None],
    step: Callable[[RestoreStep], None] = _nobody_is_told,
) -> RestoreReport:
    """Make the home of these settings what it was when ``source`` was taken, brought up to this version's schema.

    Args:
        replace: Move what is there aside instead of refusing it. A database at ``DATABASE_URL`` must be empty all the same.
        step: Told after each step. The crash tests kill the process in it.

    Raises:
        BackupError: The backup is damaged or newer than this version, something is in the way, or the audit is not clean.
        StoreLockedError: Another restore into this home is under way.
        ThreadhouseError: A store or the model could not be opened.
    """
    started = time.monotonic()
    manifest = read_manifest(source)
    work = _Work(settings, source, manifest, progress, announce, step)
    work.require_known()
    if not work.is_cut_off:
        # Before anything is made or hashed: the most frequent refusals.
        work.require_room(replace=replace)
    check_files(source, manifest, progress)
    make_passable(settings.home)
    try:
        with _only_restore(settings.home):
            report = _restore(work, replace=replace)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        message = f"The backup could not be put into {settings.home}: {reason}; correct that and run the same command again."
        raise BackupError(message) from error
    return dataclasses.replace(report, seconds=time.monotonic() - started)


def _restore(work: _Work, *, replace: bool) -> RestoreReport:
    earlier = work.finish_earlier()
    if earlier is not None:
        if earlier.backup == work.identity:
            proof = _Proof(earlier.points, earlier.mended, {})
            return work.report(earlier, proof, (), finished_earlier=True)
        work.announce("Finished a restore of another backup that had been cut off")
    work.require_room(replace=replace)
    embedder = work.open_embedder()
    work.step(RestoreStep.CHECKED)
    with work.discarding_on_failure():
        with work.new_database() as database:
            work.step(RestoreStep.BEGUN)
            migrated = work.fill_database(database)
            work.put_files()
            work.step(RestoreStep.FILES)
            proof = work.prove(database, CachedEmbedder(embedder, PostgresVectorCache(database)))
            work.step(RestoreStep.AUDITED)
        ready = work.note_ready(proof)
    work.put_in_place(ready)
    return work.report(ready, proof, migrated)


@contextmanager
def _only_restore(home: Path) -> Generator[None, None, None]:
    try:
        with FileLock(home / _LOCK, timeout=0):
            yield
    except Timeout:
        message = f"Another restore into {home} is under way; wait for it to end."
        raise StoreLockedError(message) from None


@dataclass(frozen=True)
class _Work:
    """One restore, step by step."""

    settings: Settings
    source: Path
    manifest: BackupManifest
    progress: Progress
    announce: Callable[[str], None]
    step: Callable[[RestoreStep], None]

    @property
    def home(self) -> Path:
        return self.settings.home

    @property
    def staging(self) -> Path:
        return self.home / RESTORING

    @property
    def lake(self) -> EventLake:
        return EventLake.open(self.settings)

    @property
    def identity(self) -> str:
        """Tells this backup from others."""
        return f"{self.manifest.created_at} {self.manifest.files[0].sha256}"

    @property
    def is_cut_off(self) -> bool:
        """Whether a restore was proven here and not finished."""
        return (self.staging / READY_FILE).exists()

    def report(
        self,
        ready: _Ready,
        proof: _Proof,
        migrated: tuple[str, ...],
        *,
        finished_earlier: bool = False,
    ) -> RestoreReport:
        aside = self.home / ready.replaced
        return RestoreReport(
            self.manifest,
            migrated,
            proof.points,
            proof.mended,
            proof.repair,
            replaced=aside if aside.exists() else None,
            seconds=0.0,
            finished_earlier=finished_earlier,
        )

    # What stands in the way

    def require_room(self, *, replace: bool) -> None:
        if self.settings.database_url is not None:
            self._require_empty_database(Database.open(self.settings))
        found = sorted(path.name for path in self._old_entries())
        if found and not replace:
            message = (
                f"{self.home} is not empty ({', '.join(found[:5])}); name another THREADHOUSE_HOME, or restore with --replace, "
                "which moves what is there aside."
            )
            raise BackupError(message)
        if self._has_lake_elsewhere and self.lake.file_sizes():
            message = f"There are events in {self.lake.address} (LAKE_URL); move them away, or name another place."
            raise BackupError(message)

    def _require_empty_database(self, database: Database) -> None:
        with database.connect() as connection:
            row = connection.execute(queries.load("restore_is_empty")).fetchone()
        if row is None or not row[0]:
            message = f"The database {database.address} is not empty; restore into one that was just created (DATABASE_URL)."
            raise BackupError(message)

    def require_known(self) -> None:
        known = {migration.name for migration in migrations.MigrationSet.shipped().migrations}
        newer = [name for name in self.manifest.migrations if name not in known]
        if newer:
            message = (
                f"The backup in {self.source} was made by Threadhouse {self.manifest.threadhouse} and holds migration "
                f"{newer[-1]}, which this version does not know; install that version, or a newer one."
            )
            raise BackupError(message)

    def open_embedder(self) -> FastembedEmbedder:
        settings = self.settings
        embedder = open_embedder(
            settings.home,
            model=settings.embedding_model,
            path=settings.embedding_path,
            threads=settings.embedding_threads,
            progress=self.announce,
        )
        spaces = set(self.manifest.spaces.values())
        if spaces and embedder.space.space_id not in spaces:
            message = (
                f"The vectors of the backup are of {', '.join(sorted(spaces))} and the configured model makes "
                f"{embedder.space.space_id}; set EMBEDDING_MODEL or EMBEDDING_PATH as they were."
            )
            raise BackupError(message)
        return embedder

    # Building the new home

    @contextmanager
    def discarding_on_failure(self) -> Generator[None, None, None]:
        try:
            yield
        except BaseException:
            self._discard_staging()
            raise

    @contextmanager
    def new_database(self) -> Generator[Database, None, None]:
        """An empty database: that of a server in the staging folder, or the one that ``DATABASE_URL`` names."""
        self._discard_staging()
        if self.settings.database_url is not None:
            make_passable(self.staging)
            yield Database.open(self.settings)
            return
        # It is handed to the disk as a whole before anything relies on it.
        running = embedded_postgres.start(self.staging, settings=_UNHURRIED)
        try:
            yield Database(running.conninfo(), is_embedded=True)
        finally:
            embedded_postgres.stop(self.staging)

    def fill_database(self, database: Database) -> tuple[str, ...]:
        self.progress("Restoring PostgreSQL", 0, 0)
        self._make_roles(database)
        restore_database(database, self.source / DUMP, self.manifest.postgres_major)
        self.step(RestoreStep.DATABASE)
        _move_transactions(database)
        done = migrations.migrate(database)
        self.step(RestoreStep.MIGRATED)
        return done.applied

    def _make_roles(self, database: Database) -> None:
        """Roles belong to a server, not to a database: what the dump grants to must be there before it."""
        with database.connect() as connection:
            missing = [
                str(row[0])
                for row in connection.execute(
                    queries.load("restore_missing_roles"), {"names": list(self.manifest.roles)}
                )
            ]
            try:
                for role in missing:
                    connection.execute(
                        queries.load("restore_create_role").format(role=sql.Identifier(role))
                    )
            except psycopg.errors.InsufficientPrivilege:
                message = (
                    f"The backup grants rights to roles that {database.address} does not have: {', '.join(missing)}; let "
                    "somebody who may create roles create them, without login."
                )
                raise BackupError(message) from None

    def put_files(self) -> None:
        if self.manifest.has_vectors and self.settings.qdrant_url is None:
            self.progress("Restoring vectors", 0, 0)
            restore_collections(self.source / VECTORS, self.staging)
        days = self.staging / LAKE / TABLE
        days.parent.mkdir(mode=0o700, exist_ok=True)
        shutil.copytree(self.source / LAKE, days)
        keys = self.staging / KEYS
        keys.mkdir(mode=0o700)
        for path in sorted((self.source / KEYS).iterdir()):
            write_private_file(keys / path.name, path.read_text(encoding="utf-8"))

    def prove(self, database: Database, embedder: CachedEmbedder) -> _Proof:
        """Audit the new stores; mend what the nights after the backup would have mended, and audit again.

        Raises:
            BackupError: Something is left that nobody can mend.
        """
        key = self.settings.qdrant_api_key
        url, secret = self.settings.qdrant_url, key.get_secret_value() if key else None

        def look() -> AuditReport:
            with closing(open_reader(home=self.staging, url=url, api_key=secret)) as vectors:
                return audit_projection(
                    database,
                    vectors,
                    embedder,
                    lambda name, points: self.progress(f"Auditing {name}", points, 0),
                )

        found = look()
        repair: dict[str, Json] = {}
        if not found.is_clean:
            with closing(open_writer(home=self.staging, url=url, api_key=secret)) as vectors:
                repair = repair_projection(
                    database,
                    vectors,
                    embedder,
                    self.staging,
                    found,
                    progress=lambda done, total: self.progress("Mending vectors", done, total),
                )
            left = look()
            if not left.is_clean:
                worst = next(audit for audit in left.collections if not audit.is_clean)
                kinds = ", ".join(f"{n:,} {kind.value}" for kind, n in sorted(worst.counts.items()))
                message = f"The restored hub did not pass the audit: {worst.collection}: {kinds}; nothing was put in place."
                raise BackupError(message)
            return _Proof(left.points, found.findings, repair)
        return _Proof(found.points, 0, {})

    # Putting it in place

    def note_ready(self, proof: _Proof) -> _Ready:
        sync_tree(self.staging)
        replaced = f"{REPLACED}{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        ready = _Ready(self.identity, replaced, "out", proof.points, proof.mended)
        self._keep(ready)
        self.step(RestoreStep.READY)
        return ready

    def finish_earlier(self) -> _Ready | None:
        """Finish a restore that was proven and cut off while it was put in place."""
        try:
            stored = json.loads((self.staging / READY_FILE).read_bytes())
        except FileNotFoundError:
            return None
        ready = _Ready(**cast("dict[str, Any]", stored))
        self.put_in_place(ready)
        return ready

    def put_in_place(self, ready: _Ready) -> None:
        """Each move can be followed by a kill; what was moved is not there any more, so moving goes on where it stopped."""
        if ready.phase == "out":
            if self.settings.database_url is None:
                embedded_postgres.stop(self.home)
            aside = self.home / ready.replaced
            # The database first: without it nobody takes what is left for a hub.
            for old in sorted(self._old_entries(), key=lambda path: path.name != _POSTGRES):
                aside.mkdir(mode=0o700, exist_ok=True)
                old.rename(aside / old.name)
            sync(self.home)
            self._keep(_Ready(ready.backup, ready.replaced, "in", ready.points, ready.mended))
        self.step(RestoreStep.MOVED_OUT)
        self._move_in()
        sync(self.home)
        self.step(RestoreStep.MOVED_IN)
        self._discard_staging()
        self.step(RestoreStep.CLEANED)
        # It names the folder of the lake, so it is built where it will be read.
        refresh_analytics(Database.open(self.settings), self.lake)
        self.step(RestoreStep.ANALYSTS)

    def _move_in(self) -> None:
        if self._has_lake_elsewhere and (self.staging / LAKE / TABLE).is_dir():
            for day in sorted((self.staging / LAKE / TABLE).iterdir()):
                local_day = date.fromisoformat(day.name.removeprefix("local_day="))
                self.lake.adopt_day(local_day, day / DAY_FILE)
            shutil.rmtree(self.staging / LAKE)
        for name in (LAKE, KEYS, _QDRANT, _POSTGRES):
            if (self.staging / name).exists():
                (self.staging / name).rename(self.home / name)

    @property
    def _has_lake_elsewhere(self) -> bool:
        return self.lake.root != self.home / LAKE

    def _old_entries(self) -> Iterator[Path]:
        """What of the home a restore replaces."""
        for path in self.home.iterdir() if self.home.is_dir() else ():
            if path.name not in _STAYS and not path.name.startswith(REPLACED):
                yield path

    def _discard_staging(self) -> None:
        """Also what a killed restore left: its server may still run, and its note must go first."""
        (self.staging / READY_FILE).unlink(missing_ok=True)
        embedded_postgres.stop(self.staging)
        if self.staging.exists():
            shutil.rmtree(self.staging)

    def _keep(self, ready: _Ready) -> None:
        write_private_file(self.staging / READY_FILE, json.dumps(asdict(ready)))
        sync(self.staging)


def _move_transactions(database: Database) -> None:
    """Take what rows remember of transactions over into the count of this server.

    On a new server every number of an old one lies in the future: changes would wait for years to be taken for finished.
    """
    with database.connect() as connection:
        connection.execute(queries.load("retention_begin"))
        columns = connection.execute(queries.load("restore_transaction_columns")).fetchall()
        for schema, table, column in columns:
            connection.execute(
                queries.load("restore_move_transactions").format(
                    table=sql.Identifier(schema, table), column=sql.Identifier(column)
                )
            )
