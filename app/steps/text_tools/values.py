"""Whole texts as JSON values, read as models write them."""

import json
from typing import Any

from app.steps.text_tools.json_text import Transcoder
from app.steps.text_tools.reading import Reading
from app.steps.text_tools.told import Unreadable


def standard(text: str) -> str:
    """The text as standard JSON. Raises Unreadable where it is no value."""
    reading = Reading("", ())
    reading.text, reading.ended = text, True
    pieces: list[str] = []
    for _ in Transcoder(reading, pieces.append).run():
        raise AssertionError("a text that has ended is not waited for")
    if reading.text[reading.pos :].strip():
        raise Unreadable
    return "".join(pieces)


def loads(text: str) -> Any:
    """The value of a JSON text as models write it. Raises Unreadable."""
    try:
        return json.loads(standard(text))
    except (ValueError, RecursionError) as exc:
        raise Unreadable from exc
