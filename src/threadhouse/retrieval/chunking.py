"""How a text is cut into chunks, and the proof that a cut is sound.

Belongs here: the unit chunker, the legacy chunker, the text embedded for a chunk, `verify_chunks`.
Does not belong here: tokenizers (the caller passes a function that counts), grapheme rules
(retrieval.text), payloads, point ids.

A chunk is an exact slice, ``body[char_start:char_end]``; offsets count code points. The chunks of a
body are in order and leave out nothing that a person could see: only blank stretches (whitespace,
control and zero-width characters) may lie outside, and only where they would have been a chunk of
their own. Unit chunks never overlap; joined they are the whole body unless such a stretch was left
out. No cut tears a grapheme cluster, save as the last resort: a single cluster larger than the
whole budget ("zalgo" text) is cut between code points.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TypeAlias

import regex
from semantic_text_splitter import TextSplitter

from threadhouse.retrieval.errors import ChunkBoundaryError
from threadhouse.retrieval.models import (
    DocumentChunk,
    DocumentId,
    TextSpan,
    UnitChunk,
    UnitId,
    UnitVersionId,
)
from threadhouse.retrieval.text import grapheme_borders, last_border_before

UNIT_CHUNKER_VERSION = "unit-chunks-2"
"""Changes when `chunk_unit` or `embedding_text` would answer differently for any input."""

DOCUMENT_CHUNKER_VERSION = "document-chunks-1"
"""Changes when `chunk_document` would answer differently for any input."""

EMBEDDING_MAX_TOKENS = 512
"""Input size of the default model, which the two budgets below were chosen for."""

CHUNK_BUDGET_TOKENS = 400
"""Largest unit chunk, prefix and special tokens included.

With 80 for the title this leaves 32 of 512: a joined text can have more tokens than its parts."""

TITLE_BUDGET_TOKENS = 80
"""Longest embedded beginning of a title, prefix and special tokens included."""

DOCUMENT_CHUNK_CHARS = 4_000
"""Largest legacy chunk; what the legacy collection has always used."""

DOCUMENT_OVERLAP_CHARS = 400
"""Longest stretch that neighbouring legacy chunks share; what that collection has always used."""

UNBROKEN_PIECE_CHARS = 2_000
"""Pieces that a word without any whitespace is cut into before the splitter sees it.

No word of a language is that long, only encoded data. The splitter's time grows with the square of such a word: 0.9 s for
100,000 characters, 3.7 s for 200,000."""

_UNBROKEN = regex.compile(rf"\S{{{2 * UNBROKEN_PIECE_CHARS},}}")

TokenCounter: TypeAlias = Callable[[str], int]
"""Tokens of one text as the embedder sees it: prefix and special tokens included, never capped.

A plain function and not a tokenizer object, so that the rules need no tokenizer library. Measured
on Vietnamese law text, the splitter is 1.2 to 1.3 times slower through it (2.3 microseconds a
character instead of 1.8), which is about one fortieth of what embedding the same text takes."""

# What a person sees. Combining marks and unassigned characters (emoji of the future) count as seen.
_VISIBLE = regex.compile(r"[^\s\p{Z}\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]")
_WORD_START = regex.compile(r"(?<=\s)(?=\S)")


def is_blank(text: str) -> bool:
    r"""Whether ``text`` shows nothing: empty, or only whitespace, control and zero-width characters.

    Example:
        >>> is_blank(" \u200b\n"), is_blank("\u0301")
        (True, False)
    """
    return _VISIBLE.search(text) is None


def budgets_for(max_tokens: int) -> tuple[int, int]:
    """Title and chunk budget for a model of any input size: the constants, scaled down below 512.

    Args:
        max_tokens: Input size of the model, prefix and special tokens included.

    Returns:
        (title_budget_tokens, chunk_budget_tokens).

    Example:
        >>> budgets_for(512), budgets_for(8192), budgets_for(128)
        ((80, 400), (80, 400), (20, 100))
    """
    size = min(max_tokens, EMBEDDING_MAX_TOKENS)
    return (
        TITLE_BUDGET_TOKENS * size // EMBEDDING_MAX_TOKENS,
        CHUNK_BUDGET_TOKENS * size // EMBEDDING_MAX_TOKENS,
    )


def chunk_unit(
    unit_version_id: UnitVersionId,
    logical_unit_id: UnitId,
    body: str,
    budget_tokens: int,
    count_tokens: TokenCounter,
) -> tuple[UnitChunk, ...]:
    """Cut one version of one unit into chunks that fit the embedder.

    Cuts fall on the coarsest border that fits: paragraph, line, sentence, word, grapheme. A body
    that fits is one chunk.

    Args:
        unit_version_id: The version that ``body`` is the text of.
        logical_unit_id: The unit of that version.
        body: NFC, valid Unicode.
        budget_tokens: Largest count a chunk may have; see `budgets_for`.
        count_tokens: Deterministic; see `TokenCounter`.

    Returns:
        Chunks in order, ``chunk_index`` 0 to n-1; none for a blank body.

    Raises:
        ChunkBoundaryError: A single character already exceeds the budget.
    """
    # The steps below ask for the same texts again; one call's probes are a few times its body.
    count = cache(count_tokens)
    spans = _split_to_budget(body, budget_tokens, count)
    return tuple(
        UnitChunk(
            logical_unit_id=logical_unit_id,
            unit_version_id=unit_version_id,
            span=span,
            chunk_index=index,
            total_chunks=len(spans),
            token_count=count(span.text),
        )
        for index, span in enumerate(spans)
    )


def chunk_document(document_id: DocumentId, revision: int, body: str) -> tuple[DocumentChunk, ...]:
    """Cut a legacy document into chunks of about 4,000 characters that share about 400.

    Blind to units, on purpose: this is what the legacy collection holds until a document's units
    are migrated. Where words are separated by whitespace none is torn.

    Args:
        document_id: The document that ``body`` is the text of.
        revision: Its revision.
        body: NFC, valid Unicode.

    Returns:
        Chunks in order, ``chunk_index`` 0 to n-1; none for a blank body.
    """
    spans = [span for span in _overlapping_spans(body) if not is_blank(span.text)]
    return tuple(
        DocumentChunk(
            document_id=document_id,
            revision=revision,
            span=span,
            chunk_index=index,
            total_chunks=len(spans),
        )
        for index, span in enumerate(spans)
    )


def clip_title(title: str, budget_tokens: int, count_tokens: TokenCounter) -> str:
    """The longest beginning of a title that fits the budget, in whole graphemes; empty when none.

    Ends on a word border when that costs at most a third of what fits.
    """
    title = title.strip()
    if not title or count_tokens(title) <= budget_tokens:
        return title
    borders = grapheme_borders(title)
    fits, too_long = 0, len(borders) - 1
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if count_tokens(title[: borders[middle]]) <= budget_tokens:
            fits = middle
        else:
            too_long = middle
    clipped = title[: borders[fits]]
    candidates = [clipped.rstrip(), clipped]
    if not title[borders[fits]].isspace():
        whole_words = clipped.rpartition(" ")[0].rstrip()
        # Scripts without spaces: half a word loses less than most of the title.
        if 3 * len(whole_words) >= 2 * len(clipped):
            candidates.insert(0, whole_words)
    # Less text is not always fewer tokens; the last candidate is known to fit.
    return next((text for text in candidates if count_tokens(text) <= budget_tokens), clipped)


def embedding_text(
    title: str,
    chunk_text: str,
    count_tokens: TokenCounter,
    max_tokens: int = EMBEDDING_MAX_TOKENS,
) -> str:
    r"""The text that is embedded for a chunk: its unit's title, a line break, the chunk.

    The title goes in because a chunk from the middle of an article does not say what the article is
    about. It is clipped because models drop what is over their limit in silence, and what they drop
    is the end: the chunk. The chunk is never touched; when the joined text is still too long, the
    title gives way.

    Args:
        title: May be empty.
        chunk_text: Cut with the chunk budget of ``budgets_for(max_tokens)``.
        count_tokens: See `TokenCounter`.
        max_tokens: Input size of the model.

    Returns:
        A text of at most ``max_tokens`` tokens.

    Raises:
        ChunkBoundaryError: The chunk alone is over ``max_tokens``.

    Example:
        >>> embedding_text("Leave", "Twelve days a year.", lambda text: len(text.split()))
        'Leave\nTwelve days a year.'
    """
    title_budget, _ = budgets_for(max_tokens)
    while clipped := clip_title(title, title_budget, count_tokens):
        joined = f"{clipped}\n{chunk_text}"
        if count_tokens(joined) <= max_tokens:
            return joined
        title, title_budget = clipped, title_budget // 2
    chunk_tokens = count_tokens(chunk_text)
    if chunk_tokens > max_tokens:
        raise ChunkBoundaryError(
            f"A chunk of {chunk_tokens} tokens does not fit a model of {max_tokens}; "
            "cut its unit again with this model's budget."
        )
    return chunk_text


def verify_chunks(
    body: str,
    spans: Sequence[TextSpan],
    budget: int,
    measure: Callable[[str], int],
    max_overlap_chars: int = 0,
) -> None:
    """Prove that ``spans`` are a sound cut of ``body``, or say which span is not and why.

    Sound: exact slices, in order, none blank, none over its budget, nothing visible left out, no
    overlap beyond the allowed one, no grapheme cluster torn unless it exceeds the budget by itself.

    Args:
        body: The whole text.
        spans: What is claimed to be its cut, in the order of ``chunk_index``.
        budget: Largest ``measure`` of a span: tokens of a unit chunk, characters of a legacy chunk.
        measure: What ``budget`` counts; ``len`` for characters.
        max_overlap_chars: 0 for unit chunks, `DOCUMENT_OVERLAP_CHARS` for legacy ones.

    Raises:
        ChunkBoundaryError: Names the first span that breaks a rule.
    """
    inside = any(0 < cut < len(body) for span in spans for cut in (span.char_start, span.char_end))
    # Most texts are one chunk, and finding borders is most of what a proof costs.
    borders = grapheme_borders(body) if inside else [0, len(body)]
    covered_to = 0
    previous_start = -1
    for index, span in enumerate(spans):
        fault = (
            _fault_of_slice(body, span)
            or _fault_of_neighbours(body, span, previous_start, covered_to, max_overlap_chars)
            or _fault_of_size(span, budget, measure)
            or _fault_of_cut(body, borders, span.char_start, budget, measure)
            or _fault_of_cut(body, borders, span.char_end, budget, measure)
        )
        if fault:
            raise ChunkBoundaryError(
                f"Chunk {index} [{span.char_start}:{span.char_end}] {fault}; "
                "rebuild the chunks of this text."
            )
        covered_to, previous_start = span.char_end, span.char_start
    if not is_blank(body[covered_to:]):
        raise ChunkBoundaryError(
            f"The text from {covered_to} to its end at {len(body)} is in no chunk; "
            "rebuild the chunks of this text."
        )


def _fault_of_slice(body: str, span: TextSpan) -> str | None:
    if not 0 <= span.char_start < span.char_end <= len(body):
        return f"is empty or outside its text of {len(body)} characters"
    if body[span.char_start : span.char_end] != span.text:
        return "is not the slice of its text that it claims to be"
    if is_blank(span.text):
        return "shows nothing"
    return None


def _fault_of_neighbours(
    body: str, span: TextSpan, previous_start: int, covered_to: int, max_overlap_chars: int
) -> str | None:
    if span.char_start <= previous_start or span.char_end <= covered_to:
        return "is out of order"
    overlap = covered_to - span.char_start
    if overlap > max_overlap_chars:
        return f"repeats {overlap} characters where {max_overlap_chars} are allowed"
    if not is_blank(body[covered_to : span.char_start]):
        return f"leaves out visible text from {covered_to} on"
    return None


def _fault_of_size(span: TextSpan, budget: int, measure: Callable[[str], int]) -> str | None:
    size = measure(span.text)
    return f"measures {size} where {budget} is allowed" if size > budget else None


def _fault_of_cut(
    body: str, borders: list[int], cut: int, budget: int, measure: Callable[[str], int]
) -> str | None:
    cluster_start = last_border_before(borders, cut)
    if cluster_start == cut:
        return None
    cluster_end = borders[bisect_right(borders, cut)]
    if measure(body[cluster_start:cluster_end]) > budget:
        return None
    return f"tears the grapheme cluster [{cluster_start}:{cluster_end}]"


def _split_to_budget(body: str, budget_tokens: int, count_tokens: TokenCounter) -> list[TextSpan]:
    if is_blank(body):
        return []
    if count_tokens(body) <= budget_tokens:
        return [TextSpan(body, 0, len(body))]
    # A blank piece is a stretch of whitespace over the budget, for models that count whitespace at all.
    return [
        TextSpan(body[piece_start:piece_end], piece_start, piece_end)
        for start, end in pairwise(_preferred_cuts(body, budget_tokens, count_tokens))
        for piece_start, piece_end in _halve_until_fitting(
            body, start, end, budget_tokens, count_tokens
        )
        if not is_blank(body[piece_start:piece_end])
    ]


def _preferred_cuts(body: str, budget_tokens: int, count_tokens: TokenCounter) -> list[int]:
    """Offsets the splitter chose, moved back to grapheme borders; 0 and ``len(body)`` included.

    The splitter knows paragraphs, sentences and words, but it does cut clusters: one that is over
    the budget, and now and then one that spans a word border (Thai and Malayalam show it).
    """
    splitter = TextSplitter.from_callback(count_tokens, budget_tokens, trim=False)
    borders = grapheme_borders(body)
    forced = {
        last_border_before(borders, offset)
        for word in _UNBROKEN.finditer(body)
        for offset in range(word.start() + UNBROKEN_PIECE_CHARS, word.end(), UNBROKEN_PIECE_CHARS)
    }
    edges = sorted(forced | {0, len(body)})
    cuts = {
        last_border_before(borders, start + offset)
        for start, end in pairwise(edges)
        for offset, _ in splitter.chunk_indices(body[start:end])
    }
    return sorted(cuts | set(edges))


def _halve_until_fitting(
    body: str, start: int, end: int, budget_tokens: int, count_tokens: TokenCounter
) -> Iterator[tuple[int, int]]:
    """The piece itself when it fits, else its two halves, cut at a grapheme border near the middle.

    The splitter searches as if more text always had more tokens. A piece that it misjudged, or one
    that grew when its cut moved back, ends here; a cluster over the budget is halved between code
    points.
    """
    text = body[start:end]
    if count_tokens(text) <= budget_tokens:
        yield start, end
        return
    if len(text) == 1:
        raise ChunkBoundaryError(
            f"The single character U+{ord(text):04X} has {count_tokens(text)} tokens where "
            f"{budget_tokens} are allowed; raise the budget."
        )
    borders = grapheme_borders(text)
    half = len(text) // 2
    inner_borders = borders[1:-1]
    middle = start + (last_border_before(borders, half) or min(inner_borders, default=half))
    yield from _halve_until_fitting(body, start, middle, budget_tokens, count_tokens)
    yield from _halve_until_fitting(body, middle, end, budget_tokens, count_tokens)


def _overlapping_spans(body: str) -> Iterator[TextSpan]:
    """Windows that together are the whole body."""
    borders = grapheme_borders(body)
    start = 0
    while start < len(body):
        end = _window_end(body, start, borders)
        yield TextSpan(body[start:end], start, end)
        start = end if end == len(body) else _next_window_start(body, start, end, borders)


def _window_end(body: str, start: int, borders: list[int]) -> int:
    """The last word start of the window's final 400 characters, else its last grapheme border."""
    limit = start + DOCUMENT_CHUNK_CHARS
    if limit >= len(body):
        return len(body)
    grapheme_end = last_border_before(borders, limit)
    if grapheme_end <= start:
        return limit
    earliest = max(grapheme_end - DOCUMENT_OVERLAP_CHARS, start + 1)
    return max(_word_starts(body, earliest, grapheme_end, borders), default=grapheme_end)


def _next_window_start(body: str, start: int, end: int, borders: list[int]) -> int:
    """The first word start of the last 400 characters, else their first grapheme border."""
    if end - start <= 2 * DOCUMENT_OVERLAP_CHARS:
        # Cut short by a huge cluster; an overlap would only repeat the little there is.
        return end
    earliest = end - DOCUMENT_OVERLAP_CHARS
    grapheme_start = min(borders[bisect_left(borders, earliest)], end)
    return min(_word_starts(body, earliest, end - 1, borders), default=grapheme_start)


def _word_starts(body: str, earliest: int, latest: int, borders: list[int]) -> list[int]:
    """Offsets in [earliest, latest] at which a word follows whitespace and no cluster is torn."""
    found = (match.start() for match in _WORD_START.finditer(body, earliest, latest + 1))
    return [start for start in found if last_border_before(borders, start) == start]
