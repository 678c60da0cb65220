"""Somebody else's export, described instead of programmed.

Belongs here: the mapping file's model, column rules, templates, vocabulary translation, row filters.
Does not belong here: checks of the resulting rows (retrieval.sources), reading files (stores.source_files).
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from threadhouse.retrieval.sources import FRONT_MATTER_KEYS, ROW_TYPES, LoadTable, as_list


class _MappingPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


_TEMPLATE_WIDTH = re.compile(r"0?\d{0,2}")


def parse_template(template: str) -> tuple[tuple[str, str | None, str], ...]:
    """Pieces of a template: literal text, column (None at the end), width.

    Only columns and zero-padded widths are allowed. Attributes, indexes and conversions would let a mapping file reach
    into Python objects, so they are refused when the mapping is read.

    Raises:
        ValueError: The template holds anything else.

    Example:
        >>> parse_template("{doc_id}#{seq:03}")
        (('', 'doc_id', ''), ('#', 'seq', '03'))
    """
    pieces: list[tuple[str, str | None, str]] = []
    for literal, column, width, conversion in string.Formatter().parse(template):
        if column is not None and (
            not column or any(mark in column for mark in ".[]{}") or conversion
        ):
            message = f"{template!r}: only plain column names may stand in braces"
            raise ValueError(message)
        if width and not _TEMPLATE_WIDTH.fullmatch(width):
            message = f"{template!r}: only a width such as 03 may follow the colon"
            raise ValueError(message)
        pieces.append((literal, column, width or ""))
    return tuple(pieces)


def fill_template(template: str, row: Mapping[str, object]) -> str | None:
    """The template with the row's values; None when one of them is missing or empty."""
    filled: list[str] = []
    for literal, column, width in parse_template(template):
        filled.append(literal)
        if column is None:
            continue
        value = row.get(column)
        if value is None or value == "" or isinstance(value, dict | list | tuple):
            return None
        filled.append(str(value).rjust(int(width or 0), "0" if width.startswith("0") else " "))
    return "".join(filled)


class ColumnRule(_MappingPart):
    """How one of our columns is filled: exactly one of ``column``, ``template``, ``value``, ``first_of``; then ``values``."""

    column: str | None = None
    template: str | None = None
    value: JsonValue = None
    first_of: tuple[ColumnRule, ...] = ()
    values: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Word of the source to word of ours, compared without case and outer spaces.",
    )
    otherwise: JsonValue = Field(
        default=None, description="For a value that `values` does not list; absent: kept as it is."
    )
    default: JsonValue = Field(default=None, description="For a value that is missing or empty.")

    @model_validator(mode="before")
    @classmethod
    def _read_short_form(cls, data: object) -> object:
        return {"column": data} if isinstance(data, str) else data

    @field_validator("template")
    @classmethod
    def _refuse_unsafe_template(cls, template: str | None) -> str | None:
        if template is not None:
            parse_template(template)
        return template

    @model_validator(mode="after")
    def _have_one_source(self) -> Self:
        given = self.model_fields_set & {"column", "template", "value", "first_of"}
        if len(given) != 1:
            message = "needs exactly one of column, template, value and first_of"
            raise ValueError(message)
        return self

    def read(self, row: Mapping[str, object]) -> object:
        """The value of our column for one row of theirs."""
        found = self._translate(self._find(row))
        is_missing = found is None or found == ""
        return self.default if is_missing and "default" in self.model_fields_set else found

    def _find(self, row: Mapping[str, object]) -> object:
        if self.column is not None:
            return row.get(self.column)
        if self.template is not None:
            return fill_template(self.template, row)
        if self.first_of:
            found = (rule.read(row) for rule in self.first_of)
            return next((value for value in found if value is not None and value != ""), None)
        return self.value

    def _translate(self, value: object) -> object:
        if not self.values or value is None or value == "":
            return value
        word = _vocabulary_word(value)
        for theirs, ours in self.values.items():
            if _vocabulary_word(theirs) == word:
                return ours
        return self.otherwise if "otherwise" in self.model_fields_set else value

    def columns_read(self) -> Iterator[str]:
        """Columns of theirs that the rule looks at."""
        if self.column is not None:
            yield self.column
        if self.template is not None:
            yield from (
                column for _, column, _ in parse_template(self.template) if column is not None
            )
        for rule in self.first_of:
            yield from rule.columns_read()


def _vocabulary_word(value: object) -> str:
    # JSON spells a boolean "true", Python "True"; the casefold below makes them one word.
    return unicodedata.normalize("NFC", str(value)).strip().casefold()


class Feed(_MappingPart):
    """One of our tables, fed from the rows of one file."""

    table: LoadTable
    columns: dict[str, ColumnRule]
    where: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Only rows whose column equals the value, or one of a list of values.",
    )
    explode: str | None = Field(
        default=None, description="A list column: one row for each of its elements."
    )

    @model_validator(mode="after")
    def _name_real_columns(self) -> Self:
        unknown = self.columns.keys() - ROW_TYPES[self.table].model_fields.keys()
        if unknown:
            message = f"{self.table} has no column {', '.join(sorted(unknown))}"
            raise ValueError(message)
        return self

    def takes(self, row: Mapping[str, object]) -> bool:
        """Whether the row passes ``where``."""
        return all(
            row.get(column) in wanted if isinstance(wanted, list) else row.get(column) == wanted
            for column, wanted in self.where.items()
        )

    def translate(self, row: Mapping[str, object]) -> Iterator[dict[str, object]]:
        """Our raw rows for one of theirs, unchecked."""
        for single in self._exploded(row):
            yield {column: rule.read(single) for column, rule in self.columns.items()}

    def _exploded(self, row: Mapping[str, object]) -> Iterable[Mapping[str, object]]:
        if self.explode is None:
            return [row]
        return [{**row, self.explode: element} for element in as_list(row.get(self.explode))]


class TableFile(_MappingPart):
    """A file of the source, or rows that the mapping itself states, and what they feed."""

    file: str | None = None
    rows: tuple[dict[str, JsonValue], ...] = ()
    feeds: tuple[Feed, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _have_one_source(self) -> Self:
        if (self.file is None) == (not self.rows):
            message = "needs either file or rows"
            raise ValueError(message)
        return self


class MarkdownMapping(_MappingPart):
    """How front matter becomes ours. Rules see the front matter plus ``_path`` and ``_stem`` of the file.

    A front matter key of our own name counts unless a rule for it is given; a rule always wins.
    """

    columns: dict[str, ColumnRule] = Field(default_factory=dict)

    @field_validator("columns")
    @classmethod
    def _name_real_keys(cls, columns: dict[str, ColumnRule]) -> dict[str, ColumnRule]:
        unknown = columns.keys() - FRONT_MATTER_KEYS
        if unknown:
            message = f"no front matter key {', '.join(sorted(unknown))}; known: {', '.join(sorted(FRONT_MATTER_KEYS))}"
            raise ValueError(message)
        return columns


class SourceMapping(_MappingPart):
    """A mapping file."""

    name: str | None = Field(
        default=None, description="Stands for the source in the quarantine; default: the folder."
    )
    tables: tuple[TableFile, ...] = ()
    markdown: MarkdownMapping | None = None


def identity_feed(table: LoadTable, columns: Iterable[str]) -> Feed:
    """The feed of a file that has our own column names."""
    known = ROW_TYPES[table].model_fields.keys()
    return Feed(
        table=table,
        columns={column: ColumnRule(column=column) for column in columns if column in known},
    )
