"""Cursor's agent sends a body of the Responses API to the path of chat completions, and reads a chat completion."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.each_case import each_case
from tests.in_process_gateway import AnsweringGateway, streamed

Json = dict[str, Any]
PATH = "/v1/chat/completions"
PATCH: Json = {
    "type": "custom",
    "name": "ApplyPatch",
    "description": "d",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}
READ: Json = {"type": "function", "name": "read", "parameters": {"type": "object", "properties": {}}, "strict": False}
HISTORY: list[Json] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
    {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "words"},
]
BODY: Json = {
    "model": "m",
    "input": HISTORY,
    "tools": [READ, PATCH],
    "reasoning": {"effort": "medium"},
    "include": ["reasoning.encrypted_content"],
    "store": False,
    "user": "u",
}


@pytest.fixture(scope="module")
def gateway() -> Iterator[AnsweringGateway]:
    upstreams: Json = {
        "local": {"base_url": "http://model.test/v1"},
        "native": {"base_url": "http://model.test/v1", "api": "responses", "kind": "openai"},
    }
    models = {"m": {"upstreams": ["local"]}, "r": {"upstreams": ["native"]}}
    with AnsweringGateway({"upstreams": upstreams, "models": models, "server": {"log_level": "error"}}) as gateway:
        yield gateway


def whole(**message: Any) -> httpx.Response:
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": "stop"}
    return httpx.Response(200, json={"id": "c", "object": "chat.completion", "model": "up", "choices": [choice]})


@each_case("messages", [{}, {"messages": []}, {"messages": None}])
def test_the_conversation_and_the_fields_of_the_body_are_read(messages: Json) -> None:
    with AnsweringGateway({"upstreams": {"a": {"base_url": "http://a.test/v1"}}, "passthrough": "a"}) as gateway:
        answer = gateway.exchange(PATH, {**BODY, **messages}, whole(content="So."))
    assert (answer.json["object"], answer.json["choices"][0]["message"]["content"]) == ("chat.completion", "So.")
    assert [one["role"] for one in gateway.sent["messages"]] == ["system", "user", "assistant", "tool"]
    assert [one["function"]["name"] for one in gateway.sent["tools"]] == ["read", "ApplyPatch"]
    assert gateway.sent["reasoning_effort"] == "medium" and "input" not in gateway.sent


def test_a_stream_has_chunks_and_usage_where_it_is_asked_for(gateway: AnsweringGateway) -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "So."}, "finish_reason": "stop"}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}}
    pieces = [b"data: %b\n\n" % json.dumps(one).encode() for one in (chunk, usage)]
    body = {**BODY, "stream": True, "stream_options": {"include_usage": True}}
    answer = gateway.exchange(PATH, body, streamed(*pieces, b"data: [DONE]\n\n"))
    frames = [json.loads(line[6:]) for line in answer.body.decode().split("\n") if line.startswith("data: {")]
    assert {one["object"] for one in frames} == {"chat.completion.chunk"}
    assert "".join(row["delta"].get("content") or "" for one in frames for row in one["choices"]) == "So."
    assert [one["usage"]["total_tokens"] for one in frames if one.get("usage")] == [7]


def test_a_call_of_a_custom_tool_comes_back_as_one_of_chat_completions(gateway: AnsweringGateway) -> None:
    function = {"name": "ApplyPatch", "arguments": json.dumps({"input": "*** Begin"})}
    answer = gateway.exchange(PATH, BODY, whole(tool_calls=[{"id": "p", "type": "function", "function": function}]))
    [call] = answer.json["choices"][0]["message"]["tool_calls"]
    assert call["custom"] == {"name": "ApplyPatch", "input": "*** Begin"}


def test_a_server_of_the_responses_api_is_asked_in_it_and_the_answer_is_a_chat_completion(
    gateway: AnsweringGateway,
) -> None:
    text = {"type": "output_text", "text": "So.", "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    reply = {"id": "resp_1", "object": "response", "status": "completed", "output": [item]}
    answer = gateway.exchange(PATH, {**BODY, "model": "r"}, httpx.Response(200, json=reply))
    assert answer.json["choices"][0]["message"]["content"] == "So."
    assert [one["type"] for one in gateway.sent["input"]][-2:] == ["function_call", "function_call_output"]


@each_case(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"background": True}, "background"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
    ],
)
def test_what_a_chat_completion_cannot_be_is_refused_at_its_place(fields: Json, param: str) -> None:
    with AnsweringGateway({"upstreams": {"a": {"base_url": "http://a.test/v1"}}, "passthrough": "a"}) as gateway:
        answer = gateway.post(PATH, {**BODY, **fields})
    assert (answer.status, answer.json["error"]["param"]) == (400, param)


def test_messages_win_over_an_input(gateway: AnsweringGateway) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "input": "other"}
    gateway.exchange(PATH, body, whole(content="So."))
    assert gateway.sent["messages"] == [{"role": "user", "content": "Hi"}] and gateway.sent["input"] == "other"
