"""Responses that are read, streamed and cancelled at another gateway than the one that produces them."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.in_process_gateway import HELLO, SERVER, STOP, Answer, ModelServer, Running
from tests.redis_server import RedisServer

Json = dict[str, Any]
FAILURE = b'data: {"error":{"message":"the engine has died","code":500}}\n\n'


class HeldBody(httpx.AsyncByteStream):
    def __init__(self, parts: list[bytes | asyncio.Event]) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            if isinstance(part, bytes):
                yield part
            else:
                await part.wait()


class Gateways:
    """Two gateways of one Redis; the model server of the first one sends the parts, and waits at each event."""

    def __init__(self, redis: RedisServer, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.parts = loop, list[bytes | asyncio.Event]()
        self.before = asyncio.Event()
        self.asked = asyncio.Event()
        self.one, self.other = (loop.run_until_complete(self._start(redis)) for _ in range(2))

    async def _start(self, redis: RedisServer) -> Running:
        tree = {**SERVER, "cache": {"url": redis.url}}
        return Running(tree, _HeldServer(self), loop=self.loop)

    async def post(self, **body: Any) -> Answer:
        raw = json.dumps({"model": "m", "input": "Hi", **body}).encode()
        return await self.one.ask_async("POST", "/v1/responses", [raw])

    async def find_id(self) -> str:
        await self.asked.wait()
        return next(iter(self.one.context.replies.active)).info.response_id

    async def get(self, gateway: Running, path: str, method: str = "GET") -> Answer:
        return await gateway.ask_async(method, f"/v1/responses/{path}")


class _HeldServer(ModelServer):
    def __init__(self, gateways: Gateways) -> None:
        super().__init__()
        self._gateways = gateways

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self._gateways.asked.set()
        await self._gateways.before.wait()
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, stream=HeldBody(self._gateways.parts), request=request)


@pytest.fixture
def gateways(shared_redis: RedisServer) -> Iterator[Gateways]:
    loop = asyncio.new_event_loop()
    gateways = Gateways(shared_redis, loop)
    with gateways.one, gateways.other:
        yield gateways
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def numbers(answer: Answer) -> list[int]:
    return [frame["sequence_number"] for frame in answer.frames]


@pytest.mark.parametrize("after", [None, 0, 1])
def test_a_background_response_is_streamed_elsewhere_before_the_model_answers(
    gateways: Gateways, after: int | None
) -> None:
    gateways.parts = [HELLO, STOP]
    query = "?stream=true" + ("" if after is None else f"&starting_after={after}")

    async def run() -> tuple[Answer, Json]:
        id_ = (await gateways.post(background=True)).json["id"]
        streaming = asyncio.create_task(gateways.get(gateways.other, id_ + query))
        await asyncio.sleep(0.4)
        assert not streaming.done()
        gateways.before.set()
        answer = await asyncio.wait_for(streaming, 10)
        return answer, (await gateways.get(gateways.one, id_)).json

    answer, stored = gateways.loop.run_until_complete(run())
    first = 0 if after is None else after + 1
    assert (answer.status, numbers(answer)) == (200, list(range(first, first + len(answer.frames))))
    last = answer.frames[-1]
    assert last["type"] == "response.completed" and last["response"] == stored
    assert stored["completed_at"] and stored["usage"]["output_tokens"] > 0


def test_the_last_event_elsewhere_has_the_stored_response(gateways: Gateways) -> None:
    hold = asyncio.Event()
    gateways.parts = [HELLO, hold, STOP]
    gateways.before.set()

    async def run() -> tuple[Answer, Json]:
        id_ = (await gateways.post(background=True)).json["id"]
        while (await gateways.get(gateways.other, id_)).json["status"] != "in_progress":
            pass
        streaming = asyncio.create_task(gateways.get(gateways.other, f"{id_}?stream=true"))
        await asyncio.sleep(0.2)
        hold.set()
        answer = await asyncio.wait_for(streaming, 10)
        return answer, (await gateways.get(gateways.one, id_)).json

    answer, stored = gateways.loop.run_until_complete(run())
    assert answer.frames[-1]["response"] == stored
    assert stored["status"] == "completed" and stored["completed_at"] and stored["usage"]


def test_a_response_in_the_foreground_is_read_and_cancelled_elsewhere(gateways: Gateways) -> None:
    gateways.parts = [HELLO, asyncio.Event()]
    gateways.before.set()

    async def run() -> None:
        streaming = asyncio.create_task(gateways.post(stream=True))
        id_ = await gateways.find_id()
        while (await gateways.get(gateways.other, id_)).status == 404:
            await asyncio.sleep(0.01)
        assert (await gateways.get(gateways.other, id_)).json["status"] == "in_progress"
        cancelled = await gateways.get(gateways.other, f"{id_}/cancel", "POST")
        assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
        frames = (await asyncio.wait_for(streaming, 10)).frames
        assert frames[-1]["type"] == "response.failed" and frames[-1]["response"]["status"] == "cancelled"
        for gateway in (gateways.one, gateways.other):
            assert (await gateways.get(gateway, id_)).json == frames[-1]["response"]

    gateways.loop.run_until_complete(run())


@pytest.mark.parametrize("background", [False, True])
def test_a_failure_is_stored_before_it_is_announced(gateways: Gateways, background: bool) -> None:
    gateways.parts = [HELLO, FAILURE]
    gateways.before.set()

    async def run() -> None:
        for _ in range(10):
            answer = await gateways.post(stream=True, background=background)
            last = answer.frames[-1]
            assert last["type"] == "response.failed" and last["response"]["store"] is True
            stored = await gateways.get(gateways.other, last["response"]["id"])
            assert stored.json == last["response"]

    gateways.loop.run_until_complete(run())


def test_a_cancelled_background_response_is_streamed(gateways: Gateways) -> None:
    gateways.parts = [HELLO, asyncio.Event()]
    gateways.before.set()

    async def run() -> None:
        id_ = (await gateways.post(background=True)).json["id"]
        while (await gateways.get(gateways.one, id_)).json["status"] != "in_progress":
            pass
        cancelled = (await gateways.get(gateways.one, f"{id_}/cancel", "POST")).json
        for gateway in (gateways.one, gateways.other):
            answer = await gateways.get(gateway, f"{id_}?stream=true")
            assert (answer.status, numbers(answer)) == (200, list(range(len(answer.frames))))
            assert answer.frames[-1]["response"] == cancelled and cancelled["status"] == "cancelled"
            rest = await gateways.get(gateway, f"{id_}?stream=true&starting_after=1")
            assert [(frame["type"], frame.get("response")) for frame in rest.frames] == [
                ("error", None),
                ("response.failed", cancelled),
            ]
            past = await gateways.get(gateway, f"{id_}?stream=true&starting_after={rest.frames[1]['sequence_number']}")
            assert (past.status, past.body) == (200, b"")

    gateways.loop.run_until_complete(run())
