"""The store that keeps nothing, and what else `open_store` makes of a URL."""

import asyncio
from pathlib import Path

import pytest
from app.redis.urls import NullUrl
from app.stores import NotKept, StoreStats, open_store, opened_store
from app.stores.memory import NullStore


def test_the_null_store_forgets_at_once() -> None:
    async def scenario() -> None:
        store = open_store(NullUrl())
        with pytest.raises(NotKept, match="keeps nothing"):
            await store.put("key", b"1", ttl_seconds=60, model="m")
        await store.delete("key")
        assert await store.get("key") is None
        assert await store.purge() == 0
        assert await store.stats() == StoreStats(0, 0, {})
        await store.aclose()
        assert isinstance(store, NullStore)

    asyncio.run(scenario())


@pytest.mark.parametrize("url", ["sqlite:///cache.db", "redis://127.0.0.1:1", "redis+sentinel://127.0.0.1:1/main"])
def test_opening_touches_neither_disk_nor_network(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario() -> None:
        async with opened_store(url):
            pass

    asyncio.run(scenario())
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_url_of_a_store_is_refused() -> None:
    async def scenario() -> None:
        async with opened_store("mysql://host/database"):
            pass

    with pytest.raises(ValueError, match="must begin with sqlite"):
        asyncio.run(scenario())
