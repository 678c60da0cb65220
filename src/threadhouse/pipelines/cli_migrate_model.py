"""The commands that bring in another embedding model or another way of cutting.

Belongs here: options, what is printed. Does not belong here: the steps (pipelines.model_migration).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from threadhouse.pipelines.model_migration import ModelMigration, Verification
    from threadhouse.pipelines.progress_display import ProgressDisplay
    from threadhouse.retrieval.models import Json
    from threadhouse.stores.generations import BuildEstimate, Generation, LevelReport
    from threadhouse.stores.judged_queries import JudgedQuery

EXIT_FINDINGS = 3

_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)
_judged = click.option(
    "--judged",
    type=click.Path(path_type=Path),
    help="Judged queries to ask as well: a JSONL file or a folder, as for threadhouse calibrate.",
)
_allow_deletes = click.option(
    "--allow-deletes",
    is_flag=True,
    help="Go on when more than a fifth of what the generation holds would be deleted.",
)


def add_commands(group: click.Group) -> None:
    """Add the group to the console script."""
    group.add_command(migrate_model)


@click.group("migrate-model")
def migrate_model() -> None:
    """Bring in another embedding model or chunking: build beside, verify, switch, roll back, drop.

    Reads work throughout. Nothing that readers have changes before switch, and rollback undoes that in one step.
    """


@migrate_model.command()
@click.option("--model", help="fastembed model to embed with, as EMBEDDING_MODEL.")
@click.option(
    "--path", type=click.Path(path_type=Path), help="Local model folder, as EMBEDDING_PATH."
)
@click.option(
    "--rebuild", is_flag=True, help="Also when model and chunking are those in force already."
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Count what would be embedded and say how long it takes, measured on a few texts.",
)
@_allow_deletes
@_as_json
def build(
    *,
    model: str | None,
    path: Path | None,
    rebuild: bool,
    dry_run: bool,
    allow_deletes: bool,
    as_json: bool,
) -> None:
    """Build a generation of vectors beside the one in force.

    Without --model and --path it goes on with what is being built, or takes the model of the settings. Killed, the same command
    goes on; no text is embedded twice. A nightly may run meanwhile.
    """
    from threadhouse.retrieval.errors import ConfigurationError
    from threadhouse.stores.generations import BuildEstimate
    from threadhouse.stores.model_in_force import ModelPlace

    if model is not None and path is not None:
        message = "--model and --path are both given; give one of them."
        raise ConfigurationError(message)
    place = ModelPlace(model, path) if model or path else None
    with _display() as display:
        migration = _open(display, allow_deletes=allow_deletes)
        generation = migration.plan(place, rebuild=rebuild)
        done = migration.estimate(generation) if dry_run else migration.build(generation)
    if isinstance(done, BuildEstimate):
        _print(done.to_json(), _estimated(done), as_json=as_json)
    else:
        lines = [
            f"Built {generation.name} beside the generation in force: {_levelled(done)}.",
            "Next: threadhouse migrate-model verify, then threadhouse migrate-model switch.",
        ]
        _print({"name": generation.name, **done.to_json()}, lines, as_json=as_json)


@migrate_model.command()
@_judged
@_as_json
@click.pass_context
def verify(context: click.Context, *, judged: Path | None, as_json: bool) -> None:
    """Look at everything that switch will look at, and switch nothing.

    Counts against the source, leak canaries, and recent and judged questions asked of both generations. Exit code 3 when a switch
    would be refused.
    """
    from threadhouse.retrieval.errors import ThreadhouseError

    with _display() as display:
        found = _open(display).verify(_read(judged))
    refusal: str | None = None
    try:
        found.require(accept_losses=False)
    except ThreadhouseError as error:
        refusal = str(error)
    _print({**found.to_json(), "refusal": refusal}, _verified(found), as_json=as_json)
    if refusal is not None:
        click.echo(refusal, err=True)
        context.exit(EXIT_FINDINGS)


@migrate_model.command()
@_judged
@click.option(
    "--accept-losses",
    is_flag=True,
    help="Go on when more questions than REPLAY_LOSS_SHARE would lose the answer they have.",
)
@_allow_deletes
@_as_json
def switch(*, judged: Path | None, accept_losses: bool, allow_deletes: bool, as_json: bool) -> None:
    """Give readers the generation that was built: all collections and centroids in one step.

    It is brought level with the source and verified first. The generation before stays for rollback until it is dropped.
    """
    with _display() as display:
        migration = _open(display, allow_deletes=allow_deletes)
        now, report, found = migration.switch(_read(judged), accept_losses=accept_losses)
    lines = [
        *_verified(found),
        f"Readers have {now.name}: {_levelled(report)}.",
        f"Set {now.place.named} on every machine; processes with the old setting follow as long as they find the model.",
        "threadhouse migrate-model rollback goes back in one step; threadhouse migrate-model drop frees the old vectors.",
    ]
    _print(_switched(now, report, found), lines, as_json=as_json)


@migrate_model.command()
@_allow_deletes
@_as_json
def rollback(*, allow_deletes: bool, as_json: bool) -> None:
    """Give readers the generation before the last switch, brought level with everything that changed since."""
    with _display() as display:
        now, report, found = _open(display, allow_deletes=allow_deletes).roll_back()
    lines = [
        f"Readers have {now.name} again: {_levelled(report)}.",
        f"Set {now.place.named} on every machine. The other generation stays: switch returns to it, drop removes it.",
    ]
    _print(_switched(now, report, found), lines, as_json=as_json)


@migrate_model.command()
@click.argument("name", required=False)
@_as_json
def drop(name: str | None, *, as_json: bool) -> None:
    """Drop the generation beside the one in force, built or kept; also what a killed drop left.

    NAME is one that status shows, needed only when several stand beside. The one in force is refused. Its vectors stay in the
    embedding cache, so building it again embeds nothing anew.
    """
    with _display() as display:
        gone = _open(display).drop(name)
    _print(
        {"dropped": [each.name for each in gone]},
        [f"Dropped {each.name}." for each in gone],
        as_json=as_json,
    )


@migrate_model.command()
@_as_json
def status(*, as_json: bool) -> None:
    """Show every generation: in force, being built, built, previous or dropped, and how far each is from the source."""
    documents: list[Json] = []
    lines: list[str] = []
    with _display() as display:
        migration = _open(display)
        for generation in migration.generations():
            lines.append(
                f"{generation.name}: {generation.state.replace('_', ' ')}, model {generation.place.named}, "
                f"since {generation.changed_at:%Y-%m-%d %H:%M} UTC"
            )
            document = generation.to_json()
            if generation.state != "dropped":
                counts = migration.counts(generation)
                lines += [f"  {each.render()}" for each in counts]
                document["behind"] = sum(each.behind + each.gone for each in counts)
                document["points"] = sum(each.points for each in counts)
            documents.append(document)
    _print(
        {"generations": documents},
        lines or ["Nothing is published yet; threadhouse nightly builds the first generation."],
        as_json=as_json,
    )


def _display() -> ProgressDisplay:
    from threadhouse.pipelines.progress_display import open_display

    return open_display()


def _open(display: ProgressDisplay, *, allow_deletes: bool = False) -> ModelMigration:
    from threadhouse.pipelines.model_migration import ModelMigration
    from threadhouse.stores.settings import Settings

    settings = Settings.from_environment()
    return ModelMigration(settings, allow_deletes=allow_deletes, progress=display.report)


def _read(judged: Path | None) -> Sequence[JudgedQuery]:
    from threadhouse.stores.judged_queries import read_judged_queries

    return () if judged is None else read_judged_queries(judged)


def _switched(now: Generation, report: LevelReport, found: Verification) -> dict[str, Json]:
    return {
        "in_force": now.to_json(),
        "level": report.to_json(),
        "verification": found.to_json(),
    }


def _levelled(report: LevelReport) -> str:
    return (
        f"{report.owners_published:,} owners and {report.centroids_written:,} centroids written, {report.packs_written:,} packs, "
        f"{report.texts_embedded:,} texts embedded, {report.seconds:.1f} s"
    )


def _estimated(estimate: BuildEstimate) -> list[str]:
    owners = ", ".join(f"{count:,} in {name}" for name, count in estimate.owners.items())
    chunks = sum(estimate.chunks.values())
    speed = (
        "everything is in the cache"
        if estimate.chars_per_s is None
        else f"about {estimate.seconds:,.0f} s at {estimate.chars_per_s:,.0f} characters a second, measured now"
    )
    return [
        f"{estimate.name} would hold {owners}, {chunks:,} chunks.",
        f"{estimate.texts_to_embed:,} texts to embed, {estimate.texts_cached:,} in the cache: {speed}.",
        "Nothing was built.",
    ]


def _verified(found: Verification) -> list[str]:
    lines = [each.render() for each in found.counts]
    lines.append(f"{found.probed:,} leak probes, {len(found.leaks):,} leaks")
    if found.replay is not None:
        verdict = found.replay.verdict
        lines.append(
            f"{len(verdict.outcomes):,} recent questions asked of both: {verdict.changed:,} changed, "
            f"{verdict.lost:,} lost their answer"
        )
        if found.replay.judged:
            lines.append(
                f"{found.replay.judged:,} judged queries: {found.replay.judged_at_risk:,} right before, "
                f"{found.replay.judged_right:,} right now, {found.replay.judged_lost:,} lost"
            )
    return lines


def _print(document: dict[str, Json], lines: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False, indent=2))
    else:
        click.echo("\n".join(lines))
