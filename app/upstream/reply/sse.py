"""Bytes of a reply's body into the JSON values it carries, whatever the framing and wherever it was cut.

One reader takes server-sent events, newline-delimited JSON and a single JSON document, since servers send each of them
in place of the others; what it is shows in the bytes, never in the Content-Type.

Beyond the standard (WHATWG HTML, 9.2), a data line that is a whole JSON value counts at once (servers forget the blank
line), an `error:` field is an error (llama.cpp), and an event that the end of a cleanly closed body cut off counts
(servers forget its blank line).
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from app.upstream.reply.lines import LineSplitter

T = TypeVar("T")

MAX_EVENT_BYTES = 64 * 1024 * 1024
_LINE_BYTES = 64
"""What each line of an unfinished event takes beside its text."""


class StreamDone:
    """The `[DONE]` that ends a stream."""

    __slots__ = ()


DONE = StreamDone()


class ErrorEvent:
    """An error that the framing itself announced: the text of an `error:` field or of an `event: error`."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class MalformedData:
    """Bytes that no framing explains; what follows cannot be trusted."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class EventReader(Generic[T]):
    """Feeds on bytes and yields what `decode` makes of each JSON value.

    `decode` raises ValueError for text that is not one whole JSON value.
    """

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        self._decode = decode
        self._lines = LineSplitter()
        self._parts: list[bytes] = []
        self._document: list[bytes] = []
        self._size = 0
        self._error_event = False
        self.junk = b""
        """The first line that no framing explains. Behind one of HTML, a bracket begins a script and no JSON."""
        self.saw_line = False
        """Some complete line came, be it a comment: the server is alive."""

    def feed(self, data: bytes) -> "list[T | StreamDone | ErrorEvent | MalformedData]":
        out: list[T | StreamDone | ErrorEvent | MalformedData] = []
        for line in self._lines.feed(data):
            if line.startswith(b"data:"):
                self._data(line[6:] if line[5:6] == b" " else line[5:], out)
            elif not line:
                if self._parts or self._error_event:
                    self._dispatch(out)
            else:
                self._other(line, out)
            self.saw_line = True
        if self._lines.held_bytes + self._size > MAX_EVENT_BYTES:
            out.append(MalformedData(b"an event of more than %d bytes" % MAX_EVENT_BYTES))
        return out

    def _data(self, value: bytes, out: "list[T | StreamDone | ErrorEvent | MalformedData]") -> None:
        if not self._parts and not self._error_event:
            if value.startswith(b"[DONE]"):
                out.append(DONE)
                return
            try:
                out.append(self._decode(value))
                return
            except ValueError:
                if not value.strip():
                    return
        self._parts.append(value)
        self._size += len(value) + _LINE_BYTES

    def _dispatch(self, out: "list[T | StreamDone | ErrorEvent | MalformedData]") -> None:
        """A blank line ends an event whose data was not whole in one line."""
        parts, self._parts, self._size = self._parts, [], 0
        data = b"\n".join(parts)
        if self._error_event:
            self._error_event = False
            if data.strip():
                out.append(ErrorEvent(data))
            return
        try:
            out.append(self._decode(data))
        except ValueError:
            self._each(parts, out)

    def _each(self, parts: list[bytes], out: "list[T | StreamDone | ErrorEvent | MalformedData]") -> None:
        """Joined they are no JSON: lines of several events without blank lines between, or garbage."""
        for part in parts:
            if part.strip().startswith(b"[DONE]"):
                out.append(DONE)
            elif part.strip():
                try:
                    out.append(self._decode(part))
                except ValueError:
                    out.append(MalformedData(part[:500]))
                    return

    def _other(self, line: bytes, out: "list[T | StreamDone | ErrorEvent | MalformedData]") -> None:
        name, _, value = line.partition(b":")
        if name == b"event":
            self._error_event = value.strip() == b"error"
        elif name == b"error" and value:
            out.append(ErrorEvent(value.strip()))
        elif self._document or (line.lstrip()[:1] in (b"{", b"[") and not self.junk.startswith(b"<")):
            self._json_line(line, out)
        elif not line.startswith(b":") and name not in (b"id", b"retry", b"data") and line.strip():
            self.junk = self.junk or line.strip()[:500]

    def _json_line(self, line: bytes, out: "list[T | StreamDone | ErrorEvent | MalformedData]") -> None:
        """A line of JSON without `data:`: one value of NDJSON, or a line of a document."""
        if not self._document:
            try:
                out.append(self._decode(line))
                return
            except ValueError:
                pass
        self._document.append(line)
        self._size += len(line) + _LINE_BYTES

    def close(self, clean: bool) -> "list[T | StreamDone | ErrorEvent | MalformedData]":
        """What the end of the body completes; after a reset, nothing: the last event may lack its end."""
        out: list[T | StreamDone | ErrorEvent | MalformedData] = []
        if not clean:
            return out
        rest = self._lines.close()
        for line in rest:
            out += self.feed(line + b"\n")
        if self._parts or self._error_event:
            self._dispatch(out)
        if self._document:
            document, self._document = b"\n".join(self._document), []
            try:
                out.append(self._decode(document))
            except ValueError:
                out.append(MalformedData(document[:500]))
        # A last line without its end that is no JSON was cut; it is not garbage.
        return [item for item in out if not (rest and isinstance(item, MalformedData))]
