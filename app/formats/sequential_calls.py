"""Puts the parallel calls of a reply one after the other, for formats that have one thing open at a time.

A model server may send fragments of several calls in turn. Anthropic's Messages and OpenAI's Responses have one block
or item after the other, and clients lose calls that overlap (LangChain) or their deltas (Codex). So what follows a call
is held back until that call is whole JSON, or until the reply ends.
"""

from collections import deque

from app.chat.accumulator import JsonEnd, is_json
from app.chat.events import (
    CallEnd,
    Event,
    Extra,
    Failed,
    Finish,
    Passed,
    PassedEnd,
    TextDelta,
    TokenLogprobs,
    ToolCallDelta,
    TurnEnd,
)


class SequentialCallsStage:
    def __init__(self) -> None:
        self._passes = False
        """The reply has the server's own events, whose order stays."""
        self._open = -1
        """The call that is open; -1 if there is none."""
        self._texts: list[str] = []
        """The arguments of the open call."""
        self._end = JsonEnd()
        self._is_whole: bool | None = None
        """Whether the arguments of the open call are one JSON object, list or string, which cannot go on; None while
        such a value has not ended."""
        self._closed: set[int] = set()
        """The calls that were whole when something followed them. What still comes of them is dropped."""
        self._held: list[Event] = []
        self._held_calls: set[int] = set()
        """The calls of which `_held` has arguments."""

    def feed(self, events: list[Event]) -> list[Event]:
        if self._passes or (events and type(events[0]) is Passed):
            return self._pass_on(events)
        if self._open < 0 and ToolCallDelta not in map(type, events):
            return events
        out: list[Event] = []
        waiting = deque(events)
        while waiting:
            self._feed_one(waiting.popleft(), waiting, out)
        return out

    def _pass_on(self, events: list[Event]) -> list[Event]:
        """Return the events as they are up to the end of the server's own, behind which an open call goes on."""
        self._passes = True
        for place, event in enumerate(events):
            if type(event) is ToolCallDelta:
                if event.index != self._open:
                    self._close()
                    self._open = event.index
                self._texts.append(event.arguments)
            elif type(event) is PassedEnd:
                self._passes = False
                texts, self._texts = self._texts, []
                for text in texts:
                    self._add_arguments(text)
                return [*events[: place + 1], *self.feed(events[place + 1 :])]
            elif self._open >= 0 and type(event) is not Passed:
                self._close()
        return events

    def _feed_one(self, event: Event, waiting: deque[Event], out: list[Event]) -> None:
        """Emit or hold back an event. Those that need no longer be held back go to the front of `waiting`."""
        if type(event) is ToolCallDelta and event.index in self._closed:
            return
        if type(event) is ToolCallDelta and (event.index == self._open or self._open < 0):
            self._open = event.index
            self._add_arguments(event.arguments)
            out.append(event)
            if self._held and self._is_whole:
                self._close()
                waiting.extendleft(reversed(self._take_held()))
        elif type(event) is Finish or type(event) is TurnEnd:
            self._flush(out)
            out.append(event)
        elif type(event) is CallEnd:
            if event.index == self._open:
                self._close()
                waiting.extendleft(reversed(self._take_held()))
            out.append(event)
        elif type(event) is Failed:
            self._take_held()
            out.append(event)
        elif self._open < 0 or (type(event) is Extra and event.index >= 0 and event.index not in self._held_calls):
            out.append(event)
        elif self._held or not self._is_whole:
            self._held.append(event)
            if type(event) is ToolCallDelta:
                self._held_calls.add(event.index)
        elif type(event) is TokenLogprobs or (type(event) is TextDelta and event.text.isspace()):
            out.append(event)
        else:
            self._close()
            waiting.appendleft(event)

    def _add_arguments(self, text: str) -> None:
        """Add arguments to the open call. Each text is scanned once, and all of them are decoded at most once."""
        self._texts.append(text)
        if self._is_whole is None:
            end = self._end.find(text)
            if end >= 0:
                self._is_whole = not text[end:].strip() and is_json("".join(self._texts))
        elif text.strip():
            self._is_whole = False

    def _close(self) -> None:
        self._closed.add(self._open)
        self._open = -1
        self._texts, self._end, self._is_whole = [], JsonEnd(), None

    def _take_held(self) -> list[Event]:
        held, self._held = self._held, []
        self._held_calls.clear()
        return held

    def _flush(self, out: list[Event]) -> None:
        """The reply or its turn ends: emit everything, with the fragments of each call together."""
        groups: list[list[Event]] = []
        calls: dict[int, list[Event]] = {}
        for event in self._take_held():
            if type(event) is ToolCallDelta and event.index not in calls:
                calls[event.index] = []
                groups.append(calls[event.index])
            if (type(event) is ToolCallDelta or type(event) is Extra) and event.index in calls:
                calls[event.index].append(event)
            else:
                groups.append([event])
        for group in groups:
            out += group
        self._close()
