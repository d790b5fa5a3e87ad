"""`SharedTexts`: which part of a request's body an earlier body of its caller has, too, so that this is kept once.

An agent sends its conversation again with each request: the new body begins like the last one and mostly ends like it.
Only what is between is new. Both borders lie outside of the strings of the JSON, so each string is in one part.
"""

import re
from collections import OrderedDict
from collections.abc import Sequence, Set
from typing import TypeAlias

from msgspec import Struct

from app.observe.request_log.redaction import Edit
from app.runtime.common_bytes import count_common_end, count_common_start

MIN_BYTES = 4096
"""Shorter bodies are kept with their entry."""
_MAX_DEPTH = 256
"""So many bodies are kept as a difference from the one before at most, because reading one takes all of them."""
_MAX_OF_PLACE = 16
_MIN_SHARE = 0.25
"""A body is kept as a difference if at least this part of it is not new."""
_CLEAR_SHARE = 0.75
"""No other body is looked for if one has so much of it."""


Place: TypeAlias = tuple[str, str]
"""The caller of a body, and the kind of it."""


class SharedText(Struct, frozen=True):
    """A body that the file has."""

    id: int
    number: int
    """Which body of the text with this id it is."""
    raw: bytes
    """As it was sent: what is compared."""
    edits: Sequence[Edit] = ()
    """What is kept in place of some of its strings."""
    start: int = 0
    """So many bytes at its beginning are those of its base; no string goes on behind them."""
    end: int = 0
    """The same of those at its end."""
    depth: int = 0

    def count_kept(self, end: int) -> int:
        """Return how many bytes are kept of the first `end` ones."""
        return end + sum([len(edit.data) - (edit.end - edit.start) for edit in self.edits if edit.end < end])


class Difference(Struct, frozen=True):
    """A body as an earlier one whose middle is replaced. With no `base`, all of it is new."""

    body: bytes
    new: bytes
    base: SharedText | None = None
    start: int = 0
    """So many bytes at the beginning of the body are those of the base."""
    end: int = 0
    """The same of those at its end."""

    @property
    def prefix(self) -> int:
        """How many bytes of what is kept of the base come first."""
        return 0 if self.base is None else self.base.count_kept(self.start)

    @property
    def suffix(self) -> int:
        base = self.base
        return 0 if base is None else base.count_kept(len(base.raw)) - base.count_kept(len(base.raw) - self.end)

    def make_text(self, id_: int, number: int, edits: Sequence[Edit]) -> SharedText:
        """Return the body as it is remembered; `edits` are those of what is new."""
        own = [_move(edit, self.start) for edit in edits]
        base = self.base
        if base is None:
            return SharedText(id_, number, self.body, own)
        shift = len(self.body) - len(base.raw)
        before = [edit for edit in base.edits if edit.end < self.start]
        after = [_move(edit, shift) for edit in base.edits if edit.start > len(base.raw) - self.end]
        every = [*before, *own, *after]
        return SharedText(id_, number, self.body, every, self.start, self.end, base.depth + 1)


def _move(edit: Edit, shift: int) -> Edit:
    return Edit(edit.start + shift, edit.end + shift, edit.data)


class SharedTexts:
    """The bodies that were kept last, of all callers. It belongs to one thread."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._texts: OrderedDict[Place, list[SharedText]] = OrderedDict()
        """The newest first; the place that was used last is the last."""

    def clear(self) -> None:
        self._texts.clear()
        self._bytes = 0

    def list_ids(self) -> list[int]:
        return [text.id for texts in self._texts.values() for text in texts]

    def keep(self, ids: Set[int]) -> None:
        """Forget all texts but these."""
        for place, texts in list(self._texts.items()):
            for text in [each for each in texts if each.id not in ids]:
                self.forget(place, text)
            if not texts:
                del self._texts[place]

    def compare(self, places: Sequence[Place], body: bytes) -> Difference:
        """Return which part of a body is new beside the earlier ones of these places; the first place is preferred."""
        base, common, most = None, (0, 0), int(len(body) * _MIN_SHARE)
        held = [text for place in places for text in self._texts.get(place, ())]
        for text in held:
            if most > len(body) * _CLEAR_SHARE:
                break
            if text.depth < _MAX_DEPTH:
                # The next body of a session has what this one has in common with the one before.
                start = count_common_start(text.raw, body, text.start)
                end = count_common_end(text.raw, body, start, text.end)
                if start + end > most:
                    base, common, most = text, (start, end), start + end
        return Difference(body, body) if base is None else _make_difference(base, body, *common)

    def add(self, place: Place, text: SharedText, base: SharedText | None) -> None:
        """Remember a body, instead of the one of the same place from which it is a difference."""
        held = self._texts.setdefault(place, [])
        self._texts.move_to_end(place)
        if base is not None:
            self.forget(place, base)
        held.insert(0, text)
        self._bytes += len(text.raw)
        for each in held[_MAX_OF_PLACE:]:
            self.forget(place, each)
        while self._bytes > self._max_bytes:
            oldest, texts = next(iter(self._texts.items()))
            if texts:
                self._bytes -= len(texts.pop().raw)
            else:
                del self._texts[oldest]

    def forget(self, place: Place, text: SharedText) -> None:
        held = self._texts.get(place, [])
        for number, each in enumerate(held):
            if each is text:
                del held[number]
                self._bytes -= len(text.raw)
                return


def _make_difference(text: SharedText, body: bytes, start: int, end: int) -> Difference:
    """Return a body as a difference whose new part has whole strings, and with a value its name, or with a name its
    value: whether a value is a secret is seen by its name."""
    raw = text.raw
    border = text.start if text.start <= start else 0
    start = _move_before_name(body, _move_before_string(raw, border, start))
    stop = _move_behind_string(raw, start, len(raw) - end) + len(body) - len(raw)
    stop = _move_behind_value(body, stop)
    return Difference(body, body[start:stop], text, start, len(body) - stop)


def _is_outside(raw: bytes, border: int, place: int) -> bool:
    """Whether a place in JSON is outside of strings, as the `border` before it is."""
    if raw.find(b'\\\\"', border, place) >= 0:  # which may be an escaped backslash at the end of a string
        raw, border, place = raw[border:place].replace(b"\\\\", b""), 0, place - border
    return (raw.count(b'"', border, place) - raw.count(b'\\"', border, place)) % 2 == 0


def _move_before_string(raw: bytes, border: int, place: int) -> int:
    """Return the place, or where the string begins in which it lies. The `border` before it is outside of strings."""
    return place if _is_outside(raw, border, place) else _find_quote_before(raw, place)


def _move_behind_string(raw: bytes, border: int, place: int) -> int:
    """Return the place, or where the string ends in which it lies."""
    return place if _is_outside(raw, border, place) else _find_quote(raw, place) + 1


def _move_before_name(raw: bytes, place: int) -> int:
    """Return a place outside of strings, or where the name before it begins, if the value follows it."""
    end = place
    while end and raw[end - 1] in _BETWEEN:
        end -= 1
    is_name = raw[end - 1 : end] == b'"' and _COLON.match(raw, end)
    return _find_quote_before(raw, end - 1) if is_name else place


def _move_behind_value(raw: bytes, place: int) -> int:
    """Return a place outside of strings, or where the string behind it ends, if that has its name before the place."""
    begin = place
    while begin < len(raw) and raw[begin] in _BETWEEN:
        begin += 1
    is_value = raw[begin : begin + 1] == b'"' and _move_before_name(raw, begin) < begin
    return _find_quote(raw, begin + 1) + 1 if is_value else place


_BETWEEN = b" \t\r\n:"
_COLON = re.compile(rb"[ \t\r\n]*+:")


def _find_quote(raw: bytes, start: int) -> int:
    """Return the place of the quote that ends a string."""
    quote = raw.find(b'"', start)
    while _is_escaped(raw, quote):
        quote = raw.find(b'"', quote + 1)
    return quote if quote >= 0 else len(raw) - 1


def _find_quote_before(raw: bytes, end: int) -> int:
    """Return the place of the quote that begins a string."""
    quote = raw.rfind(b'"', 0, end)
    while _is_escaped(raw, quote):
        quote = raw.rfind(b'"', 0, quote)
    return max(quote, 0)


def _is_escaped(raw: bytes, quote: int) -> bool:
    place = quote
    while place > 0 and raw[place - 1] == ord("\\"):
        place -= 1
    return (quote - place) % 2 == 1
