"""Which regular expressions of an operator could take very long on a stranger's text: `find_slow_part`."""

import re
from collections.abc import Iterator
from typing import Any

_parser: Any = getattr(re, "_parser")  # noqa: B009  # without stubs; `sre_parse` is deprecated
_MAX_REPEATS = 1000
"""A repeat that is bounded by less counts as a bounded one."""


def find_slow_part(expression: str) -> str | None:
    """Return what makes the search of a valid expression slower than linear, in words; None if nothing was found. RE2
    refuses the first two as well."""
    for name, depth in _walk(_parser.parse(expression), 0):
        if name == "GROUPREF" or name.startswith("GROUPREF_"):
            return "a reference to a group"
        if name in ("ASSERT", "ASSERT_NOT"):
            return "a look-around"
        if depth > 1:
            return "a repeat within a repeat"
    return None


def _walk(parsed: Any, depth: int) -> Iterator[tuple[str, int]]:
    """Yield the name of each part, and how many unbounded repeats are around it and it."""
    for code, argument in parsed:
        name = str(code)
        inner = depth
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            inner += argument[1] == _parser.MAXREPEAT or argument[1] >= _MAX_REPEATS
        yield name, inner
        for part in _list_parts(argument):
            yield from _walk(part, inner)


def _list_parts(argument: Any) -> Iterator[Any]:
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, list | tuple):
        for item in argument:
            yield from _list_parts(item)
