"""A searcher that is watched: what each list of a search brought back, before anything else has looked at it.

Belongs here: standing in for a searcher under other names of its collections, and noting its answers.
Does not belong here: what the answers should have been (stores.leak_probe).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from threadhouse.retrieval.models import ScoredPoint, VectorQuery
from threadhouse.retrieval.ports import CandidateSearcher

DENSE = "dense"


class ObservedSearcher:
    """A searcher whose public names mean other collections; the answers are the searcher's own.

    Args:
        names: Physical names by public name.
    """

    def __init__(self, searcher: CandidateSearcher, names: Mapping[str, str]) -> None:
        self._searcher = searcher
        self._names = names
        self._found: defaultdict[str, list[ScoredPoint]] = defaultdict(list)

    def resolve(self, alias: str) -> str:
        """Physical name behind a public name.

        Raises:
            CollectionUnknownError: There is none.
        """
        return self._searcher.resolve(self._names.get(alias, alias))

    def aliases(self) -> Mapping[str, str]:
        """The searcher's, with the public names that stand for others."""
        return {**self._searcher.aliases(), **self._names}

    def search_batch(
        self, collection: str, queries: Sequence[VectorQuery]
    ) -> list[list[ScoredPoint]]:
        """As the searcher answers, noted by list."""
        answers = self._searcher.search_batch(collection, queries)
        for query, points in zip(queries, answers, strict=True):
            self._found[query.bm25 or DENSE] += points
        return answers

    def take_notes(self) -> Mapping[str, Sequence[ScoredPoint]]:
        """What each list, dense or a BM25 vector, brought back since notes were last taken."""
        found, self._found = self._found, defaultdict(list)
        return found
