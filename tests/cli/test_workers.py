"""The same night in processes of its own and by workers of celery, and what is said when celery is not set up."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from cli.conftest import CommandLine
from threadhouse.stores.model_build import models_directory

WORKERS = 2


@pytest.fixture
def house(model_home: Path, tmp_path: Path) -> Generator[CommandLine, None, None]:
    home = tmp_path / "home"
    home.mkdir()
    models_directory(home).symlink_to(models_directory(model_home))
    threadhouse = CommandLine(home)
    try:
        yield threadhouse
    finally:
        threadhouse("stop")


def celery_of(house: CommandLine) -> dict[str, str]:
    """Broker and results in files: enough for workers of one machine."""
    return {
        "EXECUTOR": "celery",
        "EXECUTOR_URL": f"sqla+sqlite:///{house.home}/broker.db",
        "EXECUTOR_RESULTS_URL": f"db+sqlite:///{house.home}/results.db",
    }


@contextmanager
def workers(house: CommandLine, variables: dict[str, str]) -> Generator[None, None, None]:
    """Two of them; they end with the block."""
    with ExitStack() as stack:
        for _ in range(WORKERS):
            process: Popen[str] = stack.enter_context(house.start("worker", **variables))
            stack.callback(process.terminate)
        yield


@pytest.mark.parametrize(
    ("command", "executor", "said"),
    [
        ("nightly", "celery", "EXECUTOR=celery needs EXECUTOR_URL"),
        ("worker", "celery", "EXECUTOR=celery needs EXECUTOR_URL"),
        ("worker", "in_process", "A worker needs EXECUTOR=celery and EXECUTOR_URL"),
        ("nightly", "dask", "EXECUTOR cannot be used: "),
    ],
)
def test_an_engine_that_cannot_be_used_is_refused_in_one_sentence(
    untouched: CommandLine, command: str, executor: str, said: str
) -> None:
    done = untouched(command, EXECUTOR=executor)
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not untouched.home.exists()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("executor", ["multiprocess", "celery"])
def test_a_night_of_several_processes_builds_what_one_process_builds(
    house: CommandLine, sample_hub: CommandLine, executor: str
) -> None:
    variables = {"EXECUTOR": executor, **(celery_of(house) if executor == "celery" else {})}
    with ExitStack() as stack:
        if executor == "celery":
            stack.enter_context(workers(house, variables))
        process = stack.enter_context(
            house.start("nightly", "--sample-if-empty", "--json", **variables)
        )
        said, complained = process.communicate(timeout=1700)
    assert process.returncode == 0, complained
    night = json.loads(said)
    embedded = night["assets"]["embedded_texts"]
    # Every text by a bucket, and none of them again by the publish.
    assert embedded["buckets"] == 8
    assert embedded["texts_embedded"] > 100
    assert night["assets"]["information_unit_vectors"]["texts_embedded"] == 0
    assert house("audit", "--json").returncode == 0
    question = ("query", "nghỉ phép năm", "--audience", "employee", "--json")
    answers = [json.loads(each(*question).stdout)["pack"] for each in (house, sample_hub)]
    units = [[unit["logical_unit_id"] for unit in pack["canonical_units"]] for pack in answers]
    assert units[0] == units[1] != []
