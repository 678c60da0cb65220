"""The commands about tokens: issue one, say what one grants, keep the keys.

Belongs here: options, what is printed. A key is never printed, a token only by ``issue``.
Does not belong here: what a token must be (serving.tokens), how keys are stored (stores.token_keys).
"""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from threadhouse.pipelines.cli_principal import AUDIENCES, read_token, token_file_option

if TYPE_CHECKING:
    from threadhouse.retrieval.models import Json
    from threadhouse.serving.tokens import VerifiedToken

DEFAULT_LIFETIME = "12h"
"""A working day and a little more: long enough not to be in the way, over before the next one."""

_DURATION = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_UNIT_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)


class _Duration(click.ParamType[timedelta]):
    """A number with a unit."""

    name = "duration"

    def convert(
        self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        if isinstance(value, timedelta):
            return value
        found = _DURATION.fullmatch(value)
        if found is None:
            self.fail("write a number with its unit, such as 30m, 12h or 7d", param, ctx)
        return timedelta(seconds=int(found[1]) * _UNIT_S[found[2]])


class _Granted(TypedDict):
    """The options that are fields of a grant, by its names."""

    subject: str
    audience: str
    roles: tuple[str, ...]
    task_scopes: tuple[str, ...]
    tool_permissions: tuple[str, ...]
    classifications: tuple[str, ...]
    high_risk_for: timedelta | None


def add_commands(group: click.Group) -> None:
    """Add the commands about tokens to the console script."""
    group.add_command(token)


@click.group()
def token() -> None:
    """Issue tokens, say what they grant, keep the keys that sign them."""


@token.command("issue")
@click.option("--subject", required=True, help="Who the token is for; written into logs.")
@click.option(
    "--audience",
    type=click.Choice(AUDIENCES),
    required=True,
    help="Whose rights the subject has.",
)
@click.option("--role", "roles", multiple=True, help="A role of the subject; may be repeated.")
@click.option("--task-scope", "task_scopes", multiple=True, help="A task; may be repeated.")
@click.option(
    "--permission",
    "tool_permissions",
    multiple=True,
    help="What an ai_agent may do beyond its default, such as read:drafts; may be repeated.",
)
@click.option(
    "--classification",
    "classifications",
    multiple=True,
    help="A data classification that an ai_agent is cleared for; may be repeated.",
)
@click.option(
    "--consent-high-risk",
    "high_risk_for",
    type=_Duration(),
    metavar="DURATION",
    help="The subject has agreed to see material of high risk, for so long: 30m.",
)
@click.option(
    "--lifetime",
    type=_Duration(),
    default=DEFAULT_LIFETIME,
    show_default=True,
    help="How long the token holds: 30m, 12h, 7d.",
)
@click.option("--key", "key_id", help="Sign with this key.  [default: the newest]")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the token into a file that only its owner can read, instead of to stdout.",
)
@_as_json
def issue(
    *,
    lifetime: timedelta,
    key_id: str | None,
    out: Path | None,
    as_json: bool,
    **granted: Unpack[_Granted],
) -> None:
    """Issue a token. It is a secret until it expires.

    docs/tokens.md says what it may say, and how to hand it to a command or an agent.
    """
    from threadhouse.retrieval.errors import ConfigurationError
    from threadhouse.retrieval.models import Audience
    from threadhouse.serving.tokens import Grant, PrincipalTokens
    from threadhouse.stores.settings import Settings
    from threadhouse.stores.token_keys import write_private_file

    tokens = PrincipalTokens(Settings.from_environment())
    grant = Grant(**{**granted, "audience": Audience(granted["audience"])})
    issued = tokens.issue(grant, lifetime, key_id)
    verified = tokens.verify(issued)
    if out is not None:
        try:
            write_private_file(out, issued + "\n")
        except OSError as error:
            message = f"The token cannot be written to {out} ({error.strerror}); name another file."
            raise ConfigurationError(message) from None
    if as_json:
        shown = {"token": issued} if out is None else {"file": str(out)}
        click.echo(json.dumps({**shown, **_claims(verified)}, ensure_ascii=False, indent=2))
    elif out is None:
        click.echo(issued)
    else:
        click.echo(f"The token is in {out}; it expires {_when(verified)}.")


@token.command("show")
@token_file_option
@_as_json
def show(*, token_file: str | None, as_json: bool) -> None:
    """Say what a token grants, or why it is refused.

    The token comes from THREADHOUSE_TOKEN or a file; it is not printed again.
    """
    from threadhouse.serving.tokens import PrincipalTokens
    from threadhouse.stores.settings import Settings

    settings = Settings.from_environment()
    given = read_token(settings, token_file)
    if given is None:
        message = "there is no token to show: set THREADHOUSE_TOKEN or give --token-file"
        raise click.UsageError(message)
    verified = PrincipalTokens(settings).verify(given)
    if as_json:
        click.echo(json.dumps(_claims(verified), ensure_ascii=False, indent=2))
        return
    for name, value in _claims(verified).items():
        words = ", ".join(map(str, value)) if isinstance(value, list) else value
        click.echo(f"{name.replace('_', ' '):20} {'-' if words in ('', None) else words}")


@token.group("keys")
def keys() -> None:
    """Make, list and retire the keys that sign tokens."""


@keys.command("create")
def keys_create() -> None:
    """Make an Ed25519 key pair, which signs from now on.

    Tokens of the older keys go on holding until `keys retire`.
    """
    from threadhouse.stores.settings import Settings
    from threadhouse.stores.token_keys import create_key, home_key_file

    settings = Settings.from_environment()
    key = create_key(settings)
    click.echo(f"Key {key.key_id} signs from now on; it is in {home_key_file(settings.home)}.")


@keys.command("list")
@_as_json
def keys_list(*, as_json: bool) -> None:
    """List the keys in force, without their secrets."""
    from threadhouse.stores.settings import Settings
    from threadhouse.stores.token_keys import read_token_keys

    found = read_token_keys(Settings.from_environment())
    able = [key.key_id for key in found.keys if key.can_sign]
    rows: list[dict[str, Json]] = [
        {
            "key_id": key.key_id,
            "algorithm": key.algorithm.value,
            "created_at": key.created_at.isoformat() if key.created_at else None,
            "use": "signs" if [key.key_id] == able[-1:] else "verifies",
        }
        for key in found.keys
    ]
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    for row in rows:
        click.echo(f"{row['key_id']}  {row['algorithm']}  {row['created_at'] or '-'}  {row['use']}")
    if not rows:
        click.echo("There is no key yet; threadhouse token keys create makes one.")


@keys.command("retire")
@click.argument("key_id")
def keys_retire(key_id: str) -> None:
    """Delete the key KEY_ID: every token that it signed is refused from now on."""
    from threadhouse.stores.settings import Settings
    from threadhouse.stores.token_keys import retire_key

    retire_key(Settings.from_environment(), key_id)
    click.echo(f"Key {key_id} is deleted, and whatever it signed is refused from now on.")


def _claims(verified: VerifiedToken) -> dict[str, Json]:
    principal = verified.principal
    return {
        "subject": principal.subject,
        "audience": principal.audience.value,
        "roles": [*sorted(principal.roles)],
        "task_scopes": [*sorted(principal.task_scopes)],
        "tool_permissions": [*sorted(principal.tool_permissions)],
        "classifications": [*sorted(principal.classifications)],
        "high_risk": bool(principal.high_risk_consents),
        "issued_at": verified.issued_at.isoformat(),
        "expires_at": verified.expires_at.isoformat(),
        "key_id": verified.key_id,
    }


def _when(verified: VerifiedToken) -> str:
    return f"{verified.expires_at:%Y-%m-%d %H:%M} UTC"
