"""A Markdown file as one document and its units.

Belongs here: front matter, which headings open units, what a unit's text and address are.
Does not belong here: reading files (stores.source_files), checks of values that tables share (retrieval.sources).

A unit's body is a slice of the source between two headings, never rendered text. Structure comes from a CommonMark parser, so a
``#`` inside a fence, a list or a quotation opens nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.attrs.parse import ParseError, parse
from mdit_py_plugins.front_matter import front_matter_plugin

from threadhouse.retrieval.models import LifecycleStage
from threadhouse.retrieval.source_mapping import MarkdownMapping
from threadhouse.retrieval.sources import (
    FLAG_NAMES,
    FRONT_MATTER_KEYS,
    CheckedRow,
    Fault,
    LoadTable,
    Origin,
    check_row,
    find_line_fault,
    has_storable_characters,
    normalise_text,
)

UNIT_ATTRIBUTES = frozenset({*FLAG_NAMES, "lifecycle_stage", "unit_kind", "data_classification"})
"""What ``{#id key=value}`` after a heading may set."""

FRONT_SUFFIX = "0"
"""Address of the text between the title and the first heading below it."""

_FIRST_YAML_LINE = 2  # YAML counts from 0, and the opening fence is line 1 of the file.
_TITLE, _TOP, _SUB = "h1", "h2", "h3"


@dataclass(frozen=True, slots=True)
class MarkdownDocument:
    """What one file holds. ``document`` is None when the file as a whole was refused, or when it is stored already."""

    document: CheckedRow | None
    units: tuple[CheckedRow, ...] = ()
    faults: tuple[Fault, ...] = ()
    unit_ids: frozenset[str] = frozenset()
    """Every unit the file names, refused ones included."""
    ignored_keys: frozenset[str] = frozenset()
    grouping_headings: tuple[str, ...] = ()
    """Headings that have no text of their own, only headings below them; their words are in the document's body."""


@dataclass(frozen=True, slots=True)
class _Heading:
    """A top-level heading of level 1 to 3; lines count from 0, ``end_line`` is the first line after it."""

    tag: str
    title: str
    identifier: str | None
    attributes: Mapping[str, str]
    first_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class _Section:
    """Text below one heading; ``line`` is the heading's, from 1. ``attributes`` include what the parent hands down."""

    suffix: str
    title: str
    body: str
    line: int
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class _FrontMatter:
    values: dict[str, object]
    lines: dict[str, int]
    faults: list[Fault]


def read_markdown(
    text: str, path: str, mapping: MarkdownMapping | None = None, *, identity: str | None = None
) -> MarkdownDocument:
    """Cut a Markdown text into a document and its units.

    Args:
        text: The file without its byte order mark, any newline style, any normal form.
        path: Where it stands below the loaded folder, with ``/``; appears in messages.
        mapping: Rules for front matter that uses other names.
        identity: What names the document when the front matter does not; default: ``path``.
    """
    source = normalise_text(text)
    refusal = (
        has_storable_characters(text)
        or (None if text.strip() else "the file is empty")
        or find_line_fault(source)
    )
    if refusal:
        return MarkdownDocument(None, faults=(_fault(path, "", refusal),))
    tokens = _parser().parse(source)
    front = _read_front_matter(tokens, path)
    values, ignored = _apply_mapping(front.values, path, mapping)
    front.faults.extend(_refuse_unknown_keys(front, ignored, mapping, path))
    if front.faults:
        return MarkdownDocument(None, faults=tuple(front.faults))
    lines = source.split("\n")
    start = _content_start(tokens)
    headings = list(_headings(tokens))
    name = identity or path
    values.setdefault("document_id", name)
    values.setdefault("path", name)
    titles = (heading.title for heading in headings if heading.title)
    values.setdefault("title", next(titles, name.rsplit("/", 1)[-1]))
    if "document_id" not in front.values:
        values.setdefault("lifecycle_stage", LifecycleStage.REPORT)
    unit_mode = values.pop("units", "headings")
    checked = _check_document({**values, "body": _slice(lines, start, len(lines))}, unit_mode, path)
    if isinstance(checked, list):
        return MarkdownDocument(None, faults=tuple(_place(checked, front.lines)))
    if unit_mode == "none":
        return MarkdownDocument(checked, ignored_keys=ignored)
    sections, grouping = _sections(lines, start, headings, normalise_text(str(values["title"])))
    units, unit_faults = _check_units(sections, values, path)
    unit_ids = frozenset(_address(values, section) for section in sections)
    return MarkdownDocument(
        checked, tuple(units), tuple(unit_faults), unit_ids, ignored, tuple(grouping)
    )


def cut_body(body: str, values: Mapping[str, object], path: str) -> MarkdownDocument:
    """Cut the body of a stored document into the units that the file would have given it was loaded from.

    Args:
        body: Without front matter; one that begins with ``---`` begins with a line.
        values: What front matter and document say: ``document_id``, ``title``, and what else a unit takes over.
        path: Appears in messages.
    """
    source = normalise_text(body)
    lines = source.split("\n")
    headings = list(_headings(_body_parser().parse(source)))
    sections, grouping = _sections(lines, 0, headings, normalise_text(str(values["title"])))
    units, faults = _check_units(sections, values, path)
    unit_ids = frozenset(_address(values, section) for section in sections)
    return MarkdownDocument(
        None, tuple(units), tuple(faults), unit_ids, grouping_headings=tuple(grouping)
    )


def _fault(path: str, name: str, reason: str, line: int | None = None) -> Fault:
    """Something wrong with the file as a document; it goes by the file, because its id may be what is wrong."""
    return Fault(f"{LoadTable.PRODUCTION_DOCUMENT}:{path}", Origin(path, line), name, reason)


def _check_document(
    values: Mapping[str, object], unit_mode: object, path: str
) -> CheckedRow | list[Fault]:
    checked = check_row(LoadTable.PRODUCTION_DOCUMENT, values, Origin(path))
    faults = list(checked) if isinstance(checked, list) else []
    if not str(values["body"]).strip():
        faults.append(_fault(path, "body", "there is no text after the front matter"))
    if unit_mode not in ("headings", "none"):
        faults.append(_fault(path, "units", "is not one of 'headings' or 'none'"))
    if not isinstance(values.get("address_prefix", ""), str):
        faults.append(_fault(path, "address_prefix", "is not a text"))
    return faults or checked


def _parser() -> MarkdownIt:
    return _body_parser().use(front_matter_plugin)


def _body_parser() -> MarkdownIt:
    # Inline structure is not needed, and skipping it makes a megabyte of text cheap.
    return MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])


def _content_start(tokens: list[Token]) -> int:
    if tokens and tokens[0].type == "front_matter" and tokens[0].map:
        return tokens[0].map[1]
    return 0


# --- Front matter ------------------------------------------------------------------------------------------------------


def _read_front_matter(tokens: list[Token], path: str) -> _FrontMatter:
    front = _FrontMatter({}, {}, [])
    if not tokens or tokens[0].type != "front_matter":
        return front
    content = tokens[0].content
    try:
        node = _compose(content)
        if node is not None and not isinstance(node, yaml.MappingNode):
            front.faults.append(
                _fault(path, "", "the front matter is no list of names and values", 1)
            )
        elif node is not None:
            for name_node, value_node in node.value:
                _take_value(front, name_node, value_node, path)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "holds a character that YAML does not allow"
        line = mark.line + _FIRST_YAML_LINE if mark else 1
        front.faults.append(_fault(path, "", f"the front matter is not YAML: {problem}", line))
    except RecursionError:
        front.faults.append(_fault(path, "", "the front matter is nested too deep", 1))
    return front


def _take_value(
    front: _FrontMatter, name_node: yaml.Node, value_node: yaml.Node, path: str
) -> None:
    line = name_node.start_mark.line + _FIRST_YAML_LINE
    name = str(name_node.value)
    if name in front.values:
        front.faults.append(_fault(path, name, "is given twice in the front matter", line))
    try:
        # PyYAML lets an impossible date through as a bare ValueError.
        constructed = _construct(value_node)
    except ValueError as error:
        reason = f"is no value that YAML knows: {error}"
        front.faults.append(_fault(path, name, reason, line))
        return
    front.values[name] = _plain(value_node, constructed)
    front.lines[name] = line


def _compose(content: str) -> yaml.Node | None:
    return cast("Any", yaml).compose(content, Loader=yaml.SafeLoader)


def _construct(node: yaml.Node) -> object:
    loader = cast("Any", yaml.SafeLoader(""))
    return loader.construct_object(node, deep=True)


def _plain(node: yaml.Node, constructed: object) -> object:
    """Scalars as they are written: YAML would read ``1.10`` as 1.1, ``no`` as false and a date as an object."""
    if isinstance(node, yaml.ScalarNode):
        return None if constructed is None else node.value
    if isinstance(node, yaml.SequenceNode) and isinstance(constructed, list):
        items = cast("list[object]", constructed)
        return [
            part.value if isinstance(part, yaml.ScalarNode) else item
            for part, item in zip(node.value, items, strict=True)
        ]
    return constructed


def _refuse_unknown_keys(
    front: _FrontMatter, ignored: frozenset[str], mapping: MarkdownMapping | None, path: str
) -> Iterator[Fault]:
    """A file that names its document speaks our format, and a key mistyped there would open what it meant to close.

    Foreign front matter, and any under a mapping, may hold whatever it likes.
    """
    if mapping is None and "document_id" in front.values:
        for name in sorted(ignored):
            known = ", ".join(sorted(FRONT_MATTER_KEYS))
            reason = f"is no front matter key; known: {known}"
            yield _fault(path, name, reason, front.lines.get(name))


def _apply_mapping(
    front: Mapping[str, object], path: str, mapping: MarkdownMapping | None
) -> tuple[dict[str, object], frozenset[str]]:
    values: dict[str, object] = {
        name: value
        for name, value in front.items()
        if name in FRONT_MATTER_KEYS and value not in (None, "")
    }
    ignored = set(front) - FRONT_MATTER_KEYS
    if mapping is not None:
        stem = path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
        row = {**front, "_path": path, "_stem": stem}
        for name, rule in mapping.columns.items():
            found = rule.read(row)
            ignored -= set(rule.columns_read())
            if found is None or found == "":
                values.pop(name, None)
            else:
                values[name] = found
    return values, frozenset(ignored)


# --- Headings and sections ---------------------------------------------------------------------------------------------


def _headings(tokens: list[Token]) -> Iterator[_Heading]:
    for opening, inline in pairwise(tokens):
        if (
            opening.type == "heading_open"
            and opening.level == 0
            and opening.tag in {_TITLE, _TOP, _SUB}
            and opening.map
        ):
            title, attributes = _split_attributes(inline.content)
            identifier = attributes.pop("id", None)
            # A setext heading may span lines; its title is one line all the same.
            one_line = " ".join(title.split("\n"))
            yield _Heading(
                opening.tag, one_line, identifier, attributes, opening.map[0], opening.map[1]
            )


def _split_attributes(content: str) -> tuple[str, dict[str, str]]:
    """A heading's text and its trailing pandoc attribute block; braces that are no such block stay text."""
    stripped = content.rstrip()
    if not stripped.endswith("}"):
        return content.strip(), {}
    start = stripped.rfind("{")
    while start >= 0:
        block = stripped[start:]
        try:
            end, attributes = parse(block)
        except ParseError:
            end, attributes = -1, {}
        if end == len(block) - 1 and attributes:
            return stripped[:start].rstrip(), dict(attributes)
        start = stripped.rfind("{", 0, start)
    return content.strip(), {}


def _sections(
    lines: list[str], start: int, headings: list[_Heading], document_title: str
) -> tuple[list[_Section], list[str]]:
    """Sections in order, and the titles of headings that only group others."""
    titled = bool(headings) and headings[0].tag == _TITLE
    below = headings[1:] if titled else headings
    sections: list[_Section] = []
    grouping: list[str] = []
    front = _front_text(lines, start, headings[0] if titled else None, below, document_title)
    if front.strip():
        sections.append(_Section(FRONT_SUFFIX, document_title, front, start + 1))
    top, sub = 0, 0
    handed_down: Mapping[str, str] = {}
    for index, heading in enumerate(below):
        following = below[index + 1] if index + 1 < len(below) else None
        # A second "#" heading ranks with "##": files from elsewhere have several.
        if heading.tag == _SUB:
            sub += 1
            number, attributes = f"{top}.{sub}", {**handed_down, **heading.attributes}
        else:
            top, sub = top + 1, 0
            number, attributes = str(top), dict(heading.attributes)
            handed_down = attributes
        body = _slice(lines, heading.end_line, following.first_line if following else len(lines))
        if not body.strip() and following is not None and following.tag > heading.tag:
            grouping.append(heading.title)
            continue
        sections.append(
            _Section(
                heading.identifier or number,
                heading.title,
                body,
                heading.first_line + 1,
                attributes,
            )
        )
    return sections, grouping


def _front_text(
    lines: list[str], start: int, title: _Heading | None, below: list[_Heading], document_title: str
) -> str:
    """Text before the first heading of a unit. The title's own line is left out where it only repeats the title."""
    end = below[0].first_line if below else len(lines)
    if title is None:
        return _slice(lines, start, end)
    stands_first = not _slice(lines, start, title.first_line).strip()
    is_repetition = (
        title.title == document_title and not title.attributes and title.identifier is None
    )
    return _slice(lines, title.end_line if stands_first and is_repetition else start, end)


def _slice(lines: list[str], start: int, end: int) -> str:
    """The lines as they are, without blank lines at either end."""
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return "\n".join(lines[start:end])


def _address(values: Mapping[str, object], section: _Section) -> str:
    return normalise_text(
        f"{values.get('address_prefix') or values['document_id']}/{section.suffix}"
    )


def _check_units(
    sections: list[_Section], values: Mapping[str, object], path: str
) -> tuple[list[CheckedRow], list[Fault]]:
    document_id = str(values["document_id"])
    units: list[CheckedRow] = []
    faults: list[Fault] = []
    seen: dict[str, int] = {}
    for ordinal, section in enumerate(sections):
        origin = Origin(path, section.line)
        raw: dict[str, object] = {
            # The address is the unit's only name that its author chose, so it is the identity too.
            "logical_unit_id": _address(values, section),
            "document_id": document_id,
            "canonical_address": _address(values, section),
            "unit_kind": values.get("unit_kind"),
            "lifecycle_stage": values.get("lifecycle_stage"),
            "data_classification": values.get("data_classification"),
            "revision": values.get("revision"),
            "created_at": values.get("updated_at"),
            "ordinal": ordinal,
            "title": section.title,
            "body": section.body,
            **section.attributes,
        }
        key = f"{LoadTable.LOGICAL_UNIT}:{raw['logical_unit_id']}"
        unknown = section.attributes.keys() - UNIT_ATTRIBUTES
        # A mistyped "visibilty=internal" must not open what its author meant to close.
        found = [
            Fault(
                key,
                origin,
                name,
                f"is no attribute of a unit; known: {', '.join(sorted(UNIT_ATTRIBUTES))}",
            )
            for name in sorted(unknown)
        ]
        if section.suffix in seen:
            reason = f"{section.suffix} is given twice in this file, first on line {seen[section.suffix]}"
            found.append(Fault(f"{key}:{ordinal}", origin, "canonical_address", reason))
        checked = None if unknown else check_row(LoadTable.LOGICAL_UNIT, raw, origin)
        if isinstance(checked, list):
            found.extend(checked)
        if found or not isinstance(checked, CheckedRow):
            faults.extend(found)
            continue
        seen[section.suffix] = section.line
        units.append(checked)
    return units, faults


def _place(faults: list[Fault], lines: Mapping[str, int]) -> Iterator[Fault]:
    for fault in faults:
        yield Fault(
            fault.item_key,
            Origin(fault.origin.file, lines.get(fault.field)),
            fault.field,
            fault.reason,
            fault.raw,
        )
