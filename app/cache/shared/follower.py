"""A reply that another gateway receives, read from the stream of its flight; taken over when that gateway dies."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from app.cache.inflight import CANCELLED
from app.cache.shared.call_store import CallKeys, State
from app.cache.shared.outlet import ReplyBuffer
from app.cache.shared.records import BatchesWritten, CallFailed, CallStarted, LeaseReleased, Record
from app.cache.shared.tailer import StreamTailer
from app.chat.events import Event, Failed, Fault
from app.chat.stream import Receiver, Reply
from app.errors import UpstreamFailed

Lead: TypeAlias = Callable[[], Awaitable[Reply]]
"""Makes the call to the model. Raises UpstreamFailed."""

MAX_AHEAD = 64
"""Batches that are read for a receiver that cannot take them yet."""
UNAVAILABLE_GRACE_SECONDS = 0.1
"""How long Redis may be away before a reply of which nothing was told is asked for here."""
ORPHANED = Fault("upstream_incomplete", "the gateway that received this reply is gone", True)


class TakeOver(Protocol):
    """How a flight goes on whose leader is gone."""

    async def __call__(self, followed: "FollowedReply", lead: Lead, *, shared: bool) -> Reply | None:
        """The rest of the reply; None: somebody else leads. Not `shared`: by a call that only this process has.
        Raises UpstreamFailed."""


class FollowedReply:
    """Without a `lead` it fails when nobody else takes over in time."""

    def __init__(
        self, names: CallKeys, reader: StreamTailer, rescue: TakeOver, lead: Lead | None, patience: float
    ) -> None:
        self.names = names
        self.last_record = 0
        self.events: list[list[Event]] = []
        """All that was read, whether or not the receiver has it yet."""
        self.led_here = False
        """It goes on by a call of this process."""
        self.shared = True
        """Redis knows all of it."""
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Raises where the reply never began."""
        self._reader = reader
        self._take_over = rescue
        self._lead = lead
        self._timeout_seconds = patience
        self._outlet = ReplyBuffer()
        self._rest: Reply | None = None
        self._takeover: asyncio.Task[None] | None = None
        self._unled_since: float | None = None
        self._idle = False
        reader.add(self)

    # -- for whoever listens ------------------------------------------------------------------------------------------

    def start(self, receiver: Receiver) -> None:
        self._outlet.start(receiver)

    def pause(self) -> None:
        self._outlet.pause()
        if self._rest is not None:
            self._rest.pause()

    def resume(self) -> None:
        self._outlet.resume()
        if self._rest is not None:
            self._rest.resume()
        self._reader.wake()

    def tick(self, now: float) -> None:
        if self._rest is not None:
            self._rest.tick(now)

    def close(self) -> None:
        self._outlet.close()
        self._reader.discard(self)
        if self._takeover is not None:
            self._takeover.cancel()
        if self._rest is not None:
            self._rest.close()
        if not self.begun.cancel() and not self.begun.cancelled():
            self.begun.exception()

    # -- what is told -------------------------------------------------------------------------------------------------

    def on_events(self, events: list[Event]) -> None:
        self._outlet.push([events])

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        self._outlet.push(batches)

    def on_crash(self, error: Exception) -> None:
        self._outlet.fail(error)

    def mark_begun(self) -> None:
        if not self.begun.done():
            self.begun.set_result(None)

    def _fail(self, error: Exception) -> None:
        """Before it has begun, for whoever waits for that; then as its end."""
        self._reader.discard(self)
        if not self.begun.done():
            self.begun.set_exception(error)
        elif isinstance(error, UpstreamFailed):
            self._outlet.push([[Failed(error.fault)]])
        else:
            self._outlet.fail(error)

    # -- from the stream ----------------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        return self._outlet.over

    @property
    def wants_records(self) -> bool:
        outlet = self._outlet
        return not (outlet.over or outlet.paused or self._takeover or len(outlet) > MAX_AHEAD)

    def on_records(self, found: Sequence[tuple[int, Record | None]]) -> None:
        for place, record in found:
            if place <= self.last_record or self._outlet.over:
                continue
            if place != self.last_record + 1 or record is None:
                self._start_takeover(shared=False)
                return
            self.last_record, self._idle = place, False
            self._read(record)

    def _read(self, record: Record) -> None:
        match record:
            case CallStarted():
                self.mark_begun()
            case BatchesWritten(batches):
                self.mark_begun()
                self.events += (batch.events for batch in batches)
                self._outlet.push([batch.events for batch in batches])
                if self._outlet.over:
                    self._reader.discard(self)
            case CallFailed(fault):
                self._fail(UpstreamFailed(fault))
            case LeaseReleased():
                self._start_takeover(shared=True)

    def on_state(self, state: State) -> None:
        if state != "unled":
            self._unled_since = None
        if not self.wants_records:
            return
        if state == "unled":
            self._start_takeover(shared=True)
        elif state == "given up" and self._lead is None:
            self._fail(UpstreamFailed(CANCELLED))
        elif state in ("gone", "given up") or (state == "ended" and self._idle):
            self._start_takeover(shared=False)
        self._idle = state == "ended"

    def on_unavailable(self, seconds: float) -> None:
        # Another call may say something else: that is no risk where nothing was told.
        free = self._lead is not None and not any(self.events)
        if seconds > (UNAVAILABLE_GRACE_SECONDS if free else self._timeout_seconds) and self.wants_records:
            self._start_takeover(shared=False)

    # -- when its leader is gone --------------------------------------------------------------------------------------

    def _start_takeover(self, *, shared: bool) -> None:
        if self._takeover is not None or self._outlet.over:
            return
        if self._lead is not None:
            self._takeover = asyncio.get_running_loop().create_task(self._run_takeover(self._lead, shared))
        elif not shared or self._timed_out():
            self._fail(UpstreamFailed(ORPHANED))

    def _timed_out(self) -> bool:
        now = asyncio.get_running_loop().time()
        if self._unled_since is None:
            self._unled_since = now
        return now - self._unled_since > self._timeout_seconds

    async def _run_takeover(self, lead: Lead, shared: bool) -> None:
        try:
            rest = await self._take_over(self, lead, shared=shared)
        except Exception as error:
            self._fail(error)
            return
        if rest is None:
            self._takeover = None
            self._reader.wake()
            return
        self._rest, self.led_here, self.events = rest, True, []
        self._reader.discard(self)
        self.mark_begun()
        if self._outlet.paused:
            rest.pause()
        rest.start(self)
