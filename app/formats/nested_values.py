"""Looks at every value of a body, however deep: whether JSON can express it, and how many there are in lists."""

import math
from collections.abc import Iterable
from typing import Any

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1
"""The range of integers in values that are passed on: the JSON parsers of other programs accept no others."""


def are_valid(values: Iterable[Any], max_nesting: int) -> bool:
    """Whether JSON can express every number, and no value is nested deeper than `max_nesting`."""
    for value in values:
        if isinstance(value, str) or value is None:
            continue
        if isinstance(value, dict):
            if value and not (max_nesting and are_valid(value.values(), max_nesting - 1)):
                return False
        elif isinstance(value, list):
            if value and not (max_nesting and are_valid(value, max_nesting - 1)):
                return False
        elif isinstance(value, float):
            if not math.isfinite(value):
                return False
        elif isinstance(value, int) and not MIN_INTEGER <= value <= MAX_INTEGER:
            return False
    return True


def count_entries(value: Any) -> int:
    """Count the entries of an object's lists, and of the lists in them (tool results, the frames of a video)."""
    count = 0
    if isinstance(value, dict):
        for inner in value.values():
            if isinstance(inner, list):
                count += len(inner)
                for entry in inner:
                    count += count_entries(entry)
    return count
