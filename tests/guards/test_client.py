"""A guard that is slow, broken or lies is a failure, over real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from app.guards.client import GuardClient
from app.guards.rules import GuardRule
from app.guards.verdicts import GuardError, Pass, Question, TextPart
from app.upstream.http.transport import PushTransport
from msgspec.structs import replace

from tests.each_case import each_case
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

ASKED = Question("request", (TextPart("messages[0].content[0]", "user", "text", "a secret text"),), "m")
RULE = GuardRule("house", url="", api="litellm", timeout_seconds=0.5)


def answer(body: object, status: int = 200, **headers: str) -> Reply:
    data = json.dumps(body).encode()
    return Reply([data], status, {"content-type": "application/json", "content-length": str(len(data)), **headers})


@asynccontextmanager
async def serving(*replies: Reply, rule: GuardRule = RULE) -> AsyncIterator[tuple[ScriptedServer, GuardClient]]:
    transport = PushTransport()
    async with ScriptedServer(*replies) as server:
        yield server, GuardClient(replace(rule, url=server.url), transport)
        await transport.aclose()


async def test_a_verdict_comes_with_the_configured_headers() -> None:
    rule = replace(RULE, headers=((b"x-api-key", b"k"),))
    async with serving(answer({"action": "NONE"}), rule=rule) as (server, client):
        assert await client.ask(replace(ASKED, headers={"x-team": "a"}), b"00-1-2-01") == Pass()
        request = await server.request()
    assert request.path == "/beta/litellm_basic_guardrail_api"
    assert (request.headers["x-api-key"], request.headers["x-team"]) == ("k", "a")
    assert (request.headers["traceparent"], request.headers["user-agent"][:7]) == ("00-1-2-01", "parley/")


async def test_a_failure_that_may_pass_is_tried_once_more() -> None:
    for status in (408, 429, 500, 503):
        async with serving(answer({}, status), answer({"action": "NONE"})) as (server, client):
            assert await client.ask(ASKED) == Pass()
        assert len(server.requests) == 2


ONCE = [
    (answer({"action": "NONE"}, 201), 1),
    (answer({"action": "NONE"}, 302, location="http://127.0.0.1:1/"), 1),
    (answer({"action": "NONE"}, 403), 1),
    (answer({}), 1),
    (answer("x" * (5 * 1024 * 1024)), 1),
    (Reply([b"<html>"], 200, {"content-length": "6"}), 1),
    (Reply([b"x"], 200, {"content-length": "9"}, abrupt=True), 2),
    (answer({}, 500), 2),
]


@each_case("reply, count", ONCE)
async def test_this_is_a_failure(reply: Reply, count: int) -> None:
    async with serving(reply) as (server, client):
        with pytest.raises(GuardError) as caught:
            await client.ask(ASKED)
    assert len(server.requests) == count
    assert "secret" not in str(caught.value)


async def test_a_guard_that_does_not_answer_fails_in_time() -> None:
    async with serving(Reply(hold=asyncio.Event())) as (_, client):
        with pytest.raises(GuardError, match=r"within 0\.5 s"):
            await client.ask(ASKED)


async def test_a_guard_that_nothing_listens_for_fails() -> None:
    client = GuardClient(replace(RULE, url="http://127.0.0.1:1"), PushTransport())
    with pytest.raises(GuardError, match="connection"):
        await client.ask(ASKED)


async def test_after_five_failures_a_guard_is_not_asked_for_a_while() -> None:
    async with serving(answer({})) as (server, client):
        for _ in range(8):
            with pytest.raises(GuardError):
                await client.ask(ASKED)
        assert len(server.requests) == 5
        server.replies = [answer({"action": "NONE"})]
        await asyncio.sleep(0.55)
        assert await client.ask(ASKED) == Pass()


async def test_a_check_that_is_too_large_is_not_sent() -> None:
    async with serving(answer({"action": "NONE"}), rule=replace(RULE, max_bytes=100)) as (server, client):
        with pytest.raises(GuardError, match="max_bytes"):
            await client.ask(ASKED)
    assert server.requests == []
