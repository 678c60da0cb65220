"""What the words of a question say about threads, from what was found under them.

Belongs here: what a found name, alias, label or word is worth, 0 to 1.
Does not belong here: the form that names are compared in (references), finding them (stores.thread_signals).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from threadhouse.retrieval.bm25 import TermForm, split_terms
from threadhouse.retrieval.models import ThreadId
from threadhouse.retrieval.references import phrase_key
from threadhouse.retrieval.resolution import LexicalSignals
from threadhouse.retrieval.text import has_marks

FOLDED_ONLY = 0.5
"""A name that was typed with other marks than it has: probably another word (mã is not ma)."""

DESCRIPTION_SHARE = 0.5
"""A word of the description says half of what a word of the title or of an alias says."""


class FoundBy(StrEnum):
    """How a thread was found; the words that ``signals_lexical.sql`` uses."""

    THREAD = "thread"
    UNIT = "unit"
    DOCUMENT = "document"
    ANCHOR = "anchor"
    TITLE = "title"
    ALIAS = "alias"
    LABEL = "label"
    WORDS = "words"


@dataclass(frozen=True, slots=True)
class FoundThread:
    """One way in which a question's words lead to one thread.

    ``value`` is a membership's weight for a unit, and how many of its units a named document has in the thread. ``wording`` is
    what was found, as it is stored; ``label`` the label behind it. The last three are the thread's own words.
    """

    found_by: FoundBy
    thread_id: ThreadId
    value: float
    wording: str = ""
    label: str = ""
    title: str = ""
    aliases: tuple[str, ...] = ()
    description: str = ""


def lexical_signals(text: str, found: Iterable[FoundThread]) -> LexicalSignals:
    """The four signals of words. The order of ``found`` does not matter."""
    by_way: dict[FoundBy, list[FoundThread]] = defaultdict(list)
    for thread in found:
        by_way[thread.found_by].append(thread)
    return LexicalSignals(
        explicit=_best(
            (t.thread_id, min(1.0, t.value))
            for t in (*by_way[FoundBy.THREAD], *by_way[FoundBy.UNIT])
        ),
        label=_label(text, by_way),
        keyword=_keyword(text, by_way[FoundBy.WORDS]),
        authority=_authority(by_way),
    )


def phrase_worth(text: str, phrase: str) -> float:
    """How much a phrase that a text holds in folded form is really meant: 1 when marks agree or were not typed.

    Example:
        >>> phrase_worth("Khi nào hoàn tiền?", "hoàn tiền"), phrase_worth("khi nao hoan tien", "hoàn tiền")
        (1.0, 1.0)
        >>> phrase_worth("mã số", "ma")
        0.5
    """
    if not has_marks(text) or _holds(
        split_terms(text, TermForm.ACCENTED), split_terms(phrase, TermForm.ACCENTED)
    ):
        return 1.0
    return FOLDED_ONLY


def _best(pairs: Iterable[tuple[ThreadId, float]]) -> dict[ThreadId, float]:
    best: dict[ThreadId, float] = {}
    for thread_id, value in pairs:
        if value > best.get(thread_id, 0.0):
            best[thread_id] = value
    return best


def _label(text: str, by_way: Mapping[FoundBy, Sequence[FoundThread]]) -> dict[ThreadId, float]:
    carriers: dict[str, set[ThreadId]] = defaultdict(set)
    for thread in by_way[FoundBy.LABEL]:
        carriers[thread.label].add(thread.thread_id)
    names = (*by_way.get(FoundBy.TITLE, ()), *by_way.get(FoundBy.ALIAS, ()))
    own: dict[str, set[ThreadId]] = defaultdict(set)
    for thread in names:
        own[phrase_key(thread.wording)].add(thread.thread_id)
    return _best(
        [
            *(
                # A label that many threads carry singles out none of them.
                (t.thread_id, phrase_worth(text, t.wording) / len(carriers[t.label]))
                for t in by_way[FoundBy.LABEL]
            ),
            *(
                (
                    t.thread_id,
                    phrase_worth(text, t.wording) / len(own[phrase_key(t.wording)]),
                )
                for t in names
            ),
        ]
    )


def _authority(by_way: Mapping[FoundBy, Sequence[FoundThread]]) -> dict[ThreadId, float]:
    documents = by_way[FoundBy.DOCUMENT]
    most = max((t.value for t in documents), default=1.0)
    return _best(
        [
            *((t.thread_id, 1.0) for t in by_way[FoundBy.ANCHOR]),
            # A named law speaks for the thread that holds most of it; others hold a quotation.
            *((t.thread_id, t.value / most) for t in documents),
        ]
    )


def _keyword(text: str, threads: Sequence[FoundThread]) -> dict[ThreadId, float]:
    """The share of the question's telling words that a thread's own words hold.

    How telling a word is, is counted over the threads that were found for this reader, so hidden ones weigh on nothing.
    """
    form = TermForm.ACCENTED if has_marks(text) else TermForm.FOLDED
    terms = frozenset(split_terms(text, form))
    strong: dict[ThreadId, frozenset[str]] = {}
    weak: dict[ThreadId, frozenset[str]] = {}
    for thread in threads:
        names = "\n".join((thread.title, *thread.aliases))
        strong[thread.thread_id] = terms & _words_of(names, form)
        weak[thread.thread_id] = terms & _words_of(thread.description, form)
    holders = Counter(term for thread_id in strong for term in strong[thread_id] | weak[thread_id])
    worth = {term: math.log((1 + len(strong)) / count) for term, count in holders.items()}
    total = math.fsum(worth.values())
    if total <= 0:
        return {}
    return {
        thread_id: share
        for thread_id in strong
        if (
            share := math.fsum(
                worth[term] * (1.0 if term in strong[thread_id] else DESCRIPTION_SHARE)
                for term in sorted(strong[thread_id] | weak[thread_id])
            )
            / total
        )
        > 0
    }


# The same threads are named by many questions. Two texts each, the longer one cut at 4,000 characters.
@lru_cache(maxsize=1_024)
def _words_of(text: str, form: TermForm) -> frozenset[str]:
    return frozenset(split_terms(text, form))


def _holds(terms: Sequence[str], phrase: Sequence[str]) -> bool:
    size = len(phrase)
    return any(
        list(terms[start : start + size]) == list(phrase) for start in range(len(terms) - size + 1)
    )
