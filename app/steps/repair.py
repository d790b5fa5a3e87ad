"""Repairs tool call arguments that are invalid JSON (`generate_cfg.repair_arguments`).

Only at the end of the reply is it known that arguments are invalid, and sent deltas cannot be taken back. So the name
of a call is passed on at once, and its arguments at the end of the reply.

The library reads some texts again and again: 20 KB of program code that was cut take it a second, and the time grows
with the square of the length. So all repairs of a reply share a number of characters that may be read.
"""

import re
from collections.abc import Callable
from typing import Any

import json_repair

from app.chat.accumulator import is_json
from app.chat.events import Event, Extra, Failed, Finish, ToolCallDelta
from app.steps.tool_parsers.calls import NotACall
from app.steps.tool_parsers.json_scanner import write_json

MAX_NESTING = 100
"""What is nested more deeply is not repaired: that takes much time for nothing."""
MAX_READS = 1_000_000
READS_PER_CHARACTER = 10
"""A repair that reads each character 10 times, and 1,000,000 more in a reply, is not completed. Most read each two or
three times. A million take about half a second."""
_BRACKET = re.compile(r"[\[\]{}()]")
_CLOSING = {"[": "]", "{": "}", "(": ")"}


class RepairStage:
    def __init__(self) -> None:
        self._held: dict[int, list[str]] = {}

    def feed(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if type(event) is ToolCallDelta:
                known = event.index in self._held
                self._held.setdefault(event.index, []).append(event.arguments)
                if not known:
                    out.append(ToolCallDelta(event.index, "", event.id, event.name))
                continue
            if type(event) is Finish:
                self._flush(out, repaired=True)
            elif type(event) is Failed:
                self._flush(out, repaired=False)
            out.append(event)
        return out

    def _flush(self, out: list[Event], *, repaired: bool) -> None:
        """Emit the buffered arguments. Those of a failed reply are not repaired."""
        reads = _Reads(MAX_READS)
        for index, fragments in self._held.items():
            raw = "".join(fragments)
            text = _repair(raw, reads) if repaired else None
            if raw or text:
                out.append(ToolCallDelta(index, raw if text is None else text))
            if text is not None:
                out.append(Extra({"repaired": True, "raw_arguments": raw}, index))
        self._held.clear()


class _TooManyReads(Exception):
    pass


class _Reads:
    """Counts the characters that may still be read."""

    def __init__(self, left: int) -> None:
        self._left = left

    def allow(self, count: int) -> None:
        self._left += count

    def spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _TooManyReads


class _CountedText(str):
    """A text that counts how often something is read from it. The library joins parts of it to a new text, which
    counts, too."""

    _spend: Callable[[], None]

    def __new__(cls, text: str, spend: Callable[[], None]) -> "_CountedText":
        counted = super().__new__(cls, text)
        counted._spend = spend
        return counted

    def __getitem__(self, place: Any) -> str:
        self._spend()
        found = super().__getitem__(place)
        return found if type(place) is int else _CountedText(found, self._spend)

    def __add__(self, other: str) -> str:
        return _CountedText(super().__add__(other), self._spend)


def _repair(text: str, reads: _Reads) -> str | None:
    """Return the arguments as a JSON object, or None if they are valid JSON or cannot be repaired."""
    if is_json(text) or _nesting(text) > MAX_NESTING:
        return None
    reads.allow(READS_PER_CHARACTER * len(text))
    try:
        value = json_repair.loads(_CountedText(text, reads.spend), skip_json_loads=True)
        if not isinstance(value, dict) or (not value and text.strip(" \t\r\n{}")):
            return None
        return write_json(value)
    except (_TooManyReads, NotACall, ValueError, RecursionError):
        return None


def _nesting(text: str) -> int:
    """How deeply brackets are nested. Those in strings count, too, and a bracket that closes another kind does not."""
    open_: list[str] = []
    deepest = 0
    for bracket in _BRACKET.findall(text):
        if bracket in _CLOSING:
            open_.append(bracket)
            deepest = max(deepest, len(open_))
        elif open_ and bracket == _CLOSING[open_[-1]]:
            open_.pop()
    return deepest
