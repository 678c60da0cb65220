"""Mending what an audit found.

Belongs here: turning an audit's findings into a plan that a person can read, and carrying it out with the ordinary publish steps.
Does not belong here: finding (stores.audit), writing points (stores.projection, stores.centroid_projection).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from threadhouse.retrieval.audit import FindingKind
from threadhouse.retrieval.models import Collection, Json
from threadhouse.retrieval.ports import VectorStore
from threadhouse.stores.audit import AuditReport
from threadhouse.stores.centroid_projection import refresh_centroids
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import publish_content

NOT_MENDED = frozenset({FindingKind.MODEL_MISMATCH, FindingKind.UNREGISTERED_COLLECTION})
"""Kinds that a person has to decide about: another model, or a collection that somebody else may need."""


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What a repair of one collection will do, in owners; ``strays`` are points, and go."""

    collection: str
    rebuild: int
    rewrite: int
    strays: int
    left_to_people: int

    def render(self) -> str:
        """One line for a person."""
        parts = (
            (self.rebuild, "owners to write again"),
            (self.rewrite, "owners whose payloads are written again"),
            (self.strays, "orphaned or stale findings to clear"),
            (self.left_to_people, "findings that a person must decide about"),
        )
        return f"{self.collection}: " + ", ".join(f"{n:,} {what}" for n, what in parts if n)


def plan_repair(report: AuditReport) -> tuple[RepairPlan, ...]:
    """One plan for each collection in which anything was found."""
    plans: list[RepairPlan] = []
    for audit in report.collections:
        if audit.is_clean:
            continue
        order = audit.repair_order
        strays = audit.counts.get(FindingKind.ORPHAN, 0)
        strays += audit.counts.get(FindingKind.STALE_VERSION, 0)
        left = sum(audit.counts.get(kind, 0) for kind in NOT_MENDED)
        plans.append(
            RepairPlan(audit.collection, len(order.rebuild), len(order.rewrite), strays, left)
        )
    return tuple(plans)


def repair_projection(
    database: Database,
    vectors: VectorStore,
    embedder: CachedEmbedder,
    home: Path,
    report: AuditReport,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Json]:
    """Carry the plan out and return its figures. The brake on deletions holds here too.

    Raises:
        StoreLockedError: A publish is under way.
        DeletionBrakeError: More would be deleted than one run may; look before you go on.
        EmptySourceError: The source is empty.
    """
    orders = report.repair_orders
    published = publish_content(database, vectors, embedder, home, repair=orders, progress=progress)
    order = orders[Collection.THREAD_CENTROIDS]
    centroids = refresh_centroids(
        database, vectors, embedder.space, rebuild=order.rebuild | order.rewrite
    )
    return {
        "points_written": published.chunks_written,
        "payloads_rewritten": published.payloads_rewritten,
        "points_deleted": published.points_deleted + centroids.deleted,
        "centroids_written": centroids.written,
        "texts_embedded": published.texts_embedded,
    }
