"""Reads the JSON object of a body, and says what is wrong with a body that is none."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from pydantic_core import from_json

from app.errors import BadRequest, InvalidInput, Violation
from app.formats.json_reader import read_json
from app.formats.request_limits import MAX_WARNINGS, find_invalid_values
from app.formats.request_memory import CallerMemory
from app.validation.violations import json_path


class _RepairedObject(dict[str, Any]):
    """An object in whose texts something was replaced that no encoding has."""

    __slots__ = ("paths",)

    def __init__(self, value: Mapping[str, Any], paths: list[str]) -> None:
        super().__init__(value)
        self.paths = paths


def list_repairs(body: Mapping[str, Any]) -> list[str]:
    """Return a warning for each text of an object of `parse_object` that was changed when it was read."""
    paths = body.paths if isinstance(body, _RepairedObject) else []
    return [f"{path} has half of a surrogate pair, which was replaced by U+FFFD" for path in paths]


def parse_object(raw: bytes | bytearray, memory: CallerMemory | None = None) -> dict[str, Any]:
    """Return the object, with what is remembered of it. Raises BadRequest, or InvalidInput if it is nested too
    deeply."""
    if memory is not None and (remembered := memory.read_object(raw)) is not None:
        return remembered
    body = parse_json(raw)
    if not isinstance(body, dict):
        raise not_an_object(body)
    return body


def parse_json(raw: bytes | bytearray) -> Any:
    """Return the value of a body. Raises as `parse_object`.

    Half of a surrogate pair becomes U+FFFD: a client that cuts a text in the middle of an emoji would send the same
    history again and again (BerriAI/litellm issue 24196).
    """
    try:
        return read_json(raw)
    except ValueError as error:
        if not any(problem in str(error) for problem in _HALF_PAIRS):
            raise invalid_json(raw, error) from None
    whole = _UNICODE_ESCAPE.sub(_replace_half, raw)
    try:
        value = read_json(whole)
    except ValueError as error:
        raise invalid_json(whole, error) from None
    if not isinstance(value, dict):
        return value
    marked = read_json(_UNICODE_ESCAPE.sub(_mark_half, raw))
    return _RepairedObject(value, [*islice(_find_marked(marked, ""), MAX_WARNINGS)])


def _replace_half(match: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if match["half"] else match[0]


def _mark_half(match: re.Match[bytes]) -> bytes:
    return _MARK.encode("ascii", "backslashreplace") if match["half"] else match[0]


def _find_marked(value: Any, path: str) -> Iterator[str]:
    """Yield the JSON path of each text, and of each object with a key, that has `_MARK`."""
    if isinstance(value, str):
        if _MARK in value:
            yield path
    elif isinstance(value, list):
        for place, one in enumerate(value):
            yield from _find_marked(one, f"{path}[{place}]")
    elif isinstance(value, dict):
        for name, one in value.items():
            if _MARK in name:
                yield path or "the body"
            else:
                yield from _find_marked(one, json_path([name], path))


_MARK = "\ufdd0\ufdd1"
"""Characters that Unicode keeps for a program's own use, in an order that no text has."""


_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_UNICODE_ESCAPE = re.compile(rb"%b%b|(?P<half>%b|%b)|\\." % (_HIGH, _LOW, _HIGH, _LOW), re.DOTALL)
_HALF_PAIRS = ("unexpected end of hex escape", "lone leading surrogate in hex escape")
"""What the JSON parser says of half a surrogate pair, and of an escape that is cut off."""


def not_an_object(body: Any) -> BadRequest:
    """Return the error for a body that is JSON, but no object."""
    kind = "a list" if isinstance(body, list) else "a string" if isinstance(body, str) else "a single value"
    hint = ""
    if isinstance(body, str) and body.lstrip().startswith("{"):
        hint = ": it was encoded as JSON twice (with requests and httpx, pass json=body, not json=json.dumps(body))"
    return BadRequest(f"the request body must be a JSON object, not {kind}{hint}")


def invalid_json(raw: bytes | bytearray, error: ValueError) -> BadRequest | InvalidInput:
    """Return the error for a body that `read_json` refused. One that is nested too deeply may be valid JSON; of
    `NaN` and `Infinity` it says where they are."""
    if not raw.strip():
        return BadRequest("the request body is empty: send a JSON object")
    for mark, text in _BYTE_ORDER_MARKS.items():
        if raw.startswith(mark):
            return BadRequest(f"the request body is not valid JSON: it {text}")
    if _FORM.match(raw):
        return BadRequest("the request body is a form (name=value), not JSON: send a JSON object")
    if found := _find_no_numbers(raw):
        return InvalidInput(found)
    match = _JSON_ERROR.fullmatch(str(error))
    if match is None:
        return BadRequest(f"the request body is not valid JSON: {error}")
    line, column = int(match[2]), int(match[3])
    if match[1] == _TOO_DEEP:
        return InvalidInput([Violation("", f"is nested too deeply at line {line}, column {column}")])
    problem = _JSON_PROBLEMS.get(match[1], match[1])
    if match[1] != _WRONG_KEY:
        begin = column - 1 if match[1] in (_WRONG_WORD, _WRONG_NUMBER) else column
        problem = _find_other_language(raw, line, begin) or problem
    return BadRequest(f"the request body is not valid JSON: {problem} at line {line}, column {column}")


def _find_no_numbers(raw: bytes | bytearray) -> list[Violation]:
    """Return the first of the places with `NaN` or `Infinity`, if the body would be JSON otherwise."""
    if b"NaN" not in raw and b"Infinity" not in raw:
        return []
    try:
        body = from_json(bytes(raw))
    except ValueError:
        return []
    return [*islice(find_invalid_values(body, "", _MAX_NESTING), MAX_WARNINGS)]


_MAX_NESTING = 200
"""That of the JSON parser."""
_BYTE_ORDER_MARKS = {
    b"\xef\xbb\xbf": "begins with a byte order mark (BOM): send UTF-8 without it",
    b"\xff\xfe": "is UTF-16: send UTF-8",
    b"\xfe\xff": "is UTF-16: send UTF-8",
}
_FORM = re.compile(rb"[\w.%\[\]-]{1,200}=")
_NO_NUMBER = "JSON has no `%s`: write a number or null (Python: json.dumps with allow_nan=False)"
_NOT_JSON = {
    b"True": "`True` is Python: write true (json.dumps writes JSON)",
    b"False": "`False` is Python: write false (json.dumps writes JSON)",
    b"None": "`None` is Python: write null (json.dumps writes JSON)",
    b"NaN": _NO_NUMBER % "NaN",
    b"Infinity": _NO_NUMBER % "Infinity",
    b"-Infinity": _NO_NUMBER % "-Infinity",
    b"undefined": "`undefined` is JavaScript: leave the key out, or write null",
    b"'": "a text must be in double quotes",
    b"//": "JSON has no comments",
    b"/*": "JSON has no comments",
    b"#": "JSON has no comments",
}
"""What is written instead of JSON, and what to write."""


def _find_other_language(raw: bytes | bytearray, line: int, column: int) -> str | None:
    """Return the problem of a text that another language would accept at this place."""
    start = 0
    for _ in range(line - 1):
        start = raw.find(b"\n", start) + 1
    given = raw[start + max(column - 1, 0) :][:10].lstrip()
    return next((text for begin, text in _NOT_JSON.items() if given.startswith(begin)), None)


_JSON_ERROR = re.compile(r"(.*) at line (\d+) column (\d+)", re.DOTALL)
_TOO_DEEP = "recursion limit exceeded"
_WRONG_KEY = "key must be a string"
_WRONG_WORD, _WRONG_NUMBER = "expected ident", "invalid number"
"""The parser reports these one character late: the first one can begin null, true, false or a number."""
_JSON_PROBLEMS = {
    "EOF while parsing a value": "it ends where a value must follow",
    "EOF while parsing an object": "it ends inside an object",
    "EOF while parsing a list": "it ends inside a list",
    "EOF while parsing a string": "it ends inside a string",
    _WRONG_KEY: "a key must be a string in double quotes",
    _WRONG_WORD: "expected true, false or null",
    "expected value": "expected a value",
    "trailing characters": "something follows the JSON value",
    "number out of range": "a number has too many digits",
    "invalid unicode code point": "the text is not UTF-8",
    "unexpected end of hex escape": "half of a surrogate pair",
    "control character (\\u0000-\\u001F) found while parsing a string": "a control character inside a string",
}
"""The messages of the JSON parser, in plain words."""
