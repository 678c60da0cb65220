"""The transaction in which a pack leaves: looked up, checked once more, written down.

Belongs here: the lookup with its freshness, the last check of every unit, events, gaps and the delivered pack in one commit, and
what a leak that was stopped leaves behind.
Does not belong here: which thread answers, what a pack holds, what events say (serving, retrieval).

A pack leaves when its transaction has committed. Killed before, nothing was delivered and nothing counted; killed after, it was
counted once, and trying again under the same query id counts nothing a second time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import Connection, IsolationLevel
from psycopg.rows import DictRow, TupleRow, dict_row
from psycopg.types.json import Jsonb

from threadhouse.retrieval.audience import AudiencePolicy, allowed_values
from threadhouse.retrieval.events import RetrievalEvent
from threadhouse.retrieval.fallback import LEGACY_UNIT_KIND
from threadhouse.retrieval.freshness import PackKey, stale_because
from threadhouse.retrieval.gap_signals import GapSignal
from threadhouse.retrieval.models import Principal, ThreadId
from threadhouse.retrieval.packs import PACK_VERSION, ContextPack, build_pack
from threadhouse.stores import queries
from threadhouse.stores.array_literals import allow_list_parameters
from threadhouse.stores.gap_signals import signal_rows
from threadhouse.stores.knowledge import KnowledgeReader
from threadhouse.stores.live_owners import Connections
from threadhouse.stores.pack_memory import KnownPack, PackMemory
from threadhouse.stores.pack_store import BuiltPack, keep_pack, look_up_pack
from threadhouse.stores.postgres import together
from threadhouse.stores.reader_roles import BUILDER_ROLE, READER_ROLE, begin_reading, continue_as
from threadhouse.stores.security_events import Occurrence, write_security_event

CONTENT_READS = 3
"""How often a pack's text is read again because another one was stored meanwhile; then it is built."""


class Leak(Exception):  # noqa: N818  # not an error of a user: it becomes WrongAudienceError once it is written down
    """The last check found units, or ends of links, that the reader may not see."""

    def __init__(self, pack: ContextPack, unit_ids: Sequence[str]) -> None:
        super().__init__(f"{len(unit_ids)} units")
        self.pack = pack
        self.unit_ids = tuple(unit_ids)


@dataclass(frozen=True, slots=True)
class LiveBuild:
    """A pack built for one reader; None when the reader sees nothing of the thread. ``policy`` is the one it was built under."""

    pack: ContextPack | None
    policy: AudiencePolicy
    build_ms: float


def _as_it_is(pack: ContextPack) -> ContextPack:
    return pack


class Delivery:
    """One open transaction. Everything is read and written through it, and a pack leaves only when it has committed."""

    def __init__(self, connection: Connection[TupleRow], memory: PackMemory) -> None:
        self._connection = connection
        self._memory = memory

    @property
    def knowledge(self) -> KnowledgeReader:
        """Reads what this transaction sees, each statement at its own moment."""
        return KnowledgeReader(self._connection)

    def stored_pack(
        self,
        thread_id: ThreadId,
        principal: Principal,
        policy: AudiencePolicy,
        space_id: str,
        shape: Callable[[ContextPack], ContextPack] = _as_it_is,
    ) -> tuple[ContextPack | None, tuple[str, ...]]:
        """The lane's stored pack when it is fresh and every unit of it may be seen; else None and why.

        With the pack in memory this is one lookup: freshness, the id of the content, and the labels of all units, at one moment.

        Args:
            shape: Makes of the pack what leaves of it, while Postgres checks it whole; thrown away when it may not leave.

        Raises:
            Leak: It is fresh and holds what the reader may not see.
        """
        lane = principal.audience
        known = self._memory.get(thread_id, lane)
        for _ in range(CONTENT_READS):
            if known is None:
                begin_reading(self._connection, principal)
                found = look_up_pack(self._connection, thread_id, lane, space_id)
                if found.pack is None:
                    return None, found.stale
                known = KnownPack.of(found.pack)
                self._memory.put(known)
            checked = self._ask_units(known, thread_id, principal, policy, space_id)
            shaped = shape(known.pack)
            row = checked()
            current, stale = _compare(row, policy, space_id)
            if current is None or stale:
                return None, stale
            if row["pack_id"] != known.pack.pack_id:
                known = None
            elif hidden := self._still_there(row["hidden"]):
                raise Leak(known.pack, hidden)
            elif row["hidden_ends"]:
                # Here as well comes only a source that changes without its triggers.
                return None, ("links",)
            elif row["live_count"] != known.unit_count:
                # Only a source that changes without its triggers comes here; its revision cannot be relied on.
                return None, ("unit_version",)
            else:
                return shaped.model_copy(update={"built_from": current}), ()
        return None, ("pack_id",)

    def confirm(self, built: ContextPack, principal: Principal, policy: AudiencePolicy) -> bool:
        """Whether a pack that was built a moment ago may leave; False when its thread or the policy has changed: build it again.

        What changed may be the thread itself, a membership, a link or a gap, which the labels of units do not tell.

        Raises:
            Leak: Nothing changed since, and it still holds what the reader may not see.
        """
        known = KnownPack.of(built)
        row = self._ask_units(
            known, ThreadId(built.thread_id), principal, policy, built.built_from.space_id
        )()
        was = (built.built_from.input_revision, built.built_from.policy_version)
        if was != (row["current_input_revision"], row["current_policy_version"]):
            return False
        if hidden := [*self._still_there(row["hidden"]), *row["hidden_ends"]]:
            raise Leak(built, hidden)
        return not row["hidden"]

    def read_as(self, principal: Principal) -> None:
        """See what the principal's lane sees, whatever the transaction did before."""
        begin_reading(self._connection, principal)

    def hidden_in(
        self, pack: ContextPack, principal: Principal, policy: AudiencePolicy
    ) -> list[str]:
        """The last check of a pack from a search: its units and documents that the reader may not see now, or that are gone."""
        hidden: list[str] = []
        known = KnownPack.of(pack)
        if known.unit_count:
            row = self._ask_units(
                known, ThreadId(pack.thread_id), principal, policy, pack.built_from.space_id
            )()
            hidden += row["hidden"]
        parts = [unit for unit in pack.units() if unit.unit_kind == LEGACY_UNIT_KIND]
        if parts:
            row = self._ask(
                principal,
                (
                    "packs_check_documents",
                    {
                        "document_ids": [part.logical_unit_id for part in parts],
                        "revisions": [part.source_revision for part in parts],
                        **_allowed(principal, policy),
                    },
                ),
            )()
            hidden += row["hidden"]
        return hidden

    def last_delivered(self, session_id: str, lane: str) -> tuple[UUID, ThreadId | None] | None:
        """Query and thread of the pack that a session got last."""
        with together(self._connection):
            continue_as(self._connection, READER_ROLE)
            row = self._connection.execute(
                queries.load("session_last_delivered"), {"session_id": session_id, "lane": lane}
            ).fetchone()
        return None if row is None else (row[0], row[1])

    def write(
        self,
        events: Sequence[RetrievalEvent],
        pack: ContextPack | None = None,
        gaps: Sequence[GapSignal] = (),
    ) -> Callable[[], int]:
        """Write down what leaves; what this returns waits for it and says how many events were new.

        None are when this query was counted before. Who does not wait hears of a failure when the transaction ends.
        """
        written = {
            "events": Jsonb([event.model_dump(mode="json") for event in events]),
            "signals": Jsonb(signal_rows(gaps)),
            "pack_id": pack.pack_id if pack else None,
            "lane": pack.lane if pack else None,
            "thread_id": (pack.thread_id or None) if pack else None,
            "source_revisions": Jsonb(pack.source_revisions if pack else {}),
        }
        with together(self._connection):
            continue_as(self._connection, READER_ROLE)
            cursor = self._connection.execute(queries.load("delivery_write"), written)

        def new_events() -> int:
            row = cursor.fetchone()
            return int(row[0]) if row else 0

        return new_events

    def _ask_units(
        self,
        known: KnownPack,
        thread_id: ThreadId,
        principal: Principal,
        policy: AudiencePolicy,
        space_id: str,
    ) -> Callable[[], DictRow]:
        rights = _allowed(principal, policy)
        units = {
            "thread_id": thread_id,
            "space_id": space_id,
            "lane": principal.audience,
            "unit_ids": known.unit_ids,
            "version_ids": known.version_ids,
            **rights,
        }
        ends = {"end_kinds": known.end_kinds, "end_ids": known.end_ids, **rights}
        asked = [("packs_check_ends", ends)] if known.end_count else []
        row = self._ask(principal, *asked, ("packs_check", units))
        return lambda: {"hidden_ends": [], **row()}

    def _still_there(self, unit_ids: Sequence[str]) -> list[str]:
        """To a lane, what is gone looks like what is hidden. Only the one is a leak; the other is out of date."""
        if not unit_ids:
            return []
        with together(self._connection):
            continue_as(self._connection, BUILDER_ROLE)
            rows = self._connection.execute(
                queries.load("packs_still_there"), {"unit_ids": list(unit_ids)}
            ).fetchall()
        return [row[0] for row in rows]

    def _ask(
        self, principal: Principal, *statements: tuple[str, Mapping[str, Any]]
    ) -> Callable[[], DictRow]:
        """Ask for one row of each statement as the principal's lane, whatever the transaction did before.

        Call what this returns for the rows, as one.
        """
        cursors = [self._connection.cursor(row_factory=dict_row) for _ in statements]
        with together(self._connection):
            begin_reading(self._connection, principal)
            for cursor, (query, params) in zip(cursors, statements, strict=True):
                cursor.execute(queries.load(query), params)

        def row() -> DictRow:
            whole: DictRow = {}
            for cursor, (query, _) in zip(cursors, statements, strict=True):
                with cursor:
                    found = cursor.fetchone()
                if found is None:
                    message = f"{query} gave no row although it aggregates."
                    raise LookupError(message)
                whole |= found
            return whole

        return row


class PackDelivery:
    """Opens the transactions in which packs leave."""

    def __init__(self, connections: Connections, memory: PackMemory | None = None) -> None:
        self._connections = connections
        self._memory = memory or PackMemory()

    @contextmanager
    def begin(self) -> Generator[Delivery, None, None]:
        """Yield a transaction: the question's own, or one that is committed when the body ends and rolled back when it raises."""
        with self._connections() as connection:
            yield Delivery(connection, self._memory)

    @contextmanager
    def one_moment(self) -> Generator[KnowledgeReader, None, None]:
        """Yield a reader whose answers all belong to one moment, which is not before this call."""
        with self._connections() as connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            try:
                with connection.transaction():
                    continue_as(connection, BUILDER_ROLE)
                    yield KnowledgeReader(connection)
            finally:
                if not connection.closed:
                    connection.isolation_level = None
                    connection.read_only = None

    def build(self, thread_id: ThreadId, principal: Principal, space_id: str) -> LiveBuild:
        """Build the pack of one thread for one reader from what is there now."""
        started = time.perf_counter()
        with self.one_moment() as knowledge:
            policy = knowledge.policy()
            dossier = knowledge.dossier(thread_id)
        pack = None if dossier is None else build_pack(dossier, principal, policy, space_id)
        return LiveBuild(pack, policy, (time.perf_counter() - started) * 1000)

    def keep(self, built: BuiltPack) -> bool:
        """Store a pack that was built for a reader, for those who come after; False when its thread has moved on already."""
        self._memory.put(KnownPack.of(built.pack))
        with self._connections() as connection, connection.transaction():
            continue_as(connection, READER_ROLE)
            return keep_pack(connection, built)

    def refuse(self, leak: Leak, principal: Principal, query_id: UUID) -> None:
        """Write down a leak that was stopped, in one transaction, and drop the pack that would have leaked."""
        pack = leak.pack
        occurrence = Occurrence(
            cause=f"{pack.lane}/{pack.thread_id or 'ad-hoc'}",
            occasion=str(query_id),
            title=f"A pack for {pack.lane} held units that {pack.lane} may not see; it was not delivered",
            subject=principal.subject,
            lane=pack.lane,
            thread_id=pack.thread_id or None,
            pack_id=pack.pack_id,
            evidence={
                "unit_ids": list(leak.unit_ids),
                "query_id": str(query_id),
                "pack_id": str(pack.pack_id),
                "policy_version": pack.built_from.policy_version,
                "input_revision": pack.built_from.input_revision,
            },
        )
        with self._connections() as connection, connection.transaction():
            continue_as(connection, READER_ROLE)
            write_security_event(connection, occurrence)


def _allowed(principal: Principal, policy: AudiencePolicy) -> dict[str, str]:
    return allow_list_parameters(allowed_values(principal, policy))


def _compare(
    row: DictRow, policy: AudiencePolicy, space_id: str
) -> tuple[PackKey | None, tuple[str, ...]]:
    """What a pack would be built from now, None when there is no stored pack or no thread, and why the stored one is stale."""
    if row["pack_id"] is None or row["current_policy_version"] is None:
        return None, ()
    current = PackKey(
        input_revision=row["current_input_revision"],
        policy_version=row["current_policy_version"],
        space_id=space_id,
        code_version=PACK_VERSION,
    )
    stored = PackKey(
        input_revision=row["input_revision"],
        policy_version=row["policy_version"],
        space_id=row["space_id"],
        code_version=row["code_version"],
    )
    if current.policy_version != policy.version:
        # The question was searched under a policy that has been replaced since.
        return current, ("policy_version",)
    return current, stale_because(stored, current)
