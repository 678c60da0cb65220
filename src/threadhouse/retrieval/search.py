"""The one way to search.

Belongs here: asking every collection, reading back what is live and visible, fusing, ordering, one result a document.
Does not belong here: how scores are fused (fusion), what raises a score (rerank), what a question is (query_text).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from threadhouse.retrieval.audience import AudiencePolicy, vector_filter
from threadhouse.retrieval.audit import owner_key
from threadhouse.retrieval.bm25 import TermForm
from threadhouse.retrieval.fusion import (
    ENGLISH,
    VIETNAMESE,
    RawScores,
    document_language,
    fuse_scores,
    home_languages,
)
from threadhouse.retrieval.lanes import sight_of
from threadhouse.retrieval.models import (
    AllOf,
    Collection,
    DocumentId,
    Json,
    Principal,
    ScoredPoint,
    VectorQuery,
)
from threadhouse.retrieval.ports import CandidateSearcher
from threadhouse.retrieval.query_text import PreparedQuery
from threadhouse.retrieval.rerank import rerank_results
from threadhouse.retrieval.search_hits import (
    LiveOwner,
    LiveOwners,
    ScoreBreakdown,
    SearchHit,
    SearchOutcome,
)

__all__ = [
    "LiveOwner",
    "LiveOwners",
    "PendingSearch",
    "ScoreBreakdown",
    "SearchHit",
    "SearchOutcome",
    "ask_collections",
    "search_collections",
]

CANDIDATES = 60
"""Fetched from each list. 100 and 150 found the same within .003 of MRR@10 in every language; each costs time to carry."""

FEWEST_OF_A_LANGUAGE = 50
"""When a full list of the nearest holds fewer texts of a language, that language is asked for by name.

In a mixed pool the nearest text to a Vietnamese question is practically always Vietnamese, however little it has to say."""

# The tags that the loader writes and the two that people write most; another region's texts are still found, just not by name.
_LANGUAGE_TAGS: Mapping[str, tuple[str, ...]] = {
    VIETNAMESE: ("vi", "vi-VN"),
    ENGLISH: ("en", "en-GB", "en-US"),
}


def search_collections(
    query: PreparedQuery,
    principal: Principal,
    collections: Sequence[Collection],
    *,
    policy: AudiencePolicy,
    searcher: CandidateSearcher,
    live: LiveOwners,
    limit: int,
    one_per: Literal["document", "owner"] = "document",
    rerank_enabled: bool = True,
) -> SearchOutcome:
    """The best visible hits of all ``collections`` together, each with its score breakdown.

    The collections are fused on one scale, so it makes no difference to a hit's place among the hits of its own collection
    which store it came from. Labels and versions are read back, and scores are those among what is left: what is hidden has no
    influence.

    Args:
        limit: At most so many hits.
        one_per: Keep the best hit of a document, or of an owner (a unit, a document, a thread in a lane).
        rerank_enabled: The setting SEARCH_RERANK_ENABLED; False leaves the fused score as it is, in every collection.

    Raises:
        CollectionUnknownError: A collection has not been built yet.
        SpaceMismatchError: The question was embedded in another space than a collection.
    """
    return ask_collections(
        query,
        principal,
        collections,
        policy=policy,
        searcher=searcher,
        live=live,
        limit=limit,
        one_per=one_per,
        rerank_enabled=rerank_enabled,
    )()


def ask_collections(
    query: PreparedQuery,
    principal: Principal,
    collections: Sequence[Collection],
    *,
    policy: AudiencePolicy,
    searcher: CandidateSearcher,
    live: LiveOwners,
    limit: int,
    one_per: Literal["document", "owner"] = "document",
    rerank_enabled: bool = True,
) -> PendingSearch:
    """`search_collections` in two halves: reading back is on its way when this returns; call what it returns for the outcome."""
    asking = _Asking(query, principal, policy, searcher, live, limit)
    asked = asking.ask(collections)
    return PendingSearch(asking, collections, asked, one_per, rerank_enabled)


class PendingSearch:
    """A search whose candidates are known and are being read back; call it for the outcome."""

    def __init__(
        self,
        asking: _Asking,
        collections: Sequence[Collection],
        asked: Sequence[_Asked],
        one_per: Literal["document", "owner"],
        rerank_enabled: bool,
    ) -> None:
        self._asking = asking
        self._collections = collections
        self._asked = asked
        self._one_per: Literal["document", "owner"] = one_per
        self._rerank_enabled = rerank_enabled
        self._expected: tuple[SearchHit, ...] | None = None

    def expected(self) -> tuple[SearchHit, ...]:
        """What the hits are if nothing is taken away, which is so unless something was hidden or replaced since the last publish.

        Not to be shown to anybody: it is there to go on with while Postgres answers, and to be thrown away when it was wrong.
        """
        if self._expected is None:
            every = [
                (each.collection, candidate)
                for each in self._asked
                for candidate in each.candidates
            ]
            self._expected = self._ranked(every)
        return self._expected

    def __call__(self) -> SearchOutcome:
        """The hits that are live and visible, as if there were no others."""
        expected = self.expected()
        found = self._asking.found(self._asked)
        if found.moved_on:
            # A version was replaced between publishing and reading back; the new one is there by now. Once is enough: a second
            # replacement within the same question leaves a hit out for the length of one question.
            found = self._asking.found(self._asking.ask(self._collections))
            return SearchOutcome(self._ranked(found.candidates), found.filtered, True)
        hits = self._ranked(found.candidates) if found.filtered else expected
        return SearchOutcome(hits, found.filtered, False)

    def _ranked(self, candidates: Sequence[tuple[Collection, _Candidate]]) -> tuple[SearchHit, ...]:
        query = self._asking.query
        fused = _fused(candidates, query)
        ranked = rerank_results(query, fused, enabled=self._rerank_enabled)
        return tuple(_one_each(ranked, self._one_per)[: max(self._asking.limit, 0)])


@dataclass(slots=True)
class _Candidate:
    point_id: UUID
    payload: Mapping[str, Json]
    metadata: Mapping[str, Json]
    language: str
    owner_id: str
    version_key: str
    scores: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(slots=True)
class _Pool:
    """The candidates of one collection, each once, with the scores of every list that holds it."""

    collection: Collection
    candidates: dict[UUID, _Candidate] = field(default_factory=dict[UUID, _Candidate])

    def take(self, name: str, points: Sequence[ScoredPoint]) -> None:
        for point in points:
            candidate = self.candidates.get(point.point_id)
            if candidate is None:
                candidate = _candidate(self.collection, point)
                self.candidates[point.point_id] = candidate
            candidate.scores[name] = point.score


@dataclass(frozen=True, slots=True)
class _Asked:
    """The candidates of one collection; ``current`` waits for what their owners are now."""

    collection: Collection
    candidates: Sequence[_Candidate]
    current: Callable[[], Mapping[str, LiveOwner]]


@dataclass(slots=True)
class _Found:
    candidates: list[tuple[Collection, _Candidate]] = field(
        default_factory=list[tuple[Collection, _Candidate]]
    )
    filtered: int = 0
    moved_on: bool = False


@dataclass(frozen=True, slots=True)
class _Asking:
    """One question of one principal, put to one collection after the other."""

    query: PreparedQuery
    principal: Principal
    policy: AudiencePolicy
    searcher: CandidateSearcher
    live: LiveOwners
    limit: int

    def ask(self, collections: Sequence[Collection]) -> list[_Asked]:
        """The candidates of every collection, and what they are now on its way."""
        asked: list[_Asked] = []
        for collection in dict.fromkeys(collections):
            physical = self.searcher.resolve(collection)
            candidates = self._candidates(collection, physical)
            owner_ids = sorted({candidate.owner_id for candidate in candidates})
            if owner_ids:
                current = self.live.ask_owners(collection, physical, owner_ids)
                asked.append(_Asked(collection, candidates, current))
        return asked

    def found(self, asked: Sequence[_Asked]) -> _Found:
        """The candidates that are live and visible."""
        found = _Found()
        sees = sight_of(self.principal, self.policy)
        for each in asked:
            current = each.current()
            # Equal labels are mostly one object, and looking them up by what they say takes longer than all else here.
            verdicts: dict[int, bool] = {}
            for candidate in each.candidates:
                owner = current.get(candidate.owner_id)
                if owner is not None and owner.version_key != candidate.version_key:
                    found.moved_on = True
                elif owner is not None:
                    verdict = verdicts.get(id(owner.labels))
                    if verdict is None:
                        verdict = verdicts[id(owner.labels)] = sees(owner.labels)
                    if verdict:
                        found.candidates.append((each.collection, candidate))
                        continue
                found.filtered += 1
        return found

    def _candidates(self, collection: Collection, physical: str) -> list[_Candidate]:
        where = self._where(collection)
        pool = _Pool(collection)
        lists = self._lists(collection, where)
        found = self.searcher.search_batch(physical, list(lists.values()))
        for name, points in zip(lists, found, strict=True):
            pool.take(name, points)
        nearest = lists["dense"].limit
        fewest = min(FEWEST_OF_A_LANGUAGE, nearest)
        crowded_out = _crowded_out(found[0], fewest) if len(found[0]) == nearest else {}
        named = self._named_languages(pool, crowded_out) if len(lists) > 1 else []
        by_language = [
            *(VectorQuery(self.query.vector, _only(where, name), fewest) for name in crowded_out),
            *(
                VectorQuery(self.query.bm25_names, _only(where, name), CANDIDATES, TermForm.FOLDED)
                for name in named
            ),
        ]
        if by_language:
            found = self.searcher.search_batch(physical, by_language)
            for seen, points in zip(crowded_out.values(), found, strict=False):
                if len(points) > seen:
                    pool.take("dense", points)
            for points in found[len(crowded_out) :]:
                pool.take("bm25_names", points)
        return list(pool.candidates.values())

    def _lists(self, collection: Collection, where: AllOf) -> dict[str, VectorQuery]:
        """What a collection is asked for first, by the name of the score; the nearest come first."""
        query = self.query
        if collection is Collection.THREAD_CENTROIDS:
            # A centroid is a direction; the words of threads are looked up in Postgres. Nothing is fused, so only as many are
            # needed as are asked for, and a few for those that the asker no longer sees.
            return {"dense": VectorQuery(query.vector, where, min(CANDIDATES, self.limit * 3 // 2))}
        return {
            "dense": VectorQuery(query.vector, where, CANDIDATES),
            "bm25_accented": VectorQuery(query.bm25_accented, where, CANDIDATES, TermForm.ACCENTED),
            "bm25_folded": VectorQuery(query.bm25_folded, where, CANDIDATES, TermForm.FOLDED),
        }

    def _named_languages(self, pool: _Pool, crowded_out: Mapping[str, int]) -> list[str]:
        """Foreign languages in which the names of the question are worth looking for."""
        if not self.query.bm25_names.indices:
            return []
        present = {candidate.language for candidate in pool.candidates.values()} | set(crowded_out)
        return sorted((present & _LANGUAGE_TAGS.keys()) - home_languages(self.query.language))

    def _where(self, collection: Collection) -> AllOf:
        allowed = vector_filter(self.principal, self.policy).allowed
        if collection is Collection.THREAD_CENTROIDS:
            # A centroid is built for one lane from what that lane sees.
            allowed = (*allowed, ("metadata.lane", (self.principal.audience,)))
        return AllOf(allowed)


def _crowded_out(nearest: Sequence[ScoredPoint], fewest: int) -> dict[str, int]:
    """Languages that the nearest hold fewer than ``fewest`` of, and how many they hold."""
    counts = dict.fromkeys(_LANGUAGE_TAGS, 0)
    for point in nearest:
        language = document_language(_metadata(point).get("language"))
        if language in counts:
            counts[language] += 1
    return {name: count for name, count in counts.items() if count < fewest}


def _metadata(point: ScoredPoint) -> Mapping[str, Json]:
    metadata = point.payload.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _candidate(collection: Collection, point: ScoredPoint) -> _Candidate:
    metadata = _metadata(point)
    owner_id, version_key = owner_key(collection, point.payload)
    language = document_language(metadata.get("language"))
    return _Candidate(point.point_id, point.payload, metadata, language, owner_id, version_key)


def _only(where: AllOf, language: str) -> AllOf:
    return AllOf((*where.allowed, ("metadata.language", _LANGUAGE_TAGS[language])))


def _fused(
    candidates: Sequence[tuple[Collection, _Candidate]], query: PreparedQuery
) -> list[SearchHit]:
    raw = [RawScores(candidate.language, **candidate.scores) for _, candidate in candidates]
    fused = fuse_scores(raw, query.language)
    return [
        _hit(collection, candidate, scores, score)
        for (collection, candidate), scores, score in zip(candidates, raw, fused, strict=True)
    ]


def _hit(
    collection: Collection, candidate: _Candidate, scores: RawScores, fused: float
) -> SearchHit:
    metadata = candidate.metadata
    return SearchHit(
        collection=collection,
        point_id=candidate.point_id,
        document_id=DocumentId(str(candidate.payload.get("document_id") or "")),
        owner_id=candidate.owner_id,
        version_key=candidate.version_key,
        chunk_index=_number(metadata, "chunk_index"),
        char_start=_number(metadata, "char_start"),
        char_end=_number(metadata, "char_end"),
        metadata=metadata,
        score=fused,
        breakdown=ScoreBreakdown(
            dense=scores.dense,
            bm25_accented=scores.bm25_accented,
            bm25_folded=scores.bm25_folded,
            bm25_names=scores.bm25_names,
            fused=fused,
            boosts={},
            final=fused,
        ),
    )


def _number(metadata: Mapping[str, Json], name: str) -> int:
    value = metadata.get(name)
    return value if isinstance(value, int) else 0


def _one_each(
    ranked: Sequence[SearchHit], one_per: Literal["document", "owner"]
) -> list[SearchHit]:
    """The first hit of each document (or owner): the best one, since they come ranked."""
    kept: dict[tuple[str, str], SearchHit] = {}
    for hit in ranked:
        key = ("", hit.document_id) if one_per == "document" else (hit.collection, hit.owner_id)
        kept.setdefault(key, hit)
    return list(kept.values())
