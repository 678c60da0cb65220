"""Build the context packs whose inputs changed, for every lane.

Belongs here: which threads are due, reading them in one snapshot, keeping what was built and what it was built from.
Does not belong here: what a pack holds (retrieval.packs), how one is stored and looked up (stores.pack_store).
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from psycopg import Connection
from psycopg.rows import TupleRow

from threadhouse.retrieval.audience import AudiencePolicy, lane_principal
from threadhouse.retrieval.models import Audience, ThreadId
from threadhouse.retrieval.packs import PACK_VERSION, ThreadDossier, build_pack
from threadhouse.stores import queries
from threadhouse.stores.knowledge import (
    THREADS_PER_BATCH,
    KnowledgeReader,
    UnreadableRow,
    open_knowledge,
)
from threadhouse.stores.night_records import note_packs_agree, note_step
from threadhouse.stores.pack_store import BuiltPack, PackStore, PackWriteReport, count_threads
from threadhouse.stores.postgres import Database
from threadhouse.stores.quarantine import QuarantinedItem, note_quarantined


@dataclass(slots=True)
class PackRefreshReport:
    """What one refresh did. ``by_lane`` counts the packs that each lane has afterwards of the threads that were looked at."""

    threads: int = 0
    threads_due: int = 0
    written: int = 0
    unchanged: int = 0
    outrun: int = 0
    deleted: int = 0
    quarantined: int = 0
    seconds: float = 0.0
    by_lane: dict[str, int] = field(default_factory=dict[str, int])

    def figures(self) -> dict[str, int | float]:
        """Every number by its name, for a person to look at."""
        names = (
            "threads",
            "threads_due",
            "written",
            "unchanged",
            "outrun",
            "deleted",
            "quarantined",
        )
        return {
            **{name: getattr(self, name) for name in names},
            "seconds": round(self.seconds, 3),
            **{f"lane_{lane}": count for lane, count in self.by_lane.items()},
        }


def refresh_packs(
    database: Database,
    space_id: str,
    progress: Callable[[int, int], None] | None = None,
    *,
    threads: frozenset[str] | None = None,
    rebuild: bool = False,
    allow_deletes: bool = False,
    beside: bool = False,
) -> PackRefreshReport:
    """Bring stored packs up to date; a thread whose inputs did not change is not even read.

    Args:
        space_id: The vector space that the packs are for; each space has its own.
        progress: Called with (threads done, threads due).
        threads: Look only at these threads; one that is gone loses its packs. None means every thread.
        rebuild: Build also what did not change. A pack that comes out as it is stored is not written again.
        allow_deletes: Go on when no thread is left.
        beside: The space is not in force, so no revoke waits for these packs.

    Raises:
        DeletionBrakeError: There is no thread although packs are stored.
        ConfigurationError: No policy is in force.
    """
    started = time.monotonic()
    report = PackRefreshReport()
    store = PackStore(database)
    asked = None if threads is None else [ThreadId(thread_id) for thread_id in sorted(threads)]
    report.deleted += store.delete_packs_without_thread(asked, allow_deletes=allow_deletes)
    with open_knowledge(database) as knowledge:
        policy = knowledge.policy()
        with database.connect() as connection:
            report.threads = count_threads(connection, asked)
            due = _due_threads(connection, asked, policy, space_id, rebuild=rebuild)
        report.threads_due = len(due)
        unreadable: list[UnreadableRow] = []
        for start in range(0, len(due), THREADS_PER_BATCH):
            batch = due[start : start + THREADS_PER_BATCH]
            written = _build_batch(knowledge, store, database, batch, policy, space_id, unreadable)
            report.written += written.written
            report.unchanged += written.unchanged
            report.outrun += written.outrun
            report.deleted += written.deleted
            if progress is not None:
                progress(start + len(batch), len(due))
    with database.connect() as connection:
        report.quarantined = _quarantine(connection, unreadable)
        counts = Counter(lane for _, lane in list(store.keys(space_id, asked)))
        seconds = time.monotonic() - started
        if not beside:
            note_packs_agree(connection, seconds, is_scoped=threads is not None)
    report.by_lane = {lane.value: counts[lane] for lane in Audience}
    report.seconds = time.monotonic() - started
    note_step(database, "context_packs", seconds=report.seconds, is_scoped=threads is not None)
    return report


def _due_threads(
    connection: Connection[TupleRow],
    thread_ids: Sequence[ThreadId] | None,
    policy: AudiencePolicy,
    space_id: str,
    *,
    rebuild: bool,
) -> list[ThreadId]:
    """Threads whose packs were built from something else than what is there now."""
    rows = connection.execute(
        queries.load("packs_due"),
        {
            "thread_ids": thread_ids,
            "rebuild": rebuild,
            "policy_version": policy.version,
            "space_id": space_id,
            "code_version": PACK_VERSION,
        },
    )
    return [ThreadId(row[0]) for row in rows]


def _build_batch(
    knowledge: KnowledgeReader,
    store: PackStore,
    database: Database,
    batch: Sequence[ThreadId],
    policy: AudiencePolicy,
    space_id: str,
    unreadable: list[UnreadableRow],
) -> PackWriteReport:
    dossiers: list[ThreadDossier] = []
    for each in knowledge.dossiers(batch):
        if isinstance(each, UnreadableRow):
            unreadable.append(each)
        else:
            dossiers.append(each)
    packs = [built for dossier in dossiers for built in _build_lanes(dossier, policy, space_id)]
    written = store.replace_packs(batch, packs)
    # After the packs: killed in between, the next run builds them again and finds them unchanged.
    with database.connect() as connection:
        connection.execute(
            queries.load("packs_note_state"),
            {
                "thread_ids": [dossier.thread.thread_id for dossier in dossiers],
                "input_revisions": [dossier.thread.input_revision for dossier in dossiers],
                "policy_version": policy.version,
                "space_id": space_id,
                "code_version": PACK_VERSION,
            },
        )
    return written


def _build_lanes(
    dossier: ThreadDossier, policy: AudiencePolicy, space_id: str
) -> Iterable[BuiltPack]:
    for lane in Audience:
        started = time.perf_counter()
        pack = build_pack(dossier, lane_principal(lane), policy, space_id)
        if pack is not None:
            yield BuiltPack(pack, (time.perf_counter() - started) * 1000)


def _quarantine(connection: Connection[TupleRow], unreadable: Sequence[UnreadableRow]) -> int:
    by_source: defaultdict[str, list[QuarantinedItem]] = defaultdict(list)
    for row in unreadable:
        by_source[row.source].append(row.item)
    for source, items in by_source.items():
        note_quarantined(connection, source, items)
    return len(unreadable)
