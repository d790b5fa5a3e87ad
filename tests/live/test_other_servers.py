"""The application under other ASGI servers, over sockets: uvicorn with its own protocols, and Hypercorn."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import hypercorn.asyncio
import hypercorn.config
import pytest
import uvicorn
import websockets.asyncio.client
from app.config.settings import Settings
from app.main import create_app
from fastapi import FastAPI

from tests.live.gateway import DONE, end, say
from tests.live.raw_client import ASK, DEADLINE_SECONDS, Caller, calling, checked, frames
from tests.restored_logging import restored_logging
from tests.scripted_server import Reply, ScriptedServer
from tests.uvicorn_gateway import QuietServer

pytestmark = pytest.mark.anyio

Serve = Callable[[FastAPI, socket.socket, asyncio.Event], Awaitable[None]]


async def serve_with_h11(app: FastAPI, listening: socket.socket, stop: asyncio.Event) -> None:
    await _serve_with_uvicorn(uvicorn.Config(app, http="h11", ws="websockets-sansio", log_config=None), listening, stop)


async def serve_with_httptools(app: FastAPI, listening: socket.socket, stop: asyncio.Event) -> None:
    await _serve_with_uvicorn(
        uvicorn.Config(app, http="httptools", ws="websockets-sansio", log_config=None), listening, stop
    )


async def _serve_with_uvicorn(config: uvicorn.Config, listening: socket.socket, stop: asyncio.Event) -> None:
    server = QuietServer(config)
    running = asyncio.create_task(server.serve([listening]))
    await stop.wait()
    server.should_exit = True
    await running


async def serve_with_hypercorn(app: FastAPI, listening: socket.socket, stop: asyncio.Event) -> None:
    config = hypercorn.config.Config()
    config.bind = [f"fd://{listening.detach()}"]
    config.graceful_timeout = 1

    async def wait() -> None:
        await stop.wait()

    await hypercorn.asyncio.serve(app, config, shutdown_trigger=wait)  # type: ignore[arg-type]  # its own types of ASGI


@pytest.fixture(params=[serve_with_h11, serve_with_httptools, serve_with_hypercorn])
def serve(request: pytest.FixtureRequest) -> Serve:
    chosen: Serve = request.param
    return chosen


@asynccontextmanager
async def serving(serve: Serve, upstream: ScriptedServer) -> AsyncIterator[tuple[str, int]]:
    """Run a gateway under a server, and return its address."""
    row = {"base_url": f"{upstream.url}/v1"}
    tree = {"server": {"log_level": "error"}, "upstreams": {"local": row}, "passthrough": "local"}
    listening = socket.create_server(("127.0.0.1", 0))
    address, stop = listening.getsockname(), asyncio.Event()
    with restored_logging():
        running = asyncio.create_task(_run(serve, Settings.model_validate(tree), listening, stop))
        try:
            yield address
        finally:
            stop.set()
            await running


async def _run(serve: Serve, settings: Settings, listening: socket.socket, stop: asyncio.Event) -> None:
    await serve(create_app(settings), listening, stop)


async def read_until(caller: Caller, part: bytes) -> bytes:
    """Return what is read until it has this part: these servers divide and join writes."""
    raw = b""
    while part not in raw:
        data = await caller.write()
        assert data, "the reply has ended"
        raw += data
    return raw


async def request(address: tuple[str, int], method: str, path: str, body: Any = None) -> tuple[Caller, bytes]:
    """Return the caller with the head of the answer, and the body."""
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    async with calling(address) as caller:
        await caller.say(f"{head}content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)
        await caller.head()
        return caller, await caller.rest()


async def test_a_reply_streams_and_can_be_resumed_and_read_whole(serve: Serve) -> None:
    gate = asyncio.Event()
    script: list[bytes | asyncio.Event] = [say("one"), gate, say("two"), end(), DONE]
    async with ScriptedServer(Reply(script, chunked=True)) as upstream, serving(serve, upstream) as address:
        async with calling(address) as caller:
            await caller.ask()
            assert await caller.head() == 200
            first = await read_until(caller, b"one")  # before the model server has sent the rest
            gate.set()
            raw = first + await caller.rest()
        events = checked(raw)
        path = f"/v1/chat/{caller.headers['x-parley-response-id']}"
        resumed, rest = await request(address, "GET", f"{path}/events?after=2")
        assert resumed.status == 200 and [frame.seq for frame in frames(rest)] == [frame.seq for frame in events[2:]]
        whole, body = await request(address, "GET", path)
        assert whole.status == 200 and json.loads(body)["messages"][0]["content"] == "onetwo"


async def test_a_reply_can_be_cancelled(serve: Serve) -> None:
    async with (
        ScriptedServer(Reply([say("one"), asyncio.Event()], chunked=True)) as upstream,
        serving(serve, upstream) as address,
        calling(address) as caller,
    ):
        await caller.ask()
        await caller.head()
        first = await read_until(caller, b"one")
        path = f"/v1/chat/{caller.headers['x-parley-response-id']}"
        cancelled, body = await request(address, "DELETE", path)
        assert cancelled.status == 200 and json.loads(body)["cancelled"] is True
        last = checked(first + await caller.rest())[-1]
        assert (last.type, last.data["error"]["code"]) == ("response.failed", "cancelled")


async def test_the_call_ends_when_the_client_leaves(serve: Serve) -> None:
    async with (
        ScriptedServer(Reply([say("one"), asyncio.Event()], chunked=True)) as upstream,
        serving(serve, upstream) as address,
    ):
        async with calling(address) as caller:
            await caller.ask()
            await caller.head()
            await read_until(caller, b"one")
        async with asyncio.timeout(DEADLINE_SECONDS):
            await upstream.connections[0].closed.wait()


async def test_a_whole_reply_a_conversion_and_errors_are_answered(serve: Serve) -> None:
    async with (
        ScriptedServer(Reply([say("Hello"), end(), DONE], chunked=True)) as upstream,
        serving(serve, upstream) as address,
    ):
        whole, body = await request(address, "POST", "/v1/chat/completions", ASK | {"stream": False})
        assert whole.status == 200 and json.loads(body)["choices"][0]["message"]["content"] == "Hello"
        converted, body = await request(address, "POST", "/v1/convert", {"to": "openai", "messages": ASK["messages"]})
        assert converted.status == 200 and json.loads(body)["messages"] == ASK["messages"]
        for method, path, status, code in [
            ("POST", "/v1/chat", 422, "invalid_request"),
            ("GET", "/v1/chat", 405, "method_not_allowed"),
            ("GET", "/nowhere", 404, "not_found"),
        ]:
            refused, body = await request(address, method, path, {})
            assert (refused.status, json.loads(body)["error"]["code"]) == (status, code)
            assert refused.headers["x-request-id"] == json.loads(body)["error"]["request_id"]


async def test_responses_are_sent_over_a_websocket(serve: Serve) -> None:
    ask = json.dumps({"type": "response.create", "model": "m", "input": "hi", "store": False})
    async with (
        ScriptedServer(Reply([say("Hello"), end(), DONE]), Reply([say("a"), asyncio.Event()])) as upstream,
        serving(serve, upstream) as address,
    ):
        connecting = websockets.asyncio.client.connect(f"ws://{address[0]}:{address[1]}/v1/responses", proxy=None)
        async with asyncio.timeout(DEADLINE_SECONDS), connecting as socket:
            await socket.send(ask)
            kinds = [json.loads(await socket.recv())["type"]]
            while kinds[-1] != "response.completed":
                kinds.append(json.loads(await socket.recv())["type"])
            assert kinds[0] == "response.created"
            await socket.send(ask)
            await socket.recv()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await upstream.connections[-1].closed.wait()
