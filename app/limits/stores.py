"""The counters of limits: the interface of a store, and the store in the memory of this process."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from app.limits.values import Rule
from app.limits.windows import WINDOW_SECONDS, Count, fits, period


class StoreUnavailable(Exception):
    """A store cannot be reached."""


class Taken(Struct, frozen=True):
    """The result of `take`."""

    admitted: bool
    counts: Sequence[Count]
    """Of each rule: with this request if it was admitted, else without."""
    minute: int
    """The minute in which the amounts were counted."""
    now: float
    """The time by the clock of the store, in seconds."""


class LimitStore(Protocol):
    async def take(self, rules: Sequence[Rule], amounts: Sequence[int], lease: str) -> Taken:
        """Count the amounts if all of them are within their limits, else none. `lease` identifies the request among
        the replies in progress. Raises StoreUnavailable."""

    def give_back(self, rules: Sequence[Rule], lease: str, minute: int, tokens: int, cost: int) -> None:
        """Correct the counts at the end of a request: it is no longer in progress, it used `tokens` more than were
        taken in that minute (or fewer, if negative), and it cost `cost` parts of the currency."""

    async def aclose(self) -> None: ...


class _Window(Struct):
    minute: int = 0
    current: int = 0
    previous: int = 0

    def move_to(self, minute: int) -> None:
        """Go on to this minute. A clock that was set back changes nothing."""
        if minute > self.minute:
            self.previous = self.current if minute == self.minute + 1 else 0
            self.minute, self.current = minute, 0

    def correct(self, minute: int, amount: int) -> None:
        """Add an amount to the current minute, or take it from the minute in which it was counted."""
        if amount > 0:
            self.current += amount
        elif minute == self.minute:
            self.current = max(0, self.current + amount)
        elif minute == self.minute - 1:
            self.previous = max(0, self.previous + amount)


class MemoryStore:
    """Counts for one process. `now` is the time in seconds since 1970."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._windows: dict[str, _Window] = {}
        """Also the spending: then the minute is the number of the day or month. There are at most as many as rules."""
        self._in_progress: dict[str, int] = {}

    async def take(self, rules: Sequence[Rule], amounts: Sequence[int], lease: str) -> Taken:
        return self.take_now(rules, amounts)

    def take_now(self, rules: Sequence[Rule], amounts: Sequence[int]) -> Taken:
        now = self._now()
        minute, seconds = divmod(now, WINDOW_SECONDS)
        counts = [self._count(rule, int(minute), seconds / WINDOW_SECONDS, now) for rule in rules]
        if not all(map(fits, rules, counts, amounts)):
            return Taken(False, counts, int(minute), now)
        for number, (rule, amount) in enumerate(zip(rules, amounts, strict=True)):
            if not amount:
                continue
            if rule.kind == "concurrent_streams":
                self._in_progress[rule.counter] = self._in_progress.get(rule.counter, 0) + amount
            else:
                self._windows[rule.counter].current += amount
            count = counts[number]
            counts[number] = Count(count.current + amount, count.previous, count.elapsed)
        return Taken(True, counts, int(minute), now)

    def _count(self, rule: Rule, minute: int, elapsed: float, now: float) -> Count:
        if rule.kind == "concurrent_streams":
            return Count(self._in_progress.get(rule.counter, 0))
        window = self._windows.get(rule.counter)
        if window is None:
            window = self._windows[rule.counter] = _Window()
        if rule.kind in ("spend_per_day", "spend_per_month"):
            window.move_to(period(rule.kind, now))
            return Count(window.current)
        window.move_to(minute)
        return Count(window.current, window.previous, elapsed if window.minute == minute else 0.0)

    def give_back(self, rules: Sequence[Rule], lease: str, minute: int, tokens: int, cost: int) -> None:
        now = self._now()
        for rule in rules:
            if rule.kind == "concurrent_streams":
                self._in_progress[rule.counter] -= 1
            elif rule.kind != "requests_per_minute":
                window = self._windows[rule.counter]
                if rule.kind == "tokens_per_minute":
                    window.move_to(int(now // WINDOW_SECONDS))
                    window.correct(minute, tokens)
                else:
                    window.move_to(period(rule.kind, now))
                    window.current += cost

    async def aclose(self) -> None:
        """Close nothing."""
