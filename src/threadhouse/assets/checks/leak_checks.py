"""Leak canaries, asked for every night before anybody reads what was built.

Belongs here: when the probe runs and what it stops. Does not belong here: the probe. It is handed in by whoever puts the graph
together, because the build knows nothing of the query path.

The canaries run right after the vectors are published, not before: a right that was taken away has to reach the vectors even on
the day on which another enforcer fails. From there on nothing new is built for readers until somebody has looked.
"""

from collections.abc import Callable

import dagster as dg

from threadhouse.assets.automation import retrying_transient_faults
from threadhouse.assets.context_packs import context_packs
from threadhouse.assets.vectors import INFORMATION_UNIT_VECTORS
from threadhouse.resources.stores import EnvironmentResource
from threadhouse.retrieval.leak_canaries import PathOutcome, ProbeReport
from threadhouse.stores.settings import Settings

Probe = Callable[[Settings], ProbeReport]


def build_leak_checks(canaries: Probe, published: Probe) -> list[dg.AssetChecksDefinition]:
    """The two blocking checks.

    Args:
        canaries: Plants canaries and asks for them.
        published: Asks the published hub for real units that are hidden.
    """

    @dg.asset_check(asset=INFORMATION_UNIT_VECTORS, blocking=True)
    def no_reader_sees_a_canary(environment: EnvironmentResource) -> dg.AssetCheckResult:
        """Every path gives every lane exactly what it may see of units planted for all combinations of labels."""
        with retrying_transient_faults():
            return _verdict(canaries(environment.settings()))

    @dg.asset_check(asset=context_packs, blocking=True)
    def no_lane_gets_a_hidden_unit(environment: EnvironmentResource) -> dg.AssetCheckResult:
        """Real hidden units, asked for by their own titles and vectors, do not come back; others every day."""
        with retrying_transient_faults():
            return _verdict(published(environment.settings()))

    return [no_reader_sees_a_canary, no_lane_gets_a_hidden_unit]


def _verdict(report: ProbeReport) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=not report.faults,
        severity=dg.AssetCheckSeverity.ERROR,
        description=_found(report.faults) if report.faults else None,
        metadata={
            "leaked": sum(len(each.leaked) for each in report.outcomes),
            "missed": sum(len(each.missed) for each in report.outcomes),
            "seconds": round(report.seconds, 3),
            "paths": dg.MetadataValue.md(report.table()),
        },
    )


def _found(faults: tuple[PathOutcome, ...]) -> str:
    """The first fault in words, since the run that stops here may be all that somebody has of it."""
    others = f" and {len(faults) - 1} more" if faults[1:] else ""
    return f"{faults[0].in_words()}{others}; threadhouse security list names what was found."
