"""A store in Redis, for gateways on many machines; the server forgets what is too old or too much.

Each entry is one string under `parley:cache:v1:<key>`: when it was stored, the model's name, the value. So there is no
index that could be wrong when the server evicts; what concerns a model reads the beginning of every entry instead.
"""

import logging
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from app.cache.addresses import RedisAt
from app.cache.complaints import Complaints
from app.cache.redis_link import Away, Client, RedisLink
from app.cache.stores.base import Held, Limits, Stats, Stored, StoreError, summed

T = TypeVar("T")

PREFIX = "parley:cache:v1:"
_HEAD = struct.Struct(">dH")
"""Unix seconds, length of the model's name."""
_MAX_NAME_BYTES = 512
_BATCH = 500
_BATCH_SECONDS = 5.0
_LOG = logging.getLogger("parley.cache")


class _Row(NamedTuple):
    key: bytes
    model: str
    bytes: int


class RedisStore:
    """Eviction is the server's (`maxmemory`): of the limits, it keeps `max_entry_bytes`."""

    def __init__(self, link: RedisLink | RedisAt, limits: Limits | None = None) -> None:
        """The store closes the link."""
        self._link = RedisLink(link) if isinstance(link, RedisAt) else link
        self._limits = limits or Limits()
        self._complaints = Complaints(_LOG)

    async def get(self, key: str) -> Stored | None:
        found: bytes | None = await self._tried("a cached reply was not read", lambda redis: redis.get(PREFIX + key))
        if found is None:
            return None
        try:
            stored_at, name_bytes = _HEAD.unpack_from(found)
        except struct.error as error:
            self._complaints.say("a cached reply is damaged", error)
            return None
        return Stored(found[_HEAD.size + name_bytes :], stored_at)

    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        if len(value) > self._limits.max_entry_bytes:
            return
        name = _name(model)
        entry = b"".join((_HEAD.pack(self._limits.clock(), len(name)), name, value))
        px = max(1, round(ttl_seconds * 1000))
        await self._tried("a reply was not cached", lambda redis: redis.set(PREFIX + key, entry, px=px))

    async def delete(self, key: str) -> None:
        await self._tried("a cached reply was not deleted", lambda redis: redis.unlink(PREFIX + key))

    async def purge(self, model: str | None = None) -> int:
        gone, wanted = 0, None if model is None else _name(model).decode("utf-8", "replace")
        async for rows in self._rows():
            keys = [row.key for row in rows if wanted in (None, row.model)]
            gone += sum(await self._all([("UNLINK", key) for key in keys]))
        return gone

    async def stats(self) -> Stats:
        by_model: dict[str, Held] = {}
        async for rows in self._rows():
            for row in rows:
                held = by_model.get(row.model, Held(0, 0))
                by_model[row.model] = Held(held.entries + 1, held.bytes + row.bytes)
        return summed(by_model)

    async def aclose(self) -> None:
        await self._link.aclose()

    async def _tried(self, trouble: str, op: Callable[[Client], Awaitable[Any]]) -> Any:
        """None for trouble."""
        try:
            return await self._link.call(op)
        except Away as error:
            self._complaints.say(trouble, error)
            return None

    async def _rows(self) -> AsyncIterator[list[_Row]]:
        """In batches; what comes and goes meanwhile may be missed or met twice."""
        keys: AsyncIterator[bytes] | None = None

        async def some(redis: Client) -> list[bytes]:
            nonlocal keys
            keys = keys or redis.scan_iter(match=PREFIX + "*", count=_BATCH)
            return await _first(keys, _BATCH)

        while batch := await self._patiently(some):
            heads = await self._all([("GETRANGE", key, 0, _HEAD.size + _MAX_NAME_BYTES - 1) for key in batch])
            sizes = await self._all([("STRLEN", key) for key in batch])
            # Of one that is gone already, both are empty.
            yield [_row(*found) for found in zip(batch, heads, sizes, strict=True) if len(found[1]) >= _HEAD.size]

    async def _all(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """What each of the commands answers, of one round trip."""

        async def op(redis: Client) -> list[Any]:
            async with redis.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                answers: list[Any] = await pipe.execute()
                return answers

        return await self._patiently(op) if commands else []

    async def _patiently(self, op: Callable[[Client], Awaitable[T]]) -> T:
        try:
            return await self._link.call(op, timeout=_BATCH_SECONDS)
        except Away as error:
            raise StoreError(f"redis: {error}") from error


def _name(model: str) -> bytes:
    return model.encode("utf-8", "replace")[:_MAX_NAME_BYTES]


def _row(key: bytes, head: bytes, size: int) -> _Row:
    _, name_bytes = _HEAD.unpack_from(head)
    name = head[_HEAD.size : _HEAD.size + name_bytes].decode("utf-8", "replace")
    return _Row(key, name, max(0, size - _HEAD.size - name_bytes))


async def _first(keys: AsyncIterator[bytes], count: int) -> list[bytes]:
    found: list[bytes] = []
    async for key in keys:
        found.append(key)
        if len(found) == count:
            break
    return found
