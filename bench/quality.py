"""Quality of search on public judgements: `search_collections` beside BM25 alone, dense alone and LlamaIndex's retriever.

What stands beside what, in one run, on the same texts, the same vectors and the same questions:

- *search*: the one search function of the product, on a published store, filter and read-back included, as a reader gets it;
- *BM25*: the better of our two BM25 lists alone, from the same store (accents kept, folded; single words and pairs);
- *plain BM25*: the textbook formula over single words, accents kept, computed over arrays;
- *dense*: the nearest vectors alone, from the same store;
- *LlamaIndex*: the retriever of a ``VectorStoreIndex`` that was given the same vectors; it has no BM25 of its own.

Units are cut, embedded and written by the code of the nightly job: a chunk carries its unit's title, and a unit counts at the
place of its best chunk. Where judgements ask for that, there is a second set-up, named ``no headings``: one text an article
without its heading, one vector cut at the model's limit. The figures of the data's own pages were taken in that set-up.

A thread counts as found by search when the best hit's unit belongs to it (hit@1), or one of the first three units' threads.
Thread resolution has a benchmark of its own.

Vectors are kept in the home, so only a first run embeds: about a minute for xquad, a quarter of an hour each for phapdien and
PEPs. There is no noise of the clock: quality does not depend on it.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import unicodedata
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.measuring import BenchSkippedError, Measure
from bench.reference_search import CUTOFF, PlainBm25, best
from bench.retrieval import DATA, read_rows
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
from threadhouse.retrieval.text import hash_text, prepare_text
from threadhouse.stores.embedders import FastembedEmbedder, open_embedder
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.projection_sources import OwnerText, UnitSource
from threadhouse.stores.settings import Settings
from threadhouse.stores.vectors_edge import EdgeReader, EdgeWriter

UNITS = Collection.INFORMATION_UNITS
SETS = ("xquad", "phapdien", "peps")
FOLDERS = {"xquad": "xquad_vi_en", "phapdien": "vn_phapdien", "peps": "peps_lifecycle"}
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


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of a pool."""

    unit_id: str
    document_id: str
    threads: frozenset[str]
    language: str
    title: str
    body: str
    path: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """``relevant`` are ids of units, or of documents where a task judges documents; ``excluded`` must not count as found."""

    text: str
    relevant: frozenset[str]
    threads: frozenset[str]
    excluded: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """Questions against a pool. ``whole`` is the set-up without headings; ``by_document`` judges documents."""

    name: str
    units: Sequence[Unit]
    questions: Sequence[Question]
    whole: bool = False
    by_document: bool = False


Ranking: TypeAlias = Sequence[Unit]
"""Units best first, each once; at least CUTOFF + 1 of them where the pool has so many."""
Ranker: TypeAlias = Callable[[int], Ranking]
"""The ranking of a question by its position in the task."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the defaults are quick."""
    parser.add_argument("--data", type=Path, default=DATA, help="Folder of the public data.")
    parser.add_argument(
        "--sets",
        nargs="+",
        choices=SETS,
        default=["xquad"],
        help="Which data; xquad alone is quick.",
    )
    parser.add_argument("--only", default="", help="Only tasks whose name holds this text.")
    parser.add_argument(
        "--no-boosts", action="store_true", help="Search as with SEARCH_RERANK_ENABLED=false."
    )


def run(options: argparse.Namespace) -> list[Measure]:
    """Measure."""
    data: Path = options.data
    missing = [FOLDERS[name] for name in options.sets if not (data / FOLDERS[name]).is_dir()]
    if missing:
        message = (
            f"The public data (shared/data beside the checkout, or --data) has no {missing[0]}."
        )
        raise BenchSkippedError(message)
    settings = Settings.from_environment()
    inner = open_embedder(
        settings.home,
        model=settings.embedding_model,
        path=settings.embedding_path,
        threads=settings.embedding_threads,
    )
    readers: Mapping[str, Callable[[Path], Sequence[Task]]] = {
        "xquad": _xquad_tasks,
        "phapdien": _phapdien_tasks,
        "peps": _peps_tasks,
    }
    measures: list[Measure] = []
    with closing(KeptVectors(settings.home / "bench" / "vectors.sqlite")) as kept:
        embedder = BenchEmbedder(inner, kept)
        for name in options.sets:
            for task in readers[name](data / FOLDERS[name]):
                if options.only in task.name:
                    measures += _measure(task, embedder, boosts=not options.no_boosts)
    return measures


# what is asked


def _xquad_tasks(folder: Path) -> list[Task]:
    """Each language is a pool of its own: in a mixed pool a question's translation would stand in its way."""
    units = {
        language: [
            Unit(
                str(row["unit_id"]),
                str(row["doc_id"]),
                frozenset({str(row["thread_id"])}),
                language,
                "",
                str(row["text"]),
                str(row["doc_id"]),
            )
            for row in read_rows(folder / "units.jsonl")
            if row["lang"] == language
        ]
        for language in ("vi", "en")
    }
    judged = _judged_questions(folder)
    tasks = [
        Task(f"xquad {pair}", units[pair[-2:]], judged[pair.replace("→", "->")])
        for pair in ("vi→vi", "en→en", "vi→en", "en→vi")
    ]
    unmarked = [replace(q, text=strip_marks(q.text)) for q in judged["vi->vi"]]
    return [*tasks, Task("xquad vi without marks", units["vi"], unmarked)]


def _phapdien_tasks(folder: Path) -> list[Task]:
    units = [
        Unit(
            str(row["unit_id"]),
            str(row["doc_id"]),
            frozenset({str(row["thread_id"])}),
            "vi",
            str(row["heading"]),
            str(row["text"]),
            str(row["doc_id"]),
        )
        for row in read_rows(folder / "units.jsonl")
    ]
    judged = _judged_questions(folder)
    # A heading's own body is what is asked for; what a related question was made from is not an answer to it.
    related, headings = judged["related"], judged["heading_to_body"]
    headings = [replace(question, excluded=None) for question in headings]
    return [
        Task("phapdien related", units, related),
        Task("phapdien heading→body", units, headings),
        Task("phapdien related, no headings", units, related, whole=True),
        Task("phapdien heading→body, no headings", units, headings, whole=True),
    ]


def _peps_tasks(folder: Path) -> list[Task]:
    documents = {str(row["doc_id"]): row for row in read_rows(folder / "documents.jsonl")}
    threads: dict[str, set[str]] = {}
    for row in read_rows(folder / "threads.jsonl"):
        for document_id in _strings(row["doc_ids"]):
            threads.setdefault(document_id, set()).add(str(row["thread_id"]))
    units = [
        Unit(
            str(row["unit_id"]),
            document_id,
            frozenset(threads.get(document_id, ())),
            "en",
            str(row["heading"]),
            str(row["text"]),
            str(documents[document_id].get("source_path") or document_id),
            tuple(_strings(documents[document_id].get("topic_raw"))),
        )
        for row in read_rows(folder / "units.jsonl")
        if not row["empty"]
        for document_id in [str(row["doc_id"])]
    ]
    return [Task("peps citation", units, _judged_questions(folder)["citation"], by_document=True)]


def _judged_questions(folder: Path) -> dict[str, list[Question]]:
    rows = {str(row["query_id"]): row for row in read_rows(folder / "queries.jsonl")}
    relevant: dict[tuple[str, str], set[str]] = {}
    threads: dict[str, set[str]] = {}
    for judgement in read_rows(folder / "qrels.jsonl"):
        question_id, target = str(judgement["query_id"]), str(judgement["target_id"])
        if judgement["target_kind"] == "thread":
            threads.setdefault(question_id, set()).add(target)
        else:
            relevant.setdefault((str(judgement["subset"]), question_id), set()).add(target)
    judged: dict[str, list[Question]] = {}
    for (subset, question_id), targets in relevant.items():
        row = rows[question_id]
        source = row.get("source_unit")
        judged.setdefault(subset, []).append(
            Question(
                str(row["text"]),
                frozenset(targets),
                frozenset(threads.get(question_id, ())),
                str(source) if source is not None else None,
            )
        )
    return judged


def _strings(value: Json) -> list[str]:
    if isinstance(value, list):
        return [str(item) for item in value]
    return [str(value)] if value else []


def strip_marks(text: str) -> str:
    """A question as it is typed without Vietnamese marks; capitals stay."""
    bare = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    return bare.replace("đ", "d").replace("Đ", "D")


# vectors, each computed once


class KeptVectors:
    """Vectors in one file of the home. Implements `threadhouse.stores.embedding_cache.VectorCache`."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = sqlite3.connect(path)
        self._file.execute(
            "create table if not exists vector"
            " (space_id text, role text, text_hash text, data blob, primary key (space_id, role, text_hash))"
        )

    def get_many(
        self, space_id: str, role: str, hashes: Sequence[str]
    ) -> Mapping[str, NDArray[np.float32]]:
        """The known ones among ``hashes``."""
        statement = "select data from vector where space_id = ? and role = ? and text_hash = ?"
        found: dict[str, NDArray[np.float32]] = {}
        for text_hash in hashes:
            row = self._file.execute(statement, (space_id, role, text_hash)).fetchone()
            if row is not None:
                found[text_hash] = np.frombuffer(row[0], np.float32)
        return found

    def put_many(
        self, space_id: str, role: str, vectors: Mapping[str, NDArray[np.float32]]
    ) -> None:
        """Keep these vectors; committed on return."""
        self._file.executemany(
            "insert or ignore into vector values (?, ?, ?, ?)",
            [
                (space_id, role, text_hash, np.asarray(row, np.float32).tobytes())
                for text_hash, row in vectors.items()
            ],
        )
        self._file.commit()

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class BenchEmbedder:
    """The product's embedder before a cache that also keeps questions and texts cut at the limit: they come back every run."""

    inner: FastembedEmbedder
    kept: KeptVectors

    @property
    def cached(self) -> CachedEmbedder:
        """What the nightly job embeds with."""
        return CachedEmbedder(self.inner, self.kept)

    def questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (n, dim)."""

        def embed(missing: Sequence[str]) -> Iterable[tuple[str, NDArray[np.float32]]]:
            return ((text, self.inner.embed_query(text).data[0]) for text in missing)

        return self._all(texts, "query", embed)

    def whole(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (n, dim); a text beyond the model's limit is cut there."""

        def embed(missing: Sequence[str]) -> Iterable[tuple[str, NDArray[np.float32]]]:
            for batch in self.inner.iter_passages(missing):
                yield from zip((missing[p] for p in batch.positions), batch.data, strict=True)

        return self._all(texts, "passage cut", embed)

    def _all(
        self,
        texts: Sequence[str],
        role: str,
        embed: Callable[[Sequence[str]], Iterable[tuple[str, NDArray[np.float32]]]],
    ) -> NDArray[np.float32]:
        space_id = self.inner.space.space_id
        hashes = [hash_text(prepare_text(text)) for text in texts]
        found = dict(self.kept.get_many(space_id, role, hashes))
        missing = {h: text for h, text in zip(hashes, texts, strict=True) if h not in found}
        for text, row in embed(list(missing.values())):
            fresh = {hash_text(prepare_text(text)): row}
            self.kept.put_many(space_id, role, fresh)
            found |= fresh
        return np.array([found[text_hash] for text_hash in hashes], np.float32)


# one task: a store, the contestants, the score


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

    def read(
        self, collection: Collection, physical: str, owner_ids: Sequence[str]
    ) -> Mapping[str, LiveOwner]:
        del collection, physical
        return {owner_id: self.owners[owner_id] for owner_id in owner_ids}


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


def _measure(task: Task, embedder: BenchEmbedder, *, boosts: bool) -> list[Measure]:
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
        hits = pool.reader.search_bm25(pool.physical, form, terms, AllOf(), FETCHED)
        return _units_of(pool, (hit.point_id for hit in hits))

    return rank


def _dense_ranker(pool: _Pool, prepared: Sequence[PreparedQuery]) -> Ranker:
    def rank(position: int) -> Ranking:
        hits = pool.reader.search_dense(pool.physical, prepared[position].vector, AllOf(), FETCHED)
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
