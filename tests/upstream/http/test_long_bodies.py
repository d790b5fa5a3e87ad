"""Bodies that are sent in pieces, over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from app.upstream.http.pool import PoolKey
from app.upstream.http.transport import PushTransport, make_request_head

from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio
PIECE = b"x" * 262_144
OK = Reply(headers={"content-length": "2"}, chunks=[b"ok"])


class Counted:
    """A body of these pieces, which counts those that were taken."""

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces
        self.taken = 0

    def __len__(self) -> int:
        return self.pieces * len(PIECE)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self.pieces):
            self.taken += 1
            yield PIECE


async def send(transport: PushTransport, url: str, body: Counted, seconds: float = 20.0) -> int:
    head = make_request_head(b"POST", httpx.URL(url), httpx.Headers({"host": "h"}), PoolKey("a", 1))
    answer = await transport.post(head, body, seconds, seconds)
    status = answer.status
    answer.release()
    return status


async def test_a_long_body_arrives_whole_and_twice() -> None:
    async with ScriptedServer(OK) as server:
        transport, body = PushTransport(), Counted(20)
        assert [await send(transport, server.url, body) for _ in range(2)] == [200, 200]
        assert [len(request.body) for request in server.requests] == [len(body)] * 2
        await transport.aclose()


@asynccontextmanager
async def serving_without_reading(answer: bytes) -> AsyncIterator[str]:
    """The URL of a server that reads no body."""
    ended, closed = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await ended.wait()
        writer.transport.abort()
        closed.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        ended.set()
        await closed.wait()
        server.close()
        await asyncio.sleep(0)


async def test_a_server_that_answers_at_once_gets_no_more_and_no_second_request() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n"
    async with serving_without_reading(refusal) as url:
        transport, body = PushTransport(), Counted(400)
        assert await send(transport, url, body) == 413
        assert body.taken < body.pieces
        assert transport.idle_connections == 0
        await transport.aclose()


async def test_a_server_that_reads_nothing_is_given_up() -> None:
    async with serving_without_reading(b"") as url:
        transport, body = PushTransport(), Counted(400)
        with pytest.raises(httpx.ReadTimeout):
            await send(transport, url, body, 0.2)
        assert body.taken < body.pieces
        await transport.aclose()
