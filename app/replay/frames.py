"""Compare two responses frame by frame. What is new in each reply, such as ids and times, is not compared."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

_TIMES = frozenset(("created", "created_at", "completed_at", "timestamp", "time", "age", "finished_at", "retry_after"))
_COSTS = frozenset(("cost", "cost_details", "upstream_cost"))
_ESTIMATED = frozenset(("prompt_tokens", "total_tokens", "input_tokens", "estimated", "usage", "usageMetadata"))
_IDS = frozenset(
    (
        *(
            "id",
            "responseId",
            "full_message_id",
            "response_id",
            "request_id",
            "item_id",
            "message_id",
            "reply_id",
            "call_id",
            "tool_use_id",
            "block_id",
        ),
        *("session_id", "system_fingerprint", "signature", "encrypted_content", "obfuscation", "tool_call_id"),
    )
)


class Difference(Struct, frozen=True):
    """The first frame that differs, from 1; None where a response has no such frame."""

    number: int
    path: str
    recorded: str | None
    now: str | None


def split_frames(body: bytes) -> list[str]:
    """Return the frames of a stream without its comments; a whole response is one frame."""
    text = body.decode("utf-8", "replace").replace("\r\n", "\n")
    if not text.lstrip().startswith(("data:", "event:", "id:", ":", "retry:")):
        return [text] if text else []
    frames = ["\n".join(line for line in block.split("\n") if not line.startswith(":")) for block in text.split("\n\n")]
    return [frame for frame in frames if frame.strip()]


def compare(recorded: bytes, now: bytes, *, estimated: bool = False) -> Difference | None:
    """Return the first difference; None if there is none. With `estimated`, counts of tokens are no difference: the
    request that is sent again is not the same text."""
    comparison = _Comparison(_TIMES | _COSTS | (_ESTIMATED if estimated else frozenset()))
    before, after = split_frames(recorded), split_frames(now)
    for number in range(max(len(before), len(after))):
        one = before[number] if number < len(before) else None
        other = after[number] if number < len(after) else None
        if one is None or other is None:
            return Difference(number + 1, "", one, other)
        path = comparison.find_difference(one, other)
        if path is not None:
            return Difference(number + 1, path, one, other)
    return None


class _Comparison:
    def __init__(self, ignored: frozenset[str]) -> None:
        self._ignored = ignored
        self._ids: dict[str, str] = {}
        """The ids of the second response by those of the first one."""

    def find_difference(self, one: str, other: str) -> str | None:
        """Return the JSON path of the first difference of two frames; None if there is none."""
        wholes = _read_lines(one, other)
        if wholes is not None:  # a whole response may have several lines
            return next(self._compare_frames(*wholes), None)
        lines, others = one.split("\n"), other.split("\n")
        if len(lines) != len(others):
            return ""
        for line, changed in zip(lines, others, strict=True):
            found = next(self._compare_lines(line, changed), None)
            if found is not None:
                return found
        return None

    def _compare_lines(self, line: str, other: str) -> Iterator[str]:
        if line == other or line.startswith("id:"):
            return
        values = _read_lines(line, other)
        yield from [""] if values is None else self._compare_frames(*values)

    def _compare_frames(self, one: Any, other: Any) -> Iterator[str]:
        return self._compare_values(_leave_estimates(one), _leave_estimates(other), "")

    def _compare_values(self, one: Any, other: Any, path: str, name: str = "") -> Iterator[str]:
        if isinstance(one, dict) and isinstance(other, dict):
            yield from self._compare_objects(one, other, path)
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                yield path
            for number, (item, changed) in enumerate(zip(one, other, strict=False)):
                yield from self._compare_values(item, changed, f"{path}[{number}]", name)
        elif isinstance(one, str) and isinstance(other, str) and (objects := _read_objects(one, other)) is not None:
            yield from self._compare_values(objects[0], objects[1], path)
        elif isinstance(one, str) and isinstance(other, str) and (name in _IDS or one in self._ids):
            if self._ids.setdefault(one, other) != other:
                yield path
        elif type(one) is not type(other) or one != other:
            yield path

    def _compare_objects(self, one: Mapping[str, Any], other: Mapping[str, Any], path: str) -> Iterator[str]:
        for name in [*one, *(name for name in other if name not in one)]:
            if name in self._ignored:
                continue
            inner = f"{path}.{name}" if path else name
            if (name in one) is not (name in other):
                yield inner
            else:
                yield from self._compare_values(one[name], other[name], inner, name)


def _leave_estimates(value: Any) -> Any:
    """Return a frame without the usage that is an estimate in it: that of the first one on Messages, whose last one has
    the counts."""
    if (
        not isinstance(value, dict)
        or value.get("type") != "message_start"
        or not isinstance(value.get("message"), dict)
    ):
        return value
    return {**value, "message": {name: item for name, item in value["message"].items() if name != "usage"}}


def _read_objects(one: str, other: str) -> list[Any] | None:
    """Return the objects of two texts that are JSON, such as arguments and what a format seals; else None."""
    return _read_lines(one, other) if one != other and one[:1] == other[:1] == "{" else None


def _read_lines(*lines: str) -> list[Any] | None:
    """Return the JSON of lines; None if one has none."""
    try:
        return [json.loads(line.removeprefix("data:")) for line in lines]
    except (ValueError, RecursionError):
        return None
