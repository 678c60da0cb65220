"""What happened on the query path, as events: the contract of those who write and who count.

Belongs here: event types, which fields each needs, the version, the check of one event (writers)
and of a whole frame (readers).
Does not belong here: where events are stored, what is counted (``retrieval.metrics``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final, Self
from uuid import UUID

import polars as pl
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, model_validator

from threadhouse.retrieval.models import Audience

EVENT_VERSION: Final = 2
"""What writers stamp. Version 2 brought ``noisy_unit``, `unit_address`, `query_key` and `is_recurring`."""

READABLE_VERSIONS: Final = frozenset({1, 2})
"""What readers still understand; anything else is quarantined rather than guessed at."""

RULES_OF_EVENTS: Final = 2
"""Number of the rules in `event_fault`. Another number makes every day in the lake due: other rules leave other events out."""

EARLIEST_EVENT_AT: Final = datetime(2000, 1, 1, tzinfo=UTC)
LATEST_EVENT_AT: Final = datetime(2200, 1, 1, tzinfo=UTC)
"""Outside these two an instant is a mistake of unit (seconds for milliseconds)."""

MAX_CLOCK_SKEW: Final = timedelta(days=1)
"""A clock may be wrong by a time zone (real streams show 8 h); more than a day is no clock."""


class EventType(StrEnum):
    """What can happen on the query path."""

    QUERY = "query"
    PACK_DELIVERED = "pack_delivered"
    SUFFICIENCY_VERDICT = "sufficiency_verdict"
    WRONG_THREAD = "wrong_thread"
    NOISY_CONTEXT = "noisy_context"
    NOISY_UNIT = "noisy_unit"
    MISSING_THREAD_CONFIRMED = "missing_thread_confirmed"
    EXTRA_SEARCH = "extra_search"
    SUGGESTION = "suggestion"
    REJECTION = "rejection"
    CITATION_CHECK = "citation_check"


class ResolutionPath(StrEnum):
    """How a query was answered: by one thread, by several, by vector search, or not at all."""

    THREAD = "thread"
    CANDIDATES = "candidates"
    FALLBACK = "fallback"
    NONE = "none"


REQUIRED_FIELDS: Final[dict[EventType, tuple[str, ...]]] = {
    EventType.QUERY: ("query_id", "lane", "resolution_path"),
    EventType.PACK_DELIVERED: ("query_id",),
    EventType.SUFFICIENCY_VERDICT: ("query_id", "details.sufficient"),
    EventType.WRONG_THREAD: ("query_id",),
    EventType.NOISY_CONTEXT: ("query_id",),
    EventType.NOISY_UNIT: ("query_id", "unit_address"),
    EventType.MISSING_THREAD_CONFIRMED: ("query_id",),
    EventType.EXTRA_SEARCH: ("query_id",),
    EventType.SUGGESTION: ("query_id", "thread_id"),
    EventType.REJECTION: ("query_id", "thread_id"),
    EventType.CITATION_CHECK: (),
}
"""What an event of each type must carry besides the common fields."""

TYPES_SINCE: Final[dict[EventType, int]] = {EventType.NOISY_UNIT: 2}
"""Version that brought a type; those that are not named here have been there from the start."""

QUERY_KEY_PATTERN: Final = r"^[0-9a-f]{64}$"
"""A `query_key` is a SHA-256 in hexadecimal digits; anything else might be a question in disguise."""

MAX_CHARS: Final[dict[str, int]] = {
    "session_id": 200,
    "thread_id": 600,
    "reason": 500,
    "unit_address": 3_000,
}
"""How long a text may be, in code points. Types, lanes, paths and keys need no limit: a list or a pattern says what they may be.

Rates are indexed by ``thread_id``, and an entry of a PostgreSQL index holds 2,704 bytes: 600 code points take at most 2,400.
Addresses of units are indexed themselves, so that no real one needs 3,000. Sessions and reasons are made by programs.
"""

PLAIN_FIELDS: Final = ("session_id", "thread_id")
"""Names that are printed and grouped by: a control character in one moves the cursor of whoever lists them."""

_CONTROL: Final = r"[\x00-\x1f\x7f-\x9f]"

EVENT_SCHEMA: Final = pl.Schema(
    {
        "event_id": pl.String,
        "ingest_seq": pl.Int64,
        "event_version": pl.Int32,
        "occurred_at": pl.Datetime("us", "UTC"),
        "ingested_at": pl.Datetime("us", "UTC"),
        "attributed_at": pl.Datetime("us", "UTC"),
        "type": pl.String,
        "query_id": pl.String,
        "session_id": pl.String,
        "lane": pl.String,
        "thread_id": pl.String,
        "resolution_path": pl.String,
        "reason": pl.String,
        "latency_ms": pl.Float64,
        "unit_address": pl.String,
        "query_key": pl.String,
        "is_recurring": pl.Boolean,
        "sufficient": pl.Boolean,
        "details": pl.String,
    }
)
"""One event as a row of the lake.

``attributed_at`` decides its local day: the instant of its query, else its own. ``sufficient`` is
``details.sufficient`` when that is a JSON boolean. There is no query text: it is personal, has its
own retention and stays in one place, the Postgres table.
"""


class RetrievalEvent(BaseModel):
    """One event as a writer hands it over. Unknown fields are refused: a typo is no default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event_id: UUID = Field(
        description="UUIDv7 made by the writer; the same id again is the same event."
    )
    event_version: int = EVENT_VERSION
    occurred_at: AwareDatetime = Field(description="When it happened, by the writer's clock.")
    type: EventType
    query_id: UUID | None = None
    session_id: str | None = None
    lane: Audience | None = None
    thread_id: Annotated[str | None, Field(min_length=1)] = None
    resolution_path: ResolutionPath | None = None
    reason: str | None = None
    latency_ms: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    query_text: str | None = None
    unit_address: Annotated[str | None, Field(min_length=1)] = None
    query_key: Annotated[str | None, Field(pattern=QUERY_KEY_PATTERN)] = None
    is_recurring: bool | None = None
    details: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _keep_texts_short_and_plain(self) -> Self:
        for name, limit in MAX_CHARS.items():
            if len(getattr(self, name) or "") > limit:
                message = f"{name} has more than {limit:,} characters"
                raise ValueError(message)
        for name in PLAIN_FIELDS:
            if holds_control_character(getattr(self, name) or ""):
                message = f"{name} holds a control character"
                raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _keep_the_contract(self) -> Self:
        if self.event_version not in READABLE_VERSIONS:
            message = (
                f"event_version {self.event_version} is not one of {sorted(READABLE_VERSIONS)}"
            )
            raise ValueError(message)
        if not EARLIEST_EVENT_AT <= self.occurred_at < LATEST_EVENT_AT:
            message = "occurred_at is not an instant between 2000 and 2200"
            raise ValueError(message)
        if self.event_version < TYPES_SINCE.get(self.type, 1):
            message = f"version {self.event_version} of the contract has no type {self.type}"
            raise ValueError(message)
        if _holds_nul(self.model_dump(mode="json")):
            message = "a text holds a NUL character, which no database keeps"
            raise ValueError(message)
        for name in REQUIRED_FIELDS[self.type]:
            if not self._carries(name):
                message = f"an event of type {self.type} needs {name}"
                raise ValueError(message)
        if self._is_thread_hit_without_thread():
            message = "a query that a thread answered needs thread_id"
            raise ValueError(message)
        return self

    def _carries(self, name: str) -> bool:
        if name == "details.sufficient":
            return isinstance(self.details.get("sufficient"), bool)
        return getattr(self, name) is not None

    def _is_thread_hit_without_thread(self) -> bool:
        return (
            self.type is EventType.QUERY
            and self.resolution_path is ResolutionPath.THREAD
            and self.thread_id is None
        )


def event_fault() -> pl.Expr:
    """Why a row of `EVENT_SCHEMA` breaks the contract, as ``field: reason``; null when it keeps it.

    The same rules as `RetrievalEvent`, for frames and lazy frames: a day of events is not read row by row.
    """
    rules: list[tuple[pl.Expr, str]] = [
        (
            ~pl.col("event_version").is_in(sorted(READABLE_VERSIONS)),
            "event_version: not a version that can be read",
        ),
        (
            ~pl.col("type").is_in([kind.value for kind in EventType]),
            "type: not a type of event that is known",
        ),
        (
            ~pl.col("occurred_at").is_between(EARLIEST_EVENT_AT, LATEST_EVENT_AT, closed="left"),
            "occurred_at: not an instant between 2000 and 2200",
        ),
        # Before it is compared with: of an infinite one nothing can be said about the other.
        (
            ~pl.col("ingested_at").is_between(EARLIEST_EVENT_AT, LATEST_EVENT_AT, closed="left"),
            "ingested_at: not an instant between 2000 and 2200",
        ),
        (
            pl.col("occurred_at") > pl.col("ingested_at") + MAX_CLOCK_SKEW,
            "occurred_at: more than a day after the event arrived",
        ),
        (_is_unknown("lane", [lane.value for lane in Audience]), "lane: not a lane that is known"),
        (
            _is_unknown("resolution_path", [path.value for path in ResolutionPath]),
            "resolution_path: not a path that is known",
        ),
        (pl.col("thread_id") == "", "thread_id: empty"),
        (pl.col("unit_address") == "", "unit_address: empty"),
        (~pl.col("query_key").str.contains(QUERY_KEY_PATTERN), "query_key: not a key"),
        (
            (pl.col("latency_ms") < 0) | ~pl.col("latency_ms").is_finite(),
            "latency_ms: not a number of milliseconds",
        ),
    ]
    for name, limit in MAX_CHARS.items():
        too_long = pl.col(name).str.len_chars() > limit
        rules.append((too_long, f"{name}: longer than {limit:,} characters"))
    for name in PLAIN_FIELDS:
        rules.append((pl.col(name).str.contains(_CONTROL), f"{name}: holds a control character"))
    for kind, version in TYPES_SINCE.items():
        too_old = (pl.col("type") == kind.value) & (pl.col("event_version") < version)
        rules.append((too_old, f"type: not one of an event_version before {version}"))
    for kind, names in REQUIRED_FIELDS.items():
        for name in names:
            column = name.removeprefix("details.")
            missing = (pl.col("type") == kind.value) & pl.col(column).is_null()
            rules.append((missing, f"{name}: needed by an event of type {kind.value}"))
    rules.append(
        (
            (pl.col("type") == EventType.QUERY.value)
            & (pl.col("resolution_path") == ResolutionPath.THREAD.value)
            & pl.col("thread_id").is_null(),
            "thread_id: needed by a query that a thread answered",
        )
    )
    return pl.coalesce(
        *(pl.when(broken.fill_null(value=False)).then(pl.lit(fault)) for broken, fault in rules)
    )


def holds_control_character(text: str) -> bool:
    """Whether a text holds a character that moves a cursor instead of being shown, tabs and line breaks included."""
    return re.search(_CONTROL, text) is not None


def _holds_nul(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return any(_holds_nul(key) or _holds_nul(inner) for key, inner in value.items())
    if isinstance(value, list):
        return any(_holds_nul(inner) for inner in value)
    return isinstance(value, str) and "\0" in value


def _is_unknown(column: str, known: Sequence[str]) -> pl.Expr:
    return pl.col(column).is_not_null() & ~pl.col(column).is_in(list(known))


def event_id_from(occurred_at: datetime, entropy: bytes) -> UUID:
    """A UUIDv7 (RFC 9562 §5.7): milliseconds, then the writer's randomness; ids sort by time.

    Args:
        occurred_at: Aware instant.
        entropy: At least 10 random bytes, such as ``os.urandom(10)``.

    Raises:
        ValueError: Fewer than 10 bytes.

    Example:
        >>> event_id_from(datetime(2026, 1, 1, tzinfo=UTC), bytes(10))
        UUID('019b76da-a800-7000-8000-000000000000')
    """
    if len(entropy) < 10:  # noqa: PLR2004  # 74 random bits, rounded up to bytes
        message = f"An event id needs 10 random bytes, not {len(entropy)}."
        raise ValueError(message)
    milliseconds = (occurred_at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    bits = int.from_bytes(entropy[:10], "big")
    high = bits >> 68
    low = bits & ((1 << 62) - 1)
    return UUID(int=(milliseconds << 80) | (7 << 76) | (high << 64) | (0b10 << 62) | low)
