"""A reply that ends well without an answer is treated like an error, until no other request can bring one."""

import asyncio
import json
from typing import Any

import pytest
from app.config.settings import Settings

from tests.fault_server import CLOSING, FINISH, Exchange, FaultServer, Script, black_hole, good, say, with_status
from tests.light_client import light_client
from tests.live.gateway import Gateway, serving_with

pytestmark = pytest.mark.anyio


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"choices": choices, **more}).encode() + b"\n\n"


USAGE = {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}
ROLE = chunk({"role": "assistant", "content": ""})
DONE = b"data: [DONE]\n\n"
THOUGHT = chunk({"reasoning_content": "Hm."})
EMPTY = {
    "nothing": [ROLE, FINISH],
    "tokens counted": [ROLE, chunk({}, "stop", usage=USAGE), DONE],
    "calls announced": [ROLE, chunk({}, "tool_calls"), DONE],
    "white space": [ROLE, say("\n"), say("\n"), FINISH],
    "a blank thought": [say("<think>"), say("\n\n"), say("</think>\n"), FINISH],
    "fields of a message": [chunk({"extra_content": {"a": 1}}), chunk({"unknown": "x"}), FINISH],
}


def sending(*parts: bytes) -> Script:
    async def answer(exchange: Exchange) -> None:
        await exchange.send(CLOSING, *parts)

    return answer


def whole(message: dict[str, Any]) -> Script:
    body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], "usage": USAGE}).encode()

    async def answer(exchange: Exchange) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        await exchange.send(head + body)

    return answer


class InTurn:
    """Answers each request with the next script, and those after the last with that one."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)
        self.requests = 0

    async def __call__(self, exchange: Exchange) -> None:
        script = self._scripts[min(self.requests, len(self._scripts) - 1)]
        self.requests += 1
        await script(exchange)


def tree(server: FaultServer, models: dict[str, Any], **settings: Any) -> Settings:
    upstreams = {name: {"base_url": server.base_url(name)} for name in server.scripts if len(name) == 1}
    quiet = {"log_level": "error", "commit_seconds": 30, "heartbeat_seconds": 5, **settings}
    return Settings.model_validate(
        {"upstreams": upstreams, "models": models, "cache": {"url": "memory:"}, "server": quiet}
    )


class Reply:
    def __init__(self, status: int, attempts: str, body: dict[str, Any]) -> None:
        self.status = status
        self.body = body
        listed = [one.split(";") for one in attempts.split(", ") if one]
        self.outcomes = [f"{parts[0]} {parts[1].removeprefix('outcome=')}" for parts in listed]

    @property
    def texts(self) -> list[str]:
        return [message.get("content") or message.get("reasoning_content") for message in self.body["messages"]]

    @property
    def warnings(self) -> list[str]:
        return list(self.body["warnings"])


async def ask(gateway: Gateway, *, stream: bool, **more: Any) -> Reply:
    """The reply of the model `m` as a whole, also if it was streamed."""
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": stream, **more}
    async with light_client(gateway.url) as client:
        response = await client.post("/v1/chat", json=body)
    attempts = response.headers.get("x-parley-attempts", "")
    if not response.headers["content-type"].startswith("text/event-stream"):
        return Reply(response.status_code, attempts, response.json())
    frames = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
    messages = [frame["message"] for frame in frames if frame["type"] == "message.completed"]
    return Reply(response.status_code, attempts, {**frames[-1], "messages": messages})


TWO = {"m": {"upstreams": [{"name": "a", "priority": 1}, {"name": "b", "priority": 2}]}}
STREAM = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@STREAM
@pytest.mark.parametrize("parts", EMPTY.values(), ids=EMPTY)
async def test_another_server_answers_in_place_of_an_empty_reply(parts: list[bytes], stream: bool) -> None:
    async with FaultServer(a=sending(*parts), b=good) as server:
        async with serving_with(tree(server, TWO)) as gateway:
            reply = await ask(gateway, stream=stream)
    assert (reply.status, reply.texts, reply.warnings) == (200, ["from good"], [])
    assert reply.outcomes == ["a upstream_incomplete", "b ok"]


@STREAM
async def test_another_server_answers_in_place_of_an_empty_body(stream: bool) -> None:
    models = {"m": {**TWO["m"], "profile": {"stream": "never"}}}
    async with FaultServer(a=whole({"content": ""}), b=whole({"content": "full"})) as server:
        async with serving_with(tree(server, models)) as gateway:
            assert (await ask(gateway, stream=stream)).texts == ["full"]


async def test_a_stream_that_is_open_goes_on_with_the_reply_of_a_retry() -> None:
    async def late(exchange: Exchange) -> None:
        await exchange.send(CLOSING, b": wait\n\n", ROLE)
        await asyncio.sleep(0.3)
        await exchange.send(FINISH)

    script = InTurn(late, good)
    async with FaultServer(a=script) as server:
        models = {"m": {"upstreams": ["a"], "max_retries": 1}}
        async with serving_with(tree(server, models, commit_seconds=0.1, heartbeat_seconds=0.1)) as gateway:
            reply = await ask(gateway, stream=True)
    assert (reply.texts, reply.warnings, script.requests) == (["from good"], [], 2)


async def test_a_fallback_model_answers_in_place_of_an_empty_reply() -> None:
    models = {"m": {"upstreams": ["a"], "fallbacks": ["other"]}, "other": {"upstreams": ["b"]}}
    async with FaultServer(a=sending(*EMPTY["nothing"]), b=good) as server:
        async with serving_with(tree(server, models)) as gateway:
            reply = await ask(gateway, stream=False)
    assert (reply.texts, reply.body["model"]) == (["from good"], "other")


@STREAM
@pytest.mark.parametrize(
    ("a", "b"),
    [(EMPTY["tokens counted"], EMPTY["tokens counted"]), (EMPTY["tokens counted"], None)],
    ids=["empty again", "then an error"],
)
async def test_a_reply_that_stays_empty_has_a_warning_and_is_not_cached(
    a: list[bytes], b: list[bytes] | None, stream: bool
) -> None:
    first, second = InTurn(sending(*a)), InTurn(with_status(500) if b is None else sending(*b))
    async with FaultServer(a=first, b=second) as server:
        async with serving_with(tree(server, TWO)) as gateway:
            replies = [await ask(gateway, stream=stream, generate_cfg={"temperature": 0}) for _ in range(2)]
    assert (first.requests, second.requests) == (2, 2)
    for reply in replies:
        assert (reply.status, reply.texts, reply.body["finish_reason"]) == (200, [], "stop")
        assert ["empty" in text and "9 tokens" in text for text in reply.warnings] == [True]


@pytest.mark.parametrize("fallback", [with_status(500), sending(*EMPTY["nothing"])], ids=["error", "empty"])
async def test_a_fallback_that_has_no_answer_either_leaves_the_empty_reply(fallback: Script) -> None:
    models = {"m": {"upstreams": ["a"], "fallbacks": ["other"]}, "other": {"upstreams": ["b"]}}
    async with FaultServer(a=sending(*EMPTY["nothing"]), b=fallback) as server:
        async with serving_with(tree(server, models)) as gateway:
            reply = await ask(gateway, stream=False)
    assert (reply.status, reply.body["model"], "empty" in reply.warnings[0]) == (200, "m", True)


async def test_the_only_request_is_answered_at_once_with_a_warning() -> None:
    script = InTurn(sending(*EMPTY["calls announced"]))
    async with FaultServer(a=script) as server:
        async with serving_with(tree(server, {"m": {"upstreams": ["a"]}})) as gateway:
            reply = await ask(gateway, stream=True)
    assert (script.requests, reply.texts, "'tool_calls'" in reply.warnings[0]) == (1, [], True)


async def test_a_failure_before_any_part_of_an_answer_is_retried() -> None:
    async def broken(exchange: Exchange) -> None:
        await exchange.send(CLOSING, ROLE, say("\n"))
        await asyncio.sleep(0.05)
        exchange.reset()

    async with FaultServer(a=broken, b=good) as server:
        async with serving_with(tree(server, TWO)) as gateway:
            reply = await ask(gateway, stream=True)
    assert (reply.texts, reply.outcomes) == (["from good"], ["a upstream_incomplete", "b ok"])


ENDS: dict[str, tuple[list[bytes], dict[str, Any], int]] = {
    "length": ([ROLE, chunk({}, "length"), DONE], {}, 1),
    "content filter": ([ROLE, chunk({}, "content_filter"), DONE], {}, 0),
    "stop word": ([ROLE, chunk({}, "stop"), DONE], {"generate_cfg": {"stop": ["x"]}}, 0),
    "accepted": ([ROLE, FINISH], {}, 0),
}


@pytest.mark.parametrize("name", ENDS)
async def test_an_end_that_explains_that_there_is_no_answer_is_not_retried(name: str) -> None:
    parts, more, warnings = ENDS[name]
    if name == "stop word":
        parts = [ROLE, say("x and more"), FINISH]
    profile = {"empty_replies": "accept"} if name == "accepted" else {}
    first, second = InTurn(sending(*parts)), InTurn(good)
    async with FaultServer(a=first, b=second) as server:
        async with serving_with(tree(server, {"m": {**TWO["m"], "profile": profile}})) as gateway:
            replies = [await ask(gateway, stream=False, **more) for _ in range(2)]
    assert [(reply.status, reply.texts, len(reply.warnings)) for reply in replies] == [(200, [], warnings)] * 2
    assert (first.requests, second.requests) == (2, 0)


@STREAM
async def test_a_reply_of_reasoning_alone_is_a_reply(stream: bool) -> None:
    first = InTurn(sending(THOUGHT, FINISH))
    async with FaultServer(a=first, b=good) as server:
        async with serving_with(tree(server, TWO)) as gateway:
            replies = [await ask(gateway, stream=stream, generate_cfg={"temperature": 0}) for _ in range(2)]
    assert [(reply.texts, reply.warnings) for reply in replies] == [(["Hm."], [])] * 2
    assert first.requests == 1


async def test_a_reply_of_reasoning_alone_counts_as_empty_if_the_profile_says_so() -> None:
    models = {"m": {**TWO["m"], "profile": {"empty_replies": "retry_reasoning"}}}
    first = InTurn(sending(THOUGHT, THOUGHT, FINISH))
    async with FaultServer(a=first, b=good) as server:
        async with serving_with(tree(server, models)) as gateway:
            retried = await ask(gateway, stream=False)
            assert (retried.texts, retried.warnings) == (["from good"], [])
            for _ in range(2):
                sent = await ask(gateway, stream=True, generate_cfg={"temperature": 0})
                assert (sent.texts, ["reasoning" in text for text in sent.warnings]) == (["Hm.Hm."], [True])
    assert first.requests == 3


async def test_reasoning_that_is_held_back_is_sent_before_the_answer_or_the_failure() -> None:
    models = {"m": {**TWO["m"], "profile": {"empty_replies": "retry_reasoning"}}}
    error = b'data: {"error":{"message":"engine lost"}}\n\n'
    ends: list[tuple[bytes, int]] = [(say("Yes.") + FINISH, 200), (error, 502)]
    for end, status in ends:
        async with FaultServer(a=sending(THOUGHT, THOUGHT, end), b=good) as server:
            async with serving_with(tree(server, models)) as gateway:
                reply = await ask(gateway, stream=False)
        assert (reply.status, reply.texts[0]) == (status, "Hm.Hm.")


async def test_an_empty_reply_does_not_win_over_the_second_request() -> None:
    async def late(exchange: Exchange) -> None:
        await exchange.send(CLOSING)
        await asyncio.sleep(0.3)
        await exchange.send(say("late"), FINISH)

    async def empty(exchange: Exchange) -> None:
        await asyncio.sleep(0.15)
        await sending(*EMPTY["nothing"])(exchange)

    models = {"m": {**TWO["m"], "hedge_after_seconds": 0.05}}
    async with FaultServer(a=empty, b=late) as server:
        async with serving_with(tree(server, models)) as gateway:
            reply = await ask(gateway, stream=True)
    assert (reply.texts, reply.warnings) == (["late"], [])


async def test_an_empty_reply_of_the_second_request_is_sent_if_the_first_fails() -> None:
    async def failing(exchange: Exchange) -> None:
        await asyncio.sleep(0.3)
        await with_status(500)(exchange)

    models = {"m": {**TWO["m"], "hedge_after_seconds": 0.05}}
    async with FaultServer(a=failing, b=sending(*EMPTY["nothing"])) as server:
        async with serving_with(tree(server, models)) as gateway:
            reply = await ask(gateway, stream=True)
    assert (reply.status, "empty" in reply.warnings[0]) == (200, True)


async def test_the_caller_can_leave_while_an_answer_is_waited_for() -> None:
    async def blank(exchange: Exchange) -> None:
        await exchange.send(CLOSING, say("\n"))
        await black_hole(exchange)

    async with FaultServer(a=blank, b=good) as server:
        async with serving_with(tree(server, TWO)) as gateway:
            with pytest.raises(asyncio.TimeoutError):
                async with asyncio.timeout(0.3):
                    await ask(gateway, stream=True)
