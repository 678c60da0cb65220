"""Rows of a small hub, written straight into the source of truth.

For tests of what is built from a hub; loading one has its own tests.
"""

from __future__ import annotations

import uuid

import psycopg
from psycopg.rows import TupleRow

Connection = psycopg.Connection[TupleRow]

_DOCUMENT = """
insert into public.production_document
( document_id, path, title, body, language, tags, lifecycle_stage
, visibility, readiness, publication_state, risk_class, authority )
values
( %(id)s, %(id)s || '.md', %(title)s, %(body)s, 'vi', '{}', 'law'
, %(visibility)s, 'published', 'published', 'low', 'enacted' )
"""
_UNIT = """
insert into public.tac_logical_unit (logical_unit_id, document_id, canonical_address, unit_kind, lifecycle_stage, ordinal)
values (%(id)s, %(document_id)s, %(id)s, 'law_unit', 'law', %(ordinal)s)
"""
_VERSION = """
insert into public.tac_unit_version (unit_version_id, logical_unit_id, revision, title, body)
select %(version)s, %(id)s, coalesce(max(revision), 0) + 1, %(title)s, %(body)s
from public.tac_unit_version where logical_unit_id = %(id)s
"""


def add_document(
    connection: Connection,
    document_id: str,
    body: str = "",
    title: str = "Quy định",
    visibility: str | None = "public",
) -> None:
    connection.execute(
        _DOCUMENT,
        {"id": document_id, "title": title, "body": body, "visibility": visibility},
    )


def add_unit(
    connection: Connection, unit_id: str, document_id: str, body: str, ordinal: int = 0
) -> None:
    connection.execute(_UNIT, {"id": unit_id, "document_id": document_id, "ordinal": ordinal})
    write_version(connection, unit_id, body)


def write_version(
    connection: Connection, unit_id: str, body: str, title: str = "Điều khoản"
) -> uuid.UUID:
    """Give a unit a new live version."""
    version = uuid.uuid4()
    connection.execute(_VERSION, {"version": version, "id": unit_id, "title": title, "body": body})
    connection.execute(
        "update public.tac_logical_unit set current_version_id = %s where logical_unit_id = %s",
        (version, unit_id),
    )
    return version
