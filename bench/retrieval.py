"""Retrieval quality on public judgements: MRR@10 of BM25 and of dense search through our own store.

What stands beside what: our terms and weights (``retrieval.bm25``) in our store, beside textbook BM25 over arrays
(``bench.reference_search``) on the same texts and the same questions in the same run; and beside the floors of the data's own
pages, which were measured once. A floor that was measured on more questions than are here is not this run's floor: plain BM25
is, and the 95 % interval of the MRR is given beside every figure.

There is no noise of the clock here: quality does not depend on it. The vectors of xquad are kept in the home, so a second run
takes seconds. Where the data is not present, the benchmark is skipped.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bench.measuring import BenchSkippedError, Measure, say
from bench.reference_search import CUTOFF, PlainBm25, best, quality_of, reciprocal_rank
from bench.single_searches import search_bm25, search_dense
from bench.synthetic_hub import synthetic_space, unit_rows
from threadhouse.retrieval.bm25 import TermForm, document_vector, query_vector
from threadhouse.retrieval.models import (
    AllOf,
    Collection,
    Json,
    ScoredPoint,
    VectorPoint,
    Vectors,
    VectorSpace,
)
from threadhouse.retrieval.ports import VectorSearcher
from threadhouse.stores.embedders import FastembedEmbedder, open_embedder
from threadhouse.stores.settings import Settings
from threadhouse.stores.vectors_edge import EdgeReader, EdgeWriter

DATA = Path(__file__).parents[2] / "shared" / "data"
XQUAD_FLOORS = {
    ("vi", "vi"): 0.945,
    ("en", "en"): 0.950,
    ("en", "vi"): 0.308,
    ("vi", "en"): 0.423,
}
"""BM25 with accents, (language of the question, of the paragraph), from the data's page: below, something is broken."""
RELATED_FLOOR, HEADING_FLOOR = 0.302, 0.463
"""BM25 of the data's page, on 1,200 questions a task; the folder holds about half of them."""
CHUNKS_ASKED = 80
"""Chunks fetched for ten units: no article of ours fills more than a few places with its chunks."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the defaults are quick."""
    parser.add_argument("--data", type=Path, default=DATA, help="Folder of the public data.")
    parser.add_argument(
        "--phapdien", action="store_true", help="Also 4,834 articles of law: BM25, both tasks."
    )
    parser.add_argument(
        "--home",
        type=Path,
        help="A home whose nightly built phapdien: with --phapdien also searches its collection, dense and BM25.",
    )


def run(options: argparse.Namespace) -> list[Measure]:
    """Measure."""
    data: Path = options.data
    if not (data / "xquad_vi_en").is_dir():
        message = "The public data (shared/data beside the checkout, or --data) is not here."
        raise BenchSkippedError(message)
    settings = Settings.from_environment()
    embedder = open_embedder(
        settings.home,
        model=settings.embedding_model,
        path=settings.embedding_path,
        threads=settings.embedding_threads,
    )
    measures = _measure_xquad(data / "xquad_vi_en", settings.home / "bench", embedder)
    if options.phapdien:
        law = _read_task(data / "vn_phapdien")
        measures += _measure_law(law)
        if options.home is not None:
            measures += _measure_built_home(law, options.home, embedder)
    return measures


@dataclass(frozen=True, slots=True)
class Question:
    """One question and what answers it; ``source`` is what it was made from and must not count as found."""

    question_id: str
    text: str
    relevant: frozenset[str]
    language: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """Units (raw rows) and the questions of each subset of judgements."""

    units: Sequence[Mapping[str, Json]]
    questions: Mapping[str, Sequence[Question]]


def read_rows(path: Path) -> list[dict[str, Json]]:
    """The rows of a JSONL file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _read_task(folder: Path) -> Task:
    rows = {str(row["query_id"]): row for row in read_rows(folder / "queries.jsonl")}
    relevant: dict[tuple[str, str], set[str]] = {}
    for judgement in read_rows(folder / "qrels.jsonl"):
        if judgement["target_kind"] == "unit":
            key = str(judgement["subset"]), str(judgement["query_id"])
            relevant.setdefault(key, set()).add(str(judgement["target_id"]))
    questions: dict[str, list[Question]] = {}
    for (subset, question_id), targets in relevant.items():
        row = rows[question_id]
        source = row.get("source_unit")
        questions.setdefault(subset, []).append(
            Question(
                question_id,
                str(row["text"]),
                frozenset(targets),
                str(row["lang"]),
                str(source) if source is not None else None,
            )
        )
    return Task(read_rows(folder / "units.jsonl"), questions)


Ranker = Callable[[Question], Sequence[str]]
"""Unit ids for a question, best first."""


def _score(name: str, questions: Sequence[Question], rank: Ranker) -> tuple[float, str]:
    quality = quality_of([reciprocal_rank(rank(q), q.relevant) for q in questions])
    note = f"± {quality.half_width:.3f}, hit@10 {quality.hit_rate:.3f}, {quality.queries} questions"
    return quality.mrr, note


def _measure(
    name: str,
    questions: Sequence[Question],
    ours: Ranker,
    peer: str = "",
    peer_value: float | None = None,
    remark: str = "",
) -> Measure:
    value, note = _score(name, questions, ours)
    return Measure(name, value, "MRR", peer, peer_value, f"{note}{remark}")


# xquad: paragraphs and questions in two languages


@dataclass(frozen=True, slots=True)
class _Embedded:
    passages: NDArray[np.float32]
    queries: NDArray[np.float32]


def _measure_xquad(folder: Path, kept: Path, embedder: FastembedEmbedder) -> list[Measure]:
    task = _read_task(folder)
    everybody = {
        question.question_id: question
        for questions in task.questions.values()
        for question in questions
    }
    embedded = _embed(
        kept / f"xquad-{embedder.space.space_id}.npz",
        embedder,
        [str(unit["text"]) for unit in task.units],
        [question.text for question in everybody.values()],
    )
    row_of = {question_id: row for row, question_id in enumerate(everybody)}
    measures: list[Measure] = []
    with tempfile.TemporaryDirectory(prefix="threadhouse-bench-") as home:
        texts = {str(u["unit_id"]): str(u["text"]) for u in task.units}
        languages = [str(unit["lang"]) for unit in task.units]
        _fill(Path(home), embedder.space, texts, embedded.passages, languages)
        with EdgeReader(Path(home)) as reader:
            for (asked, found), floor in XQUAD_FLOORS.items():
                questions = task.questions[f"{asked}->{found}"]
                where = AllOf((("metadata.language", (found,)),))
                pool = [str(u["unit_id"]) for u in task.units if u["lang"] == found]
                plain = _plain_ranker(pool, [texts[unit_id] for unit_id in pool])
                peer, _ = _score("", questions, plain)
                for form in TermForm:
                    measures.append(
                        _measure(
                            f"xquad {asked}→{found}, {form.replace('_', ' ')}",
                            questions,
                            _bm25_ranker(reader, where, form),
                            "plain BM25",
                            peer,
                            f", floor {floor}" if form is TermForm.ACCENTED else "",
                        )
                    )

                def dense(question: Question, where: AllOf = where) -> list[str]:
                    row = embedded.queries[row_of[question.question_id]][None, :]
                    query = Vectors(embedder.space.space_id, "query", row, np.zeros(1, np.bool_))
                    return _ids(search_dense(reader, _ALIAS, query, where, CUTOFF))

                measures.append(
                    _measure(f"xquad {asked}→{found}, dense", questions, dense, "plain BM25", peer)
                )
    return measures


def _embed(
    path: Path, embedder: FastembedEmbedder, passages: Sequence[str], queries: Sequence[str]
) -> _Embedded:
    if path.exists():
        with np.load(path) as stored:
            kept = _Embedded(stored["passages"], stored["queries"])
        if (len(kept.passages), len(kept.queries)) == (len(passages), len(queries)):
            return kept
    say(
        f"embedding {len(passages):,} paragraphs and {len(queries):,} questions, kept for the next run"
    )
    embedded = _Embedded(
        embedder.embed_passages(passages).data,
        np.concatenate([embedder.embed_query(query).data for query in queries]),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, passages=embedded.passages, queries=embedded.queries)
    return embedded


# phapdien: articles of law


def _measure_law(task: Task) -> list[Measure]:
    """One text an article, as the floors were measured: related articles by heading and text, own body by text alone."""
    ids = [str(unit["unit_id"]) for unit in task.units]
    bodies = [str(unit["text"]) for unit in task.units]
    whole = [f"{u['heading']}\n{u['text']}" for u in task.units]
    measures: list[Measure] = []
    for subset, texts, floor in (
        ("related", whole, RELATED_FLOOR),
        ("heading_to_body", bodies, HEADING_FLOOR),
    ):
        questions = task.questions[subset]
        peer, _ = _score("", questions, _plain_ranker(ids, texts))
        with tempfile.TemporaryDirectory(prefix="threadhouse-bench-") as home:
            # Nobody searches these vectors; a store wants one a point.
            _fill(
                Path(home),
                synthetic_space(),
                dict(zip(ids, texts, strict=True)),
                unit_rows(len(ids), 1),
                ["vi"] * len(ids),
            )
            with EdgeReader(Path(home)) as reader:
                measures += [
                    _measure(
                        f"phapdien {subset}, {form.replace('_', ' ')}",
                        questions,
                        _bm25_ranker(reader, AllOf(), form),
                        "plain BM25",
                        peer,
                        f", floor {floor} on 1,200" if form is TermForm.ACCENTED else "",
                    )
                    for form in TermForm
                ]
    return measures


def _measure_built_home(task: Task, home: Path, embedder: FastembedEmbedder) -> list[Measure]:
    """Related articles in the collection that a nightly built: chunks, of which a unit's best one counts.

    Headings lie in its texts, so the other task would ask for what is written there.
    """
    questions = task.questions["related"]
    with EdgeReader(home) as reader:

        def dense(question: Question) -> list[str]:
            query = embedder.embed_query(question.text)
            hits = search_dense(reader, Collection.INFORMATION_UNITS, query, AllOf(), CHUNKS_ASKED)
            return _without_source(_ids(hits), question)

        def bm25(question: Question) -> list[str]:
            query = query_vector(question.text, TermForm.ACCENTED)
            hits = search_bm25(
                reader,
                Collection.INFORMATION_UNITS,
                TermForm.ACCENTED,
                query,
                AllOf(),
                CHUNKS_ASKED,
            )
            return _without_source(_ids(hits), question)

        peer, _ = _score(
            "",
            questions,
            _plain_ranker(
                [str(u["unit_id"]) for u in task.units],
                [f"{u['heading']}\n{u['text']}" for u in task.units],
            ),
        )
        return [
            _measure(
                "phapdien related, built home, bm25 accented", questions, bm25, "plain BM25", peer
            ),
            _measure("phapdien related, built home, dense", questions, dense, "plain BM25", peer),
        ]


# both

_ALIAS = "benchmark"


def _fill(
    home: Path,
    space: VectorSpace,
    texts: Mapping[str, str],
    dense: NDArray[np.float32],
    languages: Sequence[str],
) -> None:
    """A published store with one point a text."""
    with EdgeWriter(home) as writer:
        physical = writer.ensure_collection(_ALIAS, space)
        writer.upsert(physical, space.space_id, _points(texts, dense, languages))
        writer.publish(physical)


def _points(
    texts: Mapping[str, str], dense: NDArray[np.float32], languages: Sequence[str]
) -> Iterable[VectorPoint]:
    for (unit_id, text), row, language in zip(texts.items(), dense, languages, strict=True):
        yield VectorPoint(
            point_id=uuid.uuid5(uuid.NAMESPACE_OID, unit_id),
            dense=row,
            bm25_accented=document_vector(text, TermForm.ACCENTED),
            bm25_folded=document_vector(text, TermForm.FOLDED),
            payload={
                "document_id": unit_id,
                "metadata": {"logical_unit_id": unit_id, "language": language},
            },
        )


def _bm25_ranker(reader: VectorSearcher, where: AllOf, form: TermForm) -> Ranker:
    def rank(question: Question) -> list[str]:
        query = query_vector(question.text, form)
        # One more than counts, because the question's own source may be among them.
        hits = search_bm25(reader, _ALIAS, form, query, where, CUTOFF + 1)
        return _without_source(_ids(hits), question)

    return rank


def _plain_ranker(ids: Sequence[str], texts: Sequence[str]) -> Ranker:
    plain = PlainBm25(texts)

    def rank(question: Question) -> list[str]:
        top = best(plain.scores(question.text), CUTOFF + 1)
        return _without_source([ids[position] for position in top], question)

    return rank


def _ids(hits: Sequence[ScoredPoint]) -> list[str]:
    """Units of the hits, each at its best place."""
    found: dict[str, None] = {}
    for hit in hits:
        metadata = cast("dict[str, Json]", hit.payload["metadata"])
        found[str(metadata["logical_unit_id"])] = None
    return list(found)


def _without_source(ids: Sequence[str], question: Question) -> list[str]:
    """The ranking as the data's page wants it: what a related question was made from is dropped before scoring."""
    is_own_body = question.source in question.relevant
    return [i for i in ids if is_own_body or i != question.source]
