"""What leaves by age, apart from events: one table of rules, one way to carry them out.

Belongs here: which records are kept how long, taking them out in bounded batches, log files.
Does not belong here: events and words of questions (``stores.event_retention``), runs of the UI (``resources.run_history``).

What somebody still needs is never old enough: each statement says what that is. Replays are kept by number (``stores.replay``),
packs of threads that are gone leave with the next refresh (``stores.pack_refresh``); rates, reports,
decisions and the audit trail of security events stay for good.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from psycopg import sql

from threadhouse.stores import queries

if TYPE_CHECKING:
    from threadhouse.stores.postgres import Database
    from threadhouse.stores.settings import Settings

BATCH_ROWS: Final = 5_000
"""Rows that leave in one transaction: a fraction of a second, so that nobody waits for their locks."""

VACUUM_ROWS: Final = 1_000
"""A table that lost more is vacuumed at once; fewer are left to autovacuum."""

LOGS: Final = "log files"


@dataclass(frozen=True, slots=True)
class KeepRule:
    """One kind of record: ``query`` selects the rows that may leave, ``setting`` says how many days are kept."""

    name: str
    table: str
    query: str
    setting: str

    def days(self, settings: Settings) -> int:
        """How long these settings keep it."""
        return int(getattr(settings, self.setting))


RULES: Final = (
    KeepRule("followed changes", "change_log", "retain_change_log", "change_log_days"),
    KeepRule("waits of changes", "change_batch", "retain_change_batches", "record_days"),
    KeepRule("contract log", "consumer_contract_log", "retain_contract_log", "record_days"),
    KeepRule("delivered packs", "delivered_pack", "retain_delivered_packs", "record_days"),
    KeepRule("runs", "pipeline_run", "retain_pipeline_runs", "record_days"),
    KeepRule("steps of nights", "build_step", "retain_build_steps", "record_days"),
    KeepRule("waits of revokes", "revocation_wait", "retain_revocation_waits", "record_days"),
    KeepRule("audits", "projection_audit", "retain_projection_audits", "record_days"),
    KeepRule("validations", "data_validation", "retain_data_validations", "record_days"),
    KeepRule("corrected quarantine", "quarantined_item", "retain_quarantined_items", "record_days"),
    KeepRule("decided backlog", "decision_backlog_item", "retain_backlog_items", "record_days"),
    KeepRule("fixed gaps", "search_gap_signal", "retain_gap_signals", "record_days"),
    KeepRule("older health checks", "health_signal", "retain_health_signals", "record_days"),
)


@dataclass(frozen=True, slots=True)
class Removed:
    """What one rule removed, or would remove."""

    name: str
    days: int
    count: int


def retain_records(
    database: Database,
    settings: Settings,
    now: datetime,
    *,
    dry_run: bool = False,
    progress: Callable[[str, int], None] | None = None,
) -> tuple[Removed, ...]:
    """Carry every rule out, and remove old log files. Done again, it finds nothing.

    Args:
        dry_run: Only count.
        progress: Told (name of a rule, rows removed so far).
    """
    removed: list[Removed] = []
    for rule in RULES:
        days = rule.days(settings)
        before = now - timedelta(days=days)
        count = (
            _count(database, rule, before) if dry_run else _remove(database, rule, before, progress)
        )
        removed.append(Removed(rule.name, days, count))
    files = _old_logs(settings.home, now - timedelta(days=settings.log_days))
    if not dry_run:
        for file in files:
            file.unlink(missing_ok=True)
    removed.append(Removed(LOGS, settings.log_days, len(files)))
    return tuple(removed)


def _count(database: Database, rule: KeepRule, before: datetime) -> int:
    with database.connect() as connection:
        statement = queries.load("retain_count").format(victims=queries.load(rule.query))
        row = connection.execute(statement, {"before": before}).fetchone()
        return row[0] if row else 0


def _remove(
    database: Database,
    rule: KeepRule,
    before: datetime,
    progress: Callable[[str, int], None] | None,
) -> int:
    table = sql.Identifier("nao", rule.table)
    statement = queries.load("retain_delete").format(table=table, victims=queries.load(rule.query))
    removed = 0
    while True:
        with database.connect() as connection:
            connection.execute(queries.load("retention_begin"))
            gone = connection.execute(statement, {"before": before, "limit": BATCH_ROWS}).rowcount
        removed += gone
        if progress is not None and gone:
            progress(rule.name, removed)
        if gone < BATCH_ROWS:
            break
    if removed > VACUUM_ROWS:
        with database.connect(autocommit=True) as connection:
            # A login that may not vacuum gets a warning, no error.
            connection.execute(queries.load("retain_vacuum").format(table=table))
    return removed


def _old_logs(home: Path, before: datetime) -> list[Path]:
    """Log files that nobody has written to since."""
    folder = home / "logs"
    found = sorted(folder.glob("*.log")) if folder.is_dir() else []
    return [file for file in found if file.stat().st_mtime < before.timestamp()]
