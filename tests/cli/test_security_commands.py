"""The commands about security, as operators use them: list, show, close, and the probe by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from threadhouse.stores.migrations import open_database
from threadhouse.stores.security_events import Occurrence, write_security_event
from threadhouse.stores.settings import Settings

if TYPE_CHECKING:
    from cli.conftest import CommandLine


@pytest.fixture
def event(migrated: CommandLine) -> str:
    """One event in the shared home."""
    with open_database(Settings(threadhouse_home=migrated.home)).connect() as connection:
        return str(
            write_security_event(
                connection,
                Occurrence(
                    cause="customer/t1",
                    occasion="q",
                    title="A pack held what customer may not see",
                    subject="lane:customer",
                    lane="customer",
                    thread_id="t1",
                    pack_id=None,
                    evidence={"unit_ids": ["u1"]},
                ),
            )
        )


def test_an_event_is_listed_shown_and_closed_with_who_and_why(
    migrated: CommandLine, event: str
) -> None:
    listed = json.loads(migrated("security", "list", "--open", "--json").stdout)
    assert [each["signal_id"] for each in listed] == [event]
    assert migrated("security", "close", event, "--who", "an").returncode == 2
    refused = migrated("security", "close", event, "--who", " ", "--why", "x")
    assert (refused.returncode, "who closes it and why" in refused.stderr) == (1, True)
    closed = json.loads(
        migrated(
            "security", "close", event, "--who", "an", "--why", "label\nmended", "--json"
        ).stdout
    )
    assert (closed["closed_items"], closed["is_open"]) == (2, False)
    again = migrated("security", "close", event, "--who", "binh", "--why", "again")
    assert (again.returncode, "was closed before, by an: label mended" in again.stdout) == (0, True)
    shown = migrated("security", "show", event).stdout
    assert "risk_review" in shown
    assert "closed" in shown
    assert "No security event is open" in migrated("security", "list", "--open").stdout


def test_an_unknown_event_is_one_sentence(migrated: CommandLine) -> None:
    done = migrated("security", "show", "00000000-0000-0000-0000-000000000000")
    assert (done.returncode, done.stdout) == (1, "")
    assert "threadhouse security list names them all" in done.stderr


def test_the_probe_prints_a_table_and_is_sound(migrated: CommandLine) -> None:
    done = migrated("security", "probe", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["canaries"]["is_sound"]
    assert {each["reader"] for each in found["canaries"]["paths"]} >= {"customer", "ai_agent"}
    # Whoever had this home before may have published in it; then its real hidden units were asked for.
    assert (found["published"]["remarks"] == ["nothing is published yet"]) == (
        not found["published"]["paths"]
    )
    assert found["published"]["is_sound"]
