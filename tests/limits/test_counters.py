"""What the counters admit, by a clock of the test's own."""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime

from app.limits.stores import MemoryLimitStore, Taken
from app.limits.values import UNITS_OF_MONEY, Kind, Rule, make_rule
from app.limits.windows import Count, fits, period_end, remaining, reset_seconds, wait_seconds
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples

START = 1_800_000_000.0
"""The begin of a minute and of an hour in UTC."""


class Clock:
    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> float:
        return self.time


def rule(kind: Kind, limit: int, owner: str = "x") -> Rule:
    return make_rule(owner, owner, kind, limit)


def take(store: MemoryLimitStore, rules: list[Rule], tokens: int) -> Taken:
    return store.take(store.find_windows(rules), tokens)


@examples(80)
@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.floats(0, 50), st.integers(1, 8)), min_size=1, max_size=60),
)
def test_no_minute_admits_more_than_the_limit_and_no_60_seconds_twice_as_much(
    limit: int, requests: list[tuple[float, int]]
) -> None:
    clock = Clock()
    store, one = MemoryLimitStore(clock), rule("tokens_per_minute", limit)
    admitted: list[tuple[float, int]] = []
    for seconds, amount in requests:
        clock.time += seconds
        if take(store, [one], amount).admitted:
            admitted.append((clock.time, amount))
    for _, group in itertools.groupby(admitted, key=lambda row: row[0] // 60):
        assert sum(amount for _, amount in group) <= limit
    for end, _ in admitted:
        elapsed = end % 60 / 60
        before = sum(amount for time, amount in admitted if time // 60 == end // 60 - 1)
        within = sum(amount for time, amount in admitted if end - 60 < time <= end)
        assert within <= limit + before * elapsed + 1e-6 and within < 2 * limit + 1e-6


@examples(80)
@given(st.integers(1, 100), st.integers(0, 150), st.integers(0, 150), st.floats(0, 0.999), st.integers(1, 100))
def test_a_request_fits_after_the_wait_that_was_returned_and_not_before(
    limit: int, current: int, previous: int, elapsed: float, amount: int
) -> None:
    one, count = rule("tokens_per_minute", limit), Count(current, previous)

    def later(seconds: float) -> tuple[Count, float]:
        minutes, rest = divmod(elapsed + seconds / 60, 1)
        if minutes == 0:
            return Count(current, previous), rest
        return (Count(0, current) if minutes == 1 else Count(0)), rest

    def fits_later(seconds: float) -> bool:
        then, part = later(seconds)
        return fits(one, then, amount, part)

    if fits(one, count, amount, elapsed):
        return
    wait = wait_seconds(one, count, amount, START + 60 * elapsed)
    if amount > limit:
        assert wait is None
        return
    assert wait is not None and 0 <= wait <= 120
    assert fits_later(wait + 1e-3)
    if wait > 0.1:
        assert not fits_later(wait - 0.1)


def test_a_steady_caller_gets_its_whole_limit() -> None:
    clock = Clock()
    store, one = MemoryLimitStore(clock), rule("requests_per_minute", 60)
    admitted = 0
    for _ in range(600):
        clock.time += 1.0
        admitted += take(store, [one], 1).admitted
    assert 590 <= admitted <= 600


def test_a_request_takes_all_its_limits_or_none() -> None:
    clock = Clock()
    store = MemoryLimitStore(clock)
    wide, narrow = rule("requests_per_minute", 10, "wide"), rule("requests_per_minute", 1, "narrow")
    assert take(store, [wide, narrow], 0).admitted
    for _ in range(5):
        taken = take(store, [wide, narrow], 0)
        assert not taken.admitted and [count.current for _, count in taken.counts] == [1, 1]
    assert remaining(*take(store, [wide], 0).counts[0], 0.0) == 8


def test_corrections_count_in_the_minute_of_the_reservation_and_surpluses_now() -> None:
    clock = Clock()
    one = rule("tokens_per_minute", 100)

    def used(store: MemoryLimitStore) -> tuple[int, int]:
        ((_, count),) = store.read(store.find_windows([one])).counts
        return count.current, count.previous

    for seconds, more, expected in [
        (1, -30, (20, 0)),
        (60, -30, (0, 20)),
        (120, -30, (0, 0)),
        (1, 25, (75, 0)),
        (60, 25, (25, 50)),
        (120, 25, (25, 0)),
        (1, -500, (0, 0)),
    ]:
        clock.time = START
        store = MemoryLimitStore(clock)
        taken = take(store, [one], 50)
        clock.time += seconds
        store.give_back(store.find_windows([one]), taken.minute, more, 0)
        assert used(store) == expected, (seconds, more)


def test_replies_in_progress_are_counted_until_they_end() -> None:
    store, one = MemoryLimitStore(Clock()), rule("concurrent_streams", 2)
    assert [take(store, [one], 1).admitted for _ in range(3)] == [True, True, False]
    store.give_back(store.find_windows([one]), 0, 0, 0)
    assert [take(store, [one], 1).admitted for _ in range(2)] == [True, False]


def dates() -> Iterator[tuple[Kind, datetime, datetime]]:
    yield "spend_per_day", datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    yield "spend_per_month", datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    yield "spend_per_month", datetime(2028, 2, 29, 12, tzinfo=UTC), datetime(2028, 3, 1, tzinfo=UTC)


def test_spending_ends_with_the_day_or_month_in_utc() -> None:
    clock = Clock()
    for kind, begin, end in dates():
        clock.time = begin.timestamp()
        store, one = MemoryLimitStore(clock), rule(kind, UNITS_OF_MONEY)
        for cost, admitted in [(UNITS_OF_MONEY // 2, True), (UNITS_OF_MONEY, True), (0, False)]:
            taken = take(store, [one], 0)
            assert taken.admitted == admitted
            store.give_back(store.find_windows([one]), taken.minute, 0, cost)
        assert period_end(kind, clock.time) == end.timestamp()
        clock.time = end.timestamp() - 0.001
        assert not take(store, [one], 0).admitted
        clock.time = end.timestamp()
        assert take(store, [one], 0).admitted


def test_a_clock_that_is_set_back_a_little_admits_nothing_more() -> None:
    clock = Clock()
    store, one = MemoryLimitStore(clock), rule("requests_per_minute", 1)
    assert take(store, [one], 1).admitted
    for _ in range(9):
        clock.time -= 10
        assert not take(store, [one], 1).admitted
    clock.time = START + 120
    assert take(store, [one], 1).admitted


def test_a_clock_that_was_hours_ahead_does_not_refuse_requests_for_hours() -> None:
    clock = Clock()
    store, spending = MemoryLimitStore(clock), rule("spend_per_day", 10)
    limited = [rule("requests_per_minute", 1), rule("tokens_per_minute", 9), rule("concurrent_streams", 2), spending]
    taken = take(store, limited, 9)
    clock.time -= 7200
    assert take(store, limited, 9).admitted
    store.give_back(store.find_windows(limited), taken.minute, -5, 10)
    assert [count.current for _, count in store.read(store.find_windows(limited)).counts] == [1, 9, 1, 10]
    assert not take(store, [spending], 0).admitted
    clock.time += 59
    assert not take(store, limited, 1).admitted


def test_what_was_spent_counts_until_the_day_that_had_begun_ends() -> None:
    clock = Clock()
    store, one = MemoryLimitStore(clock), rule("spend_per_day", 10)
    clock.time = datetime(2027, 1, 2, 1, tzinfo=UTC).timestamp()
    store.give_back(store.find_windows([one]), 0, 0, 10)
    for hours, admitted in [(-2, False), (20, False), (24, True)]:
        clock.time = datetime(2027, 1, 2, 1, tzinfo=UTC).timestamp() + 3600 * hours
        assert take(store, [one], 0).admitted == admitted, hours


def test_the_reset_is_when_nothing_counts_any_more() -> None:
    assert reset_seconds(Count(0), 0.5) == 0
    assert reset_seconds(Count(1, 5), 0.5) == 90
    assert reset_seconds(Count(0, 5), 0.75) == 15
