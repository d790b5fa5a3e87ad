"""The reply half of every grammar: text goes through it, calls come out beside the prose.

As soon as a structured call arrives, text is text: the server reads its model's calls itself. Its calls are numbered
behind those that were found before.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from app.chat.events import Event, Extra, Finish, TextDelta, ToolCallDelta
from app.chat.messages import Tool
from app.steps.tool_parsers.cursor import Steps
from app.steps.tool_parsers.parser import ParseState

Grammar: TypeAlias = Callable[[ParseState], Steps]


class CallStage:
    def __init__(self, reply_id: str, tools: Sequence[Tool], grammar: Grammar) -> None:
        self._state = ParseState(reply_id, tools)
        self._steps = grammar(self._state)
        self._passing = False
        self._numbers: dict[int, int] = {}
        next(self._steps)

    def feed(self, events: list[Event]) -> list[Event]:
        reading = self._state
        if self._passing and not reading.calls:
            return events
        out = reading.out = []
        for event in events:
            if type(event) is TextDelta and not event.refusal and not self._passing:
                if reading.idle and reading.marker_starts.isdisjoint(event.text):
                    out.append(event)
                else:
                    reading.text += event.text
                    next(self._steps)
            elif type(event) is Extra:
                number = self._numbers.get(event.index, event.index)
                out.append(event if number == event.index else Extra(event.fields, number))
            else:
                self._flush()
                out.append(self._convert_event(event))
        return out

    def _flush(self) -> None:
        """Anything but text ends what is held."""
        reading = self._state
        if not reading.idle and not self._passing:
            reading.ended = True
            next(self._steps)
            reading.ended = False

    def _convert_event(self, event: Event) -> Event:
        if type(event) is ToolCallDelta:
            return self._renumber_call(event)
        found = self._state.calls > len(self._numbers)
        if type(event) is Finish and event.reason == "stop" and found:
            return replace(event, reason="tool_calls")
        return event

    def _renumber_call(self, event: ToolCallDelta) -> ToolCallDelta:
        self._passing = True
        if event.index not in self._numbers and not self._state.calls:
            return event
        number = self._numbers.get(event.index)
        if number is None:
            number, id_ = self._state.next_call(event.id)
            self._numbers[event.index] = number
            return ToolCallDelta(number, event.arguments, id_, event.name)
        return ToolCallDelta(number, event.arguments, event.id, event.name)
