"""Tools of a server that the defaults of a model add to the functions of each request: `extra_body.tools`."""

import json
from typing import Any

from agent_bodies import GEMINI

from tests.api.sample_replies import answer_shortly
from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running
from tests.session_edits import Json, make_path, set_model, write_body

ADDED: dict[str, Json] = {
    "chat_completions": {"type": "openrouter:web_search"},
    "messages": {"type": "web_search_20250305", "name": "web_search"},
    "responses": {"type": "web_search"},
    "gemini": {"googleSearch": {}},
}
SETTINGS: Json = {
    "upstreams": {
        "chat_completions": {"base_url": "http://chat.test/v1", "kind": "openrouter"},
        "messages": {"base_url": "http://messages.test/v1", "api": "messages", "kind": "anthropic"},
        "responses": {"base_url": "http://responses.test/v1", "api": "responses", "kind": "openai"},
        "gemini": {"base_url": "http://gemini.test/v1beta", "api": "gemini"},
    },
    "models": {api: {"upstreams": [api], "defaults": {"extra_body": {"tools": [tool]}}} for api, tool in ADDED.items()},
    "server": {"log_level": "error"},
}
FOREIGN: Json = {"type": "function", "function": {"name": "foreign", "parameters": {"type": "object"}}}
"""A function in the form of chat completions, which no other API takes as it is."""


def list_names(tools: list[Any]) -> list[Any]:
    """Return the names of functions, and the other tools as they are."""
    if tools and "functionDeclarations" in tools[0]:
        return [*(one["name"] for one in tools[0]["functionDeclarations"]), *tools[1:]]
    tools = [one.get("function", one) for one in tools]
    is_function = [one.get("type", "custom") in ("custom", "function") and "name" in one for one in tools]
    return [one["name"] if named else one for one, named in zip(tools, is_function, strict=True)]


@each_case("api", list(ADDED))
@each_case("path", ["/v1/messages", "/v1/responses", GEMINI, "/v1/chat/completions"])
@each_case("functions", [0, 2])
def test_each_request_has_them_behind_its_functions(api: str, path: str, functions: int) -> None:
    body = write_body(path, 2, functions)
    names = [f"mcp__server{number}__tool_{number}" for number in range(functions)]
    if functions and path == "/v1/responses":
        body["tools"].append(FOREIGN)
        names.append("foreign")
    set_model(body, path, api)
    server = ModelServer(answer_shortly)
    with Running(SETTINGS, server) as gateway:
        for _ in range(2):  # the second one is remembered
            answered = gateway.post(make_path(path, api), body)
            assert answered.status == 200, answered.body
    for request in server.requests:
        assert list_names(json.loads(request.content)["tools"]) == [*names, ADDED[api]]


def test_a_tool_that_the_client_has_itself_is_sent_once() -> None:
    body = {"model": "responses", "input": "Hi", "tools": [ADDED["responses"]]}
    server = ModelServer(answer_shortly)
    with Running(SETTINGS, server) as gateway:
        assert gateway.post("/v1/responses", body).status == 200
    assert json.loads(server.requests[0].content)["tools"] == [ADDED["responses"]]


def test_they_follow_an_object_in_the_place_of_a_list() -> None:
    contents = [{"role": "user", "parts": [{"text": "Hi"}]}]
    body = {"contents": contents, "tools": {"functionDeclarations": [{"name": "f"}]}}
    server = ModelServer(answer_shortly)
    with Running(SETTINGS, server) as gateway:
        assert gateway.post(make_path(GEMINI, "gemini"), body).status == 200
    assert list_names(json.loads(server.requests[0].content)["tools"]) == ["f", ADDED["gemini"]]
