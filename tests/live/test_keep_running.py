"""What goes on, and what ends, when a client has disconnected, and how it resumes the reply."""

import asyncio

import pytest

from tests.live.gateway import DONE, end, eventually, say
from tests.live.raw_client import DEADLINE_SECONDS, calling
from tests.live.resuming_client import (
    QUESTION,
    SOON,
    caching,
    cancel,
    come_back,
    endless,
    fetch,
    first_frames,
    gated,
    known,
    reply_id,
    resumed,
    split_frames,
    started,
    starting,
    whole,
)
from tests.redis_server import RedisServer
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio


async def test_a_call_without_readers_is_cancelled(url: str) -> None:
    async with ScriptedServer(Reply([say("One"), asyncio.Event()])) as upstream, caching(upstream, url) as gateway:
        async with calling(gateway.address) as caller:
            id_, got = await starting(caller)
        async with asyncio.timeout(SOON):
            await upstream.connections[0].closed.wait()
        (last,) = await resumed(gateway, id_, len(got))
        assert b"event: response.failed" in last
        assert b'"code":"cancelled"' in last


async def test_an_aborted_call_ends_everywhere_with_the_same_error(shared_redis: RedisServer) -> None:
    async with ScriptedServer(Reply([say("One"), asyncio.Event()])) as upstream:
        async with caching(upstream, shared_redis.url) as one, caching(upstream, shared_redis.url) as other:
            async with calling(one.address) as caller:
                id_, got = await starting(caller)
                await known(other, id_)
            await upstream.connections[0].closed.wait()
            ends = [await resumed(gateway, id_, len(got)) for gateway in (one, other)]
    assert len(ends[0]) == 1
    assert ends[0] == ends[1]


async def test_a_call_may_outlive_its_caller(url: str) -> None:
    gate = asyncio.Event()
    script = Reply([say("One"), gate, say(" two"), end(), DONE], chunked=True)
    async with ScriptedServer(script) as upstream, caching(upstream, url) as gateway:
        async with calling(gateway.address) as caller:
            id_, got = await starting(caller, cancel_on_disconnect=False)
        await eventually(lambda: not gateway.context.replies.active)
        gate.set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not upstream.connections[0].finished:
                await asyncio.sleep(0.002)
        rest = await resumed(gateway, id_, len(got))
        assert b'" two"' in rest[0]
        assert b"event: response.completed" in rest[-1]
        assert len(upstream.requests) == 1


async def test_a_call_waits_some_seconds_for_a_client_that_resumes(url: str) -> None:
    gate = asyncio.Event()
    async with ScriptedServer(gated(gate)) as upstream, caching(upstream, url) as gateway:
        async with calling(gateway.address) as caller:
            id_, got = await starting(caller, cancel_on_disconnect=30)
        await eventually(lambda: not gateway.context.replies.active)
        async with calling(gateway.address) as again:
            assert await come_back(again, id_, len(got)) == 200
            gate.set()
            rest = split_frames(await again.rest())
        assert b'" two"' in rest[0]
        assert b"event: response.completed" in rest[-1]


@pytest.mark.parametrize("how", ["time", "DELETE"])
async def test_a_call_that_waits_for_its_client_is_cancelled(url: str, how: str) -> None:
    async with ScriptedServer(endless()) as upstream, caching(upstream, url) as gateway:
        async with calling(gateway.address) as caller:
            id_ = await started(caller, cancel_on_disconnect=0.1 if how == "time" else 30)
        await eventually(lambda: not gateway.context.replies.active)
        assert not upstream.connections[0].closed.is_set()
        if how == "DELETE":
            assert (await cancel(gateway, id_))[1]["cancelled"]
        async with asyncio.timeout(DEADLINE_SECONDS):
            await upstream.connections[0].closed.wait()


async def test_a_client_that_resumed_at_another_gateway_has_the_same_time_to_come_back(
    shared_redis: RedisServer,
) -> None:
    gate = asyncio.Event()
    url = shared_redis.url
    async with ScriptedServer(gated(gate)) as upstream, caching(upstream, url) as one, caching(upstream, url) as other:
        async with calling(one.address) as caller:
            id_, got = await starting(caller, cancel_on_disconnect=1)
            await known(other, id_)
        async with calling(other.address) as again:
            assert await come_back(again, id_, 0) == 200
            assert await first_frames(again, len(got)) == got
            await asyncio.sleep(1.2)  # the first time is over, but there is a reader
        await asyncio.sleep(0.3)
        gate.set()
        assert b"event: response.completed" in (await resumed(one, id_, len(got)))[-1]
        assert len(upstream.requests) == 1


async def test_a_caller_who_resumes_at_another_gateway_keeps_the_call_alive(shared_redis: RedisServer) -> None:
    gate = asyncio.Event()
    script = Reply([say("One"), gate, say(" two"), end(), DONE], chunked=True)
    async with ScriptedServer(script) as upstream, caching(upstream, shared_redis.url) as one:
        async with caching(upstream, shared_redis.url) as other, calling(other.address) as again:
            async with calling(one.address) as caller:
                id_, got = await starting(caller)
                await known(other, id_)
                assert await come_back(again, id_, 0) == 200
                assert await first_frames(again, len(got)) == got
            await eventually(lambda: not one.context.replies.active)
            gate.set()
            assert b"event: response.completed" in split_frames(await again.rest())[-1]
        assert len(upstream.requests) == 1


@pytest.mark.parametrize("where", ["memory:", "redis"])
async def test_a_reply_from_the_cache_can_be_resumed(where: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("shared_redis").url if where == "redis" else where
    usage = b'data: {"choices":[],"usage":{"total_tokens":7}}\n\n'
    script = Reply([say("One"), say(" two"), end(), usage, DONE], chunked=True)
    async with ScriptedServer(script) as upstream, caching(upstream, url) as one, caching(upstream, url) as other:
        _, first = await whole(one)
        id_, frames = await whole(one)
        assert b'"cached":true' in frames[0]
        assert len(frames) == len(first)
        for gateway in (one, other) if where == "redis" else (one,):
            await known(gateway, id_)
            for count in range(len(frames) + 1):
                assert await resumed(gateway, id_, count) == frames[count:]
        assert len(upstream.requests) == 1


async def test_a_shared_reply_can_be_resumed_when_all_others_have_left(url: str) -> None:
    gate = asyncio.Event()
    script = Reply([say("One"), gate, say(" two"), end(), DONE], chunked=True)
    where = "memory:" if url == "null:" else url
    async with ScriptedServer(script) as upstream, caching(upstream, where) as gateway:
        async with calling(gateway.address) as first, calling(gateway.address) as second:
            await starting(first)
            id_, got = await starting(second, cancel_on_disconnect=False)
            assert second.headers["x-parley-cache"] == "shared"
        await eventually(lambda: not gateway.context.replies.active)
        async with calling(gateway.address) as caller:
            assert await come_back(caller, id_, len(got)) == 200
            gate.set()
            rest = split_frames(await caller.rest())
        assert b'" two"' in rest[0]
        assert b"event: response.completed" in rest[-1]
        assert len(upstream.requests) == 1


async def test_a_replaced_cache_entry_is_not_resumed_as_another_reply(shared_redis: RedisServer) -> None:
    def script(word: str) -> Reply:
        return Reply([say("One"), say(word), end(), DONE], chunked=True)

    url = shared_redis.url
    async with ScriptedServer(script("old"), script("new")) as upstream, caching(upstream, url) as one:
        await whole(one)
        id_, frames = await whole(one)
        assert b"old" in b"".join(frames)
        async with caching(upstream, url) as other:
            await whole(one, cache={"mode": "refresh"})
            await eventually(lambda: not one.context.cache.storing)
            assert await resumed(one, id_, 1) == frames[1:]
            await known(other, id_)
            assert (await fetch(other, "GET", f"/v1/chat/{id_}/events"))[0] == 404
        assert len(upstream.requests) == 2


async def test_a_stream_that_failed_before_the_first_word_fails_again_as_a_stream() -> None:
    hold = asyncio.Event()
    refused = Reply([b"{}"], status=400, headers={"content-length": "2"}, hold=hold)
    async with ScriptedServer(refused) as upstream, caching(upstream, server={"commit_seconds": 0.05}) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask(QUESTION)
            assert await caller.head() == 200
            hold.set()
            frames, id_ = split_frames(await caller.rest()), reply_id(caller)
        assert [frame.split(b"\n")[1] for frame in frames] == [b"event: response.started", b"event: response.failed"]
        for count in range(3):
            assert await resumed(gateway, id_, count) == frames[count:]
