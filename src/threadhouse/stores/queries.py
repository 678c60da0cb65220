"""The one door between the SQL files and psycopg.

Belongs here: reading ``sql/queries/<name>.sql`` and vouching that its text comes from the package
and from nowhere else.
Does not belong here: running a statement, or building one.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import LiteralString, cast

from psycopg import sql

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def sql_root() -> Traversable:
    """The packaged ``sql/`` folder."""
    return files("threadhouse").joinpath("sql")


def trusted(text: str) -> sql.SQL:
    """Mark text that was read from a file of this package as SQL.

    psycopg accepts only literal strings, which is what keeps user input out of statements. A
    packaged file is as constant as a literal, but the type checker cannot see that. This is the
    only cast of its kind. The one other caller re-creates views from the server's own catalogue;
    never call it with text that a request brought.
    """
    return sql.SQL(cast("LiteralString", text))


@cache
def load(name: str) -> sql.SQL:
    """The statement in ``sql/queries/<name>.sql``.

    Parameters are written ``%(name)s``, identifiers ``{name}`` and filled with ``.format``.

    Raises:
        ValueError: The name is not a plain word, so it could point outside the folder.
        FileNotFoundError: There is no such file.
    """
    if _NAME.fullmatch(name) is None:
        message = f"{name!r} is not the name of a query file."
        raise ValueError(message)
    return trusted(sql_root().joinpath("queries", f"{name}.sql").read_text(encoding="utf-8"))
