"""Cases that others wrote from the API's description: what a server must be sent, and what must be read from it."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.chat.accumulator import MessageAccumulator, ReplyMessage, is_json_object
from app.chat.events import Event, Failed, Finish

from tests.in_process_gateway import ModelServer, Running
from tests.upstream.messages.recordings import GOLDENS, needs_goldens
from tests.upstream.messages.replies import KINDS, REPLY, SETTINGS, read

Json = dict[str, Any]
COUNTS = (
    *("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens"),
)


def load(path: Path) -> Json:
    loaded: Json = json.loads(path.read_text())
    return loaded


def get_expected_body(case: Json, name: str, kind: str) -> Json:
    """Return the body of a case, with what is sent otherwise since it was written: every Messages server gets the marks
    of caches, and Anthropic's takes no `top_p` beside a temperature."""
    of_format = case.get("expect_of_format", {}).get(name, {})
    if case["name"] == "cache_marks" and "anthropic" in of_format:
        kind = "anthropic"
    body: Json = (of_format.get(kind) or case["expect"][kind])["body"]
    if case["name"] == "sampling" and kind == "anthropic":
        return {field: value for field, value in body.items() if field != "top_p"}
    return body


@needs_goldens
@pytest.mark.parametrize("path", sorted(GOLDENS.glob("requests/*.json")), ids=lambda path: path.stem)
@pytest.mark.parametrize("kind", KINDS)
def test_the_body_of_a_conversation_in_each_format_is_that_of_the_case(path: Path, kind: str) -> None:
    case = load(path)
    server = ModelServer(lambda _: httpx.Response(200, json=REPLY))
    with Running(SETTINGS, server) as gateway:
        for name, messages in case["messages"].items():
            expected = get_expected_body(case, name, kind)
            body = {"model": kind, "format": name, "messages": messages, "stream": True}
            body |= {key: case[key] for key in ("functions", "generate_cfg") if key in case}
            answer = gateway.post("/v1/chat", body)
            assert answer.status == 200, (name, answer.body)
            sent = json.loads(server.requests[-1].content)
            assert sent == expected, name
            assert list(sent) == list(expected), name


def get_neutral(events: list[Event]) -> Json:
    """Return what the events tell in the shape of the cases."""
    accumulator = MessageAccumulator()
    accumulator.feed(events)
    end = events[-1]
    neutral: Json = {"messages": [get_message(message) for message in accumulator.messages]}
    if isinstance(end, Failed):
        return neutral | {"finish_reason": "error", "kind": end.fault.code, "transient": end.fault.transient}
    assert isinstance(end, Finish)
    counts = {name: end.usage.get(name) for name in COUNTS} if end.usage else {}
    return neutral | {
        "finish_reason": end.reason,
        "native_finish_reason": end.native_reason,
        "usage": {name: count for name, count in counts.items() if count},
    }


def get_message(message: ReplyMessage) -> Json:
    extra = dict(message.extra)
    if message.kind == "function_call":
        called = {"name": message.name, "arguments": message.text}
        if not is_json_object(message.text):
            extra["arguments_valid"] = False
        return {"role": "assistant", "function_call": called, "extra": {"function_id": message.id, **extra}}
    return {"role": "assistant", message.kind: message.text, **({"extra": extra} if extra else {})}


@needs_goldens
@pytest.mark.parametrize("path", sorted(GOLDENS.glob("replies/messages_*.json")), ids=lambda path: path.stem)
def test_a_reply_is_read_as_the_case_says_at_any_cut(path: Path) -> None:
    case = load(path)
    data, neutral = case["body"].encode(), case["neutral"]
    expected = {"messages": neutral["messages"], "finish_reason": neutral["finish_reason"]}
    if neutral["error"] is not None:
        expected |= {"kind": neutral["error"]["kind"], "transient": neutral["error"]["transient"]}
    else:
        usage = {name: neutral["usage"][name] for name in COUNTS if neutral["usage"].get(name)}
        expected |= {"native_finish_reason": neutral["native_finish_reason"], "usage": usage}
    for size in (1, 7, 64, len(data)):
        assert get_neutral(read(data, size)) == expected
