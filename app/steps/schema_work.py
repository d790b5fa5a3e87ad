"""Counts the work of a check against a schema, and keeps its single steps small.

A unit of work takes at most some 10 µs. What a message quotes is made small before, because the package jsonschema
writes a message for each violation, also for those that nothing shows.
"""

import threading
from collections.abc import Mapping
from itertools import islice
from typing import Any

MAX_WORDS = 300
"""The longest text of a violation, in characters: it may quote the instance."""
_LARGE = 1000
"""A value with so many characters is quoted in part."""
_SHOWN_ITEMS = 3


class Unchecked(Exception):
    """The schema is not valid, uses what is not supported, or takes too much work. The text says which."""


class Stop:
    """Ends a check in another thread."""

    wanted = False


class _Work(threading.local):
    left = 0
    schema_bytes = 0
    sizes: Mapping[int, int] = {}
    """Those of the arrays and objects of the value that is checked, by `id`."""
    stop = Stop()


_work = _Work()


def begin(units: int, schema_bytes: int, stop: Stop | None = None) -> None:
    """Allow so much work from now on, in this thread."""
    _work.left, _work.schema_bytes, _work.stop = units, schema_bytes, stop or Stop()


def end() -> None:
    """Free what is known of the value that was checked."""
    _work.sizes = {}


def charge(units: int) -> None:
    """Raises Unchecked if no work is left, or the check was stopped."""
    _work.left -= units
    if _work.left < 0:
        raise Unchecked("the check takes too much work")
    if _work.stop.wanted:
        raise Unchecked("the check was stopped")


def charge_reference(reference: str) -> None:
    """Count what it takes to find where a reference leads. What is no path is searched in the whole schema, each time;
    and the beginning of each address that the check has come through is looked at."""
    is_path = reference == "#" or reference.startswith("#/")
    charge(2 + reference.count("/") // 4 + len(reference) // 400 + (0 if is_path else _work.schema_bytes // 25))


def measure(value: Any) -> Any:
    """Return the value that is checked next, whose large parts are quoted in part."""
    sizes: dict[int, int] = {}
    size, value = _measure(value, sizes)
    charge(size // 1000)
    _work.sizes = sizes
    return value


def get_size(value: Any) -> int:
    """Return how many characters a value has about, written as text."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, int):
        return 10 + value.bit_length() // 3
    return _work.sizes.get(id(value), 10)


def _measure(value: Any, sizes: dict[int, int]) -> tuple[int, Any]:
    if isinstance(value, str):
        return len(value) + 2, value if len(value) <= _LARGE else _LargeText(value)
    if isinstance(value, dict):
        size, value = _measure_object(value, sizes)
    elif isinstance(value, list):
        measured = [_measure(item, sizes) for item in value]
        size = 10 + sum([size for size, _ in measured])
        if size > _LARGE:
            value = _LargeArray([item for _, item in measured])
    else:
        return get_size(value), value
    sizes[id(value)] = size
    return size, value


def _measure_object(value: dict[str, Any], sizes: dict[int, int]) -> tuple[int, dict[str, Any]]:
    measured = {name: _measure(item, sizes) for name, item in value.items()}
    size = 10 + sum([len(name) + 10 + size for name, (size, _) in measured.items()])
    if size <= _LARGE:
        return size, value
    return size, _LargeObject((_measure(name, sizes)[1], item) for name, (_, item) in measured.items())


class _LargeText(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return repr(shorten(str(self)))


class _LargeArray(list[Any]):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"[{_quote_some(self)}]"


class _LargeObject(dict[str, Any]):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"{{{_quote_some(self)}}}"


def _quote_some(members: list[Any] | dict[str, Any]) -> str:
    """Return some members of a large array, or names of an object. Their number stands behind them."""
    shown = [
        "…" if isinstance(each, _LargeArray | _LargeObject) else repr(each) for each in islice(members, _SHOWN_ITEMS)
    ]
    return shorten(f"{', '.join(shown)}, … ({len(members)} in all)")


def shorten(text: str) -> str:
    return text if len(text) <= MAX_WORDS else f"{text[: MAX_WORDS // 2 - 2]} … {text[2 - MAX_WORDS // 2 :]}"
