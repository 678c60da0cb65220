"""How Dagster opens the stores.

Belongs here: one thin resource a store, each opening what ``threadhouse.stores`` offers.
Does not belong here: logic, defaults of settings (stores.settings), secrets: an address with a password stays in the
environment and is read when a store is opened, so that it never shows in the UI, in a repr or in run storage.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field, PrivateAttr

from threadhouse.retrieval.ports import VectorSearcher, VectorStore
from threadhouse.stores.embedder_in_force import open_embedder_in_force
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.lake import EventLake
from threadhouse.stores.migrations import open_database
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings
from threadhouse.stores.vectors import open_reader, open_writer


class EnvironmentResource(dg.ConfigurableResource[Any]):
    """Where this house stands: the settings of the environment, read when a run starts."""

    home: str | None = Field(
        default=None, description="Overrides THREADHOUSE_HOME; empty takes the environment's."
    )

    def settings(self) -> Settings:
        """The settings. Raises ConfigurationError for a bad value."""
        settings = Settings.from_environment()
        if not self.home:
            return settings
        return settings.model_copy(update={"threadhouse_home": Path(self.home).absolute()})


class PostgresResource(dg.ConfigurableResource[Any]):
    """The source of truth, started and migrated before it is handed out."""

    environment: dg.ResourceDependency[EnvironmentResource]

    def open(self) -> Database:
        """The database, ready to use. Raises StoreUnreachableError or MigrationError."""
        return open_database(self.environment.settings())


class VectorStoreResource(dg.ConfigurableResource[Any]):
    """The vector collections. One process writes at a time; readers never wait."""

    environment: dg.ResourceDependency[EnvironmentResource]

    @contextmanager
    def writer(self) -> Generator[VectorStore, None, None]:
        """Yield the store for writing; always closed. Raises StoreLockedError naming the holder."""
        settings = self.environment.settings()
        store = open_writer(
            home=settings.home,
            lock_timeout_s=settings.lock_timeout_s,
            url=settings.qdrant_url,
            api_key=settings.qdrant_api_key.get_secret_value() if settings.qdrant_api_key else None,
        )
        try:
            yield store
        finally:
            store.close()

    @contextmanager
    def reader(self) -> Generator[VectorSearcher, None, None]:
        """Yield what readers see, the last published state; always closed."""
        settings = self.environment.settings()
        store = open_reader(
            home=settings.home,
            url=settings.qdrant_url,
            api_key=settings.qdrant_api_key.get_secret_value() if settings.qdrant_api_key else None,
        )
        try:
            yield store
        finally:
            store.close()


class EmbedderResource(dg.ConfigurableResource[Any]):
    """The embedding model behind the cache in Postgres."""

    environment: dg.ResourceDependency[EnvironmentResource]
    _opened: CachedEmbedder | None = PrivateAttr(default=None)

    def open(self, database: Database) -> CachedEmbedder:
        """The embedder of what readers have, loaded once a run (about two seconds). Raises ModelUnavailableError."""
        if self._opened is None:
            self._opened = open_embedder_in_force(self.environment.settings(), database)
        return self._opened


class LakeResource(dg.ConfigurableResource[Any]):
    """The event lake: Parquet files by local day."""

    environment: dg.ResourceDependency[EnvironmentResource]

    def open(self) -> EventLake:
        """The lake of this house."""
        return EventLake.open(self.environment.settings())
