"""Check the limits of one request that no type can express: the length of lists, the nesting, and numbers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from app.errors import Violation
from app.formats.request_memory import FirstEntry, keep, list_places, resume
from app.validation.violations import json_path

_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1
"""The range of integers in values that are passed on: the JSON parsers of other programs accept no others."""
MAX_WARNINGS = 200
"""The maximum number of warnings of one request; one more warning counts those left out."""


class RequestLimits(Struct, frozen=True):
    """How much one request may hold: settings of the server."""

    max_messages: int
    max_content_items: int
    max_functions: int
    max_nesting: int


def find_long_lists(body: Mapping[str, Any], limits: RequestLimits, conversation: str = "messages") -> list[Violation]:
    """Return a violation for each list that has too many entries. `conversation` is the field of the messages."""
    found: list[Violation] = []
    messages = body.get(conversation)
    if isinstance(messages, list):
        if len(messages) > limits.max_messages:
            found.append(Violation(conversation, f"more than {limits.max_messages} messages"))
        elif _count_all_items(messages) > limits.max_content_items:
            found.append(Violation(conversation, f"more than {limits.max_content_items} content items"))
    for field in ("functions", "tools"):
        functions = body.get(field)
        if isinstance(functions, list) and len(functions) > limits.max_functions:
            found.append(Violation(field, f"more than {limits.max_functions} functions"))
    return found


def _count_all_items(messages: list[Any]) -> int:
    known, count = resume(messages, _count_items)
    counts = [count or 0, *map(_count_items, messages[known:])]
    for place in list_places(messages, known):
        keep(messages, place, _count_items, sum(counts[: place - known + 1]))
    return sum(counts)


def _count_items(message: Any) -> int:
    """Count the entries of a message's lists, and of the lists in them (tool results, the frames of a video)."""
    count = 0
    if isinstance(message, dict):
        for value in message.values():
            if isinstance(value, list):
                count += len(value) + sum(map(_count_items, value))
    return count


def find_invalid_values(value: Any, path: str, max_nesting: int) -> Iterator[Violation]:
    """Return a violation for each number that JSON cannot express, and for values nested deeper than `max_nesting`.

    Nearly every value is valid, so this is found out first, without the paths of its parts.
    """
    known = 0
    if type(value) is list:
        known, _ = resume(value, (_is_valid, max_nesting))
    if not _is_valid(value[known:] if known else value, max_nesting):
        return _find_invalid_values(value, path, max_nesting)
    if type(value) is list:
        for place in list_places(value, known):
            keep(value, place, (_is_valid, max_nesting), True)
    return iter(())


def _is_valid(value: Any, max_nesting: int) -> bool:
    level = [[value]]
    for _ in range(max_nesting + 1):
        deeper = []
        for values in level:
            for item in values:
                kind = type(item)
                if kind is str or item is None or kind is bool:
                    continue
                if (kind is dict or kind is FirstEntry) and item:
                    deeper.append(item.values())
                elif kind is list and item:
                    deeper.append(item)
                elif (kind is int and not _MIN_INTEGER <= item <= _MAX_INTEGER) or (
                    kind is float and not math.isfinite(item)
                ):
                    return False
        if not deeper:
            return True
        level = deeper
    return False


def _find_invalid_values(value: Any, path: str, max_nesting: int) -> Iterator[Violation]:
    if isinstance(value, float):
        if not math.isfinite(value):
            yield Violation(path, "must be a finite number")
        return
    if isinstance(value, int):
        if not _MIN_INTEGER <= value <= _MAX_INTEGER:
            yield Violation(path, f"must be a number from {_MIN_INTEGER} to {_MAX_INTEGER}")
        return
    if not isinstance(value, (dict, list)) or not value:
        return
    if max_nesting == 0:
        yield Violation(path, "is nested too deeply")
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, (dict, list, float)) or (
            isinstance(item, int) and not _MIN_INTEGER <= item <= _MAX_INTEGER
        ):
            yield from _find_invalid_values(item, json_path([key], path), max_nesting - 1)


def limit_warnings(warnings: Sequence[str]) -> tuple[str, ...]:
    """Return the first `MAX_WARNINGS` warnings, and one that counts the others."""
    omitted = len(warnings) - MAX_WARNINGS
    if omitted <= 0:
        return tuple(warnings)
    return (*warnings[:MAX_WARNINGS], f"{omitted} more warnings were left out")
