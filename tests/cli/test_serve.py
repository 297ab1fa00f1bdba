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
            b"Content-Length: 99999999999\r\n\r\n" + b" " * 20_000
        )
        assert client.recv(1000).startswith(b"HTTP/1.1 413 ")  # before the body is complete
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
REQUEST_WITH_PARTIAL_BODY = (
    b"POST /correct HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b'Content-Length: 20\r\n\r\n{"text": '
)


def test_connections_without_a_complete_request_are_closed(start_server: Start) -> None:
    server = start_server(CLIENT_SECONDS="0.05")
    for sent in (b"", b"GET /hea", PARTIAL_HEADERS, REQUEST_WITH_PARTIAL_BODY):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall(sent)
            assert closed(client)
    assert active(server) == 0
    assert server.err.read_text() == f"serving on {server.url}\n"


def closed(client: socket.socket) -> bool:
    """Wait until a connection is closed. Return False if the server answers."""
    try:
        return client.recv(1000) == b""
    except ConnectionResetError:
        return True


def test_too_many_connections_are_closed(start_server: Start) -> None:
    server = start_server(MAX_CONNECTIONS="20")
    idle = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(90)]
    assert all(closed(client) for client in idle[20:])
    for client in idle:
        client.close()
    until(lambda: post_or_none(server) == "goes")


def test_clients_that_use_all_file_descriptors_are_closed(start_server: Start) -> None:
    """The server answers before the attackers close their connections, and logs nothing."""
    server = start_server(files=60, CLIENT_SECONDS="0.5")
    idle = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(90)]
    for client in idle:
        client.sendall(PARTIAL_HEADERS)
    until(lambda: post_or_none(server) == "goes")
    assert server.err.read_text() == f"serving on {server.url}\n"


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
        handle = MagicMock()
        if delay == CLIENT_SECONDS:
            self.timers.append(partial(function, *args))
            self.handle = handle
        return handle

    def create_task(self, coroutine: Any, **options: Any) -> Any:
        coroutine.close()
        return MagicMock()

    def run_timer(self) -> None:
        (timer,), self.timers = self.timers, []
        timer()


CLIENT_SECONDS = 1234.5
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def test_only_connections_that_wait_for_their_client_are_closed() -> None:
    config = uvicorn.Config(correction_app(NoCorrector()), log_config=None)
    connection_class = _connection_class(ServerLimits(client_seconds=CLIENT_SECONDS))
    loop, transport = RecordedTimers(), MagicMock()
    transport.is_closing.return_value = False
    transport.get_write_buffer_size.return_value = 0

    async def serve() -> None:  # events need a loop in Python 3.10
        connection = connection_class(config, ServerState(), {}, _loop=loop)
        connection.connection_made(transport)
        connection.data_received(REQUEST)
        for _ in range(3):  # the answer takes time
            loop.run_timer()
        transport.abort.assert_not_called()
        connection.cycle.response_complete = True
        connection.on_response_complete()
        connection.data_received(REQUEST[:9])
        loop.run_timer()
        transport.abort.assert_called_once()  # the next request is not complete
        transport.abort.reset_mock()
        connection.data_received(REQUEST[9:])
        connection.cycle.response_complete = True
        connection.on_response_complete()
        for unsent in (30, 20, 10):
            transport.get_write_buffer_size.return_value = unsent
            loop.run_timer()
        transport.abort.assert_not_called()  # the client is slow, but reads
        connection.cycle.response_complete = False
        loop.run_timer()
        transport.abort.assert_called_once()  # another answer waits, but the client does not read
        connection.connection_lost(None)
        loop.handle.cancel.assert_called_once()  # nothing refers to the connection

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


def test_metrics(start_server: Start, clients: ThreadPoolExecutor) -> None:
    server = start_server(MAX_REQUESTS="3")
    first = block(server, clients)
    others = [clients.submit(post, server, {"text": text}) for text in ("a\n😀", "fail")]
    until(lambda: waiting(server) == 2)
    assert post(server, {"text": "a"}).status_code == 503
    assert metrics(server)["waiting_requests"] == 2
    server.open_gate()
    assert [answer.result().status_code for answer in (first, *others)] == [200, 200, 500]
    httpx.post(f"{server.url}/correct")
    found = metrics(server)
    statuses = {200: 2, 415: 1, 500: 1, 503: 1}
    for status, count in statuses.items():
        assert found.pop(f'requests_total{{status="{status}"}}') == count
    assert found.pop("request_seconds_sum") > found.pop("batch_seconds_sum") > 0
    buckets = [found.pop(name) for name in [*found] if name.startswith("request_seconds_bucket")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == found.pop("request_seconds_count") == 2
    assert found == {
        **{"lines_total": 3, "characters_total": 6, "waiting_requests": 0},
        "batch_seconds_count": 2,
    }


def metrics(server: ServerProcess) -> dict[str, float]:
    """Return the samples of the metrics without their prefix."""
    answer = httpx.get(f"{server.url}/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = re.findall(r"^fairseq_ssl_(\S+) (\S+)$", answer.text, re.MULTILINE)
    comments = re.findall(r"^# (HELP|TYPE) fairseq_ssl_\S+ .+$", answer.text, re.MULTILINE)
    assert len(samples) + len(comments) == answer.text.count("\n")
    return {name: float(value) for name, value in samples}


def test_addresses_that_cannot_be_used() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
        for host, port in (address, ("no such host", 0), ("a" * 64, 0)):
            with pytest.raises(UsageError, match=f"{host}.*{port}"):
                open_listener(host, port)


def test_answers_are_sent_without_delay() -> None:
    with (
        open_listener("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
