"""Everything of a hub that cannot be built again, in one folder that proves itself.

Belongs here: what a backup holds and in which order it is taken, its manifest, reading one back.
Does not belong here: putting it back (``stores.restore``).

Layout of a backup::

    manifest.json         versions, and size and sha256 of every other file; written last
    database.dump         the whole database, in the format of pg_restore
    vectors/<physical>/   one published copy of each embedded collection; absent for a Qdrant server
    lake/local_day=…/     events by local day
    keys/                 keys that sign tokens, and the secret behind the keys of questions

The dump and the vectors are of one moment: a snapshot is exported and the published copies are held while nobody may publish,
which takes no longer than a look. Copying goes on beside whatever writes meanwhile. The lake is copied after that moment, because
a day leaves Postgres only when the lake has it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast

import psutil
from pydantic import TypeAdapter, ValidationError

from threadhouse import __version__
from threadhouse.retrieval.errors import BackupError
from threadhouse.retrieval.models import Json
from threadhouse.stores import migrations, queries, query_secret, token_keys
from threadhouse.stores.durable_files import sync
from threadhouse.stores.lake import DAY_FILE, TABLE, EventLake
from threadhouse.stores.postgres_programs import dump_database, server_major
from threadhouse.stores.projection import projection_lock
from threadhouse.stores.source_counts import count_source
from threadhouse.stores.vectors_edge import HeldCopies, hold_published_copies, keep_writers_out

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow

    from threadhouse.stores.postgres import Database
    from threadhouse.stores.settings import Settings

FORMAT: Final = 1
"""Of the layout above. A reader refuses a number that it does not know."""

MANIFEST: Final = "manifest.json"
DUMP: Final = "database.dump"
VECTORS: Final = "vectors"
LAKE: Final = "lake"
KEYS: Final = token_keys.KEYS_FOLDER
KEY_FILES: Final = (token_keys.KEY_FILE, query_secret.KEY_FILE)
_PART: Final = ".part-"
_BLOCK: Final = 4 * 2**20
_MEGABYTE: Final = 1_000_000

Progress = Callable[[str, int, int], None]
"""Told (task, done, total); a total of 0 is one that nobody knows."""


class BackupStep(StrEnum):
    """What a backup does, in this order. Each is said when it is done; a kill after any of them leaves no backup behind."""

    BEGUN = "begun"
    HELD = "held"
    VECTORS = "vectors"
    DATABASE = "database"
    LAKE = "lake"
    KEYS = "keys"
    SEALED = "sealed"
    PLACED = "placed"


@dataclass(frozen=True, slots=True)
class BackedUpFile:
    """One file of a backup; ``path`` is relative, with slashes."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """What a backup says about itself.

    ``spaces`` are the vector spaces by physical collection. ``has_vectors`` is False where the vectors were on a server: they are
    then built again, from the embeddings that the database keeps. ``roles`` are those that the database names and does not hold.
    """

    created_at: str
    threadhouse: str
    postgres_major: int
    migrations: tuple[str, ...]
    roles: tuple[str, ...]
    has_vectors: bool
    spaces: dict[str, str]
    documents: int
    units: int
    threads: int
    files: tuple[BackedUpFile, ...] = field(repr=False)
    format: int = FORMAT

    @property
    def size_bytes(self) -> int:
        """Of all files; holes of vector files count."""
        return sum(file.size_bytes for file in self.files)

    @property
    def migration(self) -> str:
        """The newest migration that the database had."""
        return self.migrations[-1] if self.migrations else "none"

    def to_json(self) -> dict[str, Json]:
        """All of it, as it stands in the manifest."""
        return cast("dict[str, Json]", json.loads(json.dumps(asdict(self))))

    def summary(self) -> dict[str, Json]:
        """All of it but the list of files, which is counted."""
        return {
            **{name: value for name, value in self.to_json().items() if name != "files"},
            "file_count": len(self.files),
            "size_bytes": self.size_bytes,
        }


def _nobody_is_told(_step: BackupStep) -> None:
    """Nobody wants to know."""


def create_backup(
    settings: Settings,
    database: Database,
    target: Path,
    *,
    progress: Progress,
    step: Callable[[BackupStep], None] = _nobody_is_told,
) -> BackupManifest:
    """Write a backup of this hub into ``target``, which is not there yet.

    It is written aside and renamed when it is whole. Only its owner may read it: it holds keys and everything that is hidden.

    Args:
        database: Of these settings.
        step: Told after each step. The crash tests kill the process in it.

    Raises:
        BackupError: ``target`` is there or lies inside the home, a program failed, or the disk is full; nothing is left behind.
        StoreLockedError: Somebody publishes vectors; the sentence names who.
        ConfigurationError: The server is newer than the ``pg_dump`` here.
    """
    target = target.expanduser().absolute()
    _require_place(settings.home, target)
    part = target.with_name(f".{target.name}{_PART}{os.getpid()}")
    try:
        _remove_left_parts(target)
        part.mkdir(mode=0o700, parents=True)
        step(BackupStep.BEGUN)
        with _one_moment(settings, database) as (snapshot, copies, facts):
            step(BackupStep.HELD)
            if copies is not None:
                progress("Copying vectors", 0, 0)
                copies.write_to(part / VECTORS)
            step(BackupStep.VECTORS)
            dump_database(
                database,
                snapshot,
                part / DUMP,
                lambda size: progress("Dumping PostgreSQL (MB)", size // _MEGABYTE, 0),
            )
        step(BackupStep.DATABASE)
        _copy_lake(EventLake.open(settings), part / LAKE, progress)
        step(BackupStep.LAKE)
        _copy_keys(settings.home, part / KEYS)
        step(BackupStep.KEYS)
        manifest = _seal(part, facts, progress)
        step(BackupStep.SEALED)
        part.rename(target)
        sync(target.parent)
        step(BackupStep.PLACED)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        message = (
            f"The backup could not be written to {target.parent}: {reason}; nothing of it is left."
        )
        raise BackupError(message) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return manifest


def read_manifest(folder: Path) -> BackupManifest:
    """What a backup says about itself. Its files are not looked at.

    Raises:
        BackupError: It is no backup, or one of a newer format.
    """
    try:
        stored: object = json.loads((folder / MANIFEST).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        message = f"{folder} is no backup: it has no {MANIFEST}, which is written last."
        raise BackupError(message) from None
    except (OSError, ValueError):
        message = f"The {MANIFEST} in {folder} cannot be read; use another backup."
        raise BackupError(message) from None
    known = cast("dict[str, Any]", stored) if isinstance(stored, dict) else {}
    if known.get("format") != FORMAT:
        message = (
            f"The backup in {folder} is of format {known.get('format')}, this version of Threadhouse reads {FORMAT}; install "
            "the version that made it, or a newer one."
        )
        raise BackupError(message)
    try:
        return TypeAdapter(BackupManifest).validate_python(known)
    except ValidationError:
        message = (
            f"The {MANIFEST} in {folder} is not one that Threadhouse wrote; use another backup."
        )
        raise BackupError(message) from None


def check_files(folder: Path, manifest: BackupManifest, progress: Progress) -> None:
    """Hold every file against its size and hash.

    Raises:
        BackupError: One is missing or is another one, or a name leads out of the folder.
    """
    for done, file in enumerate(manifest.files, 1):
        place = PurePosixPath(file.path)
        if place.is_absolute() or ".." in place.parts:
            message = f"The {MANIFEST} in {folder} names a file outside of it; use another backup."
            raise BackupError(message)
        path = folder / place
        try:
            is_whole = path.stat().st_size == file.size_bytes and _sha256(path) == file.sha256
        except OSError:
            message = f"{file.path} of the backup in {folder} is missing or cannot be read; use another backup."
            raise BackupError(message) from None
        if not is_whole:
            message = f"{file.path} of the backup in {folder} is not what was written; use another backup."
            raise BackupError(message)
        progress("Checking files", done, len(manifest.files))


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the manifest says of the moment that a backup is of."""

    created_at: datetime
    postgres_major: int
    migrations: tuple[str, ...]
    roles: tuple[str, ...]
    counts: tuple[int, int, int]
    spaces: dict[str, str] | None


@contextmanager
def _one_moment(
    settings: Settings, database: Database
) -> Generator[tuple[str, HeldCopies | None, _Facts], None, None]:
    """Yield a snapshot of Postgres and copies of the vectors that agree with it; nobody else waits while the body runs."""
    with ExitStack() as held:
        connection = held.enter_context(database.connect())
        copies: HeldCopies | None = None
        with _nobody_publishes(settings, database):
            connection.execute(queries.load("snapshot_read_only"))
            row = connection.execute(queries.load("snapshot_export")).fetchone()
            if settings.qdrant_url is None:
                copies = held.enter_context(hold_published_copies(settings.home))
        facts = _facts_of(connection, database, copies)
        yield str(row and row[0]), copies, facts


@contextmanager
def _nobody_publishes(settings: Settings, database: Database) -> Generator[None, None, None]:
    """The writer's lock and then that of the projection, in the order in which a publish takes them."""
    with ExitStack() as locks:
        if settings.qdrant_url is None:
            locks.enter_context(keep_writers_out(settings.home, settings.lock_timeout_s))
        locks.enter_context(projection_lock(database))
        yield


def _facts_of(
    connection: Connection[TupleRow], database: Database, copies: HeldCopies | None
) -> _Facts:
    counts = count_source(connection)
    roles = connection.execute(queries.load("backup_roles")).fetchall()
    return _Facts(
        datetime.now(UTC),
        server_major(database),
        tuple(row.name for row in migrations.applied(connection)),
        tuple(str(row[0]) for row in roles),
        (counts.documents, counts.units, counts.threads),
        None if copies is None else copies.spaces(),
    )


def _copy_lake(lake: EventLake, target: Path, progress: Progress) -> None:
    """Day files only. How far the lake has followed its database is left out: it speaks of a server that a restore does not have.

    A day may be replaced meanwhile, never torn; one that ``LAKE_DAYS`` removes in between was to leave anyway.
    """
    target.mkdir()
    lake.catch_up()
    days = sorted((lake.root / TABLE).glob(f"local_day=*/{DAY_FILE}"))
    for done, day in enumerate(days, 1):
        with suppress(FileNotFoundError), day.open("rb") as reading:
            into = target / day.parent.name
            into.mkdir()
            with (into / DAY_FILE).open("wb") as writing:
                shutil.copyfileobj(reading, writing, _BLOCK)
        progress("Copying the event lake", done, len(days))


def _copy_keys(home: Path, target: Path) -> None:
    target.mkdir(mode=0o700)
    for name in KEY_FILES:
        if (home / KEYS / name).exists():
            token_keys.write_private_file(
                target / name, (home / KEYS / name).read_text(encoding="utf-8")
            )


def _seal(part: Path, facts: _Facts, progress: Progress) -> BackupManifest:
    """Make everything durable and readable by its owner alone, and write the manifest last."""
    paths = sorted(path for path in part.rglob("*") if path.is_file())
    files: list[BackedUpFile] = []
    for done, path in enumerate(paths, 1):
        path.chmod(0o600)
        sync(path)
        name = path.relative_to(part).as_posix()
        files.append(BackedUpFile(name, path.stat().st_size, _sha256(path)))
        progress("Hashing files", done, len(paths))
    documents, units, threads = facts.counts
    manifest = BackupManifest(
        facts.created_at.isoformat(timespec="seconds"),
        __version__,
        facts.postgres_major,
        facts.migrations,
        facts.roles,
        facts.spaces is not None,
        facts.spaces or {},
        documents,
        units,
        threads,
        tuple(files),
    )
    for folder in sorted(path for path in part.rglob("*") if path.is_dir()):
        folder.chmod(0o700)
        sync(folder)
    token_keys.write_private_file(
        part / MANIFEST, json.dumps(manifest.to_json(), ensure_ascii=False, indent=1) + "\n"
    )
    sync(part)
    return manifest


def _require_place(home: Path, target: Path) -> None:
    if target.exists() or target.is_symlink():
        message = (
            f"{target} is there already; name a folder that is not, such as one with today's date."
        )
        raise BackupError(message)
    if target.is_relative_to(home) or target.resolve().is_relative_to(home.resolve()):
        message = (
            f"{target} lies inside the home and would be lost with it; name a place elsewhere."
        )
        raise BackupError(message)
    beside = next(folder for folder in target.parents if folder.exists())
    if not beside.is_dir() or not os.access(beside, os.W_OK | os.X_OK):
        message = f"The OS user of this process may not write into {beside}; name another place."
        raise BackupError(message)


def _remove_left_parts(target: Path) -> None:
    """Remove what killed backups to this place left. Parts of living ones stay."""
    prefix = f".{target.name}{_PART}"
    for part in _named(target.parent, prefix):
        pid = part.name.removeprefix(prefix)
        if not pid.isdigit() or int(pid) == os.getpid() or not psutil.pid_exists(int(pid)):
            shutil.rmtree(part, ignore_errors=True)


def _named(folder: Path, prefix: str) -> Iterable[Path]:
    """Entries whose names begin so. Not ``glob``: a name may hold its special characters."""
    if not folder.is_dir():
        return []
    found: Sequence[Path] = [path for path in folder.iterdir() if path.name.startswith(prefix)]
    return found


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
