"""A hub of any size whose vectors cost nothing.

Belongs here: made-up units and points, an embedder without a model. Does not belong here: measuring.

Words are drawn by Zipf's law from a fixed seed, so that BM25 meets common and rare terms and every run the same ones.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from threadhouse.retrieval.bm25 import TermForm, document_vector
from threadhouse.retrieval.models import Json, VectorPoint, Vectors, VectorSpace
from threadhouse.retrieval.text import prepare_text
from threadhouse.retrieval.vector_space import identify_space
from threadhouse.stores.embedders import BATCH_TEXTS, EmbeddedBatch
from threadhouse.stores.postgres import Database

DIM = 384
"""Dimensions of the default model, so that sizes are real."""
MAX_TOKENS = 512
_UNITS_PER_DOCUMENT = 20
_PROSE = (
    "hoàn tiền khách hàng điều khoản quy định nghĩa vụ bảo mật tài khoản giao dịch thời hạn phê duyệt báo cáo sự cố kiểm thử "
    "thiết kế dịch vụ người dùng đối tác nhân viên trách nhiệm căn cứ nghị luật thông tư chương mục phần đơn vị cơ quan tổ chức"
)
_SYLLABLES = tuple(dict.fromkeys(_PROSE.split()))
VISIBILITIES = ("public", "partner", "employee", "internal")


class SyntheticEmbedder:
    """Implements ``stores.embedding_cache.StreamingEmbedder``: a direction from each text's hash.

    Args:
        count_tokens: How tokens are counted; the tokenizer of the real model makes an audit as long as it really is.
    """

    def __init__(self, count_tokens: Callable[[Sequence[str]], list[int]] | None = None) -> None:
        self._count_tokens = count_tokens or count_words
        self._space = synthetic_space()

    @property
    def space(self) -> VectorSpace:
        return self._space

    def iter_passages(self, texts: Sequence[str]) -> Iterator[EmbeddedBatch]:
        # In batches, as a real model: the cache is written once a batch.
        for start in range(0, len(texts), BATCH_TEXTS):
            batch = texts[start : start + BATCH_TEXTS]
            rows = np.concatenate([unit_rows(1, _seed_of(text)) for text in batch])
            positions = tuple(range(start, start + len(batch)))
            yield EmbeddedBatch(positions, rows, np.zeros(len(batch), np.bool_))

    iter_long_passages = iter_passages

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        rows = [batch.data for batch in self.iter_passages(texts)]
        data = np.concatenate(rows) if rows else np.zeros((0, DIM), np.float32)
        return Vectors(self.space.space_id, "passage", data, np.zeros(len(data), np.bool_))

    def embed_query(self, text: str) -> Vectors:
        vectors = self.embed_passages([text])
        return Vectors(vectors.space_id, "query", vectors.data, vectors.truncated)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._count_tokens(texts)


def _seed_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(prepare_text(text).encode()).digest()[:8])


def count_words(texts: Sequence[str]) -> list[int]:
    """A token is a word."""
    return [len(text.split()) for text in texts]


def synthetic_space() -> VectorSpace:
    """A space that no real model has."""
    return identify_space(
        VectorSpace("synthetic", "none", "0" * 64, "0" * 64, DIM, MAX_TOKENS, "NONE", "", "", "")
    )


def unit_rows(count: int, seed: int) -> NDArray[np.float32]:
    """Random directions, shape (count, DIM), rows of length 1."""
    rows = np.random.default_rng(seed).standard_normal((count, DIM), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def words(count: int, generator: np.random.Generator) -> str:
    """Made-up Vietnamese prose of so many words, with a full stop every twelve."""
    ranks = np.minimum(generator.zipf(1.3, count), 50_000)
    # A rare rank is a number, as rare terms of law mostly are; a common one is a syllable.
    drawn = [
        _SYLLABLES[rank - 1] if rank <= len(_SYLLABLES) else f"{rank}"
        for rank in (int(r) for r in ranks)
    ]
    return " ".join(f"{word}." if i % 12 == 11 else word for i, word in enumerate(drawn))


def fill_database(database: Database, units: int) -> None:
    """Write documents and units. Three of four units have about 150 words; every fourth has 500, which is two chunks or more."""
    generator = np.random.default_rng(7)
    documents = -(-units // _UNITS_PER_DOCUMENT)
    with database.connect() as connection, connection.cursor() as cursor:
        with cursor.copy(
            "copy public.production_document (document_id, path, title, body, language, lifecycle_stage, visibility,"
            " readiness, publication_state, risk_class, authority) from stdin"
        ) as copy:
            for number in range(documents):
                visibility = VISIBILITIES[number % len(VISIBILITIES)]
                flags = ("law", visibility, "published", "published", "low", "enacted")
                copy.write_row(
                    (f"d{number}", f"d{number}.md", f"Văn bản {number}", "", "vi", *flags)
                )
        with cursor.copy(
            "copy public.tac_logical_unit (logical_unit_id, document_id, canonical_address, unit_kind, lifecycle_stage, ordinal)"
            " from stdin"
        ) as copy:
            for number in range(units):
                document, ordinal = divmod(number, _UNITS_PER_DOCUMENT)
                copy.write_row(
                    (f"u{number}", f"d{document}", f"U.{number}", "law_unit", "law", ordinal)
                )
        with cursor.copy(
            "copy public.tac_unit_version (unit_version_id, logical_unit_id, revision, title, body) from stdin"
        ) as copy:
            for number in range(units):
                body = words(500 if number % 4 == 3 else 150, generator)
                version = uuid.uuid5(uuid.NAMESPACE_OID, f"u{number}")
                copy.write_row((str(version), f"u{number}", 1, f"Điều {number}", body))
        cursor.execute(
            "update public.tac_logical_unit unit set current_version_id = version.unit_version_id"
            " from public.tac_unit_version version where version.logical_unit_id = unit.logical_unit_id"
        )


def make_points(count: int) -> tuple[list[VectorPoint], list[str]]:
    """Points with everything a real one has, and the texts they are of: 120 words, two BM25 vectors, a payload of about 1 kB."""
    generator = np.random.default_rng(11)
    dense = unit_rows(count, 13)
    texts = [words(120, generator) for _ in range(count)]
    points = [_make_point(number, dense[number], text) for number, text in enumerate(texts)]
    return points, texts


def _make_point(number: int, dense: NDArray[np.float32], text: str) -> VectorPoint:
    payload: dict[str, Json] = {
        "document_id": f"d{number // _UNITS_PER_DOCUMENT}",
        "metadata": {
            "title": f"Điều {number}",
            "tags": ["benchmark"],
            "path": f"d{number // _UNITS_PER_DOCUMENT}.md",
            "language": "vi",
            "visibility": VISIBILITIES[number % len(VISIBILITIES)],
            "readiness": "published",
            "publication_state": "published",
            "risk_class": "low",
            "authority": "enacted",
            "lifecycle_stage": "law",
            "data_classification": "unclassified",
            "logical_unit_id": f"u{number}",
            "unit_version_id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"u{number}")),
            "unit_kind": "law_unit",
            "canonical_address": f"U.{number}",
            "source_revision": 1,
            "payload_schema": 1,
            "chunk_index": 0,
            "total_chunks": 1,
            "char_start": 0,
            "char_end": len(text),
            "content_hash": hashlib.sha256(text.encode()).hexdigest(),
        },
    }
    return VectorPoint(
        point_id=uuid.uuid5(uuid.NAMESPACE_OID, f"point {number}"),
        dense=dense,
        bm25_accented=document_vector(text, TermForm.ACCENTED),
        bm25_folded=document_vector(text, TermForm.FOLDED),
        payload=payload,
    )
