"""A flight that this process leads: what has still to be written of it, in the order in which it must stand."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from app.cache.commons import records
from app.cache.commons.ledger import After, Answer, Names, Parcel
from app.cache.entry import Batch
from app.chat.events import Fault

MAX_RECORD_BYTES = 128 * 1024
"""Batches are gathered into one record up to this size."""
MAX_WAITING_BYTES = 4 * 1024 * 1024
"""A Redis that is slower than the model by more than this is not told the rest."""
MAX_FLIGHT_BYTES = 32 * 1024 * 1024
"""A longer reply is not shared to its end."""


class Leader(Protocol):
    def on_beat(self, others: bool) -> None:
        """Redis has answered: whether somebody follows elsewhere."""

    def on_alone(self) -> None:
        """It was to be left, and nobody else listens."""

    def on_lost(self) -> None:
        """Nothing more is written: another process leads, or the reply is too much for Redis."""


class Tenure:
    """`wake` is called when there is something to write at once."""

    def __init__(self, names: Names, fence: int, place: int, wake: Callable[[], object], now: float) -> None:
        self.names = names
        self.leader: Leader | None = None
        self.others = False
        self.over = False
        self.urgent = False
        self.written_at = now
        self._fence = fence
        self._place = place
        """The number of the last record that is known to be written."""
        self._wake = wake
        self._whole: deque[bytes] = deque()
        self._batches: deque[bytes] = deque()
        self._waiting = self._total = 0
        self._after: After = ""
        self._glow_ms = 0
        self._sent: Parcel | None = None
        self._away_since: float | None = None

    # -- from the leader ----------------------------------------------------------------------------------------------

    def begun(self) -> None:
        self._whole.append(records.write(records.Begun()))
        self._hurry()

    def refuse(self, fault: Fault) -> None:
        self._whole.append(records.write(records.Refused(fault)))
        self.end()

    def speak(self, batch: Batch) -> int:
        """About its bytes."""
        if self.over or self._after in ("ended", "left"):
            return 0
        try:
            data = records.write_batch(batch)
        except records.Unspeakable:
            self.step_down()
            return 0
        self._batches.append(data)
        self._waiting += len(data)
        self._total += len(data)
        if self._waiting > MAX_WAITING_BYTES or self._total > MAX_FLIGHT_BYTES:
            self.step_down()
        self._hurry()
        return len(data)

    def end(self, glow_ms: int = 0) -> None:
        """All was said. Equal questions may join for so long still."""
        self._conclude("ended", glow_ms)

    def leave(self) -> None:
        """Nobody listens here: ask, until `on_alone`, whether somebody does elsewhere."""
        self._conclude("leave", 0)

    def step_down(self) -> None:
        """Somebody else may lead; what was not written yet never will be."""
        if not self.over and self._after not in ("ended", "left"):
            self._whole.clear()
            self._batches.clear()
            self._whole.append(records.write(records.Left()))
            self._conclude("left", 0)

    def _conclude(self, after: After, glow_ms: int) -> None:
        if not self.over and self._after not in ("ended", "left"):
            self._after, self._glow_ms = after, glow_ms
            self._hurry()

    def _hurry(self) -> None:
        self.urgent = True
        self._wake()

    # -- from the press -----------------------------------------------------------------------------------------------

    def parcel(self) -> Parcel:
        """What is to be written next: the same until it was answered, for it may have arrived."""
        if self._sent is None:
            record = self._next_record()
            more = bool(self._whole or self._batches)
            self._sent = Parcel(
                self.names, self._fence, self._place + 1, record, "" if more else self._after, self._glow_ms
            )
        return self._sent

    def _next_record(self) -> bytes:
        if self._whole:
            return self._whole.popleft()
        taken: list[bytes] = []
        size = 0
        while self._batches and (not taken or size + len(self._batches[0]) <= MAX_RECORD_BYTES):
            taken.append(self._batches.popleft())
            size += len(taken[-1])
        self._waiting -= size
        return records.write_batches(taken) if taken else b""

    def answered(self, answer: Answer, now: float) -> None:
        sent, self._sent = self._sent, None
        assert sent is not None
        self.written_at, self._away_since = now, None
        self.others = answer.others
        if sent.record:
            self._place = sent.place
        self.urgent = bool(self._whole or self._batches) or self._after not in (sent.after, "")
        if answer.code == 0 or sent.after == "left":
            self._finish()
            self._tell_lost()
        elif answer.code == 2:
            self._finish()
            self._tell_alone()
        elif sent.after == "ended":
            self._finish()
        elif self.leader is not None:
            self.leader.on_beat(self.others)

    def away(self, now: float, patience: float) -> None:
        """Redis does not answer. What was said last is not said for ever."""
        if self._away_since is None:
            self._away_since = now
        long = now - self._away_since > patience
        if self._after == "leave" and (long or not self.others):
            self._finish()
            self._tell_alone()
        elif self._after in ("ended", "left") and long:
            self._finish()
            self._tell_lost()

    def drop(self) -> None:
        self._finish()
        self._tell_lost()

    def _finish(self) -> None:
        self.over, self.others = True, False
        self._whole.clear()
        self._batches.clear()

    def _tell_lost(self) -> None:
        if self.leader is not None:
            self.leader.on_lost()

    def _tell_alone(self) -> None:
        if self.leader is not None:
            self.leader.on_alone()
