"""Another embedding model, or another way of cutting, from the first text to the last dropped collection.

Belongs here: joining the generations (stores.generations) with the questions that judge them (serving), for the console script.
Does not belong here: what is printed (pipelines.cli_migrate_model), the steps themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from threadhouse.retrieval.errors import (
    EmbedderError,
    ReplayLossError,
    WrongAudienceError,
)
from threadhouse.stores.advisory_locks import advisory_lock
from threadhouse.stores.embedder_in_force import (
    configured_space,
    open_published,
)
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.generations import (
    BuildEstimate,
    CollectionCount,
    Generation,
    GenerationState,
    LevelReport,
    Migration,
    count_generation,
    generation_to_go_back_to,
    generation_to_switch_to,
    in_force_of,
    read_generations,
    require_counts,
    settle_generations,
)
from threadhouse.stores.migrations import open_database
from threadhouse.stores.model_in_force import (
    ModelPlace,
    configured_place,
    find_place,
    open_model,
    space_at,
)
from threadhouse.stores.vector_cache import PostgresVectorCache
from threadhouse.stores.vectors import open_writer

if TYPE_CHECKING:
    from threadhouse.retrieval.models import Json
    from threadhouse.retrieval.ports import VectorStore
    from threadhouse.serving.replay import GenerationReplay
    from threadhouse.stores.judged_queries import JudgedQuery
    from threadhouse.stores.postgres import Database
    from threadhouse.stores.settings import Settings

NIGHTLY_LOCK = "threadhouse nightly"
"""As in pipelines.nightly, which imports Dagster."""

OpenModel = Callable[[ModelPlace, str], CachedEmbedder]
"""Opens the model of a place and a space."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What is known of a generation before the switch. ``replay`` is None when it was not asked (a step back)."""

    name: str
    counts: tuple[CollectionCount, ...]
    leaks: tuple[str, ...]
    probed: int
    replay: GenerationReplay | None

    def to_json(self) -> dict[str, Json]:
        """For a program."""
        return {
            "name": self.name,
            "counts": [
                {
                    "collection": each.collection,
                    "owners": each.owners,
                    "points": each.points,
                    "behind": each.behind,
                    "gone": each.gone,
                    "points_missing": each.points_missing,
                    "points_stray": each.points_stray,
                }
                for each in self.counts
            ],
            "leaks": list(self.leaks),
            "probed": self.probed,
            "replay": None if self.replay is None else self.replay.to_json(),
        }

    def require(self, *, accept_losses: bool) -> None:
        """Refuse the switch.

        Raises:
            ProjectionError: A count differs.
            WrongAudienceError: A canary was let out.
            ReplayLossError: Too many questions would lose their answer, and nobody accepted that.
        """
        require_counts(self.counts)
        if self.leaks:
            message = (
                f"Asked of generation {self.name}, {self.leaks[0]} let out what is hidden ({len(self.leaks)} paths "
                "in all); readers stay where they are. Look with threadhouse security list --open."
            )
            raise WrongAudienceError(message)
        if self.replay is not None and self.replay.is_too_much and not accept_losses:
            raise ReplayLossError(self.replay.sentence())


class ModelMigration:
    """The steps of a migration over the stores that the settings name.

    Args:
        settings: Whose hub it is.
        allow_deletes: Go on when more of a generation would be deleted than one run may.
        on_step: Told the name of each step after it is durable.
        progress: Told (task, done, total).
        open_embedder: Opens a model; tests hand in models of their own.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        allow_deletes: bool = False,
        on_step: Callable[[str], None] = lambda name: None,
        progress: Callable[[str, int, int], None] = lambda task, done, total: None,
        open_embedder: OpenModel | None = None,
    ) -> None:
        self._settings = settings
        self.database: Database = open_database(settings)
        self._progress = progress
        self._open_embedder = open_embedder or self._open
        self._steps = Migration(
            self.database, self._writer, settings.home, allow_deletes, on_step, progress
        )

    def generations(self) -> list[Generation]:
        """What is known, after what a killed switch left has been written down."""
        place = configured_place(self._settings)
        with closing(open_published(self._settings)) as searcher:
            return settle_generations(
                self.database, searcher, place, configured_space(self._settings, place)
            )

    def plan(self, place: ModelPlace | None = None, *, rebuild: bool = False) -> Generation:
        """The generation that a build would make or go on with.

        Args:
            place: Where its model is; None goes on with what is being built, or else takes the model of the settings.
            rebuild: Also when model and chunking are those in force.

        Raises:
            ModelUnavailableError: The model is not on this machine.
            ConfigurationError: As `Migration.target`.
        """
        known = self.generations()
        if place is None and not rebuild:
            for each in known:
                if each.state in {GenerationState.BUILDING, GenerationState.BUILT}:
                    return each
        place = place or configured_place(self._settings)
        space_id = space_at(self._settings.home, place).space_id
        return self._steps.target(known, place, space_id, rebuild=rebuild)

    def estimate(self, generation: Generation) -> BuildEstimate:
        """What a build would do and how long it would take; nothing is built."""
        return self._steps.estimate(
            generation, self._open_embedder(generation.place, generation.space_id)
        )

    def build(self, generation: Generation) -> LevelReport:
        """Build beside the generation in force, or go on with it. Raises as `Migration.build`."""
        return self._steps.build(
            generation, self._open_embedder(generation.place, generation.space_id)
        )

    def counts(self, generation: Generation) -> tuple[CollectionCount, ...]:
        """How far a generation is from the source."""
        with closing(open_published(self._settings)) as searcher:
            return count_generation(self.database, searcher, generation)

    def verify(self, judged: Sequence[JudgedQuery] = ()) -> Verification:
        """Everything that a switch would look at, without switching; like a switch, it brings the generation level first."""
        generation = generation_to_switch_to(self.generations())
        embedder = self._embedder_of(generation)
        with self._steps.lock():
            since = self._steps.now()
            self._steps.level(generation, embedder)
            return self._verification(generation, embedder, since, judged)

    def switch(
        self, judged: Sequence[JudgedQuery] = (), *, accept_losses: bool = False
    ) -> tuple[Generation, LevelReport, Verification]:
        """Give readers the generation that was built.

        Raises:
            StoreLockedError: A nightly, a publish or another migration is at work.
            ProjectionError: A count differs.
            WrongAudienceError: A canary was let out.
            ReplayLossError: Too many questions would lose their answer.
        """
        generation = generation_to_switch_to(self.generations())
        return self._give_readers(
            generation,
            lambda embedder, since: self._verification(
                generation, embedder, since, judged, accept_losses=accept_losses
            ),
            accept_losses=accept_losses,
        )

    def roll_back(self) -> tuple[Generation, LevelReport, Verification]:
        """Give readers the generation before, brought level with everything that changed since.

        Questions are not asked again: who goes back does not want to be held up by answers that are better in what is left.

        Raises:
            StoreLockedError: As for `switch`.
            ProjectionError: A count differs.
            WrongAudienceError: A canary was let out.
        """
        generation = generation_to_go_back_to(self.generations())
        return self._give_readers(
            generation,
            lambda embedder, since: self._verification(generation, embedder, since, None),
            accept_losses=True,
        )

    def drop(self, name: str | None = None) -> list[Generation]:
        """Drop the generation beside the one in force. Raises ConfigurationError."""
        return self._steps.drop(self.generations(), name)

    def _give_readers(
        self,
        generation: Generation,
        verify: Callable[[CachedEmbedder, datetime], Verification],
        *,
        accept_losses: bool,
    ) -> tuple[Generation, LevelReport, Verification]:
        found: list[Verification] = []

        def look(since: datetime) -> None:
            found.append(verify(embedder, since))
            found[-1].require(accept_losses=accept_losses)

        # A nightly goes on with the model that it began with, so it is not switched in the middle of one.
        with advisory_lock(self.database, NIGHTLY_LOCK, "The nightly job is being run by"):
            embedder = self._embedder_of(generation)
            report = self._steps.switch(generation, embedder, look)
        with self.database.connect() as connection:
            return in_force_of(read_generations(connection)), report, found[-1]

    def _verification(
        self,
        generation: Generation,
        embedder: CachedEmbedder,
        since: datetime,
        judged: Sequence[JudgedQuery] | None,
        *,
        accept_losses: bool = False,
    ) -> Verification:
        from threadhouse.serving.leak_probe import probe_canaries, probe_published
        from threadhouse.serving.replay import replay_generation

        with closing(open_published(self._settings)) as searcher:
            counts = count_generation(self.database, searcher, generation, since)
        self._progress("Probing for leaks", 0, 0)
        probes = [probe_published(self._settings, datetime.now(UTC).date(), names=generation.names)]
        if judged is not None:
            # Planted ones ask the paths and not the generation, so a step back does not wait for them.
            probes.append(probe_canaries(self._settings))
        replay: GenerationReplay | None = None
        # Of collections that do not hold what they should, nothing is asked.
        if judged is not None and not any(each.differs for each in counts):
            self._progress("Asking questions again", 0, 0)
            replay = replay_generation(
                self._settings,
                self.database,
                self._embedder_in_force(),
                embedder,
                generation.names,
                judged,
                accept_losses=accept_losses,
            )
        return Verification(
            generation.name,
            counts,
            tuple(f"{each.path} as {each.reader}" for probe in probes for each in probe.faults),
            sum(len(probe.outcomes) for probe in probes),
            replay,
        )

    def _embedder_of(self, generation: Generation) -> CachedEmbedder:
        return self._open_embedder(generation.place, generation.space_id)

    def _embedder_in_force(self) -> CachedEmbedder | None:
        """None when its model is not on this machine any more."""
        with self.database.connect() as connection:
            generation = in_force_of(read_generations(connection))
        try:
            return self._embedder_of(generation)
        except EmbedderError:
            return None

    def _open(self, place: ModelPlace, space_id: str) -> CachedEmbedder:
        found = find_place(self._settings, space_id, [place])
        return CachedEmbedder(open_model(self._settings, found), PostgresVectorCache(self.database))

    def _writer(self) -> AbstractContextManager[VectorStore]:
        key = self._settings.qdrant_api_key
        return open_writer(
            home=self._settings.home,
            lock_timeout_s=self._settings.lock_timeout_s,
            url=self._settings.qdrant_url,
            api_key=key.get_secret_value() if key else None,
        )
