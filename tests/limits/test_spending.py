"""Money in the state database: the sums of all processes, days of their own, and the bound of what is spent."""

import asyncio
import multiprocessing
import os
import random
from collections.abc import Awaitable, Callable
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from app.errors import QuotaExceeded, RateLimited, StoreDown
from app.limits import NO_LIMITS, Limiter, Limits
from app.limits.spending import (
    Exhausted,
    ReservedMoney,
    Spending,
    SpendingUnavailable,
    Sum,
    find_period_end,
    name_period,
)
from app.limits.stores import MemoryLimitStore
from app.limits.values import UNITS_OF_MONEY, Kind, make_caller_rules, make_rule
from app.state import Database, StateError, open_database
from app.state.sqlite import SqliteDatabase
from app.usage.meter import Price
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.each_case import each_case
from tests.state.databases import KINDS, make_address

NOW = 1_795_305_600.0
"""2026-11-22, midnight in UTC."""
DAY = 86_400.0
RULES = tuple(make_caller_rules("a", Limits(spend_per_day=10 / UNITS_OF_MONEY, spend_per_month=25 / UNITS_OF_MONEY)))


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return open_database(make_address(request.param, tmp_path))


def run(database: Database, scenario: Callable[[Spending, Clock], Awaitable[None]]) -> None:
    async def use() -> None:
        clock = Clock()
        spending = Spending(database, UTC, clock)
        await scenario(spending, clock)
        await spending.aclose()

    asyncio.run(use())
    database.close()


async def reserved(spending: Spending, amount: int) -> ReservedMoney:
    result = await spending.reserve(RULES, amount)
    assert isinstance(result, ReservedMoney)
    return result


async def sums(spending: Spending) -> list[tuple[int, int]]:
    return [(row.spent, row.reserved) for _, row in await spending.read(RULES)]


def test_a_reservation_becomes_what_was_spent(database: Database) -> None:
    async def scenario(spending: Spending, clock: Clock) -> None:
        first, second = await reserved(spending, 6), await reserved(spending, 6)
        assert await sums(spending) == [(0, 12), (0, 12)]
        refused = await spending.reserve(RULES, 1)
        assert isinstance(refused, Exhausted)
        assert [(rule.kind, row) for rule, row in refused.rules] == [("spend_per_day", Sum(0, 12))]
        spending.settle(first, 2, RULES)
        spending.settle(second, 0, RULES)
        assert await sums(spending) == [(2, 0), (2, 0)]

    run(database, scenario)


def test_a_reservation_beyond_all_bounds_takes_nothing_of_others_with_it(database: Database) -> None:
    async def scenario(spending: Spending, clock: Clock) -> None:
        first, huge = await reserved(spending, 6), await reserved(spending, 2**80)
        assert isinstance(await spending.reserve(RULES, 1), Exhausted)
        spending.settle(huge, 1, RULES)
        assert await sums(spending) == [(1, 6), (1, 6)]
        spending.settle(first, 2, RULES)
        assert await sums(spending) == [(3, 0), (3, 0)]

    run(database, scenario)


def test_a_day_has_its_own_sum_wherever_the_clock_goes(database: Database) -> None:
    async def scenario(spending: Spending, clock: Clock) -> None:
        begun = await reserved(spending, 10)
        clock.now += DAY
        spending.settle(begun, 11, RULES)
        assert await sums(spending) == [(0, 0), (11, 0)]
        clock.now -= DAY
        assert await sums(spending) == [(11, 0), (11, 0)]
        assert isinstance(await spending.reserve(RULES, 1), Exhausted)
        clock.now += 20 * DAY
        assert await sums(spending) == [(0, 0), (0, 0)]

    run(database, scenario)


def test_what_was_spent_before_counts_once(database: Database) -> None:
    async def scenario(spending: Spending, clock: Clock) -> None:
        await spending.set_least([(RULES[0], 4)])
        spending.settle(await reserved(spending, 1), 3, RULES)
        await spending.set_least([(RULES[0], 4), (RULES[1], 9)])
        assert await sums(spending) == [(7, 0), (9, 0)]

    run(database, scenario)


def test_a_request_that_left_while_it_waited_reserves_nothing() -> None:
    async def scenario(spending: Spending, clock: Clock) -> None:
        task = asyncio.ensure_future(spending.reserve(RULES, 5))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(100):
            if await sums(spending) == [(0, 0), (0, 0)]:
                break
        assert await sums(spending) == [(0, 0), (0, 0)]

    run(SqliteDatabase(""), scenario)


class FragileDatabase(SqliteDatabase):
    """In memory, and away while `away`."""

    away = False

    def transaction(self):  # type: ignore[no-untyped-def]  # as the base class
        if self.away:
            raise StateError("the disk is full")
        return super().transaction()


def test_the_end_of_a_request_is_written_when_the_database_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.limits.spending._RETRY_SECONDS", 0.01)
    database = FragileDatabase("")

    async def scenario(spending: Spending, clock: Clock) -> None:
        begun = await reserved(spending, 5)
        database.away = True
        spending.settle(begun, 3, RULES)
        with pytest.raises(SpendingUnavailable, match="disk is full"):
            await spending.reserve(RULES, 1)
        database.away = False
        while await sums(spending) != [(3, 0), (3, 0)]:
            await asyncio.sleep(0.01)

    run(database, scenario)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(0, 4), st.integers(0, 2)),
        st.tuples(st.just("end"), st.integers(0, 9), st.integers(0, 100)),
        st.tuples(st.just("clock"), st.integers(-2, 2), st.just(0)),
        st.tuples(st.just("kill"), st.integers(0, 2), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=30, deadline=None)
@given(steps=STEPS)
def test_spending_stays_below_the_limit_and_one_call(steps: list[tuple[str, int, int]]) -> None:
    """Three gateways on one database, any of which is killed at any time; a call costs at most what it reserved."""
    most = 4

    async def scenario() -> None:
        database, clock = SqliteDatabase(""), Clock()
        gateways = [Spending(database, UTC, clock) for _ in range(3)]
        calls: list[tuple[Spending, ReservedMoney]] = []
        cost: dict[str, int] = {}
        for kind, number, other in steps:
            if kind == "begin":
                result = await gateways[other].reserve(RULES[:1], number)
                if isinstance(result, ReservedMoney):
                    calls.append((gateways[other], result))
            elif kind == "end" and calls:
                gateway, call = calls.pop(number % len(calls))
                spent = min(other, call.amount)
                cost[call.keys[0][1]] = cost.get(call.keys[0][1], 0) + spent
                gateway.settle(call, spent, RULES[:1])
            elif kind == "clock":
                clock.now += number * DAY
            elif kind == "kill":  # what it was doing costs what it can cost, and nothing is reported
                for gateway, call in calls:
                    if gateway is gateways[number]:
                        cost[call.keys[0][1]] = cost.get(call.keys[0][1], 0) + call.amount
                calls = [call for call in calls if call[0] is not gateways[number]]
                await gateways[number].aclose()
                gateways[number] = Spending(database, UTC, clock)
        assert all(spent < RULES[0].limit + most for spent in cost.values())
        for gateway in gateways:
            await gateway.aclose()
        database.close()

    asyncio.run(scenario())


def spend_for_ever(path: str, seed: int, costs: str) -> None:
    """Run calls, each of which notes what it costs before it begins, until the process is killed."""
    draw = random.Random(seed)
    file = os.open(costs, os.O_WRONLY | os.O_APPEND)

    async def call(spending: Spending) -> None:
        while True:
            result = await spending.reserve(RULES[:1], 3)
            if isinstance(result, ReservedMoney):
                amount = draw.randint(0, 3)
                os.write(file, b"%d\n" % amount)
                await asyncio.sleep(draw.random() / 500)
                spending.settle(result, amount, RULES[:1])
            await asyncio.sleep(0)

    async def use() -> None:
        spending = Spending(SqliteDatabase(path), UTC, Clock())
        await asyncio.gather(*(call(spending) for _ in range(4)))

    asyncio.run(use())


@pytest.mark.parametrize("workers", [1, 4])
def test_workers_that_are_killed_do_not_spend_more(workers: int, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    path, costs = str(tmp_path / "state.db"), tmp_path / "costs"
    costs.touch()
    for turn in range(2):
        processes = [
            context.Process(target=spend_for_ever, args=(path, turn * 10 + number, str(costs)))
            for number in range(workers)
        ]
        for process in processes:
            process.start()
        for _ in range(200):
            if costs.stat().st_size > 2 * (turn + 1):
                break
            processes[0].join(0.1)
        for process in processes:
            process.kill()
            process.join()
    spent = sum(map(int, costs.read_text().split()))
    assert 0 < spent <= RULES[0].limit + 3


class Owner:
    name = "a"
    team = user = None
    user_limits = NO_LIMITS

    def __init__(self, limits: Limits) -> None:
        self.limits = limits


def test_requests_are_refused_with_the_reason() -> None:
    async def scenario(spending: Spending, clock: Clock) -> None:
        prices = {"m": Price(1_000_000, 2_000_000, 500_000, 1_000_000)}
        memory = MemoryLimitStore(clock)
        limiter = Limiter(Limits(), {"fallback": Limits(spend_per_day=100.0)}, None, memory, spending, prices)
        owner = Owner(Limits(spend_per_day=10.0, tokens_per_minute=1000))
        first = await limiter.reserve(owner, "m", lambda: 4, 3, 4096)
        assert first is not None
        assert [(use.kind, use.used) for use in await limiter.read([owner])] == [
            ("tokens_per_minute", 7),
            ("spend_per_day", 0.0),
            ("spend_per_day", 10.0),
        ]
        with pytest.raises(RateLimited, match="requests in progress may cost the rest") as busy:
            await limiter.reserve(owner, "m", lambda: 4, 3, 4096)
        assert not isinstance(busy.value, QuotaExceeded) and busy.value.retryable
        limiter.settle(first, 7, 10.5, "fallback")
        limiter.settle(first, 7, 10.5)
        uses = {(use.owner, use.kind): use.used for use in await limiter.read([owner])}
        assert uses["the API key 'a'", "tokens_per_minute"] == 7
        assert uses["the API key 'a'", "spend_per_day"] == uses["the model 'fallback'", "spend_per_day"] == 10.5
        with pytest.raises(QuotaExceeded, match=r"Try again from 2026-11-23T00:00:00Z on"):
            await limiter.reserve(owner, "m", lambda: 4, 3, 4096)
        with pytest.raises(QuotaExceeded, match="may spend nothing"):
            await limiter.reserve(Owner(Limits(spend_per_month=0.0)), "m", lambda: 4, 3, 4096)

    run(SqliteDatabase(""), scenario)


def test_a_model_that_costs_nothing_is_used_when_the_budget_is_spent() -> None:
    async def scenario(spending: Spending, clock: Clock) -> None:
        free = frozenset(["free"])
        spent = Limits(spend_per_day=0.0, requests_per_minute=4)
        for counter in (spending, None):
            limiter = Limiter(spent, {"free": spent, "paid": spent}, spending=counter, free=free)
            for _ in range(2):
                reservation = await limiter.reserve(Owner(spent), "free", lambda: 4, 3, 4096)
                assert reservation is not None
                limiter.settle(reservation, 7, 0.0)
            with pytest.raises(QuotaExceeded, match="may spend nothing"):
                await limiter.reserve(Owner(spent), "paid", lambda: 4, 3, 4096)
            limiter.set_limits(spent, {"free": spent}, {}, frozenset())
            with pytest.raises(QuotaExceeded, match="may spend nothing"):
                await limiter.reserve(Owner(spent), "free", lambda: 4, 3, 4096)

    run(SqliteDatabase(""), scenario)


def test_a_request_is_refused_while_money_cannot_be_counted() -> None:
    database = FragileDatabase("")

    async def scenario(spending: Spending, clock: Clock) -> None:
        limiter = Limiter(Limits(concurrent_streams=1), {}, spending=spending)
        database.away = True
        for _ in range(2):
            with pytest.raises(StoreDown, match="what was spent cannot be counted"):
                await limiter.reserve(Owner(Limits(spend_per_day=1.0)), "m", lambda: 1, 1, 1)
        assert await limiter.reserve(Owner(Limits()), "m", lambda: 1, 1, 1) is not None
        database.away = False

    run(database, scenario)


@each_case(
    ("kind", "now", "zone", "name", "end"),
    [
        ("spend_per_day", NOW, "UTC", "2026-11-22", NOW + DAY),
        ("spend_per_day", NOW, "America/New_York", "2026-11-21", NOW + 5 * 3600),
        ("spend_per_day", NOW, "Asia/Shanghai", "2026-11-22", NOW + 16 * 3600),
        ("spend_per_month", NOW, "UTC", "2026-11", NOW + 9 * DAY),
        ("spend_per_month", NOW + 39 * DAY, "UTC", "2026-12", NOW + 40 * DAY),
        # The day on which the clocks in Berlin were set back has 25 hours.
        ("spend_per_day", 1_792_879_200.0, "Europe/Berlin", "2026-10-25", 1_792_879_200.0 + 25 * 3600),
    ],
)
def test_days_and_months_are_those_of_a_time_zone(kind: str, now: float, zone: str, name: str, end: float) -> None:
    assert name_period(kind, now, ZoneInfo(zone)) == name  # type: ignore[arg-type]  # one of the two kinds
    assert find_period_end(kind, now, ZoneInfo(zone)) == end  # type: ignore[arg-type]  # one of the two kinds


def test_what_end_users_spent_before_the_last_month_is_deleted(database: Database) -> None:
    def list_rows() -> set[tuple[str, str]]:
        with database.snapshot() as statements:
            return {
                (str(counter), str(period))
                for counter, period in statements.execute("SELECT counter, period FROM spending")
            }

    async def scenario(spending: Spending, clock: Clock) -> None:
        kinds: tuple[Kind, Kind] = ("spend_per_day", "spend_per_month")
        rules = [make_rule("x", owner, kind, 10) for owner in ("user:a", "key:a") for kind in kinds]
        for months in range(3):
            clock.now = NOW + months * 31 * 86_400
            assert isinstance(await spending.reserve(rules, 1), ReservedMoney)
        found = list_rows()
        assert len([row for row in found if row[0].startswith("key:")]) == 6
        assert len([row for row in found if row[0].startswith("user:")]) == 4

    run(database, scenario)
