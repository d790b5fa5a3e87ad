"""The counters of limits in the memory of this process, and what a store of counters answers."""

import time
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from app.limits.values import Kind, Rule
from app.limits.windows import WINDOW_SECONDS, Counted, elapsed_part, period, used_amount

MAX_STEP_SECONDS = 120.0
"""Clocks are set back by less than this while they are kept in step with others."""


_IDLE_MINUTES = 120
"""A reply that began before that does not correct what it has taken any more."""


class StoreUnavailable(Exception):
    """A store cannot be reached."""


class Taken(Struct, frozen=True):
    """The result of `take` and `read`."""

    admitted: bool
    counts: Sequence[tuple[Rule, Counted]]
    """Each rule with what is counted for it: with this request if it was admitted, else without."""
    minute: int
    """The minute in which the amounts were counted."""
    now: float
    """The time by the clock of the store, in seconds."""


class Window:
    """The counter of one rule, with the fields of a `Count`.

    For spending, the minute is the number of the day or month; of replies in progress, only the current number counts.
    """

    __slots__ = ("current", "minute", "previous")

    def __init__(self) -> None:
        self.minute = self.current = self.previous = 0

    def move_to(self, minute: int) -> None:
        """Go on to this minute, or back to an earlier one, of which nothing is known any more."""
        if minute != self.minute:
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


class RuleWindows:
    """The counters of the rules of a request, by what the request does to them."""

    __slots__ = ("minute", "rows", "spending", "streams", "taken", "tokens")

    def __init__(self, rows: Iterable[tuple[Rule, Window]]) -> None:
        self.rows = tuple(rows)
        self.minute = 0
        """The one that all counters have reached."""
        self.taken = tuple((window, rule.limit, rule.amount) for rule, window in self.rows if not rule.is_spending)
        """The counters to which a request adds what it takes; see `Rule.amount`."""
        self.spending = tuple(row for row in self.rows if row[0].is_spending)
        self.tokens = tuple(window for rule, window in self.rows if rule.kind == "tokens_per_minute")
        self.streams = tuple(window for rule, window in self.rows if rule.kind == "concurrent_streams")

    def move_to(self, now: float) -> None:
        """Go on to the present minute, day and month."""
        self.minute = int(now // WINDOW_SECONDS)
        for rule, window in self.rows:
            if rule.is_window:
                window.move_to(self.minute)
            elif rule.is_spending:
                _move_spending_window(rule, window, now)


class MemoryLimitStore:
    """Counts for one process. `now` is the time in seconds since 1970.

    If the clock is set back a little, the latest time goes on to count. If it is set back by more than
    MAX_STEP_SECONDS, the time before was wrong: minutes are counted again, and spending counts for the day and month
    that had begun.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._clock = now
        self._latest = 0.0
        self._windows: dict[str, Window] = {}
        """By the names of the counters."""

    def find_windows(self, rules: Iterable[Rule]) -> RuleWindows:
        """Return the counters of the rules. They remain the same."""
        return RuleWindows((rule, self._find_window(rule.counter)) for rule in rules)

    def _find_window(self, counter: str) -> Window:
        window = self._windows.get(counter)
        if window is None:
            window = self._windows[counter] = Window()
        return window

    def forget_idle(self) -> None:
        """Forget the counters that count nothing now. No rules may hold them."""
        now = self._now()
        self._windows = {counter: one for counter, one in self._windows.items() if not _is_idle(counter, one, now)}

    def list_counters(self) -> list[str]:
        """Return the names of all counters."""
        return [*self._windows]

    def _now(self) -> float:
        now, latest = self._clock(), self._latest
        if latest - MAX_STEP_SECONDS < now < latest:
            return latest
        self._latest = now
        return now

    def take(self, windows: RuleWindows, tokens: int) -> Taken:
        """Count a request of so many tokens if it is within all its limits, else count nothing. The result has the
        counters themselves, so it is of use only until the next request."""
        now = self._now()
        minute = int(now // WINDOW_SECONDS)
        if minute != windows.minute:
            windows.move_to(now)
        admitted = True
        for window, limit, amount in windows.taken:
            current = window.current = window.current + (amount or tokens)
            # Most requests are far from their limits, and need no exact comparison.
            if current + window.previous > limit and used_amount(window, elapsed_part(now)) > limit:
                admitted = False
        for rule, window in windows.spending:
            if window.current >= rule.limit:
                admitted = False
        if not admitted:
            for window, _, amount in windows.taken:
                window.current -= amount or tokens
        return Taken(admitted, windows.rows, minute, now)

    def read(self, windows: RuleWindows) -> Taken:
        """Return what is counted, and count nothing."""
        now = self._now()
        windows.move_to(now)
        return Taken(True, windows.rows, windows.minute, now)

    def set_spent(self, counter: str, kind: Kind, cost: int) -> None:
        """Set what was spent in this day or month, in parts of the currency, before anything was counted."""
        window = self._find_window(counter)
        window.minute, window.current = period(kind, self._now()), cost

    def give_back(self, windows: RuleWindows, minute: int, tokens: int, cost: int) -> None:
        """Correct the counts at the end of a request: it is no longer in progress, it used `tokens` more than were
        taken in that minute (or fewer, if negative), and it cost `cost` parts of the currency."""
        for window in windows.streams:
            window.current -= 1
        if tokens and windows.tokens:
            current_minute = int(self._now() // WINDOW_SECONDS)
            for window in windows.tokens:
                window.move_to(current_minute)
                window.correct(minute, tokens)
        if cost and windows.spending:
            now = self._now()
            for rule, window in windows.spending:
                _move_spending_window(rule, window, now)
                window.current += cost


def _is_idle(counter: str, window: Window, now: float) -> bool:
    """Whether a counter counts nothing of the present minute, day or month."""
    match counter.rpartition(":")[2]:
        case "concurrent_streams":
            return window.current == 0
        case "spend_per_day" | "spend_per_month" as kind:
            return window.minute < period(kind, now)
        case _:
            return window.minute < int(now // WINDOW_SECONDS) - _IDLE_MINUTES


def _move_spending_window(rule: Rule, window: Window, now: float) -> None:
    number = period(rule.kind, now)
    if number > window.minute:
        window.move_to(number)
