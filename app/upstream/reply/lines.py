"""Split a byte stream into lines, however it was cut.

Lines end with LF, CRLF or CR and with nothing else: U+2028 and the like are text (WHATWG HTML, 9.2).
"""

_BOM = b"\xef\xbb\xbf"
_CR = ord("\r")


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
