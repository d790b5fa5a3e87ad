"""Cases that others wrote from the API's description: what a server must be sent, and what must be read from it."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.upstream.faults import from_response

from tests.in_process_gateway import ModelServer, Running
from tests.streams.recordings import FOLDER as STREAMS
from tests.upstream.gemini.replies import REPLY, SETTINGS, call, chunk, read, read_told, write_stream

Json = dict[str, Any]
GOLDENS = STREAMS.parent / "goldens" / "gemini_upstream"
needs_goldens = pytest.mark.skipif(
    not GOLDENS.is_dir(), reason=f"no cases in {GOLDENS}: set PARLEY_STREAMS to the folder beside it"
)
COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "reasoning_tokens")


def load(path: Path) -> Json:
    loaded: Json = json.loads(path.read_text())
    return loaded


def answer_as_asked(request: httpx.Request) -> httpx.Response:
    """Answer with a call if the request demands one, else with JSON, so that the gateway has no warning of the
    reply."""
    demanded = write_stream(chunk(call("get_weather", {"city": "Paris"}), end="STOP"))
    return (
        httpx.Response(200, content=demanded) if b"toolConfig" in request.content else httpx.Response(200, json=REPLY)
    )


@needs_goldens
@pytest.mark.parametrize("path", sorted(GOLDENS.glob("requests/*.json")), ids=lambda path: path.stem)
def test_a_request_is_sent_as_the_case_says(path: Path) -> None:
    case = load(path)
    given, expected = case["given"], case["expect"]
    profile = {"media": ["image", "audio", "file"], **given.get("profile", {})}
    settings = {**SETTINGS, "models": {"m": {**SETTINGS["models"]["m"], "profile": profile}}}
    server = ModelServer(answer_as_asked)
    with Running(settings, server) as gateway:
        answer = gateway.post("/v1/chat/completions", given["chat"])
    assert answer.status == 200, answer.body
    sent = server.requests[-1]
    assert str(sent.url) == f"http://model.test{expected['path']}"
    assert sent.headers["x-goog-api-key"] == "the-key"
    body = json.loads(sent.content)
    assert body == expected["body"]
    assert list(body) == list(expected["body"])
    assert list(body["generationConfig"]) == list(expected["body"]["generationConfig"])
    assert len(answer.json.get("warnings", [])) == expected["warnings"], answer.body


@needs_goldens
@pytest.mark.parametrize("path", sorted(GOLDENS.glob("replies/*.json")), ids=lambda path: path.stem)
def test_a_reply_is_read_as_the_case_says_at_any_cut(path: Path) -> None:
    case = load(path)
    given, expected = case["given"], case["expect"]
    data = given["body"].encode()
    if given["status"] != 200:
        fault = from_response(given["status"], {}, data, datetime.now(UTC))
        assert fault.code == expected["error"]
        assert fault.retry_after_seconds == expected.get("retry_after")
        return
    for size in (1, 7, 64, len(data)):
        told = read_told(read(data, size))
        if "error" in expected:
            assert told["error"] == expected["error"]
            assert told["before"].get("content", "") == expected.get("before", "")
            continue
        assert told["finish_reason"] == expected["finish_reason"]
        assert told["native"] == expected["native_finish_reason"]
        usage = told["usage"] and {name: told["usage"][name] for name in COUNTS if told["usage"].get(name)}
        assert usage == expected["usage"]
        assert make_comparable(told["message"]) == make_comparable(expected["message"])


def make_comparable(message: Json) -> Json:
    """Return a message without the ids that the gateway makes, with its arguments as JSON."""
    calls = [
        {**call, "id": "made" if call["id"].startswith(("<id", "call_")) else call["id"]}
        | ({"arguments": json.loads(call["arguments"])} if isinstance(call["arguments"], str) else {})
        for call in message.get("tool_calls", ())
    ]
    images = [
        one if isinstance(one, str) else f"data:{one['mimeType']};base64,{one['data']}"
        for one in message.get("images", ())
    ]
    rest = {name: value for name, value in message.items() if value is not None}
    return rest | ({"tool_calls": calls} if calls else {}) | ({"images": images} if images else {})
