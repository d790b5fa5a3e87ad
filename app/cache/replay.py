"""A kept reply told again, in the pieces in which it came.

There is one machine for both paces: every batch has a time at which it is due, and as fast as possible means that all
of them are due at once. Long replies are told in groups, a turn of the loop for each, so that no other reply waits.
"""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

from app.cache.codec import Batch
from app.chat.events import Event, Failed, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.stream import Receiver

Pace: TypeAlias = Literal["fast", "original"]

MAX_BATCHES = 64
MAX_CHARACTERS = 64 * 1024
"""A group ends with the batch that reaches either bound."""
MAX_GAP_SECONDS = 10.0
"""At the original pace no silence is longer, whatever the model server's was."""
TIMER_SECONDS = 0.001
"""How much too early a loop's timer may come."""


class ReplayedReply:
    """A `Reply`. The first batch is told at once; at the original pace the others follow at the distances in which
    they came. A pause holds back what falls due meanwhile and moves nothing that comes later."""

    def __init__(self, batches: Sequence[Batch], pace: Pace = "fast") -> None:
        self._batches = batches
        self._due = _timetable(batches) if pace == "original" else [0.0] * len(batches)
        self._next = 0
        self._receiver: Receiver | None = None
        self._paused = False
        self._over = False
        self._begun_at = 0.0
        self._turn: asyncio.Handle | None = None

    def start(self, receiver: Receiver) -> None:
        if self._over:
            return
        self._loop = asyncio.get_running_loop()
        if not _ended(self._batches):
            receiver.on_crash(ValueError("a kept reply that has no end"))
            return
        self._receiver = receiver
        self._begun_at = self._loop.time()
        if not self._paused:
            self._tell()

    def pause(self) -> None:
        self._paused = True
        self._cancel()

    def resume(self) -> None:
        self._paused = False
        if self._receiver is not None and self._turn is None:
            self._turn = self._loop.call_soon(self._tell)

    def tick(self, now: float) -> None:
        """A kept reply is never late."""

    def close(self) -> None:
        self._cancel()
        self._over = True
        self._receiver = None
        self._batches = ()

    def _cancel(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    def _tell(self) -> None:
        """The next group. Whoever is told may pause or close meanwhile: what is to come is settled before."""
        self._turn = None
        receiver = self._receiver
        assert receiver is not None
        group = self._group(self._loop.time() - self._begun_at)
        if self._next == len(self._batches):
            self.close()
        else:
            self._turn = self._loop.call_at(self._begun_at + self._due[self._next], self._tell)
        if group:
            receiver.on_batches(group)

    def _group(self, elapsed: float) -> list[list[Event]]:
        group: list[list[Event]] = []
        size = 0
        while self._next < len(self._batches) and self._due[self._next] <= elapsed + TIMER_SECONDS:
            events = self._batches[self._next].events
            group.append(events)
            self._next += 1
            size += sum(map(_characters, events))
            if len(group) >= MAX_BATCHES or size >= MAX_CHARACTERS:
                break
        return group


def _timetable(batches: Sequence[Batch]) -> list[float]:
    """When each batch is due, in seconds since the first."""
    due = [0.0]
    for before, batch in pairwise(batches):
        due.append(due[-1] + min(max(batch.at - before.at, 0.0), MAX_GAP_SECONDS))
    return due


def _ended(batches: Sequence[Batch]) -> bool:
    return bool(batches) and bool(batches[-1].events) and type(batches[-1].events[-1]) in (Finish, Failed)


def _characters(event: Event) -> int:
    if type(event) is TextDelta or type(event) is ReasoningDelta:
        return len(event.text)
    if type(event) is MediaOutput:
        return len(event.url)
    return len(event.arguments) if type(event) is ToolCallDelta else 0
