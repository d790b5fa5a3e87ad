"""A client that lost its connection gets the rest of its reply: no frame twice, and none lost, wherever it was cut."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from app.api.resumable import PackedReply
from app.formats import FORMATS
from typing_extensions import override

from tests.live.gateway import Gateway
from tests.live.raw_client import DEADLINE_SECONDS, calling
from tests.live.resuming_client import (
    FIRST,
    LAST,
    QUESTION,
    SECOND,
    alike,
    caching,
    come_back,
    first_frames,
    known,
    reply_id,
    resumed,
    split_frames,
)
from tests.redis_server import RedisServer
from tests.scripted_server import Reply, Request, ScriptedServer

pytestmark = pytest.mark.anyio

MODES = ["delta", "snapshot"]


class Gated:
    """A reply that waits in its middle, and before its end."""

    def __init__(self) -> None:
        self.middle, self.end = asyncio.Event(), asyncio.Event()
        self.reply = Reply([*FIRST, self.middle, *SECOND, self.end, *LAST], chunked=True)

    def open(self) -> None:
        self.middle.set()
        self.end.set()


class BySeed(ScriptedServer):
    """Answers by the seed that a request has, or as -1."""

    def __init__(self) -> None:
        super().__init__()
        self.gated: dict[int, Gated] = {}

    @override
    def reply_to(self, request: Request) -> Reply:
        return self.gated[json.loads(request.body).get("seed", -1)].reply


@asynccontextmanager
async def pair(upstream: ScriptedServer, redis: str | None) -> AsyncIterator[tuple[Gateway, Gateway]]:
    """A gateway that is asked, and the one where its replies are resumed: with Redis, another."""
    if redis is None:
        async with caching(upstream, "null:") as gateway:
            yield gateway, gateway
    else:
        async with caching(upstream, redis) as one, caching(upstream, redis) as other:
            yield one, other


@pytest.fixture(params=["one gateway", "another gateway"])
def redis(request: pytest.FixtureRequest) -> str | None:
    if request.param == "one gateway":
        return None
    server: RedisServer = request.getfixturevalue("shared_redis")
    return server.url


def body(name: str, mode: str, **more: Any) -> dict[str, Any]:
    # No two of these requests are equal: each is a call of its own, also where the cache is on.
    return {**QUESTION, "reply_format": name, "stream_mode": mode, "cancel_on_disconnect": False, **more}


def is_packed(gateway: Gateway, id_: str) -> bool:
    reply = gateway.context.replies.resumable.find(id_)
    return reply is not None and isinstance(reply.source, PackedReply)


async def uninterrupted(upstream: BySeed, gateway: Gateway, ask: dict[str, Any]) -> tuple[list[bytes], int]:
    """The stream to its end, and how many of its frames come before its middle."""
    gated = upstream.gated[-1] = Gated()
    async with calling(gateway.address) as caller:
        await caller.ask(ask)
        await caller.head()
        frames: list[bytes] = []
        while b"One" not in b"".join(frames):
            frames += split_frames(await caller.write())
        early = len(frames)
        gated.open()
        frames += split_frames(await caller.rest())
        return alike(frames, reply_id(caller)), early


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_that_is_cut_off_behind_any_frame_gets_the_others(mode: str, redis: str | None) -> None:
    async with BySeed() as upstream, pair(upstream, redis) as (one, other):
        for name in FORMATS:
            whole, early = await uninterrupted(upstream, one, body(name, mode, model=name))
            assert len(whole) - early >= 3

            async def cut_off(count: int, whole: list[bytes] = whole, early: int = early, name: str = name) -> None:
                ask = body(name, mode, generate_cfg={"seed": count}, model=name)
                gated = upstream.gated[count] = Gated()
                async with calling(one.address) as caller:
                    await caller.ask(ask)
                    await caller.head()
                    if count > early:
                        gated.open()
                    got, id_ = await first_frames(caller, count), reply_id(caller)
                await known(other, id_)
                async with asyncio.timeout(DEADLINE_SECONDS), calling(other.address) as caller:
                    status = await come_back(caller, id_, count)
                    if status == 204 and count == len(whole):
                        return
                    assert status == 200
                    # What came before is sent while the model still waits.
                    got += await first_frames(caller, max(0, early - count))
                    gated.open()
                    got += split_frames(await caller.rest())
                assert alike(got, id_) == whole, f"{name} cut off behind frame {count}"

            await asyncio.gather(*(cut_off(count) for count in range(len(whole) + 1)))


@pytest.mark.parametrize("mode", MODES)
async def test_a_reply_that_has_ended_can_be_read_again_from_any_frame(mode: str, redis: str | None) -> None:
    script = Reply([*FIRST, *SECOND, *LAST], chunked=True)
    async with ScriptedServer(script) as upstream, pair(upstream, redis) as (one, other):
        for name in FORMATS:
            async with calling(one.address) as caller:
                _, raw = await caller.reply(body(name, mode, model=name))
                whole, id_ = split_frames(raw), reply_id(caller)
            await known(other, id_)
            for count in range(len(whole) + 1):
                assert await resumed(other, id_, count) == whole[count:], f"{name} from frame {count}"
                assert await resumed(other, id_, last_event_id=str(count)) == whole[count:]
            for count in (len(whole), len(whole) + 1, 10**14):
                async with calling(other.address) as caller:
                    assert await come_back(caller, id_, count) == 204
            assert await resumed(other, id_) == whole
            # A browser comes back to the address where it was before, and says how far it got since.
            assert await resumed(other, id_, 1, last_event_id="3") == whole[3:]
        assert len(upstream.requests) == len(FORMATS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FORMATS)
async def test_a_reply_that_is_kept_as_bytes_is_resumed_byte_for_byte(name: str, mode: str) -> None:
    """At once after its end it is a log; soon it is bytes. A stored reply that is sent again is kept so too."""
    async with BySeed() as upstream, caching(upstream) as gateway:
        gateway.context.replies.resumable.sweep_seconds = 0.01
        gated = upstream.gated[-1] = Gated()
        gated.open()
        for label in ("miss", "hit"):
            async with calling(gateway.address) as caller:
                await caller.ask(QUESTION, **body(name, mode))
                assert await caller.head() == 200
                assert caller.headers["x-parley-cache"] == label
                id_, frames = reply_id(caller), split_frames(await caller.rest())
            async with asyncio.timeout(DEADLINE_SECONDS):
                while not is_packed(gateway, id_):
                    await asyncio.sleep(0.01)
            for after in range(len(frames)):
                assert await resumed(gateway, id_, after) == frames[after:]
            assert await resumed(gateway, id_, len(frames)) == []
