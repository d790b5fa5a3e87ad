"""Servers of different APIs behind one model: whichever answers, the client reads a whole reply in its own format."""

import json
from typing import Any

import httpx
import pytest

from tests.in_process_gateway import ModelServer, Running, streamed
from tests.upstream.messages.replies import start, stop, text, write_stream

Json = dict[str, Any]
CHUNKS = (
    b'data: {"choices":[{"index":0,"delta":{"content":"from chat"}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
)
EVENTS = write_stream([start(), *text(0, "from messages"), *stop()])
OVERLOADED = write_stream([start(), {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}])
UPSTREAMS = {
    "messages": {"base_url": "http://messages.test/v1", "api": "messages", "kind": "anthropic"},
    "chat": {"base_url": "http://chat.test/v1"},
}
ASK: Json = {"model": "m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
PATHS = ("/v1/messages", "/v1/chat/completions")


def ask(model: Json, failing: str, path: str, body: Json = ASK, **models: Json) -> tuple[int, str, list[str]]:
    """Return the status, the body and the servers that were asked. `failing` fails in the stream, or with a status."""

    def answer(request: httpx.Request) -> httpx.Response:
        name = request.url.host.partition(".")[0]
        if name == failing:
            return streamed(OVERLOADED) if name == "messages" else httpx.Response(503, json={"error": "busy"})
        return streamed(EVENTS) if name == "messages" else streamed(*CHUNKS)

    server = ModelServer(answer)
    settings = {"upstreams": UPSTREAMS, "models": {"m": model, **models}, "cache": {"url": "null:"}}
    with Running({**settings, "server": {"log_level": "error"}}, server) as gateway:
        answered = gateway.post(path, body)
    return answered.status, answered.body.decode(), [request.url.host for request in server.requests]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("failing", "other"), [("messages", "chat"), ("chat", "messages")])
def test_a_server_of_another_api_takes_over(path: str, failing: str, other: str) -> None:
    rows = [{"name": failing, "priority": 1}, {"name": other, "priority": 2}]
    status, body, asked = ask({"upstreams": rows, "max_retries": 1}, failing, path)
    assert status == 200 and f"from {other}" in body, body
    assert asked == [f"{failing}.test", f"{other}.test"]
    assert body.count("message_start") == (2 if path == "/v1/messages" else 0)  # its name and its type


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("failing", "other"), [("messages", "chat"), ("chat", "messages")])
def test_a_fallback_model_of_another_api_answers(path: str, failing: str, other: str) -> None:
    status, body, _ = ask({"upstreams": [failing], "fallbacks": ["n"]}, failing, path, n={"upstreams": [other]})
    assert status == 200 and f"from {other}" in body, body


def test_what_only_one_server_can_be_sent_goes_to_that_one() -> None:
    messages = [{"role": "user", "content": [{"type": "future_block"}]}]
    model = {"upstreams": ["chat", "messages"]}
    status, body, asked = ask(model, "", "/v1/messages", {**ASK, "messages": messages})
    assert status == 200 and "from messages" in body, body
    assert asked == ["messages.test"]


@pytest.mark.parametrize("path", PATHS)
def test_the_quicker_of_two_apis_wins(path: str) -> None:
    model = {"upstreams": ["messages", "chat"], "hedge_after_seconds": 0.001}
    status, body, _ = ask(model, "", path)
    assert status == 200
    frames = [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data: {")]
    assert not any(frame.get("type") == "error" or "error" in frame for frame in frames)
    assert ("from messages" in body) is not ("from chat" in body)


READS_A_PART = {**UPSTREAMS, "messages": {**UPSTREAMS["messages"], "kind": "llamacpp"}}


@pytest.mark.parametrize("servers", [["messages"], ["messages", "other"]])
def test_a_body_is_translated_for_a_server_that_reads_only_a_part_of_its_api(servers: list[str]) -> None:
    server = ModelServer(lambda _: streamed(EVENTS))
    upstreams = {**READS_A_PART, "other": {**UPSTREAMS["messages"], "base_url": "http://other.test/v1"}}
    rows = [{"name": name, "priority": place} for place, name in enumerate(servers, 1)]
    settings = {"upstreams": upstreams, "models": {"m": {"upstreams": rows}}, "cache": {"url": "null:"}}
    thinking = {"thinking": {"type": "disabled"}, "unknown_field": 1}
    with Running({**settings, "server": {"log_level": "error"}}, server) as gateway:
        answered = gateway.post("/v1/messages", ASK | thinking)
    sent = json.loads(server.requests[0].content)
    assert answered.status == 200 and "thinking" not in sent and "unknown_field" not in sent
    assert sent["chat_template_kwargs"] == {"enable_thinking": False, "thinking": False}
    assert "unknown_field is not known here" in answered.body.decode()
