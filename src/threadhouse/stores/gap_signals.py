"""Gap signals in ``nao.search_gap_signal``: one row a cause, counted.

Belongs here: writing them. Does not belong here: what makes a gap (retrieval.fallback), where they are routed.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from threadhouse.retrieval.fallback import GapSignal
from threadhouse.retrieval.models import Json
from threadhouse.stores import queries


def note_gap_signals(connection: Connection[TupleRow], signals: Sequence[GapSignal]) -> None:
    """Write signals down; a cause that is known is counted and seen again, one that was fixed is reopened."""
    # One statement cannot update a row twice.
    unique = {signal.signal_id: signal for signal in signals}
    if unique:
        connection.execute(
            queries.load("gap_signals_note"),
            {"signals": Jsonb(signal_rows(list(unique.values())))},
        )


def signal_rows(signals: Sequence[GapSignal]) -> list[dict[str, Json]]:
    """Signals as the statements that write them read them."""
    return [
        {
            "signal_id": str(signal.signal_id),
            "kind": signal.kind,
            "cause_key": signal.cause_key,
            "thread_id": signal.thread_id,
            "lane": signal.lane,
            "evidence": dict(signal.evidence),
        }
        for signal in signals
    ]
