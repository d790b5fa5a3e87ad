"""`Admission`: how many requests run at the same time, and the queue of those that wait for their turn.

The queue takes the keys of callers in turns, and the requests of one key in their order: a caller that sends a thousand
requests delays the single request of another by one place.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Any

from app.errors import Busy

CHECK_SECONDS = 0.05
"""How often waiting requests look whether a call without a caller has ended."""


class ClientLeft(Exception):
    """The client disconnected while its request waited."""


class Admission:
    """As a context manager it is the place of one request, which `try_enter` or `wait` has taken."""

    def __init__(self, is_full: Callable[[int], bool], max_queued: int, queue_seconds: float) -> None:
        """`is_full` says whether no further request may run besides this number of requests."""
        self.in_progress = 0
        """The requests that are admitted and have not ended."""
        self.queued = 0
        """The requests that wait."""
        self._is_full = is_full
        self._max_queued = max_queued
        self._queue_seconds = queue_seconds
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """The waiting requests of each caller. The first caller is the next whose turn it is."""
        self._timer: asyncio.TimerHandle | None = None

    def try_enter(self) -> "Admission | None":
        """Admit a request at once; None if it must wait."""
        if self.queued or self._is_full(self.in_progress):
            return None
        self.in_progress += 1
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.in_progress -= 1
        if self.queued:
            self._admit_waiting()

    async def wait(self, caller: str, disconnected: Callable[[], Awaitable[Any]]) -> "Admission":
        """Wait for a place. `disconnected` returns when the client disconnects. Raises Busy if too many requests wait,
        or after `queue_seconds`, and ClientLeft."""
        if self.queued >= self._max_queued:
            raise Busy("this gateway already serves its maximum number of requests; try again later")
        loop = asyncio.get_running_loop()
        place: asyncio.Future[None] = loop.create_future()
        self._queues.setdefault(caller, deque()).append(place)
        self.queued += 1
        self._admit_waiting()
        leaving = asyncio.ensure_future(disconnected())
        try:
            await asyncio.wait((place, leaving), timeout=self._queue_seconds, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if place.done():
                self.__exit__()
            raise
        finally:
            leaving.cancel()
            if not place.done():
                self._forget(caller, place)
        if place.done():
            return self
        if leaving.done() and not leaving.cancelled():
            raise ClientLeft
        raise Busy(f"no place became free within {self._queue_seconds:g} s; try again later")

    def _admit_waiting(self) -> None:
        while self._queues and not self._is_full(self.in_progress):
            caller, queue = self._queues.popitem(last=False)
            place = queue.popleft()
            if queue:
                self._queues[caller] = queue
            self.queued -= 1
            self.in_progress += 1
            place.set_result(None)
        if self._timer is None and self._queues:
            self._timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check_again)

    def _check_again(self) -> None:
        self._timer = None
        self._admit_waiting()

    def _forget(self, caller: str, place: asyncio.Future[None]) -> None:
        queue = self._queues[caller]
        queue.remove(place)
        self.queued -= 1
        if not queue:
            del self._queues[caller]
