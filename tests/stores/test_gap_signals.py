"""Gap signals: one row a cause, a life with who and why that no writer can forget, nothing of it for security events.

Method: a real Postgres; gaps are written as the query path writes them.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest

from delivery_house import change, rows
from threadhouse.retrieval.errors import ConfigurationError, GapUnknownError
from threadhouse.retrieval.gap_signals import GapKind, GapSignal, GapStatus, ReplayResult
from threadhouse.retrieval.models import Audience, ThreadId
from threadhouse.stores.gap_signals import (
    KnownGap,
    acknowledge_gap,
    close_after_replay,
    fix_gap,
    gaps_by_day,
    list_gaps,
    note_gap_signals,
    open_gaps,
    read_gap,
)
from threadhouse.stores.postgres import Database
from threadhouse.stores.security_events import Occurrence, write_security_event

GAP = GapSignal(GapKind.MISSING_THREAD, "customer/x", Audience.CUSTOMER)


def note(database: Database, gap: GapSignal = GAP) -> UUID:
    with database.connect() as connection:
        note_gap_signals(connection, [gap])
    return gap.signal_id


def fix(database: Database, signal_id: UUID, why: str = "a thread was made") -> bool:
    with database.connect() as connection:
        return fix_gap(connection, signal_id, who="an", why=why)


def read(database: Database, signal_id: UUID) -> tuple[KnownGap, list[tuple[str, str, str]]]:
    with database.connect() as connection:
        gap, history = read_gap(connection, signal_id)
    return gap, [(each.status, each.changed_by, each.reason) for each in history]


def test_a_gap_lives_from_open_to_fixed_to_reopened_with_who_and_why(database: Database) -> None:
    gap_id = note(database)
    with database.connect() as connection:
        assert acknowledge_gap(connection, gap_id, who="binh", why="on it")
    assert fix(database, gap_id)
    note(database)
    gap, history = read(database, gap_id)
    assert (gap.status, gap.opening, gap.occurrence_count) == ("reopened", 2, 2)
    assert history == [
        ("open", "threadhouse", ""),
        ("acknowledged", "binh", "on it"),
        ("fixed", "an", "a thread was made"),
        ("reopened", "threadhouse", "met again"),
    ]


def test_changing_again_changes_nothing(database: Database) -> None:
    gap_id = note(database)
    assert fix(database, gap_id)
    before = read(database, gap_id)
    assert not fix(database, gap_id, "another reason")
    with database.connect() as connection:
        assert not acknowledge_gap(connection, gap_id, who="binh", why="late")
    assert read(database, gap_id) == before


@pytest.mark.parametrize(
    ("who", "why"), [("", "w"), ("w", " \n"), ("\u200b", "w"), ("w", "x" * 2001)]
)
def test_a_change_needs_who_and_why(database: Database, who: str, why: str) -> None:
    gap_id = note(database)
    with (
        pytest.raises(ConfigurationError, match="who changes it and why"),
        database.connect() as connection,
    ):
        fix_gap(connection, gap_id, who=who, why=why)
    assert read(database, gap_id)[0].status == "open"


def test_a_security_event_is_no_gap_and_cannot_be_closed_as_one(database: Database) -> None:
    leak = Occurrence("customer/t1", "q", "title", "lane:customer", "customer", "t1", None, {})
    with database.connect() as connection:
        event = write_security_event(connection, leak)
    with database.connect() as connection:
        assert list_gaps(connection) == []
        with pytest.raises(GapUnknownError):
            fix_gap(connection, event, who="an", why="no")
        with pytest.raises(GapUnknownError):
            close_after_replay(connection, event, ReplayResult(is_closed=True, summary="x"))
    assert rows(database, "select status from nao.search_gap_signal") == [("open",)]
    assert rows(database, "select count(*) from nao.gap_signal_change") == [(0,)]


def test_an_unknown_gap_is_one_sentence(database: Database) -> None:
    with (
        pytest.raises(GapUnknownError, match="threadhouse gaps list"),
        database.connect() as connection,
    ):
        fix_gap(connection, uuid4(), who="an", why="no")


def test_a_replay_that_answers_closes_and_one_that_does_not_reopens(database: Database) -> None:
    gap_id = note(database)

    def replay(*, is_closed: bool) -> GapStatus:
        result = ReplayResult(is_closed=is_closed, summary=f"{is_closed}", evidence={"asked": 3})
        with database.connect() as connection:
            return close_after_replay(connection, gap_id, result)

    assert replay(is_closed=False) is GapStatus.OPEN
    assert read(database, gap_id)[0].evidence["replay"] == {
        "asked": 3,
        "is_closed": False,
        "summary": "False",
    }
    assert replay(is_closed=True) is GapStatus.FIXED
    assert replay(is_closed=True) is GapStatus.FIXED
    assert replay(is_closed=False) is GapStatus.REOPENED
    gap, history = read(database, gap_id)
    assert (gap.occurrence_count, gap.opening) == (1, 2)
    assert history[1:] == [("fixed", "replay", "True"), ("reopened", "replay", "False")]


def test_openings_and_closings_are_counted_by_local_day_and_lane(database: Database) -> None:
    gap_id = note(database)
    note(database, GapSignal(GapKind.WEAK_THREAD, "partner/t", Audience.PARTNER, ThreadId("t")))
    fix(database, gap_id)
    with database.connect() as connection:
        leak = Occurrence("leak", "q", "t", "s", "customer", None, None, {})
        write_security_event(connection, leak)
    change(database, "update nao.gap_signal_change set changed_at = '2026-03-01 18:00:00+00'")
    day = date(2026, 3, 2)  # one o'clock in the morning there

    def counted(lane: str | None, on: date = day) -> list[tuple[date, str, int, int]]:
        with database.connect() as connection:
            found = gaps_by_day(connection, on, on, ZoneInfo("Asia/Ho_Chi_Minh"), lane=lane)
        return [(each.local_day, each.kind, each.opened, each.closed) for each in found]

    assert counted(None) == [(day, "missing_thread", 1, 1), (day, "weak_thread", 1, 0)]
    assert counted("customer") == [(day, "missing_thread", 1, 1)]
    assert counted(None, day - timedelta(days=1)) == []


def test_open_gaps_are_those_of_the_lane_that_are_not_fixed(database: Database) -> None:
    fix(database, note(database))
    other = note(database, GapSignal(GapKind.SEARCH_GAP, "partner/y", Audience.PARTNER))
    with database.connect() as connection:
        assert [gap.signal_id for gap in open_gaps(connection)] == [other]
        assert open_gaps(connection, lane="customer") == []
        assert len(list_gaps(connection)) == 2
        assert list_gaps(connection)[0].first_seen_at <= datetime.now(UTC)
