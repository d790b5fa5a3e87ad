"""A store in Redis, for gateways on many machines; the server forgets what is too old or too much.

Each entry is one string under `parley:cache:v1:<key>`: when it was stored, the model's name, the value. So there is no
index that could be wrong when the server evicts; what concerns a model reads the beginning of every entry instead.
"""

import logging
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from app.cache.redis.breaker import Client, RedisCircuitBreaker, RedisUnavailable
from app.cache.stores.base import EntryTotals, StoredValue, StoreError, StoreLimits, StoreStats, sum_stats
from app.cache.throttled_log import ThrottledLog
from app.cache.urls import RedisUrl

T = TypeVar("T")

PREFIX = "parley:cache:v1:"
_HEAD = struct.Struct(">dH")
"""Unix seconds, length of the model's name."""
_MAX_NAME_BYTES = 512
_BATCH = 500
_BATCH_SECONDS = 5.0
_LOG = logging.getLogger("parley.cache")


class _RedisRow(NamedTuple):
    key: bytes
    model: str
    bytes: int


class RedisStore:
    """Eviction is the server's (`maxmemory`): of the limits, it keeps `max_entry_bytes`."""

    def __init__(self, link: RedisCircuitBreaker | RedisUrl, limits: StoreLimits | None = None) -> None:
        """The store closes the link."""
        self._breaker = RedisCircuitBreaker(link) if isinstance(link, RedisUrl) else link
        self._limits = limits or StoreLimits()
        self._throttled_log = ThrottledLog(_LOG)

    async def get(self, key: str) -> StoredValue | None:
        found: bytes | None = await self._call_or_log(
            "a cached reply was not read", lambda redis: redis.get(PREFIX + key)
        )
        if found is None:
            return None
        try:
            stored_at, name_bytes = _HEAD.unpack_from(found)
        except struct.error as error:
            self._throttled_log.warn("a cached reply is damaged", error)
            return None
        return StoredValue(found[_HEAD.size + name_bytes :], stored_at)

    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        if len(value) > self._limits.max_entry_bytes:
            return
        name = _name(model)
        entry = b"".join((_HEAD.pack(self._limits.clock(), len(name)), name, value))
        px = max(1, round(ttl_seconds * 1000))
        await self._call_or_log("a reply was not cached", lambda redis: redis.set(PREFIX + key, entry, px=px))

    async def delete(self, key: str) -> None:
        await self._call_or_log("a cached reply was not deleted", lambda redis: redis.unlink(PREFIX + key))

    async def purge(self, model: str | None = None) -> int:
        gone, wanted = 0, None if model is None else _name(model).decode("utf-8", "replace")
        async for rows in self._rows():
            keys = [row.key for row in rows if wanted in (None, row.model)]
            gone += sum(await self._execute_all([("UNLINK", key) for key in keys]))
        return gone

    async def stats(self) -> StoreStats:
        by_model: dict[str, EntryTotals] = {}
        async for rows in self._rows():
            for row in rows:
                held = by_model.get(row.model, EntryTotals(0, 0))
                by_model[row.model] = EntryTotals(held.entries + 1, held.bytes + row.bytes)
        return sum_stats(by_model)

    async def aclose(self) -> None:
        await self._breaker.aclose()

    async def _call_or_log(self, trouble: str, op: Callable[[Client], Awaitable[Any]]) -> Any:
        """None for trouble."""
        try:
            return await self._breaker.call(op)
        except RedisUnavailable as error:
            self._throttled_log.warn(trouble, error)
            return None

    async def _rows(self) -> AsyncIterator[list[_RedisRow]]:
        """In batches; what comes and goes meanwhile may be missed or met twice."""
        keys: AsyncIterator[bytes] | None = None

        async def some(redis: Client) -> list[bytes]:
            nonlocal keys
            keys = keys or redis.scan_iter(match=PREFIX + "*", count=_BATCH)
            return await _first(keys, _BATCH)

        while batch := await self._call_slow(some):
            heads = await self._execute_all([("GETRANGE", key, 0, _HEAD.size + _MAX_NAME_BYTES - 1) for key in batch])
            sizes = await self._execute_all([("STRLEN", key) for key in batch])
            # Of one that is gone already, both are empty.
            yield [_row(*found) for found in zip(batch, heads, sizes, strict=True) if len(found[1]) >= _HEAD.size]

    async def _execute_all(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """What each of the commands answers, of one round trip."""

        async def op(redis: Client) -> list[Any]:
            async with redis.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                answers: list[Any] = await pipe.execute()
                return answers

        return await self._call_slow(op) if commands else []

    async def _call_slow(self, op: Callable[[Client], Awaitable[T]]) -> T:
        try:
            return await self._breaker.call(op, timeout=_BATCH_SECONDS)
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
