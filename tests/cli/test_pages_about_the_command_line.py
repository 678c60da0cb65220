"""What README.md, "operations.md" and "scaling.md" say about commands, settings and exit codes is what the code has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from threadhouse.pipelines import cli
from threadhouse.stores.doctor import DISK_FAIL_BYTES, DISK_WARN_BYTES, Section
from threadhouse.stores.retention import LOGS, RULES
from threadhouse.stores.settings import Executor, Settings

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SCALING = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def commands(group: click.Group, path: str = "threadhouse") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


COMMANDS = dict(commands(cli.cli))


def first_cells(page: str, heading: str) -> set[str]:
    """First column of the table below a heading, without its backticks and arguments."""
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| *([^|]+?) *\|", section)
    return {row.strip("`") for row in rows[2:]}


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_help_for_itself_and_each_option(path: str) -> None:
    assert COMMANDS[path].help
    options = [option for option in COMMANDS[path].params if isinstance(option, click.Option)]
    assert [option.name for option in options if not option.help] == []


def test_the_table_of_commands_lists_exactly_the_commands() -> None:
    listed = {re.sub(r"( [A-Z_]+)+$", "", cell) for cell in first_cells(OPERATIONS, "Commands")}
    assert listed == set(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS)
def test_every_long_option_but_json_and_help_is_mentioned_beside_its_command(path: str) -> None:
    row = next(line for line in OPERATIONS.splitlines() if line.startswith(f"| `{path}"))
    options = [option for option in COMMANDS[path].params if isinstance(option, click.Option)]
    names = {name for option in options for name in option.opts} - {"--json"}
    assert [name for name in names if f"`{name}" not in row] == []


def test_the_table_of_exit_codes_is_complete() -> None:
    codes = {0, cli.EXIT_FAILED, cli.EXIT_USAGE, cli.EXIT_FINDINGS, cli.EXIT_INTERRUPTED}
    assert first_cells(OPERATIONS, "Exit codes") == {str(code) for code in codes}


def test_the_table_of_sections_is_that_of_the_doctor() -> None:
    assert first_cells(OPERATIONS, "What doctor says") == set(Section)


def test_the_limits_of_free_space_are_those_of_the_doctor() -> None:
    limits = (
        f"`warn` below {DISK_WARN_BYTES // 10**9} GB, `fail` below {DISK_FAIL_BYTES // 10**9} GB"
    )
    assert limits in OPERATIONS


def test_the_table_of_settings_lists_exactly_the_settings() -> None:
    assert first_cells(README, "Configuration") == {name.upper() for name in Settings.model_fields}


def test_the_table_of_executors_is_that_of_the_setting() -> None:
    listed = {cell.partition("`")[0] for cell in first_cells(SCALING, "Which executor")}
    assert listed == set(Executor)
    also_set = set(re.findall(r"`([A-Z][A-Z_]+)`", SCALING)) - {"EXECUTOR"}
    assert also_set <= {name.upper() for name in Settings.model_fields}


def test_the_table_of_what_leaves_by_age_lists_exactly_the_rules() -> None:
    listed = first_cells(OPERATIONS, "What leaves by age")
    assert listed == {*(rule.name for rule in RULES), LOGS, "runs of the UI"}


@pytest.mark.parametrize("name", ["change_log_days", "record_days", "log_days"])
def test_the_page_says_how_long_by_default(name: str) -> None:
    assert f"`{name.upper()}` ({Settings.model_fields[name].default})" in OPERATIONS
