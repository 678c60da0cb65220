"""The embedder that the collections are asked and written with, behind its cache.

Belongs here: joining what the aliases say, what is known of generations and what the settings name.
Does not belong here: the rules (stores.model_in_force), generations themselves (stores.generations).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from threadhouse.retrieval.errors import ModelUnavailableError
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.generations import (
    Generation,
    known_spaces,
    places_of,
    read_generations,
    settle_generations,
)
from threadhouse.stores.model_in_force import (
    ModelPlace,
    configured_place,
    find_place,
    open_model,
    require_known,
    space_at,
    space_in_force,
)
from threadhouse.stores.vector_cache import PostgresVectorCache
from threadhouse.stores.vectors import open_reader

if TYPE_CHECKING:
    from threadhouse.retrieval.ports import VectorSearcher
    from threadhouse.stores.embedders import FastembedEmbedder
    from threadhouse.stores.postgres import Database
    from threadhouse.stores.settings import Settings


def open_embedder_in_force(
    settings: Settings, database: Database, progress: Callable[[str], None] | None = None
) -> CachedEmbedder:
    """The embedder of the collections that readers have; of the model that the settings name when there are none yet.

    Writes down which generation is in force where that is not known yet.

    Raises:
        ModelUnavailableError: The model is not on this machine.
        SpaceMismatchError: The settings name a model that no generation ever was of.
    """
    place, known = configured_place(settings), None
    with closing(open_published(settings)) as searcher:
        space_id = space_in_force(searcher)
        if space_id is not None:
            known = settle_generations(database, searcher, place, configured_space(settings, place))
    if space_id is None or known is None:
        model = open_model(settings, place, progress)
    else:
        model = open_model_of(settings, known, space_id, progress)
    return CachedEmbedder(model, PostgresVectorCache(database))


class EmbedderInForce:
    """The embedder in force for a process that writes for days: opened again when another generation was switched to."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self._settings = settings
        self._database = database
        self._progress = progress
        self._opened: CachedEmbedder | None = None

    def now(self) -> CachedEmbedder:
        """The embedder of this moment. Raises as `open_embedder_in_force`."""
        opened = self._opened
        with closing(open_published(self._settings)) as searcher:
            space_id = space_in_force(searcher)
        if opened is None or space_id not in {None, opened.space.space_id}:
            opened = open_embedder_in_force(self._settings, self._database, self._progress)
            self._opened = opened
        return opened


def open_model_of_space(settings: Settings, database: Database, space_id: str) -> FastembedEmbedder:
    """The model of a space that a reader met. Raises as `open_embedder_in_force`."""
    with database.connect() as connection:
        known = read_generations(connection)
    return open_model_of(settings, known, space_id)


def open_model_of(
    settings: Settings,
    known: list[Generation],
    space_id: str,
    progress: Callable[[str], None] | None = None,
) -> FastembedEmbedder:
    """The model of a space, unless the settings name one that nobody migrated to. Raises as `open_embedder_in_force`."""
    place = configured_place(settings)
    configured = configured_space(settings, place)
    if configured is not None:
        require_known(place, configured, space_id, known_spaces(known))
    found = find_place(settings, space_id, places_of(known, space_id))
    return open_model(settings, found, progress)


def configured_space(settings: Settings, place: ModelPlace) -> str | None:
    """Space of the model that the settings name; None when it is not on this machine, or not built yet."""
    try:
        return space_at(settings.home, place).space_id
    except ModelUnavailableError:
        return None


def open_published(settings: Settings) -> VectorSearcher:
    """What readers have."""
    key = settings.qdrant_api_key
    return open_reader(
        home=settings.home,
        url=settings.qdrant_url,
        api_key=key.get_secret_value() if key else None,
    )
