"""The lease of a call that this process leads, with the records that are still to be written, in order."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from app.cache.codec import Batch
from app.cache.shared import records
from app.cache.shared.call_store import After, CallKeys, WriteRequest, WriteResult
from app.chat.events import Fault

MAX_RECORD_BYTES = 128 * 1024
"""Batches are joined to one record up to this size."""
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
        """Nothing more is written: another gateway leads the call, or the reply is too large to share."""


class CallLease:
    """The records of a call, and its lease. It calls `wake` when there is something to write at once."""

    def __init__(self, keys: CallKeys, fence: int, last_record: int, wake: Callable[[], object], now: float) -> None:
        self.keys = keys
        self._holder: LeaseHolder | None = None
        self.has_followers = False
        self.over = False
        self.urgent = False
        self.written_at = now
        self._fence = fence
        self._last_record = last_record
        """The number of the last record that is known to be written."""
        self._wake = wake
        self._complete_records: deque[bytes] = deque()
        self._batches: deque[bytes] = deque()
        self._waiting = self._total = 0
        self._after: After = ""
        self._joinable_ms = 0
        self._sent: WriteRequest | None = None
        self._unavailable_since: float | None = None

    # Called by the publisher.

    def attach(self, holder: LeaseHolder) -> None:
        """Set the holder, whose methods report what happens to the lease."""
        self._holder = holder

    def detach(self) -> None:
        self._holder = None

    def write_started(self) -> None:
        self._complete_records.append(records.write(records.CallStarted()))
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
        """End the call after its last record. Equal requests may join it for this time."""
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
        """Release the lease, so that another gateway can take the call over. Waiting records are dropped."""
        if not self.over and self._after not in ("end", "release"):
            self._complete_records.clear()
            self._batches.clear()
            self._complete_records.append(records.write(records.LeaseReleased()))
            self._set_after("release", 0)

    def _set_after(self, after: After, joinable_ms: int) -> None:
        if not self.over and self._after not in ("end", "release"):
            self._after, self._joinable_ms = after, joinable_ms
            self._wake_writer()

    def _wake_writer(self) -> None:
        self.urgent = True
        self._wake()

    # Called by the batch writer.

    def next_write(self) -> WriteRequest:
        """Return the next write. It stays the same until Redis answers it, because it may have arrived."""
        if self._sent is None:
            record = self._next_record()
            more = bool(self._complete_records or self._batches)
            self._sent = WriteRequest(
                self.keys, self._fence, self._last_record + 1, record, "" if more else self._after, self._joinable_ms
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
        self.written_at, self._unavailable_since = now, None
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
        """Redis does not result. After `timeout_seconds`, stop trying to write the end of the call."""
        if self._unavailable_since is None:
            self._unavailable_since = now
        timed_out = now - self._unavailable_since > timeout_seconds
        if self._after == "end_unless_followed" and (timed_out or not self.has_followers):
            self._finish()
            self._notify_unfollowed()
        elif self._after in ("end", "release") and timed_out:
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
