"""The commands about the audience policy: show it, see what a file would change, put a file in force.

Belongs here: options, what is printed, asking a person before somebody sees more.
Does not belong here: what a policy decides (retrieval.audience), what a change opens (retrieval.policy_documents).
"""

from __future__ import annotations

import getpass
import json
import socket
import sys
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from threadhouse.retrieval.policy_documents import PolicyDocument
    from threadhouse.stores.leased_connections import QuestionConnection

EXIT_WIDENS = 3
NO_REASON = "no reason given"

_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)
_file = click.argument("file", type=click.File("r", encoding="utf-8"))


@click.group()
def policy() -> None:
    """Who may see what: the audience policy, as versioned data.

    A change is a file: `threadhouse policy show > policy.yaml`, edit it, `diff` it, `apply` it.
    """


def add_commands(group: click.Group) -> None:
    """Add the group of the policy to the console script."""
    group.add_command(policy)


@policy.command()
@_as_json
def show(*, as_json: bool) -> None:
    """Print the version in force, in the form of the file that `apply` takes."""
    from threadhouse.retrieval.policy_documents import policy_to_json, render_policy
    from threadhouse.stores.audience_policy import read_audience_policy

    with _connect() as connection:
        current = read_audience_policy(connection)
    if as_json:
        click.echo(json.dumps(policy_to_json(current), ensure_ascii=False, indent=2))
    else:
        click.echo(render_policy(current), nl=False)


@policy.command()
@_file
@_as_json
@click.pass_context
def diff(context: click.Context, file: TextIO, *, as_json: bool) -> None:
    """Say what FILE would open (+) and close (-), for which audience.

    Exit code 3 when somebody would see more than before.
    """
    from threadhouse.retrieval.policy_documents import compare_policies
    from threadhouse.stores.audience_policy import read_audience_policy

    document = _read(file)
    with _connect() as connection:
        current = read_audience_policy(connection)
    found = compare_policies(current, document.as_version(current.version + 1))
    if as_json:
        shown = {"policy_version": current.version, **found.to_json()}
        click.echo(json.dumps(shown, ensure_ascii=False, indent=2))
    else:
        click.echo(found.render())
    if found.widens:
        context.exit(EXIT_WIDENS)


@policy.command()
@_file
@click.option("--yes", is_flag=True, help="Somebody may see more than before; do not ask.")
@click.option("--reason", help="Why, for the log.")
@_as_json
def apply(file: TextIO, *, yes: bool, reason: str | None, as_json: bool) -> None:
    """Put FILE in force as the next version, whole or not at all.

    A policy by which somebody sees more than before is asked about; where nobody can answer it takes --yes. Every change is
    logged with who, why, and what it opens and closes. From then on every read is decided by it, and packs of older versions
    are not served.
    """
    from threadhouse.retrieval.policy_documents import compare_policies
    from threadhouse.stores.audience_policy import apply_audience_policy, read_audience_policy

    document = _read(file)
    with _connect() as connection:
        current = read_audience_policy(connection)
    made_from = document.made_from or current.version
    found = compare_policies(current, document.as_version(current.version + 1))
    if made_from == current.version and found.is_empty and document.lanes == current.lanes:
        version: int | None = None
    else:
        if made_from == current.version and found.widens and not yes:
            _confirm(found.render())
        with _connect() as connection:
            version, found = apply_audience_policy(
                connection, document, made_from, applied_by=_person(), reason=reason or NO_REASON
            )
    if as_json:
        shown = {"policy_version": version or current.version, "is_new": version is not None}
        click.echo(json.dumps({**shown, **found.to_json()}, ensure_ascii=False, indent=2))
    elif version is None:
        click.echo(f"Version {current.version} says the same already; nothing was changed.")
    else:
        click.echo(found.render())
        click.echo(
            f"Version {version} is in force. The next nightly builds centroids and packs for it."
        )


def _confirm(changes: str) -> None:
    from threadhouse.retrieval.errors import PolicyWideningError

    if not sys.stdin.isatty():
        message = f"{changes.splitlines()[-1]} Nothing was changed; look at threadhouse policy diff, then apply it with --yes."
        raise PolicyWideningError(message)
    click.echo(changes, err=True)
    if not click.confirm("Put it in force?", err=True):
        message = "Nothing was changed."
        raise PolicyWideningError(message)


def _read(file: TextIO) -> PolicyDocument:
    from threadhouse.retrieval.errors import PolicyDocumentError
    from threadhouse.retrieval.policy_documents import MAX_CHARS, parse_policy

    try:
        return parse_policy(file.read(MAX_CHARS + 1))
    except (OSError, UnicodeDecodeError) as error:
        message = f"{file.name} cannot be read as text ({error}); give a policy in YAML or JSON."
        raise PolicyDocumentError(message) from None


def _person() -> str:
    """Who is at the keyboard, as far as this machine knows."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "an OS user without a name"
    return f"{user}@{socket.gethostname()}"


def _connect() -> AbstractContextManager[QuestionConnection]:
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    return open_database(Settings.from_environment()).connect()
