"""Judged queries as files: which threads answer which question.

Belongs here: reading them. Does not belong here: asking the questions (serving), fitting to them (retrieval.calibration).

Two forms: a JSONL file whose lines hold ``text`` and ``thread_ids``; or a folder with ``queries.jsonl`` (``query_id``, ``text``)
and ``qrels.jsonl`` (``query_id``, ``target_id``, ``target_kind``, ``grade``), of which the judgements of kind ``thread`` count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field, ValidationError

from threadhouse.retrieval.errors import LoadError
from threadhouse.retrieval.models import ThreadId

QUERIES = "queries.jsonl"
JUDGEMENTS = "qrels.jsonl"


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A question and the threads that answer it; none means that a thread is missing."""

    query_id: str
    text: str
    right: frozenset[ThreadId]


class _Line(BaseModel):
    text: str = Field(min_length=1)
    thread_ids: list[str]


class _Query(BaseModel):
    query_id: str
    text: str = Field(min_length=1)


class _Judgement(BaseModel):
    query_id: str
    target_id: str
    target_kind: str
    grade: float = 1


_Row = TypeVar("_Row", bound=BaseModel)


def read_judged_queries(path: Path) -> list[JudgedQuery]:
    """Every judged query of a file or a folder, in order. In a folder, queries without a judged thread are left out.

    Raises:
        LoadError: There is no such path, or a line is not what it should be; the message names it.
    """
    if path.is_dir():
        right: defaultdict[str, set[ThreadId]] = defaultdict(set)
        for _, row in _rows(path / JUDGEMENTS, _Judgement):
            if row.target_kind == "thread" and row.grade > 0:
                right[row.query_id].add(ThreadId(row.target_id))
        return [
            JudgedQuery(row.query_id, row.text, frozenset(right[row.query_id]))
            for _, row in _rows(path / QUERIES, _Query)
            if row.query_id in right
        ]
    return [
        JudgedQuery(f"{path.name}:{number}", row.text, frozenset(map(ThreadId, row.thread_ids)))
        for number, row in _rows(path, _Line)
    ]


def _rows(path: Path, kind: type[_Row]) -> Iterator[tuple[int, _Row]]:
    if not path.is_file():
        message = (
            f"{path} does not exist; give a JSONL file or a folder with {QUERIES} and {JUDGEMENTS}."
        )
        raise LoadError(message)
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield number, kind.model_validate_json(line)
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                field = ".".join(map(str, first["loc"])) or "line"
                message = f"{path}, line {number}: {field}: {first['msg']}; correct it."
                raise LoadError(message) from None
