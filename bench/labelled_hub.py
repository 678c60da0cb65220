"""A copy of a hub whose every label is drawn by rule, and what each reader may see of it.

Belongs here: copying a stopped home, the rules, laying the labels down in the users' tables, and the truth read back from these
tables with `visible` alone: no view, no filter, no statement of the product. Does not belong here: asking the hub, measuring.

The rules, all by a hash of the field's name and the row's id, so that every run draws the same:

- A document has each of the five flags, its stage and its classification from `DOCUMENT_WORDS`, where None is a missing one.
- A unit leaves each flag to its document most of the time and has one of its own from `UNIT_WORDS` otherwise; stage and
  classification are its own. So a flag can be missing everywhere.
- A thread has flags of its own from `THREAD_WORDS`, mostly none. Beside the hub's threads, every document with units becomes a
  thread; roles and the standing of its memberships, rejected ones included, come from `ROLES` and `STATUSES`.
- Every thread lacks an artefact of a stage from `GAP_STAGES`.
- Of one unit in `LEGACY_EVERY`, its text is laid down once more as a document without units, with flags of its own.

After publishing, rights are taken away behind the back of vectors and packs (`revoke_some`): of one document in `REVOKED_EVERY`,
by rule, its visibility, or that of every third of its units, or every third membership of its thread; and of one thread and one
document without units in as many.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import Connection, sql
from psycopg.rows import TupleRow, dict_row
from psycopg.types.json import Jsonb

from bench.measuring import BenchFailedError, BenchSkippedError
from bench.synthetic_hub import count_words, fill_database, synthetic_space
from bench.temporary_home import OUTSIDE
from threadhouse.retrieval.audience import AudiencePolicy, Labels, allowed_values, visible
from threadhouse.retrieval.models import (
    Collection,
    Flags,
    LifecycleStage,
    Principal,
    Vectors,
    VectorSpace,
)
from threadhouse.retrieval.ports import VectorSearcher
from threadhouse.retrieval.text import prepare_text
from threadhouse.serving.opening import LazyEmbedder
from threadhouse.stores import embedded_postgres
from threadhouse.stores.centroid_projection import refresh_centroids
from threadhouse.stores.embedders import EmbeddedBatch
from threadhouse.stores.embedding_cache import CachedEmbedder, StreamingEmbedder
from threadhouse.stores.pack_refresh import refresh_packs
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import publish_content
from threadhouse.stores.projection_sources import parse_labels
from threadhouse.stores.queries import trusted
from threadhouse.stores.settings import Settings
from threadhouse.stores.vector_cache import PostgresVectorCache
from threadhouse.stores.vectors import open_writer

FLAGS = ("visibility", "readiness", "publication_state", "risk_class", "authority")

Words = Mapping[str, Sequence[tuple[str | None, int]]]
"""Of each field the words it can have and how often, in parts of the sum."""

DOCUMENT_WORDS: Words = {
    "visibility": (
        ("public", 10),
        ("partner", 3),
        ("employee", 3),
        ("internal", 2),
        ("restricted", 1),
        (None, 1),
    ),
    "readiness": (
        ("published", 12),
        ("approved", 3),
        ("under_review", 1),
        ("draft", 2),
        ("superseded", 1),
        (None, 1),
    ),
    "publication_state": (("published", 14), ("unpublished", 3), ("withdrawn", 2), (None, 1)),
    "risk_class": (("low", 12), ("standard", 5), ("high", 2), (None, 1)),
    "authority": (("enacted", 12), ("draft", 4), ("runtime", 3), (None, 1)),
    "lifecycle_stage": (
        ("law", 10),
        ("design", 3),
        ("code", 2),
        ("test", 2),
        ("report", 1),
        ("incident", 1),
        (None, 1),
    ),
    "data_classification": (
        ("unclassified", 16),
        ("confidential", 2),
        ("secret", 1),
        ("blocked", 1),
    ),
}
UNIT_WORDS: Words = {
    "visibility": (
        (None, 14),
        ("public", 2),
        ("partner", 1),
        ("employee", 1),
        ("internal", 1),
        ("restricted", 1),
    ),
    "readiness": (
        (None, 15),
        ("published", 1),
        ("approved", 1),
        ("under_review", 1),
        ("draft", 1),
        ("superseded", 1),
    ),
    "publication_state": ((None, 16), ("published", 2), ("unpublished", 1), ("withdrawn", 1)),
    "risk_class": ((None, 16), ("low", 2), ("standard", 1), ("high", 1)),
    "authority": ((None, 16), ("enacted", 2), ("draft", 1), ("runtime", 1)),
    "lifecycle_stage": (
        ("law", 10),
        ("design", 3),
        ("code", 2),
        ("test", 2),
        ("report", 2),
        ("incident", 1),
    ),
    "data_classification": (
        ("unclassified", 16),
        ("confidential", 2),
        ("secret", 1),
        ("blocked", 1),
    ),
}
THREAD_WORDS: Words = {
    "visibility": ((None, 14), ("public", 2), ("partner", 1), ("internal", 2), ("restricted", 1)),
    "readiness": ((None, 17), ("published", 1), ("approved", 1), ("draft", 1)),
    "publication_state": ((None, 18), ("published", 1), ("withdrawn", 1)),
    "risk_class": ((None, 18), ("low", 1), ("high", 1)),
    "authority": ((None, 19), ("enacted", 1)),
}
ROLES = (("canonical", 4), ("supporting", 5), ("report", 1))
STATUSES = (("confirmed", 7), ("proposed", 1), ("needs_human", 1), ("rejected", 1))
GAP_STAGES = (("design", 1), ("code", 1), ("test", 1), ("report", 1), ("incident", 1))

LEGACY_EVERY = 12
LEGACY_CHARS = 3_000
"""Longest text of a document without units: one chunk."""

REVOKED_EVERY = 6
"""Few enough that most stored packs stay fresh and are served."""

DOCUMENT_THREAD = "document-thread:"
LEGACY_DOCUMENT = "legacy-document:"


def draw(field_name: str, key: str, words: Sequence[tuple[str | None, int]]) -> str | None:
    """The word of one field of one row; the same in every run.

    Example:
        >>> {draw("x", str(n), (("a", 3), (None, 1))) for n in range(50)} == {"a", None}
        True
    """
    digest = hashlib.sha256(f"{field_name}\0{key}".encode()).digest()
    place = int.from_bytes(digest[:8]) % sum(parts for _, parts in words)
    for word, parts in words:
        place -= parts
        if place < 0:
            return word
    raise AssertionError


def is_doubled(unit_id: str) -> bool:
    """Whether the text of a unit is also laid down as a document without units."""
    return draw("legacy", unit_id, (("yes", 1), (None, LEGACY_EVERY - 1))) is not None


class StoredVectors:
    """An embedder that embeds nothing: it answers with vectors that are in the store already.

    A question gets the vector of the chunk that it was taken from, as if the model had understood it perfectly; a document that
    repeats a unit gets the unit's. Whatever decides who sees a hit does not depend on where a vector comes from.
    """

    def __init__(self, space: VectorSpace, rows: Mapping[str, NDArray[np.float32]]) -> None:
        """``rows`` by text; spaces between words do not count."""
        self._space = space
        self._rows = {_key(text): row for text, row in rows.items()}

    @property
    def space(self) -> VectorSpace:
        """The space of the stored vectors."""
        return self._space

    def iter_passages(self, texts: Sequence[str]) -> Iterator[EmbeddedBatch]:
        """All of them at once."""
        if texts:
            rows = np.stack([self._row(text) for text in texts])
            yield EmbeddedBatch(tuple(range(len(texts))), rows, np.zeros(len(texts), np.bool_))

    iter_long_passages = iter_passages

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Raises BenchFailedError for a text whose vector is not stored."""
        data = np.stack([self._row(text) for text in texts])
        return Vectors(self._space.space_id, "passage", data, np.zeros(len(texts), np.bool_))

    def embed_query(self, text: str) -> Vectors:
        """Raises BenchFailedError for a text whose vector is not stored."""
        row = self._row(text)[np.newaxis]
        return Vectors(self._space.space_id, "query", row, np.zeros(1, np.bool_))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Words; only written down beside chunks of documents, which are cut by characters."""
        return count_words(texts)

    def _row(self, text: str) -> NDArray[np.float32]:
        row = self._rows.get(_key(text))
        if row is None:
            message = f"No vector is stored for {text[:60]!r}; run threadhouse nightly in the home, then stop it."
            raise BenchFailedError(message)
        return row


def _key(text: str) -> str:
    return " ".join(prepare_text(text).split())


@contextmanager
def copied_home(original: Path) -> Generator[Settings, None, None]:
    """Yield the settings of a copy of a stopped home; stopped and removed afterwards. The original is only read.

    Raises:
        BenchSkippedError: There is no home, or its server runs.
    """
    original = original.absolute()
    if not (original / "postgres" / "data").is_dir():
        message = f"{original} is no home with an embedded PostgreSQL; load a hub there and run threadhouse nightly."
        raise BenchSkippedError(message)
    if embedded_postgres.status(original).is_running:
        message = f"The server of {original} runs, so its files cannot be copied; run threadhouse stop there first."
        raise BenchSkippedError(message)
    folder = Path(tempfile.mkdtemp(prefix="threadhouse-bench-"))
    # cp and not shutil: the files of the cluster belong to the server's user, and have to stay so.
    # A made-up home has no chunks.
    for part in filter(Path.exists, (original / name for name in ("postgres", "qdrant", "chunks"))):
        subprocess.run(["cp", "-a", str(part), str(folder / part.name)], check=True)
    (folder / "models").symlink_to(original / "models", target_is_directory=True)
    settings = Settings.from_environment().model_copy(
        update={"threadhouse_home": folder, **dict.fromkeys(OUTSIDE)}
    )
    try:
        yield settings
    finally:
        embedded_postgres.stop(folder)
        shutil.rmtree(folder)


def label_hub(database: Database, *, doubled: bool = True) -> None:
    """Lay down labels, threads, gaps and, when ``doubled``, legacy documents by the rules of this module."""
    with database.connect() as connection:
        units = _rows(
            connection, "select logical_unit_id, document_id from public.tac_logical_unit"
        )
        documents = [
            row["document_id"]
            for row in _rows(connection, "select document_id from public.production_document")
        ]
        _set_words(connection, "production_document", "document_id", documents, DOCUMENT_WORDS)
        _set_words(
            connection,
            "tac_logical_unit",
            "logical_unit_id",
            [row["logical_unit_id"] for row in units],
            UNIT_WORDS,
        )
        _make_document_threads(connection)
        threads = [
            row["thread_id"]
            for row in _rows(connection, "select thread_id from public.semantic_thread")
        ]
        _set_words(connection, "semantic_thread", "thread_id", threads, THREAD_WORDS)
        connection.execute(
            "insert into public.expected_artifact_missing (thread_id, lifecycle_stage, description)"
            " select t, s, 'Thiếu ' || s from unnest(%s::text[], %s::text[]) as g (t, s) on conflict do nothing",
            (threads, [draw("gap", thread, GAP_STAGES) for thread in threads]),
        )
        if doubled:
            _double_texts(connection)


def revoke_some(database: Database) -> None:
    """Take rights away, and publish nothing."""
    once = (("yes", 1), (None, REVOKED_EVERY - 1))
    third = (("yes", 1), (None, 2))
    with database.connect() as connection:
        documents = [
            row["document_id"]
            for row in _rows(connection, "select document_id from public.production_document")
            if draw("revoked", row["document_id"], once)
        ]
        ways: defaultdict[str | None, list[str]] = defaultdict(list)
        for document in documents:
            way = "document" if document.startswith(LEGACY_DOCUMENT) else None
            kinds = (("document", 1), ("units", 2), ("members", 2))
            ways[way or draw("way of revoking", document, kinds)].append(document)
        connection.execute(
            "update public.production_document set visibility = 'restricted' where document_id = any (%s)",
            (ways["document"],),
        )
        units = _rows(
            connection,
            "select logical_unit_id, document_id from public.tac_logical_unit where document_id = any (%s)",
            [*ways["units"], *ways["members"]],
        )
        taken = [row for row in units if draw("revoked", row["logical_unit_id"], third)]
        connection.execute(
            "update public.tac_logical_unit set visibility = 'restricted' where logical_unit_id = any (%s)",
            ([r["logical_unit_id"] for r in taken if r["document_id"] in set(ways["units"])],),
        )
        connection.execute(
            "update public.thread_membership set status = 'rejected'"
            " where logical_unit_id = any (%s) and thread_id like %s",
            (
                [r["logical_unit_id"] for r in taken if r["document_id"] in set(ways["members"])],
                f"{DOCUMENT_THREAD}%",
            ),
        )
        threads = [
            row["thread_id"]
            for row in _rows(connection, "select thread_id from public.semantic_thread")
            if draw("revoked", row["thread_id"], once)
        ]
        connection.execute(
            "update public.semantic_thread set visibility = 'restricted' where thread_id = any (%s)",
            (threads,),
        )


def _make_document_threads(connection: Connection[TupleRow]) -> None:
    connection.execute(
        "insert into public.semantic_thread (thread_id, canonical_address, title)"
        " select %s || document_id, %s || document_id, title from public.production_document d"
        " where exists (select from public.tac_logical_unit u where u.document_id = d.document_id)"
        " on conflict do nothing",
        (DOCUMENT_THREAD, DOCUMENT_THREAD),
    )
    members = _rows(
        connection,
        "select u.logical_unit_id, t.thread_id from public.tac_logical_unit u"
        " join public.semantic_thread t on t.thread_id = %s || u.document_id",
        DOCUMENT_THREAD,
    )
    keys = [f"{row['thread_id']}\0{row['logical_unit_id']}" for row in members]
    connection.execute(
        "insert into public.thread_membership (thread_id, logical_unit_id, role, confidence, status)"
        " select t, u, r, 0.9, s from unnest(%s::text[], %s::text[], %s::text[], %s::text[]) as m (t, u, r, s)"
        " on conflict do nothing",
        (
            [row["thread_id"] for row in members],
            [row["logical_unit_id"] for row in members],
            [draw("role", key, ROLES) for key in keys],
            [draw("status", key, STATUSES) for key in keys],
        ),
    )


def _double_texts(connection: Connection[TupleRow]) -> None:
    texts = _rows(
        connection,
        "select u.logical_unit_id, v.title, v.body, d.language from public.tac_logical_unit u"
        " join public.tac_unit_version v on v.unit_version_id = u.current_version_id"
        " join public.production_document d using (document_id)"
        " where length(v.body) <= %s",
        LEGACY_CHARS,
    )
    documents: list[dict[str, Any]] = []
    for row in texts:
        if is_doubled(row["logical_unit_id"]):
            document_id = LEGACY_DOCUMENT + row["logical_unit_id"]
            words = {name: draw(name, document_id, DOCUMENT_WORDS[name]) for name in DOCUMENT_WORDS}
            documents.append(
                {
                    "document_id": document_id,
                    "path": document_id,
                    "title": row["title"],
                    "body": row["body"],
                    "language": row["language"],
                    **words,
                }
            )
    names = ("document_id", "path", "title", "body", "language", *DOCUMENT_WORDS)
    connection.execute(
        sql.SQL(
            "insert into public.production_document ({columns}) select {columns}"
            " from jsonb_populate_recordset(null::public.production_document, %s) on conflict do nothing"
        ).format(columns=_listed(names)),
        (Jsonb(documents),),
    )


def _set_words(
    connection: Connection[TupleRow], table: str, key: str, ids: Sequence[str], words: Words
) -> None:
    arrays = [[draw(name, each, choices) for each in ids] for name, choices in words.items()]
    settings = (sql.SQL("{0} = w.{0}").format(sql.Identifier(name)) for name in words)
    connection.execute(
        sql.SQL(
            "update public.{table} t set {settings} from unnest({arrays}) as w ({columns}) where t.{key} = w.{key}"
        ).format(
            table=sql.Identifier(table),
            settings=sql.SQL(", ").join(settings),
            arrays=sql.SQL(", ").join([sql.SQL("%s::text[]")] * (1 + len(words))),
            columns=_listed((key, *words)),
            key=sql.Identifier(key),
        ),
        (list(ids), *arrays),
    )


def _listed(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


def publish_hub(database: Database, settings: Settings, embedder: StreamingEmbedder) -> None:
    """The steps of the nightly that a reader's answers come from."""
    # Statistics as they are once autovacuum has been by.
    with database.connect(autocommit=True) as connection:
        connection.execute("analyze")
    cached = CachedEmbedder(embedder, PostgresVectorCache(database))
    with open_writer(home=settings.home, lock_timeout_s=settings.lock_timeout_s) as store:
        publish_content(database, store, cached, settings.home, allowed_deletion_share=None)
        refresh_centroids(database, store, embedder.space)
    refresh_packs(database, embedder.space.space_id)
    with database.connect(autocommit=True) as connection:
        connection.execute("vacuum analyze")


@dataclass(frozen=True, slots=True)
class HubTruth:
    """What the users' tables say, whoever asks.

    Attributes:
        units: Effective labels of every live unit.
        documents: Labels of every document without units.
        holders: Units of every document that has some.
        threads: Own flags of every thread.
        members: Units of every thread whose membership is not rejected.
        rejected: Units of every thread whose membership is.
        bodies: Text of every unit and of every document without units.
        names: Everything that names one of them: ids, addresses, paths; by name, its kind and its id.
    """

    units: Mapping[str, Labels]
    documents: Mapping[str, Labels]
    holders: Mapping[str, frozenset[str]]
    threads: Mapping[str, Flags]
    members: Mapping[str, frozenset[str]]
    rejected: Mapping[str, frozenset[str]]
    bodies: Mapping[str, str]
    names: Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class HubSight:
    """What one reader may see, by kind; decided by `visible` alone."""

    units: frozenset[str]
    documents: frozenset[str]
    threads: frozenset[str]
    stages: frozenset[str] = field(default_factory=frozenset[str])

    def sees(self, kind: str, key: str) -> bool:
        """Whether the reader may learn of something."""
        return key in {"unit": self.units, "document": self.documents, "thread": self.threads}[kind]


def read_truth(connection: Connection[TupleRow]) -> HubTruth:
    """Read the tables themselves."""
    documents = {
        row["document_id"]: row
        for row in _rows(connection, "select * from public.production_document")
    }
    units = _rows(
        connection,
        "select u.*, v.body from public.tac_logical_unit u"
        " join public.tac_unit_version v on v.unit_version_id = u.current_version_id",
    )
    threads = _rows(connection, "select * from public.semantic_thread")
    holders: defaultdict[str, set[str]] = defaultdict(set)
    labels: dict[str, Labels] = {}
    names: dict[str, tuple[str, str]] = {}
    bodies: dict[str, str] = {}
    for row in units:
        unit_id, document = row["logical_unit_id"], documents[row["document_id"]]
        holders[row["document_id"]].add(unit_id)
        own = {flag: document[flag] if row[flag] is None else row[flag] for flag in FLAGS}
        labels[unit_id] = parse_labels({**row, **own})
        bodies[unit_id] = row["body"]
        names |= dict.fromkeys((unit_id, row["canonical_address"]), ("unit", unit_id))
    for document_id, row in documents.items():
        names |= dict.fromkeys((document_id, row["path"]), ("document", document_id))
        if document_id not in holders:
            bodies[document_id] = row["body"]
    for row in threads:
        thread_id = row["thread_id"]
        names |= dict.fromkeys((thread_id, row["canonical_address"]), ("thread", thread_id))
    members: defaultdict[str, set[str]] = defaultdict(set)
    rejected: defaultdict[str, set[str]] = defaultdict(set)
    for row in _rows(
        connection, "select thread_id, logical_unit_id, status from public.thread_membership"
    ):
        standing = rejected if row["status"] == "rejected" else members
        standing[row["thread_id"]].add(row["logical_unit_id"])
    return HubTruth(
        units=labels,
        documents={key: parse_labels(row) for key, row in documents.items() if key not in holders},
        holders={key: frozenset(ids) for key, ids in holders.items()},
        threads={
            row["thread_id"]: parse_labels(
                {**row, "lifecycle_stage": None, "data_classification": None}
            ).flags
            for row in threads
        },
        members={key: frozenset(ids) for key, ids in members.items()},
        rejected={key: frozenset(ids) for key, ids in rejected.items()},
        bodies=bodies,
        names=names,
    )


def sight_of_reader(truth: HubTruth, principal: Principal, policy: AudiencePolicy) -> HubSight:
    """What ``principal`` may see: units and documents by their labels, the rest through the units that it sees."""
    allowed = allowed_values(principal, policy)
    units = _seen(truth.units, principal, policy)
    documents = _seen(truth.documents, principal, policy) | {
        document for document, held in truth.holders.items() if held & units
    }
    threads = {
        thread
        for thread, flags in truth.threads.items()
        if truth.members.get(thread, frozenset[str]()) & units
        and all(
            getattr(flags, name) is None or getattr(flags, name) in allowed[name] for name in FLAGS
        )
    }
    stages = frozenset(stage for stage in LifecycleStage if stage in allowed["lifecycle_stage"])
    return HubSight(units, frozenset(documents), frozenset(threads), stages)


def _seen(
    labels: Mapping[str, Labels], principal: Principal, policy: AudiencePolicy
) -> frozenset[str]:
    kinds = {each: visible(each, principal, policy) for each in set(labels.values())}
    return frozenset(key for key, each in labels.items() if kinds[each])


def _rows(
    connection: Connection[TupleRow], statement: str, *parameters: object
) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(trusted(statement), parameters or None).fetchall()


def texts_with_vectors(
    units: Iterable[tuple[str, str, str]], first_rows: Mapping[str, NDArray[np.float32]]
) -> dict[str, NDArray[np.float32]]:
    """Texts of the doubled documents, as a document's chunk is embedded, with the vector of the unit that each repeats.

    Args:
        units: Id, title and body.
        first_rows: Vector of the first chunk, by unit.
    """
    return {
        f"{title}\n{body}" if title else body: first_rows[unit_id]
        for unit_id, title, body in units
        if unit_id in first_rows and len(body) <= LEGACY_CHARS
    }


def space_of_hub(settings: Settings, searcher: VectorSearcher) -> VectorSpace:
    """The space of a hub's vectors: that of the settings' model, or the made-up one."""
    physical = searcher.resolve(Collection.INFORMATION_UNITS)
    stamped = next(info.space_id for info in searcher.collections() if info.physical == physical)
    made_up = synthetic_space()
    return made_up if stamped == made_up.space_id else LazyEmbedder(settings).space


def chunk_rows(searcher: VectorSearcher) -> dict[str, dict[int, NDArray[np.float32]]]:
    """Vectors of every unit's chunks."""
    found: dict[str, dict[int, NDArray[np.float32]]] = {}
    physical = searcher.resolve(Collection.INFORMATION_UNITS)
    for point in searcher.scroll(physical, with_vectors=True):
        metadata = point.payload["metadata"]
        if point.dense is not None and isinstance(metadata, dict):
            chunk = metadata["chunk_index"]
            unit = found.setdefault(str(metadata["logical_unit_id"]), {})
            unit[chunk if isinstance(chunk, int) else 0] = np.asarray(point.dense, np.float32)
    return found


def first_rows(searcher: VectorSearcher) -> dict[str, NDArray[np.float32]]:
    """Vector of the first chunk of every unit."""
    return {unit_id: chunks[0] for unit_id, chunks in chunk_rows(searcher).items() if 0 in chunks}


def fill_open_hub(database: Database, units: int, threads: int) -> None:
    """Make up a hub that every lane sees all of; unit n belongs to thread n modulo ``threads``."""
    fill_database(database, units)
    with database.connect() as connection:
        connection.execute("update public.production_document set visibility = 'public'")
        connection.execute(
            "insert into public.semantic_thread (thread_id, canonical_address, title, aliases)"
            " select 't' || n, 'T.' || n, 'Chủ đề ' || n, array['chuyên đề ' || n] from generate_series(0, %s) n",
            (threads - 1,),
        )
        connection.execute(
            "insert into public.thread_membership (thread_id, logical_unit_id, role, confidence, status)"
            " select 't' || (n %% %s), 'u' || n, 'canonical', 1, 'confirmed' from generate_series(0, %s) n",
            (threads, units - 1),
        )
