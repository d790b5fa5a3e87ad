"""The Redis store when its server is paused, gone, full, a cluster, or shared with others."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from app.redis.connection import RedisConnection
from app.stores import EntryTotals, Store, StoreError, StoreStats

from tests.cache.sqlite_files import TTL
from tests.cache.stores import LonelyStore, patient_store
from tests.cache.time_bounds import within
from tests.redis_server import RedisServer, clustered, running_redis


def run_with_store(store: Store, scenario: Callable[[Store], Awaitable[None]]) -> None:
    async def run() -> None:
        try:
            await scenario(store)
        finally:
            await store.aclose()

    asyncio.run(run())


def quick(server: RedisServer) -> tuple[Store, RedisConnection]:
    """A store that soon notices that its server is back."""
    link = RedisConnection(server.url, rest_seconds=0.02)
    return LonelyStore(link), link


async def kept(store: Store, key: str) -> bytes | None:
    found = await store.get(key)
    return found.value if found else None


def test_a_paused_server_is_an_error_within_150_ms_and_soon_costs_nothing(own_redis: RedisServer) -> None:
    store, link = quick(own_redis)

    async def scenario(store: Store) -> None:
        await store.put("key", b"1", **TTL)
        own_redis.pause()
        for longest in (0.1, 0, 0):
            async with within(longest):
                with pytest.raises(StoreError, match="redis"):
                    await store.get("key")
        with pytest.raises(StoreError, match="redis is down"):
            await store.put("key", b"2", **TTL)
        with pytest.raises(StoreError):
            await store.stats()
        own_redis.go_on()
        while link.is_open:
            await asyncio.sleep(0.005)
        assert await kept(store, "key") == b"1"

    run_with_store(store, scenario)


def test_a_server_whose_clients_are_paused_is_an_error(own_redis: RedisServer) -> None:
    async def scenario(store: Store) -> None:
        with own_redis.client() as client:
            client.execute_command("CLIENT", "PAUSE", 300)
        async with within(0.1):
            with pytest.raises(StoreError, match="no answer within"):
                await store.get("key")

    run_with_store(LonelyStore(RedisConnection(own_redis.url)), scenario)


def test_a_killed_server_is_used_again_when_it_is_back(own_redis: RedisServer) -> None:
    store, link = quick(own_redis)

    async def scenario(store: Store) -> None:
        await store.put("key", b"1", **TTL)
        own_redis.kill()
        for _ in range(3):
            for operation in (store.put("key", b"2", **TTL), store.get("key"), store.delete("key")):
                with pytest.raises(StoreError, match="redis"):
                    await operation
        own_redis.start()
        while link.is_open:
            await asyncio.sleep(0.005)
        await store.put("key", b"3", **TTL)
        assert await kept(store, "key") == b"3"

    run_with_store(store, scenario)


def test_a_full_server_refuses_what_it_cannot_hold(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(store: Store) -> None:
        await store.put("first", b"1", **TTL)
        with pytest.raises(StoreError, match="maxmemory"):
            for number in range(8):
                await store.put(f"{number}", bytes(1_000_000), **TTL)
        assert await kept(store, "7") is None
        assert await kept(store, "first") == b"1"

    with running_redis("--maxmemory", "4mb", "--maxmemory-policy", "noeviction") as server:
        run_with_store(patient_store(server.url), scenario)
    assert "redis is down" not in caplog.text


def test_an_entry_that_another_wrote_is_a_miss_or_an_error(
    shared_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(store: Store) -> None:
        with shared_redis.client() as client:
            client.set("parley:cache:v1:short", b"x")
            client.lpush("parley:cache:v1:list", b"x")
        assert await store.get("short") is None
        with pytest.raises(StoreError, match="WRONGTYPE"):
            await store.get("list")

    run_with_store(patient_store(shared_redis.url), scenario)
    assert "damaged" in caplog.text


def test_what_is_others_in_the_server_is_neither_counted_nor_purged(shared_redis: RedisServer) -> None:
    async def scenario(store: Store) -> None:
        with shared_redis.client() as client:
            client.mset({f"theirs {number}": "x" for number in range(3000)})
            await store.put("key", b"12", **TTL)
            assert await store.stats() == StoreStats(1, 2, {"m": EntryTotals(1, 2)})
            assert await store.purge() == 1
            assert client.dbsize() == 3000

    run_with_store(patient_store(shared_redis.url), scenario)


def test_a_cluster_keeps_counts_and_purges() -> None:
    async def scenario(store: Store) -> None:
        for number in range(40):
            await store.put(f"{number}", b"12", ttl_seconds=60, model=f"m{number % 2}")
        assert await kept(store, "7") == b"12"
        assert await store.stats() == StoreStats(40, 80, {"m0": EntryTotals(20, 40), "m1": EntryTotals(20, 40)})
        assert await store.purge("m1") == 20
        assert await kept(store, "7") is None
        assert await kept(store, "8") == b"12"

    with running_redis("--cluster-enabled", "yes") as server:
        clustered(server)
        run_with_store(patient_store(f"redis+cluster://127.0.0.1:{server.port}"), scenario)
