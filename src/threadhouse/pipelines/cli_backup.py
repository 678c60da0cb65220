"""The commands that take a backup and put one back.

Belongs here: options, what is printed. Does not belong here: doing it (stores.backup, stores.restore).
"""

from __future__ import annotations

import json
from pathlib import Path

import click

_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)
_path = click.argument("path", type=click.Path(path_type=Path))


def add_commands(group: click.Group) -> None:
    """Add them to the console script."""
    group.add_command(backup)
    group.add_command(restore)


@click.command()
@_path
@_as_json
def backup(path: Path, *, as_json: bool) -> None:
    """Back this hub up into PATH, a folder that is not there yet.

    Postgres, the published vectors of the embedded engine, the event lake and the keys of this home, all of one moment. Work goes
    on meanwhile. PATH holds everything that is hidden, and keys: only its owner may read it, and so it should stay.
    """
    from threadhouse.pipelines.progress_display import open_display
    from threadhouse.stores.backup import create_backup
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    settings = Settings.from_environment()
    with open_display() as display:
        made = create_backup(settings, open_database(settings), path, progress=display.report)
    if as_json:
        click.echo(json.dumps({"path": str(path.absolute()), **made.summary()}, indent=2))
        return
    click.echo(
        f"Backed up {made.documents:,} documents, {made.units:,} units and {made.threads:,} threads into {path}: "
        f"{len(made.files):,} files, schema {made.migration}."
    )
    if not made.has_vectors:
        click.echo(
            "The vectors are on a server and were left out; a restore builds them from the embeddings in Postgres."
        )


@click.command()
@_path
@click.option(
    "--replace",
    is_flag=True,
    help="Move what this home holds aside, into a folder below it, instead of refusing.",
)
@click.option(
    "--check", is_flag=True, help="Only hold the files of the backup against its manifest."
)
@_as_json
def restore(path: Path, *, replace: bool, check: bool, as_json: bool) -> None:
    """Put the backup in PATH into this home, which has to be empty.

    The new hub is built beside what is there and proven by the audit before anything is moved. When it is killed, the same
    command finishes its work or starts over.
    """
    from threadhouse.pipelines.progress_display import open_display
    from threadhouse.pipelines.ui_processes import running_ui
    from threadhouse.retrieval.errors import StoreLockedError
    from threadhouse.stores.backup import check_files, read_manifest
    from threadhouse.stores.restore import restore_backup
    from threadhouse.stores.settings import Settings

    settings = Settings.from_environment()
    if check:
        manifest = read_manifest(path)
        with open_display() as display:
            check_files(path, manifest, display.report)
        if as_json:
            click.echo(json.dumps(manifest.summary(), indent=2))
        else:
            click.echo(
                f"All {len(manifest.files):,} files of the backup of {manifest.created_at} are as they were written."
            )
        return
    if running_ui(settings.home) is not None:
        message = f"The UI of {settings.home} runs; end it with threadhouse stop, then restore."
        raise StoreLockedError(message)
    with open_display() as display:
        done = restore_backup(
            settings, path, replace=replace, progress=display.report, announce=display.announce
        )
    if as_json:
        click.echo(json.dumps(done.to_json(), ensure_ascii=False, indent=2))
        return
    click.echo(
        f"Restored the backup of {done.backup.created_at} into {settings.home} in {done.seconds:.1f} s: "
        f"{done.backup.documents:,} documents, {done.backup.units:,} units, {done.backup.threads:,} threads."
    )
    for name in done.migrated:
        click.echo(f"Applied {name}")
    mended = f"; {done.mended:,} findings were mended on the way" if done.mended else ""
    click.echo(f"The audit of {done.points:,} points is clean{mended}.")
    if done.replaced is not None:
        click.echo(f"What was here before is in {done.replaced}; delete it when nobody needs it.")
