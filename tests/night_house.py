"""A home with the sample hub in a database of its own, on which the nightly job runs in this process.

Belongs here: opening it, running the job, what a run said. Does not belong here: which runs, expectations.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult

from fixtures_postgres import as_url, new_database
from fixtures_source_tree import ROOT
from threadhouse.pipelines.definitions import build_definitions, build_resources
from threadhouse.stores.loading import load_path
from threadhouse.stores.model_build import models_directory
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings


@dataclass(frozen=True, slots=True)
class NightHouse:
    """One home, its database and an instance that remembers its runs."""

    settings: Settings
    database: Database
    instance: dg.DagsterInstance

    def run(
        self,
        *,
        tags: dict[str, str] | None = None,
        run_config: dict[str, Any] | None = None,
        asset_selection: Sequence[dg.AssetKey] | None = None,
    ) -> ExecuteInProcessResult:
        """The nightly job, of all assets by default; a step that fails is in the result."""
        definitions = build_definitions(
            self.settings, resources=build_resources(str(self.settings.home))
        )
        return definitions.resolve_job_def("nightly_rebuild").execute_in_process(
            instance=self.instance,
            tags=tags,
            run_config=run_config,
            asset_selection=asset_selection,
            raise_on_error=False,
        )


@contextlib.contextmanager
def open_night_house(
    home: Path, model_home: Path, server: Database, template: str
) -> Generator[NightHouse, None, None]:
    """Yield a house that was loaded and nothing else; its environment variables are set while it is open.

    Args:
        model_home: Home that holds the built model.
        template: Database that the new one is copied from.
    """
    models_directory(home).symlink_to(models_directory(model_home))
    with contextlib.ExitStack() as stack:
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        database = stack.enter_context(new_database(server, template))
        for name in Settings.model_fields:
            environment.delenv(name.upper(), raising=False)
        environment.setenv("THREADHOUSE_HOME", str(home))
        environment.setenv("DATABASE_URL", as_url(database))
        environment.setenv("EMBEDDING_THREADS", "2")
        load_path(database, ROOT / "examples" / "hub")
        instance = stack.enter_context(dg.DagsterInstance.ephemeral())
        yield NightHouse(Settings.from_environment(), database, instance)


def metadata(result: ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """Metadata of everything that was materialized, by asset."""
    return {
        event.materialization.asset_key.to_user_string(): {
            name: value.value for name, value in event.materialization.metadata.items()
        }
        for event in result.get_asset_materialization_events()
    }
