"""Split a byte stream into lines, however it was cut.

Lines end with LF, CRLF or CR and with nothing else: U+2028 and the like are text (WHATWG HTML, 9.2).
"""

_BOM = b"\xef\xbb\xbf"


class LineSplitter:
    """Splits bytes into lines without their ends, and buffers a line that has not ended."""

    __slots__ = ("_after_cr", "_buffer", "buffered_bytes", "_start")

    def __init__(self) -> None:
        self._buffer: list[bytes] = []
        self.buffered_bytes = 0
        """The size of the line that has not ended."""
        self._after_cr = False
        self._start = True

    def take_whole_events(self, data: bytes) -> bool:
        """Whether the data are whole lines with LF, the last of them blank, and nothing is buffered before them. They
        need not be fed then."""
        if self.buffered_bytes or self._after_cr or not data.endswith(b"\n\n") or b"\r" in data:
            return False
        if self._start:
            if data.startswith(_BOM):
                return False
            self._start = False
        return True

    def feed(self, data: bytes) -> list[bytes]:
        if self._after_cr or b"\r" in data:
            data = self._normalize(data)
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._buffer:
            lines[0] = b"".join((*self._buffer, lines[0]))
            self._buffer.clear()
            self.buffered_bytes = 0
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
        rest = b"".join(self._buffer)
        self._buffer.clear()
        if self._start:
            rest = rest.removeprefix(_BOM)
        return [rest] if rest else []
