"""The table of chunks: where every live unit and legacy document is cut, one Parquet file a collection.

Belongs here: keeping the table in step with the source; only what changed is read and cut again.
Does not belong here: where to cut (retrieval.chunking), vectors. The table holds offsets and hashes, never text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import polars as pl
from psycopg import Connection
from psycopg.rows import TupleRow

from threadhouse.retrieval.models import TextSpan
from threadhouse.retrieval.payloads import digest_text
from threadhouse.retrieval.projection import ProjectionOwner
from threadhouse.stores.projection_sources import (
    CachedEmbedder,
    ContentSource,
    OwnerText,
)
from threadhouse.stores.quarantine import (
    QuarantinedItem,
    note_quarantined,
    resolve_absent,
)

CHUNK_SCHEMA = pl.Schema(
    {
        "owner_id": pl.String(),
        "version_key": pl.String(),
        "content_digest": pl.String(),
        "chunk_index": pl.Int32(),
        "total_chunks": pl.Int32(),
        "char_start": pl.Int64(),
        "char_end": pl.Int64(),
        "token_count": pl.Int32(),
        "content_hash": pl.String(),
    }
)
"""Grain: one row a chunk. Offsets count code points of the NFC text; ``content_digest`` says what it was cut from."""

READ_BATCH = 500
"""Owners whose texts are in memory at once."""


@dataclass(frozen=True, slots=True)
class ChunkRefresh:
    """What one refresh did. ``owners`` counts those in the table afterwards."""

    owners: int
    chunks: int
    cut: int
    kept: int
    dropped: int
    quarantined: int
    largest_tokens: int


def chunk_table_path(home: Path, source: ContentSource) -> Path:
    """Where the table of one collection is."""
    return home / "chunks" / f"{source.collection}.parquet"


def read_chunk_table(path: Path) -> pl.DataFrame:
    """The table, empty when it was never written."""
    if not path.exists():
        return pl.DataFrame(schema=CHUNK_SCHEMA)
    return pl.read_parquet(path)


def refresh_chunk_table(
    connection: Connection[TupleRow],
    path: Path,
    source: ContentSource,
    embedder: CachedEmbedder,
    progress: Callable[[int, int], None] | None = None,
) -> ChunkRefresh:
    """Cut what is new or changed, drop what is gone, keep the rest; the file is replaced in one step.

    An owner that cannot be cut (nothing visible in it) or does not keep the payload contract is quarantined
    under ``chunks:<collection>``; the rest goes on.

    Args:
        progress: Called with (owners cut so far, owners to cut).

    Raises:
        ChunkBoundaryError: The cutter broke its promise; nothing is written.
    """
    wanted = source.read_wanted(connection, embedder.space.space_id)
    try:
        table, is_damaged = read_chunk_table(path), False
    except pl.exceptions.PolarsError:
        # Nothing is lost with it: every row can be cut again from Postgres.
        table, is_damaged = pl.DataFrame(schema=CHUNK_SCHEMA), True
    digests = {owner.content_digest for owner in wanted.owners.values()}
    kept = table.filter(pl.col("content_digest").is_in(list(digests)))
    known = set(kept["content_digest"].unique())
    todo = [owner for owner in wanted.owners.values() if owner.content_digest not in known]
    refused = list(wanted.refused)
    rows: list[dict[str, object]] = []
    done = 0
    for batch in _batches(todo, READ_BATCH):
        texts = source.read_texts(connection, [owner.owner_id for owner in batch])
        for owner in batch:
            text = texts.get(owner.owner_id)
            # Gone or changed since it was listed: the next run meets its new version.
            if text is not None and text.version_key == owner.version_key:
                spans = cut_owner(source, text, embedder)
                if not spans:
                    reason = "the text has nothing visible in it, so there is nothing to find"
                    refused.append(QuarantinedItem(owner.owner_id, "body", reason))
                rows.extend(_rows(owner, spans))
            done += 1
            if progress is not None:
                progress(done, len(todo))
    fresh = pl.concat([kept, pl.DataFrame(rows, schema=CHUNK_SCHEMA)])
    if rows or is_damaged or len(kept) != len(table):
        _replace(path, fresh.sort("owner_id", "chunk_index"))
    name = f"chunks:{source.collection}"
    note_quarantined(connection, name, refused)
    resolve_absent(connection, name, [item.item_key for item in refused])
    return ChunkRefresh(
        owners=fresh["owner_id"].n_unique(),
        chunks=len(fresh),
        cut=len({row["owner_id"] for row in rows}),
        kept=len(known),
        dropped=table["content_digest"].n_unique() - len(known),
        quarantined=len(refused),
        largest_tokens=int(fresh["token_count"].max() or 0),  # pyright: ignore[reportArgumentType]
    )


def cut_owner(
    source: ContentSource, text: OwnerText, embedder: CachedEmbedder
) -> list[tuple[TextSpan, int]]:
    """Cut one text and prove the cut before anybody uses it.

    Raises:
        ChunkBoundaryError: See ``retrieval.chunking.verify_chunks``.
    """
    spans = source.cut(text, embedder)
    if spans:
        counted = {span.text: count for span, count in spans}
        source.verify(text.body, [span for span, _ in spans], embedder, counted)
    return spans


def spans_by_digest(table: pl.DataFrame) -> Mapping[str, list[tuple[int, int, int]]]:
    """(char_start, char_end, token_count) of every chunk in order, by content digest."""
    spans: dict[str, list[tuple[int, int, int]]] = {}
    columns = ("content_digest", "char_start", "char_end", "token_count")
    for row in table.sort("owner_id", "chunk_index").select(columns).iter_rows():
        spans.setdefault(row[0], []).append((row[1], row[2], row[3]))
    return spans


def _rows(
    owner: ProjectionOwner, spans: Sequence[tuple[TextSpan, int]]
) -> Iterator[dict[str, object]]:
    for index, (span, token_count) in enumerate(spans):
        yield {
            "owner_id": owner.owner_id,
            "version_key": owner.version_key,
            "content_digest": owner.content_digest,
            "chunk_index": index,
            "total_chunks": len(spans),
            "char_start": span.char_start,
            "char_end": span.char_end,
            "token_count": token_count,
            "content_hash": digest_text(span.text),
        }


def _batches(owners: Sequence[ProjectionOwner], size: int) -> Iterator[tuple[ProjectionOwner, ...]]:
    iterator = iter(owners)
    while batch := tuple(islice(iterator, size)):
        yield batch


def _replace(path: Path, table: pl.DataFrame) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(f".{os.getpid()}.tmp")
    table.write_parquet(aside)
    aside.replace(path)
