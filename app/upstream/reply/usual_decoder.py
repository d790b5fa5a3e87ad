"""Decode events that differ from an earlier one in nothing but a text.

Nearly all events of a long reply are such. `UsualDecoder` remembers the bytes of one around what changes: its text
and, with some servers, its number, an id or a filling of random length. Where a later event has the same bytes there,
and one JSON value of the same kind at each change, only its text is decoded; the texts of several such events are
decoded together, as one JSON list. Of the CPU instructions of a whole chunk (bench/quick, compiled), this saves 18 %
with Responses and 19 % with Messages.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Generic, TypeVar

import msgspec
from typing_extensions import override

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

_decode_text = msgspec.json.Decoder(str).decode
_decode_texts = msgspec.json.Decoder(list[str]).decode

V = TypeVar("V")
T_co = TypeVar("T_co", covariant=True)


class _Change:
    """A place at which the remembered event differs from others."""

    __slots__ = ("after", "kind")

    def __init__(self, kind: str, after: bytes) -> None:
        self.kind = kind
        self.after = after
        """The bytes between this change and the next one."""


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
        self._is_simple = True
        """Nothing changes but the text."""
        self._begin = self._end = 0
        """Where the JSON of a text begins and ends in a whole event, if nothing else changes; the end counts back."""
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
    def decode_event(self, event: bytes) -> T_co | None:
        """Decode a whole event with its blank line, if it has the remembered bytes. None: it has not.

        Its JSON is one line then: no JSON value that changes has a line break.
        """

    @abstractmethod
    def decode_run(self, frames: Sequence[bytes], start: int) -> tuple[Sequence[T_co], int]:
        """Decode the events from `start` on that have the remembered bytes. Each has no blank line.

        Returns the values and how many events are alike; no values if they cannot be decoded together."""

    @abstractmethod
    def _is_like(self, value: V, data: bytes) -> bool:
        """Whether an event of this JSON, whose text is `PROBE`, differs from the given one in nothing else."""

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

    def _read_text(self, event: bytes) -> str:
        """Return the text of a whole event, if it has the remembered bytes; else an empty one."""
        if not self._before or not event.startswith(self._before) or not event.endswith(self._after):
            return ""
        if self._is_simple:
            string = event[self._begin : self._end]
        else:
            string = self._find_text(event, len(event) - len(self._after))
        try:
            text = _decode_text(string)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return ""
        self._wait = MIN_WAIT
        return text

    def _read_texts(self, frames: Sequence[bytes], start: int) -> tuple[list[str], int]:
        """Return the texts for `decode_run`. JSON allows no line break in a string, so where the list has as many
        strings as there are events, each is the text of one."""
        before, after = self._before, self._after_frame
        if not before:
            return [], 0
        begin, end, last = self._begin, self._end + len(_SUFFIX), -len(after)
        size, is_simple = len(before), self._is_simple
        strings: list[bytes] = []
        for frame in islice(frames, start, None):
            if frame[:size] != before or frame[last:] != after:
                break
            string = frame[begin:end] if is_simple else self._find_text(frame, len(frame) + last)
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
                return texts, size
        return [], size

    def _find_text(self, frame: bytes, last: int) -> bytes:
        """Return the JSON string of the text of an event that begins and ends with the remembered bytes, where also
        others lie between changes; empty if it does not have these. `last` is the end of the last change."""
        place = len(self._before)
        text = b""
        for change in self._inner:
            is_text = change.kind == _TEXT  # which may have the same bytes
            end = frame.rfind(change.after, place, last) if is_text else frame.find(change.after, place, last)
            if end < 0:
                return b""
            if is_text:
                text = frame[place - 1 : end + 1]
            elif not _fits(frame[place:end], change.kind):
                return b""
            place = end + len(change.after)
        if self._last == _TEXT:
            return frame[place - 1 : last + 1]
        return text if _fits(frame[place:last], self._last) else b""

    def _remember(self, data: bytes, value: V) -> None:
        """Remember the bytes of an event around what changes, if it is like the previous one."""
        self._count, self._wait = 0, min(self._wait * 2, MAX_WAIT)
        if len(data) > MAX_PATTERN_BYTES or b"\n" in data:
            return
        own, other = list(self._changes.finditer(data)), list(self._changes.finditer(self._previous))
        if len(own) != len(other):
            return
        kinds: list[str] = []
        parts: list[bytes] = []
        probe, place = b"", 0
        for one, before in zip(own, other, strict=True):
            kind = one.lastgroup
            assert kind is not None
            if one[kind] != before[kind]:
                if kind != _TEXT and one[kind] == _PROBES[kind]:
                    return  # the probe would be the same event, whether or not this value is read
                start, end = one.span(kind)
                kinds.append(kind)
                parts.append(data[place:start])
                probe += data[place:start] + _PROBES[kind]
                place = end
        rest = data[place:]
        if kinds.count(_TEXT) != 1 or not rest or not self._is_like(value, probe + rest):
            return
        self._before, self._start = self.head + parts[0], len(self.head)
        self._inner = [_Change(kind, part) for kind, part in zip(kinds, parts[1:], strict=False)]
        self._last, self._after_frame, self._after = kinds[-1], rest, rest + _SUFFIX
        self._begin, self._end = len(self._before) - 1, 1 - len(self._after)
        self._is_simple = len(kinds) == 1
        self._earlier = value


class RepeatedEventDecoder(UsualDecoder[V, RepeatedEvent]):
    """Decodes events like an earlier one into a `RepeatedEvent`."""

    @override
    def decode_event(self, event: bytes) -> RepeatedEvent | None:
        text = self._read_text(event)
        if not text:
            return None
        return RepeatedEvent(self._earlier, text, event, self._start, len(event) - len(_SUFFIX))

    @override
    def decode_run(self, frames: Sequence[bytes], start: int) -> tuple[list[RepeatedEvent], int]:
        texts, size = self._read_texts(frames, start)
        found = zip(texts, islice(frames, start, None), strict=False)
        return [RepeatedEvent(self._earlier, text, frame, self._start, len(frame)) for text, frame in found], size


def _fits(value: bytes, kind: str) -> bool:
    """Whether bytes are a JSON value of this kind. Numbers are digits."""
    if kind == _NUMBER:
        return value.isdigit() and (value[:1] != b"0" or len(value) == 1)
    if kind == _SPACES:
        return _MOST_SPACES.startswith(value)
    return not value or value.isalnum() or _is_string(b'"%b"' % value)


def _is_string(data: bytes) -> bool:
    try:
        _decode_text(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True
