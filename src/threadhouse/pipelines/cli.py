"""The ``threadhouse`` console script.

Belongs here: commands, their options, what they print, exit codes, and the one sentence an error becomes.
Does not belong here: doing the work. Everything heavy is imported by the command that needs it, because ``--help`` and
``doctor`` have to answer at once; Dagster by ``nightly`` alone (``ui`` starts it as another process).

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done but something was
found (a dirty audit, a sick doctor), 130 interrupted.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from threadhouse import __version__
from threadhouse.pipelines import (
    cli_attach,
    cli_backfill,
    cli_backup,
    cli_documents,
    cli_gaps,
    cli_listen,
    cli_mcp,
    cli_migrate_model,
    cli_policy,
    cli_proposals,
    cli_query,
    cli_replay,
    cli_retain,
    cli_security,
    cli_sql,
    cli_token,
)
from threadhouse.pipelines.secret_masking import mask
from threadhouse.retrieval.errors import ConfigurationError, LoadError, ThreadhouseError

if TYPE_CHECKING:
    from datetime import datetime

    from threadhouse.retrieval.ports import VectorSearcher, VectorStore
    from threadhouse.stores.audit import AuditReport
    from threadhouse.stores.doctor import Diagnosis
    from threadhouse.stores.embedding_cache import CachedEmbedder
    from threadhouse.stores.postgres import Database
    from threadhouse.stores.settings import Settings

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_FINDINGS = 3
EXIT_INTERRUPTED = 130
DEFAULT_UI_PORT = 3000
# Loading the code location takes seconds, on a busy machine half a minute.
UI_START_TIMEOUT_S = 120.0
DEFAULT_REPORT_LANE = "overall"
_PROGRAM = "threadhouse"

_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)


@dataclass(slots=True)
class _Session:
    """What the global options said; read again when a command fails."""

    debug: bool = False


class _OrderedGroup(click.Group):
    """Commands in the order they are declared, which is the order a newcomer needs them in."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_OrderedGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--debug", is_flag=True, help="Show tracebacks and what the libraries log.")
@click.version_option(__version__, prog_name=_PROGRAM)
@click.pass_context
def cli(context: click.Context, *, debug: bool) -> None:
    """Turn a knowledge hub in Postgres into vectors, thread centroids, context packs and health reports.

    Everything is configured by environment variables; `threadhouse doctor` shows them.
    """
    session = context.ensure_object(_Session)
    session.debug = debug
    if debug:
        import logging

        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cli.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--mapping",
    type=click.Path(path_type=Path),
    help="YAML file that renames columns, maps words and sets defaults.",
)
@_as_json
def load(path: Path, *, mapping: Path | None, as_json: bool) -> None:
    """Load a hub from PATH, a folder or a file.

    Documents, units, threads and events are read from Markdown with YAML front matter, JSONL, CSV and Parquet. Loading the
    same thing again changes nothing. A row that is wrong is put into quarantine with its file, line, field and reason; the
    rest is loaded.
    """
    from threadhouse.pipelines.progress_display import open_display
    from threadhouse.stores.loading import load_path
    from threadhouse.stores.query_secret import open_question_keeper

    settings = _settings()
    _require_exists(path)
    database = _open_database(settings)
    with open_display() as display:
        report = load_path(
            database,
            path,
            mapping,
            lambda _file, done, total: display.report("Loading files", done, total),
            open_question_keeper(settings),
        )
    if as_json:
        _print_json(report.to_json())
    else:
        click.echo(report.render())


@cli.command()
@click.option(
    "--sample-if-empty",
    is_flag=True,
    help="Load the sample hub first when there is no document and no unit.",
)
@click.option(
    "--allow-deletes",
    is_flag=True,
    help="Go on when more than a fifth of what is published would be deleted.",
)
@click.option(
    "--accept-losses",
    is_flag=True,
    help="Go on when too many recent questions would lose the answer they have.",
)
@_as_json
def nightly(
    *, sample_if_empty: bool, allow_deletes: bool, accept_losses: bool, as_json: bool
) -> None:
    """Run the whole nightly job now and say what was built.

    Chunks, vectors, centroids, context packs, event lake, rates and health report are brought up to date with Postgres.
    Only what changed is worked on.
    """
    from threadhouse.pipelines.nightly import run_nightly
    from threadhouse.pipelines.progress_display import open_display
    from threadhouse.stores.quarantine import count_open

    settings = _settings()
    with open_display() as display:
        sample = sample_if_empty and _load_sample_if_empty(settings, display.announce)
        summary = run_nightly(
            settings,
            allow_deletes=allow_deletes,
            accept_losses=accept_losses,
            progress=display.report,
            announce=display.announce,
        )
    with _open_database(settings).connect() as connection:
        refused = count_open(connection)
    if as_json:
        _print_json({"sample_loaded": sample, **summary.to_json(), "quarantine": refused})
        return
    click.echo(summary.render())
    if refused:
        count = sum(refused.values())
        click.echo(f"In quarantine: {count:,} items; threadhouse doctor names their sources.")


cli_listen.add_commands(cli)
cli_attach.add_commands(cli)
cli_backfill.add_commands(cli)
cli_backup.add_commands(cli)
cli_documents.add_commands(cli)
cli_sql.add_commands(cli)
cli_query.add_commands(cli)
cli_policy.add_commands(cli)
cli_security.add_commands(cli)
cli_gaps.add_commands(cli)
cli_replay.add_commands(cli)
cli_retain.add_commands(cli)
cli_proposals.add_commands(cli)
cli_token.add_commands(cli)
cli_mcp.add_commands(cli)
cli_migrate_model.add_commands(cli)


@cli.command()
@click.option("--repair", is_flag=True, help="Mend what was found, then audit again.")
@_as_json
@click.pass_context
def audit(context: click.Context, *, repair: bool, as_json: bool) -> None:
    """Hold every stored vector of every collection against Postgres.

    Reported are missing, stale and orphaned points, payload and access drift, broken chunk borders, vectors of another model, and
    collections that nobody registered. Exit code 3 when anything is found and not mended.
    """
    from threadhouse.pipelines.progress_display import open_display
    from threadhouse.stores.audit import audit_projection
    from threadhouse.stores.repair import plan_repair, repair_projection

    settings = _settings()
    database = _open_database(settings)
    with open_display() as display:

        def look() -> AuditReport:
            return audit_projection(
                database,
                vectors,
                embedder,
                lambda collection, points: display.report(f"Auditing {collection}", points, 0),
            )

        embedder = _open_embedder(settings, database, display.announce)
        # Without a repair the audit looks at what readers see, and waits for nobody.
        with closing(_open_writer(settings) if repair else _open_reader(settings)) as vectors:
            found = look()
            mended: dict[str, Any] | None = None
            if repair and not found.is_clean:
                for plan in plan_repair(found):
                    display.announce(plan.render())
                mended = repair_projection(
                    database,
                    cast("VectorStore", vectors),
                    embedder,
                    settings.home,
                    found,
                    progress=lambda done, total: display.report("Repairing", done, total),
                )
            left = look() if mended is not None else found
    if as_json:
        _print_json(
            {
                "audit": found.to_json(),
                "repair": mended,
                "after": left.to_json() if mended is not None else None,
            }
        )
    else:
        _print_audit(found)
        if mended is not None:
            click.echo(
                "Repaired: "
                + ", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in mended.items())
            )
            _print_audit(left)
        if not left.is_clean and not repair:
            click.echo("threadhouse audit --repair mends what can be mended.")
    if not left.is_clean:
        context.exit(EXIT_FINDINGS)


@cli.command()
@click.option(
    "--day",
    type=click.DateTime(["%Y-%m-%d"]),
    help="Local day of the report, YYYY-MM-DD; the newest one by default.",
)
@click.option("--lane", default=DEFAULT_REPORT_LANE, show_default=True, help="Whose report.")
@click.option("--open", "open_file", is_flag=True, help="Also open the HTML file in a browser.")
@_as_json
def report(*, day: datetime | None, lane: str, open_file: bool, as_json: bool) -> None:
    """Print a health report and the path of its HTML file."""
    from threadhouse.stores.health_reports import lanes_with_reports, read_health_report

    settings = _settings()
    local_day = day.date() if day else None
    with _open_database(settings).connect() as connection:
        found = read_health_report(connection, lane, local_day)
        lanes = lanes_with_reports(connection, local_day)
    if found is None:
        raise click.ClickException(_no_report(lane, local_day and local_day.isoformat(), lanes))
    if as_json:
        _print_json(
            {
                "report_day": found.report_day.isoformat(),
                "lane": found.lane,
                "window_days": found.window_days,
                "built_at": found.built_at.isoformat(),
                "html_path": found.html_path,
                "markdown": found.markdown,
            }
        )
    else:
        click.echo(found.markdown.rstrip())
        click.echo(f"\nHTML: {found.html_path or 'no file was written for this report'}")
    if open_file:
        _open_in_browser(found.html_path)


@cli.command()
@_as_json
@click.pass_context
def doctor(context: click.Context, *, as_json: bool) -> None:
    """Show what is configured, reachable, locked and stale.

    And what was refused, and what to do about each of them. It looks only: no server is started, nothing is created.
    Exit code 3 when something fails.
    """
    from threadhouse.stores.doctor import diagnose

    diagnosis = diagnose(_settings())
    if as_json:
        _print_json(diagnosis.to_json())
    else:
        _print_diagnosis(diagnosis)
    if diagnosis.is_sick:
        context.exit(EXIT_FINDINGS)


@cli.command()
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Steps at a time, each in a process with a model of its own.",
)
def worker(*, concurrency: int) -> None:
    """Take steps of jobs from the broker that EXECUTOR_URL names, until Ctrl-C."""
    from threadhouse.pipelines.executors import require_celery, run_worker

    settings = _settings()
    require_celery(settings)
    _open_database(settings)
    run_worker(settings, concurrency)


@cli.command()
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=DEFAULT_UI_PORT,
    show_default=True,
    help="Port on 127.0.0.1.",
)
def ui(*, port: int) -> None:
    """Serve the Dagster UI on localhost.

    The schedules run as long as it does: until Ctrl-C or `threadhouse stop`.
    """
    from threadhouse.pipelines.dead_runs import end_dead_runs_of_home
    from threadhouse.pipelines.ui_processes import (
        require_free_port,
        serving,
        wait_until_it_answers,
        was_asked_to_end,
    )

    settings = _settings()
    require_free_port(port)
    _open_database(settings)
    # What an earlier UI left behind when it was killed would keep its pool from every scheduled night.
    end_dead_runs_of_home(settings.home)
    # A closed terminal and a service manager end it the way Ctrl-C does: with its servers.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with serving(settings.home, port) as server:
            if wait_until_it_answers(server, port, UI_START_TIMEOUT_S):
                click.echo(f"The UI is at http://127.0.0.1:{port} (Ctrl-C ends it)")
            code = server.wait()
            was_wanted = was_asked_to_end(settings.home)
    except KeyboardInterrupt:
        code, was_wanted = 0, True
    if not was_wanted:
        message = f"The UI ended by itself with code {code}; its last lines above say why."
        raise click.ClickException(message)
    click.echo("The UI has ended.")


@cli.command()
def stop() -> None:
    """Stop the UI and the embedded PostgreSQL of this home."""
    from threadhouse.pipelines.ui_processes import stop_ui
    from threadhouse.stores import embedded_postgres

    settings = _settings()
    ended = stop_ui(settings.home)
    if ended is not None:
        click.echo(f"Stopped the UI (process {ended.pid}).")
    server = embedded_postgres.status(settings.home)
    was_running = embedded_postgres.stop(settings.home)
    if was_running:
        click.echo(f"Stopped the embedded PostgreSQL (process {server.pid}).")
    if ended is None and not was_running:
        click.echo(f"Nothing was running for {settings.home}.")


@cli.command()
def migrate() -> None:
    """Bring the database schema up to date.

    Every command that writes does this by itself.
    """
    from threadhouse.stores.migrations import migrate as apply_migrations
    from threadhouse.stores.postgres import Database

    done = apply_migrations(Database.open(_settings()))
    for name in done.applied:
        click.echo(f"Applied {name}")
    if done.kept_views:
        click.echo(f"Kept as they were redefined: {', '.join(done.kept_views)}")
    if not done.applied:
        click.echo(
            "The views were renewed." if done.views_were_run else "The schema is up to date."
        )


@cli.group(cls=_OrderedGroup)
def model() -> None:
    """Build, list, check and download embedding models."""


@model.command("build")
def model_build() -> None:
    """Build the offline model from its installed package, once; takes about ten seconds."""
    from threadhouse.pipelines.progress_display import open_display
    from threadhouse.stores.model_build import build_model

    with open_display() as display:
        directory = build_model(_settings().home, progress=display.announce)
    click.echo(f"The offline model is in {directory}")


@model.command("list")
@_as_json
def model_list(*, as_json: bool) -> None:
    """List the models of this home."""
    from threadhouse.stores.embedders import list_models

    models = list_models(_settings().home)
    if as_json:
        _print_json(
            [
                {
                    "name": found.name,
                    "model": found.space_model,
                    "dim": found.dim,
                    "size_bytes": found.size_bytes,
                    "directory": str(found.directory),
                }
                for found in models
            ]
        )
        return
    for found in models:
        size = f"{found.size_bytes / 1e6:.0f} MB"
        click.echo(f"{found.name}  {found.dim} dimensions  {size}  {found.directory}")
    if not models:
        click.echo("No model is here yet; threadhouse model build makes the offline one.")


@model.command("check")
def model_check() -> None:
    """Compare the configured model's files with their hashes, and its vectors with known ones."""
    from threadhouse.stores.embedders import check_model, find_model

    settings = _settings()
    difference = check_model(
        settings.home,
        model=settings.embedding_model,
        path=settings.embedding_path,
        threads=settings.embedding_threads,
    )
    _, manifest = find_model(
        settings.home, model=settings.embedding_model, path=settings.embedding_path
    )
    golden = (
        "it has no golden values to compare with"
        if difference is None
        else f"vectors differ from the golden ones by {difference:.6f} at most"
    )
    click.echo(f"{manifest.model}: all {len(manifest.files)} files are as recorded; {golden}.")


@model.command("download")
@click.argument("name")
def model_download(name: str) -> None:
    """Fetch the fastembed model NAME into this home. The only command that uses the network for a model."""
    from threadhouse.pipelines.progress_display import open_display
    from threadhouse.stores.embedders import download_model

    with open_display() as display:
        directory = download_model(_settings().home, name, progress=display.announce)
    click.echo(f"{name} is in {directory}; set EMBEDDING_MODEL={name} to use it.")


def main() -> None:
    """Entry point of the console script. What it and its children write is its OS user's alone: audiences are no OS users."""
    os.umask(0o077)
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and turn whatever happens into an exit code and at most one sentence."""
    session = _Session()
    try:
        code = cli.main(list(arguments), prog_name=_PROGRAM, obj=session, standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        outcome = _outcome_of(error, session)
        if outcome is None:
            raise
        return outcome
    return code if isinstance(code, int) else 0


def _outcome_of(error: BaseException, session: _Session) -> int | None:
    """Say what went wrong and return the exit code; None for what is no failure of ours, such as SystemExit."""
    match error:
        case click.UsageError():
            return _fail_usage(error)
        case click.ClickException() | ThreadhouseError():
            is_clicks = isinstance(error, click.ClickException)
            return _fail(error.format_message() if is_clicks else str(error), session, error)
        case click.Abort() | KeyboardInterrupt():
            return _interrupted()
        case BrokenPipeError():
            # The reader (head, less) has seen enough; the flush at exit must not complain about it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_FAILED
        case Exception():
            return _fail_unexpectedly(error, session)
        case _:
            # Dagster turns Ctrl-C into an exception of its own, known by name because Dagster is not imported here.
            was_interrupted = type(error).__name__ == "DagsterExecutionInterruptedError"
            return _interrupted() if was_interrupted else None


def _fail(sentence: str, session: _Session, error: Exception) -> int:
    if session.debug:
        sys.stderr.write(mask("".join(traceback.format_exception(error))))
    sys.stderr.write(f"{_PROGRAM}: {mask(sentence)}\n")
    return EXIT_FAILED


def _fail_usage(error: click.UsageError) -> int:
    where = error.ctx.command_path if error.ctx else _PROGRAM
    # click puts the words to choose from on lines of their own.
    reason = " ".join(error.format_message().split()).rstrip(".")
    sys.stderr.write(f"{where}: {reason[:1].lower()}{reason[1:]}; see {where} --help.\n")
    return EXIT_USAGE


def _fail_unexpectedly(error: Exception, session: _Session) -> int:
    story = "".join(traceback.format_exception(error))
    said = (str(error).strip().splitlines() or ["no message"])[0].rstrip(".")
    sentence = f"Something unexpected happened ({type(error).__name__}: {said})"
    if session.debug:
        return _fail(f"{sentence}.", session, error)
    log = _keep_story(mask(story))
    where = f"the traceback is in {log}" if log else f"{_PROGRAM} --debug … shows the traceback"
    return _fail(f"{sentence}; {where}. Please report it.", session, error)


def _keep_story(story: str) -> Path | None:
    """Write a traceback below the home; None when that cannot be done. A home that is not there is not made for it."""
    from datetime import UTC, datetime

    from threadhouse.stores.settings import Settings

    try:
        home = Settings.from_environment().home
        if not home.is_dir():
            return None
        folder = home / "logs"
        folder.mkdir(exist_ok=True)
        log = folder / "unexpected.log"
        with log.open("a", encoding="utf-8") as out:
            out.write(
                f"{datetime.now(UTC).isoformat(timespec='seconds')} {' '.join(sys.argv[1:])}\n{story}\n"
            )
    except (OSError, ThreadhouseError):
        return None
    return log


def _interrupted() -> int:
    sys.stderr.write(
        f"{_PROGRAM}: interrupted; what was finished is kept, run the command again to go on.\n"
    )
    return EXIT_INTERRUPTED


def _settings() -> Settings:
    from threadhouse.stores.settings import Settings

    settings = Settings.from_environment()
    # os.path, because pathlib raises where a folder above may not be entered.
    if os.path.exists(settings.home) and not os.path.isdir(settings.home):  # noqa: PTH110, PTH112
        message = f"THREADHOUSE_HOME is {settings.home}, which is not a folder; name another place."
        raise ConfigurationError(message)
    return settings


def _open_database(settings: Settings) -> Database:
    from threadhouse.stores.migrations import open_database

    return open_database(settings)


def _open_embedder(
    settings: Settings, database: Database, announce: Callable[[str], None]
) -> CachedEmbedder:
    from threadhouse.stores.embedder_in_force import open_embedder_in_force

    return open_embedder_in_force(settings, database, announce)


def _open_reader(settings: Settings) -> VectorSearcher:
    from threadhouse.stores.vectors import open_reader

    key = settings.qdrant_api_key
    return open_reader(
        home=settings.home,
        url=settings.qdrant_url,
        api_key=key.get_secret_value() if key else None,
    )


def _open_writer(settings: Settings) -> VectorStore:
    from threadhouse.stores.vectors import open_writer

    key = settings.qdrant_api_key
    return open_writer(
        home=settings.home,
        lock_timeout_s=settings.lock_timeout_s,
        url=settings.qdrant_url,
        api_key=key.get_secret_value() if key else None,
    )


def _require_exists(path: Path) -> None:
    # Before anything is started: a typing error should not cost the start of a server.
    if not path.exists():
        message = f"{path} does not exist; give a folder or a file to load."
        raise LoadError(message)


def _load_sample_if_empty(settings: Settings, announce: Callable[[str], None]) -> bool:
    """Load the sample hub into a source of truth that holds nothing; whether that was done."""
    from threadhouse.stores.loading import load_path
    from threadhouse.stores.query_secret import open_question_keeper
    from threadhouse.stores.source_counts import count_source

    database = _open_database(settings)
    with database.connect() as connection:
        if count_source(connection).has_content:
            return False
    hub = Path(__file__).resolve().parents[3] / "examples" / "hub"
    if not hub.is_dir():
        message = f"The sample hub is not part of this installation ({hub}); load your own with threadhouse load PATH."
        raise LoadError(message)
    announce("The source of truth is empty: loading the sample hub from examples/hub")
    report = load_path(database, hub, keeper=open_question_keeper(settings))
    announce(
        f"Loaded the sample hub: {report.write_count:,} rows and versions, {len(report.quarantined):,} in quarantine"
    )
    return True


def _no_report(lane: str, day: str | None, lanes: Sequence[str]) -> str:
    of_day = f" of {day}" if day else ""
    if lanes:
        return f"There is no health report{of_day} for lane {lane!r}; choose one of {', '.join(lanes)}."
    return (
        f"There is no health report{of_day} yet; run threadhouse nightly, or choose another --day."
    )


def _open_in_browser(html_path: str | None) -> None:
    import webbrowser

    if html_path is None or not Path(html_path).is_file():
        message = f"The HTML file {html_path or 'of this report'} is not there; run threadhouse nightly to write it again."
        raise click.ClickException(message)
    if not webbrowser.open(Path(html_path).as_uri()):
        sys.stderr.write(
            f"{_PROGRAM}: no browser could be started here; open {html_path} yourself.\n"
        )


def _print_json(value: Mapping[str, Any] | list[dict[str, Any]]) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def _print_audit(found: AuditReport) -> None:
    for collection in found.collections:
        wrong = ", ".join(
            f"{count:,} {kind.value}" for kind, count in sorted(collection.counts.items())
        )
        owners, points = f"{collection.owners:,} owners", f"{collection.points:,} points"
        click.echo(f"{collection.collection}: {points}, {owners}: {wrong or 'clean'}")
        for sample in collection.samples:
            click.echo(f"  {sample.kind.value}: {sample.owner_id}: {sample.detail}")
    verdict = "clean" if found.is_clean else f"{found.findings:,} findings"
    click.echo(f"Audited {found.points:,} points in {found.seconds:.1f} s: {verdict}")


def _print_diagnosis(diagnosis: Diagnosis) -> None:
    from threadhouse.stores.doctor import State

    colours = {State.OK: "green", State.WARN: "yellow", State.FAIL: "red"}
    section = None
    for finding in diagnosis.findings:
        if finding.section != section:
            section = finding.section
            click.echo(click.style(f"\n{section}" if section else "", bold=True))
        state = click.style(f"{finding.state.value:5}", fg=colours[finding.state])
        click.echo(f"  {state} {finding.name}: {finding.detail}")
        if finding.remedy:
            click.echo(f"        -> {finding.remedy}")
    failed, warned = diagnosis.count(State.FAIL), diagnosis.count(State.WARN)
    click.echo(f"\n{failed} failed, {warned} to look at, {diagnosis.count(State.OK)} fine")
