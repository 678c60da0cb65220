"""What must be true of events, rates, packs and projections, as suites of expectations about facts.

Belongs here: the suites, and what their facts are called. A fact is a count, a flag or an id: no text of a question, a document
or a pack ever becomes one, so that no result can show any.
Does not belong here: getting facts (``stores.data_facts``), judging them (``stores.data_validation``).

docs/data-expectations.md has the suites as tables; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from threadhouse.retrieval.events import EventType
from threadhouse.retrieval.metrics import COUNTED, LANES
from threadhouse.retrieval.models import Audience, Collection, Json

EXPECTATIONS_VERSION: Final = "expectations-1"
"""Changes when any suite would judge the same facts otherwise; then everything is judged again."""


class SuiteName(StrEnum):
    """One suite for each product that somebody reads."""

    EVENTS = "events"
    AGGREGATES = "aggregates"
    PACKS = "packs"
    PROJECTIONS = "projections"


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation: its type in Great Expectations, the facts it is about, and what it says in words."""

    kind: str
    meaning: str
    parameters: Mapping[str, Json]

    @property
    def subject(self) -> str:
        """The facts that it is about, separated by commas."""
        columns = self.parameters.get("column_list")
        if isinstance(columns, list):
            return ", ".join(map(str, columns))
        names = ("column", "column_A", "column_B")
        return ", ".join(str(self.parameters[name]) for name in names if name in self.parameters)


@dataclass(frozen=True, slots=True)
class Suite:
    """Expectations about one product. ``grain`` names the facts that say which row breaks one."""

    name: SuiteName
    about: str
    grain: tuple[str, ...]
    expectations: tuple[Expectation, ...] = field(repr=False)


def _none_of(column: str, meaning: str) -> Expectation:
    """A count of what is wrong."""
    kind = "expect_column_values_to_be_between"
    return Expectation(kind, meaning, {"column": column, "min_value": 0, "max_value": 0})


def _always(column: str, meaning: str) -> Expectation:
    return Expectation(
        "expect_column_values_to_be_in_set", meaning, {"column": column, "value_set": [True]}
    )


def _one_of(column: str, values: list[Json], meaning: str) -> Expectation:
    return Expectation(
        "expect_column_values_to_be_in_set",
        meaning,
        {"column": column, "value_set": [str(v) if isinstance(v, str) else v for v in values]},
    )


def _known(column: str, meaning: str) -> Expectation:
    return Expectation("expect_column_values_to_not_be_null", meaning, {"column": column})


def _at_least(column: str, least: int, meaning: str) -> Expectation:
    kind = "expect_column_values_to_be_between"
    return Expectation(kind, meaning, {"column": column, "min_value": least})


def _share(column: str, meaning: str) -> Expectation:
    kind = "expect_column_values_to_be_between"
    return Expectation(kind, meaning, {"column": column, "min_value": 0, "max_value": 1})


def _not_above(smaller: str, larger: str, meaning: str) -> Expectation:
    return Expectation(
        "expect_column_pair_values_a_to_be_greater_than_b",
        meaning,
        {
            "column_A": larger,
            "column_B": smaller,
            "or_equal": True,
            "ignore_row_if": "either_value_is_missing",
        },
    )


def _once(columns: tuple[str, ...], meaning: str) -> Expectation:
    return Expectation("expect_compound_columns_to_be_unique", meaning, {"column_list": [*columns]})


SUITES: Final = (
    Suite(
        SuiteName.EVENTS,
        "day files of the lake, by local day and type",
        ("local_day", "type"),
        (
            _once(("local_day", "type"), "facts are by day and type"),
            _one_of("type", [*EventType], "every type is one of the contract"),
            _at_least("events", 1, "a type that is listed has events"),
            _none_of("repeated_events", "no event is there twice"),
            _none_of("misplaced_events", "every event lies in its own local day"),
            _none_of("faulty_events", "every event keeps the contract"),
            _none_of("unplaced_events", "every event has an id, an instant and a version"),
            _none_of("unknown_columns", "a day file has no column beside those of the contract"),
            _not_above("first_attributed_us", "last_attributed_us", "instants can be ordered"),
        ),
    ),
    Suite(
        SuiteName.AGGREGATES,
        "nao.retrieval_metric_aggregate, by local day, lane and rate",
        ("local_day", "lane", "metric"),
        (
            _once(("local_day", "lane", "metric"), "facts are by day, lane and rate"),
            _one_of("lane", [*LANES], "every lane is known"),
            _one_of("metric", [rate.name for rate in COUNTED], "every rate is defined"),
            _one_of(
                "rows_of_day", [len(LANES) * len(COUNTED)], "a day has every rate of every lane"
            ),
            _one_of("rows_over_all_threads", [1], "a rate has one figure over all threads"),
            _at_least("numerator", 0, "a numerator counts"),
            _not_above("numerator", "denominator", "a part is no more than the whole"),
            _share("rate", "a rate is a share"),
            _not_above("wilson_low", "rate", "the interval holds the rate"),
            _not_above("rate", "wilson_high", "the interval holds the rate"),
            _none_of(
                "rows_with_wrong_rate", "a rate is numerator by denominator, of threads as well"
            ),
            _none_of("rows_with_invented_rate", "nothing to divide by gives no rate"),
            _none_of(
                "rows_with_wrong_mark",
                "instrumentation is asked for exactly where a whole is unknown",
            ),
            _none_of("numerator_off_by", "lanes add up to overall"),
            _none_of("denominator_off_by", "lanes add up to overall"),
            _always("is_counted_day", "rates are of days that were counted"),
        ),
    ),
    Suite(
        SuiteName.PACKS,
        "nao.thread_context_pack_cache, by thread and lane",
        ("thread_id", "lane"),
        (
            _once(("thread_id", "lane"), "a lane has one pack of a thread"),
            _one_of("lane", [*Audience], "every lane is an audience"),
            _always(
                "names_itself", "the pack says the thread, lane and id that it is stored under"
            ),
            _always("has_thread", "the thread is there"),
            _none_of("missing_fields", "every field of the contract is there"),
            _at_least("unit_count", 1, "a pack holds a unit"),
            _none_of("units_without_source", "every unit has an address and a revision"),
            _none_of("repeated_units", "no unit is both canonical and supporting, or there twice"),
            _none_of("units_not_ordered", "the reading order names every unit, each once"),
            _none_of("units_without_text", "no unit is empty"),
            _at_least("policy_version", 1, "the policy that was applied is known"),
            _not_above("policy_version", "policy_in_force", "no policy of the future was applied"),
            _at_least("build_ms", 0, "building took time"),
        ),
    ),
    Suite(
        SuiteName.PROJECTIONS,
        "nao.vector_projection and the last audit, by collection",
        ("collection",),
        (
            _one_of("collection", [*Collection], "every collection is registered"),
            _one_of("space_count", [0, 1], "a collection is of one vector space"),
            _none_of("owners_without_digest", "every owner's text and labels have a digest"),
            _none_of("owners_without_chunks", "an owner that is there has a chunk"),
            _none_of("owners_of_the_future", "nothing was published in the future"),
            _none_of("owners_gone", "no owner has left the source"),
            _none_of("owners_missing", "every live owner is there or in quarantine"),
            _known("audit_findings", "the collection was audited"),
            _none_of("audit_findings", "the last audit found nothing"),
        ),
    ),
)

_BY_NAME: Final = {suite.name: suite for suite in SUITES}


def suite_of(name: SuiteName) -> Suite:
    """The suite of a name."""
    return _BY_NAME[name]
