"""A reply as a log: sources append batches of events to it, and readers consume it, each from a position of its own.

A call that is in progress appends to its log while it is read; a stored reply is a log that is finished.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from msgspec.structs import replace

from app.cache.codec import Batch
from app.chat.events import Event, Failed, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.stream import Receiver

BYTES_PER_TURN = 64 * 1024
"""See `LogLimits.batches_per_turn`."""
MAX_GAP_SECONDS = 10.0
"""At the original pace no silence is longer, whatever the model server's was."""
TIMER_SECONDS = 0.001
"""How much too early a timer of the loop may fire."""
_EVENT_BYTES = 120

Pace: TypeAlias = Literal["fast", "original"]
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
    """How many batches it has read, counted from the first that was ever appended."""

    def advance(self) -> None:
        """The log has grown, or has ended."""


class ReplyLog:
    """`on_readers_changed` is called when a reader was added or removed, paused or resumed. A log that is not kept
    holds only what its readers have not read."""

    def __init__(
        self,
        on_readers_changed: Callable[[], None] | None = None,
        *,
        keep: bool = True,
        limits: LogLimits = LOG_LIMITS,
    ) -> None:
        self.limits = limits
        self.batches: list[Batch] = []
        self.first_batch = 0
        """How many batches were dropped from the front."""
        self.size = 0
        """About how many bytes the batches take. A log that is not kept is not counted: its source waits for its
        reader."""
        self.truncated = not keep
        """Batches that every reader has read are dropped: the log is not kept, or it outgrew its limit."""
        self.ended = False
        self.finished_at: float | None = None
        """Unix time of its end, when it ended with a `Finish`."""
        self.defect: Exception | None = None
        """The defect of ours that ended it."""
        self.readers: dict[LogReader, None] = {}
        self._keep = keep
        self._subscribers: dict[LogSubscriber, None] = {}
        self._on_readers_changed = on_readers_changed

    @classmethod
    def from_batches(cls, batches: Sequence[Batch], finished_at: float, limits: LogLimits = LOG_LIMITS) -> "ReplyLog":
        """A finished log. Without an end its readers get a crash, and no part of the reply."""
        log = cls(limits=limits)
        log.ended, log.finished_at = True, finished_at
        if batches and is_end(batches[-1].events):
            log.batches = list(batches)
        else:
            log.defect = ValueError("a stored reply that has no end")
        return log

    @property
    def end_position(self) -> int:
        return self.first_batch + len(self.batches)

    @property
    def complete(self) -> bool:
        """Everything that was appended is still here."""
        return not self.truncated

    # -- readers ------------------------------------------------------------------------------------------------------

    def add_reader(self, pace: Pace = "fast") -> "LogReader":
        """A reader from the first batch on. The original pace is for finished logs."""
        reader = LogReader(self, pace)
        self.readers[reader] = self._subscribers[reader] = None
        self.readers_changed()
        return reader

    def remove_reader(self, reader: "LogReader") -> None:
        """May be called twice."""
        if reader in self.readers:
            del self.readers[reader], self._subscribers[reader]
            self.readers_changed()

    def readers_changed(self) -> None:
        if self._on_readers_changed is not None:
            self._on_readers_changed()

    def subscribe(self, subscriber: LogSubscriber) -> None:
        """It reads along, and is not counted as a reader."""
        self._subscribers[subscriber] = None

    def unsubscribe(self, subscriber: LogSubscriber) -> None:
        self._subscribers.pop(subscriber, None)

    def notify(self) -> None:
        """Let everybody read what was appended."""
        for subscriber in tuple(self._subscribers):
            subscriber.advance()

    # -- the source ---------------------------------------------------------------------------------------------------

    def append(self, at: float, batches: Sequence[list[Event]]) -> None:
        self.batches.extend([Batch(at, events) for events in batches])
        if self._keep:
            self.size += sum(map(events_size, batches))
            self.truncated = self.truncated or self.too_large

    def end(self) -> None:
        """Nothing more comes. Who reads it does not matter to its source any more."""
        self.ended = True
        self._on_readers_changed = None

    @property
    def too_large(self) -> bool:
        return self.size > self.limits.max_bytes

    def trim(self) -> None:
        """Drops what everybody has read."""
        read = min((one.position for one in self._subscribers), default=self.end_position)
        dropped = self.batches[: read - self.first_batch]
        del self.batches[: read - self.first_batch]
        self.first_batch = read
        if self._keep:
            self.size -= sum(events_size(batch.events) for batch in dropped)


class LogReader:
    """One cursor in a log. It is a `Reply`."""

    __slots__ = ("_due", "_log", "_original_pace", "_receiver", "_started_at", "_turn", "paused", "position")

    def __init__(self, log: ReplyLog, pace: Pace) -> None:
        self._log = log
        self._original_pace = pace == "original"
        self._receiver: Receiver | None = None
        self._turn: asyncio.Handle | None = None
        self._started_at = 0.0
        self._due = 0.0
        """When the next batch is due at the original pace: seconds after the start."""
        self.paused = False
        self.position = log.first_batch

    def start(self, receiver: Receiver) -> None:
        if self in self._log.readers:
            self._receiver = receiver
            self._started_at = asyncio.get_running_loop().time()
            self.advance()

    def pause(self) -> None:
        """At the original pace, what falls due meanwhile waits, and what comes later keeps its time."""
        self.paused = True
        self._log.readers_changed()

    def resume(self) -> None:
        self.paused = False
        self.advance()
        self._log.readers_changed()

    def tick(self, now: float) -> None:
        """The source has a clock of its own: it may outlive its readers."""

    def close(self) -> None:
        self._receiver = None
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self._log.remove_reader(self)

    def advance(self) -> None:
        """Gives the receiver what it may have now. The next turn is set before: the receiver may pause or close."""
        receiver, log = self._receiver, self._log
        if receiver is None or self.paused or self._turn is not None:
            return
        start = self.position - log.first_batch
        unread = len(log.batches) - start
        if unread == 1 and not self._original_pace:
            self.position += 1
            receiver.on_events(log.batches[start].events)
        elif unread:
            group = self._next_group(start)
            if len(group) < unread:
                self._turn = self._schedule_turn()
            if group:
                receiver.on_batches(group)
        if log.ended and self.position == log.end_position and self._receiver is receiver:
            self._receiver = None
            if log.defect is not None:
                receiver.on_crash(log.defect)

    def _next_group(self, start: int) -> list[list[Event]]:
        batches = self._log.batches
        elapsed = asyncio.get_running_loop().time() - self._started_at + TIMER_SECONDS
        group: list[list[Event]] = []
        size, most = 0, self._log.limits.batches_per_turn
        while start < len(batches) and self._due <= elapsed and len(group) < most and size < BYTES_PER_TURN:
            batch = batches[start]
            group.append(batch.events)
            size += events_size(batch.events)
            start += 1
            if self._original_pace and start < len(batches):
                self._due += min(max(batches[start].at - batch.at, 0.0), MAX_GAP_SECONDS)
        self.position += len(group)
        return group

    def _schedule_turn(self) -> asyncio.Handle:
        loop = asyncio.get_running_loop()
        if self._original_pace:
            return loop.call_at(self._started_at + self._due, self._take_turn)
        return loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        self.advance()


class StoredReply:
    """A reply from the store: a finished log under the key of its request."""

    ended = complete = True

    def __init__(self, key: str, batches: Sequence[Batch], finished_at: float) -> None:
        self.location: ReplyLocation = ("entry", f"{key}@{finished_at!r}")
        self._log = ReplyLog.from_batches(_mark_usage_cached(batches), finished_at)

    @property
    def size(self) -> int:
        return sum(events_size(batch.events) for batch in self._log.batches)

    def add_reader(self, pace: Pace) -> LogReader:
        return self._log.add_reader(pace)

    async def open(self) -> LogReader:
        return self.add_reader("fast")

    def release(self) -> None: ...


def _mark_usage_cached(batches: Sequence[Batch]) -> Sequence[Batch]:
    """The usage says that nothing was used this time."""
    last = batches[-1] if batches else None
    finish = last.events[-1] if last is not None and last.events else None
    if last is None or not isinstance(finish, Finish) or finish.usage is None:
        return batches
    marked = replace(finish, usage={**finish.usage, "cached": True})
    return [*batches[:-1], Batch(last.at, [*last.events[:-1], marked])]


def is_end(events: list[Event]) -> bool:
    """Nothing of a reply follows them."""
    return bool(events) and type(events[-1]) in (Finish, Failed)


def events_size(events: list[Event]) -> int:
    """About how many bytes they take in memory."""
    total = 0
    for event in events:
        total += _EVENT_BYTES
        if type(event) is TextDelta or type(event) is ReasoningDelta:
            total += len(event.text)
        elif type(event) is ToolCallDelta:
            total += len(event.arguments)
        elif type(event) is MediaOutput:
            total += len(event.url)
    return total
