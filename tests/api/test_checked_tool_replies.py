"""With `check_output = "enforce"` the last turn of a reply with tools of the gateway is held back until it is valid."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import httpx
import pytest

from tests.api.checked_requests import BAD, CHAT, FENCED, GOOD, MESSAGES, PARLEY, RESPONSES, body, settings
from tests.api.tool_turns import NOW, calls, chunk, says
from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running
from tests.tool_loop.fake_servers import FakeServers, make_tool, text_answer

LOOK = "I look."


def model(*turns: httpx.Response) -> ModelServer:
    left = list(turns)
    return ModelServer(lambda _: left.pop(0))


def gateway(server: ModelServer, servers: FakeServers | None = None, **model: Any) -> Running:
    running = Running({**settings("enforce", **model), "cache": {"url": "memory:"}}, server)
    running.context.tools = cast(Any, servers or FakeServers([NOW], {"wx-now": text_answer("12")}))
    return running


def read_roles(server: ModelServer, number: int) -> list[str]:
    return [message["role"] for message in json.loads(server.requests[number].content)["messages"]]


@each_case("path", [CHAT, PARLEY, MESSAGES, RESPONSES])
@pytest.mark.parametrize("stream", [False, True])
def test_the_last_turn_is_asked_again_in_every_format(path: str, stream: bool) -> None:
    server, servers = model(calls("wx-now", text=LOOK), says(BAD), says(GOOD)), FakeServers([NOW])
    with gateway(server, servers) as running:
        answer = running.post(path, body(path, stream=stream))
        metrics = running.get("/metrics").body.decode()
    text = answer.body.decode()
    assert answer.status == 200
    assert LOOK in text and BAD not in text and "asked once more" in text
    assert GOOD in text.replace("\\", "")
    assert len(servers.calls) == 1
    assert read_roles(server, 2) == ["user", "assistant", "tool", "assistant", "user"]
    assert 'parley_output_checks_total{model="m",outcome="asked_again"} 1.0' in metrics


def test_usage_is_that_of_all_calls_and_a_turn_has_that_of_its_own() -> None:
    server = model(calls("wx-now", cost=0.5), says(BAD, cost=0.5), says(GOOD, cost=0.5))
    with gateway(server) as running:
        reply = running.post(PARLEY, body(PARLEY)).json
        usage = running.get("/v1/usage").json
    assert reply["usage"] == {"prompt_tokens": 30, "completion_tokens": 15, "total_tokens": 45, "cost": 1.5}
    assert [call["usage"]["total_tokens"] for call in reply["server_tools"]["model_calls"]] == [15, 30]
    assert '"cost": 1.5' in json.dumps(usage)


def test_a_fence_is_taken_off() -> None:
    with gateway(model(calls("wx-now", text=LOOK), says(FENCED))) as running:
        reply = running.post(PARLEY, body(PARLEY)).json
    assert (reply["messages"][0]["content"], reply["messages"][-1]["content"]) == (LOOK, '{"a":1}')
    assert any("without its fence" in line for line in reply["warnings"])


def test_the_second_reply_may_call_tools_and_the_turn_after_it_is_checked() -> None:
    server = model(says(BAD), calls("wx-now", text=LOOK), says(BAD), says(GOOD))
    with gateway(server) as running:
        reply = running.post(PARLEY, body(PARLEY)).json
    contents = [message["content"] for message in reply["messages"] if "function_call" not in message]
    assert contents == [LOOK, "12", GOOD]
    assert read_roles(server, 2) == ["user", "assistant", "tool"]
    assert len([line for line in reply["warnings"] if "asked once more" in line]) == 1
    assert reply["usage"]["total_tokens"] == 60


@each_case("turns", [[], [calls("wx-now", text=LOOK)]])
def test_then_the_fallback_answers_the_turn(turns: Sequence[httpx.Response]) -> None:
    server = model(*turns, says(BAD), says(BAD), says(GOOD))
    with gateway(server, fallbacks=["other"]) as running:
        reply = running.post(PARLEY, body(PARLEY)).json
    assert reply["messages"][-1]["content"] == GOOD
    assert json.loads(server.requests[-1].content)["model"] == "other"
    assert any("other has answered instead" in line for line in reply["warnings"])
    assert ("other" in str(reply["model"])) is (not turns)


@pytest.mark.parametrize("stream", [False, True])
def test_then_it_is_an_error_with_what_was_done(stream: bool) -> None:
    with gateway(model(calls("wx-now"), says(BAD), says(BAD))) as running:
        answer = running.post(PARLEY, body(PARLEY) | {"stream": stream})
    error = (answer.frames[-1] if stream else answer.json)["error"]
    assert answer.status == (200 if stream else 502)
    assert error["code"] == "output_invalid"
    assert error["upstream"]["detail"]["text"] == BAD
    assert error["usage"]["total_tokens"] == 45
    assert len(error["server_tools"]["calls"]) == 1


@each_case(
    ("turn", "tools", "reason"),
    [
        (calls("f", text=BAD), [NOW], "tool_calls"),
        (calls("wx-set", text=BAD), [make_tool("wx", "set", approval=True)], "tool_approval"),
        (calls("wx-now", text=BAD, finish="length"), [NOW], "length"),
    ],
)
def test_a_turn_that_ends_the_reply_otherwise_is_not_checked(turn: httpx.Response, tools: Any, reason: str) -> None:
    functions = [{"name": "f", "parameters": {"type": "object"}}]
    with gateway(model(turn), FakeServers(tools)) as running:
        reply = running.post(PARLEY, body(PARLEY, functions=functions)).json
    assert reply["finish_reason"] == reason
    assert BAD in json.dumps(reply["messages"])
    assert not [line for line in reply.get("warnings", ()) if "schema of" in line]


class _Waits(httpx.AsyncByteStream):
    """The beginning of a turn, and its rest once `may` is set."""

    def __init__(self, first: bytes, rest: bytes) -> None:
        self._first, self._rest = first, rest
        self.may = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._first
        await self.may.wait()
        yield self._rest


def test_a_turn_streams_from_its_first_call_on() -> None:
    called = {"index": 0, "id": "c", "type": "function", "function": {"name": "wx-now", "arguments": "{"}}
    first = chunk({"content": LOOK}) + chunk({"tool_calls": [called]})
    rest = chunk({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}) + chunk({}, "tool_calls")
    stream = _Waits(first, rest)
    turn = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=stream)

    def let_go_on(piece: bytes) -> None:
        if LOOK.encode() in piece:
            stream.may.set()

    async def run(running: Running) -> None:
        raw = [json.dumps(body(CHAT, stream=True)).encode()]
        async with asyncio.timeout(5):
            answer = await running.ask_async("POST", CHAT, raw, on_body=let_go_on)
        assert b"asked once more" not in answer.body

    with gateway(model(turn, says(GOOD))) as running:
        running.loop.run_until_complete(run(running))


def test_without_tools_too_a_reply_with_calls_streams_from_its_first_call_on() -> None:
    called = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}
    stream = _Waits(chunk({"content": LOOK}) + chunk({"tool_calls": [called]}), chunk({}, "tool_calls"))
    turn = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=stream)
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]

    def let_go_on(piece: bytes) -> None:
        if LOOK.encode() in piece:
            stream.may.set()

    async def run(running: Running) -> bytes:
        raw = [json.dumps(body(CHAT, stream=True, tools=tools)).encode()]
        async with asyncio.timeout(5):
            return (await running.ask_async("POST", CHAT, raw, on_body=let_go_on)).body

    with Running(settings("enforce"), model(turn)) as running:
        assert b'"finish_reason":"tool_calls"' in running.loop.run_until_complete(run(running))


def test_a_client_that_leaves_stops_the_call_that_is_held_back() -> None:
    closed = asyncio.Event()

    class Closing(_Waits):
        async def aclose(self) -> None:
            closed.set()

    stream = Closing(chunk({"content": "{"}), b"")
    turn = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=stream)

    async def run(running: Running) -> None:
        raw = [json.dumps(body(CHAT, stream=True)).encode()]
        asking = asyncio.create_task(running.ask_async("POST", CHAT, raw))
        while len(server.requests) < 2:
            await asyncio.sleep(0)
        asking.cancel()
        async with asyncio.timeout(5):
            await closed.wait()

    server = model(calls("wx-now"), turn)
    with gateway(server) as running:
        running.loop.run_until_complete(run(running))


def test_a_client_of_the_servers_own_api_is_asked_again_for_a_valid_reply() -> None:
    def reply(text: str) -> httpx.Response:
        message = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": text}]}
        usage = {"input_tokens": 1, "output_tokens": 1}
        return httpx.Response(200, json={**message, "id": "m", "model": "m", "stop_reason": "end_turn", "usage": usage})

    tree = settings("enforce")
    tree["upstreams"]["local"] = {"base_url": "http://model.test", "api": "messages"}
    server = model(reply(BAD), reply(GOOD))
    with Running(tree, server) as running:
        answer = running.post(MESSAGES, body(MESSAGES))
    assert answer.json["content"][-1]["text"] == GOOD
    assert BAD in server.requests[1].content.decode()
