"""Writes a short text that a regular expression describes, without ever running the expression."""

import re
import warnings

_CLASSES = {"d": "1", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a", "n": "\n", "t": "\t"}
_PREFERRED = "a1A0bzZ9-_ .@"
_REPEAT = re.compile(r"[*+?]\??|\{(\d+)(?:,\d*)?\}\??")
_SKIPPED = re.compile(r"\?(?:[:]|P?<\w+>)")
_MOST = 200


def sample(pattern: str) -> str:
    """Best effort: what it does not understand is taken literally."""
    text, _ = _alternative(pattern[:_MOST], 0)
    return text[:_MOST]


def compiled(pattern: str) -> re.Pattern[str] | None:
    """None for what Python does not read; other dialects have more."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None


def _alternative(pattern: str, at: int) -> tuple[str, int]:
    """The first alternative from `at`, and the place behind the closing bracket or the end."""
    text = ""
    chosen: str | None = None
    while at < len(pattern) and pattern[at] != ")":
        if pattern[at] == "|":
            chosen = text if chosen is None else chosen
            at += 1
            continue
        piece, at = _atom(pattern, at)
        count, at = _repeat(pattern, at)
        text = (text + piece * count)[:_MOST]
    return (text if chosen is None else chosen), at + 1


def _atom(pattern: str, at: int) -> tuple[str, int]:
    char = pattern[at]
    if char == "(":
        skipped = _SKIPPED.match(pattern, at + 1)
        return _alternative(pattern, skipped.end() if skipped else at + 1)
    if char == "[":
        return _one_of(pattern, at + 1)
    if char == "\\" and at + 1 < len(pattern):
        escaped = pattern[at + 1]
        return ("" if escaped in "bBAZ" else _CLASSES.get(escaped, escaped)), at + 2
    return ({".": "a", "^": "", "$": ""}.get(char, char)), at + 1


def _one_of(pattern: str, at: int) -> tuple[str, int]:
    end = at + 1
    while end < len(pattern) and pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    written = pattern[at - 1 : end + 1]
    wanted = compiled(written)
    if wanted is None:
        return "a", end + 1
    candidates = _PREFERRED + "".join(map(chr, range(33, 127))) + written[1:2]
    return next((char for char in candidates if wanted.match(char)), "a"), end + 1


def _repeat(pattern: str, at: int) -> tuple[int, int]:
    repeat = _REPEAT.match(pattern, at)
    if repeat is None:
        return 1, at
    if repeat[1] is not None:
        return min(int(repeat[1]), _MOST), repeat.end()
    return 1, repeat.end()
