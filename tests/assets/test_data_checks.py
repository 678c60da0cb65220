"""The suites as checks: what stops a run, what warns, and what the UI is told.

Method: the real checks on a real database with damaged rows; which damage each expectation finds is proved in
tests/stores/test_data_validation.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from fixtures_postgres import as_url
from threadhouse.assets.checks.data_checks import build_data_checks
from threadhouse.pipelines.definitions import build_resources
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings


@pytest.fixture
def checks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database: Database
) -> Mapping[str, dg.AssetChecksDefinition]:
    """The checks by name, in a home whose database this test may damage."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("THREADHOUSE_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", as_url(database))
    return {next(iter(check.check_specs)).name: check for check in build_data_checks()}


def run(check: dg.AssetChecksDefinition, home: Path) -> dg.AssetCheckResult:
    resources = build_resources(str(home))
    found: Any = check(**{name: resources[name] for name in ("environment", "postgres", "lake")})
    assert isinstance(found, dg.AssetCheckResult)
    return found


def test_what_reaches_readers_stops_the_run_and_what_reaches_operators_warns(
    checks: Mapping[str, dg.AssetChecksDefinition],
) -> None:
    blocking = {name: next(iter(check.check_specs)).blocking for name, check in checks.items()}
    assert blocking == {
        "events_meet_expectations": False,
        "aggregates_meet_expectations": False,
        "projections_meet_expectations": True,
        "packs_meet_expectations": True,
    }


def test_a_broken_pack_fails_its_check_and_the_ui_is_told_where(
    checks: Mapping[str, dg.AssetChecksDefinition], database: Database, tmp_path: Path
) -> None:
    with database.connect() as connection:
        connection.execute(
            "insert into nao.thread_context_pack_cache (thread_id, lane, pack_id, input_revision, policy_version, space_id"
            ", code_version, input_digest, pack, build_ms)"
            " values ('ghost', 'customer', gen_random_uuid(), 1, 1, 's', 'c', 'd', '{}', 1)"
        )
    result = run(checks["packs_meet_expectations"], tmp_path)
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "thread_id ghost, lane customer" in str(result.metadata["findings"].value)
    assert Path(str(result.metadata["data_docs"].value)).is_file()
    assert (result.description or "").startswith("Not so: ")


def test_a_counted_day_without_rates_is_a_warning(
    checks: Mapping[str, dg.AssetChecksDefinition], database: Database, tmp_path: Path
) -> None:
    with database.connect() as connection:
        connection.execute(
            "insert into nao.retrieval_metric_day (local_day, source_digest, metrics_version) values ('2026-11-16', 'd', 'v')"
        )
    result = run(checks["aggregates_meet_expectations"], tmp_path)
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "local_day 2026-11-16" in str(result.metadata["findings"].value)


def test_nothing_to_judge_passes(
    checks: Mapping[str, dg.AssetChecksDefinition], tmp_path: Path
) -> None:
    assert {run(check, tmp_path).passed for check in checks.values()} == {True}
