"""Asking the query path from a build step, as Dagster hands it in.

Belongs here: what a step may ask. Does not belong here: how it is asked (serving.replay). The build knows nothing of the query
path, so whoever puts the graph together hands in an object that does.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from threadhouse.retrieval.models import Audience
from threadhouse.retrieval.question_clusters import CandidateUnit
from threadhouse.retrieval.replay import GapReplayReport, PublishedReplay
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings


class Replays(Protocol):
    """Questions that the pipeline asks. None of them is counted."""

    def before_switch(
        self,
        settings: Settings,
        database: Database,
        embedder: CachedEmbedder,
        move_pointers: Callable[[Database], None],
        *,
        accept_losses: bool,
    ) -> None:
        """Recent questions, of what is about to be switched to. Raises ReplayLossError."""
        ...

    def of_what_is_published(
        self,
        settings: Settings,
        database: Database,
        embedder: CachedEmbedder,
        *,
        accept_losses: bool,
    ) -> PublishedReplay:
        """Recent questions, of what readers have."""
        ...

    def of_gaps(
        self, settings: Settings, database: Database, embedder: CachedEmbedder
    ) -> GapReplayReport:
        """Questions of gaps that somebody called fixed, or whose answer may have come."""
        ...

    def candidate_units(
        self,
        settings: Settings,
        database: Database,
        embedder: CachedEmbedder,
        lane: Audience,
        texts: Sequence[str],
    ) -> list[CandidateUnit]:
        """Units that a search finds for the questions, as their lane sees them."""
        ...
