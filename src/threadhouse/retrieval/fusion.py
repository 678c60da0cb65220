"""How the scores of several searches become one score, 0 to 1.

Belongs here: bringing scores to one scale, the weights by language of question and document.
Does not belong here: asking for candidates (search), what raises a score afterwards (rerank).

Scores are fused, not ranks: reciprocal rank fusion found less than BM25 alone in every language (0.949 against 0.970 from
Vietnamese to Vietnamese, 0.553 against 0.791 across languages). How the weights were found: docs/search.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from threadhouse.retrieval.query_text import QueryLanguage

VIETNAMESE, ENGLISH = "vi", "en"

BACKGROUND_RANK = 30
"""Which candidate of a language stands for "nothing special" when two languages are put on one scale.

Beyond the ten or so that can be good, well within what is fetched; 20 and 40 found the same."""


@dataclass(frozen=True, slots=True)
class FusionWeights:
    """What each normalised score contributes; together at most 1. ``bm25_names`` weighs BM25 over the names of a question."""

    dense: float
    bm25_accented: float
    bm25_folded: float
    bm25_names: float = 0.0


# Within a language both ways of searching are good at different questions. Accents decide, folding forgives: a text that matches
# with its accents matches folded too, so it always has more than one that matches only folded.
_VIETNAMESE_IN_VIETNAMESE = FusionWeights(dense=0.2, bm25_accented=0.5, bm25_folded=0.3)
_ENGLISH_IN_ENGLISH = FusionWeights(dense=0.4, bm25_accented=0.45, bm25_folded=0.15)
# The model was never shown Vietnamese without marks.
_UNMARKED_IN_VIETNAMESE = FusionWeights(dense=0.2, bm25_accented=0.0, bm25_folded=0.8)
# Across languages only names and numbers can match as words; every other match is an accident.
_ACROSS = FusionWeights(dense=0.75, bm25_accented=0.0, bm25_folded=0.0, bm25_names=0.25)
# Neither way is good here, so the sum stays below 1: a doubtful English text must not outrank a Vietnamese one.
_UNMARKED_ACROSS = FusionWeights(dense=0.3, bm25_accented=0.0, bm25_folded=0.0, bm25_names=0.5)
_UNKNOWN = FusionWeights(dense=0.6, bm25_accented=0.25, bm25_folded=0.15)

_WEIGHTS: Mapping[tuple[QueryLanguage, str], FusionWeights] = {
    (QueryLanguage.VIETNAMESE, VIETNAMESE): _VIETNAMESE_IN_VIETNAMESE,
    (QueryLanguage.VIETNAMESE, ENGLISH): _ACROSS,
    (QueryLanguage.VIETNAMESE_UNMARKED, VIETNAMESE): _UNMARKED_IN_VIETNAMESE,
    (QueryLanguage.VIETNAMESE_UNMARKED, ENGLISH): _UNMARKED_ACROSS,
    (QueryLanguage.ENGLISH, ENGLISH): _ENGLISH_IN_ENGLISH,
    (QueryLanguage.ENGLISH, VIETNAMESE): _ACROSS,
    (QueryLanguage.MIXED, VIETNAMESE): _VIETNAMESE_IN_VIETNAMESE,
    (QueryLanguage.MIXED, ENGLISH): _ENGLISH_IN_ENGLISH,
}


# A named tuple like a hit, and for the same reason: a question makes hundreds.
class RawScores(NamedTuple):
    """What the engine said of one candidate; None where a list did not hold it. ``language`` is the document's."""

    language: str
    dense: float | None = None
    bm25_accented: float | None = None
    bm25_folded: float | None = None
    bm25_names: float | None = None


def document_language(tag: object) -> str:
    """The part of a language tag that decides: ``vi-VN`` is ``vi``; anything but a text is unknown."""
    return tag.partition("-")[0].lower() if isinstance(tag, str) else ""


def home_languages(language: QueryLanguage) -> frozenset[str]:
    """Languages of documents that a question is not foreign to."""
    if language is QueryLanguage.MIXED:
        return frozenset({VIETNAMESE, ENGLISH})
    return frozenset({ENGLISH if language is QueryLanguage.ENGLISH else VIETNAMESE})


def weights_for(language: QueryLanguage, document: str) -> FusionWeights:
    """The weights for a question in ``language`` and a document in ``document`` (`document_language`)."""
    return _WEIGHTS.get((language, document), _UNKNOWN)


def fuse_scores(candidates: Sequence[RawScores], language: QueryLanguage) -> list[float]:
    """One score for each candidate, in order, 0 to 1.

    BM25 is divided by the best of the same document language: it has a natural zero. A cosine has none, so it is measured between
    the worst and the best candidate. Cosines across languages are systematically lower (.80 where .88 would be as good), so each
    language is first lifted until its background (`BACKGROUND_RANK`) is level with that of the language the question is at home
    in; a language with few candidates is lifted less, because it has no background.

    The result depends on the set of candidates and not on their order, and grows with each score of a candidate as long as the
    others and the ends of the scales stay.
    """
    lifts = _language_lifts(candidates, home_languages(language))
    cosines = [c.dense + lifts[c.language] for c in candidates if c.dense is not None]
    low, high = min(cosines, default=0.0), max(cosines, default=0.0)
    best = {
        document: RawScores(
            document,
            None,
            _best(c.bm25_accented for c in candidates if c.language == document),
            _best(c.bm25_folded for c in candidates if c.language == document),
            _best(c.bm25_names for c in candidates if c.language == document),
        )
        for document in lifts
    }
    fused: list[float] = []
    for candidate in candidates:
        weights = weights_for(language, candidate.language)
        top = best[candidate.language]
        dense = 0.0
        if candidate.dense is not None:
            lifted = candidate.dense + lifts[candidate.language]
            # A single candidate is the best there is.
            dense = (lifted - low) / (high - low) if high > low else 1.0
        fused.append(
            weights.dense * dense
            + weights.bm25_accented * _share(candidate.bm25_accented, top.bm25_accented)
            + weights.bm25_folded * _share(candidate.bm25_folded, top.bm25_folded)
            + weights.bm25_names * _share(candidate.bm25_names, top.bm25_names)
        )
    return fused


def _language_lifts(candidates: Sequence[RawScores], home: frozenset[str]) -> dict[str, float]:
    by_language: dict[str, list[float]] = {candidate.language: [] for candidate in candidates}
    for candidate in candidates:
        if candidate.dense is not None:
            by_language[candidate.language].append(candidate.dense)
    at_home = [_background(by_language[name]) for name in home if by_language.get(name)]
    if not at_home:
        return dict.fromkeys(by_language, 0.0)
    level = max(at_home)
    lifts: dict[str, float] = {}
    for name, cosines in by_language.items():
        trust = 0.0 if name in home else min(1.0, len(cosines) / BACKGROUND_RANK)
        lifts[name] = trust * (level - _background(cosines)) if cosines else 0.0
    return lifts


def _background(cosines: Sequence[float]) -> float:
    return sorted(cosines, reverse=True)[: BACKGROUND_RANK + 1][-1]


def _best(scores: Iterable[float | None]) -> float | None:
    return max((score for score in scores if score is not None), default=None)


def _share(score: float | None, best: float | None) -> float:
    return score / best if score is not None and best else 0.0
