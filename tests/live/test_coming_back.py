"""Who may come back for a reply and until when, and what goes on, or ends, when its caller has left."""

import asyncio
import json
from typing import Any

import pytest
from app.api import shelf

from tests.live.caller import Caller, calling
from tests.live.gateway import DONE, Gateway, end, eventually, say
from tests.live.resuming import QUESTION, asked, caching, come_back, first_frames, known, reply_id, resumed, told
from tests.redis_server import RedisServer
from tests.scripted import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

SOON = 0.25
ROOMS = ["null:", "redis"]


@pytest.fixture(params=ROOMS)
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "null:":
        return "null:"
    server: RedisServer = request.getfixturevalue("shared_redis")
    return server.url


@pytest.fixture
def quick_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "SWEEP_SECONDS", 0.01)


async def started(gateway: Gateway, caller: Caller, **more: Any) -> tuple[str, list[bytes]]:
    """The id of a reply of which the first word has come, and its frames so far."""
    await caller.ask(QUESTION, **more)
    assert await caller.head() == 200
    got: list[bytes] = []
    while b"One" not in b"".join(got):
        got += told(await caller.write())
    return reply_id(caller), got


async def whole(gateway: Gateway, **more: Any) -> tuple[str, list[bytes]]:
    async with calling(gateway.address) as caller:
        _, raw = await caller.reply(QUESTION, **more)
        return reply_id(caller), told(raw)


def error_of(raw: bytes) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(raw)["error"]
    return error


async def test_a_call_that_nobody_listens_to_is_given_up(url: str) -> None:
    async with ScriptedServer(Reply([say("One"), asyncio.Event()])) as upstream, caching(upstream, url) as gateway:
        async with calling(gateway.address) as caller:
            id_, got = await started(gateway, caller)
        async with asyncio.timeout(SOON):
            await upstream.connections[0].closed.wait()
        (last,) = await resumed(gateway, id_, len(got))
        assert b"event: response.failed" in last
        assert b'"code":"cancelled"' in last


async def test_a_call_may_outlive_its_caller(url: str) -> None:
    gate = asyncio.Event()
    script = Reply([say("One"), gate, say(" two"), end(), DONE], chunked=True)
    async with ScriptedServer(script) as upstream, caching(upstream, url) as gateway:
        async with calling(gateway.address) as caller:
            id_, got = await started(gateway, caller, cancel_on_disconnect=False)
        await eventually(lambda: not gateway.desk.active)
        gate.set()
        async with asyncio.timeout(2):
            while not upstream.connections[0].finished:
                await asyncio.sleep(0.002)
        rest = await resumed(gateway, id_, len(got))
        assert b'" two"' in rest[0]
        assert b"event: response.completed" in rest[-1]
        assert len(upstream.requests) == 1


async def test_who_comes_back_elsewhere_keeps_the_call_alive(shared_redis: RedisServer) -> None:
    gate = asyncio.Event()
    script = Reply([say("One"), gate, say(" two"), end(), DONE], chunked=True)
    async with ScriptedServer(script) as upstream, caching(upstream, shared_redis.url) as one:
        async with caching(upstream, shared_redis.url) as other, calling(other.address) as again:
            async with calling(one.address) as caller:
                id_, got = await started(one, caller)
                await known(other, id_)
                assert await come_back(again, id_, 0) == 200
                assert await first_frames(again, len(got)) == got
            await eventually(lambda: not one.desk.active)
            gate.set()
            assert b"event: response.completed" in told(await again.rest())[-1]
        assert len(upstream.requests) == 1


async def test_what_is_not_known_is_said_to_be_unknown(url: str) -> None:
    async with ScriptedServer() as upstream, caching(upstream, url) as gateway:
        status, raw = await asked(gateway, "GET", "/v1/chat/chat-0/events", x_request_id="r7")
        error = error_of(raw)
    assert (status, error.pop("message")) == (404, "there is no reply 'chat-0', or it ended too long ago")
    told = {"code": "not_found", "param": None, "status": 404, "retryable": False, "request_id": "r7"}
    assert error == told


@pytest.mark.parametrize("after", ["", "x", "-1", "1.0", "+1", "1 ", "%D9%A1", "1" * 16])
async def test_what_is_no_number_of_a_frame_is_refused(after: str, url: str) -> None:
    async with ScriptedServer(Reply([say("One"), end(), DONE])) as upstream, caching(upstream, url) as gateway:
        id_, _ = await whole(gateway)
        status, raw = await asked(gateway, "GET", f"/v1/chat/{id_}/events?after={after.replace(' ', '%20')}")
    assert (status, error_of(raw)["code"], error_of(raw)["param"]) == (422, "invalid_request", "after")


async def test_a_number_that_is_refused_leaves_no_listener_behind(shared_redis: RedisServer) -> None:
    script = Reply([say("One"), asyncio.Event()])
    async with ScriptedServer(script) as upstream, caching(upstream, shared_redis.url) as one:
        async with caching(upstream, shared_redis.url) as other:
            async with calling(one.address) as caller:
                id_, _ = await started(one, caller)
                await known(other, id_)
                for path in (f"/v1/chat/{id_}/events?after=x",):
                    assert (await asked(other, "GET", path))[0] == 422
                assert other.quiet()
            async with asyncio.timeout(SOON):
                await upstream.connections[0].closed.wait()


async def test_a_header_that_is_no_number_is_refused() -> None:
    async with ScriptedServer(Reply([say("One"), end(), DONE])) as upstream, caching(upstream) as gateway:
        id_, _ = await whole(gateway)
        status, raw = await asked(gateway, "GET", f"/v1/chat/{id_}/events", last_event_id="x")
    assert (status, error_of(raw)["param"]) == (422, "Last-Event-ID")


async def test_somebody_elses_reply_is_unknown(shared_redis: RedisServer) -> None:
    gate = asyncio.Event()
    script = Reply([say("One"), gate, end(), DONE], chunked=True)
    redis = shared_redis.url
    async with ScriptedServer(script) as upstream, caching(upstream, redis, scope="caller") as one:
        async with caching(upstream, redis, scope="caller") as other, calling(one.address) as caller:
            data = json.dumps({**QUESTION, "stream": True}).encode()
            mine = "authorization: Bearer mine\r\n"
            head = f"POST /v1/chat HTTP/1.1\r\nhost: g\r\n{mine}content-length: {len(data)}\r\n\r\n"
            await caller.say(head.encode() + data)
            await caller.head()
            id_ = reply_id(caller)
            await known(other, id_)
            for gateway in (one, other):
                path = f"/v1/chat/{id_}"
                theirs: list[dict[str, str]] = [{}, {"authorization": "Bearer theirs"}]
                for headers in theirs:
                    unknown = error_of((await asked(gateway, "GET", "/v1/chat/no/events", **headers))[1])
                    status, raw = await asked(gateway, "GET", f"{path}/events", x_request_id="r", **headers)
                    error = error_of(raw)
                    assert (status, error["code"]) == (404, "not_found")
                    assert error["message"].replace(id_, "no") == unknown["message"]
                    assert (await asked(gateway, "DELETE", path, **headers))[0] == 404
            assert other.quiet()
            gate.set()
            rest = told(await caller.rest())
            assert b"event: response.completed" in rest[-1]
            frames = await resumed(other, id_, authorization="Bearer mine")
            assert frames[-1] == rest[-1]


@pytest.mark.usefixtures("quick_sweeps")
async def test_a_reply_is_forgotten_some_time_after_its_end() -> None:
    gate = asyncio.Event()
    script = Reply([say("One"), gate, end(), DONE], chunked=True)
    async with ScriptedServer(script) as upstream, caching(upstream, resume_seconds=0.2) as gateway:
        async with calling(gateway.address) as caller:
            id_, _ = await started(gateway, caller)
            await asyncio.sleep(0.4)  # as long as it comes, it does not matter how long
            assert gateway.desk.shelf.find(id_)
            gate.set()
            await caller.rest()
        assert (await resumed(gateway, id_))[-1].startswith(b"id:")
        await eventually(lambda: not len(gateway.desk.shelf))
        assert (await asked(gateway, "GET", f"/v1/chat/{id_}/events"))[0] == 404


@pytest.mark.usefixtures("quick_sweeps")
async def test_of_more_than_may_be_kept_the_oldest_are_forgotten() -> None:
    script = Reply([say("One" * 1000), end(), DONE], chunked=True)
    async with ScriptedServer(script) as upstream, caching(upstream, "null:", max_resume_bytes=8000) as gateway:
        ids = [(await whole(gateway, generate_cfg={"seed": seed}))[0] for seed in range(4)]
        await eventually(lambda: len(gateway.desk.shelf) == 2)
        found = [(await asked(gateway, "GET", f"/v1/chat/{id_}/events"))[0] for id_ in ids]
    assert found == [404, 404, 200, 200]


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
            await started(gateway, first)
            id_, got = await started(gateway, second, cancel_on_disconnect=False)
            assert second.headers["x-parley-cache"] == "shared"
        await eventually(lambda: not gateway.desk.active)
        async with calling(gateway.address) as caller:
            assert await come_back(caller, id_, len(got)) == 200
            gate.set()
            rest = told(await caller.rest())
        assert b'" two"' in rest[0]
        assert b"event: response.completed" in rest[-1]
        assert len(upstream.requests) == 1


async def test_a_reply_of_the_cache_that_was_replaced_is_not_told_for_another(shared_redis: RedisServer) -> None:
    def script(word: str) -> Reply:
        return Reply([say("One"), say(word), end(), DONE], chunked=True)

    url = shared_redis.url
    async with ScriptedServer(script("old"), script("new")) as upstream, caching(upstream, url) as one:
        await whole(one)
        id_, frames = await whole(one)
        assert b"old" in b"".join(frames)
        async with caching(upstream, url) as other:
            await whole(one, cache={"mode": "refresh"})
            await eventually(lambda: not one.desk.cache._storing)
            assert await resumed(one, id_, 1) == frames[1:]
            await known(other, id_)
            assert (await asked(other, "GET", f"/v1/chat/{id_}/events"))[0] == 404
        assert len(upstream.requests) == 2


@pytest.mark.parametrize("count", [0, 1, 2])
async def test_a_stream_that_failed_before_the_first_word_fails_again_as_a_stream(count: int) -> None:
    hold = asyncio.Event()
    refused = Reply([b"{}"], status=400, headers={"content-length": "2"}, hold=hold)
    async with ScriptedServer(refused) as upstream, caching(upstream, server={"commit_seconds": 0.05}) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask(QUESTION)
            assert await caller.head() == 200
            hold.set()
            frames, id_ = told(await caller.rest()), reply_id(caller)
        assert [frame.split(b"\n")[1] for frame in frames] == [b"event: response.started", b"event: response.failed"]
        assert await resumed(gateway, id_, count) == frames[count:]
