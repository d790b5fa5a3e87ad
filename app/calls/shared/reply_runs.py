"""Divide a reply into runs: reasoning, text, media, tool calls, numbered in the order in which they begin.

A call can grow until the reply ends, any other run only until the next one begins, as with messages.
"""

from collections.abc import Iterable
from typing import TypeAlias

from app.chat.events import End, Event, Extra, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta

ContentEvent: TypeAlias = ReasoningDelta | TextDelta | ToolCallDelta | MediaOutput


class RunTracker:
    """Finds the run to which each event of a reply belongs."""

    def __init__(self) -> None:
        self.count = 0
        self.open = -1
        """The run to which the next text of the same kind belongs; -1 after the beginning of a call."""
        self._kind: object = None
        self._calls: dict[int, int] = {}

    def find_run(self, event: ContentEvent | Extra) -> int:
        """Return the number of the event's run. An `Extra` may belong to a run that has not begun yet."""
        if isinstance(event, ToolCallDelta):
            return self._call(event.index)
        if isinstance(event, Extra):
            at = self._calls.get(event.index, -1) if event.index >= 0 else self.open
            return self.count if at < 0 else at
        if isinstance(event, MediaOutput):
            self.open = -1
            return self._begin()
        kind = get_kind(event)
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
    """One run of the broken reply, and how much of it the new reply has repeated."""

    def __init__(self) -> None:
        self.kind: object = None
        """None: the run has only extras so far."""
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
    """All runs of a reply up to the place where it broke off."""

    def __init__(self, batches: Iterable[list[Event]]) -> None:
        self.runs: dict[int, ReplyRun] = {}
        self.ids: set[str] = set()
        self.tracker = RunTracker()
        fragments: dict[int, list[str]] = {}
        for events in batches:
            for event in events:
                if not isinstance(event, End):
                    self._add(event, fragments)
        for at, texts in fragments.items():
            self.runs[at].text = "".join(texts)

    def _add(self, event: ContentEvent | Extra, fragments: dict[int, list[str]]) -> None:
        at = self.tracker.find_run(event)
        run = self.runs.setdefault(at, ReplyRun())
        if isinstance(event, Extra):
            run.extras.append(event)
            return
        if run.kind is None:
            run.kind = get_kind(event)
        fragments.setdefault(at, []).append(get_text(event))
        if isinstance(event, ToolCallDelta) and event.id:
            self.ids.add(event.id)


def get_kind(event: ContentEvent) -> object:
    if isinstance(event, TextDelta):
        return "refusal" if event.refusal else "text"
    if isinstance(event, MediaOutput):
        return event.media
    return (event.index, event.name) if isinstance(event, ToolCallDelta) else "reasoning"


def get_text(event: ContentEvent) -> str:
    if isinstance(event, MediaOutput):
        return event.url
    return event.arguments if isinstance(event, ToolCallDelta) else event.text


def skip_text(event: ContentEvent, start: int) -> ContentEvent:
    """Return the event without its first characters. A call's event keeps only its index and arguments."""
    if isinstance(event, ToolCallDelta):
        return ToolCallDelta(event.index, event.arguments[start:])
    if isinstance(event, TextDelta):
        return TextDelta(event.text[start:], event.refusal)
    assert isinstance(event, ReasoningDelta), "a media event has no parts"
    return ReasoningDelta(event.text[start:])
