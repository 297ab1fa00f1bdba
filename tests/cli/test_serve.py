"""``fairseq-ssl serve``: answers, batches, limits, errors, disconnected clients and signals."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from fairseq_ssl.errors import UsageError
from fairseq_ssl.inference.correction import CorrectedLine
from fairseq_ssl.inference.server import (
    RequestBatcher,
    ServerLimits,
    _connection_class,
    correction_app,
    open_listener,
)
from tests.cli.conftest import ServerProcess
from tests.conftest import until

Start = Callable[..., ServerProcess]
JSON = {"Content-Type": "application/json"}


def post(server: ServerProcess, content: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/correct", json=content, timeout=60)


def active(server: ServerProcess) -> int:
    """Return the number of requests that are not answered yet."""
    return health(server)["active"]


def waiting(server: ServerProcess) -> int:
    """Return the number of requests that wait for a batch."""
    return health(server)["waiting"]


def health(server: ServerProcess) -> dict[str, int]:
    content: dict[str, Any] = httpx.get(f"{server.url}/healthz", timeout=60).json()
    assert content.pop("status") == "ok"
    assert content.keys() == {"active", "waiting"}
    return content


@pytest.fixture
def clients() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(60) as threads:
        yield threads


def block(server: ServerProcess, clients: ThreadPoolExecutor) -> Any:
    """Send a request that occupies the corrector until the gate is open. Return its future."""
    answer = clients.submit(post, server, {"text": "wait"})
    until(lambda: server.calls() == [["wait"]])
    return answer


def test_text_and_lines_are_corrected(server: ServerProcess) -> None:
    answer = post(server, {"text": "He go.\r\n\nYes  but  no 😀 childs\rend\n"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    content = answer.json()
    expected = "He goes.\r\n\nYes, but  no 😀 children there\rthe end\n"
    assert content["text"] == expected
    assert [line["text"] for line in content["lines"]] == re.split(r"\r\n|\r|\n", expected)
    assert content["lines"][0] == {
        "source": "He go.",
        "text": "He goes.",
        "edits": [
            {
                **{"start": 3, "end": 5, "source": "go", "target": "goes"},
                **{"probability": 0.91, "type": "R:VERB:SVA"},
            }
        ],
    }
    listed = post(server, {"lines": ["go", "", "end"]}).json()
    assert listed["text"] == "goes\n\nthe end"
    assert [line["source"] for line in listed["lines"]] == ["go", "", "end"]
    assert post(server, {"lines": []}).json() == {"text": "", "lines": []}
    assert post(server, {"text": ""}).json()["lines"] == [{"source": "", "text": "", "edits": []}]


def test_50_concurrent_requests_are_corrected_in_few_calls(
    start_server: Start, clients: ThreadPoolExecutor
) -> None:
    server = start_server()
    first = block(server, clients)
    texts = [f"go {number}\nend {number}" for number in range(49)]
    answers = [clients.submit(post, server, {"text": text}) for text in texts]
    until(lambda: waiting(server) == 49)
    assert active(server) == 50
    server.open_gate()
    assert first.result().json()["text"] == "wait"
    for number, answer in enumerate(answers):
        assert answer.result().json()["text"] == f"goes {number}\nthe end {number}"
    calls = [len(call) for call in server.calls()]
    assert calls == [1, 64, 34]
    assert active(server) == 0


def test_a_long_request_takes_turns_with_short_ones(
    start_server: Start, clients: ThreadPoolExecutor
) -> None:
    server = start_server(BATCH_LINES="10")
    first = block(server, clients)
    long = clients.submit(post, server, {"lines": [f"go {number}" for number in range(25)]})
    until(lambda: waiting(server) == 1)
    short = clients.submit(post, server, {"text": "end"})
    until(lambda: waiting(server) == 2)
    server.open_gate()
    assert short.result().json()["text"] == "the end"
    assert long.result().json()["text"].split("\n") == [f"goes {n}" for n in range(25)]
    assert first.result().status_code == 200
    assert [len(call) for call in server.calls()] == [1, 10, 1, 10, 5]


INVALID: list[tuple[bytes, int]] = [
    (b"", 400),
    (b'{"text": "a"', 400),
    (b'{"text": "\xff"}', 400),
    (b"[" * 5000, 400),
    (b'{"text": ' + b"9" * 5000 + b"}", 400),
    (b"[]", 400),
    (b'{"txt": "a"}', 400),
    (b'{"text": null}', 400),
    (b'{"lines": "a"}', 400),
    (b'{"lines": ["a", 1]}', 400),
    (b'{"text": "a", "lines": ["a"]}', 400),
    (b'{"lines": ["a\\nb"]}', 400),
    (b'{"text": "a\\ud800"}', 400),
    (b'{"text": "' + b"a" * 1001 + b'"}', 413),
    (b'{"lines": [' + b'"",' * 1001 + b'""]}', 413),
    (b" " * 13_025, 413),
]


@pytest.mark.parametrize(("body", "status"), INVALID)
def test_invalid_bodies_are_rejected(server: ServerProcess, body: bytes, status: int) -> None:
    answer = httpx.post(f"{server.url}/correct", content=body, headers=JSON)
    assert answer.status_code == status
    assert answer.json().keys() == {"error"}


def test_the_longest_text_is_accepted(server: ServerProcess) -> None:
    text = "😀" * 1000
    assert post(server, {"text": text}).json()["text"] == text
    escaped = json.dumps({"text": text}).encode()  # 12 bytes a character
    answer = httpx.post(f"{server.url}/correct", content=escaped, headers=JSON)
    assert answer.json()["text"] == text


def test_only_json_is_accepted_so_that_other_sites_cannot_send_forms(server: ServerProcess) -> None:
    def status(headers: dict[str, str]) -> int:
        content = b'{"text": "a"}'
        return httpx.post(f"{server.url}/correct", content=content, headers=headers).status_code

    assert status({}) == 415
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        assert status({"Content-Type": kind}) == 415
    assert status({"Content-Type": "Application/JSON; charset=utf-8"}) == 200
    requests = [("GET", "/correct", 405), ("POST", "/", 405), ("GET", "/../etc/passwd", 404)]
    for method, path, expected in requests:
        assert httpx.request(method, server.url + path).status_code == expected


def peak_memory(server: ServerProcess) -> int:
    """Return the peak memory of the server in KiB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0])


def test_huge_bodies_are_rejected_without_keeping_them(server: ServerProcess) -> None:
    before = peak_memory(server)
    chunks = (b" " * 100_000 for _ in range(1000))
    answer = httpx.post(f"{server.url}/correct", content=chunks, headers=JSON, timeout=60)
    assert answer.status_code == 413
    assert peak_memory(server) - before < 50_000
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(
            b"POST /correct HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 99999999999\r\n\r\n"
        )
        assert client.recv(1000).startswith(b"HTTP/1.1 413 ")  # before the body is sent
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 70_000)
        assert client.recv(1000).startswith(b"HTTP/1.1 400 ")
    assert post(server, {"text": "go"}).json()["text"] == "goes"


def test_requests_of_disconnected_clients_are_dropped(
    start_server: Start, clients: ThreadPoolExecutor
) -> None:
    """The first client disconnects during its correction, the others before theirs."""
    server = start_server(BATCH_LINES="2")
    gone = [begin_request(server, b'{"text": "wait for me"}')]
    until(lambda: server.calls() == [["wait for me"]])
    for body in (b'{"text": "gone"}', b'{"text": "gone', b'{"lines": ["a", "b", "c"]}'):
        gone.append(begin_request(server, body))
    other = clients.submit(post, server, {"text": "go"})
    until(lambda: (active(server), waiting(server)) == (5, 3))
    for client in gone:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()  # a reset, as that of a killed client
    until(lambda: (active(server), waiting(server)) == (1, 1))
    server.open_gate()
    assert other.result().json()["text"] == "goes"
    assert server.calls() == [["wait for me"], ["go"]]


def begin_request(server: ServerProcess, body: bytes) -> socket.socket:
    """Send a request, whose body is truncated if it does not end with a brace."""
    client = socket.create_connection(("127.0.0.1", server.port))
    length = len(body) + (not body.endswith(b"}"))
    head = f"POST /correct HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n"
    client.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
    return client


def test_an_exception_fails_only_its_request_and_no_text_is_logged(
    start_server: Start, clients: ThreadPoolExecutor
) -> None:
    server = start_server()
    first = block(server, clients)
    texts = ("go", "secret panic", "end", "secret fail")
    answers = []
    for number, text in enumerate(texts, 1):
        answers.append(clients.submit(post, server, {"text": text}))
        until(lambda number=number: waiting(server) == number)  # type: ignore[misc]
    server.open_gate()
    statuses = [answer.result().status_code for answer in (first, *answers)]
    assert statuses == [200, 200, 500, 200, 500]
    assert answers[1].result().json() == {"error": "The correction of this text failed."}
    assert answers[2].result().json()["text"] == "the end"
    assert server.calls() == [["wait"], [*texts], *([text] for text in texts)]
    log = server.err.read_text()
    errors = re.findall(r"\nA request failed: (.*) in .*fake_correction_server.py:\d+", log)
    assert errors == ["BaseException", "ValueError"]
    assert "secret" not in log
    assert post(server, {"text": "go"}).json()["text"] == "goes"


def test_too_many_requests_are_rejected_until_some_are_answered(
    start_server: Start, clients: ThreadPoolExecutor
) -> None:
    server = start_server(MAX_REQUESTS="2")
    waiting = [block(server, clients), clients.submit(post, server, {"text": "go"})]
    until(lambda: active(server) == 2)
    rejected = post(server, {"text": "end"})
    assert rejected.status_code == 503
    assert rejected.headers["retry-after"] == "1"
    assert rejected.json() == {"error": "The server is correcting 2 requests. Try again later."}
    server.open_gate()
    assert [one.result().status_code for one in waiting] == [200, 200]
    assert post(server, {"text": "end"}).json()["text"] == "the end"


PARTIAL_HEADERS = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


def test_connections_without_complete_headers_are_closed(start_server: Start) -> None:
    server = start_server(IDLE_SECONDS="0.05")
    for sent in (b"", b"GET /hea", PARTIAL_HEADERS):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall(sent)
            assert closed(client)
    assert server.err.read_text() == f"serving on {server.url}\n"


def closed(client: socket.socket) -> bool:
    """Wait until a connection is closed. Return False if the server answers."""
    try:
        return client.recv(1000) == b""
    except ConnectionResetError:
        return True


def test_idle_connections_leave_file_descriptors_for_others(start_server: Start) -> None:
    server = start_server(files=60)
    idle = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(90)]
    for client in idle:
        client.sendall(PARTIAL_HEADERS)
    # those beyond a third of the files are rejected, or reset as the headers were not read
    for client in idle[20:]:
        client.settimeout(60)
        assert read_or_reset(client).startswith((b"HTTP/1.1 503 ", b"reset"))
    for client in idle:
        client.close()
    until(lambda: post_or_none(server) == "goes")
    assert server.err.read_text() == f"serving on {server.url}\n"


def read_or_reset(client: socket.socket) -> bytes:
    try:
        return client.recv(1000)
    except ConnectionResetError:
        return b"reset"


def post_or_none(server: ServerProcess) -> str | None:
    """Return the corrected text, or None if the server accepts no more connections."""
    try:
        answer = post(server, {"text": "go"})
    except httpx.TransportError:
        return None
    return answer.json()["text"] if answer.status_code == 200 else None


class RecordedTimers:
    """The part of an event loop that a connection uses, with timers that the test runs."""

    def __init__(self) -> None:
        self.timers: list[Any] = []

    def call_later(self, delay: float, function: Any, *args: Any) -> Any:
        self.timers.append((delay, partial(function, *args)))
        return MagicMock()

    def create_task(self, coroutine: Any, **options: Any) -> Any:
        coroutine.close()
        return MagicMock()

    def run_timers(self) -> None:
        """Run the timers of idle connections."""
        due, self.timers = self.timers, []
        for delay, function in due:
            if delay == IDLE:
                function()


IDLE = 1234.5
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def test_only_idle_connections_are_closed() -> None:
    config = uvicorn.Config(correction_app(NoCorrector()), log_config=None)
    connection_class = _connection_class(ServerLimits(idle_seconds=IDLE))
    loop, transport = RecordedTimers(), MagicMock()
    transport.is_closing.return_value = False
    transport.get_write_buffer_size.return_value = 0

    async def serve() -> None:  # events need a loop in Python 3.10
        connection = connection_class(config, ServerState(), {}, _loop=loop)
        connection.connection_made(transport)
        connection.data_received(REQUEST)
        loop.run_timers()
        transport.abort.assert_not_called()  # the headers came in time
        connection.cycle.response_complete = True
        connection.on_response_complete()
        connection.data_received(REQUEST[:9])
        loop.run_timers()
        transport.abort.assert_called_once()  # those of the next request did not
        transport.abort.reset_mock()
        connection.data_received(REQUEST[9:])
        connection.cycle.response_complete = True
        transport.get_write_buffer_size.return_value = 30
        connection.on_response_complete()
        for unsent in (20, 10):
            transport.get_write_buffer_size.return_value = unsent
            loop.run_timers()
            transport.abort.assert_not_called()  # the client is slow, but reads
        loop.run_timers()
        transport.abort.assert_called_once()  # the client does not read

    asyncio.run(serve())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signals_stop_the_server_after_running_requests(
    start_server: Start, clients: ThreadPoolExecutor, number: signal.Signals, code: int
) -> None:
    server = start_server()
    answer = block(server, clients)
    server.process.send_signal(number)
    until(lambda: not is_listening(server))
    server.open_gate()
    assert answer.result().json()["text"] == "wait"
    assert server.process.wait(60) == code
    assert server.err.read_text() == f"serving on {server.url}\n"


def is_listening(server: ServerProcess) -> bool:
    try:
        socket.create_connection(("127.0.0.1", server.port)).close()
    except ConnectionRefusedError:
        return False
    return True


class NoCorrector:
    def correct(self, lines: Any) -> Any:
        raise NotImplementedError


def test_a_slow_body_is_rejected() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(3600)

    async def send(message: Any) -> None:
        sent.append(message)

    app = correction_app(NoCorrector(), ServerLimits(body_seconds=0.01))
    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/correct", "headers": headers}
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 408


async def answers_of(app: Any, use: Callable[[httpx.AsyncClient], Awaitable[Any]]) -> Any:
    """Start an app, and return what `use` returns for its client."""
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://x") as client,
    ):
        return await use(client)


def test_health_is_503_if_a_batch_takes_too_long() -> None:
    class Stuck:
        def correct(self, lines: Any) -> Any:
            begun.set()
            end.wait(60)
            return echo(lines)

    async def use(client: httpx.AsyncClient) -> list[int]:
        request = asyncio.create_task(client.post("/correct", json={"text": "a"}))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        stuck = await client.get("/healthz")
        end.set()
        found = [stuck, await request, await client.get("/healthz")]
        return [answer.status_code for answer in found]

    begun, end = threading.Event(), threading.Event()
    app = correction_app(Stuck(), ServerLimits(batch_seconds=0))
    assert asyncio.run(answers_of(app, use)) == [503, 200, 200]


def echo(lines: list[str]) -> list[CorrectedLine]:
    return [CorrectedLine(line, line, ()) for line in lines]


def test_a_request_waits_for_others_before_its_batch_begins() -> None:
    calls = []

    def compute(lines: list[str]) -> list[CorrectedLine]:
        calls.append(lines)
        return echo(lines)

    async def correct() -> None:
        batcher = RequestBatcher(compute, 10, delay=0.5)
        running = asyncio.create_task(batcher.run())
        first = asyncio.create_task(batcher.correct(["first"]))
        for _ in range(20):  # turns of the loop, in which a batch without delay would begin
            await asyncio.sleep(0)
        assert await batcher.correct(["second"]) == echo(["second"])
        assert await first == echo(["first"])
        running.cancel()

    asyncio.run(correct())
    assert calls == [["first", "second"]]


def test_a_failed_batch_is_repeated_without_requests_that_were_canceled() -> None:
    calls = []
    is_computing, is_canceled = threading.Event(), threading.Event()

    def compute(lines: list[str]) -> list[CorrectedLine]:
        calls.append(lines)
        if len(lines) > 1:
            is_computing.set()
            is_canceled.wait(60)
            raise ValueError
        return echo(lines)

    async def correct() -> None:
        batcher = RequestBatcher(compute, 10, delay=0)
        running = asyncio.create_task(batcher.run())
        tasks = [asyncio.create_task(batcher.correct([line])) for line in ("kept", "gone")]
        while not is_computing.is_set():
            await asyncio.sleep(0.001)
        tasks[1].cancel()
        is_canceled.set()
        assert await tasks[0] == echo(["kept"])
        running.cancel()

    asyncio.run(correct())
    assert calls == [["kept", "gone"], ["kept"]]


def test_addresses_that_cannot_be_used() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
        for host, port in (address, ("no such host", 0), ("a" * 64, 0)):
            with pytest.raises(UsageError, match=f"{host}.*{port}"):
                open_listener(host, port)
