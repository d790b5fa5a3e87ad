"""The interface of a store, which keeps bytes under a key for a limited time."""

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from msgspec import Struct


class StoredValue(NamedTuple):
    value: bytes
    stored_at: float
    """Unix seconds."""


class EntryTotals(NamedTuple):
    entries: int
    bytes: int
    """The size of the values, without overhead."""


class StoreStats(NamedTuple):
    entries: int
    bytes: int
    by_model: dict[str, EntryTotals]


class StoreError(Exception):
    """The store failed; the message says why."""


class NotKept(StoreError):
    """The store works, but does not keep this value: it is too large, or the store keeps nothing."""


class StoreLimits(Struct, frozen=True):
    max_bytes: int = 1024 * 1024 * 1024
    max_entries: int = 1_000_000
    """The limit of a store in memory."""
    max_entry_bytes: int = 8 * 1024 * 1024
    linger_seconds: float = 0.0
    """How long a value may wait for others, to be written to a file together with them."""
    clock: Callable[[], float] = time.time
    """Unix seconds."""


class StateStore(Protocol):
    """Keeps what later requests rely on. It never takes a failure for an absence, nor says that something is stored or
    deleted which may not be."""

    async def get(self, key: str) -> StoredValue | None:
        """Return the value of a key; None if there certainly is none. Raises StoreError."""

    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        """Store a value. When this returns, `get` finds it in every process, even after this process was killed.

        Raises NotKept, or StoreError if the value may not be stored."""

    async def delete(self, key: str) -> None:
        """Delete a key. When this returns, no process finds it. Raises StoreError if it may still be there."""

    async def aclose(self) -> None:
        """Close the store. May be called twice. Afterwards the other methods raise StoreError."""


class Store(StateStore, Protocol):
    """Keeps replies, in addition by the model that they are from."""

    async def purge(self, model: str | None = None) -> int:
        """Delete all entries, or those of a model, and return how many. Raises StoreError."""

    async def stats(self) -> StoreStats:
        """Count the entries that have not expired. Raises StoreError."""


CLOSED = "the store is closed"


def sum_stats(by_model: dict[str, EntryTotals]) -> StoreStats:
    rows = by_model.values()
    return StoreStats(sum(row.entries for row in rows), sum(row.bytes for row in rows), dict(sorted(by_model.items())))
