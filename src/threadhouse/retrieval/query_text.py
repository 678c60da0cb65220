"""What a question is before anything is searched with it.

Belongs here: the language it is written in, whether it carries marks, its vectors.
Does not belong here: preparation shared with stored text (text), weights that depend on the language (fusion).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import regex

from threadhouse.retrieval.bm25 import PAIR_WEIGHT, TermForm, query_vector
from threadhouse.retrieval.errors import EmptyTextError, QueryTooLongError
from threadhouse.retrieval.models import SparseVector, Vectors
from threadhouse.retrieval.query_centres import take_common_part
from threadhouse.retrieval.text import fold, has_marks, is_blank, prepare_text

MAX_QUERY_CHARS = 2_000
"""A question, not a document: the default model reads about this much, and everything beyond it would be cut in silence."""


VIETNAMESE_SHARE = 0.5
"""A question of which more words than this have the shape of a Vietnamese syllable is Vietnamese.

Of 1,190 English questions none has more; of their Vietnamese translations, marks stripped, 99.4 % have."""

# Every onset and every rime of Vietnamese, folded.
_SYLLABLE = regex.compile(
    r"""
    (?: b|ch|c|d|gh|gi|g|h|kh|k|l|m|ngh|ng|nh|n|ph|qu|r|s|th|tr|t|v|x )?
    (?: a|ac|ach|ai|am|an|ang|anh|ao|ap|at|au|ay
      | e|ec|ech|em|en|eng|enh|eo|ep|et|eu
      | i|ia|ich|iec|iem|ien|ieng|iep|iet|ieu|im|in|inh|ip|it|iu
      | o|oa|oac|oach|oai|oam|oan|oang|oanh|oao|oat|oay|oc|oe|oen|oeo|oet|oi|om|on|ong|ooc|oong|op|ot
      | u|ua|uan|uang|uat|uay|uc|ue|uech|uen|uenh|uet|ui|um|un|ung|uo|uoc|uoi|uom|uon|uong|uop|uot|uou|up|ut|uu
      | uy|uya|uych|uyen|uyet|uyn|uynh|uyt|uyu
      | y|yem|yen|yet|yeu|yt )
    """,
    regex.VERBOSE,
)
_WORD = regex.compile(r"[^\W\d_]+")
_TERM = regex.compile(r"\w+")

ENGLISH_PAIR_WEIGHT = 0.0
"""Pairs of words cost English questions .007 of MRR@10 at the weight that Vietnamese ones gain by, and gain nothing at any."""


class QueryLanguage(StrEnum):
    """The language of a question, as far as it decides how scores are fused."""

    VIETNAMESE = "vi"
    VIETNAMESE_UNMARKED = "vi-unmarked"
    ENGLISH = "en"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A question ready to be searched with. ``text`` is NFC; ``vector`` has shape (1, dim), see `query_centres`."""

    text: str
    language: QueryLanguage
    vector: Vectors
    bm25_accented: SparseVector
    bm25_folded: SparseVector
    bm25_names: SparseVector = field(default_factory=SparseVector)
    """Folded terms that survive translation (`name_words`): what BM25 can match in a text of another language."""


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
    language = detect_language(prepared)
    pair_weight = ENGLISH_PAIR_WEIGHT if language is QueryLanguage.ENGLISH else PAIR_WEIGHT
    names = " ".join(name_words(prepared, language))
    return PreparedQuery(
        text=prepared,
        language=language,
        vector=take_common_part(embed(prepared), language),
        bm25_accented=query_vector(prepared, TermForm.ACCENTED, pair_weight=pair_weight),
        bm25_folded=query_vector(prepared, TermForm.FOLDED, pair_weight=pair_weight),
        bm25_names=query_vector(names, TermForm.FOLDED, pair_weight=0),
    )


def detect_language(prepared: str) -> QueryLanguage:
    """The language of a prepared question, from the shape of its words alone.

    A Vietnamese word is one syllable of a small grammar, and it keeps that shape without its marks; few English words have it.
    Names have no shape of their own, so a question that is little but a name may be taken for English: its words are then
    matched with marks kept, which is how names are written anyway. Measured on 1,190 pairs of questions, marks stripped from the
    Vietnamese ones: docs/search.md.

    Example:
        >>> [str(detect_language(text)) for text in ("Nghỉ phép năm", "nghi phep nam", "annual leave in São Paulo")]
        ['vi', 'vi-unmarked', 'en']
    """
    words = _WORD.findall(prepared.lower())
    if not words:
        return QueryLanguage.MIXED
    shaped = [word for word in words if _SYLLABLE.fullmatch(fold(word))]
    share = len(shaped) / len(words)
    marked = sum(has_marks(word) for word in shaped)
    if share > VIETNAMESE_SHARE:
        return QueryLanguage.VIETNAMESE if marked else QueryLanguage.VIETNAMESE_UNMARKED
    # One marked word in an English question is a name (São Paulo, Đà Nẵng would be two); two are a language.
    return QueryLanguage.MIXED if marked > 1 else QueryLanguage.ENGLISH


def name_words(prepared: str, language: QueryLanguage) -> list[str]:
    """Words that read the same in another language: numbers, and names.

    A name shows by its shape in a Vietnamese question (no syllable), by its capital in any other; the first word of a sentence
    has a capital anyway and does not count.

    Example:
        >>> name_words("Luke Kuechly đã có bao nhiêu cú húc năm 2015?", QueryLanguage.VIETNAMESE)
        ['Luke', 'Kuechly', '2015']
    """
    vietnamese = language in (QueryLanguage.VIETNAMESE, QueryLanguage.VIETNAMESE_UNMARKED)
    return [match[0] for match in _TERM.finditer(prepared) if _is_name(match, vietnamese)]


def _is_name(match: regex.Match[str], vietnamese: bool) -> bool:
    word = match[0]
    if any(character.isdigit() for character in word):
        return True
    if vietnamese:
        return not _SYLLABLE.fullmatch(fold(word))
    return match.start() > 0 and word[0].isupper()
