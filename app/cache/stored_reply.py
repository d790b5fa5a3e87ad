"""Replies that have ended, and can be read again: `StoredReply`, from the store, and `PackedReply`, kept in memory."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from app.cache.codec import LARGE_ENTRY, Batch, NotEncodable, StoredEntry, dump, load, plain_size
from app.cache.log import ALL, UNKNOWN, EqualUntil, LogReader, Pace, ReplyLocation, ReplyLog
from app.chat.events import Finish

_OBJECT_BYTES = 400
"""The approximate size of a packed reply besides its bytes."""


class PackedReply(Struct, frozen=True, gc=False):
    """A reply as the bytes of its entry, which are decoded for each reader. They take a tenth of the memory of a log,
    and the garbage collector visits none of them: thousands of replies are kept for clients that resume."""

    data: bytes
    location: ReplyLocation | None
    equal_until: EqualUntil = UNKNOWN
    cached: bool = False
    """It was read from the store, so its usage is marked as cached."""

    @property
    def leaders(self) -> Sequence[tuple[int, int]]:
        return ()

    @property
    def size(self) -> int:
        return len(self.data) + _OBJECT_BYTES

    @property
    def ended(self) -> bool:
        return True

    @property
    def complete(self) -> bool:
        return True

    async def open(self) -> LogReader:
        entry = load(self.data)
        batches = _mark_usage_cached(entry.batches) if self.cached else entry.batches
        return ReplyLog.from_batches(batches, entry.created, size=plain_size(self.data)).add_reader()

    def release(self) -> None: ...

    def keep_for_resume(self) -> None: ...

    def pack(self) -> "PackedReply":
        return self


class StoredReply:
    """A reply from the store: a finished log under the key of its request."""

    ended = complete = True
    equal_until: EqualUntil = ALL
    leaders: Sequence[tuple[int, int]] = ()

    def __init__(self, key: str, batches: Sequence[Batch], finished_at: float, data: bytes | None = None) -> None:
        """`data` is the reply as it was stored, if that is known."""
        self.location: ReplyLocation = ("entry", f"{key}@{finished_at!r}")
        self._data = data
        size = None if data is None else plain_size(data)
        self._log = ReplyLog.from_batches(_mark_usage_cached(batches), finished_at, size=size)

    @property
    def size(self) -> int:
        return self._log.size

    def add_reader(self, pace: Pace) -> LogReader:
        return self._log.add_reader(pace)

    async def open(self) -> LogReader:
        return self.add_reader("fast")

    def release(self) -> None: ...

    def keep_for_resume(self) -> None: ...

    def pack(self) -> PackedReply | None:
        if self._data is not None and self._log.defect is None:
            return PackedReply(self._data, self.location, self.equal_until, cached=True)
        return pack_log(self._log, self.size, self.location, self.equal_until)


def pack_log(
    log: ReplyLog, size: int, location: ReplyLocation | None, equal_until: EqualUntil = UNKNOWN
) -> PackedReply | None:
    """Pack a log; None if it has no last event, is large, or cannot be encoded."""
    if log.defect is not None or not log.batches or size > LARGE_ENTRY:
        return None
    try:
        data = dump(StoredEntry(log.finished_at or 0.0, log.batches))
    except NotEncodable:
        return None
    return PackedReply(data, location, equal_until)


def _mark_usage_cached(batches: Sequence[Batch]) -> Sequence[Batch]:
    """Mark the usage as `cached`: this reply used no tokens, and cost nothing."""
    last = batches[-1] if batches else None
    finish = last.events[-1] if last is not None and last.events else None
    if last is None or not isinstance(finish, Finish) or finish.usage is None:
        return batches
    cost = {"cost": 0.0} if "cost" in finish.usage else {}
    marked = replace(finish, usage={**finish.usage, **cost, "cached": True})
    return [*batches[:-1], Batch(last.at, [*last.events[:-1], marked])]
