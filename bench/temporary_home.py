"""A Threadhouse home that lives as long as one benchmark.

Belongs here: making it, running the console script in it, removing it with the server it started.
Does not belong here: what is loaded into it.

Whatever the environment says, a benchmark touches no outside database, no outside Qdrant and no outside lake. The model is the
one of the caller's home: building it again would measure nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.measuring import ProcessRun, run_process
from threadhouse.stores import embedded_postgres
from threadhouse.stores.embedders import FastembedEmbedder, open_embedder
from threadhouse.stores.model_build import build_model
from threadhouse.stores.settings import Settings

OUTSIDE = ("database_url", "qdrant_url", "qdrant_api_key", "lake_url")
"""Settings that name stores of somebody else."""


@dataclass(frozen=True, slots=True)
class TemporaryHome:
    """One home and its settings."""

    settings: Settings

    @property
    def path(self) -> Path:
        return self.settings.home

    def threadhouse(self, *arguments: str | Path) -> ProcessRun:
        """Run the console script as a process of its own, the way cron and make do."""
        outside = {name.upper() for name in OUTSIDE}
        kept = {name: value for name, value in os.environ.items() if name.upper() not in outside}
        # Not the script in bin/: a checkout that runs from its sources may have none.
        program = "from threadhouse.pipelines.cli import main; main()"
        return run_process(
            [sys.executable, "-c", program, *map(str, arguments)],
            {**kept, "THREADHOUSE_HOME": str(self.path)},
        )

    def open_embedder(self) -> FastembedEmbedder:
        """The model that the settings name, in this process."""
        return open_embedder(
            self.path,
            model=self.settings.embedding_model,
            path=self.settings.embedding_path,
            threads=self.settings.embedding_threads,
        )


@contextmanager
def temporary_home() -> Generator[TemporaryHome, None, None]:
    """A fresh home; gone afterwards, server included, also when the body raises."""
    own = Settings.from_environment()
    if own.embedding_model is None and own.embedding_path is None:
        build_model(own.home)
    folder = Path(tempfile.mkdtemp(prefix="threadhouse-bench-"))
    models = own.home / "models"
    models.mkdir(parents=True, exist_ok=True)
    (folder / "models").symlink_to(models, target_is_directory=True)
    inside = own.model_copy(update={"threadhouse_home": folder, **dict.fromkeys(OUTSIDE)})
    try:
        yield TemporaryHome(inside)
    finally:
        embedded_postgres.stop(folder)
        shutil.rmtree(folder)
