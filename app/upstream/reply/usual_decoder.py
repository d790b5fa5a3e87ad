"""Decode events that differ from an earlier one in nothing but a text.

Nearly all events of a long reply are such. `UsualDecoder` remembers the bytes of one around what changes: its text
and, with some servers, its number, an id or a filling of random length. Where a later event has the same bytes there,
and one JSON value of the same kind at each change, only its text is decoded; the texts of several such events are
decoded together, as one JSON list.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Generic, TypeVar

import msgspec

MIN_WAIT, MAX_WAIT = 6, 4096
"""After how many events the bytes around the changes are searched for. That takes as long as decoding three events, and
may be wasted, because some servers send events that all differ: so the wait doubles each time, until it was not."""
MAX_PATTERN_BYTES = 4096
PROBE = "another text"
STRING = rb'"(?P<%b>(?:[^"\\]|\\.)*+)"'
"""A pattern of a JSON string, of which the group has a name from `_PROBES`."""
_TEXT: Final = "text"
_NUMBER: Final = "number"
_STRING: Final = "string"
_SPACES: Final = "spaces"
_PROBES = {_TEXT: PROBE.encode(), _NUMBER: b"7", _STRING: b"another", _SPACES: b"  "}
"""The kinds of what changes, each with another value. Strings are without their quotes."""
_MOST_SPACES = b" " * 256
_PREFIX, _SUFFIX = b"data: ", b"\n\n"
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_ZERO: Final = ord("0")

_decode_text = msgspec.json.Decoder(str).decode
_decode_texts = msgspec.json.Decoder(list[str]).decode

V = TypeVar("V")
T_co = TypeVar("T_co", covariant=True)


class _Change:
    """A place at which the remembered event differs from others."""

    __slots__ = ("after", "kind", "mark")

    def __init__(self, kind: str, after: bytes) -> None:
        self.kind = kind
        self.after = after
        """The bytes between this change and the next one."""
        self.mark = after[:1]
        """The byte that ends a value of this kind."""


class RepeatedEvent:
    """An event that differs from an earlier one only in its text, and in values that are not read."""

    __slots__ = ("_end", "_frame", "_start", "earlier", "text")

    def __init__(self, earlier: object, text: str, frame: bytes, start: int, end: int) -> None:
        """`frame` is the event with the lines around its JSON, which is from `start` to `end`."""
        self.earlier = earlier
        """What the earlier event was decoded into."""
        self.text = text
        self._frame = frame
        self._start = start
        self._end = end

    def get_json(self) -> bytes:
        return self._frame[self._start : self._end]


class UsualDecoder(ABC, Generic[V, T_co]):
    """Decodes the events of one reply: any event into a `V`, and those that are like an earlier one into a `T_co`."""

    def __init__(self, decode: Callable[[bytes], V], changes: re.Pattern[bytes]) -> None:
        """`changes` matches what may change in the JSON of an event, as groups with the names of `_PROBES`."""
        self.head = _PREFIX
        """The bytes before the JSON of the event that is decoded next, if its lines are known."""
        self._decode = decode
        self._changes = changes
        self._before = self._after = self._after_frame = b""
        """What comes before the first change and after the last one in a whole event; empty if nothing is remembered.
        A frame is an event without its blank line."""
        self._inner: list[_Change] = []
        """All changes but the last one."""
        self._last = _TEXT
        """The kind of the last change."""
        self._start = 0
        """Where the JSON begins in a remembered event."""
        self._earlier: object = None
        """The remembered event."""
        self._previous = b""
        """The JSON of the last event that was decoded whole."""
        self._count = 0
        """How many events were decoded whole since the last search."""
        self._wait = MIN_WAIT

    @abstractmethod
    def _is_like(self, value: V, data: bytes) -> bool:
        """Whether an event of this JSON, whose text is `PROBE`, differs from the given one in nothing else."""

    @abstractmethod
    def _make(self, text: str, frame: bytes, end: int) -> T_co:
        """Make what is returned of an event like the last one for which `_is_like` was true."""

    def decode_event(self, event: bytes) -> T_co | None:
        """Decode a whole event with its blank line, if it has the remembered bytes. None: it has not.

        Its JSON is one line then: no JSON value that changes has a line break.
        """
        if not self._before:
            return None
        string = self._find_text(event, self._after)
        if not string:
            return None
        try:
            text = _decode_text(string)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        if not text:
            return None
        self._wait = MIN_WAIT
        return self._make(text, event, len(event) - len(_SUFFIX))

    def decode(self, data: bytes) -> V | T_co:
        """Decode the JSON of an event. Raises what `decode` of the constructor does."""
        if self._before:
            found = self.decode_event(b"%b%b%b" % (self._before[: self._start], data, _SUFFIX))
            if found is not None:
                return found
        value = self._decode(data)
        self._count += 1
        if self._count >= self._wait:
            self._remember(data, value)
        self._previous = data if len(data) <= MAX_PATTERN_BYTES else b""
        return value

    def decode_run(self, frames: Sequence[bytes], start: int) -> tuple[list[T_co], int]:
        """Decode the events from `start` on that have the remembered bytes. Each has no blank line.

        Returns the values and how many events are alike; no values if they cannot be decoded together. JSON allows no
        line break in a string, so where the list has as many strings as there are events, each is the text of one.
        """
        if not self._before:
            return [], 0
        strings: list[bytes] = []
        for frame in islice(frames, start, None):
            string = self._find_text(frame, self._after_frame)
            if not string:
                break
            strings.append(string)
        size = len(strings)
        if size > 1:
            joined = b"[%b]" % b",\n".join(strings)
            try:
                texts = _decode_texts(joined)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return [], size
            if len(texts) == size and joined.count(b"\n") == size - 1 and "" not in texts:
                self._wait = MIN_WAIT
                found = zip(texts, islice(frames, start, None), strict=False)
                return [self._make(text, frame, len(frame)) for text, frame in found], size
        return [], size

    def _find_text(self, frame: bytes, after: bytes) -> bytes:
        """Return the JSON string of the text of an event with the remembered bytes, which ends with `after`; empty if
        it has others."""
        if not frame.startswith(self._before) or not frame.endswith(after):
            return b""
        place = len(self._before)
        text = b""
        for change in self._inner:
            end = frame.find(change.mark, place)
            if change.mark == b'"':
                while end > 0 and frame[end - 1] == _BACKSLASH:
                    end = frame.find(b'"', end + 1)
            following = end + len(change.after)
            if end < 0 or frame[end:following] != change.after:
                return b""
            if change.kind == _TEXT:
                text = frame[place - 1 : end + 1]
            elif not _fits(frame[place:end], change.kind):
                return b""
            place = following
        end = len(frame) - len(after)
        if end < place:
            return b""
        if self._last == _TEXT:
            return frame[place - 1 : end + 1]
        return text if _fits(frame[place:end], self._last) else b""

    def _remember(self, data: bytes, value: V) -> None:
        """Remember the bytes of an event around what changes, if it is like the previous one."""
        self._count, self._wait = 0, min(self._wait * 2, MAX_WAIT)
        if len(data) > MAX_PATTERN_BYTES or b"\n" in data:
            return
        found = self._find_changes(data)
        if [kind for kind, _, _ in found].count(_TEXT) != 1:
            return
        kinds = [kind for kind, _, _ in found]
        places = [0, *[place for _, start, end in found for place in (start, end)], len(data)]
        parts = [data[start:end] for start, end in zip(places[::2], places[1::2], strict=True)]
        probe = b"".join([part + _PROBES[kind] for part, kind in zip(parts, kinds, strict=False)]) + parts[-1]
        if not parts[-1] or not self._is_like(value, probe):
            return
        self._before, self._start = self.head + parts[0], len(self.head)
        self._inner = [_Change(kind, part) for kind, part in zip(kinds[:-1], parts[1:-1], strict=True)]
        self._last, self._after_frame, self._after = kinds[-1], parts[-1], parts[-1] + _SUFFIX
        self._earlier = value

    def _find_changes(self, data: bytes) -> list[tuple[str, int, int]]:
        """Return the kinds and places of what differs between JSON and that of the previous event; nothing if that has
        other fields."""
        own, other = list(self._changes.finditer(data)), list(self._changes.finditer(self._previous))
        if len(own) != len(other):
            return []
        return [
            (one.lastgroup, *one.span(one.lastgroup))
            for one, before in zip(own, other, strict=True)
            if one.lastgroup is not None and one[one.lastgroup] != before[one.lastgroup]
        ]


def _fits(value: bytes, kind: str) -> bool:
    """Whether bytes are a JSON value of this kind."""
    if kind == _NUMBER:
        return value.isdigit() and (value[0] != _ZERO or len(value) == 1)
    if kind == _SPACES:
        return _MOST_SPACES.startswith(value)
    return not value or value.isalnum() or _is_string(b'"%b"' % value)


def _is_string(data: bytes) -> bool:
    try:
        _decode_text(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True
