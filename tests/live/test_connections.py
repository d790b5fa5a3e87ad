"""Connections of a real process: too many of them, slow ones, and clients that offer HTTP/2."""

import asyncio
import json
import shutil
import socket

import pytest

from tests.live.gateway import DONE, end, eventually, say, serving
from tests.live.parley_command import process
from tests.live.raw_client import HEALTH, calling, reply_of
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

FEW_FILES = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")


async def test_connections_that_ask_nothing_take_no_place_from_others() -> None:
    async with process(None, before=FEW_FILES, forked=False) as gateway:
        idle = [socket.create_connection(gateway.address) for _ in range(300)]
        try:
            for _ in range(10):
                assert await gateway.readiness() == 200
        finally:
            for link in idle:
                link.close()
        gateway.signal(15)
        code, output = await gateway.ended()
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    warnings = [line["message"] for line in lines if line["level"] == "warning"]
    warnings = [text for text in warnings if "are in memory" not in text]  # it has no HOME
    assert code == 0
    assert len(warnings) == 1
    assert "ulimit -n" in warnings[0]


async def test_connections_whose_heads_do_not_come_are_closed_with_an_error() -> None:
    async with ScriptedServer() as upstream, serving(upstream, server={"head_seconds": 0.4}) as gateway:
        async with calling(gateway.address) as silent, calling(gateway.address) as slow:
            await slow.say(HEALTH[:-2])
            assert await slow.head() == 408
            assert json.loads(await slow.rest())["error"]["code"] == "request_timeout"
            assert await slow.closed()
            assert await silent.closed()


async def test_a_connection_without_a_next_request_is_closed() -> None:
    async with ScriptedServer() as upstream, serving(upstream, server={"keep_alive_seconds": 0.4}) as gateway:
        async with calling(gateway.address) as caller:
            await caller.say(HEALTH)
            assert await caller.head() == 200
            await caller.rest()
            assert await caller.closed()


async def test_a_client_that_still_sends_can_read_why_it_is_refused() -> None:
    async with ScriptedServer() as upstream, serving(upstream) as gateway:
        for _ in range(20):
            async with calling(gateway.address) as caller:
                await caller.say(HEALTH[:-2] + b"x: " + b"y" * 500_000)
                assert await caller.head() == 431
                assert json.loads(await caller.rest())["error"]["code"] == "too_large"


@pytest.mark.parametrize("end", [b"connection: close\r\n", b"", b"1.0"], ids=["close", "keep-alive", "HTTP/1.0"])
async def test_a_client_that_still_sends_a_body_can_read_that_it_is_too_large(end: bytes) -> None:
    head = (
        b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 20000000\r\n"
    )
    head = head.replace(b"1.1", end) if end == b"1.0" else head + end
    async with ScriptedServer() as upstream, serving(upstream, server={"max_body_bytes": 65536}) as gateway:
        async with calling(gateway.address) as caller:
            await caller.say(head + b"\r\n" + b"y" * 20_000_000)
            assert await caller.head() == 413
            assert json.loads(await caller.rest())["error"]["code"] == "too_large"


async def test_a_client_that_does_not_read_a_page_is_disconnected() -> None:
    """Not only a reply: /openapi.json, over and over."""
    async with ScriptedServer() as upstream, serving(upstream, server={"stall_seconds": 0.4}) as gateway:
        async with calling(gateway.address, receive_bytes=8192) as caller:
            await caller.say(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 60)
            await eventually(lambda: gateway.callers == 1)
            await eventually(lambda: gateway.callers == 0)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("more", [(), ("-H", "transfer-encoding: chunked"), ("-H", "expect: 100-continue")])
async def test_curl_may_offer_http_2(more: tuple[str, ...]) -> None:
    ask = json.dumps({"stream": False, "messages": [{"role": "user", "content": "y" * 200_000}]})
    reply = Reply([say("a"), end(), DONE])
    async with ScriptedServer(reply) as upstream, serving(upstream) as gateway:
        running = await asyncio.create_subprocess_exec(
            *("curl", "-sS", "--http2", "-m", "20", f"{gateway.url}/v1/chat", "--data-binary", "@-"),
            *("-H", "content-type: application/json", *more),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        answer, _ = await running.communicate(ask.replace("{", '{"model": "m", ', 1).encode())
    assert json.loads(answer)["messages"][0]["content"] == "a"


async def test_a_reply_after_a_refused_one_is_not_disturbed() -> None:
    gate = asyncio.Event()
    reply = Reply([say("a"), gate, end(), DONE])
    async with ScriptedServer(reply) as upstream, serving(upstream) as gateway, calling(gateway.address) as caller:
        await caller.ask()
        assert await caller.head() == 200
        await caller.write()
        await caller.say(b"no request at all\r\n\r\n")
        gate.set()
        assert b"response.completed" in await caller.rest()
        assert await caller.head() == 400
        await caller.rest()
        assert await caller.closed()
    async with ScriptedServer(Reply([say("b"), end(), DONE])) as upstream, serving(upstream) as gateway:
        assert (await reply_of(gateway.address))[0] == 200
