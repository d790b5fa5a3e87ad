"""`ReplyLog`: a reply as a log. A source appends batches of events, and each reader reads from its own position.

A call in progress appends to its log while it is read.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from app.calls.codec import Batch, StoredEntry, dump
from app.calls.entry_builder import EntryBuilder
from app.chat.events import Event, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.stream import Receiver

BYTES_PER_TURN = 64 * 1024
"""See `LogLimits.batches_per_turn`."""
EVENT_BYTES = 120
"""The approximate size of an event besides its text."""

ReplyLocation: TypeAlias = tuple[Literal["flight", "entry"], str]
"""A call by its id, or a stored reply by its key and the time of its end."""


@dataclass(frozen=True, slots=True)
class LogLimits:
    max_bytes: int = 32 * 1024 * 1024
    """What is held of a reply for later readers. A longer reply can be neither joined nor stored nor resumed."""
    max_ahead_bytes: int = 8 * 1024 * 1024
    """What a call receives for other processes while no reader of this one can take more."""
    batches_per_turn: int = 64
    """A reader that is behind gets so many batches, or `BYTES_PER_TURN`, then other readers have their turn."""


LOG_LIMITS = LogLimits()


class LogSubscriber(Protocol):
    """Reads a log as it grows."""

    position: int
    """How many batches it has read, counted from the first batch of the reply."""

    def advance(self) -> None:
        """Called when the log has grown or ended. It raises nothing: the subscribers after it must be called too."""


class ReplyLog:
    """A log of one reply. `on_readers_changed` is called when a reader is added, removed, paused or resumed."""

    def __init__(
        self,
        on_readers_changed: Callable[[], None] | None = None,
        *,
        limits: LogLimits = LOG_LIMITS,
    ) -> None:
        self.limits = limits
        self.batches: list[Batch] = []
        self.first_batch = 0
        """How many batches were dropped from the front."""
        self.size = 0
        """The approximate size of the batches in bytes."""
        self.truncated = False
        """Whether the limit was exceeded. Batches that every reader has read are then dropped."""
        self.ended = False
        self.finished_at: float | None = None
        """The Unix time of the end, if the reply ended with a `Finish`."""
        self.defect: Exception | None = None
        """The exception that ended the reply, if a defect of the gateway did."""
        self.readers: dict[LogReader, None] = {}
        self._subscribers: dict[LogSubscriber, None] = {}
        self._on_readers_changed = on_readers_changed
        self._entry = EntryBuilder()

    @property
    def end_position(self) -> int:
        return self.first_batch + len(self.batches)

    @property
    def complete(self) -> bool:
        """Whether the log still has every batch."""
        return not self.truncated

    # Readers.

    def add_reader(self) -> "LogReader":
        """Return a new reader from the first batch."""
        reader = LogReader(self)
        self.readers[reader] = self._subscribers[reader] = None
        self.readers_changed()
        return reader

    def remove_reader(self, reader: "LogReader") -> None:
        """Remove a reader. May be called twice."""
        if reader in self.readers:
            del self.readers[reader], self._subscribers[reader]
            self.readers_changed()

    def readers_changed(self) -> None:
        if self._on_readers_changed is not None:
            self._on_readers_changed()

    def subscribe(self, subscriber: LogSubscriber) -> None:
        """Add a subscriber. It reads the log, but does not count as a reader."""
        self._subscribers[subscriber] = None

    def unsubscribe(self, subscriber: LogSubscriber) -> None:
        self._subscribers.pop(subscriber, None)

    def notify(self) -> None:
        """Call `advance` of all subscribers."""
        for subscriber in list(self._subscribers):
            subscriber.advance()

    # The source.

    def append(self, at: float, batches: Sequence[list[Event]]) -> None:
        for events in batches:
            batch = Batch(at, events)
            self.batches.append(batch)
            self.size += events_size(events)
            if not self.truncated:
                self._entry.add(batch, self.size)
        if self.size > self.limits.max_bytes:
            self.truncated = True
            self._entry = EntryBuilder()  # frees what it holds

    def end(self) -> None:
        """End the log. Changes of its readers are not reported any more."""
        self.ended = True
        self._on_readers_changed = None

    def is_cacheable(self, *, length: bool) -> bool:
        """Whether the reply may be stored. See `EntryBuilder.is_cacheable`."""
        return self.complete and self._entry.is_cacheable(length=length)

    def dump(self) -> bytes:
        """Encode the reply for a store. Takes long if it is large. Raises NotEncodable."""
        entry = self.make_entry()
        return self._entry.build(entry.created) or dump(entry)

    def make_entry(self) -> StoredEntry:
        return StoredEntry(self.finished_at or 0.0, self.batches)

    def trim(self) -> None:
        """Drop the batches that all subscribers have read."""
        first = min((subscriber.position for subscriber in self._subscribers), default=self.end_position)
        dropped = self.batches[: first - self.first_batch]
        del self.batches[: first - self.first_batch]
        self.first_batch = first
        self.size -= sum(events_size(batch.events) for batch in dropped)


class LogReader:
    """A reader of a log, with its position. It implements `Reply`."""

    fallback_model: str | None = None
    __slots__ = ("_log", "_receiver", "_turn", "paused", "position")

    def __init__(self, log: ReplyLog) -> None:
        self._log = log
        self._receiver: Receiver | None = None
        self._turn: asyncio.Handle | None = None
        self.paused = False
        self.position = log.first_batch

    def start(self, receiver: Receiver) -> None:
        if self in self._log.readers:
            self._receiver = receiver
            self.advance()

    def pause(self) -> None:
        self.paused = True
        self._log.readers_changed()

    def resume(self) -> None:
        self.paused = False
        self.advance()
        self._log.readers_changed()

    def tick(self, now: float) -> None:
        """Nothing to do: the call ticks its source itself, because it may outlive its readers."""

    def close(self) -> None:
        self._receiver = None
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self._log.remove_reader(self)

    def advance(self) -> None:
        """Give the receiver the next batches. The next turn is scheduled first, because the receiver may pause or
        close. A receiver that raises gets its own exception, and nothing after it."""
        receiver, log = self._receiver, self._log
        if receiver is None or self.paused or self._turn is not None:
            return
        start = self.position - log.first_batch
        unread = len(log.batches) - start
        try:
            if unread == 1:
                self.position += 1
                receiver.on_events(log.batches[start].events)
            elif unread:
                group = self._next_group(start)
                if len(group) < unread:
                    self._turn = asyncio.get_running_loop().call_soon(self._take_turn)
                receiver.on_batches(group)
        except Exception as error:  # of this receiver: the others go on
            self._receiver = None
            receiver.on_crash(error)
            return
        if log.ended and self.position == log.end_position and self._receiver is receiver:
            self._receiver = None
            if log.defect is not None:
                receiver.on_crash(log.defect)

    def _next_group(self, start: int) -> list[list[Event]]:
        log = self._log
        group = [batch.events for batch in log.batches[start : start + log.limits.batches_per_turn]]
        if log.size > BYTES_PER_TURN:
            del group[count_for_turn(group) :]
        self.position += len(group)
        return group

    def _take_turn(self) -> None:
        self._turn = None
        self.advance()


def count_for_turn(group: Sequence[list[Event]]) -> int:
    """Return how many batches of the group are read in one turn, because they have BYTES_PER_TURN."""
    size = 0
    for count, events in enumerate(group, 1):
        size += events_size(events)
        if size >= BYTES_PER_TURN:
            return count
    return len(group)


def events_size(events: list[Event]) -> int:
    """Return the approximate size of events in memory, in bytes."""
    total = EVENT_BYTES * len(events)
    for event in events:
        if type(event) is TextDelta or type(event) is ReasoningDelta:
            total += len(event.text)
        elif type(event) is ToolCallDelta:
            total += len(event.arguments)
        elif type(event) is MediaOutput:
            total += len(event.url)
    return total
