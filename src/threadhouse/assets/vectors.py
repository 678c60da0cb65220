"""The two content collections.

Belongs here: when they are brought in step with Postgres and what to record about it.
Does not belong here: how (stores.projection). Both are one step, because a document whose units take over must change
sides in one transaction.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
from pydantic import Field

from threadhouse.assets.automation import (
    FRESH_DAILY,
    OWNERS,
    VECTOR_WRITER,
    retrying_transient_faults,
)
from threadhouse.assets.chunks import document_chunks, unit_chunks
from threadhouse.assets.embedded_texts import embedded_texts
from threadhouse.resources.replays import Replays
from threadhouse.resources.run_listener import reporter
from threadhouse.resources.stores import (
    EmbedderResource,
    EnvironmentResource,
    PostgresResource,
    VectorStoreResource,
)
from threadhouse.retrieval.models import Collection, VectorSpace
from threadhouse.retrieval.projection import (
    DEFAULT_DELETION_SHARE,
    ContentScope,
    RepairOrder,
    rebuild_orders,
)
from threadhouse.stores.backfill_selection import (
    BackfillSelection,
    require_known,
    select_content,
)
from threadhouse.stores.change_log import begin_reconcile
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import PublishReport, publish_content

INFORMATION_UNIT_VECTORS = dg.AssetKey("information_unit_vectors")
PRODUCTION_DOCUMENT_VECTORS = dg.AssetKey("production_document_vectors")


class PublishConfig(dg.Config):
    """How far one publish may go."""

    allow_deletes: bool = Field(
        default=False,
        description=(
            f"Lift the brake that stops a run which would delete more than {DEFAULT_DELETION_SHARE:.0%} of a collection."
        ),
    )


class SelectedConfig(PublishConfig):
    """Which threads a step is about; none named means every thread, and only what changed in it."""

    threads: list[str] = Field(default=[], description="Thread ids; empty: every thread.")
    rebuild: bool = Field(
        default=False,
        description="Build again what did not change; only what is named, or everything.",
    )

    @property
    def chosen_threads(self) -> frozenset[str] | None:
        """The threads that are named; None for all."""
        return frozenset(self.threads) or None


class SwitchConfig(PublishConfig):
    """Which owners a publish is about, and how far it may go; none named means everything, and only what changed in it."""

    documents: list[str] = Field(
        default=[], description="Document ids: their units, or their text; empty: every document."
    )
    units: list[str] = Field(default=[], description="Logical unit ids; empty: every unit.")
    rebuild: bool = Field(
        default=False,
        description="Write again what did not change; only what is named, or everything.",
    )

    accept_losses: bool = Field(
        default=False,
        description="Go on when more recent questions than REPLAY_LOSS_SHARE would lose the answer they have.",
    )


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            INFORMATION_UNIT_VECTORS,
            description=(
                "Collection information_units: one point a chunk, dense and BM25 vectors, the labels that decide who sees it. "
                "A new version is written beside the old one, verified, then switched to in one Postgres transaction."
            ),
            deps=[unit_chunks, embedded_texts],
            group_name="units",
            kinds={"postgres", "qdrant"},
            owners=OWNERS,
            freshness_policy=FRESH_DAILY,
        ),
        dg.AssetSpec(
            PRODUCTION_DOCUMENT_VECTORS,
            description=(
                "Collection production_documents (legacy): documents whose units have not been migrated, one point for about "
                "4,000 characters. A document leaves it in the step that makes its units live."
            ),
            deps=[document_chunks, embedded_texts],
            group_name="units",
            kinds={"postgres", "qdrant"},
            owners=OWNERS,
            freshness_policy=FRESH_DAILY,
        ),
    ],
    pool=VECTOR_WRITER,
)
def content_vectors(
    context: dg.AssetExecutionContext,
    config: SwitchConfig,
    environment: EnvironmentResource,
    postgres: PostgresResource,
    vectors: VectorStoreResource,
    embedder: EmbedderResource,
    replays: dg.ResourceParam[Replays],
) -> Iterator[dg.MaterializeResult[Any]]:
    """Both content collections, in step with Postgres: revokes first, grants next, content last."""
    with retrying_transient_faults():
        database, settings = postgres.open(), environment.settings()
        opened = embedder.open(database)
        scope, repair = _selected(database, config)
        if scope is None:
            begin_reconcile(database, context.run.run_id)
        with vectors.writer() as store:
            report = publish_content(
                database,
                store,
                opened,
                settings.home,
                scope=scope,
                repair=repair,
                allowed_deletion_share=None if config.allow_deletes else DEFAULT_DELETION_SHARE,
                before_switch=lambda move: replays.before_switch(
                    settings, database, opened, move, accept_losses=config.accept_losses
                ),
                progress=reporter("Embedding"),
            )
    yield from _materializations(report, opened.space)


def _selected(
    database: Database, config: SwitchConfig
) -> tuple[ContentScope | None, Mapping[Collection, RepairOrder] | None]:
    """What a publish looks at, None for everything; and what of it is written again although nothing changed."""
    selection = BackfillSelection(documents=config.documents, units=config.units)
    with database.connect() as connection:
        require_known(connection, selection)
        covered = select_content(connection, selection) if config.rebuild else None
    named = ContentScope(units=frozenset(config.units), documents=frozenset(config.documents))
    return (
        None if selection.names_nothing else named,
        None if covered is None else rebuild_orders(covered),
    )


def _materializations(
    report: PublishReport, space: VectorSpace
) -> Iterator[dg.MaterializeResult[Any]]:
    for key, collection in (
        (INFORMATION_UNIT_VECTORS, Collection.INFORMATION_UNITS),
        (PRODUCTION_DOCUMENT_VECTORS, Collection.PRODUCTION_DOCUMENTS),
    ):
        yield dg.MaterializeResult(
            asset_key=key,
            metadata={
                "dagster/row_count": report.points[collection],
                "model": space.model,
                "space_id": space.space_id,
                **report.figures(),
            },
        )
