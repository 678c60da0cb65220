"""The tables of chunks: where every live unit and every legacy document is cut.

Belongs here: when chunk tables are refreshed and what to record about it.
Does not belong here: where to cut (retrieval.chunking) and how the tables are kept (stores.chunk_table).
"""

import time
from typing import Any

import dagster as dg

from threadhouse.assets.automation import FRESH_DAILY, OWNERS, retrying_transient_faults
from threadhouse.assets.source_tables import CONTENT_TABLES
from threadhouse.resources.run_listener import reporter
from threadhouse.resources.stores import EmbedderResource, EnvironmentResource, PostgresResource
from threadhouse.retrieval.chunking import DOCUMENT_CHUNKER_VERSION, UNIT_CHUNKER_VERSION
from threadhouse.stores.attached_sources import follow_sources
from threadhouse.stores.chunk_table import (
    chunk_table_path,
    read_chunk_table,
    refresh_chunk_table,
)
from threadhouse.stores.projection_sources import ContentSource, DocumentSource, UnitSource

_SAMPLE_ROWS = 10


def _refresh(
    source: ContentSource,
    environment: EnvironmentResource,
    postgres: PostgresResource,
    embedder: EmbedderResource,
) -> dg.MaterializeResult[Any]:
    started = time.monotonic()
    with retrying_transient_faults():
        database = postgres.open()
        opened = embedder.open(database)
        path = chunk_table_path(environment.settings().home, source)
        with database.connect() as connection:
            done = refresh_chunk_table(
                connection, path, source, opened, reporter(f"Cutting {source.collection}")
            )
        sample = read_chunk_table(path).head(_SAMPLE_ROWS).to_dicts()
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": done.chunks,
            "owners": done.owners,
            "owners_cut": done.cut,
            "owners_kept": done.kept,
            "owners_dropped": done.dropped,
            "quarantined": done.quarantined,
            "largest_chunk_tokens": done.largest_tokens,
            "seconds": round(time.monotonic() - started, 3),
            "file": dg.MetadataValue.path(str(path)),
            "sample": dg.MetadataValue.table(
                [dg.TableRecord({k: str(v) for k, v in row.items()}) for row in sample],
                schema=dg.TableSchema([dg.TableColumn(name) for name in (sample or [{}])[0]]),
            ),
        }
    )


@dg.asset(
    group_name="units",
    kinds={"postgres", "parquet"},
    owners=OWNERS,
    deps=CONTENT_TABLES,
    code_version=UNIT_CHUNKER_VERSION,
    freshness_policy=FRESH_DAILY,
)
def unit_chunks(
    environment: EnvironmentResource, postgres: PostgresResource, embedder: EmbedderResource
) -> dg.MaterializeResult[Any]:
    """Where each live unit version is cut: token budget of the embedder, never outside one unit.

    Grain: one row a chunk. Only new and changed versions are read and cut; the cut is proven before it is kept.
    """
    # The first step of a night: what is built later compares counters of threads, which this keeps for an attached database.
    with retrying_transient_faults():
        follow_sources(postgres.open(), everything=True)
    return _refresh(UnitSource(), environment, postgres, embedder)


@dg.asset(
    group_name="units",
    kinds={"postgres", "parquet"},
    owners=OWNERS,
    deps=CONTENT_TABLES,
    code_version=DOCUMENT_CHUNKER_VERSION,
    freshness_policy=FRESH_DAILY,
)
def document_chunks(
    environment: EnvironmentResource, postgres: PostgresResource, embedder: EmbedderResource
) -> dg.MaterializeResult[Any]:
    """Where each document that has no units yet is cut: about 4,000 characters, 400 shared.

    Grain: one row a chunk. A document leaves this table when its units take over.
    """
    return _refresh(DocumentSource(), environment, postgres, embedder)
