"""`TurnQueue`: items that can wait, handled in later turns of the event loop, some in each."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from app.turn_budget import TurnBudget

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
