"""Moving documents from the legacy collection to units made of their text, and back.

Belongs here: which documents may change sides, making their units, who asked for it, on which side each document is.
Does not belong here: the switch itself, which a publish does (stores.projection), how a text is cut (retrieval.markdown_units).

A document on the legacy side may have units: they are there and do not show. Asking for a side is one transaction and changes
nothing that a reader sees; the next publish that has the vectors ready switches what is shown and what the vector pointers say,
in one transaction. Whatever is killed in between, the document is whole on one side, and the next publish goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow, class_row, dict_row

from threadhouse.retrieval.errors import DocumentMigrationError
from threadhouse.retrieval.markdown_units import cut_body
from threadhouse.retrieval.models import Json, LifecycleStage
from threadhouse.retrieval.ports import VectorStore
from threadhouse.retrieval.projection import ContentScope
from threadhouse.retrieval.sources import CheckedRow, Doubles, Fault, UnitRow
from threadhouse.retrieval.text import in_one_line
from threadhouse.stores import queries
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.loading import write_units
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import PublishReport, publish_content

LEGACY, UNITS = "legacy", "units"


@dataclass(frozen=True, slots=True)
class UnitRules:
    """What front matter would say and the table of documents does not; None as where it says nothing.

    ``lifecycle_stage`` is for documents without one.
    """

    address_prefix: str | None = None
    unit_kind: str | None = None
    lifecycle_stage: LifecycleStage | None = None


@dataclass(frozen=True, slots=True)
class PlannedUnit:
    """One unit that a document is cut into; ``chars`` are those of its text."""

    address: str
    title: str
    chars: int


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """What asking for a side means for one document.

    Attributes:
        document_id: The document.
        units: Those that are made; none on the way back, and none where units that were put away are taken out again.
        is_under_way: It was asked for before, and only the publish is missing.
    """

    document_id: str
    units: tuple[PlannedUnit, ...] = ()
    is_under_way: bool = False

    def to_json(self) -> dict[str, Json]:
        """The fields by name."""
        return {
            "document_id": self.document_id,
            "is_under_way": self.is_under_way,
            "units": [
                {"address": unit.address, "title": unit.title, "chars": unit.chars}
                for unit in self.units
            ],
        }


@dataclass(frozen=True, slots=True)
class DocumentSide:
    """Where readers find a document: ``units``, ``legacy`` or ``none``, and where it is wanted.

    ``unit_count`` includes units that do not show. Who asked and when is known of documents that a person moved.
    """

    document_id: str
    title: str
    side: str
    wanted: str
    unit_count: int
    changed_by: str | None
    changed_at: datetime | None

    def to_json(self) -> dict[str, Json]:
        """The fields by name; the instant in ISO 8601."""
        when = self.changed_at.isoformat() if self.changed_at else None
        return {**asdict(self), "changed_at": when}


@dataclass(frozen=True, slots=True)
class _Cut:
    """A document's units, ready to be written; ``rows`` is empty when those that are there count, ``kept`` of them."""

    move: PlannedMove
    rows: tuple[CheckedRow, ...] = ()
    kept: int = 0


def document_sides(
    database: Database, document_ids: Sequence[str] | None = None
) -> list[DocumentSide]:
    """Where each document is, by id; of all or of some.

    Raises:
        DocumentMigrationError: One of ``document_ids`` is unknown.
    """
    parameters = {"document_ids": None if document_ids is None else list(document_ids)}
    with (
        database.connect() as connection,
        connection.cursor(row_factory=class_row(DocumentSide)) as cursor,
    ):
        found = cursor.execute(queries.load("document_sides"), parameters).fetchall()
    _require_known(document_ids or (), {each.document_id for each in found})
    return found


def plan_units(
    database: Database, document_ids: Sequence[str], rules: UnitRules
) -> list[PlannedMove]:
    """What `ask_for_units` would do; nothing is written.

    Raises:
        DocumentMigrationError: As there.
    """
    with database.connect() as connection:
        planned = [_cut(connection, row, rules) for row in _lock(connection, document_ids)]
        connection.rollback()
    return [cut.move for cut in planned]


def ask_for_units(
    database: Database, document_ids: Sequence[str], rules: UnitRules, who: str
) -> list[PlannedMove]:
    """Make units of legacy documents, all of them or none, and want the documents on that side.

    Readers see nothing of it before a publish switches. Units that were put away by `ask_for_legacy` are taken out again as they
    were when the text of the document is still the same.

    Raises:
        DocumentMigrationError: A document is unknown, has no text or has units already, its text cannot be cut, an
            address is taken, or the source is not ours to write.
    """
    with database.connect() as connection:
        _require_own_source(connection)
        planned = [_cut(connection, row, rules) for row in _lock(connection, document_ids)]
        rows = [row for cut in planned for row in cut.rows]
        doubles = Doubles()
        faults = [fault for row in rows if isinstance(fault := doubles.admit(row), Fault)]
        faults = faults or (write_units(connection, rows) if rows else [])
        if faults:
            raise DocumentMigrationError(_nothing_moved(str(faults[0])))
        for cut in planned:
            document_id = cut.move.document_id
            if cut.rows:
                connection.execute(
                    queries.load("document_side_supersede"),
                    {
                        "document_id": document_id,
                        "unit_ids": [unit.address for unit in cut.move.units],
                    },
                )
            if cut.rows or not cut.move.is_under_way:
                unit_count = len(cut.rows) or cut.kept
                _put(connection, document_id, UNITS, who, unit_count, is_made=bool(cut.rows))
        _owe(connection, document_ids)
    return [cut.move for cut in planned]


def ask_for_legacy(
    database: Database, document_ids: Sequence[str], who: str, *, force: bool = False
) -> list[PlannedMove]:
    """Want documents back on the legacy side, all of them or none; their units are put away, versions and memberships included.

    Args:
        force: Also where somebody has changed the units since they were made. Nothing of it is lost; it goes out of sight.

    Raises:
        DocumentMigrationError: A document is unknown, has no text, is on the legacy side, or its units were not made by
            `ask_for_units` or were changed since.
    """
    moves: list[PlannedMove] = []
    with database.connect() as connection:
        _require_own_source(connection)
        for row in _lock(connection, document_ids):
            is_under_way = _check_way_back(connection, row, force=force)
            moves.append(PlannedMove(row["document_id"], is_under_way=is_under_way))
            if not is_under_way:
                _put(
                    connection,
                    row["document_id"],
                    LEGACY,
                    who,
                    row["unit_count"],
                    is_made=False,
                    is_forced=force,
                )
        _owe(connection, document_ids)
    return moves


def publish_documents(
    database: Database,
    vectors: VectorStore,
    embedder: CachedEmbedder,
    home: Path,
    document_ids: Sequence[str],
) -> PublishReport:
    """Publish these documents and their units, and nothing else; this is what switches sides.

    Raises:
        ThreadhouseError: Whatever `publish_content` raises; the documents are where they were.
    """
    scope = ContentScope(documents=frozenset(document_ids))
    return publish_content(database, vectors, embedder, home, scope=scope)


def _nothing_moved(reason: str) -> str:
    return f"{in_one_line(reason).rstrip('.')}; no document was moved."


def _require_own_source(connection: Connection[TupleRow]) -> None:
    row = connection.execute(queries.load("document_side_source_is_ours")).fetchone()
    if row is None or not row[0]:
        message = "The source of this database is read through views of its owner; units are made there, not by this command"
        raise DocumentMigrationError(_nothing_moved(message))


def _require_known(document_ids: Sequence[str], known: set[str]) -> None:
    unknown = [each for each in document_ids if each not in known]
    if unknown:
        raise DocumentMigrationError(_nothing_moved(f"There is no document {unknown[0]}"))


def _lock(
    connection: Connection[TupleRow], document_ids: Sequence[str]
) -> Sequence[Mapping[str, Any]]:
    """The documents with their sides, kept from changing until the transaction ends."""
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(
            queries.load("document_sides_lock"), {"document_ids": list(document_ids)}
        ).fetchall()
    _require_known(document_ids, {row["document_id"] for row in rows})
    return rows


def _cut(connection: Connection[TupleRow], row: Mapping[str, Any], rules: UnitRules) -> _Cut:
    document_id: str = row["document_id"]
    if not row["body"].strip():
        message = f"Document {document_id} has no text to make units of"
        raise DocumentMigrationError(_nothing_moved(message))
    if row["unit_count"] and (row["side"] is None or row["side"] == row["wanted"] == UNITS):
        message = f"Document {document_id} has {row['unit_count']} units already"
        raise DocumentMigrationError(_nothing_moved(message))
    if row["unit_count"] and (row["side"] == UNITS or row["body_hash"] == row["content_hash"]):
        move = PlannedMove(document_id, is_under_way=row["wanted"] == UNITS)
        return _Cut(move, kept=row["unit_count"])
    values: dict[str, object] = {
        "document_id": document_id,
        "title": row["title"],
        "address_prefix": rules.address_prefix,
        "unit_kind": rules.unit_kind,
        "lifecycle_stage": row["lifecycle_stage"] or rules.lifecycle_stage,
        "data_classification": row["data_classification"],
        # That of the document, so that its file finds its own text when it is loaded again.
        "revision": row["revision"],
        "updated_at": row["updated_at"],
    }
    if values["lifecycle_stage"] is None:
        message = f"Document {document_id} has no lifecycle_stage, which its units need; --lifecycle-stage says which"
        raise DocumentMigrationError(_nothing_moved(message))
    cut = cut_body(row["body"], values, row["path"])
    if cut.faults:
        fault = cut.faults[0]
        line = f" on line {fault.origin.line} of its text" if fault.origin.line else ""
        message = f"Document {document_id} cannot be cut{line}: {fault.field} {fault.reason}"
        raise DocumentMigrationError(_nothing_moved(message))
    units = tuple(
        PlannedUnit(unit.canonical_address, unit.title, len(unit.body or ""))
        for unit in (checked.row for checked in cut.units)
        if isinstance(unit, UnitRow)
    )
    taken = connection.execute(
        queries.load("document_side_foreign_units"),
        {"unit_ids": [unit.address for unit in units], "document_id": document_id},
    ).fetchone()
    if taken:
        message = f"Unit {taken[0]} is there already, in document {taken[1]}; --address-prefix gives others"
        raise DocumentMigrationError(_nothing_moved(message))
    return _Cut(PlannedMove(document_id, units), cut.units)


def _check_way_back(
    connection: Connection[TupleRow], row: Mapping[str, Any], *, force: bool
) -> bool:
    """Whether the way back is under way already."""
    document_id = row["document_id"]
    if row["side"] is None and row["unit_count"]:
        message = f"The units of document {document_id} were not made by migrate-document"
        raise DocumentMigrationError(_nothing_moved(message))
    if row["side"] is None or row["side"] == row["wanted"] == LEGACY or not row["unit_count"]:
        message = f"Document {document_id} is on the legacy side already"
        raise DocumentMigrationError(_nothing_moved(message))
    if not row["body"].strip():
        message = f"Document {document_id} has no text that could stand for its units"
        raise DocumentMigrationError(_nothing_moved(message))
    touched = connection.execute(
        queries.load("document_side_touched"), {"document_id": document_id}
    ).fetchone()
    if touched and row["side"] == UNITS and not force:
        message = f"Document {document_id} stays with its units: {touched[0]}; --force puts them away as they are"
        raise DocumentMigrationError(_nothing_moved(message))
    return row["wanted"] == LEGACY


def _put(
    connection: Connection[TupleRow],
    document_id: str,
    wanted: str,
    who: str,
    unit_count: int,
    *,
    is_made: bool,
    is_forced: bool = False,
) -> None:
    parameters = {
        "document_id": document_id,
        "wanted": wanted,
        "who": who,
        "unit_count": unit_count,
        "is_made": is_made,
        "is_forced": is_forced,
    }
    connection.execute(queries.load("document_side_put"), parameters)
    connection.execute(queries.load("document_side_note"), parameters)


def _owe(connection: Connection[TupleRow], document_ids: Sequence[str]) -> None:
    """Let every publish from now on look at these documents, until one has."""
    connection.execute(
        queries.load("projection_owe_documents"), {"document_ids": list(document_ids)}
    )
