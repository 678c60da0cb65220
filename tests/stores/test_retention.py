# ruff: noqa: S608, E501
"""What leaves by age, and what stays whatever its age because somebody still needs it."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import LiteralString

import pytest

from threadhouse.stores import retention
from threadhouse.stores.postgres import Database
from threadhouse.stores.retention import LOGS, RULES, Removed, retain_records
from threadhouse.stores.settings import Settings

NOW = datetime.now(UTC)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    return Settings(threadhouse_home=tmp_path, record_days=100, change_log_days=10, log_days=5)


def run(database: Database, *statements: LiteralString) -> None:
    with database.connect() as connection:
        for statement in statements:
            connection.execute(statement)


def kept(database: Database, statement: LiteralString) -> list[str]:
    with database.connect() as connection:
        return sorted(str(row[0]) for row in connection.execute(statement))


def removed(done: tuple[Removed, ...]) -> dict[str, int]:
    return {rule.name: rule.count for rule in done if rule.count}


AGES = """(values ('old', now() - interval '200 days'), ('new', now() - interval '50 days')) as v (name, at)"""

GAP = """insert into nao.search_gap_signal (signal_id, kind, cause_key, severity, status, changed_at, last_seen_at, evidence) """

CASES: dict[str, tuple[tuple[LiteralString, ...], LiteralString, list[str]]] = {
    "waits of changes": (
        (
            f"""insert into nao.change_batch (consumer, followed_by, changes, read_at, access_at, searchable_at, packs_at)
                select name, 'x', 1, at, at, at, at from {AGES}""",
        ),
        "select consumer from nao.change_batch",
        ["new"],
    ),
    "contract log": (
        (
            GAP
            + """values (gen_random_uuid(), 'wrong_audience_result', 'leak', 'security', 'open', now(), now(), '{}')""",
            f"""insert into nao.consumer_contract_log (entry_id, kind, subject, lane, details, occurred_at)
                select gen_random_uuid(), 'outdated_citation', name, 'employee', '{{}}', at from {AGES}""",
            """insert into nao.consumer_contract_log (entry_id, kind, subject, lane, details, occurred_at, signal_id)
               select gen_random_uuid(), 'wrong_audience_result', 'of a security event', 'employee', '{}', now() - interval '200 days'
                    , signal_id from nao.search_gap_signal""",
        ),
        "select subject from nao.consumer_contract_log",
        ["new", "of a security event"],
    ),
    "delivered packs": (
        (
            f"""insert into nao.delivered_pack (pack_id, lane, thread_id, source_revisions, first_delivered_at)
                select gen_random_uuid(), 'employee', name, '{{}}', at from {AGES}""",
            """insert into nao.delivered_pack (pack_id, lane, thread_id, source_revisions, first_delivered_at)
               values ('00000000-0000-0000-0000-000000000001', 'employee', 'still in force', '{}', now() - interval '200 days')""",
            """insert into nao.thread_context_pack_cache (thread_id, lane, pack_id, input_revision, policy_version, space_id,
               code_version, input_digest, pack, build_ms, built_at) values ('still in force', 'employee',
               '00000000-0000-0000-0000-000000000001', 1, 1, 's', '0', 'd', '{}', 1, now() - interval '200 days')""",
        ),
        "select thread_id from nao.delivered_pack",
        ["new", "still in force"],
    ),
    "runs": (
        (
            """insert into nao.pipeline_run (run_id, kind, status, started_at)
               values ('old', 'nightly', 'succeeded', now() - interval '300 days')
                    , ('last good', 'nightly', 'succeeded', now() - interval '200 days')
                    , ('old failure', 'nightly', 'failed', now() - interval '190 days')
                    , ('last', 'nightly', 'failed', now() - interval '180 days')
                    , ('going on', 'backfill', 'running', now() - interval '300 days')
                    , ('new', 'backfill', 'succeeded', now())""",
        ),
        "select run_id from nao.pipeline_run",
        ["going on", "last", "last good", "new"],
    ),
    "steps of nights": (
        (
            f"insert into nao.build_step (step, finished_at, seconds) select 'content_vectors', at, 1 from {AGES}",
        ),
        "select step from nao.build_step",
        ["content_vectors"],
    ),
    "waits of revokes": (
        (
            f"""insert into nao.revocation_wait (collection, owner_id, changed_at, vectors_agreed_at, packs_agreed_at)
                select 'information_units', name, at, at, at from {AGES}
                union all select 'information_units', 'waits for packs', at, at, null from {AGES} where name = 'old'""",
        ),
        "select owner_id from nao.revocation_wait",
        ["new", "waits for packs"],
    ),
    "audits": (
        (
            """insert into nao.projection_audit (collection, audited_at, points, owners, findings)
               values ('a', now() - interval '300 days', 1, 1, '{}'), ('a', now() - interval '200 days', 2, 1, '{}')""",
        ),
        "select points from nao.projection_audit",
        ["2"],
    ),
    "validations": (
        (
            """insert into nao.data_validation (suite, validated_at, suite_version, input_key, expectations, failed, seconds, results)
               values ('s', now() - interval '400 days', '1', 'a', 1, 0, 1, '{"parts": {"seldom": "k"}}')
                    , ('s', now() - interval '300 days', '1', 'b', 1, 0, 1, '{"parts": {"often": "k"}}')
                    , ('s', now() - interval '250 days', '1', 'c', 1, 1, 1, '{"parts": {"often": "k"}}')
                    , ('s', now() - interval '200 days', '1', 'd', 1, 0, 1, '{"parts": {"often": "k"}}')""",
        ),
        "select input_key from nao.data_validation",
        ["a", "d"],
    ),
    "corrected quarantine": (
        (
            f"""insert into nao.quarantined_item (source, item_key, field, reason, resolved_at)
                select 's', name, 'f', 'r', at from {AGES} union all select 's', 'not corrected', 'f', 'r', null""",
            "update nao.quarantined_item set first_seen_at = now() - interval '300 days', last_seen_at = now() - interval '300 days'",
        ),
        "select item_key from nao.quarantined_item",
        ["new", "not corrected"],
    ),
    "decided backlog": (
        (
            f"""insert into nao.decision_backlog_item (item_id, title, status, evidence, updated_at)
                select gen_random_uuid(), name, 'done', '{{}}'::jsonb, at from {AGES}
                union all select gen_random_uuid(), 'open', 'open', '{{}}'::jsonb, now() - interval '300 days'""",
        ),
        "select title from nao.decision_backlog_item",
        ["new", "open"],
    ),
    "fixed gaps": (
        (
            GAP
            + f"select gen_random_uuid(), 'missing_thread', name, 'low', 'fixed', at, at, '{{}}' from {AGES}",
            GAP
            + """values (gen_random_uuid(), 'missing_thread', 'open', 'low', 'open', now() - interval '300 days',
                         now() - interval '300 days', '{}')
                      , (gen_random_uuid(), 'wrong_audience_result', 'leak', 'security', 'fixed', now() - interval '300 days',
                         now() - interval '300 days', '{}')""",
        ),
        "select cause_key from nao.search_gap_signal",
        ["leak", "new", "open"],
    ),
    "older health checks": (
        (
            """insert into nao.health_signal (signal_id, thread_id, kind, status, evidence, observed_at, lane)
               select gen_random_uuid(), 't', case v.status when 'open' then 'wrong_link' else 'thread_health' end, v.status, '{}', v.at, 'employee'
               from (values ('stale', now() - interval '300 days'), ('healthy', now() - interval '200 days')
                          , ('open', now() - interval '250 days')) as v (status, at)""",
        ),
        "select status from nao.health_signal",
        ["healthy", "open"],
    ),
}


def test_every_rule_has_a_case() -> None:
    assert {*CASES, "followed changes"} == {rule.name for rule in RULES}


@pytest.mark.parametrize("name", CASES)
def test_only_what_is_old_and_needed_by_nobody_leaves(
    database: Database, settings: Settings, name: str
) -> None:
    statements, look, expected = CASES[name]
    run(database, *statements)
    before = kept(database, look)
    counted = removed(retain_records(database, settings, NOW, dry_run=True))
    assert kept(database, look) == before, "a dry run removes nothing"
    done = removed(retain_records(database, settings, NOW))
    assert kept(database, look) == expected
    assert done == counted
    assert done[name] == len(before) - len(expected) > 0
    assert removed(retain_records(database, settings, NOW)) == {}


def change(database: Database, days_ago: int) -> None:
    with database.connect() as connection:
        connection.execute(
            """insert into nao.change_log (table_name, row_key, op, lane, changed_at)
               values ('tac_logical_unit', %(key)s, 'update', 'content', now() - %(age)s::interval)""",
            {"key": f"{days_ago} days ago", "age": f"{days_ago} days"},
        )


CHANGES: LiteralString = "select row_key from nao.change_log"


def note_good_night(database: Database) -> None:
    run(
        database,
        """insert into nao.pipeline_run (run_id, kind, status, started_at)
           values ('r', 'nightly', 'succeeded', now() - interval '15 days')""",
    )


def test_changes_stay_until_a_whole_night_came_after_them(
    database: Database, settings: Settings
) -> None:
    for days_ago in (20, 12, 1):
        change(database, days_ago)
    retain_records(database, settings, NOW)
    assert kept(database, CHANGES) == ["1 days ago", "12 days ago", "20 days ago"]
    note_good_night(database)
    retain_records(database, settings, NOW)
    assert kept(database, CHANGES) == ["1 days ago", "12 days ago"], "12 days ago no night has seen"


def test_changes_stay_until_every_consumer_followed_them(
    database: Database, settings: Settings
) -> None:
    note_good_night(database)
    change(database, 20)
    with database.connect() as connection:
        connection.execute(
            """insert into nao.change_consumer (consumer, position, cluster)
               select 'sync', pg_current_snapshot(), system_identifier::text from pg_control_system()"""
        )
    change(database, 30)
    retain_records(database, settings, NOW)
    assert kept(database, CHANGES) == ["30 days ago"], "the consumer has not come to this one"
    run(database, "update nao.change_consumer set position = pg_current_snapshot()")
    retain_records(database, settings, NOW)
    assert kept(database, CHANGES) == []


def test_a_position_of_another_server_holds_nothing_back(
    database: Database, settings: Settings
) -> None:
    note_good_night(database)
    run(
        database,
        "insert into nao.change_consumer (consumer, position, cluster) values ('sync', '1:1:', 'elsewhere')",
    )
    change(database, 20)
    retain_records(database, settings, NOW)
    assert kept(database, CHANGES) == []


def test_many_rows_leave_in_batches_and_the_table_is_vacuumed(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH_ROWS", 500)
    run(
        database,
        """insert into nao.build_step (step, finished_at, seconds)
           select 'content_vectors', now() - interval '200 days' - n * interval '1 s', 1 from generate_series(1, 1200) n""",
    )
    told: list[tuple[str, int]] = []
    done = retain_records(
        database, settings, NOW, progress=lambda name, rows: told.append((name, rows))
    )
    assert removed(done) == {"steps of nights": 1200}
    assert told == [("steps of nights", rows) for rows in (500, 1000, 1200)]
    with database.connect() as connection:
        row = connection.execute("select pg_relation_size('nao.build_step')").fetchone()
    assert row == (0,), "vacuum gave the space back"


def test_log_files_that_nobody_writes_to_leave(database: Database, settings: Settings) -> None:
    logs = settings.home / "logs"
    logs.mkdir()
    for name, days in (("nightly-1.log", 6), ("nightly-2.log", 4), ("notes.txt", 60)):
        (logs / name).write_text("x")
        at = (NOW - timedelta(days=days)).timestamp()
        os.utime(logs / name, (at, at))
    assert removed(retain_records(database, settings, NOW)) == {LOGS: 1}
    assert sorted(path.name for path in logs.iterdir()) == ["nightly-2.log", "notes.txt"]
