"""Detects that the caller required a tool call and the model made none: the reply gets a warning and is not cached.

Some servers silently ignore `tool_choice`, or some of its values.
"""

from typing import Any

from msgspec.structs import replace

from app.chat.events import Event, Finish, ToolCallDelta
from app.chat.messages import ChatRequest


def find_demanded_function(request: ChatRequest) -> str | None:
    """Return the function that must be called, "" for any function, or None if no call is required."""
    if not request.tools:
        return None
    params = request.params
    first = params.get("function_choice")
    choice: Any = params.get("tool_choice") if first is None else first
    if choice is None or choice in ("auto", "none"):
        return None
    if isinstance(choice, dict):
        function = choice.get("function")
        return str(function.get("name")) if isinstance(function, dict) else None
    return "" if choice == "required" else str(choice)


class DemandedCallStage:
    """Runs last, so that it sees the calls as the caller does."""

    def __init__(self, name: str) -> None:
        """`name` is the function that must be called; "" means any function."""
        self._name = name
        self._met = False

    def feed(self, events: list[Event]) -> list[Event]:
        for event in events:
            if type(event) is ToolCallDelta and event.name and self._name in ("", event.name):
                self._met = True
        last = events[-1] if events else None
        if type(last) is not Finish or self._met:
            return events
        required = f"a call of {self._name!r}" if self._name else "a call"
        warning = f"the request requires {required}, which the model did not make"
        return [*events[:-1], replace(last, warnings=(*last.warnings, warning), cacheable=False)]
