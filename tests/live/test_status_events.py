"""`GET /v1/status/events` over real connections: what changes is sent, once for all who follow it."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from app.api.context import STATUS_SECONDS
from app.runtime.shared_reading import SharedReading
from sse_starlette.sse import AppStatus

from tests.live.gateway import DONE, end, eventually, say, serving
from tests.live.parley_command import process
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

PATH = "/v1/status/events"
BODY = {"model": "m", "messages": [{"role": "user", "content": "A secret question"}], "stream": False}
REPLY = [say("a"), end(), DONE]


class Page:
    """One client that follows the status."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.text = ""
        self._pieces = response.aiter_text()

    async def event(self) -> Any:
        """The next event."""
        while "\n\n" not in self.text:
            self.text += await anext(self._pieces)
        frame, _, self.text = self.text.partition("\n\n")
        return json.loads(frame.removeprefix("data: ")) if frame.startswith("data: ") else await self.event()

    async def rest(self) -> str:
        async for piece in self._pieces:
            self.text += piece
        return self.text


@asynccontextmanager
async def following(client: httpx.AsyncClient) -> AsyncIterator[Page]:
    async with client.stream("GET", PATH) as response:
        assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        yield Page(response)


class CountedReading(SharedReading[str]):
    reads = 0

    async def get(self, read: Callable[[], Awaitable[str]]) -> str:
        def count() -> Awaitable[str]:
            self.reads += 1
            return read()

        return await super().get(count)


def open_client(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, verify=False, timeout=30)


async def test_two_pages_get_what_changed_and_cost_one_computation() -> None:
    async with ScriptedServer(Reply(REPLY, chunked=True)) as upstream, serving(upstream) as gateway:
        reading = gateway.context.status = CountedReading(STATUS_SECONDS)
        async with open_client(gateway.url) as client, following(client) as first, following(client) as second:
            began = time.monotonic()
            assert (await first.event())["requests"] == (await second.event())["requests"] == []
            assert (await client.post("/v1/chat", json=BODY)).status_code == 200
            one, other = await first.event(), await second.event()
            assert one == other == (await client.get("/v1/status")).json()
            assert [row["model"] for row in one["requests"]] == ["m"]
            assert reading.reads <= (time.monotonic() - began) / STATUS_SECONDS + 1


async def test_nothing_but_heartbeats_is_sent_while_nothing_changes() -> None:
    async with ScriptedServer() as upstream, serving(upstream, server={"heartbeat_seconds": 0.2}) as gateway:
        async with open_client(gateway.url) as client, following(client) as page:
            await page.event()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2.5 * STATUS_SECONDS):
                    await page.rest()
            assert page.text.count(": keepalive\n\n") >= 5
            assert "data:" not in page.text


async def test_a_page_that_leaves_leaves_nothing_behind() -> None:
    def count_streams() -> int:
        return sum("EventSourceResponse" in task.get_name() for task in asyncio.all_tasks())

    async with ScriptedServer() as upstream, serving(upstream) as gateway:
        async with open_client(gateway.url) as client:
            async with following(client) as page:
                await page.event()
                assert count_streams()
            await eventually(lambda: not count_streams())
        await eventually(lambda: not gateway.callers)


@pytest.mark.parametrize("workers", [1, 2])
async def test_the_stream_ends_when_the_gateway_shuts_down(workers: int) -> None:
    async with ScriptedServer() as upstream, process(upstream, workers=workers) as gateway:
        async with open_client("http://{}:{}".format(*gateway.address)) as client, following(client) as page:
            await page.event()
            began = time.monotonic()
            gateway.signal(signal.SIGTERM)
            await page.rest()  # whole, or httpx would raise an exception
            assert time.monotonic() - began < 10
        code, output = await gateway.ended()
    assert code == 0
    assert "Traceback" not in output


async def test_the_stream_ends_whole_when_another_server_of_the_application_shuts_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedServer() as upstream, serving(upstream) as gateway:
        async with open_client(gateway.url) as client, following(client) as page:
            await page.event()
            monkeypatch.setattr(AppStatus, "should_exit", True)
            await page.rest()


async def test_only_an_administrator_follows_a_gateway_with_an_admin_key() -> None:
    async with ScriptedServer() as upstream, serving(upstream, server={"admin_key": "letmein"}) as gateway:
        async with open_client(gateway.url) as client:
            assert (await client.get(PATH)).status_code == 403
            client.headers["authorization"] = "Bearer letmein"
            async with following(client) as page:
                assert (await page.event())["draining"] is False
