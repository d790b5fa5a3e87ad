"""The stage that runs a grammar: it separates the calls in the content of a reply from the prose.

Once a structured call arrives, the content is no longer parsed, because the server parses its model's calls itself. Its
calls are numbered after those that were found before.
"""

from collections.abc import Sequence
from msgspec.structs import replace

from app.chat.events import Event, Extra, Finish, TextDelta, ToolCallDelta
from app.chat.messages import Tool
from app.steps.tool_parsers.family import Grammar
from app.steps.tool_parsers.parser import ParseState


class CallStage:
    def __init__(self, reply_id: str, tools: Sequence[Tool], grammar: Grammar) -> None:
        self._state = ParseState(reply_id, tools)
        self._steps = grammar(self._state)
        self._passing = False
        self._numbers: dict[int, int] = {}
        next(self._steps)

    def feed(self, events: list[Event]) -> list[Event]:
        state = self._state
        if self._passing and not state.calls:
            return events
        out = state.out = []
        for event in events:
            if type(event) is TextDelta and not event.refusal and not self._passing:
                if state.is_prose(event.text):
                    out.append(event)
                elif not state.continue_string(event.text):
                    state.add_text(event.text)
                    next(self._steps)
            elif type(event) is Extra:
                number = self._numbers.get(event.index, event.index)
                out.append(event if number == event.index else Extra(event.fields, number))
            else:
                self._flush()
                out.append(self._convert_event(event))
        return out

    def _flush(self) -> None:
        """End the buffered text before an event that is not text. What comes before all text, such as reasoning, does
        not end it: some grammars read calls at its beginning only."""
        state = self._state
        if not state.idle and not self._passing and (state.text or state.position):
            state.ended = True
            next(self._steps)
            state.ended = False

    def _convert_event(self, event: Event) -> Event:
        if type(event) is ToolCallDelta:
            return self._renumber_call(event)
        if type(event) is not Finish:
            return event
        if event.reason == "stop" and self._state.calls > len(self._numbers):
            event = replace(event, reason="tool_calls")
        return replace(event, cacheable=False) if self._state.exhausted else event

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
