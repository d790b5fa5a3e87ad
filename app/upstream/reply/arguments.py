"""What the arguments of a call mean, in whatever form a server sends them (rule 6 of `docs/reference/assembly.md`)."""

import json
import re
from typing import Any, Final

import msgspec

NO_ARGUMENTS: Final = ("", "{}", "[]", "null")
"""Texts that say that there are no arguments, without their white space."""
MAX_ENCODINGS = 3
"""How often JSON inside a JSON string is decoded."""
_TWO_OBJECTS = re.compile(r"\}\s*\{")
_EMPTY_OBJECTS = re.compile(r"(?:\s*\{\s*\})+(?=\s*\{)")
_SPACE = re.compile(r"\s*")


def remove_space(text: str) -> str:
    return "".join(text.split())


def decode_text(text: str) -> str:
    """Return arguments as an object: `{}` if there are none, and the object in a string that holds one as JSON. All
    others are returned unchanged."""
    inner = text
    for _ in range(MAX_ENCODINGS):
        if remove_space(inner) in NO_ARGUMENTS:
            return "{}"
        try:
            inner = msgspec.json.decode(inner, type=str)
            if isinstance(msgspec.json.decode(inner), dict):
                return inner
        except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
            if remove_space(inner) not in NO_ARGUMENTS:
                return text
    return text


def get_meaning(text: str) -> str | None:
    """Return a text that is equal for equal arguments: spacing, the order of members, `1.0` instead of `1`, and JSON in
    a string make no difference. None if the text is not JSON."""
    try:
        return _write_meaning(_decoder.decode(text))
    except (ValueError, RecursionError):
        return None


def is_repetition(text: str, meaning: str) -> bool:
    """Whether a text that came behind complete arguments only says them again, or nothing."""
    values = _read_values(text)
    return values is not None and all(value in (meaning, *NO_ARGUMENTS) for value in values)


def drop_repetitions(text: str) -> str:
    """Return the first of several equal JSON values, or what is behind empty objects; any other text as it is."""
    if not _TWO_OBJECTS.search(text):
        return text
    if empty := _EMPTY_OBJECTS.match(text):
        text = text[empty.end() :]
    values = _read_values(text)
    if values is None or len(values) < 2 or len(set(values)) > 1:
        return text
    start = _SPACE.match(text).end()  # type: ignore[union-attr]  # it matches always
    return text[: _decoder.raw_decode(text, start)[1]]


def _read_values(text: str) -> list[str] | None:
    """Return the meanings of the JSON values of which a text consists; None if it has anything else."""
    values: list[str] = []
    at = _SPACE.match(text).end()  # type: ignore[union-attr]  # it matches always
    try:
        while at < len(text):
            value, at = _decoder.raw_decode(text, at)
            values.append(_write_meaning(value))
            at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    except (ValueError, RecursionError):
        return None
    return values


def _write_meaning(value: Any) -> str:
    for _ in range(MAX_ENCODINGS):
        if not isinstance(value, str):
            break
        try:
            value = _decoder.decode(value) if value.strip() else None
        except ValueError:
            break
    return json.dumps(value, sort_keys=True)


def _parse_float(digits: str) -> float | int:
    number = float(digits)
    return int(number) if number.is_integer() else number


_decoder = json.JSONDecoder(parse_float=_parse_float)
