"""The doctor says what is wrong and what to do, shows no secret, and touches nothing.

Real databases, locks and folders; the model is two small files with a true manifest, since the doctor loads none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, LiteralString

import pytest
from pydantic import SecretStr

from hub_rows import add_document
from threadhouse.stores import queries
from threadhouse.stores.advisory_locks import advisory_lock
from threadhouse.stores.change_log import begin_reconcile, end_reconcile
from threadhouse.stores.doctor import (
    Diagnosis,
    Finding,
    Section,
    State,
    check_settings,
    diagnose,
    judge_free_space,
)
from threadhouse.stores.loading import load_path
from threadhouse.stores.model_build import ModelManifest, hash_file
from threadhouse.stores.pipeline_runs import NIGHTLY_LOCK, close_killed_runs
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import projection_lock
from threadhouse.stores.quarantine import QuarantinedItem, note_quarantined
from threadhouse.stores.settings import Settings
from threadhouse.stores.vectors_edge import EdgeWriter

MakeSettings = Callable[..., Settings]

DOCUMENT = """---
document_id: d1
title: Rules
language: en
address_prefix: R
visibility: public
readiness: published
publication_state: published
risk_class: low
authority: enacted
lifecycle_stage: law
unit_kind: clause
---
# Rules

## First

Be kind.

## Second

Be brief.
"""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def model_files(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("model.onnx", "tokenizer.json"):
        (folder / name).write_text(name)
    files = {name: hash_file(folder / name) for name in ("model.onnx", "tokenizer.json")}
    manifest = ModelManifest(
        name="small",
        model="test/small",
        weights_sha256="0" * 64,
        tokenizer_sha256="1" * 64,
        dim=4,
        max_tokens=32,
        pooling="MEAN",
        query_prefix="",
        passage_prefix="",
        files=files,
        model_file="model.onnx",
    )
    (folder / "manifest.json").write_text(json.dumps(asdict(manifest)))
    return folder


@pytest.fixture
def make_settings(tmp_path: Path, model_files: Path) -> MakeSettings:
    home = tmp_path / "home"

    def make(database: Database | None = None, **changes: object) -> Settings:
        home.mkdir(exist_ok=True)
        address = SecretStr(database.conninfo) if database else None
        given: dict[str, Any] = {
            "threadhouse_home": home,
            "database_url": address,
            "embedding_path": model_files,
        }
        return Settings(**{**given, **changes})

    return make


def named(diagnosis: Diagnosis, name: str) -> Finding:
    found = [finding for finding in diagnosis.findings if finding.name == name]
    assert len(found) == 1, [finding.name for finding in diagnosis.findings]
    return found[0]


def insert_run(database: Database, status: str, hours_ago: int) -> None:
    with database.connect() as connection:
        connection.execute(
            "insert into nao.pipeline_run (run_id, kind, status, started_at, finished_at)"
            " values (gen_random_uuid()::text, 'nightly', %(status)s, now() - %(age)s::interval, now() - %(age)s::interval)",
            {"status": status, "age": f"{hours_ago} hours"},
        )


def test_a_home_that_does_not_exist_is_not_made_and_the_remedy_is_make_nightly(
    tmp_path: Path,
) -> None:
    home = tmp_path / "nowhere"
    finding = named(diagnose(Settings(threadhouse_home=home), {}), "home")
    assert (finding.state, finding.remedy, home.exists()) == (State.WARN, "run make nightly", False)


def test_looking_changes_no_file_of_the_home(
    make_settings: MakeSettings, database: Database
) -> None:
    settings = make_settings(database)
    before = sorted(settings.home.rglob("*"))
    diagnose(settings)
    assert sorted(settings.home.rglob("*")) == before


def test_a_stopped_embedded_server_is_not_started(make_settings: MakeSettings) -> None:
    settings = make_settings()
    data = settings.home / "postgres" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("18\n")
    finding = named(diagnose(settings), "PostgreSQL")
    assert "is stopped" in finding.detail
    assert finding.state is State.WARN
    assert not (settings.home / "postgres" / "log").exists()


def test_every_setting_is_listed_with_its_source(tmp_path: Path) -> None:
    settings = Settings(threadhouse_home=tmp_path)
    details = {
        f.name: f.detail for f in check_settings(settings, {"threadhouse_home": str(tmp_path)})
    }
    assert set(details) == {name.upper() for name in Settings.model_fields}
    assert details["THREADHOUSE_HOME"] == f"{tmp_path} (environment)"
    assert details["THREADHOUSE_TZ"].endswith("(default)")


def test_secrets_are_in_no_finding(tmp_path: Path) -> None:
    settings = Settings(
        threadhouse_home=tmp_path,
        database_url=SecretStr("postgresql://anna:hunter2@127.0.0.1:1/hub"),
        qdrant_url="https://127.0.0.1:1",
        qdrant_api_key=SecretStr("hunter3"),
        lake_url="s3://key:hunter4@bucket/events?signature=hunter5",
    )
    text = json.dumps(diagnose(settings, {}).to_json())
    assert "hunter" not in text
    assert "anna@127.0.0.1:1/hub" in text


def test_stores_that_do_not_answer_make_the_diagnosis_sick(tmp_path: Path) -> None:
    settings = Settings(
        threadhouse_home=tmp_path,
        database_url=SecretStr("postgresql://127.0.0.1:1/hub"),
        qdrant_url="http://127.0.0.1:1",
    )
    diagnosis = diagnose(settings, {})
    assert [named(diagnosis, name).state for name in ("PostgreSQL", "Qdrant")] == [
        State.FAIL,
        State.FAIL,
    ]
    assert named(diagnosis, "PostgreSQL").remedy == "check DATABASE_URL and that the server runs"
    assert diagnosis.is_sick


def test_a_variable_that_is_almost_a_setting_is_pointed_out(tmp_path: Path) -> None:
    environment = {"THREADHOUSE_TIMEZONE": "UTC", "THREADHOUSE_TEST_MODELS": "x", "HOME": "/"}
    findings = list(check_settings(Settings(threadhouse_home=tmp_path), environment))
    assert [f.name for f in findings if f.state is not State.OK] == ["THREADHOUSE_TIMEZONE"]


def test_a_key_that_everybody_on_the_way_can_read_is_pointed_out(tmp_path: Path) -> None:
    settings = Settings(
        threadhouse_home=tmp_path,
        qdrant_url="http://qdrant.example:6333",
        qdrant_api_key=SecretStr("k"),
    )
    worried = [f.name for f in check_settings(settings, {}) if f.state is State.WARN]
    assert worried == ["QDRANT_API_KEY"]


def test_two_models_at_once_are_a_failure(make_settings: MakeSettings, database: Database) -> None:
    diagnosis = diagnose(make_settings(database, embedding_model="some/model"), {})
    assert diagnosis.is_sick


def test_a_model_with_a_changed_file_is_a_failure_with_a_remedy(
    make_settings: MakeSettings, database: Database, model_files: Path
) -> None:
    (model_files / "model.onnx").write_text("other")
    finding = named(diagnose(make_settings(database)), "embedding model")
    assert finding.state is State.FAIL
    assert "threadhouse model build" in finding.remedy


def test_a_database_without_the_schema_names_the_pending_migrations(
    make_settings: MakeSettings, empty_database: Database
) -> None:
    finding = named(diagnose(make_settings(empty_database)), "schema")
    assert finding.state is State.WARN
    assert "0001_source_of_truth.sql" in finding.detail
    assert finding.remedy.startswith("run threadhouse migrate")


def test_a_migrated_empty_database_asks_for_a_load(
    make_settings: MakeSettings, database: Database
) -> None:
    diagnosis = diagnose(make_settings(database))
    assert named(diagnosis, "source of truth").remedy.startswith("run threadhouse load")
    assert named(diagnosis, "last nightly").state is State.WARN
    assert not diagnosis.is_sick


def test_changes_that_nobody_follows_are_named_when_even_a_night_should_have(
    database: Database, make_settings: MakeSettings
) -> None:
    settings = make_settings(database)
    assert named(diagnose(settings, {}), "changes").detail.startswith("never followed")
    begin_reconcile(database, "night")
    with database.connect() as connection:
        add_document(connection, "d")
    end_reconcile(database, "night")
    young = named(diagnose(settings, {}), "changes")
    assert (young.state, young.detail[:6]) == (State.OK, "1 wait")
    with database.connect() as connection:
        connection.execute("update nao.change_log set changed_at = now() - interval '27 hours'")
    old = named(diagnose(settings, {}), "changes")
    assert (old.state, "listen --once" in str(old.remedy)) == (State.WARN, True)


def test_the_holder_of_the_projection_lock_is_named(
    make_settings: MakeSettings, database: Database
) -> None:
    with projection_lock(database):
        finding = named(diagnose(make_settings(database)), "vector projection")
    assert (finding.section, finding.state) == (Section.LOCKED, State.WARN)
    assert f" {os.getpid()} (server process " in finding.detail
    assert named(diagnose(make_settings(database)), "database locks").detail == "none held"


@pytest.mark.parametrize(
    ("query", "name"), [("migration_lock", "schema migration"), ("load_lock", "loading")]
)
def test_other_locks_are_called_by_what_they_guard(
    make_settings: MakeSettings, database: Database, query: str, name: str
) -> None:
    with database.connect() as connection:
        connection.execute(queries.load(query))
        assert named(diagnose(make_settings(database)), name).state is State.WARN


def test_the_writer_of_the_vectors_is_named_while_it_writes_and_not_after(
    make_settings: MakeSettings, database: Database
) -> None:
    settings = make_settings(database)
    with EdgeWriter(settings.home):
        held = named(diagnose(settings), "vector writer")
    assert f"process {os.getpid()} (" in held.detail
    assert named(diagnose(settings), "vector writer").state is State.OK


@pytest.mark.parametrize(
    ("status", "hours_ago", "state"),
    [
        ("succeeded", 1, State.OK),
        ("succeeded", 30, State.WARN),
        ("failed", 1, State.FAIL),
        ("running", 1, State.OK),
    ],
)
def test_the_last_nightly_is_judged_by_its_end_and_its_age(
    make_settings: MakeSettings, database: Database, status: str, hours_ago: int, state: State
) -> None:
    insert_run(database, status, hours_ago)
    assert named(diagnose(make_settings(database)), "last nightly").state is state


def test_a_failed_nightly_says_when_one_last_succeeded(
    make_settings: MakeSettings, database: Database
) -> None:
    insert_run(database, "succeeded", 25)
    insert_run(database, "failed", 1)
    assert (
        "the last good one ended" in named(diagnose(make_settings(database)), "last nightly").detail
    )


def test_units_without_vectors_are_counted(
    make_settings: MakeSettings, database: Database, tmp_path: Path
) -> None:
    hub = tmp_path / "hub"
    (hub / "documents").mkdir(parents=True)
    (hub / "documents" / "rules.md").write_text(DOCUMENT)
    load_path(database, hub)
    finding = named(diagnose(make_settings(database)), "vectors: information_units")
    assert finding.detail == "2 of 2 behind the source: 2 new, 0 changed, 0 gone"


def test_what_is_in_quarantine_is_counted_by_source(
    make_settings: MakeSettings, database: Database
) -> None:
    with database.connect() as connection:
        note_quarantined(
            connection,
            "load:somewhere",
            [QuarantinedItem("a", "body", "empty"), QuarantinedItem("b", "", "bad")],
        )
    finding = named(diagnose(make_settings(database)), "load:somewhere")
    assert (finding.section, finding.state) == (Section.REFUSED, State.WARN)
    assert finding.detail.startswith("2 items in quarantine")


def test_a_pack_of_a_thread_that_changed_is_stale(
    make_settings: MakeSettings, database: Database
) -> None:
    with database.connect() as connection:
        connection.execute(
            "insert into nao.thread_context_pack_cache (thread_id, lane, pack_id, input_revision, policy_version, space_id,"
            " code_version, input_digest, pack, build_ms) "
            "values ('t', 'customer', gen_random_uuid(), 1, 1, 's', '0', 'd', '{}', 1)"
        )
    assert named(diagnose(make_settings(database)), "context packs").detail == "1 stored, 1 stale"


def test_a_password_in_the_address_is_not_needed_to_recognise_it(
    make_settings: MakeSettings, database: Database
) -> None:
    secret = f"{database.conninfo} password=hunter2"
    diagnosis = diagnose(make_settings(database, database_url=SecretStr(secret)))
    assert named(diagnosis, "PostgreSQL").state is State.OK
    assert "hunter2" not in str(diagnosis)


@pytest.mark.parametrize(
    ("free", "state"), [(80e9, State.OK), (3e9, State.WARN), (5e8, State.FAIL)]
)
def test_little_free_space_is_told_before_a_run_fails_for_it(free: float, state: State) -> None:
    assert judge_free_space(int(free), Path("/")).state is state


def test_row_level_security_is_in_force(make_settings: MakeSettings, database: Database) -> None:
    finding = named(diagnose(make_settings(database)), "row-level security")
    assert (finding.section, finding.state) == (Section.CONFIGURED, State.OK)
    assert "threadhouse_customer" in finding.detail


def test_a_table_that_was_left_open_is_named_with_what_it_means(
    make_settings: MakeSettings, database: Database
) -> None:
    with database.connect() as connection:
        connection.execute("alter table public.tac_logical_unit disable row level security")
    finding = named(diagnose(make_settings(database)), "row-level security")
    assert finding.state is State.WARN
    assert finding.detail.startswith(
        "public.tac_logical_unit has no row-level security: a lane that"
    )
    assert "cong.set_up_roles()" in finding.remedy


def change(database: Database, *statements: LiteralString) -> None:
    for statement in statements:
        with database.connect(autocommit=True) as connection:
            connection.execute(statement)


def test_a_change_log_that_nothing_takes_out_of_is_pointed_out(
    make_settings: MakeSettings, database: Database
) -> None:
    change(
        database,
        """insert into nao.change_log (table_name, row_key, op, lane, changed_at)
           values ('tac_logical_unit', 'u', 'update', 'content', now() - interval '40 days')""",
    )
    finding = named(diagnose(make_settings(database)), "change log")
    assert (finding.state, finding.detail[:18]) == (State.WARN, "1 changes, the old")
    assert "threadhouse retain" in finding.remedy
    assert (
        named(diagnose(make_settings(database, change_log_days=60)), "change log").state is State.OK
    )


def test_a_table_with_more_dead_rows_than_live_ones_is_pointed_out(
    make_settings: MakeSettings, database: Database
) -> None:
    assert named(diagnose(make_settings(database)), "vacuum").state is State.OK
    change(
        database,
        "alter table nao.thread_context_pack_cache set (autovacuum_enabled = false)",
        """insert into nao.thread_context_pack_cache (thread_id, lane, pack_id, input_revision, policy_version, space_id,
           code_version, input_digest, pack, build_ms)
           select 't' || n, 'customer', gen_random_uuid(), 1, 1, 's', '0', 'd', '{}', 1 from generate_series(1, 1500) n""",
        "delete from nao.thread_context_pack_cache where thread_id <> 't1'",
    )
    finding = named(diagnose(make_settings(database)), "vacuum")
    assert finding.state is State.WARN
    assert finding.detail.startswith(
        "nao.thread_context_pack_cache has 1,499 dead rows and 1 live ones"
    )
    change(database, "vacuum nao.thread_context_pack_cache")
    assert named(diagnose(make_settings(database)), "vacuum").state is State.OK


def test_a_nightly_that_was_killed_is_told_from_one_that_runs(
    make_settings: MakeSettings, database: Database
) -> None:
    insert_run(database, "running", 1)
    with advisory_lock(database, NIGHTLY_LOCK, "The nightly job is being run by"):
        names = [finding.name for finding in diagnose(make_settings(database)).findings]
    assert "killed nightly" not in names
    assert named(diagnose(make_settings(database)), "killed nightly").state is State.WARN
    assert close_killed_runs(database, "nightly") == 1
    diagnosis = diagnose(make_settings(database))
    assert "killed nightly" not in [finding.name for finding in diagnosis.findings]
    assert named(diagnosis, "last nightly").state is State.FAIL


@pytest.mark.parametrize(("is_proven", "state"), [(False, State.WARN), (True, State.FAIL)])
def test_what_a_killed_restore_left_is_pointed_out(
    make_settings: MakeSettings, database: Database, is_proven: bool, state: State
) -> None:
    settings = make_settings(database)
    (settings.home / ".restoring").mkdir()
    if is_proven:
        (settings.home / ".restoring" / "ready.json").write_text("{}")
    assert named(diagnose(settings), "restore").state is state
