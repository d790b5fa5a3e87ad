"""The source of a call that another gateway leads: it reads that gateway's records from Redis."""

import asyncio
from collections.abc import Sequence

from app.calls.call import CANCELLED, LOST, LOST_WITH_TOOLS, is_lost
from app.calls.shared.call_store import CallKeys, State
from app.calls.shared.records import BatchesWritten, CallFailed, CallStarted, LeaseReleased, Record
from app.calls.shared.tailer import StreamTailer
from app.chat.events import Event, Failed, Fault, ServerResult, TurnEnd, is_end
from app.chat.stream import Receiver
from app.errors import UpstreamFailed

_TOOL_EVENTS = (TurnEnd, ServerResult)
"""Those after which tools run, or have run."""
UNAVAILABLE_GRACE_SECONDS = 0.1
"""How long Redis may be down before a reply that has not begun counts as lost."""


class Follower:
    """Follows one call. A reply whose leader is gone before its end fails with LOST."""

    def __init__(self, keys: CallKeys, tailer: StreamTailer, timeout_seconds: float) -> None:
        """`timeout_seconds`: how long a leader may be silent after its lease has expired, and how long Redis may be."""
        self.keys = keys
        self.last_record = 0
        self.fallback_model: str | None = None
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Resolved when the reply has begun; it has an exception if the reply failed before that."""
        self._tailer = tailer
        self._timeout_seconds = timeout_seconds
        self._receiver: Receiver | None = None
        self._held: list[list[Event]] = []
        """The events that came before there was a receiver."""
        self._over = self._paused = False
        self._runs_tools = False
        """The leader has begun to run tools."""
        self._leaderless_since: float | None = None
        self._idle = False
        tailer.add(self)

    @property
    def is_lost(self) -> bool:
        """Whether the reply was lost before it had a receiver."""
        return bool(self._held) and len(self._held[-1]) == 1 and is_lost(self._held[-1][0])

    # The methods of a source.

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        held, self._held = self._held, []
        if held:
            receiver.on_batches(held)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._tailer.wake()

    def tick(self, now: float) -> None:
        """Nothing to do: the tailer watches the leader."""

    def close(self) -> None:
        self._receiver = None
        self._end()
        if not self.started.cancel() and not self.started.cancelled():
            self.started.exception()

    def mark_started(self) -> None:
        if not self.started.done():
            self.started.set_result(None)

    def _end(self) -> None:
        self._over = True
        self._tailer.discard(self)

    def _fail(self, fault: Fault) -> None:
        """Report a failure: to the code that waits for the beginning, or, after that, as the end of the reply."""
        if self.started.done():
            if fault is LOST and self._runs_tools:
                fault = LOST_WITH_TOOLS
            self._append([[Failed(fault)]])
        else:
            self._end()
            self.started.set_exception(UpstreamFailed(fault))

    # Records and states from the tailer.

    @property
    def wants_records(self) -> bool:
        return not (self._over or self._paused)

    def on_records(self, found: Sequence[tuple[int, Record | None]]) -> None:
        for number, record in found:
            if number <= self.last_record or self._over:
                continue
            if number != self.last_record + 1 or record is None:
                self._fail(LOST)
                return
            self.last_record, self._idle = number, False
            self._read(record)

    def _read(self, record: Record) -> None:
        match record:
            case CallStarted(fallback_model):
                self.fallback_model = fallback_model
                self.mark_started()
            case BatchesWritten(batches):
                self.mark_started()
                read = [batch.events for batch in batches]
                if not self._runs_tools:
                    self._runs_tools = any(type(event) in _TOOL_EVENTS for events in read for event in events)
                self._append(read)
            case CallFailed(fault):
                self._fail(fault)
            case LeaseReleased():
                self._fail(LOST)

    def _append(self, batches: list[list[Event]]) -> None:
        if not batches:
            return
        if is_end(batches[-1]):
            self._end()
        if self._receiver is None:
            self._held += batches
        else:
            self._receiver.on_batches(batches)

    def on_state(self, state: State) -> None:
        if state != "leaderless":
            self._leaderless_since = None
        if not self.wants_records:
            return
        if state == "given up":
            self._fail(CANCELLED if self.started.done() else LOST)
        elif state == "missing" or (state == "ended" and self._idle) or (state == "leaderless" and self._timed_out()):
            self._fail(LOST)
        self._idle = state == "ended"

    def _timed_out(self) -> bool:
        """Whether the call has had no leader for too long: one that was only slow renews its lease."""
        if not self.started.done():
            return True
        now = asyncio.get_running_loop().time()
        if self._leaderless_since is None:
            self._leaderless_since = now
        return now - self._leaderless_since > self._timeout_seconds

    def on_unavailable(self, seconds: float) -> None:
        limit = self._timeout_seconds if self.started.done() else UNAVAILABLE_GRACE_SECONDS
        if seconds > limit and self.wants_records:
            self._fail(LOST)
