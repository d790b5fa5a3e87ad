"""Repairs tool call arguments that are invalid JSON (`generate_cfg.repair_arguments`).

Only at the end of the reply is it known that arguments are invalid, and sent deltas cannot be taken back. So the name
of a call is passed on at once, and its arguments at the end of the reply.
"""

import json
import re

import json_repair

from app.chat.accumulator import is_json
from app.chat.events import Event, Extra, Failed, Finish, ToolCallDelta

MAX_NESTING = 100
"""What is nested more deeply is not repaired: that takes much time for nothing."""
_BRACKET = re.compile(r"[\[\]{}]")
_CLOSING = {"[": "]", "{": "}"}


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
        for index, fragments in self._held.items():
            raw = "".join(fragments)
            text = repair(raw) if repaired else None
            if raw or text:
                out.append(ToolCallDelta(index, raw if text is None else text))
            if text is not None:
                out.append(Extra({"repaired": True, "raw_arguments": raw}, index))
        self._held.clear()


def repair(text: str) -> str | None:
    """Return the arguments as a JSON object, or None if they are valid JSON or cannot be repaired."""
    if is_json(text) or _nesting(text) > MAX_NESTING:
        return None
    try:
        value = json_repair.loads(text)
    except (ValueError, RecursionError):  # pragma: no cover - no input is known for which the library raises
        return None
    if not isinstance(value, dict) or (not value and text.strip(" \t\r\n{}")):
        return None
    return json.dumps(value, ensure_ascii=False)


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
