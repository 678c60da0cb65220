"""Files of a source, as text and raw records.

Belongs here: which files of a folder are loaded, decoding, splitting JSONL, CSV and Parquet into records with their lines.
Does not belong here: what a record means (retrieval.sources, retrieval.markdown_units), writing (stores.loading).
"""

from __future__ import annotations

import codecs
import csv
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

import yaml
from pydantic import ValidationError

from threadhouse.retrieval.errors import LoadError
from threadhouse.retrieval.source_mapping import SourceMapping, TableFile
from threadhouse.retrieval.sources import (
    Fault,
    LoadTable,
    Origin,
    explain,
)

MARKDOWN_ENDINGS = frozenset({".md", ".markdown", ".txt"})
TABLE_ENDINGS = frozenset({".jsonl", ".csv", ".parquet"})
DOCUMENTS_FOLDER = "documents"
REVISIONS_FOLDER = "revisions"

_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
_RAW_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class MarkdownFile:
    """``identity`` names the document when its front matter does not: an older text has that of the newer one."""

    path: Path
    name: str
    identity: str


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table file and what it feeds; ``path`` is None for rows that the mapping itself states."""

    path: Path | None
    name: str
    plan: TableFile | LoadTable


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is not loaded, and why; never silent."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """What a load will read, in order."""

    revisions: tuple[MarkdownFile, ...]
    documents: tuple[MarkdownFile, ...]
    tables: tuple[TableSource, ...]
    skipped: tuple[SkippedFile, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One row as the file has it."""

    values: dict[str, object]
    origin: Origin


def read_mapping(path: Path) -> SourceMapping:
    """Read and check a mapping file.

    Raises:
        LoadError: It cannot be read, is not YAML, or says something a mapping cannot say.
    """
    try:
        data: object = yaml.safe_load(path.read_text(encoding="utf-8"))
        return SourceMapping.model_validate(data)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        message = f"The mapping {path} cannot be read: {_one_line(error)}."
        raise LoadError(message) from None
    except ValidationError as error:
        field, reason, _ = next(explain(error))
        message = f"The mapping {path} is wrong at {field or 'its top'}: {reason}."
        raise LoadError(message) from None


def survey(path: Path, mapping: SourceMapping | None) -> SourceFiles:
    """Find what to load below a folder, or around a single file.

    Raises:
        LoadError: There is no such path, the mapping names a file that is not there, or there is nothing to load.
    """
    _require_readable(path)
    root = path if path.is_dir() else path.parent
    skipped: list[SkippedFile] = []
    found = [path] if path.is_file() else list(_walk(root, skipped))
    tables = list(_mapped_tables(root, path, mapping)) if mapping and mapping.tables else []
    mapped = {table.path for table in tables}
    has_documents_folder = path.is_dir() and (root / DOCUMENTS_FOLDER).is_dir()
    revisions: list[MarkdownFile] = []
    documents: list[MarkdownFile] = []
    for file in found:
        name = file.relative_to(root).as_posix()
        ending = file.suffix.lower()
        if file in mapped:
            continue
        if ending in TABLE_ENDINGS:
            table = file.stem if file.stem in set(LoadTable) else None
            if mapping and mapping.tables:
                skipped.append(SkippedFile(name, "the mapping does not name it"))
            elif table is None:
                skipped.append(
                    SkippedFile(
                        name,
                        f"{file.stem} is the name of no table; a mapping can say what it feeds",
                    )
                )
            else:
                tables.append(TableSource(file, name, LoadTable(table)))
        elif ending not in MARKDOWN_ENDINGS:
            skipped.append(
                SkippedFile(
                    name, "not Markdown and not a table (.md .markdown .txt .jsonl .csv .parquet)"
                )
            )
        elif mapping and mapping.tables and mapping.markdown is None:
            skipped.append(SkippedFile(name, "the mapping takes tables only"))
        else:
            _sort_markdown(file, name, has_documents_folder, revisions, documents, skipped)
    if not (revisions or documents or tables):
        message = f"{path} holds nothing to load: no Markdown and no table file."
        raise (
            LoadError(message)
            if not skipped
            else LoadError(f"{message[:-1]}; skipped: {_list(skipped)}.")
        )
    order = {table: index for index, table in enumerate(LoadTable)}
    # Files of one table load in name order; a mapping's own order counts, older texts stand first there.
    tables.sort(key=lambda source: order[source.plan] if isinstance(source.plan, LoadTable) else -1)
    return SourceFiles(tuple(revisions), tuple(documents), tuple(tables), tuple(skipped))


def _require_readable(path: Path) -> None:
    if not path.exists():
        message = f"{path} does not exist; give the folder or file to load."
        raise LoadError(message)
    if not (path.is_dir() or path.is_file()):
        message = f"{path} is neither a folder nor a regular file; give the folder or file to load."
        raise LoadError(message)


def _list(skipped: list[SkippedFile]) -> str:
    return ", ".join(f"{file.file} ({file.reason})" for file in skipped[:3])


def _sort_markdown(
    file: Path,
    name: str,
    has_documents_folder: bool,
    revisions: list[MarkdownFile],
    documents: list[MarkdownFile],
    skipped: list[SkippedFile],
) -> None:
    top, _, rest = name.partition("/")
    if top == REVISIONS_FOLDER and rest:
        revisions.append(
            MarkdownFile(file, name, f"{DOCUMENTS_FOLDER}/{rest}" if has_documents_folder else rest)
        )
    elif has_documents_folder and top != DOCUMENTS_FOLDER:
        skipped.append(SkippedFile(name, f"outside {DOCUMENTS_FOLDER}/ and {REVISIONS_FOLDER}/"))
    else:
        documents.append(MarkdownFile(file, name, name))


def _walk(root: Path, skipped: list[SkippedFile]) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        place = Path(error.filename).relative_to(root).as_posix() if error.filename else "?"
        skipped.append(SkippedFile(place, f"cannot be read: {error.strerror}"))

    for folder, folders, files in os.walk(root, onerror=refuse):
        here = Path(folder)
        hidden = [name for name in folders if name.startswith(".")]
        linked = [name for name in folders if (here / name).is_symlink()]
        skipped.extend(
            SkippedFile((here / name).relative_to(root).as_posix() + "/", "hidden")
            for name in hidden
        )
        skipped.extend(
            # A link may lead out of the folder, or back into it for ever.
            SkippedFile((here / name).relative_to(root).as_posix() + "/", "a linked folder")
            for name in linked
        )
        folders[:] = sorted(set(folders) - set(hidden) - set(linked))
        for name in sorted(files):
            file = here / name
            relative = file.relative_to(root).as_posix()
            if name.startswith("."):
                skipped.append(SkippedFile(relative, "hidden"))
            elif not file.is_file():
                skipped.append(SkippedFile(relative, "not a regular file"))
            else:
                yield file


def _mapped_tables(root: Path, path: Path, mapping: SourceMapping) -> Iterator[TableSource]:
    for plan in mapping.tables:
        if plan.file is None:
            yield TableSource(None, "(the mapping)", plan)
            continue
        file = root / plan.file
        if path.is_file() and file != path:
            continue
        if not file.resolve().is_relative_to(root.resolve()):
            message = f"The mapping names {plan.file}, which lies outside {root}."
            raise LoadError(message)
        if not file.is_file():
            message = f"The mapping names {plan.file}, which is not in {root}."
            raise LoadError(message)
        yield TableSource(file, plan.file, plan)


def read_text(file: MarkdownFile) -> str | Fault:
    """The text of a Markdown file without its byte order mark, or why it is no text."""
    key = f"{LoadTable.PRODUCTION_DOCUMENT}:{file.name}"
    try:
        data = file.path.read_bytes()
    except OSError as error:
        return Fault(key, Origin(file.name), "", f"cannot be read: {error.strerror}")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return Fault(key, Origin(file.name), "", "is UTF-16; save it as UTF-8")
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        reason = f"is not UTF-8: byte 0x{data[error.start]:02x}"
        return Fault(
            key,
            Origin(file.name, line),
            "",
            reason,
            repr(data[max(0, error.start - 40) : error.start + 40]),
        )


def read_records(source: TableSource) -> Iterator[Record | Fault]:
    """Every row of a table file, or what is wrong with a line."""
    if source.path is None:
        rows = source.plan.rows if isinstance(source.plan, TableFile) else ()
        yield from (
            Record(dict(row), Origin(source.name, number)) for number, row in enumerate(rows, 1)
        )
        return
    read = {".jsonl": _read_jsonl, ".csv": _read_csv, ".parquet": _read_parquet}.get(
        source.path.suffix.lower()
    )
    if read is None:
        yield _file_fault(source.name, "has an ending that is none of .jsonl, .csv and .parquet")
        return
    try:
        yield from read(source.path, source.name)
    except OSError as error:
        yield _file_fault(source.name, f"cannot be read: {error.strerror or _one_line(error)}")


def _file_fault(name: str, reason: str, line: int | None = None, raw: str | None = None) -> Fault:
    key = f"file:{name}" if line is None else f"file:{name}:{line}"
    return Fault(key, Origin(name, line), "", reason, None if raw is None else raw[:_RAW_CHARS])


def _read_jsonl(path: Path, name: str) -> Iterator[Record | Fault]:
    with path.open("rb") as file:
        # Bytes first: one line that is not UTF-8 must not end the file, and only \n ends a line.
        for number, data in enumerate(file, 1):
            raw = data.removeprefix(codecs.BOM_UTF8) if number == 1 else data
            if not raw.strip():
                continue
            try:
                text = raw.decode()
            except UnicodeDecodeError as error:
                yield _file_fault(
                    name, f"is not UTF-8: byte 0x{raw[error.start]:02x}", number, repr(raw[:200])
                )
                continue
            try:
                values: object = json.loads(
                    text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_doubles
                )
            except RecursionError:
                yield _file_fault(name, "is nested too deep", number, text)
            except ValueError as error:
                yield _file_fault(name, f"is not JSON: {_one_line(error)}", number, text)
            else:
                if isinstance(values, dict):
                    yield Record(cast("dict[str, object]", values), Origin(name, number))
                else:
                    yield _file_fault(name, "is no JSON object", number, text)


def _refuse_constant(constant: str) -> NoReturn:
    message = f"{constant} is no JSON value"
    raise ValueError(message)


def _refuse_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) != len(pairs):
        message = "a name is given twice"
        raise ValueError(message)
    return values


def _read_csv(path: Path, name: str) -> Iterator[Record | Fault]:
    # Texts are longer than the 128 kB that the csv module allows a cell.
    csv.field_size_limit(2**31 - 1)
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(file, strict=True)
        rows = _csv_rows(reader)
        header: list[str] | None = None
        for number, row in rows:
            if isinstance(row, csv.Error):
                yield _file_fault(name, f"is not CSV: {row}", number)
            elif not row:
                continue
            elif any(_ESCAPED_BYTE.search(cell) for cell in row):
                yield _file_fault(name, "is not UTF-8", number, repr(row)[:200])
                if header is None:
                    return
            elif header is None:
                header = row
                if len(set(header)) != len(header):
                    yield _file_fault(name, "a column is named twice", number, ",".join(row))
                    return
            elif len(row) != len(header):
                yield _file_fault(
                    name, f"has {len(row)} columns instead of {len(header)}", number, ",".join(row)
                )
            else:
                yield Record(dict(zip(header, row, strict=True)), Origin(name, number))


def _csv_rows(reader: Iterable[list[str]]) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Rows with the line they start on; a malformed one as the error, reading goes on after it."""
    iterator = iter(reader)
    while True:
        start = int(getattr(iterator, "line_num", 0)) + 1
        try:
            yield start, next(iterator)
        except csv.Error as error:
            yield start, error
        except StopIteration:
            return


def _read_parquet(path: Path, name: str) -> Iterator[Record | Fault]:
    import polars as pl

    # Polars panics, which is no PolarsError, at types and times that it does not know.
    unreadable = (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        ValueError,
        OverflowError,
    )
    try:
        frame = pl.read_parquet(path)
    except unreadable as error:
        yield _file_fault(name, f"is not a readable Parquet file: {_one_line(error)}")
        return
    for number in range(frame.height):
        origin = Origin(name, number + 1)
        try:
            yield Record(frame.row(number, named=True), origin)
        except unreadable as error:
            yield _file_fault(
                name, f"holds a value that cannot be read: {_one_line(error)}", number + 1
            )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200].rstrip(".")
