"""`TurnBudget`: how long work that can wait may hold up one turn of the event loop.

Many streams may end at the same time, and each end leaves such work. Between two parts of it, the event loop passes on
the chunks of other streams.
"""

import time
from collections.abc import Callable

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
