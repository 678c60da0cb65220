"""The tools over the Model Context Protocol: stdio for one agent, streamable HTTP for several.

Belongs here: the protocol server, who calls by which token, retrieval sessions of protocol sessions, both transports.
Does not belong here: what the tools do (mcp_tools), what a token must be (tokens), opening stores (opening).

Over stdio the token is the process's own, and it is verified at each call, so that its end holds. Over HTTP it is verified at
each request and once more by the call, which makes the principal from it. Calls run in threads, because the service blocks.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ToolDescription
from pydantic import AnyHttpUrl
from starlette.requests import Request

from threadhouse import __version__
from threadhouse.retrieval.errors import ConfigurationError, InvalidTokenError, ThreadhouseError
from threadhouse.retrieval.models import Principal
from threadhouse.serving.mcp_tools import (
    DATA_NOT_INSTRUCTIONS,
    TOOLS,
    Caller,
    ToolAnswer,
    ToolRefusedError,
    refusal_of,
    tool_called,
)
from threadhouse.serving.opening import POOL_CONNECTIONS
from threadhouse.serving.retrieval_service import RetrievalService
from threadhouse.serving.sessions import new_session_id
from threadhouse.serving.tokens import PrincipalTokens

SERVER_NAME = "threadhouse"
HTTP_PATH = "/mcp"

MAX_MESSAGE_BYTES = 1_000_000
"""Of one call. The largest that can be answered, 200 citations of 500 characters, has a tenth of it."""

SESSION_IDLE_S = 30 * 60.0
"""After this long a consumer has turned to something else. The protocol's own sessions end after the same time."""

MAX_SESSIONS = 1_000
"""Agents at once; the longest idle ones begin a new session, which costs a count and no right."""

MAX_CONNECTIONS = 200
"""Requests and open streams of a server for the agents of one team; more are told to come back (503)."""

SHUTDOWN_S = 5
"""What a call that is under way gets to finish; most take a hundredth of it."""

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")

INSTRUCTIONS = (
    "Threadhouse answers questions about a hub of law, design, code, tests and reports. Ask get_context_pack first, check your "
    "citations with check_citations before you answer, and report what the pack was worth with report_feedback. "
    + DATA_NOT_INSTRUCTIONS
)

_END_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SESSION_HEADER = "mcp-session-id"
_READ_BYTES = 65_536

logger = logging.getLogger(__name__)

_Context = ServerRequestContext[Any, Any]
_Principals = Callable[[_Context], Principal]


@dataclass(slots=True)
class RetrievalSessions:
    """Which retrieval session a call belongs to. Two principals never share one, whatever they send."""

    _known: OrderedDict[tuple[str, str, str], tuple[str, float]] = field(
        default_factory=OrderedDict[tuple[str, str, str], tuple[str, float]]
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, principal: Principal, protocol_session: str, now: float | None = None) -> str:
        """The session of a principal in a protocol session; a new one after SESSION_IDLE_S without a call.

        Args:
            protocol_session: Empty where the protocol has none; then all calls of a principal belong together.
            now: Seconds of a clock that never goes back; for tests.
        """
        now = time.monotonic() if now is None else now
        key = (principal.subject, principal.audience, protocol_session)
        with self._lock:
            session_id, last = self._known.pop(key, (new_session_id(), now))
            if now - last > SESSION_IDLE_S:
                session_id = new_session_id()
            self._known[key] = (session_id, now)
            if len(self._known) > MAX_SESSIONS:
                self._known.popitem(last=False)
        return session_id


def build_server(service: RetrievalService, principal_of: _Principals) -> Server[Any]:
    """The protocol server over a service.

    Args:
        principal_of: Who makes a call; raises InvalidTokenError when that is not proven.
    """
    sessions = RetrievalSessions()
    at_once = anyio.CapacityLimiter(POOL_CONNECTIONS)

    async def list_tools(
        _context: _Context, _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=describe_tools())

    async def call_tool(context: _Context, params: CallToolRequestParams) -> CallToolResult:
        def call() -> ToolAnswer:
            tool = tool_called(params.name)
            principal = principal_of(context)
            session_id = sessions.of(principal, _protocol_session(context))
            return tool.run(service, params.arguments or {}, Caller(principal, session_id))

        try:
            answer = await anyio.to_thread.run_sync(call, limiter=at_once)
        except Exception as error:  # noqa: BLE001  the border to the agent: nothing of a fault may cross it
            sentence = refusal_of(error) or _report(params.name, error)
            return CallToolResult(content=[_text(sentence)], is_error=True)
        return CallToolResult(
            content=[_text(text) for text in answer.texts],
            structured_content=dict(answer.content),
        )

    return Server(
        SERVER_NAME,
        version=__version__,
        title="Threadhouse",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def describe_tools() -> list[ToolDescription]:
    """The tools as clients are told of them."""
    return [
        ToolDescription(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=tool.arguments.model_json_schema(),
            output_schema=tool.result.model_json_schema(mode="serialization"),
            annotations=ToolAnnotations(
                read_only_hint=tool.changes_nothing,
                destructive_hint=False,
                idempotent_hint=tool.changes_nothing,
                open_world_hint=False,
            ),
        )
        for tool in TOOLS
    ]


def serve_stdio(
    service: RetrievalService, tokens: PrincipalTokens, read_token: Callable[[], str]
) -> None:
    """Serve one agent over stdin and stdout until it closes them or a signal ends the process.

    Args:
        read_token: The token of whoever started the process; asked at each call, so that a renewed file counts.
    """

    def principal_of(_context: _Context) -> Principal:
        try:
            token = read_token()
        except ConfigurationError as error:
            logger.warning("%s", error)
            message = "The server has no token at the moment; whoever started it has to put one in its place."
            raise ToolRefusedError(message) from None
        return tokens.verify(token).principal

    anyio.run(_run_stdio, build_server(service, principal_of))


def serve_http(
    service: RetrievalService,
    tokens: PrincipalTokens,
    listening: socket.socket,
    host_names: Sequence[str],
) -> None:
    """Serve agents over streamable HTTP until a signal ends the process.

    Args:
        listening: A socket of `listen`.
        host_names: What requests may carry in ``Host``, with the port where there is one; anything else is refused, because
            a web page that was rebound to this address would carry its own.
    """

    def principal_of(context: _Context) -> Principal:
        request = cast("Request", context.request)
        user = cast("AuthenticatedUser", request.user)
        return tokens.verify(user.access_token.token).principal

    app = build_server(service, principal_of).streamable_http_app(
        streamable_http_path=HTTP_PATH,
        json_response=True,
        max_request_body_size=MAX_MESSAGE_BYTES,
        session_idle_timeout=SESSION_IDLE_S,
        max_sessions=MAX_SESSIONS,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=list(host_names),
            allowed_origins=[
                f"{scheme}://{name}" for name in host_names for scheme in ("http", "https")
            ],
        ),
        # The address of an issuer is only told to clients that look for a place to log in; there is none.
        auth=AuthSettings(issuer_url=AnyHttpUrl("http://localhost"), resource_server_url=None),
        token_verifier=_HttpTokens(tokens),
    )
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
    )

    def end(_number: int, _frame: object) -> None:
        server.should_exit = True

    # uvicorn takes the first two for itself while it serves, then raises them again for whoever had them before: this.
    for number in _END_SIGNALS:
        signal.signal(number, end)
    anyio.run(partial(server.serve, sockets=[listening]))


def listen(host: str, port: int, allowed_hosts: Sequence[str]) -> tuple[socket.socket, list[str]]:
    """Take a port, and say by which names requests may reach it.

    Args:
        port: 0 takes any free one.
        allowed_hosts: Further names that a proxy or another machine uses, with the port unless it is the scheme's own.

    Raises:
        ConfigurationError: The host is no loopback address and no name is allowed, or the port cannot be had.
    """
    if host not in LOOPBACK_HOSTS and not allowed_hosts:
        message = (
            f"{host} can be reached from the network, where tokens would travel in clear; put a proxy with TLS before a loopback "
            "address, or say with --allowed-host by which name others reach this one."
        )
        raise ConfigurationError(message)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        message = f"Port {port} of {host} cannot be had ({os.strerror(error.errno or 0)}); choose another with --port."
        raise ConfigurationError(message) from None
    taken = listening.getsockname()[1]
    local = [f"[{name}]" if ":" in name else name for name in LOOPBACK_HOSTS]
    return listening, [*(f"{name}:{taken}" for name in local), *allowed_hosts]


class _HttpTokens:
    """The token verifier of the SDK's middleware: it says who owns a protocol session. Rights are made by the call."""

    def __init__(self, tokens: PrincipalTokens) -> None:
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        """What the SDK has to know of a token that holds; None (401) for any other."""
        try:
            verified = self._tokens.verify(token)
        except InvalidTokenError as error:
            logger.warning("A token was refused: %s.", error.reason)
            return None
        except ThreadhouseError as error:
            logger.error("No token can be verified: %s", error)
            return None
        principal = verified.principal
        return AccessToken(
            token=token,
            client_id=principal.audience,
            subject=principal.subject,
            scopes=[],
            expires_at=int(principal.expires_at.timestamp()) if principal.expires_at else None,
            claims={"iss": self._tokens.rules.issuer},
        )


async def _run_stdio(server: Server[Any]) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(_cancel_on_signal, group.cancel_scope)
        lines = _StdinLines(anyio.lowlevel.current_token())
        async with stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
        group.cancel_scope.cancel()


async def _cancel_on_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(*_END_SIGNALS) as received:
        async for _ in received:
            scope.cancel()
            return


class _StdinLines:
    """Lines of stdin, read by a thread that does not keep the process alive.

    The SDK's own reader cannot be cancelled while it waits for a line, so a signal would be heeded at the next message only.
    """

    def __init__(self, loop: anyio.lowlevel.EventLoopToken) -> None:
        self._send, self._lines = anyio.create_memory_object_stream[str](0)
        threading.Thread(target=self._read, args=(loop,), daemon=True).start()

    def __aiter__(self) -> AsyncIterator[str]:
        return self._lines.__aiter__()

    def _read(self, loop: anyio.lowlevel.EventLoopToken) -> None:
        # The descriptor and not sys.stdin: its lock, held by a thread that waits, would abort the interpreter's exit.
        descriptor = sys.stdin.fileno()
        try:
            for line in read_lines(lambda: os.read(descriptor, _READ_BYTES)):
                anyio.from_thread.run(self._send.send, line, token=loop)
            anyio.from_thread.run(self._send.aclose, token=loop)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, CancelledError, RuntimeError):
            # The server has ended first; nobody is left to read.
            return


def read_lines(read: Callable[[], bytes]) -> Iterator[str]:
    """Lines of a byte stream; one that is longer than MAX_MESSAGE_BYTES comes as an empty one, which is no message."""
    rest, too_long = bytearray(), False
    while chunk := read():
        *ended, last = chunk.split(b"\n")
        for piece in ended:
            rest += piece
            yield (
                "" if too_long or len(rest) > MAX_MESSAGE_BYTES else rest.decode("utf-8", "replace")
            )
            rest.clear()
            too_long = False
        rest += last
        if len(rest) > MAX_MESSAGE_BYTES:
            rest.clear()
            too_long = True
    if rest:
        yield rest.decode("utf-8", "replace")


def _protocol_session(context: _Context) -> str:
    """The id of the HTTP session; empty over stdio, where the process is the session, and for requests that stand alone."""
    request = context.request
    return request.headers.get(_SESSION_HEADER, "")[:100] if isinstance(request, Request) else ""


def _text(text: str) -> ContentBlock:
    return TextContent(type="text", text=text)


def _report(tool: str, error: Exception) -> str:
    """Log a fault of ours, and say no more of it than where to look."""
    reference = secrets.token_hex(4)
    logger.error("Fault %s in %s", reference, tool[:100], exc_info=error)
    return f"Something went wrong inside the server (fault {reference}); try again, and tell whoever runs it if it stays."
