"""Whole hubs of public data for the quality benchmark: loaded, published and opened as a reader's service opens them.

Belongs here: which rows of a folder become a hub, building it in a temporary home, its service.
Does not belong here: what is asked of it (quality_threads).

Nothing of the product is done again here: rows go through the loader and the mappings that its tests use, chunks, vectors,
centroids and packs through the functions of the nightly job, and questions to `serving.retrieval_service`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.measuring import BenchFailedError, say
from bench.nightly import is_in_share
from bench.quality_tasks import FOLDERS, LANGUAGES, strings
from bench.quality_vectors import BenchEmbedder
from bench.retrieval import read_rows
from bench.temporary_home import temporary_home
from threadhouse.retrieval.calibration import fold_of
from threadhouse.retrieval.models import Audience, Json, Principal, ThreadId
from threadhouse.retrieval.resolution import RetrievalPolicy
from threadhouse.serving.opening import open_retrieval_service
from threadhouse.serving.retrieval_service import RetrievalService
from threadhouse.stores.centroid_projection import refresh_centroids
from threadhouse.stores.loading import load_path
from threadhouse.stores.migrations import open_database
from threadhouse.stores.pack_refresh import refresh_packs
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import publish_content
from threadhouse.stores.retrieval_policy import read_retrieval_policy
from threadhouse.stores.vectors import open_writer

MAPPINGS = Path(__file__).parents[1] / "tests" / "mappings"

READER = Principal(
    subject="bench",
    audience=Audience.AI_AGENT,
    tool_permissions=frozenset({"read:drafts", "read:superseded", "read:withdrawn"}),
)
"""An agent that may read everything in these sets: half of the PEPs were never accepted, or are no longer in force."""

AGENT = Principal(subject="bench", audience=Audience.AI_AGENT)
"""An agent as it comes; its packs are those of the lane, precomputed."""


@dataclass(frozen=True, slots=True)
class HubSource:
    """Which rows become a hub. ``keep`` sees the name of a file and one of its rows; ``fold`` is the fifth that is left out."""

    name: str
    dataset: str
    keep: Callable[[str, Mapping[str, Json]], bool]
    principal: Principal
    fold: int | None = None


def xquad_hub(language: str | None) -> HubSource:
    """The articles of one language, or of both: then a thread has units in two."""

    def keep(file: str, row: Mapping[str, Json]) -> bool:
        return language is None or file == "threads" or row.get("lang", language) == language

    return HubSource(f"xquad {language or 'mixed'}", "xquad", keep, AGENT)


def xquad_split_hub() -> HubSource:
    """Every article in one language only, half of them in each: an answer is as often in the other language as in one's own."""

    def keep(file: str, row: Mapping[str, Json]) -> bool:
        if file not in {"documents", "units"}:
            return True
        number = int(str(row["doc_id"]).split("-")[1])
        return row["lang"] == LANGUAGES[number % 2]

    return HubSource("xquad split", "xquad", keep, AGENT)


def phapdien_hub() -> HubSource:
    """All articles of law, with their headings as titles."""
    return HubSource("phapdien", "phapdien", lambda _file, _row: True, AGENT)


def peps_hub(share: float) -> HubSource:
    """The share of the PEPs that can be found."""

    def keep(file: str, row: Mapping[str, Json]) -> bool:
        return file not in {"documents", "units"} or is_in_share(str(row["doc_id"]), share)

    return HubSource("peps", "peps", keep, READER)


def without_fold(source: HubSource, fold: int) -> HubSource:
    """The same hub as if a fifth of the threads had never been written, nor the units that belong to nothing else."""
    return replace(source, name=f"{source.name} without fifth {fold + 1}", fold=fold)


@dataclass(frozen=True, slots=True)
class Hub:
    """A published hub and its service."""

    source: HubSource
    database: Database
    service: RetrievalService
    policy: RetrievalPolicy


@contextmanager
def open_hub(source: HubSource, data: Path, embedder: BenchEmbedder) -> Generator[Hub, None, None]:
    """Yield the hub; it is gone afterwards."""
    with temporary_home() as home:
        database = open_database(home.settings)
        say(f"{source.name}: loading, publishing")
        folder = home.path / "rows"
        _copy_rows(data / FOLDERS[source.dataset], folder, source)
        load_path(database, folder, MAPPINGS / f"{source.dataset}.yaml")
        # Statistics as they are once autovacuum has been by.
        with database.connect(autocommit=True) as connection:
            connection.execute("analyze")
        with open_writer(home=home.path, lock_timeout_s=home.settings.lock_timeout_s) as store:
            publish_content(database, store, embedder.cached, home.path)
            refresh_centroids(database, store, embedder.space)
        refresh_packs(database, embedder.space.space_id)
        with database.connect(autocommit=True) as connection:
            connection.execute("analyze")
            policy = read_retrieval_policy(connection, embedder.space.space_id)
        with open_retrieval_service(home.settings, embedder=embedder) as service:
            yield Hub(source, database, service, policy)


def _copy_rows(origin: Path, target: Path, source: HubSource) -> None:
    target.mkdir()
    threads = threads_of_rows(
        read_rows(origin / "units.jsonl"), read_rows(origin / "threads.jsonl")
    )
    for file in ("documents", "units", "threads", "edges"):
        rows = [
            row
            for row in read_rows(origin / f"{file}.jsonl")
            if source.keep(file, row) and not _is_left_out(source.fold, file, row, threads)
        ]
        if not rows:
            message = f"{file}.jsonl of {origin.name} gives no row for the hub {source.name}."
            raise BenchFailedError(message)
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (target / f"{file}.jsonl").write_text(text, encoding="utf-8")


def threads_of_rows(
    units: Sequence[Mapping[str, Json]], threads: Sequence[Mapping[str, Json]]
) -> dict[str, set[str]]:
    """Threads by unit id: the unit's own, or those that list its document."""
    by_document: dict[str, set[str]] = {}
    for row in threads:
        for document_id in strings(row.get("doc_ids")):
            by_document.setdefault(document_id, set()).add(str(row["thread_id"]))
    return {
        str(row["unit_id"]): {str(row["thread_id"])}
        if "thread_id" in row
        else by_document.get(str(row["doc_id"]), set())
        for row in units
    }


def _is_left_out(
    fold: int | None, file: str, row: Mapping[str, Json], threads: Mapping[str, set[str]]
) -> bool:
    if fold is None:
        return False
    if file == "threads":
        return fold_of(ThreadId(str(row["thread_id"]))) == fold
    if file == "units":
        own = threads[str(row["unit_id"])]
        return bool(own) and all(fold_of(ThreadId(thread)) == fold for thread in own)
    return False
