"""What is known about each candidate thread, as numbers that a fitted model can weigh.

Belongs here: the inputs of the model by name, how they are made from hits and words, the scale that makes cosines comparable.
Does not belong here: what an input is worth (the policy's coefficients), the decision (resolution), fitting (calibration).

Three kinds of evidence are kept apart, because a number means something else in each: the best unit is in the question's language
(``same``), in another one (``cross``), or the question was typed without marks (``unmarked``), where cosines are nearly blind.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, TypeAlias

from threadhouse.retrieval.models import ThreadId, UnitId

if TYPE_CHECKING:
    from threadhouse.retrieval.query_text import PreparedQuery
    from threadhouse.retrieval.resolution import LexicalSignals
    from threadhouse.retrieval.search_hits import SearchHit

Features: TypeAlias = Mapping[str, float]
Scales: TypeAlias = Mapping[str, tuple[float, float]]
"""Centre and width of a space's cosines, ``dense`` (units) and ``centroid``; without one, those of the hits are taken."""

Memberships: TypeAlias = Mapping[UnitId, Mapping[ThreadId, float]]
"""Threads that a unit counts for, and how much (0 to 1: role times confidence). Rejected memberships are not among them."""

RELATIONS: tuple[str, ...] = ("same", "cross", "unmarked")

_BM25_INPUTS: tuple[str, ...] = ("bm25_accented", "bm25_folded", "bm25_names")
EVIDENCE_INPUTS: tuple[str, ...] = ("dense", "dense_mass", *_BM25_INPUTS, "score", "lead")
CENTROID_INPUT = "centroid"
LEXICAL_INPUTS: tuple[str, ...] = ("explicit", "label", "keyword", "authority")

INPUTS: tuple[str, ...] = (
    *(
        f"{relation}:{name}"
        for relation in RELATIONS
        for name in ("intercept", *EVIDENCE_INPUTS, CENTROID_INPUT)
    ),
    *LEXICAL_INPUTS,
)
"""Every input, in the order of the columns of a design matrix."""

MATCH_INPUTS: tuple[str, ...] = tuple(
    f"{relation}:{name}"
    for relation in RELATIONS
    for name in ("match_intercept", "match_slope", "match_cosine")
)
"""How strengths and the nearest unit say that any thread is right, by the relation of the strongest candidate."""

_MASS_SHARPNESS = 3.0
"""How sharply the mass of further units falls off, per width of the scale: a unit one width below the best counts a twentieth.

A plain sum lets big threads win by size (.819 of best threads right, the best unit alone .958).
"""

_NARROWEST = 1e-3
"""Cosines that lie closer together than this cannot be told apart; without it, a width of nothing would divide."""


@dataclass(frozen=True, slots=True)
class _UnitEvidence:
    """The best hit of one unit. ``weight`` is the membership's."""

    unit_id: UnitId
    language: str
    dense: float | None
    bm25: Mapping[str, float]
    score: float
    weight: float


def candidate_features(
    query: PreparedQuery,
    lexical: LexicalSignals,
    centroid_hits: Sequence[SearchHit],
    unit_hits: Sequence[SearchHit],
    memberships: Memberships,
    seen: Collection[ThreadId],
    scales: Scales,
) -> dict[ThreadId, dict[str, float]]:
    """The inputs of every thread of ``seen`` that any signal names; an input that is 0 is left out.

    What is said of other threads changes nothing: their centroids and memberships are dropped before anything is computed.
    """
    centroids = _centroid_cosines(centroid_hits, seen)
    units = _units_by_thread(unit_hits, memberships, seen)
    cosines = [hit.breakdown.dense for hit in unit_hits if hit.breakdown.dense is not None]
    dense_scale = _scale("dense", scales, cosines)
    centroid_scale = _scale("centroid", scales, list(centroids.values()))
    # A long question collects more BM25 than a short one: per unit of what it asks for, they compare.
    asked = {name: math.fsum(getattr(query, name).values) for name in _BM25_INPUTS}
    language = str(query.language)
    leads = _leads(units)
    # What no list holds is taken to lie just beyond its end: a thread beyond the farthest centroid, a unit that only words found
    # beyond the farthest unit, and so every unit of a thread without any.
    farthest_centroid = min(centroids.values(), default=None)
    farthest = min(cosines, default=0.0)
    floor = _scaled(farthest, dense_scale) if cosines else 0.0
    found: dict[ThreadId, dict[str, float]] = {}
    for thread_id in sorted((lexical.thread_ids() | centroids.keys() | units.keys()) & set(seen)):
        relation = _relation(language, units.get(thread_id, ()), farthest)
        row = {f"{relation}:intercept": 1.0}
        evidence = _evidence(units.get(thread_id, ()), floor, dense_scale, asked)
        row |= {f"{relation}:{name}": value for name, value in evidence.items()}
        if lead := leads.get(thread_id):
            row[f"{relation}:lead"] = lead
        cosine = centroids.get(thread_id, farthest_centroid)
        if cosine is not None:
            row[f"{relation}:{CENTROID_INPUT}"] = _scaled(cosine, centroid_scale)
        row |= {
            name: value
            for name in LEXICAL_INPUTS
            if (value := getattr(lexical, name).get(thread_id, 0.0))
        }
        found[thread_id] = row
    return found


def relation_of(row: Features) -> str:
    """Which of RELATIONS the inputs of a candidate are of."""
    return next(r for r in RELATIONS if f"{r}:intercept" in row)


def nearest_cosine(
    thread_id: ThreadId, unit_hits: Sequence[SearchHit], memberships: Memberships
) -> float:
    """The cosine of the unit of a thread that lies nearest to the question, as it is, on no scale.

    A thread that only words found is taken to lie as far as the farthest unit; 0 when nothing has a cosine.
    """
    cosines = [
        (hit.breakdown.dense, hit.owner_id) for hit in unit_hits if hit.breakdown.dense is not None
    ]
    own = [
        cosine
        for cosine, owner_id in cosines
        if memberships.get(UnitId(owner_id), {}).get(thread_id, 0.0) > 0
    ]
    return max(own, default=min((cosine for cosine, _ in cosines), default=0.0))


def centroid_thread(hit: SearchHit) -> ThreadId:
    """The thread of a hit in ``thread_centroids``, whose owner id is ``thread_id/lane``."""
    return ThreadId(hit.owner_id.rpartition("/")[0])


def _centroid_cosines(
    hits: Sequence[SearchHit], seen: Collection[ThreadId]
) -> dict[ThreadId, float]:
    cosines: dict[ThreadId, float] = {}
    for hit in hits:
        thread_id = centroid_thread(hit)
        if hit.breakdown.dense is not None and thread_id in seen:
            cosines[thread_id] = max(hit.breakdown.dense, cosines.get(thread_id, -1.0))
    return cosines


def _units_by_thread(
    hits: Sequence[SearchHit], memberships: Memberships, seen: Collection[ThreadId]
) -> dict[ThreadId, list[_UnitEvidence]]:
    by_unit: dict[UnitId, list[SearchHit]] = defaultdict(list)
    for hit in hits:
        if hit.owner_id in memberships:
            by_unit[UnitId(hit.owner_id)].append(hit)
    threads: dict[ThreadId, list[_UnitEvidence]] = defaultdict(list)
    for unit_id, unit_hits in by_unit.items():
        for thread_id, weight in memberships[unit_id].items():
            if weight > 0 and thread_id in seen:
                threads[thread_id].append(_unit_evidence(unit_id, unit_hits, weight))
    return threads


def _unit_evidence(unit_id: UnitId, hits: Sequence[SearchHit], weight: float) -> _UnitEvidence:
    dense = [hit.breakdown.dense for hit in hits if hit.breakdown.dense is not None]
    return _UnitEvidence(
        unit_id=unit_id,
        language=max(str(hit.metadata.get("language", "")) for hit in hits),
        dense=max(dense, default=None),
        bm25={
            name: max(getattr(hit.breakdown, name) or 0.0 for hit in hits) for name in _BM25_INPUTS
        },
        score=max(hit.score for hit in hits),
        weight=weight,
    )


def _leads(units: Mapping[ThreadId, Sequence[_UnitEvidence]]) -> dict[ThreadId, float]:
    """By how much the thread of the best unit is ahead of the next thread, as a share of its score; nobody else has a lead."""
    best = {
        thread_id: max(unit.weight * unit.score for unit in members)
        for thread_id, members in units.items()
    }
    ranked = sorted(best.values(), reverse=True)
    if not ranked or ranked[0] <= 0:
        return {}
    second = ranked[1] if len(ranked) > 1 else 0.0
    return {
        thread_id: 1 - max(second, 0.0) / value
        for thread_id, value in best.items()
        if value == ranked[0]
    }


def _relation(language: str, units: Sequence[_UnitEvidence], farthest: float) -> str:
    if language == "vi-unmarked":
        return "unmarked"
    if not units:
        return "same"
    best = max(
        units, key=lambda unit: (unit.dense if unit.dense is not None else farthest, unit.unit_id)
    )
    is_same = language == "mixed" or best.language.partition("-")[0] in {language, ""}
    return "same" if is_same else "cross"


def _evidence(
    units: Sequence[_UnitEvidence],
    floor: float,
    scale: tuple[float, float],
    asked: Mapping[str, float],
) -> dict[str, float]:
    if not units:
        return {"dense": floor}
    # A supporting or doubtful member says less for its thread: it is drawn towards the floor.
    heights = [
        floor
        + unit.weight * ((_scaled(unit.dense, scale) if unit.dense is not None else floor) - floor)
        for unit in units
    ]
    best = max(heights)
    return {
        "dense": best,
        # fsum: the same sum whatever the order of the hits.
        "dense_mass": math.log(
            math.fsum(math.exp(_MASS_SHARPNESS * (height - best)) for height in heights)
        ),
        **{
            name: max(unit.weight * unit.bm25[name] for unit in units) / asked[name]
            for name in _BM25_INPUTS
            if asked[name] > 0
        },
        "score": max(unit.weight * unit.score for unit in units),
    }


def _scale(name: str, scales: Scales, cosines: Sequence[float]) -> tuple[float, float]:
    if name in scales:
        return scales[name]
    if not cosines:
        return (0.0, 1.0)
    ordered = sorted(cosines)
    return (fmean(ordered), max(pstdev(ordered), _NARROWEST))


def _scaled(cosine: float, scale: tuple[float, float]) -> float:
    return (cosine - scale[0]) / scale[1]
