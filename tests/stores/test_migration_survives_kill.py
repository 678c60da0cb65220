"""A model migration that is killed with SIGKILL at any of its steps, then run again.

Method: a real child process works on a real edge store and a real Postgres and kills itself inside the callback of a step. The
steps are those that an undisturbed run takes, so a new one is covered by itself. After each kill a reader is answered from one
generation, whole; the same command again, and the rest of the migration, end where an undisturbed one ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from counting_embedder import HashEmbedder
from fixtures_postgres import new_database
from hub_rows import add_document, add_unit, write_version
from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.models import Collection
from threadhouse.stores.audit import audit_projection
from threadhouse.stores.centroid_projection import refresh_centroids
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.generations import (
    Generation,
    Migration,
    count_generation,
    generation_to_go_back_to,
    generation_to_switch_to,
    require_counts,
    settle_generations,
)
from threadhouse.stores.model_in_force import ModelPlace
from threadhouse.stores.pack_refresh import refresh_packs
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import publish_content
from threadhouse.stores.vector_cache import PostgresVectorCache
from threadhouse.stores.vectors import generation_of, open_reader, open_writer

OLD, NEW = HashEmbedder(), HashEmbedder("other")
MODELS = {each.space.space_id: each for each in (OLD, NEW)}
COMMANDS = ("build", "switch", "rollback", "drop")


@pytest.fixture
def hub(database: Database, tmp_path: Path) -> tuple[Database, Path]:
    """One thread of two units and a document without units, published with the old model."""
    tmp_path = tmp_path / "hub"
    tmp_path.mkdir()
    with database.connect() as connection:
        add_document(connection, "law")
        add_document(connection, "legacy", body="Quy trình cũ. " * 20)
        for unit in ("u1", "u2"):
            add_unit(connection, unit, "law", f"Nội dung của {unit}.")
        connection.execute(
            "insert into public.semantic_thread (thread_id, canonical_address, title) values ('t1', 'T/1', 'Luật')"
        )
        connection.execute(
            "insert into public.thread_membership select 't1', logical_unit_id, 'canonical', 1, 'confirmed' "
            "from public.tac_logical_unit"
        )
    with open_writer(home=tmp_path, lock_timeout_s=10) as store:
        publish_content(database, store, embedder(database, OLD.space.space_id), tmp_path)
        refresh_centroids(database, store, OLD.space)
    refresh_packs(database, OLD.space.space_id)
    return database, tmp_path


def embedder(database: Database, space_id: str) -> CachedEmbedder:
    return CachedEmbedder(MODELS[space_id], PostgresVectorCache(database))


def known(database: Database, home: Path) -> list[Generation]:
    with open_reader(home=home) as searcher:
        return settle_generations(database, searcher, ModelPlace(), OLD.space.space_id)


def run(
    database: Database, home: Path, command: str, on_step: Callable[[str], None] = lambda name: None
) -> None:
    """One command as an operator gives it; one that finds its work done is content."""
    migration = Migration(
        database, lambda: open_writer(home=home, lock_timeout_s=10), home, True, on_step
    )
    generations = known(database, home)
    if command == "build":
        target = migration.target(generations, ModelPlace(), NEW.space.space_id)
        migration.build(target, embedder(database, NEW.space.space_id))
        return
    try:
        if command == "drop":
            migration.drop(generations)
            return
        find = generation_to_switch_to if command == "switch" else generation_to_go_back_to
        target = find(generations)
    except ConfigurationError:
        return  # the killed command had come so far that there is nothing left to do

    def count(since: datetime) -> None:
        with open_reader(home=home) as searcher:
            require_counts(count_generation(database, searcher, target, since))

    migration.switch(target, embedder(database, target.space_id), count)


def run_in_child(database: Database, home: Path, command: str, kill_at: str) -> int:
    paths = [str(Path(__file__).parents[1]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    child = subprocess.run(
        [sys.executable, __file__, database.conninfo, str(home), command, kill_at],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    if child.returncode not in (0, -signal.SIGKILL):
        pytest.fail(child.stderr)
    return child.returncode


def in_force(home: Path) -> str:
    """Space of what a reader is given: one and the same in all collections, and there."""
    with open_reader(home=home) as searcher:
        meant = {generation_of(searcher.aliases()[each]) for each in Collection}
        assert len(meant) == 1, "the aliases are of two generations"
        for each in Collection:
            assert searcher.count(each), f"a reader finds nothing in {each}"
    return meant.pop()[0]


def state(database: Database, home: Path) -> dict[str, object]:
    """What an undisturbed migration ends in, without numbers and times."""
    with open_reader(home=home) as searcher, database.connect() as connection:
        return {
            "in force": in_force(home),
            "collections": sorted(
                (i.alias or "", i.space_id or "") for i in searcher.collections()
            ),
            "pointers": connection.execute(
                "select collection, space_id, count(*) from nao.vector_projection group by 1, 2 order by 1, 2"
            ).fetchall(),
            "packs": connection.execute(
                "select space_id, count(*) from nao.thread_context_pack_cache group by 1 order by 1"
            ).fetchall(),
            "states": connection.execute(
                "select space_id, state from nao.vector_generation where state <> 'dropped' order by 1"
            ).fetchall(),
            "folders": sorted(path.name for path in home.glob("generations/*")),
        }


# Two dozen kills, each with a copy of the stores and two commands: minutes on an idle machine.
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_leaves_readers_whole_and_ends_as_undisturbed_when_it_is_given_again(
    hub: tuple[Database, Path], postgres_server: Database, tmp_path: Path, command: str
) -> None:
    """Each step is killed in a copy of its own of the stores as they are before the command."""
    database, home = hub
    for each in COMMANDS[: COMMANDS.index(command)]:
        run(database, home, each)
    # Something that the generation in force does not have yet either.
    with database.connect() as connection:
        write_version(connection, "u1", "Nội dung mới.")
    before = in_force(home)
    steps: list[str] = []
    with copied(database, home, postgres_server, tmp_path / "undisturbed") as (other, there):
        run(other, there, command, steps.append)
        undisturbed = state(other, there)
    after = undisturbed["in force"]
    killed = [step for step in dict.fromkeys(steps) if is_own(step)]
    assert len(killed) > 4
    for number, step in enumerate(killed):
        with copied(database, home, postgres_server, tmp_path / str(number)) as (other, there):
            assert run_in_child(other, there, command, step) == -signal.SIGKILL, step
            assert in_force(there) in {before, after}, step
            run(other, there, command)
            assert state(other, there) == undisturbed, step
            with open_reader(home=there) as searcher:
                report = audit_projection(other, searcher, embedder(other, str(after)))
            behind = {"build", "drop"} & {command}
            assert report.is_clean or behind, (step, report.to_json())


def is_own(step: str) -> bool:
    """A publish is killed at its own steps by test_publish_survives_kill; here one of them stands for all."""
    return not step.startswith("content/") or step == "content/pointers"


@contextmanager
def copied(
    database: Database, home: Path, server: Database, folder: Path
) -> Generator[tuple[Database, Path], None, None]:
    """Postgres and vectors as they are now, to be spoilt."""
    # Not shutil: the engine's files are mostly holes.
    subprocess.run(["cp", "-a", "--sparse=always", home / "qdrant", folder], check=True)
    there = folder.with_name(f"{folder.name}-home")
    there.mkdir()
    folder.rename(there / "qdrant")
    for name in ("chunks", "generations"):
        if (home / name).exists():
            shutil.copytree(home / name, there / name)
    name = str(conninfo_to_dict(database.conninfo)["dbname"])
    with new_database(server, name) as other:
        yield other, there
    shutil.rmtree(there)


if __name__ == "__main__":
    conninfo, home_name, given, kill_step = sys.argv[1:]

    def kill(step: str) -> None:
        if step == kill_step:
            os.kill(os.getpid(), signal.SIGKILL)

    run(Database(conninfo, is_embedded=True), Path(home_name), given, kill)
