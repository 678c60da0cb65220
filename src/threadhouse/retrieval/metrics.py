"""The eight retrieval rates of D11 §4.8, exactly.

Belongs here: what each rate divides by what, their intervals and targets, the counting of events.
Does not belong here: making facts of events (``stores.lake``), keeping results (``stores.metrics_store``).

Everything is counted in *facts*: one per query (or per suggestion) with what became of it; equal facts are one row with their
number. A fact counts once however many events say so, so a numerator never exceeds its denominator, lanes add up to ``overall``,
and days add up to any range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final

import polars as pl

from threadhouse.retrieval.events import ResolutionPath
from threadhouse.retrieval.models import Audience

OVERALL: Final = "overall"
LANES: Final = (*(lane.value for lane in Audience), OVERALL)

METRICS_VERSION: Final = "rates-2"
"""Changes when any rate would come out differently for the same events."""

Z_95: Final = 1.959963984540054
"""The 97.5 % point of the standard normal distribution: 95 % between plus and minus this."""


class Grain(StrEnum):
    """What one fact is about."""

    QUERY = "query"
    SUGGESTION = "suggestion"


@dataclass(frozen=True, slots=True)
class RateDefinition:
    """One rate. The two texts are the rows of docs/metrics.md; the expressions are what they say.

    ``eligible`` holds for the facts that could have been in the denominator if somebody had
    reported on them. Eligible facts but an empty denominator mean that nobody reports: the
    denominator cannot be known, and the rate asks for instrumentation.
    """

    name: str
    meaning: str
    grain: Grain
    numerator_text: str
    denominator_text: str
    numerator: pl.Expr
    denominator: pl.Expr
    eligible: pl.Expr
    is_per_thread: bool
    is_higher_better: bool
    target: float | None = None
    target_lanes: tuple[str, ...] = LANES

    def target_for(self, lane: str) -> float | None:
        """The share to beat (strictly) in a lane; None where the design leaves it to policy."""
        return self.target if lane in self.target_lanes else None


_PATH = pl.col("resolution_path")
_IS_MATCHED = _PATH.is_in([ResolutionPath.THREAD.value, ResolutionPath.CANDIDATES.value])
_IS_RECURRING = pl.col("is_recurring").fill_null(value=False)
_EVERY = pl.lit(value=True)

RATES: Final = (
    RateDefinition(
        name="thread_hit_rate",
        meaning="queries resolved by a thread",
        grain=Grain.QUERY,
        numerator_text="those of the denominator with resolution_path thread",
        denominator_text="all queries",
        numerator=_PATH.eq(ResolutionPath.THREAD.value),
        denominator=_EVERY,
        eligible=_EVERY,
        is_per_thread=False,
        is_higher_better=True,
        target=0.80,
    ),
    RateDefinition(
        name="fallback_vector_rate",
        meaning="queries answered by vector search",
        grain=Grain.QUERY,
        numerator_text="those of the denominator with resolution_path fallback",
        denominator_text="all queries",
        numerator=_PATH.eq(ResolutionPath.FALLBACK.value),
        denominator=_EVERY,
        eligible=_EVERY,
        is_per_thread=False,
        is_higher_better=False,
    ),
    RateDefinition(
        name="context_sufficiency_rate",
        meaning="queries for which the context pack alone sufficed",
        grain=Grain.QUERY,
        numerator_text="those of the denominator whose last sufficiency_verdict says sufficient",
        denominator_text="queries with a sufficiency_verdict",
        numerator=pl.col("is_sufficient"),
        denominator=pl.col("has_sufficiency_verdict"),
        eligible=pl.col("has_pack") | pl.col("has_sufficiency_verdict"),
        is_per_thread=True,
        is_higher_better=True,
    ),
    RateDefinition(
        name="wrong_thread_rate",
        meaning="queries matched to the wrong thread",
        grain=Grain.QUERY,
        numerator_text="judged queries with resolution_path thread or candidates, with wrong_thread",
        denominator_text="judged queries with resolution_path thread or candidates",
        numerator=_IS_MATCHED & pl.col("has_wrong_thread"),
        denominator=_IS_MATCHED & pl.col("is_judged"),
        eligible=_IS_MATCHED,
        is_per_thread=True,
        is_higher_better=False,
    ),
    RateDefinition(
        name="missing_thread_rate",
        meaning="queries for which a thread should have existed",
        grain=Grain.QUERY,
        numerator_text="those of the denominator with a missing_thread_confirmed",
        denominator_text="judged queries",
        numerator=pl.col("has_missing_thread"),
        denominator=pl.col("is_judged"),
        eligible=_EVERY,
        is_per_thread=False,
        is_higher_better=False,
    ),
    RateDefinition(
        name="noisy_context_rate",
        meaning="context packs that held irrelevant units",
        grain=Grain.QUERY,
        numerator_text="those of the denominator with a noisy_context or noisy_unit",
        denominator_text="judged queries with a pack_delivered",
        numerator=pl.col("has_pack") & pl.col("has_noisy_context"),
        denominator=pl.col("has_pack") & pl.col("is_judged"),
        eligible=pl.col("has_pack"),
        is_per_thread=True,
        is_higher_better=False,
    ),
    RateDefinition(
        name="agent_extra_search_rate",
        meaning="queries after which the consumer searched outside the delivered pack",
        grain=Grain.QUERY,
        numerator_text="those of the denominator with an extra_search",
        denominator_text="queries with a pack_delivered",
        numerator=pl.col("has_pack") & pl.col("has_extra_search"),
        denominator=pl.col("has_pack"),
        eligible=_PATH.ne(ResolutionPath.NONE.value),
        is_per_thread=True,
        is_higher_better=False,
    ),
    RateDefinition(
        name="user_reject_rate",
        meaning="suggested threads that the user rejected",
        grain=Grain.SUGGESTION,
        numerator_text="those of the denominator with a rejection of the same thread",
        denominator_text="suggestions",
        numerator=pl.col("is_rejected"),
        denominator=pl.col("is_suggested"),
        eligible=_EVERY,
        is_per_thread=True,
        is_higher_better=False,
    ),
)
"""In the order of D11 §4.8. Only thread_hit_rate has targets there; the rest is policy's to set."""

RECURRING_HIT_RATE: Final = RateDefinition(
    name="thread_hit_rate_recurring",
    meaning="queries that recur, resolved by a thread",
    grain=Grain.QUERY,
    numerator_text="those of the denominator with resolution_path thread",
    denominator_text="queries with is_recurring true",
    numerator=_IS_RECURRING & _PATH.eq(ResolutionPath.THREAD.value),
    denominator=_IS_RECURRING,
    eligible=pl.col("is_recurring").is_null(),
    is_per_thread=False,
    is_higher_better=True,
    target=0.90,
    target_lanes=(Audience.AI_AGENT.value,),
)
"""Not a ninth rate: the part of thread_hit_rate that D11 §4.8 sets its second target for."""

COUNTED: Final = (*RATES, RECURRING_HIT_RATE)
"""Everything that gets rows."""

AGGREGATE_SCHEMA: Final = pl.Schema(
    {
        "local_day": pl.Date,
        "lane": pl.String,
        "thread_id": pl.String,
        "metric": pl.String,
        "numerator": pl.Int64,
        "denominator": pl.Int64,
        "rate": pl.Float64,
        "wilson_low": pl.Float64,
        "wilson_high": pl.Float64,
        "requires_instrumentation": pl.Boolean,
        "target": pl.Float64,
    }
)
"""One row per day, lane, thread ('' means all) and rate: nao.retrieval_metric_aggregate."""

FACT_SCHEMA: Final = pl.Schema(
    {
        "grain": pl.String,
        "local_day": pl.Date,
        "lane": pl.String,
        "thread_id": pl.String,
        "resolution_path": pl.String,
        "is_recurring": pl.Boolean,
        "has_pack": pl.Boolean,
        "has_sufficiency_verdict": pl.Boolean,
        "is_sufficient": pl.Boolean,
        "has_wrong_thread": pl.Boolean,
        "has_noisy_context": pl.Boolean,
        "has_missing_thread": pl.Boolean,
        "has_extra_search": pl.Boolean,
        "is_suggested": pl.Boolean,
        "is_rejected": pl.Boolean,
        "facts": pl.Int64,
    }
)
"""``facts`` equal facts of one `Grain`.

A query takes day, lane and thread from its ``query`` event; of two with one query_id the earlier, of several verdicts the last. A
suggestion has the thread suggested; without one it stands for a query whose choice among several threads nobody reported.
"""

_CELL: Final = ["local_day", "lane", "thread_id"]


def wilson_interval(numerator: pl.Expr, denominator: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Lower and upper end of the 95 % score interval of a share; null where the denominator is 0.

    Wilson, E. B. (1927), "Probable inference, the law of succession, and statistical inference",
    Journal of the American Statistical Association 22 (158), 209-212:
    (p + z²/2n ± z·sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n). Unlike p ± z·sqrt(p(1-p)/n) it stays
    within 0..1 and keeps a width for 0 of n and n of n, where daily rates often are.
    """
    n = pl.when(denominator > 0).then(denominator).cast(pl.Float64)
    share = numerator / n
    centre = share + Z_95**2 / (2 * n)
    spread = Z_95 * (share * (1 - share) / n + Z_95**2 / (4 * n * n)).sqrt()
    scale = 1 + Z_95**2 / n
    # The ends are exactly 0 and 1 there; floating point leaves 1e-17 beside them.
    low = pl.when(n.is_not_null() & (numerator == 0)).then(0.0).otherwise((centre - spread) / scale)
    high = (
        pl.when(n.is_not_null() & (numerator == denominator))
        .then(1.0)
        .otherwise((centre + spread) / scale)
    )
    return low, high


def count_rates(facts: pl.DataFrame, days: Sequence[date]) -> pl.DataFrame:
    """All rates of some days from their facts.

    Args:
        facts: `FACT_SCHEMA`, of these days.
        days: Each gets a row for every lane and rate, events or not.

    Returns:
        `AGGREGATE_SCHEMA`, sorted. Thread rows exist only where there was something to count.
    """
    judged = facts.with_columns(
        is_judged=pl.any_horizontal(
            "has_sufficiency_verdict", "has_wrong_thread", "has_noisy_context", "has_missing_thread"
        )
    )
    counts = pl.concat(
        [
            _count(
                judged.filter(pl.col("grain") == grain.value),
                [rate for rate in COUNTED if rate.grain is grain],
            )
            for grain in Grain
        ]
    )
    return _finish(pl.concat([counts, _empty_cells(days)]))


def sum_rates(
    daily: pl.DataFrame, by: Sequence[str] = ("lane", "thread_id", "metric")
) -> pl.DataFrame:
    """Rates of a range from rates of its days: counts are added, shares computed again.

    An unknown denominator adds nothing, which is right because its numerator is 0. The sum asks
    for instrumentation only when some day does and no day has a denominator.
    """
    return (
        daily.group_by(list(by))
        .agg(
            pl.col("numerator").sum(),
            pl.col("denominator").sum(),
            pl.col("requires_instrumentation").any(),
            pl.col("target").max(),
        )
        .with_columns(
            requires_instrumentation=pl.col("requires_instrumentation")
            & (pl.col("denominator") == 0)
        )
        .with_columns(
            denominator=pl.when(~pl.col("requires_instrumentation")).then(pl.col("denominator"))
        )
        .with_columns(*_shares())
        .sort(list(by))
    )


def _count(facts: pl.DataFrame, rates: Sequence[RateDefinition]) -> pl.DataFrame:
    """Counts of every rate by day, lane and thread, by lane, by thread, and by neither."""
    flags = facts.select(
        *_CELL,
        *(
            (expr.cast(pl.Int64) * pl.col("facts")).alias(name)
            for rate in rates
            for name, expr in _parts(rate)
        ),
    )
    finest = flags.group_by(_CELL).agg(
        pl.exclude(*_CELL).sum(),
    )
    per_thread = [rate.name for rate in rates if rate.is_per_thread]
    levels: list[pl.DataFrame] = []
    for lane in (pl.col("lane"), pl.lit(OVERALL).alias("lane")):
        all_threads = finest.with_columns(lane, thread_id=pl.lit(""))
        one_thread = finest.filter(pl.col("thread_id").is_not_null()).with_columns(lane)
        levels.append(_unpivot(all_threads, [rate.name for rate in rates]))
        levels.append(
            _unpivot(one_thread, per_thread).filter(
                (pl.col("eligible") > 0) | (pl.col("denominator") > 0)
            )
        )
    return pl.concat(levels)


def _parts(rate: RateDefinition) -> list[tuple[str, pl.Expr]]:
    return [
        (f"{rate.name}.numerator", rate.numerator),
        (f"{rate.name}.denominator", rate.denominator),
        (f"{rate.name}.eligible", rate.eligible),
    ]


def _unpivot(wide: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
    sums = wide.group_by(_CELL).agg(pl.exclude(*_CELL).sum())
    return pl.concat(
        [
            sums.select(
                *_CELL,
                pl.lit(metric).alias("metric"),
                pl.col(f"{metric}.numerator").alias("numerator"),
                pl.col(f"{metric}.denominator").alias("denominator"),
                pl.col(f"{metric}.eligible").alias("eligible"),
            )
            for metric in metrics
        ]
    )


def _empty_cells(days: Sequence[date]) -> pl.DataFrame:
    """A zero for every day, lane and rate, so that a day without events is known to have none."""
    return pl.DataFrame(
        [(day, lane, "", rate.name, 0, 0, 0) for day in days for lane in LANES for rate in COUNTED],
        schema={
            "local_day": pl.Date,
            "lane": pl.String,
            "thread_id": pl.String,
            "metric": pl.String,
            "numerator": pl.Int64,
            "denominator": pl.Int64,
            "eligible": pl.Int64,
        },
        orient="row",
    )


def _finish(counts: pl.DataFrame) -> pl.DataFrame:
    """From counts to rows: unknown denominators, shares, intervals, targets."""
    targets = pl.DataFrame(
        [(rate.name, lane, rate.target_for(lane)) for rate in COUNTED for lane in LANES],
        schema={"metric": pl.String, "lane": pl.String, "target": pl.Float64},
        orient="row",
    )
    return (
        counts.group_by([*_CELL, "metric"])
        .agg(pl.col("numerator", "denominator", "eligible").sum())
        .with_columns(
            requires_instrumentation=(pl.col("denominator") == 0) & (pl.col("eligible") > 0)
        )
        .with_columns(
            denominator=pl.when(~pl.col("requires_instrumentation")).then(pl.col("denominator"))
        )
        .join(targets, on=["metric", "lane"], how="left")
        .with_columns(*_shares())
        .select(*AGGREGATE_SCHEMA)
        .cast(AGGREGATE_SCHEMA)
        .sort([*_CELL, "metric"])
    )


def _shares() -> list[pl.Expr]:
    # Polars answers 0/0 with NaN, which is not null and poisons every mean: divide only if n > 0.
    known = pl.when(pl.col("denominator") > 0).then(pl.col("denominator"))
    low, high = wilson_interval(pl.col("numerator"), pl.col("denominator"))
    return [
        (pl.col("numerator") / known).alias("rate"),
        low.alias("wilson_low"),
        high.alias("wilson_high"),
    ]
