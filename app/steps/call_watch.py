"""Passes on the texts of a reply in which nothing is to be looked at, and gives all others to the stage of calls.

There is a text for every token. This is what is done for nearly all of them, so this module is compiled.
"""

import re
from typing import Protocol

from app.chat.events import Event, ReasoningDelta, TextDelta, ToolCallDelta

_MOST = 500
"""So many texts are passed on before the stage learns of them."""
_find_in_arguments = re.compile(r"[<`\\]|\}\s*(?:\Z|[{}])").search


class WatchedStage(Protocol):
    """A stage that says what may pass without it."""

    passes_text: bool
    """Texts without a marker's first character."""
    passes_reasoning: bool
    """Reasoning without `<`."""
    passes_arguments: int
    """The index of the call whose arguments pass if they have no `<`, backtick or backslash, and no `}` at the end or
    before a brace; -1 if there is none."""

    @property
    def marker_starts(self) -> re.Pattern[str]: ...

    def feed(self, events: list[Event]) -> list[Event]: ...

    def skip(self, texts: list[str], arguments: list[str]) -> None:
        """These have passed since the last `feed`."""


class CallWatch:
    def __init__(self, stage: WatchedStage) -> None:
        self._stage = stage
        self._texts: list[str] = []
        self._arguments: list[str] = []
        self._find = stage.marker_starts.search
        self._passes_text = False
        self._passes_reasoning = stage.passes_reasoning
        self._passes_arguments = -1

    def feed(self, events: list[Event]) -> list[Event]:
        for event in events:
            if type(event) is TextDelta:
                if self._passes_text and self._find(event.text) is None and not event.refusal:
                    self._texts.append(event.text)
                    if len(self._texts) < _MOST:
                        continue
            elif type(event) is ReasoningDelta:
                if self._passes_reasoning and "<" not in event.text and event.text[-1:] != "]":
                    continue
            elif type(event) is ToolCallDelta and self._passes_call(event):
                self._arguments.append(event.arguments)
                if len(self._arguments) < _MOST:
                    continue
            return self._give(events, event)
        return events

    def _passes_call(self, event: ToolCallDelta) -> bool:
        passes = event.index == self._passes_arguments and not event.name
        return passes and _find_in_arguments(event.arguments) is None

    def _give(self, events: list[Event], first: Event) -> list[Event]:
        """Give the events to the stage from the first one on that does not pass."""
        stage = self._stage
        count = 0
        while events[count] is not first:
            count += 1
        if type(first) is TextDelta and len(self._texts) == _MOST:
            self._texts.pop()
        elif type(first) is ToolCallDelta and len(self._arguments) == _MOST:
            self._arguments.pop()
        if self._texts or self._arguments:
            stage.skip(self._texts, self._arguments)
            self._texts, self._arguments = [], []
        out = stage.feed(events[count:] if count else events)
        self._passes_text, self._passes_reasoning = stage.passes_text, stage.passes_reasoning
        self._passes_arguments = stage.passes_arguments
        return events[:count] + out if count else out
