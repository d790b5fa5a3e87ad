"""Patterns in which `*` stands for any text, also none. All other characters stand for themselves."""

from collections.abc import Iterable

WILDCARD = "*"


def match_wildcard(pattern: str, text: str) -> bool:
    """Whether the whole text fits the pattern. The time does not grow with the number of `*`, because the text may be
    a client's."""
    first, *others = pattern.split(WILDCARD)
    if not others:
        return pattern == text
    last = others.pop()
    end = len(text) - len(last)
    if end < len(first) or not text.startswith(first) or not text.endswith(last):
        return False
    start = len(first)
    for part in others:
        found = text.find(part, start, end)
        if found < 0:
            return False
        start = found + len(part)
    return True


def match_any_wildcard(patterns: Iterable[str], text: str) -> bool:
    return any(match_wildcard(pattern, text) for pattern in patterns)


def count_literals(pattern: str) -> int:
    """Return how many characters stand for themselves: of two patterns that fit, the one with more is meant."""
    return len(pattern) - pattern.count(WILDCARD)
