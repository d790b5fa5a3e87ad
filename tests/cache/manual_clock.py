"""A loop whose time is ours, and whoever a reply is told to in it."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from app.chat.events import Event, Finish


class Clocked(asyncio.SelectorEventLoop):
    """A loop whose time is ours: where nothing is ready, it is at once the time of the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.turns = 0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        self.turns += 1
        timers = [handle.when() for handle in self._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
        if not self._ready and timers:  # type: ignore[attr-defined]
            self.now = max(self.now, min(timers))
        super()._run_once()  # type: ignore[misc]


def run(scenario: Callable[[Clocked], Coroutine[Any, Any, None]]) -> Clocked:
    loop = Clocked()
    try:
        loop.run_until_complete(asyncio.wait_for(scenario(loop), 3600))
    finally:
        loop.close()
    return loop


class Listener:
    """Keeps what it is told, and when; after each group it does what it is to do."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.received: list[list[Event]] = []
        self.groups: list[int] = []
        self.at: list[float] = []
        self.crash: Exception | None = None
        self.then = then
        self.paused = False
        self.ended = asyncio.Event()

    def on_events(self, events: list[Event]) -> None:
        self.on_batches([events])

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        assert batches and not self.ended.is_set() and not self.paused
        self.groups.append(len(batches))
        self.received += batches
        self.at += [asyncio.get_running_loop().time()] * len(batches)
        if batches[-1] and type(batches[-1][-1]) is Finish:
            self.ended.set()
        self.then()

    def on_crash(self, error: Exception) -> None:
        self.crash = error
