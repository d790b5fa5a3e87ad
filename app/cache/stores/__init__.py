"""Stores, chosen by URL. None knows what it keeps."""

from app.cache.addresses import InMemory, Nowhere, RedisAt, SqliteFile, parse_address
from app.cache.stores.base import Held, Limits, Stats, Store, Stored, StoreError

__all__ = ["Held", "Limits", "Stats", "Store", "StoreError", "Stored", "open_store"]


def open_store(url: str | None, limits: Limits | None = None) -> Store:
    """Without a URL, in memory. Neither disk nor network is touched yet. Raises ValueError in words for people."""
    match parse_address(url or "memory:"):
        case Nowhere():
            from app.cache.stores.null import NullStore

            return NullStore()
        case InMemory():
            from app.cache.stores.memory import MemoryStore

            return MemoryStore(limits)
        case SqliteFile(path):
            from app.cache.stores.sqlite import SqliteStore

            return SqliteStore(path, limits)
        case RedisAt() as address:
            from app.cache.stores.redis import RedisStore

            return RedisStore(address, limits)
