"""Whole nights from the command line: interrupt, build, do nothing the second time, audit, repair, report, look, serve, stop.

One home for the module, since embedding the sample hub is what takes long. The model comes from the session. Each night is the
set-up of a test of its own, since every test may take only so long: those that need two follow those that need one.
"""

from __future__ import annotations

import json
import signal
import socket
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import CommandLine
from threadhouse.pipelines.ui_processes import running_ui
from threadhouse.stores import embedded_postgres
from threadhouse.stores.model_build import models_directory
from threadhouse.stores.postgres import Database


@pytest.fixture(scope="module")
def house(
    model_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Generator[CommandLine, None, None]:
    home = tmp_path_factory.mktemp("nightly_home")
    models_directory(home).symlink_to(models_directory(model_home))
    threadhouse = CommandLine(home)
    try:
        yield threadhouse
    finally:
        threadhouse("stop")


@pytest.fixture(scope="module")
def interrupted_night(house: CommandLine) -> tuple[int, list[str]]:
    """Exit code and log of a first night that loads the sample hub and is stopped by Ctrl-C in its first steps."""
    process = house.start("nightly", "--sample-if-empty")
    assert process.stderr is not None
    said: list[str] = []
    for line in process.stderr:
        said.append(line.strip())
        # Read while the job runs: a line that comes when it is over would find nobody to interrupt.
        if line.startswith("Cutting information_units"):
            process.send_signal(signal.SIGINT)
            break
    said += process.communicate(timeout=120)[1].strip().splitlines()
    return process.returncode, said


@pytest.fixture(scope="module")
def first_night(house: CommandLine, interrupted_night: tuple[int, list[str]]) -> dict[str, Any]:
    """What the first whole night reported; it follows one that was interrupted."""
    assert "Loaded the sample hub" in " ".join(interrupted_night[1])
    done = house("nightly", "--sample-if-empty", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def built(house: CommandLine, first_night: dict[str, Any]) -> CommandLine:
    """The home after its first night."""
    assert first_night["run_id"]
    return house


def test_a_night_ends_at_ctrl_c_with_code_130_and_one_line(
    interrupted_night: tuple[int, list[str]],
) -> None:
    code, said = interrupted_night
    assert code == 130
    assert said[-1].startswith("threadhouse: interrupted; ")
    assert not any("failed" in line for line in said)


def test_the_night_after_an_interrupted_one_builds_everything(
    first_night: dict[str, Any],
) -> None:
    rows = {
        name: figures.get("dagster/row_count", 0) for name, figures in first_night["assets"].items()
    }
    assert first_night["sample_loaded"] is False
    assert first_night["texts_embedded"] > 100
    assert min(rows[name] for name in ("unit_chunks", "thread_centroids", "context_packs")) > 0
    assert Path(first_night["report_page"]).is_file()


def test_what_a_night_writes_can_be_read_by_nobody_else(built: CommandLine) -> None:
    """But for the server's folder, in which its own files are closed as well."""
    open_to_others = [
        path.relative_to(built.home)
        for path in built.home.iterdir()
        if not path.is_symlink() and path.stat().st_mode & 0o066
    ]
    assert open_to_others == []
    assert (built.home / "lake").stat().st_mode & 0o077 == 0
    assert (built.home / "postgres" / "data").stat().st_mode & 0o077 == 0


def test_the_second_night_embeds_nothing_writes_nothing_and_says_so(built: CommandLine) -> None:
    done = built("nightly", "--sample-if-empty")
    assert done.returncode == 0, done.stderr
    assert "0 texts embedded, 0 vector writes: everything was up to date" in done.stdout
    assert "sample" not in done.stdout + done.stderr


def test_a_log_holds_the_lines_of_the_run_and_the_terminal_does_not(
    built: CommandLine, first_night: dict[str, Any]
) -> None:
    assert "STEP_SUCCESS" in Path(first_night["log"]).read_text()
    assert "STEP_SUCCESS" not in built("nightly", "--json").stderr


def test_the_audit_is_clean_after_a_night(built: CommandLine) -> None:
    done = built("audit", "--json")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["audit"]["is_clean"] is True


def test_the_audit_finds_a_lost_pointer_with_code_3_and_repairs_it(built: CommandLine) -> None:
    database = Database(embedded_postgres.status(built.home).conninfo(), is_embedded=True)
    with database.connect() as connection:
        connection.execute(
            "delete from nao.vector_projection where (physical, owner_id) in"
            " (select physical, owner_id from nao.vector_projection where collection = 'information_units' limit 1)"
        )
    dirty = built("audit")
    assert dirty.returncode == 3
    assert "threadhouse audit --repair" in dirty.stdout
    repaired = built("audit", "--repair")
    assert repaired.returncode == 0, repaired.stdout
    assert "0 texts embedded" in repaired.stdout


def test_the_report_is_printed_with_the_path_of_its_page(built: CommandLine) -> None:
    done = built("report")
    assert done.returncode == 0, done.stderr
    page = done.stdout.rpartition("HTML: ")[2].strip()
    assert Path(page).is_file()


def test_a_lane_without_a_report_names_those_that_have_one(built: CommandLine) -> None:
    done = built("report", "--lane", "nobody")
    assert done.returncode == 1
    assert "choose one of" in done.stderr
    assert "overall" in done.stderr


def test_the_doctor_is_content_after_a_night(built: CommandLine) -> None:
    done = built("doctor", "--json")
    findings = json.loads(done.stdout)["findings"]
    assert done.returncode == 0
    assert [
        f
        for f in findings
        if f["section"] in {"reachable", "stale", "locked"} and f["state"] != "ok"
    ] == []


def test_the_ui_serves_on_localhost_until_stop(built: CommandLine) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    process = built.start("ui", "--port", port)
    assert process.stdout is not None
    assert process.stdout.readline() == f"The UI is at http://127.0.0.1:{port} (Ctrl-C ends it)\n"
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=60) as answer:
        assert answer.status == 200
    second = built("ui", "--port", port)
    assert (second.returncode, len(second.stderr.strip().splitlines())) == (1, 1)
    stopped = built("stop")
    _, said = process.communicate(timeout=60)
    assert "Stopped the UI" in stopped.stdout
    assert process.returncode == 0, said
    assert running_ui(built.home) is None
