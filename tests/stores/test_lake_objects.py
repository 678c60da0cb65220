"""A lake in an object store: the store is the truth, and every machine reads a copy of it that it need not trust.

Method: a real S3 server in this process. Two homes with one database and one bucket are two machines.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest

from fixtures_object_store import SECRET, ObjectServer
from threadhouse.retrieval.data_expectations import SuiteName
from threadhouse.retrieval.errors import (
    ConfigurationError,
    RetentionError,
    StoreLockedError,
    StoreUnreachableError,
)
from threadhouse.retrieval.events import RetrievalEvent
from threadhouse.stores.analytics import asking, refresh_analytics
from threadhouse.stores.data_facts import ProductStores, read_states
from threadhouse.stores.doctor import State, diagnose
from threadhouse.stores.event_retention import RetentionRule, apply_retention
from threadhouse.stores.lake import DAY_FILE, EventLake
from threadhouse.stores.lake_extract import days_to_look_at, extract_days
from threadhouse.stores.metrics_store import append_events, count_days, days_due
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings

ZONE = ZoneInfo("Asia/Ho_Chi_Minh")
MORNING = datetime(2026, 11, 16, 3, tzinfo=UTC)  # 10:00 in Saigon
MONDAY, TUESDAY, WEDNESDAY = (date(2026, 11, day) for day in (16, 17, 18))
STATE = "hub/retrieval_metric_event/.extracted.json"

Machine = Callable[[], EventLake]


@pytest.fixture
def machine(object_server: ObjectServer, bucket: str, tmp_path: Path) -> Machine:
    """Lakes of machines that have nothing in common but the bucket."""
    homes = iter(tmp_path / name for name in ("one", "other", "third"))
    return lambda: object_server.lake(next(homes), bucket)


@pytest.fixture
def database(database: Database) -> Database:
    """A query on each of three days."""
    ask(database, *range(3))
    return database


def ask(database: Database, *days: int) -> None:
    append_events(
        database,
        [
            RetrievalEvent.model_validate(
                {
                    "event_id": uuid4(),
                    "occurred_at": MORNING + timedelta(days=day),
                    "type": "query",
                    "query_id": uuid4(),
                    "lane": "employee",
                    "resolution_path": "none",
                }
            )
            for day in days
        ],
    )


def object_of(day: date) -> str:
    return f"hub/retrieval_metric_event/local_day={day}/{DAY_FILE}"


def events_in(lake: EventLake) -> dict[date, int]:
    return {day: digest.event_count for day, digest in lake.digests().items()}


def test_what_one_machine_extracts_and_counts_another_one_reads(
    database: Database, machine: Machine
) -> None:
    one, other = machine(), machine()
    extract_days(database, one, ZONE)
    count_days(database, one, ZONE, days_due(database, one))

    assert events_in(other) == {MONDAY: 1, TUESDAY: 1, WEDNESDAY: 1}
    assert [other.read_day(day).equals(one.read_day(day)) for day in events_in(one)] == [True] * 3
    assert days_to_look_at(database, other, ZONE) == days_due(database, other) == ()
    assert extract_days(database, other, ZONE).days_written == ()
    assert refresh_analytics(database, other)
    statement = (
        "select count(*), (select count(*) from daily_rates where lane = 'overall') > 0 from events"
    )
    with asking(other, statement, other.root.parent) as answer:
        assert list(answer.rows) == [(3, True)]


def test_machines_judge_a_day_once_between_them(database: Database, machine: Machine) -> None:
    """The state of a day's file is that of its object, and not of the copy, whose time is its own."""
    one, other = machine(), machine()
    extract_days(database, one, ZONE)
    states = [
        read_states(ProductStores(database, lake, ZONE), SuiteName.EVENTS) for lake in (one, other)
    ]
    assert states[0] == states[1]


def test_only_what_changed_is_copied(
    database: Database, machine: Machine, object_server: ObjectServer
) -> None:
    one, other = machine(), machine()
    extract_days(database, one, ZONE)
    other.catch_up()
    ask(database, 1)
    extract_days(database, one, ZONE)
    object_server.requests.clear()
    assert events_in(other)[TUESDAY] == 2
    fetched = {path.rpartition("hub/")[2] for _, path in object_server.requests if "hub/" in path}
    assert fetched == {object_of(TUESDAY).removeprefix("hub/"), STATE.removeprefix("hub/")}
    object_server.requests.clear()
    other.catch_up()
    assert [method for method, _ in object_server.requests] == ["GET"]


def test_the_state_of_the_lake_is_put_after_its_days(
    database: Database, machine: Machine, object_server: ObjectServer
) -> None:
    object_server.requests.clear()
    extract_days(database, machine(), ZONE)
    puts = [path.partition("/hub/")[2] for kind, path in object_server.requests if kind == "PUT"]
    assert f"hub/{puts[-1]}" == STATE
    assert [f"hub/{put}" for put in puts[:-1]] == [*map(object_of, (MONDAY, TUESDAY, WEDNESDAY))]


@pytest.mark.parametrize(("step", "number"), [("object put", 2), ("day in place", 1)])
def test_a_run_that_was_killed_is_finished_by_whichever_machine_comes_next(
    database: Database,
    machine: Machine,
    object_server: ObjectServer,
    bucket: str,
    tmp_path: Path,
    step: str,
    number: int,
) -> None:
    one, other = machine(), machine()
    extract_days(database, one, ZONE)
    ask(database, 0, 1, 2)
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    child = subprocess.run(
        [
            *(sys.executable, __file__, database.conninfo, str(tmp_path / "one")),
            *(f"s3://{bucket}/hub", object_server.endpoint, step, str(number)),
        ],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert child.returncode == -signal.SIGKILL, child.stderr

    whole = {1, 2}
    assert set(events_in(other).values()) == set(events_in(one).values()) == whole
    done = extract_days(database, other, ZONE)
    assert (len(done.days_written), done.days_unchanged) == (3 - number, number)
    for lake in (one, other):
        assert events_in(lake) == {MONDAY: 2, TUESDAY: 2, WEDNESDAY: 2}
        assert days_to_look_at(database, lake, ZONE) == ()


@pytest.mark.parametrize("harm", ["torn", "removed", "note lost", "all gone"])
def test_a_copy_that_is_not_the_object_is_copied_again(
    database: Database, machine: Machine, harm: str
) -> None:
    lake = machine()
    extract_days(database, lake, ZONE)
    file = lake.file_of(TUESDAY)
    whole = file.read_bytes()
    match harm:
        case "torn":
            file.write_bytes(whole[:100])
        case "removed":
            file.unlink()
        case "note lost":
            file.with_name(f".{DAY_FILE}.object").unlink()
        case _:
            for path in sorted(lake.root.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
    assert days_to_look_at(database, lake, ZONE) == ()
    assert lake.file_of(TUESDAY).read_bytes() == whole


def test_an_object_that_somebody_else_put_is_held_against_postgres(
    database: Database, machine: Machine, object_server: ObjectServer, bucket: str
) -> None:
    """Such as a writer that lost its lock while it was putting: its day may be older than the one it replaced."""
    lake = machine()
    extract_days(database, lake, ZONE)
    older = object_server.client.get_object(Bucket=bucket, Key=object_of(MONDAY))["Body"].read()
    ask(database, 0)
    extract_days(database, lake, ZONE)
    object_server.client.put_object(Bucket=bucket, Key=object_of(MONDAY), Body=older)
    object_server.client.put_object(Bucket=bucket, Key=object_of(TUESDAY), Body=b"no Parquet")
    object_server.client.delete_object(Bucket=bucket, Key=object_of(WEDNESDAY))
    assert extract_days(database, lake, ZONE).days_written == (MONDAY, TUESDAY, WEDNESDAY)
    assert events_in(lake) == {MONDAY: 2, TUESDAY: 1, WEDNESDAY: 1}


def test_what_else_lies_in_the_bucket_is_left_alone(
    database: Database, machine: Machine, object_server: ObjectServer, bucket: str
) -> None:
    strange = "hub/retrieval_metric_event/local_day=2026-11-16/notes.txt"
    for key in (
        strange,
        "hub/retrieval_metric_event_of_others/local_day=2026-11-16/events.parquet",
    ):
        object_server.client.put_object(Bucket=bucket, Key=key, Body=b"x")
    lake = machine()
    assert (events_in(lake), lake.file_sizes()) == ({}, [])
    extract_days(database, lake, ZONE)
    assert object_server.client.get_object(Bucket=bucket, Key=strange)["Body"].read() == b"x"


def test_a_day_that_retention_removes_is_gone_for_every_machine(
    database: Database, machine: Machine
) -> None:
    one, other = machine(), machine()
    extract_days(database, one, ZONE)
    assert TUESDAY in events_in(other)
    rule = RetentionRule(query_text_days=None, event_days=2, lake_days=2)
    done = apply_retention(database, one, ZONE, rule, WEDNESDAY)
    assert (done.days_closed, done.files_removed) == ((MONDAY,), (MONDAY,))
    assert [*events_in(other)] == [TUESDAY, WEDNESDAY]


def test_a_day_leaves_postgres_only_when_the_store_has_it(
    database: Database,
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    object_server: ObjectServer,
    bucket: str,
) -> None:
    """The copy is no proof: what it was copied from may have gone since."""
    lake = machine()
    extract_days(database, lake, ZONE)
    object_server.client.delete_object(Bucket=bucket, Key=object_of(MONDAY))
    monkeypatch.setattr("threadhouse.stores.event_retention.extract_days", lambda *_: None)
    with pytest.raises(RetentionError):
        apply_retention(database, lake, ZONE, RetentionRule(None, 2, None), WEDNESDAY)


def test_a_writer_on_another_machine_is_told_to_wait(database: Database, machine: Machine) -> None:
    with (
        machine().writing(database),
        pytest.raises(StoreLockedError, match="event lake is being written by"),
        machine().writing(database),
    ):
        pass


def test_a_file_of_many_parts_arrives_whole(machine: Machine, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(os.urandom(11_000_000))
    one, other = machine(), machine()
    one.adopt_day(MONDAY, large)
    other.catch_up()
    assert other.file_of(MONDAY).read_bytes() == large.read_bytes()
    assert other.version_of(MONDAY) == one.version_of(MONDAY)


def test_a_store_that_is_not_there_is_one_sentence_and_nothing_is_lost(
    database: Database, machine: Machine, tmp_path: Path
) -> None:
    lake = machine()
    dead = EventLake.open(
        Settings(
            threadhouse_home=tmp_path, lake_url="s3://b/hub", aws_endpoint_url="http://127.0.0.1:1"
        )
    )
    with pytest.raises(StoreUnreachableError) as caught:
        extract_days(database, dead, ZONE)
    sentence = "The event lake in s3://b/hub at http://127.0.0.1:1 does not answer; check LAKE_URL and that the store runs."
    assert (str(caught.value), caught.value.__cause__) == (sentence, None)
    assert len(extract_days(database, lake, ZONE).days_written) == 3


def test_a_store_that_does_not_let_us_in_is_one_sentence_without_the_key(
    object_server: ObjectServer, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another-key")
    with pytest.raises(StoreUnreachableError, match="does not let us in; check AWS_") as caught:
        object_server.lake(tmp_path, bucket).digests()
    assert "another-key" not in str(caught.value)
    monkeypatch.undo()
    with pytest.raises(StoreUnreachableError, match="there is no such bucket; create it"):
        object_server.lake(tmp_path, "nobodys").digests()


def test_without_credentials_the_variables_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    # Where nothing is, instead of the service that machines of Amazon have.
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1/metadata")
    lake = EventLake.open(Settings(threadhouse_home=tmp_path, lake_url="s3://bucket/nobody"))
    with pytest.raises(StoreUnreachableError, match="set AWS_ACCESS_KEY_ID and"):
        lake.digests()


def test_a_fork_of_a_process_that_used_the_store_is_told_instead_of_waiting_for_ever(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = machine()
    lake.catch_up()
    monkeypatch.setattr("os.getpid", lambda: 1)
    with pytest.raises(StoreUnreachableError, match="was used before this process was forked"):
        lake.catch_up()


@pytest.mark.parametrize(
    "address",
    [
        "s3://",
        "s3:///hub",
        "s3://key:hunter2@bucket/hub",
        "s3://bucket/hub?signature=hunter2",
        "s3://bucket/../hub",
        "gs://bucket//hub",
        "az://container:80/hub",
    ],
)
def test_an_address_that_is_none_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(ConfigurationError, match="LAKE_URL is no address such as") as caught:
        EventLake.open(Settings(lake_url=address))
    assert "hunter2" not in str(caught.value)


def test_addresses_that_look_alike_have_copies_of_their_own(tmp_path: Path) -> None:
    addresses = ("s3://a/b-c", "s3://a-b/c", "s3://a/b/c", "s3://a/B-C", "gs://a/b-c", "az://a/b-c")
    roots = {
        EventLake.open(Settings(threadhouse_home=tmp_path, lake_url=address)).root
        for address in (*addresses, "s3://a/b-c/")
    }
    assert len(roots) == len(addresses)
    assert {root.parent for root in roots} == {tmp_path / "lake-cache"}


def test_the_doctor_looks_at_the_store_and_shows_no_secret(
    database: Database, machine: Machine, object_server: ObjectServer, bucket: str, tmp_path: Path
) -> None:
    extract_days(database, machine(), ZONE)
    settings = object_server.settings(tmp_path, bucket)
    found = {finding.name: finding for finding in diagnose(settings).findings}
    assert found["event lake"].detail.startswith("3 Parquet files, ")
    assert found["event lake"].detail.endswith(f", in s3://{bucket}/hub")
    dead = settings.model_copy(update={"aws_endpoint_url": "http://127.0.0.1:1"})
    said = diagnose(dead)
    assert [f.state for f in said.findings if f.name == "event lake"] == [State.FAIL]
    assert SECRET not in json.dumps(said.to_json())


if __name__ == "__main__":
    conninfo, home, url, endpoint, kill_step, kill_number = sys.argv[1:]
    met = 0

    def die(name: str) -> None:
        global met
        met += name == kill_step
        if met == int(kill_number):
            os.kill(os.getpid(), signal.SIGKILL)

    killed = EventLake.open(
        Settings(threadhouse_home=Path(home), lake_url=url, aws_endpoint_url=endpoint)
    )
    extract_days(Database(conninfo, is_embedded=True), killed, ZONE, on_step=die)
