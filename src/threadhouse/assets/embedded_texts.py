"""The vectors that the next publish needs, embedded by as many steps as there are buckets.

Belongs here: into how many steps the embedding is divided and what to record about it.
Does not belong here: what a bucket does (stores.embedding_fanout), which executor runs the steps (pipelines.executors).

In one process there is nothing to divide: the publish embeds by itself, batch after batch, and this product is empty.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from threadhouse.assets.automation import OWNERS, retrying_transient_faults
from threadhouse.resources.run_listener import reporter
from threadhouse.resources.stores import EmbedderResource, EnvironmentResource, PostgresResource
from threadhouse.stores.embedding_fanout import BucketReport, embed_bucket
from threadhouse.stores.night_records import note_step


@dg.op(
    ins={"unit_chunks": dg.In(dg.Nothing), "document_chunks": dg.In(dg.Nothing)},
    out=dg.DynamicOut(int),
)
def buckets_to_embed(environment: EnvironmentResource) -> Iterator[dg.DynamicOutput[int]]:
    """One output for each bucket, with its number."""
    for bucket in range(environment.settings().buckets):
        yield dg.DynamicOutput(bucket, mapping_key=str(bucket))


@dg.op
def embedded_bucket(
    bucket: int,
    environment: EnvironmentResource,
    postgres: PostgresResource,
    embedder: EmbedderResource,
) -> dict[str, Any]:
    """Fill the cache with what is due in one bucket."""
    with retrying_transient_faults():
        database = postgres.open()
        done = embed_bucket(
            database,
            embedder.open(database),
            bucket,
            environment.settings().buckets,
            reporter(f"Embedding bucket {bucket + 1}"),
        )
    return _figures(done)


@dg.op(out=dg.Out(dg.Nothing))
def embedding_figures(
    context: dg.OpExecutionContext,
    postgres: PostgresResource,
    buckets: list[dict[str, Any]],
) -> None:
    """Record what all buckets did together."""
    names = ("owners", "texts_embedded", "cache_hits", "seconds_embedding")
    totals = {name: sum(bucket[name] for bucket in buckets) for name in names}
    if buckets:
        with retrying_transient_faults():
            note_step(
                postgres.open(),
                "embedded_texts",
                seconds=totals["seconds_embedding"],
                texts_embedded=int(totals["texts_embedded"]),
            )
    context.add_output_metadata(
        {
            "dagster/row_count": int(totals["texts_embedded"]),
            "buckets": len(buckets),
            **{name: round(total, 3) for name, total in totals.items()},
        }
    )


@dg.graph_asset(
    ins={
        "unit_chunks": dg.AssetIn(dagster_type=dg.Nothing),
        "document_chunks": dg.AssetIn(dagster_type=dg.Nothing),
    },
    group_name="units",
    kinds={"postgres"},
    owners=OWNERS,
    description=(
        "Cache of embeddings, filled for the next publish by one step a bucket of owners, so that machines share the work. "
        "Empty where everything runs in one process: the publish then embeds by itself."
    ),
)
def embedded_texts(unit_chunks: object, document_chunks: object) -> None:
    """One step a bucket; see the description."""
    buckets = buckets_to_embed(unit_chunks=unit_chunks, document_chunks=document_chunks)
    return embedding_figures(buckets.map(embedded_bucket).collect())


def _figures(done: BucketReport) -> dict[str, Any]:
    return {
        "bucket": done.bucket,
        "owners": done.owners,
        "texts_embedded": done.texts_embedded,
        "cache_hits": done.cache_hits,
        "seconds_embedding": done.seconds_embedding,
    }
