"""How deep a server's JSON may be nested: what reads and writes it later calls itself for every level."""

import re

MAX_NESTING = 200
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def too_deep(data: bytes) -> bool:
    """Nearly always answered by a count of the brackets."""
    if data.count(b"[") + data.count(b"{") <= MAX_NESTING:
        return False
    depth = 0
    for token in _TOKEN.finditer(data):
        first = data[token.start()]
        depth += 1 if first in b"[{" else -1 if first in b"]}" else 0
        if depth > MAX_NESTING:
            return True
    return False
