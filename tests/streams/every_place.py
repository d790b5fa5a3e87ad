"""A stream that ends at any byte: what the reader of events makes of it at every byte, and what the assembler makes of
it behind every event. Together they say what becomes of the reply at every byte, because the assembler gets nothing
but the reader's items.

The state at each place is copied and closed there, so that a stream is read once and not once for each place.
"""

import copy
import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from app.chat.events import Event, Extra, Failed, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.token_usage import read_token_usage
from app.upstream.faults import make_fault
from app.upstream.reply.reader import ReplyReader
from app.upstream.reply.sse import EventReader

from tests.streams.partial_replies import Json, PartialReply, Said, squeeze

Item: TypeAlias = bytes | tuple[str, bytes]
"""The data of an event; or the name of what the reader has for it, and its data."""
_LINE = re.compile(rb"([^\r\n]*)(\r\n|\r|\n|$)")
_BROKEN = make_fault("upstream_incomplete", "the connection broke")
LONG_LINE = 2000
"""A reader of a longer line is not copied at each byte: it holds each byte apart."""


@dataclass(slots=True)
class Framed:
    """An event, and the places of a stream behind its parts."""

    data: bytes = b""
    begin: int = 0
    """Where its data begin."""
    end: int = 0
    """Behind the data."""
    line_end: int = 0
    """Behind the first byte of the end of their line."""
    blank_end: int = 0
    """Behind the first byte of the end of its blank line."""
    is_failure: bool = False
    """Its name says that something failed."""

    def list_items(self, place: int, *, closed: bool) -> list[Item]:
        """Return what the reader has of the event, if the stream has come up to a place, or ends there.

        An event with whole data counts before its blank line; at the end of the stream even before the end of its
        line. One whose name says that something failed counts at its blank line, or at the end.
        """
        if self.is_failure:
            return [("ErrorEvent", self.data)] if place >= (self.end if closed else self.blank_end) else []
        if self.data.startswith(b"[DONE]"):
            return [("StreamDone", b"")] if place >= (self.begin + 6 if closed else self.line_end) else []
        return [self.data] if place >= (self.end if closed else self.line_end) else []


def find_events(body: bytes) -> list[Framed]:
    """Find the events of a stream whose data are one line each."""
    events: list[Framed] = []
    current = Framed()
    for line in _LINE.finditer(body, len(BOM_UTF8) if body.startswith(BOM_UTF8) else 0):
        name, _, value = line[1].partition(b":")
        if name == b"event":
            current.is_failure = re.search(rb"(?:^|[^a-z])(?:error|exception|failed|failure)$", value) is not None
        elif name == b"data":
            value = value.removeprefix(b" ")
            current.data, current.begin, current.end = value, line.end(1) - len(value), line.end(1)
            current.line_end = line.end(1) + 1
        elif not line[1] and current.data.strip():
            current.blank_end = line.end(1) + 1
            events.append(current)
            current = Framed()
    return events


def _check_json(data: bytes) -> bytes:
    json.loads(data.decode("utf-8", "replace"))
    return data


def _name(items: list[Any]) -> list[Item]:
    return [item if isinstance(item, bytes) else (type(item).__name__, getattr(item, "data", b"")) for item in items]


def list_wrong_items(body: bytes) -> Iterator[str]:
    """Yield each place at which the reader has other items than the events say: read byte by byte, or all of the event
    in one piece, or with the event before it; before the end of the stream and at it."""
    reader = EventReader(_check_json)
    start, known = 0, list[Item]()
    at_start = at_event_before = 0, copy.deepcopy(reader)
    beyond = len(body) + 1
    for event in [*find_events(body), Framed(b"", beyond, beyond, beyond, blank_end=len(body))]:
        came: list[Item] = []
        for place in range(start + 1, event.blank_end + 1):
            came += _name(reader.feed(body[place - 1 : place]))
            open_, closed = (event.list_items(place, closed=is_end) for is_end in (False, True))
            found = [
                ("byte by byte", came, open_),
                ("in one piece, closed", _read_from(at_start, body, place), closed),
                ("with the event before, closed", _read_from(at_event_before, body, place), known + closed),
            ]
            if event.end - start < LONG_LINE:
                found.append(("byte by byte, closed", came + _read_from((place, reader), body, place), closed))
            for name, got, want in found:
                if got != want:
                    yield f"byte {place} of {len(body)}, {name}: {got[-1:]} instead of {want[-1:]}"
        start, known = event.blank_end, came
        at_event_before, at_start = at_start, (start, copy.deepcopy(reader))


def _read_from(state: tuple[int, EventReader[bytes]], body: bytes, end: int) -> list[Item]:
    """Return what a reader that has come up to a place has of the bytes between it and the end of the stream."""
    place, reader = state[0], copy.deepcopy(state[1])
    return _name(reader.feed(body[place:end])) + _name(reader.close(clean=True))


class Received:
    """What the gateway has told of a reply."""

    def __init__(self) -> None:
        self.said = Said()
        self.end: Finish | Failed | None = None

    def feed(self, events: list[Event]) -> None:
        said = self.said
        for event in events:
            assert self.end is None
            match event:
                case TextDelta():
                    said.text += squeeze(event.text)
                case ReasoningDelta():
                    said.thought += squeeze(event.text)
                case ToolCallDelta(name=""):
                    said.calls[event.index][2] += event.arguments
                case ToolCallDelta():
                    said.calls.append([event.id, event.name, event.arguments])
                case Extra():
                    for detail in event.fields.get("reasoning_details", ()):
                        said.opaque.append(detail.get("signature") or detail.get("data") or detail.get("item"))
                case Finish() | Failed():
                    self.end = event
                case _:
                    pass


def read_stream(body: bytes, make_reader: Callable[[str], ReplyReader]) -> Received:
    reader, assembler = make_reader("reply")
    received = Received()
    received.feed(assembler.feed(reader.feed(body) + reader.close(clean=True)))
    if received.end is None:
        received.feed(assembler.close(reader.junk))
    return received


def list_wrong_ends(
    body: bytes, make_reader: Callable[[str], ReplyReader], make_reply: Callable[[], PartialReply]
) -> Iterator[str]:
    """Yield each event behind which a stream that ends there, by itself or because the connection breaks, is
    written otherwise than the events so far say."""
    reader, assembler = make_reader("reply")
    items = reader.feed(body) + reader.close(clean=True)
    events: list[Json | None] = [None if b"[DONE]" in one.data else json.loads(one.data) for one in find_events(body)]
    if len(items) != len(events):
        yield f"{len(items)} items of {len(events)} events"
    received, reply = Received(), make_reply()
    for place, (item, event) in enumerate(zip([None, *items], [None, *events], strict=False)):
        if place and received.end is None:
            received.feed(assembler.feed([item]))
        if event is not None and not reply.is_over:
            reply.feed(event)
        for fault in (None, _BROKEN):
            cut, told, want = copy.deepcopy((assembler, received, reply))
            if told.end is None:
                told.feed(cut.close(b"", fault))
            want.close()
            for mistake in find_mistakes(told, want, cut.read_usage()):
                yield f"behind event {place} of {len(events)}, {'broken' if fault else 'ended'}: {mistake}"


def find_mistakes(told: Received, want: PartialReply, usage: Json | None = None) -> Iterator[str]:
    """Yield what was written otherwise than the server sent it. `usage` is that of a reply that failed."""
    end = told.end
    if isinstance(end, Finish) is not want.is_complete:
        yield f"{end} instead of {'a finish' if want.is_complete else 'a failure'}"
    elif isinstance(end, Failed) and not want.is_over and end.fault.code != "upstream_incomplete":
        yield f"{end.fault.code} of a reply that was cut"
    tokens = read_token_usage(end.usage if isinstance(end, Finish) else usage)
    told.said.tokens = None if tokens is None else (tokens.input, tokens.output)
    for name in Said.__slots__:
        if getattr(told.said, name) != getattr(want.said, name):
            yield f"{name}: {getattr(told.said, name)!r} instead of {getattr(want.said, name)!r}"[:1000]
