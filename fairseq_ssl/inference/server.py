"""HTTP server of a `Corrector`: JSON, a page to type into, and batches of concurrent requests.

>>> from fairseq_ssl.inference.server import correction_app, open_listener, run_app
>>> corrector = Corrector.from_pretrained("run/checkpoint_best.pt")  # doctest: +SKIP
>>> run_app(correction_app(corrector), open_listener("127.0.0.1", 8000))  # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import re
import resource
import signal
import socket
import time
import traceback
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files as resource_files
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from fairseq_ssl.errors import UsageError, import_optional
from fairseq_ssl.inference.correction import CorrectedLine
from fairseq_ssl.io.text_files import parse_json
from fairseq_ssl.options import check, option

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["ServerLimits", "correction_app", "open_listener", "run_app"]

PURPOSE, EXTRA = "The correction server", "serve"
PAGE = "correction_page.html"
LINE_END = re.compile(r"(\r\n|\n|\r)")
EXPECTED = 'Expected an object with the string "text" or the list of strings "lines".'
DISCONNECTED = "The client disconnected."
STOPPED = "The server can no longer correct text. Restart it."
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
STOP_SECONDS = 30
"""Seconds that running requests have to end after SIGTERM or Ctrl-C."""
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
logger = logging.getLogger(__name__)


class LineCorrector(Protocol):
    """Interface of `Corrector`."""

    def correct(self, lines: Sequence[str]) -> list[CorrectedLine]:
        """Return a corrected line for each line."""


@dataclass(frozen=True)
class ServerLimits:
    """Limits of a correction server."""

    max_length: int = option(20_000, "max characters of a request", low=1, high=1_000_000)
    """A line end counts as a character."""
    max_requests: int = 100
    """Max number of requests that are received, wait or are corrected at the same time."""
    batch_lines: int = 64
    """Max number of lines that are corrected together."""
    batch_delay: float = 0.005
    """Seconds that a request waits for others before its batch begins."""
    body_seconds: float = 30.0
    """Max number of seconds for receiving the body of a request."""
    idle_seconds: float = 10.0
    """Max number of seconds for receiving the headers of a request, and for which a client can stop
    reading an answer."""
    batch_seconds: float = 600.0
    """Max number of seconds of a batch. After that, the health check fails."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def max_bytes(self) -> int:
        """Max size of the body: JSON can escape a character as 12 bytes."""
        return 12 * self.max_length + 1024

    @property
    def max_connections(self) -> int:
        """Max number of connections. With more, the process could run out of file descriptors."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        connections = 2 * self.max_requests + 100
        return connections if files == resource.RLIM_INFINITY else min(connections, files // 3)


def open_listener(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address. Port 0 is a free port.

    Raises:
        UsageError: if the address cannot be used.
    """
    if not 0 <= port < 65536:
        raise UsageError(f"`port` is {port}. Expected 0 to 65535.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, UnicodeError) as error:  # UnicodeError: a part of the name is too long
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"The server cannot listen on {host}, port {port}: {reason}. Change `host` or `port`."
        ) from None
    return listener


def run_app(app: Starlette, listener: socket.socket, limits: ServerLimits | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C. Running requests are completed.

    Args:
        app: the application.
        listener: the result of `open_listener`.
        limits: the limits of connections.

    Raises:
        KeyboardInterrupt: after Ctrl-C.
    """
    uvicorn = import_optional("uvicorn", PURPOSE, EXTRA)
    limits = limits or ServerLimits()
    # Without free file descriptors, asyncio would log thousands of errors per second.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    config = uvicorn.Config(
        app,
        http=_connection_class(limits),
        ws="none",
        backlog=max(1, limits.max_connections // 4),  # accepted together, before any is rejected
        lifespan="on",
        log_config=None,
        log_level=logging.CRITICAL,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    # uvicorn raises the signal that stopped it again. SIGTERM would end the process with an error.
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        uvicorn.Server(config).run([listener])
    finally:
        signal.signal(signal.SIGTERM, before)


def _connection_class(limits: ServerLimits) -> Any:
    """Return uvicorn's class of a connection with limits of their number and of slow clients.

    uvicorn only closes a connection if a client sends nothing after a response.
    """
    protocols = import_optional("uvicorn.protocols.http.h11_impl", PURPOSE, EXTRA)

    class Connection(protocols.H11Protocol):  # type: ignore[name-defined]
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.max_connections:
                transport.write(BUSY)
                transport.close()
            self._watch()

        def on_response_complete(self) -> None:
            self._watch()
            super().on_response_complete()  # can begin the next request

        def _watch(self) -> None:
            unsent = self.transport.get_write_buffer_size()
            self.loop.call_later(limits.idle_seconds, self._close_if_idle, self.cycle, unsent)

        def _close_if_idle(self, previous: Any, unsent: int) -> None:
            if self.cycle is previous:  # no headers of another request are complete
                if self.transport.get_write_buffer_size() in (0, unsent):
                    self.transport.abort()
                else:
                    self._watch()

    return Connection


def correction_app(corrector: LineCorrector, limits: ServerLimits | None = None) -> Starlette:
    """Return a Starlette application that corrects text.

    It has ``POST /correct``, ``GET /healthz`` and the page ``GET /``. It stores and logs no text.
    """
    applications = import_optional("starlette.applications", PURPOSE, EXTRA)
    routing = import_optional("starlette.routing", PURPOSE, EXTRA)
    endpoints = _Endpoints(corrector, limits or ServerLimits())
    app: Starlette = applications.Starlette(
        routes=[
            routing.Route("/", endpoints.page),
            routing.Route("/correct", endpoints.correct, methods=["POST"]),
            routing.Route("/healthz", endpoints.health),
        ],
        exception_handlers={
            _RequestError: endpoints.failed,
            404: endpoints.rejected,
            405: endpoints.rejected,
        },
        lifespan=endpoints.lifespan,
    )
    app.router.redirect_slashes = False
    return app


class _RequestError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


class _Endpoints:
    """The functions that answer requests."""

    def __init__(self, corrector: LineCorrector, limits: ServerLimits) -> None:
        self._limits = limits
        self._batcher = RequestBatcher(corrector.correct, limits.batch_lines, limits.batch_delay)
        self._active = 0
        self._responses = import_optional("starlette.responses", PURPOSE, EXTRA)
        self._page = resource_files(__package__).joinpath(PAGE).read_text("utf-8")
        self._page_headers = HEADERS | {"Content-Security-Policy": _page_policy(self._page)}

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Run the batcher while the server runs."""
        self._batches = asyncio.create_task(self._batcher.run())
        try:
            yield
        finally:
            self._batches.cancel()

    async def page(self, request: Request) -> Response:
        """Return the page to type into."""
        response: Response = self._responses.HTMLResponse(self._page, headers=self._page_headers)
        return response

    async def health(self, request: Request) -> Response:
        """Return the numbers of active and waiting requests, or 503 if none is answered."""
        if self._batches.done() or self._batcher.seconds > self._limits.batch_seconds:
            return self._error(503, STOPPED)
        counts = {"active": self._active, "waiting": self._batcher.waiting}
        return self._json({"status": "ok", **counts})

    async def correct(self, request: Request) -> Response:
        """Correct the text of a request."""
        if self._active >= self._limits.max_requests:
            message = f"The server is correcting {self._active} requests. Try again later."
            raise _RequestError(503, message, {"Retry-After": "1"})
        self._active += 1
        try:
            lines, ends = _parse_request(await self._body(request), self._limits.max_length)
            corrected = await self._corrected(request, lines)
        finally:
            self._active -= 1
        text = "".join(f"{line.text}{end}" for line, end in zip(corrected, ends, strict=True))
        return self._json({"text": text, "lines": [line.as_json() for line in corrected]})

    async def _body(self, request: Request) -> bytes:
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            raise _RequestError(415, "Expected the header Content-Type: application/json.")
        try:
            return await asyncio.wait_for(self._received(request), self._limits.body_seconds)
        except asyncio.TimeoutError:
            seconds = f"{self._limits.body_seconds:g} seconds"
            raise _RequestError(408, f"The body was not received within {seconds}.") from None

    async def _received(self, request: Request) -> bytes:
        """Return the body, of which at most `max_bytes` are in memory."""
        limit = self._limits.max_bytes
        size = int(request.headers.get("content-length", 0))
        body = b""
        has_more = True
        while size <= limit and has_more:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise _RequestError(400, DISCONNECTED)
            body += message.get("body", b"")
            size, has_more = len(body), message.get("more_body", False)
        if size > limit:
            raise _RequestError(413, f"The body is too long. Expected up to {limit:,} bytes.")
        return body

    async def _corrected(self, request: Request, lines: list[str]) -> list[CorrectedLine]:
        """Return the corrected lines. Stop if the client disconnects."""
        corrected = asyncio.ensure_future(self._batcher.correct(lines))
        disconnected = asyncio.ensure_future(request.receive())
        try:
            await asyncio.wait({corrected, disconnected}, return_when=asyncio.FIRST_COMPLETED)
            if not corrected.done():
                raise _RequestError(400, DISCONNECTED)
            return corrected.result()
        finally:
            corrected.cancel()
            disconnected.cancel()

    async def failed(self, request: Request, error: Exception) -> Response:
        """Return the response for an invalid request."""
        assert isinstance(error, _RequestError)
        return self._error(error.status, str(error), error.headers)

    async def rejected(self, request: Request, error: Any) -> Response:
        """Return the response for an unknown path, or a method that a path does not have."""
        return self._error(error.status_code, error.detail, error.headers)

    def _error(self, status: int, message: str, headers: dict[str, str] | None = None) -> Response:
        return self._json({"error": message}, status, headers)

    def _json(
        self, content: Any, status: int = 200, headers: dict[str, str] | None = None
    ) -> Response:
        headers = HEADERS | (headers or {})
        response: Response = self._responses.JSONResponse(content, status, headers)
        return response


def _parse_request(body: bytes, max_length: int) -> tuple[list[str], list[str]]:
    """Return the lines of a request and the line end after each of them."""
    try:
        content = parse_json(body)
    except ValueError as error:
        raise _RequestError(400, f"The body is not JSON in UTF-8: {error}.") from None
    if not isinstance(content, dict) or len(content) != 1:
        raise _RequestError(400, EXPECTED)
    (kind, value), *_ = content.items()
    if kind == "text" and isinstance(value, str):
        parts = LINE_END.split(value)
        lines, ends = parts[::2], [*parts[1::2], ""]
    elif kind == "lines" and isinstance(value, list) and all(isinstance(x, str) for x in value):
        lines, ends = value, ["\n"] * (len(value) - 1) + [""] * bool(value)
        if any(map(LINE_END.search, lines)):
            raise _RequestError(400, 'A string of "lines" has several lines. Expected one.')
    else:
        raise _RequestError(400, EXPECTED)
    length = sum(map(len, lines)) + len(lines) - 1
    if length > max_length:
        message = f"The text has {length:,} characters. Expected up to {max_length:,}."
        raise _RequestError(413, message)
    return lines, ends


def _page_policy(page: str) -> str:
    """Return a Content-Security-Policy that allows the style and the script of the page alone."""
    sources = {}
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        sources[tag] = f"{tag}-src 'sha256-{digest}'"
    return (
        f"default-src 'none'; {sources['style']}; {sources['script']}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@dataclass
class _Part:
    """Consecutive lines of a request, which are in one batch."""

    lines: list[str]
    corrected: asyncio.Future[list[CorrectedLine]]


@dataclass
class RequestBatcher:
    """Combines the lines of concurrent requests into batches, which one thread corrects.

    The methods are for one event loop, in which `run` is a task. A request with more lines than a
    batch is split, and its batches alternate with those of other requests. Cancel the task of a
    request to remove it from the queue.
    """

    compute: Callable[[list[str]], list[CorrectedLine]]
    """Corrects lines. It is called in one thread."""
    batch_lines: int
    """Max number of lines in a batch."""
    delay: float
    """Seconds that a request waits for others before its batch begins."""
    _parts: deque[_Part] = field(default_factory=deque, init=False)
    _has_parts: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _begin: float | None = field(default=None, init=False)

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a batch."""
        return sum(not part.corrected.done() for part in self._parts)

    @property
    def seconds(self) -> float:
        """The number of seconds since the current batch began."""
        return 0.0 if self._begin is None else time.monotonic() - self._begin

    async def correct(self, lines: list[str]) -> list[CorrectedLine]:
        """Return a corrected line for each line.

        Raises:
            _RequestError: if the correction of these lines raises an exception.
        """
        corrected: list[CorrectedLine] = []
        for start in range(0, len(lines), self.batch_lines):
            part = _Part(
                lines[start : start + self.batch_lines],
                asyncio.get_running_loop().create_future(),
            )
            self._parts.append(part)
            self._has_parts.set()
            corrected += await part.corrected
        return corrected

    async def run(self) -> None:
        """Correct batches until the task of this method is canceled."""
        with ThreadPoolExecutor(1, thread_name_prefix="corrector") as thread:
            loop = asyncio.get_running_loop()
            while True:
                self._begin = None
                await self._has_parts.wait()
                await asyncio.sleep(self.delay)
                batch = self._next_batch()
                results = await loop.run_in_executor(thread, self._correct_all, batch)
                for part, corrected in zip(batch, results, strict=True):
                    if part.corrected.done():  # the client has disconnected
                        continue
                    if corrected is None:
                        message = "The correction of this text failed."
                        part.corrected.set_exception(_RequestError(500, message))
                    else:
                        part.corrected.set_result(corrected)

    def _correct_all(self, batch: Sequence[_Part]) -> list[list[CorrectedLine] | None]:
        """Return the corrected lines of each part; None for a part that cannot be corrected.

        Parts that fail together are corrected one by one.
        """
        self._begin = time.monotonic()
        try:
            corrected = iter(self.compute([line for part in batch for line in part.lines]))
            return [list(islice(corrected, len(part.lines))) for part in batch]
        except BaseException as error:  # the exception of a panic in Rust is not an `Exception`
            if len(batch) > 1:
                return [
                    None if part.corrected.done() else self._correct_all([part])[0]
                    for part in batch
                ]
            logger.error("A request failed: %s", _place(error))
            return [None]

    def _next_batch(self) -> list[_Part]:
        """Remove parts that fit into a batch from the queue, and parts without a client."""
        batch: list[_Part] = []
        size = 0
        while self._parts:
            part = self._parts[0]
            if not part.corrected.done():
                size += len(part.lines)
                if batch and size > self.batch_lines:
                    return batch
                batch.append(part)
            self._parts.popleft()
        self._has_parts.clear()
        return batch


def _place(error: BaseException) -> str:
    """Return the type and place of an exception, without its message, which can contain text."""
    *_, frame = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} in {frame.filename}:{frame.lineno}"
