"""Which end users have limits of their own."""

import asyncio

import pytest
from app.access.caller import Caller
from app.access.users import UserRules, UserSource
from app.chat.token_usage import OTHER_USERS
from app.errors import RateLimited
from app.limits import Limiter, Limits
from app.limits.stores import MemoryLimitStore
from app.limits.users import CountedUsers
from app.limits.values import make_rules

START = 1_800_000_000.0
ONE = Limits(requests_per_minute=1)


def test_the_first_users_of_a_caller_and_day_have_limits_of_their_own() -> None:
    now = [START]
    users = CountedUsers(lambda: now[0], most=2)
    names = ("ann", "bob", "eve", "ann")
    assert [users.choose_counted("app", name) for name in names] == ["ann", "bob", OTHER_USERS, "ann"]
    assert users.choose_counted("other", "eve") == "eve"
    now[0] += 86_400
    assert users.choose_counted("app", "eve") == "eve"


def test_users_of_two_callers_and_models_have_counters_of_their_own() -> None:
    limiter = Limiter(Limits(), {"m": Limits(tokens_per_minute=10**9)}, memory=MemoryLimitStore(lambda: START))
    rules = UserRules(UserSource("user"), ONE)

    def reserve(caller: str, user: str, model: str) -> bool:
        named = Caller(caller, caller, users=rules).with_user(user)
        try:
            asyncio.run(limiter.reserve(named, model, lambda: 1, 1, 1))
        except RateLimited:
            return False
        return True

    asked = [("a", "x", "m"), ("a", "x", "n"), ("a", "y", "m"), ("b", "x", "m"), ("b", "", "m"), ("b", "", "n")]
    assert [reserve(*one) for one in asked] == [True, False, True, True, True, False]


def test_other_limits_of_users_count_at_once() -> None:
    limiter = Limiter(Limits(), {}, memory=MemoryLimitStore(lambda: START))

    def reserve(limits: Limits) -> None:
        caller = Caller("a", "a", users=UserRules(UserSource("user"), limits)).with_user("x")
        asyncio.run(limiter.reserve(caller, "m", lambda: 1, 1, 1))

    reserve(ONE)
    with pytest.raises(RateLimited):
        reserve(ONE)
    reserve(Limits(requests_per_minute=2))


def test_counters_of_former_users_are_forgotten_and_what_counts_is_not() -> None:
    now = [START]
    store = MemoryLimitStore(lambda: now[0])
    all_kinds = Limits(1, 10, 1, 1.0, 1.0)
    windows = store.find_windows(make_rules("x", "user:x", all_kinds))
    store.take(windows, 5)
    store.give_back(windows, int(START // 60), 0, 7)
    streams = store.find_windows(make_rules("y", "user:y", Limits(concurrent_streams=1)))
    store.take(streams, 0)

    def list_kinds() -> list[str]:
        store.forget_idle()
        return sorted(name.partition(":")[2] for name in store.list_counters())

    both = ["x:spend_per_day", "x:spend_per_month", "y:concurrent_streams"]
    assert list_kinds() == sorted(["x:requests_per_minute", "x:tokens_per_minute", *both])
    now[0] += 3 * 3600
    assert list_kinds() == both
    now[0] += 86_400
    assert list_kinds() == both[1:]
    now[0] += 40 * 86_400
    assert list_kinds() == both[2:]
