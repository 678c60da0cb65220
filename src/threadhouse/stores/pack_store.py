"""Context packs in ``nao.thread_context_pack_cache``.

Belongs here: writing, reading and deleting packs, and telling a reader in the same lookup whether a pack is fresh.
Does not belong here: building a pack (retrieval.packs), what freshness means (retrieval.freshness).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg import Connection
from psycopg.rows import DictRow, TupleRow, dict_row

from threadhouse.retrieval.freshness import PackKey, is_fresh, stale_because
from threadhouse.retrieval.models import Audience, ThreadId
from threadhouse.retrieval.packs import (
    PACK_VERSION,
    ContextPack,
    canonical_json,
    pack_digest,
    thread_pack_id,
)
from threadhouse.retrieval.projection import check_threads_remain
from threadhouse.stores import queries
from threadhouse.stores.postgres import Database


@dataclass(frozen=True, slots=True)
class BuiltPack:
    """A pack on its way to the store; ``build_ms`` is what building took."""

    pack: ContextPack
    build_ms: float


@dataclass(frozen=True, slots=True)
class PackWriteReport:
    """What one batch did. ``outrun`` packs were not kept: their thread changed or went while they were built."""

    written: int = 0
    unchanged: int = 0
    outrun: int = 0
    deleted: int = 0

    def __add__(self, other: PackWriteReport) -> PackWriteReport:
        return PackWriteReport(
            self.written + other.written,
            self.unchanged + other.unchanged,
            self.outrun + other.outrun,
            self.deleted + other.deleted,
        )


@dataclass(frozen=True, slots=True)
class StoredKey:
    """What a stored pack was built from, and its id, which stands for everything that its reader sees."""

    key: PackKey
    pack_id: UUID


@dataclass(frozen=True, slots=True)
class PackLookup:
    """Answer to one lookup.

    Attributes:
        pack: The stored pack, only when it is fresh.
        current: What a pack would be built from now; None when the thread is not there.
        stale: Why the stored pack is not served; empty when it is fresh or when there is none.
    """

    pack: ContextPack | None = None
    current: PackKey | None = None
    stale: tuple[str, ...] = ()


class PackStore:
    """The cache of built packs; in each vector space one row for each (thread, lane) that sees something."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keys(
        self, space_id: str, thread_ids: Sequence[ThreadId] | None = None
    ) -> dict[tuple[ThreadId, Audience], StoredKey]:
        """What stored packs of a space were built from, of the given threads or of all."""
        with self._database.connect() as connection:
            return _read_keys(connection, space_id, thread_ids)

    def replace_packs(
        self, thread_ids: Sequence[ThreadId], packs: Sequence[BuiltPack]
    ) -> PackWriteReport:
        """Make the store hold exactly ``packs`` of the given threads, in one transaction.

        Packs whose content and key are as stored are not written again. A lane that no longer sees anything of one of these
        threads loses its pack in every space. A pack that was built from a revision its thread has left behind is not kept.

        Args:
            thread_ids: The threads of the batch, those without any pack included.
            packs: Their packs of one space, of every lane that sees something.
        """
        written = unchanged = outrun = 0
        with self._database.connect() as connection:
            stored = (
                _read_keys(connection, packs[0].pack.built_from.space_id, thread_ids)
                if packs
                else {}
            )
            for built in packs:
                pack = built.pack
                known = stored.get((ThreadId(pack.thread_id), pack.lane))
                if known == StoredKey(pack.built_from, pack.pack_id):
                    unchanged += 1
                    continue
                is_written, is_current = _put(connection, built)
                written += is_written
                # Current but not written: somebody else wrote the same pack in the meantime.
                unchanged += is_current and not is_written
                outrun += not is_current
            deleted = connection.execute(
                queries.load("packs_delete_unseen"),
                {
                    "thread_ids": list(thread_ids),
                    "seen_thread_ids": [built.pack.thread_id for built in packs],
                    "seen_lanes": [str(built.pack.lane) for built in packs],
                },
            ).rowcount
        return PackWriteReport(written, unchanged, outrun, deleted)

    def delete_packs_without_thread(
        self, thread_ids: Sequence[ThreadId] | None = None, *, allow_deletes: bool = False
    ) -> int:
        """Delete packs of threads that are gone; returns how many.

        Args:
            thread_ids: Look only at these threads; None means all.
            allow_deletes: Go on when no thread is left at all.

        Raises:
            DeletionBrakeError: There is no thread at all and ``allow_deletes`` is not given; nothing was deleted.
        """
        params = {"thread_ids": None if thread_ids is None else list(thread_ids)}
        with self._database.connect() as connection:
            deleted = connection.execute(
                queries.load("packs_delete_without_thread"), params
            ).rowcount
            if deleted:
                check_threads_remain(
                    deleted, count_threads(connection), allow_deletes=allow_deletes
                )
            return deleted

    def read_pack(self, thread_id: ThreadId, lane: Audience, space_id: str) -> PackLookup:
        """The pack of a (thread, lane) when it is fresh, and what is current, in one lookup.

        Args:
            thread_id: Any text; an unknown one gives an empty answer.
            lane: The reader's audience. Readers with permissions of their own get packs of their own, never these.
            space_id: The vector space in force.
        """
        with self._database.connect() as connection:
            return look_up_pack(connection, thread_id, lane, space_id)


def count_threads(
    connection: Connection[TupleRow], thread_ids: Sequence[ThreadId] | None = None
) -> int:
    """How many threads the source holds, of the given ones or of all."""
    params = {"thread_ids": None if thread_ids is None else list(thread_ids)}
    row = connection.execute(queries.load("source_thread_count"), params).fetchone()
    return 0 if row is None else int(row[0])


def look_up_pack(
    connection: Connection[TupleRow], thread_id: ThreadId, lane: Audience, space_id: str
) -> PackLookup:
    """`PackStore.read_pack` on a connection that is open already."""
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(
            queries.load("packs_read"),
            {"thread_id": thread_id, "lane": lane, "space_id": space_id},
        ).fetchone()
    if row is None or row["current_policy_version"] is None:
        return PackLookup()
    current = PackKey(
        input_revision=row["current_input_revision"],
        policy_version=row["current_policy_version"],
        space_id=space_id,
        code_version=PACK_VERSION,
    )
    if row["pack_id"] is None:
        return PackLookup(current=current)
    stored = _key(row)
    if not is_fresh(stored, current) or row["pack"] is None:
        # Not even parsed: another code version may have written another shape. Without its content when it is not of this moment.
        return PackLookup(current=current, stale=stale_because(stored, current))
    pack = ContextPack.model_validate_json(row["pack"])
    if (pack.thread_id, pack.lane, thread_pack_id(pack)) != (thread_id, lane, row["pack_id"]):
        # Not what was stored under this id: another lane's pack, or a row that was written to since.
        return PackLookup(current=current, stale=("content",))
    return PackLookup(pack, current)


def keep_pack(connection: Connection[TupleRow], built: BuiltPack) -> bool:
    """Keep one pack that a reader had built for itself, unless its thread has moved on since; whether it was written."""
    return _put(connection, built)[0]


def _read_keys(
    connection: Connection[TupleRow], space_id: str, thread_ids: Sequence[ThreadId] | None
) -> dict[tuple[ThreadId, Audience], StoredKey]:
    with connection.cursor(row_factory=dict_row) as cursor:
        params = {
            "space_id": space_id,
            "thread_ids": None if thread_ids is None else list(thread_ids),
        }
        return {
            (ThreadId(row["thread_id"]), Audience(row["lane"])): StoredKey(
                _key(row), row["pack_id"]
            )
            for row in cursor.execute(queries.load("packs_keys"), params)
        }


def _key(row: DictRow) -> PackKey:
    return PackKey(
        input_revision=row["input_revision"],
        policy_version=row["policy_version"],
        space_id=row["space_id"],
        code_version=row["code_version"],
    )


def _put(connection: Connection[TupleRow], built: BuiltPack) -> tuple[bool, bool]:
    """Write one pack; returns whether it was written and whether its thread still is what it was built from."""
    pack = built.pack
    row = connection.execute(
        queries.load("packs_put"),
        {
            "thread_id": pack.thread_id,
            "lane": pack.lane,
            "pack_id": pack.pack_id,
            "input_digest": pack_digest(pack),
            "pack": canonical_json(pack),
            "build_ms": built.build_ms,
            **pack.built_from.model_dump(),
        },
    ).fetchone()
    return (False, False) if row is None else (bool(row[0]), bool(row[1]))
