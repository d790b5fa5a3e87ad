"""Replies that can be asked for again by their ids, for a while after they ended, and stopped before they have."""

import asyncio
import heapq
from collections import OrderedDict
from dataclasses import dataclass

from app.cache import Source
from app.formats.base import Format, Mode, ReplyInfo

SWEEP_SECONDS = 1.0
MAX_KEPT = 100_000


@dataclass(slots=True, eq=False)
class Kept:
    """What it takes to tell a reply once more, byte for byte."""

    info: ReplyInfo
    format: Format
    mode: Mode
    scope: str
    """Whose it is."""
    source: Source
    stays: bool = False
    """It goes on when its caller leaves."""

    def let_go(self) -> None:
        """Nobody is to come back for it."""
        if self.stays:
            self.source.release()


class Shelf:
    """Bounded in time, in bytes and in number; what still runs is never dropped."""

    def __init__(self, keep_seconds: float, max_bytes: int) -> None:
        self.keep_seconds = keep_seconds
        self._max_bytes = max_bytes
        self._kept: dict[str, Kept] = {}
        self._due: list[tuple[float, str]] = []
        self._ended: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, kept: Kept) -> None:
        """In place of what was known under the same id."""
        loop = asyncio.get_running_loop()
        id_ = kept.info.response_id
        if id_ not in self._kept:
            heapq.heappush(self._due, (loop.time() + SWEEP_SECONDS, id_))
        self._kept[id_] = kept
        if self._timer is None:
            self._timer = loop.call_later(SWEEP_SECONDS, self._sweep)

    def find(self, id_: str) -> Kept | None:
        return self._kept.get(id_)

    def drop(self, id_: str) -> None:
        if self._kept.pop(id_, None) is not None:
            self._bytes -= self._ended.pop(id_, 0)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._kept.clear()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._due and self._due[0][0] <= now:
            _, id_ = heapq.heappop(self._due)
            kept = self._kept.get(id_)
            if kept is None:
                continue
            if id_ in self._ended:
                self.drop(id_)
                continue
            if kept.source.ended:
                self._shelve(id_, kept)
            wait = self.keep_seconds if kept.source.ended else SWEEP_SECONDS
            heapq.heappush(self._due, (now + wait, id_))
        while self._ended and (self._bytes > self._max_bytes or len(self._kept) > MAX_KEPT):
            self.drop(next(iter(self._ended)))
        self._timer = loop.call_later(SWEEP_SECONDS, self._sweep) if self._kept else None

    def _shelve(self, id_: str, kept: Kept) -> None:
        """Its keeping time begins. Many callers may share one log; each is counted with all of it."""
        size = kept.source.size
        self._ended[id_] = size
        self._bytes += size
