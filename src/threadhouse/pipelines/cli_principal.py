"""Whose rights a command acts with: a token's, or on embedded stores those of an audience that is named.

Belongs here: the options that say so, and the rule which of them counts when.
Does not belong here: what a token must be (serving.tokens), what is done with the rights (the commands).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import click

if TYPE_CHECKING:
    from threadhouse.retrieval.models import Principal
    from threadhouse.stores.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")

# The words of the enum, written out: importing it would cost every command what only these need. A test compares them.
AUDIENCES = ("customer", "partner", "employee", "ai_agent")

STDIN = "-"
MAX_TOKEN_FILE_CHARS = 20_000
"""More than any token; whatever a wrong path or an endless stream gives is not read whole."""

token_file_option = click.option(
    "--token-file",
    metavar="FILE",
    help="File with the token of whoever asks; - reads stdin.  [default: THREADHOUSE_TOKEN]",
)


@dataclass(frozen=True, slots=True)
class Asking:
    """What the options said about whose rights apply."""

    audience: str | None
    as_operator: bool
    token_file: str | None

    @property
    def options(self) -> str:
        """The options again, for a command that is suggested. A token is still in its variable or file."""
        if self.audience is None:
            return f" --token-file {self.token_file}" if self.token_file else ""
        return f" --audience {self.audience}" + (" --as-operator" if self.as_operator else "")

    def principal(self, settings: Settings) -> Principal:
        """Who asks.

        Raises:
            ConfigurationError: An audience is only named although the stores are not embedded.
            InvalidTokenError: The token is refused.
        """
        from threadhouse.retrieval.errors import ConfigurationError
        from threadhouse.retrieval.models import Audience, Principal
        from threadhouse.serving.tokens import PrincipalTokens

        if self.audience is None:
            token = read_token(settings, self.token_file)
            if token is None:
                message = (
                    "say whose rights apply: a token in THREADHOUSE_TOKEN or with --token-file, or --audience "
                    "where the stores are embedded"
                )
                raise click.UsageError(message)
            return PrincipalTokens(settings).verify(token).principal
        servers = [name for name in ("database_url", "qdrant_url") if getattr(settings, name)]
        if servers and not self.as_operator:
            message = (
                f"--audience is taken on trust only where the stores are embedded, and {servers[0].upper()} is set; give a token "
                "with THREADHOUSE_TOKEN or --token-file, or add --as-operator if you run this hub."
            )
            raise ConfigurationError(message)
        return Principal(subject=f"local:{self.audience}", audience=Audience(self.audience))


def takes_principal(command: Callable[Concatenate[Asking, P], R]) -> Callable[..., R]:
    """Give a command the options of this module; it gets them as its first argument."""

    @click.option(
        "--audience",
        type=click.Choice(AUDIENCES),
        help="Whose rights apply, on trust: where the stores are embedded, or with --as-operator.",
    )
    @click.option(
        "--as-operator",
        is_flag=True,
        help="Trust --audience although the stores are not embedded.",
    )
    @token_file_option
    @functools.wraps(command)
    def wrapped(
        audience: str | None,
        as_operator: bool,
        token_file: str | None,
        *args: P.args,
        **options: P.kwargs,
    ) -> R:
        if audience is not None and token_file is not None:
            message = "--audience and --token-file contradict each other; give one of them"
            raise click.UsageError(message)
        if as_operator and audience is None:
            message = "--as-operator says that --audience is to be trusted; give both"
            raise click.UsageError(message)
        return command(Asking(audience, as_operator, token_file), *args, **options)

    return wrapped


def read_token(settings: Settings, token_file: str | None) -> str | None:
    """The token of a file or of the variable; None when neither was given. An option counts more than the variable."""
    from threadhouse.retrieval.errors import ConfigurationError

    if token_file is None:
        given = settings.threadhouse_token
        return given.get_secret_value().strip() if given else None
    if token_file == STDIN:
        return sys.stdin.read(MAX_TOKEN_FILE_CHARS).strip()
    path = Path(token_file)
    # What a stray path holds is not repeated, so nothing that the system or the decoder says is chained.
    try:
        if not path.is_file():
            raise OSError
        with path.open(encoding="utf-8") as file:
            return file.read(MAX_TOKEN_FILE_CHARS).strip()
    except (OSError, ValueError):
        message = (
            f"The token file {path} cannot be read; give the file that the token was written to."
        )
        raise ConfigurationError(message) from None
