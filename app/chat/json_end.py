"""Finds the end of a JSON value whose text arrives in fragments."""

import re

_TOKENS = re.compile(r'\\.?|["\[\]{}]', re.DOTALL)


class JsonEnd:
    """Tracks the brackets and quotes of a text that begins with an object, a list or a string. Each fragment is scanned
    once. That the text is valid JSON is not checked."""

    __slots__ = ("_depth", "_escaped", "_quoted")

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = self._escaped = False

    def find(self, fragment: str) -> int:
        """Return the offset behind the bracket or quote that ends the value; -1 if it is not in this fragment."""
        start, self._escaped = int(self._escaped), False
        for mark in _TOKENS.finditer(fragment, start):
            token = mark.group()
            if token == '"':
                self._quoted = not self._quoted
            elif token[0] == "\\":
                self._escaped = len(token) == 1
                continue
            elif not self._quoted:
                self._depth += 1 if token in "[{" else -1
            if not self._depth and not self._quoted:
                return mark.end()
        return -1
