"""Puts the parallel calls of a reply one after the other, for formats that have one thing open at a time.

A model server may send fragments of several calls in turn. Anthropic's Messages and OpenAI's Responses tell one block
or item after the other, and clients lose calls that overlap (LangChain) or their deltas (Codex). So what follows a call
is held back until that call is whole JSON, or until the reply ends.
"""

from app.chat.accumulator import is_json
from app.chat.events import Event, Extra, Failed, Finish, TextDelta, ToolCallDelta

_SELF_DELIMITED = ("}", "]", '"')
"""How JSON ends that cannot go on; a number could."""


class SequentialCallsStage:
    def __init__(self) -> None:
        self._open = -1
        """The call that is open; -1 if there is none."""
        self._texts: list[str] = []
        """The arguments of the open call."""
        self._held: list[Event] = []

    def feed(self, events: list[Event]) -> list[Event]:
        if self._open < 0 and ToolCallDelta not in map(type, events):
            return events
        out: list[Event] = []
        for event in events:
            self._feed_one(event, out)
        return out

    def _feed_one(self, event: Event, out: list[Event]) -> None:
        if type(event) is ToolCallDelta and (event.index == self._open or self._open < 0):
            self._open = event.index
            self._texts.append(event.arguments)
            out.append(event)
            if self._held and self._is_whole():
                self._release(out)
        elif type(event) is Finish:
            self._flush(out)
            out.append(event)
        elif type(event) is Failed:
            self._held.clear()
            out.append(event)
        elif self._open < 0 or (type(event) is Extra and event.index >= 0 and not self._holds(event.index)):
            out.append(event)
        elif self._held or not self._is_whole():
            self._held.append(event)
        elif type(event) is TextDelta and event.text.isspace():
            out.append(event)
        else:
            self._close()
            self._feed_one(event, out)

    def _holds(self, index: int) -> bool:
        return any(type(event) is ToolCallDelta and event.index == index for event in self._held)

    def _is_whole(self) -> bool:
        if len(self._texts) > 1:
            self._texts = ["".join(self._texts)]
        text = self._texts[0]
        return text.rstrip().endswith(_SELF_DELIMITED) and is_json(text)

    def _close(self) -> None:
        self._open = -1
        self._texts = []

    def _release(self, out: list[Event]) -> None:
        """The open call is whole: emit what was held back, until another call is open and not whole."""
        self._close()
        held, self._held = self._held, []
        for event in held:
            self._feed_one(event, out)

    def _flush(self, out: list[Event]) -> None:
        """The reply ends: emit everything, with the fragments of each call together."""
        held, self._held = self._held, []
        while held:
            first = held[0]
            if type(first) is ToolCallDelta:
                out += (event for event in held if _is_of_call(event, first.index))
                held = [event for event in held if not _is_of_call(event, first.index)]
            else:
                out.append(held.pop(0))
        self._close()


def _is_of_call(event: Event, index: int) -> bool:
    return type(event) in (ToolCallDelta, Extra) and event.index == index  # type: ignore[union-attr]  # both have it
