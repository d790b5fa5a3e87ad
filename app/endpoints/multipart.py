"""`MultipartScan`: finds the fields of a form as its bytes pass (RFC 7578), and where the name of the model stands.

The form is sent on as it came, but for that name. So what servers could read in different ways is refused: a name that
is given twice, and text around the parts.
"""

import re

from app.errors import BadRequest, TooLarge

MAX_FIELD_BYTES = 64 * 1024
_MAX_HEAD_BYTES = 8 * 1024
_BOUNDARY = re.compile(r"""multipart/form-data\s*;.*?\bboundary=(?:"([^"\\]{1,70})"|([^\s";,]{1,70}))""", re.IGNORECASE)
_NAME = re.compile(rb"""[;\s]name\*?\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))""", re.IGNORECASE)
_FILE = re.compile(rb"[;\s]filename\*?\s*=", re.IGNORECASE)
READ = frozenset((b"model", b"stream", b"n", b"prompt"))
"""The fields of which the gateway takes the value."""
_MODEL = b"model"


def find_boundary(content_type: str) -> bytes | None:
    """Return the boundary of a form; None if the type is another one."""
    match = _BOUNDARY.match(content_type)
    return None if match is None else (match[1] or match[2]).encode("latin-1")


class MultipartScan:
    """Call `feed` for each part of the body, and `close` at its end. Both raise BadRequest or TooLarge."""

    def __init__(self, boundary: bytes, max_parts: int) -> None:
        self.fields: dict[bytes, bytes] = {}
        """The values of the fields that are read."""
        self.others: list[tuple[bytes, bytes]] = []
        """The names and values of all others that are no files, for what they may not choose at a server."""
        self.model_span: tuple[int, int] | None = None
        """Where the name of the model begins and ends in the body."""
        self.end = 0
        """Where the form ends; 0 before that. What follows is not sent on."""
        self._delimiter = b"\r\n--" + boundary
        self._max_parts = max_parts
        self._buffer = bytearray(b"\r\n")
        """The bytes that are not read yet, as if a line had ended before the form."""
        self._offset = -2
        """Where they begin in the body."""
        self._parts = 0
        self._name = b""
        self._value: bytearray | None = None
        """What has come of the value of a field; None: a file."""
        self._in_head = self._ended = False

    @property
    def field_count(self) -> int:
        """How many fields that are no files have come whole."""
        return len(self.fields) + len(self.others)

    @property
    def is_in_file(self) -> bool:
        """Whether the part that has come last is a file."""
        return self._parts > 0 and self._value is None and not self._in_head and not self._ended

    def feed(self, data: bytes) -> None:
        self._buffer += data
        while not self._ended and (self._read_head() if self._in_head else self._read_value()):
            pass

    def close(self) -> None:
        if not self._ended:
            raise BadRequest(
                "the form ends before its last boundary: it is not complete, or the boundary is another one"
            )

    def _read_value(self) -> bool:
        """Read to the end of a value, or what has come of it. Return whether there is more to read."""
        place = self._buffer.find(self._delimiter)
        after = place + len(self._delimiter)
        if place < 0 or len(self._buffer) < after + 2:
            self._take(max(0, len(self._buffer) - len(self._delimiter)) if place < 0 else place)
            return False
        mark = bytes(self._buffer[after : after + 2])
        if mark not in (b"\r\n", b"--"):
            raise BadRequest("the boundary of the form is inside a value, or has white space behind it")
        self._take(place)
        self._end_value()
        self._skip(len(self._delimiter) + 2)
        self._in_head, self._ended = mark == b"\r\n", mark == b"--"
        if self._ended:
            self.end = self._offset
        return True

    def _take(self, size: int) -> None:
        """Take these bytes of a value."""
        if size and not self._parts:
            raise BadRequest("the form does not begin with its boundary")
        if self._value is not None:
            self._value += self._buffer[:size]
            if len(self._value) > MAX_FIELD_BYTES:
                raise TooLarge(f"a field of the form has more than {MAX_FIELD_BYTES} bytes, and is no file")
        self._skip(size)

    def _skip(self, size: int) -> None:
        del self._buffer[:size]
        self._offset += size

    def _end_value(self) -> None:
        if self._value is None:
            return
        value = bytes(self._value)
        if self._name not in READ:
            self.others.append((self._name, value))
            return
        self.fields[self._name] = value
        if self._name == _MODEL:
            self.model_span = (self._offset - len(value), self._offset)

    def _read_head(self) -> bool:
        """Read the headers of a part. Return whether they are complete."""
        place = self._buffer.find(b"\r\n\r\n")
        if place < 0 or place > _MAX_HEAD_BYTES:
            if len(self._buffer) > _MAX_HEAD_BYTES:
                raise BadRequest(f"the headers of a part of the form have more than {_MAX_HEAD_BYTES} bytes")
            return False
        head = bytes(self._buffer[:place])
        self._skip(place + 4)
        self._in_head = False
        self._parts += 1
        if self._parts > self._max_parts:
            raise TooLarge(f"the form has more than {self._max_parts} parts (limits.max_upload_parts)")
        self._begin_part(head)
        return True

    def _begin_part(self, head: bytes) -> None:
        lines = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-disposition:")]
        names = [quoted or plain for line in lines for quoted, plain in _NAME.findall(line)]
        if len(lines) != 1 or len(names) != 1:
            raise BadRequest("each part of the form must have one name, in one header content-disposition")
        self._name = names[0]
        is_file = _FILE.search(lines[0]) is not None
        if self._name.lower() == _MODEL and (is_file or self._name in self.fields or self._name != _MODEL):
            raise BadRequest("`model` must be one field of the form, and no file", "model")
        if self._name in self.fields:
            name = self._name.decode()
            raise BadRequest(f"`{name}` must be given once in the form", name)
        self._value = None if is_file else bytearray()
