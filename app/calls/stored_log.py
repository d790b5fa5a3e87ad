"""`StoredLog`: a reply that has ended, as a log in which neighbouring texts are runs."""

from collections.abc import Sequence

from msgspec.structs import replace
from typing_extensions import override

from app.calls.entry import LARGE_ENTRY, Batch, CorruptEntry, NotEncodable, StoredEntry, dump, plain_size
from app.calls.log import (
    BYTES_PER_TURN,
    EVENT_BYTES,
    LogLimits,
    LogReader,
    Pace,
    ReplyLocation,
    ReplyLog,
    Turn,
    count_for_turn,
    events_size,
)
from app.chat.event_runs import join_texts
from app.chat.events import Event, Finish, is_end
from app.chat.token_usage import as_free

STORED_LIMITS = LogLimits(batches_per_turn=256)
"""To encode so many batches takes less than a millisecond; each turn costs a write to the socket."""


class StoredLog(ReplyLog):
    """Any number of readers share what was decoded. Each turn is made when it is first read: a long reply does not hold
    up the event loop."""

    def __init__(
        self,
        entry: StoredEntry,
        location: ReplyLocation | None = None,
        data: bytes | None = None,
        pace: Pace = "fast",
        *,
        cached: bool = True,
        limits: LogLimits = STORED_LIMITS,
    ) -> None:
        """`data` are the bytes of the entry, if they are known. With `cached`, the usage is marked as that of a stored
        reply. At the original pace the log keeps all its batches, which take more memory. Raises CorruptEntry if the
        reply has no end."""
        super().__init__(limits=limits)
        if not entry.batches or not is_end(entry.batches[-1].events):
            raise CorruptEntry("the reply has no end")
        self.ended = True
        self.finished_at = entry.created
        self.created = entry.created
        self.location = location
        self.data = data
        self.pace = pace
        self._entry_of_log = entry if data is None else None
        batches = _mark_usage_cached(entry.batches) if cached else entry.batches
        events = [batch.events for batch in batches]
        self.size = _estimate_size(events, data)
        self._count = len(batches)
        if pace == "original":
            self.batches = batches
            events = []
        self._unjoined = events
        """The batches of the turns that are not made yet, and of earlier ones until the last turn is made."""
        self._joined = 0
        """How many batches are in the turns that were made."""
        self._turns: dict[int, Turn] = {}
        """The turns that were made, by their first batch."""

    @property
    @override
    def end_position(self) -> int:
        return self._count

    async def open(self) -> LogReader:
        """Return a reader for a client that resumes the reply."""
        return self.add_reader()

    @override
    def read(self, position: int, until: int) -> Turn:
        if self.pace == "original":
            return super().read(position, until)
        turn = self._turns.get(position)
        if turn is None:
            turn = self._turns[position] = self._make_turn()
        return turn

    def _make_turn(self) -> Turn:
        group = self._unjoined[self._joined : self._joined + self.limits.batches_per_turn]
        if self.size > BYTES_PER_TURN:
            group = group[: count_for_turn(group)]
        self._joined += len(group)
        if self._joined == self._count:
            self._unjoined = []  # the turns take less memory
        return join_texts(group)

    @override
    def pack(self) -> bytes | None:
        if self.size > LARGE_ENTRY:
            return None
        if self._entry_of_log is None:
            return self.data
        try:
            return dump(self._entry_of_log)
        except NotEncodable:
            return None


def _estimate_size(events: Sequence[list[Event]], data: bytes | None) -> int:
    """Return about what `events_size` of all of them is, which takes long. `data` is the reply as it was stored."""
    if data is None:
        return sum(map(events_size, events))
    return plain_size(data) + EVENT_BYTES * sum(map(len, events))


def _mark_usage_cached(batches: list[Batch]) -> list[Batch]:
    """Mark the usage as `cached`: this reply used no tokens, and cost nothing."""
    last = batches[-1]
    finish = last.events[-1]
    if not isinstance(finish, Finish) or finish.usage is None:
        return batches
    marked = replace(finish, usage={**as_free(finish.usage), "cached": True})
    return [*batches[:-1], Batch(last.at, [*last.events[:-1], marked])]
