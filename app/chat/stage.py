"""The shape of everything that a reply passes through: a plain synchronous machine that is fed.

A stage takes what one read brought and gives back what can be passed on; it never waits, never looks ahead and holds
back only what it must, and nothing behind the terminal event with which every reply ends. Several in a row are a
`Pipe`, which is a stage itself.
"""

from collections.abc import Sequence
from typing import Protocol

from app.chat.events import Event


class Stage(Protocol):
    def feed(self, events: list[Event]) -> list[Event]:
        """What follows from these events. The list that came in may be returned, but is not changed."""


class Pipe:
    """Stages in a row."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = tuple(stages)

    def feed(self, events: list[Event]) -> list[Event]:
        for stage in self._stages:
            if not events:
                break
            events = stage.feed(events)
        return events
