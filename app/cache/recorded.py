"""A reply that is all there, told as often as anyone likes."""

from collections.abc import Sequence

from msgspec.structs import replace

from app.cache.codec import Batch
from app.cache.inflight import ReplyLocation, events_size
from app.cache.replay import Pace, ReplayedReply
from app.chat.events import Finish


class StoredReply:
    ended = complete = True

    def __init__(self, key: str, batches: Sequence[Batch], at: float) -> None:
        self.location: ReplyLocation = ("entry", f"{key}@{at!r}")
        self._batches = _marked(batches)

    @property
    def size(self) -> int:
        return sum(events_size(batch.events) for batch in self._batches)

    def add_reader(self, pace: Pace) -> ReplayedReply:
        return ReplayedReply(self._batches, pace)

    async def open(self) -> ReplayedReply:
        return self.add_reader("fast")

    def release(self) -> None: ...


def _marked(batches: Sequence[Batch]) -> list[Batch]:
    """Usage says that nothing was used this time."""
    last = batches[-1]
    finish = last.events[-1]
    if not isinstance(finish, Finish) or finish.usage is None:
        return list(batches)
    told = replace(finish, usage={**finish.usage, "cached": True})
    return [*batches[:-1], Batch(last.at, [*last.events[:-1], told])]
