"""The command that serves agents over MCP.

Belongs here: options, where messages and faults are logged. Stdout is the protocol's; nothing is printed there.
Does not belong here: the server (serving.mcp_server), tools, tokens. Dagster is never imported.
"""

from __future__ import annotations

import logging
import logging.handlers
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from threadhouse.pipelines.cli_principal import STDIN, read_token, token_file_option
from threadhouse.pipelines.secret_masking import mask

if TYPE_CHECKING:
    from threadhouse.stores.settings import Settings

TRANSPORTS = ("stdio", "http")
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8765

LOG_FILE = "mcp.log"
LOG_BYTES, LOG_FILES = 1_000_000, 3
"""Faults of months; a server that fails at every call does not fill the disk."""


def add_commands(group: click.Group) -> None:
    """Add the command to the console script."""
    group.add_command(mcp)


@click.command()
@click.option(
    "--transport",
    type=click.Choice(TRANSPORTS),
    default=TRANSPORTS[0],
    show_default=True,
    help="stdio for an agent that starts this command, http for several.",
)
@token_file_option
@click.option(
    "--host",
    default=DEFAULT_HOST,
    show_default=True,
    help="Address for http. One that the network reaches needs --allowed-host.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port for http; 0 takes a free one.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME[:PORT]",
    help="A name that http requests may come under, such as that of a proxy; may be repeated.",
)
def mcp(
    *,
    transport: str,
    token_file: str | None,
    host: str,
    port: int,
    allowed_hosts: tuple[str, ...],
) -> None:
    """Serve AI agents over the Model Context Protocol.

    With stdio the token in THREADHOUSE_TOKEN or --token-file says who asks; with http each request brings its own as
    "Authorization: Bearer". docs/mcp.md says how to connect. The server ends with its input, Ctrl-C or SIGTERM.
    """
    from threadhouse.stores.settings import Settings

    settings = Settings.from_environment()
    _log_to(settings.home / "logs")
    if transport == "stdio":
        _serve_stdio(settings, token_file)
        return
    if token_file is not None:
        message = "--token-file is for stdio; with http each request brings its own token"
        raise click.UsageError(message)
    _serve_http(settings, host, port, allowed_hosts)


def _serve_stdio(settings: Settings, token_file: str | None) -> None:
    from threadhouse.retrieval.errors import ConfigurationError
    from threadhouse.serving.opening import open_retrieval_service
    from threadhouse.serving.tokens import PrincipalTokens

    if token_file == STDIN:
        message = "--token-file - reads stdin, which is the protocol's here; give a file"
        raise click.UsageError(message)

    def token() -> str:
        given = read_token(settings, token_file)
        if given is None:
            message = "No token says who asks; set THREADHOUSE_TOKEN or give --token-file (threadhouse token issue makes one)."
            raise ConfigurationError(message)
        return given

    tokens = PrincipalTokens(settings)
    tokens.verify(token())
    if sys.stdin.isatty():
        _say(
            "Waiting for an MCP client on stdin; docs/mcp.md says how to connect one (Ctrl-C ends)."
        )
    with open_retrieval_service(settings, _say) as service:
        from threadhouse.serving.mcp_server import serve_stdio

        serve_stdio(service, tokens, token)


def _serve_http(settings: Settings, host: str, port: int, allowed_hosts: tuple[str, ...]) -> None:
    from threadhouse.serving.mcp_server import HTTP_PATH, listen, serve_http
    from threadhouse.serving.opening import open_retrieval_service
    from threadhouse.serving.tokens import PrincipalTokens
    from threadhouse.stores.token_keys import read_token_keys

    if not read_token_keys(settings).keys:
        _say(
            "No key is trusted yet, so every request will be refused; threadhouse token keys create makes one."
        )
    listening, names = listen(host, port, allowed_hosts)
    with listening, open_retrieval_service(settings, _say) as service:
        shown = f"[{host}]" if ":" in host else host
        _say(
            f"MCP is served at http://{shown}:{listening.getsockname()[1]}{HTTP_PATH} (Ctrl-C ends it)"
        )
        serve_http(service, PrincipalTokens(settings), listening, names)
    _say("The MCP server has ended.")


def _say(line: str) -> None:
    click.echo(line, err=True)


class _Masked(logging.Formatter):
    """A message without the secrets of the environment; a traceback goes to the file alone."""

    def __init__(self, *, with_tracebacks: bool) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._with_tracebacks = with_tracebacks

    def format(self, record: logging.LogRecord) -> str:
        if self._with_tracebacks:
            return mask(super().format(record))
        return mask(f"threadhouse: {record.getMessage()}")


def _log_to(folder: Path) -> None:
    """Warnings and worse: a line to stderr, with its traceback to a file below the home where that can be written."""
    to_people = logging.StreamHandler()
    to_people.setFormatter(_Masked(with_tracebacks=False))
    handlers: list[logging.Handler] = [to_people]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        to_file = logging.handlers.RotatingFileHandler(
            folder / LOG_FILE,
            maxBytes=LOG_BYTES,
            backupCount=LOG_FILES,
            encoding="utf-8",
            delay=True,
        )
        to_file.setFormatter(_Masked(with_tracebacks=True))
        handlers.append(to_file)
    except OSError:
        to_people.setFormatter(_Masked(with_tracebacks=True))
    logging.basicConfig(level=logging.WARNING, handlers=handlers, force=True)
