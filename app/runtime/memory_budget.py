"""One memory budget for all requests: bodies, parsed values, fetched media, and prepared requests that wait.

Leases hold bytes. `take` never waits: if the bytes are not available, the request is refused with `overloaded`, so
that unfinished bodies cannot wait for each other. Only `wait`, for work that ends by itself, waits in a queue. `take`
leaves half of the budget to it and no `wait` takes more than that half, so the queue always moves. Only requests that
wait a second time, with a large body that continues a large stored conversation, can wait for each other, until the
first is refused.
"""

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

from app.errors import Busy

UNCOUNTED_BYTES = 64 * 1024
"""Smaller bodies are not counted, so that ordinary requests are served while the budget is used up."""
_FULL = "the gateway's memory for requests (server.max_request_memory_bytes) is used up; send the request again later"


class MemoryBudget:
    """The budget of one event loop."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        """How many requests wait in the queue."""
        return len(self._waiting)

    def lease(self) -> "Lease":
        return Lease(self)

    def _take(self, size: int) -> None:
        if self.held_bytes + size > self.max_bytes // 2:
            raise Busy(_FULL)
        self.held_bytes += size

    async def _wait(self, size: int, seconds: float) -> None:
        """Wait in the queue until the bytes are available, and take them. Raises Busy after `seconds`."""
        if not self._waiting and self.held_bytes + size <= self.max_bytes:
            self.held_bytes += size
            return
        entry = (size, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(seconds):
                await entry[1]
        except BaseException as error:
            if entry in self._waiting:
                self._waiting.remove(entry)
                self._grant()
            else:
                self._add(-size)  # it was granted and cancelled at once
            if isinstance(error, TimeoutError):
                raise Busy(_FULL) from None
            raise

    def _add(self, size: int) -> None:
        self.held_bytes += size
        if size < 0:
            self._grant()

    def _grant(self) -> None:
        while self._waiting and self.held_bytes + self._waiting[0][0] <= self.max_bytes:
            size, future = self._waiting.popleft()
            self.held_bytes += size
            if not future.done():  # a cancelled task gives the bytes back itself
                future.set_result(None)


class Lease:
    """The bytes held for one request: a context manager that releases them at its end."""

    __slots__ = ("_budget", "held_bytes")

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.held_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def take(self, size: int) -> None:
        """Take `size` more bytes from the first half of the budget. Raises Busy at once if they are not available."""
        self._budget._take(size)
        self.held_bytes += size

    async def wait(self, size: int, seconds: float) -> None:
        """Wait in the queue for `size` more bytes, at most half of the budget. Raises Busy after `seconds`."""
        size = min(size, self._budget.max_bytes // 2)
        await self._budget._wait(size, seconds)
        self.held_bytes += size

    def change(self, size: int) -> None:
        """Set the held bytes to `size`. The memory is in use already, so this may exceed the budget."""
        difference, self.held_bytes = size - self.held_bytes, size
        self._budget._add(difference)

    def move(self) -> "Lease":
        """Return another lease that takes over the bytes of this one."""
        moved = Lease(self._budget)
        moved.held_bytes, self.held_bytes = self.held_bytes, 0
        return moved

    def release(self) -> None:
        """Give all bytes back to the budget. May be called more than once."""
        if self.held_bytes:
            self.change(0)
