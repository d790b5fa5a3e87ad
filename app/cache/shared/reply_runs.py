"""A reply as runs: a thought, a text, a call, numbered in the order in which they begin.

As in messages, a call can grow until the reply ends, anything else only until the next run begins.
"""

from collections.abc import Iterable
from typing import TypeAlias

from app.chat.events import Event, Extra, Failed, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta

Words: TypeAlias = ReasoningDelta | TextDelta | ToolCallDelta | MediaOutput


class RunTracker:
    """Where in a reply each event stands."""

    def __init__(self) -> None:
        self.count = 0
        self.open = -1
        """The run that the next words of its kind belong to; -1 behind the beginning of a call."""
        self._kind: object = None
        self._calls: dict[int, int] = {}

    def run_of(self, event: Words | Extra) -> int:
        """Its run. What belongs to a run that is still to come has that one's number."""
        if isinstance(event, ToolCallDelta):
            return self._call(event.index)
        if isinstance(event, Extra):
            at = self._calls.get(event.index, -1) if event.index >= 0 else self.open
            return self.count if at < 0 else at
        if isinstance(event, MediaOutput):
            self.open = -1
            return self._begin()
        kind = kind_of(event)
        if self.open < 0 or kind != self._kind:
            self.open, self._kind = self._begin(), kind
        return self.open

    def _call(self, index: int) -> int:
        at = self._calls.get(index)
        if at is None:
            at = self._calls[index] = self._begin()
            self.open = -1
        return at

    def _begin(self) -> int:
        self.count += 1
        return self.count - 1


class ReplyRun:
    """One that was told, and how much of it was repeated."""

    def __init__(self) -> None:
        self.kind: object = None
        """None: nothing of it was told but extras."""
        self.text = ""
        self.extras: list[Extra] = []
        self.begun = False
        self.repeated = 0
        self.extras_repeated = 0

    @property
    def done(self) -> bool:
        begun = self.begun or self.kind is None
        return begun and self.repeated == len(self.text) and self.extras_repeated == len(self.extras)


class ReplyRuns:
    """Everything that was told of a reply before it broke off."""

    def __init__(self, batches: Iterable[list[Event]]) -> None:
        self.runs: dict[int, ReplyRun] = {}
        self.ids: set[str] = set()
        self.tracker = RunTracker()
        pieces: dict[int, list[str]] = {}
        for events in batches:
            for event in events:
                if not isinstance(event, Finish | Failed):
                    self._add(event, pieces)
        for at, texts in pieces.items():
            self.runs[at].text = "".join(texts)

    def _add(self, event: Words | Extra, pieces: dict[int, list[str]]) -> None:
        at = self.tracker.run_of(event)
        run = self.runs.setdefault(at, ReplyRun())
        if isinstance(event, Extra):
            run.extras.append(event)
            return
        if run.kind is None:
            run.kind = kind_of(event)
        pieces.setdefault(at, []).append(text_of(event))
        if isinstance(event, ToolCallDelta) and event.id:
            self.ids.add(event.id)


def kind_of(event: Words) -> object:
    if isinstance(event, TextDelta):
        return "refusal" if event.refusal else "text"
    if isinstance(event, MediaOutput):
        return event.media
    return (event.index, event.name) if isinstance(event, ToolCallDelta) else "reasoning"


def text_of(event: Words) -> str:
    if isinstance(event, MediaOutput):
        return event.url
    return event.arguments if isinstance(event, ToolCallDelta) else event.text


def cut(event: Words, start: int) -> Words:
    """Without the first characters, and for a call that is known already."""
    if isinstance(event, ToolCallDelta):
        return ToolCallDelta(event.index, event.arguments[start:])
    if isinstance(event, TextDelta):
        return TextDelta(event.text[start:], event.refusal)
    assert isinstance(event, ReasoningDelta), "media are told whole or not at all"
    return ReasoningDelta(event.text[start:])
