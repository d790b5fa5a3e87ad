"""The interface of the steps that a reply passes through: a synchronous function from events to events, with state.

A stage receives the events of one read and returns the events that can be passed on. It never waits or looks ahead,
buffers only what it must, and buffers nothing after the terminal event, with which every reply ends. A `Pipe` is a
sequence of stages, and itself a stage.
"""

from collections.abc import Sequence
from typing import Protocol

from app.chat.events import END_TYPES, Event


class Stage(Protocol):
    def feed(self, events: list[Event]) -> list[Event]:
        """Return the resulting events. The argument may be returned, but is not modified."""


class Pipe:
    """Runs stages one after the other."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = tuple(stages)

    def feed(self, events: list[Event]) -> list[Event]:
        for stage in self._stages:
            if not events:
                break
            events = stage.feed(events)
        return events


def feed_to_end(stage: Stage, batches: Sequence[list[Event]]) -> list[list[Event]]:
    """Feed the batches to a stage, and return its own. A stage may end the reply before its last batch: then what comes
    after that is left out."""
    out: list[list[Event]] = []
    for events in batches:
        fed = stage.feed(events)
        out.append(fed)
        if fed and type(fed[-1]) in END_TYPES:
            break
    return out
