"""The commands about gaps, as operators use them: list, show, acknowledge, fix."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from threadhouse.retrieval.gap_signals import GapKind, GapSignal
from threadhouse.retrieval.models import Audience, ThreadId
from threadhouse.stores.gap_signals import note_gap_signals
from threadhouse.stores.migrations import open_database
from threadhouse.stores.security_events import Occurrence, write_security_event
from threadhouse.stores.settings import Settings

if TYPE_CHECKING:
    from cli.conftest import CommandLine

GAP = GapSignal(
    GapKind.WEAK_THREAD,
    "partner/gap-commands",
    Audience.PARTNER,
    ThreadId("gap-commands"),
    {"health": "weak"},
)


@pytest.fixture
def gap(migrated: CommandLine) -> str:
    """One gap in the shared home."""
    with open_database(Settings(threadhouse_home=migrated.home)).connect() as connection:
        note_gap_signals(connection, [GAP])
    return str(GAP.signal_id)


def test_a_gap_is_listed_shown_taken_over_and_fixed_with_who_and_why(
    migrated: CommandLine, gap: str
) -> None:
    def listed(*options: str) -> list[str]:
        done = migrated("gaps", "list", "--lane", "partner", "--json", *options)
        return [each["signal_id"] for each in json.loads(done.stdout)]

    assert gap in listed("--kind", "weak_thread")
    assert gap not in listed("--kind", "search_gap")
    assert "weak_thread of gap-commands for partner, met once" in migrated("gaps", "list").stdout
    assert migrated("gaps", "fix", gap, "--who", "an").returncode == 2
    refused = migrated("gaps", "fix", gap, "--who", " ", "--why", "x")
    assert (refused.returncode, "who changes it and why" in refused.stderr) == (1, True)
    taken = migrated("gaps", "acknowledge", gap, "--who", "an", "--why", "looking")
    assert (taken.returncode, taken.stdout) == (0, f"{gap} is acknowledged.\n")
    fixed = json.loads(
        migrated("gaps", "fix", gap, "--who", "binh", "--why", "units\nadded", "--json").stdout
    )
    assert (fixed["changed"], fixed["status"], fixed["change_reason"]) == (
        True,
        "fixed",
        "units added",
    )
    again = migrated("gaps", "fix", gap, "--who", "chi", "--why", "again")
    assert again.stdout == f"{gap} is fixed already, by binh: units added.\n"
    assert gap not in listed()
    assert gap in listed("--all")
    shown = json.loads(migrated("gaps", "show", gap, "--json").stdout)
    assert [each["status"] for each in shown["history"]] == ["open", "acknowledged", "fixed"]
    told = migrated("gaps", "show", gap).stdout
    assert 'health: "weak"' in told
    assert "fixed by binh: units added" in told


def test_an_unknown_gap_is_one_sentence(migrated: CommandLine) -> None:
    done = migrated("gaps", "show", "00000000-0000-0000-0000-000000000000")
    assert (done.returncode, done.stdout) == (1, "")
    assert "threadhouse gaps list names them all" in done.stderr


def test_a_security_event_is_not_closed_here(migrated: CommandLine) -> None:
    leak = Occurrence("gaps/x", "gaps", "t", "lane:customer", "customer", None, None, {})
    with open_database(Settings(threadhouse_home=migrated.home)).connect() as connection:
        event = str(write_security_event(connection, leak))
    done = migrated("gaps", "fix", event, "--who", "an", "--why", "no")
    assert (done.returncode, "There is no gap" in done.stderr) == (1, True)
    assert event not in migrated("gaps", "list", "--all").stdout
    assert (
        migrated("security", "close", event, "--who", "an", "--why", "of this test").returncode == 0
    )
