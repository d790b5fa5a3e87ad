"""Pydantic's errors as violations with a JSON path."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from app.errors import Violation

_MESSAGES = {"extra_forbidden": "is not a known key", "missing": "is required"}
MAX_JUDGED = 1000
"""Beyond so many mistakes the next ones are not looked for: enough were found."""
MAX_LISTED = 10_000
"""More than that are only counted: pydantic makes a dict of each before the first can be read."""
MAX_KEY_CHARACTERS = 200
"""A longer key is cut where it stands in a path."""
_BARE = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")


def violations(error: ValidationError, value: Any, prefix: str = "") -> list[Violation]:
    """Every place of `value`, which was refused, once; what the branches of a union say of it is joined."""
    if error.error_count() > MAX_LISTED:
        return [Violation(prefix, f"has {error.error_count()} mistakes; so many are not listed")]
    found: dict[str, list[str]] = {}
    for item in error.errors(include_url=False, include_context=False, include_input=False)[:MAX_JUDGED]:
        message = _MESSAGES.get(item["type"]) or item["msg"].removeprefix("Value error, ")
        place = _place(item["loc"], value, item["type"] == "missing")
        said = found.setdefault(json_path(place, prefix), [])
        if message not in said:
            said.append(message)
    return [Violation(path, "; or ".join(said)) for path, said in found.items()]


def unknown_keys(value: Any, path: str) -> Iterator[str]:
    """The places of all keys in a validated value that its models do not know and that hold something."""
    if isinstance(value, list):
        for place, one in enumerate(value):
            yield from unknown_keys(one, f"{path}[{place}]")
    elif isinstance(value, BaseModel):
        for key, held in (value.model_extra or {}).items():
            if held not in (None, [], {}, ""):
                yield json_path([key], path)
        for name in type(value).model_fields:
            yield from unknown_keys(getattr(value, name), f"{path}.{name}")


def json_path(place: Iterator[int | str] | Sequence[int | str], prefix: str = "") -> str:
    """`messages[2].content[0].image`. A key that could be taken for more than one stands quoted: `metadata["a.b"]`."""
    path = prefix
    for step in place:
        if isinstance(step, int):
            path += f"[{step}]"
            continue
        if len(step) > MAX_KEY_CHARACTERS:
            step = f"{step[:MAX_KEY_CHARACTERS]}…"
        if _BARE.fullmatch(step):
            path += f".{step}" if path else step
        else:
            path += f"[{json.dumps(step)}]"
    return path


def _place(loc: Sequence[int | str], value: Any, missing: bool) -> Iterator[int | str]:
    """The steps of pydantic's path that the value has; the others name the branch of a union that was tried."""
    for at, step in enumerate(loc):
        if missing and at == len(loc) - 1:
            yield step
        elif _has(value, step):
            yield step
            value = value[step]


def _has(value: Any, step: int | str) -> bool:
    if isinstance(value, list | tuple):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, dict) and step in value
