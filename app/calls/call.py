"""`InFlightCall`: one call to a model, with any number of readers.

The call goes on while it has a reader, or while it is retained for a client that may resume: to its end, or for a time
after its last reader has left. A late reader first gets the log so far, then live events. Back-pressure stops the model
server only when all readers have paused, or when one has paused and the log has reached its limit.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from app.calls.log import LOG_LIMITS, LogLimits, LogReader, LogSubscriber, ReplyLocation, ReplyLog
from app.chat.events import END_TYPES, Event, Failed, Fault, Finish
from app.chat.stream import Reply
from app.errors import Internal, ParleyError

log = logging.getLogger("parley.flight")

CANCELLED = Fault("cancelled", "the reply was cancelled: its client disconnected or cancelled it", transient=False)
LOST = Fault(
    "upstream_incomplete",
    "the gateway that received this reply stopped, or can no longer be followed: send the request again",
    transient=True,
)
"""The end of a reply here, of which more may be in another process."""
LOST_WITH_TOOLS = Fault(
    "upstream_incomplete",
    "the gateway that received this reply stopped, or can no longer be followed, after it had run tools: "
    "the same request would run them again",
    transient=False,
)
"""The same for a reply whose tools the gateway has run."""
_LOST_ENDS = (Failed(LOST), Failed(LOST_WITH_TOOLS))


def is_lost(event: Event) -> bool:
    """Whether an event ends a reply of which more may be in another process."""
    return event in _LOST_ENDS


OpenUpstream: TypeAlias = Callable[[], Awaitable[Reply]]
"""Sends the request to the model server and returns the reply. Raises UpstreamFailed."""


class TickRegistry(Protocol):
    """Calls `tick` of each registered call at regular intervals."""

    def add(self, item: "InFlightCall") -> None: ...

    def discard(self, item: "InFlightCall") -> None: ...


class CallPublisher(LogSubscriber, Protocol):
    """Lets other processes follow the call."""

    @property
    def has_followers(self) -> bool: ...

    def on_unused(self) -> None:
        """This process does not need the call any more: abort it, unless another process follows it."""

    def on_used(self) -> None:
        """This process needs the call again: it has a reader, or is retained."""


class InFlightCall:
    """`start` opens the source. `on_end` is called once, at the end of the reply, before any reader gets the end."""

    def __init__(
        self,
        start: "Callable[[InFlightCall], Awaitable[Reply]]",
        on_end: "Callable[[InFlightCall], None]",
        *,
        limits: LogLimits = LOG_LIMITS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` returns the Unix time."""
        self.log = ReplyLog(self._on_readers_changed, limits=limits)
        self.error: ParleyError | None = None
        """The error because of which the reply never began."""
        self.followed = False
        """Another process makes the call, and this one follows it."""
        self.id = ""
        """The call's id for other processes."""
        self.aborted = False
        self.cacheable: bool | None = None
        """Whether the reply may be stored; None until the cache has checked it."""
        self.entry: bytes | None = None
        """The reply as it was stored."""
        self.resumable = False
        """A client may resume the reply, at this gateway or another one."""
        self.on_late_end: Callable[[], None] | None = None
        """Set when the request for which the call was started has ended: called once, after `on_end`."""
        self._publisher: CallPublisher | None = None
        self._ahead_bytes = 0
        """How many bytes have arrived since all readers of this process paused."""
        self._on_end = on_end
        self._clock = clock
        self._max_ahead_bytes = limits.max_ahead_bytes
        self._holds: list[float] = []
        """For how many seconds after its last reader has left the call goes on, for each `retain`."""
        self._unread_since = 0.0
        """When the last reader left."""
        self._grace_timer: asyncio.TimerHandle | None = None
        self._source: Reply | None = None
        self._source_paused = False
        self._opened = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._created = self._loop.time()
        self._start: Callable[[InFlightCall], Awaitable[Reply]] | None = start
        self._opening: asyncio.Task[None] | None = self._loop.create_task(self._open())

    # Readers.

    def add_reader(self) -> LogReader:
        """Return a new reader from the first event."""
        return self.log.add_reader()

    async def open(self) -> LogReader:
        """Wait for the head of the server's response, and return a reader. Raises the error of a reply that never
        began."""
        reader = self.add_reader()
        try:
            await self._opened.wait()
            if self.error is not None:
                raise self.error
        except BaseException:
            reader.close()
            raise
        return reader

    @property
    def has_readers(self) -> bool:
        return bool(self.log.readers)

    @property
    def ended(self) -> bool:
        return self.log.ended

    @property
    def size(self) -> int:
        """The approximate size of the log in bytes."""
        return self.log.size

    @property
    def location(self) -> ReplyLocation | None:
        """Where other processes find the call once it has begun; None if they cannot."""
        return ("flight", self.id) if self.id and self._opened.is_set() else None

    @property
    def complete(self) -> bool:
        """Whether the log still has every event of the reply so far."""
        return self.log.complete

    def pack(self) -> bytes | None:
        if not self.ended or self.error is not None or not self.complete:
            return None
        return self.entry or self.log.pack()

    def keep_for_resume(self) -> None:
        self.resumable = True
        if self._publisher is not None:
            self._publisher.advance()

    def retain(self, seconds: float = math.inf) -> None:
        """Let the call go on without readers, for so many seconds after the last one has left, until `release`."""
        self._holds.append(seconds)

    def release(self, seconds: float = math.inf) -> None:
        """Undo one `retain` of this time."""
        self._holds.remove(seconds)
        self._abort_if_unused()

    @property
    def unused(self) -> bool:
        """Whether the call has no reader in this process and is not retained any more."""
        return not self.log.readers and self._find_grace_end() <= self._loop.time()

    def _find_grace_end(self) -> float:
        """Return when the call, which has no readers, is no longer retained."""
        return self._unread_since + max(self._holds, default=0.0)

    def _on_readers_changed(self) -> None:
        if not self.log.readers:
            self._unread_since = self._loop.time()
        self._abort_if_unused()
        self.update_backpressure()

    def on_followed(self) -> None:
        """Another process follows the call: the time for which it goes on without readers begins again."""
        if self._holds and not self.log.readers:
            self._unread_since = self._loop.time()
            self._abort_if_unused()

    def update_backpressure(self) -> None:
        """Pause or resume the source, according to its readers and the size of the log."""
        if self._source is None or self.ended:
            return
        full = self._readers_full
        if not full:
            self._ahead_bytes = 0
        elif (
            self._ahead_bytes < self._max_ahead_bytes and self._publisher is not None and self._publisher.has_followers
        ):
            full = False
        full = full or (self.log.truncated and any(reader.paused for reader in self.log.readers))
        if full is not self._source_paused:
            self._source_paused = full
            (self._source.pause if full else self._source.resume)()

    @property
    def _readers_full(self) -> bool:
        return bool(self.log.readers) and all(reader.paused for reader in self.log.readers)

    def _abort_if_unused(self) -> None:
        if self.ended:
            return
        self._stop_grace_timer()
        if not self.unused:
            if not self.log.readers and (grace_end := self._find_grace_end()) < math.inf:
                self._grace_timer = self._loop.call_at(grace_end, self._abort_if_unused)
            if self._publisher is not None:
                self._publisher.on_used()
        elif self._publisher is not None:
            self._publisher.on_unused()
        else:
            self.abort()

    def _stop_grace_timer(self) -> None:
        if self._grace_timer is not None:
            self._grace_timer.cancel()
            self._grace_timer = None

    def abort(self) -> None:
        """End the call at once. Its readers get the fault CANCELLED."""
        if self.ended:
            return
        self.aborted = True
        self._opened.set()
        # The exception of a cancelled task holds this call, so both would wait for the garbage collector.
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
        self._append([[Failed(CANCELLED)]])

    # Other processes.

    def publish(self, publisher: CallPublisher, call_id: str) -> None:
        """Let other processes follow the call by this id."""
        self._publisher, self.id = publisher, call_id
        self.log.subscribe(publisher)

    def unpublish(self, publisher: CallPublisher) -> None:
        """Stop publishing: no other process follows the call any more, or none can."""
        self.log.unsubscribe(publisher)
        if self._publisher is publisher:
            self._publisher = None
            self._abort_if_unused()
            self.update_backpressure()

    def follow(self, call_id: str) -> None:
        """Mark the call as one that another process makes under this id."""
        self.followed, self.id = True, call_id

    def unfollow(self) -> None:
        """Undo `follow`: the other process's reply failed before it began."""
        self.followed, self.id = False, ""

    # The source.

    async def _open(self) -> None:
        try:
            start, self._start = self._start, None  # it holds the request
            assert start is not None
            source = await start(self)
        except ParleyError as error:
            self._fail(error)
        except Exception:
            log.exception("defect while opening a call")
            self._fail(Internal("the gateway failed"))
        else:
            self.log.fallback_model = source.fallback_model
            self._opened.set()
            if self.ended:
                source.close()
            else:
                self._source = source
                source.start(self)
        self._opening = None

    def _fail(self, error: ParleyError) -> None:
        if not self.ended:
            self.error = error
            self._end()
            self._opened.set()
            self.log.notify()

    def _end(self) -> None:
        self.log.end()
        self._stop_grace_timer()
        source, self._source = self._source, None
        if source is not None:
            source.close()
        self._on_end(self)
        if self.on_late_end is not None:
            self.on_late_end()

    def tick(self, now: float) -> None:
        if self._source is not None and not self.ended:
            self._source.tick(now)

    def on_events(self, events: list[Event]) -> None:
        if not self.log.ended:
            self._append((events,))

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        if not self.log.ended:
            self._append(batches)

    def _append(self, batches: Sequence[list[Event]]) -> None:
        reply_log, last = self.log, batches[-1]
        size = reply_log.size
        reply_log.append(self._loop.time() - self._created, batches)
        if last and type(last[-1]) in END_TYPES:
            reply_log.finished_at = self._clock() if type(last[-1]) is Finish else None
            self._end()
        reply_log.notify()
        if self._publisher is not None and self._readers_full:
            self._ahead_bytes += reply_log.size - size
            self.update_backpressure()
        if reply_log.truncated:
            self._trim()

    def on_crash(self, error: Exception) -> None:
        if self.ended:
            return
        self.log.defect = error
        if not self.log.readers:
            log.error("defect while reading a reply that has no readers", exc_info=error)
        self._end()
        self.log.notify()

    def _trim(self) -> None:
        """Trim the log. A call without readers then ends, because no request can join it any more."""
        self.log.trim()
        if self.log.readers:
            self.update_backpressure()
        elif self._publisher is not None:
            self._publisher.on_unused()
        else:
            self.abort()
