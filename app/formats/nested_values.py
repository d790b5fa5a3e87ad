"""Looks at every value of a body, however deep: whether JSON can express it, and how many there are in lists.

Values are looked at level by level: a call for each object would cost more than the look at what is in it. Texts, which
most values are, are left out at once.
"""

import math
from collections.abc import Sequence
from typing import Any

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1
"""The range of integers in values that are passed on: the JSON parsers of other programs accept no others."""


def are_valid(values: Sequence[Any], max_nesting: int) -> bool:
    """Whether JSON can express every number, and no value is nested deeper than `max_nesting`."""
    level: list[Any] = list(values)
    for _ in range(max_nesting):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                for member in value.values():
                    if not isinstance(member, str):
                        inner.append(member)
            elif isinstance(value, list):
                for member in value:
                    if not isinstance(member, str):
                        inner.append(member)
            elif not _is_valid(value):
                return False
        if not inner:
            return True
        level = inner
    return all([_is_valid(value) and not (isinstance(value, (dict, list)) and value) for value in level])


def _is_valid(value: Any) -> bool:
    """Whether a value is no number, or one that JSON can express."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or MIN_INTEGER <= value <= MAX_INTEGER


def count_entries(values: Sequence[Any]) -> int:
    """Count the entries of the lists in these objects, and of the lists in those entries (tool results, the frames of a
    video)."""
    count = 0
    level: list[Any] = list(values)
    while level:
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                for member in value.values():
                    if isinstance(member, list):
                        inner.extend(member)
        count += len(inner)
        level = inner
    return count
