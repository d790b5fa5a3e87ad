"""Functions whose names a server refuses are sent by others, which the reply does not show."""

import json
from typing import Any

import httpx
import msgspec
from app.chat.events import Fault
from app.upstream.api import ApiName, find_api, find_renamed, repair_refused
from app.upstream.refused_names import read_name_rule

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running, streamed
from tests.linear_time import linear

Json = dict[str, Any]
LONG = "mcp__plugin_with_a_long_name_of_its_own__and_a_function_with_one_that_is_longer"
REFUSED = "`name` must be at most 64 characters, got 79"


def repair(body: Json, message: str = REFUSED, api: ApiName = "chat_completions") -> Any:
    repaired = repair_refused(find_api(api), msgspec.json.encode(body), Fault("invalid_request", message, False, 400))
    return None if repaired is None else msgspec.json.decode(repaired.data)


@each_case(
    ("message", "rule"),
    [
        # decolua/9router#3622, openai/codex#8174, MoonshotAI/kimi-cli#1773, github/copilot-cli#2581
        (REFUSED, "64 plain"),
        ("Invalid 'tools[48].name': string does not match pattern. Expected ... '^[a-zA-Z0-9_-]+$'.", "64 plain"),
        ("function name is invalid, must start with a letter and can contain letters, numbers", "64 letter_first"),
        ("tools.19.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", "128 plain"),
        ("Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64", "64 plain"),
        (
            "Value 'a.b' at 'toolConfig.tools.1.member.toolSpec.name' failed to satisfy constraint: Member must "
            "satisfy regular expression pattern: [a-zA-Z0-9_-]+",
            "64 plain",
        ),
        ("name must be at most 10 characters", "16 plain"),
        ("the name of the model is odd", ""),
    ],
)
def test_the_form_of_names_is_read_from_the_refusal(message: str, rule: str) -> None:
    assert read_name_rule(Fault("invalid_request", message, False, 400)) == rule


def test_every_name_of_a_function_is_changed_in_the_same_way() -> None:
    call = {"id": "c", "type": "function", "function": {"name": LONG, "arguments": "{}"}}
    user = {"role": "user", "name": LONG, "content": "Hi"}
    body = {
        "model": "m",
        "messages": [user, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "name": LONG}],
        "tools": [{"type": "function", "function": {"name": LONG}}, {"type": "function", "function": {"name": "f"}}, 5],
        "tool_choice": {"type": "function", "function": {"name": LONG}},
    }
    sent = repair(body)
    short = sent["tools"][0]["function"]["name"]
    assert len(short) == 64
    assert msgspec.json.encode(sent).decode() == msgspec.json.encode(body).decode().replace(LONG, short).replace(
        f'"user","name":"{short}"', f'"user","name":"{LONG}"'
    )
    assert repair(sent) is None
    assert find_renamed(msgspec.json.encode(body), ["function names: 64 plain"]) == {short: LONG}
    assert find_renamed(msgspec.json.encode({"tools": "odd"}), ["function names: 64 plain"]) == {}
    dotted = {"tools": [{"type": "function", "function": {"name": "1." + LONG}}]}
    rules = ["function names: 128 plain", "function names: 64 letter_first"]
    assert list(find_renamed(msgspec.json.encode(dotted), rules).values())[-1] == "1." + LONG


def test_other_apis_have_names_at_other_places() -> None:
    use = {"type": "tool_use", "id": "t", "name": LONG, "input": {"name": LONG}}
    body: Json = {"tools": [{"name": LONG, "input_schema": {}}], "tool_choice": {"type": "tool", "name": LONG}}
    sent = repair({**body, "messages": [{"role": "assistant", "content": [use]}]}, api="messages")
    assert sent["messages"][0]["content"][0] == {**use, "name": sent["tools"][0]["name"]}
    assert sent["tool_choice"] == {"type": "tool", "name": sent["tools"][0]["name"]} != body["tool_choice"]
    items = [{"type": "function_call", "name": LONG}, {"type": "message", "name": LONG}]
    tools = [{"type": "function", "name": LONG}, {"type": "custom", "name": LONG}]
    sent = repair({"input": items, "tools": tools}, api="responses")
    short = sent["tools"][0]["name"]
    assert sent == {"input": [{**items[0], "name": short}, items[1]], "tools": [{**tools[0], "name": short}, tools[1]]}


@each_case(
    ("path", "api"),
    [("chat/completions", "chat_completions"), ("messages", "messages"), ("messages", "chat_completions")],
)
def test_calls_of_the_reply_have_the_given_names(path: str, api: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        tool = json.loads(request.content)["tools"][0]
        name = tool["name"] if api == "messages" else tool["function"]["name"]
        if len(name) > 64:
            return httpx.Response(400, json={"error": {"message": REFUSED, "type": "invalid_request_error"}})
        if api == "messages":
            call: Json = {"type": "tool_use", "id": "t", "name": name, "input": {}}
            reply: Json = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use"}
            return httpx.Response(
                200, json={**reply, "content": [call], "usage": {"input_tokens": 1, "output_tokens": 1}}
            )
        call = {"index": 0, "id": "t", "type": "function", "function": {"name": name, "arguments": "{}"}}
        chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
        return streamed(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())

    function = {"name": LONG, "description": "d"}
    schema = {"type": "object", "properties": {}}
    tools: list[Json] = [{**function, "input_schema": schema}]
    if path != "messages":
        tools = [{"type": "function", "function": {**function, "parameters": schema}}]
    body = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}], "tools": tools}
    settings = {
        "upstreams": {"a": {"base_url": "http://a.test/v1", "api": api}},
        "models": {"m": {"upstreams": ["a"], "profile": {"stream": "never"} if api == "messages" else {}}},
    }
    server = ModelServer(answer)
    with Running(settings, server) as gateway:
        for requests in (2, 3):
            answered = gateway.post(f"/v1/{path}", body)
            assert (answered.status, len(server.requests)) == (200, requests)
            assert f'"name":"{LONG}"' in answered.body.decode().replace(": ", ":")


@each_case("word", ["name must be at most ", "{1,64}", "toolspec.name "])
def test_a_long_refusal_is_read_in_linear_time(word: str) -> None:
    assert linear(lambda size: read_name_rule(Fault("x", word * size, False, 400)), 500)
