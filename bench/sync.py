"""Following changes in a big hub: seconds for each changed unit, and a reconcile that finds nothing to do.

What stands beside what: a few, more and many changed units among all of them, each step of following them for itself, beside the
same for the fewest: a cost that depends on what changed is flat. And the nightly's steps with nothing changed, beside a bare
scroll of every stored point.

Each changed unit gets a new text, in a thread of its own as far as there are threads. Units and vectors are made up, so no model
is timed; everything else is the real thing. The machine may be busy, so processor time stands beside the seconds; that of
Postgres is not in it.
"""

from __future__ import annotations

import argparse
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.labelled_hub import copied_home, fill_open_hub, publish_hub
from bench.measuring import BenchFailedError, Measure, median, say, seconds_of
from bench.synthetic_hub import SyntheticEmbedder, words
from bench.temporary_home import temporary_home
from threadhouse.retrieval.models import Collection
from threadhouse.retrieval.ports import VectorStore
from threadhouse.retrieval.projection import ContentScope
from threadhouse.stores import queries
from threadhouse.stores.centroid_projection import refresh_centroids
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.migrations import open_database
from threadhouse.stores.pack_refresh import refresh_packs
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import publish_content
from threadhouse.stores.settings import Settings
from threadhouse.stores.vector_cache import PostgresVectorCache
from threadhouse.stores.vectors import open_writer

STEPS = ("content", "centroids", "packs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the defaults are quick."""
    parser.add_argument("--home", type=Path, help="A stopped home with a made-up hub; copied.")
    parser.add_argument("--units", type=int, default=2_000, help="Units of the made-up hub.")
    parser.add_argument("--threads", type=int, default=100, help="Threads of the made-up hub.")
    parser.add_argument(
        "--changed", type=int, nargs="+", default=[5, 20, 50], help="Units that change together."
    )
    parser.add_argument("--rounds", type=int, default=3)


def run(options: argparse.Namespace) -> list[Measure]:
    """Measure."""
    with _hub(options) as hub:
        flat = _follow_changes(hub, options.changed, options.rounds)
        return [*flat, *_reconcile(hub, options.rounds)]


@dataclass(slots=True)
class _Hub:
    """A published hub with its stores open."""

    database: Database
    store: VectorStore
    embedder: CachedEmbedder
    home: Path
    units: int
    threads: int
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(17))


@contextmanager
def _hub(options: argparse.Namespace) -> Generator[_Hub, None, None]:
    if options.home is not None:
        say(f"copying {options.home}")
        with copied_home(options.home) as settings, _opened(settings) as hub:
            yield hub
        return
    with temporary_home() as home:
        say(f"making {options.units:,} units and {options.threads:,} threads")
        database = open_database(home.settings)
        fill_open_hub(database, options.units, options.threads)
        publish_hub(database, home.settings, SyntheticEmbedder())
        with _opened(home.settings) as hub:
            yield hub


@contextmanager
def _opened(settings: Settings) -> Generator[_Hub, None, None]:
    database = open_database(settings)
    with database.connect() as connection:
        row = connection.execute(
            "select (select count(*) from public.tac_logical_unit), (select count(*) from public.semantic_thread)"
        ).fetchone()
    units, threads = (0, 0) if row is None else row
    embedder = CachedEmbedder(SyntheticEmbedder(), PostgresVectorCache(database))
    with open_writer(home=settings.home, lock_timeout_s=settings.lock_timeout_s) as store:
        yield _Hub(database, store, embedder, settings.home, units, threads)


def _follow_changes(hub: _Hub, sizes: Sequence[int], rounds: int) -> list[Measure]:
    walls: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    processor: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    # The first publish of a writer opens its shards; whoever follows changes has them open.
    _sync(hub, _change(hub, sizes[0], seed=0))
    for number in range(rounds):
        for size in sizes:
            say(f"round {number + 1}: {size:,} changed units")
            taken = _sync(hub, _change(hub, size, seed=number + 1))
            for step, (wall, used) in taken.items():
                walls[size, step].append(wall / size)
                processor[size, step].append(used / size)
    measures: list[Measure] = []
    for step in (*STEPS, "in total"):
        first = median(walls[sizes[0], step])
        for size in sizes:
            measures.append(
                Measure(
                    f"{step}, {size:,} changed units",
                    median(walls[size, step]) * 1000,
                    "ms a unit",
                    "" if size == sizes[0] else f"with {sizes[0]:,} units",
                    None if size == sizes[0] else first * 1000,
                    f"{median(processor[size, step]) * 1000:.3g} ms of processor time",
                    tuple(each * 1000 for each in walls[size, step]),
                )
            )
    return measures


def _change(hub: _Hub, size: int, seed: int) -> ContentScope:
    """Give ``size`` units a new text; neighbours in number are in different threads."""
    first = int(hub.generator.integers(hub.units))
    numbers = [(first + step) % hub.units for step in range(size)]
    with hub.database.connect() as connection, connection.cursor() as cursor:
        for number in numbers:
            version = uuid.uuid5(uuid.NAMESPACE_OID, f"u{number} {seed} {size}")
            cursor.execute(
                "insert into public.tac_unit_version (unit_version_id, logical_unit_id, revision, title, body)"
                " select %s, %s, max(revision) + 1, 'Điều ' || %s, %s from public.tac_unit_version where logical_unit_id = %s",
                (
                    version,
                    f"u{number}",
                    number,
                    words(500 if number % 4 == 3 else 150, hub.generator),
                    f"u{number}",
                ),
            )
        cursor.execute(
            "update public.tac_logical_unit unit set current_version_id = version.unit_version_id"
            " from public.tac_unit_version version"
            " where version.logical_unit_id = unit.logical_unit_id and unit.logical_unit_id = any (%s)"
            " and version.revision = (select max(revision) from public.tac_unit_version v"
            " where v.logical_unit_id = unit.logical_unit_id)",
            ([f"u{number}" for number in numbers],),
        )
    return ContentScope(frozenset(f"u{number}" for number in numbers))


def _sync(hub: _Hub, scope: ContentScope) -> dict[str, tuple[float, float]]:
    """Follow a change; seconds and seconds of processor time of each step and of all."""
    threads = frozenset(f"t{int(unit[1:]) % hub.threads}" for unit in scope.units)
    taken: dict[str, tuple[float, float]] = {}

    def timed(step: str, act: Callable[[], object]) -> None:
        used, started = time.process_time(), time.perf_counter()
        act()
        taken[step] = (time.perf_counter() - started, time.process_time() - used)

    def content() -> None:
        report = publish_content(hub.database, hub.store, hub.embedder, hub.home, scope=scope)
        if report.owners_published != len(scope.units):
            message = (
                f"{report.owners_published} of {len(scope.units)} changed units were published."
            )
            raise BenchFailedError(message)

    def packs() -> None:
        # More than the threads of the units: a pack shows what stands beside a unit in its document.
        with hub.database.connect() as connection:
            due = connection.execute(queries.load("changes_packs_due")).fetchall()
        refresh_packs(hub.database, space.space_id, threads=frozenset(row[0] for row in due))

    space = hub.embedder.space
    timed("content", content)
    timed("centroids", lambda: refresh_centroids(hub.database, hub.store, space, threads=threads))
    timed("packs", packs)
    taken["in total"] = (
        sum(wall for wall, _ in taken.values()),
        sum(used for _, used in taken.values()),
    )
    return taken


def _reconcile(hub: _Hub, rounds: int) -> list[Measure]:
    """The nightly's steps with nothing changed."""
    points = hub.store.count(Collection.INFORMATION_UNITS)
    walls: defaultdict[str, list[float]] = defaultdict(list)
    processor: defaultdict[str, list[float]] = defaultdict(list)
    space = hub.embedder.space

    def content() -> int:
        return publish_content(hub.database, hub.store, hub.embedder, hub.home).vector_writes

    def centroids() -> int:
        return refresh_centroids(hub.database, hub.store, space).vector_writes

    def packs() -> int:
        return refresh_packs(hub.database, space.space_id).written

    for number in range(rounds):
        say(f"round {number + 1}: reconciling {points:,} chunks")
        total = total_used = 0.0
        for step, act in zip(STEPS, (content, centroids, packs), strict=True):
            used, started = time.process_time(), time.perf_counter()
            if act():
                message = f"There was nothing to do, and {step} wrote something."
                raise BenchFailedError(message)
            walls[step].append(time.perf_counter() - started)
            processor[step].append(time.process_time() - used)
            total += walls[step][-1]
            total_used += processor[step][-1]
        walls["in total"].append(total)
        processor["in total"].append(total_used)
    floor = seconds_of(lambda: sum(1 for _ in hub.store.scroll(Collection.INFORMATION_UNITS)))
    return [
        Measure(
            f"reconcile of {points:,} chunks, {step}",
            median(walls[step]),
            "s",
            "bare scroll" if step == "content" else "",
            floor if step == "content" else None,
            f"{median(processor[step]):.3g} s of processor time",
            tuple(walls[step]),
        )
        for step in (*STEPS, "in total")
    ]
