"""`DELETE /v1/chat/{response_id}` where gateways share a Redis: any of them can cancel what any of them gives."""

import asyncio

import pytest

from tests.calls.shared.coordinators import PatientLink
from tests.light_client import light_client
from tests.live.caches import StorageMaker
from tests.live.gateway import DONE, Gateway, end, eventually, say
from tests.live.raw_client import DEADLINE_SECONDS, calling
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
    known,
    reply_id,
    split_frames,
    started,
)
from tests.redis_server import RedisServer
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio


async def ended(one: Gateway, other: Gateway, id_: str) -> None:
    """The other knows that the reply has come to its end."""
    kept = one.context.replies.resumable.find(id_)
    assert kept is not None and kept.source.location is not None
    async with asyncio.timeout(DEADLINE_SECONDS):
        while await other.context.cache.is_running(kept.source.location):
            await asyncio.sleep(0.002)


async def test_any_gateway_can_cancel(shared_redis: RedisServer) -> None:
    url = shared_redis.url
    async with ScriptedServer(endless()) as upstream, caching(upstream, url) as one, caching(upstream, url) as other:
        async with calling(one.address) as caller:
            id_ = await started(caller)
            await known(other, id_)
            assert await cancel(other, id_) == (200, {"response_id": id_, "cancelled": True})
            await closed(upstream)
            assert b'"code":"cancelled"' in split_frames(await caller.rest())[-1]
        for gateway in (one, other):
            assert (await cancel(gateway, id_))[0] == 404
            assert (await fetch(gateway, "GET", f"/v1/chat/{id_}/events"))[0] == 404


async def test_a_caller_who_resumed_at_another_gateway_gets_the_same_end(shared_redis: RedisServer) -> None:
    gate, url = asyncio.Event(), shared_redis.url
    async with ScriptedServer(gated(gate)) as upstream, caching(upstream, url) as one, caching(upstream, url) as other:
        async with calling(one.address) as caller, calling(other.address) as again:
            id_ = await started(caller)
            await known(other, id_)
            assert await come_back(again, id_, 0) == 200
            await first_frames(again, 3)
            await cancel(one, id_)
            ends = [split_frames(await reader.rest())[-1] for reader in (caller, again)]
        assert b'"code":"cancelled"' in ends[0]
        assert ends[0] == ends[1]
        gate.set()  # gateways count who listens elsewhere as listening for some seconds more


async def test_what_another_gateway_shares_of_the_call_goes_on(shared_redis: RedisServer) -> None:
    gate, url = asyncio.Event(), shared_redis.url
    async with ScriptedServer(gated(gate)) as upstream, caching(upstream, url) as one, caching(upstream, url) as other:
        async with calling(one.address) as first, calling(other.address) as second:
            id_ = await started(first)
            await started(second)
            assert second.headers["x-parley-cache"] == "shared"
            assert (await cancel(other, id_))[1]["cancelled"]
            assert b'"code":"cancelled"' in split_frames(await first.rest())[-1]
            gate.set()
            assert b"event: response.completed" in split_frames(await second.rest())[-1]
        assert len(upstream.requests) == 1


async def test_a_call_that_only_another_gateway_follows_is_stored_where_it_is_made(shared_redis: RedisServer) -> None:
    gate, url = asyncio.Event(), shared_redis.url
    async with ScriptedServer(gated(gate)) as upstream, caching(upstream, url) as one, caching(upstream, url) as other:
        async with calling(other.address) as second:
            async with calling(one.address) as first:
                await started(first, model="m")
                await started(second, model="m")
            await eventually(lambda: one.context.cache.calls_without_caller == 1)
            gate.set()
            assert b"event: response.completed" in split_frames(await second.rest())[-1]
        await eventually(lambda: not one.context.cache.storing and not other.context.cache.storing)
        stats = await one.context.cache.stats()
        assert stats.entries == 1
        assert len(upstream.requests) == 1


async def test_a_reply_that_ended_elsewhere_is_forgotten_there(shared_redis: RedisServer) -> None:
    script, url = Reply([say("One"), end(), DONE], chunked=True), shared_redis.url
    async with ScriptedServer(script) as upstream, caching(upstream, url) as one, caching(upstream, url) as other:
        async with calling(one.address) as caller:
            await caller.reply(QUESTION)
            id_ = reply_id(caller)
        await known(other, id_)
        await ended(one, other, id_)
        assert await cancel(other, id_) == (200, {"response_id": id_, "cancelled": False})
        await eventually(lambda: one.context.replies.resumable.find(id_) is None)


async def test_without_redis_a_reply_can_be_cancelled_at_its_own_gateway(own_redis: RedisServer) -> None:
    async with ScriptedServer(endless()) as upstream, caching(upstream, own_redis.url) as gateway:
        async with calling(gateway.address) as caller:
            id_ = await started(caller)
            own_redis.kill()
            assert await cancel(gateway, id_) == (200, {"response_id": id_, "cancelled": True})
            assert b'"code":"cancelled"' in split_frames(await caller.rest())[-1]


async def test_gateways_cancel_each_others_replies_again_once_redis_is_back(own_redis: RedisServer) -> None:
    maker = StorageMaker(link_of=PatientLink, retry_seconds=0.01)
    url, links = own_redis.url, maker.links
    async with (
        ScriptedServer(endless()) as upstream,
        caching(upstream, url, open_storage=maker) as one,
        caching(upstream, url, open_storage=maker) as other,
    ):
        own_redis.kill()
        await eventually(lambda: all(link.is_open for link in links))
        await asyncio.to_thread(own_redis.start)
        await eventually(lambda: not any(link.is_open for link in links))
        async with calling(one.address) as caller:
            id_ = await started(caller)
            await known(other, id_)
            assert (await cancel(other, id_))[1]["cancelled"]
            assert b'"code":"cancelled"' in split_frames(await caller.rest())[-1]


async def test_a_response_that_runs_here_is_cancelled_while_redis_is_down(own_redis: RedisServer) -> None:
    async with ScriptedServer(endless()) as upstream, caching(upstream, own_redis.url) as gateway:
        async with light_client(gateway.url) as client:
            fetch = {"model": "m", "input": "Hi", "stream": True}
            async with client.stream("POST", "/v1/responses", json=fetch) as stream:
                id_ = stream.headers["x-parley-response-id"]
                own_redis.kill()
                answer = await client.post(f"/v1/responses/{id_}/cancel")
                assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
                assert '"status":"cancelled"' in (await stream.aread()).decode()
            await closed(upstream)
