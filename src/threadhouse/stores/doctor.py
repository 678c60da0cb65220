"""What is configured, reachable, locked, stale and refused, as a list of findings.

Belongs here: looking. Every check reads, says what it saw and what a person can do about it.
Does not belong here: drawing (pipelines.cli), mending. A doctor starts no server, creates no file and builds no model: a home
that does not exist stays that way.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import psutil
import psycopg
from filelock import FileLock, Timeout
from psycopg import Connection
from psycopg.rows import TupleRow, dict_row
from pydantic import SecretStr

from threadhouse.retrieval.errors import (
    ConfigurationError,
    MigrationError,
    StoreUnreachableError,
    ThreadhouseError,
)
from threadhouse.retrieval.models import Collection, CollectionInfo, Json, VectorSpace
from threadhouse.stores import embedded_postgres, migrations, queries
from threadhouse.stores.change_log import read_waiting_changes
from threadhouse.stores.dagster_state import DagsterState, read_dagster_state
from threadhouse.stores.pipeline_runs import NIGHTLY_LOCK
from threadhouse.stores.postgres import Database
from threadhouse.stores.reader_roles import LANE_ROLES, row_security_gaps
from threadhouse.stores.source_counts import SourceCounts, count_source

if TYPE_CHECKING:
    from threadhouse.stores.settings import Settings

# A nightly that starts at 02:00 and takes its time is at most a day and a few hours old.
NIGHTLY_MAX_AGE = timedelta(hours=26)
STATEMENT_TIMEOUT_MS = 15_000
"""A doctor who never answers helps nobody; a check that takes longer is reported as failed."""
DISK_WARN_BYTES = 5 * 10**9
DISK_FAIL_BYTES = 10**9
"""PostgreSQL keeps up to 1 GB of WAL; below that a run may stop in its middle."""
CHANGE_LOG_ROWS = 1_000_000
"""Changes of a month on a hub of 100,000 units that is edited all day; more mean that nothing takes them out."""
DEAD_ROWS = 1_000
"""Below this a table is too small for its dead rows to matter."""
DAEMON_SILENT = timedelta(minutes=5)
"""The daemon says every half minute that it lives; Dagster itself takes it for dead after this long."""
_KILO = 1000
VARIABLE_PREFIX = "THREADHOUSE_"
_ALSO_OURS = "THREADHOUSE_TEST_"
_INSTEAD = {
    "database_url": ": the embedded PostgreSQL",
    "qdrant_url": ": the embedded engine",
    "lake_url": ": below the home",
    "aws_endpoint_url": ": that of Amazon",
}
_RUN_NIGHTLY = "run make nightly"


class State(StrEnum):
    """How bad a finding is; ``fail`` makes the doctor's exit code 3."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Section(StrEnum):
    """What a finding is about, in the order people read them."""

    CONFIGURED = "configured"
    REACHABLE = "reachable"
    LOCKED = "locked"
    STALE = "stale"
    REFUSED = "refused"
    DISK = "disk"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the diagnosis. ``remedy`` is empty when there is nothing to do."""

    section: Section
    name: str
    state: State
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings, in the order of their sections."""

    findings: tuple[Finding, ...]

    @property
    def is_sick(self) -> bool:
        """Whether anything failed; a warning is no sickness."""
        return any(finding.state is State.FAIL for finding in self.findings)

    def count(self, state: State) -> int:
        """Findings of one state."""
        return sum(finding.state is state for finding in self.findings)

    def to_json(self) -> dict[str, Json]:
        """For programs: ``is_sick``, counts by state, and the findings."""
        return {
            "is_sick": self.is_sick,
            "counts": {state.value: self.count(state) for state in State},
            "findings": [
                {key: str(value) for key, value in asdict(finding).items()}
                for finding in self.findings
            ],
        }


def diagnose(settings: Settings, environment: Mapping[str, str] | None = None) -> Diagnosis:
    """Look at everything that these settings name.

    Args:
        settings: What to look at.
        environment: Where the settings came from, to say which were set; the process's own by default.
    """
    variables = os.environ if environment is None else environment
    findings = [*check_settings(settings, variables), check_disk(settings.home)]
    home = _check_home(settings)
    if home is not None:
        findings.append(home)
    if home is None or (settings.database_url is not None and home.state is State.WARN):
        model_findings, space = _check_model(settings)
        findings += model_findings
        findings += _check_database(settings, space)
        findings += _check_vectors(settings, space)
        findings += _check_lake(settings)
        findings += _check_writer_lock(settings)
        findings += _check_left_restore(settings)
    order = list(Section)
    return Diagnosis(tuple(sorted(findings, key=lambda finding: order.index(finding.section))))


def _check_home(settings: Settings) -> Finding | None:
    """What keeps the home from being looked into; None when nothing does."""
    home = settings.home
    try:
        exists = home.exists()
    except PermissionError:
        exists = True
    if not exists:
        detail = f"nothing has been set up here yet: {home} does not exist"
        return Finding(Section.REACHABLE, "home", State.WARN, detail, _RUN_NIGHTLY)
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        detail = f"the OS user of this process may not use {home}"
        remedy = "run as its owner, or set THREADHOUSE_HOME elsewhere"
        return Finding(Section.REACHABLE, "home", State.FAIL, detail, remedy)
    return None


def check_settings(settings: Settings, environment: Mapping[str, str]) -> Iterator[Finding]:
    """One line a setting: its value without secrets, and whether the environment set it."""
    given = {name.upper(): value for name, value in environment.items()}
    for name in type(settings).model_fields:
        variable = name.upper()
        is_set = bool(given.get(variable))
        source = "environment" if is_set else "default"
        yield Finding(
            Section.CONFIGURED,
            variable,
            State.OK,
            f"{_shown(settings, name)} ({source})",
        )
    known = {name.upper() for name in type(settings).model_fields}
    for variable in sorted(given.keys() - known):
        if variable.startswith(VARIABLE_PREFIX) and not variable.startswith(_ALSO_OURS):
            yield Finding(
                Section.CONFIGURED,
                variable,
                State.WARN,
                "is set, but no setting has this name",
                "correct its spelling or unset it",
            )
    if settings.embedding_model is not None and settings.embedding_path is not None:
        yield Finding(
            Section.CONFIGURED,
            "EMBEDDING_MODEL",
            State.FAIL,
            "EMBEDDING_MODEL and EMBEDDING_PATH are both set",
            "unset one of them",
        )
    if settings.qdrant_api_key is not None and settings.qdrant_url is None:
        yield Finding(
            Section.CONFIGURED,
            "QDRANT_API_KEY",
            State.WARN,
            "is set without QDRANT_URL, so the embedded engine is used",
            "set QDRANT_URL too, or unset the key",
        )
    elif settings.qdrant_api_key is not None and _is_plain_text(settings.qdrant_url or ""):
        yield Finding(
            Section.CONFIGURED,
            "QDRANT_API_KEY",
            State.WARN,
            "is sent over an unencrypted connection",
            "use https in QDRANT_URL",
        )


def check_disk(home: Path) -> Finding:
    """Room left where the home is, or would be."""
    existing = next(folder for folder in (home, *home.parents) if os.access(folder, os.X_OK))
    return judge_free_space(shutil.disk_usage(existing).free, existing)


def judge_free_space(free_bytes: int, folder: Path) -> Finding:
    """Whether what is free is enough for a run."""
    state = State.OK
    if free_bytes < DISK_WARN_BYTES:
        state = State.FAIL if free_bytes < DISK_FAIL_BYTES else State.WARN
    remedy = "" if state is State.OK else "make room, or move THREADHOUSE_HOME to a larger disk"
    return Finding(
        Section.DISK, "free space", state, f"{_size(free_bytes)} free at {folder}", remedy
    )


def _shown(settings: Settings, name: str) -> str:
    """A setting's value as anybody may see it."""
    value: object = getattr(settings, name)
    if value is None:
        return f"not set{_INSTEAD.get(name, '')}"
    if isinstance(value, SecretStr):
        is_address = name == "database_url"
        hidden = value.get_secret_value()
        return Database(hidden, is_embedded=False).address if is_address else "set, not shown"
    return _without_credentials(str(value)) if name == "lake_url" else str(value)


def _is_plain_text(url: str) -> bool:
    """Whether others on the way can read what is sent."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in {"localhost", "127.0.0.1", "::1"}


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    # A query or a fragment may be a signature; neither helps to recognise the place.
    return parts._replace(netloc=host, query="", fragment="").geturl()


def _check_model(settings: Settings) -> tuple[list[Finding], VectorSpace | None]:
    """Whether the model's files are the recorded ones, and which space they make."""
    from threadhouse.stores.embedders import find_model, space_of
    from threadhouse.stores.model_build import find_weights, verify_files

    is_default = settings.embedding_model is None and settings.embedding_path is None
    name = "embedding model"
    try:
        directory, manifest = find_model(
            settings.home, model=settings.embedding_model, path=settings.embedding_path
        )
    except ThreadhouseError as error:
        if not is_default:
            return [_failed(Section.REACHABLE, name, error)], None
        try:
            find_weights()
        except ThreadhouseError as missing:
            return [_failed(Section.REACHABLE, name, missing)], None
        detail = "the offline model has not been built yet"
        remedy = "nothing to do: the next run builds it; threadhouse model build does it now"
        return [Finding(Section.REACHABLE, name, State.WARN, detail, remedy)], None
    try:
        verify_files(directory, manifest)
    except ThreadhouseError as error:
        return [_failed(Section.REACHABLE, name, error)], space_of(manifest)
    space = space_of(manifest)
    detail = f"{manifest.model}, {len(manifest.files)} files as recorded, space {space.space_id}"
    return [Finding(Section.REACHABLE, name, State.OK, detail)], space


def _check_database(settings: Settings, space: VectorSpace | None) -> list[Finding]:
    """PostgreSQL and everything that is known only there."""
    name = "PostgreSQL"
    try:
        database = _find_database(settings)
    except ThreadhouseError as error:
        return [_failed(Section.REACHABLE, name, error)]
    if isinstance(database, Finding):
        return [database]
    findings: list[Finding] = []
    try:
        with _reading(database) as connection:
            findings += _look_into_database(connection, database, settings, space)
    except StoreUnreachableError as error:
        findings.append(_failed(Section.REACHABLE, name, error))
    except psycopg.Error as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        findings.append(
            Finding(
                Section.REACHABLE,
                name,
                State.FAIL,
                f"{database.address} did not answer a question: {reason}",
                "look into the server's log",
            )
        )
    return findings


def _find_database(settings: Settings) -> Database | Finding:
    """The database if it can be asked, else the finding that says why not. Starts nothing."""
    if settings.database_url is not None:
        return Database.open(settings)
    name = "PostgreSQL"
    server = embedded_postgres.status(settings.home)
    if server.version is None:
        detail = f"there is no database in {settings.home} yet"
        return Finding(Section.REACHABLE, name, State.WARN, detail, _RUN_NIGHTLY)
    if not server.is_ready:
        detail = (
            f"the embedded server (process {server.pid}) is starting or stopping"
            if server.is_running
            else f"the embedded server {server.version} is stopped, so nothing in it was looked at"
        )
        remedy = (
            "ask again in a moment"
            if server.is_running
            else "nothing to do: the next command that needs it starts it, such as threadhouse migrate"
        )
        return Finding(Section.REACHABLE, name, State.WARN, detail, remedy)
    return Database(server.conninfo(), is_embedded=True, lock_timeout_s=settings.lock_timeout_s)


@contextmanager
def _reading(database: Database) -> Generator[Connection[TupleRow], None, None]:
    """A connection that cannot write and does not wait for ever."""
    with database.connect() as connection:
        connection.execute("set transaction isolation level repeatable read, read only")
        connection.execute(
            "select set_config('statement_timeout', %s, true)", (str(STATEMENT_TIMEOUT_MS),)
        )
        yield connection


def _look_into_database(
    connection: Connection[TupleRow],
    database: Database,
    settings: Settings,
    space: VectorSpace | None,
) -> Iterator[Finding]:
    facts = _rows(connection, "doctor_database")[0]
    kind = "embedded" if database.is_embedded else database.address
    detail = f"{facts['version']} ({kind}), {_size(facts['size_bytes'])}"
    yield Finding(Section.REACHABLE, "PostgreSQL", State.OK, detail)
    yield from _check_locks(connection, database)
    schema = _check_schema(connection)
    yield schema
    if schema.state is State.FAIL or not facts["is_migrated"]:
        return
    if schema.state is State.OK:
        yield from _check_row_security(connection)
    counts = count_source(connection)
    yield _check_source(counts)
    yield from _check_runs(connection)
    yield from _check_schedule(connection, settings)
    yield from _check_killed_runs(connection)
    yield _check_change_log(connection, settings)
    yield _check_vacuum(connection)
    if space is not None:
        yield from _check_projection(connection, space)
    yield _check_packs(connection, space)
    yield _check_changes(connection)
    yield _check_event_days(database, settings)
    yield from _check_quarantine(connection)


def _check_row_security(connection: Connection[TupleRow]) -> Iterator[Finding]:
    """Whether the database keeps hidden rows back by itself, whatever a statement forgets."""
    name = "row-level security"
    gaps = row_security_gaps(connection)
    if not gaps:
        detail = f"in force: questions are asked as {_list(LANE_ROLES.values())}"
        yield Finding(Section.CONFIGURED, name, State.OK, detail)
    remedy = "let somebody who may create roles run select cong.set_up_roles()"
    for gap in gaps:
        yield Finding(Section.CONFIGURED, name, State.WARN, f"{gap.gap}: {gap.meaning}", remedy)


def _check_schema(connection: Connection[TupleRow]) -> Finding:
    try:
        todo = migrations.pending(connection)
        done = migrations.applied(connection)
    except MigrationError as error:
        return _failed(Section.REACHABLE, "schema", error)
    if not todo:
        return Finding(
            Section.REACHABLE, "schema", State.OK, f"{len(done)} migrations applied, none pending"
        )
    detail = (
        f"{len(todo)} of {len(todo) + len(done)} migrations pending: {_list(m.name for m in todo)}"
    )
    return Finding(
        Section.REACHABLE,
        "schema",
        State.WARN,
        detail,
        "run threadhouse migrate; every command that writes does it by itself",
    )


def _check_source(counts: SourceCounts) -> Finding:
    detail = f"{counts.documents:,} documents, {counts.units:,} units, {counts.threads:,} threads"
    if counts.has_content:
        return Finding(Section.REACHABLE, "source of truth", State.OK, detail)
    return Finding(
        Section.REACHABLE,
        "source of truth",
        State.WARN,
        detail,
        "run threadhouse load PATH, or make nightly for the sample hub",
    )


def _check_locks(connection: Connection[TupleRow], database: Database) -> Iterator[Finding]:
    held = _rows(connection, "doctor_locks")
    for row in held:
        who = f"{row['application_name']} (server process {row['server_pid']})"
        command = _command_of(row["application_name"]) if database.is_embedded else None
        since = f", connected since {_when(row['connected_at'])}" if row["connected_at"] else ""
        yield Finding(
            Section.LOCKED,
            row["lock_name"],
            State.WARN,
            f"held by {who}{since}{f': {command}' if command else ''}",
            "let it finish; end that process if it hangs",
        )
    if not held:
        yield Finding(Section.LOCKED, "database locks", State.OK, "none held")


def _command_of(application_name: str) -> str | None:
    """Command line of the client, which puts its process number last into its name."""
    number = application_name.rpartition(" ")[2]
    if not application_name.startswith("threadhouse ") or not number.isdigit():
        return None
    return _command_line(int(number))


def _command_line(pid: int) -> str | None:
    try:
        return " ".join(psutil.Process(pid).cmdline())[:200] or None
    except psutil.Error:
        return None


def _check_runs(connection: Connection[TupleRow]) -> Iterator[Finding]:
    """The last run of each kind; the nightly must also be young."""
    runs = _rows(connection, "doctor_last_runs")
    for row in runs:
        name = f"last {row['kind']}"
        started, status = cast("datetime", row["started_at"]), row["status"]
        succeeded = cast("datetime | None", row["succeeded_at"])
        age = cast("datetime", row["asked_at"]) - (succeeded or started)
        detail = f"{status}, started {_when(started)}"
        if status == "failed":
            good = (
                f"; the last good one ended {_when(succeeded)}"
                if succeeded
                else "; none has succeeded yet"
            )
            why = f": {row['reason']}" if row["reason"] else ""
            yield Finding(
                Section.STALE,
                name,
                State.FAIL,
                detail + good + why,
                "run threadhouse nightly again; if it fails too, its message and make ui say why",
            )
        elif row["kind"] == "nightly" and age > NIGHTLY_MAX_AGE:
            yield Finding(
                Section.STALE,
                name,
                State.WARN,
                f"{detail}; no success for {age.total_seconds() / 3600:.0f} hours",
                "run threadhouse nightly, and check what should start it at night (make ui, or cron)",
            )
        else:
            yield Finding(Section.STALE, name, State.OK, detail)
    if not any(row["kind"] == "nightly" for row in runs):
        yield Finding(Section.STALE, "last nightly", State.WARN, "none has run here", _RUN_NIGHTLY)


def _check_schedule(connection: Connection[TupleRow], settings: Settings) -> Iterator[Finding]:
    """Whether something starts the next night: the schedule of a UI that runs, or whatever started the last one."""
    name = "schedule"
    state = read_dagster_state(settings.home)
    nightly = next(
        (row for row in _rows(connection, "doctor_last_runs") if row["kind"] == "nightly"), None
    )
    asked_at = cast("datetime", nightly["asked_at"]) if nightly else datetime.now(UTC)
    last = cast("datetime | None", nightly["succeeded_at"]) if nightly else None
    is_daemon_alive = (
        state is not None
        and state.daemon_seen_at is not None
        and asked_at - state.daemon_seen_at < DAEMON_SILENT
    )
    if state is not None and state.dead_runs:
        yield _dead_runs(state)
    if is_daemon_alive and state is not None and state.stopped_schedules:
        detail = "the UI runs and its nightly schedule was switched off"
        remedy = "switch it on in the UI, under Automation"
        yield Finding(Section.STALE, name, State.WARN, detail, remedy)
    elif is_daemon_alive:
        yield Finding(Section.STALE, name, State.OK, "the UI runs, and its schedule is on")
    elif last is not None and asked_at - last <= NIGHTLY_MAX_AGE:
        detail = "no UI runs here, so something else started the last nightly"
        yield Finding(Section.STALE, name, State.OK, detail)
    else:
        seen = (
            f"; the daemon was last alive {_when(state.daemon_seen_at)}"
            if state is not None and state.daemon_seen_at is not None
            else ""
        )
        detail = f"nothing here starts the nightly: no daemon runs{seen}"
        remedy = "let threadhouse ui run all the time, or start threadhouse nightly from cron"
        yield Finding(Section.STALE, name, State.WARN, detail, remedy)


def _dead_runs(state: DagsterState) -> Finding:
    detail = f"{state.dead_runs:,} runs count as going on in the UI although their process is gone"
    remedy = "nothing to do: the next threadhouse nightly or threadhouse ui closes them"
    return Finding(Section.STALE, "killed runs in the UI", State.WARN, detail, remedy)


def _check_killed_runs(connection: Connection[TupleRow]) -> Iterator[Finding]:
    for row in _rows(connection, "doctor_killed_runs", {"lock": NIGHTLY_LOCK}):
        detail = f"{row['runs']:,} that began {_when(row['first_at'])} or later never said how they ended and are gone"
        remedy = "run threadhouse nightly, which finishes their work"
        yield Finding(Section.STALE, f"killed {row['kind']}", State.WARN, detail, remedy)


def _check_change_log(connection: Connection[TupleRow], settings: Settings) -> Finding:
    """Whether the log of changes is as long as it should be: retention takes out what is old, once it was followed."""
    row = _rows(connection, "doctor_change_log", {"limit": CHANGE_LOG_ROWS + 1})[0]
    rows, oldest = cast("int", row["rows_seen"]), cast("datetime | None", row["oldest_at"])
    many = f"more than {CHANGE_LOG_ROWS:,}" if rows > CHANGE_LOG_ROWS else f"{rows:,}"
    since = f", the oldest of {_when(oldest)}" if oldest else ""
    detail = f"{many} changes{since}, {_size(row['size_bytes'])}"
    allowed = timedelta(days=settings.change_log_days) + NIGHTLY_MAX_AGE
    is_old = oldest is not None and cast("datetime", row["asked_at"]) - oldest > allowed
    if rows <= CHANGE_LOG_ROWS and not is_old:
        return Finding(Section.STALE, "change log", State.OK, detail)
    remedy = "run threadhouse retain, which says what keeps them; a nightly does it too"
    return Finding(Section.STALE, "change log", State.WARN, detail, remedy)


def _check_vacuum(connection: Connection[TupleRow]) -> Finding:
    """Whether PostgreSQL keeps up with what is replaced all the time, context packs above all."""
    rows = _rows(connection, "doctor_unvacuumed", {"dead_rows": DEAD_ROWS})
    if not rows:
        return Finding(Section.STALE, "vacuum", State.OK, "no table has more dead rows than live")
    worst = rows[0]
    since = f", last vacuumed {_when(worst['vacuumed_at'])}" if worst["vacuumed_at"] else ""
    detail = (
        f"{worst['table_name']} has {worst['dead_rows']:,} dead rows and {worst['live_rows']:,} live ones{since}"
        + (f"; so have {_list(row['table_name'] for row in rows[1:])}" if rows[1:] else "")
    )
    remedy = f"vacuum {worst['table_name']} in psql, and see that autovacuum is on"
    if worst["open_since"]:
        remedy = f"end the transaction that has been open since {_when(worst['open_since'])}: it keeps dead rows from going"
    return Finding(Section.STALE, "vacuum", State.WARN, detail, remedy)


def _check_projection(connection: Connection[TupleRow], space: VectorSpace) -> Iterator[Finding]:
    """How many owners the published vectors are behind the source, by the pointers alone; the audit looks at the points."""
    from threadhouse.stores.projection import read_pointers
    from threadhouse.stores.projection_sources import ContentSource, DocumentSource, UnitSource
    from threadhouse.stores.vectors import physical_name

    row = next(iter(_rows(connection, "generation_in_force")), None)
    space_id, number = (row["space_id"], row["generation"]) if row else (space.space_id, 1)
    sources: tuple[ContentSource, ...] = (UnitSource(), DocumentSource())
    for source in sources:
        wanted = source.read_wanted(connection, space_id)
        physical = physical_name(source.collection, space_id, number)
        pointers = read_pointers(connection, physical)
        missing = wanted.owners.keys() - pointers.keys()
        gone = pointers.keys() - wanted.owners.keys()
        differing = [
            owner_id
            for owner_id, owner in wanted.owners.items()
            if (pointer := pointers.get(owner_id)) is not None
            and (pointer.content_digest, pointer.payload_digest)
            != (owner.content_digest, owner.payload_digest)
        ]
        behind = len(missing) + len(gone) + len(differing)
        name = f"vectors: {source.collection}"
        if behind:
            detail = (
                f"{behind:,} of {len(wanted.owners):,} behind the source: {len(missing):,} new, "
                f"{len(differing):,} changed, {len(gone):,} gone"
            )
            yield Finding(Section.STALE, name, State.WARN, detail, "run threadhouse nightly")
        else:
            detail = f"{len(pointers):,} owners, all of the version that the source has"
            yield Finding(Section.STALE, name, State.OK, detail)


def _check_packs(connection: Connection[TupleRow], space: VectorSpace | None) -> Finding:
    from threadhouse.retrieval.packs import PACK_VERSION

    row = _rows(
        connection,
        "doctor_packs",
        {"space_id": space.space_id if space else None, "code_version": PACK_VERSION},
    )[0]
    detail = f"{row['packs']:,} stored, {row['stale_packs']:,} stale"
    if not row["stale_packs"]:
        return Finding(Section.STALE, "context packs", State.OK, detail)
    remedy = (
        "nothing to do: a stale pack is built anew when it is read; threadhouse nightly builds all"
    )
    return Finding(Section.STALE, "context packs", State.WARN, detail, remedy)


def _check_changes(connection: Connection[TupleRow]) -> Finding:
    """Changes that are committed and followed by nobody yet."""
    waiting = read_waiting_changes(connection)
    if waiting.position is None:
        detail = "never followed; the next nightly begins it"
        return Finding(Section.STALE, "changes", State.OK, detail)
    if waiting.oldest_at is None:
        return Finding(Section.STALE, "changes", State.OK, "all followed")
    detail = f"{waiting.changes:,} wait, the oldest since {_when(waiting.oldest_at)}"
    if waiting.age <= NIGHTLY_MAX_AGE:
        return Finding(Section.STALE, "changes", State.OK, detail)
    remedy = "run threadhouse listen --once, which says what stops it"
    return Finding(Section.STALE, "changes", State.WARN, detail, remedy)


def _check_event_days(database: Database, settings: Settings) -> Finding:
    """Days whose events are not in the lake as they are now, or whose rates were counted from other events."""
    from threadhouse.stores.lake import EventLake
    from threadhouse.stores.lake_extract import days_to_look_at
    from threadhouse.stores.metrics_store import days_due

    name = "metric days"
    try:
        lake = EventLake.open(settings)
        lake.catch_up()
    except (ConfigurationError, StoreUnreachableError):
        detail = "cannot be told without the event lake"
        return Finding(Section.STALE, name, State.WARN, detail, "see there")
    changed = days_to_look_at(database, lake, settings.zone)
    due = {*changed, *days_due(database, lake)}
    total = len({*lake.digests(), *changed})
    detail = f"{total:,} local days with events, {len(due):,} that may have changed since they were last counted"
    if not due:
        return Finding(Section.STALE, name, State.OK, detail)
    return Finding(Section.STALE, name, State.WARN, detail, "run threadhouse nightly")


def _check_quarantine(connection: Connection[TupleRow]) -> Iterator[Finding]:
    rows = _rows(connection, "doctor_quarantine")
    for row in rows:
        yield Finding(
            Section.REFUSED,
            row["source"],
            State.WARN,
            f"{row['open_items']:,} items in quarantine, the oldest since {_when(row['oldest_at'])}",
            "correct them at their source and load again; nao.quarantined_item has file, line, field and reason",
        )
    if not rows:
        yield Finding(Section.REFUSED, "quarantine", State.OK, "empty")


def _check_vectors(settings: Settings, space: VectorSpace | None) -> list[Finding]:
    """Every collection of the vector store, as a reader sees it."""
    name = "Qdrant"
    is_server = settings.qdrant_url is not None
    where = f"server at {settings.qdrant_url}" if is_server else "embedded engine"
    if not is_server and not (settings.home / "qdrant").is_dir():
        return [
            Finding(
                Section.REACHABLE, name, State.WARN, f"{where}: no collection yet", _RUN_NIGHTLY
            )
        ]
    try:
        infos = _read_collections(settings)
    except ThreadhouseError as error:
        return [_failed(Section.REACHABLE, name, error)]
    findings = [Finding(Section.REACHABLE, name, State.OK, f"{where}, {len(infos)} collections")]
    findings += [_check_collection(info, space) for info in infos]
    absent = [c.value for c in Collection if c not in {info.alias for info in infos}]
    if absent:
        detail = f"not built yet: {_list(absent)}"
        findings.append(
            Finding(Section.REACHABLE, "collections", State.WARN, detail, "run threadhouse nightly")
        )
    return findings


def _read_collections(settings: Settings) -> list[CollectionInfo]:
    from threadhouse.stores.vectors import open_reader

    key = settings.qdrant_api_key
    reader = open_reader(
        home=settings.home,
        url=settings.qdrant_url,
        api_key=key.get_secret_value() if key else None,
        request_timeout_s=STATEMENT_TIMEOUT_MS // 1000,
    )
    try:
        return reader.collections()
    finally:
        reader.close()


def _check_collection(info: CollectionInfo, space: VectorSpace | None) -> Finding:
    from threadhouse.stores.vectors import is_generation

    name = f"collection {info.alias or info.physical}"
    detail = f"{info.point_count:,} points, space {info.space_id}, stored as {info.physical}"
    if info.alias is None and is_generation(info.physical):
        detail = (
            f"{detail}; a generation beside the one in force, see threadhouse migrate-model status"
        )
        return Finding(Section.REACHABLE, name, State.OK, detail)
    if info.alias is None or info.alias not in list(Collection):
        return Finding(
            Section.REACHABLE,
            name,
            State.WARN,
            f"{detail}; not registered, nothing keeps it in step",
            "run threadhouse audit, and drop it if nobody uses it",
        )
    if space is not None and info.space_id != space.space_id:
        return Finding(
            Section.REACHABLE,
            name,
            State.FAIL,
            f"{detail}; the configured model makes {space.space_id}",
            "configure the model it was built with, or bring the other one in with threadhouse migrate-model build",
        )
    return Finding(Section.REACHABLE, name, State.OK, detail)


def _check_lake(settings: Settings) -> list[Finding]:
    from threadhouse.stores.lake import EventLake

    name = "event lake"
    try:
        lake = EventLake.open(settings)
        files = lake.file_sizes()
    except (ConfigurationError, StoreUnreachableError) as error:
        return [_failed(Section.REACHABLE, name, error)]
    if not files:
        detail = f"no file in {lake.address}"
        return [Finding(Section.REACHABLE, name, State.WARN, detail, _RUN_NIGHTLY)]
    detail = f"{len(files):,} Parquet files, {_size(sum(files))}, in {lake.address}"
    return [Finding(Section.REACHABLE, name, State.OK, detail)]


def _check_writer_lock(settings: Settings) -> list[Finding]:
    """Who writes the embedded vectors. The lock is tried for an instant, because the file that names its holder outlives it."""
    name = "vector writer"
    folder = settings.home / "qdrant"
    if settings.qdrant_url is not None or not (folder / "writer.lock").exists():
        return []
    lock = FileLock(folder / "writer.lock", timeout=0)
    try:
        with lock:
            return [Finding(Section.LOCKED, name, State.OK, "nobody is writing")]
    except Timeout:
        pass
    except PermissionError as error:
        message = f"{error.filename} belongs to another OS user"
        return [Finding(Section.LOCKED, name, State.FAIL, message, "run as the owner of the home")]
    try:
        holder = cast("dict[str, Any]", json.loads((folder / "writer.json").read_text("utf-8")))
        who = f"process {holder['pid']} ({holder['command']})"
    except (OSError, ValueError, KeyError):
        who = "a process that has not said its name yet"
    remedy = "let it finish; end that process if it hangs"
    return [Finding(Section.LOCKED, name, State.WARN, f"held by {who}", remedy)]


def _check_left_restore(settings: Settings) -> list[Finding]:
    """What a restore that was killed left: before its audit nothing of this home was touched, after it the home is in pieces."""
    staging = settings.home / embedded_postgres.RESTORING
    if not staging.exists():
        return []
    if (staging / embedded_postgres.READY_FILE).exists():
        detail = "a restore was cut off while it was put in place"
        remedy = "run the same threadhouse restore again, which finishes it"
        return [Finding(Section.REACHABLE, "restore", State.FAIL, detail, remedy)]
    detail = f"a restore is under way or was killed before its audit; it works in {staging}"
    remedy = "let it finish, run it again, or delete that folder when it was killed"
    return [Finding(Section.REACHABLE, "restore", State.WARN, detail, remedy)]


def _failed(section: Section, name: str, error: ThreadhouseError) -> Finding:
    """An error's sentence already says what to do, after its last semicolon when it has one."""
    what, semicolon, remedy = str(error).rpartition("; ")
    detail = what if semicolon else remedy
    state = State.FAIL
    if not semicolon:
        remedy = "" if not isinstance(error, ConfigurationError) else "correct the setting"
    return Finding(section, name, state, detail.rstrip("."), remedy.rstrip("."))


def _rows(
    connection: Connection[TupleRow], query: str, parameters: Mapping[str, object] | None = None
) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(queries.load(query), parameters).fetchall()


def _list(names: Iterable[str], limit: int = 5) -> str:
    known = list(names)
    more = f" and {len(known) - limit} more" if len(known) > limit else ""
    return ", ".join(known[:limit]) + more


def _when(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M} UTC"


def _size(size_bytes: float) -> str:
    size = size_bytes
    for unit in ("B", "kB", "MB", "GB"):
        if size < _KILO:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _KILO
    return f"{size:.1f} TB"
