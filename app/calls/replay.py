"""A reply that has ended, sent again: `Replay` as fast as its reader takes it, `PacedReplay` at its original pace."""

import asyncio
from collections.abc import Sequence
from typing import Literal, TypeAlias

from typing_extensions import override

from app.calls.codec import Batch
from app.calls.log import BYTES_PER_TURN, count_for_turn, events_size
from app.chat.event_runs import join_texts
from app.chat.events import Event
from app.chat.stream import Receiver

BATCHES_PER_TURN = 256
"""A reader gets so many batches, or `BYTES_PER_TURN`, then others have their turn. To encode them takes less than a
millisecond; each turn costs a write to the socket."""
MAX_GAP_SECONDS = 10.0
"""The longest pause between two batches at the original pace."""
TIMER_SECONDS = 0.001
"""How much too early a timer of the event loop may fire."""

Pace: TypeAlias = Literal["fast", "original"]
Turn: TypeAlias = Sequence[Sequence[list[Event]]]
"""The batches that a reader gets in one turn of the event loop, in parts."""


class Turns:
    """The turns of a reply. Each is made when it is first read: a long reply does not hold up the event loop."""

    def __init__(self, batches: Sequence[list[Event]], size: int, batches_per_turn: int = BATCHES_PER_TURN) -> None:
        """`size` is the approximate size of the batches in bytes."""
        self._batches = batches
        self._size = size
        self._batches_per_turn = batches_per_turn
        self._made: list[Turn] = []
        self._place = 0
        """How many batches are in the turns that were made."""

    def has(self, number: int) -> bool:
        return number < len(self._made) or self._place < len(self._batches)

    def get(self, number: int) -> Turn:
        """Return the turn of this number, from 0. The one before it was read."""
        if number == len(self._made):
            self._made.append(self._make_next())
        return self._made[number]

    def _make_next(self) -> Turn:
        group = self._batches[self._place : self._place + self._batches_per_turn]
        if self._size > BYTES_PER_TURN:
            group = group[: count_for_turn(group)]
        self._place += len(group)
        if self._place == len(self._batches):
            self._batches, self._place = [], 0  # the turns take less memory
        return join_texts(group)


class ReplayBase:
    """Implements `Reply`."""

    fallback_model: str | None = None
    _turn: asyncio.Handle | None = None
    _paused = False
    _closed = False

    def __init__(self, *, whole: bool) -> None:
        """Without `whole`, the last event of the reply is missing: the receiver gets a crash and no batch."""
        self._whole = whole
        self._receiver: Receiver | None = None

    def start(self, receiver: Receiver) -> None:
        if self._closed:
            return
        if not self._whole:
            receiver.on_crash(ValueError("a stored reply without its last event"))
            return
        self._receiver = receiver
        self._advance()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._advance()

    def tick(self, now: float) -> None:
        """Nothing to do: nothing is waited for that may fail to come."""

    def close(self) -> None:
        self._closed = True
        self._receiver = None
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    def _take_turn(self) -> None:
        self._turn = None
        self._advance()

    def _advance(self) -> None:
        receiver = self._receiver
        if receiver is None or self._paused or self._turn is not None:
            return
        try:
            self._deliver(receiver)
        except Exception as error:  # of the receiver, which would wait forever
            self._receiver = None
            receiver.on_crash(error)

    def _deliver(self, receiver: Receiver) -> None:
        """Give the receiver the next batches. The next turn is scheduled first, because the receiver may pause or
        close."""
        raise NotImplementedError


class Replay(ReplayBase):
    def __init__(self, turns: Turns, *, whole: bool) -> None:
        super().__init__(whole=whole)
        self._turns = turns
        self._number = 0
        """Of the next turn."""

    @override
    def _deliver(self, receiver: Receiver) -> None:
        if not self._turns.has(self._number):
            return
        parts = self._turns.get(self._number)
        self._number += 1
        if self._turns.has(self._number):
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)
        for part in parts:
            if self._receiver is receiver:
                receiver.on_batches(part)


class PacedReplay(ReplayBase):
    """Batches that become due during a pause come at once after it."""

    def __init__(self, batches: Sequence[Batch], *, whole: bool, batches_per_turn: int = BATCHES_PER_TURN) -> None:
        super().__init__(whole=whole)
        self._batches = batches
        self._batches_per_turn = batches_per_turn
        self._place = 0
        self._due = 0.0
        """When the next batch is due, in seconds after the start."""
        self._started_at = 0.0

    @override
    def start(self, receiver: Receiver) -> None:
        self._started_at = asyncio.get_running_loop().time()
        super().start(receiver)

    @override
    def _deliver(self, receiver: Receiver) -> None:
        group = self._take_due()
        if self._place < len(self._batches):
            self._turn = asyncio.get_running_loop().call_at(self._started_at + self._due, self._take_turn)
        if group:
            receiver.on_batches(group)

    def _take_due(self) -> list[list[Event]]:
        batches = self._batches
        elapsed = asyncio.get_running_loop().time() - self._started_at + TIMER_SECONDS
        group: list[list[Event]] = []
        size, place = 0, self._place
        while place < len(batches) and self._due <= elapsed and len(group) < self._batches_per_turn:
            batch = batches[place]
            group.append(batch.events)
            size += events_size(batch.events)
            place += 1
            if place < len(batches):
                self._due += min(max(batches[place].at - batch.at, 0.0), MAX_GAP_SECONDS)
            if size >= BYTES_PER_TURN:
                break
        self._place = place
        return group
