"""`DELETE /v1/chat/{response_id}`: the reply ends as cancelled, and its call with it, unless others listen."""

import asyncio
import json

import pytest
from app.formats import FORMATS

from tests.live.gateway import DONE, end, eventually, say
from tests.live.raw_client import calling
from tests.live.resuming_client import (
    QUESTION,
    caching,
    cancel,
    closed,
    come_back,
    endless,
    fetch,
    first_frames,
    gated,
    reply_id,
    split_frames,
    started,
)
from tests.redis_server import store_url
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory:", "redis"])
def url(request: pytest.FixtureRequest) -> str:
    return store_url(request)


async def test_a_cancelled_stream_ends_with_that_failure_and_nothing_is_kept(url: str) -> None:
    script = Reply([say("One"), end(), DONE], chunked=True)
    async with ScriptedServer(*[endless(), script] * len(FORMATS)) as upstream, caching(upstream, url) as gateway:
        for name in FORMATS:
            async with calling(gateway.address) as caller:
                id_ = await started(caller, reply_format=name, model=name)
                assert await cancel(gateway, id_) == (200, {"response_id": id_, "cancelled": True})
                last = b"".join(split_frames(await caller.rest()))
                await closed(upstream, -1)
            assert b"cancelled" in last
            last = last.replace(b'"completed_at":null', b"")
            assert not any(word in last for word in (b"stop", b"completed", b"[DONE]")), name
            status, error = await cancel(gateway, id_)
            assert (status, error["error"]["code"]) == (404, "not_found")
            assert (await fetch(gateway, "GET", f"/v1/chat/{id_}/events"))[0] == 404
            async with calling(gateway.address) as caller:
                await caller.reply(QUESTION, model=name)
                assert caller.headers["x-parley-cache"] == "miss"


async def test_a_cancelled_reply_ends_as_failures_do() -> None:
    async with ScriptedServer(endless()) as upstream, caching(upstream) as gateway:
        async with calling(gateway.address) as caller:
            await cancel(gateway, await started(caller))
            (last,) = split_frames(await caller.rest())
    error = json.loads(last.split(b"data: ")[1])["error"]
    expected = {"code": "cancelled", "status": 409, "retryable": False, "param": None, "request_id": "r1"}
    assert expected.items() <= error.items()


async def test_other_callers_of_a_shared_call_get_it_to_its_end(url: str) -> None:
    gate = asyncio.Event()
    async with ScriptedServer(gated(gate)) as upstream, caching(upstream, url) as gateway:
        async with calling(gateway.address) as first, calling(gateway.address) as second:
            id_ = await started(first)
            await started(second)
            assert second.headers["x-parley-cache"] == "shared"
            await cancel(gateway, id_)
            assert b'"code":"cancelled"' in split_frames(await first.rest())[-1]
            gate.set()
            assert b"event: response.completed" in split_frames(await second.rest())[-1]
        assert len(upstream.requests) == 1


async def test_a_call_that_outlives_its_caller_can_be_cancelled(url: str) -> None:
    async with ScriptedServer(endless()) as upstream, caching(upstream, url) as gateway:
        async with calling(gateway.address) as caller:
            id_ = await started(caller, cancel_on_disconnect=False)
        await eventually(lambda: not gateway.context.replies.active)
        assert not upstream.connections[0].closed.is_set()
        assert await cancel(gateway, id_) == (200, {"response_id": id_, "cancelled": True})
        await closed(upstream)


async def test_a_caller_who_resumed_the_reply_gets_the_same_end(url: str) -> None:
    async with ScriptedServer(endless()) as upstream, caching(upstream, url) as gateway:
        async with calling(gateway.address) as caller, calling(gateway.address) as again:
            id_ = await started(caller)
            await come_back(again, id_, 1)
            await first_frames(again, 2)
            await cancel(gateway, id_)
            await closed(upstream)
            ends = [split_frames(await one.rest())[-1] for one in (caller, again)]
        assert b'"code":"cancelled"' in ends[0]
        assert ends[0] == ends[1]


async def test_a_reply_can_be_cancelled_before_its_first_word(url: str) -> None:
    silent = Reply(hold=asyncio.Event())
    async with ScriptedServer(silent) as upstream, caching(upstream, url, server={"commit_seconds": 0.05}) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask(QUESTION)
            await caller.head()
            assert (await cancel(gateway, reply_id(caller)))[1]["cancelled"]
            await closed(upstream)
            frames = split_frames(await caller.rest())
    assert len(frames) == 2
    assert b'"code":"cancelled"' in frames[1]


async def test_a_reply_that_has_ended_is_forgotten_and_stays_in_the_cache(url: str) -> None:
    script = Reply([say("One"), end(), DONE], chunked=True)
    async with ScriptedServer(script) as upstream, caching(upstream, url) as gateway:
        async with calling(gateway.address) as caller:
            await caller.reply(QUESTION)
            id_ = reply_id(caller)
            assert await cancel(gateway, id_) == (200, {"response_id": id_, "cancelled": False})
            assert (await fetch(gateway, "GET", f"/v1/chat/{id_}/events"))[0] == 404
            assert (await cancel(gateway, id_))[0] == 404
            await caller.reply(QUESTION)
            assert caller.headers["x-parley-cache"] == "hit"


async def test_a_reply_is_there_to_be_read_and_deleted_and_nothing_else() -> None:
    async with ScriptedServer() as upstream, caching(upstream) as gateway:
        async with calling(gateway.address) as caller:
            await caller.say(b"PUT /v1/chat/chat-1 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert await caller.head() == 405
            assert caller.headers["allow"] == "GET, DELETE"
        async with calling(gateway.address) as caller:
            await caller.say(b"DELETE /v1/chat/chat-1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert await caller.head() == 405
            assert caller.headers["allow"] == "GET"
