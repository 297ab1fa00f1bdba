"""A store with S3's protocol, whose proxy fails often."""

from __future__ import annotations

import http.client
import itertools
import logging
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

FORBIDDEN = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


class Proxy(ThreadingHTTPServer):
    """Server that forwards each request, on a connection of its own.

    The answer of every third request is 503. Of every fifth connection, the body of the request or
    of the answer ends in the middle. The bucket ``forbidden`` cannot be read, and
    ``readonly`` cannot be written.
    """

    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.store = (host, port)
        self.numbers = itertools.count(1)
        self.busy, self.cut = 0, 0
        """Numbers of requests that failed in either way."""
        self.written: dict[str, set[bytes]] = {}
        """All contents that each object has had."""


class Handler(BaseHTTPRequestHandler):
    """Handler of a request."""

    server: Proxy
    protocol_version = "HTTP/1.1"

    def forward(self) -> None:
        """Answer a request of any method."""
        number = next(self.server.numbers)
        self.close_connection = True
        size = int(self.headers.get("Content-Length", 0))
        is_cut = number % 5 == 0
        body = self.rfile.read(size // 2 if is_cut else size)
        if is_cut and size:
            self.server.cut += 1
        elif number % 3 == 0:
            self.server.busy += 1
            self.answer(503, {}, b"")
        elif self.path.startswith(("/forbidden", "/readonly")[: 1 + (self.command == "PUT")]):
            self.answer(403, {"Content-Type": "application/xml"}, FORBIDDEN)
        else:
            connection = http.client.HTTPConnection(*self.server.store)
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            data = answer.read()
            connection.close()
            if self.command == "PUT":
                self.server.written.setdefault(self.path, set()).add(body)
            self.answer(answer.status, dict(answer.headers), data, is_cut)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward  # noqa: N815

    def answer(self, status: int, headers: dict[str, str], data: bytes, cut: bool = False) -> None:
        """Send an answer, or half of it."""
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "date", "server", "transfer-encoding"):
                self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.server.cut += cut and len(data) > 1
            self.wfile.write(data[: len(data) // 2] if cut else data)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class ObjectStore:
    """A store with the buckets ``corpora`` and ``readonly``."""

    def __init__(self, address: str, proxy: Proxy) -> None:
        self.address, self.proxy = address, proxy
        self.put("corpora")
        self.put("readonly")

    def put(self, key: str, data: bytes = b"") -> str:
        """Write an object without the proxy. Return its URL."""
        headers = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(f"{self.address}/{key}", data, headers, method="PUT")
        urllib.request.urlopen(request).close()
        return f"s3://{key}"


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Start a store, and set the environment variables of its address and credentials."""
    pytest.importorskip("s3fs")
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server.start()
    host, port = server.get_host_and_port()
    proxy = Proxy(host, port)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        backoff = "botocore.retries.standard.ExponentialBackoff.delay_amount"
        patch.setattr(backoff, lambda *_: 0.01)
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.server_port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("NO_PROXY", "127.0.0.1")
        try:
            yield ObjectStore(f"http://{host}:{port}", proxy)
        finally:
            proxy.shutdown()
            proxy.server_close()
            server.stop()
