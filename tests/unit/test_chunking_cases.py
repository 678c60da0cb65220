"""Single cuts worth naming: where borders fall, what the last resorts do, what the proof says.

Belongs here: one case per rule, and the frozen answers that guard the version constants.
Does not belong here: what must hold for every text (tests/property/test_chunking.py).
"""

from __future__ import annotations

import hashlib
from uuid import UUID

import pytest

from threadhouse.retrieval.chunking import (
    DOCUMENT_CHUNKER_VERSION,
    UNIT_CHUNKER_VERSION,
    chunk_document,
    chunk_unit,
    clip_title,
    embedding_text,
    verify_chunks,
)
from threadhouse.retrieval.errors import ChunkBoundaryError
from threadhouse.retrieval.models import DocumentId, TextSpan, UnitId, UnitVersionId

VERSION = UnitVersionId(UUID(int=1))
UNIT = UnitId("unit-1")
DOCUMENT = DocumentId("document-1")
FAMILY = "👩‍👩‍👧‍👦"  # one grapheme cluster of seven code points
THAI_AM = "\u0d4e\u0e33"  # a cluster of two that the splitter's word borders tear


def cut(body: str, budget: int) -> list[str]:
    return [chunk.span.text for chunk in chunk_unit(VERSION, UNIT, body, budget, len)]


@pytest.mark.parametrize(
    ("body", "budget", "chunks"),
    [
        pytest.param("one two", 7, ["one two"], id="a body that fits is one chunk"),
        pytest.param(" one \n", 6, [" one \n"], id="and keeps its whitespace"),
        pytest.param(
            "Một. Hai.\n\nBa. Bốn.", 14, ["Một. Hai.\n\n", "Ba. Bốn."], id="paragraph first"
        ),
        pytest.param("Một hai. Ba bốn.", 12, ["Một hai. ", "Ba bốn."], id="then sentence"),
        pytest.param("một hai ba", 8, ["một hai ", "ba"], id="then word"),
        pytest.param("abcdefgh", 3, ["abc", "def", "gh"], id="then grapheme"),
        pytest.param(FAMILY * 2, 10, [FAMILY, FAMILY], id="an emoji family stays together"),
        pytest.param("🇻🇳🇻🇳🇻🇳", 3, ["🇻🇳"] * 3, id="a flag is not torn"),
        pytest.param("a\r\nb\r\nc", 2, ["a", "b", "c"], id="nor a line break"),
        pytest.param("e\u0323\u0302" * 3, 4, ["e\u0323\u0302"] * 3, id="nor decomposed ệ"),
        pytest.param(THAI_AM * 2, 2, [THAI_AM] * 2, id="nor what the splitter would tear"),
        pytest.param("", 5, [], id="an empty body has no chunk"),
        pytest.param(" \u200b\n\t", 2, [], id="nor has a blank one"),
        pytest.param(
            "a" + " " * 9 + "b", 3, ["a", "b"], id="whitespace over the budget is left out"
        ),
    ],
)
def test_unit_cuts(body: str, budget: int, chunks: list[str]) -> None:
    assert cut(body, budget) == chunks


def test_a_cluster_over_the_budget_is_cut_between_code_points() -> None:
    zalgo = "a" + "\u0301" * 11
    chunks = cut(zalgo, 4)
    assert "".join(chunks) == zalgo
    assert max(map(len, chunks)) <= 4


def test_a_piece_that_grew_over_the_budget_is_halved_on_a_grapheme_border() -> None:
    """The splitter cuts this script between code points; cuts moved back leave pieces of nine."""
    cluster = "\u0d4e\u0d4e\u0e33"
    assert cut(cluster * 6, 8) == [cluster * 2, cluster, cluster * 2, cluster]


def test_a_budget_below_one_character_is_an_error_that_names_the_character() -> None:
    with pytest.raises(ChunkBoundaryError, match=r"U\+0111 has 5 tokens where 4"):
        chunk_unit(VERSION, UNIT, "đđ", 4, lambda text: 5 * len(text))


def test_one_line_of_a_megabyte_is_cut_like_any_other() -> None:
    body = "x" * 1_000_000
    verify_chunks(body, [c.span for c in chunk_unit(VERSION, UNIT, body, 5_000, len)], 5_000, len)


def document_bounds(body: str) -> list[tuple[int, int]]:
    return [
        (chunk.span.char_start, chunk.span.char_end) for chunk in chunk_document(DOCUMENT, 1, body)
    ]


@pytest.mark.parametrize(
    ("body", "bounds"),
    [
        pytest.param("x" * 4_000, [(0, 4_000)], id="what fits is one chunk"),
        pytest.param("x" * 4_001, [(0, 4_000), (3_600, 4_001)], id="400 are shared"),
        pytest.param("word " * 1_000, [(0, 4_000), (3_600, 5_000)], id="words are whole"),
        pytest.param(
            "x" * 3_999 + FAMILY + "y", [(0, 3_999), (3_599, 4_007)], id="so are clusters"
        ),
        pytest.param(
            "x" * 100 + "a" + "\u0301" * 3_999 + "y",
            [(0, 100), (100, 4_100), (4_100, 4_101)],
            id="even one that fills a chunk",
        ),
        pytest.param(
            "a" + "\u0301" * 4_999, [(0, 4_000), (4_000, 5_000)], id="a larger one is cut"
        ),
        pytest.param(
            "x" * 3_900 + " \u0301" + "y" * 500,
            [(0, 4_000), (3_600, 4_402)],
            id="a space that carries a mark ends no word",
        ),
        pytest.param(
            "x" + " " * 9_000 + "y", [(0, 4_000), (7_200, 9_002)], id="blanks are left out"
        ),
        pytest.param("", [], id="an empty document has no chunk"),
    ],
)
def test_document_cuts(body: str, bounds: list[tuple[int, int]]) -> None:
    assert document_bounds(body) == bounds


def spans(body: str, *bounds: tuple[int, int]) -> list[TextSpan]:
    return [TextSpan(body[start:end], start, end) for start, end in bounds]


@pytest.mark.parametrize(
    ("bounds", "complaint"),
    [
        pytest.param([(0, 4), (4, 4), (4, 8)], "is empty or outside", id="empty"),
        pytest.param([(0, 4), (4, 9)], "is empty or outside", id="outside"),
        pytest.param([(4, 8), (0, 4)], "leaves out visible text from 0", id="late start"),
        pytest.param([(0, 6), (2, 4), (4, 8)], "is out of order", id="inside its neighbour"),
        pytest.param([(0, 4), (0, 4), (4, 8)], "is out of order", id="twice"),
        pytest.param([(0, 4), (2, 8)], "repeats 2 characters where 1", id="overlap"),
        pytest.param([(0, 3), (4, 8)], "leaves out visible text from 3", id="gap"),
        pytest.param([(0, 4)], "from 4 to its end at 8 is in no chunk", id="missing end"),
        pytest.param([], "from 0 to its end at 8 is in no chunk", id="nothing"),
        pytest.param([(0, 8)], "measures 8 where 6", id="over budget"),
    ],
)
def test_the_proof_names_the_fault(bounds: list[tuple[int, int]], complaint: str) -> None:
    body = "abcdefgh"
    with pytest.raises(ChunkBoundaryError, match=complaint):
        verify_chunks(body, spans(body, *bounds), 6, len, max_overlap_chars=1)


def test_the_proof_refuses_a_text_that_is_not_the_slice() -> None:
    with pytest.raises(ChunkBoundaryError, match="is not the slice"):
        verify_chunks("abc", [TextSpan("abd", 0, 3)], 9, len)


def test_the_proof_refuses_a_blank_chunk() -> None:
    body = "ab  \u200b  cd"
    with pytest.raises(ChunkBoundaryError, match="shows nothing"):
        verify_chunks(body, spans(body, (0, 2), (2, 7), (7, 9)), 9, len)


@pytest.mark.parametrize("torn", [1, 2])
def test_the_proof_refuses_a_torn_grapheme_that_would_have_fitted(torn: int) -> None:
    body = "e\u0323\u0302x"
    with pytest.raises(ChunkBoundaryError, match=r"tears the grapheme cluster \[0:3\]"):
        verify_chunks(body, spans(body, (0, torn), (torn, 4)), 3, len)


def test_the_proof_accepts_a_torn_grapheme_that_could_not_fit() -> None:
    body = "e\u0323\u0302x"
    verify_chunks(body, spans(body, (0, 2), (2, 4)), 2, len)


def test_the_proof_accepts_blank_text_outside_all_chunks() -> None:
    verify_chunks(" ab \u200b cd\n", spans(" ab \u200b cd\n", (1, 3), (6, 8)), 9, len)


def count_words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    ("title", "budget", "clipped"),
    [
        pytest.param("Nghị định", 9, "Nghị định", id="a title that fits"),
        pytest.param(" Nghị định ", 9, "Nghị định", id="loses its margins"),
        pytest.param("Nghị định về", 11, "Nghị định", id="ends after a word"),
        pytest.param("Nghị định", 4, "Nghị", id="also when the cut is at its end"),
        pytest.param("ab Nghịđịnhvề", 9, "ab Nghịđị", id="unless that costs too much"),
        pytest.param("労働基準法施行規則", 4, "労働基準", id="or there are no words"),
        pytest.param(FAMILY * 2, 10, FAMILY, id="whole graphemes"),
        pytest.param(FAMILY, 3, "", id="nothing when none fits"),
        pytest.param("", 3, "", id="no title"),
    ],
)
def test_titles_are_clipped(title: str, budget: int, clipped: str) -> None:
    assert clip_title(title, budget, len) == clipped


def test_a_title_is_not_clipped_to_words_when_that_has_more_tokens() -> None:
    """Half a word may be one token where the space before it makes two."""

    def count(text: str) -> int:
        return 99 if text == "một hai bốn" else len(text)

    assert clip_title("một hai bốn namx", 13, count) == "một hai bốn n"


def test_a_title_keeps_its_last_space_when_it_would_not_fit_without() -> None:
    def count(text: str) -> int:
        return 99 if text == "một hai" else len(text)

    assert clip_title("một hai  bốn năm", 8, count) == "một hai "


def test_the_title_gives_way_when_the_joined_text_is_too_long() -> None:
    """Ten tokens appear at the seam, as they may with tokenizers that join across a line break."""

    def count(text: str) -> int:
        return count_words(text) + (10 if "\n" in text else 0)

    title = " ".join(["tên"] * 20)
    text = embedding_text(title, " ".join(["chữ"] * 30), count, max_tokens=46)
    assert count(text) <= 46
    assert text.startswith("tên tên\n") or text.startswith("tên tên tên\n")


def test_without_a_title_the_chunk_is_embedded_alone() -> None:
    assert embedding_text("  ", "chữ", count_words) == "chữ"


def test_a_chunk_over_the_models_input_is_refused() -> None:
    with pytest.raises(ChunkBoundaryError, match="4 tokens does not fit a model of 3"):
        embedding_text("tên", "a b c d", count_words, max_tokens=3)


FROZEN_BODY = (
    "Điều 1. Phạm vi điều chỉnh\n\n1. Luật này quy định về lao động. Người lao động được hưởng "
    f"lương.\r\n2. Trẻ em: {FAMILY} và 🇻🇳 e\u0323\u0302.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
) * 40


def test_unit_cuts_change_only_with_their_version() -> None:
    """Another answer for the same text needs another version, or stored chunks would go stale unseen."""
    bounds = [
        (chunk.span.char_start, chunk.span.char_end)
        for chunk in chunk_unit(VERSION, UNIT, FROZEN_BODY, 97, len)
    ]
    digest = hashlib.sha256(repr(bounds).encode()).hexdigest()[:16]
    assert (UNIT_CHUNKER_VERSION, digest) == ("unit-chunks-2", "2bcb970d659b5d4e")


def test_document_cuts_change_only_with_their_version() -> None:
    digest = hashlib.sha256(repr(document_bounds(FROZEN_BODY)).encode()).hexdigest()[:16]
    assert (DOCUMENT_CHUNKER_VERSION, digest) == ("document-chunks-1", "a5611a05d78f63df")


def test_an_endless_word_is_cut_and_joins_back() -> None:
    """Encoded data of 300,000 characters; the splitter alone would search for minutes."""
    body = "Khoá công khai: " + "QUJDREVGR0hJSktMTU5P" * 15_000 + " hết."
    chunks = chunk_unit(VERSION, UNIT, body, 400, lambda text: 2 + len(text) // 3)
    assert "".join(chunk.span.text for chunk in chunks) == body
    verify_chunks(body, [c.span for c in chunks], 400, lambda text: 2 + len(text) // 3)
