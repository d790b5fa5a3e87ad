"""Replies with tools of the gateway, over HTTP: limits, cache, equal requests, cancellation, resume, ends."""

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any, cast

import httpx
import pytest
from app.access import hash_key
from app.chat.server_tools import ToolBounds
from msgspec.structs import replace

from tests.api.tool_turns import NOW, SET, calls, chunk, says
from tests.in_process_gateway import Answer, ModelServer, Running, streamed
from tests.tool_loop.fake_servers import FakeServers, make_tool, text_answer
from tests.tool_loop.golden_cases import join_deltas

Json = dict[str, Any]
CHAT: Json = {"model": "m", "messages": [{"role": "user", "content": "Weather?"}], "stream": False}
KEY = "key-of-alice-0001"
HEADERS = {"authorization": f"Bearer {KEY}"}


class Model(ModelServer):
    """Calls `wx-now` in the first rounds of a conversation, and then answers."""

    def __init__(self, rounds: int = 1, *names: str, cost: float | None = None) -> None:
        self._rounds, self._names, self._cost = rounds, names or ("wx-now",), cost
        super().__init__(self._reply)

    def _reply(self, request: httpx.Request) -> httpx.Response:
        messages = json.loads(request.content)["messages"]
        asked = sum("tool_calls" in message for message in messages)
        return calls(*self._names, cost=self._cost) if asked < self._rounds else says(cost=self._cost)


def gateway(model: ModelServer, servers: FakeServers | None = None, **settings: Any) -> Running:
    tree = {"upstreams": {"local": {"base_url": "http://model.test/v1"}}, "models": {"m": {"upstreams": ["local"]}}}
    running = Running({**tree, "cache": {"url": "memory:"}, **settings}, model)
    running.context.tools = cast(Any, servers or FakeServers([NOW]))
    return running


def test_the_cache_answers_model_calls_and_tools_run_again() -> None:
    model, servers = Model(), FakeServers([NOW], {"wx-now": text_answer("12")})
    with gateway(model, servers) as running:
        first = running.post("/v1/chat", CHAT)
        again = running.post("/v1/chat", CHAT)
        servers.answers["wx-now"] = text_answer("13")
        changed = running.post("/v1/chat", CHAT)
    assert (first.headers["x-parley-cache"], first.json["cached"]) == ("miss", False)
    assert (again.headers["x-parley-cache"], again.json["cached"]) == ("hit", True)
    assert changed.json["cached"] is False
    assert [call["cached"] for call in changed.json["server_tools"]["model_calls"]] == [True, False]
    assert (len(model.requests), len(servers.calls)) == (3, 3)
    assert again.json["messages"] == first.json["messages"]


def test_a_stream_says_at_its_end_whether_all_of_it_was_from_the_cache() -> None:
    with gateway(Model()) as running:
        running.post("/v1/chat", CHAT)
        frames = running.post("/v1/chat", CHAT | {"stream": True}).frames
    assert (frames[0]["cached"], frames[-1]["cached"]) == (False, True)


def test_equal_requests_at_once_share_model_calls_and_run_their_own_tools() -> None:
    model, servers = Model(), FakeServers([NOW])
    gate = servers.gates["wx-now"] = asyncio.Event()

    async def both(running: Running) -> list[Answer]:
        body = [json.dumps(CHAT).encode()]
        asked = [asyncio.create_task(running.ask_async("POST", "/v1/chat", body)) for _ in range(2)]
        while len(servers.calls) < 2:
            await asyncio.sleep(0)
        gate.set()
        return list(await asyncio.gather(*asked))

    with gateway(model, servers) as running:
        answers = running.loop.run_until_complete(both(running))
    assert [answer.status for answer in answers] == [200, 200]
    assert answers[0].json["messages"] == answers[1].json["messages"]
    assert (len(model.requests), len(servers.calls)) == (2, 2)


def test_usage_and_cost_are_the_sum_of_the_calls_that_were_paid_for() -> None:
    model = Model(2, cost=0.5)
    with gateway(model) as running:
        first = running.post("/v1/chat", CHAT).json
        cached = running.post("/v1/chat", CHAT).json
        usage = running.get("/v1/usage").json
    assert first["usage"] == {"prompt_tokens": 30, "completion_tokens": 15, "total_tokens": 45, "cost": 1.5}
    assert [call["cost"] for call in first["server_tools"]["model_calls"]] == [0.5, 0.5, 0.5]
    assert cached["usage"]["cost"] == 0.0
    shown = json.dumps(usage)
    assert '"requests": 2' in shown
    assert '"cost": 1.5' in shown


def limited(model: ModelServer, limits: Json) -> Running:
    return gateway(model, keys={"alice": {"sha256": hash_key(KEY), "limits": limits}}, cache={"url": "null:"})


def test_each_call_to_the_model_counts_for_the_limits_of_requests() -> None:
    model = Model(4)
    with limited(model, {"requests_per_minute": 3}) as running:
        whole = running.post("/v1/chat", CHAT, HEADERS)
    assert len(model.requests) == 3
    assert (whole.status, whole.json["error"]["code"], whole.json["error"]["retryable"]) == (429, "rate_limit", True)
    assert len(whole.json["error"]["partial"]) == 9
    with limited(Model(4), {"requests_per_minute": 3}) as running:
        frames = running.post("/v1/chat", CHAT | {"stream": True}, HEADERS).frames
    assert (frames[-1]["type"], frames[-1]["error"]["code"]) == ("response.failed", "rate_limit")


def test_the_tokens_of_each_call_are_given_back_by_what_it_used() -> None:
    with limited(Model(2), {"tokens_per_minute": 5000}) as running:
        running.post("/v1/chat", CHAT, HEADERS)
        after = running.post("/v1/chat", CHAT, HEADERS)
    used = 5000 - int(after.headers["x-ratelimit-remaining-tokens"])
    assert 45 + 1000 < used < 45 + 1100


@pytest.mark.parametrize(("path", "reason"), [("/v1/chat", "tool_limit"), ("/v1/chat/completions", "length")])
def test_a_bound_is_told_in_each_format(path: str, reason: str) -> None:
    for stream in (False, True):
        with gateway(Model(9), FakeServers([NOW], bounds=ToolBounds(max_rounds=2))) as running:
            answer = running.post(path, CHAT | {"stream": stream})
            last = answer.json if not stream else find_end(answer)
        found = last.get("finish_reason") or last["choices"][0]["finish_reason"]
        assert (found, last["server_tools"]["limit"]) == (reason, "rounds")


@pytest.mark.parametrize(("path", "reason"), [("/v1/chat", "tool_approval"), ("/v1/chat/completions", "stop")])
def test_a_call_that_waits_for_approval_is_told_in_each_format(path: str, reason: str) -> None:
    for stream in (False, True):
        with gateway(Model(1, "wx-set"), FakeServers([NOW, SET])) as running:
            answer = running.post(path, CHAT | {"stream": stream})
            last = answer.json if not stream else find_end(answer)
        assert (last.get("finish_reason") or last["choices"][0]["finish_reason"]) == reason
        assert b'"approval":"required"' in answer.body


def find_end(answer: Answer) -> Json:
    lines = [line[6:] for line in answer.body.decode().split("\n") if line.startswith("data: {")]
    found: Json = next(frame for line in reversed(lines) if "server_tools" in (frame := json.loads(line)))
    return found


def test_a_later_call_to_the_model_that_fails_is_the_status_of_a_whole_reply_with_what_was_said_before() -> None:
    replies = [calls("wx-now"), httpx.Response(500, json={"error": {"message": "no"}})]
    for path, partial in [("/v1/chat", 3), ("/v1/chat/completions", 2)]:
        with gateway(ModelServer(lambda _, left=list(replies): left.pop(0))) as running:  # type: ignore[misc]
            answer = running.post(path, CHAT)
        assert answer.status >= 500
        assert answer.json["error"]["code"] == "server_error"
        assert len(answer.json["error"]["partial"]) == partial
        assert len(answer.json["error"]["server_tools"]["calls"]) == 1


def test_a_failed_reply_says_what_was_done_before_in_responses_and_agentscope() -> None:
    def make_model() -> ModelServer:
        replies = [calls("wx-now"), httpx.Response(500, json={"error": {"message": "no"}})]
        return ModelServer(lambda _: replies.pop(0))

    with gateway(make_model()) as running:
        failed = running.post("/v1/responses", {"model": "m", "input": "Weather?", "stream": True}).frames[-1]
    assert failed["type"] == "response.failed"
    assert failed["response"]["parley"]["server_tools"]["calls"][0]["outcome"] == "ok"
    assert "server_tools" not in failed["response"]["error"]
    messages = [{"name": "user", "role": "user", "content": [{"type": "text", "text": "Weather?"}]}]
    with gateway(make_model()) as running:
        body = {"model": "m", "format": "agentscope2", "messages": messages, "stream": True}
        ended = running.post("/v1/chat", body).frames[-1]
    assert (ended["type"], ended["metadata"]["finish_reason"]) == ("REPLY_END", "failed")
    assert ended["metadata"]["server_tools"]["calls"][0]["outcome"] == "ok"


def start_stream(running: Running, body: Json) -> "asyncio.Task[Answer]":
    return running.loop.create_task(
        running.ask_async("POST", "/v1/chat", [json.dumps(body | {"stream": True}).encode()])
    )


async def wait_for(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not check():
            await asyncio.sleep(0.001)


def test_delete_cancels_running_tools_and_the_reply_ends_as_cancelled() -> None:
    model, servers = Model(), FakeServers([NOW])
    servers.gates["wx-now"] = asyncio.Event()

    async def check(running: Running) -> Answer:
        task = start_stream(running, CHAT)
        await wait_for(lambda: servers.running == 1)
        [response] = running.context.replies.active
        deleted = await running.ask_async("DELETE", f"/v1/chat/{response.info.response_id}")
        assert deleted.json["cancelled"] is True
        await wait_for(lambda: servers.cancelled == ["wx-now"] and servers.closed == 1)
        return await task

    with gateway(model, servers) as running:
        answer = running.loop.run_until_complete(check(running))
        assert running.context.cache.calls == 0
    assert answer.frames[-1]["error"]["code"] == "cancelled"
    assert len(model.requests) == 1


def test_a_caller_who_leaves_cancels_the_tools_and_no_model_is_asked_any_more() -> None:
    model, servers = Model(), FakeServers([NOW])
    servers.gates["wx-now"] = asyncio.Event()

    async def check(running: Running) -> None:
        start_stream(running, CHAT)
        await wait_for(lambda: servers.running == 1)
        [response] = running.context.replies.active
        response.disconnect()
        await wait_for(lambda: servers.cancelled == ["wx-now"])

    with gateway(model, servers) as running:
        running.loop.run_until_complete(check(running))
    assert (len(model.requests), servers.closed) == (1, 1)


def test_a_reply_is_resumed_in_the_middle_of_a_tool_and_both_streams_are_equal() -> None:
    model, servers = Model(), FakeServers([NOW])
    gate = servers.gates["wx-now"] = asyncio.Event()

    async def check(running: Running) -> tuple[Answer, Answer, Answer, Answer]:
        task = start_stream(running, CHAT)
        await wait_for(lambda: servers.running == 1)
        [response] = running.context.replies.active
        path = f"/v1/chat/{response.info.response_id}"
        waiting = await running.ask_async("GET", path)
        resumed = running.loop.create_task(running.ask_async("GET", f"{path}/events"))
        await asyncio.sleep(0.01)
        gate.set()
        first, second = await task, await resumed
        return waiting, first, second, await running.ask_async("GET", path)

    with gateway(model, servers) as running:
        waiting, first, second, whole = running.loop.run_until_complete(check(running))
    assert waiting.status == 202
    assert first.frames == second.frames
    assert first.frames[-1]["type"] == "response.completed"
    assert [message["role"] for message in whole.json["messages"]] == [
        "assistant",
        "assistant",
        "function",
        "assistant",
    ]
    assert len(servers.calls) == 1


def test_a_call_that_goes_on_without_its_caller_finishes_its_tools() -> None:
    model, servers = Model(), FakeServers([NOW])
    gate = servers.gates["wx-now"] = asyncio.Event()

    async def check(running: Running) -> Answer:
        start_stream(running, CHAT | {"cancel_on_disconnect": False})
        await wait_for(lambda: servers.running == 1)
        [response] = running.context.replies.active
        response.disconnect()
        gate.set()
        await wait_for(lambda: len(model.requests) == 2 and running.context.cache.calls == 0)
        return await running.ask_async("GET", f"/v1/chat/{response.info.response_id}")

    with gateway(model, servers) as running:
        answer = running.loop.run_until_complete(check(running))
    assert answer.json["finish_reason"] == "stop"
    assert servers.cancelled == []


def test_the_model_sees_the_same_bytes_as_if_the_client_sent_the_history() -> None:
    model = Model()
    with gateway(model, cache={"url": "null:"}) as running:
        reply = running.post("/v1/chat", CHAT).json
        history = [*CHAT["messages"], *reply["messages"][:-1]]
        running.post("/v1/chat", CHAT | {"messages": history})
    assert model.requests[2].content == model.requests[1].content


@pytest.mark.parametrize("end", [b"", b"data: [DO", None])
def test_no_tool_runs_for_a_turn_that_was_cut(end: bytes | None) -> None:
    whole = b"".join(asyncio.run(_read(calls("wx-now"))))
    servers = FakeServers([NOW])
    cut_at = whole.index(b'"finish_reason": "tool_calls"') if end is None else len(whole) // 2
    with gateway(ModelServer(lambda _: streamed(whole[:cut_at] + (end or b""))), servers) as running:
        answer = running.post("/v1/chat", CHAT)
    assert answer.status >= 500
    assert servers.calls == []


async def _read(response: httpx.Response) -> list[bytes]:
    return [piece async for piece in response.aiter_raw()]


def test_without_servers_of_tools_a_reply_is_as_before() -> None:
    with gateway(Model()) as running:
        running.context.tools = None
        answer = running.post("/v1/chat", CHAT)
    assert answer.status == 200
    assert "server_tools" not in answer.json


def test_warnings_of_servers_are_told() -> None:
    with gateway(Model(), FakeServers([NOW], warnings=["wx2 cannot be reached"])) as running:
        for body in (CHAT, CHAT | {"stream": True}):
            answer = running.post("/v1/chat", body)
            assert b"wx2 cannot be reached" in answer.body
            assert "wx2 cannot be reached" in answer.headers["x-parley-warnings"]


TEXT_CALLS: list[tuple[Json, str]] = [
    ({"native_tools": False}, '<tool_call>\n{"name": "wx-now", "arguments": {"a": 1}}\n</tool_call>'),
    ({"native_tools": False, "fncall_prompt_type": "qwen"}, '✿FUNCTION✿: wx-now\n✿ARGS✿: {"a": 1}\n'),
    ({"text_tools": "hermes"}, '<tool_call>\n{"name": "wx-now", "arguments": {"a": 1}}\n</tool_call>'),
    ({"text_tools": "pythonic"}, "[wx-now(a=1)]"),
    ({"text_tools": "llama_json"}, '{"name": "wx-now", "parameters": {"a": 1}}'),
    (
        {"text_tools": "qwen3_coder"},
        "<tool_call>\n<function=wx-now>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
    ),
    ({"text_tools": "glm45"}, "<tool_call>wx-now\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"),
    ({"text_tools": "mistral_json"}, '[TOOL_CALLS][{"name": "wx-now", "arguments": {"a": 1}}]'),
]


@pytest.mark.parametrize(("profile", "text"), TEXT_CALLS)
def test_models_that_write_calls_as_text_run_the_same_loop(profile: Json, text: str) -> None:
    tool = replace(make_tool("wx", "now"), parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
    end = chunk({}, "stop") + b"data: [DONE]\n\n"
    turns = [streamed(chunk({"content": piece}) + end) for piece in (text, "Sunny.")]
    servers = FakeServers([tool])
    model = {"upstreams": ["local"], "profile": profile}
    with gateway(ModelServer(lambda _: turns.pop(0)), servers, models={"m": model}) as running:
        reply = running.post("/v1/chat", CHAT).json
    assert servers.calls == [(tool.name, {"a": 1})]
    assert [message["role"] for message in reply["messages"]] == ["assistant", "function", "assistant"]
    assert reply["messages"][0]["function_call"]["name"] == tool.name
    assert json.loads(reply["messages"][0]["function_call"]["arguments"]) == {"a": 1}
    assert (reply["messages"][1]["content"], reply["messages"][2]["content"]) == ("ok", "Sunny.")


@pytest.mark.parametrize(("profile", "text"), TEXT_CALLS)
def test_models_that_write_calls_as_text_think_and_call_in_three_turns(profile: Json, text: str) -> None:
    tool = replace(make_tool("wx", "now"), parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
    end = chunk({}, "stop") + b"data: [DONE]\n\n"
    written = [("One.", text), ("Two.", text), ("Three.", "Sunny.")]
    turns = [
        streamed(chunk({"reasoning_content": thought}) + chunk({"content": said}) + end) for thought, said in written
    ]
    model, servers = ModelServer(lambda _: turns.pop(0)), FakeServers([tool], {"wx-now": text_answer("noon")})
    row = {"upstreams": ["local"], "profile": profile}
    with gateway(model, servers, models={"m": row}) as running:
        reply = running.post("/v1/chat", CHAT).json
    kinds = [next(key for key in _KINDS if message.get(key) or key == "content") for message in reply["messages"]]
    assert kinds == [*["reasoning_content", "function_call", "content"] * 2, "reasoning_content", "content"]
    assert [message["reasoning_content"] for message in reply["messages"][::3]] == ["One.", "Two.", "Three."]
    assert [request.content.count(b"noon") for request in model.requests] == [0, 1, 2]


_KINDS = ("reasoning_content", "function_call", "content")
PARALLEL_CALLS: list[tuple[Json, str]] = [
    (
        {"native_tools": False},
        '<tool_call>\n{"name": "wx-now", "arguments": {"a": 1}}\n</tool_call>\n'
        '<tool_call>\n{"name": "wx-rain", "arguments": {"a": 2}}\n</tool_call>',
    ),
    (
        {"native_tools": False, "fncall_prompt_type": "qwen"},
        '✿FUNCTION✿: wx-now\n✿ARGS✿: {"a": 1}\n✿FUNCTION✿: wx-rain\n✿ARGS✿: {"a": 2}\n',
    ),
    (
        {"text_tools": "hermes"},
        '<tool_call>\n{"name": "wx-now", "arguments": {"a": 1}}\n</tool_call>\n'
        '<tool_call>\n{"name": "wx-rain", "arguments": {"a": 2}}\n</tool_call>',
    ),
    ({"text_tools": "pythonic"}, "[wx-now(a=1), wx-rain(a=2)]"),
    (
        {"text_tools": "qwen3_coder"},
        "<tool_call>\n<function=wx-now>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>\n"
        "<tool_call>\n<function=wx-rain>\n<parameter=a>\n2\n</parameter>\n</function>\n</tool_call>",
    ),
    (
        {"text_tools": "glm45"},
        "<tool_call>wx-now\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>\n"
        "<tool_call>wx-rain\n<arg_key>a</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
    ),
    (
        {"text_tools": "mistral_json"},
        '[TOOL_CALLS][{"name": "wx-now", "arguments": {"a": 1}}, {"name": "wx-rain", "arguments": {"a": 2}}]',
    ),
]
BLOCKS = [{"name": "user", "role": "user", "content": [{"type": "text", "text": "Weather?"}]}]
FACES: list[tuple[str, Json]] = [
    ("/v1/chat", CHAT),
    ("/v1/chat", CHAT | {"format": "agentscope2", "messages": BLOCKS}),
    ("/v1/chat/completions", CHAT),
    ("/v1/messages", CHAT | {"max_tokens": 100}),
    ("/v1/responses", {"model": "m", "input": "Weather?", "store": False, "stream": False}),
]
_DIFFERS = re.compile(
    r'"(id|\w*_?id|function_id|created\w*|completed_at|finished_at|ms|obfuscation)": ("[^"]*"|[\d.]+)'
)
"""What is not the same in two equal replies."""


def read_parallel(profile: Json, turn: bytes, path: str, body: Json) -> str:
    """Return what a client gets of a reply with two calls, without what is not the same in two equal ones."""
    end = chunk({}, "stop") + b"data: [DONE]\n\n"
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}}
    tools = [replace(make_tool("wx", name), parameters=parameters) for name in ("now", "rain")]
    servers = FakeServers(tools, {"wx-now": text_answer("12"), "wx-rain": text_answer("no")})
    turns = [streamed(turn + end), streamed(chunk({"content": "Sunny."}) + end)]
    model = {"upstreams": ["local"], "profile": profile, "defaults": {"parallel_function_calls": True}}
    with gateway(ModelServer(lambda _: turns.pop(0)), servers, models={"m": model}) as running:
        answer = running.post(path, body).body.decode()
    assert servers.calls == [("wx-now", {"a": 1}), ("wx-rain", {"a": 2})]
    assert servers.most_running == 2
    if body["stream"]:
        lines = [line.removeprefix("data: ") for line in answer.split("\n") if line.startswith("data: {")]
        answer = json.dumps(join_deltas([json.loads(line) for line in lines]))
    return _DIFFERS.sub("", json.dumps(json.loads(answer)))


@pytest.mark.parametrize(("path", "body"), FACES)
def test_parallel_calls_in_text_give_the_reply_of_native_ones(path: str, body: Json) -> None:
    called = [
        {"index": at, "id": f"c{at}", "type": "function", "function": {"name": name, "arguments": f'{{"a": {at + 1}}}'}}
        for at, name in enumerate(("wx-now", "wx-rain"))
    ]
    for stream in (False, True):
        asked = body | {"stream": stream}
        native = read_parallel({}, chunk({"tool_calls": called}), path, asked)
        for profile, text in PARALLEL_CALLS:
            assert read_parallel(profile, chunk({"content": text}), path, asked) == native, profile


def test_a_stored_call_of_a_tool_can_be_referred_to() -> None:
    model, question = Model(), {"role": "user", "content": "Weather?"}
    servers = FakeServers([NOW], {"wx-now": text_answer("12")})
    with gateway(model, servers, responses={"store_seconds": 3600}) as running:
        output = running.post("/v1/responses", {"model": "m", "input": [question]}).json["output"]
        named = [{"type": "item_reference", "id": item["id"]} for item in output]
        running.post("/v1/responses", {"model": "m", "input": [question, *named, question]})
    [_, first, again] = [json.loads(request.content)["messages"] for request in model.requests]
    assert again == [*first, {"role": "assistant", "content": "Sunny."}, question]
    assert [message["role"] for message in first] == ["user", "assistant", "tool"]


def test_snapshots_have_the_results_too() -> None:
    with gateway(Model()) as running:
        frames = running.post("/v1/chat", CHAT | {"stream": True, "stream_mode": "snapshot"}).frames
        whole = running.post("/v1/chat", CHAT).json
    assert frames[-2]["messages"] == whole["messages"]
