"""The command that takes old records out.

Belongs here: options, what is printed. Does not belong here: what leaves (stores.retention, resources.run_history).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import click

_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)


def add_commands(group: click.Group) -> None:
    """Add it to the console script."""
    group.add_command(retain)


@click.command()
@click.option("--dry-run", is_flag=True, help="Only count what would leave.")
@_as_json
def retain(*, dry_run: bool, as_json: bool) -> None:
    """Take out records, log files and runs of the UI that are older than they are kept.

    The nightly does it as its last step. What somebody still needs stays whatever its age: changes that were not followed, open
    gaps, reviews and security events. Events and words of questions leave in a step of their own.
    """
    from threadhouse.pipelines.job_runs import open_instance
    from threadhouse.pipelines.progress_display import open_display
    from threadhouse.resources.run_history import prune_runs
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.retention import Removed, retain_records
    from threadhouse.stores.settings import Settings

    settings, now = Settings.from_environment(), datetime.now(UTC)
    database = open_database(settings)
    with open_display() as display:
        removed = retain_records(
            database,
            settings,
            now,
            dry_run=dry_run,
            progress=lambda name, rows: display.report(f"Removing {name}", rows, 0),
        )
    with open_instance(settings) as instance:
        runs = prune_runs(instance, now - timedelta(days=settings.log_days), dry_run=dry_run)
    removed = (*removed, Removed("runs of the UI", settings.log_days, runs))
    if as_json:
        rows = [{"name": r.name, "days": r.days, "count": r.count} for r in removed]
        click.echo(json.dumps({"dry_run": dry_run, "removed": rows}, indent=2))
        return
    for rule in removed:
        click.echo(f"  {rule.name:22} kept {rule.days:4} days  {rule.count:9,}")
    total = sum(rule.count for rule in removed)
    click.echo(f"{'Would remove' if dry_run else 'Removed'} {total:,}.")
