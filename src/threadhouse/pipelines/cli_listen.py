"""The command that follows changes as they are committed.

Belongs here: options, signals, what is printed. Does not belong here: following (stores.change_sync), waiting
(stores.change_listener). Dagster is never imported.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import click

from threadhouse.pipelines.secret_masking import mask

if TYPE_CHECKING:
    from threadhouse.stores.change_sync import SyncReport, SyncStores
    from threadhouse.stores.embedding_cache import CachedEmbedder
    from threadhouse.stores.postgres import Database
    from threadhouse.stores.settings import Settings


def add_commands(group: click.Group) -> None:
    """Add the command to the console script."""
    group.add_command(listen)


@click.command()
@click.option("--once", is_flag=True, help="Follow what waits now, then end.")
@click.option(
    "--allow-deletes",
    is_flag=True,
    help="With --once: go on when more than a fifth of what is published would be deleted.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one line of JSON for each batch of changes."
)
def listen(*, once: bool, allow_deletes: bool, as_json: bool) -> None:
    """Follow changes of documents, units and threads as they are committed.

    Vectors, centroids and packs of what changed are brought up to date: what takes a right away first, then what gives one, then
    content. docs/sync.md says how long that takes. Ctrl-C and SIGTERM finish the step at hand and end it with 130; nothing
    is lost.
    """
    from threadhouse.retrieval.projection import DEFAULT_DELETION_SHARE
    from threadhouse.stores.change_listener import ChangeHints, follow_changes
    from threadhouse.stores.change_sync import sync_changes
    from threadhouse.stores.embedder_in_force import EmbedderInForce
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    if allow_deletes and not once:
        message = "--allow-deletes is a decision about what waits now; give --once with it"
        raise click.UsageError(message)
    settings = Settings.from_environment()
    database = open_database(settings)
    tell = partial(_tell, settings, as_json=as_json)
    with _asked_to_end() as stop:
        embedder = EmbedderInForce(settings, database, _say)

        def sync() -> SyncReport:
            return sync_changes(
                _open_stores(settings, database, embedder.now()),
                is_stopping=stop.is_set,
                followed_by="once" if once else "listener",
                allowed_deletion_share=None if allow_deletes else DEFAULT_DELETION_SHARE,
            )

        if once:
            tell(sync())
        else:
            hints = ChangeHints(
                database,
                poll_s=settings.sync_poll_s,
                debounce_s=settings.sync_debounce_ms / 1000,
                stop=stop,
            )
            _say("Following changes (Ctrl-C ends it).")
            with hints:
                follow_changes(sync, hints, stop, tell=tell, say=_say)
        if stop.is_set():
            raise KeyboardInterrupt


def _open_stores(settings: Settings, database: Database, embedder: CachedEmbedder) -> SyncStores:
    """The stores of a sync; the writer is opened while there is work."""
    from threadhouse.stores.change_sync import SyncStores
    from threadhouse.stores.vectors import open_writer

    key = settings.qdrant_api_key
    return SyncStores(
        database=database,
        open_writer=partial(
            open_writer,
            home=settings.home,
            lock_timeout_s=settings.lock_timeout_s,
            url=settings.qdrant_url,
            api_key=key.get_secret_value() if key else None,
        ),
        embedder=embedder,
        home=settings.home,
    )


@contextmanager
def _asked_to_end() -> Generator[threading.Event, None, None]:
    """An event that Ctrl-C, SIGTERM or a closed terminal sets; the second time they end the command where it is."""
    stop = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            signal.default_int_handler(number, frame)
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [(number, signal.signal(number, end)) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _tell(settings: Settings, report: SyncReport, *, as_json: bool) -> None:
    now = datetime.now(settings.zone)
    if as_json:
        at = {"at": now.isoformat(timespec="milliseconds")}
        click.echo(json.dumps({**at, **report.to_json()}))
    else:
        click.echo(f"{now:%H:%M:%S} {render(report)}")


def render(report: SyncReport) -> str:
    """One backlog in one line for a person."""
    if not (report.changes or report.was_everything):
        return "nothing has changed"
    what = (
        "everything was compared with the source"
        if report.was_everything
        else f"{_count(report.changes, 'change')} of {_count(report.owners, 'unit or document', 'units and documents')}"
    )
    done = (
        f"{_count(report.texts_embedded, 'text')} embedded, {_count(report.vector_writes, 'vector write')}, "
        f"{_count(report.packs_written, 'pack')} built"
    )
    if not report.is_finished:
        return f"{what}: {done}; asked to end, the rest is followed next time"
    parts = [f"{what}: {done}; searchable {report.oldest_wait_s:.1f} s after the first change"]
    if report.quarantined:
        parts.append(f"{_count(report.quarantined, 'row')} refused (threadhouse doctor)")
    return "; ".join(parts)


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _say(line: str) -> None:
    click.echo(mask(line), err=True)
