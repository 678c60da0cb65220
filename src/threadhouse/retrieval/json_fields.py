"""Records as JSON for a program.

Belongs here: the one form that instants, days and ids have there. Does not belong here: which fields a record shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, cast
from uuid import UUID

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from threadhouse.retrieval.models import Json


def json_fields(record: DataclassInstance) -> dict[str, Json]:
    """The fields of a record: instants and days as ISO 8601, ids as text, tuples as lists, records within it as objects."""
    return {name: _json(value) for name, value in asdict(record).items()}


def _json(value: object) -> Json:
    if isinstance(value, dict):
        return {name: _json(inner) for name, inner in cast("dict[str, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_json(inner) for inner in cast("Sequence[object]", value)]
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else cast("Json", value)
