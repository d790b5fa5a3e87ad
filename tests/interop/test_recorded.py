"""Requests as real client packages sent them (`make interop` with `--record`): each is taken, and answered in shape."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from interop.environments import clients

from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running, streamed
from tests.interop.shapes import CHUNK_VALIDATOR, COMPLETION_VALIDATOR

RECORDED = Path(__file__).parent / "recorded"
SETTINGS = {
    "upstreams": {"local": {"base_url": "http://model.test/v1"}},
    "models": {"demo": {"upstreams": ["local"]}},
}
REQUESTS = {
    f"{file.stem}-{number}": row
    for file in sorted(RECORDED.glob("*.json"))
    for number, row in enumerate(json.loads(file.read_text("utf-8")))
}
COMPLETIONS = {name: row["body"] for name, row in REQUESTS.items() if row["path"] == "/v1/chat/completions"}
MESSAGES = {name: row["body"] for name, row in REQUESTS.items() if row["path"] == "/v1/chat"}
THOUGHT, CONTENT = "Let me think.", "Let me look."


def event(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def replying(request: httpx.Request) -> httpx.Response:
    """A thought, a sentence, and two calls where functions are offered."""
    body = json.loads(request.content)
    names = [tool["function"]["name"] for tool in body.get("tools", ())][:1] * 2
    calls = [
        {"index": place, "id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for place, name in enumerate(names)
    ]
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}
    return streamed(
        event({"reasoning_content": THOUGHT}),
        event({"content": CONTENT}),
        *(event({"tool_calls": [call]}) for call in calls),
        event({}, "tool_calls" if calls else "stop"),
        b"data: " + json.dumps(usage).encode() + b"\n\ndata: [DONE]\n\n",
    )


Ask = Callable[[str, Any], tuple[Answer, Any]]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Gives the answer, and what the model server was sent."""
    server = ModelServer(replying)

    def post(path: str, body: Any) -> tuple[Answer, Any]:
        answer = gateway.post(path, body)
        assert answer.status == 200, answer.body
        (request,) = server.requests
        server.requests.clear()
        return answer, json.loads(request.content)

    with Running(SETTINGS, server) as gateway:
        yield post


def lines(answer: Answer) -> list[str]:
    return [line[6:] for line in answer.body.decode().split("\n") if line.startswith("data: ")]


def answers_follow_their_calls(messages: list[Any]) -> bool:
    """OpenAI's rule: results stand behind the message that called, each call has one, and nothing comes between."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return False
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
    return not open_calls


@each_case("name", [name for name, body in COMPLETIONS.items() if not body.get("stream")])
def test_a_whole_reply_has_the_shape_that_clients_expect(ask: Ask, name: str) -> None:
    answer, sent = ask("/v1/chat/completions", COMPLETIONS[name])
    COMPLETION_VALIDATOR.validate(answer.json)
    message = answer.json["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == (THOUGHT, CONTENT)
    assert len(message.get("tool_calls", ())) == (2 if sent.get("tools") else 0)


@each_case("name", [name for name, body in COMPLETIONS.items() if body.get("stream")])
def test_every_chunk_of_a_stream_has_the_shape_that_clients_expect(ask: Ask, name: str) -> None:
    body = COMPLETIONS[name]
    answer, sent = ask("/v1/chat/completions", body)
    *chunk_lines, done = lines(answer)
    chunks = [json.loads(line) for line in chunk_lines]
    for chunk in chunks:
        CHUNK_VALIDATOR.validate(chunk)
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    begun = [call for delta in deltas for call in delta.get("tool_calls", ()) if "id" in call]
    assert done == "[DONE]"
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == THOUGHT
    assert "".join(delta.get("content") or "" for delta in deltas) == CONTENT
    assert [call["index"] for call in begun] == ([0, 1] if sent.get("tools") else [])
    assert ("usage" in chunks[-1]) == bool((body.get("stream_options") or {}).get("include_usage"))


@each_case("name", REQUESTS)
def test_what_the_model_server_is_sent_is_a_sound_conversation(ask: Ask, name: str) -> None:
    _, sent = ask(REQUESTS[name]["path"], REQUESTS[name]["body"])
    assert sent["messages"][-1]["role"] in ("user", "tool")
    assert answers_follow_their_calls(sent["messages"])


FIELDS = {
    "qwen": {"messages"},
    "autogen": {"messages", "stop_reason"},
    "agentscope": {"msg", "last"},
    "agentscope2": {"msg"},
}
BEGINNINGS = {"qwen": "type", "autogen": "type", "agentscope": "msg", "agentscope2": "type"}


@each_case("name", MESSAGES)
def test_frameworks_are_answered_in_their_own_form(ask: Ask, name: str) -> None:
    body = MESSAGES[name]
    answer, _ = ask("/v1/chat", body)
    form = body.get("format", "qwen")
    if body.get("stream", True):
        frames = answer.frames
        if body.get("autogen_stream") == "model":
            assert (frames[0], set(frames[-1]) >= {"finish_reason", "content", "usage"}) == (THOUGHT, True)
        else:
            assert all(BEGINNINGS[form] in frame for frame in frames)
    else:
        assert answer.json.keys() >= FIELDS[form]


def test_a_result_that_qwen_agent_names_by_id_answers_its_call(ask: Ask) -> None:
    call = {"id": "c7", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "f", "content": "done", "id": "c7", "extra": {"function_id": "c7"}},
    ]
    _, sent = ask("/v1/chat/completions", {"model": "demo", "messages": history})
    assert sent["messages"][2] == {"role": "tool", "tool_call_id": "c7", "content": "done"}


@pytest.mark.parametrize("id_", [None, "", 7])
def test_a_result_that_names_no_call_is_refused(id_: Any) -> None:
    history = [{"role": "user", "content": "x"}, {"role": "tool", "content": "done", "id": id_}]
    with Running(SETTINGS, ModelServer(replying)) as gateway:
        answer = gateway.post("/v1/chat/completions", {"model": "demo", "messages": history})
    assert (answer.status, answer.json["error"]["param"]) == (400, "messages[1].tool_call_id")


def test_a_model_that_is_not_there_has_openais_code() -> None:
    with Running(SETTINGS, ModelServer(replying)) as gateway:
        answer = gateway.post(
            "/v1/chat/completions", {"model": "nobody", "messages": [{"role": "user", "content": "x"}]}
        )
    error = answer.json["error"]
    assert (answer.status, error["code"], error["type"]) == (404, "model_not_found", "invalid_request_error")


OTHER_PATHS = {
    "anthropic",
    "anthropic-node",
    "langchain-anthropic",
    "pydantic-ai-anthropic",
    "ai-anthropic",
    "claude-code",
    "google-genai",
    "google-genai-node",
    "openai-responses",
    "openai-responses-node",
    "langchain-responses",
    "pydantic-ai-responses",
    "ai-openai",
    "codex",
    "opencode",
    "qwen-code",
    "pi",
    "cline",
    "continue",
    "openapi-python-client",
    "openapi-typescript",
    "examples",
}
"""Clients of other endpoints, whose requests are in the goldens of those; coding agents, whose requests are long; and
clients that are made here."""


def test_every_client_of_chat_completions_has_recorded_requests() -> None:
    recorded = {file.stem for file in RECORDED.glob("*.json")}
    assert {client.name for client in clients([]) if not client.goldens} - OTHER_PATHS == recorded - OTHER_PATHS
