"""A caller who leaves takes the model server's connection along, whatever the moment; nothing of the request is left.

`serving` itself asserts the second half when it is left.
"""

import asyncio
import json
import random

import pytest
from app.server.connection import PROBE_SECONDS

from tests.live.gateway import DONE, Gateway, end, eventually, say, serving
from tests.live.raw_client import ASK, calling
from tests.live.unreachable_server import unreachable
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

SOON = 0.25
BODY = json.dumps(ASK).encode()
ASKED = b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)
WHOLE_BODY = json.dumps({**ASK, "stream": False}).encode()
WHOLE = ASKED.replace(b"%d" % len(BODY), b"%d" % len(WHOLE_BODY)).replace(BODY, WHOLE_BODY)


async def closed(upstream: ScriptedServer, number: int = 0) -> None:
    async with asyncio.timeout(SOON):
        await upstream.connections[number].closed.wait()


def never() -> asyncio.Event:
    return asyncio.Event()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "reply",
    [
        Reply(hold=never()),
        Reply([never()]),
        Reply([b": working\n\n", never()]),
        Reply([b"data: {", never()]),
        Reply([say("a"), never()], chunked=True),
        Reply([say("a"), end(), never()], chunked=True),
        Reply([b"{", never()], status=500),
        Reply([b"HTTP/1.1 100 \r\n\r\n", never()], status=None),
        Reply([b"HTTP/1.1 200 \r\ncontent-", never()], status=None),
    ],
    ids=["no head", "no byte", "comment", "half a chunk", "text", "finished", "error body", "100", "half a head"],
)
async def test_leaving_while_the_server_is_at(reply: Reply, stream: bool) -> None:
    async with ScriptedServer(reply) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask(stream=stream)
            await upstream.request()
            await eventually(
                lambda: upstream.connections[0].sent == sum(isinstance(one, bytes) for one in reply.chunks)
            )
        await closed(upstream)


async def test_leaving_after_the_stream_was_opened_for_lack_of_an_answer() -> None:
    async with ScriptedServer(Reply(hold=never())) as upstream:
        async with serving(upstream, server={"commit_seconds": 0.05}) as gateway:
            async with calling(gateway.address) as caller:
                await caller.ask()
                assert (await caller.head(), (await caller.event()).type) == (200, "response.started")
            await closed(upstream)


async def test_leaving_at_the_first_frame() -> None:
    async with ScriptedServer(Reply([say("a"), never()])) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask()
            await caller.head()
            await caller.write()
        await closed(upstream)


@pytest.mark.parametrize("stream_mode", ["delta", "snapshot"])
async def test_leaving_unread_what_blocks_the_gateway(stream_mode: str) -> None:
    script = [say("x" * 20_000)] * 200
    async with ScriptedServer(Reply([*script, never()])) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address, receive_bytes=8192) as caller:
            await caller.ask(stream_mode=stream_mode)
            await eventually(lambda: any(delivery.blocked for delivery in gateway.context.replies.active))
        await closed(upstream)


@pytest.mark.parametrize("stream", [True, False])
async def test_leaving_while_the_gateway_connects(stream: bool) -> None:
    async with unreachable() as url, serving(url) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask(stream=stream)
            await eventually(lambda: len(gateway.context.replies.active) == 1)
        await eventually(gateway.quiet, SOON)


async def test_leaving_while_it_waits_to_ask_again() -> None:
    busy = Reply([b"{}"], status=503, headers={"content-length": "2", "retry-after": "20"})
    async with ScriptedServer(busy) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask(generate_cfg={"max_retries": 3})
            await eventually(lambda: bool(upstream.connections) and upstream.connections[0].finished == 1)
        await eventually(gateway.quiet, SOON)
        assert len(upstream.requests) == 1


async def test_leaving_while_it_waits_for_a_free_connection() -> None:
    async with ScriptedServer(Reply([never()])) as upstream:
        async with serving(upstream, upstream_row={"max_connections": 1}) as gateway:
            async with calling(gateway.address) as first:
                await first.ask()
                await upstream.request()
                async with calling(gateway.address) as second:
                    await second.ask()
                    await eventually(lambda: len(gateway.context.replies.active) == 2)
                await eventually(lambda: len(gateway.context.replies.active) == 1, SOON)
            await closed(upstream)
        assert len(upstream.requests) == 1


async def test_leaving_before_the_request_is_all_there() -> None:
    async with ScriptedServer() as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as caller:
            caller.writer.write(b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
            await eventually(lambda: gateway.callers == 1)
        await eventually(lambda: gateway.callers == 0, SOON)
        assert upstream.requests == []


async def test_leaving_with_a_second_request_behind_the_first() -> None:
    async with ScriptedServer(Reply([say("a"), never()])) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as caller:
            caller.writer.write(ASKED * 2)
            await caller.head()
            await caller.write()
        await closed(upstream)
        assert len(upstream.requests) == 1


async def test_leaving_after_a_second_request_is_noticed_within_the_next_words() -> None:
    gate = asyncio.Event()
    async with (
        ScriptedServer(Reply([say("a"), gate, *[say("b")] * 20, never()])) as upstream,
        serving(upstream) as gateway,
    ):
        async with calling(gateway.address) as caller:
            await caller.ask()
            await caller.head()
            await caller.write()
            await caller.ask()
        gate.set()
        await closed(upstream)
        assert len(upstream.requests) == 1


async def test_an_answer_comes_at_the_moment_the_caller_leaves() -> None:
    for turns in range(12):
        hold = asyncio.Event()
        async with ScriptedServer(Reply([say("a"), never()], hold=hold)) as upstream:
            async with serving(upstream) as gateway:
                async with calling(gateway.address) as caller:
                    await caller.ask()
                    await upstream.request()
                    caller.writer.transport.abort()
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    hold.set()
                await closed(upstream)


async def test_two_hundred_callers_who_leave_at_any_moment_leave_nothing() -> None:
    chance = random.Random(7)
    script = [*[say("word ")] * 10, end(), DONE]
    replies = [Reply(script[: chance.randrange(13)], chunked=True, abrupt=chance.random() < 0.2) for _ in range(50)]
    replies += [Reply([*script[:4], never()], chunked=True) for _ in range(50)]
    chance.shuffle(replies)
    async with ScriptedServer(*replies) as upstream, serving(upstream) as gateway:
        for _ in range(4):
            moments = [(chance.randrange(8), chance.random() < 0.3) for _ in range(50)]
            await asyncio.gather(*(leaving(gateway, writes, whole) for writes, whole in moments))
        await eventually(gateway.quiet, SOON * 4)


async def leaving(gateway: Gateway, writes: int, whole: bool) -> None:
    async with calling(gateway.address) as caller:
        await caller.ask(ASK, stream=not whole)
        for _ in range(writes * 3):
            await asyncio.sleep(0)
        if writes > 4 and not whole and await caller.head() == 200:
            await caller.write()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("begun", [True, False])
async def test_a_client_that_closes_only_its_sending_side_gets_its_reply(
    stream: bool, version: str, begun: bool
) -> None:
    gate = asyncio.Event()
    script: list[bytes | asyncio.Event] = [say("a"), gate, say("b"), end(), DONE]
    async with ScriptedServer(Reply(script if begun else [gate, *script])) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as caller:
            await caller.say((ASKED if stream else WHOLE).replace(b"HTTP/1.1", f"HTTP/{version}".encode()))
            await upstream.request()
            if begun and stream:
                await eventually(lambda: any(response.status for response in gateway.context.replies.active))
            caller.writer.write_eof()
            await asyncio.sleep(SOON)
            assert not upstream.connections[0].closed.is_set()
            gate.set()
            raw = await caller.until_closed()
    head, _, body = raw.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"response.completed" in body if stream else b'"finish_reason":"stop"' in body


async def test_a_client_that_closes_its_sending_side_first_and_leaves_later() -> None:
    async with ScriptedServer(Reply([never()])) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask(stream=False)
            await upstream.request()
            caller.writer.write_eof()
            await asyncio.sleep(SOON)
            assert not upstream.connections[0].closed.is_set()
        for _ in range(2):
            gateway.pass_time(PROBE_SECONDS)
            await asyncio.sleep(0.05)
        await closed(upstream)


async def test_requests_in_line_are_answered_after_the_sending_side_is_closed() -> None:
    async with ScriptedServer(*[Reply([say("a"), end(), DONE])] * 3) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as caller:
            await caller.say(WHOLE * 3 + b"POST /v1/chat HTTP")
            caller.writer.write_eof()
            raw = await caller.until_closed()
    assert raw.count(b"HTTP/1.1 200 OK\r\n") == raw.count(b'"finish_reason":"stop"') == 3


async def test_a_request_that_did_not_come_whole_ends_with_the_sending_side() -> None:
    async with ScriptedServer() as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as caller:
            await caller.say(WHOLE[:-1])
            caller.writer.write_eof()
            assert await caller.closed()
    assert not upstream.connections
