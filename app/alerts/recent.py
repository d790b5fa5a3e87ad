"""`RecentCounts`: how much counters have grown lately. Pure."""

from collections import Counter, deque
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class RecentCounts(Generic[K]):
    """Of counters that only grow, or begin again at 0."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._before: dict[K, int] | None = None
        """The counters at the last look; None before the first one."""
        self._grown: deque[tuple[float, dict[K, int]]] = deque()
        """Times, and by how much each counter has grown until then."""

    def update(self, now: float, counts: Mapping[K, int]) -> Counter[K]:
        """Return by how much each counter has grown in the last seconds. What there was at the first look is old."""
        before, self._before = self._before, dict(counts)
        grown = {} if before is None else {key: _grow(before.get(key, 0), count) for key, count in counts.items()}
        self._grown.append((now, {key: count for key, count in grown.items() if count}))
        while self._grown[0][0] <= now - self._seconds:
            self._grown.popleft()
        total: Counter[K] = Counter()
        for _, each in self._grown:
            total.update(each)
        return total


def _grow(before: int, now: int) -> int:
    return now - before if now >= before else now
