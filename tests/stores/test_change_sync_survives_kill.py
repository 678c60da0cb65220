"""Following changes, killed with SIGKILL at any of its steps, then followed again.

Method: a real child process follows a round of changes into a real edge store and kills itself inside the step's callback. The
steps are those that an undisturbed round goes through, so that a new one is met here without anybody naming it. A hub lives
through several rounds and meets every fifth step: no test takes long, and cores share them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from content_house import UNITS, ContentHouse
from hub_rows import add_unit, write_version
from sync_house import (
    add_thread,
    assert_agrees,
    assert_nothing_is_found,
    build,
    fill,
    follow,
    waiting,
)
from threadhouse.stores.postgres import Database

PORTION_OWNERS = 5
NEW_TEXTS = 5
PARTS = 5
AGAIN = re.compile(r"content (?!1:)\d+: ")
"""Steps of a portion are met in the second one, with what the first one left and others have still to do."""


@pytest.fixture
def house(database: Database, tmp_path: Path) -> ContentHouse:
    house = ContentHouse(database, tmp_path, engine="edge")
    fill(house)
    build(house)
    return house


def change_everything(house: ContentHouse, number: int) -> None:
    """New texts, a revoke and a grant, a unit that goes and one that comes, a move, and threads that come and go."""
    hidden, shown = ("c3", "b3") if number % 2 else ("b3", "c3")
    with house.connect() as connection:
        for unit_id in ("a0", "a1", "b0", "c0"):
            write_version(connection, unit_id, f"Bản {number} của {unit_id}.")
        add_unit(connection, f"x{number}", "a", f"Điều mới {number}.")
        connection.execute(
            "delete from public.tac_logical_unit where logical_unit_id = %s", (f"x{number - 1}",)
        )
        for unit_id, visibility in ((hidden, "restricted"), (shown, "public")):
            connection.execute(
                "update public.tac_logical_unit set visibility = %s where logical_unit_id = %s",
                (visibility, unit_id),
            )
        connection.execute(
            "update public.tac_logical_unit set document_id = %s where logical_unit_id = 'c2'",
            ("abc"[number % 3],),
        )
        connection.execute(
            "delete from public.semantic_thread where thread_id = %s", (f"r{number - 1}",)
        )
    add_thread(house, f"r{number}", "a0", f"x{number}", shown)


def hidden_unit(number: int) -> str:
    return "c3" if number % 2 else "b3"


def follow_in_child(house: ContentHouse, kill_at: str) -> tuple[int, list[str]]:
    """Exit code and steps of a child that follows what waits."""
    child = subprocess.run(
        [sys.executable, __file__, house.database.conninfo, str(house.home), kill_at],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if child.returncode not in (0, -signal.SIGKILL):
        pytest.fail(child.stderr)
    return child.returncode, [json.loads(line) for line in child.stdout.splitlines()]


def cached(house: ContentHouse) -> int:
    ((count,),) = house.rows("select count(*) from nao.embedding_cache")
    return count


def assert_readers_are_whole(house: ContentHouse, step: str) -> None:
    """Every published version is there with all its points."""
    with house.reader() as store:
        for pointer in house.pointers(UNITS).values():
            ids = pointer.point_ids(UNITS)
            found = {point.point_id for point in store.retrieve(store.resolve(UNITS), ids)}
            assert found == set(ids), f"{step}: a reader misses {pointer.owner_id}"


@pytest.mark.parametrize("part", range(PARTS))
def test_killed_at_any_step_it_comes_to_the_same_end_and_embeds_nothing_twice(
    house: ContentHouse, part: int
) -> None:
    change_everything(house, 1)
    code, steps = follow_in_child(house, "")
    assert code == 0
    assert_agrees(house)
    assert steps[0] == "read"
    assert steps[-1] == "moved"
    targets = [step for step in steps if not AGAIN.match(step)]
    assert {"access: access", "access: packs", "content 1: pointers", "threads: centroids"} <= {
        *targets
    }

    for number, step in enumerate(targets[part::PARTS], start=2):
        before = cached(house)
        change_everything(house, number)
        code, made = follow_in_child(house, step)
        assert (code, made[-1]) == (-signal.SIGKILL, step)
        assert_readers_are_whole(house, step)
        if "access: access" in made:
            labels = house.metadata(UNITS, hidden_unit(number))
            assert {found["visibility"] for found in labels} == {"restricted"}, step
        done_by_child = cached(house) - before

        assert (waiting(house.database).changes == 0) == (step == "moved")
        rest = follow(house, portion_owners=PORTION_OWNERS)
        assert rest.texts_embedded == NEW_TEXTS - done_by_child, step
        assert waiting(house.database).changes == 0
        assert_nothing_is_found(house, step)
    assert_agrees(house)


if __name__ == "__main__":
    conninfo, home_name, kill_step = sys.argv[1:]

    def on_step(name: str) -> None:
        sys.stdout.write(f"{json.dumps(name)}\n")
        sys.stdout.flush()
        if name == kill_step:
            os.kill(os.getpid(), signal.SIGKILL)

    follow(
        ContentHouse(Database(conninfo, is_embedded=True), Path(home_name), engine="edge"),
        portion_owners=PORTION_OWNERS,
        on_step=on_step,
    )
