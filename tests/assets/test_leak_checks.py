"""The leak checks stop the run when the probe finds something, and say what.

Method: the real checks, called with reports as the probe gives them; that the probe finds a broken enforcer is proved in
tests/stores/test_leak_probe.py.
"""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from threadhouse.assets.checks.leak_checks import build_leak_checks
from threadhouse.pipelines.definitions import build_resources
from threadhouse.retrieval.leak_canaries import PathOutcome, ProbeReport

SOUND = PathOutcome("customer", "last check", 9, 2, 2)
LEAK = PathOutcome("customer", "last check", 9, 2, 3, leaked=("cnry0123abcdu0001",))
BLIND = PathOutcome("customer", "last check", 9, 2, 1, missed=("cnry0123abcdu0001",))


def run(check: dg.AssetChecksDefinition, home: str) -> dg.AssetCheckResult:
    found: Any = check(**{"environment": build_resources(home)["environment"]})
    assert isinstance(found, dg.AssetCheckResult)
    return found


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(("fault", "passes"), [(SOUND, True), (LEAK, False), (BLIND, False)])
def test_one_leak_or_one_miss_fails_the_check(
    tmp_path: object, number: int, fault: PathOutcome, passes: bool
) -> None:
    report = ProbeReport((SOUND, fault), 0.1)
    check = build_leak_checks(lambda _: report, lambda _: report)[number]
    result = run(check, str(tmp_path))
    assert result.passed is passes
    assert result.severity is dg.AssetCheckSeverity.ERROR
    assert all(spec.blocking for spec in check.check_specs)
    assert (result.description or "").startswith(
        ""
        if passes
        else f"last check as customer: {'leaked' if fault.leaked else 'missed'} cnry0123"
    )
    marks = ("cnry0123abcdu0001" in str(result.metadata["paths"].value),)
    assert marks == (not passes,)
