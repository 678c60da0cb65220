"""The table of chunks: what is kept between two refreshes, and what happens when the file is damaged."""

from __future__ import annotations

import json
from pathlib import Path

from counting_embedder import HashEmbedder
from threadhouse.stores.chunk_table import read_chunk_table, refresh_chunk_table
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.loading import load_path
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection_sources import UnitSource
from threadhouse.stores.vector_cache import PostgresVectorCache

FLAGS = {
    "visibility": "public", "readiness": "published", "publication_state": "published",
    "risk_class": "low", "authority": "enacted", "lifecycle_stage": "law",
}  # fmt: skip


def test_a_damaged_table_is_cut_again(database: Database, tmp_path: Path) -> None:
    rows = {
        "production_document": {"document_id": "d1", "title": "Một", "language": "vi", **FLAGS},
        "tac_logical_unit": {
            "logical_unit_id": "u1", "document_id": "d1", "canonical_address": "A/1", "unit_kind": "clause",
            "title": "Điều 1", "body": "Nội dung", **FLAGS,
        },
    }  # fmt: skip
    for table, row in rows.items():
        (tmp_path / f"{table}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    load_path(database, tmp_path)
    path = tmp_path / "chunks" / "information_units.parquet"
    embedder = CachedEmbedder(HashEmbedder(), PostgresVectorCache(database))
    with database.connect() as connection:
        refresh_chunk_table(connection, path, UnitSource(), embedder)
        whole = read_chunk_table(path)
        path.write_bytes(b"PAR1")
        assert refresh_chunk_table(connection, path, UnitSource(), embedder).cut == 1
    assert len(whole) == 1
    assert read_chunk_table(path).equals(whole)
