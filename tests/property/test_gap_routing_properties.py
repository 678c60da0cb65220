"""Gaps and their items over any course of events: however often things happen, each gap has one item where it belongs.

Method: a real Postgres; each example plays its own gap through steps as the query path, people, replays and nightlies take them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import UTC, datetime
from itertools import pairwise
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection
from psycopg.rows import TupleRow

from fixtures_postgres import new_database
from threadhouse.retrieval.gap_signals import GapKind, GapSignal, GapStatus, ReplayResult
from threadhouse.retrieval.models import Audience
from threadhouse.stores.gap_refresh import refresh_gap_signals
from threadhouse.stores.gap_signals import (
    acknowledge_gap,
    close_after_replay,
    fix_gap,
    note_gap_signals,
    read_gap,
)
from threadhouse.stores.postgres import Database

STEPS = ("met", "met twice at once", "acknowledged", "fixed", "answered", "not answered", "night")


@pytest.fixture(scope="module")
def hub(postgres_server: Database, template_database: str) -> Generator[Database, None, None]:
    """One database for all examples; each has a gap of its own."""
    with new_database(postgres_server, template_database) as made:
        yield made


def take(connection: Connection[TupleRow], gap: GapSignal, step: str) -> None:
    does: dict[str, Callable[[], object]] = {
        "met": lambda: note_gap_signals(connection, [gap]),
        "met twice at once": lambda: note_gap_signals(connection, [gap, gap]),
        "acknowledged": lambda: acknowledge_gap(connection, gap.signal_id, who="an", why="w"),
        "fixed": lambda: fix_gap(connection, gap.signal_id, who="an", why="w"),
        "answered": lambda: close_after_replay(
            connection, gap.signal_id, ReplayResult(is_closed=True, summary="yes")
        ),
        "not answered": lambda: close_after_replay(
            connection, gap.signal_id, ReplayResult(is_closed=False, summary="no")
        ),
    }
    does[step]()


def statuses(connection: Connection[TupleRow], signal_id: UUID) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"d3": [], "d5": [], "d37": []}
    for name, status in connection.execute(
        """select 'd3', status from nao.health_signal where gap_signal_id = %(id)s
           union all select 'd5', status from nao.decision_backlog_item where signal_id = %(id)s
           union all select 'd37', status from nao.governance_queue_item where signal_id = %(id)s""",
        {"id": signal_id},
    ):
        found[name].append(status)
    return found


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(st.sampled_from(STEPS), max_size=12))
def test_every_gap_has_one_item_where_it_belongs_whatever_happens(
    hub: Database, steps: list[str]
) -> None:
    gap = GapSignal(GapKind.MISSING_THREAD, f"customer/{uuid4()}", Audience.CUSTOMER)
    for step in ("met", *steps, "night"):
        if step == "night":
            refresh_gap_signals(hub, "", ZoneInfo("UTC"), datetime.now(UTC))
        else:
            with hub.connect() as connection:
                take(connection, gap, step)
    with hub.connect() as connection:
        known, history = read_gap(connection, gap.signal_id)
        items = statuses(connection, gap.signal_id)
    is_open = known.status != GapStatus.FIXED
    assert items["d3"] == (["open"] if is_open else items["d3"][:1] and ["resolved"])
    assert items["d5"] in (
        [["acknowledged"] if known.status == GapStatus.ACKNOWLEDGED else ["open"]]
        if is_open
        else [["done"], []]
    )
    assert items["d37"].count("open") == int(is_open)
    assert len(items["d37"]) <= known.opening
    # History tells every status, never the same one twice in a row, and ends with the one that holds.
    told = [each.status for each in history]
    assert told[0] == "open"
    assert told[-1] == known.status
    assert all(before != after for before, after in pairwise(told))
    assert told.count("reopened") == known.opening - 1
