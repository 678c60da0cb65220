"""What was refused, and why: one table for every source.

Belongs here: noting and resolving quarantined items.
Does not belong here: deciding that something is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow

from threadhouse.stores import queries

RAW_LIMIT_CHARS = 2_000
"""How much of a refused value is kept: enough to recognise it, too little to fill a disk."""


@dataclass(frozen=True, slots=True)
class QuarantinedItem:
    """One refused item. ``field`` is empty when the whole item is at fault; ``line`` counts from 1."""

    item_key: str
    field: str
    reason: str
    file: str | None = None
    line: int | None = None
    raw: str | None = None


def note_quarantined(
    connection: Connection[TupleRow], source: str, items: Sequence[QuarantinedItem]
) -> None:
    """Write items down; one that is known already is counted, not doubled."""
    # One statement cannot update a row twice, and the same fault may be met twice in one pass.
    unique = {(item.item_key, item.field, item.reason): item for item in items}.values()
    if not unique:
        return
    connection.execute(
        queries.load("quarantine_note"),
        {
            "source": source,
            "item_keys": [_storable(item.item_key) for item in unique],
            "fields": [_storable(item.field) for item in unique],
            "reasons": [_storable(item.reason) for item in unique],
            "files": [None if item.file is None else _storable(item.file) for item in unique],
            "lines": [item.line for item in unique],
            "raws": [None if item.raw is None else _storable(item.raw) for item in unique],
        },
    )


def resolve_absent(
    connection: Connection[TupleRow],
    source: str,
    still_wrong: Collection[str],
    looked_at: Collection[str] | None = None,
) -> int:
    """Close the items of ``source`` that a pass over all of them, or over those ``looked_at``, did not meet again.

    Returns:
        How many.
    """
    return connection.execute(
        queries.load("quarantine_resolve_absent"),
        {
            "source": source,
            "still_wrong": list(still_wrong),
            "looked_at": None if looked_at is None else list(looked_at),
        },
    ).rowcount


def count_open(connection: Connection[TupleRow]) -> dict[str, int]:
    """How many items are in quarantine now, by source."""
    rows = connection.execute(queries.load("doctor_quarantine"))
    return {row[0]: row[1] for row in rows}


def _storable(text: str) -> str:
    """Postgres takes neither NUL nor lone surrogates, which is often just what was wrong with the item."""
    clean = text.replace("\0", "\N{SYMBOL FOR NULL}").encode("utf-8", "backslashreplace").decode()
    return clean[:RAW_LIMIT_CHARS]
