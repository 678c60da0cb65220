"""The embedded vector store: writing, publishing, opening, searching.

What stands beside what, in rounds that take turns, on the same points:

- our ``upsert`` beside the bare engine (qdrant-edge, same configuration): the difference is the checks of every vector
  and payload, the bytes counted, and reading back that each point was kept;
- our publish (optimise, close, copy without log and holes, open the copy and count, make it durable, move the pointer) beside
  ``cp -r`` of the live directory;
- filtered dense and BM25 search beside brute force over numpy arrays, which loads no payload.

Every round writes a store of its own; figures are medians. The points are made up (``bench.synthetic_hub``).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import cast

import numpy as np

from bench.measuring import Measure, interleave, median, say, seconds_of
from bench.reference_search import PlainBm25, best
from bench.single_searches import search_bm25, search_dense
from bench.synthetic_hub import (
    VISIBILITIES,
    SyntheticEmbedder,
    make_points,
    synthetic_space,
    words,
)
from threadhouse.retrieval.bm25 import TermForm, query_vector
from threadhouse.retrieval.models import AllOf, VectorPoint
from threadhouse.stores.vectors import BM25_VECTORS, KEYWORD_FIELDS
from threadhouse.stores.vectors_edge import WHOLE_VECTORS_BELOW_KB, EdgeReader, EdgeWriter

ALIAS = "benchmark"
BARE_BATCH_POINTS = 500
"""Ours are bounded by bytes as JSON instead, which comes to about 270 of these points."""
WHERE = AllOf((("metadata.visibility", VISIBILITIES[:2]), ("metadata.readiness", ("published",))))
LIMIT = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the defaults are quick."""
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queries", type=int, default=50, help="Queries in each round.")


def run(options: argparse.Namespace) -> list[Measure]:
    """Measure."""
    points, texts = make_points(options.points)
    say(f"writing {len(points):,} points, in turns with the bare engine")
    with tempfile.TemporaryDirectory(prefix="threadhouse-bench-") as folder:
        root = Path(folder)
        writing = _write_measures(points, root, options.rounds)
        home = root / "kept"
        with EdgeWriter(home) as writer:
            writer.upsert(
                writer.ensure_collection(ALIAS, synthetic_space()),
                synthetic_space().space_id,
                points,
            )
            writer.publish(ALIAS)
            say("publishing, opening, searching")
            publishing = _publish_measures(writer, points, home, root, options.rounds)
        opening = _open_measure(home, options.rounds)
        searching = _search_measures(points, texts, home, options.rounds, options.queries)
    return [Measure("points", len(points), ""), *writing, *publishing, opening, *searching]


def _write_measures(points: Sequence[VectorPoint], root: Path, rounds: int) -> list[Measure]:
    numbers = count()
    space = synthetic_space()

    def ours() -> float:
        home = root / f"ours-{next(numbers)}"
        with EdgeWriter(home) as writer:
            physical = writer.ensure_collection(ALIAS, space)
            seconds = seconds_of(lambda: writer.upsert(physical, space.space_id, points))
        shutil.rmtree(home)
        return seconds

    def bare() -> float:
        folder = root / f"bare-{next(numbers)}"
        folder.mkdir()
        seconds = _write_bare(points, folder)
        shutil.rmtree(folder)
        return seconds

    taken = interleave(rounds, {"ours": ours, "bare": bare})
    rate = {name: tuple(len(points) / s for s in seconds) for name, seconds in taken.items()}
    return [
        Measure(
            "upsert with all checks",
            median(rate["ours"]),
            "points/s",
            "bare engine",
            median(rate["bare"]),
            rounds=rate["ours"],
        )
    ]


def _write_bare(points: Sequence[VectorPoint], folder: Path) -> float:
    import qdrant_edge as edge

    space = synthetic_space()
    shard = edge.EdgeShard.create(
        str(folder),
        edge.EdgeConfig(
            vectors={
                space.space_id: edge.EdgeVectorParams(size=space.dim, distance=edge.Distance.Cosine)
            },
            sparse_vectors={
                name: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)
                for name in BM25_VECTORS
            },
            optimizers=edge.EdgeOptimizersConfig(indexing_threshold=WHOLE_VECTORS_BELOW_KB),
            wal_enabled=True,
        ),
    )
    for name in KEYWORD_FIELDS:
        shard.update(edge.UpdateOperation.create_field_index(name, edge.PayloadSchemaType.Keyword))

    def write() -> None:
        for start in range(0, len(points), BARE_BATCH_POINTS):
            batch: list[edge.Point] = []
            for point in points[start : start + BARE_BATCH_POINTS]:
                vectors: dict[str, edge.NamedVector] = {
                    space.space_id: cast("list[float]", point.dense.tolist())
                }
                for name, sparse in zip(
                    BM25_VECTORS, (point.bm25_accented, point.bm25_folded), strict=True
                ):
                    vectors[name] = edge.SparseVector(list(sparse.indices), list(sparse.values))
                batch.append(edge.Point(point.point_id, vectors, point.payload))
            shard.update(edge.UpdateOperation.upsert_points(batch))

    seconds = seconds_of(write)
    shard.close()
    return seconds


def _publish_measures(
    writer: EdgeWriter, points: Sequence[VectorPoint], home: Path, root: Path, rounds: int
) -> list[Measure]:
    physical = writer.resolve(ALIAS)
    live = home / "qdrant" / "live" / physical
    target = root / "copy"

    def ours() -> float:
        # One point written again: without it there is nothing to publish.
        writer.upsert(physical, synthetic_space().space_id, points[:1])
        return seconds_of(lambda: writer.publish(physical))

    def copy() -> float:
        seconds = seconds_of(
            lambda: subprocess.run(["cp", "-r", str(live), str(target)], check=True)
        )
        shutil.rmtree(target)
        return seconds

    taken = interleave(rounds, {"ours": ours, "copy": copy})
    idle = median([seconds_of(lambda: writer.publish(physical)) for _ in range(rounds)])
    return [
        Measure(
            "publish after one point",
            median(taken["ours"]),
            "s",
            "cp -r",
            median(taken["copy"]),
            rounds=taken["ours"],
        ),
        Measure("publish of nothing", idle * 1e3, "ms"),
    ]


def _open_measure(home: Path, rounds: int) -> Measure:
    def open_and_count() -> None:
        with EdgeReader(home) as reader:
            reader.count(ALIAS)

    taken = tuple(seconds_of(open_and_count) * 1e3 for _ in range(rounds))
    return Measure("open a reader and count", median(taken), "ms", rounds=taken)


def _search_measures(
    points: Sequence[VectorPoint], texts: Sequence[str], home: Path, rounds: int, queries: int
) -> list[Measure]:
    generator = np.random.default_rng(17)
    questions = [words(8, generator) for _ in range(queries)]
    embedder = SyntheticEmbedder()
    vectors = [embedder.embed_query(question) for question in questions]
    sparse = [query_vector(question, TermForm.ACCENTED) for question in questions]
    matrix = np.stack([point.dense for point in points])
    plain = PlainBm25(texts)
    allowed = np.arange(len(points)) % len(VISIBILITIES) < 2

    with EdgeReader(home) as reader:
        work: dict[str, Callable[[int], object]] = {
            "dense": lambda i: search_dense(reader, ALIAS, vectors[i], WHERE, LIMIT),
            "dense by numpy": lambda i: best(matrix @ vectors[i].data[0], LIMIT, allowed),
            "bm25": lambda i: search_bm25(
                reader, ALIAS, TermForm.ACCENTED, sparse[i], WHERE, LIMIT
            ),
            "bm25 by numpy": lambda i: best(plain.scores(questions[i]), LIMIT, allowed),
        }
        for search in work.values():
            search(0)  # what opens or maps on first use is not a query's cost

        def milliseconds(search: Callable[[int], object]) -> float:
            return seconds_of(lambda: [search(i) for i in range(queries)]) * 1e3 / queries

        taken = interleave(
            rounds,
            {name: lambda search=search: milliseconds(search) for name, search in work.items()},
        )
    return [
        Measure(
            f"{title} search, half of the points allowed",
            median(taken[name]),
            "ms",
            "numpy",
            median(taken[f"{name} by numpy"]),
            rounds=taken[name],
        )
        for name, title in (("dense", "dense"), ("bm25", "BM25"))
    ]
