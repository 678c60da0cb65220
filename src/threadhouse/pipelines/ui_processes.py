"""The Dagster UI of one home: its processes, and how they are found again to be stopped.

Belongs here: starting the webserver and the daemon on localhost, recording who they are, ending exactly those.
Does not belong here: what the UI shows (pipelines.definitions).
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import psutil

from threadhouse.retrieval.errors import ConfigurationError, StoreLockedError
from threadhouse.stores.dagster_state import SAME_PROCESS_S

HOST = "127.0.0.1"
DEFINITIONS_MODULE = "threadhouse.pipelines.definitions"
INSTANCE_FILE = "dagster.yaml"
# Dagster gives its servers about this long to finish what they are doing.
STOP_TIMEOUT_S = 20.0

# "dagster dev" is the one command of the installed packages that lets webserver and daemon share a code server, which halves
# their memory. Its successor is a package of its own.
_SUPERSEDED = "ignore:Function `dev_command` is superseded"


@dataclass(frozen=True, slots=True)
class UiRecord:
    """The process that serves the UI. A number alone is not enough to end it: numbers are used again."""

    pid: int
    created_at: float
    port: int

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://{HOST}:{self.port}"

    def find(self) -> psutil.Process | None:
        """The process, when it still is the one that was recorded."""
        try:
            process = psutil.Process(self.pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            difference = abs(process.create_time() - self.created_at)
            return process if difference < SAME_PROCESS_S else None
        except psutil.Error:
            return None


def running_ui(home: Path) -> UiRecord | None:
    """The UI of this home, when one runs."""
    try:
        record = UiRecord(**cast("dict[str, Any]", json.loads(_record_path(home).read_bytes())))
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
        return None
    return record if record.find() is not None else None


def require_free_port(port: int) -> None:
    """Refuse a port that somebody listens on.

    Raises:
        ConfigurationError: It is in use, or this user may not use it.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the webserver does; a port that was closed a moment ago is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            message = (
                f"Port {port} on {HOST} cannot be used ({error.strerror}); "
                f"choose another one with threadhouse ui --port."
            )
            raise ConfigurationError(message) from None


def prepare_instance(home: Path) -> Path:
    """The folder that Dagster keeps its state in, with this version's settings in it.

    Raises:
        ConfigurationError: This installation has no ``dagster.yaml`` beside it.
    """
    shipped = Path(__file__).resolve().parents[3] / INSTANCE_FILE
    if not shipped.is_file():
        message = (
            f"{INSTANCE_FILE} is missing from {shipped.parent}; run Threadhouse from its checkout."
        )
        raise ConfigurationError(message)
    folder = home / "dagster"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / INSTANCE_FILE).is_file() or (
        (folder / INSTANCE_FILE).read_bytes() != shipped.read_bytes()
    ):
        aside = folder / f"{INSTANCE_FILE}.{os.getpid()}"
        shutil.copyfile(shipped, aside)
        aside.replace(folder / INSTANCE_FILE)
    return folder


@contextmanager
def serving(home: Path, port: int) -> Generator[subprocess.Popen[bytes], None, None]:
    """Run the UI while the block runs; it is ended when the block is left.

    Raises:
        StoreLockedError: This home's UI runs already.
        ConfigurationError: The port is in use.
    """
    if (running := running_ui(home)) is not None:
        message = (
            f"The UI of {home} runs already at {running.address} (process {running.pid}); "
            "use that one, or end it with threadhouse stop."
        )
        raise StoreLockedError(message)
    require_free_port(port)
    instance = prepare_instance(home)
    command = [sys.executable, "-W", _SUPERSEDED, "-m", "dagster", "dev", "-m", DEFINITIONS_MODULE]
    command += ["-h", HOST, "-p", str(port), "--log-level", "warning"]
    environment = {**os.environ, "DAGSTER_HOME": str(instance), "THREADHOUSE_HOME": str(home)}
    # Its own group: Ctrl-C reaches this process alone, which then ends the servers in order.
    server = subprocess.Popen(  # noqa: S603  our own interpreter and module
        command, cwd=instance, env=environment, start_new_session=True, stdout=sys.stderr
    )
    try:
        process = psutil.Process(server.pid)
        record = UiRecord(server.pid, process.create_time(), port)
        _record_path(home).write_text(json.dumps(asdict(record)), encoding="utf-8")
        yield server
    finally:
        _end_tree(server.pid)
        server.wait()
        _record_path(home).unlink(missing_ok=True)


def wait_until_it_answers(server: subprocess.Popen[bytes], port: int, timeout_s: float) -> bool:
    """Whether somebody listens on the port before the time is up or the server ends."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and server.poll() is None:
        with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return True
        time.sleep(0.2)
    return False


def stop_ui(home: Path) -> UiRecord | None:
    """End the UI of this home; None when none ran.

    Raises:
        StoreLockedError: It did not end in time.
    """
    record, path = running_ui(home), _record_path(home)
    if record is not None:
        # Whoever waits for the UI sees by the missing record that its end was wanted.
        aside = path.replace(path.with_suffix(".ending"))
        _end_tree(record.pid)
        if record.find() is not None:
            aside.replace(path)
            message = f"The UI (process {record.pid}) did not end; try again."
            raise StoreLockedError(message)
        aside.unlink(missing_ok=True)
    return record


def was_asked_to_end(home: Path) -> bool:
    """Whether the UI that just ended did so because of `stop_ui`."""
    return not _record_path(home).exists()


def _record_path(home: Path) -> Path:
    return home / "dagster" / "ui.json"


def _end_tree(pid: int) -> None:
    """Ask the process to end, then whatever of its children is left; nothing survives the time-out."""
    try:
        parent = psutil.Process(pid)
        family = [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    with suppress(psutil.NoSuchProcess):
        parent.terminate()
    _, alive = psutil.wait_procs(family, timeout=STOP_TIMEOUT_S)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(alive, timeout=5)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=5)
