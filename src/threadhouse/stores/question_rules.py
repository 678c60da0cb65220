"""The rules that one question is answered by, read when its transaction begins.

Belongs here: one round trip for everything that holds for the whole question. Does not belong here: what the rules mean.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow, dict_row

from threadhouse.retrieval.audience import AudiencePolicy
from threadhouse.retrieval.models import Principal
from threadhouse.retrieval.resolution import RetrievalPolicy
from threadhouse.stores import queries
from threadhouse.stores.knowledge import audience_policy_of
from threadhouse.stores.postgres import together
from threadhouse.stores.reader_roles import begin_reading
from threadhouse.stores.retrieval_policy import retrieval_policy_of


@dataclass(frozen=True, slots=True)
class QuestionRules:
    """Who sees what, and by which numbers threads are resolved."""

    audience: AudiencePolicy
    retrieval: RetrievalPolicy


def read_question_rules(
    connection: Connection[TupleRow], space_id: str, principal: Principal
) -> QuestionRules:
    """The policies in force; the transaction of the question begins in the same round trip, and goes on as the principal's lane.

    Raises:
        ConfigurationError: A policy is missing or cannot be read.
    """
    with (
        together(connection),
        connection.cursor(row_factory=dict_row) as audience,
        connection.cursor(row_factory=dict_row) as retrieval,
    ):
        audience.execute(queries.load("knowledge_policy"))
        retrieval.execute(queries.load("retrieval_policy_read"), {"space_id": space_id})
        begin_reading(connection, principal)
        return QuestionRules(
            audience_policy_of(audience.fetchall()), retrieval_policy_of(retrieval.fetchone())
        )
