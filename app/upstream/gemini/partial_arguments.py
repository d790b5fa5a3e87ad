"""The arguments of a call that come piece by piece: each piece has the path of a value, and the value or a part of it
(docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling, streaming of arguments).
"""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
_STEP = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]|\[(\d{1,6})\]")
_ESCAPED = re.compile(r"\\(.)")
MAX_STEPS = 64
"""How deeply a value may lie."""
MAX_PATH = 4096
MAX_INDEX = 10_000
"""The largest place in a list."""
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class PathRefused(Exception):
    """A path cannot be read, or does not fit what is known of the arguments."""


def parse_path(path: str) -> list[str | int]:
    """Return the names and places that lead to a value. Raises PathRefused."""
    if path[:1] != "$" or len(path) > MAX_PATH:
        raise PathRefused(path[:100])
    steps: list[str | int] = []
    place = 1
    while place < len(path):
        match = _STEP.match(path, place)
        if match is None or len(steps) == MAX_STEPS:
            raise PathRefused(path[:100])
        place = match.end()
        if match[4] is not None:
            steps.append(int(match[4]))
        else:
            plain = next(one for one in match.groups() if one is not None)
            steps.append(plain if match[1] is not None else _ESCAPED.sub(r"\1", plain))
    return steps


def add_piece(arguments: Json, piece: Mapping[str, Any]) -> None:
    """Set the value of a piece, or add its text to that which is there. Raises PathRefused."""
    path = piece.get("jsonPath")
    if not isinstance(path, str):
        raise PathRefused("no path")
    name = next((name for name in _VALUES if name in piece), None)
    if name is None:
        return  # the end of a value
    value = None if name == "nullValue" else piece[name]
    steps = parse_path(path)
    if not steps:
        raise PathRefused(path)
    holder: Any = arguments
    for step, following in zip(steps, steps[1:], strict=False):
        inner = _get(holder, step)
        if inner is None:
            inner = [] if isinstance(following, int) else {}
            _set(holder, step, inner)
        holder = inner
    known = _get(holder, steps[-1])
    if isinstance(known, str) and isinstance(value, str):
        value = known + value
    _set(holder, steps[-1], value)


def _get(holder: Any, step: str | int) -> Any:
    if isinstance(holder, dict) and isinstance(step, str):
        return holder.get(step)
    if isinstance(holder, list) and isinstance(step, int):
        return holder[step] if step < len(holder) else None
    raise PathRefused(str(step)[:100])


def _set(holder: Any, step: str | int, value: Any) -> None:
    if isinstance(step, str):
        holder[step] = value
        return
    if step > MAX_INDEX:
        raise PathRefused(str(step))
    holder += [None] * (step + 1 - len(holder))
    holder[step] = value
