"""`JsonScan`: reads some values at the top of a JSON document as its bytes pass, and replaces the name of the model.

A document may have tens of megabytes of vectors or images, so nothing of it is kept but those values. It is not
validated: what a client gets is what the server sent. Bytes are searched for by patterns, in C; only brackets and the
ends of strings take a step of Python.
"""

import re
from collections.abc import Mapping

MAX_VALUE_BYTES = 64 * 1024
"""A longer value of a field that is read is not kept."""
_AT_TOP = re.compile(rb'["\[\]{},:]')
_INSIDE = re.compile(rb'["\[\]{}]')
_IN_STRING = re.compile(rb'["\\]')
_BLANK = re.compile(rb"\s*")
_OPENING, _CLOSING = b"[{", b"]}"


class JsonScan:
    """Call `feed` for each part of a document. Then `values` has what was read."""

    def __init__(self, wanted: frozenset[bytes], replaced: Mapping[bytes, bytes], counted: bytes = b"") -> None:
        """`wanted` are the names of the values that are read, `replaced` has other values for names whose value is a
        string, and `counted` is the name of a list whose objects are counted."""
        self.values: dict[bytes, bytes] = {}
        self.count: int | None = None
        """The number of objects in the counted list; None if there is no such list."""
        self.started = False
        self.is_document = True
        """Whether it began as an object or a list."""
        self._wanted = wanted
        self._replaced = replaced
        self._counted = counted
        self._depth = 0
        self._in_string = self._escaped = False
        self._in_object = False
        """At the top is an object."""
        self._ended = False
        self._name = b""
        """The name whose colon is awaited."""
        self._key: bytes | None = None
        """The name of the value that is being read; None before it."""
        self._kept: bytearray | None = None
        """The bytes of the name, or of the value, if they are kept."""
        self._holds = False
        """The value is not passed on until it is known whether it is replaced."""
        self._out: list[bytes] = []
        self._passed = self._kept_from = 0
        """Places in the bytes that are being fed."""

    @property
    def is_complete(self) -> bool:
        return self._ended and not self._depth

    def feed(self, data: bytes) -> bytes:
        """Return these bytes with what is replaced."""
        self._out, self._passed, self._kept_from = [], 0, 0
        place = 0 if self.started else self._begin(data)
        while place < len(data):
            if self._escaped:
                self._escaped = False
                place += 1
                continue
            match = self._find(data, place)
            if match is None:
                break
            place = match.end()
            if self._in_string:
                self._end_string(data, match)
            elif self._depth == 1 and self._in_object:
                self._read_mark(data, match)
            else:
                self._in_string = match.group() == b'"'
                self._step(match.group())
        return self._pass_rest(data)

    def _read_mark(self, data: bytes, match: "re.Match[bytes]") -> None:
        """Read a byte at the top of an object that is in no string."""
        mark = match.group()
        if mark == b'"':
            self._in_string = True
            if self._key is None:
                self._kept, self._kept_from = bytearray(), match.end()
        elif mark == b":":
            self._begin_value(data, match.end())
        elif mark in b",]}":
            self._end_value(data, match.start())
            self._step(mark)
        else:
            self._step(mark)

    def _end_string(self, data: bytes, match: "re.Match[bytes]") -> None:
        if match.group() == b"\\":
            self._escaped = True
            return
        self._in_string = False
        if self._depth == 1 and self._in_object and self._key is None and self._kept is not None:
            self._keep(data, match.start())
            self._name, self._kept = bytes(self._kept or b""), None

    def _pass_rest(self, data: bytes) -> bytes:
        if self._kept is not None:
            self._keep(data, len(data))
        if self._holds:
            self._kept_from = self._passed = len(data)
            if self._kept is not None and len(self._kept) > MAX_VALUE_BYTES:
                self._out.append(bytes(self._kept))  # no name is as long
                self._kept, self._holds = None, False
        else:
            self._out.append(data[self._passed :] if self._passed else data)
        return b"".join(self._out)

    def _find(self, data: bytes, place: int) -> "re.Match[bytes] | None":
        if self._in_string:
            return _IN_STRING.search(data, place)
        return (_AT_TOP if self._depth <= 1 else _INSIDE).search(data, place)

    def _begin(self, data: bytes) -> int:
        """Find the first byte that is no white space."""
        match = _BLANK.match(data)
        place = 0 if match is None else match.end()
        if place < len(data):
            self.started = True
            self.is_document = data[place : place + 1] in (b"{", b"[")
            self._in_object = data[place : place + 1] == b"{"
        return place

    def _step(self, mark: bytes) -> None:
        if mark in _OPENING:
            self._depth += 1
            if self._depth == 3 and self.count is not None and self._key == self._counted:
                self.count += 1
        elif mark in _CLOSING:
            self._depth -= 1
            self._ended = self._ended or self._depth <= 0

    def _begin_value(self, data: bytes, place: int) -> None:
        key = self._key = self._name
        self._holds = key in self._replaced
        self._kept = bytearray() if self._holds or key in self._wanted else None
        self._kept_from = place
        if self._holds:
            self._out.append(data[self._passed : place])
            self._passed = place
        if key == self._counted and key:
            self.count = 0

    def _keep(self, data: bytes, end: int) -> None:
        assert self._kept is not None
        self._kept += data[self._kept_from : end]
        if len(self._kept) > MAX_VALUE_BYTES and not self._holds:
            self._kept = None

    def _end_value(self, data: bytes, end: int) -> None:
        if self._kept is not None:
            self._keep(data, end)
        if self._kept is not None and self._key is not None:
            value = bytes(self._kept)
            if self._key in self._wanted:
                self.values[self._key] = value
            if self._holds:
                self._out.append(self._choose_value(self._key, value))
                self._passed = end
        self._key = self._kept = None
        self._name, self._holds = b"", False

    def _choose_value(self, key: bytes, value: bytes) -> bytes:
        text = value.lstrip()
        return value[: len(value) - len(text)] + self._replaced[key] if text[:1] == b'"' else value
