"""`KnownConversation`: what was made of the beginning of a conversation that a client sends again with each request."""

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from operator import is_not
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

Made = TypeVar("Made")
T = TypeVar("T", int, tuple[Any, ...])

MAX_KEPT = 32
"""How many things are kept of a conversation: up to 10 of one that is sent to one server, and 3 more for each other."""
CHANGED_MESSAGES = 8
"""How many messages at the end the next request may change: clients move marks of the prompt cache."""


def is_same(first: Any, second: Any) -> bool:
    """Whether one value may replace the other: whatever is made of them is the same to the byte.

    Equality is not enough. In JSON 1, 1.0 and true differ, and 0.0 and -0.0, and objects whose members have another
    order; two parts of messages may be equal although they have other paths. What is not known to be the same is not.
    """
    if first is second:
        return True
    kind = type(first)
    if kind is not type(second):
        return False
    if kind is str or kind is bytes or kind is int:
        return bool(first == second)
    if kind is float:
        return bool(first.hex() == second.hex())
    if issubclass(kind, _LISTS):
        return len(first) == len(second) and _are_same(first, second)
    if issubclass(kind, dict):
        return len(first) == len(second) and _are_same(first, second) and _are_same(first.values(), second.values())
    if issubclass(kind, Struct):
        return _are_same(astuple(first), astuple(second))
    return False


def _are_same(first: Iterable[Any], second: Iterable[Any]) -> bool:
    """Whether each of the first ones is the same as the second one at its place; there are as many of both."""
    return all(one is other or is_same(one, other) for one, other in zip(first, second, strict=True))


_LISTS = (list, tuple)


def begins_with(given: Sequence[Any], beginning: Sequence[Any]) -> bool:
    """Whether the first of those given are the same as these. Nearly all are the same objects, or all are bytes. Those
    that a client has changed are most often the last ones, so these are compared first."""
    if isinstance(beginning, bytes) or isinstance(given, bytes):
        return isinstance(beginning, bytes) and isinstance(given, bytes) and given.startswith(beginning)
    size = len(beginning)
    if size > len(given):
        return False
    others = list(compress(range(size), map(is_not, beginning, given)))
    return all(is_same(beginning[place], given[place]) for place in reversed(others))


class KnownConversation:
    """The requests of one conversation share it."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[Any, tuple[Sequence[Any], Any]] = {}

    def find(self, what: Any, given: Sequence[Any]) -> Any:
        """Return what was kept for `what`, if it was made of the first ones of those given; else None. `what` holds
        nothing that a client has sent: keys of a dict are found by equality."""
        kept = self._kept.get(what)
        return kept[1] if kept is not None and begins_with(given, kept[0]) else None

    def find_common(self, what: Any, given: Sequence[Any]) -> tuple[Any, int]:
        """Return what was kept for `what`, and how many of the first ones of those given are the same as those that it
        was made of; (None, 0) if nothing was kept. It is for what is made of each of them apart."""
        kept = self._kept.get(what)
        if kept is None:
            return None, 0
        before, value = kept
        size = min(len(before), len(given))
        for place in compress(range(size), map(is_not, before, given)):
            if not is_same(before[place], given[place]):
                return value, place
        return value, size

    def find_whole(self, what: Any, given: Sequence[Any]) -> Any:
        """Return what was kept for `what`, if it was made of all of those given; else None."""
        kept = self._kept.get(what)
        is_whole = kept is not None and len(kept[0]) == len(given) and begins_with(given, kept[0])
        return kept[1] if kept is not None and is_whole else None

    def keep(self, what: Any, given: Sequence[Any], value: Any) -> None:
        """Keep what was made of a beginning, which must not be changed. It replaces what was kept for the same."""
        if len(self._kept) >= MAX_KEPT and what not in self._kept:
            self._kept.clear()
        self._kept[what] = (given, value)


def make_once(what: Any, make: Callable[[], Made], given: Sequence[Any], known: KnownConversation | None) -> Made:
    """Return what is made of a list; for a conversation that is known, it is made once for `what`."""
    made: Made | None = None if known is None else known.find_whole(what, given)
    if made is None:
        made = make()
        if known is not None:
            known.keep(what, given, made)
    return made


def add_up(
    count: Callable[[Sequence[Any]], int], given: Sequence[Any], known: KnownConversation | None, what: Any = None
) -> int:
    """Return what the function counts in a list; what it counted in the beginning may be known for `what`, which is the
    function itself by default."""
    if known is None:
        return count(given)
    return gather((add_up, what or count), lambda start, end: count(given[start:end]), given, known, 0)


def gather(
    what: Any,
    read: Callable[[int, int], T],
    given: Sequence[Any],
    known: KnownConversation | None,
    nothing: T,
    divides: Callable[[int], bool] | None = None,
) -> T:
    """Return what is read of a list: the sum of what `read` returns for parts of it, each from a place up to another
    one. What was read for `what` of the beginning may be known; otherwise it depends only on what is given. `divides`
    says at which places a part may end; None: at each."""
    if known is None:
        return read(0, len(given))
    total, number = known.find(what, given) or (nothing, 0)
    end = find_end(number, len(given), divides)
    if end > number:
        total += read(number, end)
        known.keep(what, given[:end], (total, end))
    whole: T = total + read(end, len(given))
    return whole


def find_end(start: int, length: int, divides: Callable[[int], bool] | None = None) -> int:
    """Return where the kept part of a list ends: at a place after `start` at which it may be divided, or `start`."""
    end = max(start, length - CHANGED_MESSAGES)
    while divides is not None and end > start and not divides(end):
        end -= 1
    return end
