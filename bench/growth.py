"""Growth: what hubs of several sizes cost to build, to look through with nothing to do, to audit, to ask and to store.

What stands beside what: each size beside the one before it, so that a ratio shows whether a cost grows with the hub or faster.
Units and vectors are made up, fifty units a thread, so no model is timed: real texts cost what `python -m bench nightly` says
for each on top. Everything else is the real thing, each size in a process and a home of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import LiteralString, TypeVar

from bench.labelled_hub import fill_open_hub
from bench.latency import hub_texts, let_words_decide, percentile
from bench.measuring import BenchFailedError, Measure, median, run_process, say
from bench.synthetic_hub import SyntheticEmbedder
from bench.temporary_home import temporary_home
from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.models import Audience, Collection
from threadhouse.serving.opening import open_retrieval_service
from threadhouse.stores.audit import audit_projection
from threadhouse.stores.centroid_projection import refresh_centroids
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.migrations import open_database
from threadhouse.stores.pack_refresh import refresh_packs
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import publish_content
from threadhouse.stores.settings import Settings
from threadhouse.stores.vector_cache import PostgresVectorCache
from threadhouse.stores.vectors import open_reader, open_writer

_T = TypeVar("_T")

UNITS_A_THREAD = 50
WARM = 10
_CHILD = "import sys; from bench.growth import measure_size; measure_size(int(sys.argv[1]), int(sys.argv[2]))"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the defaults are quick."""
    parser.add_argument(
        "--units", type=int, nargs="+", default=[500, 2_000], help="Units of each hub, rising."
    )
    parser.add_argument("--questions", type=int, default=100, help="Questions asked of each hub.")


def run(options: argparse.Namespace) -> list[Measure]:
    """Measure."""
    measures: list[Measure] = []
    before: dict[str, float] = {}
    for units in options.units:
        say(f"a hub of {units:,} units")
        child = run_process(
            [sys.executable, "-c", _CHILD, str(units), str(options.questions)],
            {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        taken: dict[str, tuple[float, str]] = json.loads(child.stdout.splitlines()[-1])
        measures += [
            Measure(
                f"{units:,} units: {name}",
                value,
                unit,
                "the size before" if name in before else "",
                before.get(name),
            )
            for name, (value, unit) in taken.items()
        ]
        before = {name: value for name, (value, _) in taken.items()}
    return measures


def measure_size(units: int, questions: int) -> None:
    """Build one hub and print its figures as one line of JSON; runs in a process of its own, whose peak memory is one of them."""
    figures: dict[str, tuple[float, str]] = {}

    def timed(name: str, act: Callable[[], _T]) -> _T:
        started = time.perf_counter()
        result = act()
        figures[name] = (time.perf_counter() - started, "s")
        return result

    with temporary_home() as home:
        database, threads = open_database(home.settings), max(1, units // UNITS_A_THREAD)
        embedder = CachedEmbedder(SyntheticEmbedder(), PostgresVectorCache(database))
        space = embedder.space
        fill_open_hub(database, units, threads)
        _tend(database, "analyze")

        def content() -> int:
            with open_writer(home=home.path) as store:
                return publish_content(database, store, embedder, home.path).vector_writes

        def centroids() -> int:
            with open_writer(home=home.path) as store:
                return refresh_centroids(database, store, space).vector_writes

        def packs() -> int:
            return refresh_packs(database, space.space_id).written

        timed("build, content", content)
        timed("build, centroids", centroids)
        timed("build, packs", packs)
        _tend(database, "vacuum analyze")

        def nothing() -> None:
            if written := content() + centroids() + packs():
                message = f"There was nothing to do, and {written} things were written."
                raise BenchFailedError(message)

        timed("reconcile with nothing to do", nothing)
        with open_reader(home=home.path) as reader:
            points = reader.count(Collection.INFORMATION_UNITS)
            report = timed("audit", lambda: audit_projection(database, reader, embedder))
        if not report.is_clean:
            message = f"The audit found {report.findings} faults."
            raise BenchFailedError(message)
        let_words_decide(database, space.space_id)
        asked = _ask(home.settings, database, questions)
        figures["question without embedding p50"] = (median(asked), "ms")
        figures["question without embedding p99"] = (percentile(asked, 99), "ms")
        figures["chunks"] = (points, "")
        figures["on disk, collections and copies"] = (_allocated_mb(home.path / "qdrant"), "MB")
        figures["on disk, PostgreSQL"] = (_allocated_mb(home.path / "postgres"), "MB")
        figures["peak memory of the process"] = (
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
            "MB",
        )
    print(json.dumps(figures))


def _ask(settings: Settings, database: Database, count: int) -> list[float]:
    principal, taken = lane_principal(Audience.AI_AGENT), list[float]()
    texts = hub_texts(database, count)
    with open_retrieval_service(settings, embedder=SyntheticEmbedder()) as service:
        for number, text in enumerate([*texts[:WARM], *texts]):
            started = time.perf_counter()
            answer = service.answer(text, principal)
            whole = (time.perf_counter() - started) * 1000
            if number >= WARM:
                taken.append(whole - answer.timings.steps["embed"])
    return taken


def _tend(database: Database, statement: LiteralString) -> None:
    """Statistics as they are once autovacuum has been by."""
    with database.connect(autocommit=True) as connection:
        connection.execute(statement)


def _allocated_mb(folder: Path) -> float:
    """What the files take on the disk: those of the collections are sparse. MB of 10^6 bytes."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return sum(file.stat().st_blocks * 512 for file in files) / 1e6
