"""Limits that several gateways share in a real Redis, and what happens when it is gone."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from app.access import ANONYMOUS
from app.errors import RateLimited
from app.limits import Limiter, Limits
from app.limits.redis_store import RELEASE, RENEW, RedisLimitStore
from app.limits.stores import MemoryLimitStore, StoreUnavailable, Taken
from app.limits.values import Rule, make_rules
from app.redis.connection import RedisConnection, Script
from typing_extensions import override

from tests.redis_server import RedisServer

pytestmark = pytest.mark.anyio


class LonelyStore(RedisLimitStore):
    """It alone uses its connection, and closes it."""

    @override
    async def aclose(self) -> None:
        await super().aclose()
        await self._redis.aclose()


@asynccontextmanager
async def stores(server: RedisServer, count: int = 1, lease_seconds: float = 30.0) -> AsyncIterator[list[LonelyStore]]:
    made = [LonelyStore(RedisConnection(server.url, timeout_seconds=1.0), lease_seconds) for _ in range(count)]
    try:
        yield made
    finally:
        for store in made:
            await store.aclose()


def rules(**limits: float) -> list[Rule]:
    return list(make_rules("x", "x", Limits(**limits)))  # type: ignore[arg-type]


async def same_minute(seconds: float) -> None:
    """Wait if the minute of the clock ends within this time: a test that counts is easier within one."""
    left = 60 - time.time() % 60
    if left < seconds:
        await asyncio.sleep(left + 0.05)


async def test_two_gateways_share_a_limit_exactly(shared_redis: RedisServer) -> None:
    await same_minute(10)
    limited = rules(requests_per_minute=1000, tokens_per_minute=50_000)
    async with stores(shared_redis, 2) as (one, other):

        async def send(store: RedisLimitStore, number: int) -> bool:
            return (await store.take(limited, 40, f"lease-{number}")).admitted

        admitted = await asyncio.gather(*(send((one, other)[number % 2], number) for number in range(1600)))
    assert 980 <= sum(admitted) <= 1000
    assert sum(admitted) == 1000


async def test_redis_counts_as_the_memory_does(shared_redis: RedisServer) -> None:
    await same_minute(5)
    limited = rules(
        requests_per_minute=5, tokens_per_minute=100, concurrent_streams=2, spend_per_day=1.0, spend_per_month=1.5
    )

    def numbers(taken: Taken) -> tuple[bool, list[tuple[int, int]]]:
        return taken.admitted, [(count.current, count.previous) for _, count in taken.counts]

    async with stores(shared_redis) as (store,):
        memory = MemoryLimitStore()
        windows = memory.find_windows(limited)
        for lease, tokens, cost in [("a", -10, 500_000_000), ("b", 15, 0), ("c", -500, 0), ("d", 0, 600_000_000)]:
            shared, own = await store.take(limited, 30, lease), memory.take(windows, 30)
            assert numbers(shared) == numbers(own)
            assert shared.admitted and shared.minute == own.minute and abs(shared.now - own.now) < 2
            store.give_back(limited, lease, own.minute, tokens, cost)
            memory.give_back(windows, own.minute, tokens, cost)
            await asyncio.sleep(0.05)
        shared, own = await store.take(limited, 30, "e"), memory.take(windows, 30)
        assert numbers(shared) == numbers(own) and not own.admitted


async def test_replies_in_progress_of_a_killed_gateway_expire_and_others_are_renewed(shared_redis: RedisServer) -> None:
    limited = rules(concurrent_streams=2)
    killed = LonelyStore(RedisConnection(shared_redis.url, timeout_seconds=1.0), 0.3)
    async with stores(shared_redis, 2, lease_seconds=0.3) as (alive, other):
        assert (await killed.take(limited, 0, "killed")).admitted
        assert (await alive.take(limited, 0, "alive")).admitted
        assert not (await other.take(limited, 0, "third")).admitted
        await killed.aclose()  # nothing renews its lease
        await asyncio.sleep(0.7)
        assert (await other.take(limited, 0, "third")).admitted
        assert not (await other.take(limited, 0, "fourth")).admitted, "the lease of a living gateway was renewed"
        alive.give_back(limited, "alive", 0, 0, 0)
        async with asyncio.timeout(2):
            while not (await other.take(limited, 0, "fourth")).admitted:
                await asyncio.sleep(0.01)
    with shared_redis.client() as client:
        assert client.zcard("parley:{limits-1}:x:concurrent_streams") == 2


def count_in_progress(server: RedisServer) -> int:
    with server.client() as client:
        return int(client.zcard("parley:{limits-1}:x:concurrent_streams"))


async def until_in_progress(server: RedisServer, count: int) -> None:
    async with asyncio.timeout(5):
        while count_in_progress(server) != count:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("leaves", [False, True], ids=["the gateway gives up", "the client leaves"])
async def test_a_place_that_redis_gave_too_late_is_free_again(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    monkeypatch.setattr("app.limits.redis_store.RELEASE_SECONDS", 0.2)
    limited = rules(concurrent_streams=2)
    store = LonelyStore(RedisConnection(own_redis.url, timeout_seconds=5.0 if leaves else 0.1))
    assert (await store.take(limited, 0, "first")).admitted
    own_redis.pause()
    taking = asyncio.create_task(store.take(limited, 0, "late"))
    if leaves:
        await asyncio.sleep(0.1)
        taking.cancel()
    with pytest.raises((StoreUnavailable, asyncio.CancelledError)):
        await taking
    own_redis.go_on()
    with own_redis.client() as client:
        assert client.info("commandstats")["cmdstat_zadd"]["calls"] == 2, "Redis has got the late one"
    await until_in_progress(own_redis, 1)
    await store.aclose()


async def test_replies_in_progress_are_counted_again_after_an_outage(own_redis: RedisServer) -> None:
    store = LonelyStore(RedisConnection(own_redis.url, rest_seconds=0.05), lease_seconds=0.3)
    assert (await store.take(rules(concurrent_streams=2), 0, "a")).admitted
    own_redis.kill()
    own_redis.start()  # it has forgotten all
    await until_in_progress(own_redis, 1)
    await store.aclose()


async def test_a_reply_that_ends_while_it_is_renewed_is_not_in_progress(
    shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = rules(concurrent_streams=2)
    async with stores(shared_redis, lease_seconds=0.3) as (store,):
        run, ran = store._run, list[Script]()

        async def end_first(script: Script, rows: Sequence[tuple[str, str]], *arguments: int) -> None:
            """The end reaches Redis before the renewal."""
            if script is RENEW:
                store.give_back(limited, "a", 0, 0, 0)
                await asyncio.gather(*store._tasks)
            await run(script, rows, *arguments)
            ran.append(script)

        monkeypatch.setattr(store, "_run", end_first)
        assert (await store.take(limited, 0, "a")).admitted
        async with asyncio.timeout(5):
            while store._renewing is not None:
                await asyncio.sleep(0.01)
        assert ran == [RENEW, RELEASE]
        assert count_in_progress(shared_redis) == 0


async def test_the_cost_of_a_fallback_counts_for_its_limit_also_if_nothing_else_is_limited(
    shared_redis: RedisServer,
) -> None:
    async with stores(shared_redis) as (store,):
        limiter = Limiter(Limits(), {"fallback": Limits(spend_per_day=1.0)}, store)
        reservation = await limiter.reserve(ANONYMOUS, "m", lambda: 1, 1, 1)
        assert reservation is not None
        limiter.settle(reservation, 1, 0.5, "fallback")
        async with asyncio.timeout(2):
            while [use.used for use in await limiter.read(())] != [0.5]:
                await asyncio.sleep(0.01)


async def test_without_redis_requests_are_counted_per_process_and_the_log_says_so_once(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "parley.limits")
    store = LonelyStore(RedisConnection(own_redis.url, rest_seconds=0.05))
    limiter = Limiter(Limits(requests_per_minute=3), {}, store)

    async def admitted() -> bool:
        try:
            reservation = await limiter.reserve(ANONYMOUS, "m", lambda: 1, 1, 1)
        except RateLimited:
            return False
        assert reservation is not None
        limiter.settle(reservation, 1, None)
        return True

    await same_minute(5)
    assert [await admitted() for _ in range(4)] == [True, True, True, False]
    own_redis.kill()
    began = time.perf_counter()
    assert [await admitted() for _ in range(4)] == [True, True, True, False]
    assert time.perf_counter() - began < 1.5
    assert limiter.memory_reservations == 4
    own_redis.start()

    def lines() -> list[str]:
        return [record.message for record in caplog.records if record.name == "parley.limits"]

    async with asyncio.timeout(5):
        while lines()[-1] != "limits are counted in redis again":
            await admitted()
            await asyncio.sleep(0.02)
    assert len(lines()) == 2
    assert lines()[0].startswith("limits are counted for this process alone until redis answers")
    await limiter.aclose()


async def test_the_keys_of_the_counters_expire(shared_redis: RedisServer) -> None:
    limited = rules(
        requests_per_minute=5, tokens_per_minute=5, concurrent_streams=5, spend_per_day=1, spend_per_month=1
    )
    async with stores(shared_redis) as (store,):
        taken = await store.take(limited, 1, "a")
        with shared_redis.client() as client:
            assert all(client.ttl(key) > 0 for key in client.keys("parley:*"))
        store.give_back(limited, "a", taken.minute, -1, 7)
    with shared_redis.client() as client:
        keys = client.keys("parley:*")
        assert len(keys) == 4 and all(0 < client.ttl(key) <= 32 * 86400 for key in keys)


async def test_to_read_what_is_used_is_no_reservation(own_redis: RedisServer) -> None:
    store = LonelyStore(RedisConnection(own_redis.url))
    limiter = Limiter(Limits(requests_per_minute=3, concurrent_streams=2), {}, store)
    tasks = asyncio.all_tasks()
    assert [row.used for row in await limiter.read([])] == [0, 0]
    assert asyncio.all_tasks() == tasks, "no lease is renewed"
    own_redis.kill()
    assert [row.used for row in await limiter.read([])] == [0, 0]
    assert limiter.memory_reservations == 0
    await limiter.aclose()
