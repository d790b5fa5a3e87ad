"""A question in any format, its reply in any format, streamed or whole: it says the same."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from app.chat.messages import Message, Part, Reasoning, Text, ToolCall
from app.formats import FORMATS

from tests.conversations.clients import CALLERS, call, frames, more, sse
from tests.conversations.sample_conversations import Json, normalize_messages
from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running, streamed

SPOKEN = sse(
    {"reasoning_content": "User wants "},
    {"reasoning_content": "天气."},
    {"content": "Checking "},
    {"content": "now."},
    call(0, "call_1", "get_weather", '{"city":'),
    more(0, ' "Paris"}'),
    call(1, "call_2", "get_weather", '{"city": "Rome"}'),
    finish="tool_calls",
)
PARTS: tuple[Part, ...] = (
    Reasoning("User wants 天气."),
    Text("Checking now."),
    ToolCall("get_weather", '{"city": "Paris"}', "call_1"),
    ToolCall("get_weather", '{"city": "Rome"}', "call_2"),
)
EXPECTED = [Message("assistant", (part,)) for part in PARTS]
ENDS: dict[str, Callable[[Any], tuple[str, int]]] = {
    "qwen": lambda body: (body["finish_reason"], body["usage"]["total_tokens"]),
    "openai": lambda body: (body["choices"][0]["finish_reason"], body["usage"]["total_tokens"]),
    "autogen": lambda body: (body["stop_reason"], _autogen_total(body["messages"])),
    "agentscope": lambda body: (body["msg"]["metadata"]["finish_reason"], _scope_total(body["msg"])),
    "agentscope2": lambda body: (body["msg"]["metadata"]["finish_reason"], _scope2_total(body["msg"])),
    "anthropic": lambda body: (
        {"tool_use": "tool_calls"}[body["stop_reason"]],
        body["usage"]["input_tokens"] + body["usage"]["output_tokens"],
    ),
    "gemini": lambda body: (
        {"STOP": "tool_calls"}[body["candidates"][0]["finishReason"]],
        body["usageMetadata"]["totalTokenCount"],
    ),
    "responses": lambda body: ("tool_calls" * (body["status"] == "completed"), body["usage"]["total_tokens"]),
}


def _autogen_total(messages: list[Json]) -> int:
    usage = messages[-1]["models_usage"]
    return int(usage["prompt_tokens"] + usage["completion_tokens"])


def _scope_total(msg: Json) -> int:
    usage = msg["metadata"]["usage"]
    return int(usage["input_tokens"] + usage["output_tokens"])


def _scope2_total(msg: Json) -> int:
    return int(msg["usage"]["input_tokens"] + msg["usage"]["output_tokens"])


each_form = each_case("form", FORMATS)
each_reply = each_case("reply", FORMATS)


@pytest.fixture(scope="module")
def server() -> ModelServer:
    return ModelServer(lambda _: streamed(SPOKEN))


@pytest.fixture(scope="module")
def running(server: ModelServer) -> Iterator[Running]:
    with Running(server=server) as running:
        yield running


def ask(running: Running, form: str, reply: str, **fields: object) -> Answer:
    body = {"model": "m", "format": form, "reply_format": reply, "messages": [CALLERS[form].ask("Weather?")]}
    answer = running.post("/v1/chat", body | fields)
    assert answer.status == 200, answer.body
    return answer


def normalize_reply(reply: str, messages: list[Json]) -> list[Message]:
    """The reply as the reader of its format understands it, behind the question that it answers."""
    return normalize_messages(reply, [CALLERS[reply].ask("Weather?"), *json.loads(json.dumps(messages))])[1:]


@each_form
@each_reply
def test_a_whole_reply_says_the_same_in_every_format(running: Running, form: str, reply: str) -> None:
    body = ask(running, form, reply, stream=False).json
    assert normalize_reply(reply, CALLERS[reply].whole(body)) == EXPECTED
    assert ENDS[reply](body) == ("tool_calls", 55)


@each_form
@each_reply
def test_a_streamed_reply_says_the_same_in_every_format(running: Running, form: str, reply: str) -> None:
    answer = ask(running, form, reply, stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert normalize_reply(reply, CALLERS[reply].streamed(frames(answer))) == EXPECTED


@each_reply
def test_without_a_reply_format_the_reply_is_in_the_questions(running: Running, reply: str) -> None:
    body = {"model": "m", "format": reply, "messages": [CALLERS[reply].ask("Weather?")], "stream": False}
    answer = running.post("/v1/chat", body)
    assert answer.json.keys() == ask(running, "qwen", reply, stream=False).json.keys()


@each_form
def test_a_format_that_auto_finds_is_answered_in(running: Running, form: str) -> None:
    """But for words alone, which mean the same in all formats and are answered in Qwen-Agent's."""
    body = {"model": "m", "format": "auto", "messages": [CALLERS[form].ask("Weather?")], "stream": False}
    found = "qwen" if form in ("openai", "anthropic") else form
    if form == "agentscope":
        body["messages"][0]["timestamp"] = "2026-01-01 00:00:00.000"  # type: ignore[index]
    if form == "agentscope2":
        body["messages"][0] |= {"created_at": "2026-01-01T00:00:00", "finished_at": None}  # type: ignore[index]
    answer = running.post("/v1/chat", body)
    assert normalize_reply(found, CALLERS[found].whole(answer.json)) == EXPECTED


@each_form
def test_the_model_server_is_sent_the_same_for_every_format(running: Running, server: ModelServer, form: str) -> None:
    ask(running, form, "qwen", stream=False)
    ask(running, "qwen", form, stream=True)
    ours, theirs = (json.loads(request.content) for request in server.requests[-2:])
    assert ours == theirs


SHAPES: dict[str, Callable[[Json], Any]] = {
    "qwen": lambda body: body["error"]["param"],
    "openai": lambda body: (body["error"]["type"] == "invalid_request_error") and body["error"]["param"],
    "autogen": lambda body: (body["type"], body["source"]) == ("error", "system") and body["param"],
    "agentscope": lambda body: body["last"] and body["error"]["param"],
    "agentscope2": lambda body: body["error"]["param"],
    "anthropic": lambda body: (
        (body["type"], body["error"]["type"]) == ("error", "invalid_request_error") and body["error"]["param"]
    ),
    "gemini": lambda body: (body["error"]["status"] == "INVALID_ARGUMENT") and body["error"]["parley"]["param"],
    "responses": lambda body: (body["error"]["type"] == "invalid_request_error") and body["error"]["param"],
}


@each_form
@each_reply
def test_a_refusal_has_the_shape_of_the_reply_format(running: Running, form: str, reply: str) -> None:
    body = {"model": "m", "format": form, "reply_format": reply, "messages": [CALLERS[form].ask("x"), {"type": 5}]}
    answer = running.post("/v1/chat", body)
    assert answer.status == (400 if reply in ("anthropic", "responses", "openai", "gemini") else 422)
    assert SHAPES[reply](answer.json).startswith("messages[1]")
