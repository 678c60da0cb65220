"""Suites of expectations about what people and agents read, as checks of the assets that build it.

Belongs here: which suite follows which asset, and what it stops. Does not belong here: the suites (retrieval.data_expectations),
judging (stores.data_validation).

Packs and projections reach readers, so a broken expectation about them stops the run. Events and rates reach operators, who are
warned.
"""

import dagster as dg

from threadhouse.assets.automation import retrying_transient_faults
from threadhouse.resources.stores import EnvironmentResource, LakeResource, PostgresResource
from threadhouse.retrieval.data_expectations import SuiteName, suite_of
from threadhouse.stores.data_facts import ProductStores
from threadhouse.stores.data_validation import SuiteVerdict, judge_suite

_FOLLOWS = {
    SuiteName.EVENTS: ("retrieval_events", False),
    SuiteName.AGGREGATES: ("retrieval_metrics_daily", False),
    SuiteName.PROJECTIONS: ("thread_centroids", True),
    SuiteName.PACKS: ("context_packs", True),
}


def build_data_checks() -> list[dg.AssetChecksDefinition]:
    """One check for each suite."""
    return [_build(name, asset, stops=stops) for name, (asset, stops) in _FOLLOWS.items()]


def _build(name: SuiteName, asset: str, *, stops: bool) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=dg.AssetKey(asset),
        name=f"{name.value}_meet_expectations",
        blocking=stops,
        description=f"Every expectation about {suite_of(name).about} holds (docs/data-expectations.md).",
    )
    def check(
        environment: EnvironmentResource, postgres: PostgresResource, lake: LakeResource
    ) -> dg.AssetCheckResult:
        settings = environment.settings()
        with retrying_transient_faults():
            stores = ProductStores(postgres.open(), lake.open(), settings.zone)
            verdict = judge_suite(stores, settings.home, name)
        return _result(verdict, stops=stops)

    return check


def _result(verdict: SuiteVerdict, *, stops: bool) -> dg.AssetCheckResult:
    findings = "\n".join(f"- {broken.sentence()}" for broken in verdict.broken)
    return dg.AssetCheckResult(
        passed=verdict.passed,
        severity=dg.AssetCheckSeverity.ERROR if stops else dg.AssetCheckSeverity.WARN,
        description=verdict.broken[0].sentence(places=1) if verdict.broken else None,
        metadata={
            "expectations": verdict.expectations,
            "broken": len(verdict.broken),
            "parts_judged": verdict.parts,
            "facts_judged": verdict.rows,
            "seconds": round(verdict.seconds, 3),
            "judged_at": str(verdict.judged_at or "never"),
            "findings": dg.MetadataValue.md(findings or "none"),
            "data_docs": dg.MetadataValue.path(str(verdict.docs or "none yet")),
        },
    )
