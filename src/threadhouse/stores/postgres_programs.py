"""``pg_dump`` and ``pg_restore`` at work on one database.

Belongs here: which program fits a server, how it is told a password, what a failure of it becomes.
Does not belong here: what a backup is (``stores.backup``, ``stores.restore``).
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from threadhouse.retrieval.errors import BackupError
from threadhouse.stores import embedded_postgres

if TYPE_CHECKING:
    from threadhouse.stores.postgres import Database

_POLL_S = 0.2


def server_major(database: Database) -> int:
    """Version of the server, such as 18."""
    with database.connect() as connection:
        return connection.info.server_version // 10_000


def dump_database(
    database: Database, snapshot: str, target: Path, on_bytes: Callable[[int], None]
) -> None:
    """Write the whole database as it was in an exported snapshot, in the format of ``pg_restore``.

    Args:
        snapshot: Its transaction must stay open until this returns.
        on_bytes: Told now and then how large the file is.

    Raises:
        ConfigurationError: The server is newer than every ``pg_dump`` here.
        BackupError: ``pg_dump`` failed; the sentence holds its reason.
    """
    arguments = ["--format=custom", "--no-password", f"--snapshot={snapshot}", f"--file={target}"]
    _run(
        "pg_dump",
        database,
        arguments,
        server_major(database),
        lambda: on_bytes(target.stat().st_size if target.exists() else 0),
    )


def restore_database(database: Database, source: Path, dumped_major: int) -> None:
    """Put a dump into an empty database, all of it or nothing.

    Raises:
        ConfigurationError: No ``pg_restore`` here fits.
        BackupError: The server is older than a dump of that version needs, or ``pg_restore`` failed.
    """
    major = server_major(database)
    if major < dumped_major:
        message = (
            f"The backup was made from PostgreSQL {dumped_major} and {database.address} is {major}; restore it into "
            f"{dumped_major} or newer."
        )
        raise BackupError(message)
    arguments = ["--no-owner", "--no-password", "--exit-on-error", "--single-transaction"]
    _run("pg_restore", database, [*arguments, str(source)], major, lambda: None)


def _run(
    program: str,
    database: Database,
    arguments: Sequence[str],
    major: int,
    on_poll: Callable[[], None],
) -> None:
    path = embedded_postgres.client_program(program, major)
    known = conninfo_to_dict(database.conninfo)
    # A command line can be read by everybody on the machine, an environment only by its owner.
    password = known.pop("password", None)
    environment = embedded_postgres.client_environment()
    if password is not None:
        environment["PGPASSWORD"] = str(password)
    address = make_conninfo("", **{key: value for key, value in known.items() if value is not None})
    command = [str(path), "--dbname", address, *arguments]
    with tempfile.TemporaryFile() as said:
        # Our own group gets Ctrl-C as well, so that the program ends with us.
        process = subprocess.Popen(  # noqa: S603  a program of the wheel, arguments of this module
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment
        )
        try:
            while process.poll() is None:
                on_poll()
                time.sleep(_POLL_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        said.seek(0)
        lines = said.read().decode("utf-8", "replace").strip().splitlines()
    if process.returncode != 0:
        told = next((line for line in lines if "error:" in line), lines[-1] if lines else "")
        reason = (
            told.rpartition("error: ")[2].rstrip(".") or f"it ended with code {process.returncode}"
        )
        raise BackupError(f"{program} on {database.address} failed: {reason}.")
