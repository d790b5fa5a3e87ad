"""A large request is held as few times as can be, and not at all while its reply comes."""

import asyncio
import base64
import gc
import json
import tracemalloc
from collections.abc import AsyncIterator

import httpx
import pytest
from app.config.settings import Settings
from app.main import create_app
from starlette.types import Message

from tests.httpx_upstream import HttpxUpstream
from tests.live.gateway import DONE, end, say

pytestmark = pytest.mark.anyio

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")
IMAGE = "data:image/png;base64," + base64.b64encode(PNG + bytes(range(256)) * 14_700).decode()
PIECE = 64 * 1024


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Server(HttpxUpstream):
    """A model server that begins its reply, and goes on when it is let."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.asked = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.set()
        return httpx.Response(200, content=self._reply())

    async def _reply(self) -> AsyncIterator[bytes]:
        yield say("a")
        await self.gate.wait()
        yield end() + DONE


class Caller:
    """Sends a body that is there before anything is measured, as the server hands it over: in pieces."""

    def __init__(self, body: bytes) -> None:
        self._pieces = [body[at : at + PIECE] for at in range(0, len(body), PIECE)]
        self._sent = 0
        self.received = b""
        self.word = asyncio.Event()

    async def receive(self) -> Message:
        if self._sent == len(self._pieces):
            await asyncio.Event().wait()
        self._sent += 1
        return {
            "type": "http.request",
            "body": self._pieces[self._sent - 1],
            "more_body": self._sent < len(self._pieces),
        }

    async def send(self, message: Message) -> None:
        self.received += message.get("body", b"")
        if b"message.delta" in self.received:
            self.word.set()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_large_image_is_held_less_than_three_times_and_then_not_at_all(stream: bool) -> None:
    """At first the body and the text in it, then the text and the bytes that are sent on."""
    content = [{"image": IMAGE}, {"text": "What is it?"}]
    body = json.dumps({"model": "m", "stream": stream, "messages": [{"role": "user", "content": content}]}).encode()
    server, caller = Server(), Caller(body)
    row = {"base_url": "http://model.test/v1"}
    tree = {"upstreams": {"m": row}, "passthrough": "m", "server": {"log_level": "error"}}
    app = create_app(Settings.model_validate(tree), transport=server)
    scope = {"type": "http", "method": "POST", "path": "/v1/chat", "headers": []}
    async with app.router.lifespan_context(app):
        gc.collect()
        tracemalloc.start()
        try:
            asking = asyncio.create_task(app(scope, caller.receive, caller.send))
            if stream:
                await asyncio.wait_for(caller.word.wait(), 10)
            else:
                await answered(server)
            held, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        server.gate.set()
        await asyncio.wait_for(asking, 10)
    assert b"stop" in caller.received
    assert peak < 2.8 * len(body)
    assert held < 0.2 * len(body)


async def answered(server: Server) -> None:
    await asyncio.wait_for(server.asked.wait(), 10)
    for _ in range(10):
        await asyncio.sleep(0)
