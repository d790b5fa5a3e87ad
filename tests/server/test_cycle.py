"""The ASGI side of a request: what an application sends is on the wire, or is refused; what it receives came whole."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from tests.client_transport import Transport, connect
from tests.each_case import each_case

pytestmark = pytest.mark.anyio

App: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


class Client:
    def __init__(self, app: App) -> None:
        self.transport = Transport()
        self.connection = connect(app, self.transport)

    async def ask(self, *parts: bytes) -> bytes:
        """Send the parts of a request, and return what is written until its application has returned."""
        for part in parts:
            self.connection.data_received(part)
            await asyncio.sleep(0)
        while self.connection.server_state.tasks:
            await asyncio.sleep(0)
        return b"".join(self.transport.writes)


def start(status: int = 200, *headers: Any) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": [*headers]}


def body(data: bytes = b"", *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


def sending(*messages: dict[str, Any]) -> App:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    return app


TWO = (b"content-length", b"2")
SENT: dict[str, tuple[bytes, list[dict[str, Any]], bytes, bool]] = {
    # the request's method, the messages, what is written after the status line, whether the connection stays open
    "a length": (b"GET", [start(200, TWO), body(b"ok")], b"content-length: 2\r\n\r\nok", True),
    "in two parts": (
        b"GET",
        [start(200, TWO), body(b"o", more=True), body(b"k")],
        b"content-length: 2\r\n\r\nok",
        True,
    ),
    "no length": (
        b"GET",
        [start(), body(b"ab", more=True), body(b"", more=True), body(b"c")],
        b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
        True,
    ),
    "chunked by itself": (
        b"GET",
        [start(200, (b"Transfer-Encoding", b"Chunked")), body(b"ab")],
        b"transfer-encoding: Chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        True,
    ),
    "headers as lists": (
        b"GET",
        [start(200, [b"x-a", b"1"], [*TWO]), body(b"ok")],
        b"x-a: 1\r\ncontent-length: 2\r\n\r\nok",
        True,
    ),
    "no headers": (
        b"GET",
        [{"type": "http.response.start", "status": 204}, {"type": "http.response.body"}],
        b"\r\n",
        True,
    ),
    "not modified": (b"GET", [start(304), body()], b"\r\n", True),
    "HEAD with a length": (b"HEAD", [start(200, TWO), body(b"ok")], b"content-length: 2\r\n\r\n", True),
    "HEAD without a length": (b"HEAD", [start(), body(b"ok")], b"\r\n", True),
    "closing": (
        b"GET",
        [start(200, (b"Connection", b"x, Close"), TWO), body(b"ok")],
        b"content-length: 2\r\nconnection: close\r\n\r\nok",
        False,
    ),
    "another connection header": (
        b"GET",
        [start(200, (b"connection", b"keep-alive"), TWO), body(b"ok")],
        b"connection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
        True,
    ),
}


@each_case("name", SENT)
async def test_what_an_application_sends_is_on_the_wire(name: str) -> None:
    method, messages, expected, stays_open = SENT[name]
    client = Client(sending(*messages))
    written = await client.ask(method + b" / HTTP/1.1\r\nhost: a\r\n\r\n")
    status_line, _, rest = written.partition(b"\r\n")
    assert status_line.startswith(b"HTTP/1.1 %d " % messages[0]["status"])
    assert rest == expected
    assert client.transport.closed is not stays_open


async def test_the_head_is_sent_before_there_is_a_body() -> None:
    client = Client(sending(start()))
    assert (await client.ask(GET)).endswith(b"transfer-encoding: chunked\r\n\r\n")


REFUSED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a body first": ([body(b"x")], "'http.response.body' was sent where 'http.response.start' is expected"),
    "two heads": ([start(200, TWO), start()], "'http.response.start' was sent where 'http.response.body' is expected"),
    "after the end": ([start(200, TWO), body(b"ok"), body(b"x")], "was sent after the end"),
    "too long": ([start(200, TWO), body(b"abc")], "longer than its content-length"),
    "too short": ([start(200, TWO), body(b"a")], "shorter than its content-length"),
    "a line break in a value": ([start(200, (b"x-a", b"1\r\nx-b: 2"))], "b'x-a'"),
    "a space in a name": ([start(200, (b"x a", b"1"))], "b'x a'"),
}


@each_case("name", REFUSED)
async def test_what_cannot_be_sent_raises(name: str, caplog: pytest.LogCaptureFixture) -> None:
    messages, reason = REFUSED[name]
    client = Client(sending(*messages))
    with caplog.at_level(logging.ERROR):
        written = await client.ask(GET)
    assert b"x-b" not in written and b"abc" not in written
    assert client.transport.closed
    assert (b"500 Internal Server Error" in written) is (b"200 OK" not in written)
    record = caplog.records[-1]
    assert record.exc_info and reason in str(record.exc_info[1])


async def test_the_body_of_a_request_is_received_in_its_parts() -> None:
    received: list[Any] = []

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        while not received or received[-1].get("more_body"):
            received.append(await receive())
        await send(start(200, TWO))
        await send(body(b"ok"))
        received.append(await receive())

    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\n"
    written = await Client(app).ask(head, b"ab", b"cd")
    assert written.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert b"".join(message["body"] for message in received[:-1]) == b"abcd"
    assert received[-1] == {"type": "http.disconnect"}


async def test_a_client_that_does_not_get_the_100_is_not_sent_it_after_the_response() -> None:
    async def app(_scope: Any, receive: Any, send: Any) -> None:
        await send(start(200, TWO))
        await send(body(b"ok"))
        assert await receive() == {"type": "http.disconnect"}

    written = await Client(app).ask(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\n")
    assert b"100 Continue" not in written


async def test_an_application_that_sends_nothing_is_answered_for() -> None:
    client = Client(sending())
    assert (await client.ask(GET)).startswith(b"HTTP/1.1 500 ")
    assert client.transport.closed


async def test_sending_waits_while_the_client_reads_too_slowly() -> None:
    client = Client(sending(start(200, TWO), body(b"o", more=True), body(b"k")))
    client.connection.pause_writing()
    client.connection.data_received(GET)
    for _ in range(5):
        await asyncio.sleep(0)
    assert client.transport.writes == []
    client.connection.resume_writing()
    assert (await client.ask()).endswith(b"\r\n\r\nok")


async def test_nothing_is_sent_to_a_client_that_has_left() -> None:
    left = asyncio.Event()
    received: list[Any] = []

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        await left.wait()
        await send(start(200, TWO))
        received.append(await receive())

    client = Client(app)
    client.connection.data_received(GET)
    await asyncio.sleep(0)
    client.connection.connection_lost(None)
    left.set()
    assert await client.ask() == b"" and received == [{"type": "http.disconnect"}]


PROBED = {
    "before the head": (0, []),
    "after the head": (1, [start(200, (b"content-type", b"text/plain"))]),
    "in a body": (2, [start(200, (b"content-type", b"text/plain")), body(b"x. ", more=True)]),
    "in a stream": (2, [start(200, (b"content-type", b"text/event-stream")), body(b"data: 1\n\n", more=True)]),
}


@each_case("name", PROBED)
@each_case("probes", [1, 3, 20])
async def test_probes_leave_the_response_as_it_is(name: str, probes: int) -> None:
    count, before = PROBED[name]
    gate = asyncio.Event()
    sent = [*(before or [start(200, (b"content-type", b"text/plain"))]), body(b"data: 2\n\n")]

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        for message in sent[:count]:
            await send(message)
        await gate.wait()
        for message in sent[count:]:
            await send(message)

    client = Client(app)
    client.connection.data_received(GET)
    await asyncio.sleep(0)
    cycle = client.connection.cycle
    assert cycle is not None
    for _ in range(probes):
        cycle.probe()
    gate.set()
    written = await client.ask()
    cycle.probe()
    assert b"".join(client.transport.writes) == written
    head, _, chunks = written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: text/")
    read = [one.partition(b"\r\n")[2] for one in re.split(rb"(?:^|(?<=\r\n))(?=[0-9a-f]+\r\n)", chunks) if one]
    comments = probes if name == "in a stream" else 0
    assert read.count(b":\n\n\r\n") == comments
    assert b"".join(one[:-2] for one in read if one[:1] != b":") == b"".join(
        message["body"] for message in sent if message["type"] == "http.response.body"
    )


@each_case("probes", [0, 1, 20, 500])
async def test_probes_send_a_head_that_waits_for_the_body_byte_by_byte(probes: int) -> None:
    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        await receive()
        await receive()

    client = Client(app)
    client.connection.data_received(GET)
    await asyncio.sleep(0)
    cycle = client.connection.cycle
    assert cycle is not None
    cycle.probe()
    cycle.start(200, ((b"content-type", b"text/plain"),), 2)
    for _ in range(probes):
        cycle.probe()
    cycle.write(b"ok", last=True)
    assert b"".join(client.transport.writes) == (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"
    )
