"""Generations of the vector collections: one in force, another built beside it, switched to, gone back from, dropped.

Belongs here: what is known of generations, building one, bringing it level with the source, moving the aliases, dropping one.
Does not belong here: asking questions of a generation before the switch (pipelines.model_migration), how collections are filled
(stores.projection, stores.centroid_projection, stores.pack_refresh). Why it is done this way: docs/adr/0019-generations.md.

A generation is three collections of one space and one number. The aliases say which one is in force, and they move together;
``nao.vector_generation`` follows them, see `settle_generations`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from psycopg import Connection, IsolationLevel
from psycopg.rows import TupleRow, dict_row

from threadhouse.retrieval.centroids import CentroidPlan
from threadhouse.retrieval.errors import ConfigurationError, ProjectionError
from threadhouse.retrieval.models import Collection, Json
from threadhouse.retrieval.ports import CandidateSearcher, VectorSearcher, VectorStore
from threadhouse.retrieval.projection import DEFAULT_DELETION_SHARE, ProjectionOwner
from threadhouse.stores import queries
from threadhouse.stores.advisory_locks import advisory_lock
from threadhouse.stores.centroid_projection import (
    read_centroid_plans,
    refresh_centroids,
)
from threadhouse.stores.chunk_table import (
    chunk_table_path,
    read_chunk_table,
    refresh_chunk_table,
    spans_by_digest,
)
from threadhouse.stores.embedding_cache import CachedEmbedder, CacheSurvey
from threadhouse.stores.knowledge import open_knowledge
from threadhouse.stores.model_in_force import ModelPlace
from threadhouse.stores.pack_refresh import refresh_packs
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import projection_lock, publish_content, read_pointers
from threadhouse.stores.projection_sources import ContentSource, DocumentSource, UnitSource
from threadhouse.stores.vectors import generation_of, physical_name
from threadhouse.stores.vectors_of_generation import SearcherOfGeneration, StoreOfGeneration

MIGRATION_LOCK = "threadhouse model migration"
"""Name of the advisory lock: one command at a time builds, switches or drops."""

EMBED_BATCH_OWNERS = 64
"""Owners that are embedded ahead together: a kill loses what is not in the cache yet, which is one batch of the model."""

OpenStore: TypeAlias = Callable[[], AbstractContextManager[VectorStore]]
Steps: TypeAlias = Callable[[str], None]
Progress: TypeAlias = Callable[[str, int, int], None]


class GenerationState(StrEnum):
    """What a generation is there for. ``previous`` is the one that the last switch left, kept for a step back."""

    BUILDING = "building"
    BUILT = "built"
    IN_FORCE = "in_force"
    PREVIOUS = "previous"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Generation:
    """Three collections of one space and one number, and how their model is opened."""

    space_id: str
    generation: int
    state: GenerationState
    place: ModelPlace
    created_at: datetime
    changed_at: datetime

    @property
    def name(self) -> str:
        """What people call it; the end of its collections' names."""
        return f"{self.space_id}__g{self.generation}"

    @property
    def names(self) -> dict[str, str]:
        """Physical names by public name."""
        return {
            str(collection): physical_name(collection, self.space_id, self.generation)
            for collection in Collection
        }

    def to_json(self) -> dict[str, Json]:
        """For a program."""
        return {
            "name": self.name,
            "space_id": self.space_id,
            "generation": self.generation,
            "state": self.state,
            "embedding_model": self.place.model,
            "embedding_path": None if self.place.path is None else str(self.place.path),
            "created_at": self.created_at.isoformat(),
            "changed_at": self.changed_at.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class CollectionCount:
    """One collection of a generation against its pointers and the source.

    Attributes:
        behind: Owners of the source that the generation does not hold as they are.
        gone: Owners that it holds and the source does not have.
        points_missing: Points that a pointer names and that are not there.
        points_stray: Points that no pointer names.
    """

    collection: str
    owners: int
    points: int
    behind: int
    gone: int
    points_missing: int
    points_stray: int

    @property
    def differs(self) -> int:
        """Everything that keeps a generation from being switched to."""
        return self.behind + self.gone + self.points_missing + self.points_stray

    def render(self) -> str:
        """One line for a person."""
        line = f"{self.collection}: {self.owners:,} owners in {self.points:,} points"
        if not self.differs:
            return line
        return (
            f"{line}; {self.behind:,} behind the source, {self.gone:,} gone from it, "
            f"{self.points_missing:,} points missing, {self.points_stray:,} stray"
        )


@dataclass(frozen=True, slots=True)
class BuildEstimate:
    """What a build would do. ``seconds`` is from a sample that was embedded now; 0 when everything is in the cache."""

    name: str
    owners: Mapping[str, int]
    chunks: Mapping[str, int]
    texts_to_embed: int
    texts_cached: int
    chars_per_s: float | None
    seconds: float

    def to_json(self) -> dict[str, Json]:
        """For a program."""
        return {
            "name": self.name,
            "owners": dict(self.owners),
            "chunks": dict(self.chunks),
            "texts_to_embed": self.texts_to_embed,
            "texts_cached": self.texts_cached,
            "chars_per_s": None if self.chars_per_s is None else round(self.chars_per_s, 1),
            "estimated_seconds": round(self.seconds, 1),
        }


@dataclass(slots=True)
class LevelReport:
    """What bringing a generation level with the source cost."""

    owners_published: int = 0
    chunks_written: int = 0
    texts_embedded: int = 0
    cache_hits: int = 0
    centroids_written: int = 0
    packs_written: int = 0
    owners_left: int = 0
    seconds: float = 0.0
    points: dict[str, int] = field(default_factory=dict[str, int])

    def __add__(self, other: LevelReport) -> LevelReport:
        """Both together; points are those of the later one."""
        return LevelReport(
            self.owners_published + other.owners_published,
            self.chunks_written + other.chunks_written,
            self.texts_embedded + other.texts_embedded,
            self.cache_hits + other.cache_hits,
            self.centroids_written + other.centroids_written,
            self.packs_written + other.packs_written,
            other.owners_left,
            self.seconds + other.seconds,
            other.points,
        )

    def to_json(self) -> dict[str, Json]:
        """For a program."""
        return {
            "owners_published": self.owners_published,
            "chunks_written": self.chunks_written,
            "texts_embedded": self.texts_embedded,
            "cache_hits": self.cache_hits,
            "centroids_written": self.centroids_written,
            "packs_written": self.packs_written,
            "owners_left": self.owners_left,
            "seconds": round(self.seconds, 3),
            "points": dict(self.points),
        }


def read_generations(connection: Connection[TupleRow]) -> list[Generation]:
    """Every generation that was ever written down, oldest first."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return [
            Generation(
                space_id=row["space_id"],
                generation=row["generation"],
                state=GenerationState(row["state"]),
                place=ModelPlace(
                    row["embedding_model"],
                    None if row["embedding_path"] is None else Path(row["embedding_path"]),
                ),
                created_at=row["created_at"],
                changed_at=row["changed_at"],
            )
            for row in cursor.execute(queries.load("generations_read"))
        ]


def settle_generations(
    database: Database, searcher: VectorSearcher, place: ModelPlace, space_id: str | None
) -> list[Generation]:
    """Write down what the aliases say is in force, and return what is known.

    A switch moves the aliases first, so that readers decide by one thing alone. Killed before it was written down, the next
    command does it here.

    Args:
        place: Where the settings say that the model is.
        space_id: Space of that model, as far as it is known.
    """
    with database.connect() as connection:
        known = read_generations(connection)
    aliased = searcher.aliases().get(Collection.INFORMATION_UNITS)
    if aliased is None:
        return known
    meant = generation_of(aliased)
    former = next((g for g in known if g.state is GenerationState.IN_FORCE), None)
    if former is not None and (former.space_id, former.generation) == meant:
        return known
    target = next((g for g in known if (g.space_id, g.generation) == meant), None)
    present = {info.physical for info in searcher.collections()}
    with database.connect() as connection:
        if former is not None:
            went_back = target is not None and target.state is GenerationState.PREVIOUS
            is_there = bool(present & set(former.names.values()))
            beside = GenerationState.BUILT if went_back else GenerationState.PREVIOUS
            _put(connection, former, beside if is_there else GenerationState.DROPPED)
        if target is None:
            here = place if space_id == meant[0] else ModelPlace()
            now = datetime.now().astimezone()
            target = Generation(*meant, GenerationState.IN_FORCE, here, now, now)
        _put(connection, target, GenerationState.IN_FORCE)
        return read_generations(connection)


def in_force_of(known: Sequence[Generation]) -> Generation:
    """The generation that readers are given.

    Raises:
        ConfigurationError: Nothing is published.
    """
    for generation in known:
        if generation.state is GenerationState.IN_FORCE:
            return generation
    message = "Nothing is published yet, so there is nothing to migrate; threadhouse nightly builds the first generation."
    raise ConfigurationError(message)


def generation_to_switch_to(known: Sequence[Generation]) -> Generation:
    """The generation that was built and not yet switched to.

    Raises:
        ConfigurationError: There is none, or it is still being built.
    """
    for generation in known:
        if generation.state is GenerationState.BUILT:
            return generation
        if generation.state is GenerationState.BUILDING:
            message = f"{generation.name} is not finished; run threadhouse migrate-model build again, it goes on where it was."
            raise ConfigurationError(message)
    message = (
        "No generation is built beside the one in force; threadhouse migrate-model build makes one."
    )
    raise ConfigurationError(message)


def generation_to_go_back_to(known: Sequence[Generation]) -> Generation:
    """The generation that the last switch left.

    Raises:
        ConfigurationError: There is none, or it was dropped.
    """
    for generation in known:
        if generation.state is GenerationState.PREVIOUS:
            return generation
    message = "There is no generation to go back to: none was switched away from, or it was dropped since."
    raise ConfigurationError(message)


_BESIDE = (GenerationState.BUILDING, GenerationState.BUILT, GenerationState.PREVIOUS)


def beside_names(known: Sequence[Generation]) -> frozenset[str]:
    """Physical names of the collections that stand beside those in force, on purpose."""
    return frozenset(physical for g in known if g.state in _BESIDE for physical in g.names.values())


@dataclass(frozen=True, slots=True)
class Migration:
    """What a migration works with.

    Attributes:
        open_store: Opens the store for writing. Held only while points are written, so that a nightly or a listener keeps the
            generation in force up to date meanwhile.
        home: Where chunk tables are kept.
        allow_deletes: Go on when more of a kept generation would be deleted than one run may.
        on_step: Told the name of each step after it is durable. The crash tests kill the process in it.
        progress: Told (task, done, total).
    """

    database: Database
    open_store: OpenStore
    home: Path
    allow_deletes: bool = False
    on_step: Steps = lambda name: None
    progress: Progress = lambda task, done, total: None

    def lock(self) -> AbstractContextManager[None]:
        """One command at a time. Raises StoreLockedError naming the other one."""
        return advisory_lock(
            self.database, MIGRATION_LOCK, "The vectors are being migrated by", is_reentrant=True
        )

    def target(
        self,
        known: Sequence[Generation],
        place: ModelPlace,
        space_id: str,
        *,
        rebuild: bool = False,
    ) -> Generation:
        """The generation that a build of a model makes or goes on with; nothing is written.

        Args:
            known: What `settle_generations` returned.
            place: Where the model is.
            space_id: Its space.
            rebuild: Also when the model and the way of cutting are those in force.

        Raises:
            ConfigurationError: Nothing is published, another generation stands beside already, or there is nothing to migrate.
        """
        current = in_force_of(known)
        for beside in (g for g in known if g.state in _BESIDE):
            if beside.space_id == space_id and beside.state is not GenerationState.PREVIOUS:
                return beside
            message = (
                f"Generation {beside.name} stands beside the one in force ({beside.state}); drop it first with "
                f"threadhouse migrate-model drop, or go back to it with threadhouse migrate-model rollback."
                if beside.state is GenerationState.PREVIOUS
                else f"Generation {beside.name} is being migrated to ({beside.state}); switch to it or drop it first."
            )
            raise ConfigurationError(message)
        if space_id == current.space_id and not rebuild and not self._is_cut_otherwise(current):
            message = (
                f"The collections are of {current.space_id} and of today's chunking already, so there is nothing to migrate; "
                "name another model with --model or --path, or give --rebuild to build them anew all the same."
            )
            raise ConfigurationError(message)
        number = 1 + max((g.generation for g in known if g.space_id == space_id), default=0)
        now = datetime.now().astimezone()
        return Generation(space_id, number, GenerationState.BUILDING, place, now, now)

    def estimate(self, generation: Generation, embedder: CachedEmbedder) -> BuildEstimate:
        """What a build would do, and how long embedding would take as measured on a few texts. Writes chunk tables only."""
        survey = CacheSurvey(embedder.inner, embedder.cache)
        owners: dict[str, int] = {}
        chunks: dict[str, int] = {}
        for source in _sources():
            wanted, table = self._cut(generation, source, embedder)
            owners[source.collection] = len(wanted)
            chunks[source.collection] = sum(len(spans) for spans in table.values())
            self._embed(source, wanted, table, survey, "Looking up")
        rate = survey.chars_per_s()
        return BuildEstimate(
            name=generation.name,
            owners=owners,
            chunks=chunks,
            texts_to_embed=len(survey.missing),
            texts_cached=survey.counts.cache_hits,
            chars_per_s=rate,
            seconds=0.0 if rate is None else survey.missing_chars / rate,
        )

    def build(self, generation: Generation, embedder: CachedEmbedder) -> LevelReport:
        """Build a generation beside the one in force; killed anywhere, the same call goes on.

        Texts are embedded first, into the cache and without a lock, because that is what takes hours; writing them takes minutes.

        Raises:
            StoreLockedError: Another migration, or for too long a publish, is at work.
            ProjectionError: What was written is not what was planned.
        """
        with self.lock():
            with self.database.connect() as connection:
                if generation.state is not GenerationState.BUILT:
                    _put(connection, generation, GenerationState.BUILDING)
            self.on_step("registered")
            before = embedder.counts.texts_embedded
            for source in _sources():
                wanted, table = self._cut(generation, source, embedder)
                self._embed(source, self._due(generation, wanted), table, embedder, "Embedding")
            embedded = embedder.counts.texts_embedded - before
            report = self.level(generation, embedder)
            report.texts_embedded += embedded
            with self.database.connect() as connection:
                _put(connection, generation, GenerationState.BUILT)
            self.on_step("built")
        return report

    def level(self, generation: Generation, embedder: CachedEmbedder) -> LevelReport:
        """Bring a generation that is not in force level with the source: content, centroids, packs.

        Raises:
            StoreLockedError: A publish is under way.
            ProjectionError: What was written is not what was planned.
        """
        started = time.monotonic()
        with self.open_store() as store:
            inside = StoreOfGeneration(store, generation.names)
            published = publish_content(
                self.database,
                inside,
                embedder,
                self._chunk_home(generation),
                beside=True,
                allowed_deletion_share=None if self.allow_deletes else DEFAULT_DELETION_SHARE,
                on_step=lambda name: self.on_step(f"content/{name}"),
                progress=lambda done, total: self.progress("Writing", done, total),
            )
            centroids = refresh_centroids(
                self.database, inside, embedder.space, allow_deletes=self.allow_deletes
            )
        self.on_step("centroids")
        packs = refresh_packs(
            self.database,
            generation.space_id,
            lambda done, total: self.progress("Building packs", done, total),
            allow_deletes=self.allow_deletes,
            beside=True,
        )
        self.on_step("packs")
        return LevelReport(
            owners_published=published.owners_published,
            chunks_written=published.chunks_written,
            texts_embedded=published.texts_embedded,
            cache_hits=published.cache_hits,
            centroids_written=centroids.written,
            packs_written=packs.written,
            owners_left=published.owners_left_for_next_run,
            seconds=time.monotonic() - started,
            points=published.points,
        )

    def switch(
        self,
        generation: Generation,
        embedder: CachedEmbedder,
        verify: Callable[[datetime], None],
    ) -> LevelReport:
        """Give readers this generation: all collections and centroids in one step.

        It is brought level, verified, and brought level once more under the lock of the projection, so that no publish into the
        generation in force comes between its last look at the source and the switch.

        Args:
            verify: Told since when changes of the source may be missing; raises to leave readers where they are.

        Raises:
            StoreLockedError: Another migration or a publish is under way.
        """
        with self.lock():
            since = self.now()
            report = self.level(generation, embedder)
            verify(since)
            self.on_step("verified")
            with projection_lock(self.database):
                report += self.level(generation, embedder)
                with self.open_store() as store:
                    store.switch_aliases(generation.names)
                    self.on_step("aliases")
                    settle_generations(self.database, store, generation.place, generation.space_id)
            self.on_step("noted")
        return report

    def drop(self, known: Sequence[Generation], name: str | None = None) -> list[Generation]:
        """Drop the generation beside the one in force, and whatever a killed drop left; returns those that are gone now.

        Its vectors stay in the embedding cache.

        Args:
            known: What `settle_generations` returned.
            name: Of the one to drop, when several stand beside.

        Raises:
            ConfigurationError: There is nothing to drop, no generation has the name, or it is in force.
        """
        with self.lock():
            for generation in _to_drop(known, name):
                with self.database.connect() as connection:
                    _put(connection, generation, GenerationState.DROPPED)
                self.on_step("marked")
            with self.database.connect() as connection:
                now = read_generations(connection)
            dropped = [g for g in now if g.state is GenerationState.DROPPED]
            kept = {g.space_id for g in now if g.state is not GenerationState.DROPPED}
            gone = [g for g in dropped if self._remove(g, forget_packs=g.space_id not in kept)]
            if not gone:
                message = (
                    "No generation stands beside the one in force, so there is nothing to drop."
                )
                raise ConfigurationError(message)
        return gone

    def now(self) -> datetime:
        """The time by the clock that changes of the source are stamped with."""
        with self.database.connect() as connection:
            row = connection.execute(queries.load("clock")).fetchone()
        if row is None:
            message = "clock gave no row."
            raise LookupError(message)
        return row[0]

    def _is_cut_otherwise(self, generation: Generation) -> bool:
        with self.database.connect() as connection:
            cut = {
                row[0]: row[1]
                for row in connection.execute(
                    queries.load("generation_chunkers"),
                    {"physicals": list(generation.names.values())},
                )
            }
        return any(
            cut.get(source.collection, source.chunker_version) != source.chunker_version
            for source in _sources()
        )

    def _chunk_home(self, generation: Generation) -> Path:
        return self.home / "generations" / generation.name

    def _cut(
        self, generation: Generation, source: ContentSource, embedder: CachedEmbedder
    ) -> tuple[dict[str, ProjectionOwner], Mapping[str, list[tuple[int, int, int]]]]:
        """Owners of a source and where each is cut, by content digest."""
        path = chunk_table_path(self._chunk_home(generation), source)
        with self.database.connect() as connection:
            refresh_chunk_table(
                connection,
                path,
                source,
                embedder,
                lambda done, total: self.progress(f"Cutting {source.collection}", done, total),
            )
            wanted = source.read_wanted(connection, generation.space_id).owners
        self.on_step(f"cut:{source.collection}")
        return dict(wanted), spans_by_digest(read_chunk_table(path))

    def _due(
        self, generation: Generation, wanted: Mapping[str, ProjectionOwner]
    ) -> dict[str, ProjectionOwner]:
        """Those that the generation does not hold as they are."""
        due = dict(wanted)
        with self.database.connect() as connection:
            for physical in generation.names.values():
                for owner_id, pointer in read_pointers(connection, physical).items():
                    owner = due.get(owner_id)
                    if owner is not None and owner.content_digest == pointer.content_digest:
                        del due[owner_id]
        return due

    def _embed(
        self,
        source: ContentSource,
        owners: Mapping[str, ProjectionOwner],
        table: Mapping[str, list[tuple[int, int, int]]],
        embedder: CachedEmbedder,
        task: str,
    ) -> None:
        """Let the embedder see every chunk of the owners, exactly as a publish will."""
        done, total = 0, sum(len(table.get(o.content_digest, ())) for o in owners.values())
        for batch in _batches(owners, EMBED_BATCH_OWNERS):
            with self.database.connect() as connection:
                texts = source.read_texts(connection, batch)
            parts = [
                (text.title, text.body[start:end])
                for owner_id, text in texts.items()
                if text.version_key == owners[owner_id].version_key
                for start, end, _ in table.get(owners[owner_id].content_digest, ())
            ]
            if parts:
                source.embed(parts, embedder)
            done += len(parts)
            self.progress(f"{task} {source.collection}", done, total)
            self.on_step(f"embedded:{source.collection}:{done}")

    def _remove(self, generation: Generation, *, forget_packs: bool) -> bool:
        """Remove what is left of a dropped generation; whether there was anything."""
        physicals = list(generation.names.values())
        found = False
        with projection_lock(self.database), self.open_store() as store:
            present = {info.physical for info in store.collections()}
            for physical in physicals:
                if physical in present:
                    store.drop_collection(physical)
                    found = True
                self.on_step(f"collection:{physical}")
            with self.database.connect() as connection:
                pointers = connection.execute(
                    queries.load("generation_forget_pointers"), {"physicals": physicals}
                ).rowcount
            self.on_step("pointers")
            with self.database.connect() as connection:
                packs = (
                    connection.execute(
                        queries.load("generation_forget_packs"), {"space_id": generation.space_id}
                    ).rowcount
                    if forget_packs
                    else 0
                )
            self.on_step("packs")
        folder = self._chunk_home(generation)
        found |= folder.exists() or bool(pointers) or bool(packs)
        shutil.rmtree(folder, ignore_errors=True)
        self.on_step("forgotten")
        return found


def count_generation(
    database: Database,
    searcher: VectorSearcher,
    generation: Generation,
    since: datetime | None = None,
) -> tuple[CollectionCount, ...]:
    """Hold every collection of a generation against its pointers and against the source.

    Args:
        searcher: As readers have it.
        since: What changed in the source from then on is not held against it.
    """
    inside = SearcherOfGeneration(searcher, generation.names)
    counts: list[CollectionCount] = []
    with database.connect() as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        changed: set[str] = set()
        if since is not None:
            rows = connection.execute(queries.load("generation_changed_since"), {"since": since})
            changed = {row[0] for row in rows}
        for collection, physical in generation.names.items():
            wanted = _wanted(database, connection, generation, Collection(collection))
            pointers = read_pointers(connection, physical)
            named = {
                point
                for pointer in pointers.values()
                for point in pointer.point_ids(Collection(collection))
            }
            stored = {point.point_id for point in inside.scroll(physical)}
            behind = [
                keys
                for owner_id, (digest, keys) in wanted.items()
                if (pointer := pointers.get(owner_id)) is None or pointer.content_digest != digest
            ]
            gone = [owner_id for owner_id in pointers if owner_id not in wanted]
            is_centroid = collection == Collection.THREAD_CENTROIDS
            # Centroids follow memberships and flags as well, whose changes name other rows.
            excused = bool(changed) if is_centroid else "*" in changed
            counts.append(
                CollectionCount(
                    collection=collection,
                    owners=len(pointers),
                    points=len(stored),
                    behind=0 if excused else sum(not keys & changed for keys in behind),
                    gone=0 if excused else sum(owner_id not in changed for owner_id in gone),
                    points_missing=len(named - stored),
                    points_stray=len(stored - named),
                )
            )
    return tuple(counts)


def require_counts(counts: Sequence[CollectionCount]) -> None:
    """Refuse a generation that does not hold what the source says.

    Raises:
        ProjectionError: A count differs; readers stay where they are.
    """
    differing = [count for count in counts if count.differs]
    if differing:
        message = (
            f"{'; '.join(count.render() for count in differing)}. Readers stay where they are; run threadhouse migrate-model "
            "build again, which writes what is missing."
        )
        raise ProjectionError(message)


def _wanted(
    database: Database,
    connection: Connection[TupleRow],
    generation: Generation,
    collection: Collection,
) -> dict[str, tuple[str, frozenset[str]]]:
    """By owner: the digest of what should be there, and the keys under which the change log may know it."""
    for source in _sources():
        if source.collection == collection:
            owners = source.read_wanted(connection, generation.space_id).owners
            return {
                owner_id: (
                    owner.content_digest,
                    frozenset({owner_id, str(owner.payload.get("document_id"))}),
                )
                for owner_id, owner in owners.items()
            }
    units = read_pointers(connection, generation.names[Collection.INFORMATION_UNITS])
    with open_knowledge(database) as knowledge:
        plans = read_centroid_plans(knowledge, units, generation.space_id)
    return {
        plan.version_key: (plan.input_digest, frozenset[str]())
        for plan in plans
        if isinstance(plan, CentroidPlan)
    }


def _to_drop(known: Sequence[Generation], name: str | None) -> list[Generation]:
    beside = [g for g in known if g.state in _BESIDE]
    if name is None:
        if len(beside) > 1:
            named = ", ".join(g.name for g in beside)
            message = f"Several generations stand beside the one in force; name one of {named}."
            raise ConfigurationError(message)
        return beside
    found = next((g for g in known if g.name == name), None)
    if found is None:
        message = f"There is no generation {name}; threadhouse migrate-model status lists them."
        raise ConfigurationError(message)
    if found.state is GenerationState.IN_FORCE:
        message = (
            f"Generation {name} is in force, and readers need it; switch to another one first."
        )
        raise ConfigurationError(message)
    return [found] if found in beside else []


def _put(connection: Connection[TupleRow], generation: Generation, state: GenerationState) -> None:
    params: dict[str, Any] = {
        "space_id": generation.space_id,
        "generation": generation.generation,
        "state": state,
        "embedding_model": generation.place.model,
        "embedding_path": None
        if generation.place.path is None
        else str(generation.place.path.absolute()),
    }
    connection.execute(queries.load("generation_put"), params)


def _sources() -> tuple[ContentSource, ...]:
    return UnitSource(), DocumentSource()


def _batches(owners: Mapping[str, ProjectionOwner], size: int) -> Iterator[list[str]]:
    ids = iter(owners)
    while batch := list(islice(ids, size)):
        yield batch


def known_spaces(known: Sequence[Generation]) -> list[str]:
    """Spaces of generations that are or were there, or are being built."""
    return [generation.space_id for generation in known]


def places_of(known: Sequence[Generation], space_id: str) -> list[ModelPlace]:
    """Where the model of a space was when generations of it were built."""
    return [generation.place for generation in known if generation.space_id == space_id]


def is_published(searcher: CandidateSearcher) -> bool:
    """Whether the aliases mean anything yet."""
    return Collection.INFORMATION_UNITS in searcher.aliases()
