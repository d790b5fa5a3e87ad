"""The store of what later requests rely on: at the place of the cache, and apart from it."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from app.redis.connection import RedisConnection
from app.redis.urls import MemoryUrl, NullUrl, SqliteUrl
from app.stores import NotKept, Place, StoreStats, open_state_store, open_store

from tests.cache.sqlite_files import TTL


@pytest.mark.parametrize("kind", ["sqlite", "memory", "redis"])
def test_state_is_not_found_counted_or_purged_in_the_cache(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("shared_redis").url if kind == "redis" else ""

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            place: Place = MemoryUrl()
            if kind == "redis":
                place = RedisConnection(url, timeout_seconds=20)
                stack.push_async_callback(place.aclose)
            elif kind == "sqlite":
                place = SqliteUrl(f"{tmp_path}/cache.db")
            state, cache = open_state_store(place), open_store(place)
            for store in (state, cache):
                stack.push_async_callback(store.aclose)
            await state.put("key", b"state", **TTL)
            assert await cache.get("key") is None
            assert await cache.stats() == StoreStats(0, 0, {})
            await cache.put("key", b"reply", **TTL)
            await cache.purge()
            found = await state.get("key")
            assert found is not None and found.value == b"state"
            await state.delete("key")
            assert await state.get("key") is None

    asyncio.run(scenario())


def test_state_is_beside_the_file_of_the_cache(tmp_path: Path) -> None:
    async def scenario() -> None:
        state = open_state_store(SqliteUrl(f"{tmp_path}/replies.db"))
        await state.put("key", b"state", **TTL)
        await state.aclose()

    asyncio.run(scenario())
    assert {path.name for path in tmp_path.iterdir()} == {"replies-state.db", "replies-state.db-lock"}


def test_without_a_store_no_state_is_kept() -> None:
    async def scenario() -> None:
        state = open_state_store(NullUrl())
        with pytest.raises(NotKept):
            await state.put("key", b"state", **TTL)
        assert await state.get("key") is None
        await state.aclose()

    asyncio.run(scenario())
