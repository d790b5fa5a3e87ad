"""A call that the caller demanded and the model did not make: the reply says so, and is not kept.

Servers differ in what they do with `tool_choice`: some ignore it, or a part of it, without a word.
"""

from typing import Any

from msgspec.structs import replace

from app.chat.events import Event, Finish, ToolCallDelta
from app.chat.messages import ChatRequest


def find_demanded_function(request: ChatRequest) -> str | None:
    """The function that must be called, "" for any of them; None where none must be."""
    params = request.params
    first = params.get("function_choice")
    choice: Any = params.get("tool_choice") if first is None else first
    if not request.tools or choice is None or choice in ("auto", "none"):
        return None
    if isinstance(choice, dict):
        function = choice.get("function")
        return str(function.get("name")) if isinstance(function, dict) else None
    return "" if choice == "required" else str(choice)


class DemandedCallStage:
    """The last stage: it sees the calls as the caller does."""

    def __init__(self, name: str) -> None:
        """`name`: the function that must be called, "" for any."""
        self._name = name
        self._met = False

    def feed(self, events: list[Event]) -> list[Event]:
        for event in events:
            if type(event) is ToolCallDelta and event.name and self._name in ("", event.name):
                self._met = True
        last = events[-1] if events else None
        if type(last) is not Finish or self._met:
            return events
        what = f"a call of {self._name!r}" if self._name else "a call"
        warning = f"function_choice demands {what}, which the model did not make"
        return [*events[:-1], replace(last, warnings=(*last.warnings, warning), cacheable=False)]
