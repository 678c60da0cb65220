"""An S3 server in this process, and a bucket of it for each test.

Belongs here: the server, its doorkeeper and its log. Does not belong here: lakes (each test opens the one it needs).
"""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from threadhouse.stores.lake import EventLake
from threadhouse.stores.settings import Settings

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

KEY, SECRET = "a-key-of-the-tests", "a-secret-of-the-tests"
_numbers = itertools.count(1)


@dataclass
class ObjectServer:
    """An S3 server that lets in one key, and remembers what it was asked."""

    endpoint: str
    requests: list[tuple[str, str]] = field(default_factory=list)

    @property
    def client(self) -> Any:  # noqa: ANN401  # boto3 makes its classes as it runs
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )

    def new_bucket(self) -> str:
        bucket = f"lake-{os.getpid()}-{next(_numbers)}"
        self.client.create_bucket(Bucket=bucket)
        return bucket

    def settings(self, home: Path, bucket: str) -> Settings:
        return Settings(
            threadhouse_home=home,
            lake_url=f"s3://{bucket}/hub",
            aws_endpoint_url=self.endpoint,
            lock_timeout_s=0.2,
        )

    def lake(self, home: Path, bucket: str) -> EventLake:
        return EventLake.open(self.settings(home, bucket))


def _guarded(application: WSGIApplication, requests: list[tuple[str, str]]) -> WSGIApplication:
    """Moto lets everybody in; a real server does not."""

    def serve(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        said = re.search(r"Credential=([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
        if said is not None and said[1] == KEY:
            return application(environ, start)
        start("403 Forbidden", [("Content-Type", "application/xml")])
        return [f"<Error><Key>{said and said[1]}</Key></Error>".encode()]

    return serve


@pytest.fixture(scope="session")
def object_server() -> Generator[ObjectServer, None, None]:
    """The server of the session. Buckets are in memory and leave with it."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Silent(WSGIRequestHandler):
        def log(self, type: str, message: str, *args: object) -> None:
            """What was asked is in ``requests``."""

    requests: list[tuple[str, str]] = []
    application = _guarded(DomainDispatcherApplication(create_backend_app), requests)
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Silent)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        yield ObjectServer(f"http://127.0.0.1:{server.server_port}", requests)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def bucket(object_server: ObjectServer) -> str:
    """An empty bucket, for this test alone."""
    return object_server.new_bucket()
