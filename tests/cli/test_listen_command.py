"""``threadhouse listen`` as people and service managers run it: a small hub, the real model, signals and kills.

What is followed and in which order has its own tests (tests/stores/test_change_sync).
"""

from __future__ import annotations

import json
import signal
import subprocess
import uuid
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import CommandLine
from hub_rows import write_version
from threadhouse.stores import embedded_postgres
from threadhouse.stores.model_build import models_directory
from threadhouse.stores.postgres import Database

PAGE = (
    "---\ndocument_id: rules\ntitle: Rules\nlanguage: en\naddress_prefix: R\nunit_kind: clause\n"
    "lifecycle_stage: law\nvisibility: public\nreadiness: published\npublication_state: published\n"
    "risk_class: low\nauthority: enacted\n---\n# Rules\n\n## First\n\nBe kind.\n\n## Second\n\nBe brief.\n"
)


@pytest.fixture(scope="module")
def house(
    model_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Generator[CommandLine, None, None]:
    """A home with one document of two units, followed once."""
    home = tmp_path_factory.mktemp("listen_home")
    models_directory(home).symlink_to(models_directory(model_home))
    threadhouse = CommandLine(home)
    hub = tmp_path_factory.mktemp("hub")
    (hub / "documents").mkdir()
    (hub / "documents" / "rules.md").write_text(PAGE, encoding="utf-8")
    try:
        assert threadhouse("load", hub).returncode == 0
        done = threadhouse("listen", "--once", "--json")
        assert done.returncode == 0, done.stderr
        first = json.loads(done.stdout)
        assert (first["was_everything"], first["texts_embedded"]) == (True, 2)
        yield threadhouse
    finally:
        threadhouse("stop")


@pytest.fixture
def database(house: CommandLine) -> Database:
    return Database(embedded_postgres.status(house.home).conninfo(), is_embedded=True)


def rewrite(database: Database) -> str:
    """A text that was never embedded, for the first unit."""
    body = f"Be kind to {uuid.uuid4()}."
    with database.connect() as connection:
        row = connection.execute(
            "select logical_unit_id from public.tac_logical_unit order by ordinal limit 1"
        ).fetchone()
        assert row is not None
        write_version(connection, row[0], body)
    return body


def next_batch(listener: subprocess.Popen[str]) -> dict[str, Any]:
    assert listener.stdout is not None
    return json.loads(listener.stdout.readline())


def start(house: CommandLine, **variables: str) -> subprocess.Popen[str]:
    """A listener that follows changes by now."""
    listener = house.start("listen", "--json", **variables)
    assert listener.stderr is not None
    for line in listener.stderr:
        if line.startswith("Following changes"):
            return listener
    pytest.fail("it ended before it began")


def test_once_follows_what_waits_and_says_so_when_nothing_does(
    house: CommandLine, database: Database
) -> None:
    rewrite(database)
    done = house("listen", "--once")
    assert done.returncode == 0, done.stderr
    assert "1 text embedded" in done.stdout
    again = house("listen", "--once")
    assert again.stdout.strip().endswith("nothing has changed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_follows_until_it_is_asked_to_end_and_ends_with_130(
    house: CommandLine, database: Database, number: signal.Signals
) -> None:
    listener = start(house, SYNC_POLL_S="3600")
    for _ in range(2):
        rewrite(database)
        batch = next_batch(listener)
        assert (batch["texts_embedded"], batch["is_finished"]) == (1, True)
        assert batch["oldest_wait_s"] > 0
    listener.send_signal(number)
    _, said = listener.communicate(timeout=60)
    assert listener.returncode == 130
    assert "Traceback" not in said


def test_killed_and_started_again_it_loses_nothing_and_embeds_nothing_twice(
    house: CommandLine, database: Database
) -> None:
    first = start(house)
    rewrite(database)
    assert next_batch(first)["texts_embedded"] == 1
    first.kill()
    first.communicate(timeout=60)
    rewrite(database)
    second = start(house)
    assert next_batch(second)["texts_embedded"] == 1
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=60)
    assert json.loads(house("listen", "--once", "--json").stdout)["changes"] == 0
    audit = json.loads(house("audit", "--json").stdout)
    assert all(not found["counts"] for found in audit["audit"]["collections"])


def test_the_brake_is_lifted_only_for_what_waits_now(untouched: CommandLine) -> None:
    done = untouched("listen", "--allow-deletes")
    assert done.returncode == 2
    assert "--once" in done.stderr
    assert not untouched.home.exists()
