"""One budget for the memory that callers make this process hold: bodies, what is parsed of them, fetched media, and
prepared requests that wait for a model server.

Bytes are held by leases. `take` never waits: what holds bytes and cannot go on without more is refused with
`overloaded`, so that unfinished bodies cannot wait for each other. Only `wait`, for work that ends by itself, stands in
line. `take` leaves half of the budget to it, and no wait asks for more than that half: so the line always moves.
"""

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

from app.errors import Busy

UNCOUNTED_BYTES = 64 * 1024
"""Bodies up to it need take nothing: ordinary requests are served while the budget is full."""
_FULL = "this gateway holds as much of requests in memory as it may; send the request again a little later"


class MemoryBudget:
    """Belongs to one event loop."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        """How many waits stand in line."""
        return len(self._waiting)

    def lease(self) -> "Lease":
        return Lease(self)

    def _take(self, size: int) -> None:
        if self.held_bytes + size > self.max_bytes // 2:
            raise Busy(_FULL)
        self.held_bytes += size

    async def _wait(self, size: int, seconds: float) -> None:
        """Takes the bytes when it is this one's turn. Raises Busy after `seconds`."""
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
                self._add(-size)  # it was granted and is not wanted any more
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
            if not future.done():  # of one that was cancelled, its task gives the bytes back
                future.set_result(None)


class Lease:
    """Bytes that are held for one request. A context manager: left, it holds nothing."""

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
        """Holds `size` bytes more. Raises Busy at once where half of the budget does not have them."""
        self._budget._take(size)
        self.held_bytes += size

    async def wait(self, size: int, seconds: float) -> None:
        """Holds `size` bytes more, at most half of the budget, when those who came before have theirs. Raises Busy."""
        size = min(size, self._budget.max_bytes // 2)
        await self._budget._wait(size, seconds)
        self.held_bytes += size

    def change(self, size: int) -> None:
        """Holds `size` bytes in all, of memory that is in use already: it may go beyond the budget."""
        more, self.held_bytes = size - self.held_bytes, size
        self._budget._add(more)

    def move(self) -> "Lease":
        """Another lease, which holds what this one held."""
        moved = Lease(self._budget)
        moved.held_bytes, self.held_bytes = self.held_bytes, 0
        return moved

    def release(self) -> None:
        """May be called more than once."""
        if self.held_bytes:
            self.change(0)
