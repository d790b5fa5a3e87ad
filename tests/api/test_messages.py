"""`POST /v1/messages` with everything around a reply: headers, names, keys, limits, cache, resuming, token counts."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from app.access.key_ring import hash_key

from tests.goldens.message_goldens import events
from tests.in_process_gateway import SERVER, ModelServer, Running, streamed

Json = dict[str, Any]
HELLO: Json = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
TOOL: Json = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
MARK = {"type": "ephemeral"}
ADDRESS = {"base_url": "http://model.test/v1"}
MODELS: Json = {
    "upstreams": {
        "local": ADDRESS,
        "router": {**ADDRESS, "kind": "openrouter"},
        "openai": {**ADDRESS, "kind": "openai"},
    },
    "models": {
        "m": {"upstreams": ["local"], "aliases": ["claude-x"]},
        "marked": {"upstreams": ["router"]},
        "effort": {"upstreams": ["local"], "profile": {"thinking_switch": "reasoning_effort"}},
        "short": {"upstreams": ["local"], "profile": {"max_input_tokens": 10}},
        "lacking": {"upstreams": ["local"], "profile": {"thinking_budget": "none", "lacks": ["top_k"]}},
    },
}


@pytest.fixture(scope="module")
def server() -> ModelServer:
    return ModelServer()


@pytest.fixture(scope="module")
def running(server: ModelServer) -> Iterator[Running]:
    with Running(MODELS, server) as running:
        yield running


def sent(running: Running, server: ModelServer, **fields: Any) -> Json:
    answer = running.post("/v1/messages", {**HELLO, **fields})
    assert answer.status == 200, answer.body
    found: Json = json.loads(server.requests[-1].content)
    return found


def test_a_reply_has_the_model_name_of_the_request(running: Running) -> None:
    assert running.post("/v1/messages", {**HELLO, "model": "claude-x"}).json["model"] == "claude-x"
    [start, *_] = events(running.post("/v1/messages", {**HELLO, "model": "claude-x", "stream": True}).body)
    assert start["message"]["model"] == "claude-x"


def test_every_response_has_the_request_id_twice_and_errors_say_whether_to_retry(running: Running) -> None:
    for body in (HELLO, {**HELLO, "stream": True}, {**HELLO, "model": "nobody"}, {**HELLO, "max_tokens": 0}):
        answer = running.post("/v1/messages", body, {"x-request-id": "mine"})
        assert answer.headers["request-id"] == answer.headers["x-request-id"] == "mine"
        assert ("x-should-retry" in answer.headers) is (answer.status != 200)
        if answer.status != 200:
            assert answer.json["request_id"] == "mine"
            assert answer.headers["x-should-retry"] == "false"
    counted = running.post("/v1/messages/count_tokens", HELLO)
    assert counted.headers["request-id"] == counted.headers["x-request-id"]
    assert "request-id" not in running.post("/v1/chat/completions", HELLO).headers


def test_head_of_the_root_is_answered(running: Running) -> None:
    assert running.ask("HEAD", "/").status == 200


def test_errors_of_the_edge_have_anthropics_shape(running: Running) -> None:
    for answer, status in (
        (running.ask("GET", "/v1/messages"), 405),
        (running.ask("POST", "/v1/messages/batches", [b"{}"]), 404),
        (running.post("/v1/messages", b"{"), 400),
        (running.post("/v1/messages", b"[]"), 400),
        (running.post("/v1/messages", HELLO, {"content-type": "text/plain"}), 415),
        (running.post("/v1/messages/count_tokens", {"model": "m"}), 400),
        (running.post("/v1/messages/count_tokens", {**HELLO, "model": "nobody"}), 404),
    ):
        assert (answer.status, answer.json["type"]) == (status, "error")
        assert answer.json["error"]["type"] in ("invalid_request_error", "not_found_error")


def test_tokens_are_counted_without_a_call_and_without_max_tokens(running: Running, server: ModelServer) -> None:
    before = len(server.requests)
    asked = {"model": "m", "messages": HELLO["messages"]}
    small = running.post("/v1/messages/count_tokens", asked).json
    large = running.post("/v1/messages/count_tokens", {**asked, "system": "Be brief. " * 50, "tools": [TOOL]}).json
    assert small.keys() == {"input_tokens"}
    assert 0 < small["input_tokens"] < large["input_tokens"]
    assert len(server.requests) == before


def test_a_context_that_is_too_long_is_an_error_that_claude_code_knows(running: Running) -> None:
    answer = running.post("/v1/messages", {**HELLO, "model": "short", "system": "Be very brief. " * 30})
    error = answer.json["error"]
    assert (answer.status, error["code"]) == (400, "context_length_exceeded")
    assert error["message"].startswith("prompt is too long: ") and error["message"].endswith(" tokens > 10 maximum")


TOO_MANY = {
    "message": "This model's maximum context length is 16384 tokens. However, you requested 16000 output "
    "tokens and your "
    "prompt contains at least 412 input tokens, for a total of at least 16412 tokens.",
    "code": 400,
}


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/messages", "input length and `max_tokens` exceed context limit: 412 + 16000 > 16384, decrease input"),
        ("/v1/chat/completions", "max_tokens is too large for this model: This model's maximum context length"),
    ],
)
def test_a_token_limit_that_is_too_large_is_not_the_error_of_a_long_prompt(path: str, words: str) -> None:
    refusing = ModelServer(lambda _: httpx.Response(400, json={"error": TOO_MANY}))
    with Running(SERVER, refusing) as gateway:
        answer = gateway.post(path, {**HELLO, "max_tokens": 16000})
    error = answer.json["error"]
    assert (answer.status, error["code"], error["param"]) == (400, "invalid_request", "max_tokens")
    assert error["message"].startswith(words)
    assert error["upstream"]["detail"] == {"context_tokens": 16384, "input_tokens": 412, "max_tokens": 16000}


def test_marks_go_to_a_server_that_knows_them_and_vanish_silently_elsewhere(
    running: Running, server: ModelServer
) -> None:
    system = [{"type": "text", "text": "A book", "cache_control": MARK}]
    tools = [{**TOOL, "cache_control": MARK}]
    messages = [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": MARK}]}]
    body = sent(running, server, model="marked", system=system, tools=tools, messages=messages)
    assert body["messages"][0]["content"] == system
    assert body["messages"][1]["content"] == messages[0]["content"]
    assert body["tools"][0]["cache_control"] == MARK
    answer = running.post("/v1/messages", {**HELLO, "system": system, "tools": tools, "messages": messages})
    assert "x-parley-warnings" not in answer.headers
    assert b"cache_control" not in server.requests[-1].content


def test_effort_goes_only_to_servers_that_switch_thinking_by_it(running: Running, server: ModelServer) -> None:
    config = {"effort": "max"}
    assert "reasoning_effort" not in sent(running, server, output_config=config)
    assert sent(running, server, model="effort", output_config=config)["reasoning_effort"] == "high"
    off = sent(running, server, model="effort", output_config=config, thinking={"type": "disabled"})
    assert off["reasoning_effort"] == "none"


def test_warnings_and_errors_name_the_fields_of_this_body(running: Running) -> None:
    thinking = {"type": "enabled", "budget_tokens": 2000}
    answer = running.post("/v1/messages", {**HELLO, "model": "lacking", "thinking": thinking, "top_k": 4})
    warnings = answer.json["parley"]["warnings"]
    assert [text.partition(" ")[0] for text in warnings] == ["top_k", "thinking.budget_tokens", "usage_estimated:"]
    many = running.post("/v1/messages", {**HELLO, "stop_sequences": ["x" * 600]})
    assert many.json["error"]["param"] == "stop_sequences[0]"


def test_what_is_ignored_is_named_wherever_it_stands(running: Running) -> None:
    fields: Json = {
        "max_completion_tokens": 4,
        "stop": ["x"],
        "mood": "kind",
        "thinking": {"type": "disabled", "mood": 1},
        "output_config": {"format": {"type": "json_schema", "schema": {}, "mood": 1}},
        "tools": [TOOL],
        "tool_choice": {"type": "auto", "mood": 1},
    }
    warnings = running.post("/v1/messages", {**HELLO, **fields}).json["parley"]["warnings"][
        :-2
    ]  # the usage, and the text is not JSON
    assert [warning.partition(" ")[0] for warning in warnings] == [
        "stop",
        "max_completion_tokens",
        "mood",
        "tool_choice.mood",
        "thinking.mood",
        "output_config.format.mood",
    ]
    assert warnings[0] == "stop was read as stop_sequences, its name here"
    assert warnings[1].endswith("its name here is max_tokens")


def change(kind: str, **tool: Any) -> Json:
    return {"role": "system", "content": [{"type": kind, "tool": tool}]}


def test_tools_are_those_that_messages_leave(running: Running, server: ModelServer) -> None:
    other = {**TOOL, "name": "other"}
    by_name = {"type": "tool_reference", "name": "look"}
    define = {"type": "tool_definition", "definition": {**TOOL, "name": "new"}}
    redefine = {"type": "tool_definition", "definition": {**TOOL, "description": "Looks."}}
    for changes, names in (
        ([change("tool_removal", **by_name)], ["other"]),
        ([change("tool_removal", **by_name), change("tool_addition", **by_name)], ["look", "other"]),
        ([change("tool_addition", **define)], ["look", "other", "new"]),
        ([change("tool_addition", **redefine)], ["other", "look"]),
    ):
        body = sent(running, server, tools=[TOOL, other], messages=[*HELLO["messages"], *changes])
        assert [tool["function"]["name"] for tool in body["tools"]] == names
    assert body["tools"][1]["function"]["description"] == "Looks."
    wrong = change("tool_addition", type="tool_definition", definition={"name": "f"})
    answer = running.post("/v1/messages", {**HELLO, "messages": [*HELLO["messages"], wrong]})
    assert answer.json["error"]["param"] == "messages[1].content[0].tool.definition.input_schema"


def test_a_stop_word_of_the_model_itself_is_no_stop_sequence() -> None:
    end = b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop","matched_stop":"END"}]}\n\n'
    settings = {**MODELS, "models": {"m": {"upstreams": ["local"], "defaults": {"stop": ["END"]}}}}
    with Running(settings, ModelServer(lambda _: streamed(end, b"data: [DONE]\n\n"))) as running:
        own = running.post("/v1/messages", HELLO).json
        given = running.post("/v1/messages", {**HELLO, "stop_sequences": ["END"]}).json
    assert (own["stop_reason"], own["stop_sequence"]) == ("end_turn", None)
    assert (given["stop_reason"], given["stop_sequence"]) == ("stop_sequence", "END")


def test_a_stop_word_that_the_gateway_finds_is_named() -> None:
    chunk = b'data: {"choices":[{"index":0,"delta":{"content":"a END b"}}]}\n\n'
    with Running(MODELS, ModelServer(lambda _: streamed(chunk))) as running:
        body = running.post("/v1/messages", {**HELLO, "stop_sequences": ["END"]}).json
    assert (body["content"], body["stop_sequence"]) == ([{"type": "text", "text": "a "}], "END")


USAGES: list[tuple[Json, Json]] = [
    (
        {"prompt_tokens": 20, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 8}},
        {"input_tokens": 12, "cache_read_input_tokens": 8, "cache_creation_input_tokens": 0, "output_tokens": 5},
    ),
    (
        {"prompt_tokens": 20, "completion_tokens": 5, "prompt_tokens_details": {"cache_write_tokens": 4}},
        {"input_tokens": 16, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 4, "output_tokens": 5},
    ),
    (
        {"prompt_tokens": 2, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 3}},
        {
            "input_tokens": 2,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "output_tokens": 5,
            "output_tokens_details": {"thinking_tokens": 3},
        },
    ),
]


@pytest.mark.parametrize(("usage", "expected"), USAGES)
def test_the_counts_of_input_tokens_are_a_sum(usage: Json, expected: Json) -> None:
    end = json.dumps({"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}], "usage": usage})
    with Running(MODELS, ModelServer(lambda _: streamed(f"data: {end}\n\ndata: [DONE]\n\n".encode()))) as running:
        assert running.post("/v1/messages", HELLO).json["usage"] == expected
        [*_, delta, _] = events(running.post("/v1/messages", {**HELLO, "stream": True}).body)
    assert delta["usage"] == expected


def test_a_reply_is_shared_with_the_other_endpoints_and_can_be_resumed() -> None:
    server = ModelServer()
    with Running({**MODELS, "cache": {"url": "memory:", "apply": "always"}}, server) as running:
        running.post("/v1/chat/completions", HELLO)
        answer = running.post("/v1/messages", {**HELLO, "stream": True})
        assert answer.headers["x-parley-cache"] == "hit"
        assert len(server.requests) == 1
        id_ = answer.headers["x-parley-response-id"]
        assert running.get(f"/v1/chat/{id_}/events").body == answer.body
        assert events(running.get(f"/v1/chat/{id_}/events?after=1").body) == events(answer.body)[1:]
        assert running.get(f"/v1/chat/{id_}").json["type"] == "message"


def test_a_stream_with_arguments_that_are_not_json_goes_on_and_a_whole_message_fails() -> None:
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "look", "arguments": "[1"}}
    chunk = json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]})
    server = ModelServer(lambda _: streamed(f"data: {chunk}\n\ndata: [DONE]\n\n".encode()))
    with Running({**MODELS, "cache": {"url": "memory:", "apply": "always"}}, server) as running:
        answer = running.post("/v1/messages", {**HELLO, "stream": True})
        *_, delta, end = events(answer.body)
        assert (delta["delta"]["stop_reason"], end["type"]) == ("tool_use", "message_stop")
        assert delta["parley"]["warnings"][0].startswith("arguments_valid: false for c: ")
        id_ = answer.headers["x-parley-response-id"]
        assert running.get(f"/v1/chat/{id_}/events").body == answer.body
        whole = running.post("/v1/messages", HELLO)
        assert (whole.status, whole.json["error"]["code"]) == (502, "tool_use_failed")
        assert running.post("/v1/chat/completions", HELLO).status == 200


def test_the_key_may_be_in_either_header_and_the_models_are_checked() -> None:
    keys = {"a": {"sha256": hash_key("secret"), "models": ["m"]}}
    with Running({**MODELS, "keys": keys}, ModelServer()) as running:
        for headers in ({"x-api-key": "secret"}, {"authorization": "Bearer secret"}):
            assert running.post("/v1/messages", HELLO, headers).status == 200
            assert running.post("/v1/messages/count_tokens", HELLO, headers).status == 200
            for path in ("/v1/messages", "/v1/messages/count_tokens"):
                refused = running.post(path, {**HELLO, "model": "effort"}, headers)
                assert (refused.status, refused.json["error"]["type"]) == (403, "permission_error")
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            unknown = running.post(path, HELLO)
            assert (unknown.status, unknown.json["error"]["type"]) == (401, "authentication_error")


def test_a_server_that_is_overloaded_gives_the_status_that_the_sdks_know() -> None:
    chunk = b'data: {"error":{"message":"The engine is overloaded","code":503}}\n\n'
    with Running(MODELS, ModelServer(lambda _: streamed(chunk))) as running:
        refused = running.post("/v1/messages", HELLO)
    assert (refused.status, refused.json["error"]["type"]) == (529, "overloaded_error")
    assert refused.headers["x-should-retry"] == "true"
