"""The transport over real sockets: reuse, limits, every framing, and what breaks."""

import asyncio
import ssl
import subprocess
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.upstream.http.pool import PoolKey
from app.upstream.http.transport import BodyTooLarge, PushStream, PushTransport, make_request_head, read_whole

from tests.each_case import each_case
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

ALONE, MANY = PoolKey("a", 1), PoolKey("many", 100)
LONG = {"content-length": "5"}
CLOCK_ERROR_SECONDS = 0.005
"""How much too early a timer of an event loop may fire, and the difference of two times may round."""


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


@asynccontextmanager
async def transporting(**options: Any) -> AsyncIterator[PushTransport]:
    transport = PushTransport(**options)
    try:
        yield transport
    finally:
        await transport.aclose()
        async with asyncio.timeout(2):
            while transport.open_connections:
                await asyncio.sleep(0)


def post(url: str, body: bytes = b"{}", share: PoolKey = MANY, **timeout: float) -> httpx.Request:
    extensions = {"timeout": timeout, "pool_key": share}
    return httpx.Request("POST", f"{url}/v1", headers={"host": "h"}, content=body, extensions=extensions)


class Pushed:
    """What was pushed, and how it ended."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.error: Exception | None = None
        self.ended = asyncio.Event()

    def on_end(self, error: Exception | None) -> None:
        assert not self.ended.is_set()
        self.error = error
        self.ended.set()

    async def all(self) -> bytes:
        async with asyncio.timeout(5):
            await self.ended.wait()
        return b"".join(self.data)


def push(response: httpx.Response) -> Pushed:
    pushed = Pushed()
    assert isinstance(response.stream, PushStream)
    response.stream.body.push(pushed.data.append, pushed.on_end)
    return pushed


async def pulled(response: httpx.Response) -> bytes:
    return b"".join([piece async for piece in response.aiter_raw()])


async def exchange(
    transport: PushTransport, url: str, body: bytes = b"{}", share: PoolKey = MANY, **timeout: float
) -> tuple[int, bytes]:
    response = await transport.handle_async_request(post(url, body, share, **timeout))
    return response.status_code, await push(response).all()


async def read(transport: PushTransport, url: str, max_bytes: int) -> bytes:
    head = make_request_head(b"POST", httpx.URL(url), httpx.Headers({"host": "h"}), MANY)
    async with asyncio.timeout(5):
        return await read_whole(await transport.post(head, b"{}", 5, 5), max_bytes)


async def test_a_body_is_read_whole_and_its_connection_used_again() -> None:
    chunked = Reply([b"he", b"", b"llo"], chunked=True)
    async with ScriptedServer(chunked, Reply([b"hel", b"lo"], headers=LONG)) as server, transporting() as transport:
        assert [await read(transport, server.url, 5) for _ in range(2)] == [b"hello", b"hello"]
        assert len(server.connections) == 1
        assert transport.idle_connections == 1


async def test_a_body_that_is_too_long_or_cut_is_not_read_and_its_connection_closed() -> None:
    without_end = Reply([b"x" * 3] * 3, headers={"content-length": "100"}, abrupt=True)
    async with ScriptedServer(Reply([b"hello"], headers=LONG), without_end) as server, transporting() as transport:
        with pytest.raises(BodyTooLarge):
            await read(transport, server.url, 4)
        with pytest.raises(httpx.TransportError):
            await read(transport, server.url, 1000)
        await asyncio.sleep(0)
        assert transport.open_connections == 0


async def test_a_reader_of_a_whole_body_that_is_cancelled_closes_the_connection() -> None:
    never = asyncio.Event()
    async with ScriptedServer(Reply([b"he", never], headers=LONG)) as server, transporting() as transport:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await read(transport, server.url, 100)
        await asyncio.sleep(0)
        assert transport.open_connections == 0
        never.set()


SEVERAL_LENGTHS = [
    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx: y\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5\r\ncontent-length:5\r\nx: y\r\n\r\nhello",
]


@each_case("raw", SEVERAL_LENGTHS, ids=["two", "list", "three"])
async def test_equal_lengths_of_a_body_are_one_at_every_cut(raw: bytes) -> None:
    cuts = [[raw]] + [[raw[:at], raw[at:]] for at in range(1, len(raw))] + [[bytes([byte]) for byte in raw]]
    async with (
        ScriptedServer(*(Reply(pieces, status=None, headers=LONG) for pieces in cuts)) as server,
        transporting() as transport,
    ):
        for _ in cuts:
            assert await exchange(transport, server.url) == (200, b"hello")
        assert len(server.connections) == 1


@each_case(
    "lengths",
    [
        b"content-length: 5\r\ncontent-length: 4",
        b"content-length: 5, 4",
        b"content-length: 5\r\ncontent-length: 5x",
        b"content-length: x, x",
        b"content-length: 5\r\ncontent-length: 5\r\ntransfer-encoding: chunked",
    ],
)
@each_case("wait", [False, True], ids=["whole", "cut"])
async def test_lengths_that_contradict_each_other_are_no_response(lengths: bytes, wait: bool) -> None:
    raw = b"HTTP/1.1 200 OK\r\n" + lengths + b"\r\n\r\nhello"
    pieces = [raw[:39], raw[39:]] if wait else [raw]
    async with ScriptedServer(Reply(pieces, status=None)) as server, transporting() as transport:
        with pytest.raises(httpx.RemoteProtocolError, match="malformed HTTP"):
            await exchange(transport, server.url)


@each_case(
    "reply",
    [
        Reply([b"he", b"llo"], chunked=True),
        Reply([b"he", b"llo"], headers=LONG),
        Reply([b"he", b"llo"]),
        Reply([b"hel", b"lo"], headers={"transfer-encoding": "identity"}),
        Reply(
            [b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n", b"HTTP/1.1 200 \r\ncontent-length: 5\r\n\r\nhello"], status=None
        ),
        Reply([bytes([byte]) for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"], status=None),
        Reply([b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello, and more"], status=None),
        Reply([b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello!"], status=None),
    ],
    ids=["chunked", "sized", "until close", "identity", "early hints", "by bytes", "too long", "too long and closed"],
)
@each_case("pull", [False, True], ids=["pushed", "pulled"])
async def test_a_body_is_whole_in_every_framing(reply: Reply, pull: bool) -> None:
    async with ScriptedServer(reply) as server, transporting() as transport:
        response = await transport.handle_async_request(post(server.url))
        async with asyncio.timeout(5):
            assert (await pulled(response) if pull else await push(response).all()) == b"hello"


async def test_a_connection_is_reused_and_counted_once() -> None:
    async with ScriptedServer(Reply([b"a"], chunked=True)) as server, transporting() as transport:
        for _ in range(3):
            assert await exchange(transport, server.url) == (200, b"a")
        assert len(server.connections) == transport.open_connections == 1


@pytest.mark.parametrize(
    "reply",
    [
        Reply([b"hello, and more"], headers=LONG),
        Reply([b"hello"], headers={**LONG, "connection": "close"}),
        Reply([b"HTTP/1.1 200 \r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 \r\ncontent-length: 2\r\n\r\nno"], status=None),
    ],
    ids=["too long", "said to close", "two responses"],
)
async def test_a_connection_that_cannot_be_trusted_is_not_reused(reply: Reply) -> None:
    async with ScriptedServer(reply, Reply([b"new"], headers={"content-length": "3"})) as server:
        async with transporting() as transport:
            assert (await exchange(transport, server.url))[1] in (b"hello", b"")
            assert await exchange(transport, server.url) == (200, b"new")
            assert len(server.connections) == 2


async def test_data_on_an_idle_connection_closes_it() -> None:
    late = asyncio.Event()
    async with ScriptedServer(Reply([b"hello", late, b"junk"], headers=LONG), Reply([b"b"])) as server:
        async with transporting() as transport:
            await exchange(transport, server.url)
            late.set()
            await server.connections[0].closed.wait()
            assert await exchange(transport, server.url) == (200, b"b")


async def test_a_reused_connection_that_was_closed_meanwhile_is_replaced_silently() -> None:
    first = Reply([b"HTTP/1.1 200 \r\ncontent-length: 1\r\n\r\na"], status=None)  # and closes
    async with ScriptedServer(first, Reply([b"b"], chunked=True)) as server, transporting() as transport:
        assert await exchange(transport, server.url) == (200, b"a")
        assert await exchange(transport, server.url) == (200, b"b")


@pytest.mark.parametrize("abrupt", [True, False])
async def test_a_reused_connection_that_breaks_before_a_response_is_replaced_once(abrupt: bool) -> None:
    good, silent = Reply([b"a"], chunked=True), Reply(status=None, abrupt=abrupt)
    async with ScriptedServer(good, silent, Reply([b"b"], chunked=True)) as server, transporting() as transport:
        assert await exchange(transport, server.url) == (200, b"a")
        assert await exchange(transport, server.url) == (200, b"b")
        assert len(server.requests) == 3
    async with ScriptedServer(good, silent, silent) as server, transporting() as transport:
        await exchange(transport, server.url)
        with pytest.raises(httpx.TransportError):
            await exchange(transport, server.url)
        assert len(server.requests) == 3


async def test_a_fresh_connection_that_breaks_is_an_error() -> None:
    async with ScriptedServer(Reply(status=None, abrupt=True)) as server, transporting() as transport:
        with pytest.raises(httpx.TransportError):
            await exchange(transport, server.url)
        assert len(server.requests) == 1


async def test_a_reused_connection_that_breaks_within_a_response_is_an_error() -> None:
    half = Reply([b"HTTP/1.1 200 OK\r\n"], status=None)
    async with ScriptedServer(Reply([b"a"], chunked=True), half) as server, transporting() as transport:
        await exchange(transport, server.url)
        with pytest.raises(httpx.RemoteProtocolError):
            await exchange(transport, server.url)
        assert len(server.requests) == 2


async def test_a_fresh_connection_replaces_an_idle_one_at_the_limit() -> None:
    good = Reply([b"a"], chunked=True)
    async with ScriptedServer(good, good, Reply(status=None), good) as server:
        async with transporting() as transport:
            one = await transport.handle_async_request(post(server.url, share=PoolKey("a", 2)))
            two = await transport.handle_async_request(post(server.url, share=PoolKey("a", 2)))
            await push(one).all(), await push(two).all()
            async with asyncio.timeout(2):
                assert await exchange(transport, server.url, share=PoolKey("a", 2)) == (200, b"a")


@pytest.mark.parametrize("place", ["a..b", "a" * 64, "127.0.0.1:70000"])
async def test_a_place_that_cannot_be_is_no_connection(place: str) -> None:
    async with transporting() as transport:
        with pytest.raises(httpx.ConnectError):
            await exchange(transport, f"http://{place}")
        with pytest.raises(httpx.ConnectError):
            await exchange(transport, f"http://{place}", share=ALONE)


async def test_a_request_to_a_slow_server_ends_at_its_timeout_and_is_not_sent_again() -> None:
    async with ScriptedServer(Reply([b"a"], chunked=True), Reply(hold=asyncio.Event())) as server:
        async with transporting() as transport:
            await exchange(transport, server.url)
            with pytest.raises(httpx.ReadTimeout):
                await exchange(transport, server.url, read=0.05)
            await server.connections[0].closed.wait()
            assert len(server.requests) == 2


async def test_every_upstream_has_a_limit_of_its_own() -> None:
    async with ScriptedServer(Reply([b"a", asyncio.Event()], chunked=True)) as server, transporting() as transport:
        for share in (ALONE, PoolKey("b", 2), PoolKey("b", 2)):
            await transport.handle_async_request(post(server.url, share=share))
        for share in (ALONE, PoolKey("b", 2)):
            with pytest.raises(httpx.PoolTimeout):
                await exchange(transport, server.url, share=share, connect=0.05)


async def test_at_the_limit_of_connections_requests_wait_their_turn() -> None:
    gate = asyncio.Event()
    async with ScriptedServer(Reply([b"a", gate], chunked=True)) as server:
        async with transporting() as transport:
            first = await transport.handle_async_request(post(server.url, share=ALONE))
            with pytest.raises(httpx.PoolTimeout):
                await exchange(transport, server.url, share=ALONE, connect=0.05)
            leaving = asyncio.create_task(exchange(transport, server.url, share=ALONE))
            waiting = asyncio.create_task(exchange(transport, server.url, share=ALONE))
            await asyncio.sleep(0)
            ended = asyncio.Event()

            def leave(_: Exception | None) -> None:
                leaving.cancel()  # at the moment when its turn has come
                ended.set()

            first.stream.body.push(lambda data: None, leave)  # type: ignore[union-attr]
            gate.set()
            await ended.wait()
            assert await asyncio.wait_for(waiting, 2) == (200, b"a")


async def test_a_waiting_request_gets_the_place_of_a_connection_that_is_closed() -> None:
    gate = asyncio.Event()
    async with ScriptedServer(Reply([b"a", gate]), Reply([b"b"], chunked=True)) as server:
        async with transporting() as transport:
            first = push(await transport.handle_async_request(post(server.url, share=ALONE)))
            waiting = asyncio.create_task(exchange(transport, server.url, share=ALONE))
            await asyncio.sleep(0)
            gate.set()
            assert await first.all() == b"a"
            assert await asyncio.wait_for(waiting, 2) == (200, b"b")


async def test_a_request_names_the_length_of_its_body_once() -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        await reader.readexactly(2)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async def stream() -> AsyncIterator[bytes]:
        yield b"{}"

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = "http://{}:{}".format(*server.sockets[0].getsockname())
        async with transporting() as transport:
            for content in (b"{}", stream()):
                extensions = {"timeout": {}, "pool_key": MANY}
                request = httpx.Request("POST", url, content=content, extensions=extensions)
                response = await transport.handle_async_request(request)
                assert response.status_code == 200
                await response.aclose()
    assert [head.lower().count(b"content-length: 2\r\n") for head in heads] == [1, 1]
    assert not any(b"transfer-encoding" in head.lower() for head in heads)


@each_case(
    "bytes_",
    [
        b"SSH-2.0-server\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 " + b"y" * 400_000,
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 40_000,
    ],
    ids=["another protocol", "length", "upgrade", "long header", "long status", "many headers"],
)
async def test_a_malformed_response_is_an_error(bytes_: bytes) -> None:
    async with ScriptedServer(Reply([bytes_, asyncio.Event()], status=None)) as server, transporting() as transport:
        with pytest.raises(httpx.RemoteProtocolError):
            await exchange(transport, server.url)
        await asyncio.wait_for(server.connections[0].closed.wait(), 2)


@pytest.mark.parametrize(
    "reply",
    [
        Reply([b"hel"], chunked=True, abrupt=True),
        Reply([b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel"], status=None),
        Reply([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\nzz\r\n"], status=None),
    ],
    ids=["reset", "cut off", "malformed"],
)
async def test_a_broken_body_is_what_came_and_then_an_error(reply: Reply) -> None:
    async with ScriptedServer(reply) as server, transporting() as transport:
        pushed = push(await transport.handle_async_request(post(server.url)))
        assert await pushed.all() == b"hel"
        assert isinstance(pushed.error, httpx.TransportError)
        with pytest.raises(httpx.TransportError):
            await pulled(await transport.handle_async_request(post(server.url)))


@pytest.mark.parametrize("flood", [b"0\r\nx: ", b"1;x="], ids=["a trailer", "an extension"])
async def test_framing_that_does_not_end_is_an_error(flood: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n"
    reply = Reply([head, flood, *[b"y" * 65536] * 40, asyncio.Event()], status=None)
    async with ScriptedServer(reply) as server, transporting() as transport:
        pushed = push(await transport.handle_async_request(post(server.url)))
        assert await pushed.all() == b"hel"
        assert isinstance(pushed.error, httpx.TransportError)
        await asyncio.wait_for(server.connections[0].closed.wait(), 2)


async def test_much_that_comes_before_anybody_reads_is_all_there_afterwards() -> None:
    pieces = [b"%06d" % number * 10_000 for number in range(100)]
    async with ScriptedServer(Reply(pieces, chunked=True)) as server, transporting() as transport:
        response = await transport.handle_async_request(post(server.url))
        for _ in range(300):
            await asyncio.sleep(0)
        assert server.connections[0].finished == 0  # the server is not read without bounds
        assert await push(response).all() == b"".join(pieces)


async def test_iteration_reads_no_further_than_its_caller_does() -> None:
    pieces = [b"x" * 60_000] * 300
    async with ScriptedServer(Reply(pieces, chunked=True)) as server, transporting() as transport:
        response = await transport.handle_async_request(post(server.url))
        parts = response.aiter_raw()
        await anext(parts)
        for _ in range(300):
            await asyncio.sleep(0)
        assert server.connections[0].finished == 0
        assert sum([len(part) async for part in parts]) + 60_000 >= 300 * 60_000
        assert await exchange(transport, server.url) == (200, b"".join(pieces))
        assert len(server.connections) == 1


async def test_a_connection_that_was_paused_at_its_end_serves_the_next_request() -> None:
    whole = Reply([b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na"], status=None, headers={"content-length": "1"})
    async with ScriptedServer(whole) as server, transporting() as transport:
        response = await transport.handle_async_request(post(server.url))
        connection = response.stream.body  # type: ignore[union-attr]
        pushed = Pushed()
        connection.push(lambda data: connection.pause(), pushed.on_end)
        async with asyncio.timeout(2):
            await pushed.ended.wait()
            assert await exchange(transport, server.url) == (200, b"a")
        assert len(server.connections) == 1


class Swallowing:
    """A server that reads what it is sent, and answers as soon as it has read so much of it."""

    def __init__(self, answer: bytes, after: int) -> None:
        self._answer, self._after = answer, after
        self._left = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        count = 0
        try:
            while True:
                if count >= self._after:
                    writer.write(self._answer)
                    self._after = 1 << 60
                piece = await reader.read(65536)
                count += len(piece)
                if not piece:
                    return
        except ConnectionError:
            return
        finally:
            writer.close()
            self._left.set()

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        await self._left.wait()
        self._server.close()
        await self._server.wait_closed()


async def test_an_answer_in_the_middle_of_the_request_is_read_and_its_connection_not_reused() -> None:
    async with (
        Swallowing(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno", 0) as url,
        transporting() as transport,
    ):
        assert await exchange(transport, url, bytes(30_000_000)) == (413, b"no")
        async with asyncio.timeout(2):
            while transport.open_connections:
                await asyncio.sleep(0)


async def test_a_large_request_is_not_copied(anyio_backend: tuple[str, dict[str, bool]]) -> None:
    body = bytes(5_000_000)
    ok = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    async with Swallowing(ok, len(body)) as url, transporting() as transport:
        tracemalloc.start()
        try:
            assert await exchange(transport, url, body) == (200, b"")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        await transport.aclose()
    uvloop = anyio_backend[1]["use_uvloop"]
    assert peak < (1_500_000 if uvloop else 6_500_000)  # asyncio itself keeps a copy of what the socket did not take


async def test_abort_closes_at_once() -> None:
    async with ScriptedServer(Reply([b"a", asyncio.Event()])) as server, transporting() as transport:
        response = await transport.handle_async_request(post(server.url))
        response.stream.body.abort()  # type: ignore[union-attr]
        await asyncio.wait_for(server.connections[0].closed.wait(), 0.25)


async def test_a_body_that_is_let_go_may_end_soon_and_then_its_connection_is_reused() -> None:
    gate = asyncio.Event()
    async with ScriptedServer(Reply([b"a", gate, b"b"], chunked=True)) as server, transporting() as transport:
        response = await transport.handle_async_request(post(server.url))
        await response.aclose()
        gate.set()
        while server.connections[0].finished == 0:
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert (await exchange(transport, server.url))[0] == 200
        assert len(server.connections) == 1


async def test_a_body_that_is_let_go_and_does_not_end_is_closed() -> None:
    endless = Reply([b"a", asyncio.Event()], chunked=True)
    async with ScriptedServer(endless) as server, transporting(linger_seconds=0.05) as transport:
        await (await transport.handle_async_request(post(server.url))).aclose()
        await asyncio.wait_for(server.connections[0].closed.wait(), 2)


async def test_each_wait_ends_at_its_own_time() -> None:
    silent = Reply([asyncio.Event()], status=None)
    loop = asyncio.get_running_loop()
    ended: list[float] = []

    async def wait(seconds: float) -> None:
        began = loop.time()
        with pytest.raises(httpx.ReadTimeout):
            await exchange(transport, server.url, read=seconds)
        assert loop.time() - began >= seconds - CLOCK_ERROR_SECONDS
        ended.append(seconds)

    async with ScriptedServer(silent) as server, transporting() as transport:
        await wait(0.15)
        await asyncio.gather(*(wait(seconds) for seconds in (0.5, 0.05, 0.3, 0.05, 0.1)))
        assert ended == [0.15, 0.05, 0.05, 0.1, 0.3, 0.5]
        assert transport.open_connections == 0


@each_case("turns", range(8))
async def test_a_cancelled_request_leaves_no_connection(turns: int) -> None:
    async with ScriptedServer(Reply([b"a", asyncio.Event()])) as server, transporting() as transport:
        asking = asyncio.create_task(transport.handle_async_request(post(server.url)))
        for _ in range(turns):
            await asyncio.sleep(0)
        if asking.done():
            (await asking).stream.body.abort()  # type: ignore[union-attr]
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        async with asyncio.timeout(1):
            while transport.open_connections:
                await asyncio.sleep(0)
            for connection in server.connections:
                await connection.closed.wait()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    done = subprocess.run([*command.split(), "-keyout", key, "-out", cert], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("no openssl to make a certificate with")
    return key, cert


async def test_tls_with_a_context_of_ones_own(certificate: tuple[Path, Path]) -> None:
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(certificate[1], certificate[0])
    trusting = ssl.create_default_context(cafile=str(certificate[1]))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            await reader.readuntil(b"\r\n\r\n{}")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=served)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with transporting(ssl_context=trusting) as transport:
            for _ in range(2):
                assert await exchange(transport, f"https://localhost:{port}") == (200, b"hello")
            assert transport.open_connections == 1
        async with transporting() as transport:
            with pytest.raises(httpx.ConnectError):
                await exchange(transport, f"https://localhost:{port}")


async def test_a_port_without_a_server_is_a_connect_error() -> None:
    async with ScriptedServer() as server:
        url = server.url
    async with transporting() as transport:
        with pytest.raises(httpx.ConnectError):
            await exchange(transport, url)


async def test_httpx_itself_can_use_it() -> None:
    replies = [Reply([b"he", b"llo"], chunked=True), Reply([b"hello"], headers=LONG)]
    extensions = {"pool_key": MANY}
    async with ScriptedServer(*replies) as server, httpx.AsyncClient(transport=PushTransport()) as client:
        assert (await client.post(server.url, json={"a": 1}, extensions=extensions)).text == "hello"
        assert (await client.post(server.url, content=_pieces(b"a", b"b"), extensions=extensions)).text == "hello"
        assert [request.body for request in server.requests] == [b'{"a":1}', b"ab"]
        assert len(server.connections) == 1


async def _pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
