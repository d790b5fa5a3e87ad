"""Check the limits of one request that no type can express: the length of lists, the nesting, and numbers."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from msgspec import Struct

from app.errors import Violation
from app.formats.nested_values import MAX_INTEGER, MIN_INTEGER, are_valid, count_entries
from app.formats.request_memory import keep, resume
from app.validation.violations import json_path

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
    known, count, places = resume(messages, count_entries)
    count = count or 0
    for place in places:
        count += count_entries(messages[known:place])
        keep(messages, place, count_entries, count)
        known = place
    return count + count_entries(messages[known:])


def find_invalid_values(value: Any, path: str, max_nesting: int) -> Iterator[Violation]:
    """Return a violation for each number that JSON cannot express, and for values nested deeper than `max_nesting`.

    Nearly every value is valid, so this is found out first, without the paths of its parts.
    """
    return iter(()) if _are_valid([value], max_nesting) else _find_invalid_values(value, path, max_nesting)


def find_invalid_fields(
    body: Mapping[str, Any], names: Mapping[str, str], typed: Set[str], max_nesting: int
) -> Iterator[Violation]:
    """Yield the violations of `find_invalid_values` in all fields of a body, also in those that nothing reads: a server
    of the client's own API may be sent them. `names` has the caller's names of fields; the types of `typed` fields say
    already what is wrong with a single value."""
    fields = {field: value for field, value in body.items() if isinstance(value, dict | list) or field not in typed}
    if not _are_valid(fields.values(), max_nesting):
        for field, value in fields.items():
            yield from _find_invalid_values(value, json_path([names.get(field, field)]), max_nesting)


def _are_valid(values: Iterable[Any], max_nesting: int) -> bool:
    """Look at all values together. Of lists that are remembered, only what is new is looked at."""
    what, new = (are_valid, max_nesting), []
    remembered: list[tuple[list[Any], Sequence[int]]] = []
    for value in values:
        if type(value) is list:
            known, _, places = resume(value, what)
            new.append(value[known:] if known else value)
            if places:
                remembered.append((value, places))
        else:
            new.append(value)
    if not are_valid(new, max_nesting):
        return False
    for entries, places in remembered:
        for place in places:
            keep(entries, place, what, True)
    return True


def _find_invalid_values(value: Any, path: str, max_nesting: int) -> Iterator[Violation]:
    if isinstance(value, float):
        if not math.isfinite(value):
            yield Violation(path, "must be a finite number")
        return
    if isinstance(value, int):
        if not MIN_INTEGER <= value <= MAX_INTEGER:
            yield Violation(path, f"must be a number from {MIN_INTEGER} to {MAX_INTEGER}")
        return
    if not isinstance(value, (dict, list)) or not value:
        return
    if max_nesting == 0:
        yield Violation(path, "is nested too deeply")
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, (dict, list, float)) or (isinstance(item, int) and not MIN_INTEGER <= item <= MAX_INTEGER):
            yield from _find_invalid_values(item, json_path([key], path), max_nesting - 1)


def limit_warnings(warnings: Sequence[str]) -> tuple[str, ...]:
    """Return the first `MAX_WARNINGS` warnings, and one that counts the others."""
    omitted = len(warnings) - MAX_WARNINGS
    if omitted <= 0:
        return tuple(warnings)
    return (*warnings[:MAX_WARNINGS], f"{omitted} more warnings were left out")
