"""`ReplyLog`: a reply as a log. A source appends batches of events, and each reader reads from its own position.

A call in progress appends to its log while it is read.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from app.calls.entry import (
    LARGE_ENTRY,
    UNENCODABLE,
    Batch,
    NotEncodable,
    StoredEntry,
    dump,
    encode_into,
    finish_entry,
)
from app.chat.accumulator import is_json_object
from app.chat.events import (
    Event,
    Finish,
    MediaOutput,
    Passed,
    ReasoningDelta,
    ServerResult,
    TextDelta,
    TokenLogprobs,
    ToolCallDelta,
)
from app.chat.messages import Text
from app.chat.stream import Receiver, Reply

BYTES_PER_TURN = 64 * 1024
"""See `LogLimits.batches_per_turn`."""
EVENT_BYTES = 120
"""The approximate size of an event besides its text."""
LOGPROB_BYTES = 600
"""The approximate size of the log probability of a token."""
MAX_GAP_SECONDS = 10.0
"""The longest pause between two batches at the original pace."""
TIMER_SECONDS = 0.001
"""How much too early a timer of the event loop may fire."""

Pace: TypeAlias = Literal["fast", "original"]
Turn: TypeAlias = Sequence[Sequence[list[Event]]]
"""The batches that a reader gets in one turn of the event loop, in parts."""
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


class ReplaySource(Protocol):
    """A reply that can be read from its first event, more than once."""

    @property
    def size(self) -> int:
        """The approximate size in bytes."""

    @property
    def ended(self) -> bool: ...

    @property
    def location(self) -> ReplyLocation | None:
        """Where other processes find the reply; None if they cannot."""

    @property
    def complete(self) -> bool:
        """Whether the reply can still be read from its first event."""

    async def open(self) -> Reply:
        """Return a reader from the first event. Raises ParleyError if the reply failed before it began."""

    def pack(self) -> bytes | None:
        """Return the entry of the reply, to be kept in its place; None if it has not ended, is large, or cannot be
        encoded."""


class LogSubscriber(Protocol):
    """Reads a log as it grows."""

    position: int
    """How many batches it has read, counted from the first batch of the reply."""

    def advance(self) -> None:
        """Called when the log has grown or ended. It raises nothing: the subscribers after it must be called too."""


class EntryEncoder:
    """Encodes a reply that may be stored while it arrives.

    The end of a long reply then costs hardly more than that of a short one. Many streams often end at the same time,
    and by then the first events of each have left the processor's caches.
    """

    def __init__(self) -> None:
        self._count = 0
        self._encoded: bytearray | None = bytearray()
        """The batches as `StoredEntry` has them; None if the reply is large, or holds what cannot be encoded."""
        self._last: Event | None = None
        self._has_content = False
        self._arguments: dict[int, list[str]] = {}

    def add(self, batch: Batch, size: int) -> None:
        """Add the next batch, with which the reply has about `size` bytes."""
        for event in batch.events:
            if type(event) is ToolCallDelta:
                self._add_arguments(event)
            elif type(event) is TextDelta or type(event) is ReasoningDelta or type(event) is MediaOutput:
                self._has_content = True
            self._last = event
        self._count += 1
        if size > LARGE_ENTRY:
            self._encoded = None
        if self._encoded is not None:
            self._encode(batch, self._encoded)

    def _add_arguments(self, event: ToolCallDelta) -> None:
        fragments = self._arguments.get(event.index)
        if fragments is None:
            self._arguments[event.index] = [event.arguments]
        else:
            fragments.append(event.arguments)

    def _encode(self, batch: Batch, encoded: bytearray) -> None:
        try:
            encode_into(batch, encoded, -1)  # at the end
        except UNENCODABLE:
            self._encoded = None

    def is_cacheable(self, *, length: bool) -> bool:
        """Whether the reply may be stored: it ended normally, is not empty, and the arguments of all its calls are
        JSON objects.

        With `length`, a reply that ended at the token limit may be stored too.
        """
        last = self._last
        if type(last) is not Finish or not last.cacheable or not _ended_normally(last, length):
            return False
        if not self._arguments:
            return self._has_content
        return all(is_json_object("".join(fragments)) for fragments in self._arguments.values())

    def finish(self, created: float) -> bytes | None:
        """Return what `dump` does; None if the reply is large, or cannot be encoded. Raises NotEncodable if its
        encoded form is too large."""
        if self._encoded is None:
            return None
        return finish_entry(created, self._count, self._encoded)


def _ended_normally(finish: Finish, length: bool) -> bool:
    return finish.reason in ("stop", "tool_calls") or (length and finish.reason == "length")


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
        self.fallback_model: str | None = None
        """The model that answers in place of the one that was requested."""
        self.readers: dict[LogReader, None] = {}
        self._subscribers: dict[LogSubscriber, None] = {}
        self._on_readers_changed = on_readers_changed
        self._entry = EntryEncoder()

    @property
    def end_position(self) -> int:
        return self.first_batch + len(self.batches)

    @property
    def complete(self) -> bool:
        """Whether the log still has every batch."""
        return not self.truncated

    # Readers.

    def add_reader(self, pace: Pace = "fast") -> "LogReader":
        """Return a new reader from the first batch. The original pace is for logs that have ended."""
        reader = LogReader(self, pace)
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

    def read(self, position: int, until: int) -> Turn:
        """Return the batches from `position` up to `until`, but no more than a reader gets in one turn."""
        start, limits = position - self.first_batch, self.limits
        end = min(until - self.first_batch, start + limits.batches_per_turn)
        group = [batch.events for batch in self.batches[start:end]]
        if self.size > BYTES_PER_TURN:
            del group[count_for_turn(group) :]
        return (group,)

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
            self._entry = EntryEncoder()  # frees what it holds

    def end(self) -> None:
        """End the log. Changes of its readers are not reported any more."""
        self.ended = True
        self._on_readers_changed = None

    def is_cacheable(self, *, length: bool) -> bool:
        """Whether the reply may be stored. See `EntryEncoder.is_cacheable`."""
        return self.complete and self._entry.is_cacheable(length=length)

    def dump(self) -> bytes:
        """Encode the reply for a store. Takes long if it is large. Raises NotEncodable."""
        entry = self.make_entry()
        return self._entry.finish(entry.created) or dump(entry)

    def pack(self) -> bytes | None:
        if self.defect is not None or not self.batches or self.size > LARGE_ENTRY:
            return None
        try:
            return self.dump()
        except NotEncodable:
            return None

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
    """A reader of a log, with its position. It implements `Reply`.

    At the original pace, batches that become due during a pause come at once after it.
    """

    __slots__ = ("_due", "_due_position", "_log", "_pace", "_receiver", "_started_at", "_turn", "paused", "position")

    def __init__(self, log: ReplyLog, pace: Pace) -> None:
        self._log = log
        self._pace = pace
        self._receiver: Receiver | None = None
        self._turn: asyncio.Handle | None = None
        self._started_at = 0.0
        self._due_position = 0
        """The first batch that is not known to be due, at the original pace."""
        self._due = 0.0
        """When it is due, in seconds after the start."""
        self.paused = False
        self.position = log.first_batch

    @property
    def fallback_model(self) -> str | None:
        return self._log.fallback_model

    def start(self, receiver: Receiver) -> None:
        if self in self._log.readers:
            self._receiver = receiver
            self._started_at = asyncio.get_running_loop().time()
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
        end = log.end_position
        until = end if self._pace == "fast" else self._find_due()
        try:
            if until == end == self.position + 1 and log.batches:  # as most of a call in progress
                self.position = end
                receiver.on_events(log.batches[-1].events)
            else:
                self._read_turn(receiver, until, end)
        except Exception as error:  # of this receiver: the others go on
            self._receiver = None
            receiver.on_crash(error)
            return
        if log.defect is not None and self.position == log.end_position and self._receiver is receiver:
            self._receiver = None
            receiver.on_crash(log.defect)

    def _read_turn(self, receiver: Receiver, until: int, end: int) -> None:
        parts: Turn = ()
        if self.position < until:
            parts = self._log.read(self.position, until)
            for part in parts:
                self.position += len(part)
        if self.position < end:
            self._schedule(until)
        for part in parts:
            if self._receiver is receiver:
                receiver.on_batches(part)

    def _find_due(self) -> int:
        """Return how far the batches are due."""
        batches = self._log.batches
        elapsed = asyncio.get_running_loop().time() - self._started_at + TIMER_SECONDS
        while self._due_position < len(batches) and self._due <= elapsed:
            self._due_position += 1
            if self._due_position < len(batches):
                gap = batches[self._due_position].at - batches[self._due_position - 1].at
                self._due += min(max(gap, 0.0), MAX_GAP_SECONDS)
        return self._due_position

    def _schedule(self, until: int) -> None:
        loop = asyncio.get_running_loop()
        if self.position < until:
            self._turn = loop.call_soon(self._take_turn)
        else:
            self._turn = loop.call_at(self._started_at + self._due, self._take_turn)

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
        elif type(event) is Passed:
            total += len(event.data)
        elif type(event) is MediaOutput:
            total += len(event.url)
        elif type(event) is TokenLogprobs:
            total += LOGPROB_BYTES * sum([1 + len(token["top_logprobs"]) for token in event.tokens])
        elif type(event) is ServerResult:
            total += sum([len(part.text) if isinstance(part, Text) else len(part.urls[0]) for part in event.content])
    return total
