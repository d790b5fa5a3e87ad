"""A store in Redis, for gateways on several machines; the server expires and evicts entries.

Each entry is one string under `parley:cache:v1:<key>`: the time it was stored, the model's name, the value. There is
no index that could become wrong when the server evicts entries; operations on one model read the head of every entry.
"""

import logging
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from app.redis.connection import Client, RedisConnection, RedisUnavailable
from app.runtime.throttled_log import ThrottledLog
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

T = TypeVar("T")

PREFIX = "parley:cache:v1:"
_HEAD = struct.Struct(">dH")
"""The time in Unix seconds and the length of the model's name in bytes."""
_MAX_NAME_BYTES = 512
_BATCH = 500
_BATCH_SECONDS = 5.0
_LOG = logging.getLogger("parley.cache")


class _RedisRow(NamedTuple):
    key: bytes
    model: str
    bytes: int


class RedisStore:
    """A Redis store. Of the limits only `max_entry_bytes` applies: the server evicts by its own `maxmemory`."""

    def __init__(self, redis: RedisConnection, limits: StoreLimits | None = None, prefix: str = PREFIX) -> None:
        """The store does not close the connection. All its keys begin with `prefix`."""
        self._prefix = prefix
        self._redis = redis
        self._limits = limits or StoreLimits()
        self._throttled_log = ThrottledLog(_LOG)
        self._closed = False

    async def get(self, key: str) -> StoredValue | None:
        entry: bytes | None = await self._execute("GET", self._prefix + key)
        if entry is None:
            return None
        try:
            stored_at, name_bytes = _HEAD.unpack_from(entry)
        except struct.error as error:
            self._throttled_log.warn("an entry in Redis is damaged", error)
            return None
        return StoredValue(entry[_HEAD.size + name_bytes :], stored_at)

    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        if len(value) > self._limits.max_entry_bytes:
            raise NotKept(f"{len(value)} bytes are too many for this store")
        name = _name(model)
        entry = b"".join((_HEAD.pack(self._limits.clock(), len(name)), name, value))
        px = max(1, round(ttl_seconds * 1000))
        await self._execute("SET", self._prefix + key, entry, "PX", px)

    async def delete(self, key: str) -> None:
        await self._execute("UNLINK", self._prefix + key)

    async def purge(self, model: str | None = None) -> int:
        deleted, name = 0, None if model is None else _name(model).decode("utf-8", "replace")
        async for rows in self._rows():
            keys = [row.key for row in rows if name in (None, row.model)]
            deleted += sum(await self._execute_all([("UNLINK", key) for key in keys]))
        return deleted

    async def stats(self) -> StoreStats:
        by_model: dict[str, EntryTotals] = {}
        async for rows in self._rows():
            for row in rows:
                totals = by_model.get(row.model, EntryTotals(0, 0))
                by_model[row.model] = EntryTotals(totals.entries + 1, totals.bytes + row.bytes)
        return sum_stats(by_model)

    async def aclose(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(CLOSED)

    async def _execute(self, *command: str | bytes | int) -> Any:
        """Return the result of the command. Raises StoreError."""
        self._check_open()
        try:
            return await self._redis.execute(*command)
        except RedisUnavailable as error:
            raise StoreError(f"redis: {error}") from error

    async def _rows(self) -> AsyncIterator[list[_RedisRow]]:
        """Yield all rows in batches. Entries that are added or deleted meanwhile may be missed or come twice."""
        keys: AsyncIterator[bytes] | None = None

        async def some(redis: Client) -> list[bytes]:
            nonlocal keys
            keys = keys or redis.scan_iter(match=self._prefix + "*", count=_BATCH)
            return await _first(keys, _BATCH)

        while batch := await self._call_slow(some):
            heads = await self._execute_all([("GETRANGE", key, 0, _HEAD.size + _MAX_NAME_BYTES - 1) for key in batch])
            sizes = await self._execute_all([("STRLEN", key) for key in batch])
            # The head of an entry that was deleted meanwhile is empty.
            yield [_row(*entry) for entry in zip(batch, heads, sizes, strict=True) if len(entry[1]) >= _HEAD.size]

    async def _execute_all(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """Send commands in one round trip and return their results."""

        async def op(redis: Client) -> list[Any]:
            async with redis.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                answers: list[Any] = await pipe.execute()
                return answers

        return await self._call_slow(op) if commands else []

    async def _call_slow(self, op: Callable[[Client], Awaitable[T]]) -> T:
        self._check_open()
        try:
            return await self._redis.call(op, timeout=_BATCH_SECONDS)
        except RedisUnavailable as error:
            raise StoreError(f"redis: {error}") from error


def _name(model: str) -> bytes:
    return model.encode("utf-8", "replace")[:_MAX_NAME_BYTES]


def _row(key: bytes, head: bytes, size: int) -> _RedisRow:
    _, name_bytes = _HEAD.unpack_from(head)
    name = head[_HEAD.size : _HEAD.size + name_bytes].decode("utf-8", "replace")
    return _RedisRow(key, name, max(0, size - _HEAD.size - name_bytes))


async def _first(keys: AsyncIterator[bytes], count: int) -> list[bytes]:
    found: list[bytes] = []
    async for key in keys:
        found.append(key)
        if len(found) == count:
            break
    return found
