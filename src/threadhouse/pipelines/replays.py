"""The query path as build steps may ask it; implements `threadhouse.resources.replays.Replays`.

Belongs here: joining the two, because only this layer sees both. Does not belong here: what is asked (serving.replay).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadhouse.retrieval.models import Audience
    from threadhouse.retrieval.question_clusters import CandidateUnit
    from threadhouse.retrieval.replay import GapReplayReport, PublishedReplay
    from threadhouse.stores.embedding_cache import CachedEmbedder
    from threadhouse.stores.postgres import Database
    from threadhouse.stores.settings import Settings


class QueryPathReplays:
    """Opens the query path when it is asked, so that a graph can be loaded without it."""

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
        from threadhouse.serving.replay import replay_before_switch

        replay_before_switch(
            settings, database, embedder, move_pointers, accept_losses=accept_losses
        )

    def of_what_is_published(
        self,
        settings: Settings,
        database: Database,
        embedder: CachedEmbedder,
        *,
        accept_losses: bool,
    ) -> PublishedReplay:
        """Recent questions, of what readers have."""
        from threadhouse.serving.replay import replay_published

        return replay_published(settings, database, embedder, accept_losses=accept_losses)

    def of_gaps(
        self, settings: Settings, database: Database, embedder: CachedEmbedder
    ) -> GapReplayReport:
        """Questions of gaps that somebody called fixed, or whose answer may have come."""
        from threadhouse.serving.replay import replay_gaps

        return replay_gaps(settings, database, embedder)

    def candidate_units(
        self,
        settings: Settings,
        database: Database,
        embedder: CachedEmbedder,
        lane: Audience,
        texts: Sequence[str],
    ) -> list[CandidateUnit]:
        """Units that a search finds for the questions, as their lane sees them."""
        from threadhouse.serving.replay import find_candidate_units

        return find_candidate_units(settings, database, embedder, lane, texts)
