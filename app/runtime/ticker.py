"""One timer for all heartbeats and timeouts: calls every registered object once per interval."""

import asyncio
from collections.abc import Iterator
from typing import Protocol


class Tickable(Protocol):
    def tick(self, now: float) -> None:
        """Called once per interval with the event loop's time. Must not raise."""


class Ticker:
    def __init__(self, interval_seconds: float) -> None:
        self._interval = interval_seconds
        self._live: set[Tickable] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, item: Tickable) -> None:
        self._live.add(item)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._tick_all)

    def discard(self, item: Tickable) -> None:
        self._live.discard(item)

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Tickable]:
        return iter(list(self._live))

    def _tick_all(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._interval, self._tick_all) if self._live else None
        now = loop.time()
        for item in list(self._live):
            item.tick(now)
