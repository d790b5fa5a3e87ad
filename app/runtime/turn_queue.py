"""`TurnQueue`: items that can wait, handled in later turns of the event loop, some in each."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

TURN_SECONDS = 0.0003
"""How long the work may take in a turn that follows soon after the one before."""
TURN_SHARE = 0.25
"""The part of the time since the turn before that the work may take. So it keeps pace where turns are long, because
the requests that make them long leave such work."""
MAX_TURN_SECONDS = 0.1
"""How long the work may take in any turn. Where the process was stopped for seconds, it must not go on stopping."""


class TurnBudget:
    """The time for work in consecutive turns of the event loop: TURN_SECONDS in each, or more where turns are long."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began: float | None = None
        self._until = 0.0

    def begin_turn(self, pressure: float = 1.0) -> None:
        """`pressure`, from 0 to 1, is the part of TURN_SHARE that the work may take."""
        now = self._clock()
        share = 0.0 if self._began is None else TURN_SHARE * pressure * (now - self._began)
        self._began, self._until = now, now + min(max(TURN_SECONDS, share), MAX_TURN_SECONDS)

    def is_spent(self) -> bool:
        """Whether the rest of the work must wait for the next turn."""
        return self._clock() >= self._until

    def end(self) -> None:
        """No work is left for the next turn."""
        self._began = None


T = TypeVar("T")

MANY = 1000
"""With so many items, they may take TURN_SHARE of a turn that is long; with fewer, less of it. So some dozens of
streams that end together hold up no others, and a process that is busy with short requests still keeps pace."""


class TurnQueue(Generic[T]):
    """Belongs to the event loop."""

    def __init__(
        self,
        handle: Callable[[list[T]], None],
        *,
        together: int = 1,
        delay_seconds: float = 0.0,
        budget: TurnBudget | None = None,
    ) -> None:
        """`handle` gets the items in their order, up to `together` at a time. If it raises, those are lost. An item
        that comes while none waits is handled after `delay_seconds`, in the next turn at the earliest."""
        self._handle = handle
        self._together = together
        self._delay_seconds = delay_seconds
        self._budget = budget or TurnBudget()
        self._items: deque[T] = deque()
        self._turn: asyncio.Handle | None = None

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T) -> None:
        self._items.append(item)
        if self._turn is None:
            loop = asyncio.get_running_loop()
            delay = self._delay_seconds
            self._turn = loop.call_later(delay, self._take_turn) if delay else loop.call_soon(self._take_turn)

    def handle_all(self) -> None:
        """Handle all items now."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self._budget.end()
        while self._items:
            self._handle_some()

    def _take_turn(self) -> None:
        self._budget.begin_turn(min(1.0, len(self._items) / MANY))
        try:
            while self._items and not self._budget.is_spent():
                self._handle_some()
        finally:
            if self._items:
                self._turn = asyncio.get_running_loop().call_soon(self._take_turn)
            else:
                self._turn = None
                self._budget.end()

    def _handle_some(self) -> None:
        self._handle([self._items.popleft() for _ in range(min(self._together, len(self._items)))])
