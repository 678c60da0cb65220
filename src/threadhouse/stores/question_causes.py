"""Plain hashes of questions that earlier releases wrote down, replaced by keyed ones.

Belongs here: replacing them wherever they are kept. Does not belong here: what a key is made of (retrieval.query_keeping).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg.types.json import Jsonb

from threadhouse.retrieval.query_keeping import QuestionKeeper, keyed_cause
from threadhouse.stores import queries

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow


def key_question_causes(connection: Connection[TupleRow], keeper: QuestionKeeper) -> int:
    """Put keyed causes in the place of plain ones in gaps, proposals and replays; returns how many there were.

    Gaps and proposals keep their ids, so that whatever points at them still does. Again, it finds nothing.
    """
    plain = [key for (key,) in connection.execute(queries.load("question_causes_plain"))]
    if plain:
        keyed = {key: keyed_cause(keeper.secret, key) for key in plain}
        connection.execute(queries.load("question_causes_key"), {"keyed": Jsonb(keyed)})
    return len(plain)
