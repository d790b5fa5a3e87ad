"""Read the JSON values in the body of a reply, in any framing and however the bytes were cut.

One reader accepts server-sent events, newline-delimited JSON and a single JSON document, because servers send each of
them in place of the others. It looks at the bytes, never at the Content-Type.

It departs from the standard (WHATWG HTML, 9.2) in three ways. A data line that is a whole JSON value is an event at
once, and so is an unfinished event at the end of a cleanly closed body, because servers omit the blank line. An
`error:` field is an error (llama.cpp). So is an event whose name says that something failed, even if the name comes
behind the data.

There is an event for every token, and nearly every one is a line with a JSON object after `data: `, then a blank line;
with some APIs its name comes before, in a line that is mostly the same as that of the event before it.
`EventReader.feed` decodes one such event at once and several of them together; `_feed_lines` takes all others. The end
of a read that is cut within a line waits for the next read. A byte is searched for by its number, and first and last
bytes are compared by a slice: in CPython 3.11 `b"\\r" in data` and `data.endswith(...)` take much longer.
"""

import re
from collections.abc import Callable
from itertools import islice
from typing import Any, Generic, TypeVar

from app.upstream.reply.usual_decoder import UsualDecoder

_BOM = b"\xef\xbb\xbf"
_CR = ord("\r")
_DATA = b"data: "
EVENT_NAME = re.compile(r"[\w.-]{1,100}", re.ASCII)
"""A name of an event that can be sent on to a client: another one could end its line."""


class LineSplitter:
    """Splits bytes into lines without their ends, and buffers a line that has not ended."""

    __slots__ = ("_after_cr", "_buffer", "buffered_bytes", "_start")

    def __init__(self) -> None:
        self._buffer: list[bytes] = []
        self.buffered_bytes = 0
        """The size of the line that has not ended."""
        self._after_cr = False
        self._start = True

    @property
    def at_line_start(self) -> bool:
        """Whether nothing is known about the next line: neither a part of it nor a CR, which LF may complete, has
        come."""
        return not self.buffered_bytes and not self._after_cr and not self._start

    @property
    def has_rest(self) -> bool:
        """Whether a part of a line has come, and not the BOM alone."""
        return self.buffered_bytes > 0 and not self._start

    def join_rest(self, data: bytes) -> bytes:
        """Return the part of a line that has come and these bytes after it, and forget that part."""
        joined = b"".join((*self._buffer, data))
        self._buffer.clear()
        self.buffered_bytes = 0
        return joined

    def begins_without_bom(self, data: bytes) -> bool:
        """Whether the body does not begin with a BOM; `data` is its first bytes, which need not be fed then."""
        if data[:1] == _BOM[:1]:
            return False
        self._start = False
        return True

    def feed(self, data: bytes) -> list[bytes]:
        if self._after_cr or _CR in data:
            data = self._normalize(data)
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._buffer:
            lines[0] = self.join_rest(lines[0])
        if rest:
            self._buffer.append(rest)
            self.buffered_bytes += len(rest)
        if lines and self._start:
            self._start = False
            lines[0] = lines[0].removeprefix(_BOM)
        return lines

    def _normalize(self, data: bytes) -> bytes:
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
        if data:
            self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def close(self) -> list[bytes]:
        rest = self.join_rest(b"")
        if self._start:
            rest = rest.removeprefix(_BOM)
        return [rest] if rest else []


T = TypeVar("T")

_ERROR_NAME = re.compile(rb"(?:.*[^a-z])?(?:error|exception|failed|failure)", re.IGNORECASE)
"""The names of events whose data are an error: `error`, `response.failed`, `exception`."""
_FIELD_NAMES = (b"event", b"data", b"id", b"retry", _BOM)
"""What the first line of a stream begins with."""
_BETWEEN_VALUES = re.compile(rb"(?<=[}\]])\s*data:\s*(?=[{\[])")
_MOST_JOINED = 20
"""So many places between values are tried: each takes time for all that comes before it."""
MAX_EVENT_BYTES = 64 * 1024 * 1024
_MIN_RUN = 3
"""Fewer events are decoded one after the other."""
_LINE_BYTES = 64
"""The overhead in memory of each line of an unfinished event."""


class StreamDone:
    """The `[DONE]` at the end of a stream."""

    __slots__ = ()


DONE = StreamDone()


class ErrorEvent:
    """An error marked by the framing: the data of an `error:` field or of an `event: error`."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class MalformedData:
    """Bytes that are not valid in any framing."""

    __slots__ = ("data", "reason")

    def __init__(self, data: bytes, reason: str = "") -> None:
        """`reason` says why the bytes could not be read, if that is known."""
        self.data = data
        self.reason = reason


class EventReader(Generic[T]):
    """Splits bytes into JSON values and decodes each with `decode`.

    `decode` must raise ValueError for text that is not one whole JSON value.
    """

    junk = b""
    """The first line that is not valid in any framing. If it is HTML, a later bracket is script, not JSON."""
    saw_line = False
    """Whether any complete line has come, even a comment: the server is alive."""
    _size = 0
    _error_event = False
    _has_value = False
    """A data line of the current event has been decoded."""
    _name_line = b""
    """The line with the name of the current event, if its data are to come."""
    _is_new = True
    _at_event_start = False
    """Nothing that came before matters to the next line."""
    _head = b""
    """How the last event of two lines began, whose name is not that of an error: both lines up to the JSON object."""

    def __init__(self, decode: Callable[[bytes], T], usual: UsualDecoder[Any, T] | None = None) -> None:
        self._decode = decode
        self._usual = usual
        self._lines = LineSplitter()
        self._parts: list[bytes] = []
        self._document: list[bytes] = []

    @property
    def _is_between_events(self) -> bool:
        """Whether the whole lines that came before do not matter to the next one, but for a name, which is kept."""
        return not (self._parts or self._error_event or self._has_value)

    @property
    def _has_beginning(self) -> bool:
        """Whether only the beginning of an event has come."""
        return self._lines.has_rest or (self._name_line != b"" and self._lines.at_line_start)

    def feed(self, data: bytes) -> "list[T | StreamDone | ErrorEvent | MalformedData]":
        if self._at_event_start:
            if self._usual is not None:
                value = self._usual.decode_event(data)
                if value is not None:
                    self.saw_line = True
                    return [value]
            end = len(data) if data[-2:] == b"\n\n" else data.rfind(b"\n\n") + 2
            if end > 1 and _CR not in data:
                self.saw_line = True
                start = 6 if data[:7] == b"data: {" else self._find_object(data)
                if start and data.find(b"\n", start) == len(data) - 2:
                    if self._usual is not None:
                        self._usual.head = data[:start]
                    try:
                        return [self._decode(data[start:-2])]
                    except ValueError:
                        pass
                out: list[T | StreamDone | ErrorEvent | MalformedData] = []
                self._feed_whole_events(data[: end - 2], out)
                if end < len(data):
                    self._feed_any(data[end:], out)
                return out
        elif self._is_new and data:
            self._is_new = False
            self._at_event_start = self._lines.begins_without_bom(data)
            return self.feed(data)
        elif data.find(b"\n\n") >= 0 and self._is_between_events and self._has_beginning:
            self._at_event_start = True  # with its name and the part of a line that came before, the event is whole
            name_line, self._name_line = self._name_line, b""
            return self.feed(name_line + self._lines.join_rest(data))
        out = []
        self._feed_any(data, out)
        return out

    def _find_object(self, event: bytes) -> int:
        """Return where the JSON object of an event begins whose name comes before it; 0 if the event is not of this
        form, or its name says that something failed."""
        head = self._head
        if not head or event[: len(head)] != head:
            end = event.find(b"\n")
            if event[:7] != b"event: " or event[end + 1 : end + 8] != b"data: {":
                return 0
            if _ERROR_NAME.fullmatch(event[7:end].strip()):
                return 0
            head = self._head = event[: end + 8]
        return len(head) - 1

    def _feed_any(self, data: bytes, out: "list[T | StreamDone | ErrorEvent | MalformedData]") -> None:
        """Take bytes that may be cut anywhere."""
        if self._at_event_start:
            self._set_head(_DATA)
        lines = self._lines.feed(data)
        if lines:
            self.saw_line = True
            self._feed_lines(lines, out)
        self._at_event_start = self._lines.at_line_start and self._is_between_events and not self._name_line
        self._check_size(out)

    def _feed_whole_events(self, data: bytes, out: "list[T | StreamDone | ErrorEvent | MalformedData]") -> None:
        """Take whole events without the blank line of the last one. All their lines end with LF."""
        lines = data.split(b"\n")  # twice as fast as to split at two bytes
        frames = lines[::2] if len(lines) % 2 and not any(lines[1::2]) else data.split(b"\n\n")
        place = end_of_run = 0
        while place < len(frames):
            if self._usual is not None and place >= end_of_run and len(frames) - place >= _MIN_RUN:
                items, size = self._usual.decode_run(frames, place)
                if items:
                    out += items
                    place += size
                    continue
                end_of_run = place + size
            self._feed_whole_event(frames[place], out)
            place += 1

    def _feed_whole_event(self, frame: bytes, out: "list[T | StreamDone | ErrorEvent | MalformedData]") -> None:
        start = 6 if frame[:7] == b"data: {" else self._find_object(frame)
        if start and frame.find(b"\n", start) < 0:
            if self._usual is not None:
                self._usual.head = frame[:start]
            try:
                out.append(self._decode(frame[start:]))
                return
            except ValueError:
                pass
        if frame == b"data: [DONE]" and not self._parts and not self._error_event:
            out.append(DONE)
        elif frame:
            self._set_head(_DATA)
            self._feed_lines([*frame.split(b"\n"), b""], out)
            self._check_size(out)

    def _set_head(self, head: bytes) -> None:
        if self._usual is not None:
            self._usual.head = head

    def _check_size(self, out: "list[T | StreamDone | ErrorEvent | MalformedData]") -> None:
        if self._lines.buffered_bytes + self._size > MAX_EVENT_BYTES:
            out.append(MalformedData(b"an event of more than %d bytes" % MAX_EVENT_BYTES))

    def _feed_lines(self, lines: list[bytes], out: "list[T | StreamDone | ErrorEvent | MalformedData]") -> None:
        for line in lines:
            if not line:
                if self._parts or self._error_event:
                    self._dispatch(out)
                self._has_value, self._name_line = False, b""
                self._set_head(_DATA)
            elif line.startswith(b"data:"):
                self._feed_data(line[6:] if line[5:6] == b" " else line[5:], out)
            else:
                self._feed_other_line(line, out)

    def _feed_data(self, value: bytes, out: "list[T | StreamDone | ErrorEvent | MalformedData]") -> None:
        if not self._parts and not self._error_event:
            if value.startswith(b"[DONE]"):
                out.append(DONE)
                return
            try:
                out.append(self._decode(value))
                self._has_value = True
                return
            except ValueError:
                if not value.strip():
                    return
        self._add_part(value)

    def _add_part(self, value: bytes) -> None:
        """Keep a data line that is not a JSON value: others of its event may complete it."""
        self._parts.append(value)
        self._size += len(value) + _LINE_BYTES

    def _dispatch(self, out: "list[T | StreamDone | ErrorEvent | MalformedData]") -> None:
        """End an event, at its blank line, whose data spans several lines."""
        parts, self._parts, self._size = self._parts, [], 0
        data = b"\n".join(parts)
        if self._error_event:
            self._error_event = False
            if data.strip() or self._has_value:  # without data, the name came behind them
                out.append(ErrorEvent(data))
            return
        try:
            out.append(self._decode(data))
        except ValueError:
            self._decode_each(parts, out)

    def _decode_each(self, parts: list[bytes], out: "list[T | StreamDone | ErrorEvent | MalformedData]") -> None:
        """Decode lines one by one that are not JSON together: several events without blank lines, lines that a relay
        has framed twice, or malformed data."""
        for part in parts:
            value = _remove_inner_frame(part)
            if value.startswith(b"[DONE]"):
                out.append(DONE)
            elif value:
                try:
                    out.append(self._decode(value))
                except ValueError:
                    self._decode_joined(value, out)

    def _decode_joined(self, data: bytes, out: "list[T | StreamDone | ErrorEvent | MalformedData]") -> None:
        """Decode JSON values with `data:` between them: events without the line break before the next one
        (decolua/9router#3492), if all of them are values; else they are malformed."""
        values: list[T | StreamDone] = []
        start = 0
        for between in islice(_BETWEEN_VALUES.finditer(data), _MOST_JOINED):
            try:
                values.append(self._decode(data[start : between.start()]))
                start = between.end()
            except ValueError:
                pass  # this `data:` is a part of a text
        try:
            rest = data[start:].strip()
            values.append(DONE if rest == b"[DONE]" else self._decode(rest))
            out += values
        except ValueError:
            out.append(MalformedData(data[:500]))

    def _feed_other_line(self, line: bytes, out: "list[T | StreamDone | ErrorEvent | MalformedData]") -> None:
        name, _, value = line.partition(b":")
        if name == b"event":
            self._error_event = _ERROR_NAME.fullmatch(value.strip()) is not None
            self._name_line = line + b"\n"
            self._set_head(self._name_line + _DATA)
        elif name == b"error" and value:
            out.append(ErrorEvent(value.strip()))
        elif self._document or (line.lstrip()[:1] in (b"{", b"[") and not self.junk.startswith(b"<")):
            self._feed_json_line(line, out)
        elif not line.startswith(b":") and name not in (b"id", b"retry", b"data") and line.strip():
            self.junk = self.junk or line.strip()[:500]

    def _feed_json_line(self, line: bytes, out: "list[T | StreamDone | ErrorEvent | MalformedData]") -> None:
        """Take a line of JSON without `data:`: a value of NDJSON, or a line of one document."""
        if not self._document:
            try:
                out.append(self._decode(line))
                return
            except ValueError:
                pass
        self._document.append(line)
        self._size += len(line) + _LINE_BYTES

    def close(self, clean: bool) -> "list[T | StreamDone | ErrorEvent | MalformedData]":
        """Return what the end of the body completes; after a broken connection (`clean` false), nothing."""
        out: list[T | StreamDone | ErrorEvent | MalformedData] = []
        if not clean:
            return out
        rest = self._lines.close()
        for line in rest:
            if not any(name.startswith(line) for name in _FIELD_NAMES):
                out += self.feed(line + b"\n")
        if self._parts or self._error_event:
            self._dispatch(out)
        if self._document:
            document, self._document = b"\n".join(self._document), []
            try:
                out.append(self._decode(document))
            except ValueError:
                self._decode_joined(document, out)
        # A last line that has no end and is not whole was cut off: that is an incomplete reply, not malformed data.
        return [item for item in out if not (rest and self._is_part(item))]

    def _is_part(self, item: T | StreamDone | ErrorEvent | MalformedData) -> bool:
        """Whether an item is not a whole JSON value. An error may be a text."""
        if not isinstance(item, ErrorEvent) or item.data.lstrip()[:1] != b"{":
            return isinstance(item, MalformedData)
        try:
            self._decode(item.data)
        except ValueError:
            return True
        return False


def _remove_inner_frame(value: bytes) -> bytes:
    """Return the data of a line that was framed twice (`data: data: …`, openclaw/openclaw#96497). A comment or another
    field that stands in the data has none."""
    value = value.strip()
    while value.startswith(b"data:"):
        value = value[5:].strip()
    return b"" if value.startswith((b":", b"event:", b"id:", b"retry:")) else value
