"""Search by brute force: the floor and the yardstick for what the store finds.

Belongs here: plain BM25 and dense search over arrays, MRR@10. Does not belong here: anything of the product's own; its terms,
weights and engine are what is compared with this.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

K1, B = 0.9, 0.4
CUTOFF = 10
_WORD = re.compile(r"\w+")


def plain_terms(text: str) -> list[str]:
    """Lower-case runs of word characters of the NFC text: what anybody would write first."""
    return _WORD.findall(unicodedata.normalize("NFC", text).lower())


class PlainBm25:
    """Textbook BM25 with the true average length, over postings in arrays."""

    def __init__(
        self, texts: Sequence[str], terms_of: Callable[[str], list[str]] = plain_terms
    ) -> None:
        self._terms_of = terms_of
        self._size = len(texts)
        documents = [Counter(terms_of(text)) for text in texts]
        lengths = np.array([sum(counts.values()) for counts in documents], np.float64)
        damping = K1 * (1 - B + B * lengths / max(lengths.mean(), 1.0))
        rows: dict[str, list[int]] = {}
        frequencies: dict[str, list[int]] = {}
        for row, counts in enumerate(documents):
            for term, frequency in counts.items():
                rows.setdefault(term, []).append(row)
                frequencies.setdefault(term, []).append(frequency)
        self._postings: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
        for term, found in rows.items():
            where, tf = np.array(found), np.array(frequencies[term], np.float64)
            idf = np.log(1 + (self._size - len(found) + 0.5) / (len(found) + 0.5))
            self._postings[term] = (where, idf * tf * (K1 + 1) / (tf + damping[where]))

    def scores(self, query: str) -> NDArray[np.float64]:
        """One score a text, 0 without a common term."""
        scores = np.zeros(self._size)
        for term in set(self._terms_of(query)):
            if term in self._postings:
                where, weights = self._postings[term]
                scores[where] += weights
        return scores


def best(
    scores: NDArray[np.floating], limit: int, allowed: NDArray[np.bool_] | None = None
) -> list[int]:
    """Positions of the highest scores, best first; only where ``allowed`` when given."""
    ranked = scores if allowed is None else np.where(allowed, scores, -np.inf)
    limit = min(limit, len(ranked))
    top = np.argpartition(-ranked, limit - 1)[:limit]
    return [int(position) for position in top[np.argsort(-ranked[top], kind="stable")]]


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str]) -> float:
    """1 / rank of the first relevant one among the first ten, else 0.

    Example:
        >>> reciprocal_rank(["a", "b"], {"b"})
        0.5
    """
    for rank, item in enumerate(ranking[:CUTOFF], start=1):
        if item in relevant:
            return 1 / rank
    return 0.0


@dataclass(frozen=True, slots=True)
class Quality:
    """MRR@10 and hit@10 over some queries; ``half_width`` is that of the 95 % interval of the MRR."""

    mrr: float
    hit_rate: float
    half_width: float
    queries: int


def quality_of(reciprocal_ranks: Sequence[float]) -> Quality:
    """Summarise reciprocal ranks, one a query. Without queries everything is 0."""
    ranks = np.array(reciprocal_ranks, np.float64)
    if not len(ranks):
        return Quality(0.0, 0.0, 0.0, 0)
    error = float(ranks.std() / np.sqrt(len(ranks)))
    return Quality(float(ranks.mean()), float((ranks > 0).mean()), 1.96 * error, len(ranks))
