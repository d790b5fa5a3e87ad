"""The counters of limits: the interface of a store, and the store in the memory of this process."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from app.limits.values import Kind, Rule
from app.limits.windows import WINDOW_SECONDS, Count, Counted, fits, period


class StoreUnavailable(Exception):
    """A store cannot be reached."""


class Taken(Struct, frozen=True):
    """The result of `take`."""

    admitted: bool
    counts: Sequence[tuple[Rule, Counted]]
    """Each rule with what is counted for it: with this request if it was admitted, else without."""
    minute: int
    """The minute in which the amounts were counted."""
    now: float
    """The time by the clock of the store, in seconds."""


class LimitStore(Protocol):
    async def take(self, rules: Sequence[Rule], tokens: int, lease: str) -> Taken:
        """Count a request of so many tokens if it is within all its limits, else count nothing. `lease` identifies it
        among the replies in progress. Raises StoreUnavailable."""

    async def read(self, rules: Sequence[Rule]) -> Sequence[tuple[Rule, Counted]]:
        """Return each rule with what is counted for it. Raises StoreUnavailable."""

    def give_back(self, rules: Sequence[Rule], lease: str, minute: int, tokens: int, cost: int) -> None:
        """Correct the counts at the end of a request: it is no longer in progress, it used `tokens` more than were
        taken in that minute (or fewer, if negative), and it cost `cost` parts of the currency."""

    async def aclose(self) -> None: ...


class Window:
    """The counter of one rule, with the fields of a `Count`.

    For spending, the minute is the number of the day or month; of replies in progress, only the current number counts.
    """

    __slots__ = ("current", "elapsed", "minute", "previous")

    def __init__(self) -> None:
        self.minute = self.current = self.previous = 0
        self.elapsed = 0.0
        """The part of this minute that was over when the counter was last read, from 0 to 1."""

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
        self._windows: dict[str, Window] = {}
        """By the names of the counters."""

    def find_windows(self, rules: Iterable[Rule]) -> tuple[tuple[Rule, Window], ...]:
        """Return the rules with their counters, for `take_from`. The counters remain the same."""
        return tuple((rule, self._find_window(rule.counter)) for rule in rules)

    def _find_window(self, counter: str) -> Window:
        window = self._windows.get(counter)
        if window is None:
            window = self._windows[counter] = Window()
        return window

    async def take(self, rules: Sequence[Rule], tokens: int, lease: str) -> Taken:
        return self.take_now(rules, tokens)

    def take_now(self, rules: Iterable[Rule], tokens: int) -> Taken:
        taken = self.take_from(self.find_windows(rules), tokens)
        return replace(taken, counts=[(rule, _read_count(rule, window)) for rule, window in taken.counts])

    def take_from(self, windows: Sequence[tuple[Rule, Window]], tokens: int) -> Taken:
        """Do the same as `take_now`. The counters are those of the result, so it is of use only until the next
        request."""
        now = self._now()
        minute = int(now // WINDOW_SECONDS)
        elapsed = now % WINDOW_SECONDS / WINDOW_SECONDS
        admitted = True
        for rule, window in windows:
            if rule.is_window and window.minute == minute:
                window.elapsed = elapsed
            elif rule.is_window or rule.is_spending:
                _move_window(rule, window, now)
            used = window.current = window.current + (tokens if rule.amount is None else rule.amount)
            # Most requests are far from their limits, and need no exact comparison.
            if used + window.previous >= rule.limit and not fits(rule, window, 0):
                admitted = False
        if not admitted:
            for rule, window in windows:
                window.current -= rule.amount_of(tokens)
        return Taken(admitted, windows, minute, now)

    async def read(self, rules: Sequence[Rule]) -> Sequence[tuple[Rule, Count]]:
        return self.read_now(rules)

    def read_now(self, rules: Iterable[Rule]) -> Sequence[tuple[Rule, Count]]:
        windows, now = self.find_windows(rules), self._now()
        for rule, window in windows:
            _move_window(rule, window, now)
        return [(rule, _read_count(rule, window)) for rule, window in windows]

    def set_spent(self, counter: str, kind: Kind, cost: int) -> None:
        """Set what was spent in this day or month, in parts of the currency, before anything was counted."""
        window = self._find_window(counter)
        window.minute, window.current = period(kind, self._now()), cost

    def give_back(self, rules: Sequence[Rule], lease: str, minute: int, tokens: int, cost: int) -> None:
        self.give_back_to(self.find_windows(rules), minute, tokens, cost)

    def give_back_to(self, windows: Iterable[tuple[Rule, Window]], minute: int, tokens: int, cost: int) -> None:
        """Do the same as `give_back`, with the counters of the rules."""
        now = self._now()
        current_minute = int(now // WINDOW_SECONDS)
        for rule, window in windows:
            kind = rule.kind
            if kind == "tokens_per_minute":
                window.move_to(current_minute)
                window.correct(minute, tokens)
            elif kind == "concurrent_streams":
                window.current -= 1
            elif cost and rule.is_spending:
                window.move_to(period(kind, now))
                window.current += cost

    async def aclose(self) -> None:
        """Close nothing."""


def _move_window(rule: Rule, window: Window, now: float) -> None:
    """Go on to the present minute, day or month."""
    if rule.is_window:
        minute = int(now // WINDOW_SECONDS)
        window.move_to(minute)
        window.elapsed = now % WINDOW_SECONDS / WINDOW_SECONDS if window.minute == minute else 0.0
    elif rule.is_spending:
        window.move_to(period(rule.kind, now))


def _read_count(rule: Rule, window: Counted) -> Count:
    return Count(window.current, window.previous, window.elapsed) if rule.is_window else Count(window.current)
