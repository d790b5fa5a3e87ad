"""`context_management` of `POST /v1/messages`, for servers of each API."""

import json
from typing import Any

import httpx

from tests.goldens.message_goldens import events
from tests.in_process_gateway import ModelServer, Running, streamed

Json = dict[str, Any]
TOOLS: Json = {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 1}}
EDITS: Json = {"edits": [{**TOOLS, "keep": {"type": "tool_uses", "value": 1}}]}
BODY: Json = {
    "model": "m",
    "max_tokens": 50,
    "messages": [
        {"role": "user", "content": "Go."},
        *[
            {"role": role, "content": [block]}
            for number in (1, 2)
            for role, block in (
                ("assistant", {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {"n": number}}),
                ("user", {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"RESULT-{number} " * 50}),
            )
        ],
    ],
    "tools": [{"name": "read", "input_schema": {"type": "object", "properties": {}}}],
    "context_management": EDITS,
}
SETTINGS: Json = {
    "upstreams": {
        "local": {"base_url": "http://model.test/v1"},
        "same": {"base_url": "http://model.test/v1", "api": "messages", "kind": "vllm"},
        "vendor": {"base_url": "http://model.test/v1", "api": "messages", "kind": "anthropic"},
    },
    "models": {
        "m": {"upstreams": ["local"]},
        "same": {"upstreams": ["same"]},
        "vendor": {"upstreams": ["vendor"]},
        "mixed": {"upstreams": ["vendor", "local"]},
    },
}
MESSAGE: Json = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "x",
    "content": [{"type": "text", "text": "Done."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def answer(request: httpx.Request) -> httpx.Response:
    """Answer as a server of the Messages API."""
    body = json.loads(request.content)
    if request.url.path.endswith("count_tokens"):
        return httpx.Response(200, json={"input_tokens": len(request.content)})
    if not body.get("stream"):
        return httpx.Response(200, json=MESSAGE)
    text = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Done."}}
    sent: list[Json] = [
        {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        text,
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]
    return streamed(*(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in sent))


def test_a_server_of_another_api_gets_the_rest_and_the_reply_says_what_was_cleared() -> None:
    server = ModelServer()
    with Running(SETTINGS, server) as gateway:
        reply = gateway.post("/v1/messages", BODY)
        (edit,) = reply.json["context_management"]["applied_edits"]
        assert (edit["cleared_tool_uses"], edit["cleared_input_tokens"] > 100) == (1, True)
        assert "context_management" not in reply.headers.get("x-parley-warnings", "")
        sent = server.requests[-1].content
        assert (b"RESULT-1" in sent, b"[cleared]" in sent, b"RESULT-2" in sent) == (False, True, True)
        delta = events(gateway.post("/v1/messages", {**BODY, "stream": True}).body)[-2]
        assert (delta["type"], len(delta["context_management"]["applied_edits"])) == ("message_delta", 1)
        short = gateway.post("/v1/messages", {**BODY, "context_management": {"edits": [{"type": TOOLS["type"]}]}})
        assert short.json["context_management"] == {"applied_edits": []}
        assert "context_management.edits[0] has cleared nothing" in short.headers["x-parley-warnings"]
        plain = gateway.post("/v1/messages", {name: one for name, one in BODY.items() if name != "context_management"})
        assert "context_management" not in plain.json


def test_a_server_of_the_same_api_that_lacks_edits_gets_the_rest_too() -> None:
    server = ModelServer(answer)
    with Running(SETTINGS, server) as gateway:
        reply = gateway.post("/v1/messages", {**BODY, "model": "same"})
        assert reply.json["context_management"]["applied_edits"][0]["cleared_tool_uses"] == 1
        assert "x-parley-warnings" not in reply.headers
        sent = json.loads(server.requests[-1].content)
        assert "context_management" not in sent
        results: list[Any] = [one["content"][0]["content"] for one in sent["messages"][2::2]]
        assert results == ["[cleared]", "RESULT-2 " * 50]
        delta = events(gateway.post("/v1/messages", {**BODY, "model": "same", "stream": True}).body)[-2]
        assert delta["context_management"]["applied_edits"][0]["cleared_tool_uses"] == 1


def test_a_server_that_edits_itself_gets_the_field_and_everything() -> None:
    server = ModelServer(answer)
    with Running(SETTINGS, server) as gateway:
        reply = gateway.post("/v1/messages", {**BODY, "model": "vendor"})
        assert "context_management" not in reply.json
        sent = json.loads(server.requests[-1].content)
        assert (sent["context_management"], sent["messages"]) == (EDITS, BODY["messages"])


def test_if_one_server_of_a_model_lacks_edits_none_is_asked_for_them() -> None:
    def choose(request: httpx.Request) -> httpx.Response:
        return httpx.Response(500) if request.url.path.endswith("messages") else ModelServer.short_reply()

    server = ModelServer(choose)
    with Running(SETTINGS, server) as gateway:
        for _ in range(20):
            reply = gateway.post("/v1/messages", {**BODY, "model": "mixed"})
            assert reply.json["context_management"]["applied_edits"][0]["cleared_tool_uses"] == 1
    assert len({request.url.path for request in server.requests}) == 2
    for request in server.requests:
        assert b"RESULT-1" not in request.content and b"context_management" not in request.content


def test_tokens_are_counted_after_the_edits_and_before() -> None:
    with Running(SETTINGS, ModelServer(answer)) as gateway:
        for model in ("m", "same"):
            count = gateway.post("/v1/messages/count_tokens", {**BODY, "model": model}).json
            assert count["context_management"]["original_input_tokens"] > count["input_tokens"] + 50
        unchanged = {**BODY, "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}
        count = gateway.post("/v1/messages/count_tokens", unchanged).json
        assert count["context_management"]["original_input_tokens"] == count["input_tokens"]
        count = gateway.post("/v1/messages/count_tokens", {**BODY, "model": "vendor"}).json
        assert "context_management" not in count
