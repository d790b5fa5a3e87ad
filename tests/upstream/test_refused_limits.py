"""Limits of output tokens that are lowered once a server has said how many it has room for."""

import json
from typing import Any

import httpx
from app.chat.events import Fault
from app.upstream.refused_limits import MIN_ROOM, find_largest, find_room, lower_limits

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running

Json = dict[str, Any]


def lower(options: Json, message: str = "too large", **tokens: int) -> Json | None:
    detail = {f"{name}_tokens": value for name, value in tokens.items()}
    fault = Fault("invalid_request", message, False, 400, detail=detail)
    named = find_room(fault) or find_largest(fault)
    return lower_limits(options, named) if named else None


@each_case("name", ["max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens"])
def test_a_limit_becomes_what_the_prompt_leaves(name: str) -> None:
    assert lower({name: 9000, "x": 1}, context=10_000, input=4000) == {name: 6000, "x": 1}
    assert lower({name: 900}, largest_max=500) == {name: 500}
    assert lower({name: 9000}, context=10_000, input=4000, largest_max=500) == {name: 500}
    assert lower({name: 9000}, "it has at least 4000 input tokens", context=10_000, input=4000) == {name: 3000}


def test_a_limit_stays_where_there_is_no_room_or_nothing_is_known() -> None:
    assert lower({"max_tokens": 5000}, context=10_000, input=4000) is None
    assert lower({"max_tokens": 9000}, context=4000, input=4000) is None
    assert lower({"max_tokens": 9000}, context=10_000) is None
    assert lower({"max_tokens": True}, largest_max=0) is None
    thinking = {"type": "enabled", "budget_tokens": 6000}
    assert lower({"max_tokens": 9000, "thinking": thinking}, context=10_000, input=4000) is None
    assert not find_largest(Fault("invalid_request", "x", False, 400, detail="odd"))


def test_options_of_gemini_have_a_place_of_their_own() -> None:
    body: Json = {"contents": [], "generationConfig": {"maxOutputTokens": 9000}}
    assert lower(body, largest_max=500) == {"contents": [], "generationConfig": {"maxOutputTokens": 500}}
    assert lower(body, largest_max=9000) is None


def test_the_largest_limit_of_a_model_is_remembered() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if json.loads(request.content)["max_tokens"] <= 8192:
            return ModelServer.short_reply()
        words = "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for this model"
        return httpx.Response(400, json={"error": {"message": words, "type": "invalid_request_error"}})

    server = ModelServer(answer)
    with Running(None, server) as gateway:
        for most, requests in ((32_000, 2), (64_000, 3), (100, 4)):
            body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": most}
            answered = gateway.post("/v1/chat/completions", body)
            assert (answered.status, len(server.requests)) == (200, requests)
            assert json.loads(server.requests[-1].content)["max_tokens"] == min(most, 8192)
            assert ("lowered to 8192" in str(answered.json.get("warnings"))) == (most > 8192)


def test_a_prompt_that_leaves_little_room_is_refused_so_that_an_agent_shortens_its_conversation() -> None:
    assert lower({"max_tokens": 9000}, context=10_000, input=10_001 - MIN_ROOM) is None
    assert lower({"max_tokens": 9000}, context=10_000, input=10_000 - MIN_ROOM) == {"max_tokens": MIN_ROOM}


def test_a_request_with_too_large_a_limit_is_sent_once_more() -> None:
    words = (
        "'max_tokens' or 'max_completion_tokens' is too large: {0}. This model's maximum context length is 32768 "
        "tokens and your request has 17459 input tokens ({0} > 32768 - 17459)."
    )

    def answer(request: httpx.Request) -> httpx.Response:
        most = json.loads(request.content)["max_tokens"]
        if most <= 32768 - 17459:
            return ModelServer.short_reply()
        return httpx.Response(400, json={"error": {"message": words.format(most), "type": "BadRequestError"}})

    server = ModelServer(answer)
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    with Running(None, server) as gateway:
        answered = gateway.post("/v1/chat/completions", {**body, "max_tokens": 32_000})
        assert (answered.status, len(server.requests)) == (200, 2)
        assert "the limit was lowered" in str(answered.json["warnings"])
        gateway.post("/v1/chat/completions", {**body, "max_tokens": 20_000, "seed": 1})
    assert json.loads(server.requests[2].content)["max_tokens"] == 20_000, "nothing is remembered: prompts differ"


REFUSED = (
    ("parallel_tool_calls", "Unrecognized request argument supplied: parallel_tool_calls"),
    ("strict", "tools.0.function.strict: Extra inputs are not permitted"),
    ("minimal", 'invalid reasoning value: \'minimal\' (must be "high", "medium", "low", "max", or "none")'),
)


def test_a_server_that_names_one_field_after_the_other_is_asked_with_each_of_them_changed() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        said = next((words for name, words in REFUSED if f'"{name}"'.encode() in request.content), None)
        if said is None:
            return ModelServer.short_reply()
        return httpx.Response(400, json={"error": {"message": said, "type": "invalid_request_error"}})

    server = ModelServer(answer)
    function = {"name": "f", "strict": True, "parameters": {"type": "object", "properties": {}}}
    tools = [{"type": "function", "function": function}]
    asked = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": tools,
        "parallel_tool_calls": False,
    }
    with Running(None, server) as gateway:
        body = {**asked, "reasoning_effort": "minimal"}
        answered = gateway.post("/v1/chat/completions", body)
        assert (answered.status, len(server.requests)) == (200, 1 + len(REFUSED))
        answered = gateway.post("/v1/chat/completions", {**body, "reasoning_effort": "none"})
    assert answered.status == 200 and len(server.requests) == 2 + len(REFUSED), "fields are remembered"
    assert json.loads(server.requests[-1].content)["reasoning_effort"] == "none", "efforts that are taken stay"
