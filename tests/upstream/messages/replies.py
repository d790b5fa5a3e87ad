"""Reads replies of the Messages API without a gateway, and writes streams of it."""

import json
from collections.abc import Iterable
from typing import Any

from app.chat.events import Event
from app.upstream.messages.api import make_reader

Json = dict[str, Any]
KINDS = ("anthropic", "anthropic_compatible")
REPLY = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"}
SETTINGS: Json = {
    "upstreams": {kind: {"base_url": "http://model.test/v1", "api": "messages", "kind": kind} for kind in KINDS},
    "models": {
        kind: {"upstreams": [kind], "name": "up-model", "profile": {"media": ["image", "file"]}} for kind in KINDS
    },
    "cache": {"url": "null:"},
    "server": {"log_level": "error"},
}


def read(data: bytes, size: int | None = None, *, clean: bool = True) -> list[Event]:
    """Return the events of a reply that comes in reads of `size` bytes. `clean`: its body ends without an error."""
    reader, assembler = make_reader("reply")
    size = size or max(len(data), 1)
    events: list[Event] = []
    for start in range(0, len(data), size):
        events += assembler.feed(reader.feed(data[start : start + size]))
    if not assembler.ended:
        events += assembler.feed(reader.close(clean))
        events += assembler.close(reader.junk)
    return events


def write_stream(events: Iterable[Json]) -> bytes:
    return b"".join(b"event: %b\ndata: %b\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in events)


def start(id_: str = "msg_1", **usage: int) -> Json:
    return {"type": "message_start", "message": {"id": id_, "usage": {"input_tokens": 3, "output_tokens": 1, **usage}}}


def block(index: int, item: Json, *deltas: Json, end: bool = True) -> list[Json]:
    events: list[Json] = [{"type": "content_block_start", "index": index, "content_block": item}]
    events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*events, *([{"type": "content_block_stop", "index": index}] if end else [])]


def text(index: int, *pieces: str) -> list[Json]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def stop(reason: str | None = "end_turn", **fields: Any) -> list[Json]:
    usage = {"output_tokens": 5}
    delta = {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None, **fields}, "usage": usage}
    return [delta, {"type": "message_stop"}]
