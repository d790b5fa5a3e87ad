"""The events of a Responses server's body that comes in parts."""

from collections.abc import Iterable
from typing import Any

import msgspec
from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event, Failed, Finish
from app.upstream.responses.api import make_reader

Json = dict[str, Any]


def read_events(parts: Iterable[bytes], *, clean: bool = True) -> list[Event]:
    reader, assembler = make_reader("chat-1")
    found: list[Event] = []
    for part in parts:
        found += assembler.feed(reader.feed(part))
    found += assembler.feed(reader.close(clean=clean))
    return found + assembler.close(reader.junk)


def write_stream(*events: Json) -> bytes:
    """Write events as a server sends them; each needs only its `type` and what matters."""
    return b"".join(_write_event(event) for event in events)


def _write_event(event: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), msgspec.json.encode(event))


def read_messages(events: list[Event]) -> tuple[list[Json], Json]:
    """Return the messages of a reply in the gateway's own format, and the fields that no message followed."""
    accumulator = MessageAccumulator()
    accumulator.feed(events)
    messages: list[Json] = []
    for message in accumulator.messages:
        extra, written = dict(message.extra), Json(role="assistant")
        if message.kind == "function_call":
            written["function_call"] = {"name": message.name, "arguments": message.text}
            extra["function_id"] = message.id
        elif message.kind == "media":
            written["media"] = message.media.url if message.media else ""
        else:
            written[message.kind] = message.text
        messages.append(written | ({"extra": extra} if extra else {}))
    return messages, accumulator.loose_extra


def get_end(events: list[Event]) -> Finish | Failed:
    last = events[-1]
    assert isinstance(last, Finish | Failed)
    return last
