"""The ways to a model beside the endpoints for replies: sockets, compactions, conversations that the gateway keeps; and
all strings of a body."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.asgi_socket import SocketClient
from tests.guards.random_talk import (
    APIS,
    EMAIL,
    GUARDS,
    MASKING,
    PLACEHOLDER,
    VALUES,
    WORD,
    Servers,
    Talk,
    check_servers,
    list_strings,
    make_guarded_settings,
)
from tests.in_process_gateway import Running

Json = dict[str, Any]


class Separate(Servers):
    """Puts blanks around placeholders: restored, they are no part of a longer word, in which no value is found."""

    def _make_text(self, sent: str) -> str:
        return PLACEHOLDER.sub(" \\g<0> ", super()._make_text(sent))


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_no_request_of_a_socket_lets_anything_through(api: str) -> None:
    random_ = random.Random(f"socket {api}")
    servers, talk = Servers(random_), Talk(random_)
    ends = set()
    with Running(make_guarded_settings(api, "block"), servers) as gateway:
        client = SocketClient(gateway)
        for _ in range(25):
            body = talk.body("/v1/responses")
            del body["stream"]
            frames = client.ask({"type": "response.create", "store": False, **body})
            ends.add(frames[-1]["type"])
            deltas: dict[object, str] = {}
            for frame in frames:
                if isinstance(frame.get("delta"), str):
                    place = (frame["type"], frame["output_index"])
                    deltas[place] = deltas.get(place, "") + frame["delta"]
            assert WORD not in "\n".join(deltas.values()) and WORD not in json.dumps(frames)
            check_servers(servers)
        client.leave()
    assert ends == {"response.completed", "response.failed", "error"}


def test_a_compaction_lets_nothing_through_and_can_be_gone_on_with(api: str) -> None:
    random_ = random.Random(f"compaction {api}")
    servers, talk = Separate(random_), Talk(random_)
    made = 0
    with Running(make_guarded_settings(api, "block"), servers) as gateway:
        for number in range(200):
            if number >= 15 and made > 3:
                break
            body = talk.body("/v1/responses")
            del body["stream"]
            answer = gateway.post("/v1/responses/compact", body)
            check_servers(servers)
            if answer.status != 200:
                continue
            made += 1
            output = answer.json["output"]
            later = {"model": "m", "input": [*output, {"role": "user", "content": "Go on"}]}
            assert WORD not in json.dumps([item for item in output if item["type"] == "compaction"])
            assert WORD not in gateway.post("/v1/responses", later).body.decode()
            check_servers(servers)
    assert made > 3


def test_a_conversation_keeps_nothing_that_was_refused_of_replies(api: str, tmp_path: Path) -> None:
    random_ = random.Random(f"conversation {api}")
    servers, talk = Separate(random_), Talk(random_)
    settings = make_guarded_settings(api, "block") | {"state": {"url": f"sqlite:///{tmp_path}/state.db"}}
    with Running(settings, servers) as gateway:
        id_ = gateway.post("/v1/conversations", {}).json["id"]
        for _ in range(15):
            body = {"model": "m", "input": talk.text(), "conversation": id_, "stream": random_.random() < 0.5}
            answer = gateway.post("/v1/responses", body)
            assert answer.status in (200, 400), answer.body
            assert WORD not in answer.body.decode()
            check_servers(servers)
        items = gateway.get(f"/v1/conversations/{id_}/items?order=asc&limit=100").json["data"]
    answers = [json.dumps(item) for item in items if item.get("role") == "assistant"]
    assert len(answers) > 3
    assert not any(WORD in text or PLACEHOLDER.search(text) for text in answers)


CHAT: Json = {
    "model": "m",
    "reasoning_effort": "low",
    "messages": [
        {"role": "system", "content": "be", "name": "sys"},
        {"role": "developer", "content": [{"type": "text", "text": "dev"}]},
        {
            "role": "user",
            "name": "ann",
            "content": [
                {"type": "text", "text": "hi"},
                {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"a":"b"}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "res"}]},
        {"role": "user", "content": "go"},
    ],
    "user": "u",
    "metadata": {"k": "v"},
    "safety_identifier": "s",
    "prompt_cache_key": "pk",
    "stop": ["END"],
    "web_search_options": {"user_location": {"type": "approximate", "approximate": {"city": "Paris"}}},
    "unknown_field": {"deep": ["x"]},
    "chat_template_kwargs": {"a": "b"},
}
MESSAGES: Json = {
    "model": "m",
    "max_tokens": 50,
    "system": [{"type": "text", "text": "be"}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "hi"},
                {
                    "type": "document",
                    "title": "T",
                    "context": "ctx",
                    "source": {"type": "text", "media_type": "text/plain", "data": "doc"},
                },
                {
                    "type": "search_result",
                    "source": "https://e.test",
                    "title": "ti",
                    "content": [{"type": "text", "text": "sr"}],
                },
            ],
        },
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ls", "input": {"a": "b"}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "res"}]}],
        },
        {"role": "user", "content": "go"},
    ],
    "metadata": {"user_id": "u"},
    "stop_sequences": ["END"],
    "unknown_field": {"deep": ["x"]},
}
RESPONSES: Json = {
    "model": "m",
    "instructions": "be",
    "input": [
        {"type": "message", "role": "developer", "content": "dev"},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "hi"},
                {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGk="},
            ],
        },
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": '{"a":"b"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "res"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "sh", "input": "echo"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "res2"},
        {"type": "message", "role": "user", "content": "go"},
    ],
    "user": "u",
    "metadata": {"k": "v"},
    "safety_identifier": "s",
    "prompt_cache_key": "pk",
    "store": False,
    "unknown_field": {"deep": ["x"]},
}
GEMINI: Json = {
    "systemInstruction": {"parts": [{"text": "be"}]},
    "contents": [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {"a": "b"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"output": "res"}}}]},
        {"role": "user", "parts": [{"text": "go"}]},
    ],
    "generationConfig": {"stopSequences": ["END"]},
    "labels": {"k": "v"},
    "unknownField": {"deep": ["x"]},
}
BODIES: list[tuple[str, str, Json]] = [
    ("chat_completions", "/v1/chat/completions", CHAT),
    ("messages", "/v1/messages", MESSAGES),
    ("responses", "/v1/responses", RESPONSES),
    ("gemini", "/v1beta/models/m:generateContent", GEMINI),
]
OF_CALLS = {"id", "call_id", "tool_call_id", "tool_use_id", "name", "arguments", "input", "a"}
"""Names and ids of calls are sent as they are. Their arguments are the model's: only values that stand before them are
replaced there."""


def add_value(body: Json, place: tuple[Any, ...]) -> Json:
    changed = copy.deepcopy(body)
    inner: Any = changed
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] += f" {EMAIL} y"
    return changed


@pytest.mark.parametrize(("api", "path", "body"), BODIES)
@pytest.mark.parametrize("served_by", ["its own API", "chat_completions"])
@pytest.mark.parametrize("action", ["mask", "redact", "reject"])
def test_a_value_in_any_string_of_a_body_reaches_no_model(
    api: str, path: str, body: Json, served_by: str, action: str
) -> None:
    servers = Servers(random.Random(1))
    api = api if served_by == "its own API" else served_by
    guards = {"pii": {**GUARDS["pii"], "action": action}}
    settings = make_guarded_settings(api, "block") | {"guards": guards, "masking": MASKING}
    del settings["cache"]
    masked = refused = 0
    with Running(settings, servers) as gateway:
        assert gateway.post(path, body).status == 200
        for place in list_strings(body):
            if place[-1] in {"model", *OF_CALLS}:
                continue
            servers.sent.clear()
            answer = gateway.post(path, add_value(body, place))
            assert not any(value in data.decode() for data in servers.sent for value in VALUES), place
            masked += answer.status == 200
            refused += answer.status == 400 and b"content_filter" in answer.body.lower()
    assert masked + refused >= 6 and (refused >= 2) is (action == "reject")
