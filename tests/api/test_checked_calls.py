"""With `check_output = "enforce"` a call that the request demands is held back until its arguments are valid."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.api.checked_requests import CHAT, MESSAGES, PARLEY, RESPONSES, SCHEMA, settings, warnings
from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running, streamed

GOOD, MENDABLE, BAD = '{"a": 1}', '{"a": 1,}', '{"a": "x"}'


def call(*replies: str | None, name: str = "f") -> Callable[[httpx.Request], httpx.Response]:
    """Answer with calls that have these arguments, one for each request; with prose for None."""
    left = list(replies)

    def answer(_: httpx.Request) -> httpx.Response:
        arguments = left.pop(0)
        called = [{"index": 0, "id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}]
        delta: dict[str, Any] = {"content": "It is 1."} if arguments is None else {"tool_calls": called}
        reason = "stop" if arguments is None else "tool_calls"
        chunks: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": delta}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
            {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}},
        ]
        return streamed(*[f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks], b"data: [DONE]\n\n")

    return answer


def body(path: str, **more: Any) -> dict[str, Any]:
    messages = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    tool = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
    choice = {"type": "function", "function": {"name": "f"}}
    bodies: dict[str, dict[str, Any]] = {
        CHAT: {**messages, "tools": [tool], "tool_choice": choice},
        PARLEY: {
            **messages,
            "functions": [tool["function"]],
            "generate_cfg": {"function_choice": "f"},
            "stream": False,
        },
        MESSAGES: {
            **messages,
            "max_tokens": 99,
            "tools": [{"name": "f", "input_schema": SCHEMA}],
            "tool_choice": {"type": "tool", "name": "f"},
        },
        RESPONSES: {
            "model": "m",
            "input": "x",
            "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}],
            "tool_choice": {"type": "function", "name": "f"},
            "store": False,
        },
    }
    return bodies[path] | more


@each_case(
    ("path", "first"),
    [(CHAT, BAD), (CHAT, None), (CHAT, "{"), (PARLEY, BAD), (MESSAGES, BAD), (MESSAGES, None), (RESPONSES, BAD)],
)
@pytest.mark.parametrize("stream", [False, True])
def test_the_call_is_demanded_once_more(path: str, first: str | None, stream: bool) -> None:
    models = ModelServer(call(first, GOOD))
    with Running(settings("enforce"), models) as gateway:
        answer = gateway.post(path, body(path, stream=stream))
        metrics = gateway.get("/metrics").body.decode()
    text = answer.body.decode()
    assert answer.status == 200
    assert "It is 1." not in text and "asked once more" in text
    second = json.loads(models.requests[1].content)
    assert second["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert "must be called" in second["messages"][-1]["content"]
    assert 'parley_output_checks_total{model="m",outcome="asked_again"} 1.0' in metrics


def test_the_valid_call_is_the_reply() -> None:
    with Running(settings("enforce"), ModelServer(call(BAD, GOOD))) as gateway:
        reply = gateway.post(CHAT, body(CHAT)).json
    [choice] = reply["choices"]
    [one] = choice["message"]["tool_calls"]
    assert (one["function"]["arguments"], choice["finish_reason"]) == (GOOD, "tool_calls")
    assert reply["usage"]["total_tokens"] == 30


def test_arguments_are_mended() -> None:
    models = ModelServer(call(MENDABLE))
    with Running(settings("enforce"), models) as gateway:
        answer = gateway.post(CHAT, body(CHAT))
    assert answer.json["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"a":1}'
    assert any("the demanded call of 'f'" in line for line in warnings(answer))
    assert len(models.requests) == 1


@each_case(("replies", "problem"), [((BAD, BAD), "is not of type"), ((None, None), "there is no call of 'f'")])
def test_then_it_is_an_error(replies: tuple[str | None, ...], problem: str) -> None:
    with Running(settings("enforce"), ModelServer(call(*replies))) as gateway:
        answer = gateway.post(CHAT, body(CHAT))
    assert (answer.status, answer.json["error"]["code"]) == (502, "output_invalid")
    assert problem in answer.json["error"]["message"]


@each_case(
    ("mode", "more"),
    [
        ("warn", {}),
        ("enforce", {"tool_choice": "auto"}),
        ("enforce", {"tool_choice": None}),
    ],
)
def test_a_call_that_is_not_demanded_is_passed_on(mode: str, more: dict[str, Any]) -> None:
    models = ModelServer(call(BAD))
    with Running(settings(mode), models) as gateway:
        answer = gateway.post(CHAT, body(CHAT, **more))
    assert answer.json["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == BAD
    assert len(models.requests) == 1
