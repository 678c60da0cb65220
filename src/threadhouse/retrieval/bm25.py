"""BM25 as sparse vectors, in two forms: accents kept, and folded.

Belongs here: what a term is, its number, its weight in a document and in a query.
Does not belong here: inverse document frequency (the vector engine's IDF modifier adds it at query time), fusion.

fastembed's ``Qdrant/bm25`` was the first candidate. It needs stop-word files from a hub, knows no Vietnamese (its snowball
stemmers and stop words are per language, one language an instance) and has no folded form, so these few lines are our own.
The formula and the hash are the same as there.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise

import mmh3
import regex

from threadhouse.retrieval.models import SparseVector
from threadhouse.retrieval.text import fold, prepare_text, unify_tone_placement

K1 = 0.9
"""Saturation of repeated terms; short passages favour little."""
B = 0.6
"""How much a long text is marked down: pairs of words make long texts match more. 0.4 found .008 less for headings of law."""
AVERAGE_TERMS = 180
"""Length of an average text in terms: Vietnamese paragraphs measured 175, English 127, law articles 234.

A constant, so that a text's vector never depends on its neighbours: a true average would change every stored vector
with every insert.
"""

PAIR_WEIGHT = 0.5
"""What a pair of neighbouring words weighs in a question, where a single word weighs 1.

A Vietnamese word is mostly two syllables, and one folded syllable means little: "hop dong" is a contract, "hop" and "dong" are
a dozen things each. With pairs, MRR@10 of folded questions went from .903 to .948 (1,190 questions), of accented ones from
.945 to .954, of headings against their articles of law from .470 to .546. English words say enough alone: see `query_text`.
"""

TERMS_VERSION = "terms-3"
"""Changes when `document_vector` would answer differently for any text; stored points are then written anew."""

# Runs of letters, marks, digits and underscores. The finer UAX 29 borders keep "Tesla's" and "typing.List" whole, and found
# less: MRR@10 .9469 against .9494 on English questions.
_WORD = regex.compile(r"\w+")


class TermForm(StrEnum):
    """How a word becomes a term. The values are the names of the sparse vectors in every collection."""

    ACCENTED = "bm25_accented"
    FOLDED = "bm25_folded"


def split_terms(text: str, form: TermForm) -> list[str]:
    """The words of a text in order, lower case; accented ones with one tone placement (``hòa`` is ``hoà``).

    Everything that is no letter, mark, digit or underscore separates: ``45/2019/QH14`` is three terms.

    Example:
        >>> split_terms("Điều 5, Luật 45/2019/QH14", TermForm.FOLDED)
        ['dieu', '5', 'luat', '45', '2019', 'qh14']
    """
    prepared = prepare_text(text)
    if form is TermForm.FOLDED:
        return _WORD.findall(fold(prepared))
    return _WORD.findall(unify_tone_placement(unicodedata.normalize("NFC", prepared.lower())))


def document_vector(
    text: str, form: TermForm, *, average_terms: float = AVERAGE_TERMS
) -> SparseVector:
    """Weights of a text to be found: ``tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average))`` a term.

    Terms are the words and the pairs of neighbouring words; ``tf`` is how often the term occurs, ``length`` how many words the
    text has. A text without words has no entries.
    """
    words = split_terms(text, form)
    damping = K1 * (1 - B + B * len(words) / average_terms)
    counts = Counter(words) + Counter(word_pairs(words))
    return _sparse({term: tf * (K1 + 1) / (tf + damping) for term, tf in counts.items()})


def query_vector(text: str, form: TermForm, *, pair_weight: float = PAIR_WEIGHT) -> SparseVector:
    """Weight 1 for every distinct word of a question, ``pair_weight`` for every pair of neighbours; repetition does not matter.

    Args:
        pair_weight: At least 0; with 0 pairs are left out.
    """
    words = split_terms(text, form)
    weights = dict.fromkeys(words, 1.0)
    if pair_weight > 0:
        weights |= dict.fromkeys(word_pairs(words), pair_weight)
    return _sparse(weights)


def word_pairs(words: Sequence[str]) -> list[str]:
    """Neighbouring words as one term. No word holds a space, so a pair is never a word.

    Example:
        >>> word_pairs(["hop", "dong", "lao", "dong"])
        ['hop dong', 'dong lao', 'lao dong']
    """
    return [f"{first} {second}" for first, second in pairwise(words)]


def _sparse(weights: dict[str, float]) -> SparseVector:
    by_index: dict[int, float] = {}
    for term, weight in weights.items():
        # Two terms of one text with the same 32-bit number add up: an engine refuses a repeated index.
        index = mmh3.hash(term, signed=False)
        by_index[index] = by_index.get(index, 0.0) + weight
    indices = tuple(sorted(by_index))
    return SparseVector(indices, tuple(by_index[index] for index in indices))
