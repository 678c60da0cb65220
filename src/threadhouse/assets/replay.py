"""Recent questions asked again of what readers have, and questions of gaps asked again after a fix.

Belongs here: when they are asked, what stops the run, what to record about it.
Does not belong here: asking (handed in), what is a loss (retrieval.replay).

The first replay of a night is inside ``content_vectors``, before readers are switched over; this one is the last word before
packs are stored, when centroids are done too.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from threadhouse.assets.automation import FRESH_DAILY, OWNERS, retrying_transient_faults
from threadhouse.assets.thread_centroids import thread_centroids
from threadhouse.assets.thread_health import thread_health
from threadhouse.resources.replays import Replays
from threadhouse.resources.stores import EmbedderResource, EnvironmentResource, PostgresResource
from threadhouse.retrieval.replay import Change, Loss, PublishedReplay, ReplayVerdict

LOSS_CHECK = "no_question_lost_its_answer"


class ReplayConfig(dg.Config):
    """Who decides about losses."""

    accept_losses: bool = Field(
        default=False,
        description="Go on when more recent questions than REPLAY_LOSS_SHARE lost the answer they had.",
    )


@dg.asset(
    group_name="packs",
    kinds={"postgres"},
    owners=OWNERS,
    deps=[thread_centroids, thread_health],
    # Before the health report, which waits for no replay: a replay that stops must not keep the report from telling so.
    op_tags={"dagster/priority": "1"},
    check_specs=[
        dg.AssetCheckSpec(
            LOSS_CHECK,
            asset="replay",
            blocking=True,
            description="Not more recent questions than REPLAY_LOSS_SHARE lost the answer they had.",
        )
    ],
    freshness_policy=FRESH_DAILY,
)
def replay(
    config: ReplayConfig,
    environment: EnvironmentResource,
    postgres: PostgresResource,
    embedder: EmbedderResource,
    replays: dg.ResourceParam[Replays],
) -> Iterator[dg.MaterializeResult[Any]]:
    """A sample of the questions of the last four weeks, answered by what is published, held against their answers before.

    Grain: one row a question in ``nao.replay_result``. Nothing is asked when nothing changed, and nothing asked is counted.
    """
    with retrying_transient_faults():
        database = postgres.open()
        report = replays.of_what_is_published(
            environment.settings(),
            database,
            embedder.open(database),
            accept_losses=config.accept_losses,
        )
    yield dg.MaterializeResult(metadata=_metadata(report), check_results=[_check(report)])


@dg.asset(
    group_name="metrics",
    kinds={"postgres"},
    owners=OWNERS,
    # Not after centroids: the health report waits for this, and a night whose publish stopped is to be reported as well.
    deps=[thread_health],
    freshness_policy=FRESH_DAILY,
)
def gap_replay(
    environment: EnvironmentResource,
    postgres: PostgresResource,
    embedder: EmbedderResource,
    replays: dg.ResourceParam[Replays],
) -> dg.MaterializeResult[Any]:
    """Questions of gaps that somebody called fixed, or that what is published now may answer: the gap is closed or reopened.

    Grain: the evidence of a row in ``nao.search_gap_signal``. A gap is asked again only when it was fixed or something changed.
    """
    with retrying_transient_faults():
        database = postgres.open()
        report = replays.of_gaps(environment.settings(), database, embedder.open(database))
    return dg.MaterializeResult(metadata={**report.figures()})


def _check(report: PublishedReplay) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=LOSS_CHECK,
        passed=not report.is_stopped,
        severity=dg.AssetCheckSeverity.ERROR,
        description=report.verdict.sentence() if report.is_stopped and report.verdict else None,
    )


def _metadata(report: PublishedReplay) -> dict[str, Any]:
    verdict = report.verdict
    if verdict is None:
        return {"dagster/row_count": 0, "not_asked_because": report.why_not}
    return {
        "dagster/row_count": len(verdict.outcomes),
        "changed": verdict.changed,
        "at_risk": verdict.at_risk,
        "lost": verdict.lost,
        "loss_share_limit": verdict.loss_share_limit,
        "by_lane": dg.MetadataValue.md(_table(verdict)),
    }


def _table(verdict: ReplayVerdict) -> str:
    """Changes and losses by lane. What was asked is personal, and metadata is kept for ever: threadhouse replay show has it."""
    kinds = [*Change, *Loss]
    lines = [
        "| lane | asked | " + " | ".join(kinds) + " |",
        "|---|---|" + "---|" * len(kinds),
    ]
    for lane in sorted({outcome.question.lane for outcome in verdict.outcomes}):
        of_lane = [outcome for outcome in verdict.outcomes if outcome.question.lane == lane]
        counts = [
            sum(kind in outcome.changes or outcome.loss == kind for outcome in of_lane)
            for kind in kinds
        ]
        lines.append(f"| {lane} | {len(of_lane)} | " + " | ".join(map(str, counts)) + " |")
    return "\n".join(lines)
