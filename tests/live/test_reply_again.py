"""A reply that is had again whole by its id, and a stream that was read to its end."""

import asyncio
import json
from typing import Any

import pytest

from tests.live.gateway import Gateway
from tests.live.raw_client import DEADLINE_SECONDS, calling
from tests.live.resuming_client import (
    FIRST,
    LAST,
    SECOND,
    caching,
    come_back,
    fetch,
    gated,
    known,
    resumed,
    started,
    whole,
)
from tests.redis_server import RedisServer
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

FULL = Reply([*FIRST, *SECOND, *LAST], chunked=True)


async def read(gateway: Gateway, id_: str, **headers: str) -> tuple[int, Any]:
    status, raw = await fetch(gateway, "GET", f"/v1/chat/{id_}", **headers)
    return status, json.loads(raw)


async def test_a_reply_is_read_whole_in_the_format_of_its_request(url: str) -> None:
    async with ScriptedServer(FULL) as upstream, caching(upstream, url) as gateway:
        id_, _ = await whole(gateway)
        await known(gateway, id_)
        status, body = await read(gateway, id_)
        assert (status, body["response_id"], body["finish_reason"]) == (200, id_, "tool_calls")
        kinds = [(one.get("reasoning_content"), one["content"]) for one in body["messages"][:2]]
        assert kinds == [("Let me see.", ""), (None, "One, two \u00fc and \U0001f600.")]
        id_, _ = await whole(gateway, reply_format="openai")
        status, body = await read(gateway, id_)
        assert (status, body["object"], body["choices"][0]["finish_reason"]) == (200, "chat.completion", "tool_calls")


async def test_a_reply_that_is_still_coming_is_202_with_the_time_to_come_back() -> None:
    gate = asyncio.Event()
    async with ScriptedServer(gated(gate)) as upstream, caching(upstream, "null:") as gateway:
        async with calling(gateway.address) as caller:
            id_ = await started(caller)
            assert await read(gateway, id_) == (202, {"response_id": id_, "status": "in_progress"})
            gate.set()
            await caller.rest()
        status, body = await read(gateway, id_)
        assert (status, body["messages"][0]["content"]) == (200, "One two")


async def test_who_waits_for_the_reply_of_another_gateway_does_not_follow_it(shared_redis: RedisServer) -> None:
    gate, url = asyncio.Event(), shared_redis.url
    async with ScriptedServer(gated(gate)) as upstream, caching(upstream, url) as one, caching(upstream, url) as other:
        async with calling(one.address) as caller:
            id_ = await started(caller)
            await known(other, id_)
            for _ in range(3):
                assert await read(other, id_) == (202, {"response_id": id_, "status": "in_progress"})
            assert other.context.cache.calls == 0
            gate.set()
            await caller.rest()
        async with asyncio.timeout(DEADLINE_SECONDS):
            while (answer := await read(other, id_))[0] == 202:
                await asyncio.sleep(0.01)
        assert (answer[0], answer[1]["messages"][0]["content"]) == (200, "One two")


async def test_the_reply_of_another_caller_is_not_there_and_neither_is_an_unknown_one() -> None:
    async with ScriptedServer(FULL) as upstream, caching(upstream, "null:", scope="caller") as gateway:
        id_, _ = await whole(gateway)
        assert (await read(gateway, id_))[0] == 200
        for status, body in (await read(gateway, id_, authorization="Bearer b"), await read(gateway, "chat-0")):
            assert (status, body["error"]["code"]) == (404, "not_found")
            assert "send the request again" in body["error"]["message"]


async def test_a_stream_that_was_read_to_its_end_is_204_when_it_is_resumed(url: str) -> None:
    async with ScriptedServer(FULL) as upstream, caching(upstream, url) as gateway:
        id_, frames = await whole(gateway)
        await known(gateway, id_)
        for after in (len(frames), len(frames) + 1, 10**14):
            async with calling(gateway.address) as caller:
                assert await come_back(caller, id_, after) == 204
        assert await resumed(gateway, id_, len(frames) - 1) == frames[-1:]


async def test_a_failed_reply_of_which_the_client_has_more_is_not_found(url: str) -> None:
    """Not 204, which says that nothing is missing: another gateway may have lost the end of a call that was cut off."""
    async with ScriptedServer(Reply([*FIRST, *SECOND], chunked=True)) as upstream, caching(upstream, url) as gateway:
        id_, frames = await whole(gateway)
        await known(gateway, id_)
        for after, expected in ((len(frames), 204), (len(frames) + 1, 404), (10**14, 404)):
            async with calling(gateway.address) as caller:
                assert await come_back(caller, id_, after) == expected


async def test_a_path_of_a_reply_says_which_methods_it_takes() -> None:
    async with ScriptedServer(FULL) as upstream, caching(upstream, "null:") as gateway:
        status, raw = await fetch(gateway, "PUT", "/v1/chat/x")
        assert (status, json.loads(raw)["error"]["message"]) == (405, "/v1/chat/x accepts GET, DELETE, not PUT")
