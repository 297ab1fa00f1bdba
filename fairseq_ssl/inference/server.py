"""HTTP server for a `Corrector`: JSON API, web page, and batching of concurrent requests.

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
import signal
import socket
import time
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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

    _Part = tuple[list[str], asyncio.Future[list[CorrectedLine]]]
    """Lines of a request that are corrected in one batch, and the future for the result."""

__all__ = ["ServerLimits", "correction_app", "open_listener", "run_app"]

PURPOSE, EXTRA = "The correction server", "serve"
PREFIX = "fairseq_ssl_"
LINE_END = re.compile(r"(\r\n|\n|\r)")
METRICS = (
    ("requests_total", "counter", "Completed requests to /correct, by status."),
    ("lines_total", "counter", "Corrected lines."),
    ("characters_total", "counter", "Characters of the corrected lines."),
    ("request_seconds", "histogram", "Durations of the requests that were corrected."),
    ("batch_seconds", "summary", "Durations of the corrections of batches."),
    ("waiting_requests", "gauge", "Requests that wait for a batch."),
)
"""Name, type and description of each metric."""
BUCKETS = {
    f'request_seconds_bucket{{le="{bound}"}}': float(bound)
    for bound in ("0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf")
}
"""Upper bound of each histogram bucket in seconds, by metric name."""
logger = logging.getLogger(__name__)


class LineCorrector(Protocol):
    """Interface of objects that correct lines, such as `Corrector`."""

    def correct(self, lines: Sequence[str]) -> list[CorrectedLine]:
        """Return the corrected lines, in order."""


@dataclass(frozen=True)
class ServerLimits:
    """Limits of a correction server."""

    max_length: int = option(20_000, "max number of characters per request", low=1, high=1_000_000)
    """Max number of characters per request. Each line end counts as one character."""
    max_requests: int = 100
    """Max number of concurrent requests. Further requests get the status 503."""
    max_connections: int = 500
    """Max number of open connections. Further connections are closed."""
    batch_lines: int = 64
    """Max number of lines per batch."""
    batch_seconds: float = 600.0
    """Max duration of a batch in seconds. If a batch takes longer, the health check fails."""
    client_seconds: float = 20.0
    """Timeout in seconds for receiving a request, and between two reads of the response.

    A slower connection is closed after at most twice this time.
    """

    def __post_init__(self) -> None:
        check(self)


def open_listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address. Port 0 selects a free port.

    Raises:
        UsageError: if the address cannot be used.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family)
    except (OSError, OverflowError, UnicodeError) as error:  # a wrong port, a long name
        reason = str(getattr(error, "strerror", None) or error).rstrip(".")
        raise UsageError(
            f"The server cannot listen on {host}, port {port}: {reason}. Change `host` or `port`."
        ) from None
    # The body of an answer is sent without waiting up to 40 ms until its headers are acknowledged.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def run_app(app: Starlette, listener: socket.socket, limits: ServerLimits | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C. Running requests then have 30 seconds to complete.

    Args:
        app: the application.
        listener: listening socket from `open_listener`.
        limits: only `max_connections` and `client_seconds` are used (default: `ServerLimits()`).

    Raises:
        KeyboardInterrupt: after Ctrl-C.
    """
    uvicorn = import_optional("uvicorn", PURPOSE, EXTRA)
    # Without free file descriptors, asyncio would log thousands of errors per second.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    config = uvicorn.Config(
        app,
        http=_connection_class(limits or ServerLimits()),
        log_config=None,
        log_level=logging.CRITICAL,  # other messages contain text of a request
        timeout_graceful_shutdown=30,
    )
    # uvicorn raises the signal that stopped it again. SIGTERM would end the process with an error.
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        uvicorn.Server(config).run([listener])
    finally:
        signal.signal(signal.SIGTERM, before)


def _connection_class(limits: ServerLimits) -> Any:
    """Return a uvicorn connection class that limits the number and the idle time of connections.

    uvicorn alone waits without a time limit until the client sends a request or disconnects.
    """
    protocols = import_optional("uvicorn.protocols.http.h11_impl", PURPOSE, EXTRA)

    class Connection(protocols.H11Protocol):  # type: ignore[name-defined]
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._check_progress(None)
            if len(self.connections) > limits.max_connections:
                transport.abort()

        def connection_lost(self, error: Exception | None) -> None:
            super().connection_lost(error)
            self._next_check.cancel()

        def _check_progress(self, before: tuple[Any, int] | None) -> None:
            """Close the connection if it has waited for its client since the previous check."""
            cycle, unsent = self.cycle, self.transport.get_write_buffer_size()
            is_answering = cycle and not cycle.more_body and not cycle.response_complete
            if before == (cycle, unsent) and (unsent or not is_answering):
                self.transport.abort()
            self._next_check = self.loop.call_later(
                limits.client_seconds, self._check_progress, (cycle, unsent)
            )

    return Connection


def correction_app(corrector: LineCorrector, limits: ServerLimits | None = None) -> Starlette:
    """Return a Starlette application that corrects text. It does not store or log text.

    It serves ``POST /correct``, ``GET /healthz``, ``GET /metrics`` and the page ``GET /``.
    """
    import_optional("starlette", PURPOSE, EXTRA)
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse
    from starlette.routing import Route

    endpoints = _Endpoints(corrector, limits or ServerLimits())
    page = resource_files(__package__).joinpath("correction_page.html").read_text("utf-8")
    headers = {"Content-Security-Policy": _page_policy(page)}
    return Starlette(
        routes=[
            Route("/", HTMLResponse(page, headers=headers), methods=["GET"]),
            Route("/correct", endpoints.correct, methods=["POST"]),
            Route("/healthz", endpoints.health),
            Route("/metrics", endpoints.metrics),
        ]
    )


def _page_policy(page: str) -> str:
    """Return a Content-Security-Policy that allows only resources of the page and its server."""
    sources = ""
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        sources += f"{tag}-src 'sha256-{digest}'; "
    return (
        f"default-src 'none'; {sources}connect-src 'self'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )


class _RequestError(Exception):
    """Error that contains the HTTP status and the message for the response."""


class _Endpoints:
    """HTTP request handlers of the server."""

    def __init__(self, corrector: LineCorrector, limits: ServerLimits) -> None:
        self._limits = limits
        self._batcher = RequestBatcher(corrector.correct, limits.batch_lines)
        self._counts = self._batcher.counts
        self._active = 0

    async def health(self, request: Request) -> Response:
        """Return request counts, or status 503 if a batch takes longer than `batch_seconds`."""
        from starlette.responses import JSONResponse

        start = self._batcher.start
        if start is not None and time.monotonic() - start > self._limits.batch_seconds:
            return JSONResponse({"error": "A correction takes too long. Restart the server."}, 503)
        waiting = self._batcher.waiting
        return JSONResponse({"status": "ok", "active": self._active, "waiting": waiting})

    async def metrics(self, request: Request) -> Response:
        """Return the metrics in the Prometheus text format."""
        from starlette.responses import PlainTextResponse

        values = {**self._counts, "waiting_requests": self._batcher.waiting}
        lines = []
        for name, kind, description in METRICS:
            lines += [f"# HELP {PREFIX}{name} {description}", f"# TYPE {PREFIX}{name} {kind}"]
            lines += [f"{PREFIX}{key} {values[key]}" for key in values if key.startswith(name)]
        return PlainTextResponse("\n".join([*lines, ""]), media_type="text/plain; version=0.0.4")

    async def correct(self, request: Request) -> Response:
        """Return the corrected text of a request, or an error status with a message."""
        from starlette.requests import ClientDisconnect
        from starlette.responses import JSONResponse

        start = time.monotonic()
        self._active += 1
        try:
            status, content = 200, await self._corrected(request)
        except (ClientDisconnect, asyncio.CancelledError):
            status, content = 499, {"error": "The client disconnected, or the server stopped."}
        except _RequestError as error:
            status, content = error.args[0], {"error": error.args[1]}
        else:
            seconds = time.monotonic() - start
            self._counts["request_seconds_sum"] += seconds
            self._counts["request_seconds_count"] += 1
            for name, bound in BUCKETS.items():
                self._counts[name] += seconds <= bound
        finally:
            self._active -= 1
        self._counts[f'requests_total{{status="{status}"}}'] += 1
        return JSONResponse(content, status, {"Retry-After": "1"} if status == 503 else None)

    async def _corrected(self, request: Request) -> dict[str, Any]:
        max_requests, max_length = self._limits.max_requests, self._limits.max_length
        if self._active > max_requests:
            message = f"The server is correcting {max_requests} requests. Try again later."
            raise _RequestError(503, message)
        lines, ends = _parse_request(await self._body(request), max_length)
        correction = asyncio.ensure_future(self._batcher.correct(lines))
        disconnection = asyncio.ensure_future(request.receive())
        disconnection.add_done_callback(lambda _: correction.cancel())
        try:
            corrected = await correction
        finally:
            disconnection.cancel()
        text = "".join(f"{line.text}{end}" for line, end in zip(corrected, ends, strict=True))
        return {"text": text, "lines": [line.as_json() for line in corrected]}

    async def _body(self, request: Request) -> bytes:
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            raise _RequestError(415, f"Content-Type is {media_type!r}. Expected application/json.")
        limit = 12 * self._limits.max_length + 1024  # JSON can escape a character as 12 bytes
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                raise _RequestError(413, f"The body is too long. Expected up to {limit:,} bytes.")
        return bytes(body)


def _parse_request(body: bytes, max_length: int) -> tuple[list[str], list[str]]:
    """Return the lines of a request and their line ends. Raise _RequestError if it is invalid."""
    try:
        content = parse_json(body)
    except ValueError as error:
        raise _RequestError(400, f"The body cannot be parsed as JSON in UTF-8: {error}.") from None
    match content:
        case {"text": str(text), **others} if not others:
            parts = LINE_END.split(text)
            lines, ends = parts[::2], [*parts[1::2], ""]
        case {"lines": list(lines), **others} if not others and all(
            isinstance(line, str) for line in lines
        ):
            ends = ["\n"] * (len(lines) - 1) + [""] * bool(lines)
            if any(map(LINE_END.search, lines)):
                raise _RequestError(
                    400, 'A string of "lines" contains several lines. Expected one line per string.'
                )
        case _:
            expected = 'the string "text" or the list of strings "lines"'
            raise _RequestError(400, f"The body is not a JSON object with only {expected}.")
    length = sum(map(len, lines)) + len(lines) - 1
    if length > max_length:
        message = f"The text has {length:,} characters. Expected up to {max_length:,}."
        raise _RequestError(413, message)
    return lines, ends


class RequestBatcher:
    """Batcher for the lines of concurrent requests. One thread corrects the batches.

    While a batch is corrected, other requests wait for the next one. A request with more lines than
    a batch is split, and its batches alternate with those of other requests. Cancel the task of a
    request to drop its lines.
    """

    def __init__(self, compute: Callable[[list[str]], list[CorrectedLine]], max_lines: int) -> None:
        self.counts: dict[str, float] = defaultdict(float)
        self._compute, self._max_lines = compute, max_lines
        self._waiting: deque[_Part] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="corrector")
        self.start: float | None = None  # time at which the current batch began

    @property
    def waiting(self) -> int:
        """Number of requests that wait for a batch."""
        return sum(not corrected.done() for _, corrected in self._waiting)

    async def correct(self, lines: list[str]) -> list[CorrectedLine]:
        """Correct the lines of a request, in batches that can contain lines of other requests.

        Raises:
            _RequestError: if the correction of these lines raises an exception.
        """
        result: list[CorrectedLine] = []
        for start in range(0, len(lines), self._max_lines):
            corrected = asyncio.get_running_loop().create_future()
            self._waiting.append((lines[start : start + self._max_lines], corrected))
            if self.start is None:
                self.start = time.monotonic()
                self._task = asyncio.create_task(self._correct_waiting())
            result += await corrected
        self.counts["lines_total"] += len(lines)
        self.counts["characters_total"] += sum(map(len, lines))
        return result

    async def _correct_waiting(self) -> None:
        """Correct batches until no request waits."""
        loop = asyncio.get_running_loop()
        while batch := self._next_batch():
            self.start = time.monotonic()
            results = await loop.run_in_executor(self._thread, self._correct_batch, batch)
            self.counts["batch_seconds_sum"] += time.monotonic() - self.start
            self.counts["batch_seconds_count"] += 1
            for (_, corrected), result in zip(batch, results, strict=True):
                if corrected.done():  # the client has disconnected
                    continue
                if isinstance(result, _RequestError):
                    corrected.set_exception(result)
                else:
                    corrected.set_result(result)
        self.start = None

    def _next_batch(self) -> list[_Part]:
        """Take the next parts that fit into a batch. Drop parts whose client has disconnected."""
        batch: list[_Part] = []
        size = 0
        while self._waiting and size + len(self._waiting[0][0]) <= self._max_lines:
            lines, corrected = self._waiting.popleft()
            if not corrected.done():  # the client has not disconnected
                batch.append((lines, corrected))
                size += len(lines)
        return batch

    def _correct_batch(self, batch: Sequence[_Part]) -> list[list[CorrectedLine] | _RequestError]:
        """Return the corrected lines of each part. If a batch fails, correct each part alone."""
        try:
            results = iter(self._compute([line for lines, _ in batch for line in lines]))
            return [list(islice(results, len(lines))) for lines, _ in batch]
        except BaseException as error:  # the exception of a panic in Rust is not an `Exception`
            if len(batch) > 1:
                return [result for part in batch for result in self._correct_batch([part])]
            *_, frame = traceback.extract_tb(error.__traceback__)
            place = f"{type(error).__name__} in {frame.filename}:{frame.lineno}"
            logger.error("A request failed: %s", place)  # its message can contain text
            return [_RequestError(500, "The correction of this text failed.")]
