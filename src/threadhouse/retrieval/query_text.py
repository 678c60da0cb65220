"""What a question is before anything is searched with it.

Belongs here: the language it is written in, whether it carries marks, its vectors.
Does not belong here: preparation shared with stored text (text), weights that depend on the language (fusion).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from threadhouse.retrieval.bm25 import TermForm, query_vector
from threadhouse.retrieval.errors import EmptyTextError, QueryTooLongError
from threadhouse.retrieval.models import SparseVector, Vectors
from threadhouse.retrieval.text import has_marks, is_blank, prepare_text

MAX_QUERY_CHARS = 2_000
"""A question, not a document: the default model reads about this much, and everything beyond it would be cut in silence."""


class QueryLanguage(StrEnum):
    """The language of a question, as far as it decides how scores are fused."""

    VIETNAMESE = "vi"
    VIETNAMESE_UNMARKED = "vi-unmarked"
    ENGLISH = "en"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A question ready to be searched with. ``text`` is NFC; ``vector`` has shape (1, dim)."""

    text: str
    language: QueryLanguage
    vector: Vectors
    bm25_accented: SparseVector
    bm25_folded: SparseVector


def prepare_query(text: str, embed: Callable[[str], Vectors]) -> PreparedQuery:
    """Prepare, recognise and embed a question.

    Args:
        embed: ``Embedder.embed_query``; called once, with the prepared text.

    Raises:
        EmptyTextError: Nothing is left after preparation.
        QueryTooLongError: More than MAX_QUERY_CHARS characters.
    """
    prepared = prepare_text(text)
    if is_blank(prepared):
        message = "The question is empty; ask with at least one word."
        raise EmptyTextError(message)
    if len(prepared) > MAX_QUERY_CHARS:
        message = (
            f"The question has {len(prepared):,} characters; ask with at most {MAX_QUERY_CHARS:,}."
        )
        raise QueryTooLongError(message)
    return PreparedQuery(
        text=prepared,
        language=detect_language(prepared),
        vector=embed(prepared),
        bm25_accented=query_vector(prepared, TermForm.ACCENTED),
        bm25_folded=query_vector(prepared, TermForm.FOLDED),
    )


def detect_language(prepared: str) -> QueryLanguage:
    """The language of a prepared text."""
    return QueryLanguage.VIETNAMESE if has_marks(prepared) else QueryLanguage.ENGLISH
