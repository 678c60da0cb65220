"""What every command owes whoever starts it: one sentence on an error, the right exit code, clean JSON, an end on Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.conftest import SCRIPT, CommandLine
from threadhouse.stores import embedded_postgres, queries
from threadhouse.stores.advisory_locks import advisory_lock
from threadhouse.stores.postgres import Database


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


def loaded_modules(*arguments: str) -> set[str]:
    """Names of the top-level modules that a command has imported when it ends."""
    code = (
        "import sys; from threadhouse.pipelines import cli; cli.run(sys.argv[1:]);"
        "print('MODULES', *{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stdout.rpartition("MODULES")[2].split())


def test_help_imports_nothing_heavy() -> None:
    heavy = {
        "dagster",
        "numpy",
        "polars",
        "psycopg",
        "fastembed",
        "qdrant_client",
        "pydantic",
        "rich",
    }
    assert not heavy & loaded_modules("--help")


def test_doctor_imports_neither_dagster_nor_the_embedder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("THREADHOUSE_HOME", str(tmp_path))
    assert not {"dagster", "fastembed", "onnxruntime", "qdrant_client"} & loaded_modules("doctor")


def test_without_arguments_the_help_is_shown(untouched: CommandLine) -> None:
    done = untouched()
    assert (done.returncode, lines(done.stdout)[0][:18]) == (0, "Usage: threadhouse")


@pytest.mark.parametrize(
    "arguments",
    [
        ("load",),
        ("nightly", "--sideways"),
        ("ui", "--port", "0"),
        ("report", "--day", "yesterday"),
        ("query",),
        ("model", "eat"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(
    untouched: CommandLine, arguments: tuple[str, ...]
) -> None:
    done = untouched(*arguments)
    assert (done.returncode, done.stdout, len(lines(done.stderr))) == (2, "", 1)
    assert done.stderr.startswith("threadhouse")
    assert "--help" in done.stderr


def test_a_path_that_does_not_exist_starts_nothing(untouched: CommandLine, tmp_path: Path) -> None:
    done = untouched("load", tmp_path / "nowhere")
    assert (done.returncode, len(lines(done.stderr))) == (1, 1)
    assert "does not exist" in done.stderr
    assert not untouched.home.exists()


def test_a_wrong_setting_is_named(untouched: CommandLine) -> None:
    done = untouched("doctor", THREADHOUSE_TZ="Mars/Olympus")
    assert (done.returncode, len(lines(done.stderr))) == (1, 1)
    assert "THREADHOUSE_TZ" in done.stderr


def test_an_unreachable_database_is_one_sentence_without_the_password(
    untouched: CommandLine,
) -> None:
    address = "postgresql://anna:s3cret@127.0.0.1:1/hub"
    done = untouched("migrate", DATABASE_URL=address)
    assert (done.returncode, len(lines(done.stderr))) == (1, 1)
    assert "anna@127.0.0.1:1/hub" in done.stderr
    assert "s3cret" not in done.stderr
    told = untouched("--debug", "migrate", DATABASE_URL=address)
    assert "Traceback" in told.stderr
    assert "s3cret" not in told.stderr


@pytest.mark.parametrize(
    "address",
    ["postgresql://anna@127.0.0.1:1/hub?password=", "host=127.0.0.1 port=1 password='my s3cret'"],
)
def test_any_form_of_a_database_address_ends_in_one_sentence(tmp_path: Path, address: str) -> None:
    done = CommandLine(tmp_path)("migrate", DATABASE_URL=address)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "s3cret" not in done.stderr


def test_a_home_that_is_a_file_is_one_sentence(untouched: CommandLine) -> None:
    untouched.home.write_text("a file where the home should be")
    done = untouched("migrate")
    assert (done.returncode, len(lines(done.stderr))) == (1, 1)
    assert "is not a folder" in done.stderr


def test_what_nobody_foresaw_is_one_sentence_and_a_log_unless_debug(untouched: CommandLine) -> None:
    (untouched.home / "models" / "records" / "a-folder-where-a-file-should-be.json").mkdir(
        parents=True
    )
    done = untouched("model", "list")
    assert (done.returncode, len(lines(done.stderr))) == (1, 1)
    log = untouched.home / "logs" / "unexpected.log"
    assert str(log) in done.stderr
    assert "Traceback" in log.read_text()
    assert "Traceback" in untouched("--debug", "model", "list").stderr


def test_doctor_on_a_new_machine_says_make_nightly_and_makes_nothing(
    untouched: CommandLine,
) -> None:
    done = untouched("doctor")
    assert done.returncode == 0
    assert "nothing has been set up here yet" in done.stdout
    assert "run make nightly" in done.stdout
    assert not untouched.home.exists()


def test_a_sick_doctor_returns_3_with_whole_json(untouched: CommandLine) -> None:
    done = untouched("doctor", "--json", EMBEDDING_MODEL="a/b", EMBEDDING_PATH="/nowhere")
    assert done.returncode == 3
    assert json.loads(done.stdout)["is_sick"] is True


def test_a_reader_that_leaves_early_gets_no_traceback(migrated: CommandLine) -> None:
    command = f"'{SCRIPT}' doctor | head -n 1"
    done = subprocess.run(
        ["sh", "-c", command],
        env=migrated.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


def test_migrating_again_says_that_there_is_nothing_to_do(migrated: CommandLine) -> None:
    assert migrated("migrate").stdout == "The schema is up to date.\n"


def test_load_reports_in_json_alone_and_progress_goes_to_the_log(
    migrated: CommandLine, small_hub: Path
) -> None:
    first = migrated("load", small_hub, "--json")
    assert first.returncode == 0, first.stderr
    report = json.loads(first.stdout)
    assert report["tables"]["tac_logical_unit"]["inserted"] == 2
    assert [item["file"] for item in report["quarantined"]] == ["documents/broken.md"]
    assert lines(first.stderr)[-1] == "Loading files: 2 of 2 (100%)"
    again = json.loads(migrated("load", small_hub, "--json").stdout)
    assert again["tables"]["tac_logical_unit"]["inserted"] == 0


def test_on_a_terminal_progress_is_a_bar(migrated: CommandLine, small_hub: Path) -> None:
    reader, writer = pty.openpty()
    with subprocess.Popen(
        [SCRIPT, "load", small_hub],
        env=migrated.environment(TERM="xterm", COLUMNS="100"),
        stdout=subprocess.DEVNULL,
        stderr=writer,
    ) as process:
        os.close(writer)
        shown = b""
        try:
            while part := os.read(reader, 4096):
                shown += part
        except OSError:
            pass  # Linux answers like this when the other end of a terminal is closed
        os.close(reader)
    assert process.returncode == 0
    assert "━" in shown.decode()


def test_a_report_before_the_first_nightly_says_what_to_run(migrated: CommandLine) -> None:
    done = migrated("report")
    assert (done.returncode, len(lines(done.stderr))) == (1, 1)
    assert "run threadhouse nightly" in done.stderr


def test_a_busy_port_is_one_sentence(untouched: CommandLine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = untouched("ui", "--port", str(taken.getsockname()[1]))
    assert (done.returncode, len(lines(done.stderr))) == (1, 1)
    assert "--port" in done.stderr
    assert not untouched.home.exists()


def test_ctrl_c_is_one_line_and_code_130(migrated: CommandLine, small_hub: Path) -> None:
    database = Database(embedded_postgres.status(migrated.home).conninfo(), is_embedded=True)
    with database.connect() as connection:
        connection.execute(queries.load("load_lock"))
        process = migrated.start("load", small_hub, LOCK_TIMEOUT_S="120")
        waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        deadline = time.monotonic() + 60
        while connection.execute(waiting).fetchone() == (0,) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        try:
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert lines(said) == [
        "threadhouse: interrupted; what was finished is kept, run the command again to go on."
    ]


def test_a_second_nightly_says_who_is_at_work(migrated: CommandLine) -> None:
    database = Database(embedded_postgres.status(migrated.home).conninfo(), is_embedded=True)
    with advisory_lock(database, "threadhouse nightly", "never said"):
        done = migrated("nightly")
    assert (done.returncode, len(lines(done.stderr))) == (1, 1)
    assert f" {os.getpid()} " in done.stderr
    assert "wait for it to end" in done.stderr


def test_model_list_of_an_empty_home_says_how_to_get_one(untouched: CommandLine) -> None:
    assert "threadhouse model build" in untouched("model", "list").stdout
    assert json.loads(untouched("model", "list", "--json").stdout) == []


def test_model_check_without_a_model_fails_in_one_sentence(untouched: CommandLine) -> None:
    done = untouched("model", "check")
    assert (done.returncode, len(lines(done.stderr))) == (1, 1)


def test_stop_ends_the_server_of_this_home_and_then_has_nothing_to_stop(tmp_path: Path) -> None:
    threadhouse = CommandLine(tmp_path / "h")
    assert threadhouse("migrate").returncode == 0
    pid = embedded_postgres.status(threadhouse.home).pid
    assert pid is not None
    assert f"process {pid}" in threadhouse("stop").stdout
    assert not embedded_postgres.status(threadhouse.home).is_running
    assert threadhouse("stop").stdout.startswith("Nothing was running")
