"""MCP servers as processes over the sample hub, and clients that talk to them.

Belongs here: starting, connecting, ending. Does not belong here: expectations.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from cli.conftest import SCRIPT, CommandLine
from threadhouse.retrieval.models import Audience
from threadhouse.serving.tokens import Grant, PrincipalTokens
from threadhouse.stores.settings import Settings
from threadhouse.stores.token_keys import create_key, read_token_keys

T = TypeVar("T")

# The first question loads the model; on a machine with other work that takes a while.
TIMEOUT_S = 120.0


@dataclass(frozen=True)
class McpHouse:
    """A home with the sample hub and a signing key."""

    threadhouse: CommandLine

    @property
    def settings(self) -> Settings:
        return Settings(threadhouse_home=self.threadhouse.home)

    def token(self, subject: str, audience: str = "ai_agent", lifetime_s: int = 3_600) -> str:
        if not read_token_keys(self.settings).keys:
            create_key(self.settings)
        grant = Grant(subject, Audience(audience))
        return PrincipalTokens(self.settings).issue(grant, timedelta(seconds=lifetime_s))

    def stdio(self, token: str, mode: str = "auto", **variables: str) -> Client:
        """A client that starts a server of its own."""
        server = StdioServerParameters(
            command=str(SCRIPT),
            args=["mcp"],
            env=self.threadhouse.environment(THREADHOUSE_TOKEN=token, **variables),
        )
        return Client(server, mode=mode, read_timeout_seconds=TIMEOUT_S)

    @contextmanager
    def http(self, *options: str, **variables: str) -> Generator[HttpServer, None, None]:
        """A server on a free port; ended when the body ends."""
        process = self.threadhouse.start(
            "mcp", "--transport", "http", "--port", "0", *options, **variables
        )
        server = HttpServer(process)
        try:
            server.wait_until_it_listens()
            yield server
        finally:
            server.end()

    def start_stdio(self, token: str, **variables: str) -> StdioProcess:
        """A server whose protocol is spoken by hand."""
        return StdioProcess(
            subprocess.Popen(
                [SCRIPT, "mcp"],
                env=self.threadhouse.environment(THREADHOUSE_TOKEN=token, **variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )


@dataclass
class HttpServer:
    """A process that serves over HTTP. ``said`` is its stderr, ``out`` what it left on stdout when it has ended."""

    process: subprocess.Popen[str]
    url: str = ""
    said: list[str] = field(default_factory=list)
    out: str = ""
    _reader: threading.Thread | None = None

    def wait_until_it_listens(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.search(r"http://\S+", line):
                self.url = found[0]
                break
        assert self.url, self.said
        # Somebody has to read on, or a full pipe would stop the server.
        self._reader = threading.Thread(target=lambda: self.said.extend(self.process.stderr or ()))
        self._reader.start()

    @asynccontextmanager
    async def client(self, token: str, mode: str = "auto") -> AsyncGenerator[Client, None]:
        """A connected client whose requests carry a token."""
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_S) as http:
            transport = streamable_http_client(self.url, http_client=http)
            async with Client(transport, mode=mode, read_timeout_seconds=TIMEOUT_S) as client:
                yield client

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        if self._reader is not None:
            self._reader.join(timeout=10)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None and not pipe.closed:
                self.out += pipe.read()
                pipe.close()
        return code

    def post(self, **headers: str) -> httpx2.Response:
        """One request by hand: list the tools."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        accept = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2025-06-18",
        }
        return httpx2.post(self.url, json=body, headers={**accept, **headers}, timeout=30)


@dataclass
class StdioProcess:
    """A server over stdio to which lines are written by hand."""

    process: subprocess.Popen[str]
    _ids: int = 0

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        """A request and the message that comes next, which must be one of the protocol."""
        self._ids += 1
        self.send(
            json.dumps({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        )
        return self.receive()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def shake_hands(self) -> dict[str, Any]:
        client = {"name": "by-hand", "version": "1"}
        answer = self.ask(
            "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client
        )
        self.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        return answer

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        return self.ask("tools/call", name=tool, arguments=arguments)

    def end(self, number: int | None = None) -> tuple[int, str, str]:
        """Close stdin or send a signal; exit code and what was left on stdout and stderr."""
        if number is not None:
            self.process.send_signal(number)
            # The pipe stays open: it is the signal that has to end the process.
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function to its end."""

    async def limited() -> T:
        return await asyncio.wait_for(work(), TIMEOUT_S)

    return asyncio.run(limited())


def texts(result: CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, TextContent)]


def refusal(result: CallToolResult) -> str:
    """The one sentence of a tool error."""
    assert result.is_error
    assert result.structured_content is None
    (sentence,) = texts(result)
    assert "\n" not in sentence
    return sentence
