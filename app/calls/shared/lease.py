"""The lease of a call that this process leads, with the records that are still to be written, in order.

While another gateway follows the call, or when the call ends, its records are written at once. While no other follows,
they are written every UNFOLLOWED_SECONDS if a client may resume the reply at another gateway, and else not at all: with
the first follower, Redis notifies the leader.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from app.calls.call import InFlightCall
from app.calls.entry import Batch
from app.calls.shared import records
from app.calls.shared.call_store import After, CallKeys, WriteRequest, WriteResult
from app.chat.events import Failed, Fault
from app.errors import UpstreamFailed

MAX_RECORD_BYTES = 128 * 1024
"""Batches are joined to one record up to this size."""
UNFOLLOWED_SECONDS = 0.25
MAX_UNFOLLOWED_BYTES = 512 * 1024
"""More than this is written at once, even if no other gateway follows."""
MAX_WAITING_BYTES = 4 * 1024 * 1024
"""If more than this waits to be written, because Redis is slower than the model, the call is no longer shared."""
MAX_CALL_BYTES = 32 * 1024 * 1024
"""When a reply is longer than this, its call is no longer shared."""


class LeaseHolder(Protocol):
    def on_renewed(self, has_followers: bool) -> None:
        """Redis has answered a write. `has_followers` says whether another gateway follows the call."""

    def on_unfollowed(self) -> None:
        """The call has ended, as `end_unless_followed` demanded: no other gateway follows it."""

    def on_lost(self) -> None:
        """Nothing more is written: Redis has lost the call, or the reply is too large to share."""


class CallLease:
    """The records of a call, and its lease. It calls `wake` when there is something to write at once."""

    def __init__(self, keys: CallKeys, wake: Callable[[], object], now: float) -> None:
        self.keys = keys
        self._holder: LeaseHolder | None = None
        self.has_followers = False
        self.resumable = False
        """A client may resume the reply, at any gateway."""
        self.over = False
        self.urgent = False
        self.written_at = now
        self._last_record = 0
        """The number of the last record that is known to be written."""
        self._written = False
        """Redis has answered a write of this lease."""
        self._wake = wake
        self._complete_records: deque[bytes] = deque()
        self._batches: deque[bytes] = deque()
        self._waiting = self._total = 0
        self._after: After = ""
        self._joinable_ms = 0
        self._sent: WriteRequest | None = None
        self._unavailable_since: float | None = None
        self._claim_unanswered = False

    # Called by the publisher.

    def attach(self, holder: LeaseHolder) -> None:
        """Set the holder, whose methods report what happens to the lease."""
        self._holder = holder

    def detach(self) -> None:
        self._holder = None

    def write_started(self, fallback_model: str | None = None) -> None:
        self._complete_records.append(records.write(records.CallStarted(fallback_model)))
        self._wake_writer()

    def set_resumable(self) -> None:
        if not self.resumable:
            self.resumable = True
            if self.urgent:
                self._wake_writer()

    def set_followed(self) -> None:
        """Another gateway has begun to follow the call."""
        self.has_followers = True
        if self.urgent:
            self._wake_writer()

    def write_failure(self, fault: Fault) -> None:
        self._complete_records.append(records.write(records.CallFailed(fault)))
        self.end()

    def append(self, batch: Batch) -> int:
        """Add a batch to the records. Returns its approximate size in bytes."""
        if self.over or self._after in ("end", "release"):
            return 0
        try:
            data = records.write_batch(batch)
        except records.UnencodableBatch:
            self.resign()
            return 0
        self._batches.append(data)
        self._waiting += len(data)
        self._total += len(data)
        if self._waiting > MAX_WAITING_BYTES or self._total > MAX_CALL_BYTES:
            self.resign()
        self._wake_writer()
        return len(data)

    def end(self, joinable_ms: int = 0) -> None:
        """End the call after its last record. Identical requests may join it for this time."""
        self._set_after("end", joinable_ms)

    def end_unless_followed(self) -> None:
        """End the call as soon as no other gateway follows it, because this one has no reader any more. Then
        `on_unfollowed` is called."""
        self._set_after("end_unless_followed", 0)

    def cancel_end_unless_followed(self) -> None:
        """Go on: this gateway has a reader again."""
        if self._after == "end_unless_followed":
            self._after = ""

    def resign(self) -> None:
        """Release the lease before the end of the reply. Waiting records are dropped."""
        if not self.over and self._after not in ("end", "release"):
            self._complete_records.clear()
            self._batches.clear()
            self._complete_records.append(records.write(records.LeaseReleased()))
            self._set_after("release", 0)

    def release_claim(self) -> None:
        """Release the lease of a claim that Redis has not answered: it may have executed it, or do so when it answers
        again, however late that is."""
        self._claim_unanswered = True
        self.resign()

    def _set_after(self, after: After, joinable_ms: int) -> None:
        if not self.over and self._after not in ("end", "release"):
            self._after, self._joinable_ms = after, joinable_ms
            self._wake_writer()

    def _wake_writer(self) -> None:
        self.urgent = True
        if self.quick:
            self._wake()

    # Called by the batch writer.

    @property
    def unneeded(self) -> bool:
        """Whether the call has ended and its records need not be written to Redis: identical requests find the reply in
        the store. If another gateway has joined the call before that, the records are written."""
        ended = self._after == "end" and self._joinable_ms > 0
        return ended and not (self.has_followers or self.resumable or self._written or self._sent)

    @property
    def quick(self) -> bool:
        """Whether the waiting records must be written at once."""
        if self.has_followers or self._waiting > MAX_UNFOLLOWED_BYTES:
            return True
        if self._after:
            return not self.unneeded
        return not self._written and self.resumable

    def due_at(self, lease_seconds: float) -> float:
        """Return the time of the next write: of records, or to renew the lease."""
        if not self.urgent or not (self.quick or self.resumable):
            return self.written_at + lease_seconds / 3
        return self.written_at + (0.0 if self.quick else UNFOLLOWED_SECONDS)

    def next_write(self) -> WriteRequest:
        """Return the next write. It stays the same until Redis answers it, because it may have arrived."""
        if self._sent is None:
            record = self._next_record()
            more = bool(self._complete_records or self._batches)
            self._sent = WriteRequest(
                self.keys, self._last_record + 1, record, "" if more else self._after, self._joinable_ms
            )
        return self._sent

    def _next_record(self) -> bytes:
        if self._complete_records:
            return self._complete_records.popleft()
        taken: list[bytes] = []
        size = 0
        while self._batches and (not taken or size + len(self._batches[0]) <= MAX_RECORD_BYTES):
            taken.append(self._batches.popleft())
            size += len(taken[-1])
        self._waiting -= size
        return records.write_batches(taken) if taken else b""

    def on_written(self, result: WriteResult, now: float) -> None:
        sent, self._sent = self._sent, None
        assert sent is not None
        self.written_at, self._unavailable_since, self._written = now, None, True
        self.has_followers = result.has_followers
        if sent.record:
            self._last_record = sent.record_number
        self.urgent = bool(self._complete_records or self._batches) or self._after not in (sent.after, "")
        if result.code == 0 or sent.after == "release":
            self._finish()
            self._notify_lost()
        elif result.code == 2:
            self._finish()
            self._notify_unfollowed()
        elif sent.after == "end":
            self._finish()
        elif self._holder is not None:
            self._holder.on_renewed(self.has_followers)

    def on_unavailable(self, now: float, timeout_seconds: float) -> None:
        """Redis does not answer. After `timeout_seconds`, stop trying to write the end of the call, unless Redis may
        still execute its claim."""
        if self._unavailable_since is None:
            self._unavailable_since = now
        timed_out = now - self._unavailable_since > timeout_seconds
        if self._after == "end_unless_followed" and (timed_out or not self.has_followers):
            self._finish()
            self._notify_unfollowed()
        elif self._after in ("end", "release") and timed_out and not self._claim_unanswered:
            self._finish()
            self._notify_lost()

    def drop(self) -> None:
        self._finish()
        self._notify_lost()

    def _finish(self) -> None:
        self.over, self.has_followers = True, False
        self._complete_records.clear()
        self._batches.clear()

    def _notify_lost(self) -> None:
        holder, self._holder = self._holder, None
        if holder is not None:
            holder.on_lost()

    def _notify_unfollowed(self) -> None:
        holder, self._holder = self._holder, None
        if holder is not None:
            holder.on_unfollowed()


log = logging.getLogger("parley.cache")

JOINABLE_AFTER_END_MS = 2000
"""How long identical requests may join a call that has ended normally: until the store has its reply."""
CRASHED = Fault("upstream_protocol", "the gateway that received this reply could not read it", False)


class Publisher:
    """Writes the log of a call to Redis. It does not count as a reader, but a call without readers goes on while
    another gateway follows it."""

    def __init__(self, call: InFlightCall, lease: CallLease, joinable_ms: int = JOINABLE_AFTER_END_MS) -> None:
        self._call = call
        self._lease = lease
        self._joinable_ms = joinable_ms
        self.position = 0
        if call.resumable:
            lease.set_resumable()
        lease.attach(self)
        call.publish(self, lease.keys.id)
        if call.ended:
            self.advance()

    @property
    def has_followers(self) -> bool:
        return self._lease.has_followers

    def on_unused(self) -> None:
        self._lease.end_unless_followed()

    def on_used(self) -> None:
        self._lease.cancel_end_unless_followed()

    def advance(self) -> None:
        """Write what is new. If that raises, other gateways get no more of the reply."""
        call = self._call
        try:
            if call.resumable:
                self._lease.set_resumable()
            if not call.aborted:
                self._write_new_batches()
            if call.ended:
                self._end()
        except Exception:
            log.exception("defect while writing a reply for other gateways")
            self._lease.resign()
        else:
            if not call.ended:
                return
        self._lease.detach()
        call.unpublish(self)

    def _write_new_batches(self) -> None:
        written = self._call.log
        for batch in written.batches[self.position - written.first_batch :]:
            self._lease.append(batch)
        self.position = written.end_position

    def _end(self) -> None:
        call, lease = self._call, self._lease
        if isinstance(call.error, UpstreamFailed):
            lease.write_failure(call.error.fault)
        elif call.aborted or call.error is not None:
            lease.resign()
        elif call.log.defect is not None:
            lease.append(Batch(0.0, [Failed(CRASHED)]))
            lease.end()
        else:
            joinable = call.log.is_cacheable(length=False)
            lease.end(self._joinable_ms if joinable else 0)

    # Called by the lease.

    def on_renewed(self, has_followers: bool) -> None:
        if has_followers:
            self._call.on_followed()
        self._call.update_backpressure()

    def on_unfollowed(self) -> None:
        self._call.unpublish(self)

    def on_lost(self) -> None:
        self._call.unpublish(self)
