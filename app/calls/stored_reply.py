"""Replies that have ended, and can be read again: `StoredReply`, from the store, and `PackedReply`, kept in memory."""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from app.calls.codec import LARGE_ENTRY, Batch, NotEncodable, StoredEntry, dump, load, plain_size
from app.calls.log import EVENT_BYTES, ReplyLocation, ReplyLog, events_size
from app.calls.replay import Pace, PacedReplay, Replay, Turns
from app.chat.events import Event, Finish, is_end
from app.chat.stream import Reply
from app.chat.token_usage import as_free

_OBJECT_BYTES = 400
"""The approximate size of a packed reply besides its bytes."""


class PackedReply(Struct, frozen=True, gc=False):
    """A reply as the bytes of its entry, which are decoded for each reader. They take a tenth of the memory of a log,
    and the garbage collector visits none of them: thousands of replies are kept for clients that resume."""

    data: bytes
    location: ReplyLocation | None
    cached: bool = False
    """It was read from the store, so its usage is marked as cached."""

    @property
    def size(self) -> int:
        return len(self.data) + _OBJECT_BYTES

    @property
    def ended(self) -> bool:
        return True

    @property
    def complete(self) -> bool:
        return True

    async def open(self) -> Reply:
        entry = load(self.data)
        batches = _mark_usage_cached(entry.batches) if self.cached else entry.batches
        events = [batch.events for batch in batches]
        return Replay(Turns(events, _estimate_size(events, self.data)), whole=True)

    def release(self, seconds: float) -> None: ...

    def keep_for_resume(self) -> None: ...

    def pack(self) -> "PackedReply":
        return self


class StoredReply:
    """A reply from the store, under the key of its request. Any number of readers may read it."""

    ended = complete = True

    def __init__(self, key: str, entry: StoredEntry, data: bytes | None = None, pace: Pace = "fast") -> None:
        """`data` is the reply as it was stored, if that is known. `pace` is that of `add_reader`."""
        batches = _mark_usage_cached(entry.batches)
        events = [batch.events for batch in batches]
        self.data = data
        self.created = entry.created
        self.location: ReplyLocation = ("entry", f"{key}@{entry.created!r}")
        self.size = _estimate_size(events, data)
        self._turns = Turns(events, self.size)
        self._whole = bool(events) and is_end(events[-1])
        self._pace = pace
        self._batches = batches if data is None or pace == "original" else []
        """Empty if only the turns are needed, which take less memory."""

    def add_reader(self) -> Reply:
        if self._pace == "original":
            return PacedReplay(self._batches, whole=self._whole)
        return Replay(self._turns, whole=self._whole)

    async def open(self) -> Reply:
        return Replay(self._turns, whole=self._whole)

    def release(self, seconds: float) -> None: ...

    def keep_for_resume(self) -> None: ...

    def pack(self) -> PackedReply | None:
        if not self._whole:
            return None
        if self.data is not None:
            return PackedReply(self.data, self.location, cached=True)
        entry = StoredEntry(self.created, list(self._batches))
        return _pack(partial(dump, entry), self.size, self.location)


def pack_log(log: ReplyLog, size: int, location: ReplyLocation | None) -> PackedReply | None:
    """Pack a log; None if it has no last event, is large, or cannot be encoded."""
    if log.defect is not None or not log.batches:
        return None
    return _pack(log.dump, size, location)


def _pack(encode: Callable[[], bytes], size: int, location: ReplyLocation | None) -> PackedReply | None:
    if size > LARGE_ENTRY:
        return None
    try:
        data = encode()
    except NotEncodable:
        return None
    return PackedReply(data, location)


def _estimate_size(events: Sequence[list[Event]], data: bytes | None) -> int:
    """Return about what `events_size` of all of them is, which takes long. `data` is the reply as it was stored."""
    if data is None:
        return sum(map(events_size, events))
    return plain_size(data) + EVENT_BYTES * sum(map(len, events))


def _mark_usage_cached(batches: Sequence[Batch]) -> Sequence[Batch]:
    """Mark the usage as `cached`: this reply used no tokens, and cost nothing."""
    last = batches[-1] if batches else None
    finish = last.events[-1] if last is not None and last.events else None
    if last is None or not isinstance(finish, Finish) or finish.usage is None:
        return batches
    marked = replace(finish, usage={**as_free(finish.usage), "cached": True})
    return [*batches[:-1], Batch(last.at, [*last.events[:-1], marked])]
