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
MAX_GAP = 16
"""How many entries of a list may be missing before one: a short path must not make a long list."""
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


class PartialArguments:
    """The arguments of one call while their pieces arrive."""

    def __init__(self, arguments: Any) -> None:
        """`arguments` are those that came with the name of the call."""
        self._arguments: Json = arguments if isinstance(arguments, dict) else {}
        self._path = ""
        """That of the text which is growing."""
        self._texts: list[str] = []

    def add(self, piece: Mapping[str, Any]) -> None:
        """Set the value of a piece, or add its text to that which is there. Raises PathRefused."""
        path = piece.get("jsonPath")
        if not isinstance(path, str):
            raise PathRefused("no path")
        name = next((name for name in _VALUES if name in piece), None)
        if name is None:
            return  # the end of a value
        value = None if name == "nullValue" else piece[name]
        if not isinstance(value, str):
            self._end_text()
            _put(self._arguments, path, value)
            return
        if path != self._path:
            self._end_text()
            self._path = path
        self._texts.append(value)

    def finish(self) -> Json:
        """Return the arguments. Raises PathRefused."""
        self._end_text()
        return self._arguments

    def _end_text(self) -> None:
        if self._texts:
            text, self._texts = "".join(self._texts), []
            _put(self._arguments, self._path, text)
        self._path = ""


def _put(arguments: Json, path: str, value: Any) -> None:
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
    if step > len(holder) + MAX_GAP:
        raise PathRefused(str(step))
    holder += [None] * (step + 1 - len(holder))
    holder[step] = value
