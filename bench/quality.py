"""Quality on public judgements: units that search finds, threads that questions resolve to, packs, and missing threads.

What stands beside what, in one run, on the same texts, the same vectors and the same questions. For units:

- *search*: the one search function of the product, on a published store, filter and read-back included, as a reader gets it;
- *BM25*: our two BM25 lists alone, from the same store (accents kept, folded; single words and pairs);
- *plain BM25*: the textbook formula over single words, accents kept, computed over arrays;
- *dense*: the nearest vectors alone, from the same store;
- *LlamaIndex*: the retriever of a ``VectorStoreIndex`` that was given the same vectors; it has no BM25 of its own.

Units are cut, embedded and written by the code of the nightly job: a chunk carries its unit's title, and a unit counts at the
place of its best chunk. Where judgements ask for that, there is a second set-up, named ``no headings``: one text an article
without its heading, one vector cut at the model's limit. The figures of the data's own pages were taken in that set-up.

For threads, a whole hub is loaded and published for every pool and asked through the service (`quality_hubs`,
`quality_threads`), with the numbers that are shipped; the thread of the best unit stands beside. Of a question that was made
from a heading, its own article is taken out of what search found, except where that article is what is asked for.

Vectors are kept in the home, so only a first run embeds: minutes for xquad and for the share of the PEPs, half an hour for
phapdien (with headings and without). There is no noise of the clock: quality does not depend on it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from bench.measuring import BenchSkippedError, Measure
from bench.quality_fit import Fitting
from bench.quality_hubs import (
    HubSource,
    open_hub,
    peps_hub,
    phapdien_hub,
    without_fold,
    xquad_hub,
    xquad_split_hub,
)
from bench.quality_search import measure_search
from bench.quality_tasks import (
    FOLDERS,
    PAIRS,
    Question,
    Task,
    judged_questions,
    peps_tasks,
    phapdien_tasks,
    strip_marks,
    xquad_tasks,
)
from bench.quality_threads import ThreadTask, measure_packs, measure_threads, observe
from bench.quality_vectors import BenchEmbedder, KeptVectors
from bench.retrieval import DATA
from threadhouse.retrieval.calibration import FOLDS, Observation
from threadhouse.stores.embedders import open_embedder
from threadhouse.stores.settings import Settings

SETS = tuple(FOLDERS)
PEPS_SHARE = 0.25
"""Of the 389 PEPs with sections: 2,000 sections, and 177 sentences elsewhere that cite one of them."""

BOTH_EVERY, EITHER_EVERY = 4, 2
"""Of the hubs in two languages every so many questions are asked: the hubs in one language say most of it."""

PARTS = ("units", "threads")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the defaults are quick."""
    parser.add_argument("--data", type=Path, default=DATA, help="Folder of the public data.")
    parser.add_argument(
        "--sets",
        nargs="+",
        choices=SETS,
        default=["xquad"],
        help="Which data; xquad alone is quick.",
    )
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=PARTS,
        default=list(PARTS),
        help="Units that search finds, threads that questions resolve to, or both.",
    )
    parser.add_argument("--only", default="", help="Only tasks whose name holds this text.")
    parser.add_argument(
        "--peps-share", type=float, default=PEPS_SHARE, help="Share of the PEPs that can be found."
    )
    parser.add_argument(
        "--no-boosts", action="store_true", help="Search units as with SEARCH_RERANK_ENABLED=false."
    )
    parser.add_argument(
        "--packs", type=int, default=4, help="Take the pack of every so many questions; 0: none."
    )
    parser.add_argument(
        "--folds", type=int, default=1, help="How many fifths of the threads are left out, in turn."
    )
    parser.add_argument(
        "--fit", type=Path, help="Fit the numbers of resolution, with all fifths left out in turn."
    )


def run(options: argparse.Namespace) -> list[Measure]:
    """Measure."""
    data: Path = options.data
    missing = [FOLDERS[name] for name in options.sets if not (data / FOLDERS[name]).is_dir()]
    if missing:
        message = (
            f"The public data (shared/data beside the checkout, or --data) has no {missing[0]}."
        )
        raise BenchSkippedError(message)
    settings = Settings.from_environment()
    inner = open_embedder(
        settings.home,
        model=settings.embedding_model,
        path=settings.embedding_path,
        threads=settings.embedding_threads,
    )
    measures: list[Measure] = []
    with closing(KeptVectors(settings.home / "bench" / "vectors.sqlite")) as kept:
        embedder = BenchEmbedder(inner, kept)
        if "units" in options.parts:
            for task in _unit_tasks(data, options):
                measures += measure_search(task, embedder, boosts=not options.no_boosts)
        if "threads" in options.parts:
            measures += _threads(data, options, embedder)
    return measures


def _unit_tasks(data: Path, options: argparse.Namespace) -> list[Task]:
    readers: Mapping[str, Callable[[Path], Sequence[Task]]] = {
        "xquad": xquad_tasks,
        "phapdien": phapdien_tasks,
        "peps": lambda folder: peps_tasks(folder, options.peps_share),
    }
    tasks = [task for name in options.sets for task in readers[name](data / FOLDERS[name])]
    return [task for task in tasks if options.only in task.name]


def _threads(data: Path, options: argparse.Namespace, embedder: BenchEmbedder) -> list[Measure]:
    measures: list[Measure] = []
    fitting = Fitting()
    for source, tasks in _hubs(data, options):
        wanted = [task for task in tasks if options.only in task.name]
        if not wanted:
            continue
        with open_hub(source, data, embedder) as hub:
            policy = hub.policy
            seen = {task.name: observe(hub, task) for task in wanted}
            packs = {
                task.name: measure_packs(hub, task, options.packs)
                for task in wanted
                if options.packs
            }
        gone: dict[str, list[Observation]] = {task.name: [] for task in wanted}
        for fold in range(FOLDS if options.fit else options.folds):
            with open_hub(without_fold(source, fold), data, embedder) as hub:
                for task in wanted:
                    gone[task.name] += observe(hub, task)
        for task in wanted:
            name = task.name
            measures += measure_threads(task, seen[name], gone[name], policy)
            if name in packs:
                measures.append(packs[name])
            fitting.add(seen[name], gone[name], policy)
    if options.fit:
        measures += fitting.fit(embedder.space.space_id, options.fit)
    return measures


def _hubs(data: Path, options: argparse.Namespace) -> list[tuple[HubSource, Sequence[ThreadTask]]]:
    hubs: list[tuple[HubSource, Sequence[ThreadTask]]] = []
    if "xquad" in options.sets:
        hubs += _xquad_hubs(data / FOLDERS["xquad"])
    if "phapdien" in options.sets:
        related, heading, *_ = phapdien_tasks(data / FOLDERS["phapdien"])
        tasks = [
            ThreadTask("phapdien related", related.questions, 0.97, without_own=True),
            ThreadTask("phapdien heading→body", heading.questions, 0.97),
            # As the data's page asks: both kinds of questions, and an article may lead to its own topic.
            ThreadTask("phapdien both", [*related.questions, *heading.questions], 0.97),
        ]
        hubs.append((phapdien_hub(), tasks))
    if "peps" in options.sets:
        (task,) = peps_tasks(data / FOLDERS["peps"], options.peps_share)
        hubs.append((peps_hub(options.peps_share), [ThreadTask(task.name, by_units(task))]))
    return hubs


def _xquad_hubs(folder: Path) -> list[tuple[HubSource, Sequence[ThreadTask]]]:
    judged = judged_questions(folder)
    asked = {pair: judged[pair.replace("→", "->")] for pair in PAIRS}
    asked["vi without marks→vi"] = [replace(q, text=strip_marks(q.text)) for q in asked["vi→vi"]]
    aims = {"vi→vi": 0.98, "en→en": 0.98, "vi→en": 0.90, "en→vi": 0.90}
    hubs: list[tuple[HubSource, Sequence[ThreadTask]]] = [
        (
            xquad_hub(language),
            [
                ThreadTask(f"xquad {pair}", questions, aims.get(pair))
                for pair, questions in asked.items()
                if pair.endswith(f"→{language}")
            ],
        )
        for language in ("vi", "en")
    ]
    some = {
        "vi": asked["vi→vi"],
        "en": asked["en→en"],
        "vi without marks": asked["vi without marks→vi"],
    }
    for source, into, every in (
        (xquad_hub(None), "both", BOTH_EVERY),
        (xquad_split_hub(), "either", EITHER_EVERY),
    ):
        tasks = [ThreadTask(f"xquad {name}→{into}", q[::every]) for name, q in some.items()]
        hubs.append((source, tasks))
    return hubs


def by_units(task: Task) -> list[Question]:
    """The questions of a task that judges documents, judged by the units of these documents."""
    units: dict[str, set[str]] = {}
    for unit in task.units:
        units.setdefault(unit.document_id, set()).add(unit.unit_id)
    return [
        replace(q, relevant=frozenset[str]().union(*(units.get(d, ()) for d in q.relevant)))
        for q in task.questions
    ]
