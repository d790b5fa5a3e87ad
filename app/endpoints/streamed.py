"""`StreamedAnswer`: the events of a stream pass one to one, and its end is checked."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from app.chat.events import AnswerPart, Event, Failed, Fault, Finish
from app.endpoints.usage import USAGE_FIELDS, read_answer_usage
from app.upstream import faults
from app.upstream.reply.sse import MAX_EVENT_BYTES, MalformedData

_END_OF_EVENT = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_DONE = b"[DONE]"
_MAX_CHOICES = 10_000
_EMPTY = (b"null", b'""', b"{}", b"false")


class EventSplitter:
    """Splits the bytes of a stream into whole events, each with the empty line at its end."""

    junk = b""

    def __init__(self) -> None:
        self.saw_line = False
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        searched = max(0, len(self._rest) - 3)
        self._rest += data
        self.saw_line = True
        events: list[Any] = []
        begin = 0
        for match in _END_OF_EVENT.finditer(self._rest, searched):
            events.append(bytes(self._rest[begin : match.end()]))
            begin = match.end()
        del self._rest[:begin]
        if len(self._rest) > MAX_EVENT_BYTES:
            events.append(MalformedData(b"", f"an event has more than {MAX_EVENT_BYTES} bytes"))
        return events

    def close(self, clean: bool) -> list[Any]:
        """A last event may lack the empty line, if the body has ended as it should."""
        rest, self._rest = bytes(self._rest), bytearray()
        return [rest.rstrip(b"\r\n") + b"\n\n"] if clean and rest.strip() else []


class _Choice(Struct):
    index: int = 0
    finish_reason: Any = None


class StreamedAnswer:
    finishing = False

    def __init__(
        self, headers: tuple[tuple[bytes, bytes], ...], choices: int | None = None, *, hides_usage: bool = False
    ) -> None:
        """`choices` is how many choices a text completion has; None: it is another stream."""
        self.started = self.ended = False
        self._headers = headers
        self._choices = choices
        self._hides_usage = hides_usage
        self._values: dict[bytes, bytes] = {}
        self._seen: set[int] = set()
        self._finished: set[int] = set()
        self._done = False
        self._images = 0
        self._fault: Fault | None = None

    def check_progress(self) -> bool:
        return False

    def feed(self, items: Sequence[Any]) -> list[Event]:
        self.started = self.started or bool(items)
        passed: list[bytes] = []
        for item in items:
            if isinstance(item, MalformedData):
                self._fault = faults.make_protocol_fault(item.data, item.reason)
            elif self._fault is None and self._read(item):
                passed.append(item)
        events: list[Event] = []
        if passed:
            headers, self._headers = self._headers, ()
            events += [AnswerPart(passed[0], headers), *map(AnswerPart, passed[1:])]
        if self._fault is not None and not self.ended:
            self.ended = True
            events.append(Failed(self._fault))
        return events

    def close(self, junk: bytes = b"", fault: Fault | None = None) -> list[Event]:
        self.ended = True
        fault = (None if self._is_whole else fault) or self._find_missing()
        return [Finish("stop", self.read_usage()) if fault is None else Failed(fault)]

    def read_usage(self) -> dict[str, Any] | None:
        return read_answer_usage(self._values, self._images or None)

    @property
    def _is_whole(self) -> bool:
        """Whether a text completion has come to its end."""
        if self._choices is None or not self._seen:
            return False
        return self._done or (len(self._finished) >= self._choices and self._seen == self._finished)

    def _find_missing(self) -> Fault | None:
        if self._choices is None:
            return None if self.started else _make_incomplete("the model server ended its reply without any part of it")
        if self._is_whole:
            return None
        missing = "before each choice had a finish reason" if self._seen else "without any text"
        return _make_incomplete(f"the model server ended its reply {missing}")

    def _read(self, event: bytes) -> bool:
        """Read an event. Return whether it is passed on."""
        lines = _LINE_END.split(event)
        data = b"\n".join([line[5:].strip() for line in lines if line.startswith(b"data:")])
        named_error = any(line.startswith(b"event:") and line[6:].strip() == b"error" for line in lines)
        if not data:
            return True
        if data == _DONE:
            self._done = True
            return True
        try:
            fields = msgspec.json.decode(data, type=dict[str, Raw])
        except (ValueError, RecursionError):
            self._fault = faults.make_protocol_fault(data)
            return False
        if named_error or bytes(fields.get("error", b"null")).strip() not in _EMPTY:
            self._fault = faults.from_body(data, None)
            return False
        return self._read_fields(fields)

    def _read_fields(self, fields: Mapping[str, Raw]) -> bool:
        self._values |= {
            name: bytes(fields[name.decode()])
            for name in USAGE_FIELDS
            if bytes(fields.get(name.decode(), b"null")).strip() != b"null"
        }
        if bytes(fields.get("type", b"")).strip().endswith(b'completed"'):
            self._images += 1
        if self._choices is None:
            return True
        choices = _read_choices(fields.get("choices"))
        self._seen |= {choice.index for choice in choices}
        self._finished |= {choice.index for choice in choices if choice.finish_reason is not None}
        if len(self._seen) > _MAX_CHOICES:
            self._fault = faults.make_fault("upstream_protocol", "the reply has too many choices", status=200)
        return bool(choices) or not self._hides_usage or "usage" not in fields


def _read_choices(raw: Raw | None) -> list[_Choice]:
    try:
        return [] if raw is None else msgspec.json.decode(raw, type=list[_Choice])
    except (ValueError, RecursionError):
        return []


def _make_incomplete(text: str) -> Fault:
    return faults.make_fault("upstream_incomplete", text, status=200)
