"""Bring vectors, centroids and packs in step with what was committed since the last time.

Belongs here: the order in which a backlog of changes is worked off, in portions that let others in.
Does not belong here: when it is done (stores.change_listener, pipelines.sensors), how owners are published (stores.projection),
the log and its positions (stores.change_log).

The order, and why:

1. access: everything that waits is looked at once, and what is gone, what somebody loses and what somebody gains is applied, in
   this order. Nothing is embedded before. Then the centroids and the packs that this takes from.
2. content, in portions. Between two of them the log is asked for revokes that came in the meantime, and the writer is given back
   so that a nightly gets its turn.
3. centroids of the threads that are left, packs that are due.
4. the position moves. Killed before, the next run looks at the same changes again and finds done what was done.

A backlog that fits one portion takes 1 and 2 in one publish, which does access before content by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeAlias

from threadhouse.retrieval.change_scope import (
    ChangeScope,
    content_portions,
    scope_of_changes,
)
from threadhouse.retrieval.models import Json
from threadhouse.retrieval.ports import VectorStore
from threadhouse.retrieval.projection import DEFAULT_DELETION_SHARE, ContentScope
from threadhouse.stores import queries
from threadhouse.stores.advisory_locks import advisory_lock
from threadhouse.stores.attached_sources import follow_sources
from threadhouse.stores.centroid_projection import refresh_centroids
from threadhouse.stores.change_log import (
    Backlog,
    LogPosition,
    move_position,
    read_backlog,
    read_late_revokes,
)
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.pack_refresh import refresh_packs
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import PublishReport, publish_content

SYNC_LOCK: Final = "threadhouse change sync"
"""Name of the advisory lock that whoever follows the log holds for one backlog; ``doctor`` shows who."""

PORTION_OWNERS: Final = 128
"""Units and documents embedded before somebody else may write: a few seconds, so that a revoke and a nightly wait no longer."""

TURN_S: Final = 0.25
"""Pause between two portions. Whoever waits for the writer asks every 50 ms."""

VectorWriters: TypeAlias = Callable[[], AbstractContextManager[VectorStore]]
"""Opens the vectors for writing; closed when the block ends."""


@dataclass(slots=True)
class SyncReport:
    """What following one backlog did; ``is_finished`` is False when it was asked to stop before the end.

    ``changes`` counts rows of the log, ``owners`` the units and documents that they name. ``oldest_wait_s`` is from the oldest of
    them to the moment at which all could be found; ``access_s`` and ``searchable_s`` count from the start.
    """

    changes: int = 0
    owners: int = 0
    threads: int = 0
    was_everything: bool = False
    is_finished: bool = True
    owners_published: int = 0
    owners_retired: int = 0
    owners_left_for_next_run: int = 0
    quarantined: int = 0
    texts_embedded: int = 0
    cache_hits: int = 0
    vector_writes: int = 0
    centroids_written: int = 0
    centroids_deleted: int = 0
    packs_written: int = 0
    oldest_wait_s: float = 0.0
    access_s: float = 0.0
    searchable_s: float = 0.0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Json]:
        """Every figure by its name."""
        return {
            name: round(value, 3) if isinstance(value, float) else value
            for name in self.__slots__
            if isinstance(value := getattr(self, name), bool | int | float)
        }


@dataclass(frozen=True, slots=True)
class SyncStores:
    """What a sync works on. The writer is opened while there is work and given back in between."""

    database: Database
    open_writer: VectorWriters
    embedder: CachedEmbedder
    home: Path


def sync_changes(
    stores: SyncStores,
    *,
    followed_by: str,
    allowed_deletion_share: float | None = DEFAULT_DELETION_SHARE,
    portion_owners: int = PORTION_OWNERS,
    is_stopping: Callable[[], bool] = lambda: False,
    on_step: Callable[[str], None] = lambda _step: None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> SyncReport:
    """Follow everything that was committed before this began. Nothing to follow costs one look at the log.

    Args:
        followed_by: Who does it, in a word, for the record.
        allowed_deletion_share: See ``retrieval.projection.check_deletion_brake``; None lifts the brake.
        portion_owners: Units and documents whose content is worked on before others get a turn; at least 1.
        is_stopping: Asked between portions; once it says yes, the position stays where it is and the report says so.
        on_step: Called with the name of each step after it is durable. The crash tests kill the process in it.
        progress: Called with (units and documents done, all of them).

    Raises:
        StoreLockedError: Somebody else follows the log, or writes, and did not end in time; the position stays.
        DeletionBrakeError: Too much would be deleted; the position stays.
        EmptySourceError: The source is empty; the position stays.
        ThreadhouseError: A store cannot be reached or refuses; the position stays.
    """
    database = stores.database
    with advisory_lock(
        database,
        SYNC_LOCK,
        "Changes are being followed by",
        wait_s=database.lock_timeout_s,
    ):
        started = time.monotonic()
        # What changed in an attached database is in the log only after this.
        follow_sources(database)
        backlog = read_backlog(database)
        run = _Run(stores, backlog, allowed_deletion_share, portion_owners, on_step, started)
        on_step("read")
        if backlog.old is None:
            run.report.was_everything = True
            run.reconcile()
        elif backlog.rows and not run.follow(is_stopping, progress):
            run.report.is_finished = False
            run.report.seconds = time.monotonic() - started
            return run.report
        run.move(followed_by)
        on_step("moved")
        run.report.seconds = time.monotonic() - started
        return run.report


@dataclass(slots=True)
class _Run:
    """One backlog in the middle of being followed."""

    stores: SyncStores
    backlog: Backlog
    allowed_deletion_share: float | None
    portion_owners: int
    on_step: Callable[[str], None]
    started: float
    report: SyncReport = field(default_factory=SyncReport)
    looked: LogPosition = field(init=False)
    """When the log was last asked for revokes."""

    def __post_init__(self) -> None:
        self.looked = self.backlog.new
        self.report.changes = self.backlog.changes

    def reconcile(self) -> None:
        """Hold everything there is against the source."""
        with self.stores.open_writer() as vectors:
            self._publish(vectors, None, "all")
            self._centroids(vectors, None, "all")
        self._note_searchable()
        self._packs("all", of_all=True)

    def follow(self, is_stopping: Callable[[], bool], progress: Callable[[int, int], None]) -> bool:
        """Work off the rows; whether it came to the end."""
        scope = scope_of_changes(self.backlog.rows)
        self.report.owners, self.report.threads = scope.owners, len(scope.threads)
        if scope.is_all_content:
            self.report.was_everything = True
            self.reconcile()
            return True
        if scope.owners > self.portion_owners:
            self._take_access(scope, "access")
        portions = self._portions(scope.content)
        done = 0
        for number, portion in enumerate(portions):
            if number:
                if is_stopping():
                    return False
                time.sleep(TURN_S)
                self._take_late_access(number)
            with self.stores.open_writer() as vectors:
                self._publish(vectors, portion, f"content {number}")
                self._centroids(vectors, self._threads_of(portion), f"content {number}")
            done += len(portion.units) + len(portion.documents)
            progress(done, scope.owners)
        if scope.threads or scope.are_all_threads:
            with self.stores.open_writer() as vectors:
                threads = None if scope.are_all_threads else scope.threads
                self._centroids(vectors, threads, "threads")
        self._note_searchable()
        self._packs("last")
        return True

    def move(self, followed_by: str) -> None:
        """Move the position."""
        at = self.backlog.new.at
        # Without content nothing had to be taken away but by the centroids.
        self.report.access_s = self.report.access_s or self.report.searchable_s
        if self.backlog.rows:
            waited = at - min(row.first_at for row in self.backlog.rows)
            self.report.oldest_wait_s = waited.total_seconds() + self.report.searchable_s
        move_position(
            self.stores.database,
            self.backlog,
            followed_by=followed_by,
            access_at=at + timedelta(seconds=self.report.access_s),
            searchable_at=at + timedelta(seconds=self.report.searchable_s),
        )

    def _portions(self, content: ContentScope) -> list[ContentScope]:
        with self.stores.database.connect() as connection:
            document_of = dict(
                connection.execute(
                    queries.load("changes_documents"), {"units": list(content.units)}
                ).fetchall()
            )
        return list(content_portions(content, document_of, self.portion_owners))

    def _take_access(self, scope: ChangeScope, name: str) -> None:
        """Rights alone, of everything in a scope, and what stands on them."""
        with self.stores.open_writer() as vectors:
            content = None if scope.is_all_content else scope.content
            self._publish(vectors, content, name, access_only=True)
            threads = self._threads_of(scope.content) | scope.threads
            self._centroids(vectors, None if scope.are_all_threads else threads, name)
        self._packs(name)

    def _take_late_access(self, number: int) -> None:
        """Revokes that were committed while content was worked on; they stay in the log and are followed in full next time."""
        looked, rows = read_late_revokes(self.stores.database, self.looked.snapshot)
        self.looked = looked
        scope = scope_of_changes(rows)
        if scope.owners or scope.threads or scope.are_all_threads:
            self._take_access(scope, f"late {number}")

    def _publish(
        self,
        vectors: VectorStore,
        scope: ContentScope | None,
        name: str,
        *,
        access_only: bool = False,
    ) -> None:
        def step(inner: str) -> None:
            if inner == "access" and not self.report.access_s:
                self.report.access_s = time.monotonic() - self.started
            self.on_step(f"{name}: {inner}")

        done: PublishReport = publish_content(
            self.stores.database,
            vectors,
            self.stores.embedder,
            self.stores.home,
            scope=scope,
            access_only=access_only,
            allowed_deletion_share=self.allowed_deletion_share,
            on_step=step,
        )
        report = self.report
        report.owners_published += done.owners_published
        report.owners_retired += done.owners_retired
        report.owners_left_for_next_run += done.owners_left_for_next_run
        report.quarantined += 0 if access_only else done.quarantined
        report.texts_embedded += done.texts_embedded
        report.cache_hits += done.cache_hits
        report.vector_writes += done.vector_writes

    def _centroids(self, vectors: VectorStore, threads: frozenset[str] | None, name: str) -> None:
        if threads is not None and not threads:
            return
        done = refresh_centroids(
            self.stores.database,
            vectors,
            self.stores.embedder.space,
            threads=threads,
            allow_deletes=self.allowed_deletion_share is None,
        )
        self.report.centroids_written += done.written
        self.report.centroids_deleted += done.deleted
        self.report.vector_writes += done.vector_writes
        self.on_step(f"{name}: centroids")

    def _packs(self, name: str, *, of_all: bool = False) -> None:
        due = None
        if not of_all:
            with self.stores.database.connect() as connection:
                rows = connection.execute(queries.load("changes_packs_due"))
                due = frozenset(row[0] for row in rows)
        done = refresh_packs(
            self.stores.database,
            self.stores.embedder.space.space_id,
            threads=due,
            allow_deletes=self.allowed_deletion_share is None,
        )
        self.report.packs_written += done.written
        self.on_step(f"{name}: packs")

    def _threads_of(self, content: ContentScope) -> frozenset[str]:
        parameters = {"units": list(content.units), "documents": list(content.documents)}
        with self.stores.database.connect() as connection:
            rows = connection.execute(queries.load("changes_threads"), parameters)
            return frozenset(row[0] for row in rows)

    def _note_searchable(self) -> None:
        self.report.searchable_s = time.monotonic() - self.started
