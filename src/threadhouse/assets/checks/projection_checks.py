"""What must be true of the vector collections before anything is built on them.

Belongs here: the audit as blocking checks: a reader could be harmed, so the run stops.
Does not belong here: the audit itself (stores.audit).
"""

from collections.abc import Iterator

import dagster as dg

from threadhouse.assets.automation import retrying_transient_faults
from threadhouse.assets.thread_centroids import thread_centroids
from threadhouse.assets.vectors import INFORMATION_UNIT_VECTORS, PRODUCTION_DOCUMENT_VECTORS
from threadhouse.resources.stores import EmbedderResource, PostgresResource, VectorStoreResource
from threadhouse.retrieval.audit import CollectionAudit, FindingKind
from threadhouse.retrieval.models import Collection
from threadhouse.stores.audit import audit_projection
from threadhouse.stores.centroid_projection import farthest_from_unit_length
from threadhouse.stores.night_records import note_audits

_CONTENT = {
    Collection.INFORMATION_UNITS: INFORMATION_UNIT_VECTORS,
    Collection.PRODUCTION_DOCUMENTS: PRODUCTION_DOCUMENT_VECTORS,
}
UNIT_LENGTH_TOLERANCE = 1e-3
"""float32 sums over 1,000 dimensions are off by less than a tenth of this."""


def _verdict(
    audit: CollectionAudit, key: dg.AssetKey, name: str, kinds: frozenset[FindingKind]
) -> dg.AssetCheckResult:
    counts = {kind.value: audit.counts[kind] for kind in kinds if kind in audit.counts}
    samples = [sample for sample in audit.samples if sample.kind in kinds]
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=name,
        passed=not counts,
        severity=dg.AssetCheckSeverity.ERROR,
        description="threadhouse audit --repair mends this." if counts else None,
        metadata={
            "points": audit.points,
            "owners": audit.owners,
            **counts,
            "findings": dg.MetadataValue.md(
                "\n".join(f"- {s.kind}: {s.owner_id}: {s.detail}" for s in samples) or "none"
            ),
        },
    )


_BORDERS = frozenset({FindingKind.BOUNDARY_VIOLATION})
_REST = frozenset(FindingKind) - _BORDERS


@dg.multi_asset_check(
    specs=[
        *(
            dg.AssetCheckSpec(
                "chunks_are_sound_cuts_of_one_text",
                asset=key,
                blocking=True,
                description=(
                    "Every stored point is an exact slice of one version of one owner; together they cover it."
                ),
            )
            for key in _CONTENT.values()
        ),
        *(
            dg.AssetCheckSpec(
                "points_agree_with_source",
                asset=key,
                blocking=True,
                description="Nothing is missing, stale, orphaned, mislabelled or of another model.",
            )
            for key in _CONTENT.values()
        ),
    ]
)
def content_vectors_are_sound(
    postgres: PostgresResource, vectors: VectorStoreResource, embedder: EmbedderResource
) -> Iterator[dg.AssetCheckResult]:
    """The audit over every stored point of both content collections, as readers see them."""
    with retrying_transient_faults():
        database = postgres.open()
        with vectors.reader() as store:
            report = audit_projection(database, store, embedder.open(database), only=_CONTENT)
        note_audits(database, report.collections)
    for audit in report.collections:
        key = _CONTENT.get(Collection(audit.collection)) if audit.collection in _CONTENT else None
        if key is not None:
            yield _verdict(audit, key, "chunks_are_sound_cuts_of_one_text", _BORDERS)
            yield _verdict(audit, key, "points_agree_with_source", _REST)


@dg.asset_check(asset=INFORMATION_UNIT_VECTORS)
def every_collection_is_registered(vectors: VectorStoreResource) -> dg.AssetCheckResult:
    """A collection that nobody registered is kept in step by nobody, and no audit of a product looks at it."""
    with retrying_transient_faults(), vectors.reader() as store:
        strangers = [
            info.physical for info in store.collections() if info.alias not in list(Collection)
        ]
    return dg.AssetCheckResult(
        passed=not strangers,
        severity=dg.AssetCheckSeverity.ERROR,
        description="Register it or drop it." if strangers else None,
        metadata={"unregistered": ", ".join(sorted(strangers)) or "none"},
    )


@dg.asset_check(asset=thread_centroids, blocking=True)
def thread_centroids_agree_with_source(
    postgres: PostgresResource, vectors: VectorStoreResource, embedder: EmbedderResource
) -> dg.AssetCheckResult:
    """A lane has a centroid exactly where it sees a unit that search can return, made of today's inputs."""
    with retrying_transient_faults():
        database = postgres.open()
        with vectors.reader() as store:
            report = audit_projection(
                database, store, embedder.open(database), only=[Collection.THREAD_CENTROIDS]
            )
        note_audits(database, report.collections)
    audit = next(a for a in report.collections if a.collection == Collection.THREAD_CENTROIDS)
    return _verdict(
        audit,
        dg.AssetKey("thread_centroids"),
        "thread_centroids_agree_with_source",
        frozenset(FindingKind),
    )


@dg.asset_check(asset=thread_centroids, blocking=True)
def thread_centroids_are_unit_length(vectors: VectorStoreResource) -> dg.AssetCheckResult:
    """Cosine search compares directions; a vector of another length would rank by its length."""
    with retrying_transient_faults(), vectors.reader() as store:
        farthest = farthest_from_unit_length(store)
    return dg.AssetCheckResult(
        passed=farthest <= UNIT_LENGTH_TOLERANCE,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={"largest_difference_from_1": farthest},
    )
