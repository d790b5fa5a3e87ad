"""The shape of everything that a reply passes through: a plain synchronous machine that is fed and closed.

A stage takes what one read brought and gives back what can be passed on; it never waits, never looks ahead and holds
back only what it must. Several in a row are a `Pipe`, which is a stage itself.
"""

from collections.abc import Sequence
from typing import Protocol

from app.chat.events import Event


class Stage(Protocol):
    def feed(self, events: list[Event]) -> list[Event]:
        """What follows from these events. The list that came in may be returned, but is not changed."""

    def close(self) -> list[Event]:
        """What was still held when no terminal event came."""


class Pipe:
    """Stages in a row. What closing one of them yields still goes through those behind it."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = tuple(stages)

    def feed(self, events: list[Event]) -> list[Event]:
        for stage in self._stages:
            if not events:
                break
            events = stage.feed(events)
        return events

    def close(self) -> list[Event]:
        held: list[Event] = []
        for stage in self._stages:
            held = (stage.feed(held) if held else []) + stage.close()
        return held
