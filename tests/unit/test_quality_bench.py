"""What the quality benchmark asks and how it counts; no model, no store.

Belongs here: its tasks and its arithmetic. Does not belong here: running it.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from bench.quality import by_units
from bench.quality_tasks import Question, Task, Unit, judged_questions, peps_tasks, strip_marks


def unit(unit_id: str, document_id: str) -> Unit:
    return Unit(unit_id, document_id, frozenset(), "en", "", "text", "")


def write(folder: Path, name: str, rows: list[dict[str, object]]) -> None:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_a_question_without_marks_keeps_its_capitals() -> None:
    assert strip_marks("Đường về Huế?") == "Duong ve Hue?"


def test_judged_threads_belong_to_a_question_whatever_its_subset(tmp_path: Path) -> None:
    write(tmp_path, "queries.jsonl", [{"query_id": "q", "text": "?", "source_unit": "u0"}])
    judgements = [("unit", "related", "u1"), ("unit", "related", "u2"), ("thread", "thread", "t")]
    write(
        tmp_path,
        "qrels.jsonl",
        [
            {"query_id": "q", "target_kind": kind, "subset": subset, "target_id": target}
            for kind, subset, target in judgements
        ],
    )
    (found,) = judged_questions(tmp_path)["related"]
    assert found == Question("?", frozenset({"u1", "u2"}), frozenset({"t"}), "u0", "q")


def test_documents_are_judged_by_their_units() -> None:
    task = Task(
        "t",
        [unit("a1", "a"), unit("a2", "a"), unit("b1", "b")],
        [Question("?", frozenset({"a", "gone"}), frozenset())],
        by_document=True,
    )
    assert by_units(task)[0].relevant == {"a1", "a2"}


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_a_sentence_about_a_pep_stands_in_a_pep_that_cannot_be_found(
    tmp_path: Path, share: float
) -> None:
    names = [f"pep-{number:04}" for number in range(60)]
    write(tmp_path, "documents.jsonl", [{"doc_id": name} for name in names])
    write(tmp_path, "threads.jsonl", [{"thread_id": "t", "doc_ids": names}])
    write(
        tmp_path,
        "units.jsonl",
        [
            {"unit_id": f"{name}/s", "doc_id": name, "heading": "h", "text": "x", "empty": False}
            for name in names
        ],
    )
    pairs = list(pairwise(names))
    write(
        tmp_path,
        "queries.jsonl",
        [{"query_id": a, "text": "?", "source_unit": f"{a}/s"} for a, _ in pairs],
    )
    write(
        tmp_path,
        "qrels.jsonl",
        [
            {"query_id": a, "target_kind": "document", "subset": "citation", "target_id": b}
            for a, b in pairs
        ],
    )
    (task,) = peps_tasks(tmp_path, share)
    there = {each.document_id for each in task.units}
    assert task.questions
    for question in task.questions:
        assert question.relevant <= there
        assert str(question.excluded).removesuffix("/s") not in there
