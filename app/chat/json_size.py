"""How many values a JSON text holds, before anything is made of it."""

import re

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{,]', re.DOTALL)


def max_values(data: bytes | bytearray) -> int:
    """No fewer than the text holds: each value but the first stands behind a bracket or a comma. Counts commas in
    strings too; takes about a nanosecond a byte."""
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


def count_values(data: bytes | bytearray, limit: int) -> int:
    """The values of the text, as if no list and no object were empty; no further than the first beyond `limit`."""
    most = max_values(data)
    if most <= limit:
        return most
    count = 1
    for token in _TOKEN.finditer(data):
        if data[token.start()] != 0x22:
            count += 1
            if count > limit:
                break
    return count
