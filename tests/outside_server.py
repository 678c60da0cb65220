"""Debian's PostgreSQL, started for a test the way it is handed out: by a login that owns its databases and is no superuser.

Belongs here: finding the programs of the package, life and death of one cluster in a folder of its own.
Does not belong here: databases (``fixtures_postgres``) and what is tried on them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from threadhouse.stores import drop_privileges
from threadhouse.stores.postgres import Database

PACKAGES = Path("/usr/lib/postgresql")
NOT_INSTALLED = f"Debian's PostgreSQL is not installed: no initdb below {PACKAGES} (apt-get install postgresql)."
OWNER = "hub_owner"
SUPERUSER = "administrator"
# Nothing of a test has to survive the machine; the locale is what Vietnamese needs and every Debian has.
_INITDB = ("--encoding=UTF8", "--locale=C.UTF-8", "--auth=trust", "--no-sync", "--no-instructions")
_SETTINGS = {
    "listen_addresses": "''",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "60",
    "dynamic_shared_memory_type": "mmap",
}


@dataclass(frozen=True)
class OutsideServer:
    """A running cluster and the two users that it has."""

    socket_dir: Path
    major: int

    def as_user(self, name: str, database: str = "postgres") -> Database:
        """One of its databases, as one of its users."""
        conninfo = make_conninfo(host=str(self.socket_dir), user=name, dbname=database)
        return Database(conninfo, is_embedded=False, lock_timeout_s=10.0)

    @property
    def owner(self) -> Database:
        """As the user that Threadhouse is given: it may create databases and roles, and is no superuser."""
        return self.as_user(OWNER)


def programs() -> Path | None:
    """The folder of the newest installed version's programs, or None."""
    found = [path.parent for path in PACKAGES.glob("*/bin/initdb")]
    return max(found, key=lambda folder: float(folder.parent.name), default=None)


@contextmanager
def outside_server() -> Generator[OutsideServer, None, None]:
    """Start a cluster of `programs`, and leave nothing of it behind.

    It lies in the system's temporary folder: the address of a socket is short, and its OS user can get there.
    """
    binaries = programs()
    if binaries is None:
        raise FileNotFoundError(NOT_INSTALLED)
    folder = Path(tempfile.mkdtemp(prefix="threadhouse-outside-"))
    try:
        prefix = _as_another_user(folder)
        _run([*prefix, str(binaries / "initdb"), "-D", "data", "-U", SUPERUSER, *_INITDB], folder)
        settings = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
        options = f"{settings} -c unix_socket_directories={folder}"
        pg_ctl = [*prefix, str(binaries / "pg_ctl"), "-D", "data", "-w"]
        _run([*pg_ctl, "-l", "log", "-o", options, "start"], folder)
        try:
            server = OutsideServer(folder, major=int(binaries.parent.name))
            with server.as_user(SUPERUSER).connect(autocommit=True) as connection:
                make_role(connection, OWNER, "createdb createrole")
            yield server
        finally:
            _run([*pg_ctl, "-m", "immediate", "stop"], folder)
    finally:
        shutil.rmtree(folder)


def make_role(connection: psycopg.Connection, name: str, rights: str) -> None:
    """A user who may log in, is no superuser and holds these rights."""
    statement = sql.SQL("create role {} login nosuperuser " + rights)  # pyright: ignore[reportArgumentType]
    connection.execute(statement.format(sql.Identifier(name)))


def _as_another_user(folder: Path) -> list[str]:
    """PostgreSQL does not run as root: hand the folder to the package's user and become that one."""
    if os.geteuid() != 0:
        return []
    import pwd

    account = pwd.getpwnam("postgres")
    os.chown(folder, account.pw_uid, account.pw_gid)
    script = drop_privileges.__file__
    return [
        *(sys.executable, "-I", "-S", script),
        *(str(account.pw_uid), str(account.pw_gid), "0", str(folder)),
    ]


def _run(command: list[str], folder: Path) -> None:
    # Into a file: a server that inherits a pipe would keep whoever reads it waiting for ever.
    said = folder / "said"
    with said.open("wb") as output:
        done = subprocess.run(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=folder, timeout=120, check=False
        )
    if done.returncode != 0:
        log = folder / "log"
        more = log.read_text(errors="replace") if log.exists() else ""
        raise RuntimeError(f"{command} failed: {said.read_text(errors='replace')}{more}")
