"""A caller's connection: what is one request, what is none, and how much and how long may be sent without one."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from app.server.connection import (
    LINGER_SECONDS,
    MAX_HEADERS,
    MAX_PIPELINED,
    MAX_TARGET_BYTES,
    ClientConnection,
)
from app.server.connection_limits import ConnectionLimits, ConnectionWarnings
from uvicorn.server import ServerState

pytestmark = pytest.mark.anyio

LIMITS = ConnectionLimits(
    max_connections=8,
    max_head_bytes=65536,
    head_seconds=20,
    body_seconds=60,
    keep_alive_seconds=75,
    stall_seconds=120,
)
NEXT = b"GET /next HTTP/1.1\r\nhost: a\r\n\r\n"


@dataclass
class Asked:
    method: str
    path: str
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass
class Site:
    """An application that notes what it was asked, and answers with the length of the body."""

    asked: list[Asked] = field(default_factory=list)
    gone: int = 0
    answer: bytes = b""
    gate: asyncio.Event | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.gone += 1
                return
            body += message["body"]
            if not message["more_body"]:
                break
        self.asked.append(Asked(scope["method"], scope["path"], scope["headers"], body))
        if self.gate is not None:
            await self.gate.wait()
        answer = self.answer or str(len(body)).encode()
        headers = [(b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


class Wire(asyncio.Transport):
    """The client's side: what it was sent, and what of it it has not read."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.half_closed = False
        self.end = ""
        self.lost = False
        self.unread = 0
        self.connection: ClientConnection | None = None

    def write(self, data: Any) -> None:
        self.sent += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.half_closed = True

    def get_write_buffer_size(self) -> int:
        return self.unread

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return bool(self.end)

    def close(self) -> None:
        self._end("closed")

    def abort(self) -> None:
        self._end("aborted")

    def _end(self, how: str) -> None:
        if self.lost:
            return
        if how == "aborted" or not self.end:
            self.end = how
        if self.connection is not None and (how == "aborted" or not self.unread):
            self.lost = True
            self.connection.connection_lost(None)


class Client:
    """A connection to a site; `say` sends one read's worth of bytes."""

    def __init__(
        self,
        site: Any,
        limits: ConnectionLimits = LIMITS,
        state: ServerState | None = None,
        warnings: ConnectionWarnings | None = None,
        is_draining: Callable[[], bool] = lambda: False,
    ) -> None:
        self.wire = Wire()
        shared = (warnings or ConnectionWarnings(), state or ServerState())
        self.connection = ClientConnection(site, limits, *shared, {}, is_draining=is_draining)
        self.wire.connection = self.connection
        self.connection.connection_made(self.wire)

    async def say(self, *reads: bytes) -> "Client":
        for data in reads:
            if not self.wire.end:
                self.connection.data_received(data)
        for _ in range(20 + 4 * MAX_PIPELINED):
            await asyncio.sleep(0)
        return self

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            self.connection.tick(1.0)

    @property
    def statuses(self) -> list[int]:
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) [A-Z]", self.wire.sent)]

    @property
    def error(self) -> dict[str, Any]:
        """The last answer, which is an error."""
        error = json.loads(self.wire.sent[self.wire.sent.rindex(b"\r\n\r\n") :])["error"]
        assert error["request_id"].startswith("req-")
        return dict(error)

    @property
    def ended(self) -> bool:
        """Nothing more will be answered."""
        return self.wire.half_closed or bool(self.wire.end)


def reads(raw: bytes) -> Iterator[tuple[bytes, ...]]:
    """Whole, cut once at each place, and byte by byte."""
    yield (raw,)
    for at in range(1, len(raw)):
        yield raw[:at], raw[at:]
    yield tuple(raw[at : at + 1] for at in range(len(raw)))


# -- upgrades -----------------------------------------------------------------------------------------------------

H2C = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"
SOCKET = (
    b"connection: keep-alive, Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\nsec-websocket-version: 13\r\n"
)


@pytest.mark.parametrize("offer", [H2C, SOCKET], ids=["h2c", "websocket"])
@pytest.mark.parametrize(
    "body",
    [b"content-length: 5\r\n\r\nhello", b"transfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\n\r\n"],
    ids=["length", "chunked"],
)
async def test_an_upgrade_is_ignored_wherever_the_request_is_cut(offer: bytes, body: bytes) -> None:
    raw = b"POST /a?b=c HTTP/1.1\r\nhost: a\r\n" + offer + body + NEXT
    for parts in reads(raw):
        site = Site()
        client = await Client(site).say(*parts)
        assert client.statuses == [200, 200], parts
        assert [(one.method, one.path, one.body) for one in site.asked] == [
            ("POST", "/a", b"hello"),
            ("GET", "/next", b""),
        ]
        assert (b"host", b"a") in site.asked[0].headers
        assert b"upgrade" not in dict(site.asked[0].headers)


async def test_requests_with_an_upgrade_may_be_pipelined() -> None:
    site = Site()
    one = b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n" + H2C + b"\r\nhi"
    client = await Client(site).say(one * 9)
    assert client.statuses == [200] * 9
    assert {asked.body for asked in site.asked} == {b"hi"}


async def test_a_request_with_an_upgrade_may_wait_for_100_continue() -> None:
    site = Site()
    client = Client(site)
    await client.say(b"POST /a HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n" + H2C + b"\r\n")
    assert client.statuses == [100]
    assert (await client.say(b"hi")).statuses == [100, 200]
    assert site.asked[0].body == b"hi"


# -- what is not one request for certain ----------------------------------------------------------------------------

POST = b"POST /a HTTP/1.1\r\nhost: a\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
NOT_ONE = {
    "length and chunked": POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": POST + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
    "two equal lengths": POST + b"content-length: 2\r\ncontent-length: 2\r\n\r\nhi",
    "two lengths": POST + b"content-length: 2\r\ncontent-length: 3\r\n\r\nhi",
    "a list of lengths": POST + b"content-length: 2, 2\r\n\r\nhi",
    "a signed length": POST + b"content-length: +2\r\n\r\nhi",
    "a hexadecimal length": POST + b"content-length: 0x2\r\n\r\nhi",
    "an empty length": POST + b"content-length: \r\n\r\n",
    "a length beyond 64 bits": POST + b"content-length: 18446744073709551618\r\n\r\nhi",
    "chunked after identity": POST + b"transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked after gzip": POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "identity after chunked": POST + b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "not quite chunked": POST + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "vertical tab chunked": POST + b"transfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": b"POST /a HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk size that is none": CHUNKED + b"2x\r\nhi\r\n0\r\n\r\n",
    "a signed chunk size": CHUNKED + b"-2\r\nhi\r\n0\r\n\r\n",
    "a chunk size with 0x": CHUNKED + b"0x2\r\nhi\r\n0\r\n\r\n",
    "a chunk size beyond 64 bits": CHUNKED + b"10000000000000002\r\nhi\r\n0\r\n\r\n",
    "a chunk longer than it says": CHUNKED + b"2\r\nhiya\r\n0\r\n\r\n",
    "a chunk size ended by LF": CHUNKED + b"2\nhi\r\n0\r\n\r\n",
    "an extension ended by LF": CHUNKED + b"2;a\nhi\r\n0\r\n\r\n",
    "a length in a trailer": CHUNKED + b"0\r\ncontent-length: 5\r\n\r\n",
    "a folded header": POST + b"x: a\r\n b\r\n\r\n",
    "a folded first header": b"GET /a HTTP/1.1\r\n host: a\r\n\r\n",
    "a folded transfer-encoding": POST + b"transfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + b"content-length : 2\r\n\r\nhi",
    "NUL in a value": POST + b"x: a\x00b\r\n\r\n",
    "NUL in a name": POST + b"x\x00: a\r\n\r\n",
    "lines ended by LF": b"GET /a HTTP/1.1\nhost: a\n\n",
    "a header ended by CR": POST + b"x: a\ry: b\r\n\r\n",
    "two hosts": POST + b"host: a\r\n\r\n",
    "no host": b"GET /a HTTP/1.1\r\n\r\n",
    "another host in the target": b"GET http://b/a HTTP/1.1\r\nhost: a\r\n\r\n",
    "HTTP/2": b"GET /a HTTP/2.0\r\nhost: a\r\n\r\n",
    "HTTP/0.9": b"GET /a\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


@pytest.mark.parametrize("name", NOT_ONE)
async def test_what_two_servers_could_read_differently_is_refused_and_the_connection_ends(name: str) -> None:
    for bait in (NEXT, b"\r\n" + NEXT):
        raw = NOT_ONE[name] + bait
        for parts in ((raw,), (raw[: len(raw) // 2], raw[len(raw) // 2 :]), (raw, NEXT, NEXT)):
            site = Site()
            client = await Client(site).say(*parts)
            assert client.statuses == [400], client.wire.sent
            assert client.error["code"] == "invalid_request"
            assert client.ended
            assert [one.path for one in site.asked] == []


async def test_a_broken_request_is_refused_after_the_answers_to_those_before_it() -> None:
    site = Site(gate=asyncio.Event())
    client = await Client(site).say(NEXT + NEXT + NOT_ONE["two lengths"] + NEXT)
    assert client.statuses == []
    assert site.gate is not None
    site.gate.set()
    await client.say()
    assert client.statuses == [200, 200, 400]
    assert (client.wire.half_closed, client.wire.end) == (True, "")  # a client that still sends can read it
    client.wait(LINGER_SECONDS + 1)
    assert client.wire.end == "aborted"
    assert len(site.asked) == 2


async def test_a_broken_body_behind_another_request_is_refused_in_its_turn() -> None:
    site = Site(gate=asyncio.Event())
    client = await Client(site).say(NEXT + NOT_ONE["a signed chunk size"] + NEXT)
    assert site.gate is not None
    site.gate.set()
    await client.say()
    assert client.statuses == [200, 400]
    assert len(site.asked) == 1


async def test_what_follows_the_last_request_of_a_connection_is_not_read() -> None:
    for last in (b"GET /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", b"GET /a HTTP/1.0\r\n\r\n"):
        site = Site()
        client = await Client(site).say(last + NEXT, NEXT)
        assert client.statuses == [200]
        assert client.wire.end == "closed"
        assert len(site.asked) == 1


async def test_trailers_are_no_headers() -> None:
    site = Site()
    raw = CHUNKED + b"2\r\nhi\r\n0\r\nauthorization: Bearer other\r\nx-a: b\r\n\r\n"
    client = await Client(site).say(raw + NEXT)
    assert client.statuses == [200, 200]
    assert [name for one in site.asked for name, _ in one.headers] == [b"host", b"transfer-encoding", b"host"]


async def test_a_target_with_the_host_of_its_header_is_served() -> None:
    site = Site()
    client = await Client(site).say(b"GET http://A:80/b HTTP/1.1\r\nhost: a:80\r\n\r\n")
    assert (client.statuses, site.asked[0].path) == ([200], "/b")


async def test_a_proxy_is_not_to_be_had() -> None:
    client = await Client(Site()).say(b"CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n" + NEXT)
    assert (client.statuses, client.ended) == ([405], True)


# -- how much -----------------------------------------------------------------------------------------------------


def head(size: int) -> bytes:
    """One header that makes the headers so many bytes."""
    return b"GET /a HTTP/1.1\r\nhost: a\r\nx: " + b"y" * (size - 5 - 4 - 5) + b"\r\n\r\n"


@pytest.mark.parametrize("step", [100, 1000, 65536, 10**6])
async def test_a_head_may_have_so_many_bytes_and_no_more(step: int) -> None:
    for size, status in ((60_000, 200), (65_536, 200), (65_600, 431)):
        raw = head(size)
        site = Site()
        client = await Client(site).say(*(raw[at : at + step] for at in range(0, len(raw), step)))
        assert client.statuses == [status], (size, client.wire.sent)
        assert client.ended == (status == 431)


@pytest.mark.parametrize(
    "flood",
    [b"x" * 1000, b"x: " + b"y" * 997, b"x: y\r\n" * 200],
    ids=["a name without end", "a value without end", "headers without end"],
)
async def test_a_head_without_end_is_refused_soon(flood: bytes) -> None:
    client = await Client(Site()).say(POST)
    sent = 0
    while not client.ended:
        await client.say(flood)
        sent += len(flood)
        assert sent < 70_000
    assert client.statuses == [431]
    assert client.error["code"] == "too_large"


async def test_more_headers_than_anyone_needs_are_refused() -> None:
    for count, status in ((MAX_HEADERS, 200), (MAX_HEADERS + 1, 431)):
        raw = b"GET /a HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * (count - 1) + b"\r\n"
        assert (await Client(Site()).say(raw)).statuses == [status]


@pytest.mark.parametrize("step", [5000, 10**6])
async def test_a_target_that_is_too_long_is_refused(step: int) -> None:
    for size, status in ((MAX_TARGET_BYTES, 200), (MAX_TARGET_BYTES + 1, 414), (200_000, 414)):
        raw = b"GET /" + b"a" * (size - 1) + b" HTTP/1.1\r\nhost: a\r\n\r\n"
        client = await Client(Site()).say(*(raw[at : at + step] for at in range(0, len(raw), step)))
        assert (client.statuses, client.ended) == ([status], status == 414)


async def test_a_long_body_in_front_of_a_head_does_not_count_as_head() -> None:
    site = Site()
    body = b"y" * 200_000
    raw = POST + b"content-length: 200000\r\n\r\n" + body + head(60_000)
    client = await Client(site).say(raw[:190_000], raw[190_000:255_000], raw[255_000:])
    assert client.statuses == [200, 200]


@pytest.mark.parametrize(
    "flood",
    [b"1;" + b"x" * 998, b"1;x=" + b"y" * 1000, b"0\r\nx: " + b"y" * 1000, b"0\r\n" + b"x: y\r\n" * 200],
    ids=["an extension", "a value of an extension", "a trailer", "trailers"],
)
async def test_what_frames_a_body_has_an_end(flood: bytes) -> None:
    site = Site()
    client = await Client(site).say(CHUNKED)
    await client.say(flood)
    sent = len(flood)
    while not client.ended:
        await client.say(b"x: y\r\n" * 200 if flood.endswith(b"\n") else b"y" * 1000)
        sent += 1000
        assert sent < 140_000
    assert client.statuses == [431]
    assert (site.asked, site.gone) == ([], 1)


@pytest.mark.parametrize("step", [700, 5000, 10**6])
@pytest.mark.parametrize(
    ("framing", "status"),
    [
        (b"0\r\nx: " + b"y" * 60_000, 200),
        (b"0\r\nx: " + b"y" * 70_000, 431),
        (b"0\r\n" + b"x: y\r\n" * 15_000 + b"x: y", 431),
        (b"1;x=" + b"y" * 60_000 + b"\r\na\r\n0", 200),
        (b"1;x=" + b"y" * 200_000 + b"\r\na\r\n0", 431),
    ],
    ids=["a trailer", "a long trailer", "many trailers", "an extension", "a long extension"],
)
async def test_the_framing_of_a_body_is_judged_alike_however_it_is_cut(framing: bytes, status: int, step: int) -> None:
    raw = CHUNKED + framing + b"\r\n\r\n"
    client = await Client(Site()).say(*(raw[at : at + step] for at in range(0, len(raw), step)))
    assert client.statuses == [status]


async def test_a_body_in_small_chunks_is_served() -> None:
    site = Site()
    client = await Client(site).say(CHUNKED, *[b"4\r\nabcd\r\n" * 1000] * 50, b"0\r\n\r\n")
    assert client.statuses == [200]
    assert len(site.asked[0].body) == 200_000


async def test_a_body_in_chunks_of_one_byte_without_end_is_refused() -> None:
    client = await Client(Site()).say(CHUNKED, *[b"1\r\na\r\n" * 1000] * 50)
    assert client.statuses == [431]


async def test_so_many_requests_may_wait_in_line() -> None:
    site = Site()
    client = await Client(site).say(NEXT * (MAX_PIPELINED + 1))
    assert client.statuses == [200] * (MAX_PIPELINED + 1)
    assert client.wire.end == "closed"


async def test_requests_beyond_those_that_may_wait_are_not_read() -> None:
    site = Site(gate=asyncio.Event())
    client = await Client(site).say(NEXT * 5000)
    assert len(client.connection.pipeline) == MAX_PIPELINED
    assert site.gate is not None
    site.gate.set()
    await client.say()
    assert client.statuses == [200] * (MAX_PIPELINED + 1)
    assert client.wire.sent.count(b"connection: close") == 1
    assert client.wire.end == "closed"


async def test_many_requests_one_after_the_other_keep_a_connection() -> None:
    site = Site()
    client = Client(site)
    for _ in range(200):
        await client.say(NEXT)
    assert client.statuses == [200] * 200
    assert not client.ended


async def test_while_the_server_drains_a_response_is_the_last_one_of_its_connection() -> None:
    """A proxy then sends no request to a connection that is closed at the same moment."""
    draining = False
    client = Client(Site(), is_draining=lambda: draining)
    await client.say(NEXT)
    draining = True
    assert not client.ended
    await client.say(NEXT)
    assert client.statuses == [200, 200]
    assert client.wire.sent.count(b"connection: close") == 1
    assert client.wire.end == "closed"


async def test_a_connection_can_end_after_the_response_in_progress_and_stays_if_there_is_none() -> None:
    gate = asyncio.Event()
    busy, idle, new = Client(Site(gate=gate)), await Client(Site()).say(NEXT), Client(Site())
    await busy.say(NEXT)
    for client in (busy, idle, new):
        client.connection.end_after_response()
    gate.set()
    await busy.say()
    assert (busy.statuses, busy.wire.end) == ([200], "closed")
    for client in (idle, new):
        await client.say(NEXT)
        assert client.statuses[-1] == 200
        assert not client.ended


# -- how long -----------------------------------------------------------------------------------------------------


async def test_a_connection_on_which_nothing_comes_is_closed() -> None:
    client = Client(Site())
    await client.say(b"\r\n")
    client.wait(19)
    assert not client.ended
    client.connection.data_received(b"\r\n")
    client.wait(2)
    assert (client.wire.end, client.wire.sent) == ("aborted", b"")


async def test_a_head_that_drips_is_refused() -> None:
    client = Client(Site())
    await client.say(POST)
    for _ in range(20):
        await client.say(b"x: y\r\n")
        client.wait(1)
    assert not client.ended
    client.wait(1)
    assert (client.statuses, client.error["code"], client.error["retryable"]) == ([408], "request_timeout", True)
    client.wait(LINGER_SECONDS + 1)
    assert client.wire.end == "aborted"


async def test_a_connection_is_kept_for_the_next_request_for_so_long() -> None:
    client = await Client(Site()).say(NEXT)
    client.wait(74)
    await client.say(NEXT)
    client.wait(75)
    assert not client.ended
    client.wait(1)
    assert client.wire.end == "aborted"
    assert client.statuses == [200, 200]


async def test_a_request_in_progress_has_no_such_limit() -> None:
    site = Site(gate=asyncio.Event())
    client = await Client(site).say(NEXT)
    client.wait(1000)
    assert not client.ended


async def refuse_unread(scope: Any, receive: Any, send: Any) -> None:
    """Answer without reading the body."""
    await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("connection", [b"", b"connection: close\r\n"], ids=["kept", "closed"])
async def test_a_body_that_is_no_longer_read_has_a_time_limit(connection: bytes) -> None:
    client = Client(refuse_unread)
    await client.say(POST + connection + b"content-length: 1000000\r\n\r\n")
    assert client.statuses == [413]
    assert client.wire.half_closed is bool(connection)
    for _ in range(61):
        assert not client.wire.end
        await client.say(b"y")
        client.wait(1)
    assert client.wire.end == "aborted"


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        (b"content-length: 300000\r\n\r\n", b"y" * 300_000),
        (b"transfer-encoding: chunked\r\n\r\n", b"7d0\r\n" + b"y" * 2000 + b"\r\n" + b"0\r\n\r\n"),
    ],
    ids=["length", "chunked"],
)
@pytest.mark.parametrize("step", [1000, 10**6])
async def test_a_client_that_closes_is_read_to_the_end_of_a_body_that_is_not_wanted(
    framing: bytes, body: bytes, step: int
) -> None:
    """Else the system would reset the connection, and the client could lose the response."""
    client = await Client(refuse_unread).say(POST + b"connection: close\r\n" + framing)
    assert client.statuses == [413]
    for at in range(0, len(body), step):
        assert not client.wire.end
        await client.say(body[at : at + step])
    assert client.wire.end == "closed"
    assert client.statuses == [413]


async def test_what_is_no_body_after_a_last_response_closes_the_connection() -> None:
    client = await Client(refuse_unread).say(POST + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n")
    await client.say(b"no size\r\n")
    assert (client.wire.end, client.statuses) == ("closed", [413])


async def test_a_body_that_came_after_its_answer_leaves_the_connection_usable() -> None:
    client = Client(refuse_unread)
    await client.say(POST + b"content-length: 4\r\n\r\n")
    await client.say(b"late")
    client.wait(74)
    await client.say(NEXT)
    assert client.statuses == [413, 413]
    assert not client.ended


async def test_a_refused_client_that_goes_on_sending_is_cut() -> None:
    client = await Client(Site()).say(NOT_ONE["two hosts"])
    assert client.wire.end == ""
    for _ in range(3):
        await client.say(b"y" * 1000)
        client.wait(1)
    assert client.wire.end == "aborted"


async def test_a_caller_who_does_not_read_the_end_of_a_reply_is_dropped() -> None:
    for request in (NEXT, NEXT.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")):
        client = Client(Site(answer=b"x" * 300_000))
        client.wire.unread = 300_000
        await client.say(request)
        client.wait(120)
        assert client.wire.end != "aborted"
        assert client.connection in client.connection.connections
        client.wait(2)
        assert client.connection not in client.connection.connections


async def test_a_caller_who_reads_slowly_is_waited_for() -> None:
    client = Client(Site(answer=b"x" * 3_000_000))
    client.wire.unread = 3_000_000
    await client.say(NEXT)
    for _ in range(600):
        client.wait(1)
        client.wire.unread -= 4000
    assert not client.ended


async def test_a_caller_who_does_not_read_holds_no_request_for_ever() -> None:
    client = await Client(Site(gate=asyncio.Event())).say(NEXT)
    client.wire.unread = 100_000
    client.connection.pause_writing()
    client.wait(119)
    assert not client.ended
    client.wait(3)
    assert client.wire.end == "aborted"


# -- how many -----------------------------------------------------------------------------------------------------


async def test_a_new_connection_takes_the_place_of_the_one_that_was_idle_for_longest() -> None:
    site, state = Site(), ServerState()
    clients = []
    for _ in range(LIMITS.max_connections):
        clients.append(Client(site, state=state))
        for client in clients:
            client.wait(1)
    busy = await Client(site, state=state).say(NEXT)
    assert [client.wire.end for client in clients] == ["aborted"] + [""] * 7
    assert busy.statuses == [200]


@pytest.mark.parametrize("server", ["one server", "another server"])
async def test_a_new_connection_is_refused_with_an_error_if_all_are_busy(
    server: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each server warns at most once in ten seconds, whatever others in its process do."""
    caplog.set_level("WARNING")
    site, state, warnings = Site(gate=asyncio.Event()), ServerState(), ConnectionWarnings()
    clients = [await Client(site, state=state).say(NEXT) for _ in range(LIMITS.max_connections)]
    for _ in range(3):
        late = await Client(site, state=state, warnings=warnings).say(NEXT)
        assert (late.statuses, late.error["code"], late.error["retryable"]) == ([503], "overloaded", True)
    warned = [line.getMessage() for line in caplog.records if line.levelname == "WARNING"]
    assert len([text for text in warned if "a new connection is refused" in text]) == 1
    assert len([text for text in warned if "make room for new ones" in text]) <= 1  # the refused ones count as idle
    assert "max_connections" in caplog.text
    assert site.gate is not None
    site.gate.set()
    for client in clients:
        assert (await client.say()).statuses == [200]
