"""A client resumes at another gateway that has less of its reply: it gets the rest, or an error that it is lost."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import pytest
from app.redis.connection import RedisConnection

from tests.calls.shared.coordinators import PatientLink
from tests.live.caches import StorageMaker, link_of
from tests.live.gateway import DONE, Gateway, end, say
from tests.live.raw_client import Caller, calling
from tests.live.resuming_client import QUESTION, caching, come_back, known, reply_id, split_frames
from tests.redis_server import RedisServer
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

ASK = {**QUESTION, "cancel_on_disconnect": False}
LONG_SECONDS = 20.0
TEXT = "One two three four five six"


@asynccontextmanager
async def run_sharing_gateway(upstream: ScriptedServer, url: str) -> AsyncIterator[Gateway]:
    async with caching(upstream, url, open_storage=StorageMaker(link_of=RedisConnection)) as gateway:
        yield gateway


def pieces(*texts: str | asyncio.Event) -> Reply:
    chunks = [text if isinstance(text, asyncio.Event) else say(text) for text in texts]
    return Reply([*chunks, end(), DONE], chunked=True)


@contextmanager
def opened_at_last(*gates: asyncio.Event) -> Iterator[None]:
    """A reply that waits when a test fails would keep its gateway open."""
    try:
        yield
    finally:
        for gate in gates:
            gate.set()


async def until_text(caller: Caller, text: str) -> list[bytes]:
    frames: list[bytes] = []
    while text not in join_texts(frames):
        data = await caller.write()
        assert data, join_texts(frames)
        frames += split_frames(data)
    return frames


def join_texts(frames: list[bytes]) -> str:
    data = [json.loads(frame.split(b"data: ", 1)[1]) for frame in frames]
    return "".join(each["delta"].get("content", "") for each in data if "delta" in each)


async def resumes(gateway: Gateway, id_: str, read: list[bytes]) -> None:
    """The gateway sends what is missing after these frames."""
    async with calling(gateway.address) as again:
        assert await come_back(again, id_, len(read)) == 200
        assert join_texts(read + split_frames(await again.rest())) == TEXT


async def fails(gateway: Gateway, id_: str, read: list[bytes]) -> None:
    """The gateway sends nothing but the failure after these frames."""
    async with calling(gateway.address) as again:
        assert await come_back(again, id_, len(read)) == 200
        (frame,) = split_frames(await again.rest())
        assert is_lost(frame)


def is_lost(frame: bytes) -> bool:
    return b"response.failed" in frame and b"send the request again" in frame


async def test_a_follower_without_redis_fails_for_its_client_and_the_leader_goes_on(own_redis: RedisServer) -> None:
    gate = asyncio.Event()
    async with (
        ScriptedServer(pieces("One", gate, " two three four", " five six")) as upstream,
        run_sharing_gateway(upstream, own_redis.url) as one,
        run_sharing_gateway(upstream, own_redis.url) as other,
        calling(one.address) as leading,
        calling(other.address) as following,
        AsyncExitStack() as stack,
    ):
        stack.enter_context(opened_at_last(gate))
        await leading.ask(ASK)
        assert await leading.head() == 200
        await following.ask(ASK)
        assert await following.head() == 200
        read = await until_text(following, "One")
        assert following.headers["x-parley-cache"] == "shared"
        own_redis.pause()
        *rest, last = split_frames(await following.rest())
        assert is_lost(last) and join_texts(read + rest) == "One"
        own_redis.go_on()
        gate.set()
        assert join_texts(split_frames(await leading.rest())) == TEXT
        assert len(upstream.requests) == 1


async def test_what_a_gateway_sent_and_did_not_write_is_lost_with_it_and_only_then(shared_redis: RedisServer) -> None:
    first, second = asyncio.Event(), asyncio.Event()
    makers = [StorageMaker(link_of=PatientLink, lease_seconds=0.5) for _ in range(2)]
    async with (
        ScriptedServer(pieces("One", first, " two", " three four", second, " five six")) as upstream,
        caching(upstream, shared_redis.url, open_storage=makers[0]) as one,
        caching(upstream, shared_redis.url, open_storage=makers[1]) as other,
        calling(one.address) as leading,
        calling(other.address) as following,
        AsyncExitStack() as stack,
    ):
        stack.enter_context(opened_at_last(first, second))
        await leading.ask(ASK)
        assert await leading.head() == 200
        written = await until_text(leading, "One")
        id_ = reply_id(leading)
        await known(other, id_)
        await following.ask(ASK)
        assert await following.head() == 200
        read = await until_text(following, "One")
        link = link_of(one)
        assert isinstance(link, PatientLink)
        link.sleep()
        stack.callback(link.wake)  # a gateway whose link sleeps does not end
        first.set()
        sent = written + await until_text(leading, "four")
        *rest, last = split_frames(await following.rest())
        assert is_lost(last) and join_texts(read + rest) == "One"
        await fails(other, id_, sent)
        second.set()
        await resumes(one, id_, sent)
        assert len(upstream.requests) == 1


async def test_the_failure_of_a_lost_call_is_not_taken_for_a_frame_that_the_client_has_read(
    shared_redis: RedisServer,
) -> None:
    """Nothing of the reply is in Redis when its gateway is lost. The other one has two frames then, the second of which
    says so; the client has read two as well."""
    gate = asyncio.Event()
    makers = [StorageMaker(link_of=PatientLink, lease_seconds=0.5) for _ in range(2)]
    async with (
        ScriptedServer(Reply([b": alive\n\n", gate, say(TEXT), end(), DONE], chunked=True)) as upstream,
        caching(upstream, shared_redis.url, open_storage=makers[0]) as one,
        caching(upstream, shared_redis.url, open_storage=makers[1]) as other,
        calling(one.address) as leading,
        AsyncExitStack() as stack,
    ):
        stack.enter_context(opened_at_last(gate))
        await leading.ask(ASK)
        assert await leading.head() == 200
        id_ = reply_id(leading)
        await known(other, id_)
        link = link_of(one)
        assert isinstance(link, PatientLink)
        link.sleep()
        stack.callback(link.wake)
        gate.set()
        read = await until_text(leading, TEXT)
        assert len(read) > 2
        await fails(other, id_, read[:2])
        assert len(upstream.requests) == 1


async def test_a_client_of_a_follower_resumes_at_another_gateway(
    shared_redis: RedisServer,
) -> None:
    gate = asyncio.Event()
    async with (
        ScriptedServer(pieces("One", " two", gate, " three", " four five six")) as upstream,
        caching(upstream, shared_redis.url) as one,
        caching(upstream, shared_redis.url) as other,
        calling(one.address) as leading,
        AsyncExitStack() as stack,
    ):
        stack.enter_context(opened_at_last(gate))
        await leading.ask(ASK)
        assert await leading.head() == 200
        async with calling(other.address) as following:
            await following.ask(QUESTION)
            assert await following.head() == 200
            read = await until_text(following, "two")
            assert following.headers["x-parley-cache"] == "shared"
            id_ = reply_id(following)
            await known(one, id_)
        async with calling(one.address) as again:
            assert await come_back(again, id_, len(read)) == 200
            gate.set()
            assert join_texts(read + split_frames(await again.rest())) == TEXT
        assert len(upstream.requests) == 1
