"""The embedded store between processes: one writer, any number of readers, and ``kill -9`` of either.

Every process here is a real one. Belongs here: locks, published copies, leases, what survives a kill.
Does not belong here: what any store answers (``test_vector_store_contract``).
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from threadhouse.retrieval.errors import (
    CollectionUnknownError,
    ProjectionError,
    StoreLockedError,
)
from threadhouse.retrieval.models import (
    AllOf,  # the child processes take their names from this module
    Json,
    SparseVector,
    StoredPoint,
    VectorPoint,
    VectorQuery,  # as above
    Vectors,
    VectorSpace,
)
from threadhouse.stores import vectors_edge
from threadhouse.stores.vectors_edge import EdgeReader, EdgeWriter, hold_published_copies

DIM = 8
ALIAS = "information_units"
SPACE = VectorSpace("tiny", "test/tiny", "0", "1", DIM, 16, "mean", "q: ", "p: ", "tiny-8-abc")
PHYSICAL = f"{ALIAS}__tiny-8-abc__g1"
POINTS = 60


def point_id(number: int) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, f"point-{number}")


def make_points(start: int, stop: int, version: int = 0) -> list[VectorPoint]:
    return [
        VectorPoint(
            point_id(n),
            np.random.default_rng(n).normal(size=DIM).astype(np.float32),
            SparseVector((n % 5,), (1.0,)),
            SparseVector((n % 5,), (1.0,)),
            {"document_id": f"v{version}"},
        )
        for n in range(start, stop)
    ]


def versions_of(points: Iterable[StoredPoint]) -> set[str]:
    return {str(point.payload["document_id"]) for point in points}


def make_query() -> Vectors:
    data = np.ones((1, DIM), dtype=np.float32) / np.float32(np.sqrt(DIM))
    return Vectors(SPACE.space_id, "query", data, np.zeros(1, dtype=np.bool_))


CHILD = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from {Path(__file__).stem} import *
home = Path(sys.argv[1])
def say(*words): print(*words, flush=True)
"""


@contextmanager
def child(home: Path, body: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A fresh Python process that runs ``body``; killed at the end if it is still there."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD + body, str(home), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ask(process: subprocess.Popen[str], question: str = "go") -> str:
    assert process.stdin is not None
    process.stdin.write(question + "\n")
    process.stdin.flush()
    return line_of(process)


READER = """
with EdgeReader(home) as reader:
    say("open", reader.count(ALIAS))
    for _ in sys.stdin:
        hits = reader.search_batch(ALIAS, [VectorQuery(make_query(), AllOf(), 5)])[0]
        say(reader.count(ALIAS), *sorted({hit.payload["document_id"] for hit in hits}))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A store with ``POINTS`` published points of version 0."""
    with EdgeWriter(tmp_path) as writer:
        writer.ensure_collection(ALIAS, SPACE)
        writer.upsert(ALIAS, SPACE.space_id, make_points(0, POINTS))
        writer.publish(ALIAS)
    return tmp_path


def copies(home: Path) -> list[str]:
    folder = home / "qdrant" / "published" / PHYSICAL
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())


# --- readers beside the writer ----------------------------------------------------------------


def test_three_reader_processes_stay_open_and_see_each_publish(home: Path) -> None:
    with child(home, READER) as one, child(home, READER) as two, child(home, READER) as three:
        readers = (one, two, three)
        assert [line_of(r) for r in readers] == [f"open {POINTS}"] * 3
        with EdgeWriter(home, lock_timeout_s=0) as writer:
            for version in (1, 2):
                writer.upsert(ALIAS, SPACE.space_id, make_points(0, POINTS, version))
                before = [ask(r) for r in readers]
                writer.publish(ALIAS)
                after = [ask(r) for r in readers]
                assert before == [f"{POINTS} v{version - 1}"] * 3
                assert after == [f"{POINTS} v{version}"] * 3


def test_a_reader_opens_while_a_writer_in_another_process_is_at_work(home: Path) -> None:
    body = """
with EdgeWriter(home) as writer:
    writer.upsert(ALIAS, SPACE.space_id, make_points(0, 10, version=1))
    say("written")
    sys.stdin.readline()
"""
    with child(home, body) as writing:
        assert line_of(writing) == "written"
        with EdgeReader(home) as reader:
            assert versions_of(reader.scroll(ALIAS)) == {"v0"}


def test_what_was_never_published_is_not_read(tmp_path: Path) -> None:
    with EdgeWriter(tmp_path) as writer, EdgeReader(tmp_path) as reader:
        writer.ensure_collection(ALIAS, SPACE)
        writer.upsert(ALIAS, SPACE.space_id, make_points(0, 5))
        assert (writer.count(ALIAS), reader.count(ALIAS)) == (5, 0)


def test_a_scroll_sees_one_state_although_a_publish_happens_in_between(home: Path) -> None:
    with EdgeReader(home) as reader, EdgeWriter(home) as writer:
        writer.upsert(ALIAS, SPACE.space_id, make_points(0, 1_200, version=1))
        writer.publish(ALIAS)
        scroll = reader.scroll(ALIAS)
        first = next(scroll)
        writer.upsert(ALIAS, SPACE.space_id, make_points(0, 1_200, version=2))
        writer.publish(ALIAS)
        versions = [first.payload["document_id"], *(p.payload["document_id"] for p in scroll)]
        assert versions == ["v1"] * 1_200
        assert versions_of(reader.scroll(ALIAS)) == {"v2"}


def test_threads_share_a_reader_while_copies_are_replaced(home: Path) -> None:
    failures: list[BaseException] = []
    mixed: list[set[str]] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                seen = versions_of(reader.scroll(ALIAS))
                if len(seen) != 1:
                    mixed.append(seen)
        except BaseException as error:  # noqa: BLE001  # carried to the test's own thread
            failures.append(error)

    with EdgeReader(home) as reader, EdgeWriter(home) as writer:
        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for version in range(1, 5):
            writer.upsert(ALIAS, SPACE.space_id, make_points(0, POINTS, version))
            writer.publish(ALIAS)
        done.set()
        for thread in threads:
            thread.join()
    assert (failures, mixed) == ([], [])


def test_reading_changes_no_data_of_a_published_copy(home: Path) -> None:
    folder = home / "qdrant" / "published" / PHYSICAL

    def digests() -> dict[str, str]:
        # The engine rewrites its two settings files at every open, each by an atomic rename.
        return {
            str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*")
            if path.is_file() and path.name not in {"edge_config.json", "segment.json"}
        }

    before = digests()
    with child(home, READER) as one, child(home, READER) as two:
        for reader in (one, two):
            line_of(reader)
            ask(reader)
    assert digests() == before


def test_a_published_copy_shares_no_file_with_the_live_shard(home: Path) -> None:
    def inodes(folder: Path) -> set[int]:
        return {path.stat().st_ino for path in folder.rglob("*") if path.is_file()}

    root = home / "qdrant"
    assert not inodes(root / "live") & inodes(root / "published")


def test_a_dropped_collection_is_unknown_to_a_reader_that_had_it_open(home: Path) -> None:
    with EdgeReader(home) as reader, EdgeWriter(home) as writer:
        assert reader.count(ALIAS) == POINTS
        writer.drop_collection(ALIAS)
        with pytest.raises(CollectionUnknownError):
            reader.count(ALIAS)


def test_a_reader_of_an_empty_home_names_the_missing_collection(tmp_path: Path) -> None:
    with (
        EdgeReader(tmp_path) as reader,
        pytest.raises(CollectionUnknownError, match="nightly"),
    ):
        reader.count(ALIAS)


# --- one writer at a time ---------------------------------------------------------------------

HOLDER = """
with EdgeWriter(home) as writer:
    say("holding")
    sys.stdin.readline()
"""


def test_a_second_writer_gives_up_and_names_the_first(home: Path) -> None:
    with child(home, HOLDER) as first:
        line_of(first)
        with pytest.raises(StoreLockedError, match=rf"process {first.pid} \(.*python"):
            EdgeWriter(home, lock_timeout_s=0.2)


def test_a_second_writer_waits_for_the_first_to_finish(home: Path) -> None:
    with child(home, HOLDER) as first:
        line_of(first)
        threading.Timer(0.3, lambda: ask(first, "finish")).start()
        with EdgeWriter(home, lock_timeout_s=20) as writer:
            assert writer.count(ALIAS) == POINTS


def test_a_killed_writer_leaves_the_lock_free(home: Path) -> None:
    with child(home, HOLDER) as first:
        line_of(first)
        first.kill()
        first.wait()
        with EdgeWriter(home, lock_timeout_s=1) as writer:
            assert writer.count(ALIAS) == POINTS


def test_two_writers_in_one_process_do_not_write_at_once(home: Path) -> None:
    with EdgeWriter(home), pytest.raises(StoreLockedError, match=f"process {os.getpid()}"):
        EdgeWriter(home, lock_timeout_s=0.1)


def test_a_closed_writer_writes_nothing(home: Path) -> None:
    writer = EdgeWriter(home)
    writer.close()
    with pytest.raises(StoreLockedError, match="closed"):
        writer.upsert(ALIAS, SPACE.space_id, make_points(0, 1))


# --- kill -9 ----------------------------------------------------------------------------------


def test_every_write_that_returned_survives_a_kill_of_the_writer(home: Path) -> None:
    body = """
writer = EdgeWriter(home)
for start in range(100, 100_000, 50):
    writer.upsert(ALIAS, SPACE.space_id, make_points(start, start + 50, version=1))
    say(start + 50)
"""
    with child(home, body) as writing:
        returned = [int(line_of(writing)) for _ in range(15)][-1]
        writing.kill()
        writing.wait()
    with EdgeWriter(home) as writer:
        ids = [point_id(n) for n in range(100, returned)]
        assert len(writer.retrieve(ALIAS, ids)) == returned - 100


def test_deletes_and_payloads_survive_a_kill_of_the_writer(home: Path) -> None:
    body = """
writer = EdgeWriter(home)
writer.delete(ALIAS, [point_id(0), point_id(1)])
writer.overwrite_payloads(ALIAS, [(point_id(2), {"document_id": "changed"})])
os.kill(os.getpid(), signal.SIGKILL)
"""
    with child(home, body) as writing:
        assert writing.wait() == -signal.SIGKILL
    with EdgeWriter(home) as writer:
        (changed,) = writer.retrieve(ALIAS, [point_id(n) for n in range(3)])
        assert changed.payload == {"document_id": "changed"}


def test_unpublished_writes_of_a_killed_writer_are_published_by_the_next(home: Path) -> None:
    body = """
writer = EdgeWriter(home)
writer.upsert(ALIAS, SPACE.space_id, make_points(0, POINTS, version=1))
os.kill(os.getpid(), signal.SIGKILL)
"""
    with child(home, body) as writing:
        writing.wait()
    with EdgeWriter(home) as writer, EdgeReader(home) as reader:
        writer.publish(ALIAS)
        assert versions_of(reader.scroll(ALIAS)) == {"v1"}


PUBLISH_AND_DIE = """
# CPython reports every file operation to audit hooks, so a kill can be aimed at each of them without touching our code.
version, operation, at, moment = int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5]
seen, armed = 0, False
def hook(event, arguments):
    global seen, armed
    if armed and event in {"open", "os.rename", "os.remove", "os.rmdir", "os.scandir"}:
        os.kill(os.getpid(), signal.SIGKILL)
    if event == operation:
        seen += 1
        if seen == at:
            if moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            armed = True
with EdgeWriter(home) as writer:
    writer.upsert(ALIAS, SPACE.space_id, make_points(0, POINTS, version))
    sys.addaudithook(hook)
    writer.publish(ALIAS)
"""

# Renames of a publish: 1 the finished copy, 2 the pointer, 3 the old copy on its way out. Removal 1 is that of the mark
# that readers lag behind; the later ones take the old copy apart.
PLACES = [
    ("open", 5, "before", "old"),
    ("open", 60, "before", "old"),
    ("os.mkdir", 20, "before", "old"),
    ("os.rename", 1, "before", "old"),
    ("os.rename", 1, "after", "old"),
    ("os.rename", 2, "before", "old"),
    ("os.rename", 2, "after", "new"),
    ("os.remove", 1, "before", "new"),
    ("os.remove", 1, "after", "new"),
    ("os.rename", 3, "before", "new"),
    ("os.rename", 3, "after", "new"),
    ("os.remove", 12, "before", "new"),
]


def test_a_kill_at_any_step_of_publishing_leaves_readers_all_old_or_all_new(home: Path) -> None:
    """And the next publish finishes the work and leaves exactly one copy."""
    for version, (operation, at, moment, outcome) in enumerate(PLACES, start=1):
        place = (operation, at, moment)
        with child(home, PUBLISH_AND_DIE, str(version), operation, str(at), moment) as dying:
            assert dying.wait() == -signal.SIGKILL, place
        with EdgeReader(home) as reader:
            seen = versions_of(reader.scroll(ALIAS))
        assert seen == {f"v{version if outcome == 'new' else version - 1}"}, place
        with EdgeWriter(home) as writer, EdgeReader(home) as reader:
            writer.publish(ALIAS)
            assert versions_of(reader.scroll(ALIAS)) == {f"v{version}"}
            assert (reader.count(ALIAS), len(copies(home))) == (POINTS, 1), place


def test_a_kill_while_a_collection_is_created_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    body = """
def hook(event, arguments):
    if event == "os.rename" and "live" in str(arguments[1]):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
EdgeWriter(home).ensure_collection(ALIAS, SPACE)
"""
    with child(tmp_path, body) as dying:
        assert dying.wait() == -signal.SIGKILL
    with EdgeWriter(tmp_path) as writer:
        assert writer.collections() == []
        writer.ensure_collection(ALIAS, SPACE)
        assert writer.count(ALIAS) == 0


# --- how many copies there are ----------------------------------------------------------------


def write_nothing(_: EdgeWriter) -> None:
    """A nightly without changes."""


def write_empty_batches(writer: EdgeWriter) -> None:
    writer.upsert(ALIAS, SPACE.space_id, [])
    writer.overwrite_payloads(ALIAS, [])
    writer.delete(ALIAS, [point_id(9_999)])
    writer.ensure_collection(ALIAS, SPACE)


@pytest.mark.parametrize("write", [write_nothing, write_empty_batches])
def test_a_publish_without_changes_makes_no_copy(
    home: Path, write: Callable[[EdgeWriter], None]
) -> None:
    before = copies(home)
    with EdgeWriter(home) as writer:
        write(writer)
        writer.publish(ALIAS)
    assert copies(home) == before


def test_only_the_newest_copy_is_kept_when_nobody_reads_an_older_one(home: Path) -> None:
    with EdgeWriter(home) as writer:
        for version in range(1, 4):
            writer.upsert(ALIAS, SPACE.space_id, make_points(0, 1, version))
            writer.publish(ALIAS)
    assert len(copies(home)) == 1


def test_a_copy_is_kept_while_a_reader_has_it_and_removed_when_that_reader_is_killed(
    home: Path,
) -> None:
    with child(home, READER) as reading:
        line_of(reading)
        (held,) = copies(home)
        with EdgeWriter(home) as writer:
            writer.upsert(ALIAS, SPACE.space_id, make_points(0, 1, version=1))
            writer.publish(ALIAS)
            assert held in copies(home)
            reading.kill()
            reading.wait()
            writer.publish(ALIAS)
    assert held not in copies(home)
    assert len(copies(home)) == 1


def test_an_idle_reader_gives_its_old_copy_back_at_its_next_call(home: Path) -> None:
    with EdgeReader(home) as reader, EdgeWriter(home) as writer:
        reader.count(ALIAS)
        writer.upsert(ALIAS, SPACE.space_id, make_points(0, 1, version=1))
        writer.publish(ALIAS)
        assert len(copies(home)) == 2
        reader.count(ALIAS)
        writer.publish(ALIAS)
        assert len(copies(home)) == 1


def test_replaced_points_do_not_make_copies_grow(home: Path) -> None:
    """Deleted points are vacuumed before a copy is made, so five nightlies cost the disk of one."""

    def copied_bytes() -> int:
        files = (home / "qdrant" / "published").rglob("*")
        return sum(path.stat().st_blocks * 512 for path in files if path.is_file())

    sizes: list[int] = []
    with EdgeWriter(home) as writer:
        for night in range(5):
            first = 10_000 * (night + 1)
            writer.upsert(ALIAS, SPACE.space_id, make_points(first, first + 1_100))
            old = [p.point_id for p in writer.scroll(ALIAS)]
            keep = {point_id(n) for n in range(first, first + 1_100)}
            writer.delete(ALIAS, [i for i in old if i not in keep])
            writer.publish(ALIAS)
            sizes.append(copied_bytes())
    assert max(sizes[3:]) < 2 * max(sizes[:2])


@pytest.mark.parametrize("pointer", ["", "99", "x"])
def test_a_pointer_that_names_no_copy_is_mended_by_the_next_publish(
    home: Path, pointer: str
) -> None:
    (home / "qdrant" / "published" / PHYSICAL / "current").write_text(pointer)
    with EdgeWriter(home) as writer:
        writer.publish(ALIAS)
    with EdgeReader(home) as reader:
        assert reader.count(ALIAS) == POINTS


FLAGS: dict[str, tuple[str | None, ...]] = {
    "visibility": ("public", "internal", None),
    "readiness": ("published", "draft"),
    "authority": ("enacted",),
}


@pytest.mark.parametrize("seed", range(4))
def test_a_reader_leaves_out_only_conditions_that_every_point_fulfils(
    tmp_path: Path, seed: int
) -> None:
    """Each state of the collection narrows filters anew: what held of every point yesterday may hide one today."""
    chance = random.Random(seed)
    choices = {
        field: chance.sample(values, chance.randint(1, len(values)))
        for field, values in FLAGS.items()
    }

    def point(number: int) -> VectorPoint:
        flags = {field: chance.choice(values) for field, values in choices.items()}
        stored: dict[str, Json] = {name: flag for name, flag in flags.items() if flag is not None}
        [made] = make_points(number, number + 1)
        return dataclasses.replace(made, payload={"document_id": "d", "metadata": stored})

    def sees(stored: StoredPoint, where: AllOf) -> bool:
        metadata = stored.payload["metadata"]
        assert isinstance(metadata, dict)
        return all(metadata.get(field.split(".")[1]) in allowed for field, allowed in where.allowed)

    filters = [
        AllOf(
            tuple(
                (
                    f"metadata.{field}",
                    tuple(v for v in chance.sample(values, chance.randint(1, len(values))) if v)
                    or ("none",),
                )
                for field, values in FLAGS.items()
            )
        )
        for _ in range(12)
    ]
    term = SparseVector((1, 2), (1.0, 1.0))
    with EdgeWriter(tmp_path) as writer, EdgeReader(tmp_path) as reader:
        writer.ensure_collection(ALIAS, SPACE)
        for state in range(3):
            writer.upsert(ALIAS, SPACE.space_id, [point(10 * state + n) for n in range(10)])
            writer.publish(ALIAS)
            everything = list(writer.scroll(ALIAS))
            for where in [*filters, *filters]:
                lists = [
                    VectorQuery(make_query(), where, 100),
                    VectorQuery(term, where, 100, "bm25_accented"),
                ]
                dense, words = reader.search_batch(ALIAS, lists)
                assert {hit.point_id for hit in dense} == {
                    stored.point_id for stored in everything if sees(stored, where)
                }
                assert [(hit.point_id, hit.score) for hit in words] == [
                    (hit.point_id, pytest.approx(hit.score))
                    for hit in writer.search_batch(ALIAS, lists)[1]
                ]


# --- copies of a shard that stays open ----------------------------------------------------------


def everything_in(store: EdgeReader | EdgeWriter) -> dict[uuid.UUID, tuple[Json, list[float]]]:
    return {
        point.point_id: (point.payload, np.asarray(point.dense).tolist())
        for point in store.scroll(ALIAS, with_vectors=True)
    }


def answers_of(store: EdgeReader | EdgeWriter) -> list[list[tuple[uuid.UUID, float]]]:
    """Dense and BM25 answers of every term, with their scores."""
    where = AllOf((("document_id", ("v0", "v1", "v2", "changed")),))
    asked = [VectorQuery(make_query(), where, 200)]
    asked += [
        VectorQuery(SparseVector((term,), (1.0,)), where, 200, bm25)
        for term in range(5)
        for bm25 in ("bm25_accented", "bm25_folded")
    ]
    return [
        sorted((hit.point_id, round(hit.score, 5)) for hit in hits)
        for hits in store.search_batch(ALIAS, asked)
    ]


def test_copies_of_a_shard_that_stays_open_hold_what_it_holds(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the second publish of a writer on, its shard is flushed and copied without being closed.

    After each, the copy is compared with the live shard point by point and answer by answer; so is what the next writer finds.
    """
    draw = random.Random(5)
    with EdgeWriter(home) as writer, EdgeReader(home) as reader:
        writer.upsert(ALIAS, SPACE.space_id, make_points(0, 200))
        writer.publish(ALIAS)
        closed: list[object] = []
        monkeypatch.setattr(EdgeWriter, "_close_shard", lambda _, physical: closed.append(physical))
        for turn in range(12):
            start = draw.randrange(300)
            writer.upsert(ALIAS, SPACE.space_id, make_points(start, start + 40, turn % 3))
            stored = sorted((p.point_id for p in writer.scroll(ALIAS)), key=str)
            writer.overwrite_payloads(
                ALIAS, [(i, {"document_id": "changed"}) for i in draw.sample(stored, 10)]
            )
            writer.delete(ALIAS, draw.sample(stored, 10))
            writer.publish(ALIAS)
            assert everything_in(reader) == everything_in(writer)
            assert answers_of(reader) == answers_of(writer)
        last = everything_in(writer)
        assert closed == [], "the shard was closed, so these were no copies of an open one"
        monkeypatch.undo()
    with EdgeWriter(home) as writer:
        assert everything_in(writer) == last


def test_a_copy_that_lacks_a_file_is_not_shown_to_readers(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_vectors(source: Path, target: Path) -> None:
        if source.suffix != ".mmap":
            shutil.copyfile(source, target)

    with EdgeWriter(home) as writer, EdgeReader(home) as reader:
        writer.upsert(ALIAS, SPACE.space_id, make_points(0, POINTS, 1))
        writer.publish(ALIAS)
        writer.upsert(ALIAS, SPACE.space_id, make_points(0, POINTS, 2))
        with monkeypatch.context() as patched:
            patched.setattr(f"{vectors_edge.__name__}._copy_sparse", lose_vectors)
            with pytest.raises(ProjectionError, match="readers keep the old copy"):
                writer.publish(ALIAS)
        assert versions_of(reader.scroll(ALIAS)) == {"v1"}
        writer.publish(ALIAS)
        assert versions_of(reader.scroll(ALIAS)) == {"v2"}


# --- twins: copies that are brought up to date by what changed -----------------------------------


@pytest.fixture
def only_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few points there are, a twin is worth catching up."""
    monkeypatch.setattr(f"{vectors_edge.__name__}.MOST_BEHIND", 100.0)


def publish_versions(writer: EdgeWriter, versions: Iterable[int]) -> None:
    for version in versions:
        writer.upsert(ALIAS, SPACE.space_id, make_points(0, POINTS, version))
        writer.publish(ALIAS)


def whole_copies(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Where whole copies are made from now on."""
    made: list[Path] = []
    copy = vectors_edge._copy_shard  # noqa: SLF001  counted, and done all the same

    def counted(source: Path, target: Path) -> None:
        made.append(target)
        copy(source, target)

    monkeypatch.setattr(f"{vectors_edge.__name__}._copy_shard", counted)
    return made


def digests_of(folder: Path) -> dict[str, str]:
    """Of every file but the two of settings, which the engine replaces at every open, and versions; see vectors_twins."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
        and path.name not in {"edge_config.json", "segment.json"}
        and not (path.name.endswith("id_tracker.versions") and "published" in path.parts)
    }


@pytest.mark.usefixtures("only_twins")
def test_twins_take_turns_and_hold_what_the_live_shard_holds(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(6)
    with EdgeWriter(home) as writer, EdgeReader(home) as reader:
        publish_versions(writer, range(1, 5))
        whole = whole_copies(monkeypatch)
        for turn in range(12):
            start = draw.randrange(300)
            writer.upsert(ALIAS, SPACE.space_id, make_points(start, start + 40, turn % 3))
            stored = sorted((p.point_id for p in writer.scroll(ALIAS)), key=str)
            writer.overwrite_payloads(
                ALIAS, [(i, {"document_id": "changed"}) for i in draw.sample(stored, 10)]
            )
            writer.delete(ALIAS, draw.sample(stored, 10))
            writer.publish(ALIAS)
            assert everything_in(reader) == everything_in(writer)
            assert answers_of(reader) == answers_of(writer)
            assert len(copies(home)) <= 2  # the one that was replaced is the reader's until it asks
        assert whole == []
        last = everything_in(writer)
    with EdgeReader(home) as reader, EdgeWriter(home) as writer:
        assert everything_in(reader) == everything_in(writer) == last


@pytest.mark.usefixtures("only_twins")
def test_a_copy_that_is_held_stays_as_it_is_however_often_is_published(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup, or a reader that asks nothing, holds on to what a twin showed: others take turns."""
    with EdgeWriter(home) as writer:
        publish_versions(writer, range(1, 5))
        with hold_published_copies(home) as held:
            folder = held.folders[PHYSICAL]
            before = digests_of(folder)
            publish_versions(writer, range(5, 8))
            whole = whole_copies(monkeypatch)
            publish_versions(writer, range(8, 11))
            assert digests_of(folder) == before
            held.write_to(home / "backup")
        assert whole == [home / "backup" / PHYSICAL / "shard"]
        publish_versions(writer, range(11, 14))
        assert len(copies(home)) == 1
    restored = home / "restored"
    vectors_edge.restore_collections(home / "backup", restored)
    with EdgeReader(restored) as reader:
        assert versions_of(reader.scroll(ALIAS)) == {"v4"}


@pytest.mark.usefixtures("only_twins")
def test_readers_that_open_what_a_twin_shows_change_none_of_its_data(home: Path) -> None:
    with EdgeWriter(home) as writer:
        publish_versions(writer, range(1, 5))
        for version in range(5, 9):
            writer.delete(ALIAS, [point_id(n) for n in range(POINTS - version, POINTS)])
            writer.upsert(ALIAS, SPACE.space_id, make_points(0, POINTS - version, version))
            writer.publish(ALIAS)
            before = digests_of(home / "qdrant")
            with (
                child(home, READER) as one,
                child(home, READER) as two,
                child(home, READER) as three,
            ):
                readers = (one, two, three)
                assert [line_of(r) for r in readers] == [f"open {writer.count(ALIAS)}"] * 3
                assert {ask(r) for r in readers} == {f"{writer.count(ALIAS)} v{version}"}
            assert digests_of(home / "qdrant") == before


@pytest.mark.usefixtures("only_twins")
def test_twins_of_big_segments_are_not_changed_by_readers_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A big segment is not written to any more, and what is deleted from it is kept in files of other names."""
    monkeypatch.setattr(f"{vectors_edge.__name__}.WHOLE_VECTORS_BELOW_KB", 20)
    with EdgeWriter(tmp_path) as writer:
        writer.ensure_collection(ALIAS, SPACE)
        writer.upsert(ALIAS, SPACE.space_id, make_points(0, 1_500))
        writer.publish(ALIAS)
        assert list(tmp_path.glob("qdrant/live/*/shard/segments/*/id_tracker.deleted"))
        for version in range(1, 8):
            writer.upsert(
                ALIAS, SPACE.space_id, make_points(version * 9, version * 9 + 12, version)
            )
            writer.delete(ALIAS, [point_id(n) for n in range(900 + version, 1_400, 90)])
            writer.publish(ALIAS)
            before = digests_of(tmp_path / "qdrant" / "twins")
            with EdgeReader(tmp_path) as reader:
                assert everything_in(reader) == everything_in(writer)
            assert digests_of(tmp_path / "qdrant" / "twins") == before
        assert before


@pytest.mark.usefixtures("only_twins")
def test_a_writer_that_closes_leaves_what_its_twins_showed(home: Path) -> None:
    writer = EdgeWriter(home)
    publish_versions(writer, range(1, 6))
    writer.upsert(ALIAS, SPACE.space_id, make_points(0, POINTS, 6))
    published = home / "qdrant" / "published"
    before = digests_of(published)
    writer.close()
    assert digests_of(published) == before
    assert list((home / "qdrant" / "twins").glob("*/*")) == []
    with EdgeReader(home) as reader:
        assert versions_of(reader.scroll(ALIAS)) == {"v5"}


@pytest.mark.usefixtures("only_twins")
def test_a_publish_of_a_twin_that_fails_leaves_readers_the_old_one_and_the_next_one_works(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise OSError("the disk is full")

    with EdgeWriter(home) as writer, EdgeReader(home) as reader:
        publish_versions(writer, range(1, 5))
        for version in range(5, 12):
            writer.upsert(ALIAS, SPACE.space_id, make_points(0, POINTS, version))
            with monkeypatch.context() as patched:
                patched.setattr(f"{vectors_edge.__name__}.sync_together", fail)
                with pytest.raises(OSError, match="disk is full"):
                    writer.publish(ALIAS)
            assert versions_of(reader.scroll(ALIAS)) == {f"v{version - 1}"}
            writer.publish(ALIAS)
            assert versions_of(reader.scroll(ALIAS)) == {f"v{version}"}


@pytest.mark.usefixtures("only_twins")
def test_a_twin_that_turns_out_different_is_replaced_by_a_whole_copy(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EdgeWriter(home) as writer, EdgeReader(home) as reader:
        publish_versions(writer, range(1, 5))
        whole = whole_copies(monkeypatch)
        forgotten = point_id(POINTS + 1)
        writer.upsert(ALIAS, SPACE.space_id, make_points(POINTS, POINTS + 3, 4))
        for twin in writer._twins[PHYSICAL]:  # noqa: SLF001  there is no other way to make one wrong
            twin.behind.discard(forgotten)
        writer.publish(ALIAS)
        assert len(whole) == 1
        assert everything_in(reader) == everything_in(writer)


def test_a_file_system_without_hard_links_gets_whole_copies(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with EdgeWriter(home) as writer, EdgeReader(home) as reader:
        publish_versions(writer, range(1, 5))
        assert versions_of(reader.scroll(ALIAS)) == {"v4"}


PUBLISH_TWINS_AND_DIE = """
from threadhouse.stores import vectors_edge, vectors_twins
vectors_edge.MOST_BEHIND = 100.0
version, operation, at, moment = int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5]
seen, armed = 0, False
def step(event):
    global seen, armed
    if armed and event in {"open", "os.rename", "os.remove", "os.link", "os.scandir", "operation"}:
        os.kill(os.getpid(), signal.SIGKILL)
    if event == operation:
        seen += 1
        if seen == at:
            if moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            armed = True
class Operations:
    # What a twin is told to do: the engine's own files are not opened through Python.
    def __getattr__(self, name):
        step("operation")
        return getattr(edge.UpdateOperation, name)
with EdgeWriter(home) as writer:
    publish_versions(writer, range(version - 4, version))
    writer.delete(ALIAS, [point_id(POINTS - 1)])
    writer.upsert(ALIAS, SPACE.space_id, make_points(0, POINTS - 1, version))
    edge = vectors_twins.edge
    class Patched:
        UpdateOperation = Operations()
        def __getattr__(self, name): return getattr(edge, name)
    vectors_twins.edge = Patched()
    sys.addaudithook(lambda event, _: step(event))
    writer.publish(ALIAS)
    say("not killed", seen)
"""

# Renames: 1 what showed the twin last, 2 the finished copy, 3 the pointer, 4 the old copy back to its twin. Removals: 1 the old
# lease, 2 the mark that readers lag behind.
TWIN_PLACES = [
    ("operation", 1, "before", "old"),
    ("operation", 1, "after", "old"),
    ("operation", 2, "after", "old"),
    ("os.rename", 1, "before", "old"),
    ("os.rename", 1, "after", "old"),
    ("os.remove", 1, "before", "old"),
    ("os.remove", 1, "after", "old"),
    ("open", 3, "before", "old"),
    ("open", 12, "before", "old"),
    ("open", 15, "before", "old"),
    ("os.rename", 2, "before", "old"),
    ("os.rename", 2, "after", "old"),
    ("os.rename", 3, "before", "old"),
    ("os.rename", 3, "after", "new"),
    ("os.remove", 2, "before", "new"),
    ("os.remove", 2, "after", "new"),
    ("os.rename", 4, "before", "new"),
    ("os.rename", 4, "after", "new"),
]


@pytest.mark.parametrize(("operation", "at", "moment", "outcome"), TWIN_PLACES)
def test_a_kill_at_any_step_of_a_twins_turn_leaves_readers_all_old_or_all_new(
    home: Path, operation: str, at: int, moment: str, outcome: str
) -> None:
    with child(home, PUBLISH_TWINS_AND_DIE, "6", operation, str(at), moment) as dying:
        said = line_of(dying)
        assert dying.wait() == -signal.SIGKILL, said
    with EdgeReader(home) as reader:
        assert versions_of(reader.scroll(ALIAS)) == {"v6" if outcome == "new" else "v5"}
        assert reader.count(ALIAS) == (POINTS - 1 if outcome == "new" else POINTS)
    with EdgeWriter(home) as writer, EdgeReader(home) as reader:
        writer.publish(ALIAS)
        assert everything_in(reader) == everything_in(writer)
        assert versions_of(reader.scroll(ALIAS)) == {"v6"}
        assert (reader.count(ALIAS), len(copies(home))) == (POINTS - 1, 1)
