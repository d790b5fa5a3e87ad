"""Who may come back for a reply and until when, and what goes on, or ends, when its caller has left."""

import asyncio
import json
import random
import string
from typing import Any

import pytest

from tests.live.gateway import DONE, end, eventually, say
from tests.live.raw_client import calling
from tests.live.resuming_client import (
    QUESTION,
    SOON,
    caching,
    fetch,
    known,
    reply_id,
    resumed,
    split_frames,
    starting,
    whole,
)
from tests.redis_server import RedisServer
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio


def error_of(raw: bytes) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(raw)["error"]
    return error


async def test_an_unknown_reply_is_reported_as_unknown(url: str) -> None:
    async with ScriptedServer() as upstream, caching(upstream, url) as gateway:
        status, raw = await fetch(gateway, "GET", "/v1/chat/chat-0/events", x_request_id="r7")
        error = error_of(raw)
    assert (status, error.pop("message")) == (
        404,
        "there is no reply 'chat-0', or it ended too long ago: send the request again",
    )
    split_frames = {"code": "not_found", "param": None, "status": 404, "retryable": False, "request_id": "r7"}
    assert error == split_frames


async def test_what_is_no_number_of_a_frame_is_refused(url: str) -> None:
    async with ScriptedServer(Reply([say("One"), end(), DONE])) as upstream, caching(upstream, url) as gateway:
        id_, _ = await whole(gateway)
        for after in ["", "x", "-1", "1.0", "+1", "1%20", "%D9%A1", "1" * 16]:
            status, raw = await fetch(gateway, "GET", f"/v1/chat/{id_}/events?after={after}")
            assert (status, error_of(raw)["code"], error_of(raw)["param"]) == (422, "invalid_request", "after"), after


async def test_a_number_that_is_refused_leaves_no_listener_behind(shared_redis: RedisServer) -> None:
    script = Reply([say("One"), asyncio.Event()])
    async with ScriptedServer(script) as upstream, caching(upstream, shared_redis.url) as one:
        async with caching(upstream, shared_redis.url) as other:
            async with calling(one.address) as caller:
                id_, _ = await starting(caller)
                await known(other, id_)
                for path in (f"/v1/chat/{id_}/events?after=x",):
                    assert (await fetch(other, "GET", path))[0] == 422
                assert other.quiet()
            async with asyncio.timeout(SOON):
                await upstream.connections[0].closed.wait()


async def test_a_header_that_is_no_number_is_refused() -> None:
    async with ScriptedServer(Reply([say("One"), end(), DONE])) as upstream, caching(upstream) as gateway:
        id_, _ = await whole(gateway)
        status, raw = await fetch(gateway, "GET", f"/v1/chat/{id_}/events", last_event_id="x")
    assert (status, error_of(raw)["param"]) == (422, "Last-Event-ID")


async def test_a_reply_of_another_caller_is_unknown(shared_redis: RedisServer) -> None:
    gate = asyncio.Event()
    script = Reply([say("One"), gate, end(), DONE], chunked=True)
    redis = shared_redis.url
    async with ScriptedServer(script) as upstream, caching(upstream, redis, scope="caller") as one:
        async with caching(upstream, redis, scope="caller") as other, calling(one.address) as caller:
            data = json.dumps({**QUESTION, "stream": True}).encode()
            mine = "authorization: Bearer mine\r\n"
            head = f"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\n{mine}content-length: {len(data)}\r\n\r\n"
            await caller.say(head.encode() + data)
            await caller.head()
            id_ = reply_id(caller)
            await known(other, id_)
            for gateway in (one, other):
                path = f"/v1/chat/{id_}"
                theirs: list[dict[str, str]] = [{}, {"authorization": "Bearer theirs"}]
                for headers in theirs:
                    unknown = error_of((await fetch(gateway, "GET", "/v1/chat/no/events", **headers))[1])
                    status, raw = await fetch(gateway, "GET", f"{path}/events", x_request_id="r", **headers)
                    error = error_of(raw)
                    assert (status, error["code"]) == (404, "not_found")
                    assert error["message"].replace(id_, "no") == unknown["message"]
                    assert (await fetch(gateway, "DELETE", path, **headers))[0] == 404
            assert other.quiet()
            gate.set()
            rest = split_frames(await caller.rest())
            assert b"event: response.completed" in rest[-1]
            frames = await resumed(other, id_, authorization="Bearer mine")
            assert frames[-1] == rest[-1]


async def test_a_reply_is_forgotten_some_time_after_its_end() -> None:
    gate = asyncio.Event()
    script = Reply([say("One"), gate, end(), DONE], chunked=True)
    async with ScriptedServer(script) as upstream, caching(upstream, resume_seconds=0.2) as gateway:
        gateway.context.replies.resumable.sweep_seconds = 0.01
        async with calling(gateway.address) as caller:
            id_, _ = await starting(caller)
            await asyncio.sleep(0.4)  # as long as it comes, it does not matter how long
            assert gateway.context.replies.resumable.find(id_)
            gate.set()
            await caller.rest()
        assert (await resumed(gateway, id_))[-1].startswith(b"id:")
        await eventually(lambda: not len(gateway.context.replies.resumable))
        assert (await fetch(gateway, "GET", f"/v1/chat/{id_}/events"))[0] == 404


async def test_of_more_than_may_be_kept_the_oldest_are_forgotten() -> None:
    text = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=2500))  # it packs badly
    script = Reply([say(text), end(), DONE], chunked=True)
    async with ScriptedServer(script) as upstream, caching(upstream, "null:", max_resume_bytes=8000) as gateway:
        gateway.context.replies.resumable.sweep_seconds = 0.01
        ids = [(await whole(gateway, generate_cfg={"seed": seed}))[0] for seed in range(4)]
        await eventually(lambda: len(gateway.context.replies.resumable) == 2)
        found = [(await fetch(gateway, "GET", f"/v1/chat/{id_}/events"))[0] for id_ in ids]
    assert found == [404, 404, 200, 200]
