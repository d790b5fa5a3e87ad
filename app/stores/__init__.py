"""Stores of bytes by key: memory, SQLite, Redis, or none."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

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

if TYPE_CHECKING:  # importing the package redis takes time
    from app.redis.connection import RedisConnection

__all__ = [
    "Place",
    "EntryTotals",
    "NotKept",
    "StateStore",
    "StoreLimits",
    "StoreStats",
    "Store",
    "StoreError",
    "StoredValue",
    "find_state_file",
    "open_store",
    "open_state_store",
    "opened_store",
]


Place: TypeAlias = "MemoryUrl | NullUrl | SqliteUrl | RedisConnection"


def open_store(place: Place, limits: StoreLimits | None = None) -> Store:
    """Create a store. Disk and network are not touched yet. The caller closes the connection to Redis."""
    match place:
        case NullUrl():
            from app.stores.memory import NullStore

            return NullStore()
        case MemoryUrl():
            from app.stores.memory import MemoryStore

            return MemoryStore(limits)
        case SqliteUrl(path):
            from app.stores.sqlite import SqliteStore

            return SqliteStore(path, limits)
        case redis:
            from app.stores.redis import RedisStore

            return RedisStore(redis, limits)


STATE_PREFIX = "parley:state:v1:"


def open_state_store(place: Place, limits: StoreLimits | None = None) -> StateStore:
    """Create a store for what later requests rely on, at the same place as the cache but apart from it.

    It is not purged with the cache, is not in its figures, and cached replies do not evict from it.
    """
    match place:
        case SqliteUrl(path):
            from app.stores.sqlite import SqliteStore

            return SqliteStore(str(find_state_file(SqliteUrl(path))), limits, erases=True)
        case MemoryUrl() | NullUrl():
            return open_store(place, limits)
        case redis:
            from app.stores.redis import RedisStore

            return RedisStore(redis, limits, STATE_PREFIX)


def find_state_file(address: SqliteUrl) -> Path:
    """Return the file beside that of the cache, in which `open_state_store` keeps state."""
    file = Path(address.path)
    return file.with_name(f"{file.stem}-state{file.suffix}")


@asynccontextmanager
async def opened_store(url: str) -> AsyncIterator[Store]:
    """The store of a URL, and its own connection if it is in Redis; closed at the end. Raises ValueError."""
    address = parse_cache_url(url)
    place: Place
    async with AsyncExitStack() as stack:
        if isinstance(address, RedisUrl):
            from app.redis.connection import RedisConnection

            place = RedisConnection(address)
            stack.push_async_callback(place.aclose)
        else:
            place = address
        store = open_store(place)
        stack.push_async_callback(store.aclose)
        yield store
