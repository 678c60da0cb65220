"""The commands of the query path: ask, say what an answer was worth, fit the thresholds.

Belongs here: options, what is printed.
Does not belong here: answering (serving), fitting (retrieval.calibration), other commands (cli).

Whose rights apply is said by a token or, on trust, by ``--audience`` (cli_principal).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import click

from threadhouse.pipelines.cli_principal import Asking, takes_principal

if TYPE_CHECKING:
    from threadhouse.retrieval.calibration import Observation
    from threadhouse.retrieval.models import Json
    from threadhouse.retrieval.search import SearchHit
    from threadhouse.serving.retrieval_service import Answer

# The words of the enums, written out: importing them would cost every command what only these need. A test compares them.
MODES = ("thread", "raw")
VERDICTS = ("sufficient", "insufficient", "wrong_thread", "noisy", "missing_thread", "reject")

EXPLAINED_HITS = 5

_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)


def add_commands(group: click.Group) -> None:
    """Add the commands of the query path to the console script."""
    for command in (query, feedback, calibrate):
        group.add_command(command)


@click.command()
@click.argument("text")
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default=MODES[0],
    show_default=True,
    help="Thread first, or a raw search.",
)
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    help="Estimated tokens of the pack; what is left out is named.  [default: 24000]",
)
@click.option("--whole", is_flag=True, help="The whole pack, whatever its length.")
@click.option("--session", help="Joins the queries of one consumer; any id.")
@click.option(
    "--explain",
    is_flag=True,
    help="Also say why this thread: signals, thresholds, how many candidates were filtered.",
)
@_as_json
@takes_principal
def query(
    asking: Asking,
    text: str,
    *,
    mode: str,
    budget: int | None,
    whole: bool,
    session: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Answer TEXT with a context pack: the thread that it is about, or what a search finds.

    The query is counted like any other; its id is printed for `threadhouse feedback`.
    """
    from threadhouse.retrieval.pack_render import render_markdown
    from threadhouse.serving.explained_hits import hits_in_sight
    from threadhouse.serving.opening import open_retrieval_service
    from threadhouse.serving.retrieval_service import DEFAULT_TOKEN_BUDGET, Mode
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    settings = Settings.from_environment()
    principal = asking.principal(settings)
    with open_retrieval_service(settings, lambda line: click.echo(line, err=True)) as service:
        answer = service.answer(
            text,
            principal,
            Mode(mode),
            session_id=session,
            token_budget=None if whole else budget or DEFAULT_TOKEN_BUDGET,
        )
    hits = hits_in_sight(open_database(settings), answer.hits, principal) if explain else ()
    if as_json:
        document: dict[str, Json] = {
            "query_id": str(answer.query_id),
            "pack": answer.pack.model_dump(mode="json"),
        }
        if explain:
            document["explain"] = explanation(answer, hits)
        click.echo(json.dumps(document, ensure_ascii=False, indent=2))
        return
    click.echo(render_markdown(answer.pack))
    if explain:
        click.echo("\n".join(_explained(answer, hits)) + "\n")
    click.echo(
        f"Query {answer.query_id}: {answer.source.replace('_', ' ')} pack, {answer.timings.total_ms:.0f} ms. "
        f"Was it enough? threadhouse feedback {answer.query_id} sufficient{asking.options}"
    )


@click.command()
@click.argument("query_id", type=click.UUID)
@click.argument("verdict", type=click.Choice(VERDICTS))
@click.option("--thread", help="The thread that is rejected; by default the one that answered.")
@click.option("--unit", help="The unit that is noisy, by the address that the pack names it by.")
@_as_json
@takes_principal
def feedback(
    asking: Asking,
    query_id: UUID,
    verdict: str,
    *,
    thread: str | None,
    unit: str | None,
    as_json: bool,
) -> None:
    """Say what the answer to QUERY_ID was worth.

    VERDICT is sufficient, insufficient, wrong_thread, noisy, missing_thread (one should exist) or reject (a suggested thread).
    """
    from threadhouse.serving.opening import open_retrieval_service
    from threadhouse.serving.retrieval_service import Verdict
    from threadhouse.stores.settings import Settings

    settings = Settings.from_environment()
    principal = asking.principal(settings)
    with open_retrieval_service(settings) as service:
        event_id = service.feedback(
            query_id, Verdict(verdict), principal, thread_id=thread, unit_address=unit
        )
    if as_json:
        click.echo(json.dumps({"event_id": str(event_id)}))
    else:
        click.echo(f"Noted: {verdict.replace('_', ' ')} (event {event_id}).")


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--write", is_flag=True, help="Put what was fitted in force, as a new version.")
@_as_json
@takes_principal
def calibrate(asking: Asking, path: Path, *, write: bool, as_json: bool) -> None:
    """Fit the numbers of thread resolution on judged queries, and say how good they are.

    PATH is a JSONL file of questions with their thread_ids, or a folder with queries.jsonl and qrels.jsonl. Precision, recall and
    the reliability of the score are measured on threads that were not fitted on, for the numbers in force and for the new ones.
    Nothing changes without --write.
    """
    from datetime import UTC, datetime

    from threadhouse.pipelines.progress_display import open_display
    from threadhouse.retrieval.calibration import calibrate as fit
    from threadhouse.serving.opening import open_retrieval_service
    from threadhouse.stores.judged_queries import read_judged_queries
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.retrieval_policy import read_retrieval_policy, write_retrieval_policy
    from threadhouse.stores.settings import Settings

    settings = Settings.from_environment()
    principal = asking.principal(settings)
    judged = read_judged_queries(path)
    now = datetime.now(UTC)
    with open_display() as display, open_retrieval_service(settings, display.announce) as service:
        space_id = service.space_id
        observations: list[Observation] = []
        for number, each in enumerate(judged, start=1):
            observations.append(service.observe(each.query_id, each.text, each.right, principal))
            display.report("Asking", number, len(judged))
    version: int | None = None
    with open_database(settings).connect() as connection:
        current = read_retrieval_policy(connection, space_id)
        found = fit(observations, current, space_id=space_id, now=now)
        if write:
            version = write_retrieval_policy(connection, found.policy, found.fitted.as_json())
    before, after = found.current.as_json(), found.fitted.as_json()
    if as_json:
        document = {
            "space_id": space_id,
            "current": before,
            "fitted": after,
            "is_refitted": found.is_refitted,
            "written_version": version,
        }
        click.echo(json.dumps(document, ensure_ascii=False, indent=2))
        return
    click.echo(f"{'':20} in force    fitted")
    for name, value in before.items():
        click.echo(f"{name:20} {_figure(value):>8}  {_figure(after[name]):>8}")
    fitted = "Coefficients and thresholds" if found.is_refitted else "Thresholds alone"
    click.echo(f"{fitted} were fitted on {len(judged):,} judged queries.")
    if version is None:
        click.echo("Nothing was changed; --write puts the fitted numbers in force.")
    else:
        click.echo(f"Version {version} is in force.")


def _figure(value: Json) -> str:
    return "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


def explanation(answer: Answer, hits: Sequence[SearchHit]) -> dict[str, Json]:
    """Why this thread, for a program. Of what was filtered only the number: the rest is nobody's business.

    Args:
        hits: Those of the answer that its reader sees now.
    """
    resolution, policy = answer.resolution, answer.retrieval_policy
    signal = answer.pack.fallback_signal
    candidates: list[Json] = []
    if resolution is not None:
        candidates += [
            {
                "thread_id": each.thread_id,
                "title": answer.facts[each.thread_id].title,
                "score": each.score,
                "signals": dict(each.signal_breakdown),
            }
            for each in resolution.candidates
            if each.thread_id in answer.facts
        ]
    thresholds: dict[str, Json] = {}
    if policy is not None:
        thresholds = {
            "policy_version": policy.version,
            "match": policy.match_threshold,
            "single": policy.single_threshold,
            "candidate": policy.candidate_floor,
        }
    return {
        "decision": resolution.kind if resolution else "raw",
        "any_thread": resolution.any_thread if resolution else None,
        "fallback": signal.model_dump(mode="json") if signal else None,
        "candidates": candidates,
        "thresholds": thresholds,
        "hits": [_hit(hit) for hit in hits[:EXPLAINED_HITS]],
        "filtered_count": _filtered(answer, hits),
        "pack_source": answer.source,
        "stale": list(answer.stale),
        "timings_ms": {step: round(ms, 2) for step, ms in answer.timings.steps.items()},
    }


def _hit(hit: SearchHit) -> dict[str, Json]:
    parts = hit.breakdown
    return {
        "address": hit.metadata.get("canonical_address") or hit.metadata.get("path"),
        "score": hit.score,
        "dense": parts.dense,
        "bm25_accented": parts.bm25_accented,
        "bm25_folded": parts.bm25_folded,
        "boosts": dict(parts.boosts),
    }


def _filtered(answer: Answer, hits: Sequence[SearchHit]) -> int:
    return answer.filtered + len(answer.hits) - len(hits)


def _explained(answer: Answer, hits: Sequence[SearchHit]) -> Iterable[str]:
    """The same for a person."""
    from threadhouse.retrieval.pack_render import one_line

    yield "## Why this answer"
    yield ""
    resolution, policy = answer.resolution, answer.retrieval_policy
    if resolution is None or policy is None:
        yield "- Raw search, as asked for: no thread was looked for."
    else:
        yield (
            f"- Decision: {resolution.kind}. That any thread is meant: {resolution.any_thread:.2f} "
            f"(needs {policy.match_threshold:.2f}); one alone needs {policy.single_threshold:.2f} "
            f"(retrieval policy {policy.version})."
        )
        for each in resolution.candidates:
            if each.thread_id not in answer.facts:
                continue
            signals = ", ".join(
                f"{name.removeprefix('rank_')} {value:.2f}"
                for name, value in each.signal_breakdown.items()
            )
            title = one_line(answer.facts[each.thread_id].title)
            yield f"- {each.score:.2f} {each.thread_id} {title}: {signals}"
    signal = answer.pack.fallback_signal
    if signal is not None:
        yield f"- Fallback {signal.kind}: {signal.reason}."
    for hit in hits[:EXPLAINED_HITS]:
        address = hit.metadata.get("canonical_address") or hit.metadata.get("path")
        yield f"- Found {one_line(str(address))}: {_score_words(hit)}"
    yield f"- Filtered by access or version after the search: {_filtered(answer, hits)}."
    stale = f"; the stored one was stale ({', '.join(answer.stale)})" if answer.stale else ""
    yield f"- Pack: {answer.source.replace('_', ' ')}{stale}."
    yield "- Milliseconds: " + ", ".join(
        f"{step} {ms:.1f}" for step, ms in answer.timings.steps.items()
    )


def _score_words(hit: SearchHit) -> str:
    parts = hit.breakdown
    named = {
        "dense": parts.dense,
        "bm25": parts.bm25_accented,
        "bm25 folded": parts.bm25_folded,
        **parts.boosts,
    }
    words = ", ".join(f"{name} {value:.2f}" for name, value in named.items() if value is not None)
    return f"{hit.score:.2f} ({words})"
