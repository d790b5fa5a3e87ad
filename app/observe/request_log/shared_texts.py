"""`SharedTexts`: which part of a request's body an earlier body of its caller has, too, so that this is kept once.

An agent sends its conversation again with each request: the new body begins like the last one and mostly ends like it.
Only what is between is new. Both borders lie outside of the strings of the JSON, so each string is in one part.
"""

from collections import OrderedDict
from collections.abc import Sequence, Set
from typing import TypeAlias

from msgspec import Struct

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


class Piece(Struct, frozen=True):
    """A part of a body, which begins and ends outside of strings."""

    raw: bytes
    kept_size: int
    """The bytes that are kept of it, once nothing secret is left."""


class SharedText(Struct, frozen=True):
    """A body that the file has."""

    id: int
    pieces: Sequence[Piece]
    size: int
    """The bytes of all pieces."""
    depth: int = 0


class Difference(Struct, frozen=True):
    """A body as an earlier one whose middle is replaced. With no `base`, all of it is new."""

    new: bytes
    base: SharedText | None = None
    before: Sequence[Piece] = ()
    after: Sequence[Piece] = ()

    @property
    def prefix(self) -> int:
        """How many bytes of what is kept of the base come first."""
        return sum([piece.kept_size for piece in self.before])

    @property
    def suffix(self) -> int:
        return sum([piece.kept_size for piece in self.after])

    def make_text(self, id_: int, pieces: Sequence[Piece]) -> SharedText:
        """Return the body as it is remembered; `pieces` are those of what is new."""
        every = [*self.before, *pieces, *self.after]
        depth = 0 if self.base is None else self.base.depth + 1
        return SharedText(id_, every, sum([len(piece.raw) for piece in every]), depth)


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
        best, most = None, int(len(body) * _MIN_SHARE)
        for place in places:
            for text in self._texts.get(place, ()):
                start = _match_start(text, body)
                shared = 0 if text.depth == _MAX_DEPTH else start.end + _count_shared_end(text, body, start)
                if shared > most:
                    best, most = (text, start), shared
                if most > len(body) * _CLEAR_SHARE:
                    return _compare(text, body, start)
        return Difference(body) if best is None else _compare(best[0], body, best[1])

    def add(self, place: Place, text: SharedText, base: SharedText | None) -> None:
        """Remember a body, instead of the one of the same place from which it is a difference."""
        held = self._texts.setdefault(place, [])
        self._texts.move_to_end(place)
        if base is not None:
            self.forget(place, base)
        held.insert(0, text)
        self._bytes += text.size
        for each in held[_MAX_OF_PLACE:]:
            self.forget(place, each)
        while self._bytes > self._max_bytes:
            oldest, texts = next(iter(self._texts.items()))
            if texts:
                self._bytes -= texts.pop().size
            else:
                del self._texts[oldest]

    def forget(self, place: Place, text: SharedText) -> None:
        held = self._texts.get(place, [])
        for number, each in enumerate(held):
            if each is text:
                del held[number]
                self._bytes -= text.size
                return


class _Start(Struct, frozen=True):
    """What a body has in common with another one at its beginning."""

    pieces: int
    """So many whole ones."""
    more: int
    """Bytes of the next piece."""
    end: int
    """All of it in bytes."""


def _match_start(text: SharedText, body: bytes) -> _Start:
    place = number = 0
    for piece in text.pieces:
        if not body.startswith(piece.raw, place):  # compares without a copy
            more = _count_common_start(piece.raw, body, place)
            return _Start(number, more, place + more)
        place += len(piece.raw)
        number += 1
    return _Start(number, 0, place)


def _count_shared_end(text: SharedText, body: bytes, start: _Start) -> int:
    """Return about how many bytes at the end of a body, behind its start, are those of another one."""
    end = len(body)
    for piece in reversed(text.pieces[start.pieces :]):
        common = _count_common_end(piece.raw, body, start.end, end)
        end -= common
        if common < len(piece.raw):
            break
    return len(body) - end


def compare(text: SharedText, body: bytes) -> Difference:
    """Return a body as a difference from another one, however little they have in common."""
    return _compare(text, body, _match_start(text, body))


def _compare(text: SharedText, body: bytes, start: _Start) -> Difference:
    before = list(text.pieces[: start.pieces])
    rest = list(text.pieces[start.pieces :])
    place = start.end - start.more
    if rest and rest[0].kept_size == len(rest[0].raw):
        raw = rest[0].raw
        common = _move_before_string(raw, start.more)
        if common:
            before.append(Piece(raw[:common], common))
            rest[0] = Piece(raw[common:], len(raw) - common)
            place += common
    after, end = _compare_ends(rest, body, place)
    return Difference(body[place:end], text, tuple(before), tuple(after))


def _compare_ends(pieces: list[Piece], body: bytes, start: int) -> tuple[list[Piece], int]:
    """Return the pieces that end a body behind `start`, too, and where they begin."""
    after: list[Piece] = []
    end = len(body)
    while pieces and _count_common_end(pieces[-1].raw, body, start, end) == len(pieces[-1].raw):
        after.insert(0, pieces.pop())
        end -= len(after[0].raw)
    if pieces and pieces[-1].kept_size == len(pieces[-1].raw):
        raw = pieces[-1].raw
        first = _move_behind_string(raw, len(raw) - _count_common_end(raw, body, start, end))
        if first < len(raw):
            after.insert(0, Piece(raw[first:], len(raw) - first))
            end -= len(raw) - first
    return after, end


_BLOCK = 16 * 1024
_PROBE = 256
"""Most bodies that are compared have less in common than this."""


def _count_common_start(piece: bytes, body: bytes, place: int) -> int:
    """Return how many bytes of `piece` are in `body` from `place` on."""
    end, done = min(len(piece), len(body) - place), 0
    given = memoryview(piece)[:end]
    size = _BLOCK if body.startswith(given[:_PROBE], place) else _PROBE // 4
    while size and done < end:
        while done < end and body.startswith(given[done : done + size], place + done):
            done += size
        size //= 4
    return min(done, end)


def _count_common_end(piece: bytes, body: bytes, start: int, end: int) -> int:
    """Return how many bytes at the end of `piece` are in `body` before `end`, and not before `start`."""
    most, done = min(len(piece), end - start), 0
    given = memoryview(piece)[len(piece) - most :]
    probe = min(_PROBE, most)
    size = _BLOCK if body.startswith(given[most - probe :], end - probe) else _PROBE // 4
    while size and done < most:
        while done < most:
            longer = min(done + size, most)
            if not body.startswith(given[most - longer : most - done], end - longer):
                break
            done = longer
        size //= 4
    return done


def _is_outside(piece: bytes) -> bool:
    """Whether a part of JSON that begins outside of strings ends outside, too."""
    if piece.find(b'\\\\"') >= 0:  # which may be an escaped backslash at the end of a string
        piece = piece.replace(b"\\\\", b"")
    return (piece.count(b'"') - piece.count(b'\\"')) % 2 == 0


def _is_escaped(piece: bytes, quote: int) -> bool:
    place = quote
    while place and piece[place - 1] == ord("\\"):
        place -= 1
    return (quote - place) % 2 == 1


def _move_before_string(piece: bytes, place: int) -> int:
    """Return the place, or where the string begins in which it lies."""
    if _is_outside(piece[:place]):
        return place
    quote = piece.rfind(b'"', 0, place)
    while _is_escaped(piece, quote):
        quote = piece.rfind(b'"', 0, quote)
    return quote


def _move_behind_string(piece: bytes, place: int) -> int:
    """Return the place, or where the string ends in which it lies."""
    if _is_outside(piece[:place]):
        return place
    quote = piece.find(b'"', place)
    while quote >= 0 and _is_escaped(piece, quote):
        quote = piece.find(b'"', quote + 1)
    return len(piece) if quote < 0 else quote + 1
