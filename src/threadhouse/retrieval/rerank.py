"""What raises a hit above its fused score, for every collection alike.

Belongs here: every boost there is, and the order of hits. A new boost is added to `BOOSTS` and nowhere else.
Does not belong here: how candidates are found (search) or fused (fusion).

`rerank_results` is the only function that decides an order, whatever collection a hit comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from threadhouse.retrieval.bm25 import TermForm, split_terms, word_pairs
from threadhouse.retrieval.models import Json
from threadhouse.retrieval.query_text import PreparedQuery, QueryLanguage
from threadhouse.retrieval.search_hits import SearchHit
from threadhouse.retrieval.text import fold

# Titles, tags and paths recur from question to question; splitting 300 of them anew would take longer than the search.
_REMEMBERED_TEXTS = 65_536


@dataclass(frozen=True, slots=True)
class AskedTerms:
    """A question as boosts compare it. ``folded_text`` is lower case without marks, for literal mentions."""

    folded_text: str
    accented: frozenset[str]
    folded: frozenset[str]
    has_marks_meant: bool
    """False when the question was typed without marks: a title is then compared folded."""


@dataclass(frozen=True, slots=True)
class Boost:
    """A reason to rank a hit higher. ``strength`` gives 0 to 1 for a question and a hit's metadata, in any collection."""

    name: str
    weight: float
    strength: Callable[[AskedTerms, Mapping[str, Json]], float]


def rerank_results(
    query: PreparedQuery,
    hits: Iterable[SearchHit],
    *,
    enabled: bool = True,
    boosts: Sequence[Boost] | None = None,
) -> list[SearchHit]:
    """Hits with their boosts, best first; ties in an order that does not know the collections.

    Args:
        hits: With ``breakdown.fused`` filled in; what they have as boosts and final score is replaced.
        enabled: The setting SEARCH_RERANK_ENABLED; False orders by the fused score alone.
        boosts: None for `BOOSTS`.
    """
    applied = BOOSTS if boosts is None else tuple(boosts)
    asked = ask_terms(query)
    return sorted((_boosted(hit, asked, applied if enabled else ()) for hit in hits), key=_order)


def ask_terms(query: PreparedQuery) -> AskedTerms:
    """The parts of a question that boosts look at."""
    return AskedTerms(
        folded_text=fold(query.text),
        accented=frozenset(_terms(query.text, TermForm.ACCENTED)),
        folded=frozenset(_terms(query.text, TermForm.FOLDED)),
        has_marks_meant=query.language is not QueryLanguage.VIETNAMESE_UNMARKED,
    )


def _boosted(hit: SearchHit, asked: AskedTerms, boosts: Sequence[Boost]) -> SearchHit:
    given = {boost.name: boost.weight * boost.strength(asked, hit.metadata) for boost in boosts}
    final = hit.breakdown.fused + sum(given.values())
    breakdown = hit.breakdown._replace(boosts=given, final=final)
    return hit._replace(score=final, breakdown=breakdown)


def _order(hit: SearchHit) -> tuple[float, str, int, str, UUID]:
    # Everything before the point id is the same for a legacy and a unit hit of one place in one document.
    return (-hit.score, hit.document_id, hit.char_start, hit.owner_id, hit.point_id)


def title_strength(asked: AskedTerms, metadata: Mapping[str, Json]) -> float:
    """How much of the question the title is, squared, when the question holds the whole title; else 0.

    A title of which only a part is asked for says little: laws have hundreds of articles about "conditions" and "procedures".
    """
    form = TermForm.ACCENTED if asked.has_marks_meant else TermForm.FOLDED
    title = _terms(_text(metadata, "title"), form)
    question = asked.accented if asked.has_marks_meant else asked.folded
    return _likeness(question, title) ** 2 if title <= question else 0.0


def tag_strength(asked: AskedTerms, metadata: Mapping[str, Json]) -> float:
    """1 when the question names a tag in full, else 0."""
    tags = metadata.get("tags")
    named = isinstance(tags, list) and any(
        isinstance(tag, str) and _named(asked, _words(tag)) for tag in tags
    )
    return float(named)


def path_strength(asked: AskedTerms, metadata: Mapping[str, Json]) -> float:
    """1 when the question mentions the whole path, else the likeness of question and path."""
    path = _path(_text(metadata, "path"))
    if not path.folded:
        return 0.0
    if path.folded in asked.folded_text:
        return 1.0
    return _likeness(asked.folded, path.terms)


def basename_strength(asked: AskedTerms, metadata: Mapping[str, Json]) -> float:
    """1 when the question names the file without its ending, else 0."""
    return float(_named(asked, _path(_text(metadata, "path")).basename))


def directory_strength(asked: AskedTerms, metadata: Mapping[str, Json]) -> float:
    """1 when the question names a directory of the path, else 0."""
    directories = _path(_text(metadata, "path")).directories
    return float(any(_named(asked, directory) for directory in directories))


BOOSTS: tuple[Boost, ...] = (
    # Headings of law against their articles: .917 without, .99 with; related articles lose nothing by it.
    Boost("title", 0.2, title_strength),
    # A whole path in a question is a reference, not a coincidence.
    Boost("path", 0.15, path_strength),
    Boost("tag", 0.05, tag_strength),
    Boost("basename", 0.1, basename_strength),
    # Half the basename's: a directory holds many documents.
    Boost("directory", 0.05, directory_strength),
)


def _named(asked: AskedTerms, words: frozenset[str]) -> bool:
    return bool(words) and words <= asked.folded


@dataclass(frozen=True, slots=True)
class _Path:
    """The parts of a path that boosts compare, folded."""

    folded: str
    terms: frozenset[str]
    basename: frozenset[str]
    directories: tuple[frozenset[str], ...]


@lru_cache(maxsize=_REMEMBERED_TEXTS)
def _path(text: str) -> _Path:
    *directories, name = text.split("/")
    folded = fold(text).strip("/")
    return _Path(
        folded=folded,
        terms=_terms(folded, TermForm.FOLDED),
        basename=_words(name.rpartition(".")[0] or name),
        directories=tuple(_words(directory) for directory in directories),
    )


def _likeness(question: frozenset[str], other: frozenset[str]) -> float:
    both = len(question) + len(other)
    return 2 * len(question & other) / both if both else 0.0


@lru_cache(maxsize=_REMEMBERED_TEXTS)
def _terms(text: str, form: TermForm) -> frozenset[str]:
    words = [_plain_number(word) for word in split_terms(text, form)]
    return frozenset([*words, *word_pairs(words)])


@lru_cache(maxsize=_REMEMBERED_TEXTS)
def _words(text: str) -> frozenset[str]:
    return frozenset(_plain_number(word) for word in split_terms(text, TermForm.FOLDED))


def _plain_number(word: str) -> str:
    # "pep-0484.rst" is PEP 484.
    return word.lstrip("0") or "0" if word.isdigit() else word


def _text(metadata: Mapping[str, Json], name: str) -> str:
    value = metadata.get(name)
    return value if isinstance(value, str) else ""
