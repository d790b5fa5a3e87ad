"""Stores of bytes by key, chosen by URL: memory, SQLite, Redis, or none."""

from app.cache.stores.base import UNKNOWN, EntryTotals, Store, StoredValue, StoreError, StoreLimits, StoreStats
from app.cache.urls import MemoryUrl, NullUrl, RedisUrl, SqliteUrl, parse_cache_url

__all__ = ["UNKNOWN", "EntryTotals", "StoreLimits", "StoreStats", "Store", "StoreError", "StoredValue", "open_store"]


def open_store(url: str | None, limits: StoreLimits | None = None) -> Store:
    """Create a store; without a URL, in memory. Disk and network are not touched yet. Raises ValueError."""
    match parse_cache_url(url or "memory:"):
        case NullUrl():
            from app.cache.stores.null import NullStore

            return NullStore()
        case MemoryUrl():
            from app.cache.stores.memory import MemoryStore

            return MemoryStore(limits)
        case SqliteUrl(path):
            from app.cache.stores.sqlite import SqliteStore

            return SqliteStore(path, limits)
        case RedisUrl() as address:
            from app.cache.stores.redis import RedisStore

            return RedisStore(address, limits)
