"""Converts single tokens and values to JSON. The functions raise NotACall for those that have no equivalent."""

import json
import re
from typing import Any

from app.steps.tool_parsers.calls import NotACall

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_LOOSE = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_HEX = re.compile(r"[+-]?0[xX][0-9a-fA-F]+")
_CONSTANTS = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}
_ESCAPES = '"\\/bfnrt'
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def write_json(value: Any) -> str:
    """Return a value as JSON. `Infinity` and `NaN` are no JSON."""
    try:
        return join_surrogates(json.dumps(value, ensure_ascii=False, allow_nan=False))
    except (ValueError, TypeError, RecursionError) as exc:
        raise NotACall from exc


def join_surrogates(text: str) -> str:
    """Join surrogate pairs to characters; half a pair becomes U+FFFD, because UTF-8 cannot encode it."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def to_json_escape(raw: str, char: str) -> str:
    if char in _ESCAPES:
        return raw
    if char in "ux" and all(digit in "0123456789abcdefABCDEF" for digit in raw[2:]):
        return raw if char == "u" else f"\\u00{raw[2:]}"
    if char in "ux":
        raise NotACall
    if char == "\n":
        return ""
    # A backslash before any other character is a literal backslash, as in regular expressions.
    return char if char == "'" else "\\\\" + json.dumps(char, ensure_ascii=False)[1:-1]


def to_json_key(word: str) -> str:
    if not word.replace("$", "_").isidentifier():
        raise NotACall
    return json.dumps(word, ensure_ascii=False)


def to_json_value(word: str) -> str:
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    if _NUMBER.fullmatch(word):
        return word
    try:
        if _HEX.fullmatch(word):
            return str(int(word, 16))
        digits = word.lstrip("+-")
        if _LOOSE.fullmatch(word) and not re.match(r"0\d", digits):
            return write_json(int(word) if digits.isdigit() else float(word))
    except ValueError as exc:  # Python converts no integer of more than 4,300 digits
        raise NotACall from exc
    raise NotACall
