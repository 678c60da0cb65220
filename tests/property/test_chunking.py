"""Chunks of any text, however nasty, are sound cuts.

Belongs here: properties over generated texts, and the same over real nasty files.
Does not belong here: single cases worth naming (tests/unit/test_chunking_cases.py).
"""

from __future__ import annotations

import unicodedata
import zlib
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from threadhouse.retrieval.chunking import (
    CHUNK_BUDGET_TOKENS,
    DOCUMENT_CHUNK_CHARS,
    DOCUMENT_OVERLAP_CHARS,
    TokenCounter,
    chunk_document,
    chunk_unit,
    clip_title,
    embedding_text,
    is_blank,
    verify_chunks,
)
from threadhouse.retrieval.errors import ChunkBoundaryError
from threadhouse.retrieval.models import (
    DocumentChunk,
    DocumentId,
    TextSpan,
    UnitChunk,
    UnitId,
    UnitVersionId,
)
from threadhouse.retrieval.ports import Embedder
from threadhouse.retrieval.text import grapheme_borders, prepare_text

VERSION = UnitVersionId(UUID(int=1))
UNIT = UnitId("unit-1")
DOCUMENT = DocumentId("document-1")
NASTY = Path(__file__).parents[3] / "shared" / "data" / "nasty" / "files"

NASTY_PIECES = [
    # Vietnamese, composed and decomposed, and a mark without a letter
    *("Điều 1. ", "bệnh viện", "e\u0323\u0302", "ế", "đ", "a\u0301\u0301\u0301\u0301", "\u0301"),
    # clusters of several code points, and their loose parts
    *("👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇻🇳", "🇻", "\u200d", "\ufe0f"),
    # right to left, prefixes, conjuncts, Hangul composed and decomposed
    *("שלום", "مرحبا", "\u200f", "\u0600", "ന്\u200d", "\u0d4e\u0e33", "क्षि", "กำ"),
    *("\uac01", "\u1100\u1161\u11a8"),
    *("\r\n", "\n", "\n\n", "\r", "\u2028", "\t", " ", "   ", "\u00a0", "\u3000", "\u200b", "\ufeff"),
    *("\x00", "| a | b |\n|---|---|\n", "<path d='M0 0h24'/>", "word ", "a", ".", "。", "漢字", "ﷺ"),
    "x" * 40,
]  # fmt: skip


def nasty_texts(max_pieces: int = 40) -> st.SearchStrategy[str]:
    """Texts made of what breaks chunkers, with arbitrary Unicode (surrogates excepted) between."""
    anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    pieces = st.lists(st.sampled_from(NASTY_PIECES) | anything, max_size=max_pieces)
    return pieces.map("".join)


def count_words_and_marks(text: str) -> int:
    """A counter that is not additive: two texts joined may have more or fewer than their sum."""
    words = len(text.split())
    return words + len(text) // 4 + (1 if text.strip() != text else 0)


def count_blank_blind(text: str) -> int:
    """A counter that, like the default model's, sees no whitespace; two tokens a visible character."""
    return 2 * len("".join(text.split())) + 2


def count_erratically(text: str) -> int:
    """A counter without any order: a longer text may well have fewer tokens."""
    return len(text) + zlib.crc32(text.encode()) % 6


counters = st.sampled_from([len, count_words_and_marks, count_blank_blind, count_erratically])
# One character may cost 6: nothing smaller can hold it.
budgets = st.integers(min_value=6, max_value=60)


def spans_of(chunks: tuple[UnitChunk, ...] | tuple[DocumentChunk, ...]) -> list[TextSpan]:
    return [chunk.span for chunk in chunks]


@given(body=nasty_texts(), budget=budgets, count=counters)
def test_unit_chunks_pass_their_own_proof(body: str, budget: int, count: TokenCounter) -> None:
    verify_chunks(body, spans_of(chunk_unit(VERSION, UNIT, body, budget, count)), budget, count)


@given(body=nasty_texts(), budget=budgets, count=counters)
def test_joined_unit_chunks_are_the_body_but_for_blank_stretches(
    body: str, budget: int, count: TokenCounter
) -> None:
    """A chunk is a photo taken inside one room; together the photos show the whole room.

    Written without `verify_chunks`, so that a hole in the proof shows.
    """
    chunks = chunk_unit(VERSION, UNIT, body, budget, count)
    position = 0
    for chunk in chunks:
        assert body[chunk.span.char_start : chunk.span.char_end] == chunk.span.text
        assert is_blank(body[position : chunk.span.char_start])
        position = chunk.span.char_end
    assert is_blank(body[position:])


@given(body=nasty_texts(), budget=budgets, count=counters)
def test_no_unit_chunk_is_over_its_budget(body: str, budget: int, count: TokenCounter) -> None:
    for chunk in chunk_unit(VERSION, UNIT, body, budget, count):
        assert chunk.token_count == count(chunk.span.text) <= budget


@given(body=nasty_texts(max_pieces=20), slack=st.integers(0, 3))
def test_no_unit_chunk_tears_a_grapheme_when_every_one_fits(body: str, slack: int) -> None:
    """The tightest budgets that hold the largest cluster: where a splitter is tempted most."""
    borders = grapheme_borders(body)
    largest = max((end - start for start, end in pairwise(borders)), default=1)
    chunks = chunk_unit(VERSION, UNIT, body, largest + slack, len)
    assert {edge for c in chunks for edge in (c.span.char_start, c.span.char_end)} <= set(borders)


@given(body=nasty_texts(), budget=budgets, count=counters)
def test_unit_chunks_are_numbered_and_named_after_their_unit(
    body: str, budget: int, count: TokenCounter
) -> None:
    chunks = chunk_unit(VERSION, UNIT, body, budget, count)
    assert [chunk.chunk_index for chunk in chunks] == list(range(len(chunks)))
    assert {(c.logical_unit_id, c.unit_version_id, c.total_chunks) for c in chunks} <= {
        (UNIT, VERSION, len(chunks))
    }


@given(body=nasty_texts(), budget=budgets)
def test_unit_chunks_of_prepared_text_are_prepared_text(body: str, budget: int) -> None:
    """Cutting NFC text on grapheme borders leaves NFC text, so what is embedded is what is stored."""
    for chunk in chunk_unit(VERSION, UNIT, prepare_text(body), budget, len):
        assert unicodedata.is_normalized("NFC", chunk.span.text)


def long_texts() -> st.SearchStrategy[str]:
    """Texts of several legacy windows: a nasty text repeated, words between or none."""
    return st.builds(
        lambda piece, separator, length: (separator.join([piece] * (length // max(len(piece), 1) + 1)))[:length],
        nasty_texts(max_pieces=8),
        st.sampled_from(["", " ", "\n\n", "\u200d", "\u0301"]),
        st.integers(min_value=1, max_value=14_000),
    )  # fmt: skip


@given(body=nasty_texts() | long_texts())
def test_document_chunks_pass_the_same_proof(body: str) -> None:
    spans = spans_of(chunk_document(DOCUMENT, 3, body))
    verify_chunks(body, spans, DOCUMENT_CHUNK_CHARS, len, DOCUMENT_OVERLAP_CHARS)


@given(body=long_texts())
def test_document_chunks_advance_by_at_least_the_overlap(body: str) -> None:
    """Otherwise a hostile text would explode into as many chunks as it has characters."""
    assert len(chunk_document(DOCUMENT, 3, body)) <= 2 + len(body) // DOCUMENT_OVERLAP_CHARS


@given(body=nasty_texts() | long_texts())
def test_document_chunks_are_numbered_and_named_after_their_document(body: str) -> None:
    chunks = chunk_document(DOCUMENT, 3, body)
    assert [chunk.chunk_index for chunk in chunks] == list(range(len(chunks)))
    assert {(c.document_id, c.revision, c.total_chunks) for c in chunks} <= {
        (DOCUMENT, 3, len(chunks))
    }


@given(title=nasty_texts(), budget=budgets, count=counters)
def test_a_clipped_title_is_a_beginning_that_fits(
    title: str, budget: int, count: TokenCounter
) -> None:
    clipped = clip_title(title, budget, count)
    assert title.strip().startswith(clipped)
    assert not clipped or count(clipped) <= budget


@given(title=nasty_texts(), body=nasty_texts(), max_tokens=st.integers(40, 200), count=counters)
def test_the_embedded_text_fits_the_model_and_ends_with_the_chunk(
    title: str, body: str, max_tokens: int, count: TokenCounter
) -> None:
    for chunk in chunk_unit(VERSION, UNIT, body, max_tokens * 3 // 4, count):
        text = embedding_text(title, chunk.span.text, count, max_tokens)
        assert count(text) <= max_tokens
        assert text.endswith(chunk.span.text)


@given(body=nasty_texts(), budget=budgets, data=st.data())
def test_the_proof_finds_any_single_damage(body: str, budget: int, data: st.DataObject) -> None:
    """Damage done to a sound cut (a span dropped, doubled, moved, altered) never passes."""
    spans = spans_of(chunk_unit(VERSION, UNIT, body, budget, len))
    assume(len(spans) > 0)
    at = data.draw(st.integers(0, len(spans) - 1))
    victim = spans[at]
    damaged = {
        "dropped": [],
        "doubled": [victim, victim],
        "moved": [TextSpan(victim.text, victim.char_start + 1, victim.char_end + 1)],
        "renamed": [TextSpan(victim.text + "x", victim.char_start, victim.char_end)],
        "followed by nothing": [victim, TextSpan("", victim.char_end, victim.char_end)],
    }
    spans[at : at + 1] = damaged[data.draw(st.sampled_from(sorted(damaged)))]
    with pytest.raises(ChunkBoundaryError):
        verify_chunks(body, spans, budget, len)


@given(title=nasty_texts(), piece=nasty_texts(), repeats=st.integers(1, 60))
def test_the_embedded_text_fits_the_real_model(
    title: str, piece: str, repeats: int, embedder: Embedder
) -> None:
    body = prepare_text(piece * repeats)

    def count(text: str) -> int:
        return embedder.count_tokens([text])[0]

    for chunk in chunk_unit(VERSION, UNIT, body, CHUNK_BUDGET_TOKENS, count):
        text = embedding_text(title * 5, chunk.span.text, count)
        assert count(text) <= embedder.space.max_tokens


@pytest.mark.slow
def test_real_nasty_files_are_cut_soundly_by_both_chunkers(embedder: Embedder) -> None:
    if not NASTY.is_dir():
        pytest.skip("the nasty files are not beside the repository (../shared/data/nasty)")

    def count(text: str) -> int:
        return embedder.count_tokens([text])[0]

    for path in sorted(NASTY.iterdir()):
        body = prepare_text(path.read_bytes().decode("utf-8", "replace"))
        unit_spans = spans_of(chunk_unit(VERSION, UNIT, body, CHUNK_BUDGET_TOKENS, count))
        verify_chunks(body, unit_spans, CHUNK_BUDGET_TOKENS, count)
        assert "".join(span.text for span in unit_spans) == body, path.name
        document_spans = spans_of(chunk_document(DOCUMENT, 1, body))
        verify_chunks(body, document_spans, DOCUMENT_CHUNK_CHARS, len, DOCUMENT_OVERLAP_CHARS)
