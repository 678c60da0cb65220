"""What a question asks of Postgres stays a look at what it names, however much the role may see.

The plans are the generic ones, which `reader_begin.sql` asks for. A hashed subplan reads everything that a view shows before it
looks up the first row in it; `offset 0` in the statement keeps the planner from that. Which documents have units may be hashed:
on an empty database it is what the planner prefers, on a big one it is not.
"""

from __future__ import annotations

import re

import pytest

from threadhouse.stores import queries
from threadhouse.stores.postgres import Database

STATEMENTS = (
    "found_documents",
    "found_units",
    "live_centroids",
    "live_documents",
    "live_units",
    "packs_check",
    "packs_check_documents",
    "packs_check_ends",
    "packs_read",
    "signals_facts",
    "signals_lexical",
    "signals_surroundings",
)
EXPLAINS_GENERIC_PLANS = 160000
_OWN = re.compile(r" *SubPlan ([0-9]+)\n")
_PARAMETER = re.compile(r"%\((\w+)\)s")


@pytest.mark.parametrize("name", STATEMENTS)
def test_nothing_is_read_whole_to_look_something_up_in_it(database: Database, name: str) -> None:
    with database.connect() as connection:
        if connection.info.server_version < EXPLAINS_GENERIC_PLANS:
            pytest.skip("PostgreSQL shows generic plans from version 16 on.")
        statement = queries.load(name).as_string(connection)
        places = {word: str(n) for n, word in enumerate(_words(statement), start=1)}
        generic = _PARAMETER.sub(lambda match: f"${places[match[1]]}", statement).replace("%%", "%")
        rows = connection.execute(queries.trusted(f"explain (generic_plan) {generic}")).fetchall()
    plan = "\n".join(str(row[0]) for row in rows)
    assert not [block for block in _hashed(plan) if "tac_unit_version" in block]


def _hashed(plan: str) -> list[str]:
    """Every subplan that is hashed, up to the next one."""
    blocks = re.split(r"\n(?= *SubPlan [0-9]+\n)", plan)
    names = set(re.findall(r"hashed SubPlan ([0-9]+)", plan))
    return [block for block in blocks if (own := _OWN.match(block)) and own[1] in names]


def _words(statement: str) -> list[str]:
    return list(dict.fromkeys(_PARAMETER.findall(statement)))
