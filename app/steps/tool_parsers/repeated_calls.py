"""Leaves out structured calls that repeat those of the text: servers stream what a model writes, and send the calls in
it once more at the end (Blaizzy/mlx-vlm#900)."""

import json

from app.chat.events import Extra, ToolCallDelta
from app.steps.tool_parsers.warnings import Warnings


class RepeatedCalls:
    """The calls of the text, and the structured ones behind them, which wait for the end of the reply."""

    def __init__(self, warnings: Warnings) -> None:
        self._warnings = warnings
        self._in_text: dict[int, list[ToolCallDelta]] = {}
        self._held: dict[int, list[ToolCallDelta | Extra]] = {}

    def add(self, event: ToolCallDelta) -> None:
        """Take a part of a call of the text."""
        self._in_text.setdefault(event.index, []).append(event)

    def hold(self, event: ToolCallDelta | Extra) -> bool:
        """Keep a part of a structured call, if the text had calls before it."""
        if type(event) is ToolCallDelta and self._in_text:
            self._held.setdefault(event.index, []).append(event)
        elif event.index in self._held:
            self._held[event.index].append(event)
        else:
            return False
        return True

    def take_others(self) -> list[ToolCallDelta | Extra]:
        """Return the parts of the calls that the text does not have. Each call of the text is repeated once at most."""
        known = [_read(events) for events in self._in_text.values()]
        out: list[ToolCallDelta | Extra] = []
        for events in self._held.values():
            call = _read(events)
            if call in known:
                known.remove(call)
                self._warnings.add("a function call that the model server sent as text and as a call counts once")
            else:
                out += events
        self._held = {}
        return out


def _read(events: "list[ToolCallDelta] | list[ToolCallDelta | Extra]") -> tuple[str, str]:
    """Return the name and the arguments of a call, so that they can be compared."""
    parts = [event for event in events if type(event) is ToolCallDelta]
    arguments = "".join(event.arguments for event in parts)
    try:
        arguments = json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        arguments = arguments.strip() or "{}"
    return "".join(event.name for event in parts), arguments
