"""The console script as a process, the way cron, make and people start it.

Belongs here: starting it with an environment of its own, and a home that several tests share. Does not belong here: expectations.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from threadhouse.stores.model_build import models_directory
from threadhouse.stores.settings import Settings

SCRIPT = Path(sys.executable).with_name("threadhouse")
# The slowest command that these tests run is a whole nightly; on two busy cores it takes a few minutes.
TIMEOUT_S = 280


@dataclass(frozen=True)
class CommandLine:
    """``threadhouse`` with one home; call it with arguments, and with variables by name."""

    home: Path

    def environment(self, **variables: str) -> dict[str, str]:
        """This process's environment without any setting but the home, plus ``variables``."""
        settings = {name.upper() for name in Settings.model_fields}
        kept = {name: value for name, value in os.environ.items() if name not in settings}
        return {**kept, "THREADHOUSE_HOME": str(self.home), **variables}

    def __call__(
        self, *arguments: str | Path, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SCRIPT, *arguments],
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def start(self, *arguments: str | Path, **variables: str) -> subprocess.Popen[str]:
        """Start and do not wait. Ctrl-C reaches it even when this test run was started in the background of a shell."""
        return subprocess.Popen(
            [SCRIPT, *arguments],
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            env=self.environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )


@pytest.fixture
def untouched(tmp_path: Path) -> CommandLine:
    """A home that does not exist; nothing that a test does here may start a server."""
    return CommandLine(tmp_path / "home")


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Generator[CommandLine, None, None]:
    """A home with a running, migrated, empty database; whoever loads into it says what."""
    threadhouse = CommandLine(tmp_path_factory.mktemp("cli_home"))
    done = threadhouse("migrate")
    assert done.returncode == 0, done.stderr
    try:
        yield threadhouse
    finally:
        threadhouse("stop")


@pytest.fixture(scope="session")
def sample_hub(
    model_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Generator[CommandLine, None, None]:
    """A home with the sample hub after its first night. Whoever changes it puts it back."""
    home = tmp_path_factory.mktemp("sample_home")
    models_directory(home).symlink_to(models_directory(model_home))
    threadhouse = CommandLine(home)
    try:
        done = threadhouse("nightly", "--sample-if-empty")
        assert done.returncode == 0, done.stderr
        yield threadhouse
    finally:
        threadhouse("stop")


@pytest.fixture
def small_hub(tmp_path: Path) -> Path:
    """One document with two units, and one file that cannot be a document."""
    folder = tmp_path / "hub"
    (folder / "documents").mkdir(parents=True)
    (folder / "documents" / "rules.md").write_text(
        "---\ndocument_id: rules\ntitle: Rules\nlanguage: en\naddress_prefix: R\nunit_kind: clause\n"
        "lifecycle_stage: law\nvisibility: public\nreadiness: published\npublication_state: published\n"
        "risk_class: low\nauthority: enacted\n---\n# Rules\n\n## First\n\nBe kind.\n\n## Second\n\nBe brief.\n",
        encoding="utf-8",
    )
    (folder / "documents" / "broken.md").write_text("---\ntitle: [\n---\n# No\n", encoding="utf-8")
    return folder
