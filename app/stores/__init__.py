"""Stores of bytes by key, chosen by URL: memory, SQLite, Redis, or none."""

from pathlib import PurePath

from app.redis.urls import MemoryUrl, NullUrl, RedisUrl, SqliteUrl, parse_cache_url
from app.stores.base import (
    EntryTotals,
    NotKept,
    StateStore,
    Store,
    StoredValue,
    StoreError,
    StoreLimits,
    StoreStats,
)

__all__ = [
    "EntryTotals",
    "NotKept",
    "StateStore",
    "StoreLimits",
    "StoreStats",
    "Store",
    "StoreError",
    "StoredValue",
    "open_store",
    "open_state_store",
]


def open_store(url: str | None, limits: StoreLimits | None = None) -> Store:
    """Create a store; without a URL, in memory. Disk and network are not touched yet. Raises ValueError."""
    match parse_cache_url(url or "memory:"):
        case NullUrl():
            from app.stores.memory import NullStore

            return NullStore()
        case MemoryUrl():
            from app.stores.memory import MemoryStore

            return MemoryStore(limits)
        case SqliteUrl(path):
            from app.stores.sqlite import SqliteStore

            return SqliteStore(path, limits)
        case RedisUrl() as address:
            from app.stores.redis import RedisStore

            return RedisStore(address, limits)


STATE_PREFIX = "parley:state:v1:"


def open_state_store(url: str | None, limits: StoreLimits | None = None) -> StateStore:
    """Create a store for what later requests rely on, at the same place as the cache but apart from it.

    It is not purged with the cache, is not in its figures, and cached replies do not evict from it.
    """
    match parse_cache_url(url or "memory:"):
        case SqliteUrl(path):
            from app.stores.sqlite import SqliteStore

            file = PurePath(path)
            return SqliteStore(str(file.with_name(f"{file.stem}-state{file.suffix}")), limits)
        case RedisUrl() as address:
            from app.stores.redis import RedisStore

            return RedisStore(address, limits, STATE_PREFIX)
        case _:
            return open_store(url, limits)
