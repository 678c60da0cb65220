"""Somebody else's database, read through views of theirs: attaching it, following its changes, saying how things stand.

Belongs here: running a file of views where nothing can go half, holding its views against what the product reads, triggers that
note changes, comparing what cannot be noted, and letting go again.
Does not belong here: what a file may say (retrieval.attached_files), what follows from a change (readers of ``nao.change_log``).

The file's views move into schema ``attached``; those of schema ``source`` show their rows with the expected types, beside the
rows of our own tables. All that a table of theirs gets is a trigger that notes keys, where a line of the file asks for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import uuid4

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow, class_row

from threadhouse.retrieval.attached_files import AttachedFile, ChangeLine, read_attached_file
from threadhouse.retrieval.errors import AttachError, StoreLockedError
from threadhouse.retrieval.models import Json
from threadhouse.stores import queries
from threadhouse.stores.migrations import MigrationSet
from threadhouse.stores.postgres import Database

_FRESH = "threadhouse_fresh"
_ATTACHED = "attached"
_SOURCE_FILE = "source.sql"
# Compared by readers and counted by us; a table of somebody else's has nothing like it.
_OUR_COUNTER = ("semantic_thread", "input_revision")
# Text leaves views in NFC: one spelling, one hash, one offset.
_NORMALIZED = {"title", "body", "document_title", "canonical_address"}
_EVENTS = {
    "insert": sql.SQL("referencing new table as new_rows"),
    "update": sql.SQL("referencing old table as old_rows new table as new_rows"),
    "delete": sql.SQL("referencing old table as old_rows"),
    "truncate": sql.SQL(""),
}
_HINTS = {
    ("text[]", "json"): "array(select json_array_elements_text({c}))",
    ("text[]", "jsonb"): "array(select jsonb_array_elements_text({c}))",
    ("text[]", "text"): "string_to_array({c}, ',')",
    ("text[]", "character varying"): "string_to_array({c}, ',')",
    ("timestamp with time zone", "timestamp without time zone"): "{c} at time zone 'UTC'",
    ("uuid", "text"): "nao.text_version(id, title, body)",
    ("uuid", "integer"): "nao.text_version(id::text, title, body)",
}


@dataclass(frozen=True, slots=True)
class AttachedTable:
    """A table behind an attached view: its changes are noted by triggers, or found by comparing the view."""

    view: str
    table: str
    is_noted: bool
    why_not: str | None


@dataclass(frozen=True, slots=True)
class AttachReport:
    """What attaching did, and what the first comparison logged."""

    file: str
    views: tuple[str, ...]
    own_views: tuple[str, ...]
    tables: tuple[AttachedTable, ...]
    changes_logged: int

    def to_json(self) -> dict[str, Json]:
        """Everything, for a program."""
        return {
            "file": self.file,
            "views": [*self.views],
            "own_views": [*self.own_views],
            "tables": [{**asdict(table)} for table in self.tables],
            "changes_logged": self.changes_logged,
        }


@dataclass(frozen=True, slots=True)
class AttachState:
    """How things stand with the attached database."""

    file: str
    attached_at: datetime
    attached_by: str
    views: tuple[str, ...]
    own_views: tuple[str, ...]
    tables: tuple[AttachedTable, ...]
    touches_waiting: int
    oldest_touch_at: datetime | None
    compared_at: datetime | None
    problems: tuple[str, ...]

    def to_json(self) -> dict[str, Json]:
        """Everything, for a program."""
        return {
            "file": self.file,
            "attached_at": self.attached_at.isoformat(),
            "attached_by": self.attached_by,
            "views": [*self.views],
            "own_views": [*self.own_views],
            "tables": [{**asdict(table)} for table in self.tables],
            "touches_waiting": self.touches_waiting,
            "oldest_touch_at": self.oldest_touch_at.isoformat() if self.oldest_touch_at else None,
            "compared_at": self.compared_at.isoformat() if self.compared_at else None,
            "problems": [*self.problems],
        }


@dataclass(frozen=True, slots=True)
class FollowReport:
    """What following the attached tables found. All zero when nothing is attached or nothing changed."""

    views_compared: int
    keys_compared: int
    changes_logged: int


@dataclass(frozen=True, slots=True)
class _Latest:
    attached_at: datetime
    attached_by: str
    file_name: str
    sha256: str
    body: str
    wants_triggers: bool


@dataclass(frozen=True, slots=True)
class _View:
    view_name: str
    key_columns: list[str]
    id_columns: list[str]


@dataclass(frozen=True, slots=True)
class _Table:
    view_name: str
    oid: int
    table_name: str
    relation_kind: str
    writes: str
    may_have_trigger: bool
    trigger_arguments: list[str]

    def is_noted_for(self, view: str) -> bool:
        """Whether a trigger on it notes what changes in that view."""
        words = [word for text in self.trigger_arguments for word in text.split("\\000")]
        return view in words[1::3]


@dataclass(frozen=True, slots=True)
class _Column:
    view_name: str
    column_name: str
    expected: str
    found: str | None
    is_compatible: bool


def attach(database: Database, file_name: str, body: str, *, triggers: bool = True) -> AttachReport:
    """Read another database's tables through the views of a file; all of it, or nothing.

    Attaching again replaces what was attached before. The schema has to be up to date.

    Args:
        database: Where their tables are, or foreign tables that stand for them.
        file_name: How the file is called, for people.
        body: Its text.
        triggers: Whether tables that a line ``-- changes:`` names get triggers; else their views are compared.

    Raises:
        AttachError: Something is wrong with it; the message has a line for everything that is, and nothing was changed.
        StoreLockedError: A table or view that has to be locked is in use.
    """
    file = read_attached_file(body)
    _refuse(file_name, file.faults)
    with _changing(database) as connection:
        _run_file(connection, file_name, file)
        views = _views(connection, _FRESH)
        columns = _columns(connection)
        _refuse(file_name, _column_faults(views, columns) or _key_faults(connection, _FRESH, views))
        _refuse(file_name, _written_faults(connection))
        _put_in_place(connection, views, columns)
        tables = _tables(connection)
        _refuse(file_name, _change_faults(connection, file, views, tables))
        _drop_triggers(connection)
        if triggers:
            _note_changes(connection, file.changes, tables)
        connection.execute(
            queries.load("attach_record"),
            {
                "file_name": file_name,
                "sha256": hashlib.sha256(body.encode()).hexdigest(),
                "body": body,
                "wants_triggers": triggers,
            },
        )
    followed = follow_sources(database, everything=True)
    with database.connect() as connection:
        seen, own = _seen(connection)
        return AttachReport(file_name, seen, own, _told(connection), followed.changes_logged)


def detach(database: Database) -> int:
    """Let go of the attached database: its triggers and views go, its rows are logged as deleted. Returns how many.

    Raises:
        StoreLockedError: A table or view that has to be locked is in use.
    """
    with _changing(database) as connection:
        if _latest(connection) is None:
            return 0
        _run_own_views(connection)
        _drop_triggers(connection)
        _drop_schema(connection, _ATTACHED)
        connection.execute(
            queries.load("attach_record"),
            {"file_name": "", "sha256": "", "body": "", "wants_triggers": False},
        )
        return connection.execute(queries.load("follow_forget"), {"kept": []}).rowcount


def attach_state(database: Database) -> AttachState | None:
    """How things stand; None when no database is attached."""
    with database.connect() as connection:
        latest = _latest(connection)
        if latest is None:
            return None
        row = connection.execute(queries.load("follow_waiting")).fetchone()
        touches, oldest, compared = row or (0, None, None)
        views, own = _seen(connection)
        tables = _told(connection)
        problems = _key_faults(connection, _ATTACHED, _views(connection, _ATTACHED))
    return AttachState(
        latest.file_name,
        latest.attached_at,
        latest.attached_by,
        views,
        own,
        tables,
        touches,
        oldest,
        compared,
        tuple(problems),
    )


def follow_sources(database: Database, *, everything: bool = False) -> FollowReport:
    """Write into ``nao.change_log`` what changed in attached tables since the last time, in one transaction.

    Keys that triggers noted are compared by themselves. A view with a table behind it that has no trigger is compared whole when
    the server counted a write to such a table since.

    Args:
        database: The attached database; when none is attached, nothing is done.
        everything: Compare every view whole: the last word, for a night.

    Raises:
        AttachError: A view of theirs cannot be read any more; nothing was logged.
    """
    with database.connect() as connection, connection.transaction():
        if _latest(connection) is None:
            return FollowReport(0, 0, 0)
        connection.execute(queries.load("attach_lock"))
        views = [view.view_name for view in _views(connection, _ATTACHED)]
        logged = connection.execute(queries.load("follow_forget"), {"kept": views}).rowcount
        touched: dict[str, set[str]] = {}
        for view, key in connection.execute(queries.load("follow_take_touches")).fetchall():
            touched.setdefault(view, set()).add(key)
        # Read before anything is compared: what is written in between is counted again the next time.
        now = _watermarks(_tables(connection))
        kept = dict(connection.execute(queries.load("follow_watermarks")).fetchall())
        whole = keys = 0
        for view in views:
            ids = touched.get(view, set())
            if everything or "*" in ids or kept.get(view) != now.get(view, ""):
                logged += _follow(connection, view, None)
                whole += 1
                connection.execute(
                    queries.load("follow_keep_watermark"),
                    {"view_name": view, "watermark": now.get(view, "")},
                )
            elif ids:
                logged += _follow(connection, view, sorted(ids))
                keys += len(ids)
    return FollowReport(whole, keys, logged)


def _follow(connection: Connection[TupleRow], view: str, touched: list[str] | None) -> int:
    parameters = {"view_name": view, "touched": touched}
    try:
        row = connection.execute(queries.load("follow_view"), parameters).fetchone()
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        message = f"The attached view {view} cannot be read: {_sentence(error)}"
        raise AttachError(message) from error
    return int(row[0]) if row else 0


def _watermarks(tables: Sequence[_Table]) -> dict[str, str]:
    """By view: what the server counted of writes to tables whose changes nobody notes; absent when all of them are noted."""
    found: dict[str, list[str]] = {}
    for table in tables:
        if not table.is_noted_for(table.view_name):
            # A foreign table is counted elsewhere: its view is compared each time, because no two of these are the same.
            count = uuid4().hex if table.relation_kind == "f" else table.writes
            found.setdefault(table.view_name, []).append(f"{table.oid}:{count}")
    return {view: " ".join(sorted(counts)) for view, counts in found.items()}


# --- Attaching, step by step ---------------------------------------------------------------------------------------------


@contextmanager
def _changing(database: Database) -> Generator[Connection[TupleRow], None, None]:
    """One transaction that sees one state of the catalogue; no two at once."""
    connection = database.new_connection(psycopg.Connection[TupleRow])
    with connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        try:
            with connection.transaction():
                connection.execute(queries.load("attach_lock"))
                connection.execute(
                    queries.load("attach_set_file"),
                    {"body": "", "lock_timeout": f"{round(database.lock_timeout_s * 1000)}ms"},
                )
                yield connection
        except psycopg.errors.LockNotAvailable:
            message = (
                f"A table or view of {database.address} has been in use for more than {database.lock_timeout_s:.0f} s; "
                "nothing was changed, try again when whoever uses it is done."
            )
            raise StoreLockedError(message) from None


def _refuse(file_name: str, faults: Sequence[str]) -> None:
    if faults:
        lines = "\n".join(f"  {fault}" for fault in faults)
        message = f"{file_name} cannot be attached, and nothing was changed:\n{lines}"
        raise AttachError(message)


def _run_file(connection: Connection[TupleRow], file_name: str, file: AttachedFile) -> None:
    """Run it into an empty schema that is called ``source`` for that long; it has to make views there and nothing else."""
    connection.execute(queries.load("attach_source_aside"))
    connection.execute(queries.load("attach_new_source"))
    before = _catalogue(connection)
    connection.execute(
        queries.load("attach_set_file"), {"body": file.body, "lock_timeout": _timeout(connection)}
    )
    try:
        with connection.transaction():
            connection.execute(queries.load("attach_begin_file"))
    except psycopg.errors.LockNotAvailable:
        raise
    except psycopg.Error as error:
        _refuse(file_name, [_sentence(error)])
    after = _catalogue(connection)
    changed = [what for what, state in after.items() if before[what] != state]
    _refuse(file_name, [f"it changes {what} outside of its views." for what in changed])
    connection.execute(queries.load("attach_source_to_fresh"))
    connection.execute(queries.load("attach_source_back"))


def _timeout(connection: Connection[TupleRow]) -> str:
    row = connection.execute("show lock_timeout").fetchone()
    return str(row[0]) if row else "0"


def _catalogue(connection: Connection[TupleRow]) -> dict[str, str]:
    return dict(connection.execute(queries.load("attach_catalogue")).fetchall())


def _sentence(error: psycopg.Error) -> str:
    """What the server says, with the line of the file that it says it about."""
    said = (error.diag.message_primary or str(error)).rstrip(".")
    position, text = error.diag.internal_position, error.diag.internal_query
    where = ""
    if position and text and position.isdigit():
        where = f"line {text.count(chr(10), 0, int(position)) + 1}: "
    hint = f" ({error.diag.message_hint.rstrip('.')})" if error.diag.message_hint else ""
    return f"{where}{said}{hint}."


def _views(connection: Connection[TupleRow], schema: str) -> list[_View]:
    with connection.cursor(row_factory=class_row(_View)) as cursor:
        return cursor.execute(queries.load("attach_views"), {"schema": schema}).fetchall()


def _columns(connection: Connection[TupleRow]) -> list[_Column]:
    statement = queries.load("attach_columns").format(fresh=sql.Literal(_FRESH))
    with connection.cursor(row_factory=class_row(_Column)) as cursor:
        return cursor.execute(statement).fetchall()


def _column_faults(views: Sequence[_View], columns: Sequence[_Column]) -> list[str]:
    faults = (
        [] if views else ["it makes none of the views that are read (docs/attach.md lists them)."]
    )
    for column in columns:
        if column.is_compatible or (column.view_name, column.column_name) == _OUR_COUNTER:
            continue
        name = f"source.{column.view_name}.{column.column_name}"
        if column.found is None:
            faults.append(f"{name} is missing; expected {column.expected}.")
            continue
        hint = _HINTS.get((column.expected, column.found))
        remedy = f", such as {hint.format(c=column.column_name)}" if hint else ""
        faults.append(f"{name} is {column.found}; expected {column.expected}{remedy}.")
    return faults


def _key_faults(connection: Connection[TupleRow], schema: str, views: Sequence[_View]) -> list[str]:
    """Views whose rows cannot be told apart; they are read whole for it."""
    faults: list[str] = []
    for view in views:
        parts = [sql.SQL("(v.{})::text").format(sql.Identifier(c)) for c in view.key_columns]
        statement = queries.load("attach_key_faults").format(
            key=sql.SQL("({})").format(sql.SQL(" || '/' || ").join(parts)),
            view=sql.Identifier(schema, view.view_name),
        )
        name = f"source.{view.view_name}"
        key = ", ".join(view.key_columns)
        try:
            with connection.transaction():
                row = connection.execute(statement).fetchone()
        except psycopg.errors.LockNotAvailable:
            raise
        except psycopg.Error as error:
            faults.append(f"{name} cannot be read: {_sentence(error)}")
            continue
        without, repeated = row or (0, 0)
        if without:
            faults.append(f"{name} has {without} rows without {key}.")
        if repeated:
            faults.append(f"{name} has {repeated} rows whose {key} another row has too.")
    return faults


def _written_faults(connection: Connection[TupleRow]) -> list[str]:
    rows = connection.execute(queries.load("attach_writes")).fetchall()
    return [f"it writes rows of {name}." for (name,) in rows]


def _put_in_place(
    connection: Connection[TupleRow], views: Sequence[_View], columns: Sequence[_Column]
) -> None:
    """Let the views of schema source show what the file's views show, and drop those of an earlier file."""
    _run_own_views(connection)
    rows = connection.execute(queries.load("attach_view_definitions")).fetchall()
    own: Mapping[str, str] = dict(rows)
    for view in views:
        shown = [_shown(column) for column in columns if column.view_name == view.view_name]
        connection.execute(
            queries.load("attach_wrap_view").format(
                view=sql.Identifier("source", view.view_name),
                columns=sql.SQL(", ").join(shown),
                attached=sql.Identifier(_FRESH, view.view_name),
                own=queries.trusted(own[view.view_name]),
            )
        )
    _drop_schema(connection, _ATTACHED)
    connection.execute(queries.load("attach_fresh_in_place"))


def _shown(column: _Column) -> sql.Composable:
    name = sql.Identifier(column.column_name)
    if (column.view_name, column.column_name) == _OUR_COUNTER:
        return queries.load("attach_counter")
    typed = sql.SQL("(a.{})::{}").format(name, queries.trusted(column.expected))
    if column.column_name in _NORMALIZED:
        typed = sql.SQL("normalize({}, nfc)").format(typed)
    return sql.SQL("{} as {}").format(typed, name)


def _run_own_views(connection: Connection[TupleRow]) -> None:
    (file,) = (view for view in MigrationSet.shipped().views if view.name == _SOURCE_FILE)
    connection.execute(queries.trusted(file.body), prepare=False)


def _drop_schema(connection: Connection[TupleRow], schema: str) -> None:
    """With its views; what somebody built on one of them stops it."""
    rows = connection.execute(queries.load("attach_schema_views"), {"schema": schema}).fetchall()
    if rows:
        names = [sql.Identifier(schema, name) for (name,) in rows]
        statement = queries.load("attach_drop_views").format(views=sql.SQL(", ").join(names))
        try:
            connection.execute(statement)
        except psycopg.errors.DependentObjectsStillExist as error:
            detail = " ".join((error.diag.message_detail or "").split())
            message = f"Something else stands on views of schema {schema}: {detail}; drop it, then try again."
            raise AttachError(message) from None
    connection.execute(queries.load("attach_drop_old"))


def _tables(connection: Connection[TupleRow]) -> list[_Table]:
    with connection.cursor(row_factory=class_row(_Table)) as cursor:
        return cursor.execute(queries.load("attach_tables")).fetchall()


def _change_faults(
    connection: Connection[TupleRow],
    file: AttachedFile,
    views: Sequence[_View],
    tables: Sequence[_Table],
) -> list[str]:
    ids = {view.view_name: view.id_columns for view in views}
    behind = {(table.view_name, table.table_name): table for table in tables}
    faults: list[str] = []
    for line in file.changes:
        table = behind.get((line.view, line.table))
        if line.view not in ids:
            faults.append(
                f"line {line.line}: the file makes no view source.{line.view} that is read."
            )
        elif line.id_column not in ids[line.view]:
            known = ", ".join(ids[line.view])
            faults.append(
                f"line {line.line}: rows of source.{line.view} are found by {known}, not by {line.id_column}."
            )
        elif table is None:
            faults.append(f"line {line.line}: {line.table} is not behind source.{line.view}.")
        else:
            place = {"oid": table.oid, "column": line.column}
            row = connection.execute(queries.load("attach_column_exists"), place).fetchone()
            if not (row and row[0]):
                faults.append(f"line {line.line}: {line.table} has no column {line.column}.")
    return faults


# --- Triggers ------------------------------------------------------------------------------------------------------------


def _note_changes(
    connection: Connection[TupleRow], changes: Sequence[ChangeLine], tables: Sequence[_Table]
) -> None:
    permitted = {table.table_name for table in tables if table.may_have_trigger}
    wanted: dict[str, list[str]] = {}
    for line in changes:
        if line.table in permitted:
            wanted.setdefault(line.table, []).extend(line.arguments)
    for name, arguments in wanted.items():
        for event, referencing in _EVENTS.items():
            connection.execute(
                queries.load("attach_create_trigger").format(
                    name=sql.Identifier(f"threadhouse_note_{event}"),
                    event=queries.trusted(event),
                    table=sql.Identifier(*name.split(".")),
                    referencing=referencing,
                    arguments=sql.SQL(", ").join(sql.Literal(word) for word in arguments),
                )
            )


def _drop_triggers(connection: Connection[TupleRow]) -> None:
    rows = connection.execute(queries.load("attach_noting_triggers")).fetchall()
    for schema, table, trigger in rows:
        statement = queries.load("attach_drop_trigger").format(
            name=sql.Identifier(trigger), table=sql.Identifier(schema, table)
        )
        connection.execute(statement)


# --- Telling -------------------------------------------------------------------------------------------------------------


def _latest(connection: Connection[TupleRow]) -> _Latest | None:
    with connection.cursor(row_factory=class_row(_Latest)) as cursor:
        latest = cursor.execute(queries.load("attach_latest")).fetchone()
    return latest if latest and latest.body else None


def _seen(connection: Connection[TupleRow]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Views that the file makes, and those that only our own tables fill."""
    every = [view.view_name for view in _views(connection, "source")]
    made = {view.view_name for view in _views(connection, _ATTACHED)}
    return tuple(v for v in every if v in made), tuple(v for v in every if v not in made)


def _told(connection: Connection[TupleRow]) -> tuple[AttachedTable, ...]:
    latest = _latest(connection)
    changes = read_attached_file(latest.body).changes if latest else ()
    asked = {(line.view, line.table) for line in changes}
    told: list[AttachedTable] = []
    for table in _tables(connection):
        is_noted = table.is_noted_for(table.view_name)
        why_not = None
        if not is_noted:
            why_not = _why_not(
                table,
                is_asked=(table.view_name, table.table_name) in asked,
                wants=bool(latest and latest.wants_triggers),
            )
        told.append(AttachedTable(table.view_name, table.table_name, is_noted, why_not))
    return tuple(told)


def _why_not(table: _Table, *, is_asked: bool, wants: bool) -> str:
    if table.relation_kind not in {"r", "p"}:
        return "it is no table of this server that could have a trigger"
    if not is_asked:
        return "no line of the file says what its changes mean"
    if not wants:
        return "attached without triggers"
    if not table.may_have_trigger:
        return "this login may not create triggers on it"
    return "its trigger is gone; attach again"
