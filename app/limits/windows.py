"""The arithmetic of counters: what is used of a limit, and when a request will fit. Pure; both stores use it.

Requests and tokens are counted in minutes of the clock. What counts is the current minute, and of the previous one the
part that the last 60 seconds still cover, as if it were spread evenly over that minute. This needs two numbers for each
limit. No minute of the clock admits more than the limit, and no 60 seconds more than twice the limit: that much only if
a caller uses the whole limit at the end of one minute and then as much as it may in the next.
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

from msgspec import Struct

from app.limits.values import Kind, Rule

WINDOW_SECONDS = 60.0
DAY_SECONDS = 86_400
BUSY_SECONDS = 1.0
"""When a caller may try again whose replies in progress are too many: it is not known when one of them ends."""


class Counted(Protocol):
    """What one counter holds at a moment; see `Count`."""

    @property
    def current(self) -> int: ...

    @property
    def previous(self) -> int: ...


class Count(Struct, frozen=True):
    """What one counter holds at a moment."""

    current: int
    """Of this minute, day or month; or the number of replies in progress."""
    previous: int = 0
    """Of the minute before."""


def elapsed_part(now: float) -> float:
    """Return the part of the present minute that is over, from 0 to 1."""
    return now % WINDOW_SECONDS / WINDOW_SECONDS


def used_amount(count: Counted, elapsed: float) -> float:
    """Return what is used of a limit when this part of the minute is over."""
    return count.previous * (1 - elapsed) + count.current


def fits(rule: Rule, count: Counted, amount: int, elapsed: float) -> bool:
    """Whether a request that takes `amount` is within the limit. Money is spent when its amount is known, at the end
    of a request, so a request fits while anything is left."""
    if rule.is_spending:
        return count.current < rule.limit
    return used_amount(count, elapsed) + amount <= rule.limit


def remaining(rule: Rule, count: Counted, elapsed: float) -> int:
    return max(0, int(rule.limit - used_amount(count, elapsed)))


def wait_seconds(rule: Rule, count: Counted, amount: int, now: float) -> float | None:
    """Return when a request that does not fit now would fit, if nothing else were counted; None: never."""
    match rule.kind:
        case "concurrent_streams":
            return BUSY_SECONDS
        case "spend_per_day" | "spend_per_month":
            return None if rule.limit == 0 else period_end(rule.kind, now) - now
        case _:
            return _window_wait(rule.limit, count, amount, elapsed_part(now))


def _window_wait(limit: int, count: Counted, amount: int, elapsed: float) -> float | None:
    if amount > limit:
        return None
    room = limit - amount
    if count.current <= room:  # enough of the previous minute leaves the window before this minute ends
        return WINDOW_SECONDS * max(0.0, _share_over(room - count.current, count.previous) - elapsed)
    return WINDOW_SECONDS * (1 - elapsed + _share_over(room, count.current))


def _share_over(room: int, earlier: int) -> float:
    """Return which part of a minute must be over until at most `room` counts of what the minute before it used."""
    return max(0.0, 1 - room / earlier) if earlier else 0.0


def reset_seconds(count: Counted, elapsed: float) -> float:
    """Return after which time nothing that was used counts any more."""
    if count.current:
        return WINDOW_SECONDS * (2 - elapsed)
    return WINDOW_SECONDS * (1 - elapsed) if count.previous else 0.0


def period(kind: Kind, now: float) -> int:
    """Return the number of the day, or of the month, in UTC."""
    day = int(now // DAY_SECONDS)
    return day if kind == "spend_per_day" else _month_of_day(day)


@lru_cache(maxsize=2)
def _month_of_day(day: int) -> int:
    date = datetime.fromtimestamp(day * DAY_SECONDS, UTC)
    return date.year * 12 + date.month - 1


def period_end(kind: Kind, now: float) -> float:
    if kind == "spend_per_day":
        return float((now // DAY_SECONDS + 1) * DAY_SECONDS)
    year, month = divmod(period(kind, now) + 1, 12)
    return datetime(year, month + 1, 1, tzinfo=UTC).timestamp()
