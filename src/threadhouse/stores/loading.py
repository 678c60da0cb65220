"""Writing a source into the users' tables, so that doing it twice changes nothing.

Belongs here: order, batches, transactions, staging, counting, the quarantine of what was refused.
Does not belong here: what is right or wrong with a row (retrieval.sources), reading files (stores.source_files).

Rows are copied into a staging table and compared with what is stored before anything is written, so an unchanged row costs no
write and leaves no trace in the change log. Each batch is one transaction: a load that is killed is completed by the next one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from threadhouse.retrieval.errors import StoreLockedError
from threadhouse.retrieval.markdown_units import MarkdownDocument, read_markdown
from threadhouse.retrieval.models import Readiness
from threadhouse.retrieval.query_keeping import KeptQuestion, QuestionKeeper
from threadhouse.retrieval.source_mapping import Feed, SourceMapping, identity_feed
from threadhouse.retrieval.sources import (
    FLAG_NAMES,
    CheckedRow,
    DocumentRow,
    Doubles,
    EdgeRow,
    ExpectedArtifactRow,
    Fault,
    FlaggedRow,
    HealthSignalRow,
    LabelRow,
    LoadTable,
    MembershipRow,
    MetricEventRow,
    SourceRow,
    ThreadRow,
    UnitRow,
    UnitVersionRow,
    check_row,
    unknown_columns,
    with_readiness,
)
from threadhouse.retrieval.version_plan import (
    Decision,
    IncomingText,
    VersionDecision,
    plan_versions,
    version_id,
)
from threadhouse.stores import queries
from threadhouse.stores.load_report import LoadReport, TableCounts
from threadhouse.stores.postgres import Database
from threadhouse.stores.quarantine import QuarantinedItem, note_quarantined, resolve_absent
from threadhouse.stores.source_files import (
    MarkdownFile,
    Record,
    SourceFiles,
    TableSource,
    read_mapping,
    read_records,
    read_text,
    survey,
)

Progress = Callable[[str, int, int], None]
"""Called with a file's name, files done and files in all."""

# Large enough that a batch's fixed cost (staging, triggers) vanishes, small enough that a killed load loses seconds.
BATCH_ROWS = 2_000
BATCH_CHARS = 8_000_000

# Source, key, field and reason share one index entry of at most 2,704 bytes; a field or a key may hold a whole text by mistake.
_MAX_SOURCE_BYTES, _MAX_ITEM_KEY_BYTES, _MAX_FIELD_BYTES, _MAX_REASON_BYTES = 700, 900, 200, 700

_MAY_HOLD_A_QUESTION = frozenset({"query_text", ""})
"""Fields of an event whose refused value is not noted: what was asked, and a line that nobody could read."""

# The last is what a key longer than an index page holds raises.
_FAULTS_OF_A_ROW = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)

Connection = psycopg.Connection[TupleRow]


def load_path(
    database: Database,
    path: Path,
    mapping: Path | None = None,
    progress: Progress | None = None,
    keeper: QuestionKeeper | None = None,
) -> LoadReport:
    """Load a folder or a file into the users' tables.

    Args:
        database: A migrated database.
        path: A folder of Markdown, of table files, or of both; or one such file.
        mapping: A mapping file, for a source with other names.
        progress: Told after each file.
        keeper: Says what events keep of a question; without one they keep its words and no key.

    Raises:
        LoadError: The path or the mapping cannot be loaded at all. What is wrong with a row is in the report.
        StoreLockedError: Another load is running.
    """
    rules = read_mapping(mapping) if mapping else None
    files = survey(path, rules)
    # A mapping reads other rows of the same folder, so its faults are its own.
    parts = [path.resolve().as_posix(), rules.name or mapping.stem if rules and mapping else None]
    source = _bounded("load:" + ":".join(part for part in parts if part), _MAX_SOURCE_BYTES)
    with (
        database.connect(autocommit=True) as connection,
        _single_load(connection, database.lock_timeout_s),
    ):
        return _Load(connection, source, files, rules, progress or _tell_nobody, keeper).run()


def write_units(connection: Connection, units: Sequence[CheckedRow]) -> list[Fault]:
    """Write units with their texts the way a load does, in the caller's transaction.

    Returns:
        What the database forbids; nothing counts as written when there is something.
    """
    load = _Load(connection, "", SourceFiles((), (), (), ()), None, _tell_nobody, None)
    try:
        with connection.transaction():
            return load.write_units(units)
    except _FAULTS_OF_A_ROW as error:
        reason = error.diag.message_detail or error.diag.message_primary or "was refused"
        return [Fault(units[0].key, units[0].origin, "", reason)]


def _tell_nobody(file: str, done: int, total: int) -> None:
    """The progress of nobody who watches."""


@contextmanager
def _single_load(connection: Connection, timeout_s: float) -> Generator[None, None, None]:
    try:
        # The server may need a moment to notice that a killed load is gone.
        connection.execute(
            queries.load("load_lock_timeout"), {"milliseconds": str(int(timeout_s * 1000))}
        )
        connection.execute(queries.load("load_lock"))
        connection.execute(queries.load("load_lock_timeout"), {"milliseconds": "0"})
    except psycopg.errors.LockNotAvailable:
        message = "Another load is running on this database; wait for it to end and load again."
        raise StoreLockedError(message) from None
    try:
        yield
    finally:
        # Given back by hand, because a closed connection lives on in the server for a moment.
        if not connection.closed:
            connection.execute(queries.load("load_unlock"))


@dataclass(frozen=True, slots=True)
class _UnitGroup:
    """Everything a batch says about one unit, oldest first. ``history`` marks texts of an older revision of its file."""

    rows: tuple[CheckedRow, ...]
    history: tuple[bool, ...]

    @property
    def unit(self) -> UnitRow | None:
        """The row whose flags count: that of the highest stated revision, of the last otherwise."""
        units = [row.row for row in self.rows if isinstance(row.row, UnitRow)]
        return max(units, key=lambda unit: unit.revision or 0) if units else None

    @property
    def unit_id(self) -> str:
        return _unit_id(self.rows[0].row)

    def versions(self) -> list[tuple[CheckedRow, UnitVersionRow, bool]]:
        """Texts in the order in which they became true."""
        found: list[tuple[CheckedRow, UnitVersionRow, bool]] = []
        for checked, is_history in zip(self.rows, self.history, strict=True):
            row = checked.row
            version = row.version() if isinstance(row, UnitRow) else row
            if isinstance(version, UnitVersionRow):
                found.append((checked, version, is_history))
        return sorted(found, key=lambda entry: entry[1].revision or 2**31)


def _unit_id(row: SourceRow) -> str:
    if isinstance(row, UnitRow | UnitVersionRow):
        return row.logical_unit_id
    message = f"{type(row).__name__} is no row of a unit"
    raise TypeError(message)


_Item: TypeAlias = "CheckedRow | tuple[CheckedRow, int] | _UnitGroup"
"""What is written or refused as a whole: a row, a document with the number of its texts, everything about a unit."""

ItemT = TypeVar("ItemT", CheckedRow, tuple[CheckedRow, int], _UnitGroup)


@dataclass(slots=True)
class _Outcome:
    """What a batch did; added to the report when its transaction has committed."""

    counts: dict[LoadTable, TableCounts] = field(default_factory=dict[LoadTable, TableCounts])
    faults: list[tuple[CheckedRow, str, str]] = field(
        default_factory=list[tuple[CheckedRow, str, str]]
    )

    def of(self, table: LoadTable) -> TableCounts:
        return self.counts.setdefault(table, TableCounts())

    def take(self, table: LoadTable, row_count: int, flags: Sequence[TupleRow]) -> None:
        """Count what an upsert returned: one row for each row it wrote."""
        counts = self.of(table)
        inserted = sum(1 for row in flags if row[0])
        counts.inserted += inserted
        counts.updated += len(flags) - inserted
        counts.unchanged += row_count - len(flags)


class _Load:
    """One load. Holds what must be remembered across batches: doubles, faults, counts."""

    def __init__(
        self,
        connection: Connection,
        source: str,
        files: SourceFiles,
        mapping: SourceMapping | None,
        progress: Progress,
        keeper: QuestionKeeper | None,
    ) -> None:
        self._connection = connection
        self._keeper = keeper
        self._files = files
        self._mapping = mapping
        self._progress = progress
        self._doubles = Doubles()
        self._ignored: Counter[str] = Counter()
        self._files_with_line_faults: set[str] = set()
        self.report = LoadReport(source, skipped=list(files.skipped))

    def run(self) -> LoadReport:
        self._load_markdown()
        self._load_tables()
        for name, count in sorted(self._ignored.items()):
            self.report.notes.append(f"Ignored: {name} ({count:,} times).")
        self._keep_quarantine()
        return self.report

    # --- Markdown ---

    def _load_markdown(self) -> None:
        markdown = self._mapping.markdown if self._mapping else None
        older: dict[str, list[MarkdownDocument]] = {}
        total = len(self._files.revisions) + len(self._files.documents)
        done = 0

        def read(file: MarkdownFile) -> MarkdownDocument | None:
            nonlocal done
            text = read_text(file)
            parsed = (
                MarkdownDocument(None, faults=(text,))
                if isinstance(text, Fault)
                else read_markdown(text, file.name, markdown, identity=file.identity)
            )
            self._note_markdown(parsed, file.name)
            done += 1
            self._progress(file.name, done, total)
            return parsed if parsed.document else None

        for file in self._files.revisions:
            parsed = read(file)
            if parsed and parsed.document:
                older.setdefault(parsed.document.key, []).append(parsed)
        batch = _MarkdownBatch()
        for file in self._files.documents:
            parsed = read(file)
            if parsed and parsed.document:
                history = older.pop(parsed.document.key, [])
                self._queue_series(batch, [*history, parsed])
        for history in older.values():
            self._queue_series(batch, history)
        self._flush_markdown(batch)

    def _note_markdown(self, parsed: MarkdownDocument, name: str) -> None:
        for fault in parsed.faults:
            is_unit = fault.item_key.startswith(f"{LoadTable.LOGICAL_UNIT}:")
            table = LoadTable.LOGICAL_UNIT if is_unit else LoadTable.PRODUCTION_DOCUMENT
            self.report.of(table).read += 1
            self._refuse(table, fault)
        self._ignored.update(f"front matter key {key}" for key in parsed.ignored_keys)
        if parsed.grouping_headings:
            count = len(parsed.grouping_headings)
            self.report.notes.append(
                f"{name}: {count:,} headings only group others; their words are in the document's text."
            )

    def _queue_series(self, batch: _MarkdownBatch, series: list[MarkdownDocument]) -> None:
        """Queue the texts of one document, oldest first; the last one is the document as it is."""
        newest = series[-1]
        document = newest.document
        if document is None or not self._admit(document):
            return
        self.report.of(LoadTable.PRODUCTION_DOCUMENT).read += 1
        batch.documents.append((document, len(series)))
        groups: dict[str, list[tuple[CheckedRow, bool]]] = {}
        for parsed in series:
            for unit in parsed.units:
                self.report.of(LoadTable.LOGICAL_UNIT).read += 1
                groups.setdefault(_unit_id(unit.row), []).append((unit, parsed is not newest))
        for members in groups.values():
            rows = [row for row, _ in members]
            if _unit_id(rows[-1].row) not in newest.unit_ids:
                rows = [_superseded(row) for row in rows]
            if self._admit(rows[-1]):
                batch.units.append(
                    _UnitGroup(tuple(rows), tuple(is_history for _, is_history in members))
                )
        batch.chars += sum(len(row.body) for row, _ in _document_rows(batch.documents[-1:]))
        if len(batch.units) >= BATCH_ROWS or batch.chars >= BATCH_CHARS:
            self._flush_markdown(batch)

    def _flush_markdown(self, batch: _MarkdownBatch) -> None:
        self._write(batch.documents, self._write_documents)
        self._write(batch.units, self._write_units)
        batch.documents, batch.units, batch.chars = [], [], 0

    # --- Tables ---

    def _load_tables(self) -> None:
        steps = [
            (table, source, feed)
            for table in LoadTable
            for source in self._files.tables
            for feed in _feeds(source)
            if (feed.table if isinstance(feed, Feed) else feed) is table
        ]
        for done, (table, source, feed) in enumerate(steps, 1):
            self._load_feed(table, source, feed)
            self._progress(source.name, done, len(steps))

    def _load_feed(self, table: LoadTable, source: TableSource, feed: Feed | LoadTable) -> None:
        batch: list[CheckedRow] = []
        chars = 0
        for checked in self._checked_rows(table, source, feed):
            batch.append(checked)
            chars += len(getattr(checked.row, "body", None) or "")
            if len(batch) >= BATCH_ROWS or chars >= BATCH_CHARS:
                self._flush_rows(table, batch)
                batch, chars = [], 0
        self._flush_rows(table, batch)

    def _checked_rows(
        self, table: LoadTable, source: TableSource, feed: Feed | LoadTable
    ) -> Iterator[CheckedRow]:
        counts = self.report.of(table)
        is_first_reading = source.name not in self._files_with_line_faults
        for record in read_records(source):
            if isinstance(record, Fault):
                # A file that feeds several tables is read several times; its broken lines are told once.
                if is_first_reading:
                    counts.read += 1
                    self._refuse(table, record)
                continue
            for raw in self._raw_rows(table, feed, record, counts):
                counts.read += 1
                checked = check_row(table, raw, record.origin)
                if isinstance(checked, list):
                    for fault in checked:
                        self._refuse(table, fault)
                elif self._admit(checked):
                    yield checked
        self._files_with_line_faults.add(source.name)

    def _raw_rows(
        self, table: LoadTable, feed: Feed | LoadTable, record: Record, counts: TableCounts
    ) -> Iterable[dict[str, object]]:
        if not isinstance(feed, Feed):
            self._ignored.update(
                f"column {table}.{column}" for column in unknown_columns(table, record.values)
            )
            return identity_feed(table, record.values).translate(record.values)
        if not feed.takes(record.values):
            counts.filtered += 1
            return []
        try:
            return list(feed.translate(record.values))
        except ValueError as error:  # only a list that is none gets here
            key = f"file:{record.origin.file}:{record.origin.line or 0}"
            counts.read += 1
            self._refuse(table, Fault(key, record.origin, feed.explode or "", str(error)))
            return []

    def _flush_rows(self, table: LoadTable, batch: list[CheckedRow]) -> None:
        if table is LoadTable.PRODUCTION_DOCUMENT:
            self._write([(row, 1) for row in batch], self._write_documents)
        elif table in {LoadTable.LOGICAL_UNIT, LoadTable.UNIT_VERSION}:
            groups: dict[str, list[CheckedRow]] = {}
            for row in batch:
                groups.setdefault(_unit_id(row.row), []).append(row)
            self._write(
                [_UnitGroup(tuple(rows), (False,) * len(rows)) for rows in groups.values()],
                self._write_units,
            )
        elif table is LoadTable.THREAD_MEMBERSHIP:
            self._write(batch, self._write_memberships)
        else:
            self._write(batch, lambda rows: self._write_plain(table, rows))

    # --- Faults ---

    def _admit(self, checked: CheckedRow) -> bool:
        verdict = self._doubles.admit(checked)
        if isinstance(verdict, Fault):
            self._refuse(checked.table, verdict)
            return False
        if not verdict:
            self.report.of(checked.table).repeated += 1
        return verdict

    def _refuse(self, table: LoadTable, fault: Fault) -> None:
        if table is LoadTable.METRIC_EVENT and fault.field in _MAY_HOLD_A_QUESTION:
            fault = replace(fault, raw=None)
        self.report.of(table).quarantined += 1
        self.report.quarantined.append(fault)

    def _keep_quarantine(self) -> None:
        items = [
            QuarantinedItem(
                _bounded(fault.item_key, _MAX_ITEM_KEY_BYTES),
                _bounded(fault.field, _MAX_FIELD_BYTES),
                _bounded(fault.reason, _MAX_REASON_BYTES),
                fault.origin.file,
                fault.origin.line,
                fault.raw,
            )
            for fault in self.report.quarantined
        ]
        with self._connection.transaction():
            note_quarantined(self._connection, self.report.source, items)
            still_wrong = {item.item_key for item in items}
            self.report.resolved = resolve_absent(self._connection, self.report.source, still_wrong)

    # --- Writing ---

    def _write(self, items: Sequence[ItemT], write: Callable[[Sequence[ItemT]], _Outcome]) -> None:
        """Write a batch in one transaction; one that the database refuses is halved until the guilty row stands alone."""
        if not items:
            return
        try:
            with self._connection.transaction():
                outcome = write(items)
        except _FAULTS_OF_A_ROW as error:
            if len(items) > 1:
                middle = len(items) // 2
                self._write(items[:middle], write)
                self._write(items[middle:], write)
                return
            reason = error.diag.message_primary or "was refused by the database"
            for row in _rows_of(items[0]):
                self._refuse(
                    row.table, Fault(row.key, row.origin, error.diag.column_name or "", reason)
                )
            return
        for table, counts in outcome.counts.items():
            self.report.of(table).add(counts)
        for row, name, reason in outcome.faults:
            self._refuse(row.table, Fault(row.key, row.origin, name, reason))

    def _write_documents(self, items: Sequence[tuple[CheckedRow, int]]) -> _Outcome:
        outcome = _Outcome()
        table = LoadTable.PRODUCTION_DOCUMENT
        rows = [
            {
                "row_no": number,
                "stated_revision": row.revision,
                "document_id": row.document_id,
                "path": row.path or row.document_id,
                "title": row.title,
                "tags": list(row.tags),
                "body": row.body,
                "language": row.language,
                "revision": text_count,
                "source_digest": row.digest,
                "lifecycle_stage": row.lifecycle_stage,
                "data_classification": row.data_classification,
                "updated_at": row.updated_at,
                **_flags(row),
            }
            for number, (row, text_count) in enumerate(_document_rows(items))
        ]
        self._stage("load_document", "public.production_document", rows)
        refused = self._find_faults("load_document", [checked for checked, _ in items], outcome)
        written = self._connection.execute(queries.load("load_document")).fetchall()
        outcome.take(table, len(items) - len(refused), written)
        return outcome

    def _write_units(self, groups: Sequence[_UnitGroup]) -> _Outcome:
        outcome = _Outcome()
        stored = self._stored_versions([group.unit_id for group in groups])
        rows: list[dict[str, Any]] = []
        for number, group in enumerate(groups):
            unit = group.unit
            if unit is None:
                continue
            newest = max(stored.get(unit.logical_unit_id, {}), default=0)
            rows.append(
                {
                    "row_no": number,
                    "stated_revision": unit.revision,
                    # What an older file says of a unit is history, its flags as much as its text.
                    "may_update": unit.revision is None or unit.revision >= newest,
                    "logical_unit_id": unit.logical_unit_id,
                    "document_id": unit.document_id,
                    "canonical_address": unit.canonical_address,
                    "unit_kind": unit.unit_kind,
                    "lifecycle_stage": unit.lifecycle_stage,
                    "ordinal": unit.ordinal,
                    "data_classification": unit.data_classification,
                    **_flags(unit),
                }
            )
        self._stage("load_unit", "public.tac_logical_unit", rows)
        refused = self._find_faults("load_unit", [group.rows[-1] for group in groups], outcome)
        written = self._connection.execute(queries.load("load_unit")).fetchall()
        if rows:
            outcome.take(LoadTable.LOGICAL_UNIT, len(rows) - len(refused), written)
        bare = [group for group in groups if group.unit is None]
        unknown = self._unknown_units([group.unit_id for group in bare])
        for group in bare:
            if group.unit_id in unknown:
                reason = f"unit {group.unit_id} is not loaded"
                outcome.faults.extend((row, "logical_unit_id", reason) for row in group.rows)
        accepted = [
            group
            for number, group in enumerate(groups)
            if number not in refused and group.unit_id not in unknown
        ]
        self._write_versions(accepted, stored, outcome)
        return outcome

    def write_units(self, units: Sequence[CheckedRow]) -> list[Fault]:
        """See the function of this name."""
        outcome = self._write_units([_UnitGroup((unit,), (False,)) for unit in units])
        return [Fault(row.key, row.origin, name, reason) for row, name, reason in outcome.faults]

    def _write_versions(
        self, groups: Sequence[_UnitGroup], stored: dict[str, dict[int, str]], outcome: _Outcome
    ) -> None:
        rows: list[dict[str, Any]] = []
        for group in groups:
            versions = group.versions()
            incoming = [
                IncomingText(version.content_hash, version.revision, is_history)
                for _, version, is_history in versions
            ]
            plan = plan_versions(stored.get(group.unit_id, {}), incoming)
            for (checked, version, _), decision, text in zip(versions, plan, incoming, strict=True):
                row = self._version_row(checked, version, decision, text, outcome)
                if row is not None:
                    rows.append({"row_no": len(rows), **row})
        if not rows:
            return
        self._stage("load_unit_version", "public.tac_unit_version", rows)
        self._connection.execute(queries.load("load_unit_version"))
        changed = sorted({str(row["logical_unit_id"]) for row in rows})
        self._connection.execute(queries.load("load_move_current_versions"), {"unit_ids": changed})

    @staticmethod
    def _version_row(
        checked: CheckedRow,
        version: UnitVersionRow,
        decision: VersionDecision,
        text: IncomingText,
        outcome: _Outcome,
    ) -> dict[str, Any] | None:
        counts = outcome.of(checked.table)
        if decision.decision is Decision.NEW and decision.revision is not None:
            counts.new_versions += 1
            return {
                "unit_version_id": version_id(
                    version.logical_unit_id, decision.revision, text.content_hash
                ),
                "logical_unit_id": version.logical_unit_id,
                "revision": decision.revision,
                "title": version.title,
                "body": version.body,
                "created_at": version.created_at,
            }
        if decision.decision is Decision.CONFLICT:
            reason = f"revision {decision.revision} is stored with another text; give the new text a new revision"
            outcome.faults.append((checked, "revision", reason))
        elif decision.decision is Decision.TOO_OLD:
            reason = "is an older text of a unit that is stored already; without a revision it has no place in its history"
            outcome.faults.append((checked, "body", reason))
        elif checked.table is LoadTable.UNIT_VERSION:
            counts.unchanged += 1
        return None

    def _write_memberships(self, items: Sequence[CheckedRow]) -> _Outcome:
        outcome = _Outcome()
        rows = [
            {
                "row_no": number,
                "thread_id": row.thread_id,
                "logical_unit_id": row.logical_unit_id,
                "canonical_address": row.canonical_address,
                "document_id": row.document_id,
                "role": row.role,
                "confidence": row.confidence,
                "status": row.status,
                "evidence": row.evidence,
            }
            for number, row in enumerate(_typed(items, MembershipRow))
        ]
        self._stage(
            "load_membership", "public.thread_membership", rows, layout="load_stage_membership"
        )
        self._find_faults("load_membership", items, outcome)
        written = self._connection.execute(queries.load("load_membership")).fetchone()
        inserted, updated, members = written or (0, 0, 0)
        counts = outcome.of(LoadTable.THREAD_MEMBERSHIP)
        counts.inserted += inserted
        counts.updated += updated
        counts.unchanged += members - inserted - updated
        return outcome

    def _write_plain(self, table: LoadTable, items: Sequence[CheckedRow]) -> _Outcome:
        outcome = _Outcome()
        staging, target, has_faults = _PLAIN[table]
        self._stage(
            staging,
            target,
            [
                {"row_no": number, **_plain_row(row.row), **self._kept_of_question(row.row)}
                for number, row in enumerate(items)
            ],
        )
        refused = self._find_faults(staging, items, outcome) if has_faults else set[int]()
        written = self._connection.execute(queries.load(staging)).fetchall()
        outcome.take(table, len(items) - len(refused), written)
        return outcome

    def _kept_of_question(self, row: SourceRow) -> dict[str, str | None]:
        if self._keeper is None or not isinstance(row, MetricEventRow):
            return {}
        kept = self._keeper.keep(row.lane, row.query_text) if row.lane else KeptQuestion(None, None)
        return {"query_text": kept.text, "query_key": kept.key}

    # --- Staging ---

    def _stage(
        self,
        staging: str,
        target: str,
        rows: Sequence[dict[str, Any]],
        *,
        layout: str = "load_stage",
    ) -> None:
        name = sql.Identifier(staging)
        self._connection.execute(
            queries.load(layout).format(staging=name, target=sql.Identifier(*target.split(".")))
        )
        self._connection.execute(sql.SQL("truncate {}").format(name))
        if rows:
            columns = sql.SQL(", ").join(map(sql.Identifier, rows[0]))
            with (
                self._connection.cursor() as cursor,
                cursor.copy(
                    queries.load("load_copy").format(staging=name, columns=columns)
                ) as copy,
            ):
                for row in rows:
                    copy.write_row(list(row.values()))

    def _find_faults(
        self, staging: str, items: Sequence[CheckedRow], outcome: _Outcome
    ) -> set[int]:
        """Rows that the database's other rows forbid; they leave the staging table."""
        found = self._connection.execute(queries.load(f"{staging}_faults")).fetchall()
        if not found:
            return set()
        refused = {int(row[0]) for row in found}
        outcome.faults.extend(
            (items[int(number)], str(name), str(reason)) for number, name, reason in found
        )
        unstage = queries.load("load_unstage").format(staging=sql.Identifier(staging))
        self._connection.execute(unstage, {"row_nos": sorted(refused)})
        return refused

    def _stored_versions(self, unit_ids: list[str]) -> dict[str, dict[int, str]]:
        stored: dict[str, dict[int, str]] = {}
        rows = self._connection.execute(
            queries.load("load_stored_versions"), {"unit_ids": unit_ids}
        )
        for unit_id, revision, content_hash in rows:
            stored.setdefault(unit_id, {})[revision] = content_hash
        return stored

    def _unknown_units(self, unit_ids: list[str]) -> set[str]:
        if not unit_ids:
            return set()
        rows = self._connection.execute(queries.load("load_unknown_units"), {"unit_ids": unit_ids})
        return {str(row[0]) for row in rows}


@dataclass(slots=True)
class _MarkdownBatch:
    documents: list[tuple[CheckedRow, int]] = field(default_factory=list[tuple[CheckedRow, int]])
    units: list[_UnitGroup] = field(default_factory=list[_UnitGroup])
    chars: int = 0


_PLAIN: dict[LoadTable, tuple[str, str, bool]] = {
    LoadTable.SEMANTIC_THREAD: ("load_thread", "public.semantic_thread", True),
    LoadTable.EXPECTED_ARTIFACT: (
        "load_expected_artifact",
        "public.expected_artifact_missing",
        True,
    ),
    LoadTable.UNIVERSAL_EDGE: ("load_edge", "public.universal_edge", False),
    LoadTable.VOCABULARY_LABEL: ("load_label", "public.vocabulary_label", False),
    LoadTable.HEALTH_SIGNAL: ("load_health_signal", "nao.health_signal", False),
    LoadTable.METRIC_EVENT: ("load_metric_event", "nao.retrieval_metric_event", False),
}
"""Staging table (and statement), target, whether other rows can forbid a row."""


def _plain_row(row: SourceRow) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in type(row).model_fields}
    if isinstance(row, ThreadRow):
        values["canonical_address"] = row.canonical_address or row.thread_id
    elif isinstance(row, EdgeRow):
        values["edge_id"] = row.id
    elif isinstance(row, HealthSignalRow):
        values |= {"signal_id": row.id, "evidence": Jsonb(row.evidence)}
    elif isinstance(row, MetricEventRow):
        values |= {"event_id": row.id, "details": Jsonb(row.details)}
    elif not isinstance(row, LabelRow | ExpectedArtifactRow):
        message = f"{type(row).__name__} has a writer of its own"
        raise TypeError(message)
    return {
        # Only lists of texts come as tuples.
        name: list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
        for name, value in values.items()
    }


def _flags(row: FlaggedRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in FLAG_NAMES}


def _bounded(text: str, limit_bytes: int) -> str:
    """The text in a form that Postgres stores and indexes: cut texts end in a hash, so that they stay different."""
    clean = text.replace("\0", "\N{SYMBOL FOR NULL}").encode("utf-8", "backslashreplace")
    if len(clean) <= limit_bytes:
        return clean.decode()
    return f"{clean[: limit_bytes - 20].decode(errors='ignore')}…{hashlib.sha256(clean).hexdigest()[:12]}"


RowT = TypeVar("RowT", bound=SourceRow)


def _typed(items: Sequence[CheckedRow], row_type: type[RowT]) -> Iterator[RowT]:
    for item in items:
        if not isinstance(item.row, row_type):
            message = f"{type(item.row).__name__} is no {row_type.__name__}"
            raise TypeError(message)
        yield item.row


def _document_rows(items: Sequence[tuple[CheckedRow, int]]) -> Iterator[tuple[DocumentRow, int]]:
    rows = _typed([checked for checked, _ in items], DocumentRow)
    return zip(rows, (text_count for _, text_count in items), strict=True)


def _rows_of(item: _Item) -> Sequence[CheckedRow]:
    """The rows to name when an item is refused."""
    if isinstance(item, _UnitGroup):
        return item.rows[-1:]
    return [item if isinstance(item, CheckedRow) else item[0]]


def _superseded(checked: CheckedRow) -> CheckedRow:
    """A unit that only an older text of its document has: its text is no longer in force, and must not be served as if."""
    if not isinstance(checked.row, UnitRow):
        return checked
    return CheckedRow(
        checked.table,
        with_readiness(checked.row, Readiness.SUPERSEDED),
        checked.key,
        checked.origin,
    )


def _feeds(source: TableSource) -> Sequence[Feed | LoadTable]:
    return [source.plan] if isinstance(source.plan, LoadTable) else source.plan.feeds


__all__ = ["LoadReport", "Progress", "TableCounts", "load_path"]
