"""Reads replies of the Gemini API without a gateway, and writes them."""

import json
from typing import Any

from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event, Failed, Finish, MediaOutput
from app.upstream.faults import make_fault
from app.upstream.gemini.api import make_reader

Json = dict[str, Any]
REPLY: Json = {"candidates": [{"content": {"parts": [{"text": '{"n": 1}'}]}, "finishReason": "STOP"}]}
SETTINGS: Json = {
    "upstreams": {"google": {"base_url": "http://model.test", "api": "gemini", "api_key": "the-key"}},
    "models": {"m": {"upstreams": ["google"], "name": "up-model"}},
    "cache": {"url": "null:"},
    "server": {"log_level": "error"},
}


def read(data: bytes, size: int | None = None, *, broken: bool = False) -> list[Event]:
    """Return the events of a reply that comes in reads of `size` bytes. `broken`: its body ends with an error."""
    reader, assembler = make_reader("reply")
    size = size or max(len(data), 1)
    events: list[Event] = []
    for start in range(0, len(data), size):
        events += assembler.feed(reader.feed(data[start : start + size]))
    if not assembler.ended:
        events += assembler.feed(reader.close(not broken))
        events += assembler.close(reader.junk, make_fault("upstream_incomplete", "broken") if broken else None)
    return events


def write_stream(*chunks: Json) -> bytes:
    return b"".join(b"data: %b\r\n\r\n" % json.dumps(chunk).encode() for chunk in chunks)


def chunk(*parts: Json, end: Any = None, usage: Json | None = None, **fields: Any) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": list(parts)}, "index": 0, **fields}
    if end is not None:
        candidate["finishReason"] = end
    return {"candidates": [candidate], **({} if usage is None else {"usageMetadata": usage})}


def call(name: str, arguments: Any = None, **fields: Any) -> Json:
    return {"functionCall": {"name": name, **({} if arguments is None else {"args": arguments})}, **fields}


def read_told(events: list[Event]) -> Json:
    """Return what events tell, as one message of chat completions, and how they end."""
    accumulator = MessageAccumulator()
    accumulator.feed(events)
    message: Json = {}
    for one in accumulator.messages:
        extra = dict(one.extra)
        if one.kind == "function_call":
            message.setdefault("tool_calls", []).append({"id": one.id, "name": one.name, "arguments": one.text})
            if "extra_content" in extra:
                message["tool_calls"][-1]["extra_content"] = extra.pop("extra_content")
        elif one.kind == "media":
            assert isinstance(one.media, MediaOutput)
            message.setdefault("images", []).append(one.media.url)
        elif one.kind != "function_result":
            message[one.kind] = message.get(one.kind, "") + one.text
        add_fields(message, extra)
    add_fields(message, accumulator.loose_extra)
    end = events[-1]
    if isinstance(end, Failed):
        return {"before": message, "error": end.fault.code}
    assert isinstance(end, Finish)
    return {"message": message, "finish_reason": end.reason, "native": end.native_reason, "usage": end.usage}


def add_fields(message: Json, extra: Json) -> None:
    for name, value in extra.items():
        known = message.get(name)
        message[name] = known + value if isinstance(known, list) else value
