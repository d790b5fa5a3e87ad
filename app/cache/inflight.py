"""One call to a model that any number of callers listen to.

The call belongs to nobody: it lives while anyone listens, or while it is held for a caller who may come back. Who
comes late gets what came before at once and goes on live. Everybody reads the same log at a pace of their own; the
model server is held back only when nobody can take more, or when the log would outgrow its bound.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol, TypeAlias

from app.cache.codec import Batch
from app.chat.events import Event, Failed, Fault, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.stream import Receiver, Reply
from app.errors import Internal, ParleyError

log = logging.getLogger("parley.flight")

MAX_LOG_BYTES = 32 * 1024 * 1024
"""What is held of a reply for those who come later. A longer one can be neither joined nor stored nor resumed."""
BATCHES_PER_TURN = 64
"""Told to one caller before others get their turn."""
_EVENT_BYTES = 120
CANCELLED = Fault("cancelled", "the reply was given up: its caller had left, or cancelled it", transient=False)


ReplyLocation: TypeAlias = tuple[Literal["flight", "entry"], str]
"""A call by its id, or a stored reply by its key and the time of its end."""


class TickRegistry(Protocol):
    """Ticks whatever is added to it until it is discarded."""

    def add(self, one: "InFlightCall") -> None: ...

    def discard(self, one: "InFlightCall") -> None: ...


class InFlightCall:
    """`start` opens the call; `over` is told once, when nothing more will come, before anyone else is."""

    def __init__(self, start: Callable[[], Awaitable[Reply]], over: "Callable[[InFlightCall], None]") -> None:
        self.finished_at: float | None = None
        """Unix time of its end, where it ended well."""
        self.ended = False
        self.error: ParleyError | None = None
        """Why it could not begin."""
        self.defect: Exception | None = None
        self.followed = False
        """Another process makes the call."""
        self.id = ""
        """Under which other processes know it."""
        self.truncated = False
        self.first_batch = 0
        """How many batches were dropped from the front of the log."""
        self.batches: list[Batch] = []
        self._over = over
        self._bytes = 0
        self._readers: dict[LogReader, None] = {}
        self._holds = 0
        self._source: Reply | None = None
        self._source_paused = False
        self._opened = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._opening = self._loop.create_task(self._open(start))

    # -- whoever listens ----------------------------------------------------------------------------------------------

    def add_reader(self) -> "LogReader":
        """Everything from the first event on."""
        listener = LogReader(self)
        self._readers[listener] = None
        self.update_backpressure()
        return listener

    async def open(self) -> "LogReader":
        """Raises what kept the call from beginning."""
        listener = self.add_reader()
        try:
            await self.wait_until_open()
        except BaseException:
            listener.close()
            raise
        return listener

    async def wait_until_open(self) -> None:
        """Waits for the server's word. Raises what kept the call from beginning."""
        await self._opened.wait()
        if self.error is not None:
            raise self.error

    @property
    def has_readers(self) -> bool:
        """Somebody listens."""
        return bool(self._readers)

    @property
    def size(self) -> int:
        """About the bytes that its log takes."""
        return self._bytes

    @property
    def location(self) -> ReplyLocation | None:
        """Where other processes find it, once it has begun."""
        return ("flight", self.id) if self.id else None

    @property
    def complete(self) -> bool:
        """All of it, so far, is still here."""
        return not self.truncated

    def retain(self) -> None:
        """The call goes on when nobody listens."""
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        self._abort_if_unused()

    def remove_reader(self, listener: "LogReader") -> None:
        if self._readers.pop(listener, self) is None:
            self._abort_if_unused()
            self.update_backpressure()

    def update_backpressure(self) -> None:
        """Hold the model server back, or let it go on."""
        if self._source is None or self.ended:
            return
        waiting = [listener.paused for listener in self._readers]
        full = bool(waiting) and (all(waiting) or (self.truncated and any(waiting)))
        if full is not self._source_paused:
            self._source_paused = full
            (self._source.pause if full else self._source.resume)()

    def _abort_if_unused(self) -> None:
        if not self.ended and not self._readers and not self._holds:
            self.abort()

    def abort(self) -> None:
        """Nobody wants it any more: the call is given up at once."""
        if self.ended:
            return
        self._opened.set()
        self._opening.cancel()
        self.on_batches([[Failed(CANCELLED)]])

    # -- the call -----------------------------------------------------------------------------------------------------

    async def _open(self, start: Callable[[], Awaitable[Reply]]) -> None:
        try:
            source = await start()
        except ParleyError as error:
            self._fail(error)
        except Exception:
            log.exception("defect while a call was opened")
            self._fail(Internal("the gateway failed"))
        else:
            if self.ended:
                source.close()
                return
            self._source = source
            self._opened.set()
            source.start(self)

    def _fail(self, error: ParleyError) -> None:
        if not self.ended:
            self.error = error
            self._end()
            self._opened.set()

    def _end(self) -> None:
        self.ended = True
        if self._source is not None:
            self._source.close()
        self._over(self)

    def tick(self, now: float) -> None:
        if self._source is not None and not self.ended:
            self._source.tick(now)

    def on_events(self, events: list[Event]) -> None:
        self.on_batches([events])

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        if self.ended:
            return
        at = self._loop.time() - self._began
        for events in batches:
            self.batches.append(Batch(at, events))
            self._bytes += events_size(events)
        self.truncated = self.truncated or self._bytes > MAX_LOG_BYTES
        last = batches[-1][-1] if batches[-1] else None
        if type(last) is Finish or type(last) is Failed:
            self.finished_at = time.time() if type(last) is Finish else None
            self._end()
        for listener in tuple(self._readers):
            listener.advance()
        if self._bytes > MAX_LOG_BYTES:
            self._trim()

    def on_crash(self, error: Exception) -> None:
        if self.ended:
            return
        self.defect = error
        if not self._readers:
            log.error("defect while reading a reply that nobody waits for", exc_info=error)
        self._end()
        for listener in tuple(self._readers):
            listener.advance()

    def _trim(self) -> None:
        """What everybody has heard is let go; nobody can come later any more."""
        heard = min((listener.position for listener in self._readers), default=self.first_batch + len(self.batches))
        gone = self.batches[: heard - self.first_batch]
        del self.batches[: heard - self.first_batch]
        self.first_batch = heard
        self._bytes -= sum(events_size(batch.events) for batch in gone)
        if self._readers:
            self.update_backpressure()
        else:
            self.abort()


class LogReader:
    """One caller's part in a flight: a reply like any other."""

    __slots__ = ("_call", "_receiver", "_turn", "paused", "position")

    def __init__(self, flight: InFlightCall) -> None:
        self._call = flight
        self._receiver: Receiver | None = None
        self._turn: asyncio.Handle | None = None
        self.paused = False
        self.position = flight.first_batch
        """How much of the flight's log, counted from its first batch."""

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.advance()

    def pause(self) -> None:
        self.paused = True
        self._call.update_backpressure()

    def resume(self) -> None:
        self.paused = False
        self.advance()
        self._call.update_backpressure()

    def tick(self, now: float) -> None:
        """The flight has a clock of its own: it may outlive its listeners."""

    def close(self) -> None:
        self._receiver = None
        if self._turn is not None:
            self._turn.cancel()
        self._call.remove_reader(self)

    def advance(self) -> None:
        """Tell what there is to tell, a turn's worth."""
        receiver, flight = self._receiver, self._call
        if receiver is None or self.paused or self._turn is not None:
            return
        start = self.position - flight.first_batch
        ahead = flight.batches[start : start + BATCHES_PER_TURN]
        self.position += len(ahead)
        if not self._at_end:
            self._turn = asyncio.get_running_loop().call_soon(self._next)
        if len(ahead) == 1:
            receiver.on_events(ahead[0].events)
        elif ahead:
            receiver.on_batches([batch.events for batch in ahead])
        if flight.ended and self._at_end and self._receiver is receiver:
            self._receiver = None
            if flight.defect is not None:
                receiver.on_crash(flight.defect)

    @property
    def _at_end(self) -> bool:
        return self.position == self._call.first_batch + len(self._call.batches)

    def _next(self) -> None:
        self._turn = None
        self.advance()


def events_size(events: list[Event]) -> int:
    """About what they take in memory."""
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
