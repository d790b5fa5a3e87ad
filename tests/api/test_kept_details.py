"""The signed reasoning of a turn of calls comes back to the server, although the client dropped it."""

import itertools
import json
from typing import Any

import httpx
import pytest
from app.api.kept_reasoning import KeptReasoning

from tests.in_process_gateway import ModelServer, Running
from tests.upstream.messages.replies import SETTINGS

Json = dict[str, Any]
FUNCTION = {"name": "f", "parameters": {"type": "object", "properties": {}}}
THOUGHT = {"type": "thinking", "thinking": "Look.", "signature": "SIG"}
HIDDEN = {"type": "redacted_thinking", "data": "RED"}
CALL = {"type": "tool_use", "id": "toolu_01Abc", "name": "f", "input": {}}


def test_dropped_signatures_are_restored_to_the_server_that_wrote_them() -> None:
    reply = {"type": "message", "role": "assistant", "content": [THOUGHT, HIDDEN, CALL], "stop_reason": "tool_use"}
    server = ModelServer(lambda _: httpx.Response(200, json=reply))
    tools = [{"type": "function", "function": FUNCTION}]
    messages: list[Json] = [{"role": "user", "content": "Go."}]
    with Running({**SETTINGS, "cache": {"url": "memory:", "apply": "on_request"}}, server) as gateway:
        asked = {"model": "anthropic", "tools": tools, "messages": messages}
        answer = gateway.post("/v1/chat/completions", asked).json["choices"][0]["message"]
        bare = {"role": "assistant", "content": None, "tool_calls": answer["tool_calls"]}
        result = {"role": "tool", "tool_call_id": CALL["id"], "content": "done"}
        again = gateway.post("/v1/chat/completions", {**asked, "messages": [*messages, bare, result]})
    assert again.status == 200
    assert json.loads(server.requests[-1].content)["messages"][1]["content"] == [THOUGHT, HIDDEN, CALL]
    assert "was restored" in json.dumps(again.json)


def test_nothing_is_said_to_be_restored_to_a_client_s_own_body_which_is_sent_as_it_is() -> None:
    reply = {"type": "message", "role": "assistant", "content": [THOUGHT, CALL], "stop_reason": "tool_use"}
    server = ModelServer(lambda _: httpx.Response(200, json=reply))
    tools = [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]
    messages: list[Json] = [{"role": "user", "content": "Go."}]
    with Running({**SETTINGS, "cache": {"url": "memory:", "apply": "on_request"}}, server) as gateway:
        asked = {"model": "anthropic", "tools": tools, "messages": messages, "max_tokens": 100}
        assert gateway.post("/v1/messages", asked).status == 200
        result = {"type": "tool_result", "tool_use_id": CALL["id"], "content": "done"}
        turns = [{"role": "assistant", "content": [CALL]}, {"role": "user", "content": [result]}]
        again = gateway.post("/v1/messages", {**asked, "messages": [*messages, *turns]})
    assert json.loads(server.requests[-1].content)["messages"][1]["content"] == [CALL]
    assert "restored" not in f"{again.json} {again.headers}"


def test_what_was_put_back_is_not_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session is long, so that all but its end is known."""
    looked_up: list[str] = []
    look_up = KeptReasoning._get

    async def count(kept: KeptReasoning, key: str) -> bytes | None:
        looked_up.append(key)
        return await look_up(kept, key)

    monkeypatch.setattr(KeptReasoning, "_get", count)
    number = itertools.count()

    def reply(_: httpx.Request) -> httpx.Response:
        content = [{**THOUGHT, "signature": f"S{next(number)}"}, {**CALL, "id": f"toolu_{next(number)}x"}]
        message = {"type": "message", "role": "assistant", "content": content, "stop_reason": "tool_use"}
        return httpx.Response(200, json=message)

    server = ModelServer(reply)
    tools = [{"type": "function", "function": FUNCTION}]
    messages: list[Json] = [{"role": "user", "content": "Go. " * 5000}]
    with Running({**SETTINGS, "cache": {"url": "memory:", "apply": "on_request"}}, server) as gateway:
        for count_of_turns in range(16):
            looked_up.clear()
            asked = {"model": "anthropic", "tools": tools, "messages": messages}
            answer = gateway.post("/v1/chat/completions", asked).json["choices"][0]["message"]
            assert len(looked_up) <= 5 * 3  # three of each turn that may change
            [call] = answer["tool_calls"]
            messages += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call["id"], "content": "done"},
            ]
            sent = json.loads(server.requests[-1].content)["messages"]
            thoughts = [block["signature"] for one in sent[1::2] for block in one["content"] if "signature" in block]
            assert thoughts == [f"S{2 * turn}" for turn in range(count_of_turns)]
