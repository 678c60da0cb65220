"""What a source may say, and what is wrong with it when it says something else.

Belongs here: the row of every loadable table, its checks and the words for what is wrong, keys given twice.
Does not belong here: other people's column names (retrieval.source_mapping), Markdown (retrieval.markdown_units), which text
becomes a version (retrieval.version_plan), reading files (stores.source_files), writing (stores.loading).
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, cast
from uuid import UUID, uuid5

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from threadhouse.retrieval.events import MAX_CHARS, holds_control_character
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    DataClassification,
    LifecycleStage,
    MembershipRole,
    MembershipStatus,
    PublicationState,
    Readiness,
    RiskClass,
    Visibility,
)
from threadhouse.retrieval.text import prepare_text

MAX_LINE_BYTES = 1_000_000
"""A line this long is data that lost its line breaks (minified, base64), not prose: the longest line of real text known
to us has 886,541 bytes, and one megabyte in one line has no border a chunk could end on."""

UNDETERMINED_LANGUAGE = "und"
"""What BCP 47 calls a text whose language nobody stated."""

_SHOWN_CHARS = 80
_ID_NAMESPACE = UUID("6a1f3c1e-3f0e-5d7c-9a53-0d6f4b1c7e21")
_LANGUAGE = r"^[a-z]{2,3}(-[A-Za-z0-9]+)*$"
_LIST_SEPARATOR = re.compile(r"\s*[;,]\s*")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a row stands: file relative to the loaded folder, line from 1 (None: the whole file)."""

    file: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with one item. ``field`` is empty when the whole item is at fault."""

    item_key: str
    origin: Origin
    field: str
    reason: str
    raw: str | None = None

    def __str__(self) -> str:
        place = (
            self.origin.file
            if self.origin.line is None
            else f"{self.origin.file}:{self.origin.line}"
        )
        return f"{place} {self.field or '(whole item)'}: {self.reason}"


def has_storable_characters(text: str) -> str | None:
    """What keeps a text out of any database, or None."""
    if "\0" in text:
        return "contains a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "contains half of a surrogate pair, which is no character"
    return None


def normalise_text(text: str) -> str:
    r"""The text as we keep it: NFC, line breaks as ``\n``; every other character stays what it was.

    Example:
        >>> normalise_text("a\r\nb\rc\u200b")
        'a\nb\nc\u200b'
    """
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n"))


def find_text_fault(body: str) -> str | None:
    """Why a normalised text cannot be the body of a unit, or None."""
    if not prepare_text(body):
        return "is empty"
    return find_line_fault(body)


def find_line_fault(text: str) -> str | None:
    """Whether a line is so long that the text is no prose."""
    # Four bytes is the most a character takes, so most texts are cleared without encoding anything.
    if len(text) * 4 < MAX_LINE_BYTES:
        return None
    longest = max(len(line.encode()) for line in text.split("\n"))
    if longest >= MAX_LINE_BYTES:
        return f"has a line of {longest:,} bytes; the limit is {MAX_LINE_BYTES:,}"
    return None


def hash_version(title: str, body: str) -> str:
    """The content hash that the database computes for a version or a document."""
    return hashlib.sha256(f"{title}\n{body}".encode()).hexdigest()


def stable_id(*parts: object) -> UUID:
    """The same id for the same parts, in every load and on every machine."""
    return uuid5(_ID_NAMESPACE, json.dumps([str(part) for part in parts], ensure_ascii=False))


def _as_text(value: object) -> object:
    # A number is a fine name for a document; a boolean is YAML reading "no" as false.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _clean(text: str) -> str:
    fault = has_storable_characters(text)
    if fault:
        raise ValueError(fault)
    return normalise_text(text)


def _not_blank(text: str) -> str:
    if not text.strip():
        message = "is empty"
        raise ValueError(message)
    return text


def _body(text: str) -> str:
    fault = find_text_fault(text)
    if fault:
        raise ValueError(fault)
    return text


def _short_lines(text: str) -> str:
    fault = find_line_fault(text)
    if fault:
        raise ValueError(fault)
    return text


def _blank_to_none(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


def as_list(value: object) -> list[object]:
    """A list as JSON, YAML and Parquet give it, or as people write it into one cell: ``a; b`` or ``["a", "b"]``.

    Raises:
        ValueError: The value is no list and cannot be read as one.
    """
    if value is None:
        return []
    found: object = value
    if isinstance(value, str):
        stripped = value.strip()
        if not stripped.startswith("["):
            return [part for part in _LIST_SEPARATOR.split(stripped) if part]
        try:
            found = json.loads(stripped)
        except json.JSONDecodeError:
            found = None
    if not isinstance(found, list | tuple):
        message = "is no list"
        raise ValueError(message)
    return list(cast("list[object]", found))


def _as_object(value: object) -> object:
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        try:
            return json.loads(value)
        except json.JSONDecodeError:
            message = "is not JSON"
            raise ValueError(message) from None
    return value


def _clean_json(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    fault = has_storable_characters(_json_strings(value))
    if fault:
        raise ValueError(fault)
    return value


def _json_strings(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "".join(key + _json_strings(part) for key, part in value.items())
    return "".join(map(_json_strings, value)) if isinstance(value, list) else ""


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _fits_into_events(thread_id: str) -> str:
    # Whoever asks about a thread leaves an event that names it, and an answer without its event is none.
    limit = MAX_CHARS["thread_id"]
    if len(thread_id) > limit or holds_control_character(thread_id):
        message = (
            f"is no id of a thread, which has at most {limit} characters and no line breaks or tabs"
        )
        raise ValueError(message)
    return thread_id


Text = Annotated[str, BeforeValidator(_as_text), AfterValidator(_clean)]
Key = Annotated[Text, AfterValidator(_not_blank)]
ThreadKey = Annotated[Key, AfterValidator(_fits_into_events)]
Body = Annotated[Text, AfterValidator(_body)]
Prose = Annotated[Text, AfterValidator(_short_lines)]
OptionalText = Annotated[Text | None, BeforeValidator(_blank_to_none)]
TextList = Annotated[tuple[Key, ...], BeforeValidator(as_list)]
Instant = Annotated[datetime, AfterValidator(_in_utc)]
OptionalInstant = Annotated[Instant | None, BeforeValidator(_blank_to_none)]
Revision = Annotated[int, Field(ge=1, lt=2**31)]
OptionalRevision = Annotated[Revision | None, BeforeValidator(_blank_to_none)]
OptionalId = Annotated[UUID | None, BeforeValidator(_blank_to_none)]
JsonObject = Annotated[
    dict[str, JsonValue], BeforeValidator(_as_object), AfterValidator(_clean_json)
]
NodeKind = Literal["unit", "document", "thread"]


def _default_when_null(default: object) -> BeforeValidator:
    """A null or an empty cell takes the column's default, as if the column were absent."""
    return BeforeValidator(lambda value: default if _blank_to_none(value) is None else value)


class SourceRow(BaseModel):
    """A row that has been checked. Text is NFC."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FlaggedRow(SourceRow):
    """The five flags. Missing stays missing: it hides."""

    visibility: Annotated[Visibility | None, BeforeValidator(_blank_to_none)] = None
    readiness: Annotated[Readiness | None, BeforeValidator(_blank_to_none)] = None
    publication_state: Annotated[PublicationState | None, BeforeValidator(_blank_to_none)] = None
    risk_class: Annotated[RiskClass | None, BeforeValidator(_blank_to_none)] = None
    authority: Annotated[Authority | None, BeforeValidator(_blank_to_none)] = None


class DocumentRow(FlaggedRow):
    """A document; its body may be empty when its units hold the text."""

    document_id: Key
    path: OptionalText = None
    title: Prose
    tags: TextList = ()
    body: Annotated[Prose, _default_when_null("")] = ""
    language: Annotated[
        str, Field(pattern=_LANGUAGE), _default_when_null(UNDETERMINED_LANGUAGE)
    ] = UNDETERMINED_LANGUAGE
    revision: OptionalRevision = None
    lifecycle_stage: Annotated[LifecycleStage | None, BeforeValidator(_blank_to_none)] = None
    data_classification: Annotated[DataClassification, _default_when_null("unclassified")] = (
        DataClassification.UNCLASSIFIED
    )
    updated_at: OptionalInstant = None

    @property
    def digest(self) -> str:
        """SHA-256 of everything the row says except when it was said."""
        return hashlib.sha256(self.model_dump_json(exclude={"updated_at"}).encode()).hexdigest()


class UnitRow(FlaggedRow):
    """A unit; with ``body`` it brings its version along."""

    logical_unit_id: Key
    document_id: Key
    canonical_address: Key
    unit_kind: Annotated[Key, _default_when_null("section")] = "section"
    lifecycle_stage: LifecycleStage
    ordinal: Annotated[int, Field(ge=-(2**31), lt=2**31), _default_when_null(0)] = 0
    data_classification: Annotated[DataClassification, _default_when_null("unclassified")] = (
        DataClassification.UNCLASSIFIED
    )
    title: Annotated[Prose, _default_when_null("")] = ""
    body: Body | None = None
    revision: OptionalRevision = None
    created_at: OptionalInstant = None

    def version(self) -> UnitVersionRow | None:
        """The version that the row carries, if it carries one."""
        if self.body is None:
            return None
        # Not validated again: every field has been, under the same type.
        return UnitVersionRow.model_construct(
            logical_unit_id=self.logical_unit_id,
            revision=self.revision,
            title=self.title,
            body=self.body,
            created_at=self.created_at,
        )


class UnitVersionRow(SourceRow):
    """A text of a unit; without a revision, the next one."""

    logical_unit_id: Key
    revision: OptionalRevision = None
    title: Annotated[Prose, _default_when_null("")] = ""
    body: Body
    created_at: OptionalInstant = None

    @property
    def content_hash(self) -> str:
        """What the database will compute."""
        return hash_version(self.title, self.body)


class ThreadRow(FlaggedRow):
    """A semantic thread; its address is its id unless it has one."""

    thread_id: ThreadKey
    canonical_address: OptionalText = None
    title: Prose
    aliases: TextList = ()
    purpose: Annotated[Prose, _default_when_null("")] = ""
    description: Annotated[Prose, _default_when_null("")] = ""
    labels: TextList = ()
    anchors: TextList = ()
    owner: OptionalText = None


class MembershipRow(SourceRow):
    """One unit of a thread, named by id or by address; or, by ``document_id``, every unit of a document."""

    thread_id: Key
    logical_unit_id: OptionalText = None
    canonical_address: OptionalText = None
    document_id: OptionalText = None
    role: MembershipRole
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    status: MembershipStatus
    evidence: OptionalText = None

    @model_validator(mode="after")
    def _name_one_member(self) -> Self:
        named = [self.logical_unit_id, self.canonical_address, self.document_id]
        if sum(name is not None for name in named) != 1:
            message = "needs exactly one of logical_unit_id, canonical_address and document_id"
            raise ValueError(message)
        return self


class ExpectedArtifactRow(SourceRow):
    """A station of the lifecycle chain that should hold something."""

    thread_id: Key
    lifecycle_stage: LifecycleStage
    description: Key
    status: Annotated[Literal["open", "resolved"], _default_when_null("open")] = "open"


class EdgeRow(SourceRow):
    """An edge; its ends need not exist."""

    edge_id: OptionalId = None
    source_kind: NodeKind
    source_id: Key
    target_kind: NodeKind
    target_id: Key
    edge_type: Key

    @property
    def id(self) -> UUID:
        """The given id, or one that follows from the ends and the type."""
        return self.edge_id or stable_id(
            "edge",
            self.source_kind,
            self.source_id,
            self.target_kind,
            self.target_id,
            self.edge_type,
        )


class LabelRow(SourceRow):
    """A word of the vocabulary in one language, with its aliases."""

    label: Key
    language: Annotated[str, Field(pattern=_LANGUAGE)]
    aliases: TextList = ()
    description: Annotated[Prose, _default_when_null("")] = ""


class HealthSignalRow(SourceRow):
    """A thread's health as somebody saw it."""

    signal_id: OptionalId = None
    thread_id: Key
    kind: Annotated[Literal["thread_health", "wrong_link"], _default_when_null("thread_health")] = (
        "thread_health"
    )
    status: Literal[
        "healthy", "stale", "overbroad", "too_narrow", "noisy_retrieval", "weak", "open", "resolved"
    ]
    logical_unit_id: OptionalText = None
    evidence: JsonObject = {}
    observed_at: Instant

    @property
    def id(self) -> UUID:
        """The given id, or one that follows from whose health was observed and when."""
        return self.signal_id or stable_id(
            "signal", self.thread_id, self.kind, self.logical_unit_id, self.observed_at.isoformat()
        )


class MetricEventRow(SourceRow):
    """A retrieval event; stored once, whatever often it arrives."""

    event_id: OptionalId = None
    event_version: Annotated[int, Field(ge=1, lt=2**31), _default_when_null(1)] = 1
    occurred_at: Instant
    ingested_at: OptionalInstant = None
    type: Key
    query_id: OptionalId = None
    session_id: OptionalText = None
    lane: Annotated[Audience | None, BeforeValidator(_blank_to_none)] = None
    thread_id: OptionalText = None
    resolution_path: Annotated[
        Literal["thread", "candidates", "fallback", "none"] | None, BeforeValidator(_blank_to_none)
    ] = None
    reason: OptionalText = None
    latency_ms: Annotated[
        Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, BeforeValidator(_blank_to_none)
    ] = None
    query_text: OptionalText = None
    unit_address: OptionalText = None
    details: JsonObject = {}

    @property
    def id(self) -> UUID:
        """The given id, or one that follows from the whole event, so that loading it twice counts it once."""
        # Without what later versions of the contract brought, where a row does not use it: it was loaded under this id before.
        later = {"unit_address"} if self.unit_address is None else None
        return self.event_id or stable_id("event", self.model_dump_json(exclude=later))


class LoadTable(StrEnum):
    """Tables a source can feed, in the order in which they must be written."""

    PRODUCTION_DOCUMENT = "production_document"
    LOGICAL_UNIT = "tac_logical_unit"
    UNIT_VERSION = "tac_unit_version"
    SEMANTIC_THREAD = "semantic_thread"
    THREAD_MEMBERSHIP = "thread_membership"
    EXPECTED_ARTIFACT = "expected_artifact_missing"
    UNIVERSAL_EDGE = "universal_edge"
    VOCABULARY_LABEL = "vocabulary_label"
    HEALTH_SIGNAL = "health_signal"
    METRIC_EVENT = "retrieval_metric_event"


ROW_TYPES: dict[LoadTable, type[SourceRow]] = {
    LoadTable.PRODUCTION_DOCUMENT: DocumentRow,
    LoadTable.LOGICAL_UNIT: UnitRow,
    LoadTable.UNIT_VERSION: UnitVersionRow,
    LoadTable.SEMANTIC_THREAD: ThreadRow,
    LoadTable.THREAD_MEMBERSHIP: MembershipRow,
    LoadTable.EXPECTED_ARTIFACT: ExpectedArtifactRow,
    LoadTable.UNIVERSAL_EDGE: EdgeRow,
    LoadTable.VOCABULARY_LABEL: LabelRow,
    LoadTable.HEALTH_SIGNAL: HealthSignalRow,
    LoadTable.METRIC_EVENT: MetricEventRow,
}

_KEYS: dict[LoadTable, tuple[str, ...]] = {
    LoadTable.PRODUCTION_DOCUMENT: ("document_id",),
    LoadTable.LOGICAL_UNIT: ("logical_unit_id", "revision"),
    LoadTable.UNIT_VERSION: ("logical_unit_id", "revision"),
    LoadTable.SEMANTIC_THREAD: ("thread_id",),
    LoadTable.THREAD_MEMBERSHIP: (
        "thread_id",
        "logical_unit_id",
        "canonical_address",
        "document_id",
    ),
    LoadTable.EXPECTED_ARTIFACT: ("thread_id", "lifecycle_stage", "description"),
    LoadTable.UNIVERSAL_EDGE: ("source_kind", "source_id", "target_kind", "target_id", "edge_type"),
    LoadTable.VOCABULARY_LABEL: ("label", "language"),
    LoadTable.HEALTH_SIGNAL: ("thread_id", "kind", "logical_unit_id", "observed_at"),
    LoadTable.METRIC_EVENT: ("event_id",),
}


def item_key(table: LoadTable, raw: Mapping[str, object], origin: Origin) -> str:
    """A name for a row that survives a moved line where the row has a key, and its place where it has none."""
    parts = [raw.get(column) for column in _KEYS[table]]
    if parts[0] in {None, ""}:
        return f"{table}:{origin.file}:{origin.line or 0}"
    return f"{table}:" + "|".join(_whole(part) for part in parts if part is not None)


@dataclass(frozen=True, slots=True)
class CheckedRow:
    """A row that may be written, with its place for the message when the database knows better."""

    table: LoadTable
    row: SourceRow
    key: str
    origin: Origin


def check_row(
    table: LoadTable, raw: Mapping[str, object], origin: Origin
) -> CheckedRow | list[Fault]:
    """The row as its table takes it, or everything that is wrong with it. Columns the table lacks are left out."""
    row_type = ROW_TYPES[table]
    key = item_key(table, raw, origin)
    fields = row_type.model_fields
    known = {
        column: value
        for column, value in raw.items()
        if column in fields and not (value is None and fields[column].is_required())
    }
    if table is LoadTable.LOGICAL_UNIT and known.get("body", "") is None:
        # Units may come without a body column, their texts in another file; a column that is there must say something.
        known["body"] = ""
    try:
        return CheckedRow(table, row_type.model_validate(known), key, origin)
    except ValidationError as error:
        return [
            Fault(key, origin, field, reason, raw_value)
            for field, reason, raw_value in explain(error)
        ]


def unknown_columns(table: LoadTable, raw: Mapping[str, object]) -> frozenset[str]:
    """Columns that the table does not have."""
    return frozenset(raw) - ROW_TYPES[table].model_fields.keys()


def explain(error: ValidationError) -> Iterator[tuple[str, str, str | None]]:
    """Field, reason and refused value of every error. Reasons hold no line number: they identify the fault."""
    for detail in error.errors():
        field = ".".join(str(part) for part in detail["loc"])
        yield field, _reason(detail), _scalar(detail["input"])


def _reason(detail: ErrorDetails) -> str:
    kind, value = detail["type"], detail["input"]
    context: dict[str, Any] = detail.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind in {"enum", "literal_error"}:
        return f"{_shown(value)} is not one of {context['expected']}"
    if kind == "extra_forbidden":
        return "is not a known name here"
    if kind == "value_error":
        return str(context["error"])
    message = detail["msg"]
    return f"{_shown(value)}: {message[:1].lower()}{message[1:]}"


def _scalar(value: object) -> str | None:
    return str(value) if isinstance(value, str | int | float) else None


def _whole(value: object) -> str:
    """A value as text. Containers are named, not printed: nested YAML aliases print for ever."""
    if isinstance(value, dict | list | tuple | set):
        return f"a {'mapping' if isinstance(value, dict) else 'list'}"
    return str(value)


def _shown(value: object) -> str:
    """A value in a message, short."""
    text = _whole(value)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


FLAG_NAMES = ("visibility", "readiness", "publication_state", "risk_class", "authority")
FRONT_MATTER_KEYS = frozenset(
    {
        "document_id", "title", "path", "language", "tags", "updated_at", "revision", "revision_note", *FLAG_NAMES,
        "lifecycle_stage", "unit_kind", "data_classification", "units", "address_prefix",
    }
)  # fmt: skip
"""What front matter may say. ``revision_note`` is for people and is not stored."""


class Doubles:
    """Remembers what one load has met, so that a key or an address given twice is found whatever the batch."""

    def __init__(self) -> None:
        self._rows: dict[str, bytes] = {}
        self._addresses: dict[tuple[str, str], str] = {}

    def admit(self, checked: CheckedRow) -> Fault | bool:
        """True for a first meeting, False for an exact repetition, a fault for a second claim to a key or an address."""
        said = hashlib.sha256(checked.row.model_dump_json().encode()).digest()
        first = self._rows.get(checked.key)
        if first is not None:
            # An event is delivered again with another time of arrival; it is the same event.
            if first == said or checked.table is LoadTable.METRIC_EVENT:
                return False
            reason = "the same key was given before with other values; the first one was kept"
            return Fault(checked.key, checked.origin, "", reason)
        claim = self._claim(checked)
        if claim is not None:
            return claim
        self._rows[checked.key] = said
        return True

    def _claim(self, checked: CheckedRow) -> Fault | None:
        row = checked.row
        if isinstance(row, UnitRow):
            field, claimed, owner = "canonical_address", row.canonical_address, row.logical_unit_id
        elif isinstance(row, DocumentRow):
            field, claimed, owner = "path", row.path or row.document_id, row.document_id
        elif isinstance(row, ThreadRow):
            field, claimed, owner = (
                "canonical_address",
                row.canonical_address or row.thread_id,
                row.thread_id,
            )
        else:
            return None
        holder = self._addresses.setdefault((f"{checked.table}.{field}", claimed), owner)
        if holder == owner:
            return None
        return Fault(
            checked.key,
            checked.origin,
            field,
            f"{_shown(claimed)} was given before, to {_shown(holder)}",
        )


def with_readiness(row: UnitRow, readiness: Readiness) -> UnitRow:
    """The unit with another readiness."""
    return row.model_copy(update={"readiness": readiness})
