"""`threadhouse policy` as a person and as a program use it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from fixtures_postgres import as_url
from threadhouse.pipelines import cli
from threadhouse.stores.postgres import Database

Run = Callable[..., Result]


@pytest.fixture
def run(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The group in this process, over a database of its own. Not on a terminal."""
    monkeypatch.setenv("THREADHOUSE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DATABASE_URL", as_url(database))

    def invoke(*arguments: str | Path, given: str | None = None) -> Result:
        return CliRunner().invoke(cli.cli, ["policy", *map(str, arguments)], input=given)

    return invoke


@pytest.fixture
def wider(run: Run, tmp_path: Path) -> Path:
    """The shipped policy, with internal material for customers."""
    policy = yaml.safe_load(run("show").stdout)
    policy["audiences"]["customer"]["visibility"].append("internal")
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump(policy), encoding="utf-8")
    return path


def test_what_is_shown_changes_nothing_when_applied(run: Run) -> None:
    shown = run("show").stdout
    applied = run("apply", "-", given=shown)
    assert (applied.exit_code, applied.stdout) == (
        0,
        "Version 1 says the same already; nothing was changed.\n",
    )


def test_show_prints_json_for_a_program(run: Run) -> None:
    assert json.loads(run("show", "--json").stdout)["policy_version"] == 1


def test_diff_says_what_widens_and_changes_nothing(run: Run, wider: Path) -> None:
    found = run("diff", wider)
    assert found.exit_code == cli.EXIT_FINDINGS
    assert found.stdout.splitlines() == [
        "customer",
        "  + visibility: internal",
        "This widens what customer may see.",
    ]
    assert run("show").stdout.startswith("policy_version: 1\n")


def test_a_policy_that_widens_is_refused_where_nobody_can_answer(run: Run, wider: Path) -> None:
    refused = run("apply", wider)
    assert refused.exit_code != 0
    assert str(refused.exception) == (
        "This widens what customer may see. Nothing was changed; look at threadhouse policy diff, then apply it with --yes."
    )
    assert run("show").stdout.startswith("policy_version: 1\n")


def test_a_policy_that_widens_comes_into_force_when_confirmed(run: Run, wider: Path) -> None:
    applied = json.loads(run("apply", wider, "--yes", "--reason", "Đ37/12", "--json").stdout)
    assert (applied["policy_version"], applied["is_new"]) == (2, True)
    assert applied["widens"] == [
        {"audience": "customer", "holder": "", "what": "visibility: internal"}
    ]
    assert run("show").stdout.startswith("policy_version: 2\n")


def test_a_file_that_was_made_from_an_older_version_is_refused(run: Run, wider: Path) -> None:
    run("apply", wider, "--yes")
    late = run("apply", wider, "--yes")
    assert late.exit_code != 0
    assert "yours was made from version 1" in str(late.exception)


def test_a_policy_that_only_narrows_asks_nobody(run: Run, tmp_path: Path) -> None:
    policy = yaml.safe_load(run("show").stdout)
    policy["audiences"]["employee"]["readiness"] = ["published"]
    path = tmp_path / "narrow.json"
    path.write_text(json.dumps(policy), encoding="utf-8")
    applied = run("apply", path)
    assert applied.exit_code == 0
    assert "Nobody sees more than before." in applied.stdout
    assert "Version 2 is in force." in applied.stdout
