"""Fixtures that tests of every folder share: the offline model, built once a session.

Belongs here: what is slow to make and safe to share. Does not belong here: fixtures of one store (they live beside its tests).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from threadhouse.stores.embedders import FastembedEmbedder

pytest_plugins = ["fixtures_hypothesis", "fixtures_postgres", "fixtures_canaries"]


@pytest.fixture(scope="session")
def model_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that holds the built model. ``THREADHOUSE_TEST_MODELS`` keeps it from one session to the next."""
    from threadhouse.stores.model_build import build_model

    kept = os.environ.get("THREADHOUSE_TEST_MODELS")
    home = Path(kept) if kept else tmp_path_factory.mktemp("model_home")
    build_model(home)
    return home


@pytest.fixture(scope="session")
def embedder(model_home: Path) -> FastembedEmbedder:
    """The offline embedder. Two threads: what the smallest machine of a team has."""
    from threadhouse.stores.embedders import open_embedder

    return open_embedder(model_home, threads=2)
