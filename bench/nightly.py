"""The nightly job through the console script: build, nothing to do, a few units changed, audit.

What stands beside what:

- embedding by our path (prefixes, batches, checks, cache in Postgres) beside the bare model, which is fastembed's own object: the
  same chunks of this very hub, sorted by length, the same threads, in rounds that take turns. The bare model gets the faster of
  two batch sizes;
- the embedding seconds of the whole build beside the seconds that the bare model would need for as many texts;
- a run with nothing to do, and a run after a change, beside the build.

Each stage is a process of its own, so its seconds hold Python's start and its memory is its own. The build is one round (it can
take an hour); the others are medians of several. A stage that does more than it should (texts embedded by a run with nothing to
do, more texts than the changed units have chunks, a finding of the audit) fails the benchmark: its seconds would mean nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bench.measuring import (
    BenchFailedError,
    BenchSkippedError,
    Measure,
    ProcessRun,
    interleave,
    median,
    say,
    seconds_of,
)
from bench.temporary_home import TemporaryHome, temporary_home
from threadhouse.retrieval.chunking import embedding_text
from threadhouse.retrieval.models import Json
from threadhouse.stores.chunk_table import chunk_table_path, read_chunk_table
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection_sources import OwnerText, UnitSource
from threadhouse.stores.vector_cache import PostgresVectorCache

HUB = Path(__file__).parents[1] / "examples" / "hub"
CHANGED_SHARE = 0.01
BARE_BATCH_TEXTS = (8, 32)
"""Sizes offered to the bare model: one pads little, one fills the cores. Its own default, 256, needs 8 GB at 400 tokens."""
_VECTORS = "information_unit_vectors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the defaults are quick."""
    parser.add_argument("--input", type=Path, default=HUB, help="What is loaded; default: hub.")
    parser.add_argument("--mapping", type=Path, help="Mapping file of the input.")
    parser.add_argument(
        "--share",
        type=_share,
        default=1.0,
        help="Share of the units of units.jsonl, chosen by a hash of the unit id; default: all.",
    )
    parser.add_argument("--rounds", type=int, default=3, help="Rounds of everything but the build.")
    parser.add_argument("--sample", type=int, default=64, help="Chunks embedded in each round.")


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share <= 1:
        message = "a share is above 0 and at most 1"
        raise argparse.ArgumentTypeError(message)
    return share


def run(options: argparse.Namespace) -> list[Measure]:
    """Measure."""
    source: Path = HUB if str(options.input) == "hub" else options.input
    if not source.exists():
        message = f"There is nothing at {source}."
        raise BenchSkippedError(message)
    with temporary_home() as home:
        loaded = _load(home, source, options.mapping, options.share)
        say("building")
        build = home.threadhouse("nightly", "--json")
        built = _figures(build)
        say(f"built {built.chunks:,} chunks in {build.seconds:.0f} s; embedding a sample, in turns")
        measures = [
            Measure("load", loaded.seconds, "s"),
            *_build_measures(build, built),
            *_embedding_measures(home, built, options.rounds, options.sample),
        ]
        say("running with nothing to do, then with changes, then auditing")
        no_ops = [home.threadhouse("nightly", "--json") for _ in range(options.rounds)]
        for no_op in no_ops:
            _require_no_op(_figures(no_op))
        measures.append(_beside_build("nothing to do", no_ops, build, "0 texts, 0 vector writes"))
        measures.append(_change_measure(home, build, options.rounds))
        measures.append(_audit_measure(home, options.rounds))
    return measures


@dataclass(frozen=True, slots=True)
class BuildFigures:
    """What a nightly says it did, as far as it is needed here."""

    seconds: float
    texts_embedded: int
    vector_writes: int
    units: int
    chunks: int
    seconds_embedding: float


def _figures(run: ProcessRun) -> BuildFigures:
    summary: dict[str, Json] = json.loads(run.stdout)
    assets = summary["assets"]
    if not isinstance(assets, dict):
        message = "The nightly's JSON has no figures of its assets."
        raise BenchFailedError(message)
    return BuildFigures(
        seconds=_number(summary, "seconds"),
        texts_embedded=int(_number(summary, "texts_embedded")),
        vector_writes=int(_number(summary, "vector_writes")),
        units=int(_number(assets["unit_chunks"], "owners")),
        chunks=int(_number(assets["unit_chunks"], "dagster/row_count")),
        seconds_embedding=_number(assets[_VECTORS], "seconds_embedding"),
    )


def _number(values: Json, name: str) -> float:
    found = values.get(name) if isinstance(values, dict) else None
    if not isinstance(found, int | float):
        message = f"The nightly's JSON has no number {name}."
        raise BenchFailedError(message)
    return float(found)


def _load(home: TemporaryHome, source: Path, mapping: Path | None, share: float) -> ProcessRun:
    options = [] if mapping is None else ["--mapping", mapping.absolute()]
    if share == 1:
        return home.threadhouse("load", source, "--json", *options)
    folder = home.path / "share"
    take_share(source, folder, share)
    return home.threadhouse("load", folder, "--json", *options)


def take_share(source: Path, target: Path, share: float) -> int:
    """Copy a folder of tables with some of the rows of ``units.jsonl``; returns how many.

    Everything else is copied whole: an edge or a membership of a unit that was left out dangles, as it may.

    Raises:
        BenchSkippedError: The folder has no ``units.jsonl``.
    """
    units = source / "units.jsonl"
    if not units.is_file():
        message = f"A share can only be taken of a folder with units.jsonl; {source} has none."
        raise BenchSkippedError(message)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("units.jsonl"))
    kept = [
        line
        for line in units.read_text(encoding="utf-8").splitlines(keepends=True)
        if is_in_share(str(json.loads(line)["unit_id"]), share)
    ]
    (target / "units.jsonl").write_text("".join(kept), encoding="utf-8")
    return len(kept)


def is_in_share(unit_id: str, share: float) -> bool:
    """Whether a unit belongs to the share: the same units on every machine, and a larger share holds every smaller one."""
    return int.from_bytes(hashlib.sha256(unit_id.encode()).digest()[:8]) < share * 2**64


def _build_measures(build: ProcessRun, built: BuildFigures) -> list[Measure]:
    return [
        Measure("units", built.units, ""),
        Measure("unit chunks", built.chunks, ""),
        Measure("build", build.seconds, "s", note=f"{built.texts_embedded:,} texts embedded"),
        Measure("build, peak memory", build.peak_mb, "MB", note="process tree, without Postgres"),
    ]


def _embedding_measures(
    home: TemporaryHome, built: BuildFigures, rounds: int, sample: int
) -> list[Measure]:
    database = Database.open(home.settings)
    embedder = home.open_embedder()
    source, cached = UnitSource(), CachedEmbedder(embedder, _ForgetfulCache(database))
    pairs = _sample_chunks(database, home.path, sample)
    texts = sorted(
        (
            embedding_text(title, chunk, lambda part: embedder.count_tokens([part])[0])
            for title, chunk in pairs
        ),
        key=lambda text: embedder.count_tokens([text])[0],
    )
    bare_texts = [embedder.space.passage_prefix + text for text in texts]
    tokens = sum(embedder.count_tokens(texts)) / len(texts)

    def bare(batch_size: int) -> float:
        return seconds_of(lambda: list(embedder.bare_model.embed(bare_texts, batch_size)))

    list(embedder.bare_model.embed(bare_texts[-1:]))  # the first call of a session is slower
    taken = interleave(
        rounds,
        {
            "ours": lambda: seconds_of(lambda: source.embed(pairs, cached)),
            "bare 8": lambda: bare(BARE_BATCH_TEXTS[0]),
            "bare 32": lambda: bare(BARE_BATCH_TEXTS[1]),
        },
    )
    ours = median(taken["ours"])
    best = min(("bare 8", "bare 32"), key=lambda name: median(taken[name]))
    bare_s = median(taken[best])
    measures = [
        Measure(
            "embedding, our path",
            len(pairs) / ours,
            "chunks/s",
            "bare model",
            len(pairs) / bare_s,
            f"{len(pairs)} chunks of {tokens:.0f} tokens; bare in batches of {best.split()[1]}",
            tuple(len(pairs) / seconds for seconds in taken["ours"]),
        )
    ]
    if built.texts_embedded:
        measures.append(
            Measure(
                "embedding within the build",
                built.seconds_embedding,
                "s",
                "bare model, as many texts",
                built.texts_embedded * bare_s / len(texts),
                "the build's texts are all, the sample's are some",
            )
        )
    return measures


def _sample_chunks(database: Database, home: Path, count: int) -> list[tuple[str, str]]:
    """(title, chunk) of chunks spread evenly over the table, which is in the order of the unit ids."""
    source = UnitSource()
    table = read_chunk_table(chunk_table_path(home, source))
    if table.is_empty():
        message = "The build cut no unit into chunks, so there is nothing to embed."
        raise BenchFailedError(message)
    step = max(1, len(table) // count)
    rows = table.gather_every(step).head(count)
    with database.connect() as connection:
        texts: Mapping[str, OwnerText] = source.read_texts(
            connection, rows["owner_id"].unique().to_list()
        )
    return [
        (texts[owner_id].title, texts[owner_id].body[start:end])
        for owner_id, start, end in rows.select("owner_id", "char_start", "char_end").iter_rows()
    ]


class _ForgetfulCache:
    """The cache in Postgres, asked and written as always, whose answers are thrown away: every round embeds."""

    def __init__(self, database: Database) -> None:
        self._kept = PostgresVectorCache(database)

    def get_many(
        self, space_id: str, role: str, hashes: Sequence[str]
    ) -> Mapping[str, NDArray[np.float32]]:
        self._kept.get_many(space_id, role, hashes)
        return {}

    def put_many(
        self, space_id: str, role: str, vectors: Mapping[str, NDArray[np.float32]]
    ) -> None:
        self._kept.put_many(space_id, role, vectors)


def _require_no_op(figures: BuildFigures) -> None:
    if figures.texts_embedded or figures.vector_writes:
        message = (
            f"A run with nothing to do embedded {figures.texts_embedded} texts and made {figures.vector_writes} "
            "vector writes; both must be 0."
        )
        raise BenchFailedError(message)


def _beside_build(name: str, runs: Sequence[ProcessRun], build: ProcessRun, note: str) -> Measure:
    seconds = tuple(run.seconds for run in runs)
    return Measure(name, median(seconds), "s", "build", build.seconds, note, seconds)


def _change_measure(home: TemporaryHome, build: ProcessRun, rounds: int) -> Measure:
    runs: list[ProcessRun] = []
    notes: list[str] = []
    for number in range(rounds):
        changed = _change_units(Database.open(home.settings), CHANGED_SHARE, number)
        runs.append(home.threadhouse("nightly", "--json"))
        figures = _figures(runs[-1])
        table = read_chunk_table(chunk_table_path(home.path, UnitSource()))
        chunks = len(table.filter(pl.col("owner_id").is_in(changed)))
        if not 0 < figures.texts_embedded <= chunks:
            message = f"{len(changed)} changed units have {chunks} chunks, but {figures.texts_embedded} texts were embedded."
            raise BenchFailedError(message)
        notes.append(f"{len(changed)} units, {figures.texts_embedded} of {chunks} chunks embedded")
    return _beside_build(f"{CHANGED_SHARE:.0%} of the units changed", runs, build, notes[0])


def _change_units(database: Database, share: float, number: int) -> list[str]:
    """Give some live units a new version with a new first sentence; other units each time."""
    with database.connect() as connection:
        live = [
            row[0]
            for row in connection.execute("select logical_unit_id from source.information_unit")
        ]
        live.sort(key=lambda unit: hashlib.sha256(f"{number} {unit}".encode()).digest())
        chosen = live[: max(1, round(share * len(live)))]
        for unit in chosen:
            version = uuid.uuid4()
            connection.execute(
                """
                insert into public.tac_unit_version (unit_version_id, logical_unit_id, revision, title, body)
                select %(version)s, logical_unit_id, revision + 1, title, %(sentence)s || body
                from source.information_unit where logical_unit_id = %(unit)s
                """,
                {"version": version, "unit": unit, "sentence": f"Sửa đổi lần {number + 1}. "},
            )
            connection.execute(
                "update public.tac_logical_unit set current_version_id = %s where logical_unit_id = %s",
                (version, unit),
            )
    return chosen


def _audit_measure(home: TemporaryHome, rounds: int) -> Measure:
    runs = [home.threadhouse("audit", "--json") for _ in range(rounds)]
    points = 0
    for run in runs:
        # Exit code 3, which a finding gives, has already failed the run.
        report = json.loads(run.stdout)["audit"]
        points = int(report["points"])
        if not report["is_clean"]:
            message = f"The audit found {report['findings']} faults after the runs."
            raise BenchFailedError(message)
    seconds = tuple(run.seconds for run in runs)
    return Measure("audit", median(seconds), "s", note=f"clean, {points:,} points", rounds=seconds)
