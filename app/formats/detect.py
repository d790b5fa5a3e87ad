"""Detects the format of a message list by the first message that only one format can have; mixed lists are refused."""

from collections.abc import Iterator
from typing import Any

from app.errors import Violation
from app.formats import FORMATS
from app.formats.base import Format, GivenMessage


def detect(messages: list[Any]) -> tuple[str, list[Violation]]:
    """Return (the format's name, a violation for each message of another format).

    A list with only roles and text is the same in all formats, and counts as `qwen`.
    """
    name, first = "", 0
    found: list[Violation] = []
    for place, message in _read(messages):
        sign = next((row.name for row in _rows() if row.recognizes(message)), "")
        if not name:
            name, first = sign, place
        elif sign and sign != name:
            text = f"has the format {sign}, but messages[{first}] has the format {name}: send one format"
            found.append(Violation(f"messages[{place}]", text))
    return name or _detect_by_hints(messages), found


def _rows() -> Iterator[Format]:
    return reversed(FORMATS.values())


def _read(messages: list[Any]) -> Iterator[tuple[int, GivenMessage]]:
    """Yield the messages that are objects, each with its index."""
    for place, fields in enumerate(messages):
        if isinstance(fields, dict):
            content = fields.get("content")
            blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
            kinds = frozenset(kind for block in blocks if isinstance(kind := block.get("type"), str))
            yield place, GivenMessage(fields, blocks, kinds)


def _detect_by_hints(messages: list[Any]) -> str:
    """Return the format that the keys of messages with only text hint at."""
    given = [message for _, message in _read(messages)]
    return next((row.name for row in _rows() if any(map(row.resembles, given))), "qwen")
