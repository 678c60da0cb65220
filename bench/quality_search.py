"""Units that search finds, beside BM25 alone, dense alone and LlamaIndex's retriever over the same vectors.

Belongs here: a published store for one task, the contestants, MRR and recall.
Does not belong here: what is asked (quality_tasks), threads (quality_threads).
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.measuring import Measure
from bench.quality_tasks import Question, Task, Unit
from bench.quality_vectors import BenchEmbedder
from bench.reference_search import CUTOFF, PlainBm25, best
from bench.single_searches import search_bm25, search_dense
from threadhouse.retrieval.audience import AudiencePolicy, LanePolicy
from threadhouse.retrieval.audit import owner_key
from threadhouse.retrieval.bm25 import TermForm, document_vector
from threadhouse.retrieval.models import (
    AllOf,
    Audience,
    Authority,
    Collection,
    DataClassification,
    Json,
    LifecycleStage,
    Principal,
    PublicationState,
    Readiness,
    RiskClass,
    TextSpan,
    VectorPoint,
    Vectors,
    Visibility,
)
from threadhouse.retrieval.payloads import (
    PAYLOAD_SCHEMA,
    chunk_payload,
    labels_from_metadata,
    point_id,
    validate_payload,
)
from threadhouse.retrieval.ports import VectorSearcher
from threadhouse.retrieval.query_text import PreparedQuery, prepare_query
from threadhouse.retrieval.search import LiveOwner, search_collections
from threadhouse.retrieval.text import prepare_text
from threadhouse.stores.projection_sources import OwnerText, UnitSource
from threadhouse.stores.vectors_edge import EdgeReader, EdgeWriter

UNITS = Collection.INFORMATION_UNITS
FETCHED = 100
"""Chunks that the single methods fetch for ten units or documents: as many as search fetches from each list."""

AIMS: Mapping[str, float] = {
    "xquad vi→vi": 0.97,
    "xquad en→en": 0.975,
    "xquad vi→en": 0.80,
    "xquad en→vi": 0.80,
    "xquad vi without marks": 0.92,
    "phapdien related": 0.35,
    "phapdien heading→body, no headings": 0.64,
}
"""MRR@10 of search that was set as the aim."""

Ranking: TypeAlias = Sequence[Unit]
"""Units best first, each once; at least CUTOFF + 1 of them where the pool has so many."""
Ranker: TypeAlias = Callable[[int], Ranking]
"""The ranking of a question by its position in the task."""


@dataclass(slots=True)
class _Pool:
    """A published store and what stands in it. Implements `threadhouse.retrieval.search_hits.LiveOwners`: all is live."""

    reader: VectorSearcher
    physical: str
    units: Mapping[str, Unit]
    unit_of: dict[uuid.UUID, Unit] = field(default_factory=dict[uuid.UUID, Unit])
    vectors: list[tuple[str, NDArray[np.float32]]] = field(
        default_factory=list[tuple[str, NDArray[np.float32]]]
    )
    owners: dict[str, LiveOwner] = field(default_factory=dict[str, LiveOwner])

    def ask_owners(
        self, collection: Collection, physical: str, owner_ids: Sequence[str]
    ) -> Callable[[], Mapping[str, LiveOwner]]:
        del collection, physical
        return lambda: {owner_id: self.owners[owner_id] for owner_id in owner_ids}


@contextmanager
def _published(task: Task, embedder: BenchEmbedder) -> Generator[_Pool, None, None]:
    space = embedder.inner.space
    points = list(_whole_points(task, embedder) if task.whole else _chunk_points(task, embedder))
    with tempfile.TemporaryDirectory(prefix="threadhouse-bench-") as folder:
        home = Path(folder)
        with EdgeWriter(home) as writer:
            physical = writer.ensure_collection(UNITS, space)
            writer.upsert(physical, space.space_id, points)
            writer.publish(physical)
        with EdgeReader(home) as reader:
            pool = _Pool(reader, physical, {unit.unit_id: unit for unit in task.units})
            for point in points:
                owner_id, version_key = owner_key(UNITS, point.payload)
                pool.unit_of[point.point_id] = pool.units[owner_id]
                pool.vectors.append((owner_id, point.dense))
                metadata = point.payload["metadata"]
                if isinstance(metadata, dict):
                    pool.owners[owner_id] = LiveOwner(version_key, labels_from_metadata(metadata))
            yield pool


def _chunk_points(task: Task, embedder: BenchEmbedder) -> Iterable[VectorPoint]:
    source, cached = UnitSource(), embedder.cached
    chunks: list[tuple[Unit, TextSpan, int, int]] = []
    for unit in task.units:
        text = OwnerText(unit.unit_id, str(_version(unit)), unit.title, prepare_text(unit.body))
        spans = [span for span, _ in source.cut(text, cached)]
        chunks += [(unit, span, index, len(spans)) for index, span in enumerate(spans)]
    embedded = source.embed([(unit.title, span.text) for unit, span, _, _ in chunks], cached)
    for (unit, span, index, total), dense in zip(chunks, embedded.data, strict=True):
        yield _point(unit, unit.title, span, index, total, dense)


def _whole_points(task: Task, embedder: BenchEmbedder) -> Iterable[VectorPoint]:
    dense = embedder.whole([unit.body for unit in task.units])
    for unit, row in zip(task.units, dense, strict=True):
        body = prepare_text(unit.body)
        yield _point(unit, "", TextSpan(body, 0, len(body)), 0, 1, row)


def _version(unit: Unit) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, unit.unit_id)


def _point(
    unit: Unit, title: str, span: TextSpan, index: int, total: int, dense: NDArray[np.float32]
) -> VectorPoint:
    version = _version(unit)
    owner: dict[str, Json] = {
        "document_id": unit.document_id,
        "metadata": {
            "title": title,
            "tags": list(unit.tags),
            "path": unit.path,
            "language": unit.language,
            "visibility": Visibility.PUBLIC,
            "readiness": Readiness.PUBLISHED,
            "publication_state": PublicationState.PUBLISHED,
            "risk_class": RiskClass.LOW,
            "authority": Authority.ENACTED,
            "lifecycle_stage": LifecycleStage.LAW,
            "data_classification": DataClassification.UNCLASSIFIED,
            "payload_schema": PAYLOAD_SCHEMA,
            "logical_unit_id": unit.unit_id,
            "unit_version_id": str(version),
            "unit_kind": "unit",
            "canonical_address": unit.unit_id,
            "source_revision": 1,
        },
    }
    payload = chunk_payload(owner, span, index, total)
    validate_payload(UNITS, payload)
    searchable = f"{title}\n{span.text}"
    return VectorPoint(
        point_id(UNITS, str(version), index),
        dense,
        document_vector(searchable, TermForm.ACCENTED),
        document_vector(searchable, TermForm.FOLDED),
        payload,
    )


def measure_search(task: Task, embedder: BenchEmbedder, *, boosts: bool) -> list[Measure]:
    """Search and its peers on one task."""
    rows = embedder.questions([question.text for question in task.questions])
    space_id = embedder.inner.space.space_id
    prepared = [
        _prepare(question.text, space_id, row)
        for question, row in zip(task.questions, rows, strict=True)
    ]
    with _published(task, embedder) as pool:
        peers: dict[str, Ranker] = {
            "BM25 accented": _bm25_ranker(pool, prepared, TermForm.ACCENTED),
            "BM25 folded": _bm25_ranker(pool, prepared, TermForm.FOLDED),
            "plain BM25": _plain_ranker(task),
            "dense": _dense_ranker(pool, prepared),
        }
        if (llama := _llama_ranker(pool, prepared)) is not None:
            peers["LlamaIndex"] = llama
        scores = {name: _score(task, rank) for name, rank in peers.items()}
        ours = _score(task, _search_ranker(pool, prepared, task, boosts))
    peer = max(scores, key=lambda name: scores[name].mrr)
    aim = AIMS.get(task.name)
    against = f", aim {aim:.3f} {'reached' if ours.mrr >= aim else 'MISSED'}" if aim else ""
    measures = [
        Measure(
            f"{task.name}, search",
            ours.mrr,
            "MRR@10",
            f"best single: {peer}",
            scores[peer].mrr,
            ours.note + against,
        )
    ]
    for name, score in scores.items():
        measures.append(Measure(f"{task.name}, {name}", score.mrr, "MRR@10", note=score.note))
    return measures


def _prepare(text: str, space_id: str, row: NDArray[np.float32]) -> PreparedQuery:
    vector = Vectors(space_id, "query", row[None, :], np.zeros(1, np.bool_))
    return prepare_query(text, lambda _: vector)


@dataclass(frozen=True, slots=True)
class _Score:
    mrr: float
    note: str


def _score(task: Task, rank: Ranker) -> _Score:
    reciprocal: list[float] = []
    recalled: list[float] = []
    first: list[bool] = []
    three: list[bool] = []
    for position, question in enumerate(task.questions):
        units = _counting(task, question, rank(position))
        ids = [unit.document_id if task.by_document else unit.unit_id for unit in units]
        reciprocal.append(
            next((1 / (r + 1) for r, i in enumerate(ids) if i in question.relevant), 0.0)
        )
        recalled.append(len(question.relevant & set(ids)) / len(question.relevant))
        if question.threads:
            first.append(bool(units) and bool(units[0].threads & question.threads))
            three.append(any(unit.threads & question.threads for unit in units[:3]))
    half_width = 1.96 * float(np.std(reciprocal)) / max(len(reciprocal), 1) ** 0.5
    note = f"± {half_width:.3f}, recall@10 {np.mean(recalled):.3f}"
    if first:
        note += f", thread of the best unit @1 {np.mean(first):.3f} @3 {np.mean(three):.3f}"
    return _Score(float(np.mean(reciprocal)), f"{note}, {len(reciprocal)} questions")


def _counting(task: Task, question: Question, ranking: Ranking) -> list[Unit]:
    """The first ten that count: without what the question was made from, and each document once where documents are judged."""
    if not task.by_document:
        return [unit for unit in ranking if unit.unit_id != question.excluded][:CUTOFF]
    own = next((unit.document_id for unit in task.units if unit.unit_id == question.excluded), None)
    by_document: dict[str, Unit] = {}
    for unit in ranking:
        if unit.document_id != own:
            by_document.setdefault(unit.document_id, unit)
    return list(by_document.values())[:CUTOFF]


# the contestants

_EVERYBODY = Principal(subject="bench", audience=Audience.CUSTOMER)
_POLICY = AudiencePolicy(
    version=1,
    lanes={
        Audience.CUSTOMER: LanePolicy(
            visibility=frozenset({Visibility.PUBLIC}),
            readiness=frozenset({Readiness.PUBLISHED}),
            publication_state=frozenset({PublicationState.PUBLISHED}),
            risk_class=frozenset({RiskClass.LOW}),
            authority=frozenset({Authority.ENACTED}),
            lifecycle_stage=frozenset({LifecycleStage.LAW}),
            data_classification=frozenset({DataClassification.UNCLASSIFIED}),
        )
    },
)


def _search_ranker(
    pool: _Pool, prepared: Sequence[PreparedQuery], task: Task, boosts: bool
) -> Ranker:
    def rank(position: int) -> Ranking:
        outcome = search_collections(
            prepared[position],
            _EVERYBODY,
            [UNITS],
            policy=_POLICY,
            searcher=pool.reader,
            live=pool,
            # One more than counts, because what the question was made from may be among them.
            limit=CUTOFF + 1,
            one_per="document" if task.by_document else "owner",
            rerank_enabled=boosts,
        )
        return [pool.units[hit.owner_id] for hit in outcome.hits]

    return rank


def _bm25_ranker(pool: _Pool, prepared: Sequence[PreparedQuery], form: TermForm) -> Ranker:
    def rank(position: int) -> Ranking:
        query = prepared[position]
        terms = query.bm25_accented if form is TermForm.ACCENTED else query.bm25_folded
        hits = search_bm25(pool.reader, pool.physical, form, terms, AllOf(), FETCHED)
        return _units_of(pool, (hit.point_id for hit in hits))

    return rank


def _dense_ranker(pool: _Pool, prepared: Sequence[PreparedQuery]) -> Ranker:
    def rank(position: int) -> Ranking:
        hits = search_dense(pool.reader, pool.physical, prepared[position].vector, AllOf(), FETCHED)
        return _units_of(pool, (hit.point_id for hit in hits))

    return rank


def _plain_ranker(task: Task) -> Ranker:
    plain = PlainBm25([u.body if task.whole else f"{u.title}\n{u.body}" for u in task.units])

    def rank(position: int) -> Ranking:
        top = best(plain.scores(task.questions[position].text), FETCHED)
        return [task.units[place] for place in top]

    return rank


def _llama_ranker(pool: _Pool, prepared: Sequence[PreparedQuery]) -> Ranker | None:
    """None when LlamaIndex is not installed here; ``make bench-quality`` brings it."""
    try:
        # Lives in the environment of `make bench-quality` only, where nobody checks types.
        core: Any = import_module("llama_index.core")
        schema: Any = import_module("llama_index.core.schema")
    except ModuleNotFoundError:
        print(
            "LlamaIndex is not installed here, so it is not beside: make bench-quality installs it."
        )
        return None
    nodes: list[Any] = [
        schema.TextNode(id_=str(place), text=owner_id, embedding=dense.tolist())
        for place, (owner_id, dense) in enumerate(pool.vectors)
    ]
    # The embedding model is never asked: nodes and questions bring their vectors.
    index = core.VectorStoreIndex(
        nodes, embed_model=core.MockEmbedding(embed_dim=len(pool.vectors[0][1]))
    )
    retriever = index.as_retriever(similarity_top_k=FETCHED)

    def rank(position: int) -> Ranking:
        query = prepared[position]
        bundle = core.QueryBundle(query.text, embedding=query.vector.data[0].tolist())
        owners = dict.fromkeys(found.node.get_content() for found in retriever.retrieve(bundle))
        return [pool.units[owner_id] for owner_id in owners]

    return rank


def _units_of(pool: _Pool, point_ids: Iterable[uuid.UUID]) -> Ranking:
    return list({pool.unit_of[i].unit_id: pool.unit_of[i] for i in point_ids}.values())
