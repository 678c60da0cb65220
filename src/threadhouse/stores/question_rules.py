"""The rules that one question is answered by, read when its transaction begins.

Belongs here: one round trip for everything that holds for the whole question. Does not belong here: what the rules mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from psycopg import Connection
from psycopg.rows import DictRow, TupleRow, dict_row

from threadhouse.retrieval.audience import AudiencePolicy
from threadhouse.retrieval.models import Principal
from threadhouse.retrieval.resolution import RetrievalPolicy
from threadhouse.stores import queries
from threadhouse.stores.knowledge import audience_policy_of
from threadhouse.stores.postgres import together
from threadhouse.stores.reader_roles import begin_reading
from threadhouse.stores.retrieval_policy import retrieval_policy_of

_Rows = TypeVar("_Rows")
_Policy = TypeVar("_Policy")


@dataclass(frozen=True, slots=True)
class QuestionRules:
    """Who sees what, and by which numbers threads are resolved."""

    audience: AudiencePolicy
    retrieval: RetrievalPolicy


def ask_question_rules(
    connection: Connection[TupleRow], space_id: str, principal: Principal
) -> Callable[[], QuestionRules]:
    """The policies in force; the transaction of the question begins in the same round trip, and goes on as the principal's lane.

    The question is on its way when this returns; call what it returns for the answer. The rows are read for every question; only
    what the very same ones mean is not worked out again.

    Raises:
        ConfigurationError: A policy is missing or cannot be read; raised by what this returns.
    """
    audience = connection.cursor(row_factory=dict_row)
    retrieval = connection.cursor(row_factory=dict_row)
    with together(connection):
        audience.execute(queries.load("knowledge_policy"))
        retrieval.execute(queries.load("retrieval_policy_read"), {"space_id": space_id})
        begin_reading(connection, principal)

    def rules() -> QuestionRules:
        with audience, retrieval:
            return QuestionRules(
                _audience_policies.of(audience.fetchall()),
                _retrieval_policies.of(retrieval.fetchone()),
            )

    return rules


class _Meaning(Generic[_Rows, _Policy]):
    """What rows meant when they were last read. Other rows are other rules, whatever version they say that they are."""

    def __init__(self, read: Callable[[_Rows], _Policy]) -> None:
        self._read = read
        self._last: tuple[_Rows, _Policy] | None = None

    def of(self, rows: _Rows) -> _Policy:
        last = self._last
        if last is not None and last[0] == rows:
            return last[1]
        policy = self._read(rows)
        self._last = (rows, policy)
        return policy


_audience_policies = _Meaning[Sequence[DictRow], AudiencePolicy](audience_policy_of)
_retrieval_policies = _Meaning["DictRow | None", RetrievalPolicy](retrieval_policy_of)
