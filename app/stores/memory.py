"""A store in the memory of this process; evicts the least recently used entries first."""

from typing import NamedTuple

from app.runtime.bounded_map import BoundedMap
from app.stores.base import (
    CLOSED,
    EntryTotals,
    NotKept,
    StoredValue,
    StoreError,
    StoreLimits,
    StoreStats,
    sum_stats,
)

_OVERHEAD_BYTES = 512
"""The approximate memory of an entry besides its value."""


class _MemoryRow(NamedTuple):
    value: bytes
    model: str
    stored_at: float
    expires_at: float


class MemoryStore:
    def __init__(self, limits: StoreLimits | None = None) -> None:
        self._limits = limits or StoreLimits()
        self._rows = BoundedMap[str, _MemoryRow](self._limits.max_bytes, self._limits.max_entries)
        self._closed = False

    async def get(self, key: str) -> StoredValue | None:
        self._check_open()
        row = self._rows.get(key)
        if row is None:
            return None
        if row.expires_at <= self._limits.clock():
            self._rows.pop(key)
            return None
        return StoredValue(row.value, row.stored_at)

    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        self._check_open()
        if not self._takes(value):
            raise NotKept(f"{len(value)} bytes are too many for this store")
        now = self._limits.clock()
        self._rows.put(key, _MemoryRow(value, model, now, now + ttl_seconds), _weight(value))

    def _takes(self, value: bytes) -> bool:
        return len(value) <= self._limits.max_entry_bytes and _weight(value) <= self._limits.max_bytes

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(CLOSED)

    async def delete(self, key: str) -> None:
        self._check_open()
        self._rows.pop(key)

    async def purge(self, model: str | None = None) -> int:
        keys = [key for key, row in self._rows.items() if model in (None, row.model)]
        for key in keys:
            self._rows.pop(key)
        return len(keys)

    async def stats(self) -> StoreStats:
        now, by_model = self._limits.clock(), dict[str, EntryTotals]()
        for _, row in self._rows.items():
            if row.expires_at > now:
                totals = by_model.get(row.model, EntryTotals(0, 0))
                by_model[row.model] = EntryTotals(totals.entries + 1, totals.bytes + len(row.value))
        return sum_stats(by_model)

    async def aclose(self) -> None:
        self._closed = True
        self._rows.clear()


def _weight(value: bytes) -> int:
    return len(value) + _OVERHEAD_BYTES


class NullStore:
    async def get(self, key: str) -> StoredValue | None:
        return None

    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        raise NotKept("this store keeps nothing")

    async def delete(self, key: str) -> None:
        pass

    async def purge(self, model: str | None = None) -> int:
        return 0

    async def stats(self) -> StoreStats:
        return StoreStats(0, 0, {})

    async def aclose(self) -> None:
        pass
