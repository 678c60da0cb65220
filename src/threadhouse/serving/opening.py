"""Opening the query path: the stores that the settings name, joined into one service.

Belongs here: what is opened, in which order, and closed again. Does not belong here: answering (retrieval_service).

Nothing slow happens before it is needed: the model is loaded by the first question.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager

from threadhouse.retrieval.errors import ModelUnavailableError
from threadhouse.retrieval.models import Vectors, VectorSpace
from threadhouse.serving.retrieval_service import QueryEmbedder, RetrievalService
from threadhouse.stores.leased_connections import LeasedConnections
from threadhouse.stores.migrations import open_database
from threadhouse.stores.postgres import Database
from threadhouse.stores.query_secret import open_question_keeper
from threadhouse.stores.settings import Settings
from threadhouse.stores.thread_signals import PostgresThreadSignals

POOL_CONNECTIONS = 8
"""Questions that are answered at once in one process; more wait. A question holds at most one connection at a time."""


OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""New objects before Python looks for cycles, in place of the 700 of Python 3.11. Answering makes few.

With 700, in 200 questions one to four met a look at everything that the process remembers; it took 40 to 200 ms of processor time
and found nothing.
"""


@contextmanager
def _seldom_collected() -> Generator[None, None, None]:
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class LazyEmbedder:
    """The embedder of the settings, loaded by the first question; its space is known before, from the model's manifest."""

    def __init__(self, settings: Settings, announce: Callable[[str], None] | None = None) -> None:
        self._settings = settings
        self._announce = announce
        self._lock = threading.Lock()
        self._loaded: QueryEmbedder | None = None
        self._space: VectorSpace | None = None

    @property
    def space(self) -> VectorSpace:
        """The space of the model that the settings name."""
        if self._space is None:
            from threadhouse.stores.embedders import find_model, space_of

            settings = self._settings
            try:
                _, manifest = find_model(
                    settings.home, model=settings.embedding_model, path=settings.embedding_path
                )
            except ModelUnavailableError:
                # The default model is built on first need; any other one says here what to do.
                self._space = self._load().space
            else:
                self._space = space_of(manifest)
        return self._space

    def embed_query(self, text: str) -> Vectors:
        """Embed one question; the first one loads the model."""
        return self._load().embed_query(text)

    def _load(self) -> QueryEmbedder:
        with self._lock:
            if self._loaded is None:
                from threadhouse.stores.embedders import open_embedder

                settings = self._settings
                self._loaded = open_embedder(
                    settings.home,
                    model=settings.embedding_model,
                    path=settings.embedding_path,
                    threads=settings.embedding_threads,
                    progress=self._announce,
                )
            return self._loaded


class EmbeddersOfSpaces:
    """Embedders of spaces that the collections turn out to be of, each loaded by the first question that meets it."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._lock = threading.Lock()
        self._loaded: dict[str, QueryEmbedder] = {}

    def __call__(self, space_id: str) -> QueryEmbedder:
        """The embedder of a space.

        Raises:
            ModelUnavailableError: Its model is not on this machine.
            SpaceMismatchError: The settings name a model that nobody migrated to.
        """
        with self._lock:
            if space_id not in self._loaded:
                from threadhouse.stores.embedder_in_force import open_model_of_space

                self._loaded[space_id] = open_model_of_space(
                    self._settings, self._database, space_id
                )
            return self._loaded[space_id]


@contextmanager
def open_retrieval_service(
    settings: Settings,
    announce: Callable[[str], None] | None = None,
    *,
    embedder: QueryEmbedder | None = None,
) -> Generator[RetrievalService, None, None]:
    """Yield the service of these settings; everything is closed when the body ends.

    Args:
        announce: Told when something takes a while, such as building the offline model.
        embedder: Of the space that the hub was embedded in; by default the model of the collections that are asked, loaded by the
            first question.

    Raises:
        StoreUnreachableError: PostgreSQL does not answer.
        MigrationError: The schema cannot be brought up to date.
    """
    from threadhouse.stores.vectors import open_reader

    database = open_database(settings)
    key = settings.qdrant_api_key
    asking = embedder or LazyEmbedder(settings, announce)
    with (
        _seldom_collected(),
        LeasedConnections(database, max_size=POOL_CONNECTIONS) as connections,
        closing(
            open_reader(
                home=settings.home,
                url=settings.qdrant_url,
                api_key=key.get_secret_value() if key else None,
            )
        ) as searcher,
    ):
        yield RetrievalService(
            connections=connections,
            searcher=searcher,
            embedder=asking,
            signals=PostgresThreadSignals(connections),
            rerank_enabled=settings.search_rerank_enabled,
            keeper=open_question_keeper(settings),
            other_embedders=None if embedder else EmbeddersOfSpaces(settings, database),
        )
