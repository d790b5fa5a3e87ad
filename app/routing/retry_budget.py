"""A limit for all retries of a process, so that retries do not keep an overloaded server overloaded."""

from collections import deque
from typing import NamedTuple

RETRY_SHARE = 0.2
MIN_RETRIES = 10
"""So many retries in each window are always allowed, so that a lone request can be retried."""
WINDOW_SECONDS = 10


class _Second(NamedTuple):
    number: int
    requests: int
    retries: int


class RetryBudget:
    """Counts the requests and retries of the last `window_seconds`, by second. Takes the event loop's time."""

    __slots__ = ("_minimum", "_now", "_past", "_requests", "_retries", "_share", "_window_seconds")

    def __init__(
        self, share: float = RETRY_SHARE, minimum: int = MIN_RETRIES, window_seconds: int = WINDOW_SECONDS
    ) -> None:
        self._share = share
        self._minimum = minimum
        self._window_seconds = window_seconds
        self._past: deque[_Second] = deque()
        self._now = 0
        self._requests = self._retries = 0

    def count_request(self, now: float) -> None:
        if now >= self._now + 1:
            self._turn(int(now))
        self._requests += 1

    def take(self, now: float) -> bool:
        """Count a retry if it is allowed: if it exceeds neither the share of the requests nor the minimum."""
        if now >= self._now + 1:
            self._turn(int(now))
        requests = self._requests + sum(second.requests for second in self._past)
        retries = self._retries + sum(second.retries for second in self._past)
        if retries >= max(self._minimum, int(self._share * requests)):
            return False
        self._retries += 1
        return True

    def _turn(self, second: int) -> None:
        """Begin a new second."""
        self._past.append(_Second(self._now, self._requests, self._retries))
        self._now, self._requests, self._retries = second, 0, 0
        while self._past and self._past[0].number <= second - self._window_seconds:
            self._past.popleft()
