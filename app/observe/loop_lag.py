"""Measures how late the event loop runs its timers: the time for which a callback kept it from everything else."""

import asyncio
import time
from collections.abc import Callable

SAMPLE_SECONDS = 0.5


class LoopLagSampler:
    """Starts a timer again and again, and reports how late it ran. It has its own timer, because the ticker stops while
    there are no requests."""

    def __init__(self, observe: Callable[[float], None], interval_seconds: float = SAMPLE_SECONDS) -> None:
        self._observe = observe
        self._interval = interval_seconds
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._due = time.perf_counter() + self._interval
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._sample)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _sample(self) -> None:
        self._observe(max(0.0, time.perf_counter() - self._due))
        self.start()
