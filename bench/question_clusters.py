"""Groups of public questions against what they are about, for ``merge_similarity`` of ``cong.intake_policy``.

``python -m bench.question_clusters`` prints the table of docs/intake-proposals.md. *xquad*: questions in Vietnamese and English
together against their article; *phapdien*: headings and cross-references against their law. Purity is the share of questions in
groups of three or more that are of their group's most common article or law, covered the share of all questions in such a group.
Quality does not depend on the clock. 3,600 questions are embedded, which is what takes its time.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import numpy as np

from bench.retrieval import DATA, read_rows
from threadhouse.retrieval.models import Audience
from threadhouse.retrieval.ports import Embedder
from threadhouse.retrieval.query_text import prepare_query
from threadhouse.retrieval.question_clusters import (
    Asking,
    IntakePolicy,
    UnansweredQuestion,
    cluster_questions,
)
from threadhouse.stores.embedders import open_embedder
from threadhouse.stores.settings import Settings

SETS = {"xquad": "xquad_vi_en", "phapdien": "vn_phapdien"}
THRESHOLDS = (0.76, 0.78, 0.80, 0.82, 0.84)
SMALLEST = 3
"""Groups below it say little: two of any hundred questions are alike."""

ONCE = Asking(UUID(int=1), None, datetime(2026, 1, 1, tzinfo=UTC))


def main() -> None:
    """Print the table for the offline model of this home."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="Folder of the public data.")
    data: Path = parser.parse_args().data
    embedder = open_embedder(Settings.from_environment().home)
    measured = {name: measure(data / folder, embedder) for name, folder in SETS.items()}
    print("| `merge_similarity` | " + " | ".join(SETS) + " |")
    print("|---|" + "---|" * len(SETS))
    for threshold in THRESHOLDS:
        cells = [
            f"{measured[name][threshold][0]:.3f} / {measured[name][threshold][1]:.2f}"
            for name in SETS
        ]
        print(f"| {threshold:.2f} | " + " | ".join(cells) + " |")


def measure(folder: Path, embedder: Embedder) -> Mapping[float, tuple[float, float]]:
    """Purity and covered share by threshold."""
    about = {
        str(row["query_id"]): str(row["target_id"])
        for row in read_rows(folder / "qrels.jsonl")
        if row["target_kind"] == "thread"
    }
    questions: list[UnansweredQuestion] = []
    vectors: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = []
    for row in read_rows(folder / "queries.jsonl"):
        if str(row["query_id"]) in about:
            prepared = prepare_query(str(row["text"]), embedder.embed_query)
            vectors.append(prepared.vector.data[0])
            questions.append(
                UnansweredQuestion(
                    str(row["query_id"]),
                    Audience.CUSTOMER,
                    prepared.text,
                    prepared.language,
                    (ONCE,),
                )
            )
    found: dict[float, tuple[float, float]] = {}
    for threshold in THRESHOLDS:
        policy = IntakePolicy(1, embedder.space.space_id, threshold, SMALLEST, 1, 2)
        grouped = pure = 0
        for cluster in cluster_questions(questions, np.stack(vectors), policy):
            if len(cluster.questions) >= SMALLEST:
                counts = Counter(about[each.question_key] for each in cluster.questions)
                grouped += len(cluster.questions)
                pure += max(counts.values())
        found[threshold] = (pure / max(grouped, 1), grouped / len(questions))
    return found


if __name__ == "__main__":
    main()
