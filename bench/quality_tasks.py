"""What the quality benchmark asks, and of what: units, questions and judgements of the public data.

Belongs here: reading the data, which share of it is taken, what a question counts as found.
Does not belong here: vectors (quality_vectors), search and threads (quality_search, quality_threads).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.nightly import is_in_share
from bench.retrieval import read_rows
from threadhouse.retrieval.models import Json

FOLDERS = {"xquad": "xquad_vi_en", "phapdien": "vn_phapdien", "peps": "peps_lifecycle"}
LANGUAGES = ("vi", "en")
PAIRS = ("vi→vi", "en→en", "vi→en", "en→vi")
"""Language of the question → language of everything that can be found."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of a pool."""

    unit_id: str
    document_id: str
    threads: frozenset[str]
    language: str
    title: str
    body: str
    path: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """``relevant`` are ids of units, or of documents where a task judges documents; ``excluded`` must not count as found."""

    text: str
    relevant: frozenset[str]
    threads: frozenset[str]
    excluded: str | None = None
    question_id: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """Questions against a pool. ``whole`` is the set-up without headings; ``by_document`` judges documents."""

    name: str
    units: Sequence[Unit]
    questions: Sequence[Question]
    whole: bool = False
    by_document: bool = False


def xquad_tasks(folder: Path) -> list[Task]:
    """Each language is a pool of its own: in a mixed pool a question's translation would stand in its way."""
    units = {
        language: [
            Unit(
                str(row["unit_id"]),
                str(row["doc_id"]),
                frozenset({str(row["thread_id"])}),
                language,
                "",
                str(row["text"]),
                str(row["doc_id"]),
            )
            for row in read_rows(folder / "units.jsonl")
            if row["lang"] == language
        ]
        for language in LANGUAGES
    }
    judged = judged_questions(folder)
    tasks = [
        Task(f"xquad {pair}", units[pair[-2:]], judged[pair.replace("→", "->")]) for pair in PAIRS
    ]
    unmarked = [replace(q, text=strip_marks(q.text)) for q in judged["vi->vi"]]
    return [*tasks, Task("xquad vi without marks", units["vi"], unmarked)]


def phapdien_tasks(folder: Path) -> list[Task]:
    """Articles of law: which others experts linked to one, and the body that belongs to a heading."""
    units = [
        Unit(
            str(row["unit_id"]),
            str(row["doc_id"]),
            frozenset({str(row["thread_id"])}),
            "vi",
            str(row["heading"]),
            str(row["text"]),
            str(row["doc_id"]),
        )
        for row in read_rows(folder / "units.jsonl")
    ]
    judged = judged_questions(folder)
    # A heading's own body is what is asked for; what a related question was made from is not an answer to it.
    related, headings = judged["related"], judged["heading_to_body"]
    headings = [replace(question, excluded=None) for question in headings]
    return [
        Task("phapdien related", units, related),
        Task("phapdien heading→body", units, headings),
        Task("phapdien related, no headings", units, related, whole=True),
        Task("phapdien heading→body, no headings", units, headings, whole=True),
    ]


def peps_tasks(folder: Path, share: float) -> list[Task]:
    """Sentences that cite a PEP, to be answered by that PEP.

    A share of the documents, chosen by a hash of the id, is what can be found; asked is every sentence that cites one of them
    and stands in a PEP outside. So a sentence never finds itself, and a question was written by somebody else than its answer.
    """
    documents = {str(row["doc_id"]): row for row in read_rows(folder / "documents.jsonl")}
    threads: dict[str, set[str]] = {}
    for row in read_rows(folder / "threads.jsonl"):
        for document_id in strings(row["doc_ids"]):
            threads.setdefault(document_id, set()).add(str(row["thread_id"]))
    rows = read_rows(folder / "units.jsonl")
    written_in = {str(row["unit_id"]): str(row["doc_id"]) for row in rows}
    units = [
        Unit(
            str(row["unit_id"]),
            document_id,
            frozenset(threads.get(document_id, ())),
            "en",
            str(row["heading"]),
            str(row["text"]),
            str(documents[document_id].get("source_path") or document_id),
            tuple(strings(documents[document_id].get("topic_raw"))),
        )
        for row in rows
        for document_id in [str(row["doc_id"])]
        if not row["empty"] and is_in_share(document_id, share)
    ]
    there = {unit.document_id for unit in units}
    questions = [
        question
        for question in judged_questions(folder)["citation"]
        if question.relevant <= there and written_in[question.excluded or ""] not in there
    ]
    return [Task("peps citation", units, questions, by_document=True)]


def judged_questions(folder: Path) -> dict[str, list[Question]]:
    """By subset. The judged threads of a question are those of all its subsets."""
    rows = {str(row["query_id"]): row for row in read_rows(folder / "queries.jsonl")}
    relevant: dict[tuple[str, str], set[str]] = {}
    threads: dict[str, set[str]] = {}
    for judgement in read_rows(folder / "qrels.jsonl"):
        question_id, target = str(judgement["query_id"]), str(judgement["target_id"])
        if judgement["target_kind"] == "thread":
            threads.setdefault(question_id, set()).add(target)
        else:
            relevant.setdefault((str(judgement["subset"]), question_id), set()).add(target)
    judged: dict[str, list[Question]] = {}
    for (subset, question_id), targets in relevant.items():
        row: Mapping[str, Json] = rows[question_id]
        source = row.get("source_unit")
        judged.setdefault(subset, []).append(
            Question(
                str(row["text"]),
                frozenset(targets),
                frozenset(threads.get(question_id, ())),
                str(source) if source is not None else None,
                question_id,
            )
        )
    return judged


def strings(value: Json) -> list[str]:
    """A list, a single value, or nothing, as texts."""
    if isinstance(value, list):
        return [str(item) for item in value]
    return [str(value)] if value else []


def strip_marks(text: str) -> str:
    """A question as it is typed without Vietnamese marks; capitals stay."""
    bare = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    return bare.replace("đ", "d").replace("Đ", "D")
