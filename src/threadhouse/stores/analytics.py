"""The analysts' file: views of the lake and the stored rates in one DuckDB file, and asking it.

Belongs here: building the file aside and putting it in its place, opening it so that a question can only read.
Does not belong here: how answers are printed (pipelines.cli_sql), what rates mean (``retrieval.metrics``).

The file never holds what was asked: the lake does not, and nothing else of Postgres is copied than rates.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from psycopg import IsolationLevel, sql

from threadhouse.retrieval.errors import AnalyticsError
from threadhouse.retrieval.text import show_unseen
from threadhouse.stores import queries
from threadhouse.stores.arrow_copies import arrow_copies
from threadhouse.stores.durable_files import replace_durably
from threadhouse.stores.lake import (
    MEMORY_LIMIT,
    TABLE,
    query_text,
    remove_left_spills,
    spilling,
)

if TYPE_CHECKING:
    import duckdb

    from threadhouse.stores.lake import EventLake
    from threadhouse.stores.postgres import Database

ANALYTICS_FILE: Final = "analytics.duckdb"

FORMAT: Final = "1"
"""Part of the state that the file is built from; another one builds it anew. Changes with the views."""

SPILL_LIMIT: Final = "10GB"
"""What one question may write aside on the disk. DuckDB's own limit is nearly all that is free, which others need as well."""

_TABLES: Final = (
    ("analytics_rates", "rates_stream", "analytics_put_rates"),
    ("analytics_counted_days", "days_stream", "analytics_put_counted_days"),
)
"""What is read from Postgres, the name that DuckDB knows it by, and the statement that keeps it."""


@dataclass(frozen=True, slots=True)
class Cut:
    """As much of an answer as somebody looks at: its first rows, and of each value the first characters of its text."""

    rows: int
    chars: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Columns of an answer, each with a name of its own, and its rows, which can be read once and are fetched one by one."""

    columns: Sequence[str]
    rows: Iterator[tuple[Any, ...]]


def analytics_file(lake: EventLake) -> Path:
    """Where the analysts' file lies, present or not."""
    return lake.root / ANALYTICS_FILE


def refresh_analytics(database: Database, lake: EventLake) -> bool:
    """Build the analysts' file anew when the stored rates are others than those in it; whether that was done.

    A reader that has the old file open goes on reading it. Nothing is built before the lake holds a day.
    """
    import duckdb

    lake.catch_up()
    if not any((lake.root / TABLE).glob("local_day=*")):
        return False
    target = analytics_file(lake)
    with database.connect() as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        row = connection.execute(queries.load("analytics_state")).fetchone()
        state = f"{FORMAT} {lake.glob} {row[0] if row else ''}"
        if _state_of(target) == state:
            return False
        with TemporaryDirectory(prefix=".analytics-", dir=lake.root) as folder:
            aside = Path(folder) / ANALYTICS_FILE
            with (
                duckdb.connect(aside, config={"memory_limit": MEMORY_LIMIT}) as built,
                arrow_copies(connection, database) as copies,
            ):
                files = sql.Literal(lake.glob)
                built.execute(queries.load("analytics_events").format(files=files).as_string())
                built.execute(query_text("analytics_queries"))
                for read, into, put in _TABLES:
                    with copies.stream(read) as rows:
                        built.register(into, rows)
                        built.execute(query_text(put))
                        built.unregister(into)
                built.execute(query_text("analytics_put_state"), {"state": state})
            replace_durably(aside, target)
    return True


@contextmanager
def asking(
    lake: EventLake, statement: str, spill_below: Path, cut: Cut | None = None
) -> Generator[Answer, None, None]:
    """Yield the answer to one ``select``. It reads the analysts' file and the lake, and can neither write nor look elsewhere.

    Args:
        statement: Of columns with one name, all but the first get a number behind theirs.
        spill_below: Folder in which a question that does not fit in memory gets a temporary one.
        cut: Leave the rest of the answer where it is; values are texts then. None for all of it, as it is.

    Raises:
        AnalyticsError: There is no file yet, the statement is no single ``select``, or it cannot be run.
    """
    import duckdb

    path = analytics_file(lake)
    if not path.is_file():
        message = "There is nothing to ask yet, because no day of events has been counted; run threadhouse nightly."
        raise AnalyticsError(message)
    try:
        remove_left_spills(spill_below)
        with (
            spilling(spill_below) as spill,
            duckdb.connect(path, read_only=True) as connection,
        ):
            _lock_down(connection, lake, spill)
            _require_one_select(connection, statement)
            if cut is None:
                connection.execute(query_text("analytics_ask"), {"statement": statement})
            else:
                connection.execute(
                    query_text("analytics_ask_cut"), {"statement": statement, **asdict(cut)}
                )
            columns = [str(column[0]) for column in connection.description or ()]
            # Before anything is printed: most statements that cannot be run fail at their first row.
            first = connection.fetchone()
            # A block of rows would be as large as its largest values times its length.
            rest = iter(connection.fetchone, None)
            yield Answer(columns, chain([first], rest) if first is not None else rest)
    except duckdb.Error as error:
        reason = show_unseen(str(error).partition("\n")[0].rstrip("."))
        message = f"The statement cannot be run: {reason}."
        raise AnalyticsError(message) from None


def _lock_down(connection: duckdb.DuckDBPyConnection, lake: EventLake, spill: Path) -> None:
    """No file but those of the lake, no extension, and no statement that could change that."""
    folder = sql.SQL("[{}]").format(sql.Literal(f"{lake.root / TABLE}/"))
    settings: dict[str, sql.Composable] = {
        "memory_limit": sql.Literal(MEMORY_LIMIT),
        "temp_directory": sql.Literal(str(spill)),
        "max_temp_directory_size": sql.Literal(SPILL_LIMIT),
        "autoinstall_known_extensions": sql.SQL("false"),
        "autoload_known_extensions": sql.SQL("false"),
        "allowed_directories": folder,
        # From here on these stay as they are.
        "enable_external_access": sql.SQL("false"),
        "lock_configuration": sql.SQL("true"),
    }
    for name, value in settings.items():
        statement = sql.SQL("set {} = {}").format(sql.Identifier(name), value)
        connection.execute(statement.as_string())


def _require_one_select(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Reading is decided by the kind of statement: ``copy``, also inside ``explain analyze``, writes where reading is allowed."""
    from duckdb import StatementType

    kinds = [found.type for found in connection.extract_statements(statement)]
    if kinds != [StatementType.SELECT]:
        what = ", ".join(kind.name.lower() for kind in kinds) or "nothing"
        message = f"Only one select can be asked here, and this is {what}; describe, summarize and show tables are selects too."
        raise AnalyticsError(message)


def _state_of(path: Path) -> str | None:
    """What a file was built from; None when there is none, or one that cannot be read."""
    import duckdb

    if not path.is_file():
        return None
    try:
        with duckdb.connect(path, read_only=True) as connection:
            row = connection.execute(query_text("analytics_read_state")).fetchone()
    except duckdb.Error:
        return None
    return str(row[0]) if row else None
