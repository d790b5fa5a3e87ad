"""The source of a call that another gateway leads: it appends that gateway's records in Redis to the log of the call
here. When the other gateway dies, this one takes the call over."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from app.calls.call import CANCELLED, InFlightCall
from app.calls.shared.call_store import CallKeys, State
from app.calls.shared.records import BatchesWritten, CallFailed, CallStarted, LeaseReleased, Record
from app.calls.shared.tailer import StreamTailer
from app.calls.types import OpenUpstream
from app.chat.events import Event, Failed, Fault
from app.chat.stream import Receiver
from app.errors import UpstreamFailed

UNAVAILABLE_GRACE_SECONDS = 0.1
"""How long Redis may be down before this process makes its own call for a reply of which no event has come."""
ORPHANED = Fault("upstream_incomplete", "the gateway that received this reply stopped", True)


class TakeOver(Protocol):
    """Continues a call whose leader is gone."""

    async def __call__(self, follower: "Follower", open_upstream: OpenUpstream, *, shared: bool) -> bool:
        """Give the call a new source. Returns False if another gateway leads it. Without `shared`, the new source is a
        call that no other gateway can follow. Raises UpstreamFailed."""


class Follower:
    """Follows one call. Without `open_upstream`, the call fails when no other gateway takes it over in time."""

    def __init__(
        self,
        call: InFlightCall,
        keys: CallKeys,
        tailer: StreamTailer,
        take_over: TakeOver,
        open_upstream: OpenUpstream | None,
        timeout_seconds: float,
    ) -> None:
        self.call = call
        self.keys = keys
        self.last_record = 0
        self.fallback_model: str | None = None
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Resolved when the reply has begun; it has an exception if the reply failed before that."""
        self._tailer = tailer
        self._take_over = take_over
        self._open_upstream = open_upstream
        self._timeout_seconds = timeout_seconds
        self._closed = self._paused = False
        self._silent = True
        """Whether no event has come yet."""
        self._takeover: asyncio.Task[None] | None = None
        self._leaderless_since: float | None = None
        self._idle = False
        call.follow(keys.id)
        tailer.add(self)

    # The methods of a source.

    def start(self, receiver: Receiver) -> None:
        """Nothing to do: this source appends to the log of the call itself."""

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._tailer.wake()

    def tick(self, now: float) -> None:
        """Nothing to do: the tailer watches the leader."""

    def close(self) -> None:
        self._closed = True
        self._tailer.discard(self)
        if self._takeover is not None:
            self._takeover.cancel()
        if not self.started.cancel() and not self.started.cancelled():
            self.started.exception()

    def mark_started(self) -> None:
        if not self.started.done():
            self.started.set_result(None)

    def _fail(self, error: Exception) -> None:
        """Report an error: to the code that waits for the beginning, or, after that, as the end of the reply."""
        self._tailer.discard(self)
        if not self.started.done():
            self.call.unfollow()
            self.started.set_exception(error)
            return
        self.call.mark_own_events()
        if isinstance(error, UpstreamFailed):
            self.call.on_events([Failed(error.fault)])
        else:
            self.call.on_crash(error)

    # Records and states from the tailer.

    @property
    def over(self) -> bool:
        return self._closed or self.call.ended

    @property
    def wants_records(self) -> bool:
        return not (self.over or self._paused or self._takeover)

    def on_records(self, found: Sequence[tuple[int, Record | None]]) -> None:
        for number, record in found:
            if number <= self.last_record or self.over:
                continue
            if number != self.last_record + 1 or record is None:
                self._start_takeover(shared=False)
                return
            self.last_record, self._idle = number, False
            self._read(record)

    def _read(self, record: Record) -> None:
        match record:
            case CallStarted(fallback_model, fence):
                self.fallback_model = fallback_model
                self.call.mark_leader(fence)
                self.mark_started()
            case BatchesWritten(batches):
                self.mark_started()
                self._append([batch.events for batch in batches])
            case CallFailed(fault):
                self._fail(UpstreamFailed(fault))
            case LeaseReleased():
                self._start_takeover(shared=True)

    def _append(self, batches: Sequence[list[Event]]) -> None:
        if batches:
            self._silent = self._silent and not any(batches)
            self.call.on_batches(batches)
        if self.call.ended:
            self._tailer.discard(self)

    def on_state(self, state: State) -> None:
        if state != "leaderless":
            self._leaderless_since = None
        if not self.wants_records:
            return
        if state == "leaderless":
            self._start_takeover(shared=True)
        elif state == "given up" and self._open_upstream is None:
            self._fail(UpstreamFailed(CANCELLED))
        elif state in ("missing", "given up") or (state == "ended" and self._idle):
            self._start_takeover(shared=False)
        self._idle = state == "ended"

    def on_unavailable(self, seconds: float) -> None:
        # The reply of a second call may differ: that does no harm before the first event.
        can_restart = self._open_upstream is not None and self._silent
        if seconds > (UNAVAILABLE_GRACE_SECONDS if can_restart else self._timeout_seconds) and self.wants_records:
            self._start_takeover(shared=False)

    # Taking the call over when its leader is gone.

    def _start_takeover(self, *, shared: bool) -> None:
        if self._takeover is not None or self.over:
            return
        if self._open_upstream is not None:
            task = self._run_takeover(self._open_upstream, shared)
            self._takeover = asyncio.get_running_loop().create_task(task)
        elif not shared or self._timed_out():
            self._fail(UpstreamFailed(ORPHANED))

    def _timed_out(self) -> bool:
        now = asyncio.get_running_loop().time()
        if self._leaderless_since is None:
            self._leaderless_since = now
        return now - self._leaderless_since > self._timeout_seconds

    async def _run_takeover(self, open_upstream: OpenUpstream, shared: bool) -> None:
        try:
            taken_over = await self._take_over(self, open_upstream, shared=shared)
        except Exception as error:
            self._fail(error)
            return
        if taken_over:
            self._tailer.discard(self)
            self.mark_started()
        else:
            self._takeover = None
            self._tailer.wake()
