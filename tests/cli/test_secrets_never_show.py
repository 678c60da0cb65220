"""Secrets of the environment are in no log, output, representation or piece of Dagster metadata, whatever fails.

Method: secrets that occur nowhere else, in every variable that holds one; every command that opens a store; then every byte that
was printed or written is searched for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from threadhouse.pipelines.definitions import build_definitions, build_resources
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings

if TYPE_CHECKING:
    from cli.conftest import CommandLine

SECRET = "s3cr3t-never-shown"  # noqa: S105  that is the point
VARIABLES = {
    "DATABASE_URL": f"postgresql://hub:{SECRET}-database@127.0.0.1:1/hub?connect_timeout=1",
    "QDRANT_URL": "http://127.0.0.1:1",
    "QDRANT_API_KEY": f"{SECRET}-qdrant",
    "THREADHOUSE_TOKEN": f"{SECRET}-token",
}
COMMANDS = (
    ("doctor",),
    ("doctor", "--json"),
    ("nightly",),
    ("--debug", "nightly"),
    ("audit",),
    ("query", "anything"),
    ("security", "list"),
    ("security", "probe"),
    ("policy", "show"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_shows_a_secret(untouched: CommandLine, command: tuple[str, ...]) -> None:
    done = untouched(*command, **VARIABLES)
    assert SECRET not in done.stdout + done.stderr
    assert done.returncode != 0
    if untouched.home.exists():
        written = [path for path in untouched.home.rglob("*") if path.is_file()]
        assert [path for path in written if SECRET.encode() in path.read_bytes()] == []


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    return Settings.from_environment()


def test_settings_and_the_database_do_not_show_them(settings: Settings) -> None:
    assert settings.database_url is not None
    database = Database(settings.database_url.get_secret_value(), is_embedded=False)
    shown = f"{settings!r} {settings} {settings.model_dump_json()} {database!r} {database.address}"
    assert SECRET not in shown


def test_resources_and_the_graph_do_not_show_them(settings: Settings) -> None:
    resources: dict[str, Any] = dict(build_resources())
    definitions = build_definitions(settings)
    shown = [repr(resources), repr(definitions)]
    shown += [
        str(r.model_dump()) for r in resources.values() if isinstance(r, dg.ConfigurableResource)
    ]
    for node in definitions.resolve_asset_graph().asset_nodes:
        shown.append(f"{node.metadata} {node.description}")
    assert [text for text in shown if SECRET in text] == []
