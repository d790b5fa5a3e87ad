"""The interface of a store, which keeps bytes under a key for a limited time."""

import time
from collections.abc import Callable
from enum import Enum
from typing import Literal, NamedTuple, Protocol, TypeAlias

from msgspec import Struct


class StoredValue(NamedTuple):
    value: bytes
    stored_at: float
    """Unix seconds."""


class _Unknown(Enum):
    UNKNOWN = "unknown"


UNKNOWN: Literal[_Unknown.UNKNOWN] = _Unknown.UNKNOWN
"""The answer of `get_nowait` if only `get` can tell."""
KnownValue: TypeAlias = StoredValue | Literal[_Unknown.UNKNOWN] | None


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


class StoreLimits(Struct, frozen=True):
    max_bytes: int = 1024 * 1024 * 1024
    max_entries: int = 1_000_000
    """The limit of a store in memory."""
    max_entry_bytes: int = 8 * 1024 * 1024
    clock: Callable[[], float] = time.time
    """Unix seconds."""


class Store(Protocol):
    async def get(self, key: str) -> StoredValue | None:
        """Return the value of a key. A failure of the store is logged and counts as a miss."""

    def get_nowait(self, key: str) -> KnownValue:
        """Return the value of a key; None if there certainly is none; UNKNOWN if `get` must be asked."""

    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        """Store a value and return when `get` can find it. A value that is too large is left out.

        A failure of the store is logged.
        """

    def put_nowait(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> bool:
        """Store a value that this process finds from now on, and others within half a second. Returns False if the
        store cannot do that: then use `put`. A value that is too large is left out. A failure is logged."""

    async def delete(self, key: str) -> None:
        """Delete a key. A failure of the store is logged."""

    async def purge(self, model: str | None = None) -> int:
        """Delete all entries, or those of a model, and return how many. Raises StoreError."""

    async def stats(self) -> StoreStats:
        """Count the entries that have not expired. Raises StoreError."""

    async def aclose(self) -> None:
        """Close the store. May be called twice. Afterwards `get` finds nothing and `put` stores nothing."""


def sum_stats(by_model: dict[str, EntryTotals]) -> StoreStats:
    rows = by_model.values()
    return StoreStats(sum(row.entries for row in rows), sum(row.bytes for row in rows), dict(sorted(by_model.items())))
