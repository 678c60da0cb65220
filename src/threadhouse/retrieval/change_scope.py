"""What a change of the users' tables touches.

Belongs here: the meaning of a row of the change log, for vectors and for centroids, and in which portions content is worked on.
Does not belong here: reading the log, finding what the source says now (stores.change_sync).

Stored packs are not in here: a thread counts its own changes (``input_revision``), so that one statement finds the packs that are
due. Labels are read with every question and stored nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from threadhouse.retrieval.projection import ContentScope

EVERY_ROW: Final = "*"
"""Key of a TRUNCATE."""

_DOCUMENTS: Final = "production_document"
_UNITS: Final = "tac_logical_unit"
_THREADS: Final = "semantic_thread"
_MEMBERSHIPS: Final = "thread_membership"


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """All waiting changes of one row, together, since ``first_at``; ``takes_away`` when one can have cost somebody a right."""

    table_name: str
    row_key: str
    takes_away: bool
    changes: int
    first_at: datetime


@dataclass(frozen=True, slots=True)
class ChangeScope:
    """What has to be looked at again.

    Attributes:
        content: Units and documents that a row names; a publish adds what belongs to them.
        threads: Threads that a row names, and ids that may be one: a key of several columns can be read in several ways.
        is_all_content: Every document and unit, because a whole table was emptied.
        are_all_threads: Every thread.
    """

    content: ContentScope
    threads: frozenset[str]
    is_all_content: bool = False
    are_all_threads: bool = False

    @property
    def owners(self) -> int:
        """Units and documents that rows name."""
        return len(self.content.units) + len(self.content.documents)


def scope_of_changes(rows: Iterable[ChangedRow]) -> ChangeScope:
    """Put the rows of a backlog together; tables that neither vectors nor centroids are made from leave no trace.

    Example:
        >>> row = ChangedRow("thread_membership", "law/1/unit", False, 1, datetime(2026, 3, 10))
        >>> sorted(scope_of_changes([row]).threads)
        ['law', 'law/1']
    """
    units: set[str] = set()
    documents: set[str] = set()
    threads: set[str] = set()
    truncated: set[str] = set()
    for row in rows:
        if row.row_key == EVERY_ROW:
            truncated.add(row.table_name)
        elif row.table_name == _UNITS:
            units.add(row.row_key)
        elif row.table_name == _DOCUMENTS:
            documents.add(row.row_key)
        elif row.table_name == _THREADS:
            threads.add(row.row_key)
        elif row.table_name == _MEMBERSHIPS:
            threads.update(_beginnings(row.row_key))
    is_all_content = not truncated.isdisjoint({_UNITS, _DOCUMENTS})
    return ChangeScope(
        content=ContentScope(frozenset(units), frozenset(documents)),
        threads=frozenset(threads),
        is_all_content=is_all_content,
        are_all_threads=is_all_content or not truncated.isdisjoint({_THREADS, _MEMBERSHIPS}),
    )


def _beginnings(row_key: str) -> Iterator[str]:
    """What the first column of a key can be: columns are joined by a slash, and ids may hold one."""
    parts = row_key.split("/")
    for count in range(1, len(parts)):
        yield "/".join(parts[:count])


def content_portions(
    content: ContentScope, document_of: Mapping[str, str], owners: int
) -> Iterator[ContentScope]:
    """Cut a scope into portions of about ``owners`` units and documents; what belongs to one document stays together.

    Args:
        content: What to cut.
        document_of: Document of each unit; a unit that is gone has none and stands for itself.
        owners: At least 1. A document with more units is one portion.
    """
    together: dict[tuple[bool, str], set[str]] = {
        (True, document): set() for document in content.documents
    }
    for unit in content.units:
        document = document_of.get(unit)
        place = (False, unit) if document is None else (True, document)
        together.setdefault(place, set()).add(unit)
    units: set[str] = set()
    documents: set[str] = set()
    for place in sorted(together):
        is_document, document = place
        members = together[place]
        is_named = is_document and document in content.documents
        if (units or documents) and len(units) + len(documents) + len(members) + is_named > owners:
            yield ContentScope(frozenset(units), frozenset(documents))
            units, documents = set(), set()
        units |= members
        if is_named:
            documents.add(document)
    if units or documents:
        yield ContentScope(frozenset(units), frozenset(documents))
