"""Judging facts with Great Expectations, and keeping the outcome.

Belongs here: which parts of a product are due, one run over their facts.
Does not belong here: facts (``data_facts``), what must be true (``retrieval.data_expectations``), pages (``data_docs``).

Great Expectations takes seconds to import, so it is imported when something is due and at no other time.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast

from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from threadhouse.retrieval.data_expectations import (
    EXPECTATIONS_VERSION,
    Expectation,
    Suite,
    SuiteName,
    suite_of,
)
from threadhouse.retrieval.models import Json
from threadhouse.stores import queries
from threadhouse.stores.data_docs import DOCS_FOLDER, as_gx_suite, build_docs, open_context
from threadhouse.stores.data_facts import Fact, ProductStores, read_facts, read_states

SHOWN_ROWS: Final = 20
"""Rows that a broken expectation names, by their grain: a screen."""


@dataclass(frozen=True, slots=True)
class BrokenExpectation:
    """An expectation that does not hold: how often, and where, as facts of the grain."""

    kind: str
    subject: str
    meaning: str
    count: int
    where: tuple[str, ...]

    def sentence(self, places: int = SHOWN_ROWS) -> str:
        """What is broken, for a person, with at most so many of the places."""
        shown = f", such as {'; '.join(self.where[:places])}" if self.where else ""
        return f"Not so: {self.meaning} ({self.subject}); broken {self.count:,} times{shown}"


@dataclass(frozen=True, slots=True)
class SuiteVerdict:
    """What is known of a product. ``parts`` were judged just now; without any, the outcome is that of ``judged_at``."""

    suite: SuiteName
    expectations: int
    broken: tuple[BrokenExpectation, ...]
    parts: int
    rows: int
    seconds: float
    judged_at: datetime | None
    docs: Path | None

    @property
    def passed(self) -> bool:
        """Whether every expectation holds; a product that is not there breaks none."""
        return not self.broken


def judge_suite(stores: ProductStores, home: Path, name: SuiteName) -> SuiteVerdict:
    """Judge what has changed of a product since it was last found sound; what was found broken is judged again.

    Nothing due costs a look at the states and no import.
    """
    started = time.monotonic()
    suite = suite_of(name)
    states = read_states(stores, name)
    passed = _passed_states(stores, name)
    due = [part for part, key in states.items() if passed.get(part) != key]
    facts = read_facts(stores, name, due) if due else []
    if not facts:
        judged_at = _judged_at(stores, name)
        docs = home / DOCS_FOLDER / "index.html"
        return SuiteVerdict(
            suite=name,
            expectations=len(suite.expectations),
            broken=(),
            parts=0,
            rows=0,
            seconds=time.monotonic() - started,
            judged_at=judged_at,
            docs=docs if docs.is_file() else None,
        )
    outcome = run_suite(suite, facts)
    broken = _broken(outcome)
    seconds = time.monotonic() - started
    judged_at = _keep(stores, suite, {part: states[part] for part in due}, outcome, broken, seconds)
    docs = build_docs(home, read_outcomes(stores))
    return SuiteVerdict(
        suite=name,
        expectations=len(suite.expectations),
        broken=broken,
        parts=len(due),
        rows=len(facts),
        seconds=time.monotonic() - started,
        judged_at=judged_at,
        docs=docs,
    )


def run_suite(suite: Suite, facts: Sequence[Mapping[str, Fact]]) -> dict[str, Any]:
    """What Great Expectations says of these facts, as its own JSON."""
    context = open_context()
    import great_expectations as gx
    import pandas as pd  # pyright: ignore[reportMissingTypeStubs]

    frame = pd.DataFrame(list(facts))
    source = context.data_sources.add_pandas("facts")
    batch = source.add_dataframe_asset(suite.name.value).add_batch_definition_whole_dataframe("all")
    definition: Any = gx.ValidationDefinition(
        name=suite.name.value, data=batch, suite=context.suites.add(as_gx_suite(suite))
    )
    result = context.validation_definitions.add(definition).run(
        batch_parameters={"dataframe": frame},
        result_format={
            "result_format": "SUMMARY",
            "partial_unexpected_count": SHOWN_ROWS,
            "unexpected_index_column_names": list(suite.grain),
        },
    )
    return cast("dict[str, Any]", result.to_json_dict())


def _broken(outcome: Mapping[str, Any]) -> tuple[BrokenExpectation, ...]:
    """Expectations that do not hold, or that could not be judged at all."""
    found: list[BrokenExpectation] = []
    for result in outcome["results"]:
        if result["success"]:
            continue
        config = result["expectation_config"]
        judged = Expectation(config["type"], config["notes"], config["kwargs"])
        places: list[dict[str, Any]] = result["result"].get("partial_unexpected_index_list") or []
        found.append(
            BrokenExpectation(
                kind=judged.kind,
                subject=judged.subject,
                meaning=judged.meaning,
                count=int(result["result"].get("unexpected_count") or 0),
                where=tuple(
                    ", ".join(f"{name} {value}" for name, value in place.items())
                    for place in places
                ),
            )
        )
    return tuple(found)


def _passed_states(stores: ProductStores, name: SuiteName) -> dict[str, str]:
    """Under which key each part was last found sound."""
    parameters = {"suite": name, "suite_version": EXPECTATIONS_VERSION}
    with stores.database.connect() as connection:
        return dict(
            connection.execute(queries.load("data_validation_passed"), parameters).fetchall()
        )


def read_outcomes(stores: ProductStores) -> dict[str, dict[str, Any]]:
    """The newest outcome of each suite."""
    with (
        stores.database.connect() as connection,
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        rows = cursor.execute(
            queries.load("data_validation_latest"), {"suite_version": EXPECTATIONS_VERSION}
        )
        return {row["suite"]: {**row["results"], **row} for row in rows}


def _judged_at(stores: ProductStores, name: SuiteName) -> datetime | None:
    return cast("datetime | None", read_outcomes(stores).get(name, {}).get("validated_at"))


def _keep(
    stores: ProductStores,
    suite: Suite,
    parts: Mapping[str, str],
    outcome: Mapping[str, Any],
    broken: Sequence[BrokenExpectation],
    seconds: float,
) -> datetime:
    results: dict[str, Json] = {"parts": dict(parts), "validation": dict(outcome)}
    key = hashlib.sha256(repr(sorted(parts.items())).encode()).hexdigest()
    with stores.database.connect() as connection:
        row = connection.execute(
            queries.load("data_validation_write"),
            {
                "suite": suite.name,
                "suite_version": EXPECTATIONS_VERSION,
                "input_key": key,
                "expectations": len(suite.expectations),
                "failed": len(broken),
                "seconds": seconds,
                "results": Jsonb(results),
            },
        ).fetchone()
    return cast("tuple[datetime]", row)[0]
