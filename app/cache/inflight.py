"""One call to a model, whose reply any number of callers read.

The call belongs to none of them: it lives while anyone reads its log, or while it is retained for a caller who may
come back. A late reader first gets the log so far, then live events. The model server is held back only when no reader
can take more, or when the log would outgrow its bound.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from app.cache.log import LogReader, ReplyLocation, ReplyLog
from app.chat.events import Event, Failed, Fault, Finish
from app.chat.stream import Reply
from app.errors import Internal, ParleyError

log = logging.getLogger("parley.flight")

CANCELLED = Fault("cancelled", "the reply was given up: its caller had left, or cancelled it", transient=False)


class TickRegistry(Protocol):
    """Ticks whatever is added to it until it is discarded."""

    def add(self, one: "InFlightCall") -> None: ...

    def discard(self, one: "InFlightCall") -> None: ...


class InFlightCall:
    """`start` opens the source; `on_end` is called once, when nothing more will come, before any reader knows."""

    def __init__(self, start: Callable[[], Awaitable[Reply]], on_end: "Callable[[InFlightCall], None]") -> None:
        self.log = ReplyLog(self._on_readers_changed)
        self.error: ParleyError | None = None
        """Why it could not begin."""
        self.followed = False
        """Another process makes the call."""
        self.id = ""
        """Under which other processes know it."""
        self._on_end = on_end
        self._holds = 0
        self._source: Reply | None = None
        self._source_paused = False
        self._opened = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._created = self._loop.time()
        self._opening = self._loop.create_task(self._open(start))

    # -- readers ------------------------------------------------------------------------------------------------------

    def add_reader(self) -> LogReader:
        """A reader of everything from the first event on."""
        return self.log.add_reader()

    async def open(self) -> LogReader:
        """Waits for the head of the server's response. Raises what kept the call from beginning."""
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
        """About how many bytes its log takes."""
        return self.log.size

    @property
    def location(self) -> ReplyLocation | None:
        """Where other processes find it, once it has begun."""
        return ("flight", self.id) if self.id else None

    @property
    def complete(self) -> bool:
        """Everything that has come is still in the log."""
        return self.log.complete

    def retain(self) -> None:
        """The call goes on without readers."""
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        self._abort_if_unused()

    def _on_readers_changed(self) -> None:
        self._abort_if_unused()
        self._update_backpressure()

    def _update_backpressure(self) -> None:
        """Hold the model server back, or let it go on."""
        if self._source is None or self.ended:
            return
        paused = [reader.paused for reader in self.log.readers]
        full = bool(paused) and (all(paused) or (self.log.truncated and any(paused)))
        if full is not self._source_paused:
            self._source_paused = full
            (self._source.pause if full else self._source.resume)()

    def _abort_if_unused(self) -> None:
        if not self.ended and not self.log.readers and not self._holds:
            self.abort()

    def abort(self) -> None:
        """The call is given up at once."""
        if self.ended:
            return
        self._opened.set()
        self._opening.cancel()
        self.on_batches([[Failed(CANCELLED)]])

    # -- the source ---------------------------------------------------------------------------------------------------

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
        self.log.end()
        if self._source is not None:
            self._source.close()
        self._on_end(self)

    def tick(self, now: float) -> None:
        if self._source is not None and not self.ended:
            self._source.tick(now)

    def on_events(self, events: list[Event]) -> None:
        self.on_batches([events])

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        if self.ended:
            return
        self.log.append(self._loop.time() - self._created, batches)
        last = batches[-1][-1] if batches[-1] else None
        if type(last) is Finish or type(last) is Failed:
            self.log.finished_at = time.time() if type(last) is Finish else None
            self._end()
        self.log.notify()
        if self.log.too_large:
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
        """Nobody can join a call whose log is truncated."""
        self.log.trim()
        if self.log.readers:
            self._update_backpressure()
        else:
            self.abort()
