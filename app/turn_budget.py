"""`TurnBudget`: how long work that can wait may hold up one turn of the event loop.

Many streams may end at the same time, and each end leaves such work. Between two parts of it, the event loop passes on
the chunks of other streams.
"""

import time
from collections.abc import Callable

TURN_SECONDS = 0.001
TURN_SHARE = 0.25
"""Of the time since the turn before, so that the work keeps pace where turns are long: a request is more work."""


class TurnBudget:
    """Work in consecutive turns of the event loop: each takes TURN_SECONDS, or TURN_SHARE if that is more."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began: float | None = None
        self._until = 0.0

    def begin_turn(self) -> None:
        now = self._clock()
        seconds = TURN_SECONDS if self._began is None else max(TURN_SECONDS, TURN_SHARE * (now - self._began))
        self._began, self._until = now, now + seconds

    def is_spent(self) -> bool:
        """Whether the rest of the work must wait for the next turn."""
        return self._clock() >= self._until

    def end(self) -> None:
        """No work is left for the next turn."""
        self._began = None
