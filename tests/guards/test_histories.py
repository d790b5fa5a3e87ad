"""What an assistant has said comes back as history, in which its values were restored: no string of it takes them to a
model server."""

import copy
import json
import random
from typing import Any

import pytest

from tests.guards.random_talk import EMAIL, GUARDS, Json, Servers, list_strings, make_guarded_settings
from tests.in_process_gateway import Running

ASKED = f"Mail of {EMAIL}"
CHAT: Json = {
    "model": "m",
    "messages": [
        {"role": "user", "content": ASKED},
        {
            "role": "assistant",
            "name": "bot",
            "content": "text",
            "refusal": "no",
            "reasoning_content": "think",
            "reasoning_details": [
                {"type": "reasoning.text", "text": "think", "signature": "c2ln", "format": "anthropic-claude-v1"},
                {"type": "reasoning.summary", "summary": "s"},
            ],
            "annotations": [
                {
                    "type": "url_citation",
                    "url_citation": {"title": "t", "url": "https://e.test", "start_index": 0, "end_index": 1},
                }
            ],
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "ls", "arguments": '{"a":"b"}'},
                    "extra_content": {"google": {"thought_signature": "c2ln", "note": "n"}},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "res"},
        {"role": "user", "content": "go"},
    ],
}
MESSAGES: Json = {
    "model": "m",
    "max_tokens": 9,
    "messages": [
        {"role": "user", "content": ASKED},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "think", "signature": "c2ln"},
                {
                    "type": "text",
                    "text": "said",
                    "citations": [
                        {
                            "type": "char_location",
                            "cited_text": "ct",
                            "document_index": 0,
                            "document_title": "dt",
                            "start_char_index": 0,
                            "end_char_index": 1,
                        }
                    ],
                },
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
                {
                    "type": "web_search_tool_result",
                    "tool_use_id": "srvtoolu_1",
                    "content": [
                        {
                            "type": "web_search_result",
                            "title": "ti",
                            "url": "https://e.test",
                            "encrypted_content": "ZW5j",
                            "page_age": "x",
                        }
                    ],
                },
                {"type": "tool_use", "id": "t1", "name": "ls", "input": {"a": "b"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "res"}]}],
        },
        {"role": "user", "content": "go"},
    ],
}
RESPONSES: Json = {
    "model": "m",
    "store": False,
    "input": [
        {"role": "user", "content": ASKED},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "sum"}],
            "content": [{"type": "reasoning_text", "text": "rt"}],
            "encrypted_content": "ZW5j",
        },
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "status": "completed",
            "content": [
                {
                    "type": "output_text",
                    "text": "said",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "title": "t",
                            "url": "https://e.test",
                            "start_index": 0,
                            "end_index": 1,
                        }
                    ],
                },
                {"type": "refusal", "refusal": "no"},
            ],
        },
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": '{"a":"b"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "res"},
        {"type": "message", "role": "user", "content": "go"},
    ],
}
GEMINI: Json = {
    "contents": [
        {"role": "user", "parts": [{"text": ASKED}]},
        {
            "role": "model",
            "parts": [
                {"text": "think", "thought": True},
                {"text": "said", "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "ls", "args": {"a": "b"}}, "thoughtSignature": "c2ln"},
            ],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"output": "res"}}}]},
        {"role": "user", "parts": [{"text": "go"}]},
    ]
}
QWEN: Json = {
    "model": "m",
    "messages": [
        {"role": "user", "content": ASKED},
        {
            "role": "assistant",
            "content": "said",
            "reasoning_content": "th",
            "function_call": {"name": "ls", "arguments": '{"a":"b"}'},
            "extra": {"function_id": "c1"},
        },
        {"role": "function", "name": "ls", "content": "res", "extra": {"function_id": "c1"}},
        {"role": "user", "content": "go"},
    ],
}
AUTOGEN: Json = {
    "model": "m",
    "format": "autogen",
    "messages": [
        {"type": "TextMessage", "source": "user", "content": ASKED},
        {"type": "TextMessage", "source": "assistant", "content": "said", "metadata": {"k": "v"}},
        {"type": "TextMessage", "source": "user", "content": "go"},
    ],
}
AGENTSCOPE: Json = {
    "model": "m",
    "format": "agentscope",
    "messages": [
        {"name": "u", "role": "user", "content": [{"type": "text", "text": ASKED}]},
        {
            "name": "bot",
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "th"},
                {"type": "text", "text": "said"},
                {"type": "tool_use", "id": "c1", "name": "ls", "input": {"a": "b"}},
            ],
            "metadata": {"k": "v"},
        },
        {
            "name": "system",
            "role": "system",
            "content": [{"type": "tool_result", "id": "c1", "name": "ls", "output": [{"type": "text", "text": "res"}]}],
        },
        {"name": "u", "role": "user", "content": [{"type": "text", "text": "go"}]},
    ],
}
HISTORIES: list[tuple[str, str, Json]] = [
    ("chat completions", "/v1/chat/completions", CHAT),
    ("messages", "/v1/messages", MESSAGES),
    ("responses", "/v1/responses", RESPONSES),
    ("gemini", "/v1beta/models/m:generateContent", GEMINI),
    ("qwen", "/v1/chat", QWEN),
    ("autogen", "/v1/chat", AUTOGEN),
    ("agentscope", "/v1/chat", AGENTSCOPE),
]
SERVERS: list[Json] = [
    {"api": "chat_completions"},
    {"api": "chat_completions", "kind": "openrouter"},
    {"api": "messages"},
    {"api": "responses"},
    {"api": "gemini"},
]
FIXED = {
    "model",
    "type",
    "role",
    "id",
    "call_id",
    "tool_call_id",
    "tool_use_id",
    "function_id",
    "status",
    "format",
    "source",
}
OPAQUE = {"signature", "encrypted_content", "thoughtSignature", "thought_signature"}
"""Neither read nor changed."""


def add_value(body: Json, place: tuple[Any, ...]) -> Json:
    changed = copy.deepcopy(body)
    inner: Any = changed
    for name in place[:-1]:
        inner = inner[name]
    if place[-1] == "arguments":
        inner["arguments"] = json.dumps({"a": f"b {EMAIL}", EMAIL: 1})
    else:
        inner[place[-1]] += f" {EMAIL} y"
    return changed


@pytest.mark.parametrize("server", SERVERS, ids=lambda row: " ".join(row.values()))
@pytest.mark.parametrize(("path", "body"), [row[1:] for row in HISTORIES], ids=[row[0] for row in HISTORIES])
def test_a_known_value_in_any_string_of_a_history_reaches_no_model(path: str, body: Json, server: Json) -> None:
    servers = Servers(random.Random(1))
    settings = make_guarded_settings(server["api"], "block") | {"guards": {"pii": GUARDS["pii"]}}
    settings["upstreams"]["s"] |= server
    del settings["cache"]
    answered = 0
    with Running(settings, servers) as gateway:
        assert gateway.post(path, body).status == 200
        for place in list_strings(body):
            is_function = place[-1] == "name" and (len(place) > 3 or place[0] == "input")
            if place[-1] in FIXED | OPAQUE or is_function:  # names of functions are sent as they are
                continue
            servers.sent.clear()
            answered += gateway.post(path, add_value(body, place)).status == 200
            assert not any(EMAIL in data.decode() for data in servers.sent), place
    assert answered >= 3
