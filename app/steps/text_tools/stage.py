"""The reply half of every grammar: text goes through it, calls come out beside the prose.

As soon as a structured call arrives, text is text: the server reads its model's calls itself. Its calls are numbered
behind those that were found before.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from app.chat.events import CallDelta, Event, Extra, Finish, TextDelta
from app.chat.messages import Tool
from app.steps.text_tools.cursor import Steps
from app.steps.text_tools.reading import Reading

Grammar: TypeAlias = Callable[[Reading], Steps]


class CallStage:
    def __init__(self, reply_id: str, tools: Sequence[Tool], grammar: Grammar) -> None:
        self._reading = Reading(reply_id, tools)
        self._steps = grammar(self._reading)
        self._passing = False
        self._numbers: dict[int, int] = {}
        next(self._steps)

    def feed(self, events: list[Event]) -> list[Event]:
        reading = self._reading
        if self._passing and not reading.calls:
            return events
        out = reading.out = []
        for event in events:
            if type(event) is TextDelta and not event.refusal and not self._passing:
                if reading.idle and reading.leads.isdisjoint(event.text):
                    out.append(event)
                else:
                    reading.text += event.text
                    next(self._steps)
            elif type(event) is Extra:
                number = self._numbers.get(event.index, event.index)
                out.append(event if number == event.index else Extra(event.fields, number))
            else:
                self._flush()
                out.append(self._judged(event))
        return out

    def _flush(self) -> None:
        """Anything but text ends what is held."""
        reading = self._reading
        if not reading.idle and not self._passing:
            reading.ended = True
            next(self._steps)
            reading.ended = False

    def _judged(self, event: Event) -> Event:
        if type(event) is CallDelta:
            return self._structured(event)
        found = self._reading.calls > len(self._numbers)
        if type(event) is Finish and event.reason == "stop" and found:
            return replace(event, reason="tool_calls")
        return event

    def _structured(self, event: CallDelta) -> CallDelta:
        self._passing = True
        if event.index not in self._numbers and not self._reading.calls:
            return event
        number = self._numbers.get(event.index)
        if number is None:
            number, id_ = self._reading.next_call(event.id)
            self._numbers[event.index] = number
            return CallDelta(number, event.arguments, id_, event.name)
        return CallDelta(number, event.arguments, event.id, event.name)
