"""What a store is: bytes by a key, for a time. It knows nothing of chat."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class StoredValue(NamedTuple):
    value: bytes
    stored_at: float
    """Unix seconds."""


class EntryTotals(NamedTuple):
    entries: int
    bytes: int
    """Of the values alone."""


class StoreStats(NamedTuple):
    entries: int
    bytes: int
    by_model: dict[str, EntryTotals]


class StoreError(Exception):
    """The store is in trouble; the text says which."""


@dataclass(frozen=True, slots=True)
class StoreLimits:
    max_bytes: int = 1024 * 1024 * 1024
    max_entries: int = 1_000_000
    """Of a store in memory."""
    max_entry_bytes: int = 8 * 1024 * 1024
    clock: Callable[[], float] = time.time
    """Unix seconds."""


class Store(Protocol):
    async def get(self, key: str) -> StoredValue | None:
        """Never raises for trouble of the store: that is a miss and a log line."""

    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        """Returns when the value can be found. Trouble of the store, and a value that is too long, leave it out."""

    async def delete(self, key: str) -> None:
        """Never raises for trouble of the store."""

    async def purge(self, model: str | None = None) -> int:
        """Deletes everything, or everything of a model; how many entries went. Raises StoreError."""

    async def stats(self) -> StoreStats:
        """Of what has not expired. Raises StoreError."""

    async def aclose(self) -> None:
        """May be called twice. A closed store misses everything and keeps nothing."""


def sum_stats(by_model: dict[str, EntryTotals]) -> StoreStats:
    rows = by_model.values()
    return StoreStats(sum(row.entries for row in rows), sum(row.bytes for row in rows), dict(sorted(by_model.items())))
