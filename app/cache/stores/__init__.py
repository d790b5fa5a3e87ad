"""Stores, chosen by URL. None knows what it keeps."""

from app.cache.stores.base import EntryTotals, Store, StoredValue, StoreError, StoreLimits, StoreStats
from app.cache.urls import MemoryUrl, NullUrl, RedisUrl, SqliteUrl, parse_cache_url

__all__ = ["EntryTotals", "StoreLimits", "StoreStats", "Store", "StoreError", "StoredValue", "open_store"]


def open_store(url: str | None, limits: StoreLimits | None = None) -> Store:
    """Without a URL, in memory. Neither disk nor network is touched yet. Raises ValueError in words for people."""
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
