"""What a request leaves behind goes at once: pauses for collecting garbage would be everybody's."""

import asyncio
import gc
import json
from collections.abc import Iterator
from typing import Any

import pytest
from app.config.settings import Settings
from app.formats import FORMATS

from tests.live.gateway import DONE, Gateway, end, eventually, say, serving_with, settings
from tests.live.raw_client import Caller, calling
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

SCRIPT = Reply([say("<think>Hm</think>Hel"), say("lo"), end(), DONE], chunked=True)
NO_STORE = "cache-control: no-store\r\n"
"""Such a reply is read from its call directly, not from a log of its events."""
MANY = 10


@pytest.fixture
def saved() -> Iterator[list[Any]]:
    """What only a collection finds."""
    yield gc.garbage
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def save_garbage() -> None:
    """What was there before is not searched: it is more than all that comes after."""
    gc.disable()
    gc.freeze()
    gc.set_debug(gc.DEBUG_SAVEALL)


def assert_no_garbage(saved: list[Any]) -> None:
    """Of many requests, none may have left anything."""
    gc.collect()
    ours = [one for one in saved if type(one).__module__.partition(".")[0] == "app"]
    assert len(ours) < MANY, {type(one).__qualname__ for one in ours}


def caching(url: str, upstream: ScriptedServer) -> Settings:
    plan = settings(upstream.url, {}, {})
    return plan.model_copy(update={"cache": plan.cache.model_copy(update={"url": url, "resume_seconds": 0})})


@pytest.mark.parametrize("mode", ["whole", "delta", "snapshot"])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("url", "headers"), [("null:", ""), ("memory:", ""), ("memory:", NO_STORE)])
async def test_no_reply_waits_for_the_garbage_collector(
    url: str, headers: str, form: str, mode: str, saved: list[Any]
) -> None:
    asking: dict[str, Any] = {"model": "m", "reply_format": form, "stream": mode != "whole"}
    if mode != "whole":
        asking["stream_mode"] = mode
    async with ScriptedServer(SCRIPT) as upstream:
        async with serving_with(caching(url, upstream)) as gateway, calling(gateway.address) as caller:
            caller.more_headers = headers
            await caller.reply(**asking)  # what is made with the first request stays
            await eventually(gateway.quiet)
            save_garbage()
            for number in range(MANY):
                await caller.reply({"messages": [{"role": "user", "content": f"{number}"}]}, **asking)
            await eventually(gateway.quiet)
            assert_no_garbage(saved)


@pytest.mark.parametrize("stream", [False, True])
async def test_no_response_of_openai_waits_for_the_garbage_collector(stream: bool, saved: list[Any]) -> None:
    async with ScriptedServer(SCRIPT) as upstream, serving_with(caching("memory:", upstream)) as gateway:
        async with calling(gateway.address) as caller:
            await ask_for_response(caller, "first", stream)
            await eventually(gateway.quiet)
            save_garbage()
            for number in range(MANY):
                await ask_for_response(caller, f"{number}", stream)
            await eventually(gateway.quiet)
            assert_no_garbage(saved)


async def ask_for_response(caller: Caller, text: str, stream: bool) -> None:
    data = json.dumps({"model": "m", "input": text, "stream": stream}).encode()
    head = f"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\n{NO_STORE}content-length: {len(data)}\r\n\r\n"
    await caller.say(head.encode() + data)
    assert await caller.head() == 200
    await caller.rest()


@pytest.mark.parametrize("headers", ["", NO_STORE], ids=["kept", "not kept"])
@pytest.mark.parametrize(
    ("reply", "stream", "leaves"),
    [
        pytest.param(Reply([say("a"), asyncio.Event()], chunked=True), True, True, id="the client leaves"),
        pytest.param(Reply([say("a"), asyncio.Event()], chunked=True), False, True, id="the client leaves early"),
        pytest.param(Reply(hold=asyncio.Event()), False, True, id="the client leaves before the model answers"),
        pytest.param(Reply([say("a")], chunked=True, abrupt=True), True, False, id="the reply is cut off"),
        pytest.param(Reply([b"no"], status=500), False, False, id="the model server fails"),
    ],
)
async def test_no_request_that_fails_waits_for_the_garbage_collector(
    reply: Reply, stream: bool, leaves: bool, headers: str, saved: list[Any]
) -> None:
    async with ScriptedServer(reply) as upstream, serving_with(caching("memory:", upstream)) as gateway:
        await ask_and_close(gateway, upstream, "first", stream=stream, leaves=leaves, headers=headers)
        await eventually(gateway.quiet)
        save_garbage()
        for number in range(MANY):
            await ask_and_close(gateway, upstream, f"{number}", stream=stream, leaves=leaves, headers=headers)
        await eventually(gateway.quiet)
        assert_no_garbage(saved)


async def ask_and_close(
    gateway: Gateway, upstream: ScriptedServer, text: str, *, stream: bool, leaves: bool, headers: str
) -> None:
    """Ask on a connection of its own. Who leaves does so as soon as the model server has the request, or, with
    `stream`, has begun to answer."""
    asked = len(upstream.requests)
    async with calling(gateway.address) as caller:
        caller.more_headers = headers
        await caller.ask({"messages": [{"role": "user", "content": text}]}, stream=stream)
        if not leaves:
            await caller.head()
            await caller.rest()
        elif stream:
            await caller.head()
            await caller.write()
        else:
            await upstream.request(asked + 1)
