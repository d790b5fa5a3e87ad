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


def compacting(**fields: Any) -> Json:
    edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 1000}, **fields}
    messages = [
        {"role": "user", "content": "old " * 2000},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "new"},
    ]
    return {**BODY, "messages": messages, "context_management": {"edits": [edit]}}


class Answers(ModelServer):
    """Answers one request after the other with these pieces of a stream."""

    def __init__(self, *answers: tuple[bytes, ...]) -> None:
        given = list(answers)
        super().__init__(lambda _: streamed(*given.pop(0)))

    def list_bodies(self) -> list[Json]:
        return [json.loads(request.content) for request in self.requests]


def piece(text: str, reason: str | None = None, usage: int | None = None) -> bytes:
    chunk: Json = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}]}
    if usage is not None:
        chunk["usage"] = {"prompt_tokens": usage, "completion_tokens": 1, "total_tokens": usage + 1}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


SUMMARY = (piece(" SUM"), piece("MARY ", "stop", 100))
REPLY = (piece("Done.", "stop", 10),)


def test_a_long_conversation_is_summarized_before_the_reply() -> None:
    for stream in (False, True):
        server = Answers(SUMMARY, REPLY)
        with Running(SETTINGS, server) as gateway:
            answer = gateway.post("/v1/messages", {**compacting(), "stream": stream})
        asked, shorter = server.list_bodies()
        assert "tools" not in asked and len(asked["messages"]) == 4
        assert "tools" in shorter and [one["role"] for one in shorter["messages"]] == ["user", "user"]
        assert "SUMMARY" in shorter["messages"][0]["content"] and shorter["messages"][1]["content"] == "new"
        if stream:
            sent = events(answer.body)
            blocks = [one["content_block"] for one in sent if one["type"] == "content_block_start"]
            assert blocks == [{"type": "compaction", "content": None}, {"type": "text", "text": ""}]
            assert sent[2]["delta"] == {"type": "compaction_delta", "content": "SUMMARY"}
            assert [one["index"] for one in sent if "index" in one] == [0, 0, 0, 1, 1, 1]
            usage = sent[-2]["usage"]
        else:
            content = [{"type": "compaction", "content": "SUMMARY"}, {"type": "text", "text": "Done."}]
            assert answer.json["content"] == content
            assert answer.json["context_management"] == {"applied_edits": []}
            usage = answer.json["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (110, 2)
        assert [(one["type"], one["input_tokens"]) for one in usage["iterations"]] == [
            ("compaction", 100),
            ("message", 10),
        ]


def test_a_reply_may_end_behind_the_summary() -> None:
    for stream in (False, True):
        server = Answers(SUMMARY)
        with Running(SETTINGS, server) as gateway:
            body = {**compacting(pause_after_compaction=True, instructions="Sum up."), "stream": stream}
            answer = gateway.post("/v1/messages", body)
        assert server.list_bodies()[0]["messages"][-1]["content"] == "Sum up."
        if stream:
            sent = events(answer.body)
            assert [one["type"] for one in sent[1:4]] == [
                "content_block_start",
                "content_block_delta",
                "content_block_stop",
            ]
            assert sent[-2]["delta"]["stop_reason"] == "compaction"
        else:
            assert (answer.json["stop_reason"], len(answer.json["usage"]["iterations"])) == ("compaction", 1)
            assert answer.json["content"] == [{"type": "compaction", "content": "SUMMARY"}]


def test_without_a_whole_summary_the_request_goes_on_as_it_is() -> None:
    for failed in ((piece("half", "length", 5),), (piece("", "stop", 5),), (piece("half"),)):
        server = Answers(failed, REPLY)
        with Running(SETTINGS | {"server": {"log_level": "error"}}, server) as gateway:
            answer = gateway.post("/v1/messages", compacting())
        assert answer.json["content"][-1]["type"] == "text"
        assert "the conversation was not summarized" in answer.headers["x-parley-warnings"]
        assert len(server.list_bodies()[-1]["messages"]) == 3


def test_a_reply_that_fails_behind_the_summary_is_an_error() -> None:
    server = Answers(SUMMARY, (piece("Do"),))
    with Running(SETTINGS, server) as gateway:
        sent = events(gateway.post("/v1/messages", {**compacting(), "stream": True}).body)
    assert sent[-1]["type"] == "error"
    assert {"type": "compaction", "content": None} in [one.get("content_block") for one in sent]


def test_a_conversation_that_is_short_or_has_one_message_is_not_summarized() -> None:
    server = Answers(REPLY, REPLY)
    with Running(SETTINGS, server) as gateway:
        short = {**compacting(), "messages": [{"role": "user", "content": "hi"}]}
        assert "x-parley-warnings" not in gateway.post("/v1/messages", short).headers
        single = {**compacting(), "messages": compacting()["messages"][:1]}
        assert "has summarized nothing" in gateway.post("/v1/messages", single).headers["x-parley-warnings"]


def test_a_summarized_reply_is_one_request_with_the_tokens_of_both_calls() -> None:
    limits = {"requests_per_minute": 2, "tokens_per_minute": 100_000}
    server = Answers(SUMMARY, REPLY, SUMMARY, REPLY)
    with Running(SETTINGS | {"limits": limits}, server) as gateway:
        assert gateway.post("/v1/messages", compacting()).status == 200
        left = int(gateway.post("/v1/messages", compacting()).headers["x-ratelimit-remaining-tokens"])
        assert 0 < 100_000 - 112 - left < 5000  # the first has used 112; the second has reserved what it may use
        assert gateway.post("/v1/messages", compacting()).status == 429


def test_the_reply_behind_a_summary_is_checked_against_its_schema() -> None:
    server = Answers(SUMMARY, (piece("no", "stop", 1),), (piece('{"a": 1}', "stop", 1),))
    settings = {**SETTINGS, "models": {"m": {"upstreams": ["local"], "profile": {"check_output": "enforce"}}}}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    body = {**compacting(), "output_config": {"format": {"type": "json_schema", "schema": schema}}}
    del body["tools"]
    with Running(settings, server) as gateway:
        answer = gateway.post("/v1/messages", body)
    assert [block["type"] for block in answer.json["content"]] == ["compaction", "text"]
    assert json.loads(answer.json["content"][1]["text"]) == {"a": 1}
    assert len(server.requests) == 3
