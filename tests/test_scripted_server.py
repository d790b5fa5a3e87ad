"""The scripted upstream sends what its script says, and sees what it was sent."""

import asyncio

import httpx
import pytest
from typing_extensions import override

from tests.scripted_server import EVENT_STREAM, Reply, ScriptedServer

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Reads(asyncio.Protocol):
    """A client that asks once and keeps every read apart."""

    def __init__(self) -> None:
        self.reads: list[bytes] = []
        self.ended = asyncio.Event()
        self.error: Exception | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"POST /v1 HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")

    @override
    def data_received(self, data: bytes) -> None:
        self.reads.append(data)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self.ended.set()


async def reads_of(server: ScriptedServer) -> Reads:
    _, client = await asyncio.get_running_loop().create_connection(Reads, *server.address)
    await client.ended.wait()
    return client


async def test_every_chunk_is_one_read_and_the_body_ends_with_the_connection() -> None:
    chunks = [bytes([65 + place % 26]) * (1 + place % 3) for place in range(200)]
    async with ScriptedServer(Reply(chunks)) as server:
        client = await reads_of(server)
    head = b"HTTP/1.1 200 \r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    assert client.reads == [head, *chunks]
    assert client.error is None


async def test_chunked_framing_keeps_the_connection_for_the_next_reply() -> None:
    replies = [Reply([b"one", b"", b"two"], chunked=True), Reply([b"three"], status=429, headers={}, chunked=True)]
    async with ScriptedServer(*replies) as server, httpx.AsyncClient(base_url=server.url, verify=False) as client:
        first, second, third = [await client.post("/v1/x", json={}) for _ in range(3)]
        assert len(server.connections) == 1
    assert (first.status_code, first.content) == (200, b"onetwo")
    assert (second.status_code, second.content) == (429, b"three")
    assert (third.status_code, third.content) == (429, b"three")


async def test_a_body_of_stated_length_keeps_the_connection() -> None:
    reply = Reply([b"{", b"}"], headers={"Content-Length": "2"})
    async with ScriptedServer(reply) as server, httpx.AsyncClient(base_url=server.url, verify=False) as client:
        assert [(await client.post("/")).content for _ in range(2)] == [b"{}", b"{}"]
        assert server.connections[0].finished == 2


async def test_replies_can_be_added_and_a_request_without_one_is_answered_500() -> None:
    async with ScriptedServer() as server, httpx.AsyncClient(base_url=server.url, verify=False) as client:
        assert (await client.post("/")).status_code == 500
        server.replies = [Reply(chunked=True, status=404), Reply([b"a"], chunked=True)]
        assert (await client.post("/")).content == b"a"


async def test_a_request_is_recorded_as_it_was_sent() -> None:
    async with (
        ScriptedServer(Reply(chunked=True)) as server,
        httpx.AsyncClient(base_url=server.url, verify=False) as client,
    ):
        await client.post("/v1/chat/completions?a=1", content=b"\x00body", headers={"X-Key": "k"})
        request = await server.request()
    assert (request.method, request.path, request.body) == ("POST", "/v1/chat/completions?a=1", b"\x00body")
    assert request.headers["x-key"] == "k"


async def test_a_gate_holds_back_what_stands_behind_it() -> None:
    hold, gate = asyncio.Event(), asyncio.Event()
    reply = Reply([b"a", gate, b"b"], hold=hold)
    async with ScriptedServer(reply) as server, httpx.AsyncClient(base_url=server.url, verify=False) as client:
        asking = asyncio.create_task(client.send(client.build_request("POST", "/"), stream=True))
        await server.request()
        assert not asking.done()
        hold.set()
        response = await asking
        parts = response.aiter_raw()
        assert await anext(parts) == b"a"
        assert server.connections[0].sent == 1
        gate.set()
        assert [part async for part in parts] == [b"b"]


async def test_a_client_that_leaves_is_noticed_while_a_gate_is_shut() -> None:
    reply = Reply([b"a", asyncio.Event(), b"b"], chunked=True)
    async with ScriptedServer(reply) as server, httpx.AsyncClient(base_url=server.url, verify=False) as client:
        async with client.stream("POST", "/") as response:
            assert await anext(response.aiter_raw()) == b"a"
            assert not server.connections[0].closed.is_set()
        await asyncio.wait_for(server.connections[0].closed.wait(), 5)
        assert (server.connections[0].sent, server.connections[0].finished) == (1, 0)


async def test_a_client_is_there_until_it_closes_although_the_body_has_ended() -> None:
    async with ScriptedServer(Reply([b"a"])) as server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(b"POST / HTTP/1.1\r\n\r\n")
        assert (await reader.read()).endswith(b"\r\n\r\na")
        assert not server.connections[0].closed.is_set()
        writer.close()
        await writer.wait_closed()
        await asyncio.wait_for(server.connections[0].closed.wait(), 5)


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_abrupt_end_is_a_reset_after_the_last_chunk(chunked: bool) -> None:
    async with ScriptedServer(Reply([b"a", b"b"], chunked=chunked, abrupt=True)) as server:
        client = await reads_of(server)
        await server.connections[0].closed.wait()
    assert b"".join(client.reads).endswith(b"1\r\nb\r\n" if chunked else b"ab")
    assert isinstance(client.error, ConnectionResetError)


async def test_without_a_status_nothing_but_the_chunks_is_sent() -> None:
    async with ScriptedServer(Reply([b"no http"], status=None), Reply(status=None, abrupt=True)) as server:
        assert (await reads_of(server)).reads == [b"no http"]
        assert (await reads_of(server)).reads == []


async def test_leaving_closes_the_connections_that_are_still_open() -> None:
    server = ScriptedServer(Reply([asyncio.Event()], headers=EVENT_STREAM))
    async with server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(b"POST / HTTP/1.1\r\n\r\n")
        await server.request()
    await reader.read()
    writer.close()
    await writer.wait_closed()
    assert server.connections[0].closed.is_set()
