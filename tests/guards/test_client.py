"""A guard that is slow, broken or lies is a failure, over real sockets."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from app.guards.client import MAX_PAUSE_SECONDS, GuardClient
from app.guards.rules import GuardRule
from app.guards.verdicts import GuardError, Pass, Question, Replace, TextPart
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


PASS = json.dumps({"action": "NONE"}).encode()
MANY = 400
HOSTILE = [
    (Reply([b"x" * 65536] * MANY, 200, {}, chunked=True), "larger than", 1),
    (Reply([b"HTTP/1.1 200 OK\r\n", *[b"x: %b\r\n" % (b"y" * 900)] * MANY], None), "connection", 2),
    (Reply([b"HTTP/1.1 200 OK\r\nx: ", *[b"y" * 65536] * MANY], None), "connection", 2),
    (Reply([b"HTTP/1.1 102 Processing\r\n\r\n" * 100] * MANY, None), "connection", 2),
    (
        Reply([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;", *[b"y" * 65536] * MANY], None),
        "connection",
        2,
    ),
    (Reply([gzip.compress(PASS)], 200, {"content-encoding": "gzip"}), "not JSON", 1),
    (Reply([PASS + PASS], 200, {}), "not JSON", 1),
    (Reply([b"[" * 1_000_000], 200, {}), "not JSON", 1),
    (Reply([b'{"action": "GUARDRAIL_INTERVENED", "texts": ["\\ud800"]}'], 200, {}), "not JSON", 1),
    (Reply([b'{"action": "BLOCKED", "blocked_reason": "\xff"}'], 200, {}), "not JSON", 1),
]


@each_case("reply, cause, count", HOSTILE)
async def test_a_hostile_answer_is_a_failure_that_costs_little(reply: Reply, cause: str, count: int) -> None:
    rule = replace(RULE, timeout_seconds=20.0)
    async with serving(reply, rule=rule) as (server, client), asyncio.timeout(10):
        with pytest.raises(GuardError, match=cause):
            await client.ask(ASKED)
    assert len(server.requests) == count
    assert all(connection.sent < MANY // 2 for connection in server.connections)


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


async def test_a_check_that_a_guard_does_not_take_stops_no_others() -> None:
    for status in (400, 413, 422):
        async with serving(*[answer({}, status)] * 8, answer({"action": "NONE"})) as (server, client):
            for _ in range(8):
                with pytest.raises(GuardError, match=f"status {status}"):
                    await client.ask(ASKED)
            assert await client.ask(ASKED) == Pass()
            assert len(server.requests) == 9


async def test_many_texts_of_one_request_that_a_guard_fails_at_stop_no_others() -> None:
    rule = replace(RULE, api="presidio")
    async with serving(*[answer({"error": "too long"}, 500)] * 24, answer([]), rule=rule) as (server, client):
        of_one = replace(ASKED, request_id="req-1")
        found = await client.find_spans([f"text {number}" for number in range(12)], of_one)
        assert all(isinstance(one, GuardError) for one in found)
        assert await client.find_spans(["Hello"], replace(ASKED, request_id="req-2")) == [[]]
        assert len(server.requests) == 25


async def test_checks_of_one_request_that_nothing_answers_do_not_wait_one_after_the_other() -> None:
    client = GuardClient(replace(RULE, url="http://127.0.0.1:1"), PushTransport())
    for _ in range(5):
        with pytest.raises(GuardError, match="connection"):
            await client.ask(replace(ASKED, request_id="req-1"))
    with pytest.raises(GuardError, match="asked again later"):
        await client.ask(replace(ASKED, request_id="req-1"))


async def test_a_failure_is_logged_with_name_address_and_cause(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(answer({}, 401)) as (server, client):
        with pytest.raises(GuardError):
            await client.ask(ASKED)
        assert [record.message for record in caplog.records] == [
            f"the guard house at {server.url} gave no verdict: it answers with the status 401"
        ]


async def test_a_check_that_is_too_large_is_not_sent() -> None:
    async with serving(answer({"action": "NONE"}), rule=replace(RULE, max_bytes=100)) as (server, client):
        with pytest.raises(GuardError, match="max_bytes"):
            await client.ask(ASKED)
    assert server.requests == []


async def test_a_guard_that_is_dead_for_days_stays_a_failure_that_is_asked_again() -> None:
    client = GuardClient(replace(RULE, url="http://127.0.0.1:1"), PushTransport())
    client._failures = 5000  # one failure in 30 seconds, for two days
    with pytest.raises(GuardError, match="connection"):
        await client.ask(ASKED)
    now = asyncio.get_running_loop().time()
    assert now + MAX_PAUSE_SECONDS - 1 < client._paused_until <= now + MAX_PAUSE_SECONDS


async def test_many_checks_that_fail_at_once_make_one_short_pause() -> None:
    async with serving(answer({}), rule=replace(RULE, max_concurrent=10)) as (server, client):
        failed = await asyncio.gather(*(client.ask(ASKED) for _ in range(40)), return_exceptions=True)
        assert all(isinstance(one, GuardError) for one in failed)
        assert len(server.requests) < 20, "those that wait for a place do not ask a guard that has failed meanwhile"
        server.replies = [answer({"action": "NONE"})]
        await asyncio.sleep(0.55)
        assert await client.ask(ASKED) == Pass()


async def test_replaced_arguments_that_are_no_object_are_a_failure() -> None:
    part = TextPart("messages[0].content[0]", "assistant", "arguments", "{}", name="ls")
    tool = replace(part, id="tools[0]", kind="tool")
    rule = replace(RULE, api="parley")
    for asked, text, fails in ((part, "[]", True), (part, "{", True), (part, '{"a": 1}', False), (tool, "{}", True)):
        body = {"verdict": "replace", "parts": {asked.id: text}}
        async with serving(answer(body), rule=rule) as (_, client):
            question = replace(ASKED, parts=(asked,))
            if fails:
                with pytest.raises(GuardError):
                    await client.ask(question)
            else:
                assert await client.ask(question) == Replace({asked.id: text})


async def test_presidio_says_of_each_text_what_it_found_or_why_it_did_not_look() -> None:
    spans = answer([{"start": 0, "end": 3, "entity_type": "PERSON", "score": 0.9}])
    rule = replace(RULE, api="presidio")
    async with serving(spans, answer({"error": "x"}, 400), spans, rule=rule) as (server, client):
        found = await client.find_spans(["Ann", "Bob", "Eve"], ASKED, b"00-1-2-01")
        requests = [await server.request() for _ in range(3)]
    assert sorted(isinstance(one, GuardError) for one in found) == [False, False, True]
    assert [(0, 3, "PERSON")] in found
    assert {request.headers["traceparent"] for request in requests} == {"00-1-2-01"}
