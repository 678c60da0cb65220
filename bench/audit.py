"""The audit of every stored point against Postgres, per 100,000 points.

What stands beside what: the whole audit (every payload past the rules, every owner, every chunk border proven on the text with
the real tokenizer) beside two floors taken in the same rounds: a bare scroll of the same points with their payloads, which no
audit can do without, and that scroll plus reading every text from Postgres.

The points are made up and their vectors cost nothing, but they come in through the real publish. Figures are medians of rounds
that take turns; ``--tokenizer words`` shows how much of the audit is the tokenizer.
"""

from __future__ import annotations

import argparse
from collections import deque

from bench.measuring import BenchFailedError, Measure, interleave, median, say, seconds_of
from bench.synthetic_hub import SyntheticEmbedder, fill_database
from bench.temporary_home import TemporaryHome, temporary_home
from threadhouse.retrieval.models import Collection
from threadhouse.stores.audit import audit_projection
from threadhouse.stores.chunk_table import chunk_table_path, refresh_chunk_table
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.migrations import open_database
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import publish_content
from threadhouse.stores.projection_sources import UnitSource
from threadhouse.stores.vector_cache import PostgresVectorCache
from threadhouse.stores.vectors import open_writer
from threadhouse.stores.vectors_edge import EdgeReader

CHUNKS_PER_UNIT = 1.25
"""What ``synthetic_hub.fill_database`` comes to: every fourth unit has two chunks."""
_PER = 100_000
_TEXT_BATCH = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the defaults are quick."""
    parser.add_argument("--points", type=int, default=20_000, help="About how many; default 20000.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--tokenizer",
        choices=("model", "words"),
        default="model",
        help="What counts the tokens of a chunk; default: the real model's.",
    )


def run(options: argparse.Namespace) -> list[Measure]:
    """Measure."""
    with temporary_home() as home:
        database = open_database(home.settings)
        counter = home.open_embedder().count_tokens if options.tokenizer == "model" else None
        embedder = CachedEmbedder(SyntheticEmbedder(counter), PostgresVectorCache(database))
        say("filling the database, cutting, publishing")
        fill_database(database, round(options.points / CHUNKS_PER_UNIT))
        cut_s = seconds_of(lambda: _cut(home, database, embedder))
        publish_s = seconds_of(lambda: _publish(home, database, embedder))
        with EdgeReader(home.path) as reader:
            points = reader.count(Collection.INFORMATION_UNITS)
            say(f"auditing {points:,} points, in turns with the floors")

            def audit() -> None:
                report = audit_projection(database, reader, embedder)
                if not report.is_clean or report.points < points:
                    message = f"The audit of {points} points saw {report.points} and found {report.findings} faults."
                    raise BenchFailedError(message)

            def scroll() -> None:
                deque(reader.scroll(Collection.INFORMATION_UNITS), maxlen=0)

            def scroll_and_read() -> None:
                scroll()
                _read_texts(database)

            taken = interleave(
                options.rounds,
                {
                    "audit": lambda: seconds_of(audit),
                    "scroll": lambda: seconds_of(scroll),
                    "scroll and texts": lambda: seconds_of(scroll_and_read),
                },
            )
    per = {name: tuple(s * _PER / points for s in seconds) for name, seconds in taken.items()}
    audit_s = median(per["audit"])
    return [
        Measure("points", points, ""),
        Measure("cutting, per 100,000 points", cut_s * _PER / points, "s", note="one round"),
        Measure(
            "publish without embedding, per 100,000 points",
            publish_s * _PER / points,
            "s",
            note="one round",
        ),
        Measure(
            "audit, per 100,000 points",
            audit_s,
            "s",
            "bare scroll",
            median(per["scroll"]),
            "clean",
            per["audit"],
        ),
        Measure(
            "the same, other floor",
            audit_s,
            "s",
            "scroll and all texts",
            median(per["scroll and texts"]),
            rounds=per["scroll and texts"],
        ),
    ]


def _cut(home: TemporaryHome, database: Database, embedder: CachedEmbedder) -> None:
    source = UnitSource()
    with database.connect() as connection:
        refresh_chunk_table(connection, chunk_table_path(home.path, source), source, embedder)


def _publish(home: TemporaryHome, database: Database, embedder: CachedEmbedder) -> None:
    with open_writer(home=home.path) as store:
        publish_content(database, store, embedder, home.path)


def _read_texts(database: Database) -> None:
    source = UnitSource()
    with database.connect() as connection:
        rows = connection.execute("select logical_unit_id from source.information_unit order by 1")
        owner_ids = [row[0] for row in rows]
        for start in range(0, len(owner_ids), _TEXT_BATCH):
            source.read_texts(connection, owner_ids[start : start + _TEXT_BATCH])
