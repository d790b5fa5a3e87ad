"""Two turns with tools through every client format: the server gets back what it sent."""

from typing import Any

import httpx

from tests.each_case import each_case
from tests.upstream.client_turns import FORMATS, converse

Json = dict[str, Any]
SETTINGS: Json = {
    "upstreams": {"s": {"base_url": "http://model.test/v1", "kind": "openrouter"}},
    "models": {"m": {"upstreams": ["s"], "profile": {"replay_extra_content": True}}},
}
FIRST: Json = {
    "role": "assistant",
    "content": "I look.",
    "reasoning_details": [
        {
            "type": "reasoning.text",
            "text": "Hm.",
            "signature": "S1" * 4000,
            "format": "anthropic-claude-v1",
            "index": 0,
        },
        {"type": "reasoning.encrypted", "data": "R1" * 4000, "id": "rs_1", "format": "openai-responses-v1", "index": 1},
    ],
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}},
        {"id": "call_2", "type": "function", "function": {"name": "shell", "arguments": '{"b": "x"}'}}
        | {"extra_content": {"google": {"thought_signature": "G" * 4000}}},
    ],
}
SECOND: Json = {
    "role": "assistant",
    "content": "Done.",
    "reasoning_details": [{"type": "reasoning.encrypted", "data": "R2", "format": "google-gemini-v1", "index": 0}],
}


def answer(message: Json) -> httpx.Response:
    reason = "tool_calls" if message is FIRST else "stop"
    return httpx.Response(200, json={"choices": [{"index": 0, "message": message, "finish_reason": reason}]})


@each_case("format_", FORMATS)
def test_what_a_server_sent_comes_back(format_: str) -> None:
    replies = map(answer, (FIRST, SECOND, SECOND))
    sent = converse(SETTINGS, [*replies], format_)["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "assistant", "user"]
    for turn, expected in ((sent[1], FIRST), (sent[4], SECOND)):
        for name, value in expected.items():
            assert turn[name] == value, (format_, name)
