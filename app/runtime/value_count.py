"""Counts the values of a JSON text without reading them: the memory that they need depends on it."""

import re

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{,]', re.DOTALL)


def max_values(data: bytes | bytearray, start: int = 0, end: int | None = None) -> int:
    """Return an upper bound of the number of values, in about a nanosecond per byte.

    Each value but the first follows a bracket or a comma. Commas inside strings are counted too. Only `data[start:end]`
    is looked at.
    """
    return 1 + data.count(b",", start, end) + data.count(b"[", start, end) + data.count(b"{", start, end)


def count_values(data: bytes | bytearray, limit: int) -> int:
    """Return the number of values, counting each empty list or object as if it held one; stop at `limit` + 1."""
    upper_bound = max_values(data)
    if upper_bound <= limit:
        return upper_bound
    count = 1
    for token in _TOKEN.finditer(data):
        if data[token.start()] != 0x22:
            count += 1
            if count > limit:
                break
    return count
