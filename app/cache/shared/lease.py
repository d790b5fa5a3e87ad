"""A flight that this process leads: what has still to be written of it, in the order in which it must stand."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from app.cache.codec import Batch
from app.cache.shared import records
from app.cache.shared.call_store import After, CallKeys, WriteRequest, WriteResult
from app.chat.events import Fault

MAX_RECORD_BYTES = 128 * 1024
"""Batches are gathered into one record up to this size."""
MAX_WAITING_BYTES = 4 * 1024 * 1024
"""A Redis that is slower than the model by more than this is not told the rest."""
MAX_CALL_BYTES = 32 * 1024 * 1024
"""A longer reply is not shared to its end."""


class LeaseHolder(Protocol):
    def on_beat(self, others: bool) -> None:
        """Redis has answered: whether somebody follows elsewhere."""

    def on_alone(self) -> None:
        """It was to be left, and nobody else listens."""

    def on_lost(self) -> None:
        """Nothing more is written: another process leads, or the reply is too much for Redis."""


class CallLease:
    """`wake` is called when there is something to write at once."""

    def __init__(self, names: CallKeys, fence: int, place: int, wake: Callable[[], object], now: float) -> None:
        self.names = names
        self._holder: LeaseHolder | None = None
        self.has_followers = False
        self.over = False
        self.urgent = False
        self.written_at = now
        self._fence = fence
        self._last_record = place
        """The number of the last record that is known to be written."""
        self._wake = wake
        self._complete_records: deque[bytes] = deque()
        self._batches: deque[bytes] = deque()
        self._waiting = self._total = 0
        self._after: After = ""
        self._joinable_ms = 0
        self._sent: WriteRequest | None = None
        self._away_since: float | None = None

    # -- from the leader ----------------------------------------------------------------------------------------------

    def attach(self, holder: LeaseHolder) -> None:
        """Who is told what becomes of the lease."""
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
        """About its bytes."""
        if self.over or self._after in ("ended", "left"):
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

    def end(self, glow_ms: int = 0) -> None:
        """All was said. Equal questions may join for so long still."""
        self._conclude("ended", glow_ms)

    def leave_unless_followed(self) -> None:
        """Nobody listens here: ask, until `on_alone`, whether somebody does elsewhere."""
        self._conclude("leave", 0)

    def stay(self) -> None:
        """Somebody listens here again."""
        if self._after == "leave":
            self._after = ""

    def resign(self) -> None:
        """Somebody else may lead; what was not written yet never will be."""
        if not self.over and self._after not in ("ended", "left"):
            self._complete_records.clear()
            self._batches.clear()
            self._complete_records.append(records.write(records.LeaseReleased()))
            self._conclude("left", 0)

    def _conclude(self, after: After, glow_ms: int) -> None:
        if not self.over and self._after not in ("ended", "left"):
            self._after, self._joinable_ms = after, glow_ms
            self._wake_writer()

    def _wake_writer(self) -> None:
        self.urgent = True
        self._wake()

    # -- from the press -----------------------------------------------------------------------------------------------

    def next_write(self) -> WriteRequest:
        """What is to be written next: the same until it was answered, for it may have arrived."""
        if self._sent is None:
            record = self._next_record()
            more = bool(self._complete_records or self._batches)
            self._sent = WriteRequest(
                self.names, self._fence, self._last_record + 1, record, "" if more else self._after, self._joinable_ms
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

    def on_written(self, answer: WriteResult, now: float) -> None:
        sent, self._sent = self._sent, None
        assert sent is not None
        self.written_at, self._away_since = now, None
        self.has_followers = answer.has_followers
        if sent.record:
            self._last_record = sent.record_number
        self.urgent = bool(self._complete_records or self._batches) or self._after not in (sent.after, "")
        if answer.code == 0 or sent.after == "left":
            self._finish()
            self._notify_lost()
        elif answer.code == 2:
            self._finish()
            self._notify_alone()
        elif sent.after == "ended":
            self._finish()
        elif self._holder is not None:
            self._holder.on_beat(self.has_followers)

    def on_unavailable(self, now: float, patience: float) -> None:
        """Redis does not answer. What was said last is not said for ever."""
        if self._away_since is None:
            self._away_since = now
        long = now - self._away_since > patience
        if self._after == "leave" and (long or not self.has_followers):
            self._finish()
            self._notify_alone()
        elif self._after in ("ended", "left") and long:
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

    def _notify_alone(self) -> None:
        holder, self._holder = self._holder, None
        if holder is not None:
            holder.on_alone()
