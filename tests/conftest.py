"""Fixtures that tests of every folder share: the offline model, built once a session.

Belongs here: what is slow to make and safe to share. Does not belong here: fixtures of one store (they live beside its tests).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from filelock import FileLock

if TYPE_CHECKING:
    from threadhouse.stores.embedders import FastembedEmbedder

MEMORY = Path("/dev", "shm")
MEMORY_NEEDED = 14 * 1024**3
"""Bytes. A test's stores hold little, but an engine maps whole pages of empty files, which count in memory: 10 GiB at most."""

pytest_plugins = [
    "fixtures_hypothesis",
    "fixtures_postgres",
    "fixtures_canaries",
    "fixtures_object_store",
]


def pytest_configure() -> None:
    """Let temporary folders lie in memory where there is enough of it.

    Tests make and remove hundreds of thousands of small files (a database is 500, a collection 150): on a disk that is most of
    what they wait for. ``PYTEST_DEBUG_TEMPROOT`` and ``--basetemp`` say otherwise.
    """
    is_usable = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    # What is free there counts against all memory, of which the tests themselves want some too.
    free = (
        min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available) if is_usable else 0
    )
    if free >= MEMORY_NEEDED:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.fixture(scope="session")
def model_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that holds the built model. ``THREADHOUSE_TEST_MODELS`` keeps it from one session to the next."""
    from threadhouse.stores.model_build import build_model

    kept = os.environ.get("THREADHOUSE_TEST_MODELS")
    # The processes of one session share it: their own folders lie beside each other.
    session = tmp_path_factory.getbasetemp()
    session = session.parent if "PYTEST_XDIST_WORKER" in os.environ else session
    home = Path(kept) if kept else session / "model_home"
    home.mkdir(exist_ok=True)
    with FileLock(home.with_suffix(".lock")):
        build_model(home)
    return home


@pytest.fixture(scope="session")
def embedder(model_home: Path) -> FastembedEmbedder:
    """The offline embedder. Two threads: what the smallest machine of a team has."""
    from threadhouse.stores.embedders import open_embedder

    return open_embedder(model_home, threads=2)
