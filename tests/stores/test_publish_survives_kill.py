"""A publish that is killed with SIGKILL at any of its steps, then run again.

Method: a real child process publishes into a real edge store and a real Postgres and kills itself inside the step's callback.
After each kill we look through a reader's eyes: published copies, and only versions that a Postgres pointer names.
"""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from counting_embedder import HashEmbedder
from hub_rows import add_document, add_unit, write_version
from threadhouse.retrieval.audit import owner_key
from threadhouse.retrieval.models import Collection
from threadhouse.retrieval.payloads import labels_from_metadata, validate_payload
from threadhouse.retrieval.projection import ContentScope
from threadhouse.stores import projection
from threadhouse.stores.audit import audit_projection
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import PublishReport, publish_content, read_pointers
from threadhouse.stores.projection_sources import DocumentSource, UnitSource
from threadhouse.stores.vector_cache import PostgresVectorCache
from threadhouse.stores.vectors import open_reader, open_writer


def steps_of_a_publish() -> list[str]:
    """Beginnings of the names of every step, from the code itself: a new step is killed in as well."""
    found: list[str] = []
    for node in ast.walk(ast.parse(Path(projection.__file__).read_text("utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "watch.step":
            name = node.args[0]
            first = name.values[0] if isinstance(name, ast.JoinedStr) else name
            assert isinstance(first, ast.Constant)
            found.append(str(first.value))
    return found


STEPS = steps_of_a_publish()
OLD, NEW = "Văn bản cũ. ", "Văn bản mới. "
CHANGED = [f"unit-{i}" for i in range(4)]
REVOKED = {"unit-0", "unit-5"}
SCOPE = ContentScope(frozenset({*CHANGED, *REVOKED, "unit-9", "unit-migrated"}))
"""What the change log names for `change_everything`."""


@pytest.fixture
def hub(database: Database, tmp_path: Path) -> tuple[Database, Path]:
    """A hub in its first state, published."""
    with database.connect() as connection:
        for number in range(3):
            add_document(connection, f"document-{number}")
        for number in range(10):
            # Long enough for several chunks, so that a torn unit would show.
            body = "\n\n".join([OLD * 60] * (1 + number % 4))
            add_unit(connection, f"unit-{number}", f"document-{number % 3}", body)
        add_document(connection, "legacy-stays", body=OLD * 900)
        add_document(connection, "legacy-migrates", body=OLD * 900)
        for number in range(6):
            add_document(connection, f"legacy-{number}", body=f"{OLD} {number}")
    publish(database, tmp_path)
    return database, tmp_path


def publish(
    database: Database,
    home: Path,
    kill_at: str | None = None,
    scope: ContentScope | None = None,
) -> PublishReport:
    embedder = CachedEmbedder(HashEmbedder(), PostgresVectorCache(database))

    def on_step(name: str) -> None:
        if kill_at is not None and name.startswith(kill_at):
            os.kill(os.getpid(), signal.SIGKILL)

    with open_writer(home=home, lock_timeout_s=10) as store:
        return publish_content(database, store, embedder, home, scope=scope, on_step=on_step)


def publish_in_child(
    database: Database, home: Path, kill_at: str, scope: ContentScope | None
) -> int:
    which = "everything" if scope is None else "scope"
    child = subprocess.run(
        [sys.executable, __file__, database.conninfo, str(home), kill_at, which],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    if child.returncode not in (0, -signal.SIGKILL):
        pytest.fail(child.stderr)
    return child.returncode


def change_everything(database: Database) -> None:
    """New text, a revoke, a grant, a deletion, and a document whose units take over."""
    with database.connect() as connection:
        for unit_id in CHANGED:
            write_version(connection, unit_id, "\n\n".join([NEW * 60] * 3))
        connection.execute(
            "update public.tac_logical_unit set visibility = 'restricted' where logical_unit_id in ('unit-0', 'unit-5')"
        )
        connection.execute("delete from public.tac_logical_unit where logical_unit_id = 'unit-9'")
        add_unit(connection, "unit-migrated", "legacy-migrates", NEW * 40)


def read_as_reader(database: Database, home: Path) -> dict[str, str]:
    """Text by owner as a reader could put it together: old, new, or torn."""
    seen: dict[str, str] = {}
    with open_reader(home=home) as store, database.connect() as connection:
        texts = {
            (row[0], str(row[1])): row[2]
            for row in connection.execute(
                "select logical_unit_id, unit_version_id, body from public.tac_unit_version"
            )
        }
        for row in connection.execute(
            "select document_id, document_id || '@' || revision, body from public.production_document"
        ):
            texts[row[0], row[1]] = row[2]
        for source in (UnitSource(), DocumentSource()):
            physical = store.resolve(source.collection)
            chunks: dict[str, dict[int, tuple[int, int]]] = {}
            for pointer in read_pointers(connection, physical).values():
                ids = pointer.point_ids(source.collection)
                found = {point.point_id: point for point in store.retrieve(physical, ids)}
                assert set(found) == set(ids), f"{pointer.owner_id}: a reader misses chunks"
                for point in found.values():
                    chunk = validate_payload(source.collection, point.payload).metadata
                    place = (chunk.char_start, chunk.char_end)
                    chunks.setdefault(pointer.owner_id, {})[chunk.chunk_index] = place
                body = texts.get((pointer.owner_id, pointer.version_key), "")
                if body:
                    places = [chunks[pointer.owner_id][i] for i in range(len(ids))]
                    assert places[0][0] == 0
                    assert places[-1][1] == len(body)
                    seen[pointer.owner_id] = "new" if body.startswith(NEW) else "old"
                else:
                    seen[pointer.owner_id] = "deleted"
    return seen


def test_the_steps_of_a_publish_are_found_in_the_code() -> None:
    assert STEPS[0] == "planned"
    assert {"access", "staged:", "copies", "pointers", "cleaned"} <= set(STEPS)


@pytest.mark.parametrize("scope", [None, SCOPE], ids=["everything", "what changed"])
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_publish_leaves_readers_whole_and_the_next_run_leaves_nothing_behind(
    hub: tuple[Database, Path], step: str, scope: ContentScope | None
) -> None:
    """One kill, three looks: readers after it, revoked units after it, the stores after the next run."""
    database, home = hub
    before = read_as_reader(database, home)
    change_everything(database)
    assert publish_in_child(database, home, step, scope) == -signal.SIGKILL

    seen = read_as_reader(database, home)
    states = {seen[unit_id] for unit_id in CHANGED}
    assert len(states) == 1, f"changed units are torn between versions: {seen}"
    sides = ("legacy-migrates" in seen, "unit-migrated" in seen)
    assert sides in ((True, False), (False, True)), "the document is in both collections or in none"
    assert (states == {"new"}) == (sides == (False, True)), "the switch was not one moment"
    untouched = {o for o in before if o not in {*CHANGED, "unit-9", "legacy-migrates"}}
    assert {o: seen.get(o) for o in untouched} == {o: before[o] for o in untouched}
    if step != "planned":
        assert public_owners(home).isdisjoint(REVOKED), "a revoke waited for an embedding"

    publish(database, home, scope=scope)
    assert read_as_reader(database, home) | dict.fromkeys(CHANGED, "new") == read_as_reader(
        database, home
    )
    assert_stores_hold_exactly_what_is_wanted(database, home)
    third = publish(database, home)
    assert (third.vector_writes, third.texts_embedded) == (0, 0)


def public_owners(home: Path) -> set[str]:
    """Units that any reader of the published copy would take for public."""
    with open_reader(home=home) as store:
        return {
            owner_key(Collection.INFORMATION_UNITS, point.payload)[0]
            for point in store.scroll(store.resolve(Collection.INFORMATION_UNITS))
            if isinstance(metadata := point.payload["metadata"], dict)
            and labels_from_metadata(metadata).flags.visibility == "public"
        }


def assert_stores_hold_exactly_what_is_wanted(database: Database, home: Path) -> None:
    embedder = CachedEmbedder(HashEmbedder(), PostgresVectorCache(database))
    with open_reader(home=home) as store:
        report = audit_projection(database, store, embedder)
        with database.connect() as connection:
            for collection in (Collection.INFORMATION_UNITS, Collection.PRODUCTION_DOCUMENTS):
                physical = store.resolve(collection)
                stored = [point.point_id for point in store.scroll(physical)]
                expected: set[UUID] = {
                    i
                    for pointer in read_pointers(connection, physical).values()
                    for i in pointer.point_ids(collection)
                }
                assert len(stored) == len(set(stored))
                assert set(stored) == expected
    content = [a for a in report.collections if a.collection != Collection.THREAD_CENTROIDS]
    assert [audit.samples for audit in content] == [[], []]


if __name__ == "__main__":
    conninfo, home_name, kill_step, which_owners = sys.argv[1:]
    publish(
        Database(conninfo, is_embedded=True),
        Path(home_name),
        kill_at=kill_step,
        scope=SCOPE if which_owners == "scope" else None,
    )
