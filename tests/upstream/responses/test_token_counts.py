"""A server of the Responses API is asked for the number of a request's input tokens."""

import json
from typing import Any

import httpx

from tests.in_process_gateway import ModelServer, Running

Json = dict[str, Any]
SETTINGS: Json = {
    "upstreams": {"s": {"base_url": "http://model.test/v1", "api": "responses", "kind": "openai"}},
    "models": {"m": {"upstreams": ["s"], "name": "up-model"}},
}
COUNTED = httpx.Response(200, json={"object": "response.input_tokens", "input_tokens": 42})
ASK: Json = {"model": "m", "input": "Hi"}
TOOLS = [{"type": "web_search"}, {"type": "future_tool", "x": 1}]


def test_the_server_is_sent_the_clients_own_body_without_what_no_count_has() -> None:
    server = ModelServer(lambda _: COUNTED)
    more = {"tools": TOOLS, "instructions": "Be brief.", "reasoning": {"effort": "low"}, "max_output_tokens": 99}
    with Running(SETTINGS, server) as gateway:
        answer = gateway.post("/v1/responses/input_tokens", ASK | more | {"temperature": 1, "metadata": {"a": "b"}})
    assert answer.json == {"object": "response.input_tokens", "input_tokens": 42}
    (request,) = server.requests
    assert (request.method, str(request.url)) == ("POST", "http://model.test/v1/responses/input_tokens")
    assert json.loads(request.content) == {
        "model": "up-model",
        "input": "Hi",
        "tools": TOOLS,
        "instructions": "Be brief.",
        "reasoning": {"effort": "low"},
    }


def test_a_translated_request_is_counted_as_it_would_be_sent() -> None:
    server = ModelServer(lambda _: COUNTED)
    settings = SETTINGS | {"models": {"m": {"upstreams": ["s"], "profile": {"native_tools": False}}}}
    function = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
    with Running(settings, server) as gateway:
        assert gateway.post("/v1/responses/input_tokens", ASK | {"tools": [function]}).json["input_tokens"] == 42
    sent = json.loads(server.requests[0].content)
    assert sent.keys() <= {"model", "instructions", "input", "reasoning", "text"}
    assert "tool_call" in sent["instructions"]


def test_a_server_without_the_path_is_asked_once_and_the_gateway_counts() -> None:
    server = ModelServer(lambda _: httpx.Response(404, json={"detail": "Not Found"}))
    with Running(SETTINGS, server) as gateway:
        answers = [gateway.post("/v1/responses/input_tokens", ASK) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200]
    assert answers[0].json == answers[1].json
    assert answers[0].json["object"] == "response.input_tokens"
    assert len(server.requests) == 1


def test_the_server_counts_an_earlier_response_too() -> None:
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Ho"}]}
    whole = {"id": "r", "object": "response", "status": "completed", "output": [message]}
    server = ModelServer(
        lambda asked: COUNTED if asked.url.path.endswith("tokens") else httpx.Response(200, json=whole)
    )
    with Running(SETTINGS | {"cache": {"url": "memory:"}}, server) as gateway:
        first = gateway.post("/v1/responses", ASK).json["id"]
        again = ASK | {"input": "More", "previous_response_id": first}
        assert gateway.post("/v1/responses/input_tokens", again).json["input_tokens"] == 42
    assert len(json.loads(server.requests[-1].content)["input"]) == 3
